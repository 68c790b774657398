"""Faults of hooks: errors and notes that name the hook, the operation and the user's line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..primitives.core.array_likes import is_array_like
from ..primitives.core.buffers import owned, wrap
from ..primitives.core.errors import RuleResultError, describe, failure, function_line
from ..primitives.core.shape_dtype import shape_dtype
from .hook import Hook
from .operation import Operation

if TYPE_CHECKING:
    from ..primitives.core.annotations import Value

__all__ = ["blame", "blaming", "checked_cotangents", "replacement", "wrong_result"]


def hook_name(hook: Hook, method: str) -> str:
    """Returns what messages call a hook: its class, or the plain function that it calls."""
    given = getattr(hook, "__dict__", {}).get(method)
    return type(hook).__name__ if given is None else function_line(given)


def shown(op: Operation) -> str:
    """Returns what messages call an operation."""
    return op.name if op.tag is None else f"{op.name} {op.tag!r}"


def blaming(hook: Hook, method: str, call: Callable[..., Any], op: Operation, *values: Any) -> Any:
    """Calls a method of a hook, and adds a note to what it raises.

    Args:
        hook: the hook.
        method: the method's name.
        call: the method, or what calls it.
        op, values: its arguments.
    """
    try:
        return call(op, *values)
    except Exception as error:
        blame(error, hook, method, op)
        raise


def blame(error: Exception, hook: Hook, method: str, op: Operation) -> None:
    """Adds a note to what a method of a hook has raised."""
    name = hook_name(hook, method)
    error.add_note(f"in {method} of the hook {name} on {shown(op)}, at {op.line}")


def wrong_result(hook: Hook, method: str, op: Operation, what: str, fix: str) -> RuleResultError:
    """Returns the error for a hook that returned the wrong thing."""
    name = hook_name(hook, method)
    return failure(
        RuleResultError, f"the hook {name} on {shown(op)} returned {what}", fix=fix, line=op.line
    )


def replacement(hook: Hook, method: str, op: Operation, new: Any, old: Any) -> Value:
    """Returns what a hook gave in place of a value, checked against it."""
    fits = is_array_like(new) and getattr(new, "shape", ()) == old.shape
    if not fits or shape_dtype(new).dtype != old.dtype:
        what = f"{describe(new)} in place of {describe(old)}"
        fix = "return an array of the same shape and dtype, or None to change nothing"
        raise wrong_result(hook, method, op, what, fix)
    return wrap(owned(new))


def checked_cotangents(hook: Hook, op: Operation, new: Any, old: Sequence[Any]) -> list[Any]:
    """Returns what a hook gave in place of cotangents, checked against them."""
    if not isinstance(new, list | tuple) or len(new) != len(old):
        got = f"{len(new)} cotangents" if isinstance(new, list | tuple) else describe(new)
        what = f"{got} in place of the cotangents of {len(old)} operands"
        fix = "return a list with one for each of grad_inputs, or None to change nothing"
        raise wrong_result(hook, "backward", op, what, fix)
    return [
        None if n is None else n if o is None else replacement(hook, "backward", op, n, o)
        for n, o in zip(new, old, strict=True)
    ]
