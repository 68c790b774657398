"""Origins of a program's equations: lines of the user's code, and named scopes.

A rule that runs on the way back belongs to the line and the scope of the operation whose rule it
is, and what a program does when it is staged again to those that it was staged from. Both are found
on the stack when an equation is made, so that nothing else has to carry them about.
"""

from __future__ import annotations

from bisect import bisect_left
from types import FrameType
from typing import TYPE_CHECKING

from ..backends.frames import NOT_THE_USERS, frame_at
from ..primitives.core.primitive import Primitive
from ..primitives.core.trace import slot
from ..traces.reverse import Node, backward, next_number
from .named_scope import active_scope, joined_scope
from .program import Program

if TYPE_CHECKING:
    from ..primitives.core.primitive_like import PrimitiveLike

__all__ = ["Origins"]

# The frames of the trace itself between what asks for an equation and what looks for its line.
FRAMES_OF_TRACE = 4
BACKWARD_CODE = backward.__code__
RUN_CODE = Program._run.__code__
# Files whose frames are not the user's, as far as they were met.
ours: set[str] = set()


class Origins:
    """The lines and scopes of a trace's equations, found again by the nodes of reverse mode.

    Nodes and equations draw their numbers from one source: a node is made right after the equation
    of its operation.
    """

    __slots__ = ("_known", "_node", "_numbers", "_of_node")

    def __init__(self) -> None:
        self._known: list[tuple[str, str]] = []
        self._numbers: list[int] = []
        # The last node whose rule made an equation, if it runs nothing of the user's.
        self._node: Node | None = None
        self._of_node: tuple[str, str] | None = None

    def note(self) -> tuple[str, str]:
        """Returns the line and scope of the equation that is being made, and remembers them."""
        known = None
        if slot.turn is not None:
            node, *_ = slot.turn
            if node is not self._node:
                self._node = node
                self._of_node = (
                    self._before(node.number) if runs_only_ours(node.primitive) else None
                )
            known = self._of_node
        if known is None:
            known = self._on_stack()
        self._known.append(known)
        self._numbers.append(next_number())
        return known

    def forget(self) -> None:
        """Lets go of the node whose rule made the last equation."""
        self._node = None

    def _on_stack(self) -> tuple[str, str]:
        scope = active_scope()
        frame: FrameType | None = frame_at(FRAMES_OF_TRACE)
        while frame is not None:
            code = frame.f_code
            if code is BACKWARD_CODE:
                known = self._before(frame.f_locals["turn"][0].number)
                if known is not None:
                    return known
            elif code is RUN_CODE:
                equation = frame.f_locals["equation"]
                if equation.line:
                    return equation.line, joined_scope(scope, equation.scope)
            elif code.co_filename not in ours:
                name = frame.f_globals.get("__name__") or ""
                if name.partition(".")[0] not in NOT_THE_USERS:
                    return f"{code.co_filename}:{frame.f_lineno}", scope
                ours.add(code.co_filename)
            frame = frame.f_back
        return "<unknown>", scope

    def _before(self, number: int) -> tuple[str, str] | None:
        """Returns the line and scope of the last equation before a node, if there is one."""
        place = bisect_left(self._numbers, number)
        return self._known[place - 1] if place else None


def runs_only_ours(primitive: PrimitiveLike) -> bool:
    """Says whether the rules of a node's primitive are the library's, and run no code but its."""
    ours = "functensor.primitives."
    return isinstance(primitive, Primitive) and primitive.module.startswith(ours)
