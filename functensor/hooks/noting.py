"""Registrations that note where a value which a hook has kept is differentiated."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

from ..custom.call import CustomCall, Pullback
from ..primitives.core.annotations import Values
from ..primitives.core.array import Array, Tracer
from ..primitives.core.trace import Trace, at_face, slot, under
from ..programs.program import twin
from .operation import Operation

__all__ = ["NotingHandle", "marked"]


class KeptValue(CustomCall):
    """Returns its operand, and notes when a cotangent comes back to it.

    Args:
        note: is called then.
    """

    def __init__(self, note: Callable[[], None]) -> None:
        super().__init__("kept value", list)
        self.note = note

    def reverse(
        self, level: Trace, values: Values, wanted: Sequence[bool]
    ) -> tuple[Values, Callable[[Values], Values]]:
        def pull(kept: Values, gs: Values) -> Values:
            self.note()
            return gs

        with under(level):
            return at_face(self.bind, values), Pullback(pull, [])

    def forward(self, level: Trace, values: Values, tangents: Values) -> tuple[Values, Values]:
        with under(level):
            return at_face(self.bind, values), at_face(self.bind, tangents)

    def batched(self, flags: Sequence[bool], size: int, axis_name: Hashable = None) -> CustomCall:
        call = KeptValue(self.note)
        call.out_flags = flags
        return call


class NotingHandle:
    """A registration in whose place values are shown that note their derivatives.

    Args:
        handle: the registration, which answers for all else.
        note: is called before such a value is differentiated.
    """

    direct = False

    def __init__(self, handle: Any, note: Callable[[], None]) -> None:
        self.handle = handle
        self.note = note

    def __getattr__(self, name: str) -> Any:
        return getattr(self.handle, name)

    def told(self, op: Operation, values: Sequence[Any], staged: bool) -> Sequence[Any]:
        """Tells the hook of an operation that is about to run; returns its operands."""
        if staged:
            return self.handle.told(op, values, True)  # type: ignore[no-any-return]
        self.handle.told(op, self.noted(values), False)
        return values

    def shown(self, op: Operation, args: Sequence[Any], out: Any, staged: bool) -> Any:
        """Shows the hook an output; returns what stands in its place."""
        if staged:
            return self.handle.shown(op, args, out, True)
        (other,) = self.noted([out])
        new = self.handle.shown(op, self.noted(args), other, False)
        return out if new is other else new

    def pulled(
        self, op: Operation, cotangents: Sequence[Any], gs: Sequence[Any], staged: bool
    ) -> Sequence[Any]:
        """Shows the hook cotangents; returns what stands in their place."""
        if staged:
            return self.handle.pulled(op, cotangents, gs, True)  # type: ignore[no-any-return]
        others = self.noted(cotangents)
        new = self.handle.pulled(op, others, self.noted(gs), False)
        return cotangents if new is others else new

    def noted(self, values: Sequence[Any]) -> Values:
        """Returns values, of which those with derivatives note that these are asked for."""
        found = [KeptValue(self.note).bind([x])[0] if isinstance(x, Tracer) else x for x in values]
        return found if slot.shown is None else [marked(x) for x in found]


def marked(x: Any) -> Any:
    """Returns another object for a value that a hook is shown, by which it is known again."""
    if not isinstance(x, Array):
        return x
    other = twin(x)
    slot.shown[id(other)] = other  # type: ignore[index]
    return other
