"""Runs of plans that report where NaN or infinity may have been made, in place of calling hooks."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, TypeAlias

from ..backends.restoring import silently
from ..primitives.core.annotations import Values
from ..primitives.core.trace import below_hooks, interceptors

if TYPE_CHECKING:
    from .staged_entry import StagedEntry

__all__ = ["Told", "alarms", "reported_run"]

# For each interceptor that looks for anything: the alarms, and the operations that it sees.
Told: TypeAlias = list[tuple[frozenset[str], Hashable]]

# An entry remembers so many sets of hooks that have seen a call.
MOST_REMEMBERED = 16
# After so many false alarms of the processor, one after the other, it is not asked any more.
MOST_FALSE_ALARMS = 4


def alarms() -> Told | None:
    """Returns what plans report in place of calling hooks; None if one of them has to be called."""
    found = [trace.alarms() for trace in interceptors()]
    known = [told for told in found if told is not None]
    return [told for told in known if told[0]] if len(known) == len(found) else None


def reported_run(entry: StagedEntry, leaves: Values, told: Told, again: Callable[[], Any]) -> Any:
    """Runs a plan, and the call again if the plan reports what hooks look for.

    Where the processor tells of all that machine code computes, that is run first, as without
    hooks. The plan that reports follows where anything was told.

    The first call for them is run by ``again`` too: values that depend on no argument were
    computed while the function was staged. NumPy warns of nothing, as in other calls of plans.

    Args:
        entry: the plan for arguments of this kind.
        leaves: the arguments.
        told: what hooks look for.
        again: runs the call operation by operation under the hooks, which raise errors.
    """
    with below_hooks():
        plan = entry.compiled.watched()
    key = tuple(told)
    program = entry.program
    # A plan does not report the values that a hook has put in place of others. Other processes take
    # part in one run.
    seen = program.has_effect() or program.exchanges()
    unknown = entry.captured or seen or program.replaced
    if unknown or entry.compiled.plan is None:
        return silently(again, ())
    if plan is None:
        silently(again, ())
        with below_hooks():
            return entry.outputs(leaves, entry.compiled(leaves))
    looked_for = frozenset().union(*(words for words, _ in told))
    quick, words = None, None
    if entry.false_alarms < MOST_FALSE_ALARMS:
        quick, words = quick_run(entry, leaves)
    asks_again = words is None or not looked_for.isdisjoint(words)
    found: dict[str, int] = {}
    raised: Exception | None = None
    outs: Any = quick
    if asks_again:
        try:
            with below_hooks():
                outs = entry.compiled.reported(leaves, found.__setitem__)
        except Exception as error:
            raised = error
    if key not in entry.looked or not looked_for.isdisjoint(found):
        silently(again, ())
        entry.looked[key] = None
        while len(entry.looked) > MOST_REMEMBERED:
            del entry.looked[next(iter(entry.looked))]
    # It was a false alarm.
    if raised is not None:
        raise raised
    if quick is not None:
        entry.false_alarms = entry.false_alarms + 1 if asks_again else 0
        outs = quick
    return entry.outputs(leaves, outs)


def quick_run(
    entry: StagedEntry, leaves: Values
) -> tuple[Values, list[str]] | tuple[None, None]:
    """Runs the machine code of other calls; returns the outputs, and what the processor has told.

    Both are None where it does not tell of all, or where the call raises an error.
    """
    try:
        with below_hooks():
            return entry.compiled.told(leaves) or (None, None)
    except Exception:
        return None, None
