"""The memory of a plan's results: kept from call to call, or that of donated inputs."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .codegen.operands import is_native_array, is_variable
from .liveness import Liveness

if TYPE_CHECKING:
    from ...annotations import Buffer, DType, Shape
    from .annotations import ProgramLike, VariableLike, VariableType

__all__ = ["Donation", "KeptMemory", "KeptSlot"]


class KeptSlot(NamedTuple):
    """A piece of kept memory: its number and its size in bytes."""

    number: int
    size: int


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

    def __getstate__(self) -> dict[str, Any]:
        """Returns what is pickled: what a plan needs that is written already."""
        return {"slots": self.slots, "buffers": self.buffers, "views": self.views}

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


class Donation:
    """Donated inputs, and the results that may lie in their memory.

    The i-th result takes the memory of the i-th input, if that is donated and has its shape and
    dtype, so that updated parameters stay in their places. Other results take the rest.

    Attributes:
        numbers: the numbers of the donated inputs.
        overwritten: the numbers of the inputs that are written into.
    """

    def __init__(
        self, program: ProgramLike, donated: Collection[int], live: Liveness, overwritten: set[int]
    ) -> None:
        self._live = live
        self.overwritten = overwritten
        self.numbers = {program.inputs[i]: i for i in sorted(donated)}
        left = {x for x in self.numbers if not any(s.escapes for s in live.storages[x])}
        self._kept: dict[VariableLike, VariableLike] = {}
        for x, out in zip(program.inputs, program.outputs):
            if x in left and is_variable(out) and out not in self._kept and may_lie_in(x, out):
                self._kept[out] = x
                left.remove(x)
        self._left = [x for x in self.numbers if x in left]

    def take_memory(self, out: VariableLike, number: int) -> VariableLike | None:
        """Returns the input whose memory the result of an equation takes, or None."""
        kept = self._kept.get(out)
        for x in self._left if kept is None else [kept]:
            (own,) = self._live.storages[x]
            given_away = self.numbers[x] in self.overwritten
            if own.last < number and not given_away and may_lie_in(x, out):
                self.overwritten.add(self.numbers[x])
                return x
        return None


def may_lie_in(x: VariableLike, out: VariableLike) -> bool:
    """Says whether a result has the type of an input, so that it may take its memory."""
    return is_native_array(out.type) and bool(x.type == out.type)
