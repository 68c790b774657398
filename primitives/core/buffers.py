"""Raw buffers, and the arrays that hold them at the public face."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar

import numpy as np

from ...backends.annotations import Buffer, DType
from ...backends.devices import device_of as buffer_device
from ...backends.devices import on_device, placement, resolved
from ...backends.memory_search import ManyArrays
from ...backends.protocol import BY_BUFFER
from .annotations import ArrayLike, Value
from .array import Array, Tracer
from .array_slots import array_slots
from .derivative_rules import shape_of
from .errors import DeviceError, OperandError, describe, failure
from .operators import leave_to_its_class
from .plain_arrays import plain_arrays
from .python_numbers import BASES, as_python_number
from .registry import registry
from .shape_dtype import NUMBERS, is_number_dtype

__all__ = [
    "ARRAY_TYPES",
    "BUFFER_TYPES",
    "DEVICE_TYPES",
    "SEQUENCES",
    "WEAK_TYPES",
    "TracedListError",
    "all_apart_from",
    "all_wrapped",
    "apart_from",
    "as_array",
    "beside",
    "checked_number",
    "computing_on",
    "device_of",
    "different_devices",
    "exposed",
    "holds_array",
    "is_changeable",
    "new_object",
    "on_gpu",
    "operands_together",
    "own_array",
    "owned",
    "required_on",
    "same_bits",
    "stacked_buffers",
    "to_buffer",
    "too_large",
    "unshared",
    "wrap",
]  # fmt: skip

Placed = TypeVar("Placed")
# Makes an array, or a tracer, without a call of ``__init__``.
new_object = object.__new__
# So many are compared in no time by a copy.
FEW_BYTES = 4096
WORDS: dict[int, Any] = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
# Tuples: `isinstance` is many times faster with them than with unions of types.
LISTS = (list, tuple, range)
SEQUENCES = (list, tuple)

# Python's scalars: as operands they are weak and do not decide a promotion.
WEAK_TYPES = frozenset({float, int, bool, complex, *BASES})

# The classes of raw buffers: arrays, NumPy's scalars, and Python's (which stay weak). Backends
# beside NumPy's, whose classes of buffers are those of devices, enter when they are loaded.
DEVICE_TYPES = BY_BUFFER.keys()
ARRAY_TYPES: set[type] = {np.ndarray}
BUFFER_TYPES = {
    float, int, bool, complex, np.ndarray, *(np.dtype(c).type for c in "?bBhHiIlLqQefdgFDG")
}  # fmt: skip


def wrap(buffer: Any) -> Array:
    """Returns a raw buffer as an ``Array``; what is one already, or a tracer, as it is.

    Raises:
        OverflowError: it is an integer that no dtype holds.
    """
    if isinstance(buffer, Array):
        return buffer
    out = new_object(Array)
    if type(buffer) in WEAK_TYPES:
        found: Any = np.asarray(buffer)[()]
        # NumPy keeps an integer that none of its dtypes holds.
        if type(found) in WEAK_TYPES:
            raise too_large(found)
        out._data = found
    else:
        out._data = buffer
    return out


def checked_number(x: Any, dtype: DType) -> Any:
    """Returns one of Python's numbers in a dtype, where it has to fit; all else as it is.

    Raises:
        OverflowError, TypeError, ValueError: the dtype has no such number: NumPy's words.
    """
    return np.asarray(as_python_number(x), dtype) if type(x) in WEAK_TYPES else x


def all_wrapped(buffers: Iterable[Any]) -> list[Any]:
    """Returns raw buffers as arrays, as `wrap` does."""
    kinds = ARRAY_TYPES
    outs: list[Any]
    if type(buffers) is list and buffers and type(buffers[0]) in kinds:
        outs = [None] * len(buffers)
        if array_slots.made(Array, type(buffers[0]), buffers, outs) is None:
            return outs
    outs = []
    for buffer in buffers:
        if type(buffer) in kinds:
            out = new_object(Array)
            out._data = buffer
            outs.append(out)
        else:
            outs.append(wrap(buffer))
    return outs


def too_large(x: int) -> OverflowError:
    """Returns the error for an integer of Python's that arrays do not hold."""
    return OverflowError(
        f"an integer of {x.bit_length()} bits is to be an array, but arrays' integers have 64 with "
        "their sign: float(n)"
    )


def exposed(value: Value | None) -> Any:
    """Returns a value of any level as a user's function sees it: Python scalars stay weak."""
    return value if value is None or type(value) in WEAK_TYPES else wrap(value)


class TracedListError(OperandError):
    """A list of traced values has no buffer: it is to be joined by a primitive first."""


