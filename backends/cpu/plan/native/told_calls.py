"""Calls of segments that note what the processor tells of their arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ....blas_threads import controlled
from ....native.team import TOLD_PLACE
from ....native.told_flags import ALL_TOLD, told_call, told_code, told_words
from .shared_calls import SharedCall

if TYPE_CHECKING:
    from ....native.code import Code
    from .segment_run import SegmentRun

__all__ = ["ToldCalls", "told_calls"]


class ToldCalls:
    """Calls of the segments of a plan, for one run of it at a time.

    Attributes:
        functions: what calls them, by the names that the plan has for them.

    Args:
        code: the code of the segments.
        runs: their runs.
        scope: what calls them without a note, by the same names.
    """

    def __init__(self, code: Code, runs: Sequence[SegmentRun], scope: Mapping[str, Any]) -> None:
        self._told = 0
        self.functions: dict[str, Callable[..., Any]] = {}
        for i, run in enumerate(runs):
            name = f"segment_{i}"
            call = self._noting(code, run)
            usual = scope[name]
            self.functions[name] = usual.by(call) if isinstance(usual, SharedCall) else call

    def begin(self) -> None:
        """Forgets what was told."""
        self._told = 0

    def words(self) -> list[str]:
        """Returns NumPy's words for what was told since then."""
        return told_words(self._told)

    def _noting(self, code: Code, run: SegmentRun) -> Callable[..., Any]:
        """Returns what calls a segment's function, which is given the memory of a shared one."""
        count = run.arrays + run.results + 1 + run.is_shared
        enter = told_call(code, run.function, count, keeps_lock=run.keeps_lock)
        words = np.array([code.address(run.function), 0], np.uintp)

        def call(*objects: Any) -> Any:
            words[1] = 0
            if run.is_shared:
                objects[-1][TOLD_PLACE // 8] = 0
            status = enter(words, *objects)
            self._told |= int(words[1])
            if run.is_shared:
                self._told |= int(objects[-1][TOLD_PLACE // 8])
            if status is not None:
                # It is run again, and not noted.
                self._told |= ALL_TOLD
            return status

        return call


def told_calls(
    segments: tuple[Code, Sequence[SegmentRun]] | None, scope: Mapping[str, Any]
) -> ToldCalls | None:
    """Returns such calls of a plan's segments; None where the processor does not tell of all.

    Args:
        segments: their code, and their runs.
        scope: the values of the plan's names.
    """
    # BLAS may share its work among threads of its own, of which nothing is told.
    if segments is None or told_code() is None or controlled() is None:
        return None
    return ToldCalls(*segments, scope)
