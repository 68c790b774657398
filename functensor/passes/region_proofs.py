"""Proofs that the values of a region lie in its grid where NumPy's broadcasting has them.

A place says which element of a value belongs to each point of the grid. An equation says which
elements of its operands belong to each element of its result. Both have to say the same. They are
compared as strides: every axis of the grid has one of its own, and NumPy itself broadcasts them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from ..backends.region_functions import (
    GATHERS,
    LAST_AXIS_FUNCTIONS,
    REDUCTION_UFUNCS,
    ROW_FUNCTIONS,
)
from ..primitives.core.index_key import Layout
from ..programs.program import Equation, Program, ProgramError, Variable, type_of, used

__all__ = [
    *("GATHERED_FROM", "REGION_REDUCTIONS", "ROW_OPERATIONS", "Place"),
    *("count_of_sources", "prove_places"),
]

# For every axis of a value the axis of the grid that it is; None for axes of length 1.
Place = tuple[int | None, ...]
Strides = tuple[int, ...]
# Of primitives that take elements of an array, those that take elements of two.
TAKING_OF_TWO = frozenset({"pool_scatter"})
# The place of an array from which elements are gathered: it is no part of the grid.
GATHERED_FROM: Place = ()
# The memory of arrays whose strides alone are of interest: no element is ever read.
BYTE = np.zeros((), np.int8)
REGION_REDUCTIONS = frozenset({*REDUCTION_UFUNCS, "var"})
# Operations that need whole rows along their ``axis``.
ROW_OPERATIONS = ROW_FUNCTIONS - REGION_REDUCTIONS


def prove_places(program: Program, grid: Sequence[int], places: Mapping[Variable, Place]) -> None:
    """Checks the places of all values of a region.

    Args:
        program: what the region computes.
        grid: the lengths of its axes. Blocks are cut along the first one.
        places: for every variable of the program which axes of the grid it has.

    Raises:
        ProgramError: an equation takes other elements than a place says, or needs what is complete
            only after all blocks.
    """
    gathered = {x for e in program.equations for x in used(e.operands[: count_of_sources(e)])}
    if not gathered.issubset(program.inputs):
        raise ProgramError("elements are gathered from what the region computes")
    strides: dict[Variable, Strides] = {
        v: () if v in gathered else _strides(v, places, grid) for v in program.inputs
    }
    late: set[Variable] = set()
    for equation in program.equations:
        name, (out,) = equation.primitive.name, equation.outputs
        if not late.isdisjoint(used(equation.operands)):
            raise ProgramError(f"{name} needs what is complete only after all blocks")
        strides[out] = _strides(out, places, grid)
        begin = count_of_sources(equation)
        if not gathered.isdisjoint(used(equation.operands[begin:])):
            raise ProgramError(f"{name} needs in the grid what elements are gathered from")
        for x, wanted in _demands(equation, strides):
            if strides[x] != wanted:
                raise ProgramError(
                    f"{name} needs {x.type} at {_shown_strides(wanted)} of the grid "
                    f"{tuple(grid)}, and it lies at {_shown_strides(strides[x])}"
                )
        if 1 in _gone(equation, strides):
            late.add(out)
    for out in program.outputs:
        if out not in late and 1 not in strides[out]:
            raise ProgramError(f"{out.type}, which is returned, is the same for all blocks")


def _strides(variable: Variable, places: Mapping[Variable, Place], grid: Sequence[int]) -> Strides:
    """Returns a place as strides: the numbers of axes from 1 up, and 0 where there is none.

    Raises:
        ProgramError: it is none: axes are in order, and as long as the grid's.
    """
    place = places.get(variable, ())
    axes = [axis for axis in place if axis is not None]
    lengths = [1 if axis is None else grid[axis] for axis in place]
    if tuple(lengths) != variable.type.shape or axes != sorted(set(axes)):
        raise ProgramError(f"{variable.type} cannot lie at {place} of the grid {tuple(grid)}")
    return tuple([0 if axis is None or grid[axis] == 1 else axis + 1 for axis in place])


def _demands(equation: Equation, strides: Mapping[Variable, Strides]) -> list[Any]:
    """Returns for variables of an equation the strides that they have to have beside the others."""
    primitive, params = equation.primitive, equation.params
    name, operands, (out,) = primitive.name, used(equation.operands), equation.outputs
    if primitive.family == "elementwise" or name == "broadcast_to":
        whole = strides[out], out.type.shape
        return [(x, _aligned_strides(x, strides[x], *whole)) for x in operands]
    if is_gathering(equation):
        return _demands_of_indices(equation, strides)
    first, *others = operands
    lies = strides[first]
    if name == "reshape":
        axes = iter(filter(None, lies))
        return [(out, tuple([0 if n == 1 else next(axes, 0) for n in out.type.shape]))]
    if name in REGION_REDUCTIONS and 1 in lies:
        axis, keepdims = params["axis"], params["keepdims"]
        kept = [a for a in range(len(lies)) if keepdims or a not in axis]
        return [(out, tuple([0 if a in axis else lies[a] for a in kept]))]
    if name in ROW_OPERATIONS and 1 in lies and 1 not in {lies[a] for a in params["axis"]}:
        return [(x, lies) for x in (*others, out)]
    if name in LAST_AXIS_FUNCTIONS and 1 in lies and lies[-1] > 1:
        fewer = lies[-1:] if name == "affine_normalize" else lies[:-1]
        return [(x, lies if x.type.ndim == len(lies) else fewer) for x in (*others, out)]
    if name == "matmul":
        matrix, vector = sorted(operands, key=lambda x: -x.type.ndim)
        over, left = (2, 1) if matrix is first else (1, 2)
        return [(matrix, (1, 2)), (vector, (over,)), (out, (left,))]
    raise ProgramError(f"{name} cannot be computed block by block")


def is_gathering(equation: Equation) -> bool:
    """Says whether an equation of a region takes elements of its first operand by their places."""
    return equation.primitive.name in GATHERS


def count_of_sources(equation: Equation) -> int:
    """Returns how many operands, the first ones, an equation of a region takes elements of."""
    return is_gathering(equation) + (equation.primitive.name in TAKING_OF_TWO)


def _demands_of_indices(equation: Equation, strides: Mapping[Variable, Strides]) -> list[Any]:
    """Returns the strides that index arrays have to have beside the result of a gather."""
    indices, (out,) = used(equation.operands[count_of_sources(equation) :]), equation.outputs
    if equation.primitive.name != "index":
        return [(x, strides[out]) for x in indices]
    if not indices:
        return []
    x, *shapes = [type_of(v).shape for v in equation.operands]
    layout = Layout(equation.params["key"], x, shapes)
    if layout.shape != out.type.shape:
        raise ProgramError(f"index gives {out.type}, not {layout.shape}")
    own = slice(layout.place, layout.place + len(layout.advanced))
    return [
        (v, _aligned_strides(v, strides[v], strides[out][own], layout.advanced)) for v in indices
    ]


def _aligned_strides(x: Variable, own: Strides, strides: Strides, shape: Strides) -> Strides:
    """Returns the strides of an operand that is broadcast to a shape with some strides."""
    spread = np.broadcast_to(as_strided(BYTE, x.type.shape, own, writeable=False), shape)
    axes = [wanted if found else 0 for found, wanted in zip(spread.strides, strides)]
    return tuple(axes[len(axes) - len(own) :])


def _gone(equation: Equation, strides: Mapping[Variable, Strides]) -> set[int]:
    """Returns the strides of an equation's operands over which its result is summed."""
    name = equation.primitive.name
    if name not in REGION_REDUCTIONS and name != "matmul":
        return set()
    taken = {stride for x in used(equation.operands) for stride in strides[x]}
    return taken.difference(strides[equation.outputs[0]])


def _shown_strides(strides: Strides) -> str:
    """Returns strides as a place, for messages."""
    return str(tuple([stride - 1 if stride else None for stride in strides]))
