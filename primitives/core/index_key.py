"""Keys of ``x[key]``, taken apart, measured and batched.

The static part of a key is an ``IndexKey``: hashable, equal by value, ready for the array module.
Index arrays are no part of it but operands, so that they can be traced and batched.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...backends.annotations import Shape
from .annotations import ArrayLike
from .array import Array, Tracer, concrete
from .buffers import ARRAY_TYPES, computing_on, to_buffer
from .derivative_rules import shape_of
from .errors import ConcretizationError, failure
from .registry import registry as ops
from .shape_dtype import ShapeDtype, broadcast_shapes

__all__ = [
    "ARRAY", "FULL", "STATIC", "IndexKey", "Layout", "basic_index_key", "batched_index_key",
    "is_unknown_mask", "split_index_key",
]  # fmt: skip

# Stands in a key where an index array goes; an unpickled one is equal, but another object.
ARRAY = "array"
FULL = slice(None)
STATIC = frozenset({int, slice, type(None), type(Ellipsis)})
BOUND_TYPES = frozenset({int, type(None)})


class IndexKey:
    """The static part of a key.

    Attributes:
        native: the key as the array module takes it, with ``ARRAY`` for every index array.
        arrays: how many index arrays it takes.

    >>> IndexKey((slice(1, None), 2, ARRAY), 1)
    [1:, 2, array]
    """

    __slots__ = ("arrays", "native")

    def __init__(self, native: tuple[Any, ...], arrays: int = 0) -> None:
        self.native = native
        self.arrays = arrays

    def fill(self, indices: Sequence[Any]) -> tuple[Any, ...]:
        """Returns the key as the array module takes it, index arrays in their places."""
        if not indices:
            return self.native
        arrays = iter(indices)
        return tuple(next(arrays) if item == ARRAY else item for item in self.native)

    def shape(self, x: ArrayLike | ShapeDtype, indices: Sequence[Any]) -> tuple[int, ...]:
        """Returns the shape of ``x[key]``."""
        return Layout(self, shape_of(x), [shape_of(i) for i in indices]).shape

    def __eq__(self, other: object) -> bool:
        return type(other) is IndexKey and self.native == other.native

    def __hash__(self) -> int:
        return hash(tuple(item.__reduce__() if type(item) is slice else item for item in self))

    def __iter__(self) -> Iterator[Any]:
        return iter(self.native)

    def __reduce__(self) -> tuple[Any, ...]:
        return IndexKey, (self.native, self.arrays)

    def __repr__(self) -> str:
        return f"[{', '.join(map(_shown_item, self.native))}]"


# Old pickles have it by this name.
Key = IndexKey


def _taken_axes(items: Sequence[Any]) -> int:
    """Returns how many axes the parts of a key are for."""
    return sum(item is not None and item is not Ellipsis for item in items)


def _shown_item(item: Any) -> str:
    if item is Ellipsis:
        return "..."
    if type(item) is not slice:
        return str(item)
    parts = ["" if part is None else str(part) for part in (item.start, item.stop)]
    return ":".join(parts if item.step is None else [*parts, str(item.step)])


class Layout:
    """The origins of the axes of ``x[key]``.

    NumPy's rule: index arrays (and with them integers) broadcast to axes of their own, which stand
    where the first of them stands, or in front if a slice, None or Ellipsis comes between them.

    Attributes:
        others: the lengths of the axes that slices, None and untouched axes leave.
        advanced: the shape to which index arrays broadcast.
        place: before which of ``others`` the axes of ``advanced`` stand.
    """

    __slots__ = ("advanced", "others", "place")

    def __init__(
        self, index_key: IndexKey, shape: tuple[int, ...], index_shapes: Sequence[tuple[int, ...]]
    ) -> None:
        """Measures a key over an array of a shape.

        Raises:
            IndexError: there are too many indices, or an integer is out of bounds.
            ShapeError: the index arrays do not broadcast.
        """
        if index_key.native.count(Ellipsis) > 1:
            raise IndexError("an index can only have a single ellipsis ('...')")
        taken = _taken_axes(index_key.native)
        if taken > len(shape):
            raise IndexError(
                f"too many indices for array: array is {len(shape)}-dimensional, "
                f"but {taken} were indexed"
            )
        others: list[int] = []
        place = -1
        left = False
        axis = 0
        for item in index_key.native:
            if type(item) is int or item == ARRAY:
                if type(item) is int and not -shape[axis] <= item < shape[axis]:
                    raise IndexError(
                        f"index {item} is out of bounds for axis {axis} with size {shape[axis]}"
                    )
                if index_key.arrays:
                    place = len(others) if place < 0 else 0 if left else place
                axis += 1
                continue
            left = place >= 0
            if item is None:
                others.append(1)
            elif item is Ellipsis:
                end = axis + len(shape) - taken
                others.extend(shape[axis:end])
                axis = end
            else:
                others.append(len(range(*item.indices(shape[axis]))))
                axis += 1
        others.extend(shape[axis:])
        self.others = tuple(others)
        self.advanced = broadcast_shapes("index", *index_shapes) if index_shapes else ()
        self.place = max(place, 0)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of ``x[key]``."""
        return (*self.others[: self.place], *self.advanced, *self.others[self.place :])

    def order(self, place: int, *, indices_batched: bool) -> tuple[int, ...]:
        """Returns the transposition that brings a batched result into one example's layout.

        Args:
            place: where the axes of the index arrays stand in the result of the batched key.
            indices_batched: whether the batch axis is the first of those, and not of the others.
        """
        rank = len(self.advanced)
        total = len(self.others) + rank + 1
        end = place + rank + indices_batched
        advanced = [*range(place, end)]
        others = [*range(place), *range(end, total)]
        batch = advanced.pop(0) if indices_batched else others.pop(0)
        return (batch, *others[: self.place], *advanced, *others[self.place :])


