"""Arrays out of numbers, lists, shapes and ranges."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..primitives.array import Array, Tracer, concrete
from ..primitives.buffers import WEAK_TYPES, to_buffer, wrap
from ..primitives.errors import DeviceError
from ..primitives.registry import registry
from ..primitives.registry import registry as ops
from ..primitives.rules import shape_of
from ..primitives.types import shape_dtype

__all__ = [
    "arange",
    "array",
    "asarray",
    "copy",
    "empty",
    "empty_like",
    "eye",
    "from_dlpack",
    "full",
    "full_like",
    "geomspace",
    "identity",
    "linspace",
    "logspace",
    "ones",
    "ones_like",
    "tri",
    "zeros",
    "zeros_like",
]


# -- out of values


def array(
    object: Any, dtype: Any = None, *, copy: bool | None = True, ndmin: int = 0, device: Any = None
) -> Any:
    """Returns an array of numbers, nested lists, a NumPy array or an array.

    Args:
        object: the values. Lists may hold arrays and traced values; derivatives flow through.
        dtype: the dtype of the elements; None takes that of the values.
        copy: whether memory of a NumPy array is copied, so that later changes to it do not show.
        ndmin: the least number of axes; axes of length 1 are put in front.
        device: None or ``"cpu"``.

    Returns:
        An array on that device.

    Raises:
        TypeError: the values are not numbers.
        ValueError: nested lists are ragged.

    >>> import functensor.numpy as np
    >>> np.array([[1, 2], [3, 4]], dtype="float32")
    Array([[1., 2.],
           [3., 4.]], dtype=float32, device='cpu')
    """
    out = asarray(object, dtype, device=device, copy=copy)
    missing = ndmin - len(out.shape)
    return ops.reshape(out, (1,) * missing + out.shape) if missing > 0 else out


@registry.add_function
def asarray(a: Any, dtype: Any = None, *, device: Any = None, copy: bool | None = None) -> Any:
    """Returns the same values as an array, without copying a NumPy array's memory if possible.

    Args:
        a: an array, a number, nested lists, a NumPy array, or what speaks DLPack. Lists may hold
            arrays and traced values; derivatives flow through.
        dtype: the dtype of the elements; None takes that of the values.
        device: None or ``"cpu"``.
        copy: True copies; False raises where a copy is needed; None copies only where needed.

    Returns:
        An array; one that fits already is returned as it is.

    Raises:
        TypeError: the values are not numbers.
        ValueError: nested lists are ragged, or ``copy=False`` and a copy is needed.

    >>> import functensor as ft
    >>> ft.grad(lambda x: ft.numpy.asarray([x, x * x])[1])(3.0)
    Array(6., dtype=float64, device='cpu')
    """
    _check_device(device)
    if isinstance(a, Array):
        if dtype is None or a.dtype == np.dtype(dtype):
            # Only the memory that an array shares with a NumPy array can change.
            return a if not copy or isinstance(a, Tracer) else wrap(np.array(a._data))
        if copy is False:
            raise ValueError(f"copy=False, but casting {a.dtype} to {np.dtype(dtype)} copies")
        return ops.astype(a, dtype)
    if copy is False and isinstance(a, list | tuple | range):
        raise ValueError("copy=False, but lists are copied into an array")
    if isinstance(a, list | tuple) and _holds_array(a):
        out = ops.stack([asarray(item) for item in a])
        return out if dtype is None else ops.astype(out, dtype)
    if isinstance(a, list | tuple | range):
        return wrap(_numbers(np.array(a, dtype=dtype), a))
    buffer = to_buffer(a)
    if dtype is not None:
        return wrap(np.asarray(buffer, dtype=dtype, copy=copy))
    return wrap(_numbers(np.asarray(buffer, copy=copy), a))


def _holds_array(items: Sequence[Any]) -> bool:
    """Says whether nested lists hold an array, so that NumPy alone cannot join them."""
    return any(
        isinstance(item, Array) or (isinstance(item, list | tuple) and _holds_array(item))
        for item in items
    )


def _numbers(buffer: Any, source: Any) -> Any:
    if buffer.dtype.kind not in "?biufc":
        raise TypeError(f"arrays hold numbers, not dtype {buffer.dtype}: {source!r:.60}")
    return buffer


def _check_device(device: Any) -> None:
    if device is not None and device != "cpu":
        raise DeviceError(f"there is no device {device!r}; there is 'cpu'")


@registry.add_function
def copy(a: Any) -> Any:
    """Returns an array with memory of its own.

    >>> import functensor.numpy as np
    >>> np.copy(np.ones(2))
    Array([1., 1.], dtype=float64, device='cpu')
    """
    return asarray(a, copy=True)


def from_dlpack(x: Any) -> Any:
    """Returns another library's array as an array that shares its memory.

    Args:
        x: an object with ``__dlpack__`` and ``__dlpack_device__``, on the CPU.

    >>> import numpy
    >>> import functensor.numpy as np
    >>> np.from_dlpack(numpy.ones(2))
    Array([1., 1.], dtype=float64, device='cpu')
    """
    return wrap(np.from_dlpack(x))


# -- out of shapes


def zeros(shape: Any, dtype: Any = float, *, device: Any = None) -> Any:
    """Returns an array of zeros.

    Args:
        shape: the length of every axis, or of the only one.
        dtype: the dtype, by default ``float64``.
        device: None or ``"cpu"``.

    >>> import functensor.numpy as np
    >>> np.zeros((2, 2))
    Array([[0., 0.],
           [0., 0.]], dtype=float64, device='cpu')
    """
    _check_device(device)
    return wrap(np.zeros(shape, dtype))


def ones(shape: Any, dtype: Any = None, *, device: Any = None) -> Any:
    """Returns an array of ones.

    Args:
        shape: the length of every axis, or of the only one.
        dtype: the dtype, by default ``float64``.
        device: None or ``"cpu"``.

    >>> import functensor.numpy as np
    >>> np.ones(3, "int32")
    Array([1, 1, 1], dtype=int32, device='cpu')
    """
    _check_device(device)
    return wrap(np.ones(shape, dtype))


def empty(shape: Any, dtype: Any = float, *, device: Any = None) -> Any:
    """Returns an array of a shape whose values do not matter: zeros, since none can be set later.

    >>> import functensor.numpy as np
    >>> np.empty((2, 3)).shape
    (2, 3)
    """
    return zeros(shape, dtype, device=device)


def full(shape: Any, fill_value: Any, dtype: Any = None, *, device: Any = None) -> Any:
    """Returns an array filled with a value.

    Args:
        shape: the length of every axis, or of the only one.
        fill_value: a number, or an array that broadcasts to the shape; derivatives flow to it.
        dtype: the dtype; None takes that of the value.
        device: None or ``"cpu"``.

    >>> import functensor.numpy as np
    >>> np.full((2,), 7.0)
    Array([7., 7.], dtype=float64, device='cpu')
    """
    _check_device(device)
    lengths = tuple(shape) if isinstance(shape, Sequence) else (operator.index(shape),)
    if isinstance(fill_value, Array):
        return ops.broadcast_to(asarray(fill_value, dtype), lengths)
    return wrap(_numbers(np.full(lengths, to_buffer(fill_value), dtype), fill_value))


def _like(a: Any, dtype: Any, shape: Any) -> tuple[Any, Any]:
    known = shape_dtype(a if isinstance(a, Array) else np.asarray(to_buffer(a)))
    return known.shape if shape is None else shape, known.dtype if dtype is None else dtype


@registry.add_function
def zeros_like(a: Any, dtype: Any = None, *, shape: Any = None, device: Any = None) -> Any:
    """Returns an array of zeros of another array's shape and dtype.

    Args:
        a: the array.
        dtype, shape: what to take instead of that of the array.
        device: None or ``"cpu"``.

    >>> import functensor.numpy as np
    >>> np.zeros_like(np.array([1, 2]))
    Array([0, 0], dtype=int64, device='cpu')
    """
    return zeros(*_like(a, dtype, shape), device=device)


@registry.add_function
def ones_like(a: Any, dtype: Any = None, *, shape: Any = None, device: Any = None) -> Any:
    """Returns an array of ones of another array's shape and dtype.

    Args:
        a: the array.
        dtype, shape: what to take instead of that of the array.
        device: None or ``"cpu"``.

    >>> import functensor.numpy as np
    >>> np.ones_like(np.array([0.5, 0.5]))
    Array([1., 1.], dtype=float64, device='cpu')
    """
    return ones(*_like(a, dtype, shape), device=device)


@registry.add_function
def empty_like(a: Any, dtype: Any = None, *, shape: Any = None, device: Any = None) -> Any:
    """Returns an array of another array's shape and dtype whose values do not matter.

    >>> import functensor.numpy as np
    >>> np.empty_like(np.ones((2, 3))).shape
    (2, 3)
    """
    return zeros_like(a, dtype, shape=shape, device=device)


@registry.add_function
def full_like(
    a: Any, fill_value: Any, dtype: Any = None, *, shape: Any = None, device: Any = None
) -> Any:
    """Returns an array of another array's shape and dtype, filled with a value.

    Args:
        a: the array.
        fill_value: a number, or an array that broadcasts to the shape; derivatives flow to it.
        dtype, shape: what to take instead of that of the array.
        device: None or ``"cpu"``.

    >>> import functensor.numpy as np
    >>> np.full_like(np.zeros(2), 7)
    Array([7., 7.], dtype=float64, device='cpu')
    """
    lengths, kind = _like(a, dtype, shape)
    return full(lengths, fill_value, kind, device=device)


def eye(N: int, M: int | None = None, k: int = 0, dtype: Any = float, *, device: Any = None) -> Any:
    """Returns a matrix with ones on a diagonal and zeros elsewhere.

    Args:
        N, M: the numbers of rows and columns, as many by default.
        k: which diagonal: above the main one where positive.
        dtype: the dtype, by default ``float64``.
        device: None or ``"cpu"``.

    >>> import functensor.numpy as np
    >>> np.eye(2)
    Array([[1., 0.],
           [0., 1.]], dtype=float64, device='cpu')
    """
    _check_device(device)
    return wrap(np.eye(N, M, k, dtype))


def identity(n: int, dtype: Any = None) -> Any:
    """Returns the identity matrix of n rows.

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
    return wrap(np.tri(N, M, k, dtype))


