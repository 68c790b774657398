"""Buffers that a call has in common with the one before it, so that neither is looked at again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["KnownBuffers", "SameBuffers"]


class SameBuffers:
    """Stands for the buffers of GPUs among a call's; calls of the same one have the same buffers.

    Attributes:
        references: calls that return the buffers, or None once they are gone.
        parts: those that stand for some of the buffers each, where it stands for all of theirs.
        owned: whether those that are donated were found to have memory of their own.
    """

    __slots__ = ("owned", "parts", "references")

    def __init__(
        self, references: Sequence[Callable[[], Any]], parts: tuple[SameBuffers, ...] = ()
    ) -> None:
        self.references = references
        self.parts = parts
        self.owned = False


class KnownBuffers(list[Any]):
    """A call's buffers.

    Attributes:
        known: stands for those on GPUs; None where another one was put in its place.
        donated: the same for those of them that are donated.
    """

    known: SameBuffers | None = None
    donated: SameBuffers | None = None
