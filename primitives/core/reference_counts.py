"""Reference counts of CPython: whether nobody else holds an object that is about to be changed.

A donated buffer may be written to if only its array holds it. ``x += y`` of what was a tensor loses
no write if ``x`` has one name. Python has no other answer to either question. The number of
references that the interpreter holds meanwhile differs between versions; it is measured here. Where
counting fails, a buffer is copied, or an error is raised that asks for a copy: never a wrong value.
"""

from __future__ import annotations

from collections.abc import Sequence
from sys import getrefcount
from typing import Any

from numpy import empty

from .annotations import Value
from .buffers import wrap

__all__ = [
    *("ALONE", "ALONE_AMONG", "ONE_NAME", "ONE_NAME_TWICE", "getrefcount", "references_among"),
    "references_in",
]


def references_in(buffers: list[Value], i: int) -> int:
    """Returns how many references the interpreter counts of one of the operands' buffers."""
    return getrefcount(buffers[i])


def references_among(buffers: list[Value], places: Sequence[int]) -> set[int]:
    """Returns how many references the interpreter counts of operands' buffers, each number once."""
    if len(places) == len(buffers):
        # Without a list of them, they are referred to once less.
        return {count + 1 for count in {*map(getrefcount, buffers)}}
    return {*map(getrefcount, [buffers[i] for i in places])}


def _references_alone_among() -> int:
    """Returns how many there are in `references_among` where `_references_alone` has its number."""
    buffers: list[Value] = [empty(1)]
    array = wrap(buffers[0])
    alone = references_among(buffers, [0])
    another = array._data
    found = references_among(buffers, [0])
    more = {count + 1 for count in alone}
    return min(alone) if another is buffers[0] and found == more else 0


def _references_alone() -> int:
    """Returns how many there are of a buffer that only its array and the operands' list have.

    0, as no buffer has, where another reference is not counted.
    """
    buffers: list[Value] = [empty(1)]
    array = wrap(buffers[0])
    alone = references_in(buffers, 0)
    another = array._data
    found = references_in(buffers, 0)
    return alone if another is buffers[0] and found == alone + 1 else 0


class _Probe:
    """Counts references to itself while it is assigned to."""

    def __iadd__(self, other: object) -> Any:
        return getrefcount(self)


def _references_assigned(both: bool) -> int:
    """Returns how often an object of one name, on one or both sides, is referred to in ``+=``."""
    x: Any = _Probe()
    if both:
        x += x
    else:
        x += 1
    return int(x)


# The counts of a buffer that only its array holds, and of an object with one name in ``x += y`` and
# in ``x += x``.
ALONE = _references_alone()
ALONE_AMONG = _references_alone_among()
ONE_NAME = _references_assigned(both=False)
ONE_NAME_TWICE = _references_assigned(both=True)
