"""The call of a program: how a staged function lives under every transformation.

Forward mode, reverse mode and batches of a call are calls of programs again.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

from ..custom.call import CustomCall, at_face_pair
from ..primitives.core.annotations import Values
from ..primitives.core.trace import Trace, at_face, slot, under
from ..programs.named_scope import active_scope, scoped
from ..programs.program import Program, type_of
from ..programs.staging import StagingTrace
from .compile import compiled
from .program_derivatives import is_differentiable, mapped, pulled_program, pushed_program

if TYPE_CHECKING:
    from ..primitives.core.shape_dtype import ShapeDtype

__all__ = ["ProgramCall"]


class ProgramCall(CustomCall):
    """A call of a program, on a flat list of arrays.

    Args:
        program: what is called.
    """

    dissolves = True
    program: Program

    def __init__(self, program: Program) -> None:
        super().__init__(program.name, self._evaluated)
        self.program = program

    def bind(self, operands: Sequence[Any]) -> Values:
        """Applies the call at the level of the current trace."""
        trace = slot.trace
        if trace is not None and (trace.interceptor or isinstance(trace, StagingTrace)):
            # Hooks see every operation, and a program that is being staged takes them in.
            return self.program.run(operands)
        return super().bind(operands)

    def infer(self, *types: ShapeDtype) -> list[Any]:
        """Returns the outputs' types."""
        return [type_of(out).strong() for out in self.program.outputs]

    def _evaluated(self, values: Values) -> Values:
        return compiled(self.program)(values)

    def reverse(self, level: Trace, values: Values, wanted: Sequence[bool]) -> tuple[Values, Any]:
        """Returns the outputs and the function that pulls cotangents back."""
        program = self.program
        chosen = tuple(
            flag and is_differentiable(x) for flag, x in zip(wanted, program.inputs, strict=True)
        )
        parts = pulled_program(program, chosen)
        count = len(program.outputs)

        def forward(values: Values) -> tuple[Values, Values]:
            found = ProgramCall(parts.brief).bind(values)
            return found[:count], found[count:]

        with under(level):
            outs, more = at_face_pair(forward, values)
        scope = active_scope()
        known = [*values, *outs, *more]
        residuals = [known[i] for i in parts.sources]

        def pull(gs: Values) -> Values:
            given = tuple(
                g is not None and is_differentiable(out)
                for g, out in zip(gs, program.outputs, strict=True)
            )
            backward, taken, found = parts.backward(given)
            operands = [residuals[i] for i in taken]
            operands += [g for g, flag in zip(gs, given, strict=True) if flag]
            with scoped(scope):
                grads = iter(at_face(ProgramCall(backward).bind, operands))
            cotangents = iter([next(grads) if flag else None for flag in found])
            return [next(cotangents) if flag else None for flag in chosen]

        return outs, pull

    def forward(self, level: Trace, values: Values, tangents: Values) -> tuple[Values, Values]:
        """Returns the outputs and their tangents; None for one that has none."""
        given = tuple(t is not None for t in tangents)
        operands = [*values, *(t for t in tangents if t is not None)]
        with under(level):
            found = at_face(ProgramCall(pushed_program(self.program, given)).bind, operands)
        count = len(self.program.outputs)
        moved = iter(found[count:])
        return found[:count], [
            next(moved) if is_differentiable(out) else None for out in self.program.outputs
        ]

    def batched(self, flags: Sequence[bool], size: int, axis_name: Hashable = None) -> CustomCall:
        """Returns the same for a batch."""
        nowhere = (False,) * len(self.program.outputs)
        program, out_flags = mapped(self.program, tuple(flags), nowhere, size, axis_name)
        call = ProgramCall(program)
        call.out_flags = out_flags
        return call
