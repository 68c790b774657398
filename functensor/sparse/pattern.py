"""The inputs on which every element of a program's values depends.

A ``Dependence`` of a value holds pairs of an element and an input. An equation moves elements, as
running it on their numbers shows; or it computes element by element; or it mixes along axes. The
elements of all other equations are taken to depend on every input of the operands: too much, never
too little. Only dependences with derivatives count: comparing and rounding have none, and the
rules of functions with rules of their own are followed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from math import prod
from typing import Any

import numpy as np

from ..backends.annotations import Buffer, Shape
from ..backends.devices import to_host
from ..custom.call import CustomCall, replaced
from ..primitives.core.annotations import Value
from ..primitives.core.array import Array
from ..primitives.core.buffers import to_buffer
from ..primitives.core.errors import ConcretizationError, TracerConversionError
from ..primitives.core.shape_dtype import INEXACT, ShapeDtype, shape_dtype
from ..programs import Equation, Program, Variable
from ..programs.staging import make_program
from ..transforms.jvp import jvp

__all__ = ["Dependence", "dependence_of"]

# Rules call functions with rules on tangents at most this deep: a linear one may call itself.
DEEPEST_RULES = 4


class Dependence:
    """Pairs of an element and an input that it depends on, sorted, each once.

    Attributes:
        elements, inputs: the pairs.
        count: how many elements there are, those without a pair included.
    """

    __slots__ = ("count", "elements", "inputs")

    def __init__(self, elements: Buffer, inputs: Buffer, count: int) -> None:
        self.elements = elements
        self.inputs = inputs
        self.count = count

    @classmethod
    def of(cls, elements: Buffer, inputs: Buffer, count: int) -> Dependence:
        """Returns pairs that come in any order, some of them more than once."""
        width = int(inputs.max()) + 1 if inputs.size else 1
        return cls(*np.divmod(np.unique(elements * width + inputs), width), count)

    def taken(self, places: Buffer) -> Dependence:
        """Returns that of a value whose elements are those at the places; -1 is a constant."""
        places = places.ravel()
        if places.size == self.count and np.array_equal(places, np.arange(self.count)):
            return self
        starts = np.searchsorted(self.elements, np.arange(self.count + 1))
        starts = np.append(starts, starts[-1])  # where -1 leads: no pairs
        first, last = starts[places], starts[places + 1]
        last[places < 0] = first[places < 0]
        sizes = last - first
        elements = np.repeat(np.arange(places.size), sizes)
        offsets = np.arange(elements.size) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        return Dependence(elements, self.inputs[np.repeat(first, sizes) + offsets], places.size)

    def grouped(self, groups: Buffer, count: int) -> Dependence:
        """Returns that of a value whose elements each gather a group; -1 goes nowhere."""
        elements = groups.ravel()[self.elements]
        kept = elements >= 0
        return Dependence.of(elements[kept], self.inputs[kept], count)


def union(parts: Sequence[Dependence], count: int) -> Dependence:
    """Returns all pairs of some values of the same shape."""
    if len(parts) == 1:
        return parts[0]
    if not parts:
        return nothing(count)
    if all(part is parts[0] for part in parts):
        return parts[0]
    elements = np.concatenate([part.elements for part in parts])
    return Dependence.of(elements, np.concatenate([part.inputs for part in parts]), count)


def nothing(count: int) -> Dependence:
    """Returns that of a constant."""
    return Dependence(np.zeros(0, np.int64), np.zeros(0, np.int64), count)


def element_numbers(shape: Shape) -> Buffer:
    """Returns the number of every element."""
    return np.arange(prod(shape)).reshape(shape)


# -- equations: the operands' dependences, None for constants, become the output's


class EquationOperands:
    """An equation's operands, as the rules want them.

    Attributes:
        equation: the equation.
        values: for every operand its dependence, or None for a constant.
        shapes: the operands' shapes.
        shape: the output's shape.
    """

    __slots__ = ("equation", "shape", "shapes", "values")

    def __init__(self, equation: Equation, values: Sequence[Dependence | None]) -> None:
        self.equation = equation
        self.values = values
        self.shapes = [_shape_of_operand(x) for x in equation.operands]
        self.shape = equation.outputs[0].type.shape

    @property
    def params(self) -> dict[str, Any]:
        """The equation's parameters."""
        return self.equation.params

    def known(self) -> list[tuple[Dependence, Shape]]:
        """Returns the dependences of operands that are no constants, with their shapes."""
        return [(part, shape) for part, shape in zip(self.values, self.shapes) if part is not None]

    def joined(self, parts: Sequence[Dependence]) -> Dependence:
        """Returns all pairs of some values of the output's shape."""
        return union(parts, prod(self.shape))

    def spread(self, part: Dependence, shape: Shape) -> Dependence:
        """Returns that of a value of the shape, broadcast to the output's shape."""
        return part.taken(np.broadcast_to(element_numbers(shape), self.shape))

    def indices(self, start: int) -> list[Buffer] | None:
        """Returns the index arrays among the operands, or None where they are computed."""
        given = self.equation.operands[start:]
        if any(isinstance(x, Variable) for x in given):
            return None
        return [np.asarray(to_host(to_buffer(x))) for x in given]


