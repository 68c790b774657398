"""The parts of all messages: what happened, where, under which transformations, and the fix."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .frames import place
from .notebook_cells import with_cells_named

__all__ = ["MISSING", "Running", "message"]

# Prints a section of the documentation, wherever functensor is installed.
EXPLAINED = "python -m functensor.errors"


class Missing:
    """The default of arguments whose absence our own messages report."""

    def __repr__(self) -> str:
        return "<missing>"


MISSING: Any = Missing()


class Running:
    """The function that is running; the core, which knows, puts its own here."""

    stack: Callable[[], str] = staticmethod(lambda: "")


def message(
    what: str, *, under: str = "", fix: str, number: int | None = None, line: str = ""
) -> str:
    """Puts together the parts that every message has.

    Args:
        what: what happened, naming the offending argument.
        under: the stack of transformations, outermost first; by default the running ones.
        fix: right code, one line.
        number: the error's section in docs/errors.md; None where the fix says all there is.
        line: the user's ``file:line``; by default the one that is running.
    """
    lines = [what, f"  at {line or place()}"]
    under = under or Running.stack()
    if under:
        lines.append(f"  under {under}")
    lines.append(f"  fix: {fix}")
    if number is not None:
        lines.append(f"  see {EXPLAINED} {number}")
    return with_cells_named("\n".join(lines))
