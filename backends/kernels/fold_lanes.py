"""The lanes of loops that do little but fold.

A step adds to the sum of the step before, and a processor has each sum ready four cycles later. A
step that takes fewer waits. Loops of short steps have several times the lanes, and so several sums.
"""

from __future__ import annotations

from collections.abc import Sequence

from .kernel import Fold, Let, Load, LoopAxis, Statement
from .operations import KERNEL_FUNCTIONS

__all__ = ["lanes_of_fold"]

MOST_STATEMENTS, SUMS_SIDE_BY_SIDE = 4, 4


def lanes_of_fold(
    lanes: int, axis: LoopAxis, body: Sequence[Statement], folds: Sequence[Fold]
) -> int:
    """Returns the lanes of a loop that may fold.

    Args:
        lanes: the lanes of a loop of longer steps.
        axis: the loop's axis.
        body: what is done at each place.
        folds: what is folded.
    """
    short = len(body) <= MOST_STATEMENTS and all(
        isinstance(s, Load) or (isinstance(s, Let) and s.operation not in KERNEL_FUNCTIONS)
        for s in body
    )
    # Lanes would be idle at the last places of others.
    whole = not axis.block and axis.extent % (SUMS_SIDE_BY_SIDE * lanes) == 0
    return SUMS_SIDE_BY_SIDE * lanes if short and whole and len(folds) == 1 < lanes else lanes
