"""Views that are behind their base: they take themselves anew when they are next read.

A read of a tensor is a read of its slot, and asks nothing. So a view that is behind has no
value at all, and the class of such tensors finds the slot empty.
"""

from __future__ import annotations

from typing import Any

from .face import TracedTensor
from .tape import TapeTrace
from .tensor import Tensor
from .views import catch_up

__all__ = ["Late", "LateTraced"]

LATE_ATTRIBUTES = frozenset({"_data", "node", "value"})


class Late(Tensor):
    """The class of a view from a write to its base up to the next read of the view."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        return caught_up(self, name)


class LateTraced(TracedTensor):
    """The class of such a view within a transformation."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        return caught_up(self, name)


def caught_up(view: Any, name: str) -> Any:
    """Returns an attribute that a view lacks while it is behind.

    Raises:
        AttributeError: it is none of these.
    """
    if name in LATE_ATTRIBUTES:
        catch_up(view)
        return getattr(view, name)
    kind = type(view).__name__
    raise AttributeError(f"{kind!r} object has no attribute {name!r}", name=name, obj=view)


KINDS: dict[type, type] = {Tensor: Late, TracedTensor: LateTraced}
for kind, late in KINDS.items():
    # The printed class of a view does not depend on writes to its base.
    late.__name__, late.__qualname__, late.__module__ = (
        kind.__name__, kind.__qualname__, kind.__module__,
    )  # fmt: skip
TapeTrace.late = KINDS