def elementwise(o: EquationOperands) -> Dependence:
    """Every element depends on the operands' elements at its place."""
    return o.joined([o.spread(part, shape) for part, shape in o.known()])


def summed_over_axes(o: EquationOperands) -> Dependence:
    """Every element depends on all along the axes, which are gone or have length 1."""
    part = o.values[0]
    if part is None:
        return everything(o)
    return _collapsed(part, o.shapes[0], o.params["axis"], prod(o.shape))


def _collapsed(part: Dependence, shape: Shape, axes: Collection[int], count: int) -> Dependence:
    kept = [1 if i in axes else n for i, n in enumerate(shape)]
    groups = np.broadcast_to(element_numbers(tuple(kept)), shape)
    return part.grouped(groups, count)


def mixed_along_axes(o: EquationOperands) -> Dependence:
    """Every element depends on all along the axes, which stay."""
    axis = o.params.get("axis", -1)
    axes = axis if isinstance(axis, tuple) else (axis,)
    parts = []
    for part, shape in o.known():
        mixed_axes = {a % len(shape) for a in axes}
        kept = tuple(1 if i in mixed_axes else n for i, n in enumerate(shape))
        parts.append(o.spread(_collapsed(part, shape, mixed_axes, prod(kept)), kept))
    return o.joined(parts)


def normalized(o: EquationOperands) -> Dependence:
    """Rows as ``mixed_along_axes`` has them; every element depends on its own weight and bias."""
    x, *affine = o.values
    rank = len(o.shape)
    parts = []
    if x is not None:
        kept = (*o.shape[:-1], 1)
        parts.append(o.spread(_collapsed(x, o.shape, {rank - 1}, prod(kept)), kept))
    for part, shape in zip(affine, o.shapes[1:]):
        if part is not None:
            parts.append(o.spread(part, (*shape[:-1], *(1,) * (rank - len(shape)), shape[-1])))
    return o.joined(parts)


def moved(o: EquationOperands) -> Dependence:
    """Every element is one of an operand's: the primitive itself, on their numbers, says which."""
    parts = []
    for i, (part, shape) in enumerate(zip(o.values, o.shapes)):
        if part is None:
            continue
        operands = [np.zeros(other, np.int64) for other in o.shapes]
        operands[i] = element_numbers(shape) + 1
        numbers = np.asarray(o.equation.primitive.impl(*operands, **o.params))
        parts.append(part.taken(numbers - 1))
    return o.joined(parts)


def indexed(o: EquationOperands) -> Dependence:
    """Elements are taken at a key."""
    indices, before = o.indices(1), o.values[0]
    if indices is None or before is None:
        return everything(o)
    return before.taken(element_numbers(o.shapes[0])[o.params["key"].fill(indices)])


def scatter_added(o: EquationOperands) -> Dependence:
    """Values are added into zeros at their keys."""
    keys = o.params["keys"]
    indices = o.indices(len(keys))
    if indices is None:
        return everything(o)
    parts = []
    for key, part in zip(keys, o.values):
        own, indices = indices[: key.arrays], indices[key.arrays :]
        if part is not None:
            parts.append(part.grouped(element_numbers(o.shape)[key.fill(own)], prod(o.shape)))
    return o.joined(parts)


