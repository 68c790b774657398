"""Words of messages: arguments as they are shown, names that are like others."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from types import CodeType
from typing import Any

import numpy as np

__all__ = ["INDEXED", "WRAPPER_CODES", "described", "nearest", "shown"]

# The name of indexing, which messages show as ``x[key]``.
INDEXED = "x[]"
# The code of wrappers in other modules that hand over all arguments as they are.
WRAPPER_CODES: set[CodeType] = set()
# Arrays of more elements are shown by their dtype and shape alone.
MOST_SHOWN_ELEMENTS = 8
# Names of arguments in other libraries, and ours: the first one that a function has counts.
SYNONYMS: dict[str, tuple[str, ...]] = {
    "dim": ("axis", "axes", "argnum"),
    "dims": ("axis", "axes", "shape"),
    "keepdim": ("keepdims",),
    "axis": ("dim", "axes", "in_axes"),
    "axes": ("axis", "dims"),
    "keepdims": ("keepdim",),
    "input": ("x", "a", "arrays"),
    "other": ("y", "x2", "b"),
    "unbiased": ("correction", "ddof"),
    "correction": ("ddof",),
    "ddof": ("correction",),
    "size": ("shape",),
    "learning_rate": ("lr",),
    "momentum": ("beta", "decay"),
    "betas": ("b1", "beta1"),
    "rng": ("key",),
    "seed": ("key",),
}


def nearest(name: str, known: Sequence[str]) -> str:
    """Returns the known name that is most like another one, or an empty string."""
    from difflib import get_close_matches  # costs milliseconds

    for other in SYNONYMS.get(name, ()):
        if other in known:
            return other
    lower = {other.lower() for other in known}
    found = get_close_matches(name.lower(), sorted(lower), 1, 0.65)
    alike = [other for other in known if other.lower() in found]
    # Names that differ in case alone: classes, and functions.
    same_case = [other for other in alike if other[0].isupper() == name[0].isupper()]
    return (same_case or alike or [""])[0]


def shown(x: Any, depth: int = 2) -> str:
    """Returns an argument as messages show it: a number itself, an array's dtype and shape."""
    try:
        shape, dtype = getattr(x, "shape", None), getattr(x, "dtype", None)
    except Exception:
        # An array that was donated says neither, and the error that is shown is another one.
        return type(x).__name__
    if isinstance(shape, tuple) and dtype is not None:
        return f"{dtype}[{', '.join(map(str, shape))}]"
    if x is None or isinstance(x, bool | int | float | complex | str):
        text = repr(x)
        return text if len(text) <= 40 else f"{text[:36]}...{text[-1]}"
    if type(x) in (list, tuple) and depth:
        left, right = "[]" if isinstance(x, list) else "()"
        inner = [shown(item, depth - 1) for item in x[:3]] + ["..."] * (len(x) > 3)
        return f"{left}{', '.join(inner)}{',' * (isinstance(x, tuple) and len(x) == 1)}{right}"
    return getattr(x, "__name__", None) or type(x).__name__


def described(value: Any) -> str:
    """Returns a constant with its value if it is small, a function by its module and name."""
    if isinstance(value, np.generic | np.ndarray) and not value.shape:
        return f"{value.dtype.name}({value.item()!r})"
    if isinstance(value, np.ndarray):
        values = f" {value.tolist()}" if value.size <= MOST_SHOWN_ELEMENTS else ""
        return f"{shown(value)}{values}"
    if isinstance(value, partial):
        # Functions of primitives are computed by another one that is their first argument.
        first = value.args[0] if value.args and callable(value.args[0]) else value.func
        return described(first)
    name = getattr(value, "__qualname__", None)
    return f"{value.__module__}.{name}" if name else repr(value)
