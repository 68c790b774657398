"""Lines of LLVM's text that find the places of the largest or smallest elements along an axis.

A vector of neighbouring columns is looked through at a time. Of a single long row each lane looks
through a part, and the lanes' findings are compared in the end.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ....native.counted_loops import counted_loop, stack_slot
from ....native.instructions import Lines, comparison, memory_type, shown_type

if TYPE_CHECKING:
    from ....annotations import DType

__all__ = ["SOUGHT", "write_places_of_extrema"]

SOUGHT: Mapping[str, str] = {"argmax": "greater", "argmin": "less"}
# More columns than fill a vector, so that the processor need not wait for each comparison.
MOST_COLUMNS = 16
# Shorter rows are looked through one by one.
SHORTEST_ROW_IN_LANES = 4 * MOST_COLUMNS


def write_places_of_extrema(
    lines: Lines,
    name: str,
    dtype: DType,
    lengths: tuple[int, int, int],
    places: tuple[str, str],
) -> None:
    """Writes where the first of the largest elements is, or of the smallest; NaN is either.

    Args:
        lines: where it is written.
        name: the primitive.
        dtype: the dtype of the elements; none is complex or of 16 bits, if it is a float.
        lengths: those of the axes before the one that is looked along, its own, and of those
            behind it.
        places: the names of the addresses of the elements and of the result.
    """
    writer = ExtremumWriter(lines, name, dtype)
    if lengths[2] == 1 and lengths[1] >= SHORTEST_ROW_IN_LANES:
        writer.rows(lengths[:2], *places)
    else:
        writer.columns(lengths, *places)


class ExtremumWriter:
    """Writes the loops."""

    def __init__(self, lines: Lines, name: str, dtype: DType) -> None:
        self._lines = lines
        self._name = name
        self._dtype = dtype
        self._element = memory_type(dtype)

    def columns(self, lengths: tuple[int, int, int], x: str, out: str) -> None:
        """Writes the loops over columns, some at a time; the last ones may be done twice."""
        lines = self._lines
        outer, count, inner = lengths
        lanes = min(MOST_COLUMNS, 1 << inner.bit_length() - 1)
        best, where = self._slots(lanes)
        with counted_loop(lines, outer) as block, counted_loop(lines, -(-inner // lanes)) as part:
            column = self._within(part, lanes, inner)
            first = lines.let(f"mul i64 {block}, {count * inner}")
            first = lines.let(f"add i64 {first}, {column}")
            self._begin(x, first, lanes, best, where, [0] * lanes)
            with counted_loop(lines, count) as step:
                offset = lines.let(f"mul i64 {step}, {inner}")
                own = self._load(x, lines.let(f"add i64 {first}, {offset}"), lanes)
                self._compare(own, self._spread(step, lanes), lanes, best, where)
            number = lines.let(f"mul i64 {block}, {inner}")
            number = lines.let(f"add i64 {number}, {column}")
            address = lines.let(f"getelementptr i64, ptr {out}, i64 {number}")
            kind = shown_type("i64", lanes)
            found = lines.let(f"load {kind}, ptr {where}, align 8")
            lines.add(f"store {kind} {found}, ptr {address}, align 8")

    def rows(self, lengths: tuple[int, int], x: str, out: str) -> None:
        """Writes the loop over rows, with some elements of each at a time."""
        lines, lanes = self._lines, MOST_COLUMNS
        outer, count = lengths
        best, where = self._slots(lanes)
        lane = f"<{', '.join(f'i64 {i}' for i in range(lanes))}>"
        kind = shown_type("i64", lanes)
        with counted_loop(lines, outer) as row:
            first = lines.let(f"mul i64 {row}, {count}")
            self._begin(x, first, lanes, best, where, range(lanes))
            with counted_loop(lines, -(-count // lanes)) as part:
                begin = self._within(part, lanes, count)
                own = self._load(x, lines.let(f"add i64 {first}, {begin}"), lanes)
                places = lines.let(f"add {kind} {self._spread(begin, lanes)}, {lane}")
                self._compare(own, places, lanes, best, where)
            address = lines.let(f"getelementptr i64, ptr {out}, i64 {row}")
            lines.add(f"store i64 {self._of_lanes(best, where, lanes)}, ptr {address}, align 8")

    def _of_lanes(self, best: str, where: str, lanes: int) -> str:
        """Writes which of the lanes' places is the first of the best ones."""
        lines = self._lines
        kind, many = shown_type(self._element, lanes), shown_type("i64", lanes)
        values = lines.let(f"load {kind}, ptr {best}, align 8")
        places = lines.let(f"load {many}, ptr {where}, align 8")
        known, place = "", ""
        for i in range(lanes):
            own = lines.let(f"extractelement {kind} {values}, i32 {i}")
            there = lines.let(f"extractelement {many} {places}, i32 {i}")
            if not i:
                known, place = own, there
                continue
            better = self._is_better(own, known, 1)
            # Neither is better: they are equal, or both NaN.
            worse = self._is_better(known, own, 1)
            alike = lines.let(f"xor i1 {worse}, true")
            earlier = lines.let(f"icmp slt i64 {there}, {place}")
            alike = lines.let(f"and i1 {alike}, {earlier}")
            taken = lines.let(f"or i1 {better}, {alike}")
            known = lines.let(f"select i1 {taken}, {self._element} {own}, {self._element} {known}")
            place = lines.let(f"select i1 {taken}, i64 {there}, i64 {place}")
        return place

    def _slots(self, lanes: int) -> tuple[str, str]:
        """Writes memory for the best elements and their places, which LLVM keeps in registers."""
        kinds = shown_type(self._element, lanes), shown_type("i64", lanes)
        best, where = (stack_slot(self._lines, kind) for kind in kinds)
        return best, where

    def _within(self, part: str, lanes: int, length: int) -> str:
        """Writes where a part begins, the last of which ends where all do."""
        lines = self._lines
        begin, last = lines.let(f"mul i64 {part}, {lanes}"), length - lanes
        late = lines.let(f"icmp sgt i64 {begin}, {last}")
        return lines.let(f"select i1 {late}, i64 {last}, i64 {begin}")

    def _begin(
        self, x: str, first: str, lanes: int, best: str, where: str, places: range | list[int]
    ) -> None:
        """Writes that the first elements are the best that are known."""
        kind, many = shown_type(self._element, lanes), shown_type("i64", lanes)
        self._lines.add(f"store {kind} {self._load(x, first, lanes)}, ptr {best}, align 8")
        shown = f"<{', '.join(f'i64 {i}' for i in places)}>" if lanes > 1 else "0"
        self._lines.add(f"store {many} {shown}, ptr {where}, align 8")

    def _load(self, x: str, place: str, lanes: int) -> str:
        """Writes the load of neighbouring elements; booleans are numbers of eight bits."""
        address = self._lines.let(f"getelementptr {self._element}, ptr {x}, i64 {place}")
        kind = shown_type(self._element, lanes)
        return self._lines.let(f"load {kind}, ptr {address}, align {self._dtype.itemsize}")

    def _spread(self, number: str, lanes: int) -> str:
        """Writes a number in all lanes."""
        if lanes == 1:
            return number
        kind = shown_type("i64", lanes)
        first = self._lines.let(f"insertelement {kind} poison, i64 {number}, i32 0")
        same = f"<{lanes} x i32> zeroinitializer"
        return self._lines.let(f"shufflevector {kind} {first}, {kind} poison, {same}")

    def _compare(self, own: str, places: str, lanes: int, best: str, where: str) -> None:
        """Writes that elements take the place of those that are known, where they are better."""
        lines = self._lines
        marks = shown_type("i1", lanes)
        known = lines.let(f"load {shown_type(self._element, lanes)}, ptr {best}, align 8")
        better = self._is_better(own, known, lanes)
        for slot, element, new in ((best, self._element, own), (where, "i64", places)):
            kind = shown_type(element, lanes)
            old = lines.let(f"load {kind}, ptr {slot}, align 8")
            chosen = lines.let(f"select {marks} {better}, {kind} {new}, {kind} {old}")
            lines.add(f"store {kind} {chosen}, ptr {slot}, align 8")

    def _is_better(self, own: str, known: str, lanes: int) -> str:
        """Writes whether elements come before the best ones that are known."""
        lines, kind = self._lines, shown_type(self._element, lanes)
        if self._dtype.kind == "b":
            word = "ugt" if self._name == "argmax" else "ult"
            return lines.let(f"icmp {word} {kind} {own}, {known}")
        if self._dtype.kind != "f":
            word = comparison(SOUGHT[self._name], self._dtype)
            return lines.let(f"{word} {kind} {own}, {known}")
        # NaN is better than all but NaN.
        word = "ugt" if self._name == "argmax" else "ult"
        found = lines.let(f"fcmp {word} {kind} {own}, {known}")
        number = lines.let(f"fcmp ord {kind} {known}, {known}")
        return lines.let(f"and {shown_type('i1', lanes)} {found}, {number}")
