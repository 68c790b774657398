"""Rows brought to mean 0 and variance 1, for NumPy's buffers: block by block, in place."""

from __future__ import annotations

from typing import Any

import numpy as np

from .blocks import BLOCK, inexact

__all__ = ["normalize", "normalize_slope"]


def _center_and_scale(x: Any, eps: float, out: Any) -> Any:
    """Fills ``out`` with normalised rows and returns what each was multiplied by."""
    length = x.shape[1]
    np.subtract(x, (np.add.reduce(x, 1) / length)[:, None], out=out)
    scale = 1 / np.sqrt(np.vecdot(out, out) / length + eps)
    out *= scale[:, None]
    return scale


def _like(out: Any, x: Any) -> Any:
    """Returns rows in an operand's shape, and in its dtype if that is real."""
    return out.reshape(x.shape).astype(x.dtype if x.dtype.kind == "f" else out.dtype, copy=False)


def normalize(x: Any, *, eps: float) -> Any:
    """Returns ``(x - mean(x)) / sqrt(var(x) + eps)`` over the last axis."""
    rows = inexact(x).reshape(-1, x.shape[-1])
    out = np.empty(rows.shape, rows.dtype)
    step = max(BLOCK // max(rows.shape[1], 1), 1)
    for start in range(0, len(rows), step):
        _center_and_scale(rows[start : start + step], eps, out[start : start + step])
    return _like(out, x)


def normalize_slope(g: Any, x: Any, *, eps: float) -> Any:
    """Returns the derivative of ``normalize`` at x in the direction g."""
    rows = inexact(x).reshape(-1, x.shape[-1])
    length = rows.shape[1]
    cotangents = np.asarray(g, rows.dtype).reshape(rows.shape)
    out = np.empty(rows.shape, rows.dtype)
    step = max(BLOCK // max(length, 1), 1)
    spare = np.empty((min(step, len(rows)), length), rows.dtype)
    for start in range(0, len(rows), step):
        h, part = cotangents[start : start + step], out[start : start + step]
        y = spare[: len(part)]
        scale = _center_and_scale(rows[start : start + step], eps, y)
        along = np.vecdot(h, y) / length
        np.subtract(h, (np.add.reduce(h, 1) / length)[:, None], out=part)
        y *= along[:, None]
        part -= y
        part *= scale[:, None]
    return _like(out, x)
