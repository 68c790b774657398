"""Special functions against mpmath, over the domains on which they are used.

The error is relative to the value. Of functions that oscillate or have zeros elsewhere, close to
which no more than the argument's own rounding can be known, it is relative to the larger one of
the value and of its change with the argument, ``x f'(x)``: those are marked as ``zeros``. Of an
inverse function, the reference is the function itself, and the error is that of x.

The long run, ``FUNCTENSOR_LONG_TESTS=1``, has 300 points for each function.
"""

import math
from functools import partial
from itertools import islice

import mpmath as mp
import numpy as np
import pytest
from support.long_forms import sized

from functensor.primitives.core.registry import registry
from functensor.scipy import special

pytestmark = pytest.mark.long
POINTS = sized(40, 120)
LIMIT = 1e-12
DIGITS = 40
# Relative to an argument, for slopes of references.
STEP = mp.mpf(10) ** -15


# Points: functions of a generator and a count


def between(low, high):
    """Evenly from low to high."""
    return lambda rng, n: rng.uniform(low, high, n)


def scales(low, high):
    """Evenly in the logarithm."""
    return lambda rng, n: np.exp(rng.uniform(np.log(low), np.log(high), n))


def negative(low, high):
    """Minus these, evenly in the logarithm."""
    return lambda rng, n: -scales(low, high)(rng, n)


def both_signs(low, high):
    """Of either sign, evenly in the logarithm."""
    return lambda rng, n: scales(low, high)(rng, n) * rng.choice([-1.0, 1.0], n)


def integers(low, high):
    """Integers, as floating-point numbers."""
    return lambda rng, n: rng.integers(low, high, n, endpoint=True).astype(float)


