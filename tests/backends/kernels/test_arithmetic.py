"""The operations of kernels on NumPy's arrays: above all ``fma``, against fractions."""

from fractions import Fraction

import numpy as np
import pytest

from functensor.backends.kernels.arithmetic import computed

DTYPES = [np.dtype(name) for name in ("float16", "float32", "float64")]


def drawn(rng, dtype, n, spread):
    """Numbers of either sign, with a few bits or all, over some powers of two."""
    numbers = rng.uniform(1, 2, n)
    short = rng.integers(0, 4, n) == 0
    numbers[short] = np.round(numbers[short] * 8) / 8
    signs = rng.choice([-1.0, 1.0], n)
    return np.ldexp(numbers * signs, rng.integers(-spread, spread, n)).astype(dtype)


def nearest(exact, dtype):
    """The nearest number of a dtype to a fraction, even of two."""
    limits = np.finfo(dtype)
    if exact == 0:
        return 0.0
    size = abs(exact)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    exponent -= size < Fraction(2) ** exponent
    step = Fraction(2) ** (max(exponent, limits.minexp) - limits.nmant)
    rounded = round(size / step) * step
    sign = 1.0 if exact > 0 else -1.0
    return sign * (float(rounded) if rounded <= Fraction(float(limits.max)) else np.inf)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("share", [0.1, 0.5, 1.0])
def test_fma_rounds_once(dtype, share):
    rng = np.random.default_rng(7)
    spread = int(share * -np.finfo(dtype).minexp)
    n = 3000
    x, y, z = (drawn(rng, dtype, n, spread) for _ in range(3))
    with np.errstate(all="ignore"):
        # The addend of a third is about minus the product, of a third about half of its last place.
        z[: n // 3] = -(x * y)[: n // 3]
        z[n // 3 : n // 2] = np.spacing(x * y)[n // 3 : n // 2] / dtype.type(2)
        z[n // 2 : 2 * n // 3] = (x * y)[n // 2 : 2 * n // 3] * dtype.type(2.0**-9)
    z[~np.isfinite(z)] = 0
    found = computed("fma", [x, y, z], dtype)
    a, b, c = ([Fraction(float(number)) for number in numbers] for numbers in (x, y, z))
    exact = [first * second + third for first, second, third in zip(a, b, c)]
    np.testing.assert_array_equal(found, np.array([nearest(e, dtype) for e in exact], dtype))
    rounded_away = [e != 0 for e in exact]
    np.testing.assert_array_equal(np.signbit(found)[rounded_away], [e < 0 for e in exact if e])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_fma_of_special_numbers(dtype):
    inf, nan = np.inf, np.nan
    cases = [
        (inf, 1, 1, inf), (inf, 0, 1, nan), (inf, 1, -inf, nan), (1, 1, -inf, -inf),
        (nan, 1, 1, nan), (1, 1, nan, nan), (0, 5, -0.0, 0.0), (-0.0, 5, -0.0, -0.0),
        (3, 5, -15, 0.0), (-3, 5, 15, 0.0), (0, 0, 7, 7), (2, 3, 0, 6), (2, 3, inf, inf),
    ]  # fmt: skip
    x, y, z, wanted = np.array(cases).T.astype(dtype)
    found = computed("fma", [x, y, z], dtype)
    np.testing.assert_array_equal(found, wanted)
    zeros = wanted == 0
    np.testing.assert_array_equal(np.signbit(found)[zeros], np.signbit(wanted)[zeros])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_extrema_give_nan_and_the_second_zero(dtype):
    x = np.array([1, np.nan, 1, 0.0, -0.0], dtype)
    y = np.array([2, 1, np.nan, -0.0, 0.0], dtype)
    largest = computed("maximum", [x, y], dtype)
    np.testing.assert_array_equal(largest, np.array([2, np.nan, np.nan, 0, 0], dtype))
    smallest = computed("minimum", [x, y], dtype)
    np.testing.assert_array_equal(smallest, np.array([1, np.nan, np.nan, 0, 0], dtype))
    for found in (largest, smallest):
        assert np.signbit(found[3:]).tolist() == [True, False]


def test_the_rest_is_numpy():
    single = np.dtype(np.float32)
    x = np.array([1.5, -2.5, 100.0], single)
    assert computed("bits", [x], np.dtype(np.int32)).tolist() == x.view(np.int32).tolist()
    assert computed("cast", [x], np.dtype(np.int64)).tolist() == [1, -2, 100]
    assert computed("rint", [x], single).tolist() == [2, -2, 100]
    chosen = computed("select", [x > 0, x, np.float32(0)], single)
    assert chosen.dtype == single
    assert chosen.tolist() == [1.5, 0, 100]
    found = computed("library", [x > 50, x, x], single, "sin")
    assert found.dtype == single
    np.testing.assert_allclose(found, [1.5, -2.5, np.sin(100.0)], rtol=1e-7)


def test_an_unknown_operation_is_an_error():
    with pytest.raises(KeyError, match="haversine"):
        computed("haversine", [np.float64(1)], np.dtype(float))
