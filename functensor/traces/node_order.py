"""The nodes of a graph in their order: operands before what was computed of them."""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter
from typing import Any

__all__ = ["nodes_behind"]

number = attrgetter("number")


def nodes_behind(roots: Iterable[Any]) -> list[Any]:
    """Returns the nodes that results depend on, operands before what was computed of them."""
    found = dict.fromkeys(roots)
    waiting = list(found)
    while waiting:
        for parent in waiting.pop().parents:
            if parent is not None and parent not in found:
                found[parent] = None
                waiting.append(parent)
    return sorted(found, key=number)
