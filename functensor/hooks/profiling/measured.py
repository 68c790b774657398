"""The numbers of a profiled run: rows by primitive, scope and line, and the curve of memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from ..scopes import scopes_around
from .recording import Event, Lifetime

__all__ = ["BACKWARD", "Holding", "Measured", "Row"]

# The phase of the way back.
BACKWARD = "backward"


class Row(NamedTuple):
    """One row of a table: operations that have something in common.

    Attributes:
        name: what they have in common: a primitive, a scope, a line.
        calls: how many there are.
        forward, backward: nanoseconds in them, without those that ran within them.
        bytes: of what they made.
    """

    name: str
    calls: int
    forward: int
    backward: int
    bytes: int

    @property
    def time(self) -> int:
        """Nanoseconds in them, forward and backward."""
        return self.forward + self.backward


class Holding(NamedTuple):
    """Memory that was alive at the peak: of one origin and one type.

    Attributes:
        bytes: of all of them.
        arrays: how many there are.
        type: the dtype and shape of the arrays that they were made for.
        maker: the operation that made them, or "argument" or "constant".
        scope, line: those of the operation; empty without one.
    """

    bytes: int
    arrays: int
    type: str
    maker: str
    scope: str
    line: str


class Measured:
    """A profiled run of a function.

    Attributes:
        name: the function's name.
        result: what the function returned.
        total: nanoseconds that the run took, with the recording of it.
        watched: whether the way back was watched.
        events: the operations, in the order in which they ended: their ``name``, ``scope``,
            ``line`` and ``phase``, when they ``begin`` and ``end`` in nanoseconds, their
            ``shapes`` and the ``bytes`` that they made.
        lifetimes: how long memory was alive, each with ``bytes``, ``begin``, ``end`` and
            ``maker``.
    """

    def __init__(
        self,
        name: str,
        result: Any,
        total: int,
        watched: bool,
        events: Sequence[Event],
        lifetimes: Sequence[Lifetime],
    ) -> None:
        self.name = name
        self.result = result
        self.total = total
        self.watched = watched
        self.events = list(events)
        self.lifetimes = list(lifetimes)

    @cached_property
    def own_times(self) -> list[int]:
        """Nanoseconds in each operation, without those that ran within it."""
        own = [event.end - event.begin for event in self.events]
        # An operation ends after those within it.
        ended: list[int] = []
        for i, event in enumerate(self.events):
            while ended and self.events[ended[-1]].begin >= event.begin:
                inner = self.events[ended.pop()]
                own[i] -= inner.end - inner.begin
            ended.append(i)
        return own

    def by_primitive(self) -> list[Row]:
        """Returns a row for every primitive, the longest time first."""
        return self._rows(lambda event: [event.name])

    def by_scope(self) -> list[Row]:
        """Returns a row for every scope, with all scopes within it, the longest time first."""
        return self._rows(lambda event: scopes_around(event.scope)[1:])

    def by_line(self) -> list[Row]:
        """Returns a row for every line of the user's source, the longest time first."""
        return self._rows(lambda event: [event.line])

    def _rows(self, names: Callable[[Event], Iterable[str]]) -> list[Row]:
        found: dict[str, list[int]] = {}
        for event, own in zip(self.events, self.own_times, strict=True):
            for name in names(event):
                numbers = found.setdefault(name, [0, 0, 0, 0])
                numbers[0] += 1
                numbers[2 if event.phase == BACKWARD else 1] += own
                numbers[3] += event.bytes
        rows = [Row(name, *numbers) for name, numbers in found.items()]
        return sorted(rows, key=lambda row: (-row.time, row.name))

    @cached_property
    def memory(self) -> list[tuple[int, int]]:
        """The nanoseconds at which memory is made or freed, and the bytes alive from then on."""
        changes: dict[int, int] = {0: 0}
        for life in self.lifetimes:
            changes[life.begin] = changes.get(life.begin, 0) + life.bytes
            if life.end is not None:
                changes[life.end] = changes.get(life.end, 0) - life.bytes
        alive = 0
        curve = []
        for time in sorted(changes):
            alive += changes[time]
            curve.append((time, alive))
        return curve

    @property
    def peak(self) -> int:
        """The most bytes that were alive at once."""
        return self.peak_moment[1]

    @property
    def peak_moment(self) -> tuple[int, int]:
        """The nanoseconds at which the most bytes were alive, and these bytes."""
        return max(self.memory, key=lambda change: change[1])

    def at_peak(self) -> list[Holding]:
        """Returns the memory that was alive at the peak, by what made it, the largest first."""
        moment, _ = self.peak_moment
        found: dict[tuple[str, str, str, str], list[int]] = {}
        for life in self.lifetimes:
            if life.begin <= moment and (life.end is None or life.end > moment):
                maker = life.maker
                key = (life.type, str(maker), "", "")
                if isinstance(maker, Event):
                    way = f"{maker.name}, {BACKWARD}" if maker.phase == BACKWARD else maker.name
                    key = (life.type, way, maker.scope, maker.line)
                numbers = found.setdefault(key, [0, 0])
                numbers[0] += life.bytes
                numbers[1] += 1
        rows = [Holding(size, arrays, *key) for key, (size, arrays) in found.items()]
        return sorted(rows, key=lambda row: (-row.bytes, row[2:]))
