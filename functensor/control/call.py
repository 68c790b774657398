"""Loops and branches as calls that run bodies; ``scan_rules.py`` and its kin have their rules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from operator import is_
from typing import TYPE_CHECKING, Any

from ..backends.restoring import setting
from ..custom.call import replaced
from ..jitting.compile import Compiled, compiled
from ..jitting.program_call import DerivedCall, result_types
from ..primitives.core.annotations import Value, Values
from ..primitives.core.array import Tracer
from ..primitives.core.buffers import exposed, to_buffer, wrap
from ..primitives.core.errors import MissingRuleError
from ..primitives.core.trace import Trace, at_face, below_hooks, is_staged, slot, under
from ..programs.program import Program, Variable, used
from ..programs.unwatched import unwatched
from ..traces.forward import zeros_like
from ..traces.muting import muting
from ..traces.reverse import is_inexact
from ..transforms.grad import vjp
from .program_edits import rewired

if TYPE_CHECKING:
    from ..primitives.core.shape_dtype import ShapeDtype

__all__ = [
    *("ControlCall", "body_source", "outputs_in_order", "own_outputs", "runner", "weak_inputs"),
]


def runner(program: Program, watched: bool = False) -> Callable[[Values], Values]:
    """Returns the function that computes a program's outputs, as buffers, of buffers.

    ``watched`` says whether it reports where NaN or infinity is made, as a plan does.
    """
    key = "runner", watched
    if key not in program.derived:
        program.derived[key] = _runner(program, watched)
    return program.derived[key]  # type: ignore[no-any-return]


def body_source(program: Program) -> str:
    """Returns the text of the plan that `runner` calls; empty where there is none."""
    plan = compiled_body(program)[0].plan
    return plan.source if plan is not None else ""


def compiled_body(program: Program) -> tuple[Compiled, list[Variable]]:
    """Returns what computes the outputs of a body that are not its inputs, and these outputs."""
    if "body" not in program.derived:
        own = own_outputs(program)
        program.derived["body"] = compiled(rewired(program, program.inputs, own)), own
    return program.derived["body"]  # type: ignore[no-any-return]


def own_outputs(program: Program) -> list[Variable]:
    """Returns the outputs that a plan of a body computes.

    Inputs among the outputs, and an output that is returned twice, need no copies.
    """
    inputs = set(program.inputs)
    return list(dict.fromkeys(x for x in used(program.outputs) if x not in inputs))


def quickest(made: Compiled, buffers: Values) -> Values:
    """Computes outputs by the plan that runs now, which machine code may take over from."""
    outs: Values = made.run(buffers)
    return outs


def _runner(program: Program, watched: bool) -> Callable[[Values], Values]:
    made, own = compiled_body(program)
    if made.on_cpu:
        plan = made.watched() if watched else partial(quickest, made)
        return outputs_in_order(program, own, plan)

    def one_by_one(buffers: Values) -> Values:
        with under(None):
            return [to_buffer(out) for out in made.program.run(list(map(exposed, buffers)))]

    return outputs_in_order(program, own, one_by_one)


def outputs_in_order(
    program: Program, own: Sequence[Variable], plan: Callable[[Values], Values]
) -> Callable[[Values], Values]:
    """Returns the function that computes a body's outputs by a plan of some of them.

    Args:
        program: the body.
        own: the outputs that the plan computes.
        plan: the plan.
    """
    inputs = {x: i for i, x in enumerate(program.inputs)}
    places = {x: len(inputs) + i for i, x in enumerate(own)}
    places |= inputs
    constants = [to_buffer(x) for x in program.outputs if type(x) is not Variable]
    number = count(len(inputs) + len(own))
    order = [places[x] if type(x) is Variable else next(number) for x in program.outputs]
    if order == list(range(len(inputs), len(inputs) + len(own))):
        return plan

    def run(buffers: Values) -> Values:
        found = [*buffers, *plan(buffers), *constants]
        return [found[i] for i in order]

    return run


class ControlCall(DerivedCall):
    """A call that runs bodies, on a flat list of arrays.

    Args:
        name: the name of the operation.
        bodies: its programs; by default the outputs are those of the last one.
        inputs: variables like its operands.
    """

    bodies: tuple[Program, ...]

    def __init__(self, name: str, bodies: Sequence[Program], inputs: Sequence[Variable]) -> None:
        super().__init__(name, self._evaluated)
        self.bodies = tuple(bodies)
        self.effect = any(body.has_effect() for body in bodies)
        self.collective = any(body.exchanges() for body in bodies)
        self.inputs = tuple(inputs)
        self.derived = {}

    def bind(self, operands: Sequence[Any]) -> Values:
        """Applies the call at the level of the current trace."""
        trace = slot.trace
        if slot.replaying and self.effect and self.replayed() is not self:
            return self.replayed().bind(operands)
        if trace is None or not trace.interceptor:
            return super().bind(operands)
        if not is_staged():
            # Hooks see every operation.
            return self.plain(list(operands))
        # They saw those of the bodies when these were staged.
        with below_hooks():
            return super().bind(operands)

    def replayed(self) -> ControlCall:
        if not self.effect:
            return self
        if "replayed" not in self.derived:
            call = self.derived["replayed"] = self.over([body.replayed() for body in self.bodies])
            call.derived["replayed"] = call
        return self.derived["replayed"]  # type: ignore[no-any-return]

    def unwatched(self) -> ControlCall:
        if "unwatched" not in self.derived:
            bodies = [*map(unwatched, self.bodies)]
            same = all(map(is_, bodies, self.bodies))
            self.derived["unwatched"] = self if same else self.over(bodies)
        return self.derived["unwatched"]  # type: ignore[no-any-return]

    def over(self, bodies: Sequence[Program]) -> ControlCall:
        """Returns the call of other bodies that take and return the same."""
        raise NotImplementedError

    def forward(self, level: Trace, values: Values, tangents: Values) -> tuple[Values, Values]:
        if not level.linear:
            return super().forward(level, values, tangents)
        try:
            return self._linearized(level, values, tangents)
        except MissingRuleError:
            # Without a way back the whole is done again wherever the linear function is called.
            return self.parted(level, values, tangents)

    def _linearized(
        self, level: Trace, values: Values, tangents: Values
    ) -> tuple[Values, Values]:
        """Returns the outputs, which are no part of a linear function, and the tangents.

        The way back is linear. Its own way back takes tangents of operands to those of outputs.
        """
        given = [i for i, t in enumerate(tangents) if t is not None]
        outs, pull = self.reverse(level, values, [t is not None for t in tangents])
        moved = [i for i, out in enumerate(outs) if is_inexact(out)]

        def back(*gs: Value) -> Values:
            found = pull(replaced([None] * len(outs), moved, gs))
            return [zeros_like(values[i]) if found[i] is None else found[i] for i in given]

        def push(*some: Value) -> Values:
            # Hooks have nothing to see of a way back that nobody goes.
            with setting(muting, met={}):
                return list(vjp(back, *(zeros_like(outs[i]) for i in moved))[1](list(some)))

        with under(level):
            found = at_face(lambda ts: push(*ts), [tangents[i] for i in given])
        return outs, replaced([None] * len(outs), moved, found)

    def infer(self, *types: ShapeDtype) -> list[ShapeDtype]:
        """Returns the outputs' types."""
        return result_types(self.bodies[-1])

    def plain(self, operands: Values) -> Values:
        """Does the same by operations, one after the other."""
        raise NotImplementedError

    def on_buffers(self, buffers: Sequence[Any]) -> Values:
        """Computes the outputs as buffers, of buffers."""
        return self.computed(buffers, watched=False)

    def reported_on_buffers(self, buffers: Sequence[Any]) -> Values:
        """Does the same, and reports where NaN or infinity is made in the bodies."""
        return self.computed(buffers, watched=True)

    def computed(self, buffers: Sequence[Any], watched: bool) -> Values:
        """Computes the outputs as buffers, of buffers.

        ``watched`` says whether plans report where NaN or infinity is made. Those of all steps of a
        loop do not. So it runs by a plan for one step before, whose results nobody takes: they may
        differ in the last bits.
        """
        raise NotImplementedError

    def _evaluated(self, values: Values) -> Values:
        return [wrap(out) for out in self.on_buffers([to_buffer(x) for x in values])]


def weak_inputs(inputs: Sequence[Variable], values: Sequence[Any]) -> Values:
    """Returns values for a body's inputs: for a weak scalar a Python scalar, where it is known."""
    return [
        x.type.weak(v) if x.type.weak and not isinstance(v, Tracer) else v
        for x, v in zip(inputs, values, strict=True)
    ]
