"""PyTorch's losses that ask for a margin between scores or distances."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....primitives.core.array import Array
from ....primitives.core.buffers import beside
from ....primitives.core.registry import registry as ops
from ....tensors.functions.indexing import gather
from ....tensors.functions.pointwise import clamp
from .activations import logsigmoid
from .layers import pairwise_distance
from .losses import summarised, taking_older_words

__all__ = [
    "cosine_embedding_loss", "hinge_embedding_loss", "margin_ranking_loss", "multi_margin_loss",
    "multilabel_margin_loss", "multilabel_soft_margin_loss", "soft_margin_loss",
    "triplet_margin_loss", "triplet_margin_with_distance_loss",
]  # fmt: skip


@taking_older_words()
def hinge_embedding_loss(
    input: Array, target: Array, margin: float = 1.0, reduction: str = "mean"
) -> Any:
    """Returns distances where targets are 1, and what they lack of a margin where they are -1."""
    # Targets that are neither are in both parts, as in PyTorch.
    lacking = ops.where(ops.equal(target, 1), 0, clamp(margin - input, min=0))
    loss = ops.where(ops.equal(target, -1), 0, input) + lacking
    return summarised(loss, reduction)


@taking_older_words()
def margin_ranking_loss(
    input1: Any, input2: Any, target: Array, margin: float = 0.0, reduction: str = "mean"
) -> Any:
    """Returns by how much the first is not above the second, or below where targets are -1."""
    if not input1.ndim == input2.ndim == target.ndim:
        shapes = f"{tuple(input1.shape)}, {tuple(input2.shape)} and {tuple(target.shape)}"
        raise RuntimeError(f"margin_ranking_loss: as many axes in each, not {shapes}")
    return summarised(clamp(-target * (input1 - input2) + margin, min=0), reduction)


@taking_older_words()
def cosine_embedding_loss(
    input1: Any, input2: Any, target: Array, margin: float = 0.0, reduction: str = "mean"
) -> Any:
    """Returns 1 less cosines where targets are 1, and what is above a margin where they are -1."""
    squares = (ops.sum(input1 * input1, -1) + 1e-12) * (ops.sum(input2 * input2, -1) + 1e-12)
    cosine = ops.sum(input1 * input2, -1) / ops.sqrt(squares)
    loss = ops.where(ops.equal(target, 1), 1 - cosine, clamp(cosine - margin, min=0))
    return summarised(loss, reduction)


@taking_older_words()
def soft_margin_loss(input: Array, target: Array, reduction: str = "mean") -> Any:
    """Returns ``log(1 + exp(-target * input))`` for targets 1 and -1."""
    return summarised(ops.softplus(-target * input), reduction)


@taking_older_words()
def multilabel_soft_margin_loss(
    input: Array, target: Array, weight: Any = None, reduction: str = "mean"
) -> Any:
    """Returns the mean over classes of binary cross entropies of scores."""
    loss = -(target * logsigmoid(input) + (1 - target) * logsigmoid(-input))
    return summarised(ops.mean(loss if weight is None else loss * weight, -1), reduction)


@taking_older_words()
def multi_margin_loss(
    input: Array, target: Array, p: int = 1, margin: float = 1.0, weight: Any = None,
    reduction: str = "mean",
) -> Any:  # fmt: skip
    """Returns by how much scores are not a margin below that of the right class.

    Raises:
        ValueError: ``p``, the power of that, is neither 1 nor 2.
    """
    if p not in (1, 2):
        raise ValueError(f"multi_margin_loss: p is 1 or 2, not {p}")
    right = gather(input, -1, ops.expand_dims(target, -1))
    over = positive_part(margin - right + input) ** p
    if weight is not None:
        over = over * ops.expand_dims(ops.take(weight, target, 0), -1)
    places = beside(input, np.arange(input.shape[-1]))
    others = ops.not_equal(ops.expand_dims(target, -1), places)
    return summarised(ops.sum(ops.where(others, over, 0), -1) / input.shape[-1], reduction)


def positive_part(x: Array) -> Any:
    """Returns what is above zero, and zero for the rest, which has no part in the gradient."""
    return ops.where(x <= 0, 0, x)


@taking_older_words()
def multilabel_margin_loss(input: Array, target: Array, reduction: str = "mean") -> Any:
    """Returns by how much scores of wrong classes are not 1 below those of the right ones.

    Targets are rows of right classes, which end at the first -1.
    """
    ended = ops.cumsum(ops.astype(target < 0, np.dtype(np.int64)), -1) > 0
    places = beside(input, np.arange(input.shape[-1]))
    chosen = ops.where(ended, input.shape[-1], target)
    is_right = ops.any(ops.equal(ops.expand_dims(chosen, -1), places), -2)
    right = gather(input, -1, ops.where(ended, 0, target))
    over = positive_part(1 - ops.expand_dims(right, -1) + ops.expand_dims(input, -2))
    counted = ops.logical_and(
        ops.logical_not(ops.expand_dims(ended, -1)), ops.logical_not(ops.expand_dims(is_right, -2))
    )
    loss = ops.sum(ops.where(counted, over, 0), (-2, -1)) / input.shape[-1]
    return summarised(loss, reduction)


@taking_older_words()
def triplet_margin_loss(
    anchor: Any,
    positive: Any,
    negative: Any,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: str = "mean",
) -> Any:
    """Returns by how much positives are not a margin nearer to anchors than negatives."""

    def distance(x: Array, y: Array) -> Any:
        return pairwise_distance(x, y, p, eps)

    return triplet_margin_with_distance_loss(
        anchor, positive, negative, distance_function=distance, margin=margin, swap=swap,
        reduction=reduction,
    )  # fmt: skip


def triplet_margin_with_distance_loss(
    anchor: Any,
    positive: Any,
    negative: Any,
    *,
    distance_function: Any = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Any:
    """Returns what `triplet_margin_loss` does, by another distance."""
    distance = distance_function or pairwise_distance
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = ops.minimum(far, distance(positive, negative))
    return summarised(clamp(near - far + margin, min=0), reduction)
