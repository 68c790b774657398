"""A staged function: typed equations in order, which can be printed, checked and run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np

from .. import tree
from ..backends.config import config
from ..backends.frames import RUNNING_AGAIN
from ..backends.notebook_cells import with_cells_named
from ..primitives.core.array import Array, Tracer
from ..primitives.core.buffers import WEAK_TYPES, own_array, to_buffer
from ..primitives.core.errors import describe
from ..primitives.core.primitive import Primitive
from ..primitives.core.primitive_like import PrimitiveLike
from ..primitives.core.shape_dtype import ShapeDtype, shape_dtype
from .python_numbers import as_numbers

if TYPE_CHECKING:
    from ..primitives.core.annotations import Value

__all__ = [
    *("Equation", "Program", "ProgramError", "Variable", "argument_type", "check"),
    *("printed", "twin", "type_of", "used", "variable_name", "with_replaced"),
    "with_substitutes",
]


class Variable:
    """A value of a program, known by its shape and dtype and by where it is.

    Attributes:
        type: the shape and dtype, and whether it is a weak scalar.
        device: the name of the device where its buffer lies.
        order: the axes of an input, outermost in memory first, as plans expect them; None for the
            usual order. Others are right too, and are copied where that matters.
        strides: the strides of an input, in elements, which has steps in memory; else None.
    """

    __slots__ = ("device", "order", "strides", "type")

    def __init__(self, type: ShapeDtype, device: str = "cpu", order: Any = None) -> None:
        self.type = type
        self.device = device
        self.order: tuple[int, ...] | None = order
        self.strides: tuple[int, ...] | None = None


# An equation takes variables and constants.
Operand: TypeAlias = "Variable | Value"


class Equation:
    """One operation of a program: ``outputs = primitive(*operands, **params)``.

    Attributes:
        primitive: a primitive; or what has several outputs and a ``bind`` of a list of operands:
            a function with a rule of its own, a loop, a fused region.
        operands: variables, and constants: arrays and Python scalars.
        params: the static parameters.
        outputs: the variables that it defines.
        line: the user's ``file:line`` that called it; empty where it is not known.
        scope: the ``named_scope`` that it was called in, ``"block/attention"``; empty outside.
    """

    __slots__ = ("is_checked", "line", "operands", "outputs", "params", "primitive", "scope")

    def __init__(
        self,
        primitive: Any,
        operands: Sequence[Any],
        params: dict[str, Any],
        outputs: Sequence[Variable],
        line: str = "",
        scope: str = "",
    ) -> None:
        self.primitive = primitive
        self.operands = tuple(operands)
        self.params = params
        self.outputs = tuple(outputs)
        self.line = line
        self.scope = scope
        self.is_checked = False

    def exchanges(self) -> bool:
        """Says whether it is an operation of several processes, which all do in one order."""
        primitive = self.primitive
        return bool(primitive.collective and primitive.exchanges(self.params))

    def apply(self, values: Sequence[Any]) -> Sequence[Any]:
        """Computes the outputs, at whatever level the slot is."""
        if isinstance(self.primitive, Primitive):
            return (self.primitive.bind(values, self.params),)
        return self.primitive.bind(values)  # type: ignore[no-any-return]

    def over(self, replaced: dict[Variable, Any]) -> Equation:
        """Returns the same of other operands; itself where none is replaced."""
        for x in self.operands:
            if type(x) is Variable and x in replaced:
                break
        else:
            return self
        return self.with_operands(with_replaced(self.operands, replaced))

    def with_operands(self, operands: Sequence[Any]) -> Equation:
        """Returns the same of other operands, of the same types."""
        return self.by(self.primitive, operands, self.params)

    def by(
        self,
        primitive: Any,
        operands: Sequence[Any],
        params: dict[str, Any],
        outputs: Sequence[Variable] | None = None,
    ) -> Equation:
        """Returns an equation for its place, of the same outputs unless others are given."""
        outputs = self.outputs if outputs is None else outputs
        return Equation(primitive, operands, params, outputs, self.line, self.scope)


class Program:
    """A staged function.

    Attributes:
        name: the name of the function.
        inputs: a variable for each leaf of the arguments.
        equations: what is computed, in order.
        outputs: variables and constants, one for each leaf of the result.
        in_tree, out_tree: the structures of the arguments and of the result; None for programs of
            flat lists.
        derived: programs and plans that were made of it, for the next time.
        replaced: whether a hook that is compiled in has replaced a value, where it was staged.

    Raises:
        ProgramError: where ``ft.config.check_programs`` is on: it is not well formed.
    """

    __slots__ = (
        *("_last_uses", "_primitives", "_uses", "derived", "equations"),
        *("in_tree", "inputs", "name", "out_tree", "outputs", "replaced"),
    )

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
        self.in_tree = in_tree
        self.out_tree = out_tree
        self.derived: dict[Any, Any] = {}
        self.replaced = False
        self._last_uses: list[list[Variable]] | None = None
        self._primitives: frozenset[Any] | None = None
        self._uses: dict[Variable, int] | None = None
        if config.check_programs:
            check(self, anew=False)

    def __getstate__(self) -> tuple[None, dict[str, Any]]:
        """Returns what is pickled and copied: plans and other caches are made anew."""
        caches: dict[str, Any] = {"derived": {}}
        caches |= dict.fromkeys(("_last_uses", "_primitives", "_uses"))
        # One of an old pickle may lack what has been added since.
        known = {name: getattr(self, name) for name in self.__slots__ if hasattr(self, name)}
        return None, known | caches

    def with_equations(
        self, equations: Sequence[Equation], outputs: Sequence[Any] | None = None
    ) -> Program:
        """Returns a program of the same arguments that computes the same in another way."""
        outputs = self.outputs if outputs is None else outputs
        return Program(self.name, self.inputs, equations, outputs, self.in_tree, self.out_tree)

    def primitives(self) -> frozenset[Any]:
        """Returns the primitives and calls of all equations."""
        if self._primitives is None:
            self._primitives = frozenset([equation.primitive for equation in self.equations])
        return self._primitives

    def has_effect(self) -> bool:
        """Says whether somebody sees that it runs, apart from its outputs."""
        return any(primitive.effect for primitive in self.primitives())

    def exchanges(self) -> bool:
        """Says whether it has operations of several processes."""
        if not any(primitive.collective for primitive in self.primitives()):
            return False
        return any(equation.exchanges() for equation in self.equations)

    def replayed(self) -> Program:
        """Returns the program as it is where a backward pass runs it again."""
        if not self.has_effect():
            return self
        if "replayed" not in self.derived:
            self.derived["replayed"] = self.with_equations([
                e.by(e.primitive.replayed(), e.operands, e.params) if e.primitive.effect else e
                for e in self.equations
            ])
        return self.derived["replayed"]  # type: ignore[no-any-return]

    def uses(self) -> dict[Variable, int]:
        """Returns how often variables are used, by equations and as outputs; not to be changed."""
        if self._uses is None:
            uses = self._uses = {}
            for operands in (*[e.operands for e in self.equations], self.outputs):
                for x in operands:
                    if type(x) is Variable:
                        uses[x] = uses.get(x, 0) + 1
        return self._uses

    def last_uses(self) -> list[list[Variable]]:
        """Returns for every equation the variables that nothing needs after it."""
        if self._last_uses is None:
            kept = set(used(self.outputs))
            uses: list[list[Variable]] = []
            for equation in reversed(self.equations):
                last = {*used(equation.operands), *equation.outputs} - kept
                kept |= last
                uses.append(list(last))
            self._last_uses = uses[::-1]
        return self._last_uses

    def run(self, values: Sequence[Any]) -> list[Any]:
        """Computes the outputs of a flat list of inputs; transformations apply."""
        return as_numbers(self._run, values)  # type: ignore[no-any-return]

    def _run(self, values: Sequence[Any]) -> list[Any]:
        env: dict[Any, Any] = dict(zip(self.inputs, values, strict=True))
        for equation, last in zip(self.equations, self.last_uses(), strict=True):
            operands = [env[x] if type(x) is Variable else x for x in equation.operands]
            for x, value in zip(equation.outputs, equation.apply(operands), strict=True):
                env[x] = value if x.type.weak is None else as_weak(value, x.type.weak)
            for variable in last:
                env.pop(variable, None)
        return [env[out] if type(out) is Variable else out for out in self.outputs]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Computes the function that was staged, on arguments of the same structure and types."""
        leaves, treedef = tree.flatten((args, kwargs))
        if treedef != self.in_tree:
            raise TypeError(f"{self.name} was staged for {self.in_tree}, not {treedef}")
        for leaf, variable in zip(leaves, self.inputs, strict=True):
            known = argument_type(leaf)
            if known != variable.type:
                raise TypeError(f"{self.name} was staged for {variable.type}, not {known}")
        return self.out_tree.unflatten(map(own_array, self.run(leaves)))

    def map(self, change: Callable[[Equation], Equation]) -> Program:
        """Returns the program with every equation changed by a function."""
        return self.with_equations([change(equation) for equation in self.equations])

    def show(self, lines: bool = False) -> str:
        """Returns the text of the program: what it takes, an equation a line, what it returns.

        Args:
            lines: whether the user's ``file:line`` stands behind every equation, and its scope.

        >>> import functensor as ft, functensor.numpy as np
        >>> program = ft.make_program(np.sin)(np.ones(3))
        >>> "  # " in program.show(lines=True), program.show() == str(program)
        (True, True)
        """
        return with_cells_named(printed(self, lines))

    def __str__(self) -> str:
        return self.show()

    __repr__ = __str__
    # Draws a program for notebooks; the package, which knows the drawing, puts it here.
    html: ClassVar[Callable[[Program], str | None]] = staticmethod(lambda program: None)

    def _repr_html_(self) -> str | None:
        return type(self).html(self)


