"""Arrays out of numbers, lists and shapes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..primitives.array import Array, Tracer
from ..primitives.buffers import BUFFER_TYPES, holds_array, to_buffer, wrap
from ..primitives.errors import DeviceError, ShapeError, message
from ..primitives.manipulation import as_shape
from ..primitives.registry import operand, registry
from ..primitives.registry import registry as ops
from ..primitives.rules import shape_of
from ..primitives.types import number_dtype, shape_dtype

__all__ = [
    "array",
    "asarray",
    "copy",
    "empty",
    "empty_like",
    "eye",
    "from_dlpack",
    "full",
    "full_like",
    "identity",
    "ones",
    "ones_like",
    "tri",
    "zeros",
    "zeros_like",
]

SEQUENCES = (list, tuple)
# From how many values on a list is taken apart into what is traced and what is not.
MANY = 32


# -- out of values


def array(
    object: Any,
    dtype: Any = None,
    *,
    copy: bool | None = True,
    order: str | None = None,
    ndmin: int = 0,
    device: Any = None,
) -> Any:
    """Returns an array of numbers, nested lists, a NumPy array or an array.

    Args:
        object: the values. Nested lists may hold arrays and traced values beside numbers;
            derivatives flow through.
        dtype: the dtype of the elements; None takes that of the values, as NumPy does: a Python
            float in a list counts as float64.
        copy: whether memory of a NumPy array is copied, so that later changes to it do not show.
        order: without a meaning here; there for code written for NumPy.
        ndmin: the least number of axes; axes of length 1 are put in front.
        device: None or ``"cpu"``.

    Returns:
        An array on that device.

    Raises:
        ShapeError: nested lists are ragged.
        TypeError: the values are not numbers.

    >>> import functensor as ft
    >>> import functensor.numpy as np
    >>> np.array([[1, 2], [3, 4]], dtype="float32")
    Array([[1., 2.],
           [3., 4.]], dtype=float32, device='cpu')
    >>> ft.jacfwd(lambda t: np.array([[np.cos(t), 0.0], [np.sin(t), 1.0]]))(0.0)
    Array([[-0.,  0.],
           [ 1.,  0.]], dtype=float64, device='cpu')
    """
    out = asarray(object, dtype, device=device, copy=copy)
    missing = ndmin - len(out.shape)
    return ops.reshape(out, (1,) * missing + out.shape) if missing > 0 else out


@registry.add_function
def asarray(
    a: Any,
    dtype: Any = None,
    order: str | None = None,
    *,
    device: Any = None,
    copy: bool | None = None,
) -> Any:
    """Returns the same values as an array, without copying a NumPy array's memory if possible.

    Args:
        a: an array, a number, nested lists, a NumPy array, or what speaks DLPack. Nested lists may
            hold arrays and traced values; derivatives flow through.
        dtype: the dtype of the elements; None takes that of the values.
        order: without a meaning here; there for code written for NumPy.
        device: None or ``"cpu"``.
        copy: True copies; False raises where a copy is needed; None copies only where needed.

    Returns:
        An array; one that fits already is returned as it is.

    Raises:
        ShapeError: nested lists are ragged.
        TypeError: the values are not numbers.
        ValueError: ``copy=False``, and a copy is needed.

    >>> import functensor as ft
    >>> ft.grad(lambda x: ft.numpy.asarray([x, x * x])[1])(3.0)
    Array(6., dtype=float64, device='cpu')
    """
    check_device(device)
    if isinstance(a, Array):
        if dtype is None or a.dtype == np.dtype(dtype):
            if not copy:
                return a
            if isinstance(a, Tracer):
                # A tensor can change in place, though not its memory; other tracers cannot.
                return ops.index(a, ...) if a.owner.standing else a
            # Only the memory that an array shares with a NumPy array can change.
            return wrap(np.array(a._data))
        if copy is False:
            raise ValueError(f"copy=False, but casting {a.dtype} to {np.dtype(dtype)} copies")
        return ops.astype(a, dtype)
    if isinstance(a, list | tuple | range):
        if copy is False:
            raise ValueError("copy=False, but lists are copied into an array")
        if holds_array(a):
            out = _joined(a)
            return out if dtype is None else ops.astype(out, dtype)
        return wrap(_listed(a, dtype))
    buffer = to_buffer(a)
    if dtype is not None:
        return wrap(np.asarray(buffer, dtype=number_dtype(dtype), copy=copy))
    return wrap(_numbers(np.asarray(buffer, copy=copy), a))


def _listed(items: Any, dtype: Any) -> Any:
    """Returns the buffer of nested lists that hold no arrays."""
    try:
        buffer = np.array(items, dtype=dtype)
    except ValueError as error:
        if "inhomogeneous" not in str(error):
            raise
        raise _ragged(items, [shape_of(asarray(item)) for item in items]) from None
    if buffer.dtype.kind == "O" and dtype is None:
        # Numbers of the standard library, fractions and decimals.
        buffer = to_buffer(items)
    return _numbers(buffer, items)


def _joined(items: Sequence[Any]) -> Any:
    """Returns nested lists with arrays in them as one array: joined at once, where they are even.

    What stands deeper than the rest is joined first, a list at a time.
    """
    outer: tuple[int, ...] = (len(items),)
    leaves = list(items)
    while isinstance(leaves[0], SEQUENCES) and all(isinstance(x, SEQUENCES) for x in leaves):
        lengths = {len(row) for row in leaves}
        if len(lengths) > 1:
            raise _ragged(items, [shape_of(asarray(row)) for row in leaves])
        outer += (len(leaves[0]),)
        leaves = [x for row in leaves for x in row]
    leaves = [
        x if isinstance(x, Array) or type(x) in BUFFER_TYPES else asarray(x) for x in leaves
    ]
    shapes = [shape_of(x) for x in leaves]
    if len(set(shapes)) > 1:
        raise _ragged(items, shapes)
    out = _stacked(leaves)
    return out if len(outer) == 1 else ops.reshape(out, outer + shapes[0])


def _stacked(leaves: Sequence[Any]) -> Any:
    """Returns values of one shape along a new axis in front."""
    if len(leaves) < MANY:
        return ops.stack(leaves)
    varying = [i for i, x in enumerate(leaves) if isinstance(x, Tracer)]
    if 2 * len(varying) > len(leaves):
        return ops.stack(leaves)
    # Among many constants, what is traced is put in its places: the rest costs no rules.
    fixed = [np.zeros(x.shape, x.dtype) if isinstance(x, Tracer) else to_buffer(x) for x in leaves]
    if not varying:
        return wrap(np.stack(fixed))
    joined = ops.stack([leaves[i] for i in varying])
    return ops.index_set(np.stack(fixed), np.array(varying), joined)


def _ragged(items: Any, shapes: Sequence[tuple[int, ...]]) -> ShapeError:
    """Returns the error for a list whose items cannot make one array."""
    other = next(i for i, shape in enumerate(shapes) if shape != shapes[0])
    return ShapeError(
        message(
            f"array of a ragged list: item 0 has shape {shapes[0]}, item {other} has shape "
            f"{shapes[other]}",
            fix="give all items one shape; np.concatenate joins parts of different lengths, a "
            "tuple or dict keeps them apart",
            number=16,
        )
    )


def _numbers(buffer: Any, source: Any) -> Any:
    if buffer.dtype.kind not in "?biufc":
        raise TypeError(f"arrays hold numbers, not dtype {buffer.dtype}: {source!r:.60}")
    return buffer


def check_device(device: Any) -> None:
    if device is not None and device != "cpu":
        raise DeviceError(f"there is no device {device!r}; there is 'cpu'")


@registry.add_function
def copy(a: Any, order: str = "K", subok: bool = False) -> Any:
    """Returns an array with memory of its own.

    Args:
        a: an array, a number or nested lists.
        order, subok: of no effect: there is one memory layout, and one class.

    >>> import functensor.numpy as np
    >>> np.copy(np.ones(2))
    Array([1., 1.], dtype=float64, device='cpu')
    """
    return asarray(a, copy=True)


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Any:
    """Returns another library's array as an array that shares its memory.

    Args:
        x: an object with ``__dlpack__`` and ``__dlpack_device__``, on the CPU.
        device: None or ``"cpu"``.
        copy: whether to copy the memory; None copies only where that is needed.

    Raises:
        BufferError: ``copy=False``, and the memory cannot be shared.
        TracerConversionError: x is traced: its derivative would get lost.

    >>> import numpy
    >>> import functensor.numpy as np
    >>> np.from_dlpack(numpy.ones(2))
    Array([1., 1.], dtype=float64, device='cpu')
    """
    check_device(device)
    if not hasattr(x, "__dlpack__"):
        raise TypeError(f"from_dlpack takes what speaks DLPack, not {type(x).__name__}; np.asarray")
    return wrap(np.from_dlpack(x, device=device, copy=copy))


# -- out of shapes


def zeros(shape: Any, dtype: Any = float, order: str = "C", *, device: Any = None) -> Any:
    """Returns an array of zeros.

    Args:
        shape: the length of every axis, or of the only one.
        dtype: the dtype, by default ``float64``.
        order: of no effect: there is one memory layout.
        device: None or ``"cpu"``.

    >>> import functensor.numpy as np
    >>> np.zeros((2, 2))
    Array([[0., 0.],
           [0., 0.]], dtype=float64, device='cpu')
    """
    check_device(device)
    return wrap(np.zeros(shape, number_dtype(dtype)))


def ones(shape: Any, dtype: Any = None, order: str = "C", *, device: Any = None) -> Any:
    """Returns an array of ones.

    Args:
        shape: the length of every axis, or of the only one.
        dtype: the dtype, by default ``float64``.
        order: of no effect: there is one memory layout.
        device: None or ``"cpu"``.

    >>> import functensor.numpy as np
    >>> np.ones(3, "int32")
    Array([1, 1, 1], dtype=int32, device='cpu')
    """
    check_device(device)
    return wrap(np.ones(shape, number_dtype(dtype)))


def empty(shape: Any, dtype: Any = float, order: str = "C", *, device: Any = None) -> Any:
    """Returns an array of a shape whose values do not matter: zeros, since none can be set later.

    Args:
        shape, dtype, order, device: as for `zeros`.

    >>> import functensor.numpy as np
    >>> np.empty((2, 3)).shape
    (2, 3)
    """
    return zeros(shape, dtype, device=device)


def full(
    shape: Any, fill_value: Any, dtype: Any = None, order: str = "C", *, device: Any = None
) -> Any:
    """Returns an array filled with a value.

    Args:
        shape: the length of every axis, or of the only one.
        fill_value: a number, or an array that broadcasts to the shape; derivatives flow to it.
        dtype: the dtype; None takes that of the value.
        order: of no effect: there is one memory layout.
        device: None or ``"cpu"``.

    >>> import functensor.numpy as np
    >>> np.full((2,), 7.0)
    Array([7., 7.], dtype=float64, device='cpu')
    """
    check_device(device)
    lengths = as_shape(shape)
    fill_value = operand(fill_value)
    if isinstance(fill_value, Array):
        return ops.broadcast_to(asarray(fill_value, dtype), lengths)
    return wrap(_numbers(np.full(lengths, to_buffer(fill_value), dtype), fill_value))


def _like(a: Any, dtype: Any, shape: Any) -> tuple[Any, Any]:
    known = shape_dtype(a if isinstance(a, Array) else np.asarray(to_buffer(a)))
    return known.shape if shape is None else shape, known.dtype if dtype is None else dtype


@registry.add_function
def zeros_like(
    a: Any,
    dtype: Any = None,
    order: str = "K",
    subok: bool = True,
    shape: Any = None,
    *,
    device: Any = None,
) -> Any:
    """Returns an array of zeros of another array's shape and dtype.

    Args:
        a: the array.
        dtype, shape: what to take instead of that of the array.
        order, subok: of no effect: there is one memory layout, and one class.
        device: None or ``"cpu"``.

    >>> import functensor.numpy as np
    >>> np.zeros_like(np.array([1, 2]))
    Array([0, 0], dtype=int64, device='cpu')
    """
    return zeros(*_like(a, dtype, shape), device=device)


@registry.add_function
def ones_like(
    a: Any,
    dtype: Any = None,
    order: str = "K",
    subok: bool = True,
    shape: Any = None,
    *,
    device: Any = None,
) -> Any:
    """Returns an array of ones of another array's shape and dtype.

    Args:
        a: the array.
        dtype, shape: what to take instead of that of the array.
        order, subok: of no effect: there is one memory layout, and one class.
        device: None or ``"cpu"``.

    >>> import functensor.numpy as np
    >>> np.ones_like(np.array([0.5, 0.5]))
    Array([1., 1.], dtype=float64, device='cpu')
    """
    return ones(*_like(a, dtype, shape), device=device)


@registry.add_function
def empty_like(
    prototype: Any,
    dtype: Any = None,
    order: str = "K",
    subok: bool = True,
    shape: Any = None,
    *,
    device: Any = None,
) -> Any:
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
    a: Any,
    fill_value: Any,
    dtype: Any = None,
    order: str = "K",
    subok: bool = True,
    shape: Any = None,
    *,
    device: Any = None,
) -> Any:
    """Returns an array of another array's shape and dtype, filled with a value.

    Args:
        a: the array.
        fill_value: a number, or an array that broadcasts to the shape; derivatives flow to it.
        dtype, shape: what to take instead of that of the array.
        order, subok: of no effect: there is one memory layout, and one class.
        device: None or ``"cpu"``.

    >>> import functensor.numpy as np
    >>> np.full_like(np.zeros(2), 7)
    Array([7., 7.], dtype=float64, device='cpu')
    """
    lengths, kind = _like(a, dtype, shape)
    return full(lengths, fill_value, kind, device=device)


def eye(
    N: int,
    M: int | None = None,
    k: int = 0,
    dtype: Any = float,
    order: str = "C",
    *,
    device: Any = None,
) -> Any:
    """Returns a matrix with ones on a diagonal and zeros elsewhere.

    Args:
        N, M: the numbers of rows and columns, as many by default.
        k: which diagonal: above the main one where positive.
        dtype: the dtype, by default ``float64``.
        order: of no effect: there is one memory layout.
        device: None or ``"cpu"``.

    >>> import functensor.numpy as np
    >>> np.eye(2)
    Array([[1., 0.],
           [0., 1.]], dtype=float64, device='cpu')
    """
    check_device(device)
    return wrap(np.eye(N, M, k, number_dtype(dtype)))


def identity(n: int, dtype: Any = None) -> Any:
    """Returns the identity matrix of n rows.

    Args:
        n: how many rows and columns.
        dtype: of the elements; None for ``float64``.

    >>> import functensor.numpy as np
    >>> np.identity(2, int)
    Array([[1, 0],
           [0, 1]], dtype=int64, device='cpu')
    """
    return eye(n, dtype=dtype)


def tri(N: int, M: int | None = None, k: int = 0, dtype: Any = float) -> Any:
    """Returns a matrix with ones on and below a diagonal and zeros above it.

    Args:
        N, M: the numbers of rows and columns, as many by default.
        k: which diagonal: above the main one where positive.
        dtype: the dtype, by default ``float64``.

    >>> import functensor.numpy as np
    >>> np.tri(2, dtype=bool)
    Array([[ True, False],
           [ True,  True]], dtype=bool, device='cpu')
    """
    return wrap(np.tri(N, M, k, number_dtype(dtype)))
