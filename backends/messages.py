"""The parts that the messages of all floors have: what happened, where, under what, and the fix."""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import islice
from types import FrameType

__all__ = ["Running", "message", "user_code", "user_line"]

# Prints a section of the documentation, wherever functensor is installed.
EXPLAINED = "python -m functensor.errors"
# Whose frames are not the user's: imports and `with` blocks have some between a call and ours.
NOT_THE_USERS = frozenset({"functensor", "numpy", "importlib", "contextlib"})
# How many characters of the user's code a message shows.
LONGEST = 60
# Whether modules are the user's, by their names.
_users: dict[str, bool] = {}


def user_line() -> str:
    """Returns ``file:line`` of the innermost frame outside of functensor and NumPy."""
    frame = user_frame()
    return "<unknown>" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"


def user_frame() -> FrameType | None:
    """Returns the innermost frame outside of functensor and NumPy."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        mine = _users.get(module)
        if mine is None:
            mine = _users[module] = module.partition(".")[0] not in NOT_THE_USERS
        if mine:
            return frame
        frame = frame.f_back
    return None


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
    if first is None or first != last or start is None or end is None or end - start > LONGEST:
        return ""
    line = linecache.getline(frame.f_code.co_filename, first, frame.f_globals)
    return line.encode()[start:end].decode(errors="replace").strip()


class Running:
    """What is running; the core, which knows, puts its own function here."""

    stack: Callable[[], str] = staticmethod(lambda: "")


def message(what: str, *, under: str = "", fix: str, number: int | None) -> str:
    """Puts together the parts that every message has.

    Args:
        what: what happened, naming the offending argument.
        under: the stack of transformations, outermost first; by default what is running.
        fix: right code, one line.
        number: the error's section in docs/errors.md; None where the fix says all there is.
    """
    lines = [what, f"  at {user_line()}"]
    under = under or Running.stack()
    if under:
        lines.append(f"  under {under}")
    lines.append(f"  fix: {fix}")
    if number is not None:
        lines.append(f"  see {EXPLAINED} {number}")
    return "\n".join(lines)
