"""Python's numbers whose operators compute as arrays do.

A carry that begins with a number of Python's is one in every step of a loop that runs plainly.
Python's own arithmetic would raise where a division by zero gives infinity, and integers would
grow beyond 64 bits. These numbers are Python's in all else: they index lists, they are floats for
``math``, and they do not decide a promotion.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from .registry import registry

__all__ = ["BASES", "HIGHEST", "LOWEST", "Complex", "Float", "Int", "Number", "as_number", "plain"]

PLAIN = frozenset({bool, int, float, complex})
# What takes truth values for whole numbers, as Python does. NumPy's functions do not.
COUNTING = frozenset({"add", "subtract", "multiply", "floor_divide", "remainder", "power"})
primitives = registry.__dict__
LOWEST, HIGHEST = -(1 << 63), (1 << 63) - 1

Operator = Callable[[Any, Any], Any]


def computed(name: str, *operands: Any) -> Any:
    """Returns what a primitive gives of numbers: one again."""
    if name in COUNTING and all(type(x) is bool for x in operands):
        operands = (int(operands[0]), *operands[1:])
    out = primitives[name](*operands)
    buffer = getattr(out, "_data", out)
    return as_number(buffer.item() if isinstance(buffer, np.generic | np.ndarray) else out)


def quick(name: str, operation: Operator) -> tuple[Operator, Operator]:
    """Returns an operator of numbers and its reflection, of whose results most are Python's.

    What is finite, and what 64 bits hold, has the same bits.
    """

    def found(x: Any, y: Any) -> Any:
        out = operation(x, y)
        if type(out) is float:
            # Neither infinity nor NaN.
            return Float(out) if out - out == 0.0 else computed(name, x, y)
        return Int(out) if type(out) is int and LOWEST <= out <= HIGHEST else computed(name, x, y)

    def applied(self: Any, other: Any) -> Any:
        kind = type(other)
        if kind not in PLAIN and kind not in BASES:
            return NotImplemented
        return found(plain(self), plain(other))

    def reflected(self: Any, other: Any) -> Any:
        kind = type(other)
        if kind not in PLAIN and kind not in BASES:
            return NotImplemented
        return found(plain(other), plain(self))

    return applied, reflected


def divided(x: Any, y: Any) -> Any:
    """Returns a quotient of two real numbers as floats; None where NumPy is to be asked."""
    if type(x) is complex or type(y) is complex or not y:
        return None
    return float(x) / float(y)


def binary(name: str) -> Operator:
    """Returns an operator of numbers, which leaves all else to the other operand's class."""

    def operator(self: Any, other: Any) -> Any:
        if type(other) not in PLAIN and not isinstance(other, Number):
            return NotImplemented
        return computed(name, plain(self), plain(other))

    return operator


def reflected(name: str) -> Operator:
    """Returns the same for a number that stands behind the operator."""

    def operator(self: Any, other: Any) -> Any:
        if type(other) not in PLAIN and not isinstance(other, Number):
            return NotImplemented
        return computed(name, plain(other), plain(self))

    return operator


def unary(name: str) -> Callable[[Any], Any]:
    """Returns an operator of one number."""

    def operator(self: Any) -> Any:
        return computed(name, plain(self))

    return operator


class Number:
    """The operators that all classes of numbers have."""

    __slots__ = ()

    __add__, __radd__ = quick("add", operator.add)
    __sub__, __rsub__ = quick("subtract", operator.sub)
    __mul__, __rmul__ = quick("multiply", operator.mul)
    __truediv__, __rtruediv__ = quick("divide", divided)
    __floordiv__, __rfloordiv__ = binary("floor_divide"), reflected("floor_divide")
    __mod__, __rmod__ = binary("remainder"), reflected("remainder")
    __neg__, __abs__ = unary("negative"), unary("abs")

    def __pow__(self, other: Any, modulo: Any = None) -> Any:
        if modulo is not None:
            return pow(plain(self), plain(other), plain(modulo))
        return power(self, other)

    def __rpow__(self, other: Any, modulo: Any = None) -> Any:
        return powered(self, other)

    def __pos__(self) -> Any:
        return self

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        # NumPy knows Python's numbers by their class: instances of another one are not weak.
        return getattr(ufunc, method)(*map(plain, inputs), **options)

    def __array_function__(self, fun: Any, types: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        return fun(*plainly(args), **{name: plainly(x) for name, x in kwargs.items()})


power, powered = binary("power"), reflected("power")


class Int(Number, int):
    """An integer that wraps around at 64 bits."""

    __slots__ = ()

    __and__, __rand__ = binary("bitwise_and"), reflected("bitwise_and")
    __or__, __ror__ = binary("bitwise_or"), reflected("bitwise_or")
    __xor__, __rxor__ = binary("bitwise_xor"), reflected("bitwise_xor")
    __lshift__, __rlshift__ = binary("left_shift"), reflected("left_shift")
    __rshift__, __rrshift__ = binary("right_shift"), reflected("right_shift")
    __invert__ = unary("invert")


class Float(Number, float):
    """A float whose division by zero gives infinity or NaN."""

    __slots__ = ()


class Complex(Number, complex):
    """A complex number whose division by zero gives infinity or NaN."""

    __slots__ = ()


KINDS: dict[type, type] = {int: Int, float: Float, complex: Complex}
BASES: dict[type, Callable[[Any], Any]] = {Int: int, Float: float, Complex: complex}


def as_number(x: Any) -> Any:
    """Returns a Python number as one that computes as arrays do; all else as it is."""
    kind = KINDS.get(type(x))
    return x if kind is None else kind(x)


def plainly(x: Any) -> Any:
    """Returns a number, or those in a list or tuple, as Python's own; all else as it is."""
    return type(x)(map(plainly, x)) if type(x) in (list, tuple) else plain(x)


def plain(x: Any) -> Any:
    """Returns such a number as Python's own; all else as it is."""
    base = BASES.get(type(x))
    return x if base is None else base(x)
