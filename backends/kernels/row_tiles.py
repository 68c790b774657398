"""Rows in tiles: what is computed for each row alone takes the lanes, and sums of columns pay.

A kernel goes row by row. Beside the loops along a row it computes numbers of the row alone, such as
the loss of an example, one at a time. In tiles of as many rows as there are lanes, the loops along
rows come for all rows of the tile, then the numbers of all rows at once, then the next loops. What
a later step needs lies in memory of the kernel's own, one number for each row of a tile. Sums of
columns are updated once for each tile.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .kernel import (
    Buffer,
    Fold,
    For,
    Index,
    Let,
    Load,
    LoopAxis,
    LoopKernel,
    LoopValue,
    Operand,
    PlaceOf,
    PlaceWithin,
    Statement,
    Store,
    UpdateOf,
    all_statements,
)
from .operations import KERNEL_FUNCTIONS

__all__ = ["by_row_tiles"]

# Kernels of fewer tiles stay as they are.
FEWEST_ROW_TILES = 4
ROWS_TOGETHER = 4
# Processors have the next row begun before shorter sums end.
STEPS_OF_A_LONG_FOLD = 12
# The loops along rows read the rows of a tile again, which are in the nearest caches up to here.
MOST_BYTES_OF_A_TILE = 1 << 18


def by_row_tiles(kernel: LoopKernel, lane_bytes: int) -> LoopKernel:
    """Returns a kernel that goes by tiles of rows, or the same one where that is not quicker.

    Args:
        kernel: the kernel.
        lane_bytes: the bytes of all lanes of a step.
    """
    loop = loop_to_tile(kernel)
    if loop is None:
        return kernel
    inside = list(all_statements(loop.body))
    made = [s.value for s in inside if isinstance(s, Let | Load | PlaceOf)]
    tile = lane_bytes // max([4, *[value.dtype.itemsize for value in made]])
    rows = {
        s.buffer: s.index.stride(loop.axis) * s.buffer.dtype.itemsize
        for s in inside
        if isinstance(s, Load)
    }
    large = tile * sum(rows.values()) > MOST_BYTES_OF_A_TILE
    if large or loop.axis.extent < FEWEST_ROW_TILES * tile:
        return kernel
    if not any(
        is_dear(s) or is_sum_of_columns(s, loop.axis) or is_long_fold(s) for s in loop.body
    ):
        return kernel
    return in_tiles(kernel, loop, tile)


def in_tiles(kernel: LoopKernel, loop: For, tile: int) -> LoopKernel:
    """Returns a kernel with the loop that `loop_to_tile` found in tiles of so many rows."""
    tiles = TiledRows(loop, tile)
    body = [tiles.loop() if s is loop else s for s in kernel.body]
    return LoopKernel(kernel.name, kernel.buffers, [*kernel.scratch, *tiles.scratch], body)


def loop_to_tile(kernel: LoopKernel) -> For | None:
    """Returns the loop over rows, if what it does for one may come for several one by one."""
    loops = [s for s in kernel.body if isinstance(s, For) and is_of_rows(s)]
    if len(loops) != 1:
        return None
    (loop,) = loops
    memory = [s for s in all_statements(loop.body) if isinstance(s, Load | Store | UpdateOf)]
    # Own memory has the numbers of one row.
    mixed = any(s.buffer.role == "scratch" for s in memory)
    mixed |= any(isinstance(s, PlaceWithin | UpdateOf) for s in loop.body)
    return None if mixed else loop


def is_of_rows(statement: For) -> bool:
    """Says whether a loop goes over single places and not over tiles, with loops in it."""
    single = statement.lanes == 1 and not statement.tile
    return single and any(isinstance(s, For) for s in statement.body)


def is_dear(statement: Statement) -> bool:
    """Says whether a statement computes a function such as ``exp``."""
    return isinstance(statement, Let) and statement.operation in KERNEL_FUNCTIONS


def is_sum_of_columns(loop: Statement, rows: LoopAxis) -> bool:
    """Says whether a loop along a row does nothing but update folds over the rows."""
    if not isinstance(loop, For) or loop.lanes == 1 or loop.folds:
        return False
    updates = [s for s in loop.body if isinstance(s, UpdateOf)]
    others = [s for s in loop.body if isinstance(s, Let | Load | PlaceOf | PlaceWithin)]
    return (
        len(updates) + len(others) == len(loop.body)
        and 0 < len({s.buffer for s in updates}) == len(updates)
        and not any(s.index.stride(rows) for s in updates)
    )


class TiledRows:
    """Makes the loop over tiles of a loop over rows.

    Attributes:
        scratch: the memory for numbers of a tile's rows.
    """

    def __init__(self, loop: For, tile: int) -> None:
        self.rows = loop
        self.tile = tile
        self.scratch: list[Buffer] = []
        # How later steps find the numbers of rows: in memory, or in an input once more.
        self._found: dict[LoopValue, tuple[Buffer, Index]] = {}
        # Folds over the rows whose operands no step has made yet.
        self._folds = list(loop.folds)
        self._folded: dict[Fold, LoopValue] = {}

    def loop(self) -> For:
        """Returns the loop."""
        parts, body = parts_of(self.rows.body), []
        for number, part in enumerate(parts):
            later = [s for other in parts[number + 1 :] for s in other]
            body += self._step(part, later)
        if self._folds:
            body += self._step([], [])
        folds = [Fold(f.value, f.operation, self._folded[f]) for f in self.rows.folds]
        return For(self.rows.axis, body, folds, tile=self.tile)

    def _step(self, part: Sequence[Statement], later: Sequence[Statement]) -> list[Statement]:
        """Returns the loop over a tile's rows of a part of what is done for each row."""
        axis = self.rows.axis
        along = len(part) == 1 and isinstance(part[0], For)
        made = values_of(part)
        folds = [] if along else [f for f in self._folds if self._is_known(f, made)]
        self._folds = [f for f in self._folds if f not in folds]
        needed = {x for s in later for x in taken_by(s)}
        needed.update(x for fold in self._folds for x in fold.operands)
        names: dict[Operand, Operand] = {}
        loads: list[Statement] = []
        for x in dict.fromkeys([x for s in (*part, *folds) for x in taken_by(s)]):
            if isinstance(x, LoopValue) and x in self._found:
                names[x] = found = LoopValue(x.dtype)
                loads.append(Load(found, *self._found[x]))
        for s in part:
            if isinstance(s, Load) and not s.index.picks:
                self._found[s.value] = s.buffer, s.index
        kept = [x for x in made if x in needed and x not in self._found]
        stores = [self._store(x) for x in kept]
        own = [renamed(s, names) for s in part]
        if along and is_sum_of_columns(own[0], axis):
            return [self._sums_of_columns(own[0], loads)]  # type: ignore[arg-type]
        inner = []
        for fold in folds:
            found = self._folded[fold] = LoopValue(fold.value.dtype)
            operands = [names.get(x, x) for x in fold.operands]
            inner.append(Fold(found, fold.operation, *operands))
        if not (along or inner or stores or any(isinstance(s, Store) for s in own)):
            return []  # inputs, which later steps read
        body = [*loads, *own, *stores]
        if along:
            return [For(axis, body, together=together_of(own[0]))]  # type: ignore[arg-type]
        return [For(axis, body, inner, self.tile)]

    def _is_known(self, fold: Fold, made: Iterable[LoopValue]) -> bool:
        """Says whether the operands of a fold are known once some values are made."""
        inside = {*made, *self._found}
        outside = {*values_of(self.rows.body)}
        return all(x in inside or x not in outside for x in fold.operands)

    def _store(self, value: LoopValue) -> Store:
        """Returns what keeps a number of each row for later steps."""
        name, shape = f"rows_{len(self.scratch)}", (self.rows.axis.extent,)
        buffer = Buffer(name, value.dtype, shape, "scratch", self.tile)
        self.scratch.append(buffer)
        index = Index([(self.rows.axis, 1)])
        self._found[value] = buffer, index
        return Store(buffer, index, value)

    def _sums_of_columns(self, loop: For, loads: Sequence[Statement]) -> For:
        """Returns a loop along rows that folds over a tile's rows, and updates with these folds."""
        folds, updates, body = [], [], []
        for s in loop.body:
            if isinstance(s, UpdateOf):
                total = LoopValue(s.operand.dtype)
                folds.append(Fold(total, s.operation, s.operand))
                updates.append(UpdateOf(s.buffer, s.index, s.operation, total))
            else:
                body.append(s)
        rows = For(self.rows.axis, [*loads, *body], folds)
        return For(loop.axis, [rows, *updates], (), loop.lanes)


