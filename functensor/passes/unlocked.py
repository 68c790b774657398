"""A property that is computed once, without a lock.

Python 3.11 holds a lock of the property's while it is computed. The child of a fork would wait for
it for ever, where another thread of its parent was computing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

__all__ = ["computed_once"]

Computed = TypeVar("Computed")


class computed_once(Generic[Computed]):
    """Makes a method an attribute that is computed when it is first asked for."""

    def __init__(self, function: Callable[[Any], Computed]) -> None:
        self._function = function
        self._name = function.__name__
        self.__doc__ = function.__doc__

    def __get__(self, instance: Any, owner: type) -> Computed:
        """Computes the attribute; from then on the instance has its own."""
        found = instance.__dict__[self._name] = self._function(instance)
        return found
