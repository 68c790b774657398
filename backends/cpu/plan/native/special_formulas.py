"""Functions of one or two floats as nodes that NumPy or SciPy have, with their formulas."""

from __future__ import annotations

from collections.abc import Callable
from math import pi, sqrt
from typing import Any

import numpy as np

from ....kernels.graph import Expr, cast, function, select
from ..shared_formulas import gelu as approximate_gelu
from ..shared_formulas import gelu_unit_grad as approximate_gelu_grad
from ..shared_formulas import limited

__all__ = ["SPECIAL_FORMULAS", "STEP_UFUNCS", "nextafter"]

erf, erfc, exp, log, log1p = map(function, ("erf", "erfc", "exp", "log", "log1p"))
# Between these numbers the quotient of ``logit`` is close to 1.
NEAR_HALF = (0.3, 0.65)
# Beyond this number a standard normal one has no probability and no density in double precision.
LARGEST_OF_NORMAL = 56.0


def product_with(logarithm: Callable[[Expr], Expr]) -> Callable[[Expr, Expr], Expr]:
    """Returns the product of x and a logarithm of y: 0 where x is 0 and y a number."""

    def product(x: Expr, y: Expr) -> Expr:
        return select(x.equals(0.0) & y.equals(y), 0.0, x * logarithm(y))

    return product


def entr(x: Expr) -> Expr:
    """Returns ``-x log(x)``: 0 at 0, and -inf left of it."""
    return select(x > 0.0, -x * log(x), select(x.equals(0.0), 0.0, select(x < 0.0, -np.inf, x)))


def logit(x: Expr) -> Expr:
    """Returns ``log(x / (1 - x))``, by the distance from 1/2 where that is small."""
    low, high = NEAR_HALF
    s = 2.0 * (x - 0.5)
    near = (x > low) & (x < high)
    return select(near, log1p(s) - log1p(-s), log(x / (1.0 - x)))


def ndtr(x: Expr) -> Expr:
    """Returns the probability that a standard normal number is at most x, in double precision."""
    z = cast(x, np.float64) * sqrt(0.5)
    size = abs(z)
    tail = 0.5 * erfc(size)
    found = select(size < 1.0, 0.5 + 0.5 * erf(z), select(z > 0.0, 1.0 - tail, tail))
    return cast(found, x.dtype)


def tail_of(x: Expr) -> tuple[Expr, Expr]:
    """Returns the probability that a standard normal number is above abs(x), and abs(x), bounded.

    Where the bound counts, the probability is 0.
    """
    size = limited(abs(x), 0.0, LARGEST_OF_NORMAL)
    return 0.5 * erfc(size * sqrt(0.5)), size


def gelu(x: Expr, *, approximate: bool) -> Expr:
    """Returns ``x P(X <= x)`` of a standard normal X, or its approximation by a sigmoid.

    It is ``max(x, 0) - abs(x) P(X > abs(x))``, where nothing cancels for negative x.
    """
    if approximate:
        return approximate_gelu(x, approximate=True)
    tail, size = tail_of(x)
    return limited(x, 0.0, np.inf) - size * tail


def gelu_unit_grad(x: Expr, *, approximate: bool) -> Expr:
    """Returns the derivative of ``gelu``."""
    if approximate:
        return approximate_gelu_grad(x, approximate=True)
    tail, size = tail_of(x)
    share = tail - size * (exp(size * size * -0.5) * (1.0 / sqrt(2.0 * pi)))
    return select(x >= 0.0, 1.0 - share, share)


SPECIAL_FORMULAS: dict[str, Callable[..., Expr]] = {
    "entr": entr,
    "gelu": gelu,
    "gelu_grad": lambda x, y, *, approximate: gelu_unit_grad(y, approximate=approximate) * x,
    "gelu_unit_grad": gelu_unit_grad,
    "logit": logit,
    "ndtr": ndtr,
    "xlog1py": product_with(log1p),
    "xlogy": product_with(log),
}


def heaviside(x: Expr, y: Expr) -> Expr:
    """Returns 0 left of 0, 1 right of it, and y there."""
    zero, one = (x.graph.constant(n, x.dtype) for n in (0.0, 1.0))
    return select(x.equals(0.0), y, select(x > 0.0, one, select(x < 0.0, zero, x)))


def nextafter(x: Expr, y: Expr, dtype: Any = None) -> Expr:
    """Returns the number after x on the way to y: their bits are one apart as integers.

    Args:
        x, y: the numbers, those of float16 in single precision.
        dtype: the dtype of the numbers, if that is another one than the operands have.
    """
    form = np.dtype(dtype or x.dtype)
    whole = np.dtype(f"i{form.itemsize}")
    convert = x.graph.converted
    own, target = (convert("bits", cast(v, form), whole) for v in (x, y))
    top = 1 << (8 * form.itemsize - 1)
    # The smallest number, with the sign of y, comes after 0.
    least = (target & -top) | 1
    away = (y > x) ^ (x < 0.0)
    moved = select(x.equals(0.0), least, own + select(away, own.graph.constant(1, whole), -1))
    # Of two zeros the second, as in C, and the first one of float16, as in NumPy.
    same = x if form == np.float16 else y
    found = select(x.equals(y), same, cast(convert("bits", moved, form), x.dtype))
    return select(x.differs(x) | y.differs(y), x + y, found)


STEP_UFUNCS: dict[str, Callable[..., Expr]] = {"heaviside": heaviside, "nextafter": nextafter}
