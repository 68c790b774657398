"""Files of generated code: tracebacks show their lines, and errors the user's."""

from __future__ import annotations

import linecache
import threading
import weakref
from collections import deque
from collections.abc import Sequence
from itertools import count
from types import FrameType
from typing import Any, NamedTuple

from .frames import frame_at, is_users, module_of
from .notebook_cells import with_cells_named

__all__ = ["GeneratedFile", "ToldEquation", "planned_line"]

file_numbers = count()
# The names of files that are gone.
dropped_names: deque[str] = deque()
# The files that there are, by their names.
generated_files: weakref.WeakValueDictionary[str, GeneratedFile] = weakref.WeakValueDictionary()


class ToldEquation(NamedTuple):
    """The words of messages about an equation, pickled with a plan in its place.

    Attributes:
        line: the user's ``file:line``.
        name, bodies, effect: those of its primitive, for which it stands, too.
    """

    line: str
    name: str
    bodies: tuple[Any, ...]
    effect: bool

    @property
    def primitive(self) -> ToldEquation:
        """Itself, which has the attributes of the primitive."""
        return self


class GeneratedFile:
    """The text of a plan, which tracebacks show for as long as there is the file.

    Attributes:
        name: the name of the file.
        text: the text.
        origins: for every line its equation, or what is told of it, or None.

    Args:
        what: what it is, for its name.
        text: the text.
        origins: for every line its equation, or None.
    """

    def __init__(self, what: str, text: str, origins: Sequence[Any]) -> None:
        self.name = f"<plan {next(file_numbers)} of {what}>"
        self.text = text
        self.origins = origins
        generated_files[self.name] = self
        remove_dropped_names()
        lines = text.splitlines(keepends=True)
        linecache.cache[self.name] = (len(text), None, lines, self.name)
        weakref.finalize(self, drop_lines, self.name)

    def explain(self, error: Exception, function: str) -> None:
        """Adds a note with the user's line to an error; names the function that was planned."""
        trace = error.__traceback__
        while trace is not None:
            if trace.tb_frame.f_code.co_filename == self.name:
                origin = self.origins[trace.tb_lineno - 1]
                if origin is not None and origin.line and has_note(origin.primitive):
                    name = getattr(origin.primitive, "told_as", "") or origin.primitive.name
                    note = f"in {name} of {function}, at {origin.line}"
                    error.add_note(with_cells_named(note))
            trace = trace.tb_next

    def line(self, number: int) -> str:
        """Returns the user's ``file:line`` that a line of the text stems from; empty if none."""
        origin = self.origins[number - 1]
        return getattr(origin, "line", "")


def drop_lines(name: str) -> None:
    """Lets the lines of a file go, and leaves its name.

    Debuggers and doctests go through all names, and look each of them up.
    """
    linecache.cache[name] = (0, None, [], name)
    dropped_names.append(name)


def remove_dropped_names() -> None:
    """Removes the names of files that are gone, in the thread in which debuggers run mostly."""
    if threading.current_thread() is threading.main_thread():
        while dropped_names:
            linecache.cache.pop(dropped_names.popleft(), None)


def planned_line() -> str:
    """Returns the user's line of the operation that a plan runs.

    Empty where no plan runs one, or where it calls a function of the user's, which does.
    """
    frame: FrameType | None = frame_at(1)
    while frame is not None:
        file = generated_files.get(frame.f_code.co_filename)
        if file is not None:
            return file.line(frame.f_lineno)
        if is_users(module_of(frame)):
            return ""
        frame = frame.f_back
    return ""


def has_note(primitive: Any) -> bool:
    """Says whether an error in an operation is told with its name; that of a hook tells its own."""
    return primitive.name != "fused" and (bool(primitive.bodies) or not primitive.effect)
