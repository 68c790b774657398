"""Functions of one array that take many passes over it, done block by block.

A block is small enough to stay in the cache, so that its passes cost no traffic with the memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ..restoring import quiet
from .parallel import side_by_side
from .stacks import has_listed_blocks

if TYPE_CHECKING:
    from ..annotations import Buffer

__all__ = [
    "blockwise", "flat_in_memory", "inexact", "order_in_memory", "row_blocks", "shaped_like",
]  # fmt: skip

# Elements of a block. Smaller ones lose their gain to the calls, larger ones leave the cache.
BLOCK_ELEMENTS = 65536


def row_blocks(count: int, width: int, elements: int = 0) -> Iterator[slice]:
    """Returns slices of a number of rows, each of about so many elements, or of a block's."""
    step = max((elements or BLOCK_ELEMENTS) // max(width, 1), 1)
    return (slice(start, min(start + step, count)) for start in range(0, count, step))


def order_in_memory(x: Buffer) -> list[int]:
    """Returns the axes of an array, the one whose elements lie farthest apart first."""
    return sorted(range(x.ndim), key=x.strides.__getitem__, reverse=True)


def flat_in_memory(*arrays: Buffer) -> list[Buffer] | None:
    """Returns views of arrays with one axis, whose elements follow each other as in memory.

    None is returned unless all have the same shape and strides, without gaps.
    """
    first = arrays[0]
    order = order_in_memory(first)
    if not first.transpose(order).flags.c_contiguous:
        return None
    if any(x.shape != first.shape or x.strides != first.strides for x in arrays):
        return None
    return [x.transpose(order).reshape(-1) for x in arrays]


def shaped_like(out: Buffer, x: Buffer) -> Buffer:
    """Returns a result in an operand's shape, and in its dtype if that is real."""
    return out.reshape(x.shape).astype(x.dtype if x.dtype.kind == "f" else out.dtype, copy=False)


def inexact(x: Buffer) -> Buffer:
    """Returns an array or a number as an array of single or double precision.

    Half precision becomes single, integers become double; complex numbers raise TypeError.
    """
    x = np.asarray(x)
    if x.dtype.char in "fd":
        return x
    if x.dtype.kind == "c":
        raise TypeError(f"defined for real numbers only, got dtype {x.dtype}")
    return x.astype(np.float32 if x.dtype.char == "e" else np.float64)


def blockwise(kernel: Callable[..., None], spare: int = 0) -> Callable[..., Any]:
    """Makes a function of an array from one that works on a block of it.

    Args:
        kernel: ``kernel(x, out, *spares, **params)`` fills ``out`` and may use the spare buffers;
            all have one shape and one dtype, single or double.
        spare: how many spare buffers it takes.

    Returns:
        The function. Its result has the dtype of its argument, ``float64`` for integers. Overflow
        gives no warning: the function returns its limit.
    """

    def run(x: Buffer, **params: Any) -> Buffer:
        values = inexact(x)
        out = np.empty(values.shape, values.dtype)
        with quiet():
            if out.size <= BLOCK_ELEMENTS:
                kernel(values, out, *[np.empty_like(out) for _ in range(spare)], **params)
            else:
                flat, target = values.reshape(-1), out.reshape(-1)
                whole = has_listed_blocks(kernel, [flat], target, spare, params)
                if whole < out.size:
                    pieces(flat[whole:], target[whole:], params)
        if getattr(x, "dtype", None) == np.float16:
            out = out.astype(np.float16)
        return out if out.ndim else out[()]

    def pieces(source: Buffer, target: Buffer, params: dict[str, Any]) -> None:
        def some(blocks: Iterable[slice]) -> None:
            spares = [np.empty(BLOCK_ELEMENTS, target.dtype) for _ in range(spare)]
            for block in blocks:
                out = target[block]
                kept = spares if out.size == BLOCK_ELEMENTS else [s[: out.size] for s in spares]
                kernel(source[block], out, *kept, **params)

        side_by_side(some, list(row_blocks(target.size, 1)))

    run.__doc__ = kernel.__doc__
    run.__dict__["__wrapped__"] = kernel  # which the legends of plans name
    return run
