"""Checkpointed functions in all modes but reverse mode: calls at the level below.

The functions of those calls do the transformation's work inside.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..backends.restoring import setting
from ..functions.closure import ClosedOver
from ..hooks.handle import Handle
from ..hooks.interceptor import HookTrace
from ..primitives.core.annotations import Values
from ..primitives.core.buffers import owned, wrap
from ..primitives.core.trace import RAW, Trace, base_trace, run, slot, under
from ..primitives.identities import optimization_barrier as barrier
from ..programs import Program, Variable
from ..programs.closed_over import hoisted
from ..programs.program import type_of
from ..programs.staged_tracers import KnownTracer, StagedTracer, known_tracer, replayed
from ..programs.staging import StagingTrace
from ..programs.unwatched import unwatched
from ..traces.batch import BatchTrace, NamedBatchTrace, batch_trace
from ..traces.forward import ForwardTrace
from .call import CheckpointCall
from .capture import CaptureTrace, captured
from .kept_hooks import KeptHooks

if TYPE_CHECKING:
    from ..primitives.core.array import Tracer
    from ..primitives.core.shape_dtype import ShapeDtype

__all__ = [
    "batched_call", "captured_call", "forward_call", "hooked_call", "plain_call", "staged_call",
]  # fmt: skip


class StagedCheckpoint(CheckpointCall):
    """A checkpointed function within a program, with a program of its own."""

    def __init__(self, call: CheckpointCall, program: Program) -> None:
        super().__init__(call.fun, program.run, call.policy, call.barred)
        self.program = program
        self.effect = program.has_effect()
        self.collective = program.exchanges()

    def replayed(self) -> StagedCheckpoint:
        return StagedCheckpoint(self, self.program.replayed()) if self.effect else self

    def unwatched(self) -> StagedCheckpoint:
        program = unwatched(self.program)
        return self if program is self.program else StagedCheckpoint(self, program)

    def infer(self, *types: ShapeDtype) -> list[Any]:
        """Returns the outputs' types."""
        return [type_of(out).strong() for out in self.program.outputs]


def forward_call(call: CheckpointCall, trace: ForwardTrace, operands: Sequence[Any]) -> Values:
    values, tangents, _ = trace.unwrap(operands)
    moved = [i for i, t in enumerate(tangents) if t is not None]
    met: dict[int, Any] = {}
    places: list[int] = []

    def evaluate(both: Values) -> Values:
        inner = ForwardTrace(base_trace(), "checkpoint", call.fun)
        inner.within = trace
        given = list(both[: len(values)])
        for i, t in zip(moved, both[len(values) :], strict=True):
            given[i] = inner.wrap(inner.argument(given[i]), inner.argument(t))

        def make(tracer: Any) -> Any:
            return inner.wrap(tracer.value, tracer.tangent)

        outs = run(inner, captured, (trace, ClosedOver(met), make, call.evaluate, given))
        primal, found, _ = inner.unwrap(outs)
        places[:] = [i for i, t in enumerate(found) if t is not None]
        return [wrap(x) for x in (*primal, *(found[i] for i in places))]

    with under(trace.parent):
        results = call.of(evaluate).bind([*values, *(tangents[i] for i in moved)])
    outs = results[: len(results) - len(places)]
    found = dict(zip(places, results[len(outs) :], strict=True))
    return [trace.wrap(out, found.get(i)) for i, out in enumerate(outs)]


def batched_call(call: CheckpointCall, trace: BatchTrace, operands: Sequence[Any]) -> Values:
    values, flags = trace.unwrap(operands)
    met: dict[int, Any] = {}
    out_flags: list[bool] = []

    def evaluate(values: Values) -> Values:
        inner = batch_trace(base_trace(), "checkpoint", call.fun, trace.size, trace.axis_name)
        inner.within = trace
        given = [
            inner.wrap(inner.argument(v)) if flag else v
            for v, flag in zip(values, flags, strict=True)
        ]
        if isinstance(inner, NamedBatchTrace):
            inner.inputs = given

        def make(tracer: Tracer) -> Tracer:
            return inner.wrap(tracer.value)

        outs = run(inner, captured, (trace, ClosedOver(met), make, call.evaluate, given))
        results, out_flags[:] = inner.unwrap(outs)
        return list(map(wrap, results))

    with under(trace.parent):
        outs = call.of(evaluate).bind(values)
    return [
        trace.wrap(out) if flag else wrap(out) for out, flag in zip(outs, out_flags, strict=True)
    ]


