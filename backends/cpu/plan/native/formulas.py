"""Primitives as operations of kernels: the formulas of eager mode, term by term.

Results differ from eager ones by the rounding of functions such as ``exp`` alone. Operands of the
table are floats of the result's dtype.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from typing import Any, Protocol, TypeVar

import numpy as np

from ....kernels.functions import FORMULAS
from ....kernels.graph import Expr, cast, function, select
from ....kernels.operations import KERNEL_COMPARISONS, KERNEL_OPERATIONS
from ....processor import IS_ARM64, IS_X86_64, ZEROS_ARE_ORDERED
from ...where_and_extrema import LARGEST_PRODUCT_POWER
from ..shared_formulas import SHARED_FORMULAS, limited, reciprocal
from .special_formulas import SPECIAL_FORMULAS, STEP_UFUNCS, nextafter
from .whole_formulas import WHOLE_UFUNCS, with_sign_of

__all__ = [
    *("ELEMENT_FORMULAS", "UFUNCS", "compared", "nonzero", "power"),
    *("product_of_same", "remainder", "whole_power"),
]


class Multiplied(Protocol):
    """A real or a complex node."""

    def __mul__(self, other: Any, /) -> Any:
        """Returns a product."""


Factor = TypeVar("Factor", bound=Multiplied)

# Sides below these are multiplied by a power of two, as subnormal numbers have few digits.
SMALL_SIDES = {"f": (2.0**-60, 2.0**84), "d": (2.0**-500, 2.0**560)}

exp, expm1, hypot, log1p = map(function, ("exp", "expm1", "hypot", "log1p"))
maximum, minimum, sqrt = map(function, ("maximum", "minimum", "sqrt"))


def clipped(x: Expr, low: Expr, high: Expr) -> Expr:
    """Returns x within limits, as NumPy's loops have it; NaN of any operand is the result."""
    lengths = x.graph.lengths
    if lengths and (low.axes | high.axes) & {len(lengths) - 1}:
        # Of two zeros that of the limit, as NumPy's loop over limits has it.
        x = select((x > low) | x.differs(x), x, low)
        return select((x < high) | x.differs(x), x, high)
    x = select((x < low) | low.differs(low), low, x)
    return select((x > high) | high.differs(high), high, x)


def log_ratio(x: Expr, y: Expr) -> Expr:
    """Returns ``x - y``; -inf where x is, 0 where both are inf."""
    lower = minimum(x, x.graph.constant(0.0, x.dtype))
    return select(x.equals(y) & abs(y).equals(np.inf), lower, x - y)


def logaddexp(x: Expr, y: Expr) -> Expr:
    """Returns ``log(exp(x) + exp(y))``."""
    return log1p(exp(-abs(log_ratio(x, y)))) + maximum(x, y)


SIMPLE_POWERS: dict[float, Callable[[Expr], Expr]] = {
    0.5: sqrt,
    1.0: lambda x: x,
    2.0: lambda x: x * x,
    -1.0: reciprocal,
}


def whole_power(x: Expr, exponent: int) -> Expr:
    """Returns a power of integers, which wraps around; the exponent is not negative."""
    return product_of_same(x, exponent) if exponent else x.graph.constant(1, x.dtype)


def power(x: Expr, exponent: float) -> Expr | None:
    """Returns a power that is a product or a root; None for others."""
    if exponent in SIMPLE_POWERS:
        return SIMPLE_POWERS[exponent](x)
    if exponent == 0 or not isfinite(exponent) or exponent != int(exponent):
        return None
    rest = abs(int(exponent))
    if rest > LARGEST_PRODUCT_POWER:
        return None
    found = product_of_same(x, rest)
    return reciprocal(found) if exponent < 0 else found


def product_of_same(x: Factor, count: int) -> Factor:
    """Returns the product of so many of the same factor, at least one, by repeated squares."""
    found: Factor | None = None
    while count:
        if count & 1:
            found = x if found is None else found * x
        count >>= 1
        if count:
            x = x * x
    assert found is not None
    return found


