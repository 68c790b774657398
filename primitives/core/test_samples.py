"""Operands with which the registry-driven tests call a primitive."""

from __future__ import annotations

from typing import Any

__all__ = [
    "DISTINCT", "INDEX", "INTEGER", "LOGICAL", "NONZERO", "POSITIVE", "REAL", "UNIT", "Domain",
    "Operand", "Sample",
]  # fmt: skip


class Domain:
    """The range from which an operand's values are drawn.

    Args:
        low, high: bounds of the values.
        kind: ``f`` inexact (real, or complex where the primitive holds for it), ``i`` integers,
            ``b`` booleans.
        gap: values closer to zero than this are moved away from it.
        distinct: all values of an array differ clearly (for max, sort and the like).
    """

    __slots__ = ("distinct", "gap", "high", "kind", "low")

    def __init__(
        self,
        low: float = -2.0,
        high: float = 2.0,
        *,
        kind: str = "f",
        gap: float = 0.0,
        distinct: bool = False,
    ) -> None:
        self.low = low
        self.high = high
        self.kind = kind
        self.gap = gap
        self.distinct = distinct


REAL = Domain()
NONZERO = Domain(gap=0.3)
POSITIVE = Domain(0.3, 3.0)
UNIT = Domain(-0.8, 0.8)
DISTINCT = Domain(distinct=True)
LOGICAL = Domain(kind="b")
INTEGER = Domain(-4, 4, kind="i")


def INDEX(length: int) -> Domain:
    """Returns the domain of indices into an axis, negative ones included."""
    return Domain(-length, length - 1, kind="i")


class Operand:
    """An operand of a sample: its shape and its domain."""

    __slots__ = ("domain", "shape")

    def __init__(self, shape: tuple[int, ...], domain: Domain = REAL) -> None:
        self.shape = shape
        self.domain = domain


class Sample:
    """One call: operands (a bare tuple is a shape of reals) and static parameters.

    >>> Sample((2, 3), Operand((3,), POSITIVE), axis=0).params
    {'axis': 0}
    """

    __slots__ = ("given", "params")

    def __init__(self, *operands: tuple[int, ...] | Operand, **params: Any) -> None:
        self.given = operands
        self.params = params

    @property
    def operands(self) -> list[Operand]:
        """The operands; they are made when they are asked for, as imports do not need them."""
        return [op if isinstance(op, Operand) else Operand(op) for op in self.given]
