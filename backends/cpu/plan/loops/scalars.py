"""Equations of numbers, in Python's own arithmetic.

Python computes with floats, integers and truth values in a tenth of the time that NumPy takes for
its scalars. The results have the same bits, as both round by IEEE 754. If Python would raise or go
beyond 64 bits, generated code calls NumPy or wraps around.
"""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ..codegen.operands import (
    ARITHMETIC_SIGNS,
    COMPARISON_SIGNS,
    PYTHON_NUMBERS,
    constant,
    is_variable,
)

if TYPE_CHECKING:
    from ....annotations import DType
    from ..annotations import EquationLike, Operand, VariableType
    from ..writer import Straight

__all__ = [
    "LARGEST_INT64",
    "OVERFLOWING",
    "SMALLEST_INT64",
    "number_kind",
    "number_text",
    "wrapped",
]

NUMBER_KINDS: dict[DType, type] = {
    np.dtype(np.float64): float,
    np.dtype(np.int64): int,
    np.dtype(np.bool_): bool,
}
SMALLEST_INT64, LARGEST_INT64 = -(1 << 63), (1 << 63) - 1

CONNECTIVES = {"logical_and": "and", "logical_or": "or"}
EXTREMA = {"maximum": ">", "minimum": "<"}
# Primitives whose results of integers may need more than 64 bits.
OVERFLOWING = frozenset({*ARITHMETIC_SIGNS, "abs", "negative", "square"})


def number_kind(known: VariableType) -> type | None:
    """Returns Python's type for a number of a type; None for arrays and other dtypes."""
    return NUMBER_KINDS.get(known.dtype) if known.shape == () else None


def wrapped(x: int) -> int:
    """Returns an integer wrapped around to 64 bits."""
    return ((x - SMALLEST_INT64) & 0xFFFFFFFFFFFFFFFF) + SMALLEST_INT64


class NumberOperand:
    """An operand of numbers' arithmetic.

    Attributes:
        kind: its type; None for all but numbers.
        text: its text.
        as_float: its text as a float.
        nonzero: whether it is not 0, for sure.
        large: whether it is an integer of more than 64 bits.
    """

    __slots__ = ("as_float", "kind", "large", "nonzero", "text")

    def __init__(self, writer: Straight, x: Operand) -> None:
        self.nonzero = self.large = False
        self.kind: type | None
        if is_variable(x):
            self.kind = number_kind(x.type)
            self.text = writer.source.names[x] if self.kind else ""
            self.as_float = self.text if self.kind is float else f"float({self.text})"
            return
        value = constant(x)
        if type(value) not in PYTHON_NUMBERS:
            value = value.item() if value.shape == () and value.dtype in NUMBER_KINDS else None
        self.kind = type(value) if type(value) in (float, int, bool) else None
        self.nonzero = bool(value)
        self.large = self.kind is int and wrapped(value) != value
        self.text = writer.source.shown(value) if self.kind else ""
        self.as_float = writer.source.shown(float(value)) if self.kind else ""

    def as_kind(self, kind: type) -> str:
        """Returns the text of the operand in another type."""
        return self.text if self.kind is kind else f"{kind.__name__}({self.text})"


NumberOperands: TypeAlias = list[NumberOperand]


def number_text(
    writer: Straight, equation: EquationLike, ufunc: tuple[np.ufunc, tuple[DType, ...]] | None
) -> str | None:
    """Returns the text of an equation of numbers; None for other equations."""
    (out, *others) = equation.outputs
    kind = number_kind(out.type)
    if kind is None or others:
        return None
    operands = [NumberOperand(writer, x) for x in equation.operands]
    if any(x.kind is None for x in operands):
        return None
    name = equation.primitive.name
    if name == "stop_gradient":
        return operands[0].text
    if name == "astype":
        (x,) = operands
        # Python's integers of floats may have more than 64 bits.
        return x.as_kind(kind) if x.kind is kind or kind is float else None
    if equation.params:
        return None
    if kind is int:
        for x in operands:
            if x.large:
                # The line raises when it runs, as NumPy does.
                x.text = f"{writer.source.numpy('int64')}({x.text})"
    write = NUMBER_WRITERS.get(name)
    text = write(writer, name, operands, kind) if write is not None else None
    if text is None and ufunc is not None and kind is float:
        function, loop = ufunc
        if all(dtype.char == "d" for dtype in loop):
            given = ", ".join(x.as_float for x in operands)
            text = f"{writer.source.numpy(function.__name__)}({given})"
    return text