def batched_index_key(
    index_key: IndexKey,
    x: ArrayLike | Shape,
    indices: Sequence[Any],
    x_batched: bool,
    flags: Sequence[bool],
) -> tuple[IndexKey, tuple[Any, ...], Layout, tuple[int, ...]]:
    """Makes the key of one example one for the whole batch.

    Args:
        index_key: the static part.
        x, x_batched: the array, or its shape, and whether it has a batch axis in front.
        indices, flags: the index arrays, and whether each has a batch axis in front.

    Returns:
        The key and the index arrays of the batch, one example's layout, and the transposition
        that brings the result's batch axis to the front and the others into that layout.
    """
    shape = shape_of(x)
    shapes = [shape_of(v)[flag:] for v, flag in zip(indices, flags, strict=True)]
    layout = Layout(index_key, shape[x_batched:], shapes)
    rank = len(layout.advanced)
    made: tuple[Any, ...] = tuple(indices)
    if True in flags:
        size = next(shape_of(v)[0] for v, flag in zip(indices, flags, strict=True) if flag)
        made = tuple(
            ops.reshape(v, (size, *(1,) * (rank - len(s)), *s)) if flag and len(s) < rank else v
            for v, s, flag in zip(indices, shapes, flags, strict=True)
        )
        if x_batched:
            examples = np.arange(size).reshape((size, *(1,) * rank))
            index_key = IndexKey((ARRAY, *index_key.native), index_key.arrays + 1)
            made = (examples, *made)
    elif x_batched:
        index_key = IndexKey((FULL, *index_key.native), index_key.arrays)
    whole = Layout(index_key, shape, [shape_of(v) for v in made])
    order = layout.order(whole.place, indices_batched=True in flags)
    return index_key, made, layout, order


# -- what the user wrote


def _plain_slice(item: slice) -> slice:
    parts = (item.start, item.stop, item.step)
    if BOUND_TYPES.issuperset(map(type, parts)):
        return item
    return slice(*(None if part is None else operator.index(part) for part in parts))


def basic_index_key(items: tuple[Any, ...]) -> IndexKey:
    """Returns a key of integers, slices, None and Ellipsis alone."""
    for item in items:
        if type(item) is slice and not (
            type(item.stop) in BOUND_TYPES
            and type(item.start) in BOUND_TYPES
            and type(item.step) in BOUND_TYPES
        ):
            return IndexKey(tuple([_plain_slice(i) if type(i) is slice else i for i in items]))
    return IndexKey(items)