def exceeds(x: Expr, y: Expr) -> Expr:
    """Returns 1 where x exceeds y, 0.5 where they are equal, 0 elsewhere."""
    return select(
        x > y,
        x.graph.constant(1.0, x.dtype),
        select(x.equals(y), x.graph.constant(0.5, x.dtype), 0.0),
    )


def ratio_of_sides(x: Expr, y: Expr) -> Expr:
    """Returns ``x / hypot(x, y)``, and 0 at the origin."""
    smallest, scale = SMALL_SIDES[x.dtype.char]
    factor = select(maximum(abs(x), abs(y)) < smallest, x.graph.constant(scale, x.dtype), 1.0)
    longest = hypot(x * factor, y * factor)
    return x * factor / select(longest.equals(0.0), 1.0, longest)


ELEMENT_FORMULAS: dict[str, Callable[..., Expr]] = {
    **SHARED_FORMULAS,
    **SPECIAL_FORMULAS,
    "exceeds": exceeds,
    "expm1": expm1,
    "log_ratio": log_ratio,
    "logaddexp": logaddexp,
    "side_ratio": ratio_of_sides,
}

# Those of float16, of which NumPy's ``maximum`` returns the first of two zeros.
HALF_FORMULAS: dict[str, Callable[..., Expr]] = {
    "relu": lambda x: limited(x, 0.0, np.inf),
    "relu_biased": lambda x, y: limited(x + y, 0.0, np.inf),
}

# -- NumPy's ufuncs, of operands in the dtypes of their loops


def nonzero(x: Expr) -> Expr:
    """Returns where a number is not 0."""
    return x if x.dtype.kind == "b" else x.differs(0)


def _sign(x: Expr) -> Expr:
    one, zero = (x.graph.constant(n, x.dtype) for n in (1, 0))
    if x.dtype.kind == "u":
        return select(x > 0, one, zero)
    found = select(x > 0, one, select(x < 0, -one, zero))
    return select(x.differs(x), x, found) if x.dtype.kind == "f" else found


def _beside_nan(extremum: Callable[..., Expr], x: Expr, y: Expr) -> Expr:
    """Returns an extremum of two numbers; the other one where one is NaN."""
    if ZEROS_ARE_ORDERED:
        return select(y.differs(y), x, select(x.differs(x), y, extremum(x, y)))
    beyond = x >= y if extremum is maximum else x <= y
    return select(y.differs(y) | beyond, x, y)


def _signbit(x: Expr) -> Expr:
    whole = x.graph.converted("bits", x, np.dtype(f"i{x.dtype.itemsize}"))
    return whole < 0


UFUNCS: dict[str, Callable[..., Expr]] = {
    **{
        name: function(name)
        for name in (
            "add", "bitwise_and", "bitwise_or", "bitwise_xor", "divide", "invert", "maximum",
            "minimum", "multiply", "negative", "subtract", *KERNEL_COMPARISONS,
        )
    },
    **{name: function(name) for name in ("ceil", "floor", "rint", "sqrt", "trunc")},
    **{name: function(name) for name in FORMULAS if hasattr(np, name)},
    "absolute": abs,
    "conjugate": lambda x: x,
    "copysign": with_sign_of,
    "deg2rad": lambda x: x * (np.pi / 180),
    "fmax": lambda x, y: _beside_nan(maximum, x, y),
    "fmin": lambda x, y: _beside_nan(minimum, x, y),
    "isfinite": lambda x: abs(x) < np.inf,
    "isinf": lambda x: abs(x).equals(np.inf),
    "isnan": lambda x: x.differs(x),
    "logical_and": lambda x, y: nonzero(x) & nonzero(y),
    "logical_not": lambda x: ~nonzero(x),
    "logical_or": lambda x, y: nonzero(x) | nonzero(y),
    "logical_xor": lambda x, y: nonzero(x) ^ nonzero(y),
    "positive": lambda x: x,
    "rad2deg": lambda x: x * (180 / np.pi),
    "reciprocal": reciprocal,
    "sign": _sign,
    "signbit": _signbit,
    "square": lambda x: x * x,
    **STEP_UFUNCS,
    **WHOLE_UFUNCS,
}  # fmt: skip
# Those of float16, which return the first of two zeros.
HALF_UFUNCS: dict[str, Callable[..., Expr]] = {
    "fmax": lambda x, y: select(y.differs(y) | (x >= y), x, y),
    "fmin": lambda x, y: select(y.differs(y) | (x <= y), x, y),
    "maximum": lambda x, y: select((x >= y) | x.differs(x), x, y),
    "minimum": lambda x, y: select((x <= y) | x.differs(x), x, y),
    "nextafter": lambda x, y: nextafter(x, y, np.float16),
}
# Ufuncs whose results for integers are no such operation; for floats alone they are taken.
FLOATS_ALONE = frozenset(
    {
        "ceil",
        "floor",
        "rint",
        "trunc",
        "reciprocal",
        "signbit",
        "isfinite",
        "isinf",
        "isnan",
    }
)


