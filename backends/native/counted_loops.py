"""Lines of LLVM's text about loops over whole numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from .instructions import Lines

__all__ = ["carrying_loop", "counted_loop", "stack_slot"]


@contextmanager
def counted_loop(lines: Lines, count: int | str) -> Iterator[str]:
    """Writes a loop around lines; yields the name of the number of its step.

    Args:
        lines: where it is written.
        count: the number of its steps, at least one.
    """
    with carrying_loop(lines, count, ()) as (number, _, _):
        yield number


@contextmanager
def carrying_loop(
    lines: Lines, count: int | str, begins: Sequence[str], kind: str = "i64"
) -> Iterator[tuple[str, list[str], list[str]]]:
    """Writes a loop that hands values on from step to step.

    Yields the name of the number of its step, those of the values that are handed on, and a list
    that the body fills with the next ones.

    Args:
        lines: where it is written.
        count: the number of its steps, at least one.
        begins: the values of the first step.
        kind: their type.
    """
    before, head, latch, end = lines.block, *(lines.label(x) for x in ("head", "latch", "end"))
    number, following = lines.name(), lines.name()
    carried, nexts = [lines.name() for _ in begins], list[str]()
    lines.add(f"br label %{head}")
    lines.begin(head)
    lines.add(f"{number} = phi i64 [ 0, %{before} ], [ {following}, %{latch} ]")
    first = lines.text[-1]
    yield number, carried, nexts
    # The body may have added lines at the beginning of the function.
    behind = lines.text.index(first) + 1
    lines.text[behind:behind] = [
        f"  {name} = phi {kind} [ {begin}, %{before} ], [ {made}, %{latch} ]"
        for name, begin, made in zip(carried, begins, nexts, strict=True)
    ]
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
