"""``ft.config.check_buffers``: NumPy arrays that change between an operation and its derivative.

What outlives a call is copied. Within a call of ``grad`` an operation keeps the array that it read,
and a function that writes to that array changes what its derivative reads. A hook notes a checksum
of each such array, and puts something in the place of the node's primitive that asks again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from zlib import crc32

import numpy as np

from .backends.config import config
from .finite import Standing, levels_of, nodes_of
from .hooks import Handle, Hook, Operation
from .primitives.buffers import is_changeable, plain_arrays
from .primitives.errors import BackwardError, describe, message

__all__ = ["checking"]


def checking() -> Handle:
    """Returns a handle by which this thread begins to note what operations read."""
    return Handle(Noting(), None)


def checksum(x: Any) -> int:
    """Returns a number that is another one if an array has changed."""
    return crc32(np.ascontiguousarray(x).view(np.uint8).data) if x.size else 0


class Noting(Hook):
    """Notes the arrays that operations read, where these have a derivative."""

    def forward(self, op: Operation, inputs: Sequence[Any], output: Any) -> None:
        if not config.check_buffers:
            return
        known = {id(level) for x in inputs for level in levels_of(x)}
        read = [(x, checksum(x)) for x in plain_arrays(inputs) if is_changeable(x)]
        if read:
            for level, node in nodes_of(output):
                if id(level) not in known:
                    node.primitive = Unwritten(node.primitive, op, read)


class Unwritten(Standing):
    """Stands as the primitive of a node whose operation has read arrays that may change.

    Args:
        primitive: the node's primitive, or what stands as it.
        op: what made the node.
        read: the arrays and their checksums.
    """

    def __init__(self, primitive: Any, op: Operation, read: Sequence[tuple[Any, int]]) -> None:
        super().__init__(primitive, op)
        self.read = read

    def before(self) -> None:
        if not config.check_buffers:
            return
        for x, known in self.read:
            if checksum(x) != known:
                raise BackwardError(
                    message(
                        f"a NumPy array {describe(x)} that {self.name} read at {self.op.line} was "
                        "written to before the backward pass, which reads it again",
                        fix="give each operation an array of its own: np.asarray(buffer) copies",
                        number=12,
                    )
                )
