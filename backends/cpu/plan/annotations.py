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

    @property
    def shape(self) -> Shape: ...
    @property
    def dtype(self) -> DType: ...
    @property
    def weak(self) -> type | None: ...
    @property
    def ndim(self) -> int: ...
    @property
    def size(self) -> int: ...


class VariableLike(Protocol):
    """A value of a program, known by its type."""

    @property
    def type(self) -> VariableType: ...


class Boxed(Protocol):
    """An array of a higher floor around a buffer."""

    _data: Any


# Equations compute with variables and constants.
Operand: TypeAlias = VariableLike | Buffer | np.generic | complex | Boxed
# The functions that a backend has in place of NumPy's, by the name of the primitive.
Kernels: TypeAlias = Mapping[str, Callable[..., Any]]
# For every axis of a value the axis of the grid that it is; None for one of length 1.
GridPlace: TypeAlias = Sequence[int | None]


class EquationLike(Protocol):
    """One operation of a program.

    Attributes:
        primitive: a primitive, a fused region, a loop or a choice between branches.
        operands: variables and constants.
    """

    @property
    def primitive(self) -> Any: ...
    @property
    def operands(self) -> Sequence[Any]: ...
    @property
    def params(self) -> Mapping[str, Any]: ...
    @property
    def outputs(self) -> Sequence[VariableLike]: ...
    @property
    def line(self) -> str: ...


class ProgramLike(Protocol):
    """Typed equations in order; the outputs are variables and constants."""

    @property
    def name(self) -> str: ...
    @property
    def inputs(self) -> Sequence[VariableLike]: ...
    @property
    def equations(self) -> Sequence[EquationLike]: ...
    @property
    def outputs(self) -> Sequence[Any]: ...


class RegionLike(Protocol):
    """A fused region: a program over a grid.

    Attributes:
        grid: the lengths of the grid's axes.
        places: for every variable of the program the axes of the grid that it has.
    """

    @property
    def program(self) -> ProgramLike: ...
    @property
    def grid(self) -> Shape: ...
    @property
    def places(self) -> Mapping[VariableLike, GridPlace]: ...
