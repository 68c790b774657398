"""Lines of LLVM's text that test labels, before a kernel reads elements at them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ....native.instructions import Lines
from ....native.tables import returned_unless

if TYPE_CHECKING:
    from ....annotations import DType

__all__ = ["write_label_test"]


def write_label_test(
    lines: Lines, labels: str, dtype: DType, count: int, bounds: Sequence[int], status: int
) -> None:
    """Writes the return of a status where a label is out of bounds.

    Seen as unsigned, labels below the lowest are too large.

    Args:
        lines: where it is written.
        labels: the name of the address of the labels.
        dtype: their dtype.
        count: how many there are.
        bounds: the lowest label, and the one behind the highest.
        status: the status.
    """
    low, end = bounds
    kind = f"i{8 * dtype.itemsize}"
    before = lines.block
    head, after = lines.label("head"), lines.label("behind")
    place, following, found, worst = (lines.name() for _ in range(4))
    lines.add(f"br label %{head}")
    lines.begin(head)
    lines.add(f"{place} = phi i64 [ 0, %{before} ], [ {following}, %{head} ]")
    lines.add(f"{found} = phi i1 [ false, %{before} ], [ {worst}, %{head} ]")
    address = lines.let(f"getelementptr {kind}, ptr {labels}, i64 {place}")
    label = lines.let(f"load {kind}, ptr {address}, align {dtype.itemsize}")
    # Numbers of 64 bits are places as NumPy takes them, of which the largest are negative.
    signed = dtype.kind == "i" or dtype.itemsize == 8
    label = lines.let(f"{'sext' if signed else 'zext'} {kind} {label} to i128")
    if low:
        label = lines.let(f"sub i128 {label}, {low}")
    large = lines.let(f"icmp uge i128 {label}, {end - low}")
    lines.add(f"{worst} = or i1 {found}, {large}")
    lines.add(f"{following} = add i64 {place}, 1")
    more = lines.let(f"icmp slt i64 {following}, {count}")
    lines.add(f"br i1 {more}, label %{head}, label %{after}")
    lines.begin(after)
    returned_unless(lines, lines.let(f"xor i1 {worst}, true"), status)
