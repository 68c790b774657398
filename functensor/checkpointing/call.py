"""The call of a checkpointed function: one operation for every transformation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..custom.call import CustomCall
from ..primitives.core.annotations import Values
from ..primitives.core.buffers import owned, wrap
from ..primitives.core.trace import RAW, Trace, slot

__all__ = ["HANDLERS", "CheckpointCall"]

# The function that each kind of trace does a call by; ``checkpointed.py`` fills it.
HANDLERS: dict[type[Trace], Callable[..., Values]] = {}


class CheckpointCall(CustomCall):
    """One call of a checkpointed function, on flat lists of arrays.

    Args:
        fun: the function, for messages.
        evaluate: the same on flat lists.
        policy: says which values are saved; by default none are.
        barred: whether passes are kept from merging a second run with the first.
        after: the operands, cotangents, that a second run waits for; none of a first.
    """

    def __init__(
        self,
        fun: Callable[..., Any],
        evaluate: Callable[[Values], Values],
        policy: Callable[..., Any] | None = None,
        barred: bool = True,
        after: Sequence[int] = (),
    ) -> None:
        super().__init__(getattr(fun, "__name__", "checkpoint"), evaluate)
        self.fun = fun
        self.policy = policy
        self.barred = barred
        self.after = tuple(after)

    def of(
        self, evaluate: Callable[[Values], Values], after: Sequence[int] | None = None
    ) -> CheckpointCall:
        """Returns a call like this one that evaluates another function of the same operands."""
        after = self.after if after is None else after
        return CheckpointCall(self.fun, evaluate, self.policy, self.barred, after)

    def bind(self, operands: Sequence[Any]) -> Values:
        """Applies the call at the level of the current trace."""
        trace = slot.trace
        if trace is RAW:
            return trace.custom(self, operands)
        for kind in type(trace).__mro__:
            if kind in HANDLERS:
                return HANDLERS[kind](self, trace, operands)
        # Other traces do not care for memory.
        return [wrap(owned(out)) for out in self.evaluate(list(operands))]
