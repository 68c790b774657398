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
    if unknown or not entry.compiled.on_cpu:
        return silently(again, ())
    if plan is None:
        silently(again, ())
        with below_hooks():
            return entry.outputs(leaves, entry.compiled(leaves))
    looked_for = frozenset().union(*(words for words, _ in told))
    told_by_code: tuple[Values, list[str]] | None = None
    raised: Exception | None = None
    if entry.false_alarms < MOST_FALSE_ALARMS:
        # None where the processor does not tell of all.
        told_by_code, raised = tried_below_hooks(entry.compiled.told, leaves)
    quick, words = told_by_code or (None, None)
    asks_again = words is None or not looked_for.isdisjoint(words)
    found: dict[str, int] = {}
    outs: Any = quick
    if asks_again:
        report = found.__setitem__
        outs, raised = tried_below_hooks(entry.compiled.reported, leaves, report, earlier=raised)
    try:
        if key not in entry.looked or not looked_for.isdisjoint(found):
            silently(again, ())
            entry.looked[key] = None
            while len(entry.looked) > MOST_REMEMBERED:
                del entry.looked[next(iter(entry.looked))]
        # It was a false alarm.
        if raised is not None:
            raise raised
    finally:
        # An error holds this frame, which is not to hold the error.
        del raised
    if quick is not None:
        entry.false_alarms = entry.false_alarms + 1 if asks_again else 0
        outs = quick
    return entry.outputs(leaves, outs)


def tried_below_hooks(
    run: Callable[..., Any], *args: Any, earlier: Exception | None = None
) -> tuple[Any, Exception | None]:
    """Calls a function below hooks.

    Args:
        run: the function.
        args: its arguments.
        earlier: an error that was raised before.

    Returns:
        Its result, or None, and the first error that was raised.
    """
    try:
        with below_hooks():
            return run(*args), earlier
    except Exception as error:
        return None, error if earlier is None else earlier