RUNNING_AGAIN.add(Program._run.__code__)


def as_weak(value: Value, kind: type) -> Any:
    """Returns a scalar that was computed of weak ones as Python's, so that it stays weak."""
    if type(value) is Array:
        return kind(value._data)
    if not isinstance(value, Tracer) or value.lazy:
        return value
    found = getattr(value, "value", None)
    if isinstance(found, Tracer):
        inner = as_weak(found, kind)
    elif isinstance(found, np.generic | np.ndarray | Array) and not found.shape:
        inner = kind(to_buffer(found))
    else:
        return value
    if inner is found:
        return value
    # Others may hold the tracer itself.
    other = twin(value)
    other.value = inner
    return other


def twin(tracer: Any) -> Any:
    """Returns another tracer that stands for the same."""
    out = object.__new__(type(tracer))
    for cls in type(tracer).__mro__:
        for name in getattr(cls, "__slots__", ()):
            if name != "__weakref__" and hasattr(tracer, name):
                setattr(out, name, getattr(tracer, name))
    return out


def with_substitutes(program: Program, find: Callable[[Equation], Any]) -> Program:
    """Returns a program without the equations in whose place something known stands.

    Args:
        program: the program.
        find: is given every equation, of operands in whose place something may stand already; it
            returns what stands in place of its only output, or None.
    """
    known: dict[Variable, Any] = {}
    kept: list[Equation] = []
    for equation in program.equations:
        equation = equation.over(known) if known else equation
        value = find(equation)
        if value is None:
            kept.append(equation)
        else:
            known[equation.outputs[0]] = value
    return program.with_equations(kept, with_replaced(program.outputs, known)) if known else program


