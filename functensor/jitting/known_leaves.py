"""Leaves of guards that are arrays on devices: the buffers of an earlier call are known again.

It is quicker to know that they are the same than to compare their shapes and dtypes. Leaves that
are donated are known apart from the others: a loop gets them back, and others with every batch.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from typing import Any
from weakref import ref

from ..backends.known_buffers import SameBuffers
from ..primitives.core.array import Array

__all__ = ["KnownLeaves", "is_on_device", "is_row_of_arrays", "lines_of_comparison"]

# A reference to what is gone.
NO_BUFFER: Any = ref(set())


def is_on_device(value: Any, types: Container[type]) -> bool:
    """Says whether a value is an array on a device, whose buffers have one of some types."""
    return type(value) is Array and type(value._data) in types


def is_row_of_arrays(values: Sequence[Any], types: Container[type]) -> bool:
    """Says whether several values are arrays on devices, all of them."""
    return len(values) > 1 and all(is_on_device(x, types) for x in values)


def shown_tuple(names: Sequence[str]) -> str:
    """Returns an expression of several variables' values."""
    return f"({', '.join(names)})"


class KnownLeaves:
    """Writes the lines of a guard about such leaves.

    Attributes:
        names: the variables that hold them, in order.
        rows: the variables of lists that hold several, and the names of all of these, by the first.
    """

    def __init__(self) -> None:
        self.names: list[str] = []
        self.rows: dict[str, tuple[str, list[str]]] = {}
        # By whether they are donated: the variables by the condition that one is not alike.
        self._alike: dict[bool, dict[str, list[str]]] = {True: {}, False: {}}

    def add(self, name: str, other: str, is_donated: bool) -> None:
        """Enters a leaf.

        Args:
            name: its variable.
            other: the condition that a leaf ``x`` is not of its kind.
            is_donated: whether it is donated.
        """
        self.names.append(name)
        self._alike[is_donated].setdefault(other, []).append(name)

    def compare(self, scope: dict[str, Any]) -> Iterator[str]:
        """Yields the lines that compare the leaves with those of the last call, or its kinds.

        They set ``known``, which stands for all buffers, and ``donated`` for those that are
        away.

        Args:
            scope: gets the values of global names.
        """
        seen: list[SameBuffers] = []
        groups = self._groups()
        for number, alike in enumerate(groups):
            names = self._in_order(alike)
            seen.append(SameBuffers([NO_BUFFER] * len(names)))
            scope[f"none_{number}"] = [None] * len(names)
            yield from self._lines_of_group(number, names, alike, len(groups) == 1)
        scope["seen"] = seen
        yield f"donated = {'known_0' if self._alike[True] else 'None'}"
        if len(seen) == 1:
            yield "known = known_0"
            return
        seen.append(SameBuffers([]))
        yield "known = seen[2]"
        yield "if known.parts != (known_0, known_1):"
        yield "  seen[2] = known = SameBuffers([], (known_0, known_1))"

    def _groups(self) -> list[dict[str, list[str]]]:
        """Returns the leaves that are donated, and the others, by their conditions."""
        return [alike for alike in self._alike.values() if alike]

    def _in_order(self, alike: dict[str, list[str]]) -> list[str]:
        """Returns the leaves of a group in their order."""
        some = {name for names in alike.values() for name in names}
        return [name for name in self.names if name in some]

    def listed(self, name: str, leaves: Sequence[str], items: Sequence[str]) -> str:
        """Returns an expression of a list with an item for each leaf of a guard.

        Args:
            name: what the lists of the groups are called: ``there``, the leaves that were compared,
                or ``held``, their buffers.
            leaves: the variables of all leaves.
            items: the expressions of the items.
        """
        groups = self._groups()
        known = [x for alike in groups for x in self._in_order(alike)]
        if not known or known != [*leaves]:
            return f"[{', '.join(items)}]"
        if len(groups) == 1:
            return f"{name}_0"
        return f"[*{name}_0, *{name}_1]"

    def _lines_of_group(
        self, number: int, names: Sequence[str], alike: dict[str, list[str]], alone: bool
    ) -> Iterator[str]:
        """Yields the lines that compare some leaves.

        Args:
            number: the number of the group.
            names: the variables that hold the leaves.
            alike: the same, by the condition that one is not of their kind.
            alone: whether there is no other group.
        """
        there, known, held = f"there_{number}", f"known_{number}", f"held_{number}"
        # What others know is not copied once more.
        made = "KnownBuffers" if alone else "list"
        yield f"{there} = {self._together(names)}"
        # Other threads put another one there.
        yield f"{known} = seen[{number}]"
        yield f"{held} = {made}(none_{number})"
        yield f"if slots.same(Array, {there}, {known}.references, {held}):"
        yield f"  if {{*map(type, {there})}} != {{Array}}: return UNLIKE"
        yield f"  {held} = {made}([x._data for x in {there}])"
        yield f"  if not all(map(is_, {held}, map(call, {known}.references))):"
        for line in lines_of_comparison(alike, self._together):
            yield f"    {line}"
        yield f"    seen[{number}] = {known} = SameBuffers([*map(ref, {held})])"

    def _together(self, names: Sequence[str]) -> str:
        """Returns an expression of a list of leaves."""
        parts: list[str] = []
        at = 0
        while at < len(names):
            name, row = self.rows.get(names[at], ("", []))
            whole = bool(row) and names[at : at + len(row)] == row
            parts.append(f"*{name}" if whole else names[at])
            at += len(row) if whole else 1
        alone = len(parts) == 1 and parts[0].startswith("*")
        return parts[0][1:] if alone else f"[{', '.join(parts)}]"

    def let_go(self) -> str:
        """Returns the line after which no variable holds a buffer."""
        held = [f"held_{number} = " for number in range(len(self._groups()))]
        return f"{''.join(held)}x = None"


def lines_of_comparison(
    alike: dict[str, list[str]], together: Callable[[Sequence[str]], str] = shown_tuple
) -> Iterator[str]:
    """Yields the lines that compare leaves.

    Args:
        alike: the variables of leaves, by the condition that a leaf ``x`` is not of their kind.
        together: returns an expression that goes over variables.
    """
    for other, names in alike.items():
        if len(names) == 1:
            yield f"x = {names[0]}"
            yield f"if {other}: return UNLIKE"
        else:
            yield f"for x in {together(names)}:"
            yield f"  if {other}: return UNLIKE"
