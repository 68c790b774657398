"""Elements of arrays at computed numbers, which loops read and update by Python's own indexing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..codegen.operands import constant, is_native_array, is_variable
from .scalars import number_kind

if TYPE_CHECKING:
    from ..annotations import EquationLike, Operand, ProgramLike, VariableType
    from ..liveness import Liveness

__all__ = ["INDEX_UPDATES", "Updates", "is_element"]

INDEX_UPDATES = frozenset({"index_add", "index_set"})


def is_element(equation: EquationLike) -> bool:
    """Says whether an equation reads or updates elements at single numbers and slices."""
    reads = equation.primitive.name == "index"
    if not reads and equation.primitive.name not in INDEX_UPDATES:
        return False
    x, *rest = equation.operands
    places = rest if reads else rest[1:]
    if (reads and not places) or not is_variable(x) or not is_native_array(x.type):
        return False
    if any(not is_variable(i) or number_kind(i.type) is not int for i in places):
        return False
    return reads or is_cast_by_assignment(x.type, rest[0])


def is_cast_by_assignment(known: VariableType, v: Operand) -> bool:
    """Says whether an assignment casts a value as a cast to the array's dtype does."""
    if not is_variable(v):
        value = constant(v)
        if type(value) is float or type(value) is int:
            return known.dtype.char in "fd"
        return bool(getattr(value, "dtype", None) == known.dtype)
    if v.type.weak:
        return v.type.weak is float and known.dtype.char in "fd"
    return bool(v.type.dtype == known.dtype)


class Updates:
    """The updates of a number of carries that are done in place.

    A carry is an array of the loop's own, if its old value has no later use and its new value
    belongs to no other carry. It is copied before the first step and never again.

    Attributes:
        in_place: for the numbers of equations the carry that they update.
    """

    def __init__(self, program: ProgramLike, carries: int, live: Liveness) -> None:
        self.in_place: dict[int, int] = {}
        made = {e.outputs[0]: number for number, e in enumerate(program.equations)}
        ends = program.outputs[:carries]
        for i, (x, end) in enumerate(zip(program.inputs, ends)):
            numbers: list[int] = []
            last: Any = end
            while is_variable(last) and last is not x and last in made:
                equation = program.equations[made[last]]
                first = equation.operands[0] if equation.operands else None
                if equation.primitive.name not in INDEX_UPDATES or not is_element(equation):
                    break
                numbers.append(made[last])
                last = first
                # No later equation needs the old values.
                storage, *others = live.storages[last]
                if others or storage.last != numbers[-1] or storage.owner is not last:
                    break
            else:
                if last is not x or not numbers:
                    continue
                own, rest = live.of(end), [*ends[:i], *ends[i + 1 :]]
                if all(own.isdisjoint(live.of(other)) for other in rest):
                    self.in_place.update(dict.fromkeys(numbers, i))
