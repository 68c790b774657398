"""Checks of what loops and branches are called with: functions, numbers of steps, conditions."""

from __future__ import annotations

import operator
from typing import Any

from ..primitives.core.array import Tracer
from ..primitives.core.array_likes import is_array_like
from ..primitives.core.errors import describe, message
from ..primitives.core.shape_dtype import shape_dtype

__all__ = ["as_count", "check_body_function", "check_scalar", "shown_argument", "wrong_argument"]


def wrong_argument(what: str, fix: str, kind: type[Exception] = TypeError) -> Exception:
    """Returns the error for an argument that a loop or a branch cannot have.

    Args:
        what: what happened, with the argument.
        fix: right code, one line.
        kind: its class.
    """
    return kind(message(what, fix=fix, number=22))


def shown_argument(x: Any) -> str:
    """Returns what messages say of a value: an array's dtype and shape, or its type."""
    if is_array_like(x) and hasattr(x, "shape"):
        return describe(x)
    name = type(x).__name__
    return f"an {name}" if name[0] in "aeiouAEIOU" else f"a {name}"


def check_body_function(what: str, name: str, fun: Any, fix: str) -> None:
    """Checks that an argument is a function.

    Raises:
        TypeError: it is none; ``fix`` shows one.
    """
    if not callable(fun):
        raise wrong_argument(f"{what}: {name} is {shown_argument(fun)}, not a function", fix)


def check_scalar(what: str, x: Any, kinds: str, wanted: str, fixes: tuple[str, str]) -> None:
    """Checks that a value is a number or an array without axes.

    Args:
        what: what it is, for the message, with its verb.
        x: the value.
        kinds: the kinds of dtypes that it may have.
        wanted: what it ought to be.
        fixes: right code, and right code where it has axes.

    Raises:
        TypeError: it is nothing of the kind.
    """
    known = shape_dtype(x) if is_array_like(x) else None
    if known is None or known.shape or known.dtype.kind not in kinds:
        axes = known is not None and bool(known.shape)
        raise wrong_argument(f"{what} {shown_argument(x)}, not {wanted} without axes", fixes[axes])


def as_count(what: str, name: str, x: Any, least: int, fix: str) -> int:
    """Returns a number of steps as a Python integer.

    Args:
        what: what is called, for messages.
        name: the argument's name.
        x: the argument.
        least: what it is at least.
        fix: right code.

    Raises:
        ConcretizationError: it is traced.
        TypeError: it is no integer.
        ValueError: it is less than it may be.
    """
    if not isinstance(x, Tracer):
        try:
            operator.index(x)
        except TypeError:
            raise wrong_argument(
                f"{what}: {name} is {shown_argument(x)}, not an integer", fix
            ) from None
    number = operator.index(x)
    if number < least:
        words = "not positive" if least else "negative"
        raise wrong_argument(f"{what}: {name}={number} is {words}", fix, ValueError)
    return number
