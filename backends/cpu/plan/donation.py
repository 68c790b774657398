"""Donated inputs whose memory results take after the last use of the input."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from .codegen.operands import is_native_array, is_variable
from .liveness import Liveness

if TYPE_CHECKING:
    from .annotations import ProgramLike, VariableLike

__all__ = ["Donation"]


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
