"""The operations of kernels on NumPy's arrays: what each of them means, number by number."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from ..processor import ZEROS_ARE_ORDERED
from ..restoring import errstate
from .operations import KERNEL_OPERATIONS

__all__ = ["computed"]

# Functions of the C library, which takes the lanes that formulas leave, as NumPy's functions.
LIBRARY_FUNCTIONS: dict[str, Any] = {
    "cos": np.cos, "fmod": np.fmod, "sin": np.sin, "tan": np.tan,
}  # fmt: skip
# The floats of whose zeros an extremum is the second, whichever is the larger.
OF_SECOND_ZERO = "eE" if ZEROS_ARE_ORDERED else "efdE"
# An addend so many binary places below a product, or above it, decides by its sign alone.
FAR = 220


def computed(
    operation: str, values: Sequence[Any], dtype: np.dtype[Any], detail: Any = None
) -> Any:
    """Returns what an operation gives for arrays of operands.

    Args:
        operation: one of ``operations.OPERATIONS``, ``fma``, ``cast``, ``bits`` or ``library``.
        values: the operands, whose shapes broadcast.
        dtype: the dtype of the result.
        detail: the name of the library's function.

    Returns:
        An array of that dtype.

    Raises:
        KeyError: there is no such operation.

    >>> import numpy as np
    >>> computed("fma", [np.float64(3), np.float64(2), np.float64(1)], np.dtype(float))
    array(7.)
    """
    arrays = [np.asarray(x) for x in values]
    with errstate(all="ignore"):
        if operation == "cast":
            found = arrays[0].astype(dtype)
        elif operation == "bits":
            found = np.ascontiguousarray(arrays[0]).view(dtype).reshape(arrays[0].shape)
        elif operation == "fma":
            found = _fma(*arrays)
        elif operation == "library":
            found = _library_values(detail, *arrays)
        elif operation in ("maximum", "minimum") and dtype.char in OF_SECOND_ZERO:
            found = _extremum_of(operation, *arrays)
        else:
            found = KERNEL_OPERATIONS[operation](*arrays)
    return np.asarray(found, dtype)


def _extremum_of(operation: str, x: Any, y: Any) -> Any:
    """The first number where it lies beyond the second or is NaN, else the second."""
    beyond = x > y if operation == "maximum" else x < y
    return np.where(beyond | np.isnan(x), x, y)


def _library_values(name: str, where: Any, otherwise: Any, *operands: Any) -> Any:
    mask, found, *given = np.broadcast_arrays(where, otherwise, *operands)
    found = found.copy()
    # Single precision is computed in double: NumPy's own functions of it may be 4 ulp off.
    found[mask] = LIBRARY_FUNCTIONS[name](*[x[mask].astype(np.float64) for x in given])
    return found


# -- x * y + z, rounded once


def _fma(x: Any, y: Any, z: Any) -> Any:
    x, y, z = np.broadcast_arrays(x, y, z)
    dtype = x.dtype
    if dtype != np.float64:
        # The product of two narrow numbers is exact in double precision.
        total = _odd_sum(x.astype(np.float64) * y.astype(np.float64), z.astype(np.float64))
        if dtype.itemsize < 4:
            narrow = total.astype(np.float32)
            total = _to_odd(narrow, total - narrow)
        return total.astype(dtype)
    found = np.asarray(x * y + z)
    # Where an operand is zero there is one rounding at most; NaN and infinities are as they are.
    plain = (x == 0) | (y == 0) | ~(np.isfinite(x) & np.isfinite(y) & np.isfinite(z))
    hard = ~plain
    if hard.any():
        found[hard] = _double_fma(x[hard], y[hard], z[hard])
    return found


def _double_fma(x: Any, y: Any, z: Any) -> Any:
    """Finite numbers, of which x and y are not zero.

    The numbers are scaled so that the larger one of product and addend lies about 1.
    """
    x, x_exponent = np.frexp(x)
    y, y_exponent = np.frexp(y)
    z, z_exponent = np.frexp(z)
    product = x_exponent + y_exponent
    exponent = np.where(z == 0, product, np.maximum(product, z_exponent))
    x = np.ldexp(x, np.maximum(product - exponent, -FAR))
    z = np.ldexp(z, np.maximum(z_exponent - exponent, -FAR))
    found = _rounded_sum(*_exact_product(x, y), z)
    scaled = np.ldexp(found, exponent)
    # Subnormal results would be rounded a second time.
    small = np.abs(scaled) < 2.0**-1021
    if small.any():
        scaled[small] = [
            float((Fraction(a) * Fraction(b) + Fraction(c)) * Fraction(2) ** int(e))
            for a, b, c, e in zip(x[small], y[small], z[small], exponent[small])
        ]
        # A sum that is zero was exact: its sign is that of the rounded sum.
        scaled = np.where(scaled == 0, np.copysign(scaled, found), scaled)
    return scaled


def _rounded_sum(high: Any, low: Any, z: Any) -> Any:
    """``high + low + z``, rounded once: the sum of the low parts is rounded to odd.

    S. Boldo, G. Melquiond, Emulation of a FMA and correctly rounded sums: proved algorithms using
    rounding to odd, IEEE Transactions on Computers 57, 2008.
    """
    above, below = _exact_sum(z, low)
    first, second = _exact_sum(high, above)
    return first + _odd_sum(below, second)


def _exact_product(x: Any, y: Any) -> tuple[Any, Any]:
    """The rounded product and its error, by halves of 26 bits: T. J. Dekker, 1971."""
    high = x * y
    (a, b), (c, d) = _halves(x), _halves(y)
    return high, ((a * c - high) + a * d + b * c) + b * d


def _halves(x: Any) -> tuple[Any, Any]:
    scaled = x * (2.0**27 + 1)
    high = scaled - (scaled - x)
    return high, x - high


def _exact_sum(x: Any, y: Any) -> tuple[Any, Any]:
    """The rounded sum and its error: D. E. Knuth, 1969."""
    total = x + y
    shown = total - x
    return total, (x - (total - shown)) + (y - shown)


def _odd_sum(x: Any, y: Any) -> Any:
    return _to_odd(*_exact_sum(x, y))


def _to_odd(rounded: Any, error: Any) -> Any:
    """An inexact number becomes that one of its two neighbours whose last bit is 1."""
    last = np.asarray(rounded).view(f"u{rounded.dtype.itemsize}") & 1
    even = (error != 0) & np.isfinite(rounded) & (last == 0)
    toward = np.copysign(np.inf, error).astype(rounded.dtype)
    return np.where(even, np.nextafter(rounded, toward), rounded)
