"""Rows brought to mean 0 and variance 1, for NumPy's buffers: block by block, in place.

Blocks of rows are the items of a stack. A block stays in the cache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from ..blas_threads import alone, controlled
from .blocks import inexact, shaped_like
from .reductions import LONGEST_BLAS_RUN, ones, sum
from .stacks import key_of_stack, over_stack, stack_run

if TYPE_CHECKING:
    from ..annotations import Buffer

__all__ = ["affine_normalize", "affine_normalize_grad", "normalize", "normalize_grad"]

# Elements of a block of rows, and those from which BLAS adds a block's rows up on several threads.
BLOCK_OF_ROWS = 1 << 14
FEWEST_CALM_ELEMENTS = 1 << 13
# What runs a kernel on arrays whose blocks are one stack, by how they lie; at most so many.
MOST_WHOLE_RUNS = 256
whole_runs: dict[Any, Callable[[Sequence[Buffer]], bool]] = {}


def _sums_of_rows(x: Buffer, out: Buffer) -> None:
    """Fills memory with the sums over the last of three axes."""
    length = x.shape[2]
    if 0 < length <= LONGEST_BLAS_RUN:
        np.matmul(x, ones(length, x.dtype), out=out)
    else:
        out[...] = sum(x, axis=(2,), keepdims=False)


def _center_and_scale(x: Buffer, out: Buffer, scale: Buffer, *, eps: float, center: bool) -> None:
    """Fills ``out`` with normalised rows, and ``scale`` with what each was multiplied by."""
    length = max(x.shape[-1], 1)
    if center:
        _sums_of_rows(x, scale)
        np.divide(scale, length, out=scale)
        np.subtract(x, scale[..., np.newaxis], out=out)
    else:
        np.positive(x, out=out)
    np.vecdot(out, out, out=scale)
    np.divide(scale, length, out=scale)
    np.add(scale, eps, out=scale)
    np.sqrt(scale, out=scale)
    np.reciprocal(scale, out=scale)
    np.multiply(out, scale[..., np.newaxis], out=out)


def _direction_grad(
    h: Buffer, y: Buffer, scale: Buffer, means: Buffer, center: bool, out: Buffer
) -> None:
    """Fills ``out`` with the derivative in the direction h; overwrites y and ``means``."""
    length = max(h.shape[-1], 1)
    np.vecdot(h, y, out=means)
    np.divide(means, length, out=means)
    np.multiply(y, means[..., np.newaxis], out=y)
    if center:
        _sums_of_rows(h, means)
        np.divide(means, length, out=means)
        np.subtract(h, means[..., np.newaxis], out=out)
    elif out is not h:
        np.positive(h, out=out)
    np.subtract(out, y, out=out)
    np.multiply(out, scale[..., np.newaxis], out=out)


def _inexact_rows(x: Buffer) -> Buffer:
    """Returns the rows of an array, which may have no elements, as a group."""
    return inexact(x).reshape(1, prod(x.shape[:-1]), x.shape[-1])


def _by_rows(
    kernel: Callable[..., None],
    operands: Sequence[Buffer],
    shared: Sequence[Buffer],
    results: Sequence[Buffer],
    totals: Buffer | None,
    spares: tuple[int, int],
    params: dict[str, Any],
) -> None:
    """Calls a kernel with blocks of rows.

    Args:
        kernel: takes blocks of the operands, what is shared, blocks of the results, the memory of
            each block's totals, and spare memory.
        operands, results: arrays (groups, rows, length).
        shared: arrays (groups, 1, length) that rows of a group share.
        totals: an array (groups, blocks, ...), or None.
        spares: how many arrays of a block's shape the kernel uses, at most one, and how many with
            a number for each of its rows.
        params: its parameters.
    """
    groups, count, length = operands[0].shape
    dtype = operands[0].dtype
    if operands[0].size < FEWEST_CALM_ELEMENTS:
        # One block has all rows, and groups are items.
        into = [*results] if totals is None else [*results, totals[:, 0]]
        memory = [np.empty((groups, count, length), dtype)] * spares[0]
        memory += [np.empty((groups, count), dtype) for _ in range(spares[1])]
        kernel(*operands, *shared, *into, *memory, **params)
        return
    arrays = [*operands, *shared, *results, *([] if totals is None else [totals])]
    key = key_of_stack(kernel, arrays, params, 2)
    run = whole_runs.get(key)
    control = controlled()
    with nullcontext() if control is None or not control.several() else alone():
        if run is not None and run(arrays):
            return
        first = 0
        for number, rows in _blocks_of_rows(count, length):
            part = slice(first, first + number * rows)
            shape = groups, number, rows, length
            given = [x[:, part].reshape(shape) for x in operands]
            given += [w[:, np.newaxis] for w in shared]
            into = [x[:, part].reshape(shape) for x in results]
            if totals is not None:
                into.append(totals[:, -number:] if first else totals[:, :number])
            items = [(rows, length)] * spares[0] + [(rows,)] * spares[1]
            over_stack(kernel, given, into, items, params, 2)
            if number * rows == count:
                note_whole_run(kernel, arrays, [*given, *into], params, key)
            first += number * rows


def note_whole_run(
    kernel: Callable[..., None],
    arrays: Sequence[Buffer],
    blocks: Sequence[Buffer],
    params: dict[str, Any],
    key: Any,
) -> None:
    """Notes how a kernel runs on arrays whose blocks are one stack, in the arrays' own memory."""
    run = stack_run(kernel, blocks, params, 2)
    if run is None:
        return
    places = [[x.__array_interface__["data"] for x in own] for own in (arrays, blocks)]
    if places[0] == places[1]:
        if len(whole_runs) >= MOST_WHOLE_RUNS:
            whole_runs.clear()
        whole_runs[key] = run


