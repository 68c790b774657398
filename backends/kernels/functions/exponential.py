"""Exponential functions: exp, exp2 and expm1.

``exp(x) = 2**k exp(r)`` with ``k`` the integer nearest to ``x / ln 2``, and a polynomial of ``r``:
J.-M. Muller, Elementary Functions: Algorithms and Implementation, chapters 3 and 11.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from ..graph import select
from .formats import capped, format_of, nearest_integer, power_of_two, scaled_by_power
from .polynomials import Coefficients, fma, polynomial_of, quick_sum

if TYPE_CHECKING:
    from ..graph import Expr

LN_2 = Fraction("0.693147180559945309417232121458176568075500134360255254120680")
# (exp(r) - 1 - r) / r**2 for |r| <= ln(2) / 2: exp(r) to 2**-26.0 and 2**-55.4.
EXP: Coefficients = (
    (0.5, 0.16666542, 0.041666277, 0.008366638, 0.0013946927),
    (
        0.5000000000000006, 0.16666666666666685, 0.04166666666657295, 0.00833333333331441,
        0.0013888888932615659, 0.00019841269903448305, 2.4801504145091476e-05,
        2.7557227559611793e-06, 2.762645176245052e-07, 2.511460376896563e-08,
    ),
)  # fmt: skip
# The same to 2**-28.8 and 2**-60.8.
FINE_EXP: Coefficients = (
    (0.5, 0.16666667, 0.041666355, 0.008333272, 0.0013941101, 0.00019914532),
    (
        0.5, 0.16666666666666677, 0.0416666666666667, 0.008333333333321532,
        0.0013888888888866533, 0.00019841269886400963, 2.4801587361105915e-05,
        2.7557243911267744e-06, 2.755724231207061e-07, 2.5109147687639433e-08,
        2.09245777045767e-09,
    ),
)  # fmt: skip
# Above the second exp(x) is infinite. At the first both factors of `scaled_by_power` are 0. Above
# it products that round to 0 take a processor ten times as long as others; the masked
# scores of attention are far below.
EXP_LIMITS = ((-176.0597, 89.0), (-1418.18, 710.0))


LOG2_E = float(1 / LN_2)


def exp(x: Expr) -> Expr:
    """Returns ``exp(x) = 2**k (1 + r + r**2 q(r))``."""
    form = format_of(x)
    x = capped(x, *EXP_LIMITS[form.places])
    k, exponent = nearest_integer(x, LOG2_E, 2 * form.bias)
    first, rest = exp_terms(x, k, fine=False)
    return scaled_by_power(1.0 + (first + rest), exponent)


def exp_terms(x: Expr, k: Expr, below: Expr | None = None, fine: bool = True) -> tuple[Expr, Expr]:
    """Returns numbers whose sum is ``exp(r) - 1``, where ``r = x + below - k ln 2``.

    The first is ``x - k ln 2`` without the last digits of ln 2, and exact.
    """
    high, low = format_of(x).parts(LN_2, 2)
    first = fma(k, -high, x)
    rest = k * -low if below is None else fma(k, -low, below)
    r = first + rest
    if fine:
        # The square is that of the rounded r.
        rest = fma(r, (first - r) + rest, rest)
    return first, fma(r * r, polynomial_of(r, FINE_EXP if fine else EXP), rest)


def exp_sum(x: Expr, k: Expr, power: Expr, added: float) -> tuple[Expr, Expr]:
    """Returns ``exp(x) + added``, rounded, and its error; ``power`` is ``2**k``.

    Of the sum ``power + added`` a part may be missing where it is less than half of a last place.
    """
    first, rest = exp_terms(x, k)
    total, error = quick_sum(power + added if added else power, power * first)
    return total, fma(power, rest, error)


def expm1(x: Expr) -> Expr:
    """Returns ``exp(x) - 1 = 2 (2**(k - 1) - 1/2 + 2**(k - 1) (exp(r) - 1))``."""
    form = format_of(x)
    number = x
    x = capped(x, -1.5 * form.mantissa, EXP_LIMITS[form.places][1])
    k, exponent = nearest_integer(x, LOG2_E, form.bias - 1)
    power = power_of_two(exponent, form)
    least = power - 0.5
    first, rest = exp_terms(x, k)
    total, error = quick_sum(least, power * first)
    lost = (power - least) - 0.5
    found = total + fma(power, rest, error + lost)
    return select(abs(number) < 2.0 ** -(form.mantissa + 2), number, found + found)


# (2**r - 1 - r ln 2) / r**2 for |r| <= 1/2: 2**r to 2**-29.0 and 2**-58.0.
EXP2: Coefficients = (
    (0.2402265, 0.05550411, 0.009618037, 0.001333343, 0.0001546711, 1.531506e-05),
    (
        0.24022650695910133, 0.05550410866482174, 0.009618129107593335, 0.0013333558146378787,
        0.00015403530458077405, 1.5252733867720979e-05, 1.3215434817558819e-06,
        1.0178046399837698e-07, 7.073860130144564e-09, 4.4573952944092054e-10,
    ),
)  # fmt: skip
EXP2_LIMITS = ((-254.0, 129.0), (-2046.0, 1025.0))


def exp2(x: Expr) -> Expr:
    """Returns ``2**x = 2**k (1 + r ln 2 + r**2 q(r))``."""
    form = format_of(x)
    x = capped(x, *EXP2_LIMITS[form.places])
    k, exponent = nearest_integer(x, 1.0, 2 * form.bias)
    high, low = form.parts(LN_2, 2)
    r = x - k
    rest = fma(r * r, polynomial_of(r, EXP2), r * low)
    return scaled_by_power(1.0 + fma(r, high, rest), exponent)
