"""Arrays out of numbers, lists and other libraries' arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from ..backends.annotations import Buffer, DTypeLike, Shape
from ..backends.devices import on_device, placement, resolved
from ..primitives.core.annotations import ArrayLike
from ..primitives.core.annotations import operations as ops
from ..primitives.core.array import Array, Tracer
from ..primitives.core.buffers import (
    BUFFER_TYPES,
    SEQUENCES,
    beside,
    device_of,
    holds_array,
    is_changeable,
    on_gpu,
    stacked_buffers,
    to_buffer,
    wrap,
)
from ..primitives.core.derivative_rules import shape_of
from ..primitives.core.errors import ShapeError, misfit
from ..primitives.core.shape_dtype import (
    ShapeDtype,
    are_small_constants,
    is_number_dtype,
    number_dtype,
)
from ..primitives.core.trace import below_hooks, is_staged, slot

if TYPE_CHECKING:

    class SpeaksDLPack(Protocol):
        """Another library's array, or one of ours."""

        def __dlpack__(self, /, *, stream: None = None) -> Any: ...

        def __dlpack_device__(self) -> tuple[int, int]: ...


__all__ = ["array", "asarray", "copy", "from_dlpack"]

# Lists of so many values are taken apart into traced values and constants.
FEWEST_VALUES_TO_SEPARATE = 32
# These functions take a shape, the number for `full`, and a dtype.
FILLING_FUNCTIONS = frozenset({"full", "ones", "zeros"})


def array(
    object: ArrayLike | SpeaksDLPack,
    dtype: DTypeLike | None = None,
    *,
    copy: bool | None = True,
    order: str | None = None,
    ndmin: int = 0,
    device: str | None = None,
) -> Array:
    """Returns an array of numbers, nested lists, a NumPy array or an array.

    Args:
        object: the values. Nested lists may hold arrays and traced values beside numbers;
            derivatives flow through.
        dtype: the dtype of the elements; None takes that of the values, as NumPy does: a Python
            float in a list counts as float64.
        copy: whether memory of a NumPy array is copied, so that later changes to it do not show.
        order: without a meaning here; there for code written for NumPy.
        ndmin: the least number of axes; axes of length 1 are put in front.
        device: ``"cpu"`` or a GPU, ``"cuda:0"``; None for the default device.

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


@ops.add_function
def asarray(
    a: ArrayLike | SpeaksDLPack,
    dtype: DTypeLike | None = None,
    order: str | None = None,
    *,
    device: str | None = None,
    copy: bool | None = None,
) -> Array:
    """Returns the same values as an array, which does not change: a copy of a NumPy array.

    Args:
        a: an array, a number, nested lists, a NumPy array, or what speaks DLPack. Nested lists may
            hold arrays and traced values; derivatives flow through.
        dtype: the dtype of the elements; None takes that of the values.
        order: without a meaning here; there for code written for NumPy.
        device: ``"cpu"`` or a GPU, ``"cuda:0"``; None for the default device.
        copy: True copies; False raises where a copy is needed, and shares the memory of a NumPy
            array, which must not be written to from then on; None copies what may be written to:
            NumPy arrays, but for those that are read-only and views of nothing that is not.

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
    if isinstance(a, Array):
        if device is not None and a.device != resolved(device)[1]:
            if copy is False:
                raise ValueError(f"copy=False, but moving from {a.device} to {device} copies")
            return ops.to_device(a if dtype is None else ops.astype(a, dtype), device=device)
        if dtype is None or a.dtype == number_dtype(dtype):
            if not copy:
                return a if type(a) is Array else without_weakness(a)
            if isinstance(a, Tracer):
                # A tensor can change in place, though not its memory; other tracers cannot.
                return ops.index(a, ...) if getattr(a, "mutable", False) else without_weakness(a)
            # Only the memory that an array shares with a plain array can change.
            return wrap(a._data.copy())
        if copy is False:
            raise ValueError(f"copy=False, but casting {a.dtype} to {number_dtype(dtype)} copies")
        return ops.astype(a, dtype)
    if isinstance(a, list | tuple | range):
        if copy is False:
            raise ValueError("copy=False, but lists are copied into an array")
        if holds_array(a):
            return asarray(_array_of_lists(a), dtype, device=device)
        return _as_array_on(_buffer_of_lists(a, dtype), device)
    other: Any = a
    buffer = to_buffer(other)
    if device_of(buffer) != "cpu":
        return asarray(wrap(buffer), dtype, device=device, copy=copy)
    if copy is None and type(buffer) is np.ndarray and is_changeable(buffer):
        copy = True
    if dtype is not None:
        return _as_array_on(np.asarray(buffer, dtype=number_dtype(dtype), copy=copy), device, copy)
    return _as_array_on(numbers_of(np.asarray(buffer, copy=copy), a), device, copy)


