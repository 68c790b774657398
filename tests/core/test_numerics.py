"""Derivatives where formulas break down: at kinks, zeros and infinities, and for huge arguments."""

import math
from itertools import permutations

import numpy as np
import pytest

import functensor as ft
from functensor.primitives.core.registry import registry as ops
from functensor.testing import check_grads

INF = math.inf


def gradient(f, *args, by=0):
    """Returns the gradient of the sum of f's elements by one of its arguments."""
    return np.asarray(ft.grad(lambda *xs: ops.sum(f(*xs)), argnums=by)(*args))


def second(f, *args, by=0):
    """Returns the gradient of the gradient."""
    return gradient(lambda *xs: ft.grad(lambda *ys: ops.sum(f(*ys)), argnums=by)(*xs), *args, by=by)


# Powers


@pytest.mark.parametrize("as_array", [False, True])
@pytest.mark.parametrize(
    ("y", "first", "then", "third"),
    [(0, 0, 0, 0), (1, 1, 0, 0), (2, 0, 2, 0), (3, 0, 0, 6), (4, 0, 0, 0)],
)
def test_power_at_zero(y, first, then, third, as_array):
    exponent = np.float64(y) if as_array else y

    def power(x):
        return ops.power(x, exponent)

    assert gradient(power, 0.0) == first
    assert second(power, 0.0) == then
    assert gradient(ft.grad(ft.grad(power)), 0.0) == third


def test_power_by_the_exponent():
    assert gradient(ops.power, 0.0, 0.0, by=1) == 0
    assert gradient(ops.power, 0.0, 2.0, by=1) == 0
    # As in JAX, PyTorch and autograd: powers of negative numbers are real at integers alone.
    assert math.isnan(gradient(ops.power, -2.0, 3.0, by=1))
    assert math.isnan(second(ops.power, -2.0, 3.0, by=1))
    assert math.isnan(gradient(lambda y: (-2.0) ** y, 3.0))
    assert gradient(lambda y: 0.0**y, 3.0) == 0
    assert gradient(ops.power, 2.0, 3.0, by=1) == pytest.approx(8 * math.log(2))
    y = np.array([0.5, 2.0], "float32")
    got = gradient(lambda y: 2.0**y, y)
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, 2**y * math.log(2), rtol=1e-6)


def test_power_of_negative_bases():
    x = np.array([-2.0, -1.0, 0.0, 3.0], "float32")
    for n in (2, 3, 4, 5):
        got = gradient(lambda x, n=n: x**n, x)
        assert got.dtype == np.float32
        np.testing.assert_allclose(got, n * x ** (n - 1), rtol=1e-6)
    np.testing.assert_array_equal(ops.power(np.array([1, 2, 3]), 2), [1, 4, 9])


# Kinks


def test_subgradients_at_kinks():
    for f in (ops.abs, ops.relu, ops.sign):
        assert gradient(f, 0.0) == 0
    for f in (ops.maximum, ops.minimum, ops.fmax, ops.fmin):
        assert [gradient(f, 1.0, 1.0, by=i) for i in (0, 1)] == [0.5, 0.5]
    assert [gradient(ops.fmax, 1.0, math.nan, by=i) for i in (0, 1)] == [1, 0]
    assert [gradient(ops.fmin, math.nan, 1.0, by=i) for i in (0, 1)] == [0, 1]
    assert [gradient(ops.hypot, 0.0, 0.0, by=i) for i in (0, 1)] == [0, 0]
    assert [gradient(ops.arctan2, 0.0, 0.0, by=i) for i in (0, 1)] == [0, 0]
    x = np.array([-2.0, -1.0, 0.0, 1.0, 2.0])
    np.testing.assert_array_equal(gradient(lambda x: ops.clip(x, -1, 1), x), [0, 0.5, 1, 0.5, 0])
    assert gradient(lambda low: ops.clip(x, low, 1.0), -1.0) == 1.5
    assert gradient(lambda high: ops.clip(x, -1.0, high), 1.0) == 1.5


