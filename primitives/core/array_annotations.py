"""Types for the modules that the array is made of: they stand below it and cannot name it.

Nothing is imported from here when programs run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol, Self, TypeAlias, TypedDict, TypeVar, overload

import numpy as np

from ...backends.annotations import Buffer, DType, Number, Shape

__all__ = [
    "A", "AnyArray", "AnyOperand", "ArrayAttributes", "B", "BinaryOperator", "Casting",
    "ReductionOptions", "SelectionOptions", "TracedArray", "VarianceOptions",
    "array_functions",
]  # fmt: skip


class AnyArray(Protocol):
    """An ``Array``, as far as modules below it know one."""

    @property
    def shape(self) -> Shape:
        """The length of every axis."""

    @property
    def dtype(self) -> DType:
        """The type of the elements."""

    @property
    def device(self) -> str:
        """The device's name."""

    def __getitem__(self, key: Any) -> Self:
        """Returns some of the elements."""

    def tolist(self) -> Any:
        """Returns the elements as nested lists of Python scalars."""

    def describe(self) -> str:
        """Returns dtype and shape."""

    def __array__(self) -> Buffer:
        """Returns the elements as a NumPy array."""


class ArrayAttributes(AnyArray, Protocol):
    """Attributes of an array, for the classes that it is made of: their base for type checkers."""

    _data: Any

    @property
    def ndim(self) -> int:
        """The number of axes."""


class TracedArray(AnyArray, Protocol):
    """A ``Tracer``, as far as modules below it know one."""

    concrete: bool
    lazy: bool
    value: Any

    def dependence(self) -> str:
        """Returns which arguments the value depends on, for messages."""

    def under(self) -> str:
        """Returns the transformations that run, for messages."""

    def __index__(self) -> int:
        """Returns an integer, or raises where it is not known."""


# An operand that operators and methods take beside their array.
AnyOperand: TypeAlias = AnyArray | Buffer | np.generic | Number | Sequence[Any]

# NumPy's rules for how far elements may be cast.
Casting: TypeAlias = Literal["no", "equiv", "safe", "same_kind", "unsafe"]


class ReductionOptions(TypedDict, total=False):
    """Options of reductions beside their axes."""

    out: None
    keepdims: bool


class SelectionOptions(ReductionOptions, total=False):
    """Options of reductions that may leave elements out."""

    initial: AnyOperand | None
    where: AnyOperand | None


class VarianceOptions(SelectionOptions, total=False):
    """Options of variances and standard deviations."""

    ddof: float
    correction: float | None
    mean: AnyOperand | None


# The class of the array that a method is called on: functions of a ``Tensor`` give one.
A = TypeVar("A")
B = TypeVar("B", bound=AnyArray)


class ArrayFunction(Protocol):
    """A primitive or function of the registry: what it returns is of its operand's class."""

    def __call__(self, x: A, /, *operands: Any, **params: Any) -> A:
        """Applies it."""

    def bind(self, args: Sequence[A], params: dict[str, Any]) -> A:
        """Applies a primitive to operands and parameters that are prepared already."""


class ArrayFunctions(Protocol):
    """The registry, as methods of arrays see it."""

    def __getattr__(self, name: str) -> ArrayFunction: ...

    def __getitem__(self, name: str) -> ArrayFunction: ...


array_functions: ArrayFunctions


class BinaryOperator(Protocol):
    """A method of two operands, which returns an array of the class of the first one."""

    @overload
    def __get__(self, x: None, owner: type | None = None) -> BinaryOperator: ...

    @overload
    def __get__(self, x: A, owner: type | None = None) -> Callable[[AnyOperand], A]: ...

    def __call__(self, x: A, other: Any, /) -> A:
        """Applies it."""
