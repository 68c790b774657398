"""functensor.nn against formulas in NumPy and SciPy: values, dtypes, derivatives, messages."""

import inspect

import numpy as np
import pytest
from scipy import special
from scipy.spatial import distance
from support.frequencies import assert_frequencies

import functensor as ft
import functensor.numpy as fnp
from functensor import nn, random
from functensor.primitives.core.registry import registry
from functensor.testing import assert_allclose, check_grads

RNG = np.random.default_rng(11)
KEY = random.key(11)
# Away from the kinks at 0, +-1, 3 and 6.
X = np.array([[-4.2, -2.3, -0.7], [0.4, 0.8, 2.2], [3.4, 5.1, 7.3]])
LOGITS = RNG.uniform(-3, 3, (5, 4))
LABELS = np.array([0, 3, 1, 1, 2])
P = special.softmax(RNG.uniform(-1, 1, (5, 4)), axis=-1)


def host(x):
    return np.asarray(x)


def close(got, wanted, rtol=1e-12):
    assert isinstance(got, ft.Array)
    assert (got.shape, got.dtype) == (np.shape(wanted), np.asarray(wanted).dtype)
    np.testing.assert_allclose(host(got), wanted, rtol=rtol, atol=1e-14)


# -- activations

ACTIVATIONS = {
    "celu": lambda x: np.maximum(x, 0) + np.minimum(np.expm1(x), 0),
    "elu": lambda x: np.where(x > 0, x, np.expm1(x)),
    "glu": lambda x: x[..., :2] * special.expit(x[..., 2:]),
    "hard_sigmoid": lambda x: np.clip(x + 3, 0, 6) / 6,
    "hard_swish": lambda x: x * np.clip(x + 3, 0, 6) / 6,
    "hard_tanh": lambda x: np.clip(x, -1, 1),
    "leaky_relu": lambda x: np.where(x > 0, x, 0.01 * x),
    "log_sigmoid": special.log_expit,
    "log_softmax": lambda x: special.log_softmax(x, axis=-1),
    "logsumexp": special.logsumexp,
    "mish": lambda x: x * np.tanh(np.log1p(np.exp(x))),
    "relu": lambda x: np.maximum(x, 0),
    "relu6": lambda x: np.clip(x, 0, 6),
    "selu": lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(x)),
    "sigmoid": special.expit,
    "silu": lambda x: x * special.expit(x),
    "soft_sign": lambda x: x / (1 + np.abs(x)),
    "softmax": lambda x: special.softmax(x, axis=-1),
    "softplus": lambda x: np.logaddexp(x, 0),
    "swish": lambda x: x * special.expit(x),
    "tanh": np.tanh,
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activation(name):
    x = X[:, [0, 1, 2, 2]] if name == "glu" else X
    function = getattr(nn, name)
    close(function(x), ACTIVATIONS[name](x))
    assert function(x.astype("float32")).dtype == np.float32
    close(function(x.tolist()), ACTIVATIONS[name](x))
    check_grads(function, (x,), order=2)
    rows = np.stack([host(function(row)) for row in x])
    assert_allclose(ft.vmap(function)(x), rows, rtol=1e-12)


@pytest.mark.parametrize("dtype", ["int8", "int64", "uint8", "uint64", "bool"])
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activation_of_whole_numbers(name, dtype):
    # The largest and smallest ones have no negative, or no size, in their own dtype.
    limits = [0, 1] if dtype == "bool" else [np.iinfo(dtype).min, np.iinfo(dtype).max]
    x = np.array([*limits, 0, 1, 5, 6], dtype)
    function = getattr(nn, name)
    got = function(x)
    wanted = host(function(x.astype("float64")))
    # Some give float16 for integers of 8 bits, as NumPy's functions do.
    rtol = 1e-3 if got.dtype == "float16" else 1e-12
    np.testing.assert_allclose(host(got).astype("float64"), wanted, rtol=rtol)


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_the_logistic_loss_of_whole_numbers_does_not_wrap_around(dtype):
    x, y = np.array([2, 100, np.iinfo(dtype).min], dtype), np.array([2, 3, 1], dtype)
    wanted = np.logaddexp(0, x.astype("float64")) - x.astype("float64") * y
    # Integers of 8 bits give float16, whose last place is a thousandth.
    np.testing.assert_allclose(host(registry["logistic_loss"](x, y)), wanted, rtol=1e-3)


