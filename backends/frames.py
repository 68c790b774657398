"""Frames of Python's stack: who called, in which module, at which place.

This is the one module that asks CPython for frames; all others import `frame_at`. Messages and
warnings name the user's line by them. A few answers depend on who asks: NumPy and pandas call the
same method for a user and for themselves, and give nothing else to tell the two apart. A Python
without ``sys._getframe`` cannot run functensor.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from itertools import islice
from types import CodeType, FrameType

__all__ = [
    "RUNNING_AGAIN", "calling_module", "frame_at", "is_users", "library", "line_of", "module_of",
    "place", "source_line", "user_code", "user_frame", "user_instruction", "user_line",
]  # fmt: skip

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

# The frame that is so many calls out from the one that asks. It is CPython's own function, so that
# it costs no call more.
frame_at: Callable[[int], FrameType] = sys._getframe


def module_of(frame: FrameType) -> str:
    """Returns the name of the module whose code a frame runs."""
    return frame.f_globals.get("__name__") or ""


def calling_module() -> str:
    """Returns the name of the innermost module that is not functensor's."""
    frame: FrameType | None = frame_at(1)
    while frame is not None and module_of(frame).partition(".")[0] == PACKAGE:
        frame = frame.f_back
    return "" if frame is None else module_of(frame)


@cache
def is_users(module: str) -> bool:
    """Says whether a module is the user's; tests of libraries are users of them."""
    return module.partition(".")[0] not in NOT_THE_USERS or ".tests." in module


# True for files of the user's, by their names, which take less time to look up than modules.
known_files: dict[str, bool] = {}

# The code that runs recorded operations again, each in its variable ``equation``; the module of
# programs puts its own here.
RUNNING_AGAIN: set[CodeType] = set()


def user_line() -> str:
    """Returns ``file:line`` of the innermost frame of the user's.

    An operation that was recorded and runs again has the line that it was recorded with.
    """
    frame: FrameType | None = frame_at(1)
    while frame is not None:
        if frame.f_code in RUNNING_AGAIN:
            line: str = frame.f_locals["equation"].line
            if line:
                return line
        elif is_users(frame.f_globals.get("__name__") or ""):
            # Written out, as every backward pass of tensors asks for the user's line.
            return f"{frame.f_code.co_filename}:{frame.f_lineno}"
        frame = frame.f_back
    return "<unknown>"


def user_instruction(calls: int = 1) -> tuple[CodeType, int] | None:
    """Returns what `line_of` makes `user_line` of, at a fraction of the cost.

    It keeps no frame alive. ``calls`` is that of `user_frame`, which is written out here: hooks ask
    for every operation.
    """
    frame: FrameType | None = frame_at(calls)
    while frame is not None:
        code = frame.f_code
        try:
            if known_files[code.co_filename]:
                return code, frame.f_lasti
        except KeyError:
            known = is_users(module_of(frame))
            # Code without a file has a name that others may have.
            if not code.co_filename.startswith("<"):
                known_files[code.co_filename] = known
            if known:
                return code, frame.f_lasti
        frame = frame.f_back
    return None


def line_of(instruction: tuple[CodeType, int] | None) -> str:
    """Returns ``file:line`` of a code object's instruction."""
    if instruction is None:
        return "<unknown>"
    code, place = instruction
    line = next((line for first, end, line in code.co_lines() if first <= place < end), None)
    return f"{code.co_filename}:{line}"


def user_frame(calls: int = 1) -> FrameType | None:
    """Returns the innermost frame of neither functensor nor of what calls it for the user.

    ``calls`` is how many calls out the first frame is that may be the user's.
    """
    frame: FrameType | None = frame_at(calls)
    while frame is not None and not is_users(module_of(frame)):
        frame = frame.f_back
    return frame


def library() -> str:
    """Returns the library through which the user's line called functensor; empty if there is none.

    NumPy, which hands on what it is given, and what every call may pass through are none.
    """
    frame: FrameType | None = frame_at(1)
    users, outermost = user_frame(), PACKAGE
    while frame is not None and frame is not users:
        name = module_of(frame).partition(".")[0]
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
    frame = user_frame()
    if frame is None:
        return ""
    places = islice(frame.f_code.co_positions(), frame.f_lasti // 2, None)
    first, last, start, end = next(places, (None,) * 4)
    if first is None or first != last or start is None or end is None:
        return ""
    if end - start > LONGEST_SHOWN_CODE:
        return ""
    return source_line(frame, first).encode()[start:end].decode(errors="replace").strip()


def source_line(frame: FrameType, number: int) -> str:
    """Returns a line of the source that a frame runs; empty where there is no source."""
    import linecache  # which only messages need

    file = frame.f_code.co_filename
    # Python 3.13 keeps the text of `python -c` by the name that all texts have that are executed.
    return "" if file == "<string>" else linecache.getline(file, number, frame.f_globals)
