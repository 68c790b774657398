"""Connectionist temporal classification: the loss of sequences without an alignment."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....primitives.core.buffers import beside
from ....primitives.core.registry import registry as ops
from ....tensors.functions.naming import on_host

__all__ = ["ctc_loss"]

# The logarithm of a probability that is as good as zero; of infinities gradients would be NaN.
HARDLY = -1e30


def lengths_of(given: Any) -> np.ndarray[Any, Any]:
    """Returns lengths, which must be known, as a vector."""
    return np.atleast_1d(on_host(given) if hasattr(given, "device") else np.asarray(given))


def rows_of_labels(targets: Any, counts: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Returns labels as a matrix of rows, of targets that may stand in a row one by one."""
    labels = on_host(targets)
    if labels.ndim == 2:
        return labels
    out = np.zeros((len(counts), max(counts, default=0)), np.int64)
    start = 0
    for row, count in zip(out, counts.tolist()):
        row[:count] = labels[start : start + count]
        start += count
    return out


def ctc_loss(
    log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any, blank: int = 0,
    reduction: str = "mean", zero_infinity: bool = False,
) -> Any:  # fmt: skip
    """Returns minus the logarithms of the probabilities of labels, summed over all alignments.

    Args:
        log_probs: logarithms of probabilities, of shape (time, batch, classes) or (time, classes).
        targets: labels, of shape (batch, length), or all of them in a row.
        input_lengths, target_lengths: one of each for every sequence, whose values must be known.
        blank: the class that stands for no label.
        reduction: ``"none"``, ``"sum"``, or ``"mean"``: of losses that are divided by the lengths.
        zero_infinity: whether labels that no alignment gives count as 0.

    Source: Graves et al., 2006. The gradient is the loss's derivative; PyTorch's adds the
    probabilities, which `log_softmax` takes away again.

    >>> import functensor.torch as torch
    >>> even = torch.full((2, 1, 2), 0.5).log()
    >>> loss = torch.nn.functional.ctc_loss(even, torch.tensor([[1]]), [2], [1])
    >>> round(loss.exp().item(), 4)
    1.3333
    """
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"reduction is 'none', 'mean' or 'sum', not {reduction!r}")
    single = log_probs.ndim == 2
    x = log_probs[:, None] if single else log_probs
    times, counts = lengths_of(input_lengths), lengths_of(target_lengths)
    labels = rows_of_labels(targets[None] if single and targets.ndim == 1 else targets, counts)
    batch, most = labels.shape
    if len(times) != batch or len(counts) != batch or x.shape[1] != batch:
        raise RuntimeError(
            f"ctc_loss: {x.shape[1]} sequences, {len(times)} input lengths, {len(counts)} target "
            f"lengths and {batch} rows of targets"
        )
    # Blanks around and between the labels.
    wide = np.full((batch, 2 * most + 1), blank, np.int64)
    wide[:, 1::2] = labels
    skips = np.zeros(wide.shape, bool)
    skips[:, 2:] = (wide[:, 2:] != blank) & (wide[:, 2:] != wide[:, :-2])
    index = np.broadcast_to(wide, (x.shape[0], *wide.shape))
    found = ops.take_along_axis(x, beside(x, np.ascontiguousarray(index)), -1)
    low = np.full(wide.shape, HARDLY, x.dtype)
    may_skip = beside(x, skips)
    begins = np.zeros(wide.shape, bool)
    begins[:, :2] = True
    alpha = ops.where(beside(x, begins), found[0], beside(x, low))
    for t in range(1, x.shape[0]):
        one = ops.concatenate([beside(x, low[:, :1]), alpha[:, :-1]], 1)
        two = ops.concatenate([beside(x, low[:, :2]), alpha[:, :-2]], 1)[:, : wide.shape[1]]
        two = ops.where(may_skip, two, beside(x, low))
        later = ops.logaddexp(ops.logaddexp(alpha, one), two) + found[t]
        running = beside(x, (t < times)[:, None])
        alpha = ops.where(running, ops.maximum(later, HARDLY), alpha)
    rows = np.arange(batch)
    last = alpha[rows, 2 * counts]
    before = alpha[rows, np.maximum(2 * counts - 1, 0)]
    total = ops.where(beside(x, counts > 0), ops.logaddexp(last, before), last)
    never = total <= HARDLY / 2
    losses = ops.where(never, 0.0 if zero_infinity else np.inf, -total)
    if reduction == "mean":
        return ops.mean(losses / beside(x, np.maximum(counts, 1).astype(x.dtype)))
    if reduction == "sum":
        return ops.sum(losses)
    return losses[0] if single else losses
