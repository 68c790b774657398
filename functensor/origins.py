"""Where the equations of a program come from: lines of the user's code, and named scopes.

A rule that runs on the way back belongs to the line and the scope of the operation whose rule it
is, and what a program does when it is staged again to those that it was staged from. Both are found
on the stack when an equation is made, so that nothing else has to carry them about.
"""

from __future__ import annotations

import sys
from bisect import bisect_left
from types import FrameType

from .backends.messages import NOT_THE_USERS
from .programs.program import Program
from .reverse import next_number, walk
from .scopes import active_scope, joined_scope

__all__ = ["Origins"]

WALK = walk.__code__
RUN = Program.run.__code__
# Files whose frames are not the user's, as far as they were met.
ours: set[str] = set()


class Origins:
    """The lines and scopes of a trace's equations, found again by the nodes of reverse mode.

    Nodes and equations draw their numbers from one source: a node is made right after the equation
    of its operation.
    """

    __slots__ = ("_known", "_numbers")

    def __init__(self) -> None:
        self._known: list[tuple[str, str]] = []
        self._numbers: list[int] = []

    def note(self) -> tuple[str, str]:
        """Returns the line and scope of the equation that is being made, and remembers them."""
        known = self._found()
        self._known.append(known)
        self._numbers.append(next_number())
        return known

    def _found(self) -> tuple[str, str]:
        scope = active_scope()
        frame: FrameType | None = sys._getframe(2)
        while frame is not None:
            code = frame.f_code
            if code is WALK:
                known = self._before(frame.f_locals["node"].number)
                if known is not None:
                    return known
            elif code is RUN:
                equation = frame.f_locals["equation"]
                if equation.line:
                    return equation.line, joined_scope(scope, equation.scope)
            elif code.co_filename not in ours:
                name = frame.f_globals.get("__name__", "")
                if name.partition(".")[0] not in NOT_THE_USERS:
                    return f"{code.co_filename}:{frame.f_lineno}", scope
                ours.add(code.co_filename)
            frame = frame.f_back
        return "<unknown>", scope

    def _before(self, number: int) -> tuple[str, str] | None:
        """Returns the line and scope of the last equation before a node, if there is one."""
        place = bisect_left(self._numbers, number)
        return self._known[place - 1] if place else None
