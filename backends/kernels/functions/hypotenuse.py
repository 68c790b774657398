"""The length of the sum of two perpendicular vectors, without overflow on the way.

In double precision the root of the sum is corrected by what rounding took of the squares and of
the sum, after C. F. Borges, An improved algorithm for hypot(a,b), 2019.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..graph import cast, function, select
from .formats import DOUBLE_FORMAT, SINGLE_FORMAT, format_of
from .polynomials import exact_product, fma, quick_sum

if TYPE_CHECKING:
    from ..graph import Expr

__all__ = ["hypot"]

sqrt = function("sqrt")
# Squares of larger numbers overflow, and those of smaller ones lose digits.
LARGE_LEG, SMALL_LEG, SCALE = 2.0**500, 2.0**-400, 2.0**600


def hypot(x: Expr, y: Expr) -> Expr:
    """Returns ``sqrt(x**2 + y**2)``; infinity if one of them is infinite."""
    x, y = abs(x), abs(y)
    if format_of(x) is SINGLE_FORMAT:
        # Squares of narrow numbers are exact in double precision.
        a, b = (cast(v, DOUBLE_FORMAT.dtype) for v in (x, y))
        found = cast(sqrt(a * a + b * b), SINGLE_FORMAT.dtype)
    else:
        found = double_hypot(select(x < y, y, x), select(x < y, x, y))
    return select(x.equals(np.inf) | y.equals(np.inf), np.inf, found)


def double_hypot(longer: Expr, shorter: Expr) -> Expr:
    """Returns the length of two doubles, neither of them negative."""
    large, small = longer > LARGE_LEG, longer < SMALL_LEG
    one = longer.graph.constant(1.0, longer.dtype)
    scale = select(large, 1 / SCALE, select(small, SCALE, one))
    a, a_low = exact_product(longer * scale, longer * scale)
    b, b_low = exact_product(shorter * scale, shorter * scale)
    total, lost = quick_sum(a, b)
    root = sqrt(total)
    rest = fma(-root, root, total) + (lost + (a_low + b_low))
    root = select(total > 0.0, root + rest / (root + root), total)
    return root * select(large, SCALE, select(small, 1 / SCALE, one))
