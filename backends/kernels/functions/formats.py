"""Binary formats of floats: their signs, exponents and mantissas as bits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..graph import bits, select

if TYPE_CHECKING:
    from ..graph import Expr

__all__ = [
    *(
        "DOUBLE_FORMAT",
        "SINGLE_FORMAT",
        "Format",
        "capped",
        "format_of",
        "nearest_integer",
        "power_of_two",
    ),
    *("scaled_by_power", "sign_bit", "with_sign"),
]


class Format:
    """A binary format of floats.

    Attributes:
        dtype: its dtype.
        whole: the unsigned integers of that size.
        mantissa: the number of bits behind the leading one.
        bias: what is added to an exponent.
        tiny: the smallest normal number.
        magic: a number so large that the numbers beside it lie 1 apart.
        places: the place of its coefficients in pairs for single and double precision.
    """

    def __init__(self, dtype: Any) -> None:
        self.dtype: np.dtype[Any] = np.dtype(dtype)
        size = self.dtype.itemsize
        limits = np.finfo(self.dtype)
        self.whole: np.dtype[Any] = np.dtype(f"u{size}")
        self.mantissa = int(limits.nmant)
        self.bias = int(limits.maxexp) - 1
        self.tiny = float(limits.tiny)
        self.magic = 1.5 * 2.0**self.mantissa
        self.places = size // 4 - 1

    def pattern(self, number: float) -> int:
        """Returns the bits of a number."""
        return int(np.asarray(number, self.dtype).view(self.whole))

    def parts(self, text: Any, count: int) -> list[float]:
        """Returns numbers whose sum is a constant, to so many times the format's precision.

        Args:
            text: the constant: a fraction of integers.
            count: how many numbers.
        """
        found = []
        for _ in range(count):
            found.append(float(self.dtype.type(float(text))))
            text -= type(text)(found[-1])
        return found


SINGLE_FORMAT = Format(np.float32)
DOUBLE_FORMAT = Format(np.float64)


def format_of(x: Expr) -> Format:
    """Returns the format of a node of floats."""
    return SINGLE_FORMAT if x.dtype == SINGLE_FORMAT.dtype else DOUBLE_FORMAT


def capped(x: Expr, low: float | None, high: float | None) -> Expr:
    """Returns a number moved between two limits; NaN stays."""
    if high is not None:
        x = select(x > high, high, x)
    return x if low is None else select(x < low, low, x)


def nearest_integer(x: Expr, factor: float, offset: int = 0) -> tuple[Expr, Expr]:
    """Returns the integer nearest to ``factor * x``, as a float and as bits.

    The last bits of ``magic + offset + integer`` are those of ``offset + integer``.
    """
    form = format_of(x)
    magic = form.magic + offset
    shifted = x.graph.fma(x, factor, magic)
    return shifted - magic, bits(shifted, form.whole)


def power_of_two(exponent: Expr, form: Format) -> Expr:
    """Returns the power of two whose biased exponent stands in the last bits of an integer."""
    return bits(exponent << form.mantissa, form.dtype)


def scaled_by_power(x: Expr, exponent: Expr) -> Expr:
    """Returns ``x * 2**k``, rounded once where the result is subnormal.

    Args:
        x: a number of about 1.
        exponent: an integer whose last bits are ``k + 2 * bias``.
    """
    form = format_of(x)
    half = exponent >> 1
    return x * power_of_two(half, form) * power_of_two(exponent - half, form)


def sign_bit(x: Expr) -> Expr:
    """Returns the bit of the sign, in its place."""
    form = format_of(x)
    return bits(x, form.whole) & (1 << (8 * form.dtype.itemsize - 1))


def with_sign(x: Expr, sign: Expr) -> Expr:
    """Returns a number whose sign is changed by a bit in the sign's place."""
    form = format_of(x)
    return bits(bits(x, form.whole) ^ sign, form.dtype)