def test_equal_extrema_share():
    x = np.array([[3.0, 3.0, 1.0], [0.0, 2.0, 2.0]])
    rows = [[0.5, 0.5, 0], [0, 0.5, 0.5]]
    np.testing.assert_array_equal(gradient(lambda x: ops.max(x, axis=1), x), rows)
    np.testing.assert_array_equal(gradient(lambda x: -ops.min(-x, axis=1), x), rows)
    np.testing.assert_array_equal(gradient(ops.max, x), [[0.5, 0.5, 0], [0, 0, 0]])
    tangent = np.arange(6.0).reshape(2, 3)
    out = ft.jvp(lambda x: ops.max(x, axis=1), (x,), (tangent,))[1]
    np.testing.assert_array_equal(out, [0.5, 4.5])


def test_clip_with_one_limit_or_none():
    x = np.array([1, 5, 9])
    np.testing.assert_array_equal(ops.clip(x, None, 6), [1, 5, 6])
    np.testing.assert_array_equal(ops.clip(x, 3), [3, 5, 9])
    np.testing.assert_array_equal(ops.clip(x, min=3, max=6), [3, 5, 6])
    np.testing.assert_array_equal(ops.clip(x), x)


def test_the_branch_not_taken_leaks_nothing():
    def root(x):
        return ops.where(x > 0, ops.sqrt(ops.where(x > 0, x, 1)), 0)

    np.testing.assert_array_equal(gradient(root, np.array([-1.0, 0.0, 4.0])), [0, 0, 0.25])


# Huge arguments and infinities


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["relu", "sigmoid", "softplus", "silu", "gelu", "elu"])
def test_activations_of_huge_arguments(name, dtype):
    f = getattr(ops, name)
    x = np.array([-1e30, -1e3, 1e3, 1e30], dtype)
    rise = 0 if name == "sigmoid" else 1
    first, then = gradient(f, x), second(f, x)
    assert first.dtype == then.dtype == x.dtype
    np.testing.assert_allclose(first, [0, 0, rise, rise], atol=1e-30)
    np.testing.assert_allclose(then, 0, atol=1e-30)


def test_sigmoid_and_softplus_at_infinity():
    x = np.array([-INF, INF])
    np.testing.assert_array_equal(gradient(ops.sigmoid, x), [0, 0])
    np.testing.assert_array_equal(gradient(ops.softplus, x), [0, 1])


@pytest.mark.parametrize("f", [ops.logaddexp, ops.logaddexp2], ids=lambda f: f.name)
@pytest.mark.parametrize(
    ("x", "y", "shares"),
    [
        (1e30, -1e30, (1, 0)),
        (1000.0, 1000.0, (0.5, 0.5)),
        (-INF, 1.0, (0, 1)),
        (INF, 1.0, (1, 0)),
        (INF, INF, (0.5, 0.5)),
        (-INF, -INF, (0, 0)),
    ],
)
def test_logaddexp(f, x, y, shares):
    assert gradient(f, x, y) == shares[0]
    assert gradient(f, x, y, by=1) == shares[1]
    assert math.isfinite(second(f, x, y))


@pytest.mark.parametrize(
    ("x", "shares"),
    [
        ([1e30, -1e30], [1, 0]),
        ([1000.0, 1000.0], [0.5, 0.5]),
        ([-INF, 1.0], [0, 1]),
        ([INF, 1.0], [1, 0]),
        ([-INF, -INF], [0, 0]),
    ],
)
def test_logsumexp_and_softmax(x, shares):
    x = np.array(x)
    np.testing.assert_allclose(gradient(ops.logsumexp, x), shares, rtol=1e-12)
    if x[0] != -INF or x[1] != -INF:
        by_second = gradient(lambda x: ops.softmax(x)[1], x)
        np.testing.assert_allclose(by_second, np.array([-1, 1]) * shares[0] * shares[1])


# Products of zeros


@pytest.mark.parametrize("x", [*permutations([0.0, 2.0, 3.0]), (0.0, 0.0, 3.0), (0.0, 0.0, 0.0)])
def test_products_of_zeros(x):
    x = np.array(x)
    others = [[math.prod(np.delete(x, [i, j])) for j in range(3)] for i in range(3)]
    np.testing.assert_array_equal(gradient(ops.prod, x), np.diag(others))
    for hessian in (ft.hessian(ops.prod), ft.jacrev(ft.grad(ops.prod))):
        np.testing.assert_array_equal(hessian(x), others * (1 - np.eye(3)))
    for reverse in (False, True):
        for exclusive in (False, True):

            def running(x, reverse=reverse, exclusive=exclusive):
                return ops.cumprod(x, reverse=reverse, exclusive=exclusive)

            check_grads(running, (x,), order=2)


