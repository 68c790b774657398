"""Rows of tables by their numbers, alone and in bags."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....nn import layers as pure
from ....primitives.core.array import Array
from ....primitives.core.buffers import beside
from ....primitives.core.registry import registry as ops
from ....tensors import no_grad
from ....tensors.functions.looked_at import check_places
from ....tensors.functions.naming import on_host
from ....tensors.functions.reductions import norm

__all__ = ["embedding", "embedding_bag"]

# Keeps a norm of zero from being divided by.
LEAST_NORM = 1e-7


def embedding(
    input: Array,
    weight: Any,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Any:
    """Returns the rows of a table.

    Args:
        input: integers, the rows' numbers.
        weight: the table, of shape (rows, width).
        padding_idx: a row that has no gradient.
        max_norm: the largest norm of a row; longer rows that are taken are shortened in the table.
        norm_type: the power of the norm.
        scale_grad_by_freq: whether a row's gradient is divided by how often the row is taken.
        sparse: has no effect: gradients are dense.

    Raises:
        IndexError: there is no such row.

    >>> import functensor.torch as torch
    >>> table = torch.tensor([[3.0, 4.0], [0.5, 0.0]])
    >>> torch.nn.functional.embedding(torch.tensor([0, 1]), table, max_norm=1.0).tolist()
    [[0.6000000238418579, 0.800000011920929], [0.5, 0.0]]
    """
    if weight.ndim != 2:
        raise RuntimeError(f"embedding: the table has two axes, not the shape {weight.shape}")
    check_places("embedding", input)
    shorten(input, weight, max_norm, norm_type)
    rows = rows_taken(input, weight, scale_grad_by_freq)
    if padding_idx is None:
        return rows
    row = padding_idx % weight.shape[0]
    return ops.where(ops.expand_dims(ops.equal(input, row), -1), ops.stop_gradient(rows), rows)


def shorten(input: Any, weight: Any, longest: float | None, power: float) -> None:
    """Shortens the rows of a table that are taken to a norm, in place."""
    if longest is None:
        return
    numbers = np.unique(on_host(input))
    with no_grad():
        rows = pure.embedding(weight, beside(input, numbers))
        norms = norm(rows, power, -1, True)
        short = rows * (longest / (norms + LEAST_NORM))
        weight[beside(input, numbers)] = ops.where(ops.greater(norms, longest), short, rows)


def rows_taken(input: Any, weight: Any, by_frequency: bool) -> Any:
    """Returns rows of a table; their gradients may be divided by how often each is taken."""
    rows = pure.embedding(weight, input)
    if not by_frequency:
        return rows
    none = beside(weight, np.zeros(weight.shape[0], weight.dtype))
    times = ops.index_add(none, ops.reshape(input, -1), 1.0)
    held = ops.stop_gradient(rows)
    return held + (rows - held) / ops.expand_dims(times[input], -1)


def embedding_bag(
    input: Any,
    weight: Any,
    offsets: Any = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Any = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Any:
    """Returns the sums, means or maxima of bags of rows of a table.

    Args:
        input: the rows' numbers: a matrix with a bag in every row, or a vector.
        weight: the table, of shape (rows, width).
        offsets: where in the vector each bag begins.
        max_norm: the largest norm of a row; longer rows that are taken are shortened in the table.
        norm_type: the power of the norm.
        scale_grad_by_freq: whether a row's gradient is divided by how often the row is taken; of
            rows that are taken once PyTorch 2.13 divides the gradient by others' counts.
        mode: ``"sum"``, ``"mean"`` or ``"max"``; of an empty bag it is zero.
        sparse: has no effect: gradients are dense.
        per_sample_weights: a number for each row that is taken, with ``mode="sum"``.
        include_last_offset: whether the last of ``offsets`` is the end of the last bag.
        padding_idx: a row that is in no bag.

    Raises:
        IndexError: there is no such row.
        ValueError: there is no such mode, or arguments do not go together.

    >>> import functensor.torch as torch
    >>> table = torch.tensor([[1.0], [2.0], [4.0]])
    >>> torch.nn.functional.embedding_bag(torch.tensor([[0, 1], [1, 2]]), table).tolist()
    [[1.5], [3.0]]
    """
    check_places("embedding_bag", input)
    if mode not in ("sum", "mean", "max"):
        raise ValueError(f"embedding_bag: mode is {mode!r}, it is 'sum', 'mean' or 'max'")
    if per_sample_weights is not None and mode != "sum":
        raise ValueError("embedding_bag: per_sample_weights go with mode='sum'")
    if (offsets is None) == (input.ndim == 1):
        raise ValueError("embedding_bag: a vector of numbers needs offsets, a matrix has none")
    shorten(input, weight, max_norm, norm_type)
    rows = rows_taken(input, weight, scale_grad_by_freq)
    if per_sample_weights is not None:
        rows = rows * ops.expand_dims(per_sample_weights, -1)
    if input.ndim == 2 and padding_idx is None and input.shape[1]:
        return {"sum": ops.sum, "mean": ops.mean, "max": ops.max}[mode](rows, 1)
    if input.ndim == 2:
        bags, length = input.shape
        number = beside(input, np.repeat(np.arange(bags), length))
    else:
        # What comes behind the last offset is in no bag: it is put into one more, that is left out.
        bags = offsets.shape[0] - include_last_offset
        number = ops.searchsorted(offsets, beside(input, np.arange(input.shape[0])), "right") - 1
    if padding_idx is not None:
        padding = ops.equal(ops.reshape(input, -1), padding_idx % weight.shape[0])
        number = ops.where(padding, bags, number)
    return of_bags(ops.reshape(rows, (-1, weight.shape[1])), number, bags, mode)


def of_bags(rows: Any, number: Any, bags: int, mode: str) -> Any:
    """Returns sums, means or maxima of rows that have the numbers of bags."""
    shape = bags + 1, rows.shape[1]
    if mode == "max":
        low = beside(rows, np.full(shape, -np.inf, rows.dtype))
        found = ops.index_max(low, number, rows)[:bags]
        return ops.where(ops.isfinite(found), found, 0)
    total = ops.index_add(beside(rows, np.zeros(shape, rows.dtype)), number, rows)[:bags]
    if mode == "sum":
        return total
    none = beside(rows, np.zeros((bags + 1, 1), rows.dtype))
    return total / ops.maximum(ops.index_add(none, number, 1.0)[:bags], 1)
