"""Loads and stores of pairs of neighbouring elements in LLVM's text: both parts of complex numbers.

Each lane takes one pair. The pairs of all lanes are one vector of twice the width.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ..kernels.accesses import buffer_elements
from ..kernels.kernel import Buffer, Index, LoopAxis, Statement, Store, UpdateOf
from .instructions import Lines, memory_type, ones, overloaded, shown_type

if TYPE_CHECKING:
    from ..annotations import DType

__all__ = ["are_halves", "half_of_pairs", "is_of_pairs", "load_pairs", "store_pairs"]


def is_of_pairs(buffer: Buffer, index: Index) -> bool:
    """Says whether a buffer has whole pairs, and an index takes one element of each."""
    return buffer_elements(buffer) % 2 == 0 and all(stride % 2 == 0 for _, stride in index.terms)


def are_halves(statement: Statement, following: Statement | None, axis: LoopAxis | None) -> bool:
    """Says whether two statements store the two elements of pairs, which lie along an axis."""
    if not isinstance(statement, Store | UpdateOf) or type(following) is not type(statement):
        return False
    if axis is None or statement.index.stride(axis) != 2:
        return False
    second = Index(statement.index.terms, statement.index.begin + 1)
    return (following.buffer, following.index) == (statement.buffer, second)


def load_pairs(lines: Lines, dtype: DType, address: str, width: int, mask: str | None) -> str:
    """Adds the load of pairs, one for each of some lanes; returns the vector.

    Args:
        lines: where it is written.
        dtype: the dtype of the elements.
        address: the address of the first pair.
        width: the number of lanes.
        mask: the lanes that count; None for all.
    """
    element, size = memory_type(dtype), dtype.itemsize
    kind = shown_type(element, 2 * width)
    if mask is None:
        return lines.let(f"load {kind}, ptr {address}, align {size}")
    given = [("ptr", address), ("i32", str(size)), _mask_of_pairs(lines, mask, width)]
    given.append((kind, ones(element, 2 * width)))
    return lines.call(f"llvm.masked.load.{overloaded(element, 2 * width)}.p0", kind, given)


def half_of_pairs(lines: Lines, dtype: DType, pairs: str, width: int, part: int) -> str:
    """Adds the choice of the first or the second elements of pairs."""
    kind = shown_type(memory_type(dtype), 2 * width)
    return _shuffled(lines, kind, pairs, "poison", range(part, 2 * width, 2))


def store_pairs(
    lines: Lines, dtype: DType, address: str, halves: Sequence[str], width: int, mask: str | None
) -> None:
    """Adds the store of pairs.

    Args:
        lines: where it is written.
        dtype: the dtype of the elements.
        address: the address of the first pair.
        halves: the first elements of all lanes, and the second ones.
        width: the number of lanes.
        mask: the lanes that count; None for all.
    """
    element, size = memory_type(dtype), dtype.itemsize
    kind, half = shown_type(element, 2 * width), shown_type(element, width)
    if dtype.kind == "b":
        bits = shown_type("i1", width)
        halves = [lines.let(f"zext {bits} {x} to {half}") for x in halves]
    first, second = halves
    places = [i // 2 + i % 2 * width for i in range(2 * width)]
    value = _shuffled(lines, half, first, second, places)
    if mask is None:
        lines.add(f"store {kind} {value}, ptr {address}, align {size}")
        return
    given = [(kind, value), ("ptr", address), ("i32", str(size))]
    given.append(_mask_of_pairs(lines, mask, width))
    lines.call(f"llvm.masked.store.{overloaded(element, 2 * width)}.p0", "void", given)


def _mask_of_pairs(lines: Lines, mask: str, width: int) -> tuple[str, str]:
    places = [i // 2 for i in range(2 * width)]
    found = _shuffled(lines, shown_type("i1", width), mask, "poison", places)
    return shown_type("i1", 2 * width), found


def _shuffled(lines: Lines, kind: str, x: str, y: str, places: Iterable[int]) -> str:
    shown = [f"i32 {i}" for i in places]
    return lines.let(
        f"shufflevector {kind} {x}, {kind} {y}, <{len(shown)} x i32> <{', '.join(shown)}>"
    )
