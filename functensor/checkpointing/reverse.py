"""Checkpointed functions in reverse mode: a first run that leaves little, and a second one.

Both are calls at the level below, so that the transformations there save memory too.
``first_run.py`` and ``second_run.py`` have the traces of functions with a policy.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from ..backends.restoring import setting
from ..functions.closure import ClosedOver
from ..primitives.core.annotations import Value, Values
from ..primitives.core.buffers import wrap
from ..primitives.core.shape_dtype import shape_dtype
from ..primitives.core.trace import Trace, base_trace, run, slot, under
from ..programs.named_scope import active_scope, scoped
from ..random.key_reuse import ledger
from ..traces.forward import zeros_like
from ..traces.reverse import ReverseTrace, ReverseTracer, backward, is_inexact, joint_node
from .call import CheckpointCall
from .capture import FirstRunTrace, RehearsalTrace, ReplayTrace, captured, signature
from .first_run import RecordingTrace, Saved
from .second_run import SelectiveTrace

__all__ = ["Pull", "first_run_call", "reverse_call"]


class Record:
    """The record that a function's first run leaves behind.

    Attributes:
        log, count: the operations that depend on its inputs, and the number of outputs.
        met: the tracers that it closes over, by their ids.
        saved: for every output of the operations its saved form, where there is a policy.
    """

    def __init__(self) -> None:
        self.log: Any = None
        self.met: dict[int, Any] = {}
        self.saved: list[list[Saved | None]] = []
        self.count = 0

    def linked(self) -> list[int]:
        """Returns which of the tracers that it closes over have derivatives."""
        return [i for i, tracer in enumerate(self.met.values()) if goes_back(tracer)]


class Pull:
    """Pulls cotangents back through a call, by a second run.

    Attributes:
        call, record: the call and its first run.
        level: the trace whose tracers it closes over.
        wanted: the operands whose cotangents are asked for.
        values, saved: the operands, and what the first run saved.
        kinds: the outputs' shapes and dtypes.
        scope: the scope of the call, in which the second run is too.
    """

    def __init__(
        self,
        call: CheckpointCall,
        level: Trace,
        record: Record,
        wanted: Sequence[int],
        values: Values,
        saved: Values,
        kinds: Sequence[Any],
        scope: str,
    ) -> None:
        self.call = call
        self.level = level
        self.record = record
        self.wanted = wanted
        self.values = values
        self.saved = saved
        self.kinds = kinds
        self.scope = scope

    @property
    def repeated(self) -> tuple[CheckpointCall, Values, Sequence[int]] | None:
        """The call with its operands, and those that are wanted; None if it closes over values."""
        return None if self.record.linked() else (self.call, self.values, self.wanted)

    @property
    def residuals(self) -> Values:
        """The kept values: operands, closed-over values, and those that the policy saves."""
        closed = [tracer.value for tracer in self.record.met.values()]
        return [*self.values, *closed, *self.saved]

    @property
    def kept(self) -> Values:
        """The kept values but those that the function closes over, which others keep too."""
        return [*self.values, *self.saved]

    def with_kept(self, kept: Values) -> Pull:
        """Returns the same with other values in their places."""
        values, saved = kept[: len(self.values)], kept[len(self.values) :]
        common = self.call, self.level, self.record, self.wanted
        return Pull(*common, values, saved, self.kinds, self.scope)

    def sources(self) -> list[tuple[str, str]]:
        """Returns for every saved array its origin, and the user's line."""
        found = {each for step in self.record.saved for each in step if each is not None}
        out: list[Any] = [None] * len(self.saved)
        for each in found:
            assert each.place is not None
            out[each.place] = [each.source] * (each.place.stop - each.place.start)
        return out

    def __call__(self, gs: Values) -> Values:
        """Returns the cotangents of wanted operands, and of closed-over values."""
        given = [i for i, g in enumerate(gs) if g is not None]
        residuals = self.residuals
        # The cotangents come last, behind the operands and all that is closed over or saved.
        after = range(len(residuals), len(residuals) + len(given))
        call = self.call.of(partial(self.evaluate, given), after)
        with scoped(self.scope):
            return call.bind([*residuals, *(gs[i] for i in given)])

    def evaluate(self, given: Sequence[int], values: Values) -> Values:
        """Runs the function again and goes back over the nodes that it leaves behind.

        ``given`` are the outputs with a cotangent, ``values`` the residuals and those cotangents.
        """
        call, record, level = self.call, self.record, self.level
        parts = iter(values)
        operands = [next(parts) for _ in self.values]
        closed = [next(parts) for _ in record.met]
        trace = self.trace([next(parts) for _ in self.saved])
        gs = list(parts)
        inputs = []
        for group, linked in ((operands, self.wanted), (closed, record.linked())):
            for i, value in enumerate(group):
                if i in linked:
                    group[i] = trace.input(trace.argument(value))
                    inputs.append(group[i])
                elif isinstance(trace, SelectiveTrace) and not is_inexact(value):
                    group[i] = trace.constant(trace.argument(value))

        def make(tracer: Any) -> Value:
            raise trace.different("without a value", f"closing over {tracer.describe()}")

        known = dict(zip(record.met, closed, strict=True))
        closed_over = ClosedOver(record.met, known)

        def replayed() -> Values:
            outs = captured(level, closed_over, make, call.evaluate, operands)
            trace.finish()
            found = [shape_dtype(out).strong() for out in outs]
            if found != list(self.kinds):
                raise trace.different(f"the result {list(self.kinds)}", str(found))
            return outs

        with ledger.replaying(), setting(slot, replaying=True):
            outs = run(trace, replayed, ())
        pairs = zip([outs[i] for i in given], gs, strict=True)
        mine = [(x, g) for x, g in pairs if isinstance(x, ReverseTracer) and x.owner is trace]
        roots = [(x.node, trace.argument(g)) for x, g in mine if x.node is not None]
        del outs, mine, pairs
        with under(trace.parent):
            grads = backward(roots, consume=True)
            return [
                wrap(grads[x.node]) if x.node in grads else wrap(zeros_like(x.value))
                for x in inputs
            ]

    def trace(self, saved: Values) -> Any:
        """Returns the trace of the second run."""
        given = base_trace(), "checkpoint", self.call.fun, self.record.log, self.level
        if self.call.policy is None:
            return ReplayTrace(*given)
        return SelectiveTrace(*given, self.record.saved, saved)


