"""The error function and its complement.

``erf`` is odd, and ``erfc`` decays as ``exp(-x**2) / x``: M. Abramowitz, I. A. Stegun, Handbook of
Mathematical Functions, chapter 7. The quotient ``(x - a) / (x + a)`` maps large numbers to small
ones: M. M. Shepherd, J. G. Laframboise, Chebyshev approximation of (1 + 2x) exp(x**2) erfc x,
Mathematics of Computation 36, 1981.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..graph import select
from .exponential import LOG2_E, exp_terms
from .formats import (
    capped,
    format_of,
    nearest_integer,
    power_of_two,
    scaled_by_power,
    sign_bit,
    with_sign,
)
from .polynomials import Coefficients, exact_product, fma, polynomial_of, quick_sum

if TYPE_CHECKING:
    from ..graph import Expr

# erf(x) / x - 1 by x**2 up to 0.9375: erf(x) / x to 2**-30.0 and 2**-56.0.
ERF_TERMS: Coefficients = (
    (
        0.12837917, -0.37612632, 0.112836756, -0.026858455, 0.005198879, -0.0008119461,
        8.27498e-05,
    ),
    (
        0.12837916709551256, -0.3761263890318356, 0.11283791670948068, -0.02686617064394352,
        0.005223977614300367, -0.0008548326379051069, 0.00012055308662741192,
        -1.4925033287823482e-05, 1.645148452842591e-06, -1.6242774634309187e-07,
        1.3882923677598271e-08, -8.128677623994546e-10,
    ),
)  # fmt: skip
# -log(erfc(x)) - x from 0.90625 to 4 and to 5.95: erf(x) to 2**-29.1 and 2**-58.2.
LOG_ERFC: Coefficients = (
    (
        0.00017389875, 0.12776707, 0.6370258, 0.10407108, -0.022295162, 0.0030605746,
        -0.00019772888,
    ),
    (
        7.283125433377461e-08, 0.12837839463772593, 0.6366235365215372, 0.10276150161777586,
        -0.01910658738639949, -0.00023871940617059908, 0.0017221858031813103,
        -0.0006002489272154348, 1.6540869562312913e-05, 8.593190281547746e-05,
        -5.187535168912143e-05, 1.8905937228768596e-05, -4.988352749720908e-06,
        9.931107855621166e-07, -1.4912927248016486e-07, 1.6458941359240103e-08,
        -1.262967855580767e-09, 6.02506714699568e-11, -1.3459021600289722e-12,
    ),
)  # fmt: skip
# Beyond these erf is 1.
ERF_LIMITS = (4.0, 5.95)
# erf(x) / x - 1 by x**2 up to 0.625: erf(x) / x to 2**-30.0 and 2**-56.0.
SMALL_ERF: Coefficients = (
    (0.12837917, -0.37612632, 0.11283642, -0.026852358, 0.0051618447, -0.00071919186),
    (
        0.12837916709551256, -0.3761263890318345, 0.11283791670937475, -0.026866170640462917,
        0.005223977557937651, -0.0008548321178088909, 0.0001205501639964371,
        -1.4914823396766803e-05, 1.6234209203210918e-06, -1.3643045504960163e-07,
    ),
)  # fmt: skip
# (x + a) exp(x**2) erfc(x) by u = (x - a) / (x + a) for x from 0.625, to 2**-29.1 and 2**-58.3. The
# constants have a second part, and a is 2 in single and 2.5 in double precision.
ERFC: Coefficients = (
    (
        1.0215827, -0.6871607, 0.27947208, -0.036443163, -0.021509869, 0.0064927205,
        0.0030773922, -0.00090718985, -0.0005872381, 0.00016049949,
    ),
    (
        1.054031820305718, -0.8046518494391489, 0.45391411664809816, -0.1712511452460423,
        0.028361550131852247, 0.008393044302337397, -0.004818785519306213,
        -0.0004392082649237636, 0.0007026936661252082, 5.830778299105196e-05,
        -0.00011260432027712286, -1.9532124286331683e-05, 1.8241527029280115e-05,
        6.754723899179746e-06, -2.322448252267268e-06, -1.9679313519872683e-06,
        -2.584758891129312e-08, 4.671725331402569e-07, 1.5699343832300837e-07,
        -1.0150840259997641e-07, -5.2346934385278803e-08, 2.529040526839558e-08,
    ),
)  # fmt: skip
ERFC_CONSTANT_LOW = (-1.7457756e-08, -5.738590879501782e-17)
CENTERS = (2.0, 2.5)
# -2 a times the derivative by u, to 2**-5.7 and 2**-4.3.
ERFC_SLOPE: Coefficients = ((2.742104, -2.1487477, 0.49276194), (4.0547624, -4.7182097, 2.2772524))
# Beyond these erfc is 0.
ERFC_LIMITS = (10.5, 28.0)


def erf(x: Expr) -> Expr:
    """Returns ``erf(x)``: of small numbers ``x + x p(x**2)``, of others ``1 - exp(-q(x))``."""
    form = format_of(x)
    sign = sign_bit(x)
    size = with_sign(x, sign)
    small = fma(x, polynomial_of(x * x, ERF_TERMS), x)
    reach = capped(size, None, ERF_LIMITS[form.places])
    constant, *others = LOG_ERFC[form.places]
    slope = polynomial_of(reach, others)
    curved = fma(reach, slope, constant)
    power, below = quick_sum(reach, curved)
    below = below + fma(reach, slope, constant - curved)
    k, exponent = nearest_integer(power, -LOG2_E, form.bias)
    first, rest = exp_terms(-power, k, -below, fine=False)
    scale = power_of_two(exponent, form)
    large = 1.0 - fma(scale, first + rest, scale)
    return select(size < 0.90625, small, with_sign(large, sign))


def erfc(x: Expr) -> Expr:
    """Returns ``1 - erf(x)``: of large numbers ``exp(-x**2) p((x - a) / (x + a)) / (x + a)``."""
    form = format_of(x)
    one, lost = quick_sum(1.0, -x)
    small = one + fma(-x, polynomial_of(x * x, SMALL_ERF), lost)
    size = capped(abs(x), None, ERFC_LIMITS[form.places])
    square, below = exact_product(size, size)
    k, exponent = nearest_integer(square, -LOG2_E, 2 * form.bias)
    first, second = exp_terms(-square, k, -below)
    high, low = quick_sum(1.0, first)
    high, low = quick_sum(high, low + second)
    center = CENTERS[form.places]
    bound, over = quick_sum(center, size)
    share = 1.0 / bound
    share_low = share * (fma(-share, bound, 1.0) - share * over)
    u = fma(share, -2.0 * center, 1.0)
    # what was lost in u, as a change of the share
    rest, rest_low = quick_sum(1.0, -u)
    lost = (fma(share, -2.0 * center, rest) + rest_low) * (-0.5 / center)
    value, value_low = erfc_polynomial(u)
    value_low = fma(share_low + lost, polynomial_of(u, ERFC_SLOPE), value_low)
    product, error = exact_product(high, share)
    error = error + fma(low, share, high * share_low)
    found = fma(product, value, fma(product, value_low, error * value))
    found = scaled_by_power(found, exponent)
    found = select(x < 0.0, 2.0 - found, found)
    return select(size < 0.625, small, found)


def erfc_polynomial(u: Expr) -> tuple[Expr, Expr]:
    """Returns the polynomial of ``ERFC``, rounded, and its error: the last two steps are exact."""
    constant, linear, *others = ERFC[format_of(u).places]
    rest = polynomial_of(u, others)
    inner = fma(u, rest, linear)
    inner_low = fma(u, rest, linear - inner)
    product, error = exact_product(u, inner)
    error = fma(u, inner_low, error + ERFC_CONSTANT_LOW[format_of(u).places])
    value, lost = quick_sum(constant, product)
    return value, lost + error