# -- out of ranges


def arange(
    start: Any, /, stop: Any = None, step: Any = 1, dtype: Any = None, *, device: Any = None
) -> Any:
    """Returns evenly spaced numbers from start up to, not including, stop.

    Args:
        start: the first number; the end, where it is the only argument.
        stop: where to end.
        step: the difference of two numbers.
        dtype: the dtype; None takes that of the arguments.
        device: None or ``"cpu"``.

    Returns:
        An array of ``ceil((stop - start) / step)`` numbers. Derivatives flow to start and step.

    Raises:
        ConcretizationError: an argument's value is not known, under vmap, so that the length is
            not either.

    >>> import functensor.numpy as np
    >>> np.arange(3), np.arange(0.0, 1.0, 0.25).tolist()
    (Array([0, 1, 2], dtype=int64, device='cpu'), [0.0, 0.25, 0.5, 0.75])
    """
    _check_device(device)
    if stop is None:
        start, stop = 0, start
    bounds = [concrete(x, "arange") if isinstance(x, Array) else x for x in (start, stop, step)]
    fixed = np.arange(*bounds, dtype=dtype)
    if not (isinstance(start, Tracer) or isinstance(step, Tracer)):
        return wrap(fixed)
    count = np.arange(len(fixed), dtype=fixed.dtype)
    return ops.astype(ops.add(start, ops.multiply(count, step)), fixed.dtype)


