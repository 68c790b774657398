"""Staging: a function is run on shapes and dtypes alone, and becomes a program.

A program is a list of typed equations in order; ``jit`` makes a plan of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any

from numpy import array_equal, ndarray

from ..backends.devices import placement
from ..functions.argument_names import argument_name, positional_names
from ..functions.wrapping import transformed
from ..primitives.core.annotations import Number, Value
from ..primitives.core.annotations import operations as ops
from ..primitives.core.array import Array, Tracer, unknown_behind
from ..primitives.core.array_likes import is_array_like
from ..primitives.core.augmented_assignment import VIEWS
from ..primitives.core.buffers import WEAK_TYPES, exposed, is_changeable, to_buffer, wrap
from ..primitives.core.errors import MissingRuleError, function_name
from ..primitives.core.primitive import Primitive
from ..primitives.core.primitive_like import Call, PrimitiveLike
from ..primitives.core.python_numbers import as_python_number
from ..primitives.core.shape_dtype import (
    CONSTANT_BYTES,
    INEXACT,
    ShapeDtype,
    are_small_constants,
    shape_dtype,
)
from ..primitives.core.trace import RAW, Trace, as_written, base_trace, run, under
from ..tree import TreeDef
from ..tree import containers as tree
from .costs import cost_of
from .index_tests import with_index_tests
from .live_equations import live_equations
from .program import (
    Equation,
    Operand,
    Program,
    Variable,
    argument_type,
    type_of,
    used,
)
from .python_numbers import python_type_of
from .source_lines import Origins
from .staged_tracers import KnownTracer, StagedTracer, is_at_once, known_tracer
from .staged_types import StagedTypes

if TYPE_CHECKING:
    from ..backends.annotations import Buffer

__all__ = ["StagedTracer", "StagingTrace", "eval_shape", "make_program"]


def staged_inputs(trace: StagingTrace, arguments: tuple[Any, Any]) -> tuple[list[Any], Any]:
    """Returns an input for every leaf of the arguments, and their structure.

    Raises:
        TypeError: a leaf is neither an array nor a ``ShapeDtype``; the message names it.
    """
    leaves, treedef = tree.flatten_with_path(arguments)
    for path, leaf in leaves:
        if not isinstance(leaf, ShapeDtype) and not is_array_like(leaf):
            raise TypeError(
                f"{trace.name} of {function_name(trace.fun)}: argument {path[1].value!r}"
                f"{tree.keystr(path[2:])} is of type {type(leaf).__name__}, not an array; "
                f"{argument_advice(leaf, trace.name)}"
            )
    values = [leaf for _, leaf in leaves]
    places = [x.device if isinstance(x, Array) else trace.device for x in values]
    types = [argument_type(x) for x in values]
    inputs = [trace.input(*known) for known in zip(types, places, strict=True)]
    trace.paths = {x.variable: path for x, (path, _) in zip(inputs, leaves, strict=True)}
    return inputs, treedef


def argument_advice(leaf: Any, name: str) -> str:
    """Returns what to do with an argument of a transformation that is no array."""
    if isinstance(leaf, Iterator):
        return "it can be walked through once only: pass a list"
    if isinstance(leaf, dict | list | tuple):
        return "make its class a tree by ft.tree.register, or pass a plain dict, list or tuple"
    if name == "jit":
        return "make it static, static_argnums= or static_argnames=, or close over it"
    return "close over what is not an array"


class StagingTrace(Trace):
    """Records the equations of all that depends on its inputs, and of constants that are large.

    Operations of constants are done at once where their operands and results are small. Large ones
    are recorded too, so that staging takes neither the time nor the memory of them; their values
    are known nevertheless, and are computed, under the parent, if Python asks for them.

    Attributes:
        equations: what was recorded so far.
        known: the tracers of known values that anybody still holds, by their variables.
        origins: the user's lines of those.
        paths: those of its inputs within ``(args, kwargs)``, for messages.
        device: where what depends on no array of a known device is put.
        types: the types of what it records.
        gradients: the variables that are what ``grad`` and its kin returned, with those at which
            they were taken, if these are variables.
        given: the inputs that were given gradients, with the input at whose value each was taken,
            and a weak reference to the gradient itself.
        of_python: whether what is computed of numbers of Python's alone is one: by operators of
            Python's, and where a program is staged again.
        copies: plain arrays that are constants, and copies of them, by their ids.
        calls_hooks: whether the program calls the hooks that see its operations.
        runs_again: whether the caller does without the program where it proves wrong for a hook.
        order: what the last call that has an effect returned for the next one; None without one.
        keeps_calls: whether calls of jitted functions stay calls, for pictures.
        replaced: whether a hook that is compiled in has replaced a value.
    """

    __slots__ = (
        *("calls_hooks", "copies", "device", "equations", "given", "gradients", "keeps_calls"),
        *("known", "of_python", "order", "origins", "paths", "replaced", "runs_again", "types"),
    )

    staging = True

    def __init__(self, parent: Trace, name: str, fun: Callable[..., Any] | None) -> None:
        super().__init__(parent, name, fun)
        self.equations: list[Equation] = []
        self.known: MutableMapping[Variable, KnownTracer] = {}
        self.origins = Origins()
        self.paths: dict[Variable, Any] = {}
        self.device = placement.device
        self.types = StagedTypes()
        self.gradients: dict[Variable, Variable | None] = {}
        self.given: dict[Variable, tuple[Variable, Any]] = {}
        self.keeps_calls = False
        self.of_python = False
        self.copies: dict[int, tuple[Any, Any]] = {}
        self.order: Variable | None = None
        self.calls_hooks = True
        self.replaced = self.runs_again = False

    def note_gradients(self, leaves: Sequence[Any], gradients: Sequence[Any]) -> None:
        def variable(x: Any) -> Any:
            return x.variable if type(x) is StagedTracer and x.owner is self else None

        found = zip(map(variable, gradients), map(variable, leaves), strict=True)
        self.gradients.update(pair for pair in found if pair[0] is not None)

    def gradient_among(
        self, inputs: Sequence[Any], outputs: Sequence[Any]
    ) -> tuple[int, int] | None:
        """Returns the numbers of an input and of an output that is the gradient taken at it."""
        places = {variable: i for i, variable in enumerate(inputs)}
        for j, out in enumerate(outputs):
            at = self.gradients.get(out) if isinstance(out, Variable) else None
            if at is not None and at in places:
                return places[at], j
        return None

    def reached(self, variable: Variable) -> set[Variable]:
        """Returns all variables that a variable depends on."""
        reached = {variable}
        for equation in reversed(self.equations):
            if not reached.isdisjoint(equation.outputs):
                reached.update(used(equation.operands))
        return reached

    def sources(self, variable: Variable) -> dict[Variable, Any]:
        """Returns the inputs that a variable depends on, with their paths."""
        reached = self.reached(variable)
        return {v: path for v, path in self.paths.items() if v in reached}

    def views(self, variable: Variable) -> set[Variable]:
        """Returns the variables of which NumPy's arrays would make a variable a view."""
        reached = {variable}
        for equation in reversed(self.equations):
            if equation.outputs[0] in reached and equation.primitive.name in VIEWS:
                reached.update(used(equation.operands[:1]))
        return reached

    def names_of(self, variable: Variable) -> list[str]:
        """Returns what messages call the inputs that a variable depends on."""
        names = positional_names(self.fun)
        paths = self.sources(variable).values()
        return [argument_name(names, path[1].value, path[2:]) for path in paths]

    def static_option(self, tracer: StagedTracer) -> str:
        """Returns the option of ``jit`` with which a value would be known, for messages.

        Empty where there is none: only an argument that is a number of Python's can be static, and
        what an outer transformation traces is not known either way.
        """
        sources = self.sources(tracer.variable)
        if len(sources) != 1 or self.parent is not RAW:
            return ""
        [(variable, path)] = sources.items()
        if len(path) != 2 or not variable.type.weak:
            return ""
        place = path[1].value
        return f"static_argnums={place}" if isinstance(place, int) else f'static_argnames="{place}"'

    def input(self, type: ShapeDtype, device: str | None = None) -> StagedTracer:
        """Returns the tracer of a new variable."""
        out = object.__new__(StagedTracer)
        out.owner = self
        out.variable = Variable(self.types.kept(type), device or self.device)
        return out

    def tracer(self, x: Variable) -> StagedTracer:
        """Returns another tracer of a variable."""
        out = object.__new__(StagedTracer)
        out.owner = self
        out.variable = x
        return out

    def operand(self, x: Value) -> Operand:
        """Returns the variable of one of this trace's tracers, or a constant."""
        if type(x) is StagedTracer and x.owner is self:
            return x.variable
        if type(x) is KnownTracer and x.owner is self:
            found = x.constant()
            return x.variable if found is None else found
        return wrap_constant(self.lift(self.kept(x) if type(x) is ndarray else x))

    def kept(self, x: Buffer) -> Any:
        """Returns a plain array as a constant, which must not change with it: one for all uses."""
        if not x.ndim or not is_changeable(x):
            return x
        known, copy = self.copies.get(id(x), (None, None))
        if known is not x or not array_equal(x, copy, equal_nan=x.dtype.kind in INEXACT):
            copy = x.copy()
            copy.flags.writeable = False
            self.copies[id(x)] = x, copy
        return copy

    def place(self, operands: Sequence[Any]) -> str:
        """Returns where the result of operands will be: numbers go where arrays are."""
        found = self.device
        numbers = False
        for x in operands:
            if type(x) is Variable:
                if x.type.shape:
                    return x.device
                if x.type.weak:
                    continue
            elif not isinstance(x, Array):
                continue
            elif x.shape:
                return x.device
            if not numbers or found == "cpu":
                found = x.device
                numbers = True
        return found

    def record(
        self,
        primitive: PrimitiveLike,
        operands: Sequence[Any],
        params: dict[str, Any],
        types: Sequence[ShapeDtype],
    ) -> list[Any]:
        """Adds an equation and returns its outputs' tracers."""
        device = params.get("device") if params else None
        if device is None:
            device = self.device if primitive.creates else self.place(operands)
        outs = []
        variables = []
        for type in types:
            # As `input` does, without a call for every operation.
            out = object.__new__(StagedTracer)
            out.owner = self
            out.variable = variable = Variable(type, device)
            outs.append(out)
            variables.append(variable)
        line, scope = self.origins.note()
        self.equations.append(Equation(primitive, operands, params, variables, line, scope))
        return outs

    def process(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        operands: list[Any] = []
        given: list[ShapeDtype] = []
        known = True
        for a in args:
            x = a.variable if type(a) is StagedTracer and a.owner is self else self.operand(a)
            operands.append(x)
            if type(x) is Variable:
                given.append(x.type)
                known = False
            else:
                given.append(self.types.kept(shape_dtype(x)))
        if known:
            out_type = self.deferred(primitive, operands, given, params)
            if out_type is None:
                return wrap(self.below(primitive, [self.lift(x) for x in operands], params))
        else:
            out_type = self.types.inferred(primitive, given, params)
            known = bool(self.known) and self.knows(args, operands)
        if known and primitive.collective and self.waits(primitive, params):
            # Whoever asked for the value would wait for other processes.
            known = False
        out = self.record(primitive, operands, params, (out_type,))[0]
        functional = out_type.weak and not self.of_python and base_trace() is self
        if functional and all(map(python_type_of, args)):
            # As when it is evaluated: np.sin(2.0) is an array, where 2.0 * 2.0 is a number.
            strong = {"dtype": out_type.dtype}
            out = self.record(ops["astype"], [out.variable], strong, [out_type.strong()])[0]
        return known_tracer(self, out.variable) if known else out

    def custom(self, call: Call, args: Sequence[Any]) -> list[Any]:
        operands = [self.operand(a) for a in args]
        variables = used(operands)
        if not variables and any(isinstance(x, Tracer) for x in operands):
            return self.done(call, operands)
        if call.dissolves and not self.keeps_calls:
            with under(self):
                return call.program.run(args)  # type: ignore[no-any-return]
        seen = call.effect or call.collective
        known = not seen and (not variables or self.knows(args, operands))
        if call.infer is not None:
            given = list(map(type_of, operands))
            types = list(map(self.types.kept, call.infer(*given)))
            if known and not variables and is_light(call) and are_small_constants(*given, *types):
                return self.done(call, operands)
            place = call.device or self.device
            params = {"device": place} if place != self.device else {}
            outs = self.record(call, operands, params, types)
            return [known_tracer(self, x.variable) for x in outs] if known else outs
        if known:
            # Without a derivative there is no need of the rule.
            with under(self):
                outs = call.evaluate(list(map(exposed, args)))
            return [wrap(out) if is_array_like(out) else out for out in outs]
        call.program = self.inner(call, operands)
        types = [self.types.kept(type_of(out).strong()) for out in call.program.outputs]
        return self.record(call, operands, {}, types)

    def done(self, call: Call, constants: Sequence[Any]) -> list[Any]:
        """Does a call's work at once, under the parent."""
        return [wrap(out) for out in self.parent.custom(call, [self.lift(x) for x in constants])]

    def deferred(
        self,
        primitive: Primitive,
        operands: Sequence[Any],
        given: Sequence[ShapeDtype],
        params: dict[str, Any],
    ) -> ShapeDtype | None:
        """Returns the type of what an operation of constants gives, if it is not done at once.

        Operations of values of outer transformations are done by those.
        """
        if any(isinstance(x, Tracer) for x in operands):
            return None
        try:
            out: ShapeDtype = primitive.infer(primitive, *given, **params)
        except MissingRuleError:
            return None
        if primitive.collective and self.waits(primitive, params):
            return out
        return None if is_at_once(primitive, given, out) else out

    def waits(self, primitive: Primitive, params: dict[str, Any]) -> bool:
        """Says whether a collective cannot be done while the program is staged.

        It is of several processes, or over a batch that the program will be in.
        """
        return primitive.exchanges(params) or (self.parent is RAW and bool(params.get("axis_name")))

    def knows(self, args: Sequence[Any], operands: Sequence[Any]) -> bool:
        """Says whether what is computed of arguments depends on none of the inputs."""
        return all(
            type(a) is KnownTracer if type(x) is Variable else unknown_behind(x) is None
            for a, x in zip(args, operands, strict=True)
        )

    def leave(self, tracer: Tracer) -> Value:
        """Returns the value of a tracer that outlived the trace, if it is known.

        Raises:
            EscapedTracerError: it depends on an input, or this is running elsewhere.
        """
        if type(tracer) is not KnownTracer or self.alive:
            return super().leave(tracer)
        value = tracer.value
        return value if isinstance(value, Tracer) else to_buffer(value)

    def inner(self, call: Call, operands: Sequence[Any]) -> Program:
        """Returns the program of what a call computes."""
        inner = StagingTrace(self.parent, call.name, call.evaluate)
        inner.device = self.device
        inner.within = self
        inner.keeps_calls = self.keeps_calls
        given = [inner.input(type_of(x), getattr(x, "device", None)) for x in operands]
        return inner.program(given, run(inner, call.evaluate, (given,)))

    def program(
        self,
        inputs: Sequence[Any],
        outputs: Sequence[Any],
        in_tree: TreeDef | None = None,
        out_tree: TreeDef | None = None,
    ) -> Program:
        """Returns the program that was recorded, without what no output depends on."""
        results = [self.operand(out) for out in outputs]
        live = with_index_tests(self.equations, live_equations(self.equations, results))
        variables = [x.variable for x in inputs]
        out = Program(function_name(self.fun), variables, live, results, in_tree, out_tree)
        out.replaced = self.replaced
        return out


def is_light(call: Call) -> bool:
    """Says whether the bodies that a call runs move no more than a small constant has."""
    if call.trips is None:
        return False
    moved = sum(cost_of(body).bytes for body in call.bodies)
    return call.trips * moved <= CONSTANT_BYTES


def wrap_constant(x: Value) -> Array | Number:
    """Returns a constant as an array; a Python scalar stays one, so that it stays weak."""
    return as_python_number(x) if type(x) in WEAK_TYPES else wrap(x)


def staged_run(trace: StagingTrace, arguments: tuple[Any, Any], hooked: bool = False) -> Any:
    """Runs a function under a staging trace.

    Hooks see what the program runs, but for a program that is ``hooked`` and calls them itself.
    """
    fun = as_written(trace.fun)
    if hooked:
        return run(trace, fun, *arguments)
    with under(None if trace.parent is RAW else trace.parent):
        return run(trace, fun, *arguments)


def make_program(fun: Callable[..., Any]) -> Callable[..., Program]:
    """Returns a function that stages ``fun`` for arguments' shapes and dtypes.

    Args:
        fun: takes and returns trees of arrays.

    Returns:
        A function of the same arguments: arrays, or ``ShapeDtype`` in their place. It returns the
        `Program`, without computing anything that depends on the arguments.

    >>> import functensor as ft, functensor.numpy as np
    >>> print(ft.make_program(lambda x: np.sum(np.sin(x) * 2))(np.ones(3)))
    <lambda>(a: float64[3]):
        b: float64[3] = sin(a)
        c: float64[3] = multiply(b, 2)
        d: float64[] = sum(c, axis=(0,), keepdims=False)
        return d
    """

    def staged(*args: Any, **kwargs: Any) -> Program:
        trace = StagingTrace(base_trace(), "make_program", fun)
        inputs, in_tree = staged_inputs(trace, (args, kwargs))
        out = staged_run(trace, in_tree.unflatten(inputs))
        outputs, out_tree = tree.flatten(out)
        return trace.program(inputs, outputs, in_tree, out_tree)

    return transformed(staged, fun, make_program, fun)


def eval_shape(fun: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Returns the shapes and dtypes of a function's outputs without computing them.

    Args:
        fun: takes and returns trees of arrays.
        args, kwargs: its arguments: arrays, or ``ShapeDtype`` in their place.

    Returns:
        The output's tree of `ShapeDtype`.

    >>> import functensor as ft, functensor.numpy as np
    >>> ft.eval_shape(np.matmul, ft.ShapeDtype((2, 3), "float32"), ft.ShapeDtype((3, 4), "float32"))
    float32[2,4]
    """
    trace = StagingTrace(base_trace(), "eval_shape", fun)
    inputs, in_tree = staged_inputs(trace, (args, kwargs))
    return tree.map(shape_dtype, staged_run(trace, in_tree.unflatten(inputs)))
