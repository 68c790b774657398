"""Staging: a function is run on shapes and dtypes alone, and becomes a program.

A program is a list of typed equations in order. It can be printed, checked and run; it is what
jit will compile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from . import tree
from .arguments import is_array_like
from .backends.devices import placement
from .forward import depends_on
from .primitives.array import Array, Tracer
from .primitives.buffers import wrap
from .primitives.core import RAW, Trace, base_trace, run, under
from .primitives.errors import describe, function_name
from .primitives.primitive import Primitive
from .primitives.types import ShapeDtype, shape_dtype

__all__ = ["Equation", "Program", "StagingTrace", "Variable", "eval_shape", "make_program"]


class Variable:
    """A value of a program, known by its shape and dtype."""

    __slots__ = ("type",)

    def __init__(self, type: ShapeDtype) -> None:
        self.type = type


class Equation:
    """One operation of a program: ``outputs = primitive(*operands, **params)``.

    Attributes:
        primitive: the primitive, or a function with a custom derivative rule.
        operands: variables, and constants: arrays and Python scalars.
        params: the static parameters.
        outputs: the variables that it defines.
    """

    __slots__ = ("operands", "outputs", "params", "primitive")

    def __init__(
        self,
        primitive: Any,
        operands: Sequence[Any],
        params: dict[str, Any],
        outputs: Sequence[Variable],
    ) -> None:
        self.primitive = primitive
        self.operands = tuple(operands)
        self.params = params
        self.outputs = tuple(outputs)

    def apply(self, values: Sequence[Any]) -> Sequence[Any]:
        """Computes the outputs, at whatever level the slot is."""
        if isinstance(self.primitive, Primitive):
            return (self.primitive.bind(values, self.params),)
        return self.primitive.bind(values)  # type: ignore[no-any-return]


class Program:
    """A staged function.

    Attributes:
        name: the name of the function.
        inputs: a variable for each leaf of the arguments.
        equations: what is computed, in order.
        outputs: variables and constants, one for each leaf of the result.
    """

    __slots__ = ("_in_tree", "_last_use", "_out_tree", "equations", "inputs", "name", "outputs")

    def __init__(
        self,
        name: str,
        inputs: Sequence[Variable],
        equations: Sequence[Equation],
        outputs: Sequence[Any],
        in_tree: Any = None,
        out_tree: Any = None,
    ) -> None:
        self.name = name
        self.inputs = tuple(inputs)
        self.equations = tuple(equations)
        self.outputs = tuple(outputs)
        self._in_tree = in_tree
        self._out_tree = out_tree
        # After which equation each variable is let go.
        self._last_use: dict[Variable, int] = {}
        for number, equation in enumerate(self.equations):
            used = (x for x in equation.operands if isinstance(x, Variable))
            self._last_use.update((x, number) for x in used)
        for out in self.outputs:
            if isinstance(out, Variable):
                self._last_use.pop(out, None)
        self.check()

    def check(self) -> None:
        """Checks that every variable is defined once and before it is used, with its type.

        Raises:
            ValueError: an equation breaks that.
        """
        defined = set(self.inputs)
        for number, equation in enumerate(self.equations):
            for operand in equation.operands:
                if isinstance(operand, Variable) and operand not in defined:
                    raise ValueError(f"{self.name}: equation {number} uses an undefined variable")
            if isinstance(equation.primitive, Primitive):
                types = [_type_of(x) for x in equation.operands]
                got = equation.primitive.infer(equation.primitive, *types, **equation.params)
                if got != equation.outputs[0].type:
                    raise ValueError(
                        f"{self.name}: equation {number}, {equation.primitive.name}, gives {got}, "
                        f"but its variable is {equation.outputs[0].type}"
                    )
            if not defined.isdisjoint(equation.outputs):
                raise ValueError(f"{self.name}: equation {number} defines a variable again")
            defined.update(equation.outputs)
        if any(isinstance(out, Variable) and out not in defined for out in self.outputs):
            raise ValueError(f"{self.name}: an output is undefined")

    def run(self, values: Sequence[Any]) -> list[Any]:
        """Computes the outputs of a flat list of inputs; transformations apply."""
        env: dict[Any, Any] = dict(zip(self.inputs, values, strict=True))
        for number, equation in enumerate(self.equations):
            operands = [env[x] if isinstance(x, Variable) else x for x in equation.operands]
            env.update(zip(equation.outputs, equation.apply(operands), strict=True))
            for operand in equation.operands:
                if isinstance(operand, Variable) and self._last_use.get(operand) == number:
                    env.pop(operand, None)
        return [env[out] if isinstance(out, Variable) else out for out in self.outputs]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Computes the function that was staged, on arguments of the same structure and types."""
        leaves, treedef = tree.flatten((args, kwargs))
        if treedef != self._in_tree:
            raise TypeError(f"{self.name} was staged for {self._in_tree}, not {treedef}")
        for leaf, variable in zip(leaves, self.inputs, strict=True):
            if argument_type(leaf) != variable.type:
                raise TypeError(
                    f"{self.name} was staged for {variable.type}, not {argument_type(leaf)}"
                )
        return self._out_tree.unflatten(self.run(leaves))

    def __str__(self) -> str:
        names: dict[Any, str] = {}
        for variable in self.inputs:
            names[variable] = _letters(len(names))
        signature = ", ".join(f"{names[v]}: {v.type}" for v in self.inputs)
        lines = [f"{self.name}({signature}):"]
        for equation in self.equations:
            for variable in equation.outputs:
                names[variable] = _letters(len(names))
            defined = ", ".join(f"{names[v]}: {v.type}" for v in equation.outputs)
            used = ", ".join(_shown(x, names) for x in equation.operands)
            given = {key: value for key, value in equation.params.items() if value is not None}
            static = "".join(f", {key}={value}" for key, value in given.items())
            lines.append(f"    {defined} = {equation.primitive.name}({used}{static})")
        lines.append("    return " + ", ".join(_shown(x, names) for x in self.outputs))
        return "\n".join(lines)

    __repr__ = __str__


