"""Python's operators on arrays, each of them a primitive."""

from __future__ import annotations

from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, Any

import numpy as np

from ...backends.errors.tracebacks import tidy
from ...backends.frames import frame_at, module_of
from .errors import OperandError
from .numpy_protocols import has_own
from .registry import PRIMITIVES
from .shape_dtype import NUMBERS

if TYPE_CHECKING:
    from typing import Self

    from .array_annotations import A, AnyArray, AnyOperand, BinaryOperator
    from .array_annotations import array_functions as ops
else:
    from .registry import registry as ops

__all__ = ["Operators", "leave_to_its_class"]


def binary_operator(name: str) -> tuple[BinaryOperator, BinaryOperator]:
    """Returns an operator and its reflection, which leave foreign operands to their own class."""

    def operator(self: Any, other: Any) -> Any:
        try:
            return PRIMITIVES[name].applied(self, other)
        except OperandError:
            return by_its_class(other, name, self)
        except Exception as error:
            PRIMITIVES[name].complain(error, (self, other), {})
            raise

    def reflected(self: Any, other: Any) -> Any:
        try:
            return PRIMITIVES[name].applied(other, self)
        except OperandError:
            return by_its_class(other, name, self, turned=True)
        except Exception as error:
            PRIMITIVES[name].complain(error, (other, self), {})
            raise

    return operator, reflected


def unary_operator(name: str) -> Callable[[A], A]:
    """Returns an operator of one operand."""

    def operator(self: Any) -> Any:
        try:
            return PRIMITIVES[name](self)
        except Exception as error:
            tidy(error)
            raise

    return operator


# The method of another class that Python tries after an operator of that primitive.
REFLECTED = {
    "add": "__radd__", "subtract": "__rsub__", "multiply": "__rmul__", "divide": "__rtruediv__",
    "floor_divide": "__rfloordiv__", "remainder": "__rmod__", "matmul": "__rmatmul__",
    "power": "__rpow__", "bitwise_and": "__rand__", "bitwise_or": "__ror__",
    "bitwise_xor": "__rxor__", "left_shift": "__rlshift__", "right_shift": "__rrshift__",
    "less": "__gt__", "less_equal": "__ge__", "greater": "__lt__", "greater_equal": "__le__",
    "equal": "__eq__", "not_equal": "__ne__",
}  # fmt: skip
COMPARISON_OPERATORS = {"less", "less_equal", "greater", "greater_equal", "equal", "not_equal"}


def by_its_class(other: Any, name: str, x: AnyArray, turned: bool = False) -> Any:
    """Returns what Python is told of an operand that is left to its own class.

    Pandas turns down arrays of two axes that are not NumPy's. So its operator is called here with
    NumPy's array, which stands on the right if ``turned``. Python itself asks every other class.
    """
    if not (is_of_pandas(other) and is_array(x)):
        return NotImplemented
    method = REFLECTED[name]
    if turned and name not in COMPARISON_OPERATORS:
        method = method.replace("__r", "__", 1)
    operator: Any = getattr(type(other), method, None)
    if operator is not None:
        return operator(other, np.asarray(x))
    ufunc: Any = getattr(np, name)
    out = ufunc(other, np.asarray(x)) if turned else ufunc(np.asarray(x), other)
    return out if is_of_pandas(out) else ops.asarray(out)


def is_of_pandas(x: Any) -> bool:
    """Says whether an operand speaks the protocol of pandas' operators."""
    return hasattr(type(x), "__pandas_priority__") and not isinstance(x, Operators)


def is_array(x: Any) -> bool:
    """Says whether an operand is an array, and no tensor whose graph would get lost."""
    return hasattr(x, "_data") and not getattr(x, "mutable", False)


def leave_to_its_class(x: Any) -> None:
    """Leaves an operator of an array to an operand whose class makes more of it than an array.

    Series, data frames, masked and labelled arrays keep their labels so. This is called before a
    plain array is made of such an operand. Traced values cannot have labels: beside them it counts
    as an array, and so it does where a function is called rather than an operator.

    Raises:
        OperandError: the operator returns ``NotImplemented`` then, and Python asks the class.
    """
    frame: FrameType | None = frame_at(2)
    while frame is not None and module_of(frame).startswith("functensor."):
        if frame.f_code in OPERATOR_CODES:
            known = frame.f_locals
            # Pandas leaves its reflected operator to the array, which is to give it back.
            asked = frame.f_code is not TURNED.__code__
            own = is_of_pandas(x) or (asked and has_own(type(x), REFLECTED[known["name"]]))
            if own and is_array(known["self"]):
                raise OperandError(f"{type(x).__name__} has operators of its own")
            return
        frame = frame.f_back


