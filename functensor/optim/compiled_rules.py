"""Rules of optimizers as plans: one pass over the memory of parameters that NumPy goes over often.

Optimizers that update element by element have one each. Its results are the rule's over NumPy.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import update_wrapper
from itertools import chain
from typing import Any

import numpy as np

from ..backends.errors.words import WRAPPER_CODES
from ..backends.plan_makers import LEFT_OUT_BY_PLANS
from ..jitting.jitted import jit
from ..jitting.signature import context_of
from ..jitting.staged_entry import StagedEntry
from ..jitting.switch import switch
from ..primitives.core.buffers import all_wrapped

__all__ = ["CompiledRule", "with_compiled_rules"]

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


def with_compiled_rules(step: Callable[..., Any]) -> Callable[..., Any]:
    """Returns an optimizer's step whose updates run as plans from the first one on."""

    def compiled_step(*args: Any, **kwargs: Any) -> Any:
        before = at_once.wanted
        try:
            at_once.wanted = True
            return step(*args, **kwargs)
        finally:
            at_once.wanted = before

    WRAPPER_CODES.add(compiled_step.__code__)
    return update_wrapper(compiled_step, step)


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
        # The plans that take buffers as they are, by their kinds and what else tells plans apart.
        self._entries: dict[Any, StagedEntry] = {}

    def kind_of(self, columns: Sequence[list[Any]]) -> Any:
        """Returns what tells buffers apart for which there are plans; None for those without."""
        # NumPy raises within ``np.errstate(all="raise")``, plans do not.
        if switch.off or not LEFT_OUT_BY_PLANS.issuperset(np.geterr().values()):
            return None
        if not TYPES.issuperset(map(type, columns[0])):
            return None
        shapes = [x.shape for x in columns[0]]
        dtypes = [x.dtype for x in columns[0]]
        kind: list[Any] = [*shapes, *dtypes]
        for place, column in enumerate(columns):
            # Comparisons of lists compare what are mostly the same objects.
            if not TYPES.issuperset(map(type, column)) or [x.dtype for x in column] != dtypes:
                return None
            # Results of plans lie in C order, those of ufuncs as their operands do.
            in_order = place != GRADIENT_COLUMN
            if in_order and not all([x.flags.c_contiguous for x in column]):  # noqa: C419 - quicker
                return None
            own = [x.shape for x in column]
            if own != shapes:
                # A rule may keep a number for each parameter; gradients are like these.
                if not in_order:
                    return None
                kind.append((place, *own))
        return tuple(kind) if PLANNED_DTYPES.issuperset([x.char for x in dtypes]) else None

    def is_due(self, kind: Any) -> bool:
        """Says whether updates of a kind are to run as a plan."""
        if kind is None:
            return False
        if self._spent.get(kind, 0.0) >= SECONDS_BEFORE_STAGING:
            return True
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

    def on_buffers(
        self, kind: Any, columns: Sequence[list[Any]], numbers: Sequence[Any]
    ) -> list[list[Any]]:
        """Does the same with buffers of a kind, outside of all transformations."""
        key = kind, *map(type, numbers), *context_of()
        entry = self._entries.get(key)
        if entry is not None:
            outs = entry.compiled.run([*chain.from_iterable(columns), *numbers])
            count = len(columns[0])
            return [outs[i : i + count] for i in range(0, len(outs), count)]
        arrays = list(map(all_wrapped, columns))
        made = self(arrays, numbers)
        entry = self._run.entry_of(arrays, list(numbers))
        if entry is not None and entry.takes_buffers:
            self._entries[key] = entry
        return [[x._data for x in column] for column in made]
