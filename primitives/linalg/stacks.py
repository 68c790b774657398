"""Primitives on stacks of matrices: the last two axes are a matrix, all in front of them a stack.

A primitive has one output. One with several results packs them, flattened, one behind the other
along the last axis, and `unpacked` takes them apart.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any, TypeVar

import numpy as np

from ...backends.annotations import ArrayModule, Buffer, DType, Shape
from ...backends.blas_calls import calmly
from ..core.annotations import ArrayLike
from ..core.annotations import operations as ops
from ..core.array import Array
from ..core.buffers import beside
from ..core.derivative_rules import shape_of
from ..core.errors import misfit
from ..core.families import batch_elementwise
from ..core.primitive import Primitive
from ..core.shape_dtype import ShapeDtype, broadcast_shapes, finfo, result_type
from ..core.test_samples import Domain, Operand
from ..elementwise.cast_and_complex import is_complex

__all__ = [
    "adjoint", "chunked", "coinciding", "conjugate", "diagonal_matrix", "diagonal_of",
    "hermitian_part", "near", "of_matrices", "packed_parts", "safe_reciprocal", "unpacked",
]  # fmt: skip

# Rules pack arrays, kernels buffers.
Packed = TypeVar("Packed", Array, Buffer)


def of_matrices(
    name: str,
    core: Callable[..., Shape],
    *,
    dtype: Callable[[DType], DType] = lambda dtype: dtype,
    square: bool = True,
    kind: type[Primitive] = Primitive,
    **declared: Any,
) -> Primitive:
    """Declares a primitive that does the same to every matrix of a stack; stacks broadcast.

    Args:
        name: its name.
        core: ``core(*shapes, **params)``: the result's shape behind the stack's axes, for the
            operands' last two lengths.
        dtype: the result's dtype for the operands' common one.
        square: whether the first operand's matrices have to be square.
        kind: the class of the primitive.
        declared: what else ``Primitive`` takes. The reference, unless it is given, is the same
            computation on NumPy's arrays.
    """

    def infer(primitive: Primitive, *operands: ShapeDtype, **params: Any) -> ShapeDtype:
        first = operands[0].shape
        if min(x.ndim for x in operands) < 2 or (square and first[-1] != first[-2]):
            raise misfit(
                f"{name}: {' and '.join(str(x.shape) for x in operands)} are no stacks of "
                f"{'square ' if square else ''}matrices",
                "the last two axes are the matrix, e.g. x[..., None] for columns",
            )
        stack = broadcast_shapes(name, *(x.shape[:-2] for x in operands))
        tail = core(*(x.shape[-2:] for x in operands), **params)
        common = result_type(*(x.dtype for x in operands))
        return ShapeDtype((*stack, *tail), dtype(common))

    declared.setdefault("reference", partial(declared["compute"], np))
    declared["compute"] = calmly(declared["compute"])
    return kind(
        name, family="matrices", infer=infer, batch=batch_elementwise, broadcasts=True, **declared
    )


def near(matrix: ArrayLike, *stack: int) -> Operand:
    """Returns an operand whose numbers are up to 1 above those of a matrix."""
    low: Any = np.asarray(matrix, float)
    high: Any = low + 1.0
    return Operand((*stack, *low.shape), Domain(low, high))


# -- several results in one


def packed_parts(xp: Any, parts: Sequence[Packed], shapes: Sequence[Shape]) -> Packed:
    """Returns arrays of the given shapes behind one stack, flattened, one behind the other.

    Args:
        xp: the array module, or the registry in rules.
        parts: the arrays.
        shapes: those of each behind the stack's axes.
    """
    first = shape_of(parts[0])
    stack: Shape = first[: len(first) - len(shapes[0])]
    flat = [xp.reshape(x, (*stack, prod(shape))) for x, shape in zip(parts, shapes)]
    out: Packed = xp.concatenate(flat, axis=-1)
    return out


def unpacked(values: Array, shapes: Sequence[Shape]) -> list[Array]:
    """Returns packed arrays in the shapes that they had."""
    stack = shape_of(values)[:-1]
    parts = []
    start = 0
    for shape in shapes:
        part = ops.index(values, (Ellipsis, slice(start, start + prod(shape))))
        parts.append(ops.reshape(part, (*stack, *shape)))
        start += prod(shape)
    return parts


def chunked(compute: Callable[..., Buffer], xp: ArrayModule, *matrices: Buffer) -> Buffer:
    """Calls a function of single matrices for each of a stack, as LAPACK's own loops do.

    Args:
        compute: takes matrices, one of every operand, and returns an array.
        xp: the array module.
        matrices: the operands, whose stacks broadcast.

    Returns:
        The results behind the stack's axes; for no matrices at all, those of identity matrices.
    """
    stack = np.broadcast_shapes(*(x.shape[:-2] for x in matrices))
    rows = [
        xp.broadcast_to(x, (*stack, *x.shape[-2:])).reshape(prod(stack), *x.shape[-2:])
        for x in matrices
    ]
    outs = [compute(*items) for items in zip(*rows, strict=True)]
    if not outs:
        empty = compute(*(xp.eye(*x.shape[-2:], dtype=x.dtype) for x in matrices))
        return xp.zeros((*stack, *empty.shape), empty.dtype)
    return xp.stack(outs).reshape(*stack, *outs[0].shape)


# -- functions that rules are written with


def conjugate(x: Array) -> Array:
    """Returns the complex conjugate; a real operand as it is."""
    return ops.conj(x) if is_complex(x) else x


def adjoint(x: Array) -> Array:
    """Returns matrices transposed and conjugated."""
    return conjugate(x.mT)


def hermitian_part(x: Array) -> Array:
    """Returns half of the sum of matrices and their adjoints."""
    return 0.5 * (x + adjoint(x))


def diagonal_of(x: Array) -> Array:
    """Returns the diagonals of square matrices."""
    return ops.sum(x * beside(x, np.eye(shape_of(x)[-1], dtype=x.dtype)), axis=-1)


def diagonal_matrix(x: Array) -> Array:
    """Returns square matrices that have the last axis as their diagonals."""
    return ops.expand_dims(x, -1) * beside(x, np.eye(shape_of(x)[-1], dtype=x.dtype))


def coinciding(values: Array, gaps: Array, length: int) -> Array:
    """Returns where gaps between values are no larger than rounding errors of 0.

    Args:
        values: the eigenvalues or singular values along the last axis.
        gaps: differences or sums of them, in matrices or along the last axis.
        length: the longer side of the matrix that they are of.
    """
    if not shape_of(values)[-1]:
        return ops.equal(gaps, 0)
    largest = ops.max(ops.abs(values), axis=-1, keepdims=True)
    if len(shape_of(gaps)) > len(shape_of(values)):
        largest = ops.expand_dims(largest, -1)
    rounding = max(length, 1) * float(finfo(values.dtype).eps)
    return ops.abs(gaps) <= rounding * largest


def safe_reciprocal(x: Array, zero: Array) -> Array:
    """Returns the reciprocal, and 0 where ``zero`` holds."""
    return ops.where(zero, 0, 1 / ops.where(zero, 1, x))
