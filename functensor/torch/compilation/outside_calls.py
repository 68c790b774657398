"""Calls of a user's code that a plan cannot do again: it asks for the time, prints, or writes.

Nothing that a picture shows tells of them, and most are C functions. Python tells a profiler of
every call; where code has the name of one of these, there is a profiler while a plan is made.
"""

from __future__ import annotations

import gc
import logging
import os
import sys
import time
from collections.abc import Callable, Iterable
from datetime import date
from types import BuiltinFunctionType, FrameType
from typing import Any

from ...backends.frames import module_of
from ..graph_breaks import GraphBreak
from .looked_into import NOT_LOOKED_INTO, is_looked_into

__all__ = ["without_outside_calls"]

CLOCKS: list[Any] = [x for x in vars(time).values() if isinstance(x, BuiltinFunctionType)]
FUNCTIONS_OF_FILES = [os.stat, os.listdir, os.scandir, os.urandom, os.getpid, os.open]
REFUSED: frozenset[Any] = frozenset([print, input, open, *CLOCKS, *FUNCTIONS_OF_FILES])
DATES = frozenset({"now", "today", "utcnow"})
LEVELS = "debug", "info", "warning", "error", "critical", "exception"
READERS = """
    write writelines write_text read_text read_bytes exists is_file isfile is_dir isdir getmtime
    getsize glob iterdir uuid1 uuid4 Popen run
""".split()  # noqa: SIM905 - a list of one name a line is longer
# Code that calls one of these has its name, unless it stands for another.
TELLING_NAMES = frozenset({*[x.__name__ for x in REFUSED], *DATES, *LEVELS, *READERS})
# Imports read files, which stay as they are.
IMPORTING = "importlib._bootstrap", "importlib._bootstrap_external", "linecache"
LOGGED = logging.Logger._log.__code__


def without_outside_calls(words: Iterable[str], call: Callable[[], Any]) -> Any:
    """Returns what a call returns that neither asks for the time nor prints.

    Args:
        words: the names in the code that it runs.
        call: the call.

    Raises:
        GraphBreak: it would have.
    """
    before = sys.getprofile()
    if before is not None or TELLING_NAMES.isdisjoint(words):
        return call()
    sys.setprofile(refuse_outside_call)
    try:
        return call()
    finally:
        sys.setprofile(before)


def refuse_outside_call(frame: FrameType, event: str, called: Any) -> None:
    """Ends the staging of a call of the user's that is about to print or to ask for the time.

    Raises:
        GraphBreak: it is.
    """
    if event == "call":
        if frame.f_code is LOGGED and is_called_by_user(frame):
            raise GraphBreak("it logs a message")
    elif event == "c_call" and is_outside(called) and is_called_by_user(frame):
        raise GraphBreak(f"it calls {called.__name__}, which is to happen in every call")


def is_called_by_user(frame: FrameType | None) -> bool:
    """Says whether a frame is the user's, or one of Python's own modules that the user calls.

    What the collector of garbage calls is not: it may come between any two lines.
    """
    collecting = {getattr(callback, "__code__", None) for callback in gc.callbacks}
    while frame is not None:
        if frame.f_code in collecting:
            return False
        module = module_of(frame)
        if module.partition(".")[0] in NOT_LOOKED_INTO and module not in IMPORTING:
            frame = frame.f_back
        else:
            return is_looked_into(module) and module not in IMPORTING
    return False


def is_outside(called: Any) -> bool:
    """Says whether a C function prints, writes or asks for the time."""
    if called in REFUSED:
        return True
    owner = getattr(called, "__self__", None)
    if isinstance(owner, type):
        return issubclass(owner, date) and called.__name__ in DATES
    return hasattr(owner, "writelines")
