"""The contents of a module: the tensors that its plans take, and all that a call may change."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

import numpy as np

from ..tensors import Tensor
from .given_values import Places, argument_places
from .surroundings import GIVEN_BACK, copied_items, given_back
from .watched_values import DEEPEST, MODULE_TABLES, is_looked_into

__all__ = ["ModuleContents", "PlanArguments"]



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
        known = {id(x) for x in self.tensors()}
        met: set[int] = set()
        for path, part in module.named_modules():
            plain = {name: x for name, x in vars(part).items() if name not in MODULE_TABLES}
            for name, table, key in attribute_tensors(path, vars(part), plain, met):
                self.places[name] = table, key
                if id(table[key]) not in known:
                    known.add(id(table[key]))
                    self.buffers[name] = table[key]

    def tensors(self) -> list[Any]:
        """Returns all of them."""
        return [*self.parameters.values(), *self.buffers.values()]

    def are_those_of(self, other: PlanArguments) -> bool:
        """Says whether they are the same tensors as others, under the same names."""
        if len(self.tensors()) != len(other.tensors()):
            return False
        pairs = (self.parameters, other.parameters), (self.buffers, other.buffers)
        return all(then.get(name) is x for now, then in pairs for name, x in now.items())


    def memory_shared_with(self, names: Iterable[str]) -> tuple[str, str] | None:
        """Returns the names of a buffer among some, and of a tensor in its memory; None without."""
        arrays = {n: x._data for n, x in (*self.parameters.items(), *self.buffers.items())}
        arrays = {n: x for n, x in arrays.items() if type(x) is np.ndarray}
        for name in names:
            for other, array in arrays.items():
                if other != name and name in arrays and np.may_share_memory(array, arrays[name]):
                    return name, other
        return None


def attribute_tensors(
    path: str, table: Any, values: dict[Any, Any], met: set[int], depth: int = 0
) -> Iterator[tuple[str, Any, Any]]:
    """Yields the names and places of tensors among values, and in lists and dictionaries of these.

    Args:
        path: what the names begin with.
        table: the dictionary or the list that has the values.
        values: the values by their keys or numbers there.
        met: the ids of lists and dictionaries that were looked at.
        depth: in how many others the table is.
    """
    if depth > DEEPEST:
        return
    for key, x in values.items():
        name = f"{path}.{key}" if path else str(key)
        if issubclass(type(x), Tensor):
            yield name, table, key
        elif type(x) in (list, dict) and id(x) not in met:
            met.add(id(x))
            inner = x if type(x) is dict else dict(enumerate(x))
            yield from attribute_tensors(name, x, inner, met, depth + 1)


class ModuleContents:
    """The attributes of a module as they were, and what lists, dictionaries and objects held."""

    def __init__(self, parts: list[Any]) -> None:
        self._copies: list[tuple[Any, Any]] = []
        met: set[int] = set()
        for part in parts:
            self._keep(vars(part), met)

    def _keep(self, x: Any, met: set[int], depth: int = 0) -> None:
        if id(x) in met or depth > DEEPEST:
            return
        met.add(id(x))
        # Objects may refuse to be looked at.
        with suppress(Exception):
            for each in self._inside(x):
                self._keep(each, met, depth + 1)

    def _inside(self, x: Any) -> list[Any]:
        """Returns what a value holds, once what may change of it is copied."""
        if type(x) is tuple:
            return [*x]
        if isinstance(x, GIVEN_BACK):
            inside = [*x.values()] if isinstance(x, dict) else [*x]
            self._copies.append((x, copied_items(x)))
            return inside
        if is_looked_into(type(x).__module__) and not isinstance(x, type):
            return [x.__dict__]
        return []

    def restore(self) -> bool:
        """Undoes what was changed; says whether something was."""
        changed = False
        for x, before in self._copies:
            changed = given_back(x, before) or changed
        return changed
