"""Checks of the arguments of loops and branches: functions, numbers of steps, conditions."""

from __future__ import annotations

import operator
from typing import Any

from ..primitives.core.array import Tracer
from ..primitives.core.array_likes import is_array_like
from ..primitives.core.errors import describe, message
from ..primitives.core.shape_dtype import shape_dtype

__all__ = ["as_count", "check_body_function", "check_scalar", "control_error", "shown_argument"]


def control_error(
    what: str, fix: str, kind: type[Exception] = TypeError, number: int = 22
) -> Exception:
    """Returns an error: what happened, right code, and its number in docs/errors.md."""
    return kind(message(what, fix=fix, number=number))


def shown_argument(x: Any) -> str:
    """Returns words for a value: an array's dtype and shape, or its type."""
    if is_array_like(x) and hasattr(x, "shape"):
        return describe(x)
    name = type(x).__name__
    return f"an {name}" if name[0] in "aeiouAEIOU" else f"a {name}"


def check_body_function(what: str, name: str, fun: Any, fix: str) -> None:
    """Raises a TypeError, which shows right code, where an argument is no function."""
    if not callable(fun):
        raise control_error(f"{what}: {name} is {shown_argument(fun)}, not a function", fix)


def check_scalar(what: str, x: Any, kinds: str, wanted: str, fixes: tuple[str, str]) -> None:
    """Raises a TypeError where a value is no number, nor an array without axes.

    The kind of its dtype is one of ``kinds``. The message opens with ``what``, up to the verb, and
    says what is ``wanted``. The second of the ``fixes`` is for values with axes.
    """
    known = shape_dtype(x) if is_array_like(x) else None
    if known is None or known.shape or known.dtype.kind not in kinds:
        axes = known is not None and bool(known.shape)
        raise control_error(f"{what} {shown_argument(x)}, not {wanted} without axes", fixes[axes])


def as_count(what: str, name: str, x: Any, least: int, fix: str) -> int:
    """Returns a number of steps as a Python integer, which is no less than ``least``.

    Raises:
        ConcretizationError: it is traced.
        TypeError: it is no integer; ``fix`` shows one.
        ValueError: it is less.
    """
    if not isinstance(x, Tracer):
        try:
            operator.index(x)
        except TypeError:
            raise control_error(
                f"{what}: {name} is {shown_argument(x)}, not an integer", fix
            ) from None
    number = operator.index(x)
    if number < least:
        words = "not positive" if least else "negative"
        raise control_error(f"{what}: {name}={number} is {words}", fix, ValueError)
    return number
