"""Python's numbers whose operators compute as arrays do.

A carry that begins with a number of Python's is one in every step of a loop that runs plainly.
Python's own arithmetic would raise where a division by zero gives infinity, and integers would
grow beyond 64 bits. These numbers are Python's in all else: they index lists, they are floats for
``math``, and they do not decide a promotion.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection
from functools import partial
from typing import Any, Self

import numpy as np

from ...backends.annotations import Number
from .registry import PRIMITIVES

__all__ = [
    "BASES", "INT64_MAX", "INT64_MIN", "Complex", "ComputingNumber", "Float", "Int", "as_number",
    "as_python_number",
]  # fmt: skip

PYTHON_NUMBERS = frozenset({bool, int, float, complex})
# Operations that take truth values for whole numbers, as Python does. NumPy's functions do not.
INTEGER_OPERATIONS = frozenset(
    {"add", "subtract", "multiply", "floor_divide", "remainder", "power"}
)
INT64_MIN, INT64_MAX = -(1 << 63), (1 << 63) - 1

NumberOperation = Callable[[Any, Any], Any]


def computed_number(name: str, *operands: Any) -> Any:
    """Returns what a primitive gives of numbers: one again."""
    if name in INTEGER_OPERATIONS and all(type(x) is bool for x in operands):
        operands = (int(operands[0]), *operands[1:])
    out = PRIMITIVES[name](*operands)
    buffer = getattr(out, "_data", out)
    return as_number(buffer.item() if isinstance(buffer, np.generic | np.ndarray) else out)


def quick_operators(
    name: str, operation: NumberOperation
) -> tuple[NumberOperation, NumberOperation]:
    """Returns an operator of numbers and its reflection, of whose results most are Python's.

    Finite floats, and integers that 64 bits hold, have the same bits in NumPy.
    """

    def found(x: Number, y: Number) -> Any:
        out = operation(x, y)
        if type(out) is float:
            # Neither infinity nor NaN.
            return Float(out) if out - out == 0.0 else computed_number(name, x, y)
        if type(out) is int and INT64_MIN <= out <= INT64_MAX:
            return Int(out)
        return computed_number(name, x, y)

    return operator_pair(found)


def operator_pair(compute: NumberOperation) -> tuple[NumberOperation, NumberOperation]:
    """Returns an operator of numbers and its reflection.

    They leave all else to the other operand's class.
    """

    def applied(self: ComputingNumber, other: Any) -> Any:
        kind = type(other)
        if kind not in PYTHON_NUMBERS and kind not in BASES:
            return NotImplemented
        return compute(as_python_number(self), as_python_number(other))

    def reflected(self: ComputingNumber, other: Any) -> Any:
        kind = type(other)
        if kind not in PYTHON_NUMBERS and kind not in BASES:
            return NotImplemented
        return compute(as_python_number(other), as_python_number(self))

    return applied, reflected


def float_quotient(x: Any, y: Any) -> float | None:
    """Returns a quotient of two real numbers as floats; None where NumPy is to be asked."""
    if type(x) is complex or type(y) is complex or not y:
        return None
    return float(x) / float(y)


def number_operators(name: str) -> tuple[NumberOperation, NumberOperation]:
    """Returns an operator of numbers and its reflection, which a primitive computes."""
    return operator_pair(partial(computed_number, name))


def unary_number_operator(name: str) -> Callable[[Any], Any]:
    """Returns an operator of one number."""

    def operator(self: ComputingNumber) -> Any:
        return computed_number(name, as_python_number(self))

    return operator


class ComputingNumber:
    """The operators that all classes of numbers have."""

    __slots__ = ()

    __add__, __radd__ = quick_operators("add", operator.add)
    __sub__, __rsub__ = quick_operators("subtract", operator.sub)
    __mul__, __rmul__ = quick_operators("multiply", operator.mul)
    __truediv__, __rtruediv__ = quick_operators("divide", float_quotient)
    __floordiv__, __rfloordiv__ = number_operators("floor_divide")
    __mod__, __rmod__ = number_operators("remainder")
    __neg__, __abs__ = unary_number_operator("negative"), unary_number_operator("abs")

    def __pow__(self, other: Number, modulo: int | None = None) -> Any:
        if modulo is not None:
            return pow(as_python_number(self), as_python_number(other), as_python_number(modulo))
        return power(self, other)

    def __rpow__(self, other: Number, modulo: int | None = None) -> Any:
        return powered(self, other)

    def __pos__(self) -> Self:
        return self

    def __divmod__(self, other: Number) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Number) -> Any:
        return other // self, other % self

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        # NumPy knows Python's numbers by their class: instances of another one are not weak.
        return getattr(ufunc, method)(*map(as_python_number, inputs), **options)

    def __array_function__(
        self,
        fun: Callable[..., Any],
        types: Collection[type],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        plain = {name: as_python_numbers(x) for name, x in kwargs.items()}
        return fun(*as_python_numbers(args), **plain)


power, powered = number_operators("power")


class Int(ComputingNumber, int):
    """An integer that wraps around at 64 bits."""

    __slots__ = ()

    __and__, __rand__ = number_operators("bitwise_and")
    __or__, __ror__ = number_operators("bitwise_or")
    __xor__, __rxor__ = number_operators("bitwise_xor")
    __lshift__, __rlshift__ = number_operators("left_shift")
    __rshift__, __rrshift__ = number_operators("right_shift")
    __invert__ = unary_number_operator("invert")


class Float(ComputingNumber, float):
    """A float whose division by zero gives infinity or NaN."""

    __slots__ = ()


class Complex(ComputingNumber, complex):
    """A complex number whose division by zero gives infinity or NaN."""

    __slots__ = ()


NUMBER_CLASSES: dict[type, type] = {int: Int, float: Float, complex: Complex}
BASES: dict[type, Callable[[Any], Any]] = {Int: int, Float: float, Complex: complex}


def as_number(x: Any) -> Any:
    """Returns a Python number as one that computes as arrays do; all else as it is."""
    kind = NUMBER_CLASSES.get(type(x))
    return x if kind is None else kind(x)


def as_python_numbers(x: Any) -> Any:
    """Returns a number, or those in a list or tuple, as Python's own; all else as it is."""
    return type(x)(map(as_python_numbers, x)) if type(x) in (list, tuple) else as_python_number(x)


def as_python_number(x: Any) -> Any:
    """Returns such a number as Python's own; all else as it is."""
    base = BASES.get(type(x))
    return x if base is None else base(x)