def reverse_call(call: CheckpointCall, trace: ReverseTrace, operands: Sequence[Any]) -> Values:
    values, parents, _ = trace.unwrap(operands)
    wanted = [i for i, parent in enumerate(parents) if parent is not None]
    record = Record()
    with under(trace.parent):
        found = call.of(partial(_first, call, trace, record, wanted)).bind(values)
    outs, saved = found[: record.count], found[record.count :]
    kinds = [shape_dtype(out).strong() for out in outs]
    met = list(record.met.values())
    linked = [met[i].node for i in record.linked()]
    selective = trace if isinstance(trace, SelectiveTrace) else None
    followed = selective is not None and (bool(met) or any(map(selective.owns, operands)))
    if not wanted and not linked and not followed:
        return [wrap(out) for out in outs]
    if isinstance(trace, ReplayTrace):
        trace.expect(signature(call.name, *outs))
    constant = wrap if selective is None else selective.constant
    if not wanted and not linked:
        return list(map(constant, outs))
    nodes = (*(parents[i] for i in wanted), *linked)
    pull = Pull(call, trace, record, wanted, values, saved, kinds, active_scope())
    joint = joint_node(call.name, nodes, pull, outs)
    return trace.outputs(joint, outs, constant)


def _first(
    call: CheckpointCall, level: Trace, record: Record, wanted: Sequence[int], values: Values
) -> Values:
    """Runs a function for the first time; returns its outputs and the saved arrays."""
    trace: RehearsalTrace | RecordingTrace
    if call.policy is None:
        trace = RehearsalTrace(call.fun, level)
    else:
        trace = RecordingTrace(call.fun, level, call.policy)

    def given(value: Value, linked: bool) -> Any:
        if isinstance(trace, RecordingTrace):
            # Values that are made of random keys and masks may be saved too.
            if not linked and is_inexact(value):
                return wrap(value)
            return trace.input(trace.argument(value), linked)
        return trace.wrap(trace.argument(value)) if linked else wrap(value)

    def stand_in(tracer: ReverseTracer) -> Any:
        return given(tracer.value, goes_back(tracer))

    operands = [given(value, i in wanted) for i, value in enumerate(values)]
    given_to = level, ClosedOver(record.met), stand_in, call.evaluate, operands
    outs = run(trace, captured, given_to)
    results = trace.unwrap(outs)[0]
    saved: Values = []
    if isinstance(trace, RecordingTrace):
        saved = trace.saved(outs)
    if record.log is None:
        record.log, record.count = trace.log, len(results)
        if isinstance(trace, RecordingTrace):
            record.saved = [[made.saved for made in step] for step in trace.values]
    return [wrap(out) for out in (*results, *saved)]


def goes_back(tracer: ReverseTracer) -> bool:
    """Says whether derivatives go back from a tracer of reverse mode."""
    return tracer.node is not None and is_inexact(tracer)


def first_run_call(call: CheckpointCall, trace: FirstRunTrace, operands: Sequence[Any]) -> Values:
    """Calls a checkpointed function within the first run of another, as a single operation."""
    before = len(trace.log)
    outs = call.evaluate(list(operands))
    if len(trace.log) == before and not any(map(trace.owns, (*operands, *outs))):
        return [wrap(out) for out in outs]
    return trace.collapse(call, before, operands, outs)
