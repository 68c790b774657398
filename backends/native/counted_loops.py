"""Lines of LLVM's text about loops over whole numbers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from .instructions import Lines

__all__ = ["counted_loop", "stack_slot"]


@contextmanager
def counted_loop(lines: Lines, count: int) -> Iterator[str]:
    """Writes a loop around lines; yields the name of the number of its step.

    Args:
        lines: where it is written.
        count: the number of its steps, at least one.
    """
    before, head, latch, end = lines.block, *(lines.label(x) for x in ("head", "latch", "end"))
    number, following = lines.name(), lines.name()
    lines.add(f"br label %{head}")
    lines.begin(head)
    lines.add(f"{number} = phi i64 [ 0, %{before} ], [ {following}, %{latch} ]")
    yield number
    lines.add(f"br label %{latch}")
    lines.begin(latch)
    lines.add(f"{following} = add i64 {number}, 1")
    more = lines.let(f"icmp slt i64 {following}, {count}")
    lines.add(f"br i1 {more}, label %{head}, label %{end}")
    lines.begin(end)


def stack_slot(lines: Lines, kind: str) -> str:
    """Returns the name of memory for a number of a type, which is taken in the first block."""
    name = lines.name()
    lines.text.insert(1, f"  {name} = alloca {kind}, align 8")
    return name