def test_gelu_takes_both_forms():
    exact = X * special.ndtr(X)
    close(nn.gelu(X, approximate=False), exact)
    # The largest gap between the two forms, at x = 2.3.
    np.testing.assert_allclose(host(nn.gelu(X)), exact, rtol=0, atol=4.74e-4)


def test_activations_have_options():
    close(nn.leaky_relu(X, 0.2), np.where(X > 0, X, 0.2 * X))
    close(nn.elu(X, alpha=0.5), np.where(X > 0, X, 0.5 * np.expm1(X)))
    close(nn.softmax(X, axis=0), special.softmax(X, axis=0))
    close(nn.glu(X[:2], axis=0), X[:1] * special.expit(X[1:2]))
    assert np.isfinite(host(nn.mish(np.array([-1e4, 1e4])))).all()
    with pytest.raises(ValueError, match="does not divide"):
        nn.glu(X)


def test_one_hot():
    close(nn.one_hot(LABELS, 4), np.eye(4)[LABELS])
    close(nn.one_hot(LABELS, 4, "float32", axis=0), np.eye(4, dtype="float32")[LABELS].T)
    pairs = LABELS[:4].reshape(2, 2)
    close(nn.one_hot(pairs, 4, axis=1), np.eye(4)[pairs].swapaxes(1, 2))
    close(nn.one_hot([-1, 4], 4), np.zeros((2, 4)))
    close(ft.vmap(lambda i: nn.one_hot(i, 4))(LABELS), np.eye(4)[LABELS])
    with pytest.raises(TypeError, match="one_hot takes integers"):
        nn.one_hot(X, 4)


# -- losses


def test_regression_losses():
    x, y = X, X[::-1] * 0.9 + 0.3
    d = x - y
    close(nn.squared_error(x, y), d**2)
    close(nn.absolute_error(x, y), abs(d))
    close(nn.mse(x, y), np.mean(d**2))
    close(nn.mae(x, y), np.mean(abs(d)))
    close(nn.l1(x, y), np.mean(abs(d)))
    close(nn.huber(x, y, 0.5), special.huber(0.5, d))
    close(nn.hinge(x, np.sign(y)), np.maximum(0, 1 - np.sign(y) * x))
    close(nn.mse(x, 1.0), np.mean((x - 1) ** 2))
    for loss in (nn.mse, nn.mae, nn.huber, nn.squared_error, nn.absolute_error):
        check_grads(loss, (x, y), order=2)
    assert nn.mse(x.astype("float32"), y.astype("float32")).dtype == np.float32


@pytest.mark.parametrize(
    "loss",
    [nn.mse, nn.mae, nn.huber, nn.squared_error, nn.hinge, nn.binary_cross_entropy_with_logits],
)
def test_losses_do_not_broadcast(loss):
    shapes = r"predictions of shape \(3,\) and targets of shape \(3, 1\)"
    with pytest.raises(ValueError, match=shapes):
        loss(np.ones(3), np.ones((3, 1)))


def test_cross_entropy_of_integer_labels():
    wanted = -special.log_softmax(LOGITS, axis=-1)[np.arange(5), LABELS]
    close(nn.softmax_cross_entropy(LOGITS, LABELS), wanted)
    close(nn.softmax_cross_entropy(LOGITS.T, LABELS, axis=0), wanted)
    close(nn.softmax_cross_entropy(LOGITS.tolist(), LABELS.tolist()), wanted)
    for dtype in ("int8", "uint16", "uint64"):
        close(nn.softmax_cross_entropy(LOGITS, LABELS.astype(dtype)), wanted)
    single = nn.softmax_cross_entropy(LOGITS.astype("float32"), LABELS)
    assert single.dtype == np.float32
    np.testing.assert_allclose(host(single), wanted, rtol=1e-5)
    half = nn.softmax_cross_entropy(LOGITS.astype("float16"), LABELS)
    assert half.dtype == np.float16
    # Exact but for the rounding of the result, by half a unit of its last place.
    rounded = nn.softmax_cross_entropy(LOGITS.astype("float16").astype("float64"), LABELS)
    np.testing.assert_allclose(host(half), host(rounded), rtol=2**-11)
    close(nn.softmax_cross_entropy(LOGITS[0], LABELS[0]), wanted[0])
    close(nn.softmax_cross_entropy(np.zeros((0, 4)), np.zeros(0, int)), np.zeros(0))


