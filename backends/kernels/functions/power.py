"""Powers and cube roots.

``x**y = exp(y log(x))``: in single precision by doubles, in double precision by pairs of them;
J.-M. Muller, Elementary Functions: Algorithms and Implementation, chapters 11 and 12. Values of
zeros, infinities, negative numbers and NaN are those of C's standard, annex F.10.4.4.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from ..graph import cast, function, select
from .exponential import EXP_LIMITS, LN_2, LOG2_E, exp_terms
from .formats import (
    DOUBLE_FORMAT,
    SINGLE_FORMAT,
    capped,
    format_of,
    nearest_integer,
    power_of_two,
    scaled_by_power,
    sign_bit,
    with_sign,
)
from .logarithm import split, split_normal
from .polynomials import Coefficients, exact_product, fma, polynomial_of, quick_sum

if TYPE_CHECKING:
    from ..graph import Expr

# (2 atanh(s) / s - 2) / s**2 by s**2, as for ``log``: 2 atanh(s) / s to 2**-37.6.
POWER_LOG_SHORT = (
    0.6666666563967264, 0.40000336468053255, 0.28537226605711463, 0.23583743132526333,
)  # fmt: skip
# (exp(r) - 1 - r) / r**2 for |r| <= ln(2) / 2: exp(r) to 2**-28.2.
EXP_SHORT = (
    0.5000000093990847, 0.16666518631083663, 0.041666210991892855, 0.00836890630783972,
    0.0013950117349513808,
)  # fmt: skip
# ((atanh(s) / s - 1) / s**2 - 1/3) / s**2 by s**2 up to 0.0037: atanh(s) / s to 2**-72.7.
LOG_FINE = (
    0.20000000000000298, 0.14285714284897474, 0.11111111921147142, 0.09090536391632481,
    0.07773144884499597,
)  # fmt: skip
# Centers of the thirds of an octave, the bounds between them, and logarithms of the centers in two
# parts, of which the first has 42 binary places.
POWER_CENTERS = (0.796875, 1.0, 1.2578125)
LOG_CENTERS = (
    Fraction("-0.227057450635346084858612873953407168217307235753037285692148"),
    Fraction(0),
    Fraction("0.229374101064845829991480725046139871550964103900510151613265"),
)
BOUNDS = (0.8908987181403393, 1.122462048309373)
# x**(-1/3) for 0.3535 <= x <= 2.8285, to 2**-7.1 and 2**-8.4.
CBRT: Coefficients = (
    (1.8893915, -1.7537082, 1.2158295, -0.41007417, 0.05210849),
    (
        2.012908442503007,
        -2.375639391236238,
        2.287086508778952,
        -1.2212695225681909,
        0.32965674766726044,
        -0.03507379364041222,
    ),
)
floor = function("floor")


def power(x: Expr, y: Expr) -> Expr:
    """Returns ``x**y``."""
    size = abs(x)
    if format_of(x) is SINGLE_FORMAT:
        found = single_power(size, y)
    else:
        found = double_power(size, y)
    found = select(size.equals(1.0) | y.equals(0.0), 1.0, found)
    whole = floor(y).equals(y)
    odd = whole & floor(0.5 * y).differs(0.5 * y)
    sign = sign_bit(x)
    found = with_sign(found, select(odd, sign, sign ^ sign))
    return select((x < 0.0) & (size < np.inf) & ~whole, np.nan, found)


def single_power(x: Expr, y: Expr) -> Expr:
    """Returns ``x**y`` of positive x in single precision."""
    form = DOUBLE_FORMAT
    x = cast(x, form.dtype)
    k, m = split_normal(x, 2.0**form.mantissa + form.bias)
    s = (m - 1.0) / (m + 1.0)
    z = s * s
    log = fma(k, float(LN_2), fma(s * z, polynomial_of(z, POWER_LOG_SHORT), s + s))
    product = cast(y, form.dtype) * at_ends(log, x)
    product = capped(product, *EXP_LIMITS[0])
    k, exponent = nearest_integer(product, LOG2_E, form.bias)
    r = fma(k, -float(LN_2), product)
    found = fma(r * r, polynomial_of(r, EXP_SHORT), r) + 1.0
    return cast(found * power_of_two(exponent, form), SINGLE_FORMAT.dtype)


def at_ends(log: Expr, x: Expr) -> Expr:
    """Returns a logarithm, with its values of zero, infinity and NaN."""
    return select(x.equals(0.0), -np.inf, select(x < np.inf, log, x))


def double_power(x: Expr, y: Expr) -> Expr:
    """Returns ``x**y`` of positive x in double precision."""
    log, log_low = log_pair(x)
    product = y * at_ends(log, x)
    below = fma(y, log, -product) + y * log_low
    # Nothing is below what is infinite, or larger than any exponent.
    below = select(abs(product) < 1024.0, below, 0.0)
    product = capped(product, *EXP_LIMITS[1])
    k, exponent = nearest_integer(product, LOG2_E, 2 * DOUBLE_FORMAT.bias)
    first, rest = exp_terms(product, k, below)
    return scaled_by_power(1.0 + (first + rest), exponent)


def log_pair(x: Expr) -> tuple[Expr, Expr]:
    """Returns the logarithm of a positive double and its error.

    ``log(2**k m) = k ln 2 + log(c) + 2 atanh(s)`` with ``s = (m - c) / (m + c)``, of which
    ``2 s (1 + s**2 / 3)`` is a pair of doubles.
    """
    k, m = split(x)
    under, over = m < BOUNDS[0], m > BOUNDS[1]

    def chosen(low: float, middle: float, high: float) -> Expr:
        return select(under, low, select(over, high, x.graph.constant(middle, x.dtype)))

    pairs = [short_pair(c) for c in LOG_CENTERS]
    center = chosen(*POWER_CENTERS)
    center_log, center_low = (chosen(*parts) for parts in zip(*pairs))
    # s with its error
    above = m - center
    below, lost = quick_sum(center, m)
    inverse = 1.0 / below
    s = above * inverse
    s_low = inverse * (fma(-s, below, above) - s * lost)
    # the square with its error, and times a third and more
    z, z_low = exact_product(s, s)
    z_low = fma(s + s, s_low, z_low)
    third, third_low = DOUBLE_FORMAT.parts(Fraction(1, 3), 2)
    share, share_low = quick_sum(third, z * polynomial_of(z, LOG_FINE))
    share_low = share_low + third_low
    more, more_low = exact_product(z, share)
    more_low = fma(z, share_low, fma(z_low, share, more_low))
    s, s_low = s + s, s_low + s_low
    cubic, cubic_low = exact_product(s, more)
    cubic_low = fma(s, more_low, fma(s_low, more, cubic_low))
    # the sum, largest first
    of_two, of_two_low = short_pair(LN_2)
    whole = fma(k, of_two, center_log)
    total, first_lost = quick_sum(whole, s)
    total, second_lost = quick_sum(total, cubic)
    small = fma(k, of_two_low, center_low) + (s_low + cubic_low)
    return quick_sum(total, small + (first_lost + second_lost))


def short_pair(number: Fraction) -> tuple[float, float]:
    """Returns a number of 42 binary places, and what is left of a constant."""
    first = Fraction(round(number * 2**42), 2**42)
    return float(first), float(number - first)


def cbrt(x: Expr) -> Expr:
    """Returns the cube root: ``2**q m**(1/3)``, by a better and better ``r = m**(-1/3)``.

    With ``h = 1 - m r**3``, ``m**(-1/3) = r (1 + h/3 + 2 h**2 / 9 + 14 h**3 / 81 + ...)``.
    """
    form = format_of(x)
    sign = sign_bit(x)
    size = with_sign(x, sign)
    k, m = split(size)
    quotient, exponent = nearest_integer(k, 1 / 3, form.bias)
    _, rest = nearest_integer(fma(quotient, -3.0, k), 1.0, form.bias)
    m = m * power_of_two(rest, form)
    r = polynomial_of(m, CBRT)
    for terms in ((1 / 3, 2 / 9, 14 / 81), (1 / 3, 2 / 9))[: form.places + 1]:
        h = fma(-(m * r), r * r, 1.0)
        r = fma(r * h, polynomial_of(h, terms), r)
    root = m * r * r
    square, below = exact_product(root, root)
    error = fma(-root, square, m) - root * below
    root = fma(error, r * r * (1 / 3), root)
    found = with_sign(root * power_of_two(exponent, form), sign)
    return select((size < np.inf) & (size > 0.0), found, x)
