"""NumPy's kernels for sums, extrema, choices, powers and special functions are those they replace.

They take another way for large arrays than for small ones, so that there are sizes of both kinds.
"""

import math
from itertools import combinations

import numpy as np
import pytest
import scipy.special

import functensor.numpy as fnp
from functensor.backends.cpu import (
    activations,
    blocks,
    error_function,
    reductions,
    where_and_extrema,
)

INF = math.inf
SHAPES = [
    (),
    (3,),
    (2, 0, 3),
    (5000,),
    (70000,),
    (3, 2500),
    (2500, 3),
    (70, 30, 9),
    (6, 5, 7, 8),
    (2, 1030, 3),
    (1100, 2, 2),
]


def normal(shape, dtype, scale=3.0):
    """Returns normal numbers as an array, or as a scalar if the shape is empty."""
    numbers = np.random.default_rng(0).standard_normal(shape) * scale
    return np.asarray(numbers).astype(dtype)[()]


def tolerance(dtype):
    """Returns the relative tolerance of a dtype."""
    return {"e": 2e-3, "f": 3e-6}.get(np.dtype(dtype).char, 1e-13)


def all_axes(shape):
    """Returns every choice of axes."""
    rank = len(shape)
    return [axes for count in range(rank + 1) for axes in combinations(range(rank), count)]


def same(got, wanted, dtype, scale=1.0):
    """Checks shape, dtype and values, the latter relative to a scale."""
    assert type(got) is type(wanted)
    assert got.dtype == wanted.dtype
    assert got.shape == wanted.shape
    np.testing.assert_allclose(got, wanted, rtol=tolerance(dtype), atol=tolerance(dtype) * scale)


# Reductions


@pytest.mark.parametrize("dtype", "?iedfD")
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_sums_and_extrema(shape, dtype):
    x = normal(shape, dtype)
    for axis in all_axes(shape):
        for keepdims in (False, True):
            how = {"axis": axis, "keepdims": keepdims}
            # NumPy adds rows of half precision in half precision.
            wide = np.float32 if dtype == "e" else None
            wanted = np.sum(x, dtype=wide, **how)
            wanted = wanted.astype(dtype) if wide else wanted
            same(reductions.sum(x, **how), wanted, dtype, 300)
            if 0 in shape:
                continue
            same(reductions.mean(x, **how), np.mean(x, **how), dtype)
            same(reductions.max(x, **how), np.max(x, **how), dtype)
            same(reductions.min(x, **how), np.min(x, **how), dtype)


def test_sum_of_what_is_not_contiguous_and_in_another_dtype():
    x = normal((40, 50), "f")
    same(reductions.sum(x.T, axis=(0,), keepdims=False), x.T.sum(0), "f", 30)
    same(reductions.sum(x[::2], axis=(1,), keepdims=False), x[::2].sum(1), "f", 30)
    got = reductions.sum(x, axis=(1,), keepdims=False, dtype=np.dtype("d"))
    same(got, x.sum(1, dtype="d"), "d", 30)


def test_long_sums_lose_few_digits():
    x = np.random.default_rng(0).uniform(0, 1, (1 << 18, 3)).astype("f")
    exact = x.sum(0, dtype="d")
    np.testing.assert_allclose(reductions.sum(x, axis=(0,), keepdims=False), exact, rtol=1e-6)
    exact = x.sum(dtype="d")
    np.testing.assert_allclose(reductions.sum(x, axis=(0, 1), keepdims=False), exact, rtol=1e-6)


@pytest.mark.parametrize("axes", [(0, 2, 3), (0, 3), (1,), (2, 3), (3,), (0, 1, 2, 3)], ids=str)
def test_images_whose_channels_are_last_in_memory_are_summed_as_exactly(axes):
    x = np.moveaxis(normal((16, 64, 70, 4), "f") + 1, 3, 1)
    for keepdims in (False, True):
        how = {"axis": axes, "keepdims": keepdims}
        got = reductions.mean(x, **how)
        assert got.shape == x.mean(**how).shape
        np.testing.assert_allclose(got, np.mean(x, dtype="d", **how), 1e-6, 1e-6)
        got = reductions.var(x, ddof=0, **how)
        assert got.dtype == "f"
        np.testing.assert_allclose(got, np.var(x, dtype="d", **how), 1e-6, 1e-7)