def equality(name: str, *, unequal: bool) -> Callable[[Any, Any], Any]:
    """Returns a comparison that has an answer for what is no number, as NumPy's has.

    Only None is compared with the array, not with its elements.
    """

    def operator(self: Any, other: Any) -> Any:
        try:
            return PRIMITIVES[name].applied(self, other)
        except TypeError as error:
            own = isinstance(error, OperandError) and is_array(self)
            if own and has_own(type(other), REFLECTED[name]):
                return by_its_class(other, name, self)
            known = isinstance(other, np.ndarray | np.generic)
            numbers = (known and other.dtype.kind in NUMBERS) or isinstance(other, Operators)
            if numbers or not (known or isinstance(error, OperandError)):
                tidy(error)
                raise
            if known and other.dtype.kind == "O":
                return operator(self, other.tolist())
            compares: Any = type(other).__eq__
            if not (known or compares is object.__eq__ or type(other).__module__ == "builtins"):
                # Its own class may know how to compare.
                return NotImplemented
            if other is None:
                # ``if x == None`` asks whether there is an array, not about its elements.
                return unequal
            shape = np.shape(other) if known or isinstance(other, list | tuple) else ()
            return ops.asarray(np.full(np.broadcast_shapes(self.shape, shape), unequal))
        except Exception as error:
            tidy(error)
            raise

    return operator


# The code of operators, by which frames are known that run one.
ASKER: Any
TURNED: Any
ASKER, TURNED = binary_operator("add")
COMPARER: Any = equality("equal", unequal=False)
OPERATOR_CODES = {ASKER.__code__, TURNED.__code__, COMPARER.__code__}


class Operators:
    """The arithmetic, bitwise and comparison operators."""

    __slots__ = ()

    __add__, __radd__ = binary_operator("add")
    __sub__, __rsub__ = binary_operator("subtract")
    __mul__, __rmul__ = binary_operator("multiply")
    __truediv__, __rtruediv__ = binary_operator("divide")
    __floordiv__, __rfloordiv__ = binary_operator("floor_divide")
    __mod__, __rmod__ = binary_operator("remainder")
    __matmul__, __rmatmul__ = binary_operator("matmul")
    __and__, __rand__ = binary_operator("bitwise_and")
    __or__, __ror__ = binary_operator("bitwise_or")
    __xor__, __rxor__ = binary_operator("bitwise_xor")
    __lshift__, __rlshift__ = binary_operator("left_shift")
    __rshift__, __rrshift__ = binary_operator("right_shift")
    __lt__, _ = binary_operator("less")
    __le__, _ = binary_operator("less_equal")
    __gt__, _ = binary_operator("greater")
    __ge__, _ = binary_operator("greater_equal")
    __eq__ = equality("equal", unequal=False)
    __ne__ = equality("not_equal", unequal=True)
    _power, __rpow__ = binary_operator("power")
    del _

    __hash__ = None  # type: ignore[assignment]

    def __pow__(self, other: AnyOperand) -> Self:
        # Squares are the most frequent powers, and multiplying is far cheaper than pow.
        if type(other) is int and other == 2:
            return ops.square(self)
        # A float makes floats of integers.
        if type(other) is float and other == 2 and self.dtype.kind in "fcV":  # type: ignore[attr-defined]
            return ops.square(self)
        try:
            return self._power(other)
        except Exception as error:
            tidy(error)
            raise

    def __divmod__(self, other: AnyOperand) -> tuple[Self, Self]:
        try:
            return self // other, self % other
        except Exception as error:
            tidy(error)
            raise

    def __rdivmod__(self, other: AnyOperand) -> tuple[Self, Self]:
        try:
            return other // self, other % self
        except Exception as error:
            tidy(error)
            raise

    __neg__ = unary_operator("negative")
    __pos__ = unary_operator("positive")
    __abs__ = unary_operator("abs")
    __invert__ = unary_operator("invert")
