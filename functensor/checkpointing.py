"""``checkpoint``: reverse mode keeps a function's inputs only, and runs it again going back.

A call is one operation for every transformation, on flat lists of arrays. Each handles it by
another such call at the level below, whose function does the transformation's work inside: so the
levels below save memory too, and at the bottom the function simply runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from types import CellType, FunctionType
from typing import Any

from . import tree
from .arguments import is_array_like
from .batching import BatchTrace, BatchTracer, batch_trace
from .custom import CustomCall
from .forward import ForwardTrace, ForwardTracer, zeros_like
from .hooks import HookTrace
from .primitives.buffers import wrap
from .primitives.core import RAW, Trace, base_trace, run, slot, under
from .primitives.errors import function_name
from .primitives.types import shape_dtype
from .random.reuse import ledger
from .replay import CaptureTrace, RehearsalTrace, ReplayTrace, captured, signature
from .reverse import (
    NO_PARAMS,
    PROJECTION,
    CustomPullback,
    ReverseTrace,
    ReverseTracer,
    backward,
    is_inexact,
    make_node,
)
from .staging import StagedTracer, StagingTrace, Variable
from .transformed import transformed

__all__ = ["checkpoint", "remat"]

Values = list[Any]


def checkpoint(
    fun: Callable[..., Any], *, prevent_cse: bool = True, static_argnums: int | Sequence[int] = ()
) -> Callable[..., Any]:
    """Returns a function that does the same, but is run again in the backward pass.

    Reverse mode then keeps its inputs and nothing of what it computes inside: less memory for the
    time of a second forward pass. The function must do the same each time: what it closes over is
    remembered, but not what it reads of globals and random state that change. Outside of all
    transformations, and so for a `Tensor`, the function merely runs.

    Args:
        fun: takes and returns trees of arrays; other leaves, and Python's integers, are passed as
            they are. It may close over traced values.
        prevent_cse: as JAX has it; without meaning, since no compiler is there to undo it.
        static_argnums: positions of arguments that are passed as they are, arrays included.

    Returns:
        A function of the same arguments, for every transformation.

    Raises:
        ReplayError: in the backward pass, the function did something else than before.

    >>> import functensor as ft, functensor.numpy as np
    >>> @ft.checkpoint
    ... def layer(w, x):
    ...     return np.tanh(w @ x)
    >>> ft.grad(lambda w: np.sum(layer(w, np.ones(2))))(np.zeros((2, 2)))
    Array([[1., 1.],
           [1., 1.]], dtype=float64, device='cpu')
    """
    chosen = [static_argnums] if isinstance(static_argnums, int) else list(static_argnums)

    def checkpointed(*args: Any, **kwargs: Any) -> Any:
        if slot.trace is None:
            return fun(*args, **kwargs)
        if not all(-len(args) <= i < len(args) for i in chosen):
            raise TypeError(
                f"checkpoint of {function_name(fun)}: static_argnums={static_argnums}, but it was "
                f"called with {len(args)} positional arguments"
            )
        static = {i % len(args): args[i] for i in chosen}
        dynamic = [None if i in static else a for i, a in enumerate(args)]
        leaves, treedef = tree.flatten((dynamic, kwargs))
        places = [
            i
            for i, leaf in enumerate(leaves)
            if is_array_like(leaf) and type(leaf) not in (int, bool)
        ]
        # Loops may have gone on, and names may stand for others, when it is run again.
        again = _frozen(fun, {})
        runs: list[Any] = []

        def evaluate(values: Values) -> Values:
            filled = list(leaves)
            for i, value in zip(places, values, strict=True):
                filled[i] = value
            given, named = treedef.unflatten(filled)
            for i, argument in static.items():
                given[i] = argument
            out, out_tree = tree.flatten((again if runs else fun)(*given, **named))
            arrays = [is_array_like(leaf) for leaf in out]
            runs.append((out_tree, [None if a else leaf for leaf, a in zip(out, arrays)], arrays))
            return [leaf for leaf, a in zip(out, arrays) if a]

        outs = iter(CheckpointCall(fun, evaluate).bind([leaves[i] for i in places]))
        out_tree, others, arrays = runs[0]
        return out_tree.unflatten(
            [next(outs) if a else leaf for leaf, a in zip(others, arrays, strict=True)]
        )

    return transformed(checkpointed, fun, checkpoint, fun, static_argnums=static_argnums)


remat = checkpoint


def _frozen(fun: Any, copies: dict[int, Any]) -> Any:
    """Returns a copy of a function that keeps what it closes over now, functions too."""
    if isinstance(fun, partial):
        return partial(_frozen(fun.func, copies), *fun.args, **fun.keywords)
    if not isinstance(fun, FunctionType) or not fun.__closure__:
        return fun
    if id(fun) not in copies:
        filled = [_is_filled(cell) for cell in fun.__closure__]
        # What is not defined yet will be found in the cell itself.
        cells = [CellType() if f else c for f, c in zip(filled, fun.__closure__, strict=True)]
        copy = FunctionType(
            fun.__code__, fun.__globals__, fun.__name__, fun.__defaults__, tuple(cells)
        )
        copy.__kwdefaults__ = fun.__kwdefaults__
        copies[id(fun)] = copy
        for cell, old, f in zip(cells, fun.__closure__, filled, strict=True):
            if f:
                cell.cell_contents = _frozen(old.cell_contents, copies)
    return copies[id(fun)]


def _is_filled(cell: CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True


class CheckpointCall(CustomCall):
    """One call of a checkpointed function.

    Attributes:
        fun: the function, for messages.
        evaluate: the same on flat lists.
    """

    def __init__(self, fun: Callable[..., Any], evaluate: Callable[[Values], Values]) -> None:
        super().__init__(getattr(fun, "__name__", "checkpoint"), evaluate)
        self.fun = fun

    def bind(self, operands: Sequence[Any]) -> Values:
        """Applies the call at the level of the current trace."""
        trace = slot.trace
        if trace is RAW:
            return trace.custom(self, operands)
        for kind, handler in HANDLERS:
            if isinstance(trace, kind):
                return handler(self, trace, operands)
        # Whoever is not concerned with memory just runs the function.
        return [wrap(out) for out in self.evaluate(list(operands))]


# -- reverse mode


class Record:
    """What the first run of a function left behind.

    Attributes:
        log: the operations that depend on its inputs.
        met: the tracers that it closes over, by their ids.
    """

    def __init__(self) -> None:
        self.log: Any = None
        self.met: dict[int, Any] = {}


def _reverse(call: CheckpointCall, trace: ReverseTrace, operands: Sequence[Any]) -> Values:
    values, parents, _ = trace.unwrap(operands)
    wanted = [i for i, parent in enumerate(parents) if parent is not None]
    record = Record()

    def rehearsed(values: Values) -> Values:
        inner = RehearsalTrace(base_trace(), "checkpoint", call.fun)
        given = list(values)
        for i in wanted:
            given[i] = inner.wrap(inner.argument(values[i]))

        def make(tracer: Any) -> Any:
            return inner.wrap(tracer.value)

        outs = run(inner, captured, (trace, record.met, {}, make, call.evaluate, given))
        if record.log is None:
            record.log = inner.log
        return [wrap(inner.unwrap([out])[0][0]) for out in outs]

    with under(trace.parent):
        outs = CheckpointCall(call.fun, rehearsed).bind(values)
    met = list(record.met.values())
    kinds = [shape_dtype(out).strong() for out in outs]

    def pull(gs: Values) -> Values:
        """Returns the cotangents of the operands that are wanted, and of what was closed over."""
        given = [i for i, g in enumerate(gs) if g is not None]
        backwards = partial(_backward, call, trace, record, wanted, given, kinds)
        operands = [*values, *(tracer.value for tracer in met), *(gs[i] for i in given)]
        return CheckpointCall(call.fun, backwards).bind(operands)

    if isinstance(trace, ReplayTrace) and (wanted or met):
        trace.expect(signature(call.name, *outs))
    if not wanted and not met:
        return [wrap(out) for out in outs]
    nodes = (*(parents[i] for i in wanted), *(tracer.node for tracer in met))
    joint = make_node(CustomPullback(call.name), nodes, pull, NO_PARAMS, 0.0)
    joint.shape = tuple(kinds)
    return [
        trace.wrap(out, make_node(PROJECTION, (joint,), i, NO_PARAMS, out))
        if is_inexact(out)
        else wrap(out)
        for i, out in enumerate(outs)
    ]


def _backward(
    call: CheckpointCall,
    level: Trace,
    record: Record,
    wanted: Sequence[int],
    given: Sequence[int],
    kinds: Sequence[Any],
    values: Values,
) -> Values:
    """Runs the function again and goes back over what it leaves behind.

    Args:
        call, record: the call and its first run.
        level: the trace whose tracers it closes over.
        wanted: the operands whose cotangents are asked for.
        given: the outputs that have a cotangent.
        kinds: the outputs' shapes and dtypes.
        values: the operands, what is closed over, and the cotangents.
    """
    trace = ReplayTrace(base_trace(), "checkpoint", call.fun, record.log)
    count = len(values) - len(record.met) - len(given)
    operands, gs = list(values[:count]), values[len(values) - len(given) :]
    closed = [trace.input(trace.argument(v)) for v in values[count : count + len(record.met)]]
    for i in wanted:
        operands[i] = trace.input(trace.argument(operands[i]))
    inputs = [*(operands[i] for i in wanted), *closed]

    def make(tracer: Any) -> Any:
        raise trace.different("without a value", f"closing over {tracer.describe()}")

    known = dict(zip(record.met, closed, strict=True))

    def replayed() -> Values:
        outs = captured(level, record.met, known, make, call.evaluate, operands)
        trace.finish()
        found = [shape_dtype(out).strong() for out in outs]
        if found != list(kinds):
            raise trace.different(f"the result {list(kinds)}", str(found))
        return outs

    with ledger.replaying():
        outs = run(trace, replayed, ())
    roots = [
        (outs[i].node, trace.argument(g))
        for i, g in zip(given, gs, strict=True)
        if type(outs[i]) is ReverseTracer and outs[i].owner is trace
    ]
    with under(trace.parent):
        grads = backward(roots, consume=True)
        return [
            wrap(grads[x.node]) if x.node in grads else wrap(zeros_like(x.value)) for x in inputs
        ]


def _rehearsal(call: CheckpointCall, trace: RehearsalTrace, operands: Sequence[Any]) -> Values:
    before = len(trace.log)
    outs = call.evaluate(list(operands))
    # In the replay this is a single operation.
    if len(trace.log) > before:
        del trace.log[before:]
        trace.log.append(signature(call.name, *outs))
    return [wrap(out) for out in outs]


# -- the other transformations: the same at the level below, with their work inside


def _forward(call: CheckpointCall, trace: ForwardTrace, operands: Sequence[Any]) -> Values:
    values, tangents, _ = trace.unwrap(operands)
    moved = [i for i, t in enumerate(tangents) if t is not None]
    met: dict[int, Any] = {}
    places: list[int] = []

    def evaluate(both: Values) -> Values:
        inner = ForwardTrace(base_trace(), "checkpoint", call.fun)
        given = list(both[: len(values)])
        for i, t in zip(moved, both[len(values) :], strict=True):
            given[i] = inner.wrap(inner.argument(given[i]), inner.argument(t))

        def make(tracer: Any) -> Any:
            return inner.wrap(tracer.value, tracer.tangent)

        outs = run(inner, captured, (trace, met, {}, make, call.evaluate, given))
        mine = [isinstance(out, ForwardTracer) and out.owner is inner for out in outs]
        places[:] = [i for i, m in enumerate(mine) if m]
        primal = [out.value if m else inner.lift(out) for out, m in zip(outs, mine, strict=True)]
        return [wrap(x) for x in (*primal, *(outs[i].tangent for i in places))]

    with under(trace.parent):
        results = CheckpointCall(call.fun, evaluate).bind([*values, *(tangents[i] for i in moved)])
    outs = results[: len(results) - len(places)]
    found = dict(zip(places, results[len(outs) :], strict=True))
    return [trace.wrap(out, found.get(i)) for i, out in enumerate(outs)]


def _batched(call: CheckpointCall, trace: BatchTrace, operands: Sequence[Any]) -> Values:
    values, flags = trace.unwrap(operands)
    met: dict[int, Any] = {}
    out_flags: list[bool] = []

    def evaluate(values: Values) -> Values:
        inner = batch_trace(base_trace(), "vmap", call.fun, trace.size, trace.axis_name)
        given = [
            inner.wrap(inner.argument(v)) if flag else v
            for v, flag in zip(values, flags, strict=True)
        ]

        def make(tracer: Any) -> Any:
            return inner.wrap(tracer.value)

        outs = run(inner, captured, (trace, met, {}, make, call.evaluate, given))
        out_flags[:] = [isinstance(out, BatchTracer) and out.owner is inner for out in outs]
        return [
            wrap(out.value if flag else inner.lift(out))
            for out, flag in zip(outs, out_flags, strict=True)
        ]

    with under(trace.parent):
        outs = CheckpointCall(call.fun, evaluate).bind(values)
    return [
        trace.wrap(out) if flag else wrap(out) for out, flag in zip(outs, out_flags, strict=True)
    ]


def _staged(call: CheckpointCall, trace: StagingTrace, operands: Sequence[Any]) -> Values:
    known = [trace.operand(a) for a in operands]
    inner = StagingTrace(trace.parent, "checkpoint", call.fun)
    given = [inner.input(x.type) if isinstance(x, Variable) else x for x in known]
    met: dict[int, Any] = {}

    def make(tracer: Any) -> Any:
        return inner.input(tracer.variable.type)

    outs = run(inner, captured, (trace, met, {}, make, call.evaluate, given))
    live = [
        i
        for i, out in enumerate(outs)
        if isinstance(out, StagedTracer) and out.owner is inner
    ]

    def evaluate(values: Values) -> Values:
        standing = dict(zip(met, values[len(known) :], strict=True))
        outs = captured(trace, met, standing, make, call.evaluate, values[: len(known)])
        return [outs[i] for i in live]

    variables = [tracer.variable for tracer in met.values()]
    types = [outs[i].variable.type.strong() for i in live]
    staged = CheckpointCall(call.fun, evaluate)
    found = dict(zip(live, trace.record(staged, [*known, *variables], {}, types), strict=True))
    return [found[i] if i in found else wrap(inner.lift(out)) for i, out in enumerate(outs)]


# -- those that let everything pass


def _hooked(call: CheckpointCall, trace: HookTrace, operands: Sequence[Any]) -> Values:
    def evaluate(values: Values) -> Values:
        with under(HookTrace(slot.trace or RAW, trace.handle)):
            return call.evaluate(values)

    with under(None if trace.parent is RAW else trace.parent):
        return CheckpointCall(call.fun, evaluate).bind(operands)


def _captured(call: CheckpointCall, trace: CaptureTrace, operands: Sequence[Any]) -> Values:
    met: dict[int, Any] = {}

    def evaluate(values: Values) -> Values:
        return captured(trace.level, met, {}, trace.resolve, call.evaluate, values)

    with trace.passing():
        return CheckpointCall(call.fun, evaluate).bind([trace.resolve(x) for x in operands])


HANDLERS: list[tuple[type[Trace], Callable[..., Values]]] = [
    (ReverseTrace, _reverse),
    (RehearsalTrace, _rehearsal),
    (ForwardTrace, _forward),
    (BatchTrace, _batched),
    (StagingTrace, _staged),
    (HookTrace, _hooked),
    (CaptureTrace, _captured),
]
