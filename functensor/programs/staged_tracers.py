"""The tracers of staging: values that depend on its inputs, and values that wait to be computed.

A value that depends on no input is a constant. A small one is computed while the function is
staged. A large one would cost the time and the memory that staging is to spare, and is computed in
every run of the program. Meanwhile it is *known*: it is computed as soon as Python asks for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from ..backends.notebook_cells import with_cells_named
from ..primitives.core.array import Array, Tracer
from ..primitives.core.errors import function_name
from ..primitives.core.primitive import Primitive
from ..primitives.core.shape_dtype import ShapeDtype, are_small_constants
from ..primitives.core.trace import RAW, Trace, under
from ..traces.forward import depends_on
from .program import Equation, Variable, used
from .python_numbers import TracedNumberOperators
from .staging_warnings import warn_of_text

if TYPE_CHECKING:
    from ..backends.annotations import DType
    from ..primitives.core.annotations import Value

__all__ = ["KnownTracer", "StagedTracer", "is_at_once", "known_tracer", "replayed"]

# Their results are views of the constant, which cost neither time nor memory.
CHEAP_VIEWS = frozenset({"broadcast_to", "flip", "transpose"})


class StagedTracer(TracedNumberOperators, Tracer):
    """A value of which only the shape and dtype are known."""

    __slots__ = ("owner", "variable")

    variable: Variable
    concrete = False

    @property
    def shape(self) -> tuple[int, ...]:
        return self.variable.type.shape

    @property
    def dtype(self) -> DType:
        return self.variable.type.dtype

    @property
    def device(self) -> str:
        return self.variable.device

    def origin(self) -> str:
        for equation in self.owner.equations:
            if self.variable in equation.outputs:
                return f"made by {equation.primitive.name} at {equation.line}"
        return "an input" if self.variable in self.owner.paths else "made by staging"

    def __repr__(self) -> str:
        warn_of_text(self)
        return super().__repr__()

    __str__ = __repr__

    def dependence(self) -> str:
        return depends_on(self.owner.names_of(self.variable), exactly=True)


class KnownTracer(StagedTracer):
    """A value that depends on no input of the program, and is computed when Python asks for it.

    Attributes:
        found: the value, once it was asked for; None before.
        source: a known value of an outer program that it is the same as; None where it is none.
    """

    __slots__ = ("found", "source")

    found: Value | None
    source: KnownTracer | None
    concrete = True
    lazy = True

    @property
    def value(self) -> Value:
        """The value at the level of the trace's parent; it is computed once."""
        if self.found is None:
            source = self.source
            self.found = replayed(self, self.owner.parent) if source is None else source.value
        return self.found

    def constant(self) -> Value | None:
        """Returns the value if it was computed already and is small, or None."""
        found = self.found
        return found if type(found) is Array and are_small_constants(self.variable.type) else None


def known_tracer(trace: Any, variable: Variable, source: KnownTracer | None = None) -> KnownTracer:
    """Returns the tracer of a variable of a staging trace whose value is known."""
    out = object.__new__(KnownTracer)
    out.owner = trace
    out.variable = variable
    out.found = None
    out.source = source
    if not trace.known:
        trace.known = WeakValueDictionary()
    trace.known[variable] = out
    return out


def replayed(tracer: KnownTracer, level: Trace) -> Any:
    """Returns a known value at a level: staged under a trace, or computed if that is ``RAW``.

    Below its own trace, the values that it is made of are remembered as well, for as long as
    anybody holds them.
    """
    trace = tracer.owner
    below = level is trace.parent
    needed = {tracer.variable}
    env: dict[Variable, Any] = {}
    equations: list[Equation] = []
    for equation in reversed(trace.equations):
        if needed.isdisjoint(equation.outputs):
            continue
        equations.append(equation)
        for variable in used(equation.operands):
            holder = trace.known.get(variable)
            if holder is not None and below and holder.found is not None:
                env[variable] = holder.found
            elif holder is not None and holder.source is not None:
                env[variable] = holder.value if below else holder.source
            else:
                needed.add(variable)
    uses = Counter(x for equation in equations for x in used(equation.operands))
    with under(None if level is RAW else level):
        for equation in reversed(equations):
            operands = [env[x] if type(x) is Variable else x for x in equation.operands]
            outs = applied(equation, operands, trace)
            for variable, out in zip(equation.outputs, outs, strict=True):
                env[variable] = out
                holder = trace.known.get(variable) if below else None
                if holder is not None and holder.found is None:
                    holder.found = out
            for variable in used(equation.operands):
                uses[variable] -= 1
                if not uses[variable] and variable is not tracer.variable:
                    del env[variable]
    return env[tracer.variable]


def applied(equation: Equation, operands: Sequence[Any], trace: Trace) -> Sequence[Any]:
    """Returns the outputs of an equation; an error tells at which of the user's lines it stands."""
    try:
        return equation.apply(operands)
    except Exception as error:
        if equation.line:
            name = function_name(trace.fun)
            # The line that asks for the value is not the one that computes it.
            notes = getattr(error, "__notes__", [])
            error.__notes__ = [note for note in notes if not note.startswith("  in ")]
            told = equation.primitive.told_as or equation.primitive.name
            note = f"in {told} of {name}, at {equation.line}"
            error.add_note(with_cells_named(note))
        raise


def is_at_once(primitive: Primitive, types: Sequence[ShapeDtype], out: ShapeDtype) -> bool:
    """Says whether an operation of constants is done while staging: it is a view or a small one.

    ``types`` are those of its operands, and ``out`` is that of its result.
    """
    if primitive.name in CHEAP_VIEWS or (primitive.name == "index" and len(types) == 1):
        return True
    return are_small_constants(out, *types)
