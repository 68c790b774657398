"""Products that sum over axes: ``matmul`` and the functions of NumPy that are made of it.

Everything ends in one matrix multiplication of the largest size that there is, on transposed views
where BLAS takes them: leading axes are folded into rows whenever the other operand has none.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from ...backends.annotations import ArrayModule, Buffer, Shape, ShapeLike
from ...backends.arrays.column_times_row import columns_by_rows
from ...backends.blas_calls import SMALLEST_EXAMINED_WORK, product
from ..core.annotations import ArrayLike, of_arrays
from ..core.annotations import operations as ops
from ..core.array import Array
from ..core.buffers import DEVICE_TYPES, operands_together
from ..core.derivative_rules import shape_of
from ..core.errors import misfit, refuse_out
from ..core.primitive import Binary, Primitive, of_operands
from ..core.registry import registry
from ..core.shape_dtype import ShapeDtype, canonical_axis, result_type
from ..core.test_samples import Sample
from ..core.ufunc_methods import on_axes
from .einsum import axis_letters, einsum

__all__ = ["dot", "inner", "kron", "matmul", "outer", "tensordot", "vdot", "vecdot"]


# -- matmul

HALF = np.dtype(np.float16)


def _blas_operand(xp: ArrayModule, x: Buffer) -> Buffer:
    """Returns an operand for BLAS: NumPy's own loop for strides of 0 is many times slower."""
    return xp.ascontiguousarray(x) if 0 in getattr(x, "strides", ()) else x


def _multiply_matrices(xp: ArrayModule, x: Buffer, y: Buffer) -> Buffer:
    x, y = _blas_operand(xp, x), _blas_operand(xp, y)
    if getattr(x, "dtype", None) is HALF and getattr(y, "dtype", None) is HALF:
        # BLAS has no half precision.
        return _multiply_matrices(xp, x.astype(np.float32), y.astype(np.float32)).astype(np.float16)
    shape, other = shape_of(x), shape_of(y)
    if len(shape) > 2 and len(other) == 2 and shape[-1] == other[0]:
        rows = x.reshape(prod(shape[:-1]), shape[-1])
        return _multiply_matrices(xp, rows, y).reshape(*shape[:-1], other[1])
    if len(shape) > 1 and shape[-1] == 1 and other[-2:-1] == (1,) and x.dtype == y.dtype:
        out: Buffer = columns_by_rows(xp, x, y)
        return out
    if xp is np and shape and other and x.size * other[-1] > SMALLEST_EXAMINED_WORK:
        out = product(x, y)
        return out
    return xp.matmul(x, y)


def _infer_matmul(primitive: Primitive, x: ShapeDtype, y: ShapeDtype) -> ShapeDtype:
    if not x.shape or not y.shape:
        raise misfit(
            f"matmul: shapes {x.shape} and {y.shape}: a scalar has no axis to sum over",
            "x * y multiplies by a scalar",
        )
    summed = max(-2, -y.ndim)
    leading = range(-min(x.ndim, y.ndim), -2)
    for a, b in [(-1, summed), *zip(leading, leading)]:
        if x.shape[a] != y.shape[b] and (a == -1 or 1 not in (x.shape[a], y.shape[b])):
            raise misfit(
                f"matmul: shapes {x.shape} and {y.shape} do not fit: axis {a} of the first "
                f"has length {x.shape[a]}, axis {b} of the second {y.shape[b]}",
                "transpose one of them, e.g. x @ y.mT; einsum names the axes",
            )
    stack = np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    shape = (*stack, *x.shape[-2:-1], *(y.shape[-1:] if y.ndim > 1 else ()))
    return ShapeDtype(shape, result_type(x.dtype, y.dtype))


def _batch_matmul(
    primitive: Primitive, values: Sequence[Array], flags: Sequence[bool], params: dict[str, Any]
) -> Array:
    x, y = values
    m, n = (len(shape_of(v)) - flag for v, flag in zip(values, flags, strict=True))
    if not flags[1] and n <= 2:
        return ops.matmul(x, y)
    if not flags[0] and m <= 2 and n == 1:
        return ops.matmul(y, x if m == 1 else x.mT)
    x_shape, y_shape = shape_of(x), shape_of(y)
    rank = max(m, n, 2)

    def matrices(v: Array, flag: bool, tail: Shape) -> Array:
        """Puts ones between the batch axis and the axes that the example itself has."""
        shape = shape_of(v)
        head, rest = shape[:flag], shape[flag : len(shape) - min(2, len(shape) - flag)]
        ones = (1,) * (rank - 2 - len(rest)) if flag else ()
        return ops.reshape(v, (*head, *ones, *rest, *tail))

    stacked = ops.matmul(
        matrices(x, flags[0], x_shape[-2:] if m > 1 else (1, x_shape[-1])),
        matrices(y, flags[1], y_shape[-2:] if n > 1 else (y_shape[-1], 1)),
    )
    shape = list(shape_of(stacked))
    if n == 1:
        del shape[-1]
    if m == 1:
        del shape[-1 if n == 1 else -2]
    return stacked if m > 1 and n > 1 else ops.reshape(stacked, tuple(shape))


