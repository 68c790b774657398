"""Special functions that CuPy has not, on a GPU, against SciPy over their whole domains."""

import numpy as np
import pytest
import scipy.special

import functensor as ft
from functensor.primitives.core.registry import registry

pytestmark = pytest.mark.gpu

RNG = np.random.default_rng(4)
SCALES = (1e-8, 1e-2, 1.0, 5.0, 15.0)
SPREAD = np.concatenate([RNG.normal(size=99) * scale for scale in SCALES])
POSITIVE = np.abs(SPREAD)
NEGATIVE = np.concatenate([-POSITIVE, [-1e3, -1e8, -np.inf, 0.0]])
INTEGERS = RNG.integers(-9, 30, SPREAD.size)
ORDERS = INTEGERS + RNG.uniform(0, 1, SPREAD.size)
SHAPES = 10 ** RNG.uniform(-2, 2, (2, SPREAD.size))
UNIT = RNG.uniform(0, 1, SPREAD.size) ** RNG.choice([1.0, 20.0, 0.05], SPREAD.size)

# The function, its operands, and how far a value may be from SciPy's in relation to it.
CASES = [
    ("betainc", (*SHAPES, UNIT), 1e-11),
    ("betaincc", (*SHAPES, UNIT), 1e-11),
    ("betainccinv", (*SHAPES, UNIT), 1e-8),
    ("betaincinv", (*SHAPES, UNIT), 1e-8),
    ("erfi", (np.append(SPREAD, [0.0, 30.0, -np.inf, np.nan]),), 2e-13),
    ("i0e", (np.append(SPREAD, [800.0, 1e9]),), 1e-13),
    ("i1", (SPREAD,), 1e-12),
    ("i1e", (np.append(SPREAD, [800.0, 1e9]),), 1e-12),
    ("iv", (INTEGERS, SPREAD), 1e-11),
    ("iv", (ORDERS, POSITIVE), 1e-11),
    ("ive", (ORDERS, 50 * POSITIVE), 1e-11),
    ("jn", (INTEGERS, POSITIVE), 1e-11),
    ("k0", (POSITIVE,), 1e-13),
    ("k0e", (np.append(POSITIVE, [800.0, 1e9]),), 1e-13),
    ("k1", (POSITIVE,), 1e-13),
    ("k1e", (np.append(POSITIVE, [800.0, 1e9]),), 1e-13),
    ("kn", (np.abs(INTEGERS), POSITIVE), 1e-12),
    ("kv", (ORDERS, POSITIVE), 1e-12),
    ("kve", (ORDERS, 50 * POSITIVE), 1e-12),
    ("ndtri_exp", (NEGATIVE,), 1e-11),
    ("spence", (np.append(100 * POSITIVE, [0.0, 1.0, np.nan, -1.0]),), 1e-12),
    ("yn", (np.abs(INTEGERS), POSITIVE), 1e-11),
    ("zeta", (np.append(SPREAD, [1.0, 0.0, -2.0, 60.0]),), 1e-11),
]


def placed(values):
    return ft.to_device(np.asarray(values), "cuda")


@pytest.mark.parametrize(("name", "operands", "rtol"), CASES, ids=[c[0] for c in CASES])
def test_values_are_scipys(name, operands, rtol):
    with np.errstate(all="ignore"):
        wanted = getattr(scipy.special, name)(*operands)
    # Near its zeros a function is known as well as its argument is. Underflow gives zero, a
    # subnormal number, or the smallest normal one, by SciPy's version.
    slope = {"jn": scipy.special.jvp, "yn": scipy.special.yvp}.get(name)
    atol = rtol * np.abs(operands[1] * slope(*operands)) if slope else 1e-300
    got = getattr(ft.scipy.special, name if name != "jn" else "jv")(*map(placed, operands))
    assert got.device == placed(0.0).device
    got = np.asarray(ft.to_device(got, "cpu"))
    close = np.isclose(got, wanted, rtol, atol, equal_nan=True)
    assert close.all(), [x[~close].tolist() for x in (*operands, got, wanted)]


def test_inverses_are_found_to_the_last_digits():
    # CuPy's search ends early here, by the last bits of its logarithms and powers.
    a, b, y = 0.02217055662148692, 74.4276923873687, 1.2575367823100753e-10
    got = ft.scipy.special.betainccinv(*map(placed, (a, b, y))).item()
    assert abs(got / 0.19695428965929061 - 1) < 1e-11


def test_inverses_do_not_depend_on_how_well_the_search_ends(monkeypatch):
    from functensor.backends.arrays import special_beta

    cupy = pytest.importorskip("cupy")
    own = special_beta.special(cupy)

    class Rough:
        betainc = own.betainc

        @staticmethod
        def betaincinv(*operands):
            return own.betaincinv(*operands) * (1 + 3e-7)

    shapes, y = 10 ** RNG.uniform(-1, 2, (2, 200)), RNG.uniform(1e-9, 0.9, 200)
    monkeypatch.setattr(special_beta, "special", lambda xp: Rough)
    got = special_beta._inverse(cupy, *map(cupy.asarray, (*shapes, y))).get()
    wanted = scipy.special.betaincinv(*shapes, y)
    near = wanted < 0.99
    np.testing.assert_allclose(got[near], wanted[near], rtol=1e-10)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32"])
