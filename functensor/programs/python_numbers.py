"""Python's operators on numbers of Python's that are traced by staging.

An operator of such numbers alone gives a number again, as it does where nothing is staged: the
result decides no dtype, and booleans count as whole numbers, which they do not for NumPy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..backends.errors.tracebacks import tidy
from ..primitives.core.annotations import operations as ops
from ..primitives.core.array import Tracer
from ..primitives.core.buffers import WEAK_TYPES
from ..primitives.core.errors import OperandError
from ..primitives.core.operators import Operators
from ..primitives.core.python_numbers import as_python_number
from ..primitives.core.trace import base_trace, below_hooks

__all__ = ["TracedNumberOperators", "as_numbers", "python_type_of"]

# Operators that take booleans for whole numbers. Python's other ones give what NumPy does.
COUNTING_OPERATORS = frozenset(
    {
        "abs", "add", "floor_divide", "invert", "left_shift", "multiply", "negative", "positive",
        "power", "remainder", "right_shift", "subtract",
    }
)  # fmt: skip

OperatorMethod = Callable[..., Any]
registered_primitives = ops.__dict__


def python_type_of(x: Any) -> type | None:
    """Returns which of Python's numbers an operand is; None for arrays."""
    if type(x) in WEAK_TYPES:
        return type(as_python_number(x))
    if isinstance(x, TracedNumberOperators):
        return getattr(x, "variable").type.weak  # type: ignore[no-any-return]  # noqa: B009
    return None


def computed_of_numbers(name: str, operands: tuple[Any, ...]) -> Any:
    """Returns what an operator gives of numbers: one again.

    The trace in the slot computes it, which need not be that of the operands: the body of a loop
    uses numbers from outside.
    """
    if name in COUNTING_OPERATORS and all(python_type_of(x) is bool for x in operands):
        first = operands[0]
        first = int(first) if type(first) is bool else computed_of_numbers("add", (first, 0))
        operands = (first, *operands[1:])
    # Hooks see no arithmetic of Python's, where nothing is staged either.
    with below_hooks():
        return as_numbers(registered_primitives[name], *operands)


def as_numbers(fun: Callable[..., Any], *args: Any) -> Any:
    """Calls a function whose results of numbers alone are numbers, while a program is staged."""
    trace: Any = base_trace()
    if not trace.staging:
        return fun(*args)
    before = trace.of_python
    try:
        trace.of_python = True
        return fun(*args)
    finally:
        trace.of_python = before


def binary(name: str, reflected: bool = False) -> OperatorMethod:
    """Returns an operator of two operands."""

    def operator(self: Any, other: Any) -> Any:
        operands = (other, self) if reflected else (self, other)
        try:
            if self.variable.type.weak is not None and python_type_of(other) is not None:
                return computed_of_numbers(name, operands)
            return registered_primitives[name](*operands)
        except OperandError:
            return NotImplemented
        except Exception as error:
            tidy(error)
            raise

    return operator


def operator_of_numbers(name: str, otherwise: OperatorMethod) -> OperatorMethod:
    """Returns an operator that does something else where an operand is not a number."""

    def operator(self: Any, *other: Any) -> Any:
        if self.variable.type.weak is None or not all(map(python_type_of, other)):
            return otherwise(self, *other)
        return computed_of_numbers(name, (self, *other))

    return operator


class TracedNumberOperators(Operators):
    """The operators of what may stand for a number of Python's."""

    __slots__ = ()

    __add__, __radd__ = binary("add"), binary("add", True)
    __sub__, __rsub__ = binary("subtract"), binary("subtract", True)
    __mul__, __rmul__ = binary("multiply"), binary("multiply", True)
    __truediv__, __rtruediv__ = binary("divide"), binary("divide", True)
    __floordiv__, __rfloordiv__ = binary("floor_divide"), binary("floor_divide", True)
    __mod__, __rmod__ = binary("remainder"), binary("remainder", True)
    __and__, __rand__ = binary("bitwise_and"), binary("bitwise_and", True)
    __or__, __ror__ = binary("bitwise_or"), binary("bitwise_or", True)
    __xor__, __rxor__ = binary("bitwise_xor"), binary("bitwise_xor", True)
    __lshift__, __rlshift__ = binary("left_shift"), binary("left_shift", True)
    __rshift__, __rrshift__ = binary("right_shift"), binary("right_shift", True)
    __lt__, __le__ = binary("less"), binary("less_equal")
    __gt__, __ge__ = binary("greater"), binary("greater_equal")
    __eq__ = operator_of_numbers("equal", Operators.__eq__)
    __ne__ = operator_of_numbers("not_equal", Operators.__ne__)
    __pow__, __rpow__ = operator_of_numbers("power", Operators.__pow__), binary("power", True)
    __neg__ = operator_of_numbers("negative", Operators.__neg__)
    __pos__ = operator_of_numbers("positive", Operators.__pos__)
    __abs__ = operator_of_numbers("abs", Operators.__abs__)
    __invert__ = operator_of_numbers("invert", Operators.__invert__)

    __hash__ = Tracer.__hash__  # type: ignore[assignment]
