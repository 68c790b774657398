"""The kinds of arguments for which programs are staged."""

from __future__ import annotations

from typing import Any

from ..backends.devices import placement
from ..primitives.core.array import Array
from ..primitives.core.array_likes import is_array_like
from ..primitives.core.buffers import device_of
from ..primitives.core.shape_dtype import ShapeDtype, number_dtype
from ..programs.program import argument_type
from .guard import LARGEST_TRACED_INTEGER

__all__ = ["leaf_kind"]


def leaf_kind(leaf: Any) -> Any:
    """Returns the kind that a leaf is staged for: shape, dtype, weakness and device."""
    if type(leaf) is ShapeDtype:
        return leaf.shape, leaf.dtype, leaf.weak, placement.device
    if not is_array_like(leaf):
        return type(leaf)
    if type(leaf) is Array:
        return leaf.shape, leaf.dtype, None, leaf.device
    known = argument_type(leaf)
    if type(leaf) is int and not -LARGEST_TRACED_INTEGER - 1 <= leaf <= LARGEST_TRACED_INTEGER:
        raise OverflowError(
            f"an argument of jit is an integer of {leaf.bit_length()} bits, but those that are "
            "traced have 64 with their sign: pass float(n), or make the argument static"
        )
    number_dtype(known.dtype)
    return known.shape, known.dtype, known.weak, device_of(leaf)
