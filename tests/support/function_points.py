"""Points for functions of one and of two floats, their values by mpmath, and errors in ulp."""

import mpmath as mp
import numpy as np

# Bits of the references, beside those of the result's format.
PRECISION = 120
# Exponents beyond these are those of zero and of infinity in all formats.
FARTHEST = 100_000


def between(low, high):
    """Evenly from low to high."""
    return lambda rng, n, dtype: rng.uniform(low, high, n)


def scales(low, high):
    """Of either sign, evenly in the logarithm of the size."""

    def points(rng, n, dtype):
        return np.exp(rng.uniform(np.log(low), np.log(high), n)) * rng.choice([-1.0, 1.0], n)

    return points


def positive(points):
    """The sizes of points."""
    return lambda rng, n, dtype: np.abs(points(rng, n, dtype))


def any_bits(rng, n, dtype):
    """Finite numbers of all sizes, subnormal ones among them."""
    size = np.dtype(dtype).itemsize
    whole = np.dtype(f"u{size}")
    numbers = rng.integers(0, np.iinfo(whole).max, 2 * n, whole, endpoint=True).view(dtype)
    return numbers[np.isfinite(numbers)][:n]


def subnormal(rng, n, dtype):
    """Numbers below the smallest normal one, of either sign."""
    limits = np.finfo(dtype)
    steps = rng.integers(1, 2**limits.nmant, n).astype(np.float64)
    return steps.astype(dtype) * limits.smallest_subnormal * rng.choice([-1, 1], n).astype(dtype)


def near(centers, steps=4):
    """Numbers within a few steps of a format around some numbers."""

    def points(rng, n, dtype):
        center = np.asarray(centers, dtype)[rng.integers(0, len(centers), n)]
        return center + np.spacing(center) * rng.integers(-steps, steps + 1, n).astype(dtype)

    return points


def near_multiples_of_half_pi(largest):
    """The numbers nearest to multiples of pi / 2, and their neighbours."""

    def points(rng, n, dtype):
        count = np.exp(rng.uniform(0, np.log(largest), n)).astype(np.int64)
        with mp.workprec(PRECISION):
            center = np.array([float(int(k) * mp.pi / 2) for k in count]).astype(dtype)
        center *= rng.choice([-1, 1], n).astype(dtype)
        return center + np.spacing(center) * rng.integers(-1, 2, n).astype(dtype)

    return points


def mixed(*kinds):
    """From all of these alike."""

    def points(rng, n, dtype):
        share = -(-n // len(kinds))
        with np.errstate(all="ignore"):
            parts = [np.asarray(kind(rng, share, dtype), dtype) for kind in kinds]
        return np.concatenate(parts)[:n]

    return points


def exact(function, operands):
    """Returns values of a function of mpmath: mantissas of about 1 in two parts, and exponents."""
    high, low, exponents = (np.zeros(len(operands[0]), kind) for kind in (float, float, int))
    with mp.workprec(PRECISION):
        for i, numbers in enumerate(zip(*[x.tolist() for x in operands])):
            value = function(*[mp.mpf(x) for x in numbers])
            if value:
                mantissa, exponent = mp.frexp(value)
                high[i] = float(mantissa)
                low[i] = float(mantissa - high[i])
                exponents[i] = max(-FARTHEST, min(FARTHEST, exponent))
    return high, low, exponents


def in_long_double(function, operands):
    """Returns the same of a function of NumPy's, to 64 bits: a hundred times as fast as mpmath."""
    with np.errstate(all="ignore"):
        mantissas, exponents = np.frexp(function(*[x.astype(np.longdouble) for x in operands]))
    infinite = np.isinf(mantissas)
    mantissas = np.where(infinite, np.sign(mantissas) / 2, mantissas)
    exponents = np.where(infinite, FARTHEST, np.clip(exponents, -FARTHEST, FARTHEST))
    high = mantissas.astype(np.float64)
    return high, (mantissas - high).astype(np.float64), exponents


def errors(found, reference):
    """Returns errors in units of the last place of the exact values.

    Infinity counts as the number behind the largest one; beyond that it is the only right result.
    """
    limits = np.finfo(found.dtype)
    high, low, exponents = reference
    beyond = np.isinf(found)
    mantissa, exponent = np.frexp(np.where(beyond, 0, found).astype(np.float64))
    mantissa = np.where(beyond, np.sign(found) / 2, mantissa)
    exponent = np.where(beyond, limits.maxexp + 1, exponent)
    difference = np.ldexp(mantissa, np.clip(exponent - exponents, -1000, 1000)) - high - low
    # A number with this exponent lies between its half and itself.
    last = np.clip(exponents - 1, limits.minexp, limits.maxexp - 1) - limits.nmant
    with np.errstate(over="ignore"):
        error = np.abs(np.ldexp(difference, np.clip(exponents - last, -FARTHEST, 2000)))
    infinite = np.where(found == np.copysign(np.inf, high), 0, np.inf)
    return np.where(exponents > limits.maxexp, infinite, error)