def _as_rows(x: Array) -> Array:
    """Folds all leading axes into one, so that they are contracted in one go."""
    shape = shape_of(x)
    return x if len(shape) == 2 else ops.reshape(x, (prod(shape[:-1]), shape[-1]))


def _matmul_vjp_x(g: Array, x_shape: Shape, y: Array) -> Array:
    m, n = len(x_shape), len(shape_of(y))
    if m == n == 1:
        return g * y
    if n == 1:
        return ops.matmul(ops.reshape(g, (*x_shape[:-1], 1)), ops.reshape(y, (1, -1)))
    if m == 1:
        return ops.matmul(y, g) if n == 2 else ops.einsum("...o,...io->i", g, y)
    if m == 2 and n > 2:
        return ops.einsum("...to,...io->ti", g, y)
    return ops.matmul(g, y.mT)


def _matmul_vjp_y(g: Array, x: Array, y_shape: Shape) -> Array:
    m, n = len(shape_of(x)), len(y_shape)
    if m == 1:
        return x * g if n == 1 else ops.matmul(ops.expand_dims(x, -1), ops.expand_dims(g, -2))
    if n == 1:
        return ops.matmul(ops.reshape(g, (-1,)), _as_rows(x))
    if n == 2:
        return ops.matmul(_as_rows(x).mT, _as_rows(g))
    return ops.matmul(x.mT, g)


matmul = of_operands(
    "matmul",
    kind=Binary,
    compute=_multiply_matrices, infer=_infer_matmul, batch=_batch_matmul,
    vjp=(_matmul_vjp_x, _matmul_vjp_y), linear=True, broadcasts=True, dtypes="fdD",
    samples=[
        Sample((2, 3), (3, 4)), Sample((3,), (3,)), Sample((3,), (3, 4)), Sample((2, 3), (3,)),
        Sample((2, 5, 3), (3, 4)), Sample((2, 5, 3), (3,)), Sample((5, 3), (2, 3, 4)),
        Sample((3,), (2, 3, 4)), Sample((2, 5, 3), (2, 3, 4)), Sample((2, 1, 5, 3), (4, 3, 2)),
        Sample((1, 5, 3), (2, 3, 4)), Sample((2, 17, 1), (2, 1, 16)), Sample((2, 0), (0, 3)),
        Sample((0, 2, 3), (3, 4)), Sample((0, 2, 3), (0, 3, 4)),
    ],
    doc="""Returns the matrix product ``x @ y``, over stacks of matrices too.

    Element (..., i, j) is the sum over l of x[..., i, l] * y[..., l, j]. Axes before the last two
    broadcast. An operand of one axis is a vector: a row on the left, a column on the right, whose
    other axis the result lacks.

    Args:
        x: an array of shape (..., n, k) or (k,).
        y: an array of shape (..., k, m) or (k,).

    Returns:
        An array of shape (..., n, m) without the axes that vectors lack, of the promoted dtype.

    Raises:
        ShapeError: an operand is a scalar, the summed axes differ, or others do not broadcast.

    On a GPU float32 is multiplied as ``ft.config.matmul_precision`` says.

    >>> import functensor.numpy as np
    >>> np.matmul([[1.0, 2.0], [3.0, 4.0]], [1.0, 10.0]).tolist()
    [21.0, 43.0]
    >>> np.matmul(np.ones((5, 2, 3)), np.ones((3, 4))).shape
    (5, 2, 4)
    """,
)


# -- functions made of matmul and einsum


