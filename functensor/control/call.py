"""Loops and branches as calls: their rules are made of those of their bodies."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from itertools import count
from typing import Any

from ..custom.call import CustomCall, at_face_pair
from ..jitting.compile import Compiled, compiled
from ..primitives.core.annotations import Values
from ..primitives.core.array import Tracer
from ..primitives.core.buffers import exposed, to_buffer, wrap
from ..primitives.core.trace import Trace, at_face, base_trace, slot, under
from ..programs.program import Program, Variable, used
from ..traces.reverse import is_inexact
from .body import Flat, is_staged
from .program_edits import rewired

__all__ = ["ControlCall", "Rules", "body_source", "runner", "weak_inputs"]


def runner(program: Program) -> Callable[[Values], Values]:
    """Returns what computes a program's outputs, as buffers, of buffers."""
    key = "runner"
    if key not in program.derived:
        program.derived[key] = _runner(program)
    return program.derived[key]  # type: ignore[no-any-return]


def body_source(program: Program) -> str:
    """Returns the text of the plan that `runner` calls; empty where there is none."""
    plan = compiled_body(program)[0].plan
    return plan.source if plan is not None else ""


def compiled_body(program: Program) -> tuple[Compiled, list[Variable]]:
    """Returns what computes the outputs of a body that are not its inputs, and these outputs."""
    key = "body"
    if key not in program.derived:
        # What is handed on as it is needs no copy, nor does what is returned twice.
        inputs = set(program.inputs)
        own = list(dict.fromkeys(x for x in used(program.outputs) if x not in inputs))
        program.derived[key] = compiled(rewired(program, program.inputs, own)), own
    return program.derived[key]  # type: ignore[no-any-return]


def _runner(program: Program) -> Callable[[Values], Values]:
    inputs = {x: i for i, x in enumerate(program.inputs)}
    made, own = compiled_body(program)
    places = {x: len(inputs) + i for i, x in enumerate(own)}
    places |= inputs
    constants = [to_buffer(x) for x in program.outputs if type(x) is not Variable]
    number = count(len(inputs) + len(own))
    order = [places[x] if type(x) is Variable else next(number) for x in program.outputs]
    if made.plan is not None:
        plan = made.plan
        if order == list(range(len(inputs), len(inputs) + len(own))):
            return plan  # type: ignore[no-any-return]
    else:

        def plan(buffers: Values) -> Values:
            with under(None):
                return [to_buffer(out) for out in made.program.run(list(map(exposed, buffers)))]

    def run(buffers: Values) -> Values:
        found = [*buffers, *plan(buffers), *constants]
        return [found[i] for i in order]

    return run


class Rules:
    """Reverse mode of a call.

    Args:
        forward: returns, of the operands, the outputs and behind them residuals.
        kept: the numbers of the operands that the way back needs too.
        backward: returns, for flags of the outputs that have a cotangent, a function of what is
            kept, the residuals and those cotangents, which returns cotangents of operands; and for
            every operand whether it does.
        state: returns what else the way back depends on: which hooks see it.
    """

    def __init__(
        self,
        forward: Flat,
        kept: Sequence[int],
        backward: Callable[[tuple[bool, ...]], tuple[Flat, Sequence[bool]]],
        state: Callable[[], Any],
    ) -> None:
        self.forward = forward
        self.kept = list(kept)
        self._backward = backward
        self._state = state
        self._known: dict[Any, tuple[Flat, Sequence[bool]]] = {}

    def backward(self, given: tuple[bool, ...]) -> tuple[Flat, Sequence[bool]]:
        """Returns the way back for the outputs that have a cotangent; made once."""
        key = given, self._state()
        if key not in self._known:
            self._known[key] = self._backward(given)
        return self._known[key]