def test_cross_entropy_has_a_clean_gradient():
    gradient = ft.grad(lambda x: nn.softmax_cross_entropy(x, LABELS).sum())(LOGITS)
    close(gradient, special.softmax(LOGITS, axis=-1) - np.eye(4)[LABELS])
    check_grads(lambda x: nn.softmax_cross_entropy(x, LABELS), (LOGITS,), order=3)
    check_grads(lambda x: nn.softmax_cross_entropy(x, LABELS, axis=0), (LOGITS.T,), order=2)
    hessian = ft.hessian(lambda x: nn.softmax_cross_entropy(x, 1))(LOGITS[0])
    p = special.softmax(LOGITS[0])
    close(hessian, np.diag(p) - np.outer(p, p))
    program = ft.make_program(
        ft.grad(lambda x: fnp.mean(nn.softmax_cross_entropy(x, LABELS)))
    )(LOGITS)
    names = [equation.primitive.name for equation in program.equations]
    assert names.count("cross_entropy_grad") == 1
    assert "exp" not in names


def test_cross_entropy_is_stable_and_blocked():
    extreme = np.array([[1e4, -1e4, 0.0], [-1e4, -1e4, -1e4]])
    close(nn.softmax_cross_entropy(extreme, [1, 0]), np.array([2e4, np.log(3)]))
    gradient = ft.grad(lambda x: nn.softmax_cross_entropy(x, [1, 0]).sum())(extreme)
    np.testing.assert_allclose(host(gradient)[0], [1, -1, 0], atol=1e-15)
    many = RNG.normal(size=(700, 300))
    labels = RNG.integers(0, 300, 700)
    scale = RNG.normal(size=700)
    wanted = -special.log_softmax(many, axis=-1)[np.arange(700), labels]
    close(nn.softmax_cross_entropy(many, labels), wanted, rtol=1e-10)
    slope = ft.grad(lambda x: fnp.sum(scale * nn.softmax_cross_entropy(x, labels)))(many)
    onehot = np.eye(300)[labels]
    np.testing.assert_allclose(
        host(slope), scale[:, None] * (special.softmax(many, axis=-1) - onehot), atol=1e-12
    )


def test_cross_entropy_under_vmap():
    rows = np.stack([host(nn.softmax_cross_entropy(x, y)) for x, y in zip(LOGITS, LABELS)])
    close(ft.vmap(nn.softmax_cross_entropy)(LOGITS, LABELS), rows)
    shared = ft.vmap(nn.softmax_cross_entropy, in_axes=(None, 0))(LOGITS[0], np.arange(4))
    close(shared, -special.log_softmax(LOGITS[0]))
    per_example = ft.vmap(ft.grad(nn.softmax_cross_entropy))(LOGITS, LABELS)
    close(per_example, special.softmax(LOGITS, axis=-1) - np.eye(4)[LABELS])
    whole = ft.vmap(lambda x: nn.softmax_cross_entropy(x, LABELS))(np.stack([LOGITS, -LOGITS]))
    assert whole.shape == (2, 5)


def test_cross_entropy_of_distributions():
    wanted = -np.sum(P * special.log_softmax(LOGITS, axis=-1), axis=-1)
    close(nn.softmax_cross_entropy(LOGITS, P), wanted)
    close(nn.softmax_cross_entropy(LOGITS.T, P.T, axis=0), wanted)
    hard = nn.softmax_cross_entropy(LOGITS, nn.one_hot(LABELS, 4))
    close(hard, host(nn.softmax_cross_entropy(LOGITS, LABELS)))
    check_grads(nn.softmax_cross_entropy, (LOGITS, P), order=2)