def staged_call(call: CheckpointCall, trace: StagingTrace, operands: Sequence[Any]) -> Values:
    known = [trace.operand(a) for a in operands]
    inner = StagingTrace(trace.parent, "checkpoint", call.fun)
    inner.within = trace
    inner.device = trace.device
    inputs: Values = []
    after: Values = []

    def made(x: Variable) -> StagedTracer:
        """Returns the inner tracer for a variable."""
        out = inner.input(x.type, x.device)
        inputs.append(out)
        return out

    def standing(tracer: Any) -> Any:
        """Returns the inner tracer for a value that the function closes over."""
        out = made(tracer.variable)
        if type(tracer) is not KnownTracer:
            return behind(out)
        return known_tracer(inner, out.variable, tracer)

    def behind(x: Any) -> Any:
        """Returns an input as it is once the cotangents are there: a value of its own."""
        if not barred or x.variable.type.weak or any(x is a for a in after):
            return x
        return barrier.under(inner, (x, *after), {})

    given = [made(x) if isinstance(x, Variable) else x for x in known]
    barred = call.barred and bool(call.after)
    if barred:
        after += [given[i] for i in call.after if isinstance(known[i], Variable)]
    closed_over = ClosedOver()

    def inside() -> Values:
        pairs = zip(given, known, strict=True)
        operands = [behind(x) if isinstance(v, Variable) else x for x, v in pairs]
        return captured(trace, closed_over, standing, call.evaluate, operands)

    outs = run(inner, inside, ())
    live = [i for i, out in enumerate(outs) if type(out) is StagedTracer and out.owner is inner]
    program, closed = hoisted(inner.program(inputs, [outs[i] for i in live]))
    variables = [x for x in known if isinstance(x, Variable)]
    variables += [tracer.variable for tracer in closed_over.met.values()]
    inside_call = StagedCheckpoint(call, program)
    results = trace.record(inside_call, [*variables, *closed], {}, inside_call.infer())
    found = dict(zip(live, results, strict=True))

    def result(i: int, out: Any) -> Any:
        if i in found:
            return found[i]
        # Results that do not depend on the operands are no outputs of the call.
        return wrap(replayed(out, trace) if type(out) is KnownTracer else inner.lift(out))

    return [result(i, out) for i, out in enumerate(outs)]


# -- traces that let everything pass


def plain_call(call: CheckpointCall, trace: Trace, operands: Sequence[Any]) -> Values:
    """Runs the function once, for a trace that keeps what it computes."""
    return [wrap(owned(out)) for out in call.evaluate(list(operands))]


def hooked_call(call: CheckpointCall, trace: HookTrace, operands: Sequence[Any]) -> Values:
    replaced: list[bool] = []
    pulled: list[bool] = []
    passes: list[bool] = []
    answers: list[bool] = []
    runs: list[Handle] = []
    alone = slot.shown is not None

    def evaluate(values: Values) -> Values:
        # The second run is shown to hooks where the first one was, and nowhere else.
        shown = slot.shown if (slot.shown is not None) is alone else {} if alone else None
        kept = replaced, pulled, passes, answers
        runs.append(KeptHooks(trace.handle, *kept, first=not runs))
        with setting(slot, shown=shown), under(trace.like(slot.trace or RAW, runs[-1])):
            return call.evaluate(values)

    def bound() -> Values:
        hooked = call.of(evaluate)
        if trace.parent is RAW and "functensor.tensors.tape" in sys.modules:
            from .tensors import call_of_tensors  # where there are tensors

            with under(None):
                return [wrap(owned(out)) for out in call_of_tensors(hooked, list(operands))]
        with under(None if trace.parent is RAW else trace.parent):
            return hooked.bind(operands)

    return trace.around(call.name, operands, bound)


def captured_call(call: CheckpointCall, trace: CaptureTrace, operands: Sequence[Any]) -> Values:
    met: dict[int, Any] = {}

    def evaluate(values: Values) -> Values:
        return captured(trace.level, ClosedOver(met), trace.resolve, call.evaluate, values)

    with trace.passing():
        return call.of(evaluate).bind([trace.resolve(x) for x in operands])
