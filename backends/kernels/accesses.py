"""Every access of a kernel to memory, with the loops around it and its place in the order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import prod
from typing import NoReturn

from .errors import KernelError
from .index_proofs import Elements
from .kernel import (
    BLOCK_NUMBER,
    Buffer,
    For,
    Index,
    Load,
    LoopAxis,
    LoopKernel,
    Operand,
    Statement,
    Store,
    UpdateOf,
)
from .printed import KernelNames

__all__ = ["Access", "Complaint", "all_accesses", "block_loop", "buffer_elements", "common_loops"]


class Complaint:
    """Raises errors about a kernel.

    Attributes:
        kernel: the kernel.
        names: the names of its values.
    """

    def __init__(self, kernel: LoopKernel) -> None:
        self.kernel = kernel
        self.names = KernelNames(kernel.body)

    def __call__(
        self, problem: str, statement: Statement | None = None, buffer: Buffer | None = None
    ) -> NoReturn:
        """Raises an error.

        Raises:
            KernelError: it names the kernel, the buffer and the statement.
        """
        where = [f"kernel {self.kernel.name}"]
        if buffer is not None:
            where.append(f"buffer {buffer.name}")
        if statement is not None:
            where.append(f"`{self.names.statement(statement)}`")
        raise KernelError(f"{', '.join(where)}: {problem}")


class Access:
    """A load, a store or an update.

    Attributes:
        statement: the statement.
        loops: the loops around it, the outermost first.
        position: the numbers of these loops and of the statement, each in the body around it.
    """

    __slots__ = ("loops", "position", "statement")

    def __init__(
        self,
        statement: Load | Store | UpdateOf,
        loops: tuple[For, ...],
        position: tuple[int, ...],
    ) -> None:
        self.statement = statement
        self.loops = loops
        self.position = position

    @property
    def writes(self) -> bool:
        """Says whether it writes."""
        return not isinstance(self.statement, Load)

    @property
    def reads(self) -> bool:
        """Says whether it reads."""
        return not isinstance(self.statement, Store)

    @property
    def operand(self) -> Operand | None:
        """The operand that it writes, or updates with."""
        return None if isinstance(self.statement, Load) else self.statement.operand

    def before(self, other: Access) -> bool:
        """Says whether it comes first wherever the loops around both are at the same places."""
        return self.position < other.position

    def elements(self, still: Iterable[LoopAxis] = ()) -> Elements:
        """Returns the elements that it takes while some axes stand still.

        At places that are picked these may be all.
        """
        if self.statement.index.picks:
            anywhere = LoopAxis("anywhere", buffer_elements(self.statement.buffer))
            return Elements(Index([(anywhere, 1)]), [anywhere])
        fixed = {BLOCK_NUMBER, *still}
        going = [loop.axis for loop in self.loops if loop.axis not in fixed]
        return Elements(self.statement.index, going)


def all_accesses(kernel: LoopKernel) -> list[Access]:
    """Returns all loads, stores and updates of a kernel in the order of its text."""
    return list(_accesses(kernel.body, (), ()))


def _accesses(
    body: Sequence[Statement], loops: tuple[For, ...], position: tuple[int, ...]
) -> Iterator[Access]:
    for number, statement in enumerate(body):
        here = (*position, number)
        if isinstance(statement, For):
            yield from _accesses(statement.body, (*loops, statement), here)
        elif isinstance(statement, Load | Store | UpdateOf):
            yield Access(statement, loops, here)


def block_loop(access: Access) -> For | None:
    """Returns the loop over the rows of a block around an access, if there is one."""
    return next((loop for loop in access.loops if loop.axis.block), None)


def common_loops(one: Access, other: Access) -> tuple[For, ...]:
    """Returns the loops that are around two accesses."""
    count = 0
    for mine, yours in zip(one.position[:-1], other.position[:-1]):
        if mine != yours:
            break
        count += 1
    return one.loops[:count]


def buffer_elements(buffer: Buffer) -> int:
    """Returns how many elements a buffer has; of a part those of one block."""
    return prod(buffer.shape[1:] if buffer.role == "part" else buffer.shape)
