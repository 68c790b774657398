"""Initialisers: shapes, dtypes, variances, bounds, messages."""

import math

import numpy as np
import pytest

import functensor as ft
from functensor import nn, random

KEY = random.key(11)


def host(x):
    return np.asarray(x)


FANS = {(300, 200): (300, 200), (64, 32, 3, 3): (288, 576)}
VARIANCES = {
    "glorot_normal": lambda i, o: 2 / (i + o),
    "glorot_uniform": lambda i, o: 2 / (i + o),
    "he_normal": lambda i, o: 2 / i,
    "he_uniform": lambda i, o: 2 / i,
    "lecun_normal": lambda i, o: 1 / i,
    "lecun_uniform": lambda i, o: 1 / i,
}


@pytest.mark.parametrize("shape", FANS)
@pytest.mark.parametrize("name", VARIANCES)
def test_initialiser_has_its_variance(name, shape):
    init = getattr(nn.init, name)()
    x = init(KEY, shape, np.float32)
    assert (x.shape, x.dtype) == (shape, np.float32)
    wanted = VARIANCES[name](*FANS[shape])
    assert abs(host(x).mean()) < 5 * math.sqrt(wanted / x.size)
    assert abs(host(x).var() / wanted - 1) < 0.05
    bound = math.sqrt(3) if name.endswith("uniform") else 2 / 0.8796256610342398
    assert abs(host(x)).max() <= bound * math.sqrt(wanted) * 1.0001
    assert init(KEY, shape).dtype == np.float64
    np.testing.assert_array_equal(host(init(KEY, shape)), host(init(KEY, shape)))


def test_initialisers_by_other_names_and_axes():
    assert nn.init.xavier_uniform is nn.init.glorot_uniform
    assert nn.init.xavier_normal is nn.init.glorot_normal
    assert nn.init.kaiming_uniform is nn.init.he_uniform
    assert nn.init.kaiming_normal is nn.init.he_normal
    turned = nn.init.lecun_normal(in_axis=1, out_axis=0)(KEY, (400, 100))
    assert abs(host(turned).var() * 100 - 1) < 0.05
    out = nn.init.variance_scaling(3.0, "fan_out", "normal")(KEY, (100, 400))
    assert abs(host(out).var() * 400 / 3 - 1) < 0.05
    assert nn.init.he_normal()(KEY, (0, 3)).shape == (0, 3)


def test_plain_initialisers():
    zeros = nn.init.zeros(KEY, (2, 3), "float32")
    assert (zeros.dtype, zeros.tolist()) == (np.float32, [[0.0] * 3] * 2)
    assert nn.init.ones(None, 3).tolist() == [1.0, 1.0, 1.0]
    half = nn.init.constant(0.5)(None, (2,), "float32")
    assert (half.dtype, half.tolist()) == (np.float32, [0.5, 0.5])
    assert abs(host(nn.init.normal(2.0)(KEY, (10_000,))).std() / 2 - 1) < 0.05
    x = host(nn.init.uniform(3.0)(KEY, (10_000,)))
    assert 0 <= x.min() < 0.1
    assert 2.9 < x.max() < 3
    t = host(nn.init.truncated_normal(0.5, -1.0, 3.0)(KEY, (10_000,)))
    assert -0.5 <= t.min() < t.max() <= 1.5


def test_initialisers_say_what_is_wrong():
    with pytest.raises(ValueError, match="two axes are needed"):
        nn.init.he_normal()(KEY, (3,))
    with pytest.raises(ValueError, match="mode is"):
        nn.init.variance_scaling(1.0, "fan", "normal")
    with pytest.raises(ValueError, match="distribution is"):
        nn.init.variance_scaling(1.0, "fan_in", "gaussian")
    with pytest.raises(TypeError, match="expected a key"):
        nn.init.he_normal()(0, (3, 3))


def test_initialisers_under_vmap_make_ensembles():
    init = nn.init.he_normal()
    keys = random.split(KEY, 3)
    weights = ft.vmap(lambda k: init(k, (4, 2)))(keys)
    np.testing.assert_array_equal(host(weights), [host(init(k, (4, 2))) for k in keys])


@pytest.mark.parametrize(
    ("shape", "axis"), [((5, 3), -1), ((3, 5), -1), ((4, 2, 3, 3), 0), ((2, 3, 2), 1)]
)
def test_orthogonal_weights_have_orthonormal_rows_or_columns(shape, axis):
    w = nn.init.orthogonal(2.0, column_axis=axis)(KEY, shape, np.float32)
    assert (w.shape, w.dtype) == (shape, np.float32)
    matrix = np.moveaxis(host(w), axis, -1).reshape(-1, shape[axis]) / 2
    gram = matrix.T @ matrix if matrix.shape[0] >= matrix.shape[1] else matrix @ matrix.T
    np.testing.assert_allclose(gram, np.eye(len(gram)), atol=1e-5)


def test_orthogonal_weights_have_two_axes():
    with pytest.raises(ValueError, match="no rows and columns"):
        nn.init.orthogonal()(KEY, (3,))
