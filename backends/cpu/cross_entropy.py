"""The cross entropy of integer labels, for NumPy's buffers: few passes, block by block."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .blocks import BLOCK_ELEMENTS, inexact, row_blocks, shaped_like
from .reductions import largest_number, logsumexp

if TYPE_CHECKING:
    from ..annotations import Buffer

__all__ = ["check_labels", "cross_entropy", "cross_entropy_grad"]


def _rows_and_labels(x: Buffer, labels: Buffer) -> tuple[Any, tuple[Any, Any]]:
    """Returns logits as rows, and the key of every row's label; IndexError for a wrong label."""
    values = inexact(x)
    classes = values.shape[-1]
    rows = values.reshape(-1, classes)
    picks = check_labels(labels, classes)
    return rows, (np.arange(len(picks)), picks)


def check_labels(labels: Buffer, classes: int) -> Any:
    """Returns labels in a row, as whole numbers of 64 bits; IndexError for a wrong one."""
    picks = np.asarray(labels).astype(np.int64, copy=False).reshape(-1)
    # Seen as unsigned, negative labels are too large, so that one pass finds both.
    if picks.size and largest_number(picks.view(np.uint64)) >= classes:
        wrong = picks[(picks < 0) | (picks >= classes)][0]
        raise IndexError(f"label {wrong} is none of the {classes} classes from 0 up")
    return picks


def cross_entropy(x: Buffer, labels: Buffer) -> Buffer:
    """Returns ``logsumexp(x)`` over the last axis less the logits of the labels."""
    rows, places = _rows_and_labels(x, labels)
    if rows.size <= BLOCK_ELEMENTS:
        out = logsumexp(rows, axis=(1,), keepdims=False)
    else:
        out = np.empty(len(rows), rows.dtype)
        for block in row_blocks(*rows.shape):
            out[block] = logsumexp(rows[block], axis=(1,), keepdims=False)
    out -= rows[places]
    # Rounding may leave a little less than the logarithm of 1.
    np.maximum(out, 0, out=out)
    dtype = x.dtype if x.dtype.kind == "f" else out.dtype
    return out.reshape(x.shape[:-1]).astype(dtype, copy=False)[()]


def cross_entropy_grad(x: Buffer, loss: Buffer, g: Buffer, labels: Buffer) -> Buffer:
    """Returns ``g * (exp(x - loss - x[label]) - onehot(label))`` over the last axis."""
    rows, places = _rows_and_labels(x, labels)
    shift = (np.asarray(loss).reshape(-1) + rows[places])[:, None]
    scale = np.asarray(g, rows.dtype).reshape(-1, 1)
    out = np.empty(rows.shape, rows.dtype)
    for block in row_blocks(*rows.shape):
        part = out[block]
        np.subtract(rows[block], shift[block], out=part)
        np.exp(part, out=part)
        part *= scale[block]
    out[places] -= scale[:, 0]
    return shaped_like(out, x)
