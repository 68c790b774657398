"""Two runs of a jitted function under hooks: one whose results count, and one that hooks are shown.

The second one starts from values of its own, and its results have cotangents: those of the first
one's. What it pulls back counts only where a hook has replaced something, or where a value that a
hook has kept is differentiated.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from typing import Any

from ..custom.call import CustomCall, Pullback
from ..primitives.core.annotations import Values
from ..primitives.core.annotations import operations as ops
from ..primitives.core.array import Tracer
from ..primitives.core.trace import Trace, at_face, base_trace, slot, under
from ..traces.reverse import is_inexact
from ..tree import containers as tree

__all__ = ["ShownRun", "forked", "is_taken_back", "only_look", "reunited"]


class ShownRun:
    """The run that hooks are shown.

    Args:
        met: the interceptors, the innermost first.
    """

    def __init__(self, met: Sequence[Any]) -> None:
        self.met = met
        self.kept = False

    def counts(self) -> bool:
        """Says whether the other run counts, as far as it is known by now."""
        return only_look(self.met) and not self.kept

    def note_kept(self) -> None:
        """Notes that a value which a hook was shown is differentiated."""
        self.kept = True

    def note_taken_back(self, out: Any) -> None:
        """Notes for each hook whether the function took back what it was shown."""
        taken_back = is_taken_back(slot.shown or {}, out)
        for trace in self.met:
            trace.met(taken_back)

    def trace(self) -> Trace:
        """Returns what shows the hooks this run, on top of what is below them."""
        trace = base_trace()
        for interceptor in reversed(self.met):
            trace = interceptor.noting(trace, self.note_kept)
        return trace


def only_look(met: Sequence[Any]) -> bool:
    """Says whether no interceptor has changed anything so far."""
    # All are asked, since a checkpoint has them answer the same again.
    answers = [trace.only_looks() for trace in met]
    return all(answers)


def is_taken_back(shown: Mapping[int, Any], out: Any) -> bool:
    """Says whether a function took back what hooks were shown, by id, or returned it."""
    return 0 in shown or any(shown.get(id(x)) is x for x in tree.leaves(out))


class OfTwoRuns(CustomCall):
    """A call that parts the two runs, or brings them together; the way back does the opposite."""

    def __init__(self, name: str, run: Callable[[Values], Values], shown_run: ShownRun) -> None:
        super().__init__(name, run)
        self.shown_run = shown_run

    def pulled(self, gs: Values) -> Values:
        """Returns the cotangents of the operands."""
        raise NotImplementedError

    def reverse(
        self, level: Trace, values: Values, wanted: Sequence[bool]
    ) -> tuple[Values, Callable[[Values], Values]]:
        with under(level):
            outs = at_face(self.bind, values)
        return outs, Pullback(lambda kept, gs: at_face(self.pulled, gs), [])


class Fork(OfTwoRuns):
    """Returns its operands twice, for the run that counts and the run that is shown."""

    def __init__(self, shown_run: ShownRun) -> None:
        super().__init__("fork", lambda values: [*values, *values], shown_run)

    def pulled(self, gs: Values) -> Values:
        count = len(gs) // 2
        if not self.shown_run.counts():
            return gs[count:]
        return list(map(partial(with_shown, self.shown_run), gs[:count], gs[count:]))

    def forward(self, level: Trace, values: Values, tangents: Values) -> tuple[Values, Values]:
        known = [i for i, t in enumerate(tangents) if t is not None]
        with under(level):
            outs = at_face(self.bind, values)
            moved = at_face(self.bind, [tangents[i] for i in known])
        out_tangents = [None] * len(outs)
        for n, t in enumerate(moved):
            out_tangents[known[n % len(known)] + n // len(known) * len(values)] = t
        return outs, out_tangents

    def batched(self, flags: Sequence[bool], size: int, axis_name: Hashable = None) -> CustomCall:
        call = Fork(self.shown_run)
        call.out_flags = [*flags, *flags]
        return call


class Join(OfTwoRuns):
    """Returns the result that counts, of this one and of the one that is shown.

    Args:
        shown_run: the run that is shown.
        axes: so many first axes are those of examples that share the second one.
        shown: whether the second one has the cotangent of the first: it has none where its
            examples share the first one.
    """

    def __init__(self, shown_run: ShownRun, axes: int = 0, shown: bool = True) -> None:
        super().__init__("join", lambda values: values[:1], shown_run)
        self.axes = axes
        self.shown = shown

    def pulled(self, gs: Values) -> Values:
        counting, shown = Fork(self.shown_run).bind(gs)
        if not self.shown:
            return [counting, None]
        return [counting, ops.sum(shown, axis=tuple(range(self.axes))) if self.axes else shown]

    def forward(self, level: Trace, values: Values, tangents: Values) -> tuple[Values, Values]:
        with under(level):
            return at_face(self.bind, values), at_face(self._met, tangents)

    def _met(self, pair: Values) -> Values:
        return pair[:1] if None in pair else self.bind(pair)

    def batched(self, flags: Sequence[bool], size: int, axis_name: Hashable = None) -> CustomCall:
        counting, shown = flags
        axes = self.axes + (counting and not shown)
        call = Join(self.shown_run, axes, self.shown and counting >= shown)
        call.out_flags = [counting]
        return call


def forked(arguments: Any, shown_run: ShownRun) -> tuple[Any, Any]:
    """Returns a tree for the run that counts and one for the run that is shown."""
    leaves, treedef = tree.flatten(arguments)
    # One by one, so that those without a derivative get none.
    pairs = [Fork(shown_run).bind([x]) if isinstance(x, Tracer) else (x, x) for x in leaves]
    return treedef.unflatten([x for x, _ in pairs]), treedef.unflatten([x for _, x in pairs])


def reunited(counting: Any, shown: Any, shown_run: ShownRun) -> Any:
    """Returns the results that count. Their cotangents go to those that are shown, too."""
    leaves, treedef = tree.flatten(counting)
    pairs = zip(leaves, tree.leaves(shown), strict=True)
    return treedef.unflatten([with_shown(shown_run, *pair) for pair in pairs])


def with_shown(shown_run: ShownRun, x: Any, other: Any) -> Any:
    """Returns a value that counts. What comes back to it goes to another one, too."""
    if not (isinstance(x, Tracer) and isinstance(other, Tracer) and is_inexact(x)):
        return x
    return Join(shown_run).bind([x, other])[0]
