"""The parts of all messages: what happened, where, under which transformations, and the fix."""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import islice
from types import FrameType
from typing import Any

__all__ = ["MISSING", "Running", "library", "message", "place", "user_code", "user_line"]

# Prints a section of the documentation, wherever functensor is installed.
EXPLAINED = "python -m functensor.errors"
# Our package, and packages that stand between a call of the user's and ours without being chosen.
PACKAGE = "functensor"
PLUMBING = frozenset({"numpy", "importlib", "contextlib", "functools"})
# Packages whose frames are not the user's: those of imports and `with` blocks, and libraries that
# compute with any arrays.
NOT_THE_USERS = frozenset(
    (
        *(PACKAGE, *PLUMBING),
        *("scipy", "sklearn", "array_api_compat", "array_api_extra", "pandas", "xarray"),
        *("einops", "opt_einsum", "autoray", "skimage", "statsmodels"),
    )
)
# The largest number of characters of the user's code in a message.
LONGEST_SHOWN_CODE = 60
# Tells for the names of modules if they are the user's.
_is_users_module: dict[str, bool] = {}


class Missing:
    """The default of arguments whose absence our own messages report."""

    def __repr__(self) -> str:
        return "<missing>"


MISSING: Any = Missing()


def user_line() -> str:
    """Returns ``file:line`` of the innermost frame of the user's."""
    frame = user_frame()
    return "<unknown>" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"


def user_frame() -> FrameType | None:
    """Returns the innermost frame of neither functensor nor of what calls it for the user."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        module = frame.f_globals.get("__name__") or ""
        mine = _is_users_module.get(module)
        if mine is None:
            # Tests of such libraries are users of them.
            theirs = module.partition(".")[0] in NOT_THE_USERS and ".tests." not in module
            mine = _is_users_module[module] = not theirs
        if mine:
            return frame
        frame = frame.f_back
    return None


def library() -> str:
    """Returns the library through which the user's line called functensor; empty if there is none.

    NumPy, which hands on what it is given, and what every call may pass through are none.
    """
    frame: FrameType | None = sys._getframe(1)
    users, outermost = user_frame(), PACKAGE
    while frame is not None and frame is not users:
        name = (frame.f_globals.get("__name__") or "").partition(".")[0]
        outermost = outermost if name in PLUMBING else name
        frame = frame.f_back
    return "" if outermost == PACKAGE else outermost


def place() -> str:
    """Returns the user's line, and the library through which it called."""
    through = library()
    return f"{user_line()}, through {through}" if through else user_line()


def user_code() -> str:
    """Returns the expression that the innermost frame of the user's is computing.

    Empty where there is no source, or where it is long or on several lines.
    """
    import linecache  # which only messages need

    frame = user_frame()
    if frame is None:
        return ""
    places = islice(frame.f_code.co_positions(), frame.f_lasti // 2, None)
    first, last, start, end = next(places, (None,) * 4)
    if first is None or first != last or start is None or end is None:
        return ""
    if end - start > LONGEST_SHOWN_CODE:
        return ""
    line = linecache.getline(frame.f_code.co_filename, first, frame.f_globals)
    return line.encode()[start:end].decode(errors="replace").strip()


class Running:
    """The function that is running; the core, which knows, puts its own here."""

    stack: Callable[[], str] = staticmethod(lambda: "")


def message(what: str, *, under: str = "", fix: str, number: int | None = None) -> str:
    """Puts together the parts that every message has.

    Args:
        what: what happened, naming the offending argument.
        under: the stack of transformations, outermost first; by default the running ones.
        fix: right code, one line.
        number: the error's section in docs/errors.md; None where the fix says all there is.
    """
    lines = [what, f"  at {place()}"]
    under = under or Running.stack()
    if under:
        lines.append(f"  under {under}")
    lines.append(f"  fix: {fix}")
    if number is not None:
        lines.append(f"  see {EXPLAINED} {number}")
    return "\n".join(lines)