def without_weakness(x: Array) -> Array:
    """Returns a traced value as an array: one that stands for a number of Python's is cast."""
    variable = getattr(x, "variable", None)
    return x if variable is None or variable.type.weak is None else ops.astype(x, x.dtype)


def _as_array_on(buffer: Buffer, device: str | None, copy: bool | None = None) -> Array:
    """Returns a buffer on a device, or on the default one, as an array."""
    if device is not None or placement.device != "cpu":
        name = resolved(device)[1]
        if copy is False and name != device_of(buffer):
            raise ValueError(f"copy=False, but moving to {name} copies")
        buffer = on_device(buffer, name)
    return wrap(buffer)


def is_made_later(known: ShapeDtype) -> bool:
    """Says whether an array is so large that a program that is being staged makes it."""
    return is_staged() and not are_small_constants(known)


def made_later(
    name: str, make: Callable[[], Array], known: ShapeDtype, device: str | None
) -> Array:
    """Returns an array that a program makes when it runs.

    Args:
        name: what programs call it.
        make: makes the array.
        known: its type.
        device: where it is; None for the default device.
    """
    # That module imports this one.
    created = import_module("functensor.custom.creation").created
    # Outside of programs hooks are not shown what is made of nothing.
    with below_hooks():
        out: Array = created(name, make, known, device)
    return out


def made_on_device(
    function: str, *args: Any, device: str | None = None, known: ShapeDtype | None = None
) -> Array:
    """Calls an array module's creation function on a device, by default on the default one.

    While a function is staged, its program makes what is large.

    Args:
        function: its name.
        args: its arguments.
        device: the device's name, or None.
        known: what comes out, if that can be told before; of what fills a shape it is.
    """
    if slot.trace is not None and is_staged():
        if function in FILLING_FUNCTIONS and min(args[0], default=0) >= 0:
            known = ShapeDtype(args[0], args[-1])
        if known is not None and is_made_later(known):
            if function in FILLING_FUNCTIONS:
                # Repeated without memory, so that passes see the number.
                number = made_on_device(function, (), *args[1:], device=device)
                with below_hooks():
                    return ops.broadcast_to(number, known.shape)
            # Another device may be the default one when the program runs.
            device = resolved(device)[1]
            make = partial(made_on_device, function, *args, device=device)
            return made_later(function, make, known, device)
    if (device or placement.device) == "cpu":
        return wrap(getattr(np, function)(*args))
    backend, name = resolved(device)
    with backend.current(name):
        out = wrap(getattr(backend.xp, function)(*args))
        return out


def _buffer_of_lists(items: Sequence[Any], dtype: DTypeLike | None) -> Buffer:
    """Returns the buffer of nested lists that hold no arrays."""
    try:
        buffer = np.array(items, dtype=dtype)
    except ValueError as error:
        if "inhomogeneous" not in str(error):
            raise
        raise _ragged_list_error(items, [shape_of(asarray(item)) for item in items]) from None
    if buffer.dtype.kind == "O" and dtype is None:
        # Numbers of the standard library, fractions and decimals.
        buffer = to_buffer(items)
    return numbers_of(buffer, items)