def compared(name: str, x: Expr, y: Expr) -> Expr:
    """Returns a comparison of integers of which one alone has a sign, as of whole numbers."""
    signed = x if x.dtype.kind == "i" else y
    whole = next(v.dtype for v in (x, y) if v.dtype.kind == "u")
    below = KERNEL_OPERATIONS[name](*(-1, 0) if signed is x else (0, -1))
    same = x.graph.op(name, cast(x, whole), cast(y, whole))
    return select(signed < 0, x.graph.constant(below, bool), same)


def casted(x: Expr, dtype: np.dtype[Any]) -> Expr | None:
    """Returns ``astype``; None where a processor's own rule would decide the result.

    For NaN and floats out of range x86-64 gives the smallest int32 or int64, as NumPy does there.
    Narrower integers are the last bits of int32.
    """
    if x.dtype.kind == "f" and dtype.kind in "iu":
        if x.dtype.char not in "efd":
            return None
        if IS_ARM64:
            return nearest_whole(x, dtype)
        if x.dtype.char == "e":
            x = cast(x, np.float32)
        if not IS_X86_64:
            return None
        whole = np.dtype(np.int32) if dtype.itemsize < 4 else dtype
        if whole not in (np.int32, np.int64):
            return None
        end = 2.0 ** (8 * whole.itemsize - 1)
        inside = (x >= -end) & (x < end)
        if x.dtype == np.float64 and whole == np.int32:
            inside = (x > -end - 1) & (x < end)
        found = select(inside, cast(select(inside, x, 0.0), whole), np.iinfo(whole).min)
        return cast(found, dtype)
    return cast(x, dtype)


def nearest_whole(x: Expr, dtype: np.dtype[Any]) -> Expr:
    """Returns ``astype`` of arm64: 0 for NaN, and else the nearest number of 32 or 64 bits.

    Narrower integers are the last bits of 32. Of numbers out of range NumPy there has these or
    others, by the places of elements in an array, where it casts float64 to fewer than 64 bits.
    """
    whole = dtype if dtype.itemsize >= 4 else np.dtype(np.int32)
    if x.dtype.char == "e":
        whole = dtype if dtype.itemsize >= 4 else np.dtype(f"{dtype.kind}4")
        x = cast(x, np.float32)
    limits, end = np.iinfo(whole), 2.0 ** (8 * whole.itemsize - (whole.kind == "i"))
    begin = -end if whole.kind == "i" else 0.0
    inside = (x >= begin) & (x < end)
    outside = select(x >= end, x.graph.constant(limits.max, whole), limits.min)
    found = select(inside, cast(select(inside, x, 0.0), whole), outside)
    return cast(select(x.differs(x), 0, found), dtype)


def remainder(x: Expr, divisor: int) -> Expr:
    """Returns the remainder of whole numbers by a positive constant."""
    if divisor & (divisor - 1) == 0:
        return x & (divisor - 1)
    return x.graph.op("remainder", x, divisor)