def index_updated(o: EquationOperands) -> Dependence:
    """Elements at a key are combined with values."""
    indices = o.indices(2)
    if indices is None:
        return everything(o)
    before, values = o.values[:2]
    targets = element_numbers(o.shape)[o.params["key"].fill(indices)]
    parts = []
    if before is not None:
        places = element_numbers(o.shape)
        if o.equation.primitive.name == "index_set":
            places.ravel()[targets.ravel()] = -1
        parts.append(before.taken(places))
    if values is not None:
        spread = values.taken(np.broadcast_to(element_numbers(o.shapes[1]), targets.shape))
        parts.append(spread.grouped(targets, prod(o.shape)))
    return o.joined(parts)


def matrix_multiplied(o: EquationOperands) -> Dependence:
    """Rows meet columns, on stacks that broadcast."""
    parts = []
    for i, (part, shape) in enumerate(zip(o.values, o.shapes)):
        if part is None:
            continue
        summed = len(shape) - (1 if i == 0 or len(shape) == 1 else 2)
        kept = tuple(1 if axis == summed else n for axis, n in enumerate(shape))
        rows = _collapsed(part, shape, {summed}, prod(kept))
        # The axis that is left takes the place that it has in the output.
        if len(shape) == 1:
            kept = ()
        elif len(o.shapes[1 - i]) == 1:
            kept = kept[:summed] + kept[summed + 1 :]
        parts.append(o.spread(rows, kept))
    return o.joined(parts)


def contracted(o: EquationOperands) -> Dependence:
    """Letters that the output lacks are summed over; the others say which element is whose."""
    terms, _, out = o.params["subscripts"].partition("->")
    parts = [
        _operand_contracted(part, shape, term, o.shape, out)
        for part, shape, term in zip(o.values, o.shapes, terms.split(","))
        if part is not None
    ]
    return o.joined(parts)


def _operand_contracted(
    part: Dependence, shape: Shape, term: str, out_shape: Shape, out: str
) -> Dependence:
    lengths = dict(zip(out, out_shape))
    kept = [letter for letter in out if letter in term]
    grid = np.indices(shape, sparse=True) if shape else ()
    groups = _numbered(kept, lengths, dict(zip(term, grid)), shape)
    for letter, coordinate in zip(term, grid):
        # Of an operand with a letter twice, only the diagonal counts.
        groups = np.where(coordinate == grid[term.rindex(letter)], groups, -1)
    rows = part.grouped(groups, prod(lengths[letter] for letter in kept))
    grid = np.indices(out_shape, sparse=True) if out_shape else ()
    return rows.taken(_numbered(kept, lengths, dict(zip(out, grid)), out_shape))


def _numbered(
    letters: Sequence[str], lengths: dict[str, int], coordinates: dict[str, Any], shape: Shape
) -> Buffer:
    """Returns, for every element of a shape, its number among those that letters name."""
    numbers = np.zeros(shape, np.int64)
    for letter in letters:
        numbers = numbers * lengths[letter] + coordinates[letter]
    return numbers


def everything(o: EquationOperands) -> Dependence:
    """Every element depends on all that the operands depend on."""
    return mixed([part for part in o.values if part is not None], prod(o.shape))


def mixed(parts: Sequence[Dependence], count: int) -> Dependence:
    """Returns that of a value all of whose elements depend on all of some others."""
    inputs = np.unique(np.concatenate([part.inputs for part in parts]))
    return Dependence(np.repeat(np.arange(count), inputs.size), np.tile(inputs, count), count)


