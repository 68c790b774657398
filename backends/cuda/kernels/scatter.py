"""Values that go to places which may repeat: sums, and updates of copies.

Index arrays on the device wrap around where they are out of bounds: to raise, the host would have
to wait.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import gcd, prod
from typing import TYPE_CHECKING, Any

import cupy
import numpy as np
from cupy import ndarray

from ...annotations import Buffer, DType, Shape
from ...config import config
from ...protocol import DeviceError
from ..annotations import GpuOperand
from ..disjoint_keys import are_disjoint
from ..launch import BLOCK_THREADS, WIDEST_LOAD_BYTES, Kernel, c_type, is_contiguous
from ..strides import strides_of
from .index_places import (
    IndexedPlaces,
    Pointer,
    broadcast,
    key_on_device,
    located,
    pointed,
    rows_grid,
    uploaded,
)  # fmt: skip
from .scatter_ordered import combined
from .sorting_places import MOST_RANKED_PLACES

if TYPE_CHECKING:
    from ...annotations import KeyLike

__all__ = ["SCATTER_FUNCTIONS"]

# The hardware adds these atomically, complex ones in two parts.
ATOMIC = frozenset(
    ["float32", "float64", "int32", "int64", "uint32", "uint64", "complex64", "complex128"]
)
# Sums of these are the same in any order.
EXACTLY_ADDED = frozenset(["int32", "int64", "uint32", "uint64"])
HALVES = frozenset(["float16", "bfloat16"])
# Rows of halves as long as this are sorted: that costs less than sums in float32 beside them.
FEWEST_SORTED_COLUMNS = 32

PLACES_PARAMETERS = "llllllllll"
POINTER_PARAMETERS = "pllll"
ADD = Kernel(
    "scatter", "add", "pp" + PLACES_PARAMETERS + POINTER_PARAMETERS,
    ("float, float, 4", "float, float, 1", "half_t, float, 4", "bfloat16_t, float, 1",
     "double, double, 1", "int, int, 1", "long long, long long, 1",
     "unsigned int, unsigned int, 1", "unsigned long long, unsigned long long, 1"),
)
CLAIM = Kernel("scatter", "claim", "pl" + POINTER_PARAMETERS, ("true", "false"))
PUT = Kernel(
    "scatter", "put", "pp" + PLACES_PARAMETERS + POINTER_PARAMETERS + "p",
    tuple(map(str, (1, 2, 4, 8, WIDEST_LOAD_BYTES))),
)


# -- sums


def scatter_add(*operands: GpuOperand, shape: Shape, keys: Sequence[KeyLike]) -> ndarray:
    """Adds values into one array of zeros, each at its own key.

    Operands are the values for each key, then the index arrays of all keys in order; the result
    has the first values' dtype.
    """
    start = len(keys)
    parts = []
    for values, key in zip(operands, keys, strict=False):
        end = start + key.arrays
        parts.append((array_of(values), *key_on_device(key, operands[start:end], shape)))
        start = end
    dtype = parts[0][0].dtype
    natives = [key.native for _, key, arrays in parts if not arrays]
    if len(natives) == len(parts) and are_disjoint(natives, shape):
        return copied_apart([values for values, _, _ in parts], natives, shape)
    kept = dtype
    if dtype.name in HALVES and (
        len(parts) > 1 or any(arrays and not are_sorted(v, arrays) for v, _, arrays in parts)
    ):
        kept = np.dtype(np.float32)
    out = None
    for values, key, arrays in parts:
        if arrays:
            out = cupy.zeros(shape, kept) if out is None else out
            added(out, values, key, arrays)
        elif out is None:
            out = zeros_with(values, key.native, shape, kept)
        else:
            view = out[key.native]
            cupy.add(view, values, out=view)
    return out if kept == dtype else out.astype(dtype)  # type: ignore[union-attr]


def copied_apart(
    values: Sequence[ndarray], natives: Sequence[tuple[Any, ...]], shape: Shape
) -> ndarray:
    """Returns an array of zeros but for values at keys that share no element.

    Values that lie where they go to already are not copied.
    """
    there = lying_there(values, natives, shape)
    if there is not None:
        return there
    out = cupy.empty(shape, values[0].dtype)
    views = [out[native] for native in natives]
    if sum(view.size for view in views) < out.size:
        out.data.memset_async(0, out.nbytes)
    for view, own in zip(views, values, strict=True):
        view[...] = own
    return out


def lying_there(
    values: Sequence[ndarray], natives: Sequence[tuple[Any, ...]], shape: Shape
) -> ndarray | None:
    """Returns the array of whose memory the values are all, each at its key; None without one."""
    whole = values[0].base
    if whole is None or whole.size != prod(shape) or not is_contiguous(whole):
        return None
    if sum(x.size for x in values) != whole.size or any(x.base is not whole for x in values):
        return None
    out = whole.reshape(shape)
    for native, own in zip(natives, values, strict=True):
        view = out[native]
        alike = view.shape == own.shape and view.dtype == own.dtype
        if not alike or view.data.ptr != own.data.ptr or view.strides != own.strides:
            return None
    return out


def zeros_with(values: ndarray, native: tuple[Any, ...], shape: Shape, dtype: DType) -> ndarray:
    """Returns an array of zeros but for values at a key without index arrays."""
    out = cupy.empty(shape, dtype)
    view = out[native]
    if view.size < out.size:
        out.data.memset_async(0, out.nbytes)
    view[...] = values
    return out


def index_add(x: GpuOperand, v: GpuOperand, *indices: ndarray, key: KeyLike) -> ndarray:
    """Returns a copy of an array with values, which broadcast, added at a key."""
    x = array_of(x)
    key, arrays = key_on_device(key, indices, x.shape)
    if not arrays:
        return updated_view(x, v, key.native, cupy.add)
    v = values_in(v, x.dtype)
    if x.dtype.name in HALVES and not are_sorted(v, arrays):
        out = x.astype(np.float32, order="C")
        added(out, v, key, arrays)
        return out.astype(x.dtype)
    out = c_ordered_copy(x)
    added(out, v, key, arrays)
    return out


def are_sorted(values: ndarray, arrays: Sequence[ndarray]) -> bool:
    """Says whether values of 16 bits are sorted, and so need no array of float32."""
    count = prod(broadcast(arrays))
    return config.deterministic or (
        count <= MOST_RANKED_PLACES and values.size >= FEWEST_SORTED_COLUMNS * count
    )


def added(out: ndarray, values: ndarray, key: KeyLike, arrays: Sequence[ndarray]) -> None:
    """Adds values in place; those of 16 bits may be added into float32."""
    if values.dtype != out.dtype and values.dtype.name not in HALVES:
        values = values.astype(out.dtype)
    form = arranged(out, values, key, arrays, out.dtype.kind == "c")
    if form is None:
        return
    out, values, places, pointer = form
    name = out.dtype.name
    if name in ATOMIC and (name in EXACTLY_ADDED or not config.deterministic):
        add_unordered(out, values, places, pointer)
    else:
        combined("plus", out, values, places, pointer)


def add_unordered(out: ndarray, values: ndarray, places: IndexedPlaces, pointer: Pointer) -> None:
    """Adds values in place, in any order."""
    columns, column_stride, column_step = places.inner
    wide = 1
    if column_stride == column_step == 1 and out.dtype.name == "float32":
        fits = gcd(4, columns, places.offset, *places.outer[1:], places.step, pointer.stride)
        if fits == 4 and not (values.data.ptr % 16 or out.data.ptr % 16):
            wide = 4
    grid, log = rows_grid(places.outer[0] * places.total, columns // wide)
    ADD(
        f"{c_type(values.dtype)}, {c_type(out.dtype)}, {wide}", grid, BLOCK_THREADS, out,
        values, places.offset, *places.outer, places.total, places.step, *places.inner, log,
        *pointer[:5],
    )


# -- other updates


def index_set(x: GpuOperand, v: GpuOperand, *indices: ndarray, key: KeyLike) -> ndarray:
    """Returns a copy of an array with values at a key; of those for one place the last."""
    x = array_of(x)
    key, arrays = key_on_device(key, indices, x.shape)
    out = c_ordered_copy(x)
    if not arrays:
        out[key.native] = v
        return out
    form = arranged(out, values_in(v, out.dtype), key, arrays)
    if form is None:
        return out
    out, values, places, pointer = form
    owner: ndarray | int = 0
    if places.total > 1:
        owner = cupy.empty(pointer.limit, np.int64)
        for claims in ("false", "true"):
            CLAIM(
                claims, -(-places.total // BLOCK_THREADS), BLOCK_THREADS, owner,
                places.total, *pointer[:5],
            )
    columns, column_stride, column_step = places.inner
    size = word = out.dtype.itemsize
    if columns == 1 or column_stride == column_step == 1:
        strides = places.offset, *places.outer[1:], places.step, pointer.stride
        word = gcd(
            WIDEST_LOAD_BYTES, columns * size, out.data.ptr, values.data.ptr,
            *[s * size for s in strides],
        )
        columns, column_stride, column_step = columns * size // word, 1, 1

    def words(*strides: int) -> list[int]:
        return [stride * size // word for stride in strides]

    outer, *strides_beside = places.outer
    grid, log = rows_grid(outer * places.total, columns)
    PUT(
        str(word), grid, BLOCK_THREADS, out, values, *words(places.offset), outer,
        *words(*strides_beside), places.total, *words(places.step), columns, column_stride,
        column_step, log, *pointer[:4], *words(pointer.stride), owner,
    )
    return out


def combining(functor: str, ufunc: str) -> Callable[..., ndarray]:
    """Returns the update that combines elements and values."""

    def update(x: GpuOperand, v: GpuOperand, *indices: ndarray, key: KeyLike) -> ndarray:
        x = array_of(x)
        key, arrays = key_on_device(key, indices, x.shape)
        if not arrays:
            return updated_view(x, v, key.native, getattr(cupy, ufunc))
        out = c_ordered_copy(x)
        form = arranged(out, values_in(v, out.dtype), key, arrays)
        if form is not None:
            combined(functor, *form)
        return out

    update.__doc__ = f"Returns a copy with the {ufunc} of elements at a key and all their values."
    return update


index_max = combining("larger", "maximum")
index_min = combining("smaller", "minimum")
index_multiply = combining("times", "multiply")


def updated_view(
    x: ndarray, v: GpuOperand, native: tuple[Any, ...], ufunc: Callable[..., ndarray]
) -> ndarray:
    """Returns a copy with elements at a key without index arrays combined with values."""
    out = c_ordered_copy(x)
    view = out[native]
    ufunc(view, values_in(v, out.dtype), out=view)
    return out


# -- operands


def array_of(x: GpuOperand | Buffer) -> ndarray:
    """Returns an array, also of a number."""
    if type(x) is cupy.ndarray:
        return x
    values = np.asarray(x)
    if values.ndim:
        raise DeviceError(
            f"values {values.dtype}{list(values.shape)} on cpu, for an array on a GPU"
        )
    return uploaded(values)


def c_ordered_copy(x: ndarray) -> ndarray:
    """Returns a copy in C order; one of memory without gaps goes as fast as memory does."""
    if not x.flags.c_contiguous:
        return x.copy(order="C")
    out = cupy.empty(x.shape, x.dtype)
    if x.size:
        out.data.copy_from_device_async(x.data, x.nbytes)
    return out


def values_in(v: GpuOperand, dtype: DType) -> ndarray:
    """Returns values as an array of a dtype."""
    if isinstance(v, ndarray):
        return v.astype(dtype, copy=False)
    return array_of(np.asarray(v).astype(dtype))


def arranged(
    out: ndarray, values: ndarray, key: KeyLike, arrays: Sequence[ndarray], in_parts: bool = False
) -> tuple[ndarray, ndarray, IndexedPlaces, Pointer] | None:
    """Returns a C-contiguous array and values for elements of it, with the places of both.

    None stands for no elements. Complex numbers may become two real ones.
    """
    advanced = broadcast(arrays)
    strides = strides_of(out)
    places = located(key, out.shape, strides, advanced, values.shape, strides_of(values))
    if places is None or not parts_are_columns(places, in_parts):
        places = located(key, out.shape, strides, advanced)
        if places is not None and parts_are_columns(places, in_parts):
            values = cupy.ascontiguousarray(cupy.broadcast_to(values, places.shape))
    if places is None or not parts_are_columns(places, in_parts):
        # Every element by its own place.
        whole = cupy.arange(out.size).reshape(out.shape)[key.fill(arrays)]
        values = cupy.ascontiguousarray(cupy.broadcast_to(values, whole.shape)).reshape(-1)
        alone, size = (1, 0, 0), whole.size
        axis = out.size, 1
        places = IndexedPlaces(0, alone, size, 1, alone, (axis,), (size,), (size,))
        pointer = Pointer(whole.reshape(-1), 0, 1, *axis, out.size)
        if not size:
            return None
    elif not prod(places.shape):
        return None
    else:
        pointer = pointed(places, arrays)
    if not in_parts:
        return out, values, places, pointer
    part = np.dtype(f"f{out.dtype.itemsize // 2}")
    outer, *beside = places.outer
    places = places._replace(
        offset=2 * places.offset,
        outer=(outer, 2 * beside[0], 2 * beside[1]),
        step=2 * places.step,
        inner=(2 * places.inner[0], 1, 1),
    )
    # Only the beginning of the values' memory matters.
    values = cupy.ndarray((1,), part, memptr=values.data)
    return out.view(part), values, places, pointer._replace(stride=2 * pointer.stride)


def parts_are_columns(places: IndexedPlaces, in_parts: bool) -> bool:
    """Says whether the two parts of complex numbers can be columns of their own."""
    return not in_parts or places.inner[0] == 1 or places.inner[1:] == (1, 1)


SCATTER_FUNCTIONS: dict[str, Callable[..., ndarray]] = {
    "index_add": index_add,
    "index_max": index_max,
    "index_min": index_min,
    "index_multiply": index_multiply,
    "index_set": index_set,
    "scatter_add": scatter_add,
}
