"""Lines of LLVM's text that test how array objects lie in memory."""

from __future__ import annotations

from collections.abc import Callable

from ....native.array_objects import CONTIGUOUS_AND_ALIGNED, FLAGS_OFFSET
from ....native.instructions import Lines
from ....native.tables import returned_unless

__all__ = ["write_layout_test"]


def write_layout_test(
    lines: Lines, object_at: Callable[[str], str], ends: tuple[int, int], status: int
) -> None:
    """Writes the return of a status unless some objects are in C order and aligned.

    Args:
        lines: where it is written.
        object_at: writes the address of the object of a number.
        ends: the number of the first object, and the one behind that of the last.
        status: the status.
    """
    first, end = ends
    if first == end:
        return
    before, head = lines.block, lines.label("head")
    number, following, all_flags, both = (lines.name() for _ in range(4))
    lines.add(f"br label %{head}")
    lines.begin(head)
    lines.add(f"{number} = phi i64 [ {first}, %{before} ], [ {following}, %{head} ]")
    start = CONTIGUOUS_AND_ALIGNED
    lines.add(f"{all_flags} = phi i32 [ {start}, %{before} ], [ {both}, %{head} ]")
    place = f"getelementptr i8, ptr {object_at(number)}, i64 {FLAGS_OFFSET}"
    flags = lines.let(f"load i32, ptr {lines.let(place)}, align 4")
    lines.add(f"{both} = and i32 {all_flags}, {flags}")
    lines.add(f"{following} = add i64 {number}, 1")
    more, after = lines.let(f"icmp slt i64 {following}, {end}"), lines.label("behind")
    lines.add(f"br i1 {more}, label %{head}, label %{after}")
    lines.begin(after)
    fine = lines.let(f"icmp eq i32 {both}, {CONTIGUOUS_AND_ALIGNED}")
    returned_unless(lines, fine, status)