@pytest.mark.parametrize("dtype", "edD")
def test_variances(dtype):
    x = normal((3, 4, 50), dtype)
    for axis in all_axes(x.shape)[1:]:
        for ddof in (0, 1, 2):
            how = {"axis": axis, "ddof": ddof, "keepdims": ddof == 1}
            same(reductions.var(x, **how), np.var(x, **how), x.real.dtype, 300)
    none = reductions.var(x, axis=(0,), ddof=4, keepdims=False)
    assert (none == INF).all()


@pytest.mark.parametrize("dtype", "df")
def test_sums_of_what_is_not_finite(dtype):
    for length in (1, 7, 16, 33):
        x = normal((97, length), dtype)
        x[::5, 0] = INF
        x[3::7, -1] = np.nan
        for axis in all_axes(x.shape):
            got = reductions.sum(x, axis=axis, keepdims=False)
            np.testing.assert_allclose(got, np.sum(x, axis=axis), rtol=1e-4, atol=1e-4)


def test_mean_of_nothing():
    got = reductions.mean(np.zeros((0, 2)), axis=(0,), keepdims=False)
    np.testing.assert_array_equal(got, [np.nan, np.nan])


def shifted(x, axis):
    """Returns softmax, its logarithm and logsumexp by the textbook, in double precision."""
    x = np.asarray(x, "d")
    top = np.max(x, axis=axis, keepdims=True)
    powers = np.exp(x - top)
    sums = np.sum(powers, axis=axis, keepdims=True)
    return powers / sums, x - top - np.log(sums), np.squeeze(top + np.log(sums), axis)


@pytest.mark.parametrize("dtype", "fd")
@pytest.mark.parametrize("change", [(1, 0), (50, 0), (1, -1000), (1, 1000)], ids=str)
@pytest.mark.parametrize("shape", [(4,), (3, 400), (400, 3), (10, 20, 7), (1,)], ids=str)
def test_softmax(shape, change, dtype):
    x = normal(shape, dtype) * change[0] + np.array(change[1], dtype)
    for axis in all_axes(shape)[1:]:
        softmax, logarithm, total = shifted(x, axis)
        rtol = 30 * tolerance(dtype)
        got = reductions.softmax(x, axis=axis)
        assert got.dtype == x.dtype
        np.testing.assert_allclose(got, softmax, rtol=rtol, atol=1e-30)
        got = reductions.log_softmax(x, axis=axis)
        np.testing.assert_allclose(got, logarithm, rtol=rtol, atol=rtol)
        got = reductions.logsumexp(x, axis=axis, keepdims=False)
        assert got.shape == total.shape
        np.testing.assert_allclose(got, total, rtol=rtol, atol=rtol)


@pytest.mark.parametrize("rows", [1, 600])
@pytest.mark.parametrize(
    ("x", "softmax", "total"),
    [
        ([1e30, -1e30], [1, 0], 1e30),
        ([INF, 1], [1, 0], INF),
        ([INF, INF], [0.5, 0.5], INF),
        ([-INF, 1], [0, 1], 1),
        ([-INF, -INF], [np.nan, np.nan], -INF),
        ([np.nan, 1], [np.nan, np.nan], np.nan),
    ],
    ids=str,
)
def test_softmax_at_the_limits(x, softmax, total, rows):
    many = np.zeros((rows, 2))
    many[-1] = x
    with np.errstate(divide="ignore"):
        logarithm = np.log(softmax)
    if x[0] == 1e30:
        logarithm = [0, -2e30]
    np.testing.assert_allclose(reductions.softmax(many, axis=(1,))[-1], softmax)
    np.testing.assert_allclose(reductions.log_softmax(many, axis=(1,))[-1], logarithm)
    np.testing.assert_allclose(reductions.logsumexp(many, axis=(1,), keepdims=False)[-1], total)


# Choices and powers


@pytest.mark.parametrize("dtype", ["?", "e", "f", "d", "i", "l", "F", "D"])
@pytest.mark.parametrize("size", [10, 4096])
def test_where(size, dtype):
    x, y, z = normal((3, size), "d")
    condition, x, y = z > 0, x.astype(dtype), y.astype(dtype)
    pairs = [(x, y), (x, 0), (0, x), (x, 2.5), (3, y), (x[:1], y), (0, 0), (x, 1j)]
    pairs += [(x, np.nan), (x, np.float32(2)), (True, False)]
    for a, b in pairs:
        same(where_and_extrema.where(condition, a, b), np.where(condition, a, b), dtype)
    tall = (condition.reshape(-1, 2), x.reshape(-1, 2)[:, :1], y.reshape(-1, 2))
    same(where_and_extrema.where(*tall), np.where(*tall), dtype)
    wide = (condition, np.stack([x, y]), 0)
    same(where_and_extrema.where(*wide), np.where(*wide), dtype)
    swapped = (condition.reshape(-1, 2).T, x.reshape(-1, 2).T, y.reshape(-1, 2).T)
    same(where_and_extrema.where(*swapped), np.where(*swapped), dtype)


