"""The syntax ``x.at[i].set(v)``, its options and modes; ``shape/index_update.py`` computes it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from math import prod
from types import FrameType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from ...backends.annotations import Buffer, DType, Number
from ...backends.errors.public_functions import CODE, check_function, wrap_methods
from ...backends.frames import frame_at, module_of
from .bytecode import drops_result
from .derivative_rules import shape_of
from .errors import (
    ConcretizationError,
    ImmutableArrayError,
    UnusedUpdateWarning,
    failure,
    message,
    no_option,
)
from .numpy_protocols import UPDATE_NAMES
from .registry import registry as ops
from .shape_dtype import INEXACT

if TYPE_CHECKING:
    from .array_annotations import AnyArray, AnyOperand

__all__ = ["At", "result_is_dropped"]

UPDATE_OPTIONS = ("indices_are_sorted", "unique_indices", "mode", "wrap_negative_indices")
# The largest number of unknown indices that are updated in turn, as any of them may repeat.
MOST_TURNS = 8

ArrayT = TypeVar("ArrayT", bound="AnyArray")


class At(Generic[ArrayT]):
    """The ``at`` of an array: ``x.at[key]`` names the elements to update."""

    __slots__ = ("_array",)

    def __init__(self, array: ArrayT) -> None:
        self._array = array

    def __getitem__(self, key: Any) -> Update[ArrayT]:
        return Update(self._array, key)


class Update(Generic[ArrayT]):
    """Elements of an array about to be updated; every method returns a new array.

    Methods take the options that JAX's have. ``indices_are_sorted`` changes nothing here;
    ``unique_indices=True`` promises that no index repeats, which only `apply` and `power` ask of
    indices that are not known. With ``wrap_negative_indices=False`` a negative index is out of
    bounds. Indices out of bounds are an error, unless ``mode`` says that they are meant:
    "clip" takes the nearest element, "drop" and "fill" leave updates out and ``get`` a fill value.
    """

    __slots__ = ("_array", "_key")

    def __init__(self, array: ArrayT, key: Any) -> None:
        self._array = array
        self._key = key

    def get(self, *, fill_value: Number | None = None, **options: Any) -> ArrayT:
        """Returns the elements; out of bounds a fill value, NaN or the least integer, if told."""
        mode, wraps = _mode(options)
        x, key = self._array, self._key
        if mode is not None or not wraps:
            if fill_value is None:
                fill_value = _nothing(x.dtype)
            x, key = _brought_in(x, key, mode, fill_value, wraps)
        elements: ArrayT = ops.index(x, key)
        return elements

    def set(self, values: AnyOperand, **options: Any) -> ArrayT:
        """Returns the array with the elements replaced; of repeated indices the last wins."""
        return self._updated("set", values, options)

    def add(self, values: AnyOperand, **options: Any) -> ArrayT:
        """Returns the array with values added; repeated indices add up."""
        return self._updated("add", values, options)

    def subtract(self, values: AnyOperand, **options: Any) -> ArrayT:
        """Returns the array with values subtracted; repeated indices add up."""
        return self._updated("subtract", values, options)

    def multiply(self, values: AnyOperand, **options: Any) -> ArrayT:
        """Returns the array with the elements multiplied."""
        return self._updated("multiply", values, options)

    mul = multiply

    def divide(self, values: AnyOperand, **options: Any) -> ArrayT:
        """Returns the array with the elements divided; by all values of repeated indices."""
        return self._updated("divide", values, options)

    def power(self, values: AnyOperand, **options: Any) -> ArrayT:
        """Returns the array with the elements to a power; to one after the other where repeated.

        Raises:
            ConcretizationError: there are many indices whose values are not known, and
                ``unique_indices=True`` does not say that none repeats.
        """
        return self._updated("power", values, options)

    def min(self, values: AnyOperand, **options: Any) -> ArrayT:
        """Returns the array with the smaller of element and value."""
        return self._updated("min", values, options)

    def max(self, values: AnyOperand, **options: Any) -> ArrayT:
        """Returns the array with the larger of element and value."""
        return self._updated("max", values, options)

    def apply(self, ufunc: Callable[[ArrayT], ArrayT], **options: Any) -> ArrayT:
        """Returns the array with the elements replaced by what a function makes of them.

        Args:
            ufunc: takes and returns an array, element by element. It is applied once for every
                time that an element is indexed.
            options: those of all methods.

        Raises:
            ConcretizationError: there are many indices whose values are not known, and
                ``unique_indices=True`` does not say that none repeats.
        """
        check_function("x.at[i].apply", ufunc, "ufunc")
        return self._updated("apply", ufunc, options)

    def _updated(self, kind: str, values: Any, options: dict[str, Any]) -> ArrayT:
        mode, wraps = _mode(options)
        if __debug__ and result_is_dropped():
            warnings.warn(
                message(
                    f"the result of x.at[...].{kind}(...) is thrown away; x itself is unchanged",
                    fix=f"x = x.at[i].{kind}(value)",
                    number=3,
                ),
                UnusedUpdateWarning,
                stacklevel=4,
            )
        refuse_dropped(kind)
        x, key = self._array, self._key
        if mode is not None or not wraps:
            # A one has finite powers, quotients and logarithms.
            x, key = _brought_in(x, key, mode, 1, wraps)
        if isinstance(values, list | tuple):
            values = ops.asarray(values, device=x.device)
        if kind == "subtract":
            kind, values = "add", ops.negative(values)
        elif kind == "divide":
            # Divisors of repeated indices multiply.
            x = ops.divide(x, 1)  # integers become floats
            joint = ops.index_multiply(ops.ones_like(x), key, values)
            kind, values = "set", ops.divide(ops.index(x, key), ops.index(joint, key))
        elif kind in ("apply", "power"):
            places = None if options.get("unique_indices") else repeated(x, key, kind)
            if places is not None:
                return self._in_turns(x, places, values)
            old = ops.index(x, key)
            kind, values = "set", values(old) if kind == "apply" else ops.power(old, values)
        return self._trimmed(ops.find(f"index_{kind}")(x, key, values))

    def _trimmed(self, out: ArrayT) -> ArrayT:
        """Returns an updated array without the elements that were appended."""
        lengths = shape_of(self._array)
        if out.shape != lengths:
            out = ops.index(out, tuple([slice(length) for length in lengths]))
        return out

    def _in_turns(self, x: ArrayT, places: AnyArray | Buffer, values: Any) -> ArrayT:
        """Returns the array updated, one after the other, at places of which some repeat.

        The values are a function, or exponents.
        """
        shape, size = shape_of(x), prod(shape_of(x))
        apply = callable(values)
        if not apply:
            values = ops.reshape(ops.broadcast_to(values, shape_of(places)), -1)
        # Traced turns write the updates of other turns behind the last element.
        flat = ops.concatenate([ops.reshape(x, -1), ops.ones_like(x, shape=(1,))])
        for turn, chosen in turns(places, size):
            old = ops.index(flat, turn)
            new = values(old) if apply else ops.power(old, ops.index(values, chosen))
            flat = ops.index_set(flat, turn, new)
        return self._trimmed(ops.reshape(ops.index(flat, slice(size)), shape))


def _mode(options: dict[str, Any]) -> tuple[str | None, bool]:
    """Returns the mode of indices out of bounds, and whether negative ones count from the end."""
    unknown = set(options) - set(UPDATE_OPTIONS)
    if unknown:
        raise no_option("x.at[i]", sorted(unknown)[0], UPDATE_OPTIONS)
    mode, wraps = options.get("mode"), bool(options.get("wrap_negative_indices", True))
    if mode in (None, "promise_in_bounds"):
        return None, wraps
    if mode not in ("clip", "drop", "fill"):
        raise ValueError(
            f"x.at[i]: mode={mode!r}: it is 'clip', 'drop', 'fill', or 'promise_in_bounds', with "
            "which indices out of bounds are an error"
        )
    return str(mode), wraps


def repeated(x: AnyArray, key: Any, kind: str) -> AnyArray | Buffer | None:
    """Returns the numbers of the elements that a key names, or None where none is named twice.

    Raises:
        ConcretizationError: that depends on values that are not known.
    """
    items = key if isinstance(key, tuple) else (key,)
    lists = [x for x in items if isinstance(x, list | tuple) or getattr(x, "shape", None)]
    if not any(ops.asarray(item).dtype.kind in "iu" for item in lists):
        return None
    numbers = np.arange(prod(shape_of(x))).reshape(shape_of(x))
    places = ops.index(ops.asarray(numbers, device=x.device), key)
    known: Any = places
    while not hasattr(known, "_data") and getattr(known, "concrete", False):
        known = known.value
    if not getattr(known, "concrete", True):
        count = prod(shape_of(places))
        if count <= MOST_TURNS:
            return places if count > 1 else None
        raise failure(
            ConcretizationError,
            f"x.at[i].{kind}(...) does as many updates of an element as it is indexed, which "
            f"depends on the values of {count} indices, which are not known while the "
            "function is traced",
            fix=f"x.at[i].{kind}(..., unique_indices=True), if no index repeats",
            number=5,
        )
    found = np.asarray(known.tolist())
    return found if len(np.unique(found)) < found.size else None


def turns(places: AnyArray | Buffer, size: int) -> Iterator[tuple[Any, Any]]:
    """Yields places of which none repeats, those that come first at first, and their numbers.

    Args:
        places: numbers of elements; a NumPy array if they are known.
        size: how many elements there are; where a turn has no use for a place it is this.
    """
    if isinstance(places, np.ndarray):
        places = places.reshape(-1)
        order = np.argsort(places, kind="stable")
        alike = places[order]
        first = np.searchsorted(alike, alike)
        rank = np.empty(len(places), np.intp)
        rank[order] = np.arange(len(places)) - first
        for turn in range(rank.max() + 1):
            chosen = np.flatnonzero(rank == turn)
            yield places[chosen], chosen
        return
    places = ops.reshape(places, -1)
    count = shape_of(places)[0]
    alike = ops.equal(ops.expand_dims(places, 1), ops.expand_dims(places, 0))
    earlier = ops.asarray(np.tri(count, k=-1, dtype=bool), device=places.device)
    ranks = ops.sum(ops.logical_and(alike, earlier), 1)
    for turn in range(count):
        yield ops.where(ops.equal(ranks, turn), places, size), slice(None)


def _nothing(dtype: DType) -> Number:
    """Returns what stands for elements that are not there."""
    if dtype.kind in INEXACT:
        return np.nan
    if dtype.kind == "b":
        return True
    return np.iinfo(dtype).min if dtype.kind == "i" else np.iinfo(dtype).max


def _brought_in(
    x: ArrayT, key: Any, mode: str | None, fill: Number, wraps: bool
) -> tuple[ArrayT, tuple[Any, ...]]:
    """Returns an array and a key that has no index out of bounds.

    Unless they are clipped, such indices name an element appended to their axis.
    """
    lengths = shape_of(x)
    plain = (int, slice, type(None), type(Ellipsis))
    items = [
        item if isinstance(item, plain) else ops.asarray(item)
        for item in (key if isinstance(key, tuple) else (key,))
    ]
    spans = [_span(item) for item in items]
    appended = [0] * len(lengths)
    axis = 0
    for place, (item, span) in enumerate(zip(items, spans, strict=True)):
        if item is Ellipsis:
            axis += len(lengths) - sum(spans)
        elif _is_index(item) and axis < len(lengths):
            items[place] = _index_in_bounds(item, lengths[axis], mode, wraps)
            appended[axis] = int(mode in ("drop", "fill"))
        axis += span
    if any(appended):
        x = ops.pad(x, [(0, count) for count in appended], constant_values=fill)
    return x, tuple(items)


def _span(item: Any) -> int:
    """Returns how many axes an item of a key is about."""
    if item is None or item is Ellipsis or isinstance(item, bool):
        return 0
    is_mask = not isinstance(item, int | slice) and item.dtype.kind == "b"
    return len(item.shape) if is_mask else 1


def _is_index(item: Any) -> bool:
    """Says whether an item of a key is an integer, or an array of integers."""
    if isinstance(item, int):
        return not isinstance(item, bool)
    return getattr(item, "dtype", np.dtype(bool)).kind in "iu"


def _index_in_bounds(index: Any, length: int, mode: str | None, wraps: bool) -> Any:
    if isinstance(index, int):
        if index < 0:
            # A negative index may then be as far out as one behind the end.
            index = index + length if wraps else (0 if mode == "clip" else length)
        if mode == "clip":
            return min(max(index, 0), length - 1)
        return index if mode is None or 0 <= index < length else length
    index = ops.astype(index, np.intp)
    last = 0 if mode == "clip" else length
    index = ops.where(ops.less(index, 0), ops.add(index, length) if wraps else last, index)
    if mode is None:
        return index
    if mode == "clip":
        return ops.clip(index, 0, length - 1)
    outside = ops.logical_or(ops.less(index, 0), ops.greater_equal(index, length))
    return ops.where(outside, length, index)


def result_is_dropped() -> bool:
    """Says whether the caller's caller pops the result that it is waiting for."""
    return drops_result(_calling_frame(frame_at(3)))


def _calling_frame(frame: FrameType) -> FrameType:
    """Returns the frame that called a public method, given the next one out of it."""
    return frame.f_back or frame if frame.f_code is CODE else frame


def refuse_dropped(kind: str) -> None:
    """Refuses an update by array_api_extra, for which a library has no use.

    Of NumPy's arrays it changes the array itself, so that code written for these may be right.

    Raises:
        ImmutableArrayError: the library throws away what array_api_extra returns.
    """
    frame: FrameType | None = _calling_frame(frame_at(3))
    module = "" if frame is None else module_of(frame)
    if not module.endswith(UPDATE_NAMES):
        return
    while frame is not None and module_of(frame) == module:
        frame = frame.f_back
    if frame is not None and drops_result(frame):
        code = frame.f_code
        raise failure(
            ImmutableArrayError,
            f"{code.co_name} ({module_of(frame)}, line {frame.f_lineno}) "
            f"throws away what at(x, i).{kind}(...) returns, but arrays are immutable: x "
            "itself is unchanged",
            fix="call it with NumPy's arrays, or with xp=numpy, and np.asarray the result",
        )


wrap_methods(Update, "x.at[i]")