FAMILY_RULES: dict[str, Callable[[EquationOperands], Dependence]] = {
    "elementwise": elementwise,
    "reduction": summed_over_axes,
    "along": mixed_along_axes,
}
MOVERS = ("reshape", "transpose", "broadcast_to", "flip", "roll", "tril", "triu", "pad")
PRIMITIVE_RULES: dict[str, Callable[[EquationOperands], Dependence]] = {
    **dict.fromkeys((*MOVERS, "concatenate", "stack"), moved),
    **dict.fromkeys(("index_set", "index_add", "index_multiply"), index_updated),
    **dict.fromkeys(("index_min", "index_max"), index_updated),
    **dict.fromkeys(("sort", "normalize", "normalize_grad"), mixed_along_axes),
    "affine_normalize": normalized,
    "einsum": contracted,
    "index": indexed,
    "matmul": matrix_multiplied,
    "scatter_add": scatter_added,
    "to_device": elementwise,
    "var": summed_over_axes,
}


# -- programs


def dependence_of(
    program: Program, inputs: Sequence[Dependence], depth: int = 0
) -> list[Dependence]:
    """Returns for every output of a program which inputs its elements depend on.

    Args:
        program: the program.
        inputs: that of the program's inputs.
        depth: how many rules it is within.
    """
    known = dict(zip(program.inputs, inputs, strict=True))
    for equation in program.equations:
        parts = [known.get(x) if isinstance(x, Variable) else None for x in equation.operands]
        parts = [part if part is not None and part.inputs.size else None for part in parts]
        if any(part is not None for part in parts):
            outs = _output_dependences(equation, parts, depth)
            known.update(zip(equation.outputs, outs, strict=True))
    found = [known.get(x) if isinstance(x, Variable) else None for x in program.outputs]
    return [
        nothing(prod(_shape_of_operand(out))) if part is None else part
        for out, part in zip(program.outputs, found)
    ]


def _output_dependences(
    equation: Equation, parts: list[Dependence | None], depth: int
) -> list[Dependence]:
    primitive = equation.primitive
    if isinstance(primitive, CustomCall):
        return _of_call(equation, parts, depth)
    out = equation.outputs[0].type
    if primitive.constant or out.dtype.kind not in INEXACT:
        return [nothing(prod(out.shape))]
    rule = PRIMITIVE_RULES.get(primitive.name) or FAMILY_RULES.get(primitive.family, everything)
    return [rule(EquationOperands(equation, parts))]


def _of_call(equation: Equation, parts: list[Dependence | None], depth: int) -> list[Dependence]:
    """Looks into a function, or into its own rule if it has one."""
    call = equation.primitive
    variables = [i for i, x in enumerate(equation.operands) if isinstance(x, Variable)]
    types = [equation.operands[i].type for i in variables]
    constant = [nothing(known.size) for known in types]
    given = [parts[i] or none for i, none in zip(variables, constant, strict=True)]

    plain = call.infer is None and call.fwd is None and call.jvp is None

    def evaluate(*values: Array) -> list[Array]:
        run = call.evaluate if plain else call.bind
        return run(replaced(equation.operands, variables, values))  # type: ignore[no-any-return]

    if plain:
        return dependence_of(make_program(evaluate)(*types), given, depth)
    if call.infer is None and depth < DEEPEST_RULES:
        try:
            program = make_program(_tangents_of(evaluate, types))(*types, *types)
        except (ConcretizationError, TracerConversionError):
            pass  # the rule needs values
        else:
            return dependence_of(program, [*constant, *given], depth + 1)
    known = [part for part in parts if part is not None]
    return [
        mixed(known, out.type.size) if out.type.dtype.kind in INEXACT else nothing(out.type.size)
        for out in equation.outputs
    ]


def _tangents_of(
    fun: Callable[..., list[Any]], types: Sequence[ShapeDtype]
) -> Callable[..., list[Any]]:
    """Returns the tangents of a function's results as one of its arguments and their tangents."""
    known = [i for i, x in enumerate(types) if x.dtype.kind in INEXACT]

    def tangents(*both: Array) -> list[Array]:
        values, moved = both[: len(types)], both[len(types) :]

        def moving(*some: Array) -> list[Array]:
            return fun(*replaced(values, known, some))

        given = [values[i] for i in known], [moved[i] for i in known]
        return jvp(moving, *given)[1]

    return tangents


def _shape_of_operand(x: Variable | Value) -> Shape:
    return x.type.shape if isinstance(x, Variable) else shape_dtype(x).shape
