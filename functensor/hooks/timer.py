"""A hook that measures how long operations take, forward and backward."""

from __future__ import annotations

import json
import os
import threading
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter_ns
from typing import Any, NamedTuple

from ..primitives.core.array import Array
from ..primitives.core.errors import describe
from ..programs.labels import label
from .hook import Hook
from .operation import Operation
from .running import Running
from .scopes import BY, check_choice, scopes_around
from .tables import report
from .values import output_cotangents, wait_for

__all__ = ["TimerHook", "Times"]

# By what times are added up, the name of it there, and the phase.
Key = tuple[str, str, str]


class Times(NamedTuple):
    """The times of the operations of a primitive, or in a scope.

    Attributes:
        calls: how many there were.
        inclusive: seconds from beginning to end, nested operations counted once.
        exclusive: seconds without those of operations within; in a scope, without those of the
            scopes within.
    """

    calls: int
    inclusive: float
    exclusive: float


class Tally:
    """The same while it is added up, in nanoseconds."""

    __slots__ = ("calls", "exclusive", "inclusive")

    def __init__(self) -> None:
        self.calls = self.inclusive = self.exclusive = 0


class Span:
    """An operation that is being timed.

    Attributes:
        begin: when it began, in nanoseconds.
        inner: the nanoseconds of operations directly within.
        counted: for every key what of the time within is in its inclusive time already.
    """

    __slots__ = ("begin", "counted", "inner")

    def __init__(self) -> None:
        self.inner = 0
        self.counted: dict[Key, int] = {}
        self.begin = perf_counter_ns()


class Event(NamedTuple):
    """An operation that has ended, for the trace file."""

    name: str
    phase: str
    begin: int
    nanoseconds: int
    thread: int
    shown: dict[str, Any]


