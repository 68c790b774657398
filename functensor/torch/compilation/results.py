"""Results of plans: arguments, views of them and constants come back as what they are.

A plan returns arrays of its own. What a function returns beside these leaves a node without arrays
in the result, which says what is to stand in its place.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from types import FunctionType
from typing import Any

import numpy as np

from ...primitives.core.array import Array
from ...tensors import Tensor
from ...tensors.views import Overlapping, viewing, without_graph
from ...tree import containers as tree
from ..graph_breaks import GraphBreak
from ..nn.module import Module
from .looked_into import PLAIN_KINDS, Same

__all__ = ["in_places_of", "taken_out", "with_others"]

# What plans return beside arrays, numbers and texts.
RETURNED_KINDS = np.generic, np.dtype, Enum, type, FunctionType, Module


class Other:
    """Stands in the result of a plan for what is no array of its own.

    Attributes:
        place: the number of an argument's leaf, or of one of the result, counted from -1 down;
            None for a constant.
        value: the constant, or how views are taken of the leaf, one of the other.
    """

    __slots__ = ("place", "value")

    def __init__(self, place: int | None, value: Any) -> None:
        self.place = place
        self.value = value

    def found(self, given: Sequence[Any], own: Sequence[Any]) -> Any:
        """Returns what it stands for, given the leaves of a call's arguments and of its result."""
        if self.place is None:
            return self.value
        x = given[self.place] if self.place >= 0 else own[-1 - self.place]
        return viewed_again(x, self.value)


tree.register(
    Other,
    lambda node: ((), (node.place, Same(node.value))),
    lambda static, _: Other(static[0], static[1].value),
)


def taken_out(out: Any, given: Sequence[Any]) -> tuple[Any, bool]:
    """Returns a result with nodes for what a plan cannot return, and whether it has to be changed.

    Args:
        out: the result.
        given: the leaves of the arguments.

    Raises:
        GraphBreak: an object is in it that is neither a constant nor an argument.
    """
    leaves, treedef = tree.flatten(out)
    places = {id(x): i for i, x in enumerate(given) if type(x) not in PLAIN_KINDS}
    others = False
    for i, x in enumerate(leaves):
        root, views = base_of(x)
        if id(x) in places or places.get(id(root), -1) >= 0:
            leaves[i] = Other(places[id(root)], views)
        elif isinstance(x, Array):
            places[id(x)] = -1 - i
            others = others or not isinstance(x, Tensor)
            continue
        elif type(x) in PLAIN_KINDS or isinstance(x, RETURNED_KINDS):
            leaves[i] = Other(None, x)
        else:
            raise GraphBreak(f"it returns an object of {type(x).__name__}")
        others = True
    return treedef.unflatten(leaves), others


def with_others(out: Any, given: Sequence[Any]) -> Any:
    """Returns the result of a plan with what others stand for in it.

    Arrays are NumPy's where the arguments are.

    Args:
        out: the result.
        given: the leaves of the call's arguments.
    """
    found, treedef = tree.flatten(out, is_leaf=lambda x: type(x) is Other)
    kinds = {*map(type, given)}
    if np.ndarray in kinds and Array not in kinds:
        found = [np.array(x) if type(x) is Array else x for x in found]
    for i, x in enumerate(found):
        if type(x) is Other:
            found[i] = x.found(given, found)
    return treedef.unflatten(found)


def in_places_of(out: Any, pairs: Iterable[tuple[Any, Any]]) -> Any:
    """Returns a result in which other tensors stand in the places of some, and views of these.

    Args:
        out: the result.
        pairs: the tensors, each with the other.
    """
    others = {id(x): y for x, y in pairs}

    def other(x: Any) -> Any:
        root, views = base_of(x)
        return viewed_again(others[id(root)], views) if id(root) in others else x

    return tree.map(other, out)


def base_of(x: Any) -> tuple[Any, tuple[Any, ...]]:
    """Returns the tensor that something is a view of, and how views are taken of it in turn."""
    views: list[Any] = []
    while (source := getattr(x, "_source", None)) is not None:
        x, *view = source[:4]
        views.insert(0, view)
    return x, tuple(views)


def viewed_again(x: Any, views: Iterable[Any]) -> Any:
    """Returns the view of a tensor that is taken of it as others were."""
    for take, key, recorded in views:
        if take is None:
            x = x[key]
        elif take is without_graph:
            x = x.detach()
        elif isinstance(take, Overlapping):
            x = viewing(take.take, recorded, windows=True)(x)
        else:
            x = viewing(take, recorded)(x)
    return x
