"""The types of what is staged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..primitives.core.primitive import Primitive
from ..primitives.core.shape_dtype import ShapeDtype

__all__ = ["StagedTypes"]


class StagedTypes:
    """The types of a program's values.

    Loops that are written out do the same to the same types many times. One of equal types is kept,
    so that the others are told by its identity, and results are inferred once.
    """

    __slots__ = ("_given", "_kept")

    def __init__(self) -> None:
        self._kept: dict[Any, ShapeDtype] = {}
        self._given: dict[Any, tuple[ShapeDtype, Sequence[ShapeDtype]]] = {}

    def kept(self, known: ShapeDtype) -> ShapeDtype:
        """Returns the type that is kept of all that are equal to one."""
        return self._kept.setdefault((known.shape, known.dtype, known.weak), known)

    def inferred(
        self, primitive: Primitive, operands: Sequence[ShapeDtype], params: dict[str, Any]
    ) -> ShapeDtype:
        """Returns the type of what a primitive gives.

        Raises:
            ShapeError: the operands do not fit.
        """
        if params:
            return self.kept(primitive.infer(primitive, *operands, **params))
        key = primitive, *map(id, operands)
        found = self._given.get(key)
        if found is None:
            # The operands come along, since only what is there keeps its identity.
            out = self.kept(primitive.infer(primitive, *operands))
            found = self._given[key] = out, operands
        return found[0]