@pytest.mark.parametrize("dtype", "fdi")
@pytest.mark.parametrize("size", [10, 4096])
def test_extrema_of_two(size, dtype):
    x = normal((size,), dtype)
    if dtype != "i":
        x[:3] = np.nan, INF, -INF
    one = x.dtype.type(1)
    for a, b in [(x, 0), (1, x), (x, x[::-1]), (x, 0.5), (x, INF), (x, math.nan), (x, one)]:
        same(where_and_extrema.maximum(a, b), np.maximum(a, b), dtype)
        same(where_and_extrema.minimum(a, b), np.minimum(a, b), dtype)
    same(where_and_extrema.relu(x), np.maximum(x, 0), dtype)


@pytest.mark.parametrize("dtype", "fdD")
def test_power(dtype):
    x = np.linspace(-2.1, 2.2, 50).astype(dtype)
    before = x.copy()
    others = [3.0, -3.0, 0.5, 1.5, INF, np.float32(3), np.float64(3), np.array(2.0)]
    for y in [*range(-9, 40), *others]:
        with np.errstate(all="ignore"):
            got, wanted = where_and_extrema.power(x, y), np.power(x, y)
        assert got.dtype == wanted.dtype
        np.testing.assert_allclose(got, wanted, rtol=10 * tolerance(dtype))
    np.testing.assert_array_equal(x, before)
    np.testing.assert_array_equal(where_and_extrema.power(np.arange(4), 3), [0, 1, 8, 27])
    with pytest.raises(ValueError, match="negative integer powers"):
        where_and_extrema.power(np.arange(4), -3)


def test_log_ratio():
    x = np.array([1, -INF, INF, -INF, INF, 1, 1])
    y = np.array([2, -INF, INF, 1, 1, INF, -INF])
    np.testing.assert_array_equal(
        where_and_extrema.log_ratio(x, y), [-1, -INF, 0, -INF, INF, -INF, INF]
    )
    spread = np.broadcast_to(np.array([[1.0], [-INF]]), (2, 3))
    got = where_and_extrema.log_ratio(np.array([0.0, -INF, 1.0]), spread)
    np.testing.assert_array_equal(got, [[-1, -INF, 0], [INF, -INF, INF]])


# Special functions


def relative(got, wanted):
    """Returns the largest relative error, where what is wanted is not too small for its dtype."""
    kept = np.abs(wanted) > (1e-30 if got.dtype == np.float32 else 1e-290)
    return np.max(np.abs(got[kept] / wanted[kept] - 1))


@pytest.mark.parametrize(("dtype", "bound"), [("f", 5e-7), ("d", 1.5e-15)])
def test_erf(dtype, bound):
    x = np.concatenate([np.linspace(-7, 7, 200001), np.logspace(-20, 0, 1000)]).astype(dtype)
    assert relative(error_function.erf(x), scipy.special.erf(x.astype("d"))) < bound
    limits = np.array([-INF, -7, -0.0, 0, 7, INF, np.nan], dtype)
    np.testing.assert_array_equal(error_function.erf(limits), [-1, -1, 0, 0, 1, 1, np.nan])
    assert math.copysign(1, error_function.erf(-0.0)) == -1


@pytest.mark.parametrize(("dtype", "last", "bound"), [("f", 9.0, 1e-7), ("d", 26.5, 1e-15)])
def test_erfc(dtype, last, bound):
    # SciPy loses three digits where erfc is small; the C library does not.
    x = np.linspace(-7, last, 20001).astype(dtype)
    exact = np.array([math.erfc(v) for v in x.tolist()])
    assert relative(error_function.erfc(x), exact) < bound
    limits = np.array([-INF, 0, 40, INF, np.nan], dtype)
    np.testing.assert_array_equal(error_function.erfc(limits), [2, 1, 0, 0, np.nan])


def expit(x):
    return scipy.special.expit(x)


def slope_by_sigmoid(x):
    w = activations.GELU_LINEAR * x + activations.GELU_CUBIC * x**3
    rise = activations.GELU_LINEAR + 3 * activations.GELU_CUBIC * x**2
    return expit(w) * (1 + x * rise * expit(-w))


