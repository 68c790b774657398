"""Checks of what transformed functions are given and return, with words for messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..primitives.core.errors import describe, failure, function_name
from ..primitives.core.shape_dtype import shape_dtype

__all__ = ["check_holomorphic", "outline_of_output", "pair_of"]


def check_holomorphic(fun: Callable[..., Any], leaves: list[Any], name: str, what: str) -> None:
    """Checks that values are complex, as those of a holomorphic function are."""
    for leaf in leaves:
        dtype = shape_dtype(leaf).dtype
        if dtype.kind != "c":
            text = f"holomorphic=True is for complex {what}, not {dtype}"
            raise TypeError(f"{name} of {function_name(fun)}: {text}")


def outline_of_output(out: Any) -> str:
    """Returns what a function returned, for messages: types and shapes, no values."""
    if isinstance(out, tuple) and len(out) <= 4:
        return f"a tuple ({', '.join(map(describe, out))})"
    return f"a {type(out).__name__}"


def pair_of(fun: Callable[..., Any], out: Any) -> tuple[Any, Any]:
    """Returns the output and the extras of a function.

    Raises:
        TypeError: it returned no pair.
    """
    if not isinstance(out, tuple) or len(out) != 2:
        got = f"{len(out)} values" if isinstance(out, tuple) else f"one value, {describe(out)}"
        raise failure(
            TypeError,
            f"has_aux=True is for a function that returns a pair (output, extras), but "
            f"{function_name(fun)} returned {got}",
            fix="return output, extras, or leave has_aux out",
        )
    return out
