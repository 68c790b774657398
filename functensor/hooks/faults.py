"""Faults of hooks: errors and notes that name the hook, the operation and the user's line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..backends.notebook_cells import with_cells_named
from ..primitives.core.array_likes import is_array_like
from ..primitives.core.buffers import owned, wrap
from ..primitives.core.errors import (
    OF_THE_HOOK,
    RuleResultError,
    describe,
    failure,
    function_line,
)
from ..primitives.core.shape_dtype import shape_dtype
from ..primitives.core.trace import below_hooks, note_replaced
from ..programs.labels import label
from .hook import Hook
from .operation import Operation
from .registration import registered

if TYPE_CHECKING:
    from ..primitives.core.annotations import Value

__all__ = [
    "blame", "blaming", "checked_cotangents", "hook_name", "is_looked_at", "look_at_replacement",
    "replacement", "shown", "wrong_result",
]  # fmt: skip


def hook_name(hook: Hook, method: str) -> str:
    """Returns what messages call a hook: its class, or the plain function that it calls."""
    given = getattr(hook, "__dict__", {}).get(method)
    return type(hook).__name__ if given is None else function_line(given)


def shown(op: Operation, scope: bool = False) -> str:
    """Returns what messages call an operation; with ``scope`` they name that too."""
    name = label(op.name, op.params)
    return f"{name} in scope {op.scope!r}" if scope and op.scope else name


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
    if isinstance(error, hook.raises):
        return
    name = hook_name(hook, method)
    note = with_cells_named(f"in {method} {OF_THE_HOOK} {name} on {shown(op)}, at {op.line}")
    # A hook that calls itself raises it once for every call.
    if note not in getattr(error, "__notes__", ()):
        error.add_note(note)


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
    out = wrap(owned(new))
    if method == "forward":

        def by() -> str:
            return f"{named(hook, method)} on {shown(op, scope=True)}"

        look_at_replacement(hook, by, out, old, op)
    return out


def checked_cotangents(hook: Hook, op: Operation, new: Any, old: Sequence[Any]) -> list[Any]:
    """Returns what a hook gave in place of cotangents, checked against them."""
    if not isinstance(new, list | tuple) or len(new) != len(old):
        got = f"{len(new)} cotangents" if isinstance(new, list | tuple) else describe(new)
        what = f"{got} in place of the cotangents of {len(old)} operands"
        fix = "return a list with one for each of grad_inputs, or None to change nothing"
        raise wrong_result(hook, "backward", op, what, fix)
    for place, (n, o) in enumerate(zip(new, old, strict=True)):
        if n is not None and o is None:
            what = f"a cotangent for operand {place}, which has none"
            fix = "return None in the places where grad_inputs has None"
            raise wrong_result(hook, "backward", op, what, fix)
    out = [
        None if n is None else replacement(hook, "backward", op, n, o)
        for n, o in zip(new, old, strict=True)
    ]
    for i, (n, o) in enumerate(zip(out, old, strict=True)):
        if n is not None and n is not o:

            def by(place: int = i) -> str:
                of = f"the gradient of {shown(op, scope=True)} by operand {place}"
                return f"{named(hook, 'backward')} on {of}"

            look_at_replacement(hook, by, n, o, op, "the cotangent ")
    return out


def named(hook: Hook, method: str) -> str:
    """Returns what messages call a hook that has replaced a value."""
    return f"the hook {hook_name(hook, method)}"


# -- replacements, for hooks that look at them


def is_looked_at(op: Operation | None) -> list[Hook]:
    """Returns the hooks of this thread that look at what replaces values of an operation.

    ``op`` is None for the gradient of a tensor, which only those see that see everything.
    """
    found = []
    for handle in registered.handles:
        if handle.active and handle.hook.look_at_replacement is not None:
            match = handle.match
            if match.all:
                found.append(handle.hook)
            elif op is not None:
                # The function that it asks may compute with arrays.
                with below_hooks():
                    if match(op):
                        found.append(handle.hook)
    return found


def look_at_replacement(
    hook: Hook | None,
    by: Callable[[], str],
    new: Any,
    old: Any,
    op: Operation | None,
    kind: str = "",
    fix: str = "return finite values from it, or None to change nothing",
) -> None:
    """Shows what a hook has put in place of a value to the hooks that look at that.

    A program that is being staged notes that it has such a value: a plan does not report it.

    Args:
        hook: the hook; None for the function of a tensor.
        by: returns what messages call it, and whose value it has replaced.
        new: the value.
        old: the value in whose place it stands, or the `Range` that is known of it.
        op: the operation whose value it is; None for the gradient of a tensor.
        kind: what messages call the value in front of its type.
        fix: right code.
    """
    if hook is None or not hook.keeps_finite:
        note_replaced()
    for looking in is_looked_at(op):
        line = op.line if op is not None else ""
        looking.look_at_replacement(by, new, old, kind=kind, line=line, fix=fix)