@pytest.mark.parametrize("name", ["erfi", "gammaln", "i1e", "log_ndtr", "spence"])
def test_dtypes_are_those_of_the_cpu(name, dtype):
    x = np.array([1, 2, 3]).astype(dtype)
    wanted = np.asarray(getattr(ft.scipy.special, name)(x))
    got = getattr(ft.scipy.special, name)(placed(x))
    assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape)
    eps = np.finfo(wanted.dtype).eps
    np.testing.assert_allclose(ft.to_device(got, "cpu"), wanted, rtol=99 * eps, atol=20 * eps)


@pytest.mark.parametrize("order", [0.5, np.array([0.5, 1.0, 2.0])])
def test_orders_that_are_not_whole(order):
    x = placed([1.0, 2.0, 3.0])
    for name in ("jv", "yv"):
        function = getattr(ft.scipy.special, name)
        with pytest.raises(NotImplementedError, match=f"{name} is not computed on a GPU"):
            function(placed(order) if isinstance(order, np.ndarray) else order, x)


def test_complex_polygamma():
    n = np.arange(1, 5)[:, None]
    z = RNG.normal(size=33) * 4 + 1j * RNG.normal(size=33)
    wanted = ft.scipy.special.polygamma(n, z)
    got = ft.scipy.special.polygamma(placed(n), placed(z))
    np.testing.assert_allclose(ft.to_device(got, "cpu"), wanted, rtol=1e-9)


# The function, and to which part the CPU's and the GPU's values agree for parameters that are not
# less: of high orders what is integrated cancels where parameters are small.
SLOPES = [
    ("gammainc_grad", {"order": 1}, 0.0, 2e-12),
    ("gammainc_grad", {"order": 2}, 0.0, 1e-10),
    ("gammainc_grad", {"order": 7}, 0.5, 1e-8),
    ("betainc_grad", {"by_a": 1, "by_b": 0}, 0.0, 1e-10),
    ("betainc_grad", {"by_a": 0, "by_b": 1}, 0.0, 1e-10),
    ("betainc_grad", {"by_a": 2, "by_b": 1}, 0.0, 1e-8),
    ("betainc_grad", {"by_a": 3, "by_b": 4}, 0.5, 1e-8),
]
EDGES = np.array([0.0, -1.0, 1e-310, 1e-160, 1e-3, 0.5, 1.0, 3.0, np.inf, np.nan])


@pytest.mark.parametrize(("name", "params", "least", "rtol"), SLOPES)
def test_derivatives_by_parameters(name, params, least, rtol):
    primitive = registry[name]
    a, b = np.maximum(SHAPES, least)
    operands = (a, b, UNIT) if name == "betainc_grad" else (a, a * np.exp(SPREAD / 5))
    wanted = np.asarray(primitive(*operands, **params))
    got = ft.to_device(primitive(*map(placed, operands), **params), "cpu")
    np.testing.assert_allclose(got, wanted, rtol=rtol, atol=1e-290)


@pytest.mark.parametrize(("name", "params"), [SLOPES[i][:2] for i in (0, 1, 3, 4)])
def test_derivatives_by_parameters_at_edges(name, params):
    primitive = registry[name]
    shapes = EDGES[EDGES != 1e-310] if name == "betainc_grad" else EDGES
    operands = (shapes[:, None, None], shapes[:, None], EDGES)[-2 - (name[0] == "b") :]
    wanted = np.asarray(primitive(*operands, **params))
    got = ft.to_device(primitive(*map(placed, operands), **params), "cpu")
    np.testing.assert_allclose(got, wanted, rtol=1e-10)


def test_derivatives_by_parameters_are_a_launch_each(monkeypatch):
    from functensor.backends.cuda.kernels import incomplete

    launches = []
    for name, kernel in list(incomplete.INCOMPLETE_KERNELS.items()):

        def launched(*args, kernel=kernel):
            launches.append(kernel.name)
            kernel(*args)

        monkeypatch.setitem(incomplete.INCOMPLETE_KERNELS, name, launched)
    a, b, x = placed(SHAPES[0]), placed(SHAPES[1]), placed(UNIT)
    out = ft.grad(lambda a: ft.scipy.special.betainc(a, b, x).sum())(a)
    assert out.device == a.device
    ft.grad(lambda a: ft.scipy.special.gammainc(a, x).sum())(a)
    assert launches == ["beta_grads", "gamma_grads"]


@pytest.mark.parametrize("dtype", ["float16", "float32", "int32"])
def test_dtypes_of_derivatives_by_parameters(dtype):
    a, x = np.array([[1], [2]]).astype(dtype), np.array([1, 2, 3]).astype(dtype)
    wanted = np.asarray(registry.gammainc_grad(a, x, order=1))
    got = registry.gammainc_grad(placed(a), placed(x), order=1)
    assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape)
    np.testing.assert_allclose(ft.to_device(got, "cpu"), wanted, rtol=9 * np.finfo(got.dtype).eps)
    empty = registry.gammainc_grad(placed(a[:0]), placed(x), order=1)
    assert empty.shape == (0, 3)
    with pytest.raises(TypeError, match="gammainc_grad is defined for real numbers only"):
        registry.gammainc_grad(placed(a) * 1j, placed(x), order=1)
