"""Derivatives to order two, in all modes, where formulas break down: against mpmath.

Points are far out, next to 0, and where functions round to their limits. A true
derivative that double precision holds is ours too, to all digits that the argument has. The long
run, ``FUNCTENSOR_LONG_TESTS=1``, has all points and the functions whose references are slow.
"""

from functools import partial

import mpmath as mp
import numpy as np
import pytest
from support.long_forms import only_long, sized

import functensor as ft
import functensor.numpy as fnp
from functensor import nn
from functensor.scipy import special

pytestmark = pytest.mark.long
DIGITS = 300
# Relative to an argument: differences of this step have more digits than are compared.
STEP = mp.mpf(10) ** -30
SMALLEST, LARGEST = mp.mpf(10) ** -295, mp.mpf(10) ** 300

ALL = [
    1e-320, 1e-300, 1e-160, 1e-30, 1e-10, 1e-8, 1e-5, 1e-3, 0.02, 0.3, 0.7, 1.0, 1.5, 3.0, 8.0,
    20.0, 37.0, 40.0, 100.0, 700.0, 745.0, 1e4, 1e8, 1e16, 1e100, 1e160, 1e300,
]  # fmt: skip
FEW = [1e-300, 1e-10, 0.3, 20.0, 40.0, 1e8]
PLACES = sized(FEW, ALL)

RIGHT = PLACES
BOTH = [-x for x in PLACES] + PLACES
SHORT = [x for x in BOTH if abs(x) < 1e5]
MODEST = [x for x in RIGHT if x < 1e4]
UNIT = [x for x in BOTH if abs(x) < 1] + [1 - 1e-10]
PROBABILITIES = [x for x in UNIT if x > 1e-100]
ABOVE_ONE = [1 + 1e-14, 1 + 1e-8, 1.1, 40.0, 1e8, 1e160, 1e300]


def logistic(x):
    return 1 / (1 + mp.exp(-x))


def softplus(x):
    return mp.log1p(mp.exp(x)) if x < 300 else x + mp.exp(-x)


def erfc(x):
    return mp.erfc(x) if abs(x) < 1e4 else mp.mpf(1 - mp.sign(x))


def normal(x):
    return erfc(-x / mp.sqrt(2)) / 2


def elu(x, alpha=1):
    return x if x > 0 else alpha * mp.expm1(x)


def gelu_by_tanh(x):
    inner = mp.sqrt(2 / mp.pi) * (x + mp.mpf(0.044715) * x**3)
    return x * logistic(2 * inner)


def log_beta(x, y):
    return mp.loggamma(x) + mp.loggamma(y) - mp.loggamma(x + y)


