"""Copies and pickles of tensors whose class is a user's: their class, and what that adds."""

from __future__ import annotations

from typing import Any, TypeVar

__all__ = ["added_to", "of_class", "with_state"]

ObjectT = TypeVar("ObjectT")


def of_class(kind: type[ObjectT], base: Any, *args: Any) -> ObjectT:
    """Returns an object of a subclass, made by the constructor of a base class.

    The subclass's own arguments are not known any more.
    """
    out = kind.__new__(kind)
    base.__init__(out, *args)
    return out


def added_to(x: Any, base: type) -> dict[str, Any]:
    """Returns the attributes that an object has beside those of a base class."""
    found = dict(getattr(x, "__dict__", {}))
    kinds = type(x).__mro__
    for kind in kinds[: kinds.index(base)]:
        names = vars(kind).get("__slots__", ())
        for name in (names,) if isinstance(names, str) else names:
            if name not in ("__dict__", "__weakref__") and hasattr(x, name):
                found[name] = getattr(x, name)
    return found


def with_state(x: ObjectT, state: dict[str, Any]) -> ObjectT:
    """Returns an object with attributes that a subclass adds."""
    for name, value in state.items():
        object.__setattr__(x, name, value)
    return x