@pytest.mark.parametrize(
    "labels",
    [P[:, :3], P[0, 0], LABELS[:3], np.eye(4, dtype=int)[LABELS], LABELS[:, None], P[:, 0]],
)
def test_cross_entropy_says_what_labels_it_takes(labels):
    with pytest.raises(ValueError, match=r"integers of shape \(5,\), or floats of shape \(5, 4\)"):
        nn.softmax_cross_entropy(LOGITS, labels)


@pytest.mark.parametrize("label", [-1, 4, 100])
def test_labels_that_are_no_class(label):
    wrong = np.where(np.arange(5) == 2, label, LABELS)
    with pytest.raises(IndexError, match=f"label {label} is none of the 4 classes"):
        nn.softmax_cross_entropy(LOGITS, wrong)


def test_binary_cross_entropy():
    x, z = X.ravel(), np.linspace(0, 1, 9)
    wanted = -(z * special.log_expit(x) + (1 - z) * special.log_expit(-x))
    close(nn.binary_cross_entropy_with_logits(x, z), wanted)
    check_grads(nn.binary_cross_entropy_with_logits, (x, z), order=2)
    big = np.array([1e4, -1e4, 1e4, -1e4], "float32")
    hard = nn.binary_cross_entropy_with_logits(big, np.array([True, False, False, True]))
    close(hard, np.array([0, 0, 1e4, 1e4], "float32"))
    curvature = ft.hessian(lambda v: nn.binary_cross_entropy_with_logits(v, 1.0))(0.0)
    assert curvature.item() == 0.25


def test_divergence_and_similarity():
    log_q = special.log_softmax(LOGITS, axis=-1)
    close(nn.kl_divergence(log_q, P), special.rel_entr(P, np.exp(log_q)).sum(-1))
    hard = np.eye(4)[LABELS]
    close(nn.kl_divergence(log_q, hard), -log_q[np.arange(5), LABELS])
    check_grads(nn.kl_divergence, (log_q, P), order=2)
    assert np.isfinite(host(ft.grad(lambda t: nn.kl_divergence(log_q, t).sum())(hard))).all()
    wanted = [1 - distance.cosine(a, b) for a, b in zip(LOGITS, P)]
    close(nn.cosine_similarity(LOGITS, P), wanted)
    close(nn.cosine_similarity(LOGITS.T, P.T, axis=0), wanted)
    check_grads(nn.cosine_similarity, (LOGITS, P), order=2)
    assert nn.cosine_similarity(np.zeros(3), np.ones(3)).item() == 0
    assert np.isfinite(host(ft.grad(nn.cosine_similarity)(np.zeros(3), np.ones(3)))).all()


# -- layers


def test_linear():
    w, b = RNG.normal(size=(4, 3)), RNG.normal(size=3)
    close(nn.linear(LOGITS, w), LOGITS @ w)
    close(nn.linear(LOGITS, w, b), LOGITS @ w + b)
    check_grads(nn.linear, (LOGITS, w, b), order=2)
    with pytest.raises(ValueError, match="matmul"):
        nn.linear(LOGITS, w.T)


@pytest.mark.parametrize(
    "f", [nn.relu, nn.sigmoid, nn.softplus, fnp.tanh, nn.gelu, nn.mish], ids=lambda f: f.__name__
)
def test_linear_with_an_activation(f):
    w, b = RNG.normal(size=(4, 3)), RNG.normal(size=3)
    close(nn.linear(LOGITS, w, b, f), host(f(LOGITS @ w + b)))
    close(nn.linear(LOGITS, w, activation=f), host(f(LOGITS @ w)))
    check_grads(lambda *xs: nn.linear(*xs, f), (LOGITS, w, b), order=2)
    mapped = ft.vmap(lambda x: nn.linear(x, w, b, f))(LOGITS)
    close(mapped, host(f(LOGITS @ w + b)))


