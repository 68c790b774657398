"""NumPy's functions of single elements for large arrays, in parts that threads share.

Each of them is one pass over memory, which two cores read and write in half of the time of one.
Results have the bits and the layout of NumPy's own. Where two NaN meet, either of them comes out:
NumPy's choice depends on the place in an array.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from typing import TYPE_CHECKING, Any

import numpy as np

from .blocks import order_in_memory, row_blocks
from .parallel import is_done_side_by_side, is_sharing_possible

if TYPE_CHECKING:
    from ..annotations import Buffer

__all__ = ["LARGE_UFUNCS", "shared_when_large"]

# Functions whose result for an element does not depend on where in an array it lies.
LARGE_UFUNCS = frozenset(
    {
        "add", "divide", "exp", "log", "log1p", "multiply", "negative", "sqrt", "square",
        "subtract", "tanh",
    }
)  # fmt: skip
# Arrays of fewer elements take less time than it may take to wake a thread.
FEWEST_SHARED_ELEMENTS = 1 << 19
ELEMENTS_OF_A_PART = 1 << 17
WEAK_NUMBERS = frozenset({int, float})


def shared_when_large(ufunc: Any) -> Callable[..., Any]:
    """Returns a function that does the same as one of NumPy's, on several threads if it pays."""
    ndarray = np.ndarray

    def of_one(x: Any) -> Any:
        if type(x) is ndarray and x.size >= FEWEST_SHARED_ELEMENTS:
            return shared_ufunc(ufunc, x)
        return ufunc(x)

    def of_two(x: Any, y: Any) -> Any:
        if type(x) is ndarray and x.size >= FEWEST_SHARED_ELEMENTS:
            return shared_ufunc(ufunc, x, y)
        if type(y) is ndarray and y.size >= FEWEST_SHARED_ELEMENTS:
            return shared_ufunc(ufunc, y, x, turned=True)
        return ufunc(x, y)

    run = wraps(ufunc)(of_one if ufunc.nin == 1 else of_two)
    run.wide = ufunc  # type: ignore[attr-defined]
    return run


def shared_ufunc(ufunc: Any, x: Buffer, *others: Any, turned: bool = False) -> Any:
    """Returns what a ufunc makes of a large array and maybe another operand, first if turned."""
    operands = (*others, x) if turned else (x, *others)
    shared = x.dtype.char in "fd" and x.dtype.isnative and is_sharing_possible()
    if not (shared and all(fits_beside(y, x) for y in others)):
        return ufunc(*operands)
    order = order_in_memory(x)
    if not x.transpose(order).flags.c_contiguous:
        return ufunc(*operands)
    result = np.empty_like(x)
    out = result.transpose(order)
    given = [
        y if np.ndim(y) == 0 else np.broadcast_to(y, x.shape).transpose(order) for y in operands
    ]
    if all(np.ndim(y) == 0 or y.flags.c_contiguous for y in given):
        *given, out = (y if np.ndim(y) == 0 else y.reshape(-1) for y in (*given, out))
    rows = len(out)

    def some(parts: Iterable[slice]) -> None:
        for part in parts:
            ufunc(*[y if np.ndim(y) == 0 else y[part] for y in given], out=out[part])

    parts = list(row_blocks(rows, out.size // rows, ELEMENTS_OF_A_PART))
    if not is_done_side_by_side(some, parts):
        ufunc(*operands, out=result)
    return result


def fits_beside(y: Any, x: Buffer) -> bool:
    """Says whether the result for x and y has x's shape, layout and dtype."""
    if type(y) is not np.ndarray:
        return type(y) in WEAK_NUMBERS or type(y) is x.dtype.type
    if y.dtype != x.dtype or y.ndim > x.ndim:
        return False
    if y.shape == x.shape and y.strides == x.strides:
        return True
    one_axis = sum(n > 1 for n in y.shape) <= 1
    lengths = zip(y.shape[::-1], x.shape[::-1], strict=False)
    return (one_axis or x.flags.c_contiguous) and all(n in (1, m) for n, m in lengths)
