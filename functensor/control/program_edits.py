"""Programs made of programs: other orders of inputs and outputs, dependences, batches."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np

from ..backends.devices import on_device
from ..jitting.program_call import spread
from ..jitting.program_derivatives import is_differentiable, mapped, staged
from ..primitives.core.annotations import Values
from ..primitives.core.buffers import wrap
from ..primitives.core.shape_dtype import ShapeDtype
from ..primitives.elementwise.cast_and_complex import cast
from ..programs.live_equations import live_equations
from ..programs.program import (
    Program,
    Variable,
    type_of,
    used,
    with_replaced,
)

if TYPE_CHECKING:
    from ..primitives.core.array import Array

__all__ = [
    *("batched_body", "chained", "cut", "fresh_variables", "invariant", "out_tangents"),
    *("program_of", "reached_carries", "reached_outputs", "rewired", "zeros", "zeros_for"),
]


def rewired(
    program: Program, inputs: Sequence[Variable], outputs: Sequence[Any], effects: bool = True
) -> Program:
    """Returns a program with its inputs in another order, and other outputs.

    ``effects`` says whether it keeps equations for their effects.
    """
    equations = program.equations
    if not effects:
        equations = tuple([e for e in equations if not e.primitive.effect])
    return Program(program.name, inputs, live_equations(equations, outputs), outputs)


def zeros(known: ShapeDtype, device: str = "cpu") -> Array:
    """Returns zeros, an array that takes no memory."""
    zero = np.broadcast_to(known.dtype.type(0), known.shape)
    return wrap(zero[()] if device == "cpu" else on_device(zero, device))


def zeros_for(variables: Sequence[Variable], values: Sequence[Any]) -> Values:
    """Returns values with zeros like variables in place of None."""
    pairs = zip(variables, values, strict=True)
    return [zeros(x.type, x.device) if value is None else value for x, value in pairs]


def reached_outputs(program: Program, flags: Sequence[bool]) -> list[bool]:
    """Returns for every output whether it has a derivative by an input that has a flag."""
    met = {x for x, flag in zip(program.inputs, flags, strict=True) if flag}
    for equation in program.equations:
        if equation.primitive.constant:
            continue
        if not met.isdisjoint(used(equation.operands)):
            met.update(filter(is_differentiable, equation.outputs))
    return [type(out) is Variable and out in met for out in program.outputs]


def reached_carries(program: Program, flags: Sequence[bool], count: int) -> list[bool]:
    """Returns flags of a body's inputs, with the carries added that have a derivative by them."""
    found = list(flags)
    while True:
        outs = reached_outputs(program, found)[:count]
        new = [old or out for old, out in zip(found, outs)]
        if new == found[:count]:
            return found
        found[:count] = new


def out_tangents(pushed: Program, program: Program) -> list[Any]:
    """Returns, of a program's forward mode, the tangents of all outputs; None of integers."""
    flags = list(map(is_differentiable, program.outputs))
    return spread(pushed.outputs[len(flags) :], flags)


def cut(values: Sequence[Any], sizes: Sequence[int]) -> list[Values]:
    """Returns a list in parts of given sizes."""
    ends = list(accumulate(sizes))
    return [list(values[end - size : end]) for end, size in zip(ends, sizes, strict=True)]


def fresh_variables(variables: Iterable[Variable]) -> list[Variable]:
    """Returns new variables like others."""
    return [Variable(x.type, x.device) for x in variables]


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

    They are those of `mapped`, but outputs keep their dtypes where weak scalars became arrays.
    """
    made, found = mapped(program, tuple(flags), tuple(out_flags), size, axis_name)
    dtypes = [type_of(out).dtype for out in program.outputs]
    if dtypes != [type_of(out).dtype for out in made.outputs]:
        # An array, unlike a weak scalar, decides promotions.
        def run(values: Values) -> Values:
            pairs = zip(made.run(values), dtypes, strict=True)
            return [out if wrap(out).dtype == dtype else cast(out, dtype) for out, dtype in pairs]

        if "cast" not in made.derived:
            made.derived["cast"] = program_of(made.name, made.inputs, run)
        return made.derived["cast"], list(found)
    return made, list(found)


def chained(first: Program, inner: Sequence[Any], second: Program) -> Program:
    """Returns one program that runs two, with the outputs of the second.

    Args:
        first: the program that runs first.
        inner: variables of the first, which are the first inputs of the second.
        second: the program that runs on those and on inputs of its own, which come last.
    """
    replaced = dict(zip(second.inputs, inner))
    inputs = [*first.inputs, *second.inputs[len(inner) :]]
    equations = [*first.equations, *(equation.over(replaced) for equation in second.equations)]
    return Program(second.name, inputs, equations, with_replaced(second.outputs, replaced))


def invariant(program: Program, constants: Sequence[Variable]) -> set[Variable]:
    """Returns the variables, inputs aside, that depend on constants alone."""
    fixed = set(constants)
    found: set[Variable] = set()
    for equation in program.equations:
        if not equation.primitive.effect and fixed.issuperset(used(equation.operands)):
            fixed.update(equation.outputs)
            found.update(equation.outputs)
    return found