def test_products_over_axes():
    x = np.arange(24.0).reshape(2, 3, 4) - 3
    wanted = np.empty_like(x)
    for place in np.ndindex(x.shape):
        rest = x[:, place[1]].copy()
        rest[place[0], place[2]] = 1
        wanted[place] = rest.prod()
    np.testing.assert_allclose(gradient(lambda x: ops.prod(x, axis=(0, 2)), x), wanted)


# Complex numbers


def test_real_functions_of_complex_numbers():
    z = np.array([1 + 2j, 0j, -3 + 0j])
    np.testing.assert_allclose(gradient(ops.abs, z), [(1 - 2j) / math.sqrt(5), 0, -1])
    np.testing.assert_array_equal(gradient(ops.real, z), [1, 1, 1])
    np.testing.assert_array_equal(gradient(ops.imag, z), [-1j, -1j, -1j])
    np.testing.assert_allclose(gradient(ops.angle, z), [-1j / z[0], 0, -1j / z[2]])
    np.testing.assert_allclose(gradient(lambda z: ops.real(ops.conj(z) * z), z), 2 * z.conj())


# Arrays that are large enough for the kernels' other way


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "f",
    [
        lambda x: ops.relu(x) * x,
        lambda x: ops.where(x > 0.5, x, ops.minimum(x * x, 0.25)),
        lambda x: ops.clip(x, -0.5, 0.5) ** 3,
        lambda x: ops.maximum(x, 0.3) * ops.minimum(0.6, x),
        lambda x: ops.softmax(x, 0) * ops.log_softmax(x, 1),
        lambda x: ops.logsumexp(x, 1) * ops.max(x, 1) + ops.mean(x, 1),
        lambda x: ops.sum(x * x, 0) * ops.min(x, 0),
        lambda x: ops.gelu(x) + ops.erf(x),
    ],
)
def test_large_arrays(f, dtype):
    # Distinct values away from all kinks above.
    x = np.random.default_rng(0).permutation(np.linspace(-1.003, 1.001, 2400))
    x = x.reshape(60, 40).astype(dtype)
    check_grads(f, (x,), order=1)
    small = ft.vmap(f)(x.reshape(15, 4, 40))
    by_rows = np.stack([np.asarray(f(part)) for part in x.reshape(15, 4, 40)])
    np.testing.assert_allclose(small, by_rows, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int64"])
@pytest.mark.parametrize("by", [0, 1])
@pytest.mark.parametrize(
    "name",
    [
        "add", "subtract", "multiply", "divide", "power", "arctan2", "hypot", "maximum", "minimum",
        "fmax", "fmin", "logaddexp", "remainder",
    ],
)  # fmt: skip
def test_beside_whole_numbers_derivatives_are_those_beside_floats(name, by, dtype):
    x, whole = np.array([0.3, 0.7]), np.array([1, 0] if name in ("arctan2", "add") else [1, 1])
    f = getattr(ops, name)

    def beside(other):
        return gradient((lambda x: f(x, other)) if by == 0 else (lambda x: f(other, x)), x)

    np.testing.assert_array_equal(beside(whole.astype(dtype)), beside(whole.astype(float)))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("transform", [lambda f: f, ft.jit, ft.vmap])
def test_no_probability_is_above_one_in_large_arrays(transform, dtype):
    # The sum's logarithm is that of its largest element, but for rounding.
    largest = np.random.default_rng(0).uniform(-15, 15, 500)
    x = np.stack([largest] + [largest - 45] * 3, 1).astype(dtype)
    log_probabilities = transform(ft.nn.log_softmax)(x)
    losses = transform(ft.nn.softmax_cross_entropy)(x, np.zeros(500, int))
    assert np.max(log_probabilities) <= 0
    assert np.min(losses) >= 0
    exact = x - np.logaddexp.reduce(x.astype(float), 1, keepdims=True)
    np.testing.assert_allclose(log_probabilities, exact, atol=30 * np.finfo(dtype).eps)
