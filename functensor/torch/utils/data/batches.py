"""Batches of tensors, made of examples as PyTorch makes them: a tuple becomes a list."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ....backends.devices import placement
from ....backends.dtypes import is_number_dtype
from ....data.collating import collated, stacked_leaves
from ....primitives.core.array import Array
from ....primitives.core.buffers import wrap
from ....primitives.core.errors import failure
from ....tensors import Tensor

__all__ = ["default_collate", "default_convert", "of_gathered"]


def tensor_of(leaf: Any) -> Any:
    """Returns an array that nobody else has as a tensor; all else as it is."""
    if isinstance(leaf, np.ndarray) and is_number_dtype(leaf.dtype):
        return Tensor(wrap(leaf), device=placement.device)
    return Tensor(leaf) if type(leaf) is Array else leaf


def joined(leaves: Sequence[Any], where: str) -> Any:
    """Returns leaves of examples as one tensor, or as a list of texts."""
    return tensor_of(stacked_leaves(leaves, where))


def default_collate(batch: Sequence[Any]) -> Any:
    """Returns a batch of examples, in which leaves of the same place are one tensor.

    Args:
        batch: examples of one structure: nested dicts, tuples and lists of tensors, NumPy arrays,
            numbers and texts.

    Returns:
        The same structure with lists in place of tuples. Tensors have a new first axis, numbers
        become a tensor of one axis, of int64 or float64, and texts a list.

    Raises:
        ValueError: there are no examples, or their structures differ.
        ShapeError: shapes differ.
        TypeError: a leaf is nothing that can be in a batch.

    >>> from functensor.torch.utils.data import default_collate
    >>> default_collate([(1, "a"), (2, "b")])
    [Tensor([1, 2], dtype=int64), ['a', 'b']]
    """
    if not len(batch):
        raise failure(ValueError, "a batch of no examples", fix="default_collate([first, second])")
    return collated(batch, joined, list)


def converted(data: Any, of_tuple: Any, leaf: Any) -> Any:
    """Returns nested containers with other leaves, and something else in place of tuples."""
    if isinstance(data, Mapping):
        made = {key: converted(value, of_tuple, leaf) for key, value in data.items()}
        return made if type(data) is dict else type(data)(made)  # type: ignore[call-arg]
    if isinstance(data, tuple | list):
        parts = [converted(part, of_tuple, leaf) for part in data]
        if hasattr(data, "_fields"):
            return type(data)(*parts)
        return of_tuple(parts) if isinstance(data, tuple) else parts
    return leaf(data)


def of_gathered(batch: Any) -> Any:
    """Returns the arrays of a batch that a set told as a whole as tensors."""
    return converted(batch, list, tensor_of)


def copied_tensor(leaf: Any) -> Any:
    """Returns a NumPy array, or a number of NumPy's, as a tensor of its own; all else as it is."""
    if isinstance(leaf, np.ndarray | np.generic):
        return tensor_of(np.array(leaf))
    return tensor_of(leaf)


def default_convert(data: Any) -> Any:
    """Returns an example with tensors in place of its NumPy arrays.

    Args:
        data: nested dicts, tuples and lists; Python's numbers and texts stay what they are.

    >>> import numpy
    >>> from functensor.torch.utils.data import default_convert
    >>> default_convert({"x": numpy.array([1, 2]), "y": 3})
    {'x': Tensor([1, 2], dtype=int64), 'y': 3}
    """
    return converted(data, list, copied_tensor)