SELU = mp.mpf(1.0507009873554805), mp.mpf(1.6732632423543772)
# The function, what mpmath has for it, and where.
CASES = {
    "exp": (fnp.exp, mp.exp, BOTH),
    "expm1": (fnp.expm1, mp.expm1, BOTH),
    "exp2": (fnp.exp2, lambda x: mp.mpf(2) ** x, BOTH),
    "log": (fnp.log, mp.log, RIGHT),
    "log1p": (fnp.log1p, mp.log1p, RIGHT),
    "sqrt": (fnp.sqrt, mp.sqrt, RIGHT),
    "cbrt": (fnp.cbrt, mp.cbrt, RIGHT),
    "sin": (fnp.sin, mp.sin, SHORT),
    "tan": (fnp.tan, mp.tan, SHORT),
    "arcsin": (fnp.arcsin, mp.asin, UNIT),
    "arccos": (fnp.arccos, mp.acos, UNIT),
    "arctan": (fnp.arctan, mp.atan, BOTH),
    "sinh": (fnp.sinh, mp.sinh, BOTH),
    "arcsinh": (fnp.arcsinh, mp.asinh, BOTH),
    "arccosh": (fnp.arccosh, mp.acosh, ABOVE_ONE),
    "arctanh": (fnp.arctanh, mp.atanh, UNIT),
    "erf": (special.erf, lambda x: 1 - erfc(x), BOTH),
    "erfc": (special.erfc, erfc, BOTH),
    "expit": (special.expit, logistic, BOTH),
    "log_expit": (special.log_expit, lambda x: -softplus(-x), BOTH),
    "ndtr": (special.ndtr, normal, BOTH),
    "softplus": (nn.softplus, softplus, BOTH),
    "silu": (nn.silu, lambda x: x * logistic(x), BOTH),
    "elu": (partial(nn.elu, alpha=0.5), partial(elu, alpha=mp.mpf(0.5)), BOTH),
    "selu": (nn.selu, lambda x: SELU[0] * elu(x, SELU[1]), BOTH),
    "celu": (partial(nn.celu, alpha=2.0), lambda x: x if x > 0 else 2 * mp.expm1(x / 2), BOTH),
    "soft_sign": (nn.soft_sign, lambda x: x / (1 + abs(x)), BOTH),
    "gelu": (partial(nn.gelu, approximate=False), lambda x: x * normal(x), BOTH),
    # The fast one is constant beyond 20.
    "approximate gelu": (nn.gelu, gelu_by_tanh, [x for x in BOTH if -20 < x < 20]),
    "i0e": (special.i0e, lambda x: mp.exp(-abs(x)) * mp.besseli(0, x), BOTH),
    "i1e": (special.i1e, lambda x: mp.exp(-abs(x)) * mp.besseli(1, x), BOTH),
    "entr": (special.entr, lambda x: -x * mp.log(x), RIGHT),
    "logit": (special.logit, lambda x: mp.log(x / (1 - x)), PROBABILITIES),
    "xlogy": (partial(special.xlogy, 4.0), lambda x: 4 * mp.log(x), RIGHT),
    "kl_div": (partial(special.kl_div, 4.0), lambda x: 4 * mp.log(4 / x) - 4 + x, RIGHT),
    "betaln": (partial(special.betaln, 0.5), lambda x: log_beta(x, mp.mpf(0.5)),
               [0.3, 1.5, 40.0, 1e8, 1e16]),
    "poch": (lambda x: special.poch(x, 4.0), lambda x: mp.rf(x, 4), [1e-30, 0.1, 40.0]),
    "binom by n": (lambda x: special.binom(x, 4.0), lambda x: mp.binomial(x, 4),
                   [-0.5, 0.0, 1.0, 2.5, 3.0, 4.0, 5.0, 100.0]),
    "binom by k": (lambda x: special.binom(4.0, x), lambda x: mp.binomial(4, x),
                   [-7.0, -2.0, -1.0, -0.3, 0.0, 1.0, 2.5, 4.0, 4.4, 5.0, 5.3, 6.0, 7.0, 30.0]),
}  # fmt: skip
SOME = [1e-10, 1e-3, 0.3, 1.5, 20.0, 49.0, 51.0, 700.0, 1e4, 1e8]
CASES |= {
    "ive": (partial(special.ive, 4.0), lambda x: mp.exp(-x) * mp.besseli(4, x), SOME),
    "kve": (partial(special.kve, 0.5), lambda x: mp.exp(x) * mp.besselk(mp.mpf(0.5), x), SOME),
    "gammaln": (special.gammaln, mp.loggamma, SOME),
    "gammainc": (partial(special.gammainc, 0.5),
                 lambda x: mp.gammainc(0.5, 0, x, regularized=True), SOME),
    "erfcx": (special.erfcx, lambda x: mp.exp(x * x) * erfc(x), SOME[:-3]),
}  # fmt: skip
SLOW = {
    "k0e": (special.k0e, lambda x: mp.exp(x) * mp.besselk(0, x), SOME[3:4]),
    "k1e": (special.k1e, lambda x: mp.exp(x) * mp.besselk(1, x), SOME[3:4]),
}
for other in (-40.0, 0.0, 3.0, 40.0):
    CASES[f"logaddexp of {other}"] = (
        partial(fnp.logaddexp, other), lambda x, y=other: y + softplus(x - y), BOTH
    )  # fmt: skip
for label in (0.0, 0.3, 1.0):
    CASES[f"binary cross entropy of {label}"] = (
        lambda x, y=label: nn.binary_cross_entropy_with_logits(x, y),
        lambda x, y=label: softplus(x) - mp.mpf(y) * x,
        BOTH,
    )
for side in (1e-320, 1e-300, 1.0, 1e300):
    CASES[f"hypot of {side}"] = (
        partial(fnp.hypot, side), lambda x, y=side: mp.hypot(x, y), BOTH
    )
    CASES[f"arctan2 of {side}"] = (
        partial(fnp.arctan2, side), lambda x, y=side: mp.atan2(y, x), BOTH
    )
    CASES[f"arctan2 by {side}"] = (
        lambda x, y=side: fnp.arctan2(x, y), lambda x, y=side: mp.atan2(x, y), BOTH
    )
# Their derivatives are told from their values, which are 1 where the slope is below 1e-16: there
# derivatives are 0, as far from the true one as the value is.
BY_VALUE = {
    "tanh": (fnp.tanh, mp.tanh, BOTH),
    "sigmoid": (nn.sigmoid, logistic, BOTH),
    "mish": (nn.mish, lambda x: x * mp.tanh(softplus(x)), BOTH),
}


