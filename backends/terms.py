"""Terms of formulas: what a graph makes of others by operations, which Python's operators write.

Nodes of kernels' graphs are terms, and so are values of blocks of NumPy's functions. A formula that
is a function of terms is written once for both.
"""

from __future__ import annotations

from typing import Any, Protocol, Self, TypeVar

__all__ = ["FormulaTerm", "TermFunction", "select", "term_function"]


class FormulaTerm:
    """A term, of a class whose instances have a graph.

    Attributes:
        graph: makes terms: its ``op`` is given the name of an operation, and terms or numbers.
        dtype: its dtype.
    """

    __slots__ = ()

    graph: Any
    dtype: Any

    @property
    def axes(self) -> frozenset[int]:
        """The axes of the grid that it has."""
        raise NotImplementedError

    def _op(self, operation: str, *operands: Any) -> Self:
        made: Self = self.graph.op(operation, *operands)
        return made

    def __add__(self, other: Any) -> Self:
        return self._op("add", self, other)

    def __radd__(self, other: Any) -> Self:
        return self._op("add", other, self)

    def __sub__(self, other: Any) -> Self:
        return self._op("subtract", self, other)

    def __rsub__(self, other: Any) -> Self:
        return self._op("subtract", other, self)

    def __mul__(self, other: Any) -> Self:
        return self._op("multiply", self, other)

    def __rmul__(self, other: Any) -> Self:
        return self._op("multiply", other, self)

    def __truediv__(self, other: Any) -> Self:
        return self._op("divide", self, other)

    def __rtruediv__(self, other: Any) -> Self:
        return self._op("divide", other, self)

    def __and__(self, other: Any) -> Self:
        return self._op("bitwise_and", self, other)

    def __or__(self, other: Any) -> Self:
        return self._op("bitwise_or", self, other)

    def __xor__(self, other: Any) -> Self:
        return self._op("bitwise_xor", self, other)

    def __lshift__(self, other: Any) -> Self:
        return self._op("left_shift", self, other)

    def __rshift__(self, other: Any) -> Self:
        return self._op("right_shift", self, other)

    def __invert__(self) -> Self:
        return self._op("invert", self)

    def __neg__(self) -> Self:
        return self._op("negative", self)

    def __abs__(self) -> Self:
        return self._op("absolute", self)

    def __lt__(self, other: Any) -> Self:
        return self._op("less", self, other)

    def __le__(self, other: Any) -> Self:
        return self._op("less_equal", self, other)

    def __gt__(self, other: Any) -> Self:
        return self._op("greater", self, other)

    def __ge__(self, other: Any) -> Self:
        return self._op("greater_equal", self, other)

    def equals(self, other: Any) -> Self:
        """Returns where it is equal to another; ``==`` compares terms themselves."""
        return self._op("equal", self, other)

    def differs(self, other: Any) -> Self:
        """Returns where it is not equal to another."""
        return self._op("not_equal", self, other)


TermType = TypeVar("TermType", bound=FormulaTerm)


class TermFunction(Protocol):
    """An operation as a function of terms, or of a term and numbers."""

    def __call__(self, x: TermType, /, *others: Any) -> TermType:
        """Returns the operation of x and others."""


def select(condition: TermType, x: Any, y: Any) -> TermType:
    """Returns one number where a condition is true, and another elsewhere."""
    made: TermType = condition.graph.op("select", condition, x, y)
    return made


def term_function(name: str) -> TermFunction:
    """Returns an operation of terms as a function: ``sqrt = term_function("sqrt")``."""

    def applied(x: Any, /, *others: Any) -> Any:
        graph = next(term.graph for term in (x, *others) if isinstance(term, FormulaTerm))
        return graph.op(name, x, *others)

    applied.__name__ = applied.__qualname__ = name
    applied.__doc__ = f"Returns ``{name}`` of terms."
    return applied
