"""Objects that files hold by their state: modules, optimizers, generators of random numbers.

A module, an optimizer, a schedule of rates and a loader of data have ``state_dict`` and
``load_state_dict``; generators and streams of keys have states of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeGuard

from .. import tree
from ..random.generator import Generator
from ..random.key_stream import KeyStream
from ..tensors import Tensor

__all__ = ["Stateful", "adopt_all", "has_state", "is_module_state"]


class Stateful(Protocol):
    """An object whose state is a tree, and that goes on from such a tree."""

    def state_dict(self) -> Any:
        """Returns the state."""

    def load_state_dict(self, state_dict: Any, /) -> Any:
        """Goes on from a state."""


def has_state(x: object) -> TypeGuard[Stateful]:
    """Says whether an object's state is saved in its place."""
    if isinstance(x, type):
        return False
    return callable(getattr(x, "state_dict", None)) and callable(
        getattr(x, "load_state_dict", None)
    )


def is_module_state(state: object) -> bool:
    """Says whether a state is tensors by name, all of which a file must have."""
    if not isinstance(state, Mapping) or not state:
        return False
    return all(isinstance(x, Tensor) for x in state.values())


def _snapshot(x: Any) -> Callable[[], Any]:
    """Returns a function that sets an object back to its present state."""
    if isinstance(x, Generator):
        state = x.get_state()
        return lambda: x.set_state(state)
    if isinstance(x, KeyStream):
        kept = x.__getstate__()
        return lambda: x.__setstate__(kept)
    copied = tree.map(lambda v: v.detach().clone() if isinstance(v, Tensor) else v, x.state_dict())
    return lambda: x.load_state_dict(copied)


def adopt_all(states: Sequence[tuple[Any, Any]]) -> None:
    """Lets objects go on from states; if one refuses its own, all are as they were before.

    Args:
        states: pairs of an object and its new state.
    """
    done: list[Callable[[], Any]] = []
    try:
        for x, state in states:
            done.append(_snapshot(x))
            if isinstance(x, Generator):
                x.set_state(state)
            elif isinstance(x, KeyStream):
                x.__setstate__(state)
            else:
                x.load_state_dict(state)
    except BaseException:
        for undo in reversed(done):
            undo()
        raise
