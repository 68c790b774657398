"""Calls whose derivatives and batches are calls again, among them the call of a program.

So a staged function stays one operation under every transformation. Loops and branches are such
calls too, in ``functensor/control``.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from ..custom.call import CustomCall, InlinedCall, Pullback, at_face_pair
from ..primitives.core.annotations import Values
from ..primitives.core.trace import Trace, at_face, slot, under
from ..programs.named_scope import active_scope, scoped
from ..programs.program import Program, Variable, type_of
from ..programs.staging import StagingTrace
from ..traces.reverse import is_inexact
from .compile import compiled, is_planned
from .program_derivatives import (
    Flags,
    is_differentiable,
    mapped,
    pulled_program,
    pushed_program,
)
from .recorded_program import RecordedProgram, spread

if TYPE_CHECKING:
    from ..primitives.core.shape_dtype import ShapeDtype

__all__ = ["DerivedCall", "Flags", "Flat", "ProgramCall", "Rules", "result_types", "spread"]

# A function of a flat list, which returns one.
Flat: TypeAlias = Callable[[Values], Values]


def result_types(program: Program) -> list[ShapeDtype]:
    """Returns the types of a program's outputs as results, which are arrays."""
    return [type_of(out).strong() for out in program.outputs]


class Rules:
    """Reverse mode of a call.

    Args:
        count: how many outputs there are.
        forward: returns, of the operands, the outputs and behind them residuals.
        kept: the numbers of the operands that the way back needs too, and behind the operands of
            the outputs.
        backward: returns, for flags of the outputs that have a cotangent, a function of what is
            kept, the residuals and those cotangents, which returns cotangents of operands; and for
            every operand whether it does.
        state: returns which hooks see the way back, which depends on them.
    """

    def __init__(
        self,
        count: int,
        forward: Flat,
        kept: Sequence[int],
        backward: Callable[[Flags], tuple[Flat, Sequence[bool]]],
        state: Callable[[], Hashable] = tuple,
    ) -> None:
        self.count = count
        self.forward = forward
        self.kept = list(kept)
        self._backward = backward
        self._state = state
        self._known: dict[Any, tuple[Flat, Sequence[bool]]] = {}

    def backward(self, given: Flags) -> tuple[Flat, Sequence[bool]]:
        """Returns the way back for the outputs that have a cotangent; made once."""
        key = given, self._state()
        if key not in self._known:
            self._known[key] = self._backward(given)
        return self._known[key]


