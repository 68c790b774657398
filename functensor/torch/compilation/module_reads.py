"""The attributes of modules that a call reads, noted while a plan of it is made."""

from __future__ import annotations

import threading
from collections.abc import Callable
from operator import itemgetter
from typing import Any

from ...backends.frames import frame_at, is_users, module_of
from ..graph_breaks import GraphBreak
from ..nn.module import Module
from .looked_into import HIDDEN_KINDS, NOTHING_THERE, is_looked_into, said_of_hidden
from .pictures import Picture

__all__ = ["Reads", "attribute_picture", "noting_reads", "passed_on"]

# Modules and names of their attributes, by the ids of the modules and these names.
Reads = dict[tuple[int, str], tuple[Any, str]]

TABLES = "_parameters", "_buffers", "_modules"


class NotedReads(threading.local):
    """The notes of what this thread reads: for the plans that it makes, the innermost last."""

    def __init__(self) -> None:
        self.reads: list[Reads] = []


noting = NotedReads()
# How many plans all threads make.
making = 0
counting = threading.Lock()


def noted_attribute(self: Any, name: str) -> Any:
    """Returns an attribute of a module, and notes that it was read."""
    if noting.reads:
        names = (name,)
        if name == "__dict__" and is_users(module_of(frame_at(1))):
            names = tuple(object.__getattribute__(self, name))
        for each in names:
            passed_on({(id(self), each): (self, each)})
        value = object.__getattribute__(self, name)
        if isinstance(value, HIDDEN_KINDS):
            # Before it changes.
            raise GraphBreak(said_of_hidden(value))
        return value
    return object.__getattribute__(self, name)


def passed_on(found: Reads) -> None:
    """Notes what another plan reads for all plans that are made around it."""
    for reads in noting.reads:
        reads.update(found)


def noting_reads(reads: Reads, fun: Callable[[], Any]) -> Any:
    """Returns what a function returns, and notes which attributes of modules it reads."""
    global making
    with counting:
        making += 1
    noting.reads.append(reads)
    try:
        with counting:
            type.__setattr__(Module, "__getattribute__", noted_attribute)
        return fun()
    finally:
        noting.reads.pop()
        with counting:
            making -= 1
            if not making and "__getattribute__" in vars(Module):
                type.__delattr__(Module, "__getattribute__")


def attribute_picture(picture: Picture, part: Any, name: str) -> Any:
    """Returns the picture of an attribute of a module, or of its class."""
    own = vars(part)
    for table in (own, *itemgetter(*TABLES)(own)):
        if name in table:
            return picture.of(table[name])
    for kind in type(part).__mro__:
        if name in vars(kind):
            looked_into = is_looked_into(kind.__module__)
            return picture.of_entry(kind, name) if looked_into else kind
    return NOTHING_THERE
