"""Rules of optimizers as plans: one pass over the memory of parameters that NumPy goes over often.

Optimizers that update element by element have one each. Its results are the rule's over NumPy.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..backends.plan_makers import LEFT_OUT_BY_PLANS
from ..backends.restoring import setting
from ..jitting.jitted import jit
from ..jitting.switch import switch

__all__ = ["CompiledRule", "compiling_rules"]

# Updates of parameters of some shapes take so long together, in seconds, before a plan is made.
SECONDS_BEFORE_STAGING = 0.05
# A rule remembers so many sets of shapes; it has plans for some of them.
MOST_KNOWN_SHAPES = 16
# The buffers that plans take, by the characters of their dtypes.
TYPES = frozenset({np.ndarray, np.float32, np.float64})
PLANNED_DTYPES = frozenset("fd")
# The place of the gradients among columns.
GRADIENT_COLUMN = 1


class _AtOnce(threading.local):
    """A thread's choice to make plans of updates without a wait."""

    wanted = False


at_once = _AtOnce()


def compiling_rules() -> setting:
    """Makes updates run as plans from the first one on, for the length of a ``with`` block."""
    return setting(at_once, wanted=True)


class CompiledRule:
    """An optimizer's rule as plans, each for lists of parameters of some shapes.

    A plan is made once updates over NumPy have taken about as long as making it does.

    Args:
        update: ``update(columns, numbers)`` returns new columns: the parameters and one for each of
            the slots. ``columns`` has also one of the gradients, behind the parameters.
    """

    def __init__(self, update: Callable[[Any, Any], Any]) -> None:
        self._run = jit(update)
        self._spent: dict[Any, float] = {}

    def kind_of(self, columns: Sequence[list[Any]]) -> Any:
        """Returns what tells buffers apart for which there are plans; None for those without."""
        # NumPy raises within ``np.errstate(all="raise")``, plans do not.
        if switch.off or not LEFT_OUT_BY_PLANS.issuperset(np.geterr().values()):
            return None
        if not TYPES.issuperset(map(type, columns[0])):
            return None
        chars = [x.dtype.char for x in columns[0]]
        for place, column in enumerate(columns):
            for x, char in zip(column, chars, strict=True):
                if type(x) not in TYPES or x.dtype.char != char or char not in PLANNED_DTYPES:
                    return None
                # Results of plans lie in C order, those of ufuncs as their operands do.
                if place != GRADIENT_COLUMN and not x.flags.c_contiguous:
                    return None
        if [x.shape for x in columns[0]] != [g.shape for g in columns[GRADIENT_COLUMN]]:
            return None
        return tuple([(x.shape, x.dtype.char) for x in columns[0]])

    def is_due(self, kind: Any) -> bool:
        """Says whether updates of a kind are to run as a plan."""
        if kind is None:
            return False
        if at_once.wanted:
            self.note(kind, SECONDS_BEFORE_STAGING)
        return self._spent.get(kind, 0.0) >= SECONDS_BEFORE_STAGING

    def note(self, kind: Any, seconds: float) -> None:
        """Notes how long an update of a kind took over NumPy."""
        if kind is not None and (kind in self._spent or len(self._spent) < MOST_KNOWN_SHAPES):
            self._spent[kind] = self._spent.get(kind, 0.0) + seconds

    def __call__(self, columns: Sequence[list[Any]], numbers: Sequence[Any]) -> Any:
        """Returns the columns after an update."""
        return self._run(list(columns), list(numbers))
