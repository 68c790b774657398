"""The group of one process, which exchanges nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..backends.devices import backend_of

__all__ = ["LoneGroup"]


class Done:
    """A mean of one array.

    Attributes:
        out: the array.
    """

    def __init__(self, x: Any) -> None:
        self.out = x

    def advance(self) -> bool:
        """Says that it is there."""
        return True

    def result(self) -> Any:
        """Returns the array."""
        return self.out


class LoneGroup:
    """Does as `MpiGroup` for a process that is alone; results may be the operands themselves."""

    size = 1
    rank = 0

    def begin_mean(self, x: Any, owned: bool) -> Done:
        """Returns the mean of one array, which is there already."""
        return Done(x)

    def sum(self, x: Any) -> Any:
        """Returns the array."""
        return x

    def extremum(self, x: Any, largest: bool) -> Any:
        """Returns the array."""
        return x

    def gather(self, x: Any) -> Any:
        """Returns the array with a new first axis."""
        return x[None]

    def begin_scatter_mean(self, x: Any) -> Done:
        """Returns the only row of one array, which is there already."""
        return Done(x[0])

    def scatter_sum(self, x: Any) -> Any:
        """Returns the only row."""
        return x[0]

    def exchange(self, x: Any) -> Any:
        """Returns the array."""
        return x

    def permute(self, x: Any, pairs: Sequence[tuple[int, int]]) -> Any:
        """Returns the array if it is sent to itself, and else zeros."""
        return x if pairs else backend_of(x).xp.zeros_like(x)