def argument_type(x: Any) -> ShapeDtype:
    """Returns what a leaf of the arguments is known by; tracers of weak scalars are weak."""
    inner = x
    while isinstance(inner, Tracer):
        if isinstance(inner, StagedTracer):
            type_ = inner.variable.type
            return type_ if type_.weak else shape_dtype(x)
        inner = inner.value
    return shape_dtype(inner if type(inner) in (float, int, bool, complex) else x)


def inputs_of(trace: StagingTrace, arguments: tuple[Any, Any]) -> tuple[list[Any], Any]:
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
                "close over what is not an array"
            )
    places = {leaf.device for _, leaf in leaves if isinstance(leaf, Array) and leaf.shape}
    if len(places) == 1:
        (trace.device,) = places
    inputs = [trace.input(argument_type(leaf)) for _, leaf in leaves]
    trace.paths = {x.variable: path for x, (path, _) in zip(inputs, leaves, strict=True)}
    return inputs, treedef


def _type_of(x: Any) -> ShapeDtype:
    return x.type if isinstance(x, Variable) else shape_dtype(x)


def _shown(x: Any, names: dict[Any, str]) -> str:
    """Returns how an operand is printed: a name, a number, or a constant's type."""
    if isinstance(x, Variable):
        return names[x]
    known = shape_dtype(x)
    return str(x) if known.shape == () and not isinstance(x, Tracer) else f"<{describe(x)}>"


def _letters(number: int) -> str:
    """Returns a, b, ..., z, ba, bb, ...: numbers of base 26 in letters."""
    name = chr(ord("a") + number % 26)
    while number >= 26:
        number //= 26
        name = chr(ord("a") + number % 26) + name
    return name


class StagedTracer(Tracer):
    """A value of which only the shape and dtype are known."""

    __slots__ = ("owner", "variable")

    variable: Variable
    concrete = False

    @property
    def shape(self) -> tuple[int, ...]:
        return self.variable.type.shape

    @property
    def dtype(self) -> Any:
        return self.variable.type.dtype

    @property
    def device(self) -> str:
        return self.owner.device  # type: ignore[no-any-return]

    def origin(self) -> str:
        return "made by staging"

    def dependence(self) -> str:
        return depends_on(self.owner.names_of(self.variable), exactly=True)