@of_arrays
@registry.add_function
def dot(a: ArrayLike, b: ArrayLike, out: object = None) -> Array:
    """Returns the product of two arrays over the last axis of a and the last but one of b.

    Of vectors it is their inner product, of matrices the matrix product. Of stacks it multiplies
    each matrix of a with each of b: element (..., i, ..., j) is the sum over l of
    a[..., i, l] * b[..., l, j]. `np.matmul` multiplies stacks in pairs.

    Args:
        a: an array of shape (..., n, k) or (k,), or a scalar, which multiplies.
        b: an array of shape (..., k, m) or (k,), or a scalar, which multiplies.
        out: None; arrays are immutable.

    Returns:
        An array of shape ``a.shape[:-1] + b.shape[:-2] + b.shape[-1:]``.

    Raises:
        ShapeError: the summed axes differ in length.

    >>> import functensor.numpy as np
    >>> np.dot([1.0, 2.0], [3.0, 4.0]).tolist()
    11.0
    >>> np.dot(np.ones((5, 2, 3)), np.ones((7, 3, 4))).shape
    (5, 2, 7, 4)
    """
    if out is not None:
        refuse_out("dot", out)
    if isinstance(a, (list, tuple)) or isinstance(b, (list, tuple)):
        a, b = operands_together("dot", a, b)
    m, n = len(shape_of(a)), len(shape_of(b))
    if not m or not n:
        return ops.multiply(a, b)
    return ops.matmul(a, b) if m == 1 or n <= 2 else tensordot(a, b, axes=((-1,), (-2,)))


@of_arrays
@registry.add_function
def tensordot(a: ArrayLike, b: ArrayLike, axes: int | Sequence[ShapeLike] = 2) -> Array:
    """Returns the product of two arrays summed over several axes of each.

    With ``axes=1`` element (..., i, j, ...) is the sum over l of a[..., i, l] * b[l, j, ...].

    Args:
        a, b: arrays of any shapes whose summed axes have the same lengths.
        axes: a number n, for the last n axes of a and the first n of b, in order; 0 multiplies
            each element with each. Or a pair: an axis or axes of a, and those of b that belong to
            them, in the same order.

    Returns:
        An array with the remaining axes of a, then those of b, of the promoted dtype.

    Raises:
        ShapeError: axes that belong together differ in number or length.

    >>> import functensor.numpy as np
    >>> a, b = np.ones((2, 3, 4)), np.ones((4, 3, 5))
    >>> np.tensordot(a, b, axes=([1, 2], [1, 0])).shape
    (2, 5)
    >>> np.tensordot(a, b, axes=1).shape
    (2, 3, 3, 5)
    """
    a, b = operands_together("tensordot", a, b)
    shapes = shape_of(a), shape_of(b)
    m, n = map(len, shapes)
    if isinstance(axes, Sequence):
        chosen = [v if isinstance(v, Sequence) else (v,) for v in axes]
    else:
        chosen = [range(m - axes, m), range(axes)]
    summed = [[canonical_axis(v, k) for v in own] for own, k in zip(chosen, (m, n), strict=True)]
    if len(summed[0]) != len(summed[1]):
        raise misfit(
            f"tensordot: {len(summed[0])} axes of the first operand and {len(summed[1])} of "
            "the second",
            "name as many axes of one as of the other",
        )
    names = axis_letters()
    x_names = [next(names) for _ in range(m)]
    y_names = [next(names) for _ in range(n)]
    for i, j in zip(*summed, strict=True):
        if shapes[0][i] != shapes[1][j]:
            raise misfit(
                f"tensordot: shapes {shapes[0]} and {shapes[1]} do not contract: axis {i} of "
                f"the first has length {shapes[0][i]}, axis {j} of the second {shapes[1][j]}",
                "axes=((axes of a), (axes of b)) in the same order",
            )
        y_names[j] = x_names[i]
    kept = [v for v in x_names if v not in y_names] + [v for v in y_names if v not in x_names]
    return einsum.bind(
        (a, b), {"subscripts": f"{''.join(x_names)},{''.join(y_names)}->{''.join(kept)}"}
    )


@of_arrays
@registry.add_function
def inner(a: ArrayLike, b: ArrayLike) -> Array:
    """Returns the product of two arrays summed over the last axis of both.

    Args:
        a, b: arrays with last axes of one length; a scalar multiplies.

    Returns:
        An array of shape ``a.shape[:-1] + b.shape[:-1]``.

    Raises:
        ShapeError: the last axes differ in length.

    >>> import functensor.numpy as np
    >>> np.inner(np.ones((2, 3)), np.ones((4, 3))).shape
    (2, 4)
    """
    a, b = operands_together("inner", a, b)
    if not shape_of(a) or not shape_of(b):
        return ops.multiply(a, b)
    return tensordot(a, b, axes=(-1, -1))


