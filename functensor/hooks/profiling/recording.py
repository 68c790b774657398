"""The hook that writes down a run: what began and ended when, and which memory was alive."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from time import perf_counter_ns
from typing import Any

from ...primitives.core.array import Array
from ...primitives.core.errors import describe
from ...programs.labels import label
from ..hook import Hook
from ..live_memory import Block, LiveMemory
from ..operation import Operation
from ..running import Running
from ..values import output_cotangents, plain_values_of, tangents_of, wait_for

__all__ = ["BothWays", "Event", "Lifetime", "Recording"]


@dataclass(slots=True)
class Event:
    """One operation of a run, forward or backward.

    Attributes:
        name: the primitive's name, or the tag.
        scope: the ``ft.scope`` that it is in; empty outside of all.
        line: the user's ``file:line``.
        phase: as hooks are told of it: "forward", "tangent", "backward" or "replay".
        begin, end: nanoseconds since the run began.
        shapes: the types of its operands and of its output, as text.
        bytes: the size of its outputs, or of the cotangents that it returned.
        batch_size: for how many examples of ``vmap`` it stands; None outside of all.
    """

    name: str
    scope: str
    line: str
    phase: str
    begin: int
    end: int
    shapes: str
    bytes: int
    batch_size: int | None


@dataclass(slots=True)
class Lifetime:
    """The time for which memory was alive.

    Attributes:
        bytes: its size.
        begin, end: nanoseconds since the run began; ``end`` is None if it outlived the run.
        maker: the event that made it, or "argument" or "constant".
        type: the dtype and shape of the array that it was made for.
    """

    bytes: int
    begin: int
    end: int | None
    maker: Event | str
    type: str


class Recording(Hook):
    """Writes down the operations of a run, and the memory of their results.

    Where ``before`` was not called, an operation began when the last one had ended. On a GPU each
    is waited for, so that its time is its own.

    Attributes:
        events: the operations, in the order in which they ended.
        lifetimes: those of memory, in the order in which it was met.
    """

    on_replay = True

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.lifetimes: list[Lifetime] = []
        self._running: Running[int] = Running()
        self._shown: tuple[Operation, list[int]] | None = None
        self._last = 0
        self._start = perf_counter_ns()
        self._memory = LiveMemory(partial(note_end, self._start))

    def now(self) -> int:
        """Returns the nanoseconds since the run began."""
        return perf_counter_ns() - self._start

    def before(self, op: Operation, values: Sequence[Any]) -> None:
        """Notes when an operation begins."""
        self._running.begin(op, self.now())

    def forward(self, op: Operation, inputs: Sequence[Any], output: Array) -> None:
        """Notes an operation, or one more output of the last one."""
        wait_for([output])
        begin, end = self._running.end(op), self.now()
        # A call with several outputs shows them one by one; a plan shows one operation many times.
        shown = op, [id(x) for x in inputs]
        if shown == self._shown and begin is None:
            event = self.events[-1]
            event.bytes += size_of(output)
            event.shapes += f", {describe(output)}"
        else:
            self.hold(inputs)
            event = self.noted(op, begin, end, inputs, output)
            self._shown = shown
        self.hold([output], event)
        self._last = self.now()

    def noted(
        self, op: Operation, begin: int | None, end: int, inputs: Sequence[Any], *outputs: Any
    ) -> Event:
        """Returns the event of an operation that has ended."""
        taken, made = (", ".join(map(describe, some)) for some in (inputs, outputs))
        event = Event(
            label(op.name, op.params),
            *(op.scope, op.line, op.phase, self._last if begin is None else begin, end),
            shapes=f"({taken}) → {made}",
            bytes=sum(map(size_of, outputs)),
            batch_size=op.batch_size,
        )
        self.events.append(event)
        return event

    def hold(self, values: Sequence[Any], maker: Event | str = "constant") -> None:
        """Notes the memory of values, if it is not known, and when it is freed."""
        for block in self._memory.met(values):
            begin = maker.end if isinstance(maker, Event) else self.now()
            block.note = Lifetime(block.bytes, begin, None, maker, block.type)
            self.lifetimes.append(block.note)

    def finish(self) -> int:
        """Ends the recording and returns how many nanoseconds it took."""
        end = self.now()
        self._memory.clear()
        self._shown = None
        return end


class BothWays(Recording):
    """Writes down the way back too."""

    def backward(self, op: Operation, grad_inputs: Sequence[Any], grad_output: Any) -> None:
        """Notes an operation on the way back."""
        found = [g for g in grad_inputs if g is not None]
        wait_for(found)
        begin, end = self._running.end(op), self.now()
        event = self.noted(op, begin, end, output_cotangents(grad_output), *found)
        self.hold(found, event)
        self._last = self.now()


def note_end(start: int, block: Block) -> None:
    """Notes in nanoseconds since a run has started that memory has been freed."""
    block.note.end = perf_counter_ns() - start


def size_of(x: Any) -> int:
    """Returns the bytes of a value's elements, and of its tangents'."""
    return sum(getattr(b, "nbytes", 0) for b in (*plain_values_of(x), *tangents_of(x)))
