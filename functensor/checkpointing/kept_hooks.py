"""Hooks around checkpointed functions, which are run again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ..hooks.handle import Handle
from ..hooks.operation import Operation
from ..primitives.core.array import Array
from ..primitives.core.trace import RAW, base_trace, slot
from .capture import FirstRunTrace

__all__ = ["KeptHooks"]


class KeptHooks(Handle):
    """The registration of a hook around a function that is run again in a backward pass.

    The hook has to replace again what it replaced in the first run, though it may be removed by
    then. It sees other operations again only if it was registered for that.

    Args:
        handle: the registration.
        replaced: for every operation of the first run whether the hook replaced its output.
        pulled_before: for every operation of a backward pass within the first run, and on the way
            back through the second one, whether the hook replaced its cotangents.
        passes: filled once the hook was there in such a pass.
        answers: what the first run was told of whether the hook only looks.
        first: whether this is that run, which fills the lists.
    """

    direct = False

    def __init__(
        self,
        handle: Handle,
        replaced: list[bool],
        pulled_before: list[bool],
        passes: list[bool],
        answers: list[bool],
        first: bool,
    ) -> None:
        super().__init__(handle.hook, handle.match, handle.on_replay, handle.lasting)
        self.handle = handle
        self.replaced = replaced
        self.pulled_before = pulled_before
        self.passes = passes
        self.answers = answers
        self.first = first
        self.position = 0
        self.place = 0
        self.answered = 0
        # It is never begun, so that nothing would take it apart from its trace.
        self._trace = self._before = None

    def _ends(self) -> list[Callable[[], Any]]:
        return []

    def sees_pass(self, staged: bool) -> bool:
        there = self.handle.sees_pass(staged)
        # The way back over what the second run has left behind comes after that.
        if self.first or not slot.replaying or (staged and not self.hook.traceable):
            self.passes[:] = [there or True in self.passes]
            return there
        # What is computed for the hook is computed again, whether or not it is asked.
        return True in self.passes or (self.on_replay and there)

    def current(self) -> Handle | None:
        return self.handle.current()

    def root(self) -> Handle:
        return self.handle.root()

    def only_looks(self) -> bool:
        if self.first:
            self.answers.append(super().only_looks())
            return self.answers[-1]
        # The second run is to do the same as the first one, whatever is known by now.
        self.answered += 1
        known = self.answers[self.answered - 1 : self.answered]
        return known[0] if known else super().only_looks()

    def told(self, op: Operation, values: Sequence[Any], staged: bool) -> Sequence[Any]:
        if staged and not self.hook.traceable:
            # A program's calls know themselves when they are run again.
            return super().told(op, values, staged)
        backward = op.phase == "backward"
        if not self.first and (slot.replaying or not backward):
            known = op if backward else op.at("replay")
            return super().told(known, values, staged) if self.on_replay else values
        runs = self.runs()
        values = super().told(op, values, staged)
        self.forget(runs)
        return values

    def forward(self, op: Operation, inputs: Sequence[Any], output: Array) -> Array | None:
        if not self.first:
            op = op.at("replay")
        again = self.replaced[self.position : self.position + 1] == [True]
        self.position += 1
        out = None
        there = self.handle.active or self.lasting
        if again or (there and (self.first or self.on_replay)):
            runs = self.runs() if self.first else []
            out = (self.root() if again else self.handle).forward(op, inputs, output)
            if out is None:
                self.forget(runs)
        if self.first:
            self.replaced.append(out is not None)
        return out

    def backward(
        self, op: Operation, cotangents: Sequence[Any], gs: Sequence[Any]
    ) -> Sequence[Any]:
        if self.first or not slot.replaying:
            runs = self.runs()
            found = super().backward(op, cotangents, gs)
            if found is cotangents:
                self.forget(runs)
            self.pulled_before.append(found is not cotangents)
            return found
        again = self.pulled_before[self.place : self.place + 1] == [True]
        self.place += 1
        if again or (self.on_replay and (self.handle.active or self.lasting)):
            return (self.root() if again else self.handle).backward(op, cotangents, gs)
        return cotangents

    def runs(self) -> list[tuple[FirstRunTrace, int]]:
        """Returns the first runs that are going on, with the lengths of what they have noted."""
        return [(run, len(run.log)) for run in first_runs()]

    def forget(self, runs: Sequence[tuple[FirstRunTrace, int]]) -> None:
        """Takes operations by which the hook looked at values for none of the function's."""
        if not self.on_replay:
            for run, before in runs:
                run.forget(before)


def first_runs() -> Iterator[FirstRunTrace]:
    """Yields the first runs of checkpointed functions that are going on."""
    trace = base_trace()
    while trace is not RAW:
        if isinstance(trace, FirstRunTrace):
            yield trace
        trace = trace.parent