def _arithmetic_text(
    writer: Straight, name: str, operands: NumberOperands, kind: type
) -> str | None:
    x, y = operands
    text = f"{x.text} {ARITHMETIC_SIGNS[name]} {y.text}"
    if kind is float:
        return text
    return text if kind is int and not x.kind is y.kind is bool else None


def _divide_text(writer: Straight, name: str, operands: NumberOperands, kind: type) -> str | None:
    x, y = operands
    if kind is not float:
        return None
    quotient = f"{x.as_float} / {y.as_float}"
    if y.nonzero:
        return quotient
    by_numpy = f"{writer.source.numpy('divide')}({x.as_float}, {y.as_float})"
    return f"{quotient} if {y.text} else {by_numpy}"


def _integer_division_text(
    writer: Straight, name: str, operands: NumberOperands, kind: type
) -> str | None:
    x, y = operands
    if not (kind is x.kind is y.kind is int and y.nonzero and (y.large or y.text.isdecimal())):
        return None
    return f"{x.text} {'//' if name == 'floor_divide' else '%'} {y.text}"


def _comparison_text(
    writer: Straight, name: str, operands: NumberOperands, kind: type
) -> str | None:
    x, y = operands
    if x.kind is y.kind:
        return f"{x.text} {COMPARISON_SIGNS[name]} {y.text}"
    return f"{x.as_float} {COMPARISON_SIGNS[name]} {y.as_float}"


def _connective_text(
    writer: Straight, name: str, operands: NumberOperands, kind: type
) -> str | None:
    if any(x.kind is not bool for x in operands):
        return None
    return f" {CONNECTIVES[name]} ".join(x.text for x in operands)


def _not_text(writer: Straight, name: str, operands: NumberOperands, kind: type) -> str | None:
    return f"not {operands[0].text}"


def _negative_text(writer: Straight, name: str, operands: NumberOperands, kind: type) -> str | None:
    return f"-{operands[0].text}" if kind is not bool else None


def _absolute_text(writer: Straight, name: str, operands: NumberOperands, kind: type) -> str | None:
    return f"abs({operands[0].text})" if kind is not bool else None


def _square_text(writer: Straight, name: str, operands: NumberOperands, kind: type) -> str | None:
    return f"{operands[0].text} * {operands[0].text}" if kind is not bool else None


def _root_text(writer: Straight, name: str, operands: NumberOperands, kind: type) -> str | None:
    (x,) = operands
    if not kind is x.kind is float:
        return None
    by_numpy = f"{writer.source.numpy('sqrt')}({x.text})"
    return f"{writer.source.bind(sqrt)}({x.text}) if {x.text} >= 0.0 else {by_numpy}"


def _extremum_text(writer: Straight, name: str, operands: NumberOperands, kind: type) -> str | None:
    x, y = operands
    if not kind is x.kind is y.kind:
        return None
    # NumPy decides between zeros, and about NaN.
    by_numpy = f"{writer.source.numpy(name)}({x.text}, {y.text})"
    sign = EXTREMA[name]
    first = f"{x.text} if {x.text} {sign} {y.text}"
    if kind is not float:
        return f"{first} else {y.text}"
    return f"{first} else {y.text} if {y.text} {sign} {x.text} else {by_numpy}"


def _grad_text(writer: Straight, name: str, operands: NumberOperands, kind: type) -> str | None:
    x, y = operands
    if not kind is x.kind is y.kind is float:
        return None
    factor = f"(1.0 - {y.text} * {y.text})" if name[0] == "t" else f"(1.0 - {y.text}) * {y.text}"
    return f"{factor} * {x.text}"


def _where_text(writer: Straight, name: str, operands: NumberOperands, kind: type) -> str | None:
    condition, x, y = operands
    return f"{x.as_kind(kind)} if {condition.text} else {y.as_kind(kind)}"


NUMBER_WRITERS: dict[str, Callable[[Any, str, NumberOperands, type], str | None]] = {
    **dict.fromkeys(ARITHMETIC_SIGNS, _arithmetic_text),
    **dict.fromkeys(COMPARISON_SIGNS, _comparison_text),
    **dict.fromkeys(CONNECTIVES, _connective_text),
    **dict.fromkeys(EXTREMA, _extremum_text),
    **dict.fromkeys(("floor_divide", "remainder"), _integer_division_text),
    "abs": _absolute_text,
    "divide": _divide_text,
    "logical_not": _not_text,
    "negative": _negative_text,
    "sigmoid_grad": _grad_text,
    "sqrt": _root_text,
    "square": _square_text,
    "tanh_grad": _grad_text,
    "where": _where_text,
}