def holds_array(items: Iterable[Any], kind: type = Array) -> bool:
    """Says whether nested lists hold an array, so that NumPy alone cannot join them."""
    types = set(map(type, items))
    if types <= BUFFER_TYPES:
        return False
    return any(issubclass(t, kind) for t in types) or any(
        isinstance(item, list | tuple) and holds_array(item, kind) for item in items
    )


def to_buffer(x: Any) -> Any:
    """Returns the raw buffer of an operand: an array, a NumPy array or scalar, a number, a list.

    Python's numbers stay what they are.

    Raises:
        EscapedTracerError: it is a tracer of a transformation that has ended.
        OperandError: it is nothing that holds numbers.
        TypeError: it is a masked array that hides elements.
        TracedListError: it is a list with traced values.
    """
    if type(x) in BUFFER_TYPES:
        return x
    if type(x) is Array:
        return x._data
    if isinstance(x, Tracer):
        return x.owner.leave(x)
    if type(x) in BASES:
        return as_python_number(x)
    if isinstance(x, list | tuple | range):
        if holds_array(x):
            if any(isinstance(item, Tracer) and not item.owner.standing for item in x):
                raise TracedListError(f"a list of traced values is no array: np.stack({x!r:.60})")
            return stacked_buffers([to_buffer(item) for item in x])
        buffer = np.asarray(x)
        if buffer.dtype.kind == "O":
            buffer = stacked_buffers([to_buffer(item) for item in x])
        if placement.device != "cpu" and buffer.dtype.kind in NUMBERS:
            # Numbers in a list have no device yet.
            return on_device(buffer, placement.device)
    elif isinstance(x, np.ndarray | np.generic | bool | int | float | complex):
        leave_to_its_class(x)
        mask = getattr(x, "mask", None)
        if mask is not None and np.any(mask):
            # No operator may leave this error to the other operand's class.
            raise TypeError(
                "arrays here have no masks, and what a masked array hides would count: "
                "x.filled(0), x.compressed(), or np.where(mask, 0, x.data)"
            )
        buffer = np.asarray(x)
    elif on_gpu(x):
        return resolved("cuda")[0].adopted(x)
    elif hasattr(x, "__dlpack__") or hasattr(x, "__array__"):
        leave_to_its_class(x)
        buffer = resolved("cpu")[0].adopted(x)
    elif isinstance(x, bytearray | memoryview) or type(x).__module__ == "array":
        # A copy: its owner may change what it holds.
        buffer = np.array(x)
    elif hasattr(x, "__float__"):
        # Numbers of the standard library: fractions, decimals.
        return float(x)
    else:
        raise OperandError(f"expected an array or a number, got {type(x).__name__}: {x!r:.60}")
    if not is_number_dtype(buffer.dtype):
        raise OperandError(f"arrays hold numbers, not dtype {buffer.dtype}: {x!r:.60}")
    return buffer


def stacked_buffers(buffers: list[Buffer]) -> Buffer:
    """Returns buffers of one shape as one, along a new axis in front."""
    device = next((d for d in map(buffer_device, buffers) if d != "cpu"), "cpu")
    if device == "cpu":
        return np.asarray([np.asarray(b) for b in buffers])
    whole: Buffer = resolved(device)[0].xp.stack([on_device(b, device) for b in buffers])
    return whole


def on_gpu(x: Any) -> bool:
    """Says whether another library's array is in a GPU's memory."""
    if hasattr(x, "__cuda_array_interface__"):
        return True
    # 2 is CUDA's number in DLPack.
    return hasattr(x, "__dlpack_device__") and x.__dlpack_device__()[0] == 2


def device_of(x: ArrayLike) -> str:
    """Returns the name of the device where an array, a tracer or a buffer is."""
    return x.device if isinstance(x, Array) else buffer_device(x)


def beside(x: ArrayLike, constant: Placed) -> Placed:
    """Returns a NumPy constant where it can meet an array: on the same device.

    Rules and functions that bring constants of their own, like the identity matrix, put them
    beside an operand; on the CPU that costs nothing.
    """
    device = device_of(x)
    return constant if device == "cpu" else on_device(constant, device)


def required_on(x: Value, device: str, what: str) -> Value:
    """Returns what has to be on a device; a number goes there by itself.

    Raises:
        DeviceError: it is an array on another one; ``what`` is what the message calls it.
    """
    here = device_of(x)
    if here == device:
        return x
    if here == "cpu" and not shape_of(x):
        moved: Value = on_device(to_buffer(x), device)
        return moved
    raise failure(
        DeviceError,
        f"{what} is on {here}, but what it belongs to is on {device}",
        fix=f'ft.to_device(x, "{device}")',
        number=14,
    )


