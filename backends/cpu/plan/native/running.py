"""Functions that go along an axis step by step: cumulative ones, and the places of extrema."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

from ....native.counted_loops import counted_loop
from ....native.instructions import Lines, constant, memory_type
from ....native.printer import Module
from ....native.tables import element
from ..codegen.operands import is_variable
from .elementwise_nodes import operand_dtype, operand_shape
from .machine_dtypes import is_machine_dtype
from .native_run import STREAM_EFFORT
from .number_kernels import CALL_EFFORT
from .places_of_extrema import SOUGHT, write_places_of_extrema
from .region_graph import NotNative
from .step_code import InnerFunction, InnerType

if TYPE_CHECKING:
    from ....annotations import DType
    from ..annotations import EquationLike

__all__ = ["RunningFunction", "is_cumulative", "is_running"]

CUMULATIVE = {"cumprod": "multiply", "cumsum": "add"}
# The time of an element whose predecessor is waited for, in tenths of a nanosecond.
ELEMENT_EFFORT = 15


def is_running(equation: EquationLike) -> bool:
    """Says whether an equation goes along an axis step by step."""
    return is_cumulative(equation) or equation.primitive.name in SOUGHT


def is_cumulative(equation: EquationLike) -> bool:
    """Says whether it does so and has a result for each step, which NumPy computes one by one."""
    name = equation.primitive.name
    return name in CUMULATIVE or name == "linear_recurrence"


class RunningFunction(InnerFunction):
    """A function along one axis, or along all.

    The elements are seen as three axes: those before it, its own, and those behind it.

    Args:
        equation: the equation.

    Raises:
        NotNative: dtypes or axes are others.
    """

    def __init__(self, equation: EquationLike) -> None:
        super().__init__([])
        self._name = name = equation.primitive.name
        self._params = equation.params
        (out,) = equation.outputs
        shapes = [operand_shape(x) for x in equation.operands]
        dtypes = [operand_dtype(x) for x in equation.operands]
        self._dtype: DType = dtypes[0]
        if not out.type.size or any(shape != shapes[0] for shape in shapes):
            raise NotNative("no elements, or some that broadcast")
        if {*dtypes} != {self._dtype} or not is_machine_dtype(self._dtype):
            raise NotNative("operands of other dtypes")
        if self._dtype.char not in "fd" and self._dtype.kind not in "iub":
            raise NotNative("complex numbers, or those of 16 bits")
        axis, shape = equation.params["axis"], shapes[0]
        if name in SOUGHT:
            if len(axis) not in (1, len(shape)):
                raise NotNative("several axes")
            axis = axis[0] if len(axis) == 1 else None
        elif out.type.dtype != self._dtype:
            raise NotNative("a result of another dtype")
        self._lengths = (
            (1, prod(shape), 1)
            if axis is None
            else (prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :]))
        )
        self.operands = [
            (x.type if is_variable(x) else InnerType(shape, self._dtype), shape)
            for x, shape in zip(equation.operands, shapes, strict=True)
        ]
        size = prod(self._lengths)
        self.effort = CALL_EFFORT + size * (ELEMENT_EFFORT + STREAM_EFFORT)

    def _write(self, lines: Lines, name: str, module: Module) -> None:
        *given, out = [element(lines, "%table", i) for i in range(len(self.operands) + 1)]
        if self._name in SOUGHT:
            places = given[0], out
            write_places_of_extrema(lines, self._name, self._dtype, self._lengths, places)
        else:
            self._along(lines, given, out)
        lines.add("ret i64 0")

    def _load(self, lines: Lines, array: str, place: str) -> str:
        """Writes the load of an element; booleans are numbers of eight bits."""
        kind = memory_type(self._dtype)
        address = lines.let(f"getelementptr {kind}, ptr {array}, i64 {place}")
        return lines.let(f"load {kind}, ptr {address}, align {self._dtype.itemsize}")

    def _store(self, lines: Lines, value: str, array: str, place: str) -> None:
        kind = memory_type(self._dtype)
        address = lines.let(f"getelementptr {kind}, ptr {array}, i64 {place}")
        lines.add(f"store {kind} {value}, ptr {address}, align {self._dtype.itemsize}")

    # -- cumulative functions

    def _along(self, lines: Lines, given: Sequence[str], out: str) -> None:
        """Writes each element from the one before it."""
        outer, count, inner = self._lengths
        backward = self._params["reverse"]
        begin, move = ((count - 1) * inner, -inner) if backward else (0, inner)
        with counted_loop(lines, outer) as block:
            first = lines.let(f"mul i64 {block}, {count * inner}")
            first = lines.let(f"add i64 {first}, {begin}")
            with counted_loop(lines, inner) as column:
                place = lines.let(f"add i64 {first}, {column}")
                self._store(lines, self._first(lines, given, place), out, place)
            if count > 1:
                with counted_loop(lines, count - 1) as step:
                    offset = lines.let(f"mul i64 {step}, {move}")
                    row = lines.let(f"add i64 {first}, {offset}")
                    with counted_loop(lines, inner) as column:
                        before = lines.let(f"add i64 {row}, {column}")
                        place = lines.let(f"add i64 {before}, {move}")
                        last = self._load(lines, out, before)
                        found = self._next(lines, given, last, before, place)
                        self._store(lines, found, out, place)

    def _first(self, lines: Lines, given: Sequence[str], place: str) -> str:
        """Returns the first element along the axis."""
        if self._params.get("exclusive"):
            return constant(self._dtype.type(1), 1)
        return self._load(lines, given[-1], place)

    def _next(
        self, lines: Lines, given: Sequence[str], found: str, before: str, place: str
    ) -> str:
        """Returns the element at a place, of that before it."""
        if self._name == "linear_recurrence":
            factor, term = (self._load(lines, x, place) for x in given)
            return self._joined(lines, "add", self._joined(lines, "multiply", factor, found), term)
        own = self._load(lines, given[0], before if self._params.get("exclusive") else place)
        return self._joined(lines, CUMULATIVE[self._name], found, own)

    def _joined(self, lines: Lines, operation: str, x: str, y: str) -> str:
        return lines.operation(operation, self._dtype, [x, y], self._dtype, 1)
