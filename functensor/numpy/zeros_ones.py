"""Arrays out of shapes: filled with a number, or with ones on a diagonal or below it."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from ..backends.annotations import DType, DTypeLike, ShapeLike
from ..primitives.core.annotations import ArrayLike
from ..primitives.core.annotations import operations as ops
from ..primitives.core.array import Array, is_unknown
from ..primitives.core.buffers import DEVICE_TYPES, operands_together, to_buffer
from ..primitives.core.registry import operand, registry
from ..primitives.core.shape_dtype import ShapeDtype, number_dtype, shape_dtype
from ..primitives.core.trace import is_staged
from ..primitives.shape.reshape_transpose import as_shape
from .creation import asarray, made_on_device, numbers_of

__all__ = [
    "empty", "empty_like", "eye", "full", "full_like", "identity", "ones", "ones_like", "tri",
    "zeros", "zeros_like",
]  # fmt: skip


def zeros(
    shape: ShapeLike,
    dtype: DTypeLike | None = float,
    order: str = "C",
    *,
    device: str | None = None,
) -> Array:
    """Returns an array of zeros.

    Args:
        shape: the length of every axis, or of the only one.
        dtype: the dtype, by default ``float64``.
        order: of no effect: there is one memory layout.
        device: ``"cpu"`` or a GPU, ``"cuda:0"``; None for the default device.

    >>> import functensor.numpy as np
    >>> np.zeros((2, 2))
    Array([[0., 0.],
           [0., 0.]], dtype=float64, device='cpu')
    """
    return made_on_device("zeros", as_shape(shape), number_dtype(dtype), device=device)


def ones(
    shape: ShapeLike, dtype: DTypeLike | None = None, order: str = "C", *, device: str | None = None
) -> Array:
    """Returns an array of ones.

    Args:
        shape: the length of every axis, or of the only one.
        dtype: the dtype, by default ``float64``.
        order: of no effect: there is one memory layout.
        device: ``"cpu"`` or a GPU, ``"cuda:0"``; None for the default device.

    >>> import functensor.numpy as np
    >>> np.ones(3, "int32")
    Array([1, 1, 1], dtype=int32, device='cpu')
    """
    return made_on_device("ones", as_shape(shape), number_dtype(dtype), device=device)


def empty(
    shape: ShapeLike,
    dtype: DTypeLike | None = float,
    order: str = "C",
    *,
    device: str | None = None,
) -> Array:
    """Returns an array of a shape whose values do not matter: zeros, since none can be set later.

    Args:
        shape, dtype, order, device: as for `zeros`.

    >>> import functensor.numpy as np
    >>> np.empty((2, 3)).shape
    (2, 3)
    """
    return zeros(shape, dtype, device=device)


def full(
    shape: ShapeLike,
    fill_value: ArrayLike,
    dtype: DTypeLike | None = None,
    order: str = "C",
    *,
    device: str | None = None,
) -> Array:
    """Returns an array filled with a value.

    Args:
        shape: the length of every axis, or of the only one.
        fill_value: a number, or an array that broadcasts to the shape; derivatives flow to it.
        dtype: the dtype; None takes that of the value.
        order: of no effect: there is one memory layout.
        device: ``"cpu"`` or a GPU, ``"cuda:0"``; None for the default device.

    >>> import functensor.numpy as np
    >>> np.full((2,), 7.0)
    Array([7., 7.], dtype=float64, device='cpu')
    """
    lengths = as_shape(shape)
    fill_value = operand(fill_value)
    if isinstance(fill_value, Array):
        return ops.broadcast_to(asarray(fill_value, dtype, device=device), lengths)
    value = numbers_of(np.asarray(to_buffer(fill_value), dtype), fill_value)
    if value.shape:
        return ops.broadcast_to(asarray(value, device=device), lengths)
    return made_on_device("full", lengths, value[()], value.dtype, device=device)


def _shape_dtype_device_of(
    a: ArrayLike, dtype: DTypeLike | None, shape: ShapeLike | None, device: str | None
) -> tuple[ShapeLike, DTypeLike, str]:
    """Returns a shape, a dtype and a device: those of an array, where nothing else is asked for."""
    if not isinstance(a, Array):
        a = asarray(a)
    known = shape_dtype(a)
    return (
        known.shape if shape is None else shape,
        known.dtype if dtype is None else dtype,
        a.device if device is None else device,
    )


@registry.add_function
def zeros_like(
    a: ArrayLike,
    dtype: DTypeLike | None = None,
    order: str = "K",
    subok: bool = True,
    shape: ShapeLike | None = None,
    *,
    device: str | None = None,
) -> Array:
    """Returns an array of zeros of another array's shape and dtype.

    Args:
        a: the array.
        dtype, shape: the dtype and shape to take instead of those of the array.
        order, subok: of no effect: there is one memory layout, and one class.
        device: ``"cpu"`` or a GPU, ``"cuda:0"``; None for that of the array.

    >>> import functensor.numpy as np
    >>> np.zeros_like(np.array([1, 2]))
    Array([0, 0], dtype=int64, device='cpu')
    """
    lengths, kind, place = _shape_dtype_device_of(a, dtype, shape, device)
    return zeros(lengths, kind, device=place)


@registry.add_function
def ones_like(
    a: ArrayLike,
    dtype: DTypeLike | None = None,
    order: str = "K",
    subok: bool = True,
    shape: ShapeLike | None = None,
    *,
    device: str | None = None,
) -> Array:
    """Returns an array of ones of another array's shape and dtype.

    Args:
        a: the array.
        dtype, shape: the dtype and shape to take instead of those of the array.
        order, subok: of no effect: there is one memory layout, and one class.
        device: ``"cpu"`` or a GPU, ``"cuda:0"``; None for that of the array.

    >>> import functensor.numpy as np
    >>> np.ones_like(np.array([0.5, 0.5]))
    Array([1., 1.], dtype=float64, device='cpu')
    """
    lengths, kind, place = _shape_dtype_device_of(a, dtype, shape, device)
    return ones(lengths, kind, device=place)


@registry.add_function
def empty_like(
    prototype: ArrayLike,
    dtype: DTypeLike | None = None,
    order: str = "K",
    subok: bool = True,
    shape: ShapeLike | None = None,
    *,
    device: str | None = None,
) -> Array:
    """Returns an array of another array's shape and dtype whose values do not matter.

    Args:
        prototype: the other array.
        dtype, order, subok, shape, device: as for `zeros_like`.

    >>> import functensor.numpy as np
    >>> np.empty_like(np.ones((2, 3))).shape
    (2, 3)
    """
    return zeros_like(prototype, dtype, shape=shape, device=device)


@registry.add_function
def full_like(
    a: ArrayLike,
    fill_value: ArrayLike,
    dtype: DTypeLike | None = None,
    order: str = "K",
    subok: bool = True,
    shape: ShapeLike | None = None,
    *,
    device: str | None = None,
) -> Array:
    """Returns an array of another array's shape and dtype, filled with a value.

    Args:
        a: the array.
        fill_value: a number, or an array that broadcasts to the shape; derivatives flow to it.
        dtype, shape: the dtype and shape to take instead of those of the array.
        order, subok: of no effect: there is one memory layout, and one class.
        device: ``"cpu"`` or a GPU, ``"cuda:0"``; None for that of the array.

    >>> import functensor.numpy as np
    >>> np.full_like(np.zeros(2), 7)
    Array([7., 7.], dtype=float64, device='cpu')
    """
    if device is None and DEVICE_TYPES:
        a, fill_value = operands_together("full_like", a, fill_value)
    lengths, kind, place = _shape_dtype_device_of(a, dtype, shape, device)
    return full(lengths, fill_value, kind, device=place)


def eye(
    N: int,
    M: int | None = None,
    k: int = 0,
    dtype: DTypeLike | None = float,
    order: str = "C",
    *,
    device: str | None = None,
) -> Array:
    """Returns a matrix with ones on a diagonal and zeros elsewhere.

    Args:
        N, M: the numbers of rows and columns, as many by default.
        k: which diagonal: above the main one where positive.
        dtype: the dtype, by default ``float64``.
        order: of no effect: there is one memory layout.
        device: ``"cpu"`` or a GPU, ``"cuda:0"``; None for the default device.

    >>> import functensor.numpy as np
    >>> np.eye(2)
    Array([[1., 0.],
           [0., 1.]], dtype=float64, device='cpu')
    """
    kind = number_dtype(dtype)
    if is_unknown(k):
        return ops.astype(ops.equal(_offsets(N, M, k, device), k), kind)
    return made_on_device("eye", N, M, k, kind, device=device, known=_matrix_type(N, M, kind))


def identity(n: int, dtype: DTypeLike | None = None, *, device: str | None = None) -> Array:
    """Returns the identity matrix of n rows.

    Args:
        n: how many rows and columns.
        dtype: of the elements; None for ``float64``.
        device: ``"cpu"`` or a GPU, ``"cuda:0"``; None for the default device.

    >>> import functensor.numpy as np
    >>> np.identity(2, int)
    Array([[1, 0],
           [0, 1]], dtype=int64, device='cpu')
    """
    return eye(n, dtype=dtype, device=device)


def tri(
    N: int,
    M: int | None = None,
    k: int = 0,
    dtype: DTypeLike | None = float,
    *,
    device: str | None = None,
) -> Array:
    """Returns a matrix with ones on and below a diagonal and zeros above it.

    Args:
        N, M: the numbers of rows and columns, as many by default.
        k: which diagonal: above the main one where positive.
        dtype: the dtype, by default ``float64``.
        device: ``"cpu"`` or a GPU, ``"cuda:0"``; None for the default device.

    >>> import functensor.numpy as np
    >>> np.tri(2, dtype=bool)
    Array([[ True, False],
           [ True,  True]], dtype=bool, device='cpu')
    """
    kind = number_dtype(dtype)
    if is_unknown(k):
        return ops.astype(ops.less_equal(_offsets(N, M, k, device), k), kind)
    return made_on_device("tri", N, M, k, kind, device=device, known=_matrix_type(N, M, kind))


def _offsets(rows: int, columns: int | None, k: Any, device: str | None) -> Array:
    """Returns on which diagonal every element of a matrix is."""
    height = operator.index(rows)
    width = height if columns is None else operator.index(columns)
    offsets = np.arange(max(width, 0)) - np.arange(max(height, 0))[:, None]
    return asarray(offsets, device=k.device if device is None else device)


def _matrix_type(rows: int, columns: int | None, dtype: DType) -> ShapeDtype | None:
    """Returns the type of a matrix for staging; None where NumPy is to refuse it."""
    if not is_staged():
        return None
    lengths = rows, rows if columns is None else columns
    known = all(type(n) is int and n >= 0 for n in lengths)
    return ShapeDtype(lengths, dtype) if known else None
