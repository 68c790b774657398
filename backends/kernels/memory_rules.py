"""The rules of a kernel's memory: what is written once, before it is read, in blocks or lanes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .accesses import Access, Complaint, all_accesses, block_loop, buffer_elements, common_loops
from .kernel import (
    Buffer,
    For,
    Let,
    Load,
    LoopAxis,
    LoopKernel,
    LoopValue,
    Operand,
    PlaceWithin,
    Statement,
    all_statements,
)
from .printed import shown_buffer

__all__ = ["check_memory", "check_pairs"]


def check_memory(kernel: LoopKernel, complain: Complaint) -> None:
    """Checks the accesses of a kernel whose values and indexes are right.

    Raises:
        KernelError: a rule is broken.
    """
    accesses = all_accesses(kernel)
    of: dict[Buffer, list[Access]] = {x: [] for x in (*kernel.buffers, *kernel.scratch)}
    for access in accesses:
        of[access.statement.buffer].append(access)
    blocks = any(isinstance(s, For) and s.axis.block for s in all_statements(kernel.body))
    for buffer, some in of.items():
        if buffer.role == "in":
            _is_only_read(some, complain)
        elif buffer.role == "some" or (
            buffer.role == "out" and (blocks or not any(x.reads for x in some))
        ):
            _is_written_once(buffer, some, blocks, complain)
            if buffer.role == "out":
                _is_complete(buffer, some, buffer_elements(buffer), complain)
        else:
            _is_begun(some, complain)
            if buffer.role != "scratch":
                _is_whole(buffer, some, complain)
        _lanes_are_apart(some, complain)
    _check_late(kernel, accesses, complain)


def _is_only_read(accesses: Iterable[Access], complain: Complaint) -> None:
    for access in accesses:
        if access.writes:
            complain("an input is written", access.statement, access.statement.buffer)


# -- what is written


def _is_written_once(
    buffer: Buffer, accesses: Sequence[Access], blocks: bool, complain: Complaint
) -> None:
    for number, access in enumerate(accesses):
        statement = access.statement
        if access.reads:
            complain("an output is read", statement, buffer)
        if blocks and block_loop(access) is None:
            complain("every block writes the same elements of an output", statement, buffer)
        elements = access.elements()
        if not elements.are_different():
            complain("an element of an output is written more than once", statement, buffer)
        for other in accesses[:number]:
            if not elements.apart(other.elements()):
                first = complain.names.statement(other.statement)
                complain(f"`{first}` may write the same elements", statement, buffer)


def _is_whole(buffer: Buffer, accesses: Sequence[Access], complain: Complaint) -> None:
    """Checks that stores fill a part, whichever rows its block has; or an output of one run."""
    stores = [x for x in accesses if not x.reads and block_loop(x) is None]
    for access in stores:
        elements = access.elements()
        if elements.are_a_run() and (elements.begin, elements.last + 1) == (
            0,
            buffer_elements(buffer),
        ):
            return
    apart = [x for x in stores if x.elements().are_different()]
    for number, access in enumerate(apart):
        if not all(access.elements().apart(x.elements()) for x in apart[:number]):
            complain("stores overlap, and none fills the whole buffer", access.statement, buffer)
    _is_complete(buffer, apart, buffer_elements(buffer), complain)


def _is_complete(
    buffer: Buffer, accesses: Iterable[Access], size: int, complain: Complaint
) -> None:
    """Checks that stores to different elements fill a buffer."""
    written = sum(access.elements().places for access in accesses)
    if written != size:
        what = "of its part " if buffer.role == "part" else ""
        complain(f"{written} of {size} elements {what}are written", None, buffer)


# -- what is written before it is read


def _is_begun(accesses: Sequence[Access], complain: Complaint) -> None:
    for access in accesses:
        if access.reads and not any(_begins(x, access) for x in accesses if not x.reads):
            complain(
                "it may read elements that nothing before it has written",
                access.statement,
                access.statement.buffer,
            )


def _begins(store: Access, access: Access) -> bool:
    """Says whether a store fills all that an access reads, each time before it does."""
    if not store.before(access):
        return False
    common = common_loops(store, access)
    still = {loop.axis for loop in common}
    rows = block_loop(store)
    if rows is not None and rows not in common:
        # The rows of the block are not all rows: what it reads has to be of these.
        if block_loop(access) is None:
            return False
        still.add(rows.axis)
    return store.elements(still).cover(access.elements(still))


# -- lanes


def _lanes_are_apart(accesses: Sequence[Access], complain: Complaint) -> None:
    for access in accesses:
        if not access.writes or not access.loops or access.loops[-1].lanes == 1:
            continue
        statement, loop = access.statement, access.loops[-1]
        if loop.axis.extent > 1 and not statement.index.stride(loop.axis):
            complain(f"all lanes along {loop.axis} write one element", statement, statement.buffer)
        # The loop over tiles has the same axis, along which lanes go.
        still = [outer.axis for outer in access.loops[:-1] if outer.axis is not loop.axis]
        for other in accesses:
            same = other.loops == access.loops and other.statement.index == statement.index
            if loop not in other.loops or same:
                continue
            if not access.elements(still).apart(other.elements(still)):
                second = complain.names.statement(other.statement)
                complain(
                    f"lanes along {loop.axis} may write what other lanes take in `{second}`",
                    statement,
                    statement.buffer,
                )


# -- what is complete only after all blocks


def _check_late(kernel: LoopKernel, accesses: Sequence[Access], complain: Complaint) -> None:
    """Checks that folds over the rows of a block go to parts alone."""
    late: set[LoopValue] = set()
    count = -1
    while count != len(late):
        count = len(late)
        for access in accesses:
            load = access.statement
            if isinstance(load, Load) and _is_late(access, accesses, late):
                late.add(load.value)
        for statement in all_statements(kernel.body):
            _spread_late(statement, late)
    for access in accesses:
        buffer = access.statement.buffer
        if buffer.role == "out" and _is_among(access.operand, late):
            complain(
                "an output needs what is complete only after all blocks", access.statement, buffer
            )


def _spread_late(statement: Statement, late: set[LoopValue]) -> None:
    if isinstance(statement, Let):
        if any(_is_among(x, late) for x in statement.operands):
            late.add(statement.value)
    elif isinstance(statement, PlaceWithin):
        if _is_among(statement.operand, late):
            late.add(statement.value)
    elif isinstance(statement, Load):
        if any(value in late for value, _ in statement.index.picks):
            late.add(statement.value)
    elif isinstance(statement, For):
        for fold in statement.folds:
            if statement.axis.block or any(_is_among(x, late) for x in fold.operands):
                late.add(fold.value)


def _is_among(operand: Operand | None, values: set[LoopValue]) -> bool:
    return isinstance(operand, LoopValue) and operand in values


def _is_late(load: Access, accesses: Sequence[Access], late: set[LoopValue]) -> bool:
    """Says whether what is loaded depends on which other rows the block has."""
    buffer = load.statement.buffer
    if buffer.role not in ("scratch", "part"):
        return False
    some = [x for x in accesses if x.statement.buffer is buffer]
    writes = [x for x in some if x.writes]
    return any(_is_among(x.operand, late) or _is_of_block(x, load, some) for x in writes)


def _is_of_block(write: Access, load: Access, accesses: Iterable[Access]) -> bool:
    rows, ours = block_loop(write), block_loop(load)
    if rows is None:
        return False
    if ours is None:
        return True
    stride = write.statement.index.stride(rows.axis)
    if stride and _one_row(write, rows.axis) and _one_row(load, rows.axis):
        return stride != load.statement.index.stride(rows.axis)
    return ours is not rows or not any(
        not x.reads and block_loop(x) is rows and _begins(x, load) for x in accesses
    )


def _one_row(access: Access, axis: LoopAxis) -> bool:
    """Says whether elements of different rows are different."""
    elements = access.elements([axis])
    return elements.apart_elsewhere(elements, [axis])


# -- inputs and outputs in the same memory


def check_pairs(
    kernel: LoopKernel, pairs: Iterable[tuple[Buffer, Buffer]], complain: Complaint
) -> None:
    """Checks that outputs may have the memory of inputs.

    Raises:
        KernelError: an element may be read after it is written.
    """
    accesses = all_accesses(kernel)
    taken: set[Buffer] = set()
    for source, target in pairs:
        for buffer, role in ((source, "in"), (target, "out")):
            if buffer.role != role or buffer not in kernel.buffers:
                complain(f"{shown_buffer(buffer)} is no buffer of its role {role!r}", None, buffer)
            if buffer in taken:
                complain("it shares memory with more than one buffer", None, buffer)
            taken.add(buffer)
        if source.dtype != target.dtype or buffer_elements(source) != buffer_elements(target):
            complain(f"it cannot have the memory of {shown_buffer(target)}", None, source)
        stores = [x for x in accesses if x.statement.buffer is target]
        for load in accesses:
            if load.statement.buffer is source:
                for store in stores:
                    _is_read_first(load, store, complain)


def _is_read_first(load: Access, store: Access, complain: Complaint) -> None:
    """Checks that a store overwrites no element that a load takes later, or in another block."""
    still = {loop.axis for loop in common_loops(load, store)}
    ours, theirs = block_loop(load), block_loop(store)
    if ours is not None and theirs is not None:
        still.add(ours.axis)
    if not load.before(store):
        problem = "elements are read after they may be overwritten"
    elif ours is None and theirs is not None:
        problem = "all blocks read what one of them overwrites"
    elif not load.elements(still).apart_elsewhere(store.elements(still), still):
        problem = "elements may be overwritten before they are read elsewhere"
    else:
        return
    second = complain.names.statement(store.statement)
    complain(f"{problem} by `{second}`", load.statement, load.statement.buffer)
