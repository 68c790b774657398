"""Reads and updates of elements at computed indices, within loops of machine code and outside.

An index out of bounds ends the segment with a status. Python then runs the loop again, and raises
the error with the user's line. The indices of a scatter once picked elements, and are in bounds;
others wrap around, as in eager mode.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from math import prod
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ....native.counted_loops import counted_loop
from ....native.instructions import Lines, memory_type
from ....native.printer import Module
from ....native.tables import clear_bytes, copy_bytes, element, returned_if_not_0
from ..codegen.operands import bytes_of, is_variable
from .copies import CopiedPart, copy_kernel, update_kernel
from .elementwise_nodes import operand_dtype, operand_shape
from .layouts import broadcast_strides, c_strides
from .native_run import STREAM_EFFORT
from .number_kernels import CALL_EFFORT
from .region_graph import NotNative
from .segment_code import WRONG_LABEL
from .step_code import InnerFunction, InnerType, call_of_kernel

if TYPE_CHECKING:
    from ....annotations import KeyLike, Shape
    from ..annotations import EquationLike, VariableType

__all__ = ["ElementAccess", "has_single_indices", "is_element_access", "updates_elements"]

# The operations of updates.
UPDATES = {
    "index_add": "add", "index_max": "maximum", "index_min": "minimum",
    "index_multiply": "multiply", "index_set": "", "scatter_add": "add",
}  # fmt: skip
# The kinds of dtypes of which a single element is updated without a kernel.
KINDS_OF_NUMBERS = "fiu"
ACCESSES = frozenset({"index", *UPDATES}) - {"scatter_add"}


def updates_elements(equation: EquationLike) -> bool:
    """Says whether an equation updates elements at index arrays, or adds values to zeros there."""
    name, params = equation.primitive.name, equation.params
    if name == "scatter_add":
        return len(params["keys"]) == 1 and params["keys"][0].arrays > 0
    return name in UPDATES and params["key"].arrays > 0


def is_element_access(equation: EquationLike) -> bool:
    """Says whether an equation reads or updates elements at computed indices."""
    name = equation.primitive.name
    return name in ACCESSES and (name != "index" or len(equation.operands) > 1)


def has_single_indices(equation: EquationLike) -> bool:
    """Says whether all indices of a read are single computed numbers."""
    return all(is_variable(i) and not i.type.shape for i in equation.operands[1:])


class PickedPart(NamedTuple):
    """The part of an array that a key names.

    Attributes:
        shape, strides: those of the part, in elements.
        begin: where it begins if all computed indices are 0.
        terms: for every computed index the length of its axis, and the stride.
    """

    shape: Shape
    strides: tuple[int, ...]
    begin: int
    terms: list[tuple[int, int]]


def part_of(shape: Shape, key: KeyLike) -> PickedPart:
    """Returns the part of an array in C order that a key names.

    Raises:
        NotNative: the key is of another kind.
    """
    strides = c_strides(shape)
    items = list(key.native)
    axes = sum(item is not None and item is not Ellipsis for item in items)
    terms, fixed, axis = [], [], 0
    for item in items:
        if item is Ellipsis:
            axis += len(shape) - axes
        elif type(item) is str:
            terms.append((shape[axis], strides[axis]))
        elif item is not None and type(item) not in (int, slice):
            raise NotNative("a key with an array")
        fixed.append(0 if type(item) is str else item)
        axis += item is not None and item is not Ellipsis
    if Ellipsis not in fixed:
        fixed.append(Ellipsis)
    sample = np.lib.stride_tricks.as_strided(np.empty((), np.int8), shape, strides, writeable=False)
    part = sample[tuple(fixed)]
    if min(part.strides, default=0) < 0:
        raise NotNative("a part that goes backwards")
    begin = part.__array_interface__["data"][0] - sample.__array_interface__["data"][0]
    return PickedPart(part.shape, part.strides, begin, terms)


def place_of_indices(key: KeyLike, rank: int) -> int:
    """Returns before which of the other axes of a part those of index arrays stand.

    NumPy's rule: where the first index stands, or in front if a slice, None or an ellipsis comes
    between them.
    """
    items = list(key.native)
    taken = sum(item is not None and item is not Ellipsis for item in items)
    others, place, left = 0, -1, False
    for item in items:
        if type(item) in (int, str):
            place = others if place < 0 else 0 if left else place
            continue
        left = place >= 0
        others += rank - taken if item is Ellipsis else 1
    return max(place, 0)


def address_at(
    lines: Lines, address: str, step: Sequence[str], strides: Sequence[int], size: int
) -> str:
    """Writes the address of an element at a step of loops, strides given in elements."""
    for number, stride in zip(step, strides, strict=True):
        if stride:
            offset = lines.let(f"mul i64 {number}, {stride * size}")
            address = lines.let(f"getelementptr i8, ptr {address}, i64 {offset}")
    return address


class ElementAccess(InnerFunction):
    """A read or an update of elements at computed indices, single ones or arrays.

    Args:
        equation: the equation.

    Raises:
        NotNative: its key, its shapes or its dtypes are others.
    """

    calls = "alwaysinline"

    def __init__(self, equation: EquationLike) -> None:
        super().__init__([])
        self._name = equation.primitive.name
        self._scatters = self._name == "scatter_add"
        self.checks = not self._scatters
        (out,) = equation.outputs
        operands, known = equation.operands, out.type
        self.operands: list[tuple[VariableType, Shape]] = []
        if not self._scatters:
            x, *operands = operands
            known = x.type if is_variable(x) else InnerType(operand_shape(x), operand_dtype(x))
            self.operands.append((known, known.shape))
        if known.dtype != out.type.dtype or not out.type.size:
            raise NotNative("an array of another dtype, or of no elements")
        count = 0 if self._name == "index" else 1
        values, places = operands[:count], operands[count:]
        self._places = [
            i.type if is_variable(i) else InnerType(operand_shape(i), operand_dtype(i))
            for i in places
        ]
        if any(i.dtype.kind not in "iu" for i in self._places):
            raise NotNative("indices that are no whole numbers")
        self._known = known
        key = equation.params["keys"][0] if self._scatters else equation.params["key"]
        self._part = part_of(known.shape, key)
        dtype = known.dtype
        # The axes of the index arrays, and where they stand in the part that they name.
        self._axes = axes = np.broadcast_shapes(*[i.shape for i in self._places])
        if 0 in axes:
            raise NotNative("no indices")
        first = place_of_indices(key, len(known.shape)) if places else 0
        before, behind = self._part.shape[:first], self._part.shape[first:]
        shape = (*before, *axes, *behind)

        def parted(strides: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
            """Returns the strides over index arrays, and those over the others."""
            end = first + len(axes)
            return tuple(strides[first:end]), (*strides[:first], *strides[end:])

        self._steps = [
            tuple(broadcast_strides(i.shape, c_strides(i.shape), axes)) for i in self._places
        ]
        if self._name == "index":
            if shape != out.type.shape:
                raise NotNative("a part of another shape")
            self._other_steps, strides = parted(c_strides(shape))
            part = CopiedPart(self._part.shape, self._part.strides, 0)
            self._kernel = copy_kernel(dtype, self._part.shape, [part], strides)
        else:
            self.in_place = frozenset() if self._scatters else frozenset({(0, 0)})
            own = operand_shape(values[0])
            if len(own) > len(shape) or (self._scatters and operand_dtype(values[0]) != dtype):
                raise NotNative("values of more axes, or of another dtype")
            self.operands.append((InnerType(own, dtype), own))
            self._other_steps, strides = parted(
                tuple(broadcast_strides(own, c_strides(own), shape))
            )
            given = [CopiedPart(self._part.shape, strides, 0)]
            lying = dtype, self._part.shape, given, self._part.strides
            operation = UPDATES[self._name]
            if operation and (dtype.char in "?eE" or (dtype.kind == "c" and operation != "add")):
                raise NotNative("an update of another dtype")
            self._kernel = update_kernel(operation, *lying) if operation else copy_kernel(*lying)
        self.operands += [(i, i.shape) for i in self._places]
        each = CALL_EFFORT + STREAM_EFFORT * prod(self._part.shape) * dtype.itemsize / 4
        self.effort = prod(axes) * each

    def _write(self, lines: Lines, name: str, module: Module) -> None:
        *given, out = [element(lines, "%table", i) for i in range(len(self.operands) + 1)]
        first = len(given) - len(self._places)
        arrays, places = given[:first], given[first:]
        if self._scatters:
            clear_bytes(lines, out, bytes_of(self._known))
        elif self._name != "index":
            self._copy_once(lines, out, arrays[0])
        x = arrays[0] if self._name == "index" else out
        with ExitStack() as loops:
            step = [loops.enter_context(counted_loop(lines, n)) for n in self._axes]
            offset = str(self._part.begin)
            for distance in self._distances(lines, places, step):
                offset = lines.let(f"add i64 {offset}, {distance}")
            size = self._known.dtype.itemsize
            offset = lines.let(f"mul i64 {offset}, {size}")
            part = lines.let(f"getelementptr i8, ptr {x}, i64 {offset}")
            other = out if self._name == "index" else arrays[-1]
            other = address_at(lines, other, step, self._other_steps, size)
            if self._name == "index":
                call_of_kernel(lines, module, self._kernel, [part, other])
            else:
                self._update(lines, module, part, other)
        lines.add("ret i64 0")

    def _update(self, lines: Lines, module: Module, part: str, values: str) -> None:
        """Writes the update of a part."""
        operation, dtype = UPDATES[self._name], self._known.dtype
        if prod(self._part.shape) != 1 or dtype.kind not in KINDS_OF_NUMBERS:
            joined = [part] if operation else []
            call_of_kernel(lines, module, self._kernel, [*joined, values, part])
            return
        kind, align = memory_type(dtype), f"align {dtype.itemsize}"
        found = lines.let(f"load {kind}, ptr {values}, {align}")
        if operation:
            before = lines.let(f"load {kind}, ptr {part}, {align}")
            found = lines.operation(operation, dtype, [before, found], dtype, 1)
        lines.add(f"store {kind} {found}, ptr {part}, {align}")

    def _distances(
        self, lines: Lines, places: Sequence[str], step: Sequence[str]
    ) -> Iterator[str]:
        """Writes the tests of indices; yields how many elements each goes over."""
        for place, known, steps, (length, stride) in zip(
            places, self._places, self._steps, self._part.terms, strict=True
        ):
            kind = memory_type(known.dtype)
            place = address_at(lines, place, step, steps, known.dtype.itemsize)
            number = lines.let(f"load {kind}, ptr {place}, align {known.dtype.itemsize}")
            if kind != "i64":
                wider = "sext" if known.dtype.kind == "i" else "zext"
                number = lines.let(f"{wider} {kind} {number} to i64")
            if self._scatters:
                number = lines.let(f"srem i64 {number}, {length}")
            if known.dtype.kind == "i" or self._scatters:
                negative = lines.let(f"icmp slt i64 {number}, 0")
                behind = lines.let(f"add i64 {number}, {length}")
                number = lines.let(f"select i1 {negative}, i64 {behind}, i64 {number}")
            if self._scatters:
                yield lines.let(f"mul i64 {number}, {stride}")
                continue
            large = lines.let(f"icmp uge i64 {number}, {length}")
            returned_if_not_0(lines, lines.let(f"select i1 {large}, i64 {WRONG_LABEL}, i64 0"))
            yield lines.let(f"mul i64 {number}, {stride}")

    def _copy_once(self, lines: Lines, out: str, x: str) -> None:
        """Writes the copy of the array, unless the result has its memory."""
        same = lines.let(f"icmp eq ptr {out}, {x}")
        copy, behind = lines.label("copy"), lines.label("behind")
        lines.add(f"br i1 {same}, label %{behind}, label %{copy}")
        lines.begin(copy)
        copy_bytes(lines, out, x, bytes_of(self._known))
        lines.add(f"br label %{behind}")
        lines.begin(behind)
