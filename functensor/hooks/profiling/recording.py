"""The hook that writes down a run: what began and ended when, and which memory was alive."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any
from weakref import ref

from ...primitives.core.array import Array, Tracer
from ...primitives.core.buffers import device_of, wrap
from ..hook import Hook
from ..operation import Operation

if TYPE_CHECKING:
    from ...backends.annotations import Buffer

__all__ = ["Block", "BothWays", "Event", "Recording"]


@dataclass(slots=True)
class Event:
    """One operation of a run, forward or backward.

    Attributes:
        name: the primitive's name.
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
class Block:
    """Memory that was alive for a while.

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
        blocks: memory, in the order in which it was met.
    """

    on_replay = True

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.blocks: list[Block] = []
        self._begun: list[tuple[str, bool, int]] = []
        self._shown: tuple[Operation, list[int]] | None = None
        self._alive: dict[int, tuple[Any, Block]] = {}
        self._last = 0
        self._start = perf_counter_ns()

    def now(self) -> int:
        """Returns the nanoseconds since the run began."""
        return perf_counter_ns() - self._start

    def before(self, op: Operation, values: Sequence[Any]) -> None:
        """Notes when an operation begins."""
        self._begun.append((op.name, op.phase == "backward", self.now()))

    def forward(self, op: Operation, inputs: Sequence[Any], output: Array) -> None:
        """Notes an operation, or one more output of the last one."""
        self.wait(output)
        end = self.now()
        # A call with several outputs shows them one by one; a plan shows one operation many times.
        shown = op, [id(x) for x in inputs]
        begun = bool(self._begun) and self._begun[-1][:2] == (op.name, False)
        if shown == self._shown and not begun:
            event = self.events[-1]
            event.bytes += size_of(output)
            event.shapes += f", {shown_type(output)}"
        else:
            self.hold(inputs)
            event = self.noted(op, end, inputs, output)
            self._shown = shown
        self.hold([output], event)
        self._last = self.now()

    def noted(self, op: Operation, end: int, inputs: Sequence[Any], *outputs: Any) -> Event:
        """Returns a new event, which ends now."""
        begin = self.begin_of(op)
        taken, made = (", ".join(map(shown_type, some)) for some in (inputs, outputs))
        event = Event(
            *(op.name, op.scope, op.line, op.phase, begin, end),
            shapes=f"({taken}) → {made}",
            bytes=sum(map(size_of, outputs)),
            batch_size=op.batch_size,
        )
        self.events.append(event)
        return event

    def begin_of(self, op: Operation) -> int:
        """Returns when an operation began."""
        wanted = op.name, op.phase == "backward"
        for place in range(len(self._begun) - 1, -1, -1):
            *kind, begin = self._begun[place]
            if tuple(kind) == wanted:
                # Those behind it raised an exception, which the user's code has caught.
                del self._begun[place:]
                return begin
        return self._last

    def hold(self, values: Sequence[Any], maker: Event | str = "constant") -> None:
        """Notes the memory of values, if it is not known, and when it is freed."""
        for part in [part for x in values for part in parts(x)]:
            buffer = owner_of(part)
            if buffer is None or id(buffer) in self._alive:
                continue
            begin = maker.end if isinstance(maker, Event) else self.now()
            block = Block(int(buffer.nbytes), begin, None, maker, shown_type(part))
            freed = partial(self._freed, id(buffer))
            self._alive[id(buffer)] = ref(buffer, freed), block
            self.blocks.append(block)

    def _freed(self, key: int, _: Any) -> None:
        known = self._alive.pop(key, None)
        if known is not None:
            known[1].end = self.now()

    def finish(self) -> int:
        """Ends the recording and returns how many nanoseconds it took."""
        end = self.now()
        self._alive.clear()
        self._begun.clear()
        self._shown = None
        return end

    def wait(self, *values: Any) -> None:
        """Waits for values on a GPU."""
        for x in values:
            for buffer in map(buffer_behind, parts(x)):
                if buffer is not None and device_of(buffer) != "cpu":
                    wrap(buffer).block_until_ready()


class BothWays(Recording):
    """Writes down the way back too."""

    def backward(self, op: Operation, grad_inputs: Sequence[Any], grad_output: Any) -> None:
        """Notes an operation on the way back."""
        given = grad_output if isinstance(grad_output, tuple) else (grad_output,)
        found = [g for g in grad_inputs if g is not None]
        self.wait(*found)
        event = self.noted(op, self.now(), given, *found)
        self.hold(found, event)
        self._last = self.now()


def parts(x: Any) -> list[Any]:
    """Returns what a value is made of: it stands for itself and, in forward mode, its tangent."""
    found = [x]
    while isinstance(x, Tracer) and not x.lazy:
        tangent = getattr(x, "tangent", None)
        found += [] if tangent is None else parts(tangent)
        x = getattr(x, "value", None)
    return found


def buffer_behind(x: Any) -> Buffer | None:
    """Returns the buffer behind an array or a tracer; None where there is none, or not yet."""
    while isinstance(x, Tracer):
        x = None if x.lazy else getattr(x, "value", None)
    if isinstance(x, Array):
        x = x._data
    return x if hasattr(x, "nbytes") else None


def owner_of(x: Any) -> Buffer | None:
    """Returns the buffer whose memory an array's buffer is, itself or what it is a view of.

    Scalars own no memory that could be followed.
    """
    buffer: Any = buffer_behind(x)
    while hasattr(getattr(buffer, "base", None), "nbytes"):
        buffer = buffer.base
    return buffer if getattr(type(buffer), "__weakrefoffset__", 0) else None


def size_of(x: Any) -> int:
    """Returns the bytes of a value's elements, and of its tangent's."""
    return sum(int(b.nbytes) for b in map(buffer_behind, parts(x)) if b is not None)


def shown_type(x: Any) -> str:
    """Returns the type of an array as programs print it: ``float64[2,3]``."""
    shape = getattr(x, "shape", None)
    if shape is None or not hasattr(x, "dtype"):
        return type(x).__name__
    return f"{x.dtype}[{','.join(map(str, shape))}]"
