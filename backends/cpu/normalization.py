"""Rows brought to mean 0 and variance 1, for NumPy's buffers: block by block, in place."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from .blocks import inexact, row_blocks, shaped_like
from .reductions import sum

if TYPE_CHECKING:
    from ..annotations import Buffer

__all__ = ["affine_normalize", "affine_normalize_grad", "normalize", "normalize_grad"]


def _row_sums(x: Buffer) -> Any:
    """Returns the sums over the last axis, which stays with length 1."""
    return sum(x, axis=(x.ndim - 1,), keepdims=True)


def _center_and_scale(x: Buffer, eps: float, center: bool, out: Buffer) -> Any:
    """Fills ``out`` with normalised rows and returns what each was multiplied by."""
    length = max(x.shape[-1], 1)
    if center:
        np.subtract(x, _row_sums(x) / length, out=out)
    else:
        out[...] = x
    scale = 1 / np.sqrt(np.vecdot(out, out) / length + eps)
    out *= scale[..., None]
    return scale


def _direction_grad(h: Buffer, y: Buffer, scale: Buffer, center: bool, out: Buffer) -> None:
    """Fills ``out`` with the derivative in the direction h; overwrites y."""
    length = h.shape[-1]
    along = np.vecdot(h, y) / length
    if center:
        np.subtract(h, _row_sums(h) / length, out=out)
    elif out is not h:
        out[...] = h
    y *= along[..., None]
    out -= y
    out *= scale[..., None]


def _inexact_rows(x: Buffer) -> Buffer:
    """Returns the rows of an array, which may have no elements."""
    return inexact(x).reshape(prod(x.shape[:-1]), x.shape[-1])


def normalize(x: Buffer, *, eps: float, center: bool) -> Buffer:
    """Returns ``(x - mean(x)) / sqrt(var(x) + eps)`` over the last axis."""
    rows = _inexact_rows(x)
    out = np.empty(rows.shape, rows.dtype)
    for block in row_blocks(*rows.shape):
        _center_and_scale(rows[block], eps, center, out[block])
    return shaped_like(out, x)


def normalize_grad(g: Buffer, x: Buffer, *, eps: float, center: bool) -> Buffer:
    """Returns the derivative of ``normalize`` at x in the direction g."""
    rows = _inexact_rows(x)
    cotangents = np.asarray(g, rows.dtype).reshape(rows.shape)
    out = np.empty(rows.shape, rows.dtype)
    for block in row_blocks(*rows.shape):
        y = np.empty_like(out[block])
        scale = _center_and_scale(rows[block], eps, center, y)
        _direction_grad(cotangents[block], y, scale, center, out[block])
    return shaped_like(out, x)


# -- with weights: rows that share one are a group


def _grouped_rows(x: Buffer, weight: Buffer, *others: Buffer) -> tuple[Any, Any, Any]:
    """Returns the result's dtype, the dtype to compute in, and arrays by group and row."""
    dtype = np.result_type(x.dtype if x.dtype.kind == "f" else np.float64, weight, *others)
    work = np.dtype(np.float32 if dtype.char == "e" else dtype)
    groups = weight.shape[:-1]
    rows = prod(x.shape[len(groups) : -1])
    shape = prod(groups), rows, x.shape[-1]
    return dtype, work, np.asarray(x, work).reshape(shape)


def affine_normalize(x: Buffer, weight: Buffer, *bias: Buffer, eps: float, center: bool) -> Buffer:
    """Returns ``normalize(x) * weight + bias``."""
    dtype, work, rows = _grouped_rows(x, weight, *bias)
    groups, count, length = rows.shape
    affine = [np.asarray(v, work).reshape(groups, 1, length) for v in (weight, *bias)]
    out = np.empty(rows.shape, work)
    for block in row_blocks(count, groups * length):
        part = out[:, block]
        _center_and_scale(rows[:, block], eps, center, part)
        part *= affine[0]
        if bias:
            part += affine[1]
    return out.reshape(x.shape).astype(dtype, copy=False)


def affine_normalize_grad(
    g: Buffer, x: Buffer, weight: Buffer, *, eps: float, center: bool, bias: bool
) -> Buffer:
    """Returns the cotangents of x's rows, and behind them those of the weight and the bias."""
    dtype, work, rows = _grouped_rows(x, weight)
    groups, count, length = rows.shape
    cotangents = np.asarray(g, work).reshape(rows.shape)
    affine = np.asarray(weight, work).reshape(groups, 1, length)
    out = np.empty((groups, count + 1 + bias, length), work)
    totals = out[:, count:]
    totals[...] = 0
    for block in row_blocks(count, groups * length):
        h, part = cotangents[:, block], out[:, block]
        y = np.empty(h.shape, work)
        scale = _center_and_scale(rows[:, block], eps, center, y)
        np.multiply(h, y, out=part)
        totals[:, 0] += sum(part, axis=(1,), keepdims=False)
        if bias:
            totals[:, 1] += sum(h, axis=(1,), keepdims=False)
        np.multiply(h, affine, out=part)
        _direction_grad(part, y, scale, center, part)
    shape = (*weight.shape[:-1], *out.shape[1:])
    return out.reshape(shape).astype(dtype, copy=False)
