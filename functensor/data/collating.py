"""Batches made of examples: leaves of the same place are stacked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .. import tree
from ..primitives.core.array import Array
from ..primitives.core.errors import describe, failure, misfit
from ..primitives.core.registry import registry as ops

__all__ = ["collated", "default_collate", "stacked_leaves"]

SCALARS = (bool, int, float, complex, np.generic)
SAME = "examples of one structure; or DataLoader(..., collate_fn=...), which pads them"


def stacked_leaves(leaves: Sequence[Any], where: str) -> Any:
    """Returns leaves of examples as one leaf of the batch.

    Args:
        leaves: arrays of one shape and class, numbers, or texts, which stay a list.
        where: the place within the examples, for messages.

    Raises:
        ShapeError: shapes differ.
        TypeError: a leaf is nothing that can be in a batch.
    """
    first = leaves[0]
    if isinstance(first, str | bytes):
        return list(leaves)
    if isinstance(first, Array | np.ndarray):
        for i, leaf in enumerate(leaves):
            if getattr(leaf, "shape", None) != first.shape:
                what = f"a batch of different shapes{where}: example 0 has {describe(first)}, "
                raise misfit(f"{what}example {i} {describe(leaf)}", SAME)
        stack: Callable[..., Any] = ops.stack if isinstance(first, Array) else np.stack
        return stack(list(leaves))
    strange = [leaf for leaf in leaves if not isinstance(leaf, SCALARS)]
    if not strange:
        return np.array(leaves)
    raise failure(
        TypeError,
        f"a batch of {type(strange[0]).__name__}{where}, which is no array, number or text",
        fix="DataLoader(..., collate_fn=lambda examples: ...), which makes the batch",
    )


def collated(
    examples: Sequence[Any],
    join: Callable[[Sequence[Any], str], Any] = stacked_leaves,
    of_tuple: Callable[[list[Any]], Any] = tuple,
    where: str = "",
) -> Any:
    """Returns a batch of examples, which has their structure.

    Args:
        examples: nested containers of leaves.
        join: makes one leaf of the examples' leaves; is told where they are.
        of_tuple: makes what stands for a tuple of the examples.
        where: the place within the examples, for messages.
    """
    first = examples[0]

    def inner(key: Any) -> Any:
        parts = [example[key] for example in examples]
        return collated(parts, join, of_tuple, f"{where or ' at '}[{key!r}]")

    if isinstance(first, Mapping):
        for i, example in enumerate(examples):
            if not isinstance(example, Mapping) or example.keys() != first.keys():
                raise unlike(first, example, i, where)
        made = {key: inner(key) for key in first}
        return made if type(first) is dict else type(first)(made)  # type: ignore[call-arg]
    if isinstance(first, tuple | list):
        for i, example in enumerate(examples):
            if not isinstance(example, tuple | list) or len(example) != len(first):
                raise unlike(first, example, i, where)
        parts = [inner(i) for i in range(len(first))]
        if hasattr(first, "_fields"):
            return type(first)(*parts)
        return of_tuple(parts) if isinstance(first, tuple) else parts
    leaves, structure = tree.flatten(first)
    if first is None or (len(leaves) == 1 and leaves[0] is first):
        return join(examples, where)
    # Another container that trees know.
    rows = [leaves]
    for i, example in enumerate(examples[1:], 1):
        row, other = tree.flatten(example)
        if other != structure:
            raise unlike(first, example, i, where)
        rows.append(row)
    return tree.unflatten(structure, [join(column, where) for column in zip(*rows)])


def unlike(first: Any, other: Any, number: int, where: str) -> Exception:
    """Returns the error for examples of different structures."""
    shown = [
        f"keys {sorted(map(str, x))}" if isinstance(x, Mapping) else
        f"{type(x).__name__} of {len(x)}" if isinstance(x, tuple | list) else type(x).__name__
        for x in (first, other)
    ]  # fmt: skip
    what = f"a batch of different structures{where}: example 0 has {shown[0]}, "
    return failure(ValueError, f"{what}example {number} {shown[1]}", fix=SAME)


def default_collate(batch: Sequence[Any]) -> Any:
    """Returns a batch of examples, in which leaves of the same place are stacked.

    Args:
        batch: examples of one structure: trees of arrays, NumPy arrays, numbers and texts.

    Returns:
        The same structure. Arrays have a new first axis, numbers become a NumPy array of one axis,
        and texts a list.

    Raises:
        ValueError: there are no examples, or their structures differ.
        ShapeError: shapes differ.
        TypeError: a leaf is nothing that can be in a batch.

    >>> from functensor.data import default_collate
    >>> default_collate([{"x": 1.0, "name": "a"}, {"x": 2.0, "name": "b"}])
    {'x': array([1., 2.]), 'name': ['a', 'b']}
    """
    if not len(batch):
        raise failure(ValueError, "a batch of no examples", fix="default_collate([first, second])")
    return collated(batch)
