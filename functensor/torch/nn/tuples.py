"""Numbers that stand for as many as there are axes: ``torch.nn.modules.utils``."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import repeat
from typing import Any

__all__ = ["doubled_number", "ntuple", "quadruple", "single", "triple"]


def ntuple(n: int, name: str = "parse") -> Callable[[Any], tuple[Any, ...]]:
    """Returns a function that makes a tuple of an iterable, and of others one of n times it.

    >>> ntuple(2)(3), ntuple(2)([3, 4])
    ((3, 3), (3, 4))
    """

    def parse(x: Any) -> tuple[Any, ...]:
        return tuple(x) if isinstance(x, Iterable) else tuple(repeat(x, n))

    parse.__name__ = name
    return parse


single = ntuple(1, "_single")
doubled_number = ntuple(2, "_pair")
triple = ntuple(3, "_triple")
quadruple = ntuple(4, "_quadruple")
