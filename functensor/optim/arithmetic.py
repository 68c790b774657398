"""Arithmetic of optimizers' rules: on buffers, and in primitives."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..backends.annotations import Buffer
from ..primitives.core.annotations import Value
from ..primitives.core.annotations import operations as ops
from ..primitives.core.array import Array
from ..primitives.core.shape_dtype import shape_dtype

__all__ = ["Buffers", "Primitives", "in_order_of"]


class Buffers:
    """Arithmetic of rules where all is known: ufuncs that write where they are told."""

    add = np.add
    subtract = np.subtract
    multiply = np.multiply
    divide = np.divide
    sign = np.sign
    sqrt = np.sqrt

    @staticmethod
    def maximum(x: Buffer, y: Buffer, out: Buffer | None) -> Buffer:
        """Returns the greater elements."""
        return np.maximum(x, y, out=out)

    @staticmethod
    def square_abs(x: Buffer, out: Buffer | None) -> Buffer:
        """Returns the square of the absolute value."""
        return np.multiply(x, x, out)

    @staticmethod
    def minimum(x: Buffer, y: Buffer, out: Buffer | None) -> Buffer:
        """Returns the smaller elements."""
        return np.minimum(x, y, out=out)

    @staticmethod
    def less(x: Buffer, y: Buffer, out: None) -> Buffer:
        """Says where elements are less than others."""
        return np.less(x, y)

    @staticmethod
    def where(condition: Buffer, x: Buffer, y: Buffer, out: None) -> Buffer:
        """Returns elements of one buffer where a condition holds, and of another elsewhere."""
        return np.where(condition, x, y)


def _never_writing(name: str) -> staticmethod[..., Array]:
    """Returns a primitive that takes the place of its result last, as a ufunc, and ignores it."""

    def apply(*operands: Any) -> Array:
        out: Array = ops[name](*operands[:-1])
        return out

    return staticmethod(apply)


class Primitives:
    """Arithmetic of rules inside transformations."""

    add = _never_writing("add")
    subtract = _never_writing("subtract")
    multiply = _never_writing("multiply")
    divide = _never_writing("divide")
    sign = _never_writing("sign")
    sqrt = _never_writing("sqrt")
    maximum = _never_writing("maximum")
    minimum = _never_writing("minimum")
    less = _never_writing("less")
    where = _never_writing("where")

    @staticmethod
    def square_abs(x: Value, out: None) -> Array:
        """Returns the square of the absolute value."""
        if shape_dtype(x).dtype.kind == "c":
            return ops.real(ops.multiply(x, ops.conj(x)))
        return ops.square(x)


def in_order_of(p: Buffer, g: Buffer) -> Buffer:
    """Returns a gradient whose elements lie in memory as those of its parameter.

    A rule goes over both several times, which is slow where one of them is transposed.
    """
    if p.strides == g.strides or p.ndim < 2:
        return g
    out = np.empty_like(p, g.dtype)
    np.copyto(out, g)
    return out