def with_replaced(operands: Sequence[Any], known: dict[Variable, Any]) -> list[Any]:
    """Returns operands with what is known in the place of variables."""
    return [known.get(x, x) if type(x) is Variable else x for x in operands]


def used(operands: Iterable[Any]) -> list[Variable]:
    """Returns the variables among operands."""
    return [x for x in operands if type(x) is Variable]


def type_of(x: Operand) -> ShapeDtype:
    """Returns the type of an operand, a variable or a constant."""
    return x.type if type(x) is Variable else shape_dtype(x)


def argument_type(x: Value) -> ShapeDtype:
    """Returns what a leaf of the arguments is known by; tracers of weak scalars are weak."""
    inner = x
    while isinstance(inner, Tracer):
        variable = getattr(inner, "variable", None)
        if variable is not None:
            return variable.type if variable.type.weak else shape_dtype(x)
        inner = inner.value
    return shape_dtype(inner if type(inner) in WEAK_TYPES else x)


class ProgramError(ValueError):
    """A program is not well formed: a pass that made it has a fault."""


def check(program: Program, anew: bool = True) -> None:
    """Checks that every variable is defined once and before it is used, with its type and device.

    The programs that calls run are checked too, and what a call proves of itself.

    Args:
        program: the program.
        anew: whether to look also at equations that another program's check found right. Passes
            leave most of them as they are.

    Raises:
        ProgramError: an equation breaks that; the message names it.
    """
    defined = set(program.inputs)
    if len(defined) < len(program.inputs):
        raise ProgramError(f"{program.name}: two inputs are one variable")
    for number, equation in enumerate(program.equations):
        where = f"{program.name}: equation {number}, {equation.primitive.name},"
        if not defined.issuperset(used(equation.operands)):
            raise ProgramError(f"{where} uses an undefined variable")
        if anew or not equation.is_checked:
            _check_equation(equation, where, anew)
            equation.is_checked = True
        if not defined.isdisjoint(equation.outputs):
            raise ProgramError(f"{where} defines a variable again")
        defined.update(equation.outputs)
    if not defined.issuperset(used(program.outputs)):
        raise ProgramError(f"{program.name}: an output is undefined")


