"""The outputs of functions that only know plain arrays: their types, and how they are packed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from ..primitives.core.annotations import Value, Values
from ..primitives.core.annotations import operations as ops
from ..primitives.core.shape_dtype import INEXACT, ShapeDtype, result_type, shape_dtype
from ..primitives.elementwise.cast_and_complex import cast

__all__ = ["Declared", "Outputs"]


class Outputs:
    """The outputs of a function, one array or a tuple of them, and their packing.

    Attributes:
        types: shape and dtype of each.
        single: whether it is one array rather than a tuple.
        packed: the shape and dtype of all in one.
    """

    def __init__(self, types: Sequence[ShapeDtype], single: bool) -> None:
        self.types = tuple(types)
        self.single = single
        if single:
            self.packed = self.types[0]
        else:
            dtype = result_type(*(t.dtype for t in types)) if types else np.dtype(float)
            self.packed = ShapeDtype((sum(t.size for t in types),), dtype)

    @classmethod
    def of(cls, declared: ShapeDtype | Sequence[ShapeDtype]) -> Outputs:
        """Returns the outputs that a ``ShapeDtype``, or a tuple or list of them, declares."""
        if isinstance(declared, tuple | list):
            return cls([shape_dtype(d).strong() for d in declared], False)
        return cls([shape_dtype(declared).strong()], True)

    def unpack(self, packed: Value, *, cotangents: bool = False) -> Values:
        """Returns the outputs, or cotangents of them: of integers, those are zeros as packed."""
        if self.single:
            return [ops.asarray(packed)]
        parts, start = [], 0
        for known in self.types:
            part = ops.reshape(ops.index(packed, slice(start, start + known.size)), known.shape)
            start += known.size
            keep = cotangents and known.dtype.kind not in INEXACT
            parts.append(part if keep else cast(part, known.dtype))
        return parts

    def pack(self, tangents: Sequence[Any]) -> Value:
        """Returns tangents of the outputs, None for zero, packed as the outputs are."""
        made = [
            ops.broadcast_to(known.dtype.type(0), known.shape) if t is None else t
            for t, known in zip(tangents, self.types, strict=True)
        ]
        if self.single:
            return made[0]
        return ops.concatenate([ops.reshape(cast(t, self.packed.dtype), -1) for t in made])

    def shown(self, values: Sequence[Any]) -> Any:
        """Returns outputs as the function returns them."""
        return values[0] if self.single else tuple(values)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Outputs) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(self.shown(self.types))


# The types of outputs, or a function that returns them by those of the operands.
Declared: TypeAlias = ShapeDtype | Sequence[ShapeDtype] | Callable[..., Any]