class DerivedCall(CustomCall):
    """A call whose derivatives and batches are calls, made once for each choice of operands.

    Attributes:
        inputs: variables like the operands.
        derived: the rules and calls that were made of it.
    """

    inputs: Sequence[Variable]
    derived: dict[Any, Any]

    def __getstate__(self) -> dict[str, Any]:
        """Returns what is pickled and copied: rules and calls are derived anew."""
        return {**vars(self), "derived": {}}

    def pushed(self, given: Flags) -> tuple[Flat, Sequence[bool]]:
        """Returns forward mode.

        Args:
            given: for every operand whether it has a tangent.

        Returns:
            A function of the operands and those tangents, which returns the outputs and tangents
            of outputs; and for every output whether there is one.
        """
        raise NotImplementedError

    def pulled(self, wanted: Flags) -> Rules | None:
        """Returns reverse mode, for the operands whose cotangents are wanted.

        None says that no output has a derivative by them.
        """
        raise NotImplementedError

    def mapped(self, flags: Flags, size: int, axis_name: Hashable) -> CustomCall:
        """Returns the call for a batch; see `Call.batched`."""
        raise NotImplementedError

    def once(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """Returns a rule or a call that was made before, or makes it."""
        if key not in self.derived:
            self.derived[key] = make()
        return self.derived[key]

    def reverse(
        self, level: Trace, values: Values, wanted: Sequence[bool]
    ) -> tuple[Values, Callable[[Values], Values]]:
        """Returns the outputs and the function that pulls cotangents back."""
        pairs = zip(wanted, self.inputs, strict=True)
        chosen = tuple([flag and is_differentiable(x) for flag, x in pairs])
        rules = self.once(("rules", chosen), lambda: self.pulled(chosen))
        if rules is None:
            with under(level):
                return at_face(self.bind, values), lambda gs: [None] * len(chosen)

        def forward(values: Values) -> tuple[Values, Values]:
            found = rules.forward(values)
            return found[: rules.count], found[rules.count :]

        with under(level):
            outs, more = at_face_pair(forward, values)
        scope = active_scope()
        known = [*values, *outs]
        residuals = [*[known[i] for i in rules.kept], *more]
        inexact = [is_inexact(out) for out in outs]

        def pull(kept: Values, gs: Values) -> Values:
            given = tuple([g is not None and flag for g, flag in zip(gs, inexact, strict=True)])
            backward, found = rules.backward(given)
            moved = [g for g, flag in zip(gs, given, strict=True) if flag]
            with scoped(scope):
                return spread(at_face(backward, [*kept, *moved]), found)

        return outs, Pullback(pull, residuals)

    def forward(self, level: Trace, values: Values, tangents: Values) -> tuple[Values, Values]:
        """Returns the outputs and their tangents; None for one that has none."""
        given = tuple([t is not None for t in tangents])
        push, found = self.once(("push", given), lambda: self.pushed(given))
        with under(level):
            outs = at_face(push, [*values, *(t for t in tangents if t is not None)])
        return outs[: len(found)], spread(outs[len(found) :], found)

    def parted(self, level: Trace, values: Values, tangents: Values) -> tuple[Values, Values]:
        """Does what `forward` does, by a call for the outputs and another one for the tangents."""
        with under(level):
            outs = at_face(self.bind, values)
        return outs, DerivedCall.forward(self, level, values, tangents)[1]

    def batched(self, flags: Sequence[bool], size: int, axis_name: Hashable = None) -> CustomCall:
        """Returns the same for a batch."""
        key = "batched", tuple(flags), size, axis_name
        made: CustomCall = self.once(key, lambda: self.mapped(tuple(flags), size, axis_name))
        return made


class ProgramCall(DerivedCall):
    """A call of a program, on a flat list of arrays.

    Args:
        program: the program.
        name: the name of the function that was jitted; by default the program's.
    """

    dissolves = True
    program: Program

    def __init__(self, program: Program, name: str = "") -> None:
        super().__init__(name or program.name, self._evaluated)
        self.program = program
        self.inputs = program.inputs
        self.derived = program.derived

    def bind(self, operands: Sequence[Any]) -> Values:
        """Applies the call at the level of the current trace."""
        trace = slot.trace
        staging = isinstance(trace, StagingTrace) and not trace.keeps_calls
        if trace is not None and (trace.interceptor or staging):
            # Hooks see every operation, and a program that is being staged takes them in.
            return self.program.run(operands)
        return super().bind(operands)

    def infer(self, *types: ShapeDtype) -> list[ShapeDtype]:
        """Returns the outputs' types."""
        return result_types(self.program)

    def _evaluated(self, values: Values) -> Values:
        return compiled(self.program)(values)

    def forward(self, level: Trace, values: Values, tangents: Values) -> tuple[Values, Values]:
        if not level.linear:
            return super().forward(level, values, tangents)
        # Each operation parts what is computed now from what tangents go through.
        return InlinedCall(self.name, self.program.run).forward(level, values, tangents)

    def pushed(self, given: Flags) -> tuple[Flat, Sequence[bool]]:
        program = pushed_program(self.program, given)
        call = ProgramCall(program, self.name)
        return call.bind, list(map(is_differentiable, self.program.outputs))

    def pulled(self, wanted: Flags) -> Rules:
        parts = pulled_program(self.program, wanted)
        count = len(self.program.outputs)
        own_count = parts.own_count
        kept = [i for i in dict.fromkeys(parts.sources) if i < own_count]
        # Kept operands and outputs come first, then the outputs that the brief program adds.
        residuals = [*kept, *range(own_count, len(self.inputs) + len(parts.brief.outputs))]
        places = {source: number for number, source in enumerate(residuals)}

        def backward(given: Flags) -> tuple[Flat, Sequence[bool]]:
            program, taken, found = parts.backward(given)
            call = ProgramCall(program, self.name)
            chosen = [places[parts.sources[i]] for i in taken]

            def pull(values: Values) -> Values:
                return call.bind([*[values[i] for i in chosen], *values[len(residuals) :]])

            flags = iter(found)
            return pull, [flag and next(flags) for flag in wanted]

        return Rules(count, ProgramCall(parts.brief, self.name).bind, kept, backward, parts.state)

    def buffers_of(self, values: Values) -> list[Any] | None:
        """Returns the buffers of operands as plans take them; None where no plan is known to."""
        if not is_planned(self.program):
            return None
        kinds = [x.type.weak for x in self.inputs]
        return [x if kind is None else kind(x) for x, kind in zip(values, kinds, strict=True)]

    def reached(self, wanted: Flags) -> Flags:
        """Returns for every output whether it has a derivative by the wanted operands."""
        pairs = zip(wanted, self.inputs, strict=True)
        chosen = tuple([flag and is_differentiable(x) for flag, x in pairs])
        return pulled_program(self.program, chosen).reached

    def recorded(self, wanted: Flags) -> RecordedProgram:
        """Returns reverse mode on buffers, for the operands whose cotangents are wanted."""

        def make() -> RecordedProgram:
            pairs = zip(wanted, self.inputs, strict=True)
            chosen = tuple([flag and is_differentiable(x) for flag, x in pairs])
            rules = self.once(("rules", chosen), lambda: self.pulled(chosen))
            parts = pulled_program(self.program, chosen)
            return RecordedProgram(self.program, chosen, parts, rules)

        made: RecordedProgram = self.once(("recorded", wanted), make)
        return made

    def mapped(self, flags: Flags, size: int, axis_name: Hashable) -> CustomCall:
        nowhere = (False,) * len(self.program.outputs)
        program, out_flags = mapped(self.program, flags, nowhere, size, axis_name)
        call = ProgramCall(program, self.name)
        call.out_flags = out_flags
        return call