def operands_together(name: str, *xs: Any) -> list[Any]:
    """Returns a function's operands with lists made into arrays, beside the first one on a GPU.

    None stands for an operand that is not there.

    Raises:
        DeviceError: arrays are on different devices.
    """
    if not DEVICE_TYPES:
        return [registry.asarray(x) if isinstance(x, LISTS) else x for x in xs]
    arrays = [x for x in xs if not isinstance(x, LISTS)]
    place = next((d for d in map(device_of, arrays) if d != "cpu"), None)
    out = [registry.asarray(x, device=place) if isinstance(x, LISTS) else x for x in xs]
    if place is not None:
        known = {i: device_of(x) for i, x in enumerate(out) if getattr(x, "shape", ())}
        if len(set(known.values())) > 1:
            listed = (f"operand {i} ({describe(out[i])}) on {d}" for i, d in known.items())
            raise different_devices(name, ", ".join(listed), out)
    return out


def different_devices(name: str, listed: str, operands: Iterable[Any]) -> DeviceError:
    """Returns the error for operands of a function on different devices, which are listed."""
    place = next((d for d in map(device_of, operands) if d != "cpu"), "cpu")
    return failure(
        DeviceError,
        f"{name} of arrays on different devices: {listed}",
        fix=f'x = ft.to_device(x, "{place}") for each that is elsewhere',
        number=14,
    )


def computing_on(values: Iterable[Value]) -> AbstractContextManager[Any]:
    """Returns a context in which an array module computes where the values are.

    Rules write operators, which CPU and GPU buffers do by themselves, and of several GPUs only on
    the current one.
    """
    for value in values:
        device = device_of(value)
        if device != "cpu":
            return resolved(device)[0].current(device)
    return nullcontext()


def owned(x: Any) -> Any:
    """Returns a plain array, which its owner may change later, as a copy; all else as it is.

    For what a derivative keeps from one call for the next.
    """
    if type(x) in ARRAY_TYPES:
        return x.copy() if is_changeable(x) else x
    # Of a class of NumPy's or the user's, such as that of a file in memory.
    return np.array(x) if isinstance(x, np.ndarray) and is_changeable(x) else x


def own_array(x: Value) -> Any:
    """Returns a plain array as an ``Array`` with memory of its own; all else as it is."""
    return wrap(owned(x)) if type(x) in ARRAY_TYPES else x


def is_changeable(x: Any) -> bool:
    """Says whether anybody may still write to an array's memory."""
    while isinstance(x, np.ndarray):
        if x.flags.writeable:
            return True
        x = x.base
    # Bytes, and a file that was opened for reading, do not change.
    return not (x is None or type(x) is bytes or type(x).__name__ == "mmap")


def same_bits(x: Any, y: Any) -> bool:
    """Says whether two buffers of one shape and dtype have the same bits, those of NaN too."""
    x, y = np.asarray(x), np.asarray(y)
    if x.nbytes <= FEW_BYTES:
        return bool(x.tobytes() == y.tobytes())
    if x.flags.c_contiguous and y.flags.c_contiguous and not x.nbytes % 8:
        return bool((x.reshape(-1).view(WORDS[8]) == y.reshape(-1).view(WORDS[8])).all())
    word = WORDS.get(x.itemsize)
    if word is not None:
        return bool(np.array_equal(x.view(word), y.view(word)))
    if x.dtype.kind == "c":
        return same_bits(x.real, y.real) and same_bits(x.imag, y.imag)
    return bool(x.tobytes() == y.tobytes())


def unshared(buffer: Value, given: list[Buffer]) -> Any:
    """Returns a buffer, or a copy if it shares memory with a plain array that was given.

    Results are immutable: they must not change when the owner changes that array.
    """
    if type(buffer) is not np.ndarray:
        return buffer
    if type(given) is ManyArrays:
        return owned(buffer) if given.meet(buffer) else buffer
    for x in given:
        if x is buffer or np.may_share_memory(x, buffer):
            return owned(buffer)
    return buffer


def apart_from(x: Value, given: list[Buffer]) -> Array:
    """Returns a result as an array whose memory is its own; see `unshared`."""
    out = wrap(x)
    if given and type(out) is Array:
        buffer = unshared(out._data, given)
        if buffer is not out._data:
            return wrap(buffer)
    return out


def all_apart_from(outs: Sequence[Value], given: Iterable[Any]) -> Sequence[Value]:
    """Returns outputs of a call, raw or not, with memory of their own; see `unshared`."""
    plain = plain_arrays(given)
    if not plain:
        return outs
    return [apart_from(out, plain) if type(out) is Array else unshared(out, plain) for out in outs]


def as_array(x: Any) -> Any:
    """Returns one of the facade's tensors as what a transformation sees, and all else as it is.

    Raises:
        TracerConversionError: it requires grad, and its gradient would get lost.
    """
    return x.owner.entered(x) if isinstance(x, Tracer) and x.owner.standing else x
