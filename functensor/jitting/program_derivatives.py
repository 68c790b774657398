"""Programs made of a program: its derivatives and its batches.

They are staged, once each, from the program's own run under a transformation. They are programs of
flat lists like it, so that they are optimized, planned and differentiated again. Equations have the
line and the scope of the equation that they stem from.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

from ..backends.restoring import setting
from ..primitives.core.annotations import Value, Values
from ..primitives.core.annotations import operations as ops
from ..primitives.core.shape_dtype import ShapeDtype, shape_dtype
from ..primitives.core.trace import RAW, base_trace, run, slot, under
from ..programs.live_equations import live_equations
from ..programs.named_scope import scoped
from ..programs.program import Operand, Program, Variable, type_of, used
from ..programs.staging import StagedTracer, StagingTrace
from ..traces.batch import batch_trace
from ..traces.muting import muting
from ..traces.reverse import ReverseTrace, backward
from ..transforms.jvp import jvp

__all__ = [
    *("Flags", "Pulled", "batched_inputs", "is_differentiable", "mapped"),
    *("pulled_program", "pushed_program", "staged"),
]

Flags = tuple[bool, ...]


def staged(program: Program, fun: Callable[..., Any]) -> Program:
    """Stages a function of the trace and of a program's inputs: ``(more inputs, outputs)``.

    The program may be asked for first where a function runs again. It is used elsewhere, too.
    """
    trace = StagingTrace(RAW, program.name, fun)
    inputs = [trace.input(x.type, x.device) for x in program.inputs]
    with under(None), scoped(""), setting(slot, replaying=False):
        more, outs = run(trace, fun, (trace, inputs))
    return with_name(trace.program([*inputs, *more], outs), program.name)


def with_name(program: Program, name: str) -> Program:
    """Returns the same program under another name, which messages have."""
    own = program.inputs, program.equations, program.outputs, program.in_tree, program.out_tree
    made = Program(name, *own)
    made.replaced = program.replaced
    return made


def is_differentiable(x: Operand) -> bool:
    """Says whether a variable or constant can have a derivative."""
    return type_of(x).dtype.kind in "fcV"


def pushed_program(program: Program, given: Flags) -> Program:
    """Returns forward mode of a program.

    Args:
        program: the program.
        given: for every input whether it has a tangent; of inexact ones only.

    Returns:
        A program of the inputs and the tangents of those given, which returns the outputs and
        the tangents of the inexact ones.
    """
    key = "pushed", given
    if key not in program.derived:
        chosen = [i for i, flag in enumerate(given) if flag]

        def push(trace: StagingTrace, inputs: Values) -> tuple[Values, Values]:
            like = [inputs[i].variable for i in chosen]
            tangents = [trace.input(x.type.strong(), x.device) for x in like]

            def of(*some: Value) -> Values:
                values = list(inputs)
                for i, value in zip(chosen, some, strict=True):
                    values[i] = value
                return program.run(values)

            outs, out_tangents = jvp(of, [inputs[i] for i in chosen], tangents)
            pairs = zip(out_tangents, program.outputs, strict=True)
            return tangents, [*outs, *(t for t, out in pairs if is_differentiable(out))]

        program.derived[key] = staged(program, push)
    return program.derived[key]  # type: ignore[no-any-return]


def mapped(
    program: Program, flags: Flags, out_flags: Flags, size: int, axis_name: Hashable = None
) -> tuple[Program, Flags]:
    """Returns a program for a batch, and which of its outputs have the batch axis.

    Args:
        program: the program.
        flags: which inputs have a batch axis in front; the others are shared.
        out_flags: which outputs must have it; others have it if they depend on the example.
        size: the length of that axis.
        axis_name: the axis's name, for collectives.
    """
    key = "mapped", flags, out_flags, size, axis_name
    if key not in program.derived:
        like = batched_inputs(program.inputs, flags, size)
        found: list[bool] = []

        def over(trace: StagingTrace, inputs: Values) -> tuple[Values, Values]:
            batch = batch_trace(base_trace(), "vmap", program, size, axis_name)
            values = [batch.wrap(x) if flag else x for x, flag in zip(inputs, flags, strict=True)]
            results, mine = batch.unwrap(run(batch, program.run, (values,)))
            for i, asked in enumerate(out_flags):
                if asked and not mine[i]:
                    shape = shape_dtype(results[i]).shape
                    results[i] = ops.broadcast_to(results[i], (size, *shape))
            found[:] = [m or asked for m, asked in zip(mine, out_flags, strict=True)]
            return [], results

        made = staged(Program(program.name, like, (), ()), over)
        program.derived[key] = made, tuple(found)
    return program.derived[key]  # type: ignore[no-any-return]


def batched_inputs(inputs: Sequence[Variable], flags: Sequence[bool], size: int) -> list[Variable]:
    """Returns variables like inputs, of which those with a flag have a batch axis in front."""
    return [
        Variable(ShapeDtype((size, *x.type.shape), x.type.dtype), x.device) if flag else x
        for x, flag in zip(inputs, flags, strict=True)
    ]


class Pulled:
    """Reverse mode of a program, in two programs.

    Args:
        program: the program.
        wanted: for every input whether its cotangent is asked for; of inexact ones only.

    Attributes:
        forward: a program that returns the outputs and, behind them, residuals.
        brief: the same, without the residuals that are among its inputs or outputs.
        sources: for every residual, where it is among the inputs, and behind those the outputs
            of the brief program.
        own_count: how many inputs and outputs the program itself has.
        reached: for every output whether it has a derivative by what is wanted.
    """

    def __init__(self, program: Program, wanted: Flags) -> None:
        self.program = program
        self.own_count = len(program.inputs) + len(program.outputs)
        self.wanted = [i for i, flag in enumerate(wanted) if flag]
        self._known: dict[Any, tuple[Program, list[int], Flags]] = {}
        everything = tuple(map(is_differentiable, program.outputs))
        # Hooks may see the way back, or be gone by then.
        self._hooks: dict[Any, None] = {}
        joint = self._staged(everything, muted=True)
        self._known[everything, None] = joint.backward()
        state = self._seen()
        if state is not None:
            watched = self._staged(everything)
            joint.residuals += [joint.at(x) for x in watched.places if x not in joint.places]
            joint.places += [x for x in watched.places if x not in joint.places]
            self._known[everything, state] = self._taken(watched, joint.places)
        self._places = joint.places
        self.reached = joint.reached
        outputs = [*joint.outs, *joint.residuals]
        forward = joint.trace.program(joint.inputs, list(map(joint.tracer, outputs)))
        self.forward = with_name(forward, program.name)
        inputs = self.forward.inputs
        known = {x: i for i, x in enumerate([*inputs, *joint.outs]) if type(x) is Variable}
        known |= {x: i for i, x in enumerate(inputs)}
        more = [x for x in joint.residuals if x not in known]
        known |= {x: i for i, x in enumerate(more, len(inputs) + len(joint.outs))}
        self.sources = [known[x] for x in joint.residuals]
        self.brief = self.forward.with_equations(self.forward.equations, [*joint.outs, *more])

    def state(self) -> Hashable:
        """Returns which hooks see the way back now; None where none does."""
        if muting.met is not None:
            muting.met.update(self._hooks)
            return None
        return self._seen()

    def _seen(self) -> Hashable:
        if not self._hooks:
            return None
        state = tuple(handle.sees_pass(staged=True) for handle in self._hooks)
        return state if any(state) else None

    def backward(self, given: Flags) -> tuple[Program, list[int], Flags]:
        """Returns the way back for the outputs that have a cotangent.

        Returns:
            A program of residuals and of those cotangents; which of the forward program's
            residuals it takes; and for every wanted input whether the program returns its
            cotangent, which is zero otherwise.
        """
        key = given, self.state()
        if key not in self._known:
            joint = self._staged(given, muted=key[1] is None)
            self._known[key] = self._taken(joint, self._places)
        return self._known[key]

    def _taken(self, joint: _Joint, places: list[Any]) -> tuple[Program, list[int], Flags]:
        """Returns the way back of a staging, which takes residuals of the first one."""
        program, _, found = joint.backward()
        return program, [places.index(place) for place in joint.places], found

    def _staged(self, given: Flags, muted: bool = False) -> _Joint:
        before = muting.met
        found: dict[Any, None] = {}
        muting.met = found if muted else None
        try:
            return _Joint(self.program, self.wanted, given)
        finally:
            muting.met = before
            self._hooks.update(found)
            if before is not None:
                before.update(found)


class _Joint:
    """A program's run and the way back over it, staged one after the other.

    Attributes:
        outs: the program's outputs, as variables and constants.
        residuals: the variables of the run that the way back needs.
        places: where those are defined: the number of an equation and of its output, or -1 and
            the number of an input.
        reached: for every output whether it has a derivative by what is wanted.
    """

    def __init__(self, program: Program, wanted: Sequence[int], given: Flags) -> None:
        self.trace = trace = StagingTrace(RAW, program.name, program)
        self.inputs = [trace.input(x.type, x.device) for x in program.inputs]
        self.cotangents: list[StagedTracer] = []
        self.found: list[bool] = []
        with under(None), scoped(""), setting(slot, replaying=False):
            grads = run(trace, self._both, (program, wanted, given))
        before = {
            variable: (number, i)
            for number, equation in enumerate(trace.equations[: self.mark])
            for i, variable in enumerate(equation.outputs)
        }
        before |= {x.variable: (-1, i) for i, x in enumerate(self.inputs)}
        self._grads = [trace.operand(g) for g in grads]
        self._back = live_equations(trace.equations[self.mark :], self._grads)
        live = set(used([*self._grads, *(x for e in self._back for x in e.operands)]))
        self.residuals = [variable for variable in before if variable in live]
        self.places = [before[variable] for variable in self.residuals]
        del trace.equations[self.mark :]

    def _both(self, program: Program, wanted: Sequence[int], given: Flags) -> Values:
        trace = self.trace
        reverse = ReverseTrace(base_trace(), program.name, program)
        values: Values = list(self.inputs)
        for i in wanted:
            values[i] = reverse.input(self.inputs[i])
        tracers = run(reverse, program.run, (values,))
        outs, nodes, _ = reverse.unwrap(tracers)
        self.reached = tuple([node is not None for node in nodes])
        self.outs = [trace.operand(out) for out in outs]
        self.mark = len(trace.equations)
        roots = []
        for node, out, flag in zip(nodes, self.outs, given, strict=True):
            if flag:
                g = trace.input(type_of(out).strong(), getattr(out, "device", None))
                self.cotangents.append(g)
                if node is not None:
                    roots.append((node, g))
        grads = backward(roots, consume=True)
        inputs = [values[i].node for i in wanted]
        self.found = [node in grads for node in inputs]
        return [grads[node] for node in inputs if node in grads]

    def at(self, place: tuple[int, int]) -> Variable:
        """Returns the variable that is defined at a place of the run."""
        number, i = place
        return self.inputs[i].variable if number < 0 else self.trace.equations[number].outputs[i]

    def tracer(self, x: Operand) -> Any:
        """Returns the tracer of one of the trace's variables; a constant as it is."""
        return self.trace.tracer(x) if type(x) is Variable else x

    def backward(self) -> tuple[Program, list[int], Flags]:
        """Does what `Pulled.backward` does, with the residuals of this staging."""
        inputs = [*self.residuals, *(g.variable for g in self.cotangents)]
        program = Program(self.trace.name, inputs, self._back, self._grads)
        return program, list(range(len(self.residuals))), tuple(self.found)


def pulled_program(program: Program, wanted: Flags) -> Pulled:
    """Returns reverse mode of a program, for the inputs whose cotangents are wanted."""
    key = "pulled", wanted
    if key not in program.derived:
        program.derived[key] = Pulled(program, wanted)
    return program.derived[key]  # type: ignore[no-any-return]
