"""Division with remainder, shifts and decimals as nodes, with NumPy's results in all cases."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ....kernels.graph import Expr, cast, function, select
from ....restoring import errstate

if TYPE_CHECKING:
    from ....annotations import DType

__all__ = ["WHOLE_UFUNCS", "rounded", "with_sign_of"]

# Of powers of ten that are doubles.
LARGEST_WRITTEN_POWER = 308
floor, fmod_of_floats, rint = map(function, ("floor", "fmod", "rint"))


def with_sign_of(x: Expr, y: Expr) -> Expr:
    """Returns x with the sign of y."""
    whole = np.dtype(f"u{x.dtype.itemsize}")
    sign = 1 << (8 * x.dtype.itemsize - 1)
    convert = x.graph.converted
    both = (convert("bits", x, whole) & (sign - 1)) | (convert("bits", y, whole) & sign)
    return convert("bits", both, x.dtype)


def zero_of(y: Expr) -> Expr:
    """Returns zero with the sign of a number."""
    return with_sign_of(y.graph.constant(0, y.dtype), y)


def quotient_by_sign(x: Expr, y: Expr) -> tuple[Expr, Expr]:
    """Returns what C leaves of the quotient of floats, and where that lies beyond the divisor."""
    rest = fmod_of_floats(x, y)
    return rest, rest.differs(0.0) & ((rest < 0.0) ^ (y < 0.0))


def remainder(x: Expr, y: Expr) -> Expr:
    """Returns what is left of x by a quotient that is rounded down, with the sign of y."""
    if x.dtype.kind != "f":
        return x.graph.op("remainder", x, y)
    rest, beyond = quotient_by_sign(x, y)
    return select(rest.differs(0.0), select(beyond, rest + y, rest), zero_of(y))


def floor_divide(x: Expr, y: Expr) -> Expr:
    """Returns the quotient rounded down: of floats the nearest whole number to an exact one."""
    if x.dtype.kind != "f":
        return x.graph.op("floor_divide", x, y)
    rest, beyond = quotient_by_sign(x, y)
    share = (x - rest) / y
    share = select(beyond, share - 1.0, share)
    whole = floor(share)
    whole = select(share - whole > 0.5, whole + 1.0, whole)
    plain = x / y
    return select(y.equals(0.0), plain, select(share.differs(0.0), whole, zero_of(plain)))


def fmod(x: Expr, y: Expr) -> Expr:
    """Returns what is left of x by a quotient that is rounded towards zero."""
    if x.dtype.kind == "f":
        return fmod_of_floats(x, y)
    rest = x.graph.op("remainder", x, y)
    if x.dtype.kind == "u":
        return rest
    return select(rest.differs(0) & ((x ^ y) < 0), rest - y, rest)


def left_shift(x: Expr, y: Expr) -> Expr:
    """Returns shifted bits; nothing is left behind the last one."""
    place, inside = place_of_bit(x, y)
    return x << place if inside is None else select(inside, x << place, 0)


def right_shift(x: Expr, y: Expr) -> Expr:
    """Returns shifted bits; behind the last one those of the sign are left."""
    place, inside = place_of_bit(x, y)
    if inside is None:
        return x >> place
    beyond: Any = x >> (8 * x.dtype.itemsize - 1) if x.dtype.kind == "i" else 0
    return select(inside, x >> place, beyond)


def place_of_bit(x: Expr, y: Expr) -> tuple[Expr, Expr | None]:
    """Returns by how much is shifted, and where that is less than x has bits; None everywhere.

    Negative numbers are larger than that, as in C.
    """
    count = 8 * x.dtype.itemsize
    if y.operation == "constant" and 0 <= int(y.detail) < count:
        return y, None
    inside = x.graph.converted("bits", y, np.dtype(f"u{y.dtype.itemsize}")) < count
    return y & (count - 1), inside


WHOLE_UFUNCS: dict[str, Callable[..., Expr]] = {
    "floor_divide": floor_divide,
    "fmod": fmod,
    "left_shift": left_shift,
    "remainder": remainder,
    "right_shift": right_shift,
}


def rounded(x: Expr, decimals: int, dtype: DType) -> Expr | None:
    """Returns numbers rounded to decimals as NumPy does it; None where that is no formula.

    Args:
        x: the numbers, those of float16 in single precision.
        decimals: how many digits stay behind the point.
        dtype: the dtype of the numbers, to which each step is rounded.
    """
    if dtype.kind != "f":
        return x if decimals >= 0 and dtype.kind in "iu" else None
    if not decimals:
        return rint(x)
    if abs(decimals) > LARGEST_WRITTEN_POWER:
        return None

    def step(y: Expr) -> Expr:
        return cast(cast(y, dtype), x.dtype)

    with errstate(all="ignore"):
        scale = cast(x.graph.constant(10.0 ** abs(decimals), dtype), x.dtype)
    if decimals > 0:
        return rint(step(x * scale)) / scale
    return rint(step(x / scale)) * scale