class ControlCall(CustomCall):
    """A call that runs bodies, on a flat list of arrays.

    Args:
        name: the name of the operation.
        bodies: its programs.

    Attributes:
        bodies: the same.
        inputs: variables like its operands.
    """

    bodies: tuple[Program, ...]
    inputs: tuple[Variable, ...]

    def __init__(self, name: str, bodies: Sequence[Program], inputs: Sequence[Variable]) -> None:
        super().__init__(name, self._evaluated)
        self.bodies = tuple(bodies)
        self.inputs = tuple(inputs)
        # What its rules have made of it, for the next time.
        self.derived: dict[Any, Any] = {}

    def bind(self, operands: Sequence[Any]) -> Values:
        """Applies the call at the level of the current trace."""
        trace = slot.trace
        if trace is None or not trace.interceptor:
            return super().bind(operands)
        if not is_staged():
            # Hooks see every operation.
            return self.plain(list(operands))
        # They saw those of the bodies when these were staged.
        with under(base_trace()):
            return super().bind(operands)

    def plain(self, operands: Values) -> Values:
        """Does the same by operations, one after the other."""
        raise NotImplementedError

    def pushed(self, given: tuple[bool, ...]) -> tuple[Flat, Sequence[bool]]:
        """Returns forward mode.

        Args:
            given: for every operand whether it has a tangent.

        Returns:
            A function of the operands and those tangents, which returns the outputs and tangents
            of outputs; and for every output whether there is one.
        """
        raise NotImplementedError

    def pulled(self, wanted: tuple[bool, ...]) -> Rules | None:
        """Returns reverse mode, for the operands whose cotangents are wanted.

        None says that no output has a derivative by them.
        """
        raise NotImplementedError

    def once(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """Returns what was made of the call before, or makes it."""
        if key not in self.derived:
            self.derived[key] = make()
        return self.derived[key]

    def reverse(
        self, level: Trace, values: Values, wanted: Sequence[bool]
    ) -> tuple[Values, Callable[[Values], Values]]:
        """Returns the outputs and the function that pulls cotangents back."""
        chosen = tuple(flag and is_inexact(x) for flag, x in zip(wanted, values, strict=True))
        rules = self.once(("pulled", chosen), lambda: self.pulled(chosen))
        if rules is None:
            with under(level):
                return at_face(self.bind, values), lambda gs: [None] * len(chosen)
        number = len(self.outputs())

        def forward(values: Values) -> tuple[Values, Values]:
            found = rules.forward(values)
            return found[:number], found[number:]

        with under(level):
            outs, residuals = at_face_pair(forward, values)
        residuals = [*(values[i] for i in rules.kept), *residuals]
        inexact = [is_inexact(out) for out in outs]

        def pull(gs: Values) -> Values:
            given = tuple(g is not None and flag for g, flag in zip(gs, inexact, strict=True))
            backward, found = rules.backward(given)
            moved = [g for g, flag in zip(gs, given, strict=True) if flag]
            cotangents = iter(at_face(backward, [*residuals, *moved]))
            return [next(cotangents) if flag else None for flag in found]

        return outs, pull

    def forward(self, level: Trace, values: Values, tangents: Values) -> tuple[Values, Values]:
        """Returns the outputs and their tangents; None for one that has none."""
        given = tuple(t is not None for t in tangents)
        push, found = self.once(("pushed", given), lambda: self.pushed(given))
        with under(level):
            outs = at_face(push, [*values, *(t for t in tangents if t is not None)])
        moved = iter(outs[len(found) :])
        return outs[: len(found)], [next(moved) if flag else None for flag in found]

    def outputs(self) -> list[Any]:
        """Returns the types of the outputs."""
        return list(self.infer(*(x.type for x in self.inputs)))  # type: ignore[misc]

    def on_buffers(self, buffers: Sequence[Any]) -> Values:
        """Computes the outputs as buffers, of buffers."""
        raise NotImplementedError

    def _evaluated(self, values: Values) -> Values:
        return [wrap(out) for out in self.on_buffers([to_buffer(x) for x in values])]


def weak_inputs(inputs: Sequence[Variable], values: Sequence[Any]) -> Values:
    """Returns values for a body's inputs: for a weak scalar a Python scalar, where it is known."""
    return [
        x.type.weak(v) if x.type.weak and not isinstance(v, Tracer) else v
        for x, v in zip(inputs, values, strict=True)
    ]