def _rows_of_block(length: int) -> int:
    return max(BLOCK_OF_ROWS // max(length, 1), 1)


def _blocks_of_rows(count: int, length: int) -> Iterator[tuple[int, int]]:
    """Yields how many blocks there are, and of how many rows each: whole ones, and the rest."""
    rows = _rows_of_block(length)
    whole, rest = divmod(count, rows)
    if whole:
        yield whole, rows
    if rest:
        yield 1, rest


def normalize(x: Buffer, *, eps: float, center: bool) -> Buffer:
    """Returns ``(x - mean(x)) / sqrt(var(x) + eps)`` over the last axis."""
    rows = _inexact_rows(x)
    out = np.empty(rows.shape, rows.dtype)
    params = {"eps": eps, "center": center}
    _by_rows(_center_and_scale, [rows], [], [out], None, (0, 1), params)
    return shaped_like(out, x)


def normalize_grad(g: Buffer, x: Buffer, *, eps: float, center: bool) -> Buffer:
    """Returns the derivative of ``normalize`` at x in the direction g."""
    rows = _inexact_rows(x)
    cotangents = np.asarray(g, rows.dtype).reshape(rows.shape)
    out = np.empty(rows.shape, rows.dtype)
    params = {"eps": eps, "center": center}
    _by_rows(_normalize_back, [cotangents, rows], [], [out], None, (1, 2), params)
    return shaped_like(out, x)


def _normalize_back(
    h: Buffer, x: Buffer, out: Buffer, y: Buffer, scale: Buffer, means: Buffer,
    *, eps: float, center: bool,
) -> None:  # fmt: skip
    _center_and_scale(x, y, scale, eps=eps, center=center)
    _direction_grad(h, y, scale, means, center, out)


# -- with weights: rows that share one are a group


def _grouped_rows(x: Buffer, weight: Buffer, *others: Buffer) -> tuple[Any, Any, Any]:
    """Returns the result's dtype, the dtype to compute in, and arrays by group and row."""
    dtype, operands = x.dtype, (x, weight, *others)
    alike = dtype.char in "fd" and dtype.isnative
    if not alike or any([v.dtype is not dtype for v in operands]):  # noqa: C419 - quicker
        dtype = np.result_type(dtype if dtype.kind == "f" else np.float64, weight, *others)
    work = np.dtype(np.float32) if dtype.char == "e" else dtype
    groups = weight.shape[:-1]
    rows = prod(x.shape[len(groups) : -1])
    shape = prod(groups), rows, x.shape[-1]
    return dtype, work, np.asarray(x, work).reshape(shape)


def affine_normalize(x: Buffer, weight: Buffer, *bias: Buffer, eps: float, center: bool) -> Buffer:
    """Returns ``normalize(x) * weight + bias``."""
    dtype, work, rows = _grouped_rows(x, weight, *bias)
    groups, _, length = rows.shape
    affine = [np.asarray(v, work).reshape(groups, 1, length) for v in (weight, *bias)]
    out = np.empty(rows.shape, work)
    kernel = _affine_biased if bias else _scaled
    _by_rows(kernel, [rows], affine, [out], None, (0, 1), {"eps": eps, "center": center})
    return out.reshape(x.shape).astype(dtype, copy=False)


def _scaled(x: Buffer, weight: Buffer, out: Buffer, scale: Buffer, **params: Any) -> None:
    _center_and_scale(x, out, scale, **params)
    np.multiply(out, weight, out=out)


def _affine_biased(
    x: Buffer, weight: Buffer, bias: Buffer, out: Buffer, scale: Buffer, **params: Any
) -> None:
    _scaled(x, weight, out, scale, **params)
    np.add(out, bias, out=out)


def affine_normalize_grad(
    g: Buffer, x: Buffer, weight: Buffer, *, eps: float, center: bool, bias: bool
) -> Buffer:
    """Returns the cotangents of x's rows, and behind them those of the weight and the bias."""
    dtype, work, rows = _grouped_rows(x, weight)
    groups, count, length = rows.shape
    cotangents = np.asarray(g, work).reshape(rows.shape)
    affine = np.asarray(weight, work).reshape(groups, 1, length)
    out = np.empty((groups, count + 1 + bias, length), work)
    small = rows.size < FEWEST_CALM_ELEMENTS
    blocks = 1 if small else -(-count // _rows_of_block(length))
    totals = np.empty((groups, blocks, 1 + bias, length), work)
    params = {"eps": eps, "center": center}
    given = [cotangents, rows], [affine], [out[:, :count]], totals
    _by_rows(_affine_back, *given, (1, 2), params)
    if blocks == 1:
        out[:, count:] = totals[:, 0]
    else:
        np.add.reduce(totals, axis=1, out=out[:, count:])
    shape = (*weight.shape[:-1], *out.shape[1:])
    return out.reshape(shape).astype(dtype, copy=False)


def _affine_back(
    h: Buffer, x: Buffer, weight: Buffer, out: Buffer, totals: Buffer,
    y: Buffer, scale: Buffer, means: Buffer, *, eps: float, center: bool,
) -> None:  # fmt: skip
    _center_and_scale(x, y, scale, eps=eps, center=center)
    np.multiply(h, y, out=out)
    over_rows = ones(h.shape[1], h.dtype)
    np.matmul(over_rows, out, out=totals[:, 0])
    if totals.shape[1] > 1:
        np.matmul(over_rows, h, out=totals[:, 1])
    np.multiply(h, weight, out=out)
    _direction_grad(out, y, scale, means, center, out)
