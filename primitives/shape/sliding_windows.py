"""Windows that slide over spatial axes, which convolution and pooling share.

Operands are laid out (batch, channels, *spatial). Every parameter has one canonical form: a tuple
with an entry for each spatial axis, paddings as pairs (before, after).
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from ...backends.annotations import Shape
from ..core.errors import ConcretizationError, misfit

__all__ = [
    "Padding", "PaddingLike", "count_windows", "per_axis", "resolve_padding", "spatial_of",
]  # fmt: skip

Padding = tuple[tuple[int, int], ...]
# The forms in which users give a padding: integers, pairs, "SAME" or "VALID".
PaddingLike = int | str | Sequence[int | tuple[int, int]]




def spatial_of(name: str, shape: Shape) -> Shape:
    """Returns the spatial part of a shape (batch, channels, *spatial)."""
    if len(shape) < 3:
        raise misfit(
            f"{name}: an operand of shape {shape} has no spatial axis",
            "operands are laid out (batch, channels, *spatial); x[None] adds a batch axis",
        )
    return shape[2:]


def per_axis(name: str, what: str, value: int | Sequence[int], rank: int, least: int = 1) -> Shape:
    """Returns a parameter as a tuple with an entry for each spatial axis.

    >>> per_axis("conv", "stride", 2, 3)
    (2, 2, 2)
    """
    values = tuple(value) if isinstance(value, Sequence) else (value,) * rank
    entries = tuple(map(operator.index, values))
    if len(entries) != rank or min(entries, default=least) < least:
        raise ValueError(
            f"{name}: {what}={value} for {rank} spatial axes: give an integer of at least {least}, "
            "or one for each axis"
        )
    return entries


def resolve_padding(
    name: str, padding: PaddingLike, spatial: Shape, window: Shape, stride: Shape, dilation: Shape
) -> Padding:
    """Returns a padding as a pair (before, after) for each spatial axis.

    Args:
        name: the operation, for messages.
        padding: an integer, an integer or a pair for each axis, "VALID" (none), or "SAME": so much
            that there are ``ceil(length / stride)`` windows, the odd one after.
        spatial, window, stride, dilation: of each spatial axis.

    >>> resolve_padding("conv", "SAME", (5,), (2,), (1,), (1,))
    ((0, 1),)
    """
    rank = len(spatial)
    if isinstance(padding, str):
        if padding.upper() == "VALID":
            return ((0, 0),) * rank
        if padding.upper() == "SAME":
            pairs = []
            for n, k, s, d in zip(spatial, window, stride, dilation, strict=True):
                total = max((-(-n // s) - 1) * s + d * (k - 1) + 1 - n, 0)
                pairs.append((total // 2, total - total // 2))
            return tuple(pairs)
    entries = tuple(padding) if isinstance(padding, tuple | list) else (padding,) * rank
    try:
        pairs = [(operator.index(lo), operator.index(hi)) for lo, hi in map(_as_pair, entries)]
    except ConcretizationError:
        raise
    except (TypeError, ValueError):
        pairs = []
    if len(pairs) != rank or min(map(min, pairs), default=0) < 0:
        raise ValueError(
            f"{name}: padding={padding!r} for {rank} spatial axes: give an integer of at least 0, "
            "an integer or a pair (before, after) for each axis, 'SAME' or 'VALID'"
        )
    return tuple(pairs)


def _as_pair(entry: Any) -> Sequence[int]:
    return entry if isinstance(entry, Sequence) else (entry, entry)


def count_windows(
    name: str, spatial: Shape, window: Shape, stride: Shape, padding: Padding, dilation: Shape
) -> Shape:
    """Returns how many windows fit along each spatial axis.

    Raises:
        ShapeError: a window is longer than its padded axis.

    >>> count_windows("conv", (28, 28), (3, 3), (2, 2), ((0, 0), (1, 1)), (1, 1))
    (13, 14)
    """
    counts = []
    for axis, (n, k, s, d) in enumerate(zip(spatial, window, stride, dilation, strict=True)):
        length, span = n + sum(padding[axis]), d * (k - 1) + 1
        if span > length:
            raise misfit(
                f"{name}: along spatial axis {axis} (axis {axis + 2} of the operand) the window "
                f"spans {span} elements, the padded input has {length}",
                "use a smaller window or dilation, or padding='SAME'",
            )
        counts.append((length - span) // s + 1)
    return tuple(counts)