def any_of(*places):
    """From all of these alike."""

    def draw(rng, n):
        parts = [place(rng, -(-n // len(places))) for place in places]
        return rng.permutation(np.concatenate(parts))[:n]

    return draw


def near_one(rng, n):
    """Below 1, evenly in the logarithm of the distance."""
    return 1.0 - scales(1e-14, 0.9)(rng, n)


def around(low, high):
    """Parameters, and arguments both of their size and far from it."""

    def draw(rng, n):
        a = scales(low, high)(rng, n)
        close = a * np.exp(rng.normal(size=n) * np.minimum(3.0 / np.sqrt(a), 3.0))
        return a, np.where(rng.random(n) < 0.3, scales(1e-3, 1e3)(rng, n), close)

    return draw


def in_unit(low, high):
    """Two parameters, and arguments that are distributed as they say or evenly."""

    def draw(rng, n):
        a, b = scales(low, high)(rng, n), scales(low, high)(rng, n)
        likely = np.clip(rng.beta(a, b), 1e-10, 1 - 1e-10)
        return a, b, np.where(rng.random(n) < 0.3, rng.random(n), likely)

    return draw


SMALL = any_of(scales(1e-100, 0.5), between(0.0, 1.0), near_one)

# References that mpmath has in no or in other words


def regularized(a, x):
    return mp.gammainc(a, 0, x, regularized=True)


def complement(a, x):
    return mp.gammainc(a, x, mp.inf, regularized=True)


def incomplete(a, b, x):
    return mp.betainc(a, b, 0, x, regularized=True)


def incomplete_complement(a, b, x):
    return mp.betainc(b, a, 0, 1 - x, regularized=True)


def normal(x):
    return mp.erfc(-x / mp.sqrt(2)) / 2


def log_normal(x):
    return mp.log(normal(x)) if x < 0 else mp.log1p(-normal(-x))


def log_gamma(x):
    return mp.loggamma(x) if x > 0 else mp.log(abs(mp.gamma(x)))


def hurwitz(s, q):
    """By the summation formula of Euler and Maclaurin, DLMF 25.11.28; mpmath loses digits."""
    a = q + 30
    total = mp.fsum((q + k) ** -s for k in range(30)) + a ** (1 - s) / (s - 1) + a**-s / 2
    for j in range(1, 25):
        weight = mp.bernoulli(2 * j) / mp.factorial(2 * j)
        total += weight * mp.rf(s, 2 * j - 1) * a ** (1 - s - 2 * j)
    return total


def of_order(n, function):
    return lambda x: function(n, x)


ORDERS = any_of(integers(0, 20), between(0.0, 20.0))
WHOLE = integers(0, 20)
FAR = 1e4


def gamma_slope(a, x):
    def tail(b):
        return regularized(b, x) if x < a else -complement(b, x)

    return mp.diff(tail, a)


def beta_slope(by_a, by_b):
    def slope(a, b, x):
        def tail(p, q):
            lower = x < a / (a + b)
            return incomplete(p, q, x) if lower else -incomplete_complement(p, q, x)

        return mp.diff(tail, (a, b), (by_a, by_b))

    return slope


# -- value: (ours, the reference, where the points are)

PLAIN = {
    "gamma": (mp.gamma, any_of(scales(1e-300, 170), negative(1e-3, 150))),
    "rgamma": (mp.rgamma, any_of(scales(1e-300, 170), negative(1e-3, 150))),
    "multigammaln": (
        lambda a: mp.log(mp.pi) * 1.5 + mp.fsum(mp.loggamma(a - j / mp.mpf(2)) for j in range(3)),
        scales(3.0, 1e10),
    ),
    "polygamma": (lambda n, x: mp.psi(int(n), x), integers(1, 10), scales(1e-10, 1e5)),
    "beta": (mp.beta, scales(1e-6, 1e6), scales(1e-6, 1e6)),
    "poch": (mp.rf, scales(1e-3, 1e6), scales(1e-3, 40)),
    "binom": (mp.binomial, scales(20.0, 1e6), scales(0.1, 19)),
    "zeta": (hurwitz, scales(1.001, 100), scales(1e-3, 1e3)),
    "gammainc": (regularized, around(1e-3, 300)),
    "gammaincc": (complement, around(1e-3, 300)),
    "betainc": (incomplete, in_unit(1e-2, 1e3)),
    "betaincc": (incomplete_complement, in_unit(1e-2, 1e3)),
    "gamma_density": (
        lambda a, x: mp.exp((a - 1) * mp.log(x) - x) / mp.gamma(a),
        around(1e-3, 1e3),
    ),
    "beta_density": (
        lambda a, b, x: x ** (a - 1) * (1 - x) ** (b - 1) / mp.beta(a, b),
        in_unit(1e-3, 1e3),
    ),
    "erf": (mp.erf, both_signs(1e-300, 10)),
    "erfc": (mp.erfc, between(-6, 26)),
    "erfcx": (lambda x: mp.exp(x * x) * mp.erfc(x), any_of(between(-26, 6), scales(6, 1e9))),
    "erfi": (mp.erfi, both_signs(1e-300, 26)),
    "erfinv": (mp.erfinv, any_of(both_signs(1e-300, 0.9), near_one)),
    "expit": (lambda x: 1 / (1 + mp.exp(-x)), both_signs(1e-5, 700)),
    "log_expit": (lambda x: -mp.log1p(mp.exp(-x)), both_signs(1e-5, 700)),
    "softplus": (lambda x: mp.log1p(mp.exp(x)), both_signs(1e-5, 700)),
    "logit": (lambda x: mp.log(x) - mp.log1p(-x), SMALL),
    "ndtr": (normal, between(-37, 8)),
    "log_ndtr": (log_normal, any_of(between(-40, 36), negative(1, 1e5))),
    "xlogy": (lambda x, y: x * mp.log(y), both_signs(1e-100, 1e100), scales(1e-300, 1e300)),
    "xlog1py": (lambda x, y: x * mp.log1p(y), both_signs(1e-9, 1e9), scales(1e-290, 1e290)),
    "entr": (lambda x: -x * mp.log(x), scales(1e-290, 1e290)),
    "rel_entr": (lambda x, y: x * mp.log(x / y), scales(1e-9, 1e9), scales(1e-9, 1e9)),
    "kl_div": (lambda x, y: x * mp.log(x / y) - x + y, scales(1e-2, 1e2), scales(1e-2, 1e2)),
    "i0": (of_order(0, mp.besseli), both_signs(1e-9, 700)),
    "i1": (of_order(1, mp.besseli), both_signs(1e-9, 700)),
    "i0e": (lambda x: mp.besseli(0, x) * mp.exp(-abs(x)), both_signs(1e-9, FAR)),
    "i1e": (lambda x: mp.besseli(1, x) * mp.exp(-abs(x)), both_signs(1e-9, FAR)),
    "iv": (mp.besseli, ORDERS, scales(1e-3, 600)),
    "ive": (lambda v, x: mp.besseli(v, x) * mp.exp(-x), ORDERS, scales(1e-3, FAR)),
    "k0": (of_order(0, mp.besselk), scales(1e-5, 600)),
    "k1": (of_order(1, mp.besselk), scales(1e-5, 600)),
    "k0e": (lambda x: mp.besselk(0, x) * mp.exp(x), scales(1e-5, 600)),
    "k1e": (lambda x: mp.besselk(1, x) * mp.exp(x), scales(1e-5, 600)),
    "kn": (mp.besselk, WHOLE, scales(1e-3, 600)),
    "kv": (mp.besselk, between(0, 20), scales(1e-3, 600)),
    "kve": (lambda v, x: mp.besselk(v, x) * mp.exp(x), between(0, 20), scales(1e-3, FAR)),
    "exp1": (mp.e1, scales(1e-9, 600)),
    "expn": (mp.expint, integers(0, 20), scales(1e-3, 600)),
    "sine_integral": (mp.si, both_signs(1e-9, FAR)),
    "exp10": (lambda x: mp.mpf(10) ** x, between(-300, 300)),
    # Derivatives by a parameter, which are kernels of our own.
    "gammainc_grad": (gamma_slope, around(1e-2, 200)),
    "betainc_grad": (beta_slope(1, 0), in_unit(1e-2, 100)),
}
ZEROS = {
    "gammaln": (log_gamma, any_of(scales(1e-290, 1e290), between(0.5, 3), negative(1e-3, 150))),
    "loggamma": (log_gamma, any_of(scales(1e-290, 1e290), between(0.5, 3))),
    "digamma": (
        lambda x: mp.psi(0, x),
        any_of(scales(1e-290, 1e290), between(1, 2), negative(1e-3, 150)),
    ),
    "betaln": (
        lambda a, b: mp.loggamma(a) + mp.loggamma(b) - mp.loggamma(a + b),
        scales(1e-6, 1e6),
        scales(1e-6, 1e6),
    ),
    "riemann_zeta": (mp.zeta, any_of(scales(1.001, 100), between(-20, 0.99))),
    "j0": (of_order(0, mp.besselj), both_signs(1e-3, FAR)),
    "j1": (of_order(1, mp.besselj), both_signs(1e-3, FAR)),
    "jn": (mp.besselj, ORDERS, scales(1e-3, FAR)),
    "jv": (mp.besselj, ORDERS, scales(1e-3, FAR)),
    "y0": (of_order(0, mp.bessely), scales(1e-3, FAR)),
    "y1": (of_order(1, mp.bessely), scales(1e-3, FAR)),
    "yn": (mp.bessely, WHOLE, scales(1e-2, FAR)),
    "yv": (mp.bessely, between(0, 20), scales(1e-2, FAR)),
    "cosine_integral": (mp.ci, scales(1e-9, FAR)),
    "spence": (lambda x: mp.polylog(2, 1 - x), any_of(scales(1e-3, 100), between(0.9, 1.1))),
    "expi": (mp.ei, any_of(scales(1e-9, 600), negative(1e-9, 600))),
}
# The function that is inverted, its parameters, and the values that it is to have.
INVERSES = {
    "gammaincinv": (regularized, scales(1e-2, 300), SMALL),
    "gammainccinv": (complement, scales(1e-2, 300), SMALL),
    "betaincinv": (incomplete, scales(0.1, 300), scales(0.1, 300), SMALL),
    "betainccinv": (incomplete_complement, scales(0.1, 300), scales(0.1, 300), SMALL),
    "erfcinv": (mp.erfc, any_of(SMALL, between(1, 2))),
    "ndtri": (normal, SMALL),
    "ndtri_exp": (log_normal, negative(1e-10, 1e5)),
}
OPTIONS = {
    "multigammaln": {"d": 3},
    "gammainc_grad": {"order": 1},
    "betainc_grad": {"by_a": 1, "by_b": 0},
    "beta_density": {"low": 0, "high": 0},
}


def drawn(name, places, count):
    """Returns the operands of a function, the same ones every time."""
    rng = np.random.default_rng([ord(letter) for letter in name])
    operands = []
    for place in places:
        found = place(rng, count)
        operands += found if isinstance(found, tuple) else [found]
    return operands


def computed(name, operands):
    """Returns what the function gives."""
    function = getattr(special, name, None) or registry[name]
    return np.asarray(function(*operands, **OPTIONS.get(name, {})))


def exact(x):
    return mp.mpf(float(x))


def change(reference, row, value, places):
    """Returns the largest change of a reference with the relative change of an argument."""
    largest = mp.mpf(0)
    for i in places:
        moved = list(row)
        moved[i] *= 1 + STEP
        largest = max(largest, abs((reference(*moved) - value) / STEP))
    return largest


def errors(name, count):
    """Yields the error at every point, and the point."""
    table = next(t for t in (PLAIN, ZEROS, INVERSES) if name in t)
    reference, *places = table[name]
    # Some more, since there are points at which nothing can be said.
    operands = drawn(name, places, count + count // 4)
    for got, *row in zip(computed(name, operands), *operands):
        with mp.workdps(DIGITS):
            values = [exact(x) for x in row]
            if table is INVERSES:
                yield inverse_error(reference, values, got), row
                continue
            wanted = mp.mpf(reference(*values))
            if not 1e-290 < abs(wanted) < 1e300:
                # Gradual underflow has no relative accuracy; overflow is for another test.
                continue
            size = abs(wanted)
            if table is ZEROS:
                # Orders are exact, and there is no derivative by them.
                by = [len(row) - 1] if name in ORDERED else range(len(row))
                size = max(size, change(reference, values, wanted, by))
            yield float(abs(exact(got) - wanted) / size), row


ORDERED = {"jn", "jv", "yn", "yv"}


def inverse_error(reference, values, got):
    """Returns by how much, relative to x, the solution is off."""
    *parameters, y = values
    x = exact(got)
    if y in (0, 1) or abs(x) < 1e-290:
        return 0.0
    value = reference(*parameters, x)
    slope = change(reference, [*parameters, x], value, [len(parameters)])
    return float(abs(value - y) / slope) if slope else 0.0


@pytest.mark.parametrize("name", [*PLAIN, *ZEROS, *INVERSES])
def test_accuracy(name):
    found = list(islice(errors(name, POINTS), POINTS))
    assert len(found) == POINTS
    worst, where = max(found, key=lambda pair: pair[0] if pair[0] == pair[0] else np.inf)
    assert worst <= LIMIT, f"{name} is {worst:.1e} off at {[float(x) for x in where]}"


# Rounding of x, by so much of it, is what values for large parameters are as good as.
ROUNDINGS = 64


def large_tails(a, x):
    """Returns P(a, x), Q(a, x) and x times the density, by the series DLMF 8.11.4.

    All of its terms are positive; mpmath's own function gives up on so many.
    """
    lost = max(0.0, float(x - a - a * mp.log(x / a)) / math.log(10)) if x > a else 0.0
    with mp.workdps(DIGITS + 10 + int(lost)):
        term = total = mp.mpf(1)
        b = a
        while term > total * mp.eps:
            b += 1
            term *= x / b
            total += term
        factor = mp.exp(a * mp.log(x) - x - mp.loggamma(a + 1))
        return factor * total, 1 - factor * total, factor * a


def test_accuracy_for_large_parameters_is_that_of_the_condition_number():
    rng = np.random.default_rng(20)
    a = scales(100, 1e5)(rng, POINTS)
    far, near = rng.uniform(-30, 30, POINTS), rng.normal(size=POINTS)
    steps = np.where(rng.random(POINTS) < 0.4, far, near)
    x = a * np.exp(steps / np.sqrt(a))
    values = zip(special.gammainc(a, x).tolist(), special.gammaincc(a, x).tolist(), strict=True)
    for parameter, limit, tails in zip(a, x, values, strict=True):
        with mp.workdps(DIGITS):
            *wanted, change = large_tails(exact(parameter), exact(limit))
            for got, value in zip(tails, wanted, strict=True):
                if value < 1e-290:
                    continue
                bound = ROUNDINGS * np.finfo(float).eps * (1 + change / value)
                error = abs(exact(got) - value) / value
                assert error <= bound, (parameter, limit, float(error), float(bound))


def test_the_series_for_large_parameters_is_mpmath_s_function():
    with mp.workdps(DIGITS):
        for a, x in ((3, 2), (40, 47.5), (120, 100)):
            lower, upper, change = large_tails(mp.mpf(a), mp.mpf(x))
            assert abs(lower / regularized(a, x) - 1) < 1e-35
            assert abs(upper / complement(a, x) - 1) < 1e-35
            slope = mp.diff(partial(regularized, a), x)
            assert abs(change / (x * slope) - 1) < 1e-12
