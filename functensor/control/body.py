"""Bodies of loops and branches: programs of flat lists, staged from the user's functions.

Values of outer levels that a body uses become inputs of its program, so that those levels can
differentiate and batch the call of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from numpy import ndarray

from ..functions.closure import ClosedOver
from ..functions.type_variables import T
from ..jitting.program_call import Flat
from ..primitives.core.annotations import Value, Values
from ..primitives.core.array import Tracer
from ..primitives.core.buffers import wrap
from ..primitives.core.primitive import Primitive
from ..primitives.core.primitive_like import Call, PrimitiveLike
from ..primitives.core.shape_dtype import ShapeDtype
from ..primitives.core.trace import (
    Trace,
    as_written,
    base_trace,
    is_recalled,
    recalling,
    run,
    under,
    words_for,
)
from ..programs.program import Operand, Program, Variable, argument_type
from ..programs.staged_tracers import KnownTracer, StagedTracer, known_tracer
from ..programs.staging import StagingTrace, wrap_constant
from ..traces.forward import DEPENDENCE
from .carry_types import Carry, as_type

__all__ = ["Body", "known", "run_in_place", "settled_body", "united"]


def known(x: Value) -> bool:
    """Says whether Python may branch on a value, and need not compute it first."""
    while isinstance(x, Tracer):
        if not x.concrete or x.lazy:
            return False
        x = x.value
    return True


def run_in_place(name: str, shown: Any, fun: Callable[..., T]) -> Callable[..., T]:
    """Returns a body that Python runs, not a program.

    Where that is so since a jitted function runs operation by operation, its messages are the same
    as from within the program.

    Args:
        name, shown: what messages call the staging, and the function that they mention.
        fun: the body.
    """
    if not is_recalled():
        return fun
    words = words_for(name, shown)

    def named(*args: Any) -> T:
        with recalling(words):
            return fun(*args)

    return named


class BodyTrace(StagingTrace):
    """Stages a body; values of outer levels are inputs of its program.

    Attributes:
        closed_over: those values, and the tracers of the inputs.
        lazy: whether everything is computed where the body runs. Otherwise the values that do not
            depend on the body's own arguments are computed once, outside.
        names: what messages call its inputs.
    """

    __slots__ = ("closed_over", "lazy", "names")

    def __init__(
        self, parent: Trace, name: str, fun: Callable[..., Any] | None, lazy: bool
    ) -> None:
        super().__init__(parent, name, fun)
        self.closed_over = ClosedOver()
        self.lazy = lazy
        self.names: dict[Variable, str] = {}

    def names_of(self, variable: Variable) -> list[str]:
        reached = self.reached(variable)
        names = [name for x, name in self.names.items() if x in reached]
        for key, mine in self.closed_over.known.items():
            if mine.variable in reached:
                outer = self.closed_over.met[key].dependence()
                names += filter(None, [outer.partition(DEPENDENCE)[2]])
        return list(dict.fromkeys(names))

    def captured(self, x: Tracer) -> StagedTracer:
        """Returns the tracer of a new input for a value of an outer level."""
        mine = self.input(argument_type(x), x.device)
        return known_tracer(self, mine.variable, x) if type(x) is KnownTracer else mine

    def operand(self, x: Value) -> Operand:
        """Returns the variable of a tracer of this or of an outer level, or a constant."""
        if isinstance(x, StagedTracer) and x.owner is self:
            return super().operand(x)
        x = self.lift(self.kept(x) if type(x) is ndarray else x)
        if not isinstance(x, Tracer):
            return wrap_constant(x)
        return self.closed_over.of(x, self.captured).variable  # type: ignore[no-any-return]

    def record(
        self,
        primitive: PrimitiveLike,
        operands: Sequence[Any],
        params: dict[str, Any],
        types: Sequence[ShapeDtype],
    ) -> Values:
        """Adds an equation; values of outer levels that a call closes over are captured too."""
        operands = [self.operand(x) if isinstance(x, Tracer) else x for x in operands]
        return super().record(primitive, operands, params, types)

    def is_outside(self, args: Sequence[Any]) -> bool:
        """Says whether operands are those of an operation that is done outside of the body."""
        return not self.lazy and not any(
            isinstance(a, StagedTracer) and a.owner is self for a in args
        )

    def process(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        if self.is_outside(args):
            return wrap(self.below(primitive, [self.lift(a) for a in args], params))
        return super().process(primitive, args, params)

    def custom(self, call: Call, args: Sequence[Any]) -> Values:
        if self.is_outside(args) and not (call.effect or call.each_time):
            return [wrap(out) for out in self.parent.custom(call, [self.lift(a) for a in args])]
        return super().custom(call, args)


class Body:
    """A function of a flat list, run once on types.

    Args:
        fun: takes a list of arrays and returns one.
        inputs: variables like those that it is staged for.
        name, shown: what messages call the staging, and the function that they mention.
        lazy: as for `BodyTrace`.
        names: what messages call the inputs.

    Attributes:
        outs, types: the outputs of the function, and their types.
    """

    def __init__(
        self,
        fun: Callable[[Values], Values],
        inputs: Sequence[Variable],
        name: str,
        shown: Callable[..., Any] | None,
        lazy: bool = False,
        names: Sequence[str] = (),
    ) -> None:
        self.trace = trace = BodyTrace(base_trace(), name, shown, lazy)
        self.inputs = [trace.input(x.type, x.device) for x in inputs]
        trace.names = {x.variable: name for x, name in zip(self.inputs, names) if name}
        # Hooks that are there while a program is staged see a body's operations, as in a loop of
        # Python's, and not the call of the body.
        self.outs: Values = list(run(trace, as_written(fun), (list(self.inputs),)))
        self.types = [argument_type(out) for out in self.outs]

    def program(self, types: Sequence[ShapeDtype]) -> Program:
        """Returns the program with outputs of given types; its last inputs are captured values."""
        with under(self.trace):
            pairs = zip(self.outs, types, strict=True)
            outs = [as_type(out, wanted) for out, wanted in pairs]
        for out in outs:
            # An output may be such a value itself.
            self.trace.operand(out)
        captured = self.trace.closed_over.known.values()
        return self.trace.program([*self.inputs, *captured], outs)

    def captured(self) -> Values:
        """Returns the values of outer levels that the program takes."""
        return list(self.trace.closed_over.met.values())


def settled_body(
    name: str,
    carry: Carry,
    flat: Flat,
    more: Sequence[Variable],
    fun: Callable[..., Any],
    lazy: bool = False,
) -> Body:
    """Stages a loop's body for the types that its carry settles to; ``more`` are items of xs."""
    names = [*carry.shown_names(), *["xs"] * len(more)]
    while True:
        body = Body(flat, [*carry.variables(), *more], name, fun, lazy, names)
        if not carry.meet(body.types[: len(carry.types)]):
            return body


def united(programs: Sequence[Program], captured: Sequence[Values]) -> tuple[list[Program], Values]:
    """Returns programs that take the same captured values, all that any one takes.

    The last inputs of each program are the values that it captures, which ``captured`` has.
    """
    everything = {id(x): x for values in captured for x in values}
    out = []
    for program, values in zip(programs, captured, strict=True):
        count = len(program.inputs) - len(values)
        mine = dict(zip(map(id, values), program.inputs[count:], strict=True))
        more = [
            mine.get(key) or Variable(argument_type(x), x.device) for key, x in everything.items()
        ]
        inputs = [*program.inputs[:count], *more]
        out.append(Program(program.name, inputs, program.equations, program.outputs))
    return out, list(everything.values())
