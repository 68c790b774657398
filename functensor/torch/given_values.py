"""Calls of modules with other values in the places of their parameters and buffers."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

__all__ = ["Places", "argument_places", "called_with", "replacing"]

# For every name of a tensor the dictionary or the list that it is in, and its key there.
Places = dict[str, tuple[Any, Any]]

# Two threads do not put values in place of one module's parameters at the same time.
replacing = threading.RLock()


def argument_places(module: Any) -> Places:
    """Returns for every name of a parameter or buffer its table, and its name there."""
    return {
        f"{path}.{name}" if path else name: (table, name)
        for path, part in module.named_modules(remove_duplicate=False)
        for table in (part._parameters, part._buffers)
        for name in table
    }


def called_with(places: Places, given: dict[str, Any], call: Callable[[], Any]) -> Any:
    """Calls a function while values stand in the places of a module's parameters and buffers."""
    with replacing:
        # A parameter with two names is given under one of them.
        by_object = {id(places[n][0][places[n][1]]): v for n, v in given.items()}
        before = [(table, name, table[name]) for table, name in places.values()]
        try:
            for table, name, old in before:
                if old is not None and id(old) in by_object:
                    table[name] = by_object[id(old)]
            return call()
        finally:
            for table, name, old in before:
                table[name] = old
