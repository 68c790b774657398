"""Handles of hooks: ``torch.utils.hooks``; modules and optimizers have hooks of this kind."""

from __future__ import annotations

from collections import OrderedDict
from itertools import count
from typing import Any, Self

from ...faces.publish import publish

__all__ = ["RemovableHandle"]

next_hook = count().__next__


class RemovableHandle:
    """The registration of a hook, which ends at the end of a ``with`` block of the handle too.

    Args:
        hooks_dict: the hooks by the ids of their handles; this one is put there.
        hook: the hook, with what is known of it.
        first: whether it comes before the others.

    Attributes:
        id: unique in the process.
    """

    def __init__(self, hooks_dict: dict[int, Any], hook: Any, first: bool = False) -> None:
        self.id = next_hook()
        self._hooks = hooks_dict
        hooks_dict[self.id] = hook
        if first and isinstance(hooks_dict, OrderedDict):
            hooks_dict.move_to_end(self.id, last=False)

    def remove(self) -> None:
        """Ends the registration; nothing happens if it has ended already."""
        self._hooks.pop(self.id, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.remove()


publish(globals())