def test_conv_adds_a_bias_to_every_channel():
    x, w, b = RNG.normal(size=(2, 2, 5, 5)), RNG.normal(size=(4, 1, 3, 3)), RNG.normal(size=4)
    options = {"stride": 2, "padding": 1, "groups": 2}
    plain = nn.conv(x, w, **options)
    assert plain.shape == (2, 4, 3, 3)
    close(nn.conv(x, w, b, **options), host(plain) + b[:, None, None])
    check_grads(lambda *xs: nn.conv(*xs, **options), (x, w, b))
    wide = nn.conv(x, np.ones((1, 2, 2, 2)), dilation=2, padding="SAME")
    assert wide.shape == (2, 1, 5, 5)
    with pytest.raises(ValueError, match=r"a bias of shape \(3,\) for 4 outputs"):
        nn.conv(x, w, b[:3], **options)


def test_pooling():
    x = np.arange(16.0).reshape(1, 1, 4, 4)
    close(nn.max_pool(x, 2), np.array([[[[5.0, 7.0], [13.0, 15.0]]]]))
    close(nn.avg_pool(x, 2), np.array([[[[2.5, 4.5], [10.5, 12.5]]]]))
    assert nn.max_pool(x, 3, stride=1, padding=1).shape == (1, 1, 4, 4)


def test_embedding():
    table, ids = RNG.normal(size=(6, 3)), np.array([[1, 5], [1, 0]])
    close(nn.embedding(table, ids), table[ids])
    gradient = ft.grad(lambda t: nn.embedding(t, ids).sum())(table)
    close(gradient, np.bincount(ids.ravel(), minlength=6)[:, None] * np.ones((6, 3)))
    with pytest.raises(TypeError, match="ids are integers"):
        nn.embedding(table, [1.0])
    with pytest.raises(IndexError):
        nn.embedding(table, [6])


@pytest.mark.parametrize("axis", [-1, 0, 1, (1, 2), (0, 2), (0, 1, 2), (2, 0)])
def test_layer_norm(axis):
    x = RNG.normal(size=(2, 3, 4)) + 5
    axes = tuple(sorted(np.atleast_1d(axis) % 3))
    shape = [x.shape[i] for i in axes]
    w, b = RNG.normal(size=shape), RNG.normal(size=shape)
    wide = [n if i in axes else 1 for i, n in enumerate(x.shape)]
    mean, var = x.mean(axes, keepdims=True), x.var(axes, keepdims=True)
    plain = (x - mean) / np.sqrt(var + 0.01)
    close(nn.layer_norm(x, eps=0.01, axis=axis), plain)
    function = lambda *xs: nn.layer_norm(*xs, 0.01, axis)  # noqa: E731 - one function for three uses
    close(function(x, w, b), plain * w.reshape(wide) + b.reshape(wide))
    check_grads(function, (x, w, b), order=2)
    assert function(*(v.astype("float32") for v in (x, w, b))).dtype == np.float32


def test_layer_norm_under_vmap_and_in_blocks():
    x = RNG.normal(size=(5, 3, 4))
    assert_allclose(ft.vmap(nn.layer_norm)(x), host(nn.layer_norm(x)), rtol=1e-12)
    ones = np.ones((5, 4))
    mapped = ft.vmap(nn.layer_norm, in_axes=(None, 0))(x[0], ones)
    assert_allclose(mapped, np.stack([host(nn.layer_norm(x[0]))] * 5), rtol=1e-12)
    large = RNG.normal(size=(700, 300)) * 3 + 100
    wanted = (large - large.mean(-1, keepdims=True)) / np.sqrt(large.var(-1, keepdims=True) + 1e-5)
    close(nn.layer_norm(large), wanted, rtol=1e-9)
    slope = ft.grad(lambda v: fnp.sum(nn.layer_norm(v) ** 3))
    rows = np.stack([host(slope(row)) for row in large[:3]])
    np.testing.assert_allclose(host(slope(large))[:3], rows, atol=1e-12)