class StagingTrace(Trace):
    """Records the equations of all that depends on its inputs; the rest is computed at once.

    Attributes:
        equations: what was recorded so far.
        paths: those of its inputs within ``(args, kwargs)``, for messages.
        device: where the arrays are that its inputs stand for.
    """

    __slots__ = ("device", "equations", "paths")

    def __init__(self, parent: Trace, name: str, fun: Any) -> None:
        super().__init__(parent, name, fun)
        self.equations: list[Equation] = []
        self.paths: dict[Variable, Any] = {}
        self.device = placement.device

    def names_of(self, variable: Variable) -> list[str]:
        """Returns what messages call the inputs that a variable depends on."""
        reached = {variable}
        for equation in reversed(self.equations):
            if not reached.isdisjoint(equation.outputs):
                reached.update(x for x in equation.operands if isinstance(x, Variable))
        return [
            f"argument {path[1].value!r}{tree.keystr(path[2:])}"
            for v, path in self.paths.items()
            if v in reached
        ]

    def input(self, type: ShapeDtype) -> StagedTracer:
        """Returns the tracer of a new variable."""
        out = object.__new__(StagedTracer)
        out.owner = self
        out.variable = Variable(type)
        return out

    def operand(self, x: Any) -> Any:
        """Returns the variable of one of this trace's tracers, or a constant."""
        if isinstance(x, StagedTracer) and x.owner is self:
            return x.variable
        return wrap_constant(self.lift(x))

    def record(self, primitive: Any, operands: list[Any], params: Any, types: Any) -> list[Any]:
        """Adds an equation and returns its outputs' tracers."""
        outs = [self.input(type) for type in types]
        self.equations.append(Equation(primitive, operands, params, [o.variable for o in outs]))
        return outs

    def process(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        operands = [self.operand(a) for a in args]
        if not any(isinstance(x, Variable) for x in operands):
            return wrap(self.below(primitive, [self.lift(a) for a in args], params))
        type = primitive.infer(primitive, *map(_type_of, operands), **params)
        return self.record(primitive, operands, params, [type])[0]

    def custom(self, call: Any, args: Sequence[Any]) -> list[Any]:
        operands = [self.operand(a) for a in args]
        if not any(isinstance(x, Variable) for x in operands):
            return [wrap(out) for out in self.parent.custom(call, [self.lift(a) for a in args])]
        if call.infer is not None:
            return self.record(call, operands, {}, call.infer(*map(_type_of, operands)))
        inner = StagingTrace(self.parent, call.name, call.evaluate)
        inner.device = self.device
        given = [inner.input(_type_of(x)) for x in operands]
        outs = run(inner, call.evaluate, (given,))
        return self.record(call, operands, {}, [shape_dtype(out).strong() for out in outs])

    def program(
        self,
        inputs: Sequence[Any],
        outputs: Sequence[Any],
        in_tree: Any = None,
        out_tree: Any = None,
    ) -> Program:
        """Returns the program that was recorded, without what no output depends on."""
        results = [self.operand(out) for out in outputs]
        needed = {out for out in results if isinstance(out, Variable)}
        live = []
        for equation in reversed(self.equations):
            if not needed.isdisjoint(equation.outputs):
                live.append(equation)
                needed.update(x for x in equation.operands if isinstance(x, Variable))
        name = function_name(self.fun)
        variables = [x.variable for x in inputs]
        return Program(name, variables, live[::-1], results, in_tree, out_tree)


def wrap_constant(x: Any) -> Any:
    """Returns a constant as an array; a Python scalar stays one, so that it stays weak."""
    return x if type(x) in (float, int, bool, complex) else wrap(x)


def staged_run(trace: StagingTrace, args: Any, kwargs: Any) -> Any:
    """Runs a function under a staging trace, without hooks: they see what the program runs."""
    with under(None if trace.parent is RAW else trace.parent):
        return run(trace, trace.fun, args, kwargs)


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
        inputs, in_tree = inputs_of(trace, (args, kwargs))
        out = staged_run(trace, *in_tree.unflatten(inputs))
        outputs, out_tree = tree.flatten(out)
        return trace.program(inputs, outputs, in_tree, out_tree)

    return staged


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
    inputs, in_tree = inputs_of(trace, (args, kwargs))
    return tree.map(shape_dtype, staged_run(trace, *in_tree.unflatten(inputs)))
