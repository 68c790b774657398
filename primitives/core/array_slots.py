"""The buffers of many arrays at once, by machine code where it was asked for and may be used.

Calls on a GPU cost their host more for what is done with every leaf than for all else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .array import Array

if TYPE_CHECKING:
    from ...backends.native.object_slots import SlotCalls

__all__ = ["array_slots", "load_array_slots", "slot_places"]


class ArraySlots:
    """The functions; before they are loaded, and where they may not be used, those that give up.

    Attributes:
        made, same, taken: as in `SlotCalls`, for arrays and their buffers.
    """

    __slots__ = ("asked", "made", "same", "taken")

    def __init__(self) -> None:
        self.asked = False
        self.made = self.same = self.taken = gives_up


def gives_up(*given: Any) -> bool:
    """Stands for a function that is not there."""
    return True


array_slots = ArraySlots()


def load_array_slots() -> None:
    """Loads the functions, unless that was done before; what they need is compiled once."""
    if array_slots.asked:
        return
    array_slots.asked = True
    from ...backends.native.object_slots import slot_calls  # only where there is a GPU

    found: SlotCalls | None = slot_calls(Array, "_data")
    if found is not None:
        array_slots.made, array_slots.same, array_slots.taken = found


def slot_places(places: Sequence[int]) -> Any:
    """Returns the numbers of arrays among others as `SlotCalls.taken` reads them."""
    return np.array([len(places), *places], np.int64)
