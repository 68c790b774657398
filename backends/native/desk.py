"""The memory where helpers of the pool look for teams of machine code, and for calls of the pool.

It is apart from `team`, so that the pool knows it where no machine code is made.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from .array_objects import never_freed

__all__ = [
    *("APART", "AWAKE", "CALLED_AWAY", "MOST_TEAMS", "PLACE_OF_PIECES", "TEAM_PLACES", "awake"),
    *("desk", "desk_address", "has_pieces"),
]

# The bytes between what different threads write, so that no two share a line of a cache.
APART = 128
# The desk has the number of the helpers that look at it, whether the pool calls them away, and
# places for so many teams. One more place is for the team of work that is called from Python piece
# by piece.
AWAKE, CALLED_AWAY, TEAM_PLACES, MOST_TEAMS = 0, APART, 2 * APART, 4
PLACE_OF_PIECES = TEAM_PLACES + 8 * MOST_TEAMS

# The words of the desk, which is never freed.
desk: Any = never_freed(np.zeros(PLACE_OF_PIECES // 8 + 1, np.uintp))
desk_address = int(desk.ctypes.data)


def awake() -> int:
    """Returns how many helpers look for work now."""
    return int(desk[AWAKE // 8])


def has_pieces() -> bool:
    """Says whether the next piece of some work is expected."""
    return bool(desk[PLACE_OF_PIECES // 8])


def clear_desk() -> None:
    """Clears the desk: a child process has no helpers, and no other thread that works."""
    desk.fill(0)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=clear_desk)
