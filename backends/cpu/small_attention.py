"""Attention whose scores fit into the cache, a matrix of them at a time.

A few rows of scores are computed at once, and of causal ones only what stands before their last
key: of long matrices that is little more than half. Powers are taken without a shift, and their
sums say afterwards whether that was right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from ..arrays.nn_formulas import stacked_shape
from ..restoring import reporting
from .reductions import LONGEST_BLAS_RUN, largest_number, ones, smallest
from .stacks import over_stack

if TYPE_CHECKING:
    from ..annotations import Buffer, DType, Shape

__all__ = ["small_attention", "small_attention_grad"]

# Matrices of more scores leave the cache.
MOST_SCORES = 1 << 17
# Fewer scores in all take less time than it takes to cut them up.
FEWEST_SCORES = 1 << 16
# So many queries meet their keys at once.
ROWS_AT_ONCE = 32


def small_attention(q: Buffer, k: Buffer, v: Buffer, causal: bool, scale: float) -> Any:
    """Returns ``softmax(scale * q @ k^T) @ v``; None for what is to be computed otherwise."""
    if not is_cut_up(q, k, v, causal):
        return None
    (count, width), (length, outputs) = q.shape[-2:], v.shape[-2:]
    # Heads that lie side by side for each token do so in the result, too: whoever puts them
    # together copies nothing.
    out = np.empty_like(q, shape=(*q.shape[:-1], outputs))
    if out.strides[-1] != out.itemsize:
        out = np.empty(out.shape, q.dtype)
    totals = np.empty(q.shape[:-1], q.dtype)
    spares = (width, length), (count, length), (count,)
    params = {"causal": causal, "scale": scale}
    well = filled_well(attend, (q, k, v), (out, totals), spares, params)
    return out if well and are_right(totals) else None


def small_attention_grad(
    g: Buffer, out: Buffer, q: Buffer, k: Buffer, v: Buffer, causal: bool, scale: float
) -> Any:
    """Returns the gradients of q, k and v, stacked; None for what is to be computed otherwise."""
    if not is_cut_up(q, k, v, causal) or not g.dtype == out.dtype == q.dtype:
        return None
    (count, width), (length, outputs) = q.shape[-2:], v.shape[-2:]
    shape = stacked_shape(q.shape, k.shape, v.shape)
    alike = q.shape == k.shape == v.shape
    stacked = (np.empty if alike else np.zeros)(shape, q.dtype)
    totals = np.empty(q.shape[:-1], q.dtype)
    by_q, by_k, by_v = stacked
    parts = by_q[..., :count, :width], by_k[..., :length, :width], by_v[..., :length, :outputs]
    spares = (
        *((width, length), (outputs, length), (count, width), (count, outputs)),
        *((count, length), (count, length), (count,), (count,)),
    )
    params = {"causal": causal, "scale": scale}
    given = [g, out, q, k, v]
    well = filled_well(attend_back, given, (*parts, totals), spares, params)
    return stacked if well and are_right(totals) else None


def is_cut_up(q: Buffer, k: Buffer, v: Buffer, causal: bool) -> bool:
    """Says whether operands are those of attention that is computed here."""
    count, length = q.shape[-2], k.shape[-2]
    return (
        q.dtype.char in "fd"
        and q.dtype == k.dtype == v.dtype
        and count * length <= MOST_SCORES
        and length <= LONGEST_BLAS_RUN
        and (not causal or count == length)
        and min(q.size, k.size, v.size) > 0
        and prod(q.shape[:-1]) * length >= FEWEST_SCORES
    )


def filled_well(
    kernel: Callable[..., None],
    operands: Sequence[Buffer],
    results: Sequence[Buffer],
    spares: Sequence[Shape],
    params: dict[str, Any],
) -> bool:
    """Fills memory by a kernel; False where NumPy has something to say of the arithmetic."""
    told: list[Any] = []
    given = kernel, operands, results, spares, params, operands[0].ndim - 2
    reporting(lambda *words: told.append(words), over_stack, given)
    return not told


def are_right(totals: Buffer) -> bool:
    """Says by the sums of powers whether none has become infinite, and not all of a row zero."""
    low, high = bounds_of_totals(totals.dtype)
    return bool(smallest(totals, axis=None) >= low and largest_number(totals, axis=None) <= high)


@lru_cache(maxsize=4)
def bounds_of_totals(dtype: DType) -> tuple[Any, Any]:
    """Returns between which numbers sums of powers are neither too small nor too large."""
    limit = np.finfo(dtype)
    return np.sqrt(limit.tiny), np.sqrt(limit.max)


def attend(
    q: Buffer, k: Buffer, v: Buffer, out: Buffer, totals: Buffer,
    turned: Buffer, powers: Buffer, shares: Buffer, *, causal: bool, scale: float,
) -> None:  # fmt: skip
    """Fills memory with the output for stacks of matrices, and with the sums of powers."""
    np.multiply(k.swapaxes(1, 2), q.dtype.type(scale), out=turned)
    for rows, seen in blocks_of_scores(powers.shape, causal):
        own = powers[:, rows, seen]
        np.matmul(q[:, rows], turned[:, :, seen], out=own)
        take_powers(own, totals[:, rows], causal)
        np.matmul(own, v[:, seen], out=out[:, rows])
    np.reciprocal(totals, out=shares)
    np.multiply(out, shares[..., np.newaxis], out=out)


def attend_back(
    g: Buffer, out: Buffer, q: Buffer, k: Buffer, v: Buffer,
    by_q: Buffer, by_k: Buffer, by_v: Buffer, totals: Buffer,
    turned_k: Buffer, turned_v: Buffer, scaled: Buffer, shared: Buffer,
    powers: Buffer, slopes: Buffer, shares: Buffer, along: Buffer, *, causal: bool, scale: float,
) -> None:  # fmt: skip
    """Fills memory with the gradients for stacks of matrices, and with the sums of powers."""
    factor = q.dtype.type(scale)
    np.multiply(k.swapaxes(1, 2), factor, out=turned_k)
    np.positive(v.swapaxes(1, 2), out=turned_v)
    np.vecdot(g, out, out=along)
    for rows, seen in blocks_of_scores(powers.shape, causal):
        own, slope = powers[:, rows, seen], slopes[:, rows, seen]
        np.matmul(q[:, rows], turned_k[:, :, seen], out=own)
        take_powers(own, totals[:, rows], causal)
        # The derivative of softmax: that by every weight less the mean of a query.
        np.matmul(g[:, rows], turned_v[:, :, seen], out=slope)
        np.subtract(slope, along[:, rows, np.newaxis], out=slope)
        np.multiply(slope, own, out=slope)
        np.matmul(slope, k[:, seen], out=by_q[:, rows])
    # Weights are powers times shares, which are multiplied with what has fewer elements.
    np.reciprocal(totals, out=shares)
    np.multiply(g, shares[..., np.newaxis], out=shared)
    np.multiply(shares, factor, out=shares)
    np.multiply(q, shares[..., np.newaxis], out=scaled)
    np.multiply(by_q, shares[..., np.newaxis], out=by_q)
    for keys, met in blocks_of_keys(powers.shape, causal):
        np.matmul(powers[:, met, keys].swapaxes(1, 2), shared[:, met], out=by_v[:, keys])
        np.matmul(slopes[:, met, keys].swapaxes(1, 2), scaled[:, met], out=by_k[:, keys])


def take_powers(own: Buffer, totals: Buffer, causal: bool) -> None:
    """Makes some rows of scores their powers, and fills memory with the sums of these."""
    _, count, length = own.shape
    if causal and count > 1:
        last = own[:, :, length - count :]
        np.add(last, terms_behind_queries(count, own.dtype), out=last)
    np.exp(own, out=own)
    np.matmul(own, ones(length, own.dtype), out=totals)


def blocks_of_scores(shape: Shape, causal: bool) -> Iterator[tuple[slice, slice]]:
    """Yields some rows of a matrix of scores, and the keys that these see."""
    _, count, length = shape
    for start in range(0, count, ROWS_AT_ONCE):
        end = min(start + ROWS_AT_ONCE, count)
        yield slice(start, end), slice(end if causal else length)


def blocks_of_keys(shape: Shape, causal: bool) -> Iterator[tuple[slice, slice]]:
    """Yields some keys, and the rows that see any of them."""
    _, count, length = shape
    step = ROWS_AT_ONCE if causal else length
    for start in range(0, length, step):
        yield slice(start, min(start + step, length)), slice(start if causal else 0, count)


@lru_cache(maxsize=16)
def terms_behind_queries(count: int, dtype: DType) -> Any:
    """Returns what scores get added: minus infinity for keys that stand behind their query."""
    terms = np.where(np.tri(count, dtype=np.bool_), dtype.type(0), dtype.type(-np.inf))
    terms.flags.writeable = False
    return terms