def true_derivatives(f, x):
    """Returns both derivatives, and how uncertain each is."""
    # So many that what a step changes is seen beside a value of 1.
    digits = DIGITS + int(2.5 * abs(np.log10(abs(x)))) if x else DIGITS
    with mp.workdps(digits):
        x = mp.mpf(float(x))
        step = abs(x) * STEP if x else STEP
        below, here, above = f(x - step), f(x), f(x + step)
        first, second = (above - below) / (2 * step), (above - 2 * here + below) / step**2
        noise = abs(here) * mp.mpf(10) ** -(digits - 12)
        return (mp.re(first), mp.re(second)), (noise / step, noise / step**2)


def our_derivatives(f, x):
    """Returns the first derivative in both modes, and the second in three combinations."""

    def slope(x):
        return ft.jvp(f, (x,), (fnp.ones_like(x),))[1]

    def gradient(x):
        return ft.grad(lambda x: fnp.sum(f(x)))(x)

    ones = np.ones_like(x)
    first = [gradient(x), slope(x)]
    second = [
        ft.grad(lambda x: fnp.sum(gradient(x)))(x),
        ft.jvp(slope, (x,), (ones,))[1],
        ft.jvp(gradient, (x,), (ones,))[1],
    ]
    return np.stack(first), np.stack(second)


def check(f, reference, places, floor=0.0):
    x = np.array(places, float)
    with np.errstate(all="ignore"):
        ours = our_derivatives(f, x)
    for i, place in enumerate(x):
        (first, second), unknown = true_derivatives(reference, place)
        size = abs(mp.mpf(float(place)))
        # The derivative may be off by the rounding of the argument and a few digits.
        limits = 1e-9 * abs(first) + 1e-14 * abs(second) * size, 1e-8 * abs(second)
        for mine, wanted, limit, noise in zip(ours, (first, second), limits, unknown):
            if abs(wanted) > LARGEST:
                continue
            for value in mine[:, i]:
                assert np.isfinite(value), (place, value, mp.nstr(wanted, 9))
                assert abs(mp.mpf(float(value)) - wanted) <= limit + noise + SMALLEST + floor, (
                    place, value, mp.nstr(wanted, 9),
                )  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_derivatives_are_those_of_mpmath(name):
    check(*CASES[name])


@only_long
@pytest.mark.parametrize("name", SLOW)
def test_derivatives_of_slow_references(name):
    check(*SLOW[name])


@pytest.mark.parametrize("name", BY_VALUE)
def test_derivatives_told_from_values(name):
    check(*BY_VALUE[name], floor=1e-14)


def test_third_derivative_of_a_scaled_bessel_function_near_zero():
    third = ft.grad(ft.grad(ft.grad(special.i0e)))
    for x in (1e-30, 1e-8, 1e-3):
        with mp.workdps(60):
            wanted = mp.diff(lambda t: mp.exp(-t) * mp.besseli(0, t), x, 3, h=x * mp.mpf(10) ** -9)
        np.testing.assert_allclose(third(x), float(wanted), rtol=1e-9)


# The second and third derivatives of the exponentially scaled ones of the second kind, far out:
# sqrt(pi / 2) times 3/4 and 15/8, over powers of x.
@pytest.mark.parametrize("name", ["k0e", "k1e", "kve"])
def test_scaled_functions_of_the_second_kind_far_out(name):
    f = partial(special.kve, 1.0) if name == "kve" else getattr(special, name)
    for x in (1e8, 1e100) if name != "kve" else (1e8,):
        np.testing.assert_allclose(ft.grad(f)(x), -(np.pi / 8) ** 0.5 * x**-1.5, rtol=1e-7)
        np.testing.assert_allclose(
            ft.grad(ft.grad(f))(x), 0.75 * (np.pi / 2) ** 0.5 * x**-2.5, rtol=1e-7
        )


@pytest.mark.parametrize("wrap", [lambda f: f, ft.jit], ids=["eager", "jit"])
@pytest.mark.parametrize("n", [2, 40])
def test_signs_of_real_determinants_are_flat_where_matrices_are_singular(wrap, n):
    a = np.ones((n, n))
    sign = wrap(lambda a: np.linalg.slogdet(a).sign)
    assert sign(a) == 0
    assert ft.grad(sign)(a).tolist() == np.zeros((n, n)).tolist()
    assert ft.jvp(sign, (a,), (a,))[1] == 0
