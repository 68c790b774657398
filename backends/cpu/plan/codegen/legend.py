"""The legend of a plan: the values of the names in its text, as comments behind the code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ....errors.words import described

if TYPE_CHECKING:
    from ..memory import KeptMemory

__all__ = ["legend"]

# Names of the scope that stand for themselves.
PLAIN_NAMES = frozenset({"__builtins__", "__name__", "np"})


def legend(scope: Mapping[str, Any], kept: KeptMemory) -> str:
    """Returns a line for every constant, function and kept buffer that a text names.

    Args:
        scope: the values of global names.
        kept: the memory that is kept from call to call.
    """
    lines = ["# np_... = NumPy's functions of these names"]
    lines += [
        f"# {name} = {described(value)}"
        for name, value in scope.items()
        if name not in PLAIN_NAMES and not name.startswith("np_") and not is_own_name(name, value)
    ]
    lines += [
        f"# {name} = {dtype}[{', '.join(map(str, shape))}], kept from call to call"
        for name, (_, shape, dtype) in kept.buffers.items()
    ]
    lines += [
        f"# {name} = {how.__name__}({base}, {argument!r})"
        for name, (base, how, argument) in kept.views.items()
    ]
    return "".join(f"{line}\n" for line in ["", *lines])


def is_own_name(name: str, value: Any) -> bool:
    """Says whether a dtype has its own name."""
    return isinstance(value, np.dtype) and name.rstrip("_") == value.name
