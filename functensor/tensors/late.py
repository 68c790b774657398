"""Views that are behind their base: they take themselves anew when they are next read.

A read of a tensor is a read of its slot, and asks nothing. So a view that is behind has no
value at all, and the class of such tensors finds the slot empty.
"""

from __future__ import annotations

from typing import Any

from .tape import TapeTrace
from .tensor import Tensor
from .views import catch_up

__all__ = ["Late"]

LATE_ATTRIBUTES = frozenset({"_data", "node", "value"})


class Late(Tensor):
    """The class of a view from a write to its base up to the next read of the view."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        if name in LATE_ATTRIBUTES:
            catch_up(self)
            return getattr(self, name)
        raise AttributeError(f"'Tensor' object has no attribute {name!r}", name=name, obj=self)


# The printed class of a view does not depend on writes to its base.
Late.__name__, Late.__qualname__, Late.__module__ = "Tensor", "Tensor", Tensor.__module__
TapeTrace.late = Late
