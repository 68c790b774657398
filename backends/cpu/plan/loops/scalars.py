"""Equations of numbers, in Python's own arithmetic.

Python computes with floats, integers and truth values in a tenth of the time that NumPy takes for
its scalars. The results have the same bits, as both round by IEEE 754. If Python would raise or go
beyond 64 bits, generated code calls NumPy or wraps around.
"""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt
from typing import TYPE_CHECKING, NamedTuple

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
UNARY_TEXTS = {
    "abs": "abs({0})", "logical_not": "not {0}", "negative": "-{0}", "square": "{0} * {0}",
}  # fmt: skip
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


class NumberEquation(NamedTuple):
    """An equation of numbers: the writer of its line, its name, its operands, its result's type."""

    writer: Straight
    name: str
    operands: list[NumberOperand]
    kind: type

    def by_numpy(self, function: str) -> str:
        """Returns the call of a function of NumPy with the operands as floats."""
        given = ", ".join(x.as_float for x in self.operands)
        return f"{self.writer.source.numpy(function)}({given})"


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
    numbers = NumberEquation(writer, name, operands, kind)
    write = NUMBER_WRITERS.get(name)
    text = write(numbers) if write is not None else None
    if text is None and ufunc is not None and kind is float:
        function, loop = ufunc
        if all(dtype.char == "d" for dtype in loop):
            text = numbers.by_numpy(function.__name__)
    return text


def _arithmetic_text(e: NumberEquation) -> str | None:
    x, y = e.operands
    # Sums and products of truth values are truth values.
    if e.kind is bool or (e.kind is int and x.kind is y.kind is bool):
        return None
    return f"{x.text} {ARITHMETIC_SIGNS[e.name]} {y.text}"


def _divide_text(e: NumberEquation) -> str | None:
    x, y = e.operands
    if e.kind is not float:
        return None
    quotient = f"{x.as_float} / {y.as_float}"
    return quotient if y.nonzero else f"{quotient} if {y.text} else {e.by_numpy('divide')}"


def _integer_division_text(e: NumberEquation) -> str | None:
    x, y = e.operands
    if not (e.kind is x.kind is y.kind is int and y.nonzero and (y.large or y.text.isdecimal())):
        return None
    return f"{x.text} {'//' if e.name == 'floor_divide' else '%'} {y.text}"


def _comparison_text(e: NumberEquation) -> str:
    x, y = e.operands
    left, right = (x.text, y.text) if x.kind is y.kind else (x.as_float, y.as_float)
    return f"{left} {COMPARISON_SIGNS[e.name]} {right}"


def _connective_text(e: NumberEquation) -> str | None:
    if any(x.kind is not bool for x in e.operands):
        return None
    return f" {CONNECTIVES[e.name]} ".join(x.text for x in e.operands)


def _unary_text(e: NumberEquation) -> str | None:
    # NumPy takes no absolute value, negative or square of a truth value in Python's way.
    if (e.kind is bool) != (e.name == "logical_not"):
        return None
    return UNARY_TEXTS[e.name].format(e.operands[0].text)


def _root_text(e: NumberEquation) -> str | None:
    (x,) = e.operands
    if not e.kind is x.kind is float:
        return None
    root = e.writer.source.bind(sqrt)
    return f"{root}({x.text}) if {x.text} >= 0.0 else {e.by_numpy('sqrt')}"


def _extremum_text(e: NumberEquation) -> str | None:
    x, y = e.operands
    if not e.kind is x.kind is y.kind:
        return None
    sign = EXTREMA[e.name]
    first = f"{x.text} if {x.text} {sign} {y.text}"
    if e.kind is not float:
        return f"{first} else {y.text}"
    # NumPy decides between zeros, and about NaN.
    return f"{first} else {y.text} if {y.text} {sign} {x.text} else {e.by_numpy(e.name)}"


def _grad_text(e: NumberEquation) -> str | None:
    x, y = e.operands
    if not e.kind is x.kind is y.kind is float:
        return None
    if e.name == "tanh_grad":
        return f"(1.0 - {y.text} * {y.text}) * {x.text}"
    return f"(1.0 - {y.text}) * {y.text} * {x.text}"


def _where_text(e: NumberEquation) -> str:
    condition, x, y = e.operands
    return f"{x.as_kind(e.kind)} if {condition.text} else {y.as_kind(e.kind)}"


NUMBER_WRITERS: dict[str, Callable[[NumberEquation], str | None]] = {
    **dict.fromkeys(ARITHMETIC_SIGNS, _arithmetic_text),
    **dict.fromkeys(COMPARISON_SIGNS, _comparison_text),
    **dict.fromkeys(CONNECTIVES, _connective_text),
    **dict.fromkeys(EXTREMA, _extremum_text),
    **dict.fromkeys(("floor_divide", "remainder"), _integer_division_text),
    **dict.fromkeys(("sigmoid_grad", "tanh_grad"), _grad_text),
    **dict.fromkeys(UNARY_TEXTS, _unary_text),
    "divide": _divide_text,
    "sqrt": _root_text,
    "where": _where_text,
}