@of_arrays
@registry.add_function
def outer(a: ArrayLike, b: ArrayLike, out: object = None) -> Array:
    """Returns the products of every element of a with every element of b.

    Args:
        a, b: arrays of m and of n elements, which are flattened.
        out: None; arrays are immutable.

    Returns:
        An array of shape (m, n).

    >>> import functensor.numpy as np
    >>> np.outer(np.arange(2.0), np.ones(2))
    Array([[0., 0.],
           [1., 1.]], dtype=float64, device='cpu')
    """
    refuse_out("outer", out)
    if DEVICE_TYPES:
        a, b = operands_together("outer", a, b)
    return ops.multiply(ops.reshape(a, (-1, 1)), ops.reshape(b, (-1,)))


@of_arrays
@registry.add_function
def vdot(a: ArrayLike, b: ArrayLike) -> Array:
    """Returns the sum of the products of all elements, those of a conjugated.

    Args:
        a, b: arrays of as many elements, which are flattened.

    Returns:
        A scalar.

    Raises:
        ShapeError: the numbers of elements differ.

    >>> import functensor.numpy as np
    >>> np.vdot(np.ones((2, 3)), np.ones(6))
    Array(6., dtype=float64, device='cpu')
    """
    if DEVICE_TYPES:
        a, b = operands_together("vdot", a, b)
    return ops.matmul(ops.conj(ops.reshape(a, (-1,))), ops.reshape(b, (-1,)))


@of_arrays
@registry.add_function
def vecdot(
    x: ArrayLike,
    y: ArrayLike,
    /,
    out: None = None,
    *,
    axis: int = -1,
    axes: Sequence[ShapeLike] | None = None,
    keepdims: bool = False,
) -> Array:
    """Returns the products of vectors along an axis, those of x conjugated.

    Args:
        x, y: arrays; all axes but that of the vectors broadcast.
        out: None; arrays are immutable.
        axis: the axis of the vectors, counted in both arrays.
        axes: the axes of both, where these are not the same: ``[0, -1]``.
        keepdims: whether the axis stays with length 1, which the same axis can.

    Returns:
        An array without the axis.

    Raises:
        ShapeError: the vectors differ in length, or other axes do not broadcast.

    >>> import functensor.numpy as np
    >>> np.vecdot(np.ones((2, 3)), np.ones(3))
    Array([3., 3.], dtype=float64, device='cpu')
    """
    refuse_out("vecdot", out)
    if axes is not None:
        if keepdims:
            raise ValueError("vecdot: keepdims=True goes with axis=, not with axes=")
        found: Array = on_axes(vecdot, "(n),(n)->()", (x, y), axes)
        return found
    if keepdims:
        return ops.expand_dims(vecdot(x, y, axis=axis), axis)
    x, y = (
        v if axis == -1 else ops.moveaxis(v, axis, -1) for v in operands_together("vecdot", x, y)
    )
    if shape_of(x)[-1:] != shape_of(y)[-1:]:
        raise misfit(
            f"vecdot: {shape_of(x)} and {shape_of(y)} end in vectors of different lengths",
            "axis= names the axis of the vectors in both arrays",
        )
    return ops.einsum("...i,...i->...", ops.conj(x), y)


@of_arrays
@registry.add_function
def kron(a: ArrayLike, b: ArrayLike) -> Array:
    """Returns the Kronecker product: a block for every element of a, that element times b.

    Args:
        a, b: arrays; the one with fewer axes gets leading axes of length 1.

    Returns:
        An array whose axes are as long as those of a and b multiplied.

    >>> import functensor.numpy as np
    >>> np.kron(np.array([1.0, 2.0]), np.ones(2))
    Array([1., 1., 2., 2.], dtype=float64, device='cpu')
    """
    a, b = operands_together("kron", a, b)
    rank = max(len(shape_of(a)), len(shape_of(b)))
    m, n = ((1,) * (rank - len(shape_of(v))) + shape_of(v) for v in (a, b))
    blocks = ops.multiply(
        ops.reshape(a, tuple(k for length in m for k in (length, 1))),
        ops.reshape(b, tuple(k for length in n for k in (1, length))),
    )
    return ops.reshape(blocks, tuple(i * j for i, j in zip(m, n)))
