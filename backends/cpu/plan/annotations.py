"""The types in signatures of plans: programs, by the attributes that plans use.

The classes of programs stand on a higher floor, so that plans know protocols alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np

from ...annotations import Buffer, DType, Shape

__all__ = [
    "EquationLike",
    "GridPlace",
    "Kernels",
    "Operand",
    "PartsOfArrays",
    "ProgramLike",
    "RegionLike",
    "VariableLike",
    "VariableType",
]


class VariableType(Protocol):
    """The shape and dtype of a value.

    Attributes:
        weak: Python's type of a weak number; None for all else.
    """

    shape: Shape
    dtype: DType
    weak: type | None
    ndim: int
    size: int


class VariableLike(Protocol):
    """A value of a program, known by its type."""

    type: VariableType


class Boxed(Protocol):
    """An array of a higher floor around a buffer."""

    _data: Any


# Equations compute with variables and constants.
Operand: TypeAlias = VariableLike | Buffer | np.generic | complex | Boxed
# The functions that a backend has in place of NumPy's, by the name of the primitive.
Kernels: TypeAlias = Mapping[str, Callable[..., Any]]
# For every result that is made in a part of a joined array, the array and the part.
PartsOfArrays: TypeAlias = dict[VariableLike, tuple[VariableLike, Any]]
# For every axis of a value the axis of the grid that it is; None for one of length 1.
GridPlace: TypeAlias = Sequence[int | None]


class EquationLike(Protocol):
    """One operation of a program.

    Attributes:
        primitive: a primitive, a fused region, a loop or a choice between branches.
        operands: variables and constants.
    """

    primitive: Any
    operands: Sequence[Any]
    params: Mapping[str, Any]
    outputs: Sequence[VariableLike]
    line: str


class ProgramLike(Protocol):
    """Typed equations in order; the outputs are variables and constants."""

    name: str
    inputs: Sequence[VariableLike]
    equations: Sequence[EquationLike]
    outputs: Sequence[Any]


class RegionLike(Protocol):
    """A fused region: a program over a grid.

    Attributes:
        grid: the lengths of the grid's axes.
        places: for every variable of the program the axes of the grid that it has.
        ranges: the smallest and the largest number that index arrays can have.
    """

    program: ProgramLike
    grid: Shape
    places: Mapping[VariableLike, GridPlace]
    ranges: Mapping[VariableLike, tuple[int, int]]
