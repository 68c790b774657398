"""Sorts within machine code: elements in order along an axis, or their places.

Runs of up to 16 elements are sorted at once: the place of each is how many come before it, counted
in lanes. Pairs of runs are merged, from both ends at a time, so that no step waits for a jump that
the processor could not foresee. Equal elements stay in their order, and NaN come last.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from ....native.counted_loops import carrying_loop, counted_loop
from ....native.instructions import (
    Lines,
    comparison,
    constant,
    element_type,
    memory_type,
    shown_type,
)
from ....native.printer import Module
from ....native.tables import element
from ..codegen.operands import is_variable
from .elementwise_nodes import operand_dtype, operand_shape
from .machine_dtypes import is_machine_dtype
from .number_kernels import CALL_EFFORT
from .region_graph import NotNative
from .step_code import InnerFunction, InnerType

if TYPE_CHECKING:
    from ....annotations import DType
    from ..annotations import EquationLike

__all__ = ["SortFunction", "is_sort"]

# The most elements of a run.
LANES = 16
# NumPy sorts more elements along an axis in less time: by vectors of its processor where equal
# elements may change places, and small integers by their digits.
MOST_SORTED, MOST_SORTED_STABLY = 256, 4096
# The time of an element in a run, and in a merge, in tenths of a nanosecond.
RUN_EFFORT, MERGE_EFFORT = 25, 15
ORDER_DTYPE, SHORT_PLACE_DTYPE = np.dtype(np.int64), np.dtype(np.int32)
SINGLE_KEYS = np.dtype(np.float32)


def is_sort(equation: EquationLike) -> bool:
    """Says whether an equation sorts elements, or finds their order."""
    return equation.primitive.name in ("argsort", "sort")


class SortFunction(InnerFunction):
    """A sort along one axis.

    The elements are seen as three axes: those before it, its own, and those behind it.

    Args:
        equation: the equation.

    Raises:
        NotNative: the dtype is another, or the axis is long.
    """

    def __init__(self, equation: EquationLike) -> None:
        super().__init__([])
        (x,), (out,) = equation.operands, equation.outputs
        self._dtype: DType = operand_dtype(x)
        shape, axis = operand_shape(x), equation.params["axis"]
        self._descending = equation.params["descending"]
        self._finds_places = equation.primitive.name == "argsort"
        if not is_machine_dtype(self._dtype, in_regions=True) or self._dtype.kind == "c":
            raise NotNative("elements of another dtype")
        wanted = ORDER_DTYPE if self._finds_places else self._dtype
        small = self._dtype.kind in "iub" and self._dtype.itemsize <= 2
        is_stable = equation.params["stable"] and not small
        most = MOST_SORTED_STABLY if is_stable else MOST_SORTED
        if not out.type.size or out.type.dtype != wanted or shape[axis] > most:
            raise NotNative("no elements, or many along an axis")
        self._lengths = prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :])
        # Numbers of 16 bits are compared in float32, and booleans as numbers of 8 bits.
        narrow = self._dtype.kind in "fV" and self._dtype.itemsize == 2
        self._key = SINGLE_KEYS if narrow else self._dtype
        if self._dtype.kind == "b":
            self._key = np.dtype(np.uint8)
        known = x.type if is_variable(x) else InnerType(shape, self._dtype)
        self.operands = [(known, shape)]
        # All runs have as many elements. Behind the last ones there are some that come last.
        self._levels = max(-(-self._lengths[1] // LANES) - 1, 0).bit_length()
        self._runs = 1 << self._levels
        self._length = -(-self._lengths[1] // self._runs)
        # The last run is loaded with all lanes.
        self._room = self._runs * self._length + LANES
        keys = -(-self._room * self._key.itemsize // 8) * 8
        places = self._room * SHORT_PLACE_DTYPE.itemsize if self._finds_places else 0
        self._offsets = 0, keys, 2 * keys, 2 * keys + places
        self.memory = 2 * keys + 2 * places
        work = self._runs * self._length * (RUN_EFFORT + self._levels * MERGE_EFFORT)
        self.effort = CALL_EFFORT + prod(self._lengths) // self._lengths[1] * work

    # -- all rows

    def _write(self, lines: Lines, name: str, module: Module) -> None:
        outer, count, inner = self._lengths
        module.functions[f"{name}_row"] = self._row_function(f"{name}_row", f"{name}_merges")
        if self._levels:
            module.functions[f"{name}_merges"] = self._merging_function(f"{name}_merges")
        given, out = (element(lines, "%table", i) for i in range(2))
        kinds = memory_type(self._dtype), memory_type(self._result)
        with counted_loop(lines, outer) as block, counted_loop(lines, inner) as column:
            first = lines.let(f"mul i64 {block}, {count * inner}")
            first = lines.let(f"add i64 {first}, {column}")
            begins = [
                lines.let(f"getelementptr {kind}, ptr {array}, i64 {first}")
                for kind, array in zip(kinds, (given, out), strict=True)
            ]
            shown = ", ".join(f"ptr {x}" for x in (*begins, "%memory"))
            lines.add(f"call void @{name}_row({shown})")
        lines.add("ret i64 0")

    @property
    def _result(self) -> DType:
        return ORDER_DTYPE if self._finds_places else self._dtype

    @property
    def _arrays(self) -> list[DType]:
        """The dtypes of what is moved: the elements, and their places if these are wanted."""
        return [self._key, SHORT_PLACE_DTYPE] if self._finds_places else [self._key]

    def _row_function(self, name: str, merges: str) -> str:
        """Returns the function of a row: of its elements, its result, and memory."""
        lines = Lines()
        lines.begin("entry")
        keys = [at(lines, "%memory", "i8", str(offset)) for offset in self._offsets[:2]]
        places = [at(lines, "%memory", "i8", str(offset)) for offset in self._offsets[2:]]
        _, count, inner = self._lengths
        # Places of a descending order are counted from the end, so that equals keep their order.
        backward = self._descending and self._finds_places
        with counted_loop(lines, count) as number:
            place = from_end(lines, number, count) if backward else number
            place = lines.let(f"mul i64 {place}, {inner}")
            store(lines, self._loaded(lines, "%given", place), keys[0], number, self._key)
        if count < self._room:
            with counted_loop(lines, self._room - count) as number:
                place = lines.let(f"add i64 {number}, {count}")
                store(lines, constant(self._last, 1), keys[0], place, self._key)
        ranked = lines.name()
        lines.text.insert(1, f"  {ranked} = alloca [{LANES} x i32], align 64")
        with counted_loop(lines, self._runs) as run:
            begin = lines.let(f"mul i64 {run}, {self._length}")
            self._sort_run(lines, begin, keys, places, ranked)
        # What is sorted lies in the second arrays now, and goes to and fro.
        now, other = 1, 0
        for level in range(self._levels):
            moved = [arrays[i] for arrays in (keys, places) for i in (now, other)]
            shown = ", ".join(f"ptr {x}" for x in moved[: 2 * len(self._arrays)])
            pairs, half = self._runs >> (level + 1), self._length << level
            lines.add(f"call void @{merges}(i64 {pairs}, i64 {half}, {shown})")
            now, other = other, now
        with counted_loop(lines, count) as number:
            source = from_end(lines, number, count) if self._descending else number
            found = self._found(lines, (places if self._finds_places else keys)[now], source)
            place = lines.let(f"mul i64 {number}, {inner}")
            store(lines, found, "%out", place, self._result)
        lines.add("ret void")
        head = f"define internal void @{name}(ptr %given, ptr %out, ptr %memory) {{"
        return "\n".join([head, *lines.text, "}"])

    def _loaded(self, lines: Lines, array: str, place: str) -> str:
        """Writes the load of an element, in the dtype in which it is compared."""
        dtype = np.dtype(np.uint8) if self._dtype.kind == "b" else self._dtype
        found = load(lines, array, place, dtype)
        return lines.cast(found, dtype, self._key, 1) if dtype != self._key else found

    def _found(self, lines: Lines, array: str, source: str) -> str:
        """Writes the load of what is sorted, as it is stored."""
        if not self._finds_places:
            found = load(lines, array, source, self._key)
            is_same = self._key == self._dtype or self._dtype.kind == "b"
            return found if is_same else lines.cast(found, self._key, self._dtype, 1)
        short = load(lines, array, source, SHORT_PLACE_DTYPE)
        place = lines.let(f"sext i32 {short} to i64")
        return from_end(lines, place, self._lengths[1]) if self._descending else place

    @property
    def _last(self) -> np.generic:
        """An element that none comes behind."""
        if self._key.kind == "f":
            return self._key.type(np.nan)
        return self._key.type(np.iinfo(self._key).max)

    # -- runs

    def _sort_run(
        self, lines: Lines, begin: str, keys: Sequence[str], places: Sequence[str], ranked: str
    ) -> None:
        """Writes a run, sorted, to the second array: each element where its count says."""
        kind = lines.type(self._key, LANES)
        address = at(lines, keys[0], element_type(self._key), begin)
        own = lines.let(f"load {kind}, ptr {address}, align {self._key.itemsize}")
        if self._length < LANES:
            # Other elements than those of the run come last.
            inside = lanes_of([lane < self._length for lane in range(LANES)])
            chosen = f"<{LANES} x i1> {inside}, {kind} {own}, {kind} {constant(self._last, LANES)}"
            own = lines.let(f"select {chosen}")
        counts, masks = f"<{LANES} x i32>", f"<{LANES} x i1>"
        every = ", ".join(f"i32 {lane}" for lane in range(LANES))
        with carrying_loop(lines, self._length, ["zeroinitializer"], counts) as carried:
            lane, (ranks,), following = carried
            one = load(lines, address, lane, self._key)
            other = lines.spread(one, self._key, LANES)
            number = lines.spread(lines.let(f"trunc i64 {lane} to i32"), SHORT_PLACE_DTYPE, LANES)
            before = self._less(lines, other, own, LANES)
            behind = self._less(lines, own, other, LANES)
            # Of equal elements those come first that stand first.
            later = lines.let(f"icmp slt {counts} {number}, <{every}>")
            level = lines.let(f"xor {masks} {behind}, splat (i1 true)")
            level = lines.let(f"and {masks} {level}, {later}")
            before = lines.let(f"or {masks} {before}, {level}")
            counted = lines.let(f"zext {masks} {before} to {counts}")
            following.append(lines.let(f"add {counts} {ranks}, {counted}"))
        lines.add(f"store {counts} {following[0]}, ptr {ranked}, align 64")
        with counted_loop(lines, self._length) as lane:
            rank = lines.let(f"zext i32 {load(lines, ranked, lane, SHORT_PLACE_DTYPE)} to i64")
            place = lines.let(f"add i64 {rank}, {begin}")
            store(lines, load(lines, address, lane, self._key), keys[1], place, self._key)
            if self._finds_places:
                source = lines.let(f"add i64 {lane}, {begin}")
                number = lines.let(f"trunc i64 {source} to i32")
                store(lines, number, places[1], place, SHORT_PLACE_DTYPE)

    def _less(self, lines: Lines, x: str, y: str, width: int) -> str:
        """Writes whether elements come before others: those that are not NaN before NaN."""
        kind = lines.type(self._key, width)
        if self._key.kind != "f":
            return lines.let(f"{comparison('less', self._key)} {kind} {x}, {y}")
        beyond = lines.let(f"fcmp ugt {kind} {y}, {x}")
        known = lines.let(f"fcmp ord {kind} {x}, {x}")
        return lines.let(f"and {shown_type('i1', width)} {beyond}, {known}")

    # -- merges

    def _merging_function(self, name: str) -> str:
        """Returns the function that merges pairs of neighbouring runs.

        It takes the number of pairs, the length of a run, and for what is moved where it lies and
        where it goes.
        """
        lines = Lines()
        lines.begin("entry")
        given = [f"%{word}_{i}" for i in range(len(self._arrays)) for word in ("from", "into")]
        with counted_loop(lines, "%pairs") as pair:
            length = lines.let("shl i64 %half, 1")
            left = lines.let(f"mul i64 {pair}, {length}")
            right = lines.let(f"add i64 {left}, %half")
            left_end = lines.let(f"sub i64 {right}, 1")
            end = lines.let(f"add i64 {left_end}, %half")
            begins = left, right, left_end, end
            with carrying_loop(lines, "%half", begins) as (step, places, following):
                low, high, low_end, high_end = places
                front = lines.let(f"add i64 {left}, {step}")
                back = lines.let(f"sub i64 {end}, {step}")
                taken = self._taken(lines, given, (low, high), front, in_front=True)
                following += [
                    lines.let(f"add i64 {low}, {lines.let(f'sub i64 1, {taken}')}"),
                    lines.let(f"add i64 {high}, {taken}"),
                ]
                taken = self._taken(lines, given, (low_end, high_end), back, in_front=False)
                following += [
                    lines.let(f"sub i64 {low_end}, {taken}"),
                    lines.let(f"sub i64 {high_end}, {lines.let(f'sub i64 1, {taken}')}"),
                ]
        lines.add("ret void")
        shown = ", ".join(f"ptr {x}" for x in given)
        head = f"define internal void @{name}(i64 %pairs, i64 %half, {shown}) noinline {{"
        return "\n".join([head, *lines.text, "}"])

    def _taken(
        self,
        lines: Lines,
        given: Sequence[str],
        ends: tuple[str, str],
        place: str,
        in_front: bool,
    ) -> str:
        """Writes the next element of two runs to a place; returns 1 if another than the usual.

        The usual one in front is that of the left run, and at the back that of the right one.
        """
        left, right = (load(lines, given[0], end, self._key) for end in ends)
        other = self._less(lines, right, left, 1)
        pair = (right, left) if in_front else (left, right)
        kind = element_type(self._key)
        chosen = lines.let(f"select i1 {other}, {kind} {pair[0]}, {kind} {pair[1]}")
        store(lines, chosen, given[1], place, self._key)
        if self._finds_places:
            sources = ends[::-1] if in_front else ends
            source = lines.let(f"select i1 {other}, i64 {sources[0]}, i64 {sources[1]}")
            number = load(lines, given[2], source, SHORT_PLACE_DTYPE)
            store(lines, number, given[3], place, SHORT_PLACE_DTYPE)
        return lines.let(f"zext i1 {other} to i64")


def lanes_of(flags: Sequence[bool]) -> str:
    """Returns a constant vector of booleans."""
    return f"<{', '.join(f'i1 {str(flag).lower()}' for flag in flags)}>"


def at(lines: Lines, array: str, kind: str, place: str) -> str:
    """Writes the address of an element."""
    return lines.let(f"getelementptr {kind}, ptr {array}, i64 {place}")


def load(lines: Lines, array: str, place: str, dtype: DType) -> str:
    """Writes the load of an element."""
    kind = memory_type(dtype)
    return lines.let(f"load {kind}, ptr {at(lines, array, kind, place)}, align {dtype.itemsize}")


def store(lines: Lines, value: str, array: str, place: str, dtype: DType) -> None:
    """Writes the store of an element."""
    kind = memory_type(dtype)
    address = at(lines, array, kind, place)
    lines.add(f"store {kind} {value}, ptr {address}, align {dtype.itemsize}")


def from_end(lines: Lines, place: str, count: int) -> str:
    """Writes the number of a place, counted from the end."""
    return lines.let(f"sub i64 {count - 1}, {place}")