def split_index_key(x: ArrayLike, index_key: Any) -> tuple[Any, tuple[Any, ...], IndexKey]:
    """Splits what stands between brackets into operands and the static part.

    Integer arrays become operands; boolean masks become the integer arrays that name their true
    elements. A single True or False adds an axis, on which it picks all or nothing.

    Returns:
        The array (with the axes that single booleans add), the index arrays, the static part.

    Raises:
        IndexError: a part of the key cannot be an index, or a mask does not fit its axes.
        ConcretizationError: the values of a mask are not known, and thus not how many are true.
    """
    items = index_key if type(index_key) is tuple else (index_key,)
    if STATIC.issuperset(map(type, items)):
        return x, (), basic_index_key(items)
    static: list[Any] = []
    indices: list[Any] = []
    masks: list[tuple[int, tuple[int, ...]]] = []
    added: set[int] = set()
    for item in items:
        if type(item) is slice:
            static.append(_plain_slice(item))
            continue
        if type(item) in STATIC:
            static.append(item)
            continue
        array = _index_array(item)
        if type(array) is int:
            static.append(array)
        elif array.dtype.kind in "iu":
            static.append(ARRAY)
            indices.append(array)
        elif array.dtype.kind == "b":
            mask = _known_mask(array)
            if type(mask) not in ARRAY_TYPES:
                mask = np.asarray(mask)
            if mask.ndim:
                masks.append((len(static), mask.shape))
                with computing_on([mask]):
                    picked = mask.nonzero()
            else:
                added.add(len(static))
                picked = (np.zeros(int(mask), np.intp),)
            static += [ARRAY] * len(picked)
            indices += picked
        else:
            raise IndexError(
                f"arrays used as indices must be of integer or boolean type, not {array.dtype}"
            )
    if added:
        x = ops.index(x, tuple(_adding(static, added)))
    for position, shape in masks:
        _check_mask(static, position, shape, shape_of(x))
    return x, tuple(indices), IndexKey(tuple(static), len(indices))


def _index_array(item: Any) -> Any:
    """Returns an index as an integer if it is a plain one, and as an array otherwise."""
    if isinstance(item, Array | np.ndarray) or type(item) in ARRAY_TYPES:
        return item
    if isinstance(item, bool | np.bool_):
        return np.asarray(item)
    if isinstance(item, list | tuple):
        if _holds_tracer(item):
            return ops.stack([_index_array(part) for part in item])
        array = to_buffer(item)
        return array if array.size else array.astype(np.intp)
    if isinstance(item, np.integer) or (hasattr(item, "__index__") and not hasattr(item, "shape")):
        return operator.index(item)
    try:
        return np.asarray(to_buffer(item))
    except TypeError:
        raise IndexError(
            "indices are integers, slices, '...', None, and integer or boolean arrays, not "
            f"{type(item).__name__}: {item!r:.40}"
        ) from None


def _holds_tracer(items: Any) -> bool:
    if isinstance(items, list | tuple):
        return any(map(_holds_tracer, items))
    return isinstance(items, Tracer)


def is_unknown_mask(index_key: Any) -> bool:
    """Says whether a key is a single mask whose values are not known, or would be computed."""
    if not isinstance(index_key, Tracer) or index_key.dtype.kind != "b":
        return False
    while isinstance(index_key, Tracer) and index_key.concrete and not index_key.lazy:
        index_key = index_key.value
    return isinstance(index_key, Tracer)


def _known_mask(mask: Any) -> Any:
    if not isinstance(mask, Array):
        return mask
    inner: Any = mask
    while isinstance(inner, Tracer) and inner.concrete:
        inner = inner.value
    if isinstance(inner, Tracer):
        raise failure(
            ConcretizationError,
            "x[mask], or x.at[mask].set(vector), asked for the number of true elements of "
            f"{inner.describe()}{inner.dependence()}, which is not known while the function is "
            "traced",
            fix="np.where(mask, x, 0), or x.at[mask].set(number): they keep the shape",
            under=inner.under(),
            number=4,
        )
    return concrete(mask, "x[mask]")


def _adding(static: Sequence[Any], added: set[int]) -> Iterator[Any]:
    """Yields the key that adds an axis at some positions and keeps all others."""
    for position, item in enumerate(static):
        if position in added:
            yield None
        elif item is Ellipsis:
            yield item
        elif item is not None:
            yield FULL


def _check_mask(
    static: Sequence[Any], position: int, mask: tuple[int, ...], shape: tuple[int, ...]
) -> None:
    before = static[:position]
    first = _taken_axes(before)
    if Ellipsis in before:
        first += len(shape) - _taken_axes(static)
    for axis, (size, length) in enumerate(zip(shape[first:], mask, strict=False), first):
        # As in NumPy, a mask without elements picks none of whatever there is.
        if length not in (size, 0):
            raise IndexError(
                f"boolean index did not match indexed array along axis {axis}; size of axis is "
                f"{size} but size of corresponding boolean axis is {length}"
            )
