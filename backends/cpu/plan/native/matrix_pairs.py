"""Products of stacks of matrices as products of two matrices each, which BLAS computes."""

from __future__ import annotations

from math import prod

import numpy as np

from .layouts import LayOut, broadcast_strides, in_c_order
from .not_native import NotNative

__all__ = ["matrix_pairs", "strides_in_rows"]

# The products of a longer stack would be a long text.
MOST_PAIRS = 64


def strides_in_rows(x: LayOut) -> tuple[int, ...]:
    """Returns the strides of all axes but the last, counted in rows."""
    step = x.strides[-2]
    return tuple([n // step if step and n % step == 0 else -1 for n in x.strides[:-1]])


def matrix_pairs(x: LayOut, y: LayOut, into: LayOut) -> list[tuple[LayOut, LayOut, LayOut]]:
    """Returns two matrices and the place of their product, for each product of two stacks.

    All rows of a stack are multiplied at once by one matrix.

    Args:
        x, y: the matrices, or stacks of them.
        into: the place of the result, in C order.

    Raises:
        NotNative: there are many of them.
    """
    stack = np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    if not stack:
        return [(x, y, into)]
    rows, terms, columns = x.shape[-2], x.shape[-1], y.shape[-1]
    if prod(y.shape[:-2]) == 1 and in_c_order(x.shape[:-1], strides_in_rows(x)):
        whole = prod(x.shape[:-1])
        left = x._replace(shape=(whole, terms), strides=x.strides[-2:])
        right = y._replace(shape=y.shape[-2:], strides=y.strides[-2:])
        return [(left, right, into._replace(shape=(whole, columns), strides=(columns, 1)))]
    if prod(stack) > MOST_PAIRS:
        raise NotNative("a long stack of products")
    shapes = (rows, terms), (terms, columns), (rows, columns)
    return [
        tuple(  # type: ignore[misc]
            LayOut(v.owner, begin, shape, v.strides[-2:])
            for v, shape, begin in zip((x, y, into), shapes, begins, strict=True)
        )
        for begins in zip(*[begins_of(v, stack) for v in (x, y, into)], strict=True)
    ]


def begins_of(x: LayOut, stack: tuple[int, ...]) -> list[int]:
    """Returns where each matrix of a stack begins."""
    strides = broadcast_strides(x.shape[:-2], x.strides[:-2], stack)
    places = np.indices(stack).reshape(len(stack), -1)
    return [x.offset + int(n) for n in np.array(strides, int) @ places]