def _array_of_lists(items: Sequence[Any]) -> Array:
    """Returns nested lists with arrays in them as one array; uneven depths are joined first."""
    outer: tuple[int, ...] = (len(items),)
    leaves = list(items)
    while isinstance(leaves[0], SEQUENCES) and all(isinstance(x, SEQUENCES) for x in leaves):
        lengths = {len(row) for row in leaves}
        if len(lengths) > 1:
            raise _ragged_list_error(items, [shape_of(asarray(row)) for row in leaves])
        outer += (len(leaves[0]),)
        leaves = [x for row in leaves for x in row]
    place = next((d for d in map(device_of, leaves) if d != "cpu"), None)
    leaves = [
        x if isinstance(x, Array) or type(x) in BUFFER_TYPES else asarray(x, device=place)
        for x in leaves
    ]
    shapes = [shape_of(x) for x in leaves]
    if len(set(shapes)) > 1:
        raise _ragged_list_error(items, shapes)
    out = _stack_of_values(leaves)
    return out if len(outer) == 1 else ops.reshape(out, outer + shapes[0])


def _stack_of_values(leaves: Sequence[Any]) -> Array:
    """Returns values of one shape along a new axis in front."""
    if len(leaves) < FEWEST_VALUES_TO_SEPARATE:
        return ops.stack(leaves)
    varying = [i for i, x in enumerate(leaves) if isinstance(x, Tracer)]
    if 2 * len(varying) > len(leaves):
        return ops.stack(leaves)
    # A few traced values are put among many constants, which then cost no rules.
    if not varying:
        return wrap(stacked_buffers([to_buffer(x) for x in leaves]))
    joined = ops.stack([leaves[i] for i in varying])
    fixed = [np.zeros(x.shape, x.dtype) if isinstance(x, Tracer) else to_buffer(x) for x in leaves]
    return ops.index_set(beside(joined, stacked_buffers(fixed)), np.array(varying), joined)


def _ragged_list_error(items: Sequence[Any], shapes: Sequence[Shape]) -> ShapeError:
    """Returns the error for a list whose items cannot make one array."""
    other = next(i for i, shape in enumerate(shapes) if shape != shapes[0])
    return misfit(
        f"array of a ragged list: item 0 has shape {shapes[0]}, item {other} has shape "
        f"{shapes[other]}",
        "give all items one shape; np.concatenate joins parts of different lengths, a "
        "tuple or dict keeps them apart",
    )


def numbers_of(buffer: Buffer, source: Any) -> Buffer:
    """Returns a buffer, if it holds numbers.

    Args:
        buffer: the buffer.
        source: what it was made of, for the message.
    """
    if not is_number_dtype(buffer.dtype):
        raise TypeError(f"arrays hold numbers, not dtype {buffer.dtype}: {source!r:.60}")
    return buffer


@ops.add_function
def copy(a: ArrayLike, order: str = "K", subok: bool = False) -> Array:
    """Returns an array with memory of its own.

    Args:
        a: an array, a number or nested lists.
        order, subok: of no effect: there is one memory layout, and one class.

    >>> import functensor.numpy as np
    >>> np.copy(np.ones(2))
    Array([1., 1.], dtype=float64, device='cpu')
    """
    return asarray(a, copy=True)


def from_dlpack(
    x: SpeaksDLPack, /, *, device: str | None = None, copy: bool | None = None
) -> Array:
    """Returns another library's array as an array that shares its memory.

    Args:
        x: an object with ``__dlpack__`` and ``__dlpack_device__``, on the CPU or a GPU.
        device: ``"cpu"`` or a GPU, ``"cuda:0"``; None for the default device.
        copy: whether to copy the memory; None copies only where that is needed.

    Raises:
        BufferError: ``copy=False``, and the memory cannot be shared.
        TracerConversionError: x is traced: its derivative would get lost.

    >>> import numpy
    >>> import functensor.numpy as np
    >>> np.from_dlpack(numpy.ones(2))
    Array([1., 1.], dtype=float64, device='cpu')
    """
    if not hasattr(x, "__dlpack__"):
        raise TypeError(f"from_dlpack takes what speaks DLPack, not {type(x).__name__}; np.asarray")
    if on_gpu(x):
        return asarray(x, device=device, copy=copy)
    if device is None or device == "cpu":
        return wrap(np.from_dlpack(x, device="cpu" if device else None, copy=copy))
    return _as_array_on(np.from_dlpack(x), device, copy)
