"""Activation functions in a few passes, for NumPy's buffers.

All but softplus go through ``1 / (1 + exp(-w))``: where exp overflows, the quotient is the limit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..arrays.nn_formulas import GELU_CUBIC, GELU_LINEAR
from .blocks import BLOCK_ELEMENTS, blockwise
from .error_function import gelu_exact, gelu_exact_grad
from .stacks import has_listed_blocks

if TYPE_CHECKING:
    from ..annotations import Buffer

__all__ = ["gelu", "gelu_grad", "gelu_unit_grad", "sigmoid", "silu", "silu_grad", "softplus"]

DTYPE_OF_FLOATS = np.dtype(float)
# Below minus this, x over 1 + exp(-w) is zero for silu and gelu; -inf over inf would be NaN.
SMALLEST_GATED = {"f": -100.0, "d": -800.0}
# For larger arguments gelu's derivative is constant to the last digit. exp(-w) does not overflow.
LARGEST_STEEP = {"f": 10.0, "d": 20.0}


def _sigmoid_block(x: Buffer, out: Buffer) -> None:
    """Returns ``1 / (1 + exp(-x))``."""
    np.negative(x, out=out)
    np.exp(out, out=out)
    out += 1.0
    np.reciprocal(out, out=out)


def _silu_block(x: Buffer, out: Buffer, bounded: Buffer) -> None:
    """Returns ``x sigmoid(x)``."""
    np.negative(x, out=out)
    np.exp(out, out=out)
    out += 1.0
    x.clip(SMALLEST_GATED[x.dtype.char], np.inf, out=bounded)
    np.divide(bounded, out, out=out)


def _silu_grad_block(x: Buffer, out: Buffer, bounded: Buffer, odds: Buffer) -> None:
    # s (1 + x (1 - s)), where 1 - s is exp(-x) s; beyond the limits it is constant.
    limit = -0.875 * SMALLEST_GATED[x.dtype.char]
    x.clip(-limit, limit, out=bounded)
    np.negative(bounded, out=odds)
    np.exp(odds, out=odds)
    np.add(odds, 1.0, out=out)
    np.reciprocal(out, out=out)
    odds *= out
    odds *= bounded
    odds += 1.0
    out *= odds


def _softplus_block(x: Buffer, out: Buffer, rest: Buffer) -> None:
    """Returns ``log(1 + exp(x))``."""
    np.absolute(x, out=rest)
    np.negative(rest, out=rest)
    np.exp(rest, out=rest)
    np.log1p(rest, out=rest)
    x.clip(0.0, np.inf, out=out)
    out += rest


def _gelu_block(x: Buffer, out: Buffer, bounded: Buffer) -> None:
    np.multiply(x, x, out=out)
    out *= -GELU_CUBIC
    out -= GELU_LINEAR
    out *= x
    np.exp(out, out=out)
    out += 1.0
    x.clip(SMALLEST_GATED[x.dtype.char], np.inf, out=bounded)
    np.divide(bounded, out, out=out)


def _gelu_grad_block(x: Buffer, out: Buffer, bounded: Buffer, odds: Buffer, rise: Buffer) -> None:
    # s (1 + x w' (1 - s)), where 1 - s is exp(-w) s: nothing cancels.
    limit = LARGEST_STEEP[x.dtype.char]
    x.clip(-limit, limit, out=bounded)
    np.multiply(bounded, bounded, out=rise)
    np.multiply(rise, -GELU_CUBIC, out=odds)
    odds -= GELU_LINEAR
    odds *= bounded
    np.exp(odds, out=odds)
    np.add(odds, 1.0, out=out)
    np.reciprocal(out, out=out)
    rise *= 3.0 * GELU_CUBIC
    rise += GELU_LINEAR
    rise *= bounded
    odds *= out
    rise *= odds
    rise += 1.0
    out *= rise


def _gelu_grad_times_block(
    y: Buffer, x: Buffer, out: Buffer, bounded: Buffer, odds: Buffer, rise: Buffer
) -> None:
    _gelu_grad_block(y, out, bounded, odds, rise)
    out *= x


sigmoid = blockwise(_sigmoid_block)
silu = blockwise(_silu_block, 1)
_silu_unit_grad = blockwise(_silu_grad_block, 2)
softplus = blockwise(_softplus_block, 1)
_gelu_approximate = blockwise(_gelu_block, 1)
_gelu_approximate_grad = blockwise(_gelu_grad_block, 3)


def silu_grad(x: Buffer, y: Any) -> Any:
    """Returns the derivative of ``silu`` at y in the direction x."""
    # A number gets the dtype of the operand beside it.
    dtype = getattr(x, "dtype", None)
    weak = type(y) is float and dtype is not None and dtype.kind == "f"
    return _silu_unit_grad(x.dtype.type(y) if weak else y) * x


def gelu(x: Buffer, *, approximate: bool) -> Any:
    """Returns ``x P(X <= x)`` of a standard normal X, or its approximation by a sigmoid."""
    return (_gelu_approximate if approximate else gelu_exact)(x)


def gelu_unit_grad(x: Buffer, *, approximate: bool) -> Any:
    """Returns the derivative of ``gelu``."""
    return (_gelu_approximate_grad if approximate else gelu_exact_grad)(x)


def gelu_grad(x: Any, y: Any, *, approximate: bool) -> Any:
    """Returns the derivative of ``gelu`` at y in the direction x."""
    # A number gets the dtype of the operand beside it.
    if type(y) is float and getattr(x, "dtype", DTYPE_OF_FLOATS).kind == "f":
        y = getattr(x, "dtype", DTYPE_OF_FLOATS).type(y)
    if approximate and is_large_pair(x, y):
        out = np.empty(x.shape, x.dtype)
        if _has_listed_grad(x, y, out):
            return out
    slope = gelu_unit_grad(y, approximate=approximate)
    alike = type(slope) is type(x) is np.ndarray and slope.dtype == x.dtype
    # A large result in new memory would cost another way to it.
    return np.multiply(slope, x, out=slope if alike and slope.shape == x.shape else None)


def is_large_pair(x: Any, y: Any) -> bool:
    """Says whether operands are arrays alike in C order, of more than a block."""
    return (
        type(x) is type(y) is np.ndarray
        and x.size > BLOCK_ELEMENTS
        and x.dtype.char in "fd"
        and x.dtype == y.dtype
        and x.shape == y.shape
        and x.flags.c_contiguous
        and y.flags.c_contiguous
    )


def _has_listed_grad(x: Buffer, y: Buffer, out: Buffer) -> bool:
    """Fills memory with what ``gelu_grad`` returns, by a list of calls if there is one."""
    x, y, out = (v.reshape(-1) for v in (x, y, out))
    whole = has_listed_blocks(_gelu_grad_times_block, [y, x], out, 3, {})
    if 0 < whole < x.size:
        np.multiply(_gelu_approximate_grad(y[whole:]), x[whole:], out=out[whole:])
    return whole > 0
