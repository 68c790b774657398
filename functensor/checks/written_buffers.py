"""``ft.config.check_buffers``: NumPy arrays that change between an operation and its derivative.

Values that outlive a call are copied. Within a call of ``grad`` an operation keeps the array that
it read, and a function that writes to that array changes the operand of its derivative. A hook
notes a checksum of each such array that is kept, and replaces the primitive of the node by one that
computes the checksum again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np

from ..backends.config import config
from ..hooks import Handle, Hook, Operation
from ..hooks.matching import Match
from ..hooks.nodes import nodes_of
from ..hooks.values import levels_of, plain_values_of
from ..primitives.core.buffers import is_changeable
from ..primitives.core.errors import BackwardError, describe, message
from ..primitives.core.plain_arrays import plain_arrays
from ..traces.stand_ins import StandIn

if TYPE_CHECKING:
    from ..primitives.core.annotations import Value
    from ..primitives.core.primitive_like import PrimitiveLike

__all__ = ["checking_buffers"]


def checking_buffers() -> Handle:
    """Returns a handle by which this thread begins to note the arrays that operations read."""
    return Handle(Noting(), Match(), on_replay=True)


def checksum(x: Any) -> int:
    """Returns a number that is another one if an array has changed."""
    return crc32(np.ascontiguousarray(x).view(np.uint8).data) if x.size else 0


class Noting(Hook):
    """Notes the arrays that operations read, where these have a derivative."""

    # It looks at all levels of a value.
    compiled = False

    def forward(self, op: Operation, inputs: Sequence[Any], output: Any) -> None:
        if not config.check_buffers:
            return
        before = {id(level) for x in inputs for level in levels_of(x)}
        read = [(x, checksum(x)) for x in plain_arrays(inputs) if is_changeable(x)]
        if read:
            for level, node in recorded(output):
                kept = [(x, known) for x, known in read if is_kept(x, node.saved)]
                if kept and id(level) not in before:
                    node.primitive = Unwritten(node.primitive, op, kept)


def recorded(output: Value) -> Iterator[tuple[Any, Any]]:
    """Returns the levels of reverse mode that recorded an operation, and those of its tangents."""
    yield from nodes_of(output)
    for level in levels_of(output):
        tangent = getattr(level, "tangent", None)
        if tangent is not None:
            yield from recorded(tangent)


def is_kept(x: Value, saved: Any) -> bool:
    """Says whether an array is among the residuals of a node: itself, and no copy of it."""
    if callable(saved):
        return True  # what a rule of the user's closes over is not known
    if isinstance(saved, tuple | list):
        return any(is_kept(x, part) for part in saved)
    return any(np.may_share_memory(x, buffer) for buffer in plain_values_of(saved))


class Unwritten(StandIn):
    """Stands as the primitive of a node whose operation has read arrays that may change.

    ``read`` has those arrays and their checksums.
    """

    def __init__(
        self, primitive: PrimitiveLike, op: Operation, read: Sequence[tuple[Any, int]]
    ) -> None:
        super().__init__(primitive, op)
        self.read = read

    def before(self) -> None:
        if not config.check_buffers:
            return
        for x, known in self.read:
            if checksum(x) != known:
                what = f"a NumPy array {describe(x)} that {self.name} read at {self.op.line} was "
                what += "written to before the backward pass, which reads it again"
                fix = "give each operation an array of its own: np.asarray(buffer) copies"
                raise BackwardError(message(what, fix=fix, number=12))