def test_rms_norm():
    x, w = RNG.normal(size=(3, 4)), RNG.normal(size=4)
    close(nn.rms_norm(x, w, 0.01), x / np.sqrt((x**2).mean(-1, keepdims=True) + 0.01) * w)
    check_grads(nn.rms_norm, (x, w), order=2)


def test_group_norm():
    x, w, b = RNG.normal(size=(2, 6, 3, 2)), RNG.normal(size=6), RNG.normal(size=6)
    grouped = x.reshape(2, 3, -1)
    mean, var = grouped.mean(-1, keepdims=True), grouped.var(-1, keepdims=True)
    plain = ((grouped - mean) / np.sqrt(var + 1e-5)).reshape(x.shape)
    close(nn.group_norm(x, 3), plain)
    close(nn.group_norm(x, 3, w, b), plain * w[:, None, None] + b[:, None, None])
    check_grads(lambda *xs: nn.group_norm(xs[0], 3, *xs[1:]), (x, w, b))
    with pytest.raises(ValueError, match="6 channels do not divide into 4 groups"):
        nn.group_norm(x, 4)


@pytest.mark.parametrize("axis", [1, -1])
def test_batch_norm(axis):
    x = RNG.normal(size=(4, 3, 5)) * 2 + 1
    channels = x.shape[axis]
    others = (0, 2) if axis == 1 else (0, 1)
    wide = (channels, 1) if axis == 1 else (channels,)
    w, b = RNG.normal(size=channels), RNG.normal(size=channels)
    mean, var = x.mean(others), x.var(others)
    count = x.size / channels
    plain = (x - mean.reshape(wide)) / np.sqrt(var.reshape(wide) + 1e-5)
    y, (running_mean, running_var) = nn.batch_norm(x, None, w, b, axis=axis)
    close(y, plain * w.reshape(wide) + b.reshape(wide))
    close(running_mean, 0.1 * mean)
    close(running_var, 0.9 + 0.1 * var * count / (count - 1))
    later = nn.batch_norm(x, (running_mean, running_var), axis=axis, momentum=0.25)[1]
    close(later[0], 0.75 * host(running_mean) + 0.25 * mean)
    still, same = nn.batch_norm(x, later, axis=axis, training=False)
    assert same is later
    known = [host(s).reshape(wide) for s in later]
    close(still, (x - known[0]) / np.sqrt(known[1] + 1e-5))
    check_grads(lambda *xs: nn.batch_norm(xs[0], None, *xs[1:], axis=axis)[0], (x, w, b))
    leak = ft.grad(lambda v: nn.batch_norm(v, axis=axis)[1][0].sum())(x)
    assert not host(leak).any()


def test_batch_norm_without_training_needs_statistics():
    with pytest.raises(ValueError, match="statistics are needed"):
        nn.batch_norm(X, training=False)


def test_dropout():
    x = np.ones((200, 100), "float32")
    y = nn.dropout(KEY, x, 0.25)
    assert y.dtype == np.float32
    assert set(np.unique(host(y))) == {0.0, np.float32(1 / 0.75)}
    kept = np.count_nonzero(host(y))
    assert_frequencies([kept, x.size - kept], [0.75, 0.25])
    np.testing.assert_array_equal(host(y), host(nn.dropout(KEY, x, 0.25)))
    assert (host(y) != host(nn.dropout(random.key(1), x, 0.25))).any()
    gradient = ft.grad(lambda v: nn.dropout(KEY, v, 0.25).sum())(x)
    np.testing.assert_array_equal(host(gradient), host(y))
    words = host(random.bits(KEY, x.shape, "uint32"))
    np.testing.assert_array_equal(host(y), np.where(words >= 2**30, x / np.float32(0.75), 0))
    for unchanged in (nn.dropout(KEY, x, 0.25, training=False), nn.dropout(KEY, x, 0.0)):
        np.testing.assert_array_equal(host(unchanged), x)
    keys = random.split(KEY, 3)
    mapped = ft.vmap(nn.dropout, in_axes=(0, None, None))(keys, x[:2], 0.5)
    np.testing.assert_array_equal(host(mapped), [host(nn.dropout(k, x[:2], 0.5)) for k in keys])
    rates = np.array([0.1, 0.6])
    kept = (host(ft.vmap(lambda r: nn.dropout(KEY, x, r))(rates)) > 0).sum((1, 2))
    for number, rate in zip(kept, rates, strict=True):
        assert_frequencies([number, x.size - number], [1 - rate, rate])
    for bad in (-0.1, 1.0, 2):
        with pytest.raises(ValueError, match="at least 0 and less than 1"):
            nn.dropout(KEY, x, bad)


