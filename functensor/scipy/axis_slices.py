"""Slices along one axis, for integrals, transforms, filters and statistics of samples."""

from __future__ import annotations

from ..backends.annotations import Buffer
from ..primitives.core.annotations import operations as ops
from ..primitives.core.array import Array

__all__ = ["cut_along", "cut_last"]


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
