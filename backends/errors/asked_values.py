"""Names in an error the argument whose value a public function asked for, and could not get."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

__all__ = ["asking", "name_the_asking"]

# How the clause begins that names the argument.
CLAUSE = "; a plain value is wanted for "
# How deep lists and tuples are searched for a value.
DEPTH = 3


def asking(error: Any, value: Any) -> Any:
    """Returns an error with the value that was asked for, which its message is about."""
    error.asked = value
    return error


def holds(given: Any, value: Any, depth: int = DEPTH) -> bool:
    """Says whether an argument is a value, or a list or tuple with it."""
    if given is value:
        return True
    if depth and isinstance(given, list | tuple):
        return any(holds(item, value, depth - 1) for item in given)
    return False


def is_traced_integer(given: Any, kind: type, depth: int = DEPTH) -> bool:
    """Says whether an argument is traced like a value and holds integers, or a list of such."""
    if isinstance(given, kind):
        return given.dtype.kind in "iub"  # type: ignore[attr-defined]
    if depth and isinstance(given, list | tuple):
        return any(is_traced_integer(item, kind, depth - 1) for item in given)
    return False


def parameter_of(value: Any, given: Mapping[str, Any]) -> str | None:
    """Returns the name of the argument that is a value, or from which it was computed.

    Args:
        value: what was asked for.
        given: a call's arguments by their names.
    """
    found = [key for key, x in given.items() if holds(x, value)]
    if not found:
        # It was computed from an argument: which one is clear where there is only one.
        found = [key for key, x in given.items() if is_traced_integer(x, type(value))]
        if len(found) > 1:
            return None
    return found[0] if found else None


def name_the_asking(
    error: Any,
    function: Callable[..., Any],
    name: str,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    bound: int = 0,
) -> None:
    """Names a function's argument in the error that its value, which is traced, is not known.

    An outer function puts its own name in the place of an inner one's.
    """
    import inspect  # costs milliseconds

    try:
        known = inspect.signature(function).bind_partial(*args, **kwargs)
    except (TypeError, ValueError):
        return
    parameters = list(known.signature.parameters.values())
    named = {
        p.name: known.arguments[p.name]
        for p in parameters[bound:]
        if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD) and p.name in known.arguments
    }
    named |= next((kwargs for p in parameters if p.kind is p.VAR_KEYWORD), {})
    parameter = parameter_of(error.asked, named)
    if parameter is None:
        return
    head, newline, rest = str(error).partition("\n")
    head = head.partition(CLAUSE)[0]
    error.args = (f"{head}{CLAUSE}{parameter!r} of {name}(){newline}{rest}",)
