"""Lines of LLVM's text about memory: tables of addresses, copies, and jumps behind a status."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .instructions import Lines

__all__ = [
    *("Table", "clear_bytes", "copy_all", "copy_bytes", "element", "go_on_if"),
    *("returned_if_not_0", "returned_unless"),
]

# For more copies in a row LLVM takes a time that grows with the square of their number.
MOST_COPIES_WRITTEN_OUT = 16


class Table:
    """The addresses that the function of a step takes.

    Args:
        lines: where they are written.
        places: the addresses.
        rows: for those that move on from step to step, the bytes of a row.
    """

    def __init__(self, lines: Lines, places: Sequence[str], rows: Mapping[str, int]) -> None:
        self._lines = lines
        self._name = lines.room(max(len(places), 1))
        self._moving: list[tuple[str, str, int]] = []
        for number, place in enumerate(places):
            entry = lines.let(f"getelementptr ptr, ptr {self._name}, i64 {number}")
            if place in rows:
                self._moving.append((entry, place, rows[place]))
            else:
                lines.add(f"store ptr {place}, ptr {entry}, align 8")

    def move(self, step: str) -> None:
        """Writes the addresses of the rows of a step."""
        lines = self._lines
        for entry, begin, size in self._moving:
            offset = lines.let(f"mul i64 {step}, {size}")
            row = lines.let(f"getelementptr i8, ptr {begin}, i64 {offset}")
            lines.add(f"store ptr {row}, ptr {entry}, align 8")

    def call(self, name: str) -> str:
        """Writes the call of a function; returns the name of its status."""
        return self._lines.let(f"call i64 @{name}(ptr {self._name}, ptr %memory)")


def element(lines: Lines, table: str, number: int) -> str:
    """Writes the load of an address from a table; returns its name."""
    place = lines.let(f"getelementptr ptr, ptr {table}, i64 {number}")
    return lines.let(f"load ptr, ptr {place}, align 8")


def go_on_if(lines: Lines, condition: str, otherwise: str) -> None:
    """Writes the jump to a label unless a condition holds."""
    behind = lines.label("on")
    lines.add(f"br i1 {condition}, label %{behind}, label %{otherwise}")
    lines.begin(behind)


def returned_if_not_0(lines: Lines, status: str) -> None:
    """Writes the return of a status unless it is 0."""
    returned_unless(lines, lines.let(f"icmp eq i64 {status}, 0"), status)


def returned_unless(lines: Lines, fine: str, status: str | int) -> None:
    """Writes the return of a status unless a condition holds."""
    stop, behind = lines.label("stop"), lines.label("on")
    lines.add(f"br i1 {fine}, label %{behind}, label %{stop}")
    lines.begin(stop)
    lines.add(f"ret i64 {status}")
    lines.begin(behind)


def copy_bytes(lines: Lines, place: str, source: str, size: int) -> None:
    """Writes the copy of memory, which may lie at the same place."""
    given = [("ptr", place), ("ptr", source), ("i64", str(size)), ("i1", "false")]
    lines.call("llvm.memcpy.p0.p0.i64", "void", given)


def copy_all(
    lines: Lines, copies: Sequence[tuple[str, str, int]], functions: dict[str, str]
) -> None:
    """Writes copies of memory, many of them as calls of a function.

    Args:
        lines: where they are written.
        copies: for each the place, the source and the number of bytes.
        functions: the texts of functions of the module, by their names.
    """
    if len(copies) <= MOST_COPIES_WRITTEN_OUT:
        for place, source, size in copies:
            copy_bytes(lines, place, source, size)
        return
    own = Lines()
    given = [("ptr", "%place"), ("ptr", "%source"), ("i64", "%size"), ("i1", "false")]
    own.call("llvm.memcpy.p0.p0.i64", "void", given)
    lines.declared.update(own.declared)
    head = "define internal void @copied(ptr %place, ptr %source, i64 %size) noinline {"
    functions["copied"] = "\n".join([head, *own.text, "  ret void", "}"])
    for place, source, size in copies:
        lines.add(f"call void @copied(ptr {place}, ptr {source}, i64 {size})")


def clear_bytes(lines: Lines, place: str, size: int) -> None:
    """Writes zeros into memory."""
    given = [("ptr", place), ("i8", "0"), ("i64", str(size)), ("i1", "false")]
    lines.call("llvm.memset.p0.i64", "void", given)
