"""Where the equations of a program come from: lines of the user's code.

A rule that runs on the way back belongs to the line of the operation whose rule it is, and what a
program does when it is staged again to the lines that it was staged from. Both are found on the
stack when an equation is made, so that nothing else has to carry lines about.
"""

from __future__ import annotations

import sys
from bisect import bisect_left
from types import FrameType

from .backends.messages import NOT_THE_USERS
from .programs.program import Program
from .reverse import next_number, walk

__all__ = ["Origins"]

WALK = walk.__code__
RUN = Program.run.__code__


class Origins:
    """The lines of a trace's equations, to be found again by the nodes of reverse mode.

    Nodes and equations draw their numbers from one source: a node is made right after the equation
    of its operation.
    """

    __slots__ = ("_lines", "_numbers")

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._numbers: list[int] = []

    def note(self) -> str:
        """Returns the line of the equation that is being made, and remembers it."""
        line = self._line()
        self._lines.append(line)
        self._numbers.append(next_number())
        return line

    def _line(self) -> str:
        frame: FrameType | None = sys._getframe(2)
        while frame is not None:
            code = frame.f_code
            line = ""
            if code is WALK:
                line = self._before(frame.f_locals["node"].number)
            elif code is RUN:
                line = frame.f_locals["equation"].line
            elif frame.f_globals.get("__name__", "").partition(".")[0] not in NOT_THE_USERS:
                line = f"{code.co_filename}:{frame.f_lineno}"
            if line:
                return line
            frame = frame.f_back
        return "<unknown>"

    def _before(self, number: int) -> str:
        """Returns the line of the last equation before a node; empty where there is none."""
        place = bisect_left(self._numbers, number)
        return self._lines[place - 1] if place else ""
