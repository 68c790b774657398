"""Names of arguments of the user's functions in messages: position, name and path."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..tree import containers as tree

__all__ = ["argument_name", "leaf_name", "positional_names"]


def positional_names(fun: Callable[..., Any] | None) -> list[str]:
    """Returns the names of a function's positional parameters, as far as they are known."""
    import inspect  # costs milliseconds

    try:
        parameters = inspect.signature(fun).parameters.values()  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return []
    known = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return [p.name for p in known]


def argument_name(names: Sequence[str], place: int | str, steps: Sequence[Any] = ()) -> str:
    """Returns ``argument 0 (x)['w']``, or ``argument 'scale'`` for one that was passed by name.

    Args:
        names: the names of the positional parameters.
        place: the argument's position, or its name.
        steps: the path to a leaf of it.
    """
    name = f"argument {place!r}"
    if isinstance(place, int) and place < len(names):
        name += f" ({names[place]})"
    return name + tree.keystr(tuple(steps))


def leaf_name(fun: Callable[..., Any], args: Any, index: int) -> str:
    """Returns the name of the positional arguments' leaf of that index."""
    (place, *steps), _ = tree.leaves_with_path(args)[index]
    return argument_name(positional_names(fun), place.value, steps)
