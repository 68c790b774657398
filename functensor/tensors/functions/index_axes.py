"""The axes of index arrays in a result, which PyTorch has not always where NumPy has them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...primitives.core.array import Array
from ...primitives.core.registry import registry as ops

__all__ = ["IndexAxes", "axes_of_index"]


class IndexAxes(NamedTuple):
    """Axes that NumPy has in front of a result, and PyTorch at a place of it.

    Attributes:
        length, place, rank: of the axes, and of the result.
        integers: the index without its arrays.
        arrays: that of what is found by it, which leaves NumPy's axes at their place.
    """

    length: int
    place: int
    rank: int
    integers: tuple[Any, ...]
    arrays: tuple[Any, ...]

    def of_value(self, value: Any) -> Any:
        """Returns a value that is set, with its axes as in NumPy."""
        shape = tuple(np.shape(value) if isinstance(value, list | tuple) else value.shape)
        # Lengths of 1 in front of all others count for nothing.
        full = (1,) * (self.rank - len(shape)) + shape[max(len(shape) - self.rank, 0) :]
        places = range(self.place, self.place + self.length)
        return ops.moveaxis(ops.reshape(value, full), tuple(places), tuple(range(self.length)))


def rank_of_index(part: Any) -> tuple[int, bool]:
    """Returns how many axes a part of an index has, and whether it is a mask."""
    rank = 0
    while isinstance(part, list | tuple | range):
        rank += 1
        part = part[0] if part else 0
    array = part if isinstance(part, Array) else np.asarray(part)
    return rank + array.ndim, array.dtype.kind == "b"


def takes_no_part(part: Any) -> bool:
    """Says whether a part of an index is neither an integer nor an ellipsis, at a first look."""
    return part is None or isinstance(part, slice | list) or bool(getattr(part, "ndim", 0))


def axes_of_index(key: Any, ndim: int) -> IndexAxes | None:
    """Returns how the result of an index differs from NumPy's; None where it does not.

    An integer beside index arrays is one of them in NumPy, and axes of index arrays come first
    where others stand between these. In PyTorch integers are taken first.

    Args:
        key: what a tensor is indexed by.
        ndim: the number of the tensor's axes.
    """
    if type(key) is not tuple or all(map(takes_no_part, key)):
        return None
    # Each part: whether it is an integer, an array, or another; axes that it takes and leaves.
    kinds, taken, left, count = "", 0, [], 0
    first: list[Any] = []
    second: list[Any] = []
    for part in key:
        if part is None or part is Ellipsis or isinstance(part, slice):
            kinds += "."
            taken += isinstance(part, slice)
            left.append(part)
            first.append(part)
            second.append(part if part is Ellipsis else slice(None))
            continue
        rank, is_mask = rank_of_index(part)
        if is_mask and not rank:
            return None
        kinds += "a" if rank else "i"
        taken += rank if is_mask else 1
        count = max(count, 1 if is_mask else rank)
        first += [slice(None)] * (rank if is_mask else 1) if rank else [part]
        second += [part] if rank else []
    rest = ndim - taken
    # What `...` stands for may be nothing, which does not stand between arrays in PyTorch.
    others = ["." * rest if part is Ellipsis else "." for part in left]
    arrays = "".join(others.pop(0) if kind == "." else kind for kind in kinds).replace("i", "")
    if "." not in kinds.strip(".") or "a" not in arrays or "." in arrays.strip("."):
        return None
    place = arrays.index("a")
    rank = count + arrays.count(".") + (0 if any(part is Ellipsis for part in left) else rest)
    if not rest:
        second = [part for part in second if part is not Ellipsis]
    return IndexAxes(count, place, rank, tuple(first), tuple(second)) if place else None
