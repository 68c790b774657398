"""Warnings of what staging does once, at the user's line."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..backends.config import config
from ..backends.errors.warnings import warn_user
from ..backends.frames import frame_at, module_of
from ..backends.messages import message
from ..functions.alike import code_of
from ..primitives.core.errors import function_line

if TYPE_CHECKING:
    from ..primitives.core.array import Tracer

__all__ = ["StagingWarning", "warn", "warn_of_text", "warn_once"]

# Warnings that were given already: a function's code, and which of the warnings.
warned: set[tuple[Any, str]] = set()


class StagingWarning(UserWarning):
    """A staged function does once what it seems to do in each call (docs/errors.md#error-24)."""


def warn(what: str, fix: str) -> None:
    """Warns at the user's line."""
    warn_user(message(what, fix=fix, number=24), StagingWarning, each_time=True)


def warn_once(fun: Callable[..., Any], kind: str, what: str, fix: str) -> None:
    """Warns once for each function and kind of warning."""
    key = code_of(fun) or type(fun).__qualname__, kind
    if key not in warned:
        warned.add(key)
        warn(what, fix)


def warn_of_text(tracer: Tracer) -> None:
    """Warns of a traced value that the user's code prints or formats, while that is looked for."""
    if not config.check_tracer_leaks:
        return
    frame = frame_at(2)
    if frame.f_code.co_name == "__format__":
        frame = frame.f_back or frame
    # Messages of the library's own have the text too.
    if module_of(frame).partition(".")[0] != "functensor":
        warn(
            f"a traced value {tracer.describe()} was printed or formatted while "
            f"{function_line(tracer.owner.fun)} was staged: it has no value yet, and the text is "
            "made once",
            "return the value and print what a call returns, or print within "
            "with ft.disable_jit():",
        )
