"""Products of matrices outside of plans, by kernels that add up as NumPy's BLAS does.

How BLAS adds up is found by products of numbers that tell it: a large one takes up no small ones
behind it, unless these are added up in a block of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ....blas_calls import by_blas
from ....native.array_objects import is_known
from ....native.c_library_flags import c_library_tells
from ....native.entry import objects_call
from ....native.machine import machine_code, rest, vector_bytes
from ....native.matrix_products import (
    PRODUCT_FUNCTION,
    MatrixProduct,
    own_product_text,
    room_words,
)
from ....native.product_parts import AT_ONE_PLACE
from ....native.team import server
from ..threads.eager_products import MeasuredTeam
from ..threads.pool import threads

if TYPE_CHECKING:
    from ....annotations import Buffer, DType, Shape

__all__ = ["blocks_of_sums", "own_product"]

# A BLAS whose blocks are shorter adds up in another order.
SHORTEST_BLOCK = 32
# Each block is looked for by a product, and has machine code of its own.
MOST_SUM_BLOCKS = 64


def own_product(
    name: str, types: Sequence[tuple[Shape, DType]], params: Mapping[str, Any]
) -> Callable[[Sequence[Buffer]], Any] | None:
    """Returns what computes a product of two matrices by a kernel; None where there is none.

    That returns None where NumPy would warn, or raise, and where both matrices are one. A third
    operand is added to each row of the product.

    Args:
        name, types, params: those of a maker of `Way`.

    Raises:
        NotCompiled, NativeUnavailable: the kernel cannot be compiled here.
    """
    if not (c_library_tells() and is_known()):
        return None
    (x_shape, dtype), (y_shape, _), *biases, (shape, _) = types
    turned = params["turned"]
    terms = x_shape[0] if turned[0] else x_shape[1]
    sums, begins_with_zero = blocks_of_sums((x_shape, y_shape), dtype, turned)
    if len(sums) > MOST_SUM_BLOCKS or (len(sums) > 1 and min(sums) < SHORTEST_BLOCK):
        return None
    rows, columns = shape
    product = MatrixProduct(
        dtype.itemsize,
        (rows, columns, terms),
        turned,
        sums,
        begins_with_zero,
        vector_bytes(),
        threads.number,
        bool(biases),
    )
    server()
    kernel = objects_call(
        machine_code(own_product_text(product), [PRODUCT_FUNCTION]),
        PRODUCT_FUNCTION,
        len(product.objects),
    )
    rest()
    words, team = room_words(product), MeasuredTeam()

    def run(operands: Sequence[Buffer]) -> Any:
        out, room = np.empty(shape, dtype), np.empty(words, np.int64)
        team(kernel, (*operands[:2], out, room, *operands[2:]))
        told = room[0]
        if told and (told == AT_ONE_PLACE or set(np.geterr().values()) != {"ignore"}):
            return None
        return out

    return run


def blocks_of_sums(
    shapes: tuple[Shape, Shape], dtype: DType, turned: tuple[bool, bool]
) -> tuple[tuple[int, ...], bool]:
    """Returns into which blocks BLAS cuts the terms of a sum, and if it adds the first one to 0.

    Where there are more than `MOST_SUM_BLOCKS`, it returns one more than these.

    Args:
        shapes: those of the factors as they are given.
        dtype: their dtype.
        turned: whether each is the transposed factor.
    """
    x, y = np.zeros(shapes[0], dtype), np.zeros(shapes[1], dtype)
    left, right = x.T if turned[0] else x, y.T if turned[1] else y
    terms = len(right)
    # The last place of such a number counts ones, and half of one is lost beside it.
    large = dtype.type(2) ** np.finfo(dtype).nmant
    left[:] = 1
    blocks: list[int] = []
    while (begin := sum(blocks)) < terms and len(blocks) <= MOST_SUM_BLOCKS:
        even = begin + (terms - begin) // 2 * 2
        right[:begin], right[begin:even], right[even:] = 0, 0.5, 0
        right[begin] = large
        behind = int(2 * (by_blas(left, right)[0, 0] - large))
        blocks.append(even - begin - behind if 0 < behind < even - begin else terms - begin)
    tiny = np.sqrt(np.finfo(dtype).smallest_subnormal) / 4
    left[:], right[:] = -tiny, 0
    right[0] = tiny
    return tuple(blocks), not np.signbit(by_blas(left, right)[0, 0])