ACTIVATIONS = {
    "sigmoid": (activations.sigmoid, expit, (0, 1)),
    "softplus": (activations.softplus, lambda x: np.logaddexp(x, 0), (0, INF)),
    "silu": (activations.silu, lambda x: x * expit(x), (0, INF)),
    "gelu by sigmoid": (
        lambda x: activations.gelu(x, approximate=True),
        lambda x: x * expit(activations.GELU_LINEAR * x + activations.GELU_CUBIC * x**3),
        (0, INF),
    ),
    "gelu": (
        lambda x: activations.gelu(x, approximate=False),
        lambda x: x * scipy.special.ndtr(x),
        (0, INF),
    ),
    "slope of gelu by sigmoid": (
        lambda x: activations.gelu_unit_grad(x, approximate=True),
        slope_by_sigmoid,
        (0, 1),
    ),
    "slope of gelu": (
        lambda x: activations.gelu_unit_grad(x, approximate=False),
        lambda x: scipy.special.ndtr(x) + x * np.exp(-0.5 * x * x) / math.sqrt(2 * math.pi),
        (0, 1),
    ),
}


@pytest.mark.parametrize("dtype", "fd")
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activation(name, dtype):
    function, exact, limits = ACTIVATIONS[name]
    x = np.linspace(-12, 12, 2 * blocks.BLOCK_ELEMENTS + 17).astype(dtype)
    bound = 3e-7 if dtype == "f" else 2e-15
    got, wanted = function(x), exact(x.astype("d"))
    assert got.dtype == x.dtype
    np.testing.assert_allclose(got, wanted, rtol=4 * bound, atol=bound)
    if not name.startswith("slope"):
        # Small values are not what is left of a difference.
        assert relative(got, wanted) < 100 * bound
    for far in (1e3, 1e30, INF):
        got = function(np.array([-far, far], dtype))
        np.testing.assert_allclose(got, [limits[0], min(far, limits[1])], rtol=1e-6, atol=1e-30)
    assert math.isnan(function(np.array(math.nan, dtype)))


def test_blockwise_kinds_of_arguments():
    for x in (0.5, 3, True, np.float32(0.5), np.array(0.5)):
        got = error_function.erf(x)
        assert isinstance(got, np.float32 if type(x) is np.float32 else np.float64)
        assert got == pytest.approx(math.erf(x))
    half = np.linspace(-2, 2, 9).astype("e")
    assert error_function.erf(half).dtype == error_function.erfc(half).dtype == np.float16
    wanted = scipy.special.erf(half.astype("f")).astype("e")
    np.testing.assert_array_equal(error_function.erf(half), wanted)
    turned = normal((blocks.BLOCK_ELEMENTS, 2), "d").T
    np.testing.assert_allclose(error_function.erf(turned), scipy.special.erf(turned), rtol=1e-14)
    with pytest.raises(TypeError, match="real numbers only"):
        error_function.erf(1j)


@pytest.mark.parametrize("size", [10, 5000])
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_where_keeps_the_sign_of_zero(size, dtype):
    x = np.linspace(-1, 1, size).astype(dtype)
    for branches in ((x, -0.0), (-0.0, x), (x, 0.0), (0, x)):
        got = fnp.where(x > 0, *branches)
        wanted = np.where(x > 0, *branches)
        np.testing.assert_array_equal(np.signbit(got), np.signbit(wanted))
        assert got.dtype == wanted.dtype


@pytest.mark.parametrize("end", [np.inf, -np.inf, np.nan, 1.0])
def test_numbers_beside_infinities_decide_no_dtype(end):
    x = np.ones(5000, "f4")
    x[7] = end
    for call in (lambda f: f(0.25, x), lambda f: f(x, 0.25)):
        with np.errstate(invalid="ignore"):
            got, wanted = call(fnp.logaddexp), call(np.logaddexp)
        assert got.dtype == np.float32
        np.testing.assert_allclose(got, wanted, rtol=1e-6)


@pytest.mark.parametrize("number", [1, -1e9])
def test_a_number_beside_a_mask_that_is_used_again(number):
    x = normal((5, 40, 40), np.float32)
    x.reshape(-1)[:7] = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45, -1e-45]
    mask = normal((40, 40), np.float32) > 0
    got = fnp.where(mask, x, number)
    np.testing.assert_array_equal(got, np.where(mask, x, np.float32(number)))
    assert got.dtype == np.float32
