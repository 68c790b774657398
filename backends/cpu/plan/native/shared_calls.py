"""Calls of segments whose work is shared: helpers look for it until the segment ends."""

from __future__ import annotations

from math import inf
from threading import get_ident
from typing import Any

from ....blas_threads import controlled
from ....native.entry import ObjectsCall
from ....native.team import serve
from ..threads.pool import threads
from ..threads.sharing import MeasuredSharing

__all__ = ["SharedCall"]


class SharedCall:
    """Calls a segment's function, while threads of the pool help: ``call(*objects)``.

    The last object is the team's memory. Whether the helpers are called is measured.
    """

    def __init__(self, enter: ObjectsCall) -> None:
        self._enter = enter
        self._serve = serve()
        # Long work has many hand-offs, each of which may wait for a core that others have.
        self.share = MeasuredSharing(inf)

    def __repr__(self) -> str:
        return "machine code that threads share"

    def __call__(self, *objects: Any) -> Any:
        team = objects[-1]
        team.fill(0)
        status: list[Any] = []
        own = get_ident()

        def work() -> None:
            if get_ident() == own:
                status.append(self._enter(*objects))
            else:
                self._serve(team)

        self.share(work, 1 if controlled() is None else threads.number)
        return status[0]