def _check_equation(equation: Equation, where: str, anew: bool) -> None:
    _check_types(equation, where)
    _check_devices(equation, where)
    try:
        what = f"{where} runs what is not well formed:"
        for inner in bodies(equation.primitive):
            check(inner, anew)
        what = where
        equation.primitive.prove()
    except ProgramError as error:
        raise ProgramError(f"{what} {error}") from None


def bodies(primitive: PrimitiveLike) -> Sequence[Program]:
    """Returns the programs that a call runs."""
    found: Sequence[Program] = primitive.bodies
    program = primitive.program
    return found if program is None or program in found else [*found, program]


def _check_types(equation: Equation, where: str) -> None:
    types = [type_of(x) for x in equation.operands]
    primitive = equation.primitive
    if isinstance(primitive, Primitive):
        wanted = [primitive.infer(primitive, *types, **equation.params)]
    elif primitive.infer is not None:
        wanted = list(primitive.infer(*types))
    else:
        return
    got = [variable.type for variable in equation.outputs]
    if got != wanted:
        given, said = (", ".join(map(str, types)) for types in (wanted, got))
        raise ProgramError(f"{where} gives {given}, but is said to give {said}")


def _check_devices(equation: Equation, where: str) -> None:
    """Checks that results lie where an array among the operands does, or where they are put."""
    primitive = equation.primitive
    if not isinstance(primitive, Primitive) or primitive.creates:
        return
    put = equation.params.get("device")
    arrays = [x for x in equation.operands if isinstance(x, (Variable, Array))]
    # Numbers of Python's go where arrays are.
    places = {put} if put else {x.device for x in arrays if type_of(x).weak is None}
    for variable in equation.outputs:
        if places and variable.device not in places:
            found = " and ".join(sorted(places))
            raise ProgramError(
                f"{where} gives what is on {found}, but is said to be on {variable.device}"
            )


INDENT = "    "


def printed(program: Program, lines: bool = False) -> str:
    """Returns the text of a program, as `Program.show` does."""
    names: dict[Any, str] = {}
    text = [f"{program.name}({_named_variables(program.inputs, names)}):"]
    for equation in program.equations:
        text += _printed_equation(equation, names, lines)
    text.append(f"{INDENT}return " + ", ".join(_shown_operand(x, names) for x in program.outputs))
    return "\n".join(text)


def _named_variables(variables: Sequence[Variable], names: dict[Any, str]) -> str:
    """Gives variables names, and returns them with their types and devices."""
    for variable in variables:
        names[variable] = variable_name(len(names))
    devices = ["" if v.device == "cpu" else f"@{v.device}" for v in variables]
    return ", ".join(f"{names[v]}: {v.type}{at}" for v, at in zip(variables, devices, strict=True))


def _printed_equation(equation: Equation, names: dict[Any, str], lines: bool) -> list[str]:
    defined = _named_variables(equation.outputs, names)
    used = ", ".join(_shown_operand(x, names) for x in equation.operands)
    given = {key: value for key, value in equation.params.items() if value is not None}
    static = "".join(f", {key}={value}" for key, value in given.items())
    line = f"{INDENT}{defined} = {equation.primitive.name}({used}{static})"
    scope = f"scope {equation.scope}" if equation.scope else ""
    if lines and (equation.line or scope):
        line += "  # " + ", ".join(filter(None, [equation.line, scope]))
    inner = "\n".join(printed(body, lines) for body in equation.primitive.bodies)
    return [line, *(INDENT + INDENT + text for text in inner.splitlines())]


def _shown_operand(x: Operand, names: dict[Any, str]) -> str:
    """Returns how an operand is printed: a name, a number, or a constant's type."""
    if type(x) is Variable:
        return names[x]
    known = shape_dtype(x)
    return str(x) if known.shape == () and not isinstance(x, Tracer) else f"<{describe(x)}>"


def variable_name(number: int) -> str:
    """Returns a, b, ..., z, ba, bb, ...: numbers of base 26 in letters."""
    name = chr(ord("a") + number % 26)
    while number >= 26:
        number //= 26
        name = chr(ord("a") + number % 26) + name
    return name