@registry.add_function
def linspace(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: Any = None,
    axis: int = 0,
    *,
    device: Any = None,
) -> Any:
    """Returns evenly spaced numbers from start to stop.

    Args:
        start, stop: numbers, or arrays that broadcast to each other; derivatives flow to them.
        num: how many numbers.
        endpoint: whether stop is the last of them.
        retstep: whether to return the difference of two numbers too.
        dtype: the dtype; None takes an inexact one.
        axis: where the numbers' axis goes, where start and stop are arrays.
        device: None or ``"cpu"``.

    Returns:
        An array of num numbers; with ``retstep`` a pair of that and the step.

    >>> import functensor.numpy as np
    >>> np.linspace(0, 1, 5)
    Array([0.  , 0.25, 0.5 , 0.75, 1.  ], dtype=float64, device='cpu')
    """
    _check_device(device)
    num = operator.index(num)
    if num < 0:
        raise ValueError(f"linspace: num={num}, but there cannot be less than 0 numbers")
    ends = start, stop = [asarray(v) if isinstance(v, list | tuple) else v for v in (start, stop)]
    if not (isinstance(start, Tracer) or isinstance(stop, Tracer)):
        numbers, step = np.linspace(
            to_buffer(start), to_buffer(stop), num, endpoint, retstep=True, dtype=dtype, axis=axis
        )
        return (wrap(numbers), wrap(step)) if retstep else wrap(numbers)
    kind = np.result_type(*(v if type(v) in WEAK_TYPES else shape_dtype(v).dtype for v in ends))
    if kind.kind not in "fc":
        kind = np.result_type(kind, float)
    wanted = np.dtype(dtype) if dtype is not None else kind
    start, stop = ops.astype(start, kind), ops.astype(stop, kind)
    parts = num - 1 if endpoint else num
    delta = ops.subtract(stop, start)
    rank = len(delta.shape)
    share = (np.arange(num) / max(parts, 1)).astype(kind).reshape(-1, *(1,) * rank)
    # Both ends come out exactly, and derivatives are the shares themselves.
    out = ops.add(ops.multiply(start, 1 - share), ops.multiply(stop, share))
    if axis != 0:
        out = ops.moveaxis(out, 0, axis)
    if wanted.kind in "iu":
        out = ops.floor(out)
    out = ops.astype(out, wanted)
    return (out, ops.divide(delta, parts or np.nan)) if retstep else out


