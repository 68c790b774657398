"""Calls of segments whose work is shared: helpers look for it until the segment ends."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import inf
from typing import Any

from ....blas_threads import controlled
from ....native.desk import awake
from ....native.entry import ObjectsCall
from ....native.team import Team, serve_teams, server
from ..threads.pool import call_helpers, threads
from ..threads.sharing import MeasuredSharing, given_number

__all__ = ["SharedCall"]

# A segment is most of a plan. What measurements take is bounded by the times between them.
CALLS_BETWEEN_MEASUREMENTS = 20


class SharedCall:
    """Calls a segment's function, while threads of the pool help: ``call(*objects)``.

    Whether they help is measured.
    """

    def __init__(self, enter: ObjectsCall) -> None:
        self._enter = enter
        # Long work has many hand-offs, each of which may wait for a core that others have.
        self.share = MeasuredSharing(inf, CALLS_BETWEEN_MEASUREMENTS, given_number)
        server()

    def __repr__(self) -> str:
        return "machine code that threads share"

    def __call__(self, *objects: Any) -> Any:
        return self._called(self._enter, objects)

    def by(self, enter: ObjectsCall) -> Callable[..., Any]:
        """Returns the same call of another function, which threads share as this one."""
        return lambda *objects: self._called(enter, objects)

    def _called(self, enter: ObjectsCall, objects: tuple[Any, ...]) -> Any:
        status: list[Any] = []
        number = 1 if controlled() is None else threads.number
        self.share(partial(self._run, enter, objects, status), number)
        return status[0]

    def _run(
        self, enter: ObjectsCall, objects: tuple[Any, ...], status: list[Any], number: int = 1
    ) -> None:
        """Calls the function on so many threads, and notes what it returns."""
        team = Team.taken(helped=number > 1)
        if number > 1 and awake() < number - 1:
            call_helpers(serve_teams, number - 1)
        status.append(enter(*objects, team.memory))
        team.give_back()