class TimerHook(Hook):
    """Measures the seconds of every operation, by primitive and by scope.

    The time of an operation on a GPU includes waiting until it is computed. The hooks that were
    registered before this one are timed with the operation; those that come later are not. Times
    add up over all ``use`` blocks and threads of the hook. Operations that raise are left out.

    Args:
        events: how many operations the trace file holds at most: the last ones.

    >>> import functensor as ft, functensor.numpy as np
    >>> timer = ft.hooks.TimerHook()
    >>> with ft.hooks.use(timer):
    ...     gradient = ft.grad(lambda x: np.sum(np.sin(x) * np.sin(x)))(np.ones(3))
    >>> {key: times.calls for key, times in timer.times().items()}
    {('sin', 'forward'): 2, ('multiply', 'forward'): 1, ('sum', 'forward'): 1, \
('sum', 'backward'): 1, ('multiply', 'backward'): 1, ('sin', 'backward'): 2}
    """

    on_replay = True

    def __init__(self, events: int = 1_000_000) -> None:
        if events < 0:
            raise ValueError(f"TimerHook cannot hold {events} operations: events=0 or more")
        self._lock = threading.Lock()
        self._running: Running[Span] = Running()
        self._tallies: dict[Key, Tally] = {}
        self._events: deque[Event] = deque(maxlen=events)
        self._threads: dict[int, str] = {}
        self._origin = perf_counter_ns()

    def before(self, op: Operation, values: Sequence[Any]) -> None:
        wait_for(values)
        self._running.begin(op, Span())

    def forward(self, op: Operation, inputs: Sequence[Any], output: Array) -> None:
        self._end(op, inputs, [output])

    def backward(self, op: Operation, grad_inputs: Sequence[Any], grad_output: Any) -> None:
        self._end(op, output_cotangents(grad_output), grad_inputs)

    def _end(self, op: Operation, given: Sequence[Any], made: Sequence[Any]) -> None:
        """Adds the time of an operation that has ended to all that it belongs to."""
        wait_for(made)
        end = perf_counter_ns()
        span = self._running.end(op)
        if span is None:
            return
        spent = end - span.begin
        name = label(op.name, op.params)
        keys: list[Key] = [("primitive", name, op.phase)]
        keys += [("scope", scope, op.phase) for scope in scopes_around(op.scope)]
        outer = self._running.innermost()
        if outer is not None:
            outer.inner += spent
            for key in {*span.counted, *keys}:
                within = spent if key in keys else span.counted[key]
                outer.counted[key] = outer.counted.get(key, 0) + within
        thread = threading.current_thread()
        ident = thread.native_id or 0
        shown = self._shown(op, given, made)
        with self._lock:
            for key in keys:
                tally = self._tallies.setdefault(key, Tally())
                tally.calls += 1
                tally.inclusive += spent - span.counted.get(key, 0)
                if key[0] == "primitive" or key[1] == op.scope:
                    tally.exclusive += spent - span.inner
            self._threads[ident] = thread.name
            self._events.append(Event(name, op.phase, span.begin, spent, ident, shown))

    def _shown(self, op: Operation, given: Sequence[Any], made: Sequence[Any]) -> dict[str, Any]:
        """Returns what is known of an operation beside its times."""
        return details(op, given, made)

    def times(self, by: BY = "primitive") -> dict[tuple[str, str], Times]:
        """Returns the times that were measured.

        Args:
            by: "primitive" or "scope".

        Returns:
            The `Times` by the name of the primitive, or the scope, and the phase: "forward",
            "tangent", "replay" or "backward". A scope has the times of those within it; that of
            the name ``""`` is all.

        Raises:
            ValueError: ``by`` is neither.
        """
        check_choice(by)
        with self._lock:
            return {
                (name, phase): Times(tally.calls, tally.inclusive / 1e9, tally.exclusive / 1e9)
                for (kind, name, phase), tally in self._tallies.items()
                if kind == by
            }

    def report(self) -> str:
        """Returns the times as tables, in milliseconds, the longest first."""
        return report(
            repr(self),
            ["ms", "own ms", "calls"],
            self.times,
            lambda t: (t.inclusive * 1e3, t.exclusive * 1e3, t.calls),
        )

    def save_trace(self, path: str | os.PathLike[str]) -> None:
        """Writes the operations to a file of the Trace Event Format.

        ui.perfetto.dev and Chrome's ``about:tracing`` show it as a timeline of each thread.

        Args:
            path: the file, which is overwritten.
        """
        with self._lock:
            events, threads = list(self._events), dict(self._threads)
        process = os.getpid()
        rows: list[dict[str, Any]] = [
            {"name": "thread_name", "ph": "M", "pid": process, "tid": ident, "args": {"name": name}}
            for ident, name in threads.items()
        ]
        rows += [
            {
                "name": event.name,
                "cat": event.phase,
                "ph": "X",
                "ts": (event.begin - self._origin) / 1e3,
                "dur": event.nanoseconds / 1e3,
                "pid": process,
                "tid": event.thread,
                "args": event.shown,
            }
            for event in sorted(events, key=lambda event: (event.begin, -event.nanoseconds))
        ]
        text = json.dumps({"traceEvents": rows, "displayTimeUnit": "ms"})
        Path(path).write_text(text, encoding="utf-8")

    def __repr__(self) -> str:
        whole = [times for (name, _), times in self.times("scope").items() if not name]
        calls, seconds = sum(t.calls for t in whole), sum(t.inclusive for t in whole)
        return f"<TimerHook: {calls:,} operations, {seconds * 1e3:,.3f} ms>"


def details(op: Operation, given: Sequence[Any], made: Sequence[Any]) -> dict[str, Any]:
    """Returns what the timeline shows of an operation that is clicked."""
    inputs, outputs = (
        ", ".join("None" if x is None else describe(x) for x in some) for some in (given, made)
    )
    shown = {
        "line": op.line,
        "scope": op.scope,
        "tag": op.tag,
        "inputs": inputs,
        "outputs": outputs,
        "examples of vmap": op.batch_size,
    }
    return {name: value for name, value in shown.items() if value not in ("", None)}
