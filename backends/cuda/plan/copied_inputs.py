"""Inputs of a graph that lie elsewhere in each call: they are copied into memory of its own.

Those that are views of one array, such as queries, keys and values of one product, are copied as
one. What stands for them has their strides, and shares memory as they do: kernels may count on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from cupy import ndarray
from cupy.lib.stride_tricks import as_strided

from ..gapless_copies import wide_array
from ..launch import is_contiguous

__all__ = ["CopiedInputs"]


class ViewedInput(NamedTuple):
    """An input as a view of another array.

    Attributes:
        place: its place among the inputs.
        offset: the bytes from the beginning of that array.
        shape, strides, dtype: the input's.
    """

    place: int
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: Any

    def of(self, memory: ndarray) -> ndarray:
        """Returns the same view of other memory, an array of bytes."""
        part = memory[self.offset :]
        part = part[: part.size // self.dtype.itemsize * self.dtype.itemsize].view(self.dtype)
        return as_strided(part, self.shape, self.strides)


class CopiedInputs:
    """The memory into which inputs are copied.

    Args:
        given: the inputs that are copied, by their places.
        joint: whether views of one array are copied as one.

    Attributes:
        memory: an array for each copy.
        arrays: what stands for each input, by its place.
    """

    def __init__(self, given: Mapping[int, ndarray], joint: bool) -> None:
        self.memory: list[ndarray] = []
        self.arrays: dict[int, ndarray] = {}
        # For each copy the views that lie there, and the bytes of the array; or the place of the
        # one input.
        self._copies: list[tuple[list[ViewedInput], int] | int] = []
        together: dict[int, list[int]] = {}
        for place, x in given.items():
            together.setdefault(id(viewed_array(x)) if joint else place, []).append(place)
        for places in together.values():
            root = viewed_array(given[places[0]])
            if joint and is_in_views(root, [given[place] for place in places]):
                self._add_views(root, {place: given[place] for place in places})
                continue
            for place in places:
                self._copies.append(place)
                self.arrays[place] = made = ndarray(given[place].shape, given[place].dtype)
                self.memory.append(made)

    def _add_views(self, root: ndarray, given: Mapping[int, ndarray]) -> None:
        views = [
            ViewedInput(place, x.data.ptr - root.data.ptr, x.shape, x.strides, x.dtype)
            for place, x in given.items()
        ]
        memory = ndarray((root.nbytes,), "u1")
        self._copies.append((views, root.nbytes))
        self.memory.append(memory)
        self.arrays.update({view.place: view.of(memory) for view in views})

    def sources(self, arrays: Sequence[ndarray]) -> list[ndarray] | None:
        """Returns the arrays that a call copies; None where its inputs share memory otherwise."""
        found = []
        for copy in self._copies:
            if type(copy) is int:
                found.append(wide_array(arrays[copy]))
                continue
            views, size = copy  # type: ignore[misc]
            root = viewed_array(arrays[views[0].place])
            if root.nbytes != size or not is_contiguous(root):
                return None
            begin = root.data.ptr
            for place, offset, _, strides, _ in views:
                x = arrays[place]
                if (
                    viewed_array(x) is not root
                    or x.data.ptr - begin != offset
                    or x.strides != strides
                ):
                    return None
            found.append(wide_array(root))
        return found


def viewed_array(x: ndarray) -> ndarray:
    """Returns the array of which an array is a view; itself where it is none."""
    return x if x.base is None else x.base


def is_in_views(root: ndarray, views: Iterable[ndarray]) -> bool:
    """Says whether all of an array's memory, which has no gaps, is in some of its views."""
    if not is_contiguous(root):
        return False
    parts = {(x.data.ptr, x.shape, x.strides): x.nbytes for x in views}
    return bool(sum(parts.values()) >= root.nbytes)
