"""Remainders of floats, which are exact.

``x - q y`` with the whole number of a quotient that was rounded: q is right or one too large. The
difference is a multiple of the last digit of y, and no larger than y, so that a fused
multiplication does not round it. The C library takes quotients that floats do not count one by one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..graph import function, select
from .formats import format_of, sign_bit, with_sign
from .polynomials import fma

if TYPE_CHECKING:
    from ..graph import Expr

__all__ = ["fmod"]

trunc = function("trunc")


def fmod(x: Expr, y: Expr) -> Expr:
    """Returns what is left of x by a quotient that is rounded towards zero, with the sign of x."""
    form = format_of(x)
    sign = sign_bit(x)
    size, divisor = with_sign(x, sign), abs(y)
    share = size / divisor
    rest = fma(-trunc(share), divisor, size)
    rest = select(rest < 0.0, rest + divisor, rest)
    # An infinite divisor leaves all.
    rest = select(size < divisor, size, rest)
    found = with_sign(rest, sign)
    large = share >= 2.0**form.mantissa
    return x.graph.library("fmod", large, found, x, y)
