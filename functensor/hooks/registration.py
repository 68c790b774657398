"""Registrations of hooks, which end by leaving a block or by ``remove``."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from itertools import count
from operator import attrgetter, call
from typing import Any
from weakref import WeakValueDictionary, ref

from ..backends.restoring import InC, in_turn, leaving
from ..primitives.core.errors import function_name

__all__ = ["Registration", "registered", "remove"]

next_id = count(1).__next__
# All registrations that somebody or something still holds, by their ids.
registrations: WeakValueDictionary[int, Registration] = WeakValueDictionary()


class Registered(threading.local):
    """The hooks for operations of a thread, the oldest first: plans call those that are there.

    Attributes:
        handles: their registrations.
    """

    def __init__(self) -> None:
        self.handles: list[Any] = []


registered = Registered()


class Registration:
    """A registration of a hook: a context manager, ended by leaving it or by ``remove``.

    It stands for its id where an integer is asked for.

    Attributes:
        id: unique in the process.
        active: whether the hook is still called.
    """

    def __init__(self, hook: Any) -> None:
        self.id = next_id()
        registrations[self.id] = self
        self.hook = hook
        self.active = True
        self._entered = ref(self)
        self._left = leaving(in_turn(self._ends()))

    def _ends(self) -> list[Callable[[], Any]]:
        """Returns what ends the registration, one after the other: what has to be done, in C."""
        # It is known weakly: a tensor's hook may die without having ended, and that at once.
        known = filter(None, map(call, (ref(self),)))
        return [partial(deque, map(setattr, known, ("active",), (False,)), 0)]

    def __index__(self) -> int:
        return self.id

    def remove(self) -> None:
        """Ends the registration; may be called at any time, also from within the hook, again."""
        self._left()

    # An interrupt between the registration and the block would let it stand.
    __enter__ = InC(attrgetter("_entered"))
    __exit__ = InC(attrgetter("_left"))

    def __repr__(self) -> str:
        state = "active" if self.active else "removed"
        return f"<handle {self.id} of {function_name(self.hook)}, {state}>"


def remove(id: int | Registration) -> None:
    """Ends the registration of an id, as its handle's ``remove`` does.

    Nothing happens if it has ended already.

    Args:
        id: what ``handle.id`` is; the handle itself, as `Tensor.register_hook` returns it, will do.

    Raises:
        TypeError: it is neither.

    >>> import functensor as ft
    >>> handle = ft.hooks.use(ft.hooks.Hook())
    >>> ft.hooks.remove(handle.id)
    >>> handle.active
    False
    """
    if not isinstance(id, int | Registration):
        raise TypeError(f"remove takes the id of a handle, not {type(id).__name__}")
    found = registrations.get(id) if isinstance(id, int) else id
    if found is not None:
        found.remove()
