"""Slices and padding along one axis, for integrals, transforms, filters and statistics."""

from __future__ import annotations

from typing import Any

from ..backends.annotations import Buffer
from ..primitives.core.annotations import operations as ops
from ..primitives.core.array import Array

__all__ = ["cut_along", "cut_last", "padded_last"]


def cut_last(
    x: Array | Buffer, start: int | None, stop: int | None = None, step: int | None = None
) -> Array:
    """Returns the elements from a start up to a stop along the last axis."""
    return ops.index(x, (Ellipsis, slice(start, stop, step)))


def cut_along(
    x: Array, axis: int, start: int | None, stop: int | None = None, step: int | None = None
) -> Array:
    """Returns the elements from a start up to a stop along an axis that is counted from 0."""
    return ops.index(x, (*(slice(None),) * axis, slice(start, stop, step)))


def padded_last(x: Array, before: int, after: int, **options: Any) -> Array:
    """Returns an array that is padded along its last axis, with zeros unless options say more."""
    return ops.pad(x, [(0, 0)] * (len(x.shape) - 1) + [(before, after)], **options)
