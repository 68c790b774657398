"""Handles of hooks: ``torch.utils.hooks``; modules and optimizers have hooks of this kind."""

from __future__ import annotations

from collections import OrderedDict
from functools import partial
from itertools import count
from operator import attrgetter
from typing import Any, Self

from ...backends.restoring import InC, in_turn, leaving
from ...faces.publish import publish

__all__ = ["RemovableHandle"]

next_hook = count().__next__


class RemovableHandle:
    """The registration of a hook, which ends at the end of a ``with`` block of the handle too.

    Args:
        hooks_dict: where the hook is kept by the number of its handle.
        extra_dict: where more is kept by this number, a dictionary or several.

    Attributes:
        id: unique in the process.

    >>> import functensor.torch as torch
    >>> hooks = {}
    >>> handle = torch.utils.hooks.RemovableHandle(hooks)
    >>> hooks[handle.id] = print
    >>> handle.remove()
    >>> hooks
    {}
    """

    def __init__(self, hooks_dict: dict[int, Any], *, extra_dict: Any = None) -> None:
        self.id = next_hook()
        several = extra_dict if isinstance(extra_dict, list) else [extra_dict]
        kept = [hooks_dict, *(x for x in several if x is not None)]
        self._left = leaving(in_turn([partial(x.pop, self.id, None) for x in kept]))

    def remove(self) -> None:
        """Ends the registration; nothing happens if it has ended already."""
        self._left()

    def __enter__(self) -> Self:
        return self

    # An interrupt at the end of a block would let it stand.
    __exit__ = InC(attrgetter("_left"))


def put_hook(
    hooks: dict[int, Any],
    hook: Any,
    first: bool = False,
    with_kwargs: dict[int, bool] | None = None,
) -> RemovableHandle:
    """Puts a hook among others, and returns its handle.

    Args:
        hooks: the others.
        hook: the hook.
        first: whether it comes before them.
        with_kwargs: where it is noted that the hook takes keywords too, if it does.
    """
    handle = RemovableHandle(hooks, extra_dict=with_kwargs)
    hooks[handle.id] = hook
    if with_kwargs is not None:
        with_kwargs[handle.id] = True
    if first and isinstance(hooks, OrderedDict):
        hooks.move_to_end(handle.id, last=False)
    return handle


publish(globals())
