"""Programs made of programs: other orders of inputs and outputs, what depends on what, batches."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..backends.devices import on_device
from ..jitting.program_derivatives import is_differentiable, mapped, staged
from ..primitives.core.annotations import Values
from ..primitives.core.buffers import wrap
from ..primitives.core.shape_dtype import ShapeDtype
from ..primitives.elementwise.cast_and_complex import cast
from ..programs.program import Equation, Program, Variable, type_of, used

if TYPE_CHECKING:
    from ..primitives.core.array import Array

__all__ = [
    "batched_body",
    "batched_inputs",
    "chained",
    "invariant",
    "program_of",
    "reached_outputs",
    "rewired",
    "zeros",
]


def rewired(program: Program, inputs: Sequence[Variable], outputs: Sequence[Any]) -> Program:
    """Returns a program with its inputs in another order, and other outputs."""
    needed = set(used(outputs))
    live: list[Equation] = []
    for equation in reversed(program.equations):
        if not needed.isdisjoint(equation.outputs):
            live.append(equation)
            needed.update(used(equation.operands))
    return Program(program.name, inputs, live[::-1], outputs)


def zeros(known: ShapeDtype, device: str = "cpu") -> Array:
    """Returns zeros, an array that takes no memory."""
    zero = np.broadcast_to(known.dtype.type(0), known.shape)
    return wrap(zero[()] if device == "cpu" else on_device(zero, device))


def reached_outputs(program: Program, flags: Sequence[bool]) -> list[bool]:
    """Returns for every output whether it has a derivative by an input that has a flag."""
    met = {x for x, flag in zip(program.inputs, flags, strict=True) if flag}
    for equation in program.equations:
        if equation.primitive.constant:
            continue
        if not met.isdisjoint(used(equation.operands)):
            met.update(filter(is_differentiable, equation.outputs))
    return [type(out) is Variable and out in met for out in program.outputs]


def batched_inputs(inputs: Sequence[Variable], flags: Sequence[bool], size: int) -> list[Variable]:
    """Returns variables like inputs, of which those with a flag have a batch axis in front."""
    return [
        Variable(ShapeDtype((size, *x.type.shape), x.type.dtype), x.device) if flag else x
        for x, flag in zip(inputs, flags, strict=True)
    ]


def program_of(
    name: str, inputs: Sequence[Variable], fun: Callable[[Values], Sequence[Any]]
) -> Program:
    """Returns the program of a function of a flat list."""
    whole = Program(name, inputs, (), ())
    return staged(whole, lambda trace, values: ([], list(fun(values))))


def batched_body(
    program: Program,
    flags: Sequence[bool],
    out_flags: Sequence[bool],
    size: int,
    axis_name: Hashable = None,
) -> tuple[Program, list[bool]]:
    """Returns a program for a batch, and which of its outputs have a batch axis.

    Args:
        program: the program.
        flags: which inputs have a batch axis in front.
        out_flags: which outputs must have one; others do if they depend on the example.
        size: its length.
        axis_name: its name.
    """
    made, found = mapped(program, tuple(flags), tuple(out_flags), size, axis_name)
    dtypes = [type_of(out).dtype for out in program.outputs]
    if dtypes != [type_of(out).dtype for out in made.outputs]:
        # What was a weak scalar is an array now, and decides promotions that it did not.
        def run(values: Values) -> Values:
            pairs = zip(made.run(values), dtypes, strict=True)
            return [out if wrap(out).dtype == dtype else cast(out, dtype) for out, dtype in pairs]

        if "cast" not in made.derived:
            made.derived["cast"] = program_of(made.name, made.inputs, run)
        return made.derived["cast"], list(found)
    return made, list(found)


def chained(first: Program, inner: Sequence[Any], second: Program) -> Program:
    """Returns one program that runs two.

    Args:
        first: the program that runs first.
        inner: what the second's first inputs are: variables of the first.
        second: the program that runs on those and on further inputs.

    Returns:
        A program of the first's inputs and the second's further ones, with the second's outputs.
    """
    replaced = dict(zip(second.inputs, inner))
    inputs = [*first.inputs, *second.inputs[len(inner) :]]
    equations = [*first.equations, *(equation.over(replaced) for equation in second.equations)]
    outputs = [replaced.get(x, x) if type(x) is Variable else x for x in second.outputs]
    return Program(second.name, inputs, equations, outputs)


def invariant(program: Program, constants: Sequence[Variable]) -> set[Variable]:
    """Returns the variables, inputs aside, that depend on nothing but some of the inputs."""
    fixed = set(constants)
    found: set[Variable] = set()
    for equation in program.equations:
        if fixed.issuperset(used(equation.operands)):
            fixed.update(equation.outputs)
            found.update(equation.outputs)
    return found
