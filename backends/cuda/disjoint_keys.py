"""Keys of slices and integers that share no element of an array."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..annotations import Shape

__all__ = ["are_disjoint"]


def are_disjoint(keys: Sequence[tuple[Any, ...]], shape: Shape) -> bool:
    """Says whether no two keys have an element in common, as far as single axes tell.

    Args:
        keys: tuples of slices, integers, None and an ellipsis.
        shape: the shape of the array.

    >>> are_disjoint([(..., slice(0, 2)), (..., slice(2, 4))], (3, 4))
    True
    >>> are_disjoint([(..., slice(0, 3)), (..., slice(2, 4))], (3, 4))
    False
    """
    places = [_places(key, shape) for key in keys]
    return all(
        any(_are_apart(x, y) for x, y in zip(one, other, strict=True))
        for one, other in combinations(places, 2)
    )


def _places(key: tuple[Any, ...], shape: Shape) -> list[range]:
    """Returns the places along each axis that a key takes."""
    given = [item for item in key if item is not None]
    at = next((i for i, item in enumerate(given) if item is Ellipsis), len(given))
    left = [slice(None)] * (len(shape) - len(given) + (at < len(given)))
    whole = [*given[:at], *left, *given[at + 1 :]]
    return [
        range(*item.indices(length))
        if isinstance(item, slice)
        else range(item % length, item % length + 1)
        for item, length in zip(whole, shape, strict=True)
    ]


def _are_apart(x: range, y: range) -> bool:
    """Says whether two ranges have no number in common; for other steps than 1, by their ends."""
    if not x or not y:
        return True
    if abs(x.step) == abs(y.step) and (x[0] - y[0]) % abs(x.step):
        return True
    # The ends, since ``max`` would go through a range.
    (first, last), (other_first, other_last) = (sorted((r[0], r[-1])) for r in (x, y))
    return last < other_first or other_last < first