def attention_by_hand(q, k, v, mask, scale):
    scores = np.einsum("...qd,...kd->...qk", q, k) * scale
    weights = special.softmax(np.where(mask, scores, -np.inf), axis=-1)
    return weights @ v


def test_attention():
    q, k, v = RNG.normal(size=(2, 3, 4)), RNG.normal(size=(2, 5, 4)), RNG.normal(size=(2, 5, 6))
    everything = np.ones((3, 5), bool)
    close(nn.attention(q, k, v), attention_by_hand(q, k, v, everything, 0.5))
    close(nn.attention(q, k, v, scale=2.0), attention_by_hand(q, k, v, everything, 2.0))
    mask = RNG.uniform(size=(2, 3, 5)) < 0.6
    mask[..., 0] = True
    close(nn.attention(q, k, v, mask), attention_by_hand(q, k, v, mask, 0.5))
    close(
        nn.attention(q, k, v, np.where(mask, 0.0, -1e30)), attention_by_hand(q, k, v, mask, 0.5)
    )
    lower = np.tri(3, 5, dtype=bool)
    close(nn.attention(q, k, v, causal=True), attention_by_hand(q, k, v, lower, 0.5))
    close(
        nn.attention(q, k, v, mask, causal=True), attention_by_hand(q, k, v, mask & lower, 0.5)
    )
    check_grads(lambda *xs: nn.attention(*xs, mask, True), (q, k, v), order=2)
    single = nn.attention(*(a.astype("float32") for a in (q, k, v)), mask)
    assert single.dtype == np.float32
    assert_allclose(ft.vmap(nn.attention)(q, k, v), host(nn.attention(q, k, v)), rtol=1e-12)


def test_a_query_that_sees_nothing_has_no_nan():
    q = RNG.normal(size=(2, 4))
    blind = np.array([[False, False], [True, False]])
    out = nn.attention(q, q, q, blind)
    close(out, np.stack([np.zeros(4), q[0]]))
    gradient = ft.grad(lambda v: nn.attention(v, v, v, blind).sum())(q)
    assert np.isfinite(host(gradient)).all()


# -- the namespace


def test_all_names_what_there_is():
    public = {name for name in vars(nn) if not name.startswith("_")} - {"annotations"}
    assert public - {"activations", "attend", "layers", "losses"} == set(nn.__all__)
    assert len(set(nn.__all__)) == len(nn.__all__)


@pytest.mark.parametrize("module", [nn, nn.init])
def test_every_public_function_has_a_doctest(module):
    for name in module.__all__:
        value = getattr(module, name)
        if not inspect.ismodule(value) and name != "Initializer":
            assert ">>>" in value.__doc__, name


@pytest.mark.parametrize("size", [300.0, 1e-3])
def test_cosines_of_halves(size):
    x = np.full(3, size, np.float16)
    found = nn.cosine_similarity(x, -x)
    assert found.dtype == np.float16
    # A unit in the last place of float16.
    np.testing.assert_allclose(found, -1, rtol=1e-3)


def test_slopes_of_small_errors_keep_their_digits():
    slope = ft.grad(lambda x: fnp.sum(nn.huber(x, np.zeros(1, np.float32))))
    assert slope(np.array([1e-6], np.float32)).tolist() == [np.float32(1e-6)]
    found = ft.grad(nn.huber)(0.5, 0.0), ft.grad(nn.huber)(-3.0, 0.0), ft.grad(nn.huber)(1.0, 0.0)
    assert found == (0.5, -1.0, 1.0)
