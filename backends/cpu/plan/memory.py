"""The memory of a plan that is kept from call to call, and the names of its parts in the text."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from ...annotations import Buffer, DType, Shape
    from .annotations import VariableType

__all__ = ["KeptMemory", "KeptSlot"]


class KeptSlot:
    """A piece of kept memory: its number and its size in bytes."""

    __slots__ = ("number", "size")

    def __init__(self, number: int, size: int) -> None:
        self.number = number
        self.size = size


class KeptMemory:
    """Slots, and the names that the text has for arrays in them.

    Attributes:
        slots: the sizes of slots, in bytes.
        buffers: for every name of a kept buffer its slot, shape and dtype.
        views: for every name of a part the buffer, the function that takes the part, its argument.
    """

    def __init__(self) -> None:
        self.slots: list[int] = []
        self.buffers: dict[str, tuple[int, Shape, Any]] = {}
        self.views: dict[str, tuple[str, Any, Any]] = {}
        self._forms: dict[tuple[int, Shape, Any], str] = {}
        # Arrays with the shapes and strides of the buffers, by their names.
        self._samples: dict[str, Any] = {}
        self._view_names: dict[Any, str] = {}

    def __contains__(self, name: str) -> bool:
        return name in self.buffers or name in self.views

    def slot(self, size: int) -> KeptSlot:
        """Returns a new slot of a size in bytes."""
        self.slots.append(size)
        return KeptSlot(len(self.slots) - 1, size)

    def buffer(self, slot: KeptSlot, known: VariableType) -> str:
        """Returns the name of a slot as an array of a type."""
        form = slot.number, known.shape, known.dtype
        name = self._forms.get(form)
        if name is None:
            name = self._forms[form] = f"buffer_{len(self.buffers)}"
            self.buffers[name] = form
        return name

    def number(self, dtype: DType) -> str:
        """Returns the name of a new array without axes."""
        name = f"_number{len(self.buffers)}"
        self.buffers[name] = self.slot(dtype.itemsize).number, (), dtype
        return name

    def view(self, base: str, how: Callable[[Buffer, Any], Buffer], argument: Any) -> str:
        """Returns the name of a part of a kept buffer; empty if the part would be a copy."""
        key = base, how, repr(argument)
        name = self._view_names.get(key)
        if name is None:
            sample = self._samples.get(base)
            if sample is None:
                _, shape, dtype = self.buffers[base]
                sample = self._samples[base] = np.empty(shape, dtype)
            part = how(sample, argument)
            if type(part) is not np.ndarray or not np.may_share_memory(part, sample):
                return ""
            name = self._view_names[key] = f"part_{len(self.views)}"
            self.views[name] = base, how, argument
            self._samples[name] = part
        return name
