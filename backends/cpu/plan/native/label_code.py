"""Lines of LLVM's text that test labels, before a kernel reads elements at them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from ....kernels.schedule import LANE_BYTES
from ....native.instructions import Lines, overloaded, shown_type
from ....native.tables import returned_unless

if TYPE_CHECKING:
    from ....annotations import DType

__all__ = ["LabelTests", "label_lanes", "write_label_test", "wrong_label"]


class LabelTests(NamedTuple):
    """Labels that are tested.

    Attributes:
        address: the name of their address.
        dtype: their dtype.
        size: how many there are.
        bounds: the lowest that is right, and the one behind the highest.
    """

    address: str
    dtype: DType
    size: int
    bounds: Sequence[int]


def write_label_test(lines: Lines, labels: LabelTests, status: int) -> None:
    """Writes the return of a status where a label is out of bounds."""
    if labels.size:
        lanes = min(label_lanes(labels.dtype), 1 << labels.size.bit_length() - 1)
        wrong = wrong_label(lines, labels, ("0", str(labels.size)), lanes)
        returned_unless(lines, lines.let(f"xor i1 {wrong}, true"), status)


def label_lanes(dtype: DType) -> int:
    """Returns how many labels are tested at a time."""
    return LANE_BYTES // dtype.itemsize


def wrong_label(lines: Lines, labels: LabelTests, ends: tuple[str, str], lanes: int) -> str:
    """Writes the test of some labels; returns the name of what says whether one is out of bounds.

    A step of the loop tests a vector of labels. The last step ends with the last label, and so may
    test some twice.

    Args:
        lines: where it is written.
        labels: the labels.
        ends: the number of the first that is tested, and the one behind that of the last.
        lanes: how many are tested at a time, of at least as many.
    """
    address, dtype, _, bounds = labels
    low, high = within_bounds(dtype, bounds)
    if low > high:
        return "true"
    element = f"i{8 * dtype.itemsize}"
    kind, marks = shown_type(element, lanes), shown_type("i1", lanes)
    zeros = "false" if lanes == 1 else "zeroinitializer"
    first, end = ends
    last = lines.let(f"sub i64 {end}, {lanes}")
    before, head, after = lines.block, lines.label("head"), lines.label("behind")
    place, following, found, worst = (lines.name() for _ in range(4))
    lines.add(f"br label %{head}")
    lines.begin(head)
    lines.add(f"{place} = phi i64 [ {first}, %{before} ], [ {following}, %{head} ]")
    lines.add(f"{found} = phi {marks} [ {zeros}, %{before} ], [ {worst}, %{head} ]")
    late = lines.let(f"icmp sgt i64 {place}, {last}")
    begin = lines.let(f"select i1 {late}, i64 {last}, i64 {place}")
    there = lines.let(f"getelementptr {element}, ptr {address}, i64 {begin}")
    label = lines.let(f"load {kind}, ptr {there}, align {dtype.itemsize}")
    # Labels below the lowest wrap around, and are above the highest.
    above = lines.let(f"sub {kind} {label}, {splat(element, low, lanes)}")
    large = lines.let(f"icmp ugt {kind} {above}, {splat(element, high - low, lanes)}")
    lines.add(f"{worst} = or {marks} {found}, {large}")
    lines.add(f"{following} = add i64 {place}, {lanes}")
    more = lines.let(f"icmp slt i64 {following}, {end}")
    lines.add(f"br i1 {more}, label %{head}, label %{after}")
    lines.begin(after)
    if lanes == 1:
        return worst
    return lines.call(f"llvm.vector.reduce.or.{overloaded('i1', lanes)}", "i1", [(marks, worst)])


def within_bounds(dtype: DType, bounds: Sequence[int]) -> tuple[int, int]:
    """Returns the lowest and the highest label within bounds that a dtype has.

    Numbers of 64 bits are places as NumPy takes them, of which the largest are negative.
    """
    bits = 8 * dtype.itemsize
    low, end = bounds
    if dtype.kind == "i" or bits == 64:
        return max(low, -(1 << bits - 1)), min(end, 1 << bits - 1) - 1
    return max(low, 0), min(end, 1 << bits) - 1


def splat(element: str, number: int, lanes: int) -> str:
    """Returns a number in all lanes."""
    return str(number) if lanes == 1 else f"splat ({element} {number})"
