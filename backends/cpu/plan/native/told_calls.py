"""Calls of segments that note what the processor tells of their arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ....blas_threads import controlled
from ....native.entry import ObjectsCall
from ....native.told_flags import flag_taker, told_words
from .shared_calls import SharedCall

__all__ = ["ToldCalls", "told_calls"]


class ToldCalls:
    """Calls of the segments of a plan, for one run of it at a time.

    Attributes:
        functions: what calls them, by the names that the plan has for them.

    Args:
        segments: what calls them without a note.
        take: clears the flags of a thread, and adds them to an array.
    """

    def __init__(
        self, segments: Mapping[str, ObjectsCall | SharedCall], take: Callable[[Any], None]
    ) -> None:
        # What was told before the run, and in it.
        self._before = np.zeros(1, np.uintp)
        self._told = np.zeros(1, np.uintp)
        self._take = take
        self.functions = {
            name: self._shared(call) if isinstance(call, SharedCall) else self._alone(call)
            for name, call in segments.items()
        }

    def begin(self) -> None:
        """Forgets what was told."""
        self._told[0] = 0

    def words(self) -> list[str]:
        """Returns NumPy's words for what was told since then."""
        return told_words(int(self._told[0]))

    def _alone(self, enter: ObjectsCall) -> Callable[..., Any]:
        """Returns the call of a segment that one thread computes."""
        take, before, told = self._take, self._before, self._told

        def call(*objects: Any) -> Any:
            take(before)
            status = enter(*objects)
            take(told)
            return status

        return call

    def _shared(self, call: SharedCall) -> Callable[..., Any]:
        """Returns the call of a segment that threads share."""
        return call.noting(self._alone(call.enter), self._told)


def told_calls(scope: Mapping[str, Any], count: int) -> ToldCalls | None:
    """Returns such calls of a plan's segments; None where the processor does not tell of all.

    Args:
        scope: the values of the plan's names.
        count: how many segments it has.
    """
    take = flag_taker()
    # BLAS may share its work among threads of its own, of which nothing is told.
    if take is None or controlled() is None:
        return None
    return ToldCalls({name: scope[name] for name in (f"segment_{i}" for i in range(count))}, take)