@registry.add_function
def logspace(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    base: Any = 10.0,
    dtype: Any = None,
    axis: int = 0,
) -> Any:
    """Returns powers of a base whose exponents are evenly spaced from start to stop.

    Args:
        start, stop, num, endpoint, axis: as for `linspace`.
        base: the base, a number or an array without axes.
        dtype: the dtype; None takes an inexact one.

    >>> import functensor.numpy as np
    >>> np.logspace(0, 2, 3)
    Array([  1.,  10., 100.], dtype=float64, device='cpu')
    """
    out = ops.power(base, linspace(start, stop, num, endpoint, axis=axis))
    return out if dtype is None else ops.astype(out, dtype)


@registry.add_function
def geomspace(
    start: Any, stop: Any, num: int = 50, endpoint: bool = True, dtype: Any = None, axis: int = 0
) -> Any:
    """Returns numbers from start to stop of which each is the same multiple of the one before.

    Args:
        start, stop, num, endpoint, axis: as for `linspace`; neither may be zero.
        dtype: the dtype; None takes an inexact one.

    Raises:
        ValueError: start or stop is zero.

    >>> import functensor.numpy as np
    >>> np.geomspace(1, 8, 4)
    Array([1., 2., 4., 8.], dtype=float64, device='cpu')
    """
    if not (isinstance(start, Tracer) or isinstance(stop, Tracer)):
        return wrap(
            np.geomspace(to_buffer(start), to_buffer(stop), num, endpoint, dtype, axis)
        )
    start, stop = asarray(start), asarray(stop)
    rank = max(len(shape_of(start)), len(shape_of(stop)))
    share = linspace(0.0, 1.0, num, endpoint).reshape((-1, *(1,) * rank))
    out = ops.multiply(start, ops.power(ops.divide(stop, start), share))
    if axis != 0:
        out = ops.moveaxis(out, 0, axis)
    return out if dtype is None else ops.astype(out, dtype)