def is_long_fold(statement: Statement) -> bool:
    """Says whether a statement is a loop along a row whose folds wait for many additions."""
    return (
        isinstance(statement, For)
        and together_of(statement) > 1
        and statement.axis.extent >= STEPS_OF_A_LONG_FOLD * statement.lanes
    )


def together_of(loop: For) -> int:
    """Returns how many rows are computed together that a loop along a row only folds.

    A sum waits for each of its additions, unless the next row's goes on meanwhile.
    """
    simple = all(isinstance(s, Let | Load | PlaceOf) for s in loop.body)
    return ROWS_TOGETHER if loop.lanes > 1 and simple else 1


def parts_of(body: Sequence[Statement]) -> list[list[Statement]]:
    """Returns the parts of a body: each loop, and the statements between loops."""
    parts: list[list[Statement]] = []
    for statement in body:
        before = parts[-1][-1] if parts else None
        if before is None or isinstance(statement, For) or isinstance(before, For):
            parts.append([])
        parts[-1].append(statement)
    return parts


def values_of(part: Sequence[Statement]) -> list[LoopValue]:
    """Returns the values that statements make, with those of loops behind them."""
    found: list[LoopValue] = []
    for s in part:
        if isinstance(s, For):
            found += [fold.value for fold in s.folds]
        elif not isinstance(s, Store | UpdateOf):
            found.append(s.value)
    return found


def taken_by(statement: Statement | Fold) -> list[Operand]:
    """Returns what a statement or a fold takes, of a loop what all in it take."""
    if isinstance(statement, For):
        inner = [*statement.body, *statement.folds]
        return [x for s in inner for x in taken_by(s)]
    if isinstance(statement, Let | Fold):
        return [*statement.operands]
    if isinstance(statement, Load):
        return [value for value, _ in statement.index.picks]
    return [] if isinstance(statement, PlaceOf) else [statement.operand]


def renamed(statement: Statement, names: dict[Operand, Operand]) -> Statement:
    """Returns a statement that takes other values than before."""

    def new(x: Operand) -> Operand:
        return names.get(x, x) if isinstance(x, LoopValue) else x

    if isinstance(statement, For):
        folds = [Fold(f.value, f.operation, *map(new, f.operands)) for f in statement.folds]
        body = [renamed(s, names) for s in statement.body]
        return For(statement.axis, body, folds, statement.lanes)
    if isinstance(statement, Let):
        return Let(statement.value, statement.operation, [*map(new, statement.operands)])
    if isinstance(statement, PlaceWithin):
        return PlaceWithin(statement.value, new(statement.operand), statement.length)
    if isinstance(statement, Store):
        return Store(statement.buffer, statement.index, new(statement.operand))
    if isinstance(statement, UpdateOf):
        return UpdateOf(
            statement.buffer, statement.index, statement.operation, new(statement.operand)
        )
    return statement
