"""What is in a module: the tensors that its plans take, and all that a call may change."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from copy import copy
from operator import is_
from typing import Any

from ..tensors import Tensor
from .given_values import Places, argument_places
from .watched_values import is_looked_into

__all__ = ["ModuleContents", "PlanArguments"]

# The attributes that modules have for themselves.
OWN = frozenset({
    "_parameters", "_buffers", "_modules", "_forward_hooks", "_forward_pre_hooks",
    "_backward_hooks", "_backward_pre_hooks", "_with_kwargs", "_state_hooks",
})  # fmt: skip
KINDS = dict, list, set, deque


class PlanArguments:
    """The tensors of a module that a plan takes as arguments.

    Attributes:
        parts: all modules in it.
        places: where they are, by their names.
        parameters: those that require gradients.
        buffers: all others, in attributes, and in lists and dictionaries that attributes are.
    """

    __slots__ = ("buffers", "parameters", "parts", "places")

    def __init__(self, module: Any) -> None:
        self.parts: list[Any] = list(module.modules())
        self.places: Places = argument_places(module)
        self.parameters = dict(module.named_parameters())
        self.buffers = dict(module.named_buffers())
        met = {id(x) for x in self.tensors()}
        for path, part in module.named_modules():
            plain = {name: x for name, x in vars(part).items() if name not in OWN}
            for name, table, key in tensors_in(path, vars(part), plain):
                self.places[name] = table, key
                if id(table[key]) not in met:
                    met.add(id(table[key]))
                    self.buffers[name] = table[key]

    def tensors(self) -> list[Any]:
        """Returns all of them."""
        return [*self.parameters.values(), *self.buffers.values()]


def tensors_in(path: str, table: Any, values: dict[Any, Any]) -> Iterator[tuple[str, Any, Any]]:
    """Yields the names and places of tensors among values, and in lists and dictionaries of these.

    Args:
        path: what the names begin with.
        table: the dictionary or the list that has the values.
        values: the values by their keys or numbers there.
    """
    for key, x in values.items():
        name = f"{path}.{key}" if path else str(key)
        if isinstance(x, Tensor):
            yield name, table, key
        elif type(x) is list:
            yield from tensors_in(name, x, dict(enumerate(x)))
        elif type(x) is dict:
            yield from tensors_in(name, x, x)


class ModuleContents:
    """The attributes of a module as they were, and what lists, dictionaries and objects held."""

    def __init__(self, parts: list[Any]) -> None:
        self._copies: list[tuple[Any, Any]] = []
        met: set[int] = set()
        for part in parts:
            self._keep(vars(part), met)

    def _keep(self, x: Any, met: set[int]) -> None:
        if id(x) in met:
            return
        met.add(id(x))
        if type(x) is tuple:
            inner: Any = x
        elif isinstance(x, KINDS):
            self._copies.append((x, copy(x)))
            inner = list(x.values()) if isinstance(x, dict) else list(x)
        elif is_looked_into(type(x).__module__) and not isinstance(x, type):
            inner = [getattr(x, "__dict__", None)]
        else:
            return
        for each in inner:
            self._keep(each, met)

    def restore(self) -> bool:
        """Undoes what was changed; says whether something was."""
        changed = False
        for x, before in self._copies:
            flat: Callable[[Any], list[Any]] = flat_table if isinstance(x, dict) else list
            now, then = flat(x), flat(before)
            if len(now) == len(then) and all(map(is_, now, then)):
                continue
            changed = True
            x.clear()
            if isinstance(x, (list, deque)):
                x.extend(before)
            else:
                x.update(before)
        return changed


def flat_table(table: dict[Any, Any]) -> list[Any]:
    """Returns the keys and the values of a dictionary."""
    return [*table, *table.values()]
