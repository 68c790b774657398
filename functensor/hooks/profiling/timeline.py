"""The bars of a report's timeline: operations, above them the scopes that they are in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .recording import Event

__all__ = ["Bar", "bars"]


class Bar(NamedTuple):
    """One bar.

    Attributes:
        row: 0 for what runs forward, 1 for what runs backward.
        level: how deep it lies: scopes lie above what is in them.
        begin, end: in nanoseconds.
        name: of a scope or a primitive.
        event: the number of the operation; -1 of a scope.
    """

    row: int
    level: int
    begin: int
    end: int
    name: str
    event: int


class OpenScope:
    """A scope that the last operation of a row was in."""

    __slots__ = ("begin", "end", "name")

    def __init__(self, name: str, begin: int) -> None:
        self.name = name
        self.begin = begin
        self.end = begin


def bars(events: Sequence[Event]) -> list[Bar]:
    """Returns the bars of operations and of their scopes.

    A scope's bar ends where the run goes to another scope, or from forward to backward.
    """
    found: list[Bar] = []
    open_scopes: list[OpenScope] = []
    # The ends of the operations within which the next one may run.
    within: list[int] = []
    row = 0

    def close(down_to: int) -> None:
        for level in range(len(open_scopes) - 1, down_to - 1, -1):
            scope = open_scopes.pop()
            found.append(Bar(row, level, scope.begin, scope.end, scope.name, -1))

    order = sorted(range(len(events)), key=lambda i: (events[i].begin, -events[i].end))
    for i in order:
        event = events[i]
        while within and within[-1] <= event.begin:
            within.pop()
        names = event.scope.split("/") if event.scope else []
        if row != (event.phase == "backward"):
            close(0)
            row = int(event.phase == "backward")
        shared = 0
        for name, scope in zip(names, open_scopes, strict=False):
            if name != scope.name:
                break
            shared += 1
        close(shared)
        open_scopes += [OpenScope(name, event.begin) for name in names[shared:]]
        for scope in open_scopes:
            scope.end = max(scope.end, event.end)
        level = len(names) + len(within)
        found.append(Bar(row, level, event.begin, event.end, event.name, i))
        within.append(event.end)
    close(0)
    return sorted(found)
