"""Attention on the CPU: a block of the score matrix at a time, which stays in the cache.

A block has whole rows of it, those of some queries against all keys: softmax needs one pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from ..arrays.nn_formulas import stacked_shape
from ..blas_threads import held
from ..restoring import errstate
from .blocks import row_blocks
from .parallel import side_by_side
from .reductions import sum
from .small_attention import small_attention, small_attention_grad

if TYPE_CHECKING:
    from ..annotations import Buffer, DType

__all__ = ["attention", "attention_grad"]

# The number of scores of a block.
BLOCK_SCORES = 1 << 17
# Products of up to so many multiplications by a transposed matrix take OpenBLAS twice as long as a
# copy of the matrix, and the product with that.
LARGEST_SMALL_PRODUCT = 1_000_000
# So many masks of blocks are kept for the next call.
MOST_KEPT_MASKS = 16


def attention(
    q: Buffer,
    k: Buffer,
    v: Buffer,
    mask: Buffer | None = None,
    *,
    causal: bool,
    scale: float,
    learned: bool = False,
) -> Buffer:
    """Returns ``softmax(scale * q @ k^T + mask) @ v``; a query that sees no key gets zeros."""
    small = small_attention(q, k, v, causal, scale) if mask is None else None
    if small is not None:
        return small  # type: ignore[no-any-return]
    out = np.empty((*q.shape[:-1], v.shape[-1]), q.dtype)
    outs, queries, keys, values = map(stacked_matrices, (out, q, k, v))
    masks = None if mask is None else np.broadcast_to(mask, (*q.shape[:-1], k.shape[-2]))

    def fill(many: slice) -> None:
        for rows, powers, shares in blocks_of_powers(many, queries, keys, masks, causal, scale):
            seen = slice(powers.shape[-1])
            part = np.matmul(powers, working(values[many, seen]))
            part *= shares
            outs[many, rows] = part

    each_image(fill, q, k)
    return out


def attention_grad(
    g: Buffer,
    out: Buffer,
    q: Buffer,
    k: Buffer,
    v: Buffer,
    mask: Buffer | None = None,
    *,
    causal: bool,
    scale: float,
) -> Buffer:
    """Returns the gradients of q, k and v, stacked, for that of ``attention``'s output."""
    small = small_attention_grad(g, out, q, k, v, causal, scale) if mask is None else None
    if small is not None:
        return small  # type: ignore[no-any-return]
    stacked = np.zeros(stacked_shape(q.shape, k.shape, v.shape), q.dtype)
    by_q = stacked_matrices(stacked[0])
    by_k, by_v = (working(stacked_matrices(part)) for part in stacked[1:])
    queries, keys, values, cotangents, outs = map(stacked_matrices, (q, k, v, g, out))
    width, outputs = q.shape[-1], v.shape[-1]
    masks = None if mask is None else np.broadcast_to(mask, (*q.shape[:-1], k.shape[-2]))

    def fill(many: slice) -> None:
        for totals in (by_k, by_v):
            totals[many] = 0
        for rows, powers, shares in blocks_of_powers(many, queries, keys, masks, causal, scale):
            seen = slice(powers.shape[-1])
            # Weights are powers times shares, which are multiplied with what has fewer elements.
            own_g = working(cotangents[many, rows])
            own_q = working(queries[many, rows]) * (shares * shares.dtype.type(scale))
            by_v[many, seen, :outputs] += np.matmul(powers.swapaxes(1, 2), own_g * shares)
            # The derivative of softmax: that by every weight less the mean of a query.
            slopes = times_transposed(own_g, working(values[many, seen]))
            slopes -= np.vecdot(own_g, working(outs[many, rows]))[..., np.newaxis]
            powers *= slopes
            part = np.matmul(powers, working(keys[many, seen]))
            part *= shares * shares.dtype.type(scale)
            by_q[many, rows, :width] = part
            by_k[many, seen, :width] += np.matmul(powers.swapaxes(1, 2), own_q)

    each_image(fill, q, k)
    if q.itemsize == 2:
        stacked_matrices(stacked[1])[...], stacked_matrices(stacked[2])[...] = by_k, by_v
    return stacked


def each_image(work: Callable[[slice], None], q: Buffer, k: Buffer) -> None:
    """Calls a function with slices of matrices whose scores make a block."""

    def some(parts: Iterable[slice]) -> None:
        for many in parts:
            work(many)

    scores = q.shape[-2] * k.shape[-2]
    parts = list(row_blocks(prod(q.shape[:-2]), scores, BLOCK_SCORES))
    if held():
        side_by_side(some, parts)
    else:
        # BLAS may have threads of its own.
        some(parts)


def blocks_of_powers(
    whole: slice, queries: Buffer, keys: Buffer, masks: Buffer | None, causal: bool, scale: float
) -> Iterator[tuple[slice, Any, Any]]:
    """Yields slices of some matrices' queries, the powers of scores, and every row's factor.

    Powers times factors are the weights. Keys that no query of a block sees are left out.
    """
    count, length = queries.shape[1], keys.shape[1]
    fit = max(1, BLOCK_SCORES // max(1, length))
    own_masks = None if masks is None else masks_of(masks, whole)
    for row in range(0, count, fit):
        rows = slice(row, min(row + fit, count))
        seen = slice(min(length, rows.stop) if causal else length)
        own = working(queries[whole, rows])
        own = own * own.dtype.type(scale)
        scores = times_transposed(own, working(keys[whole, seen]))
        if own_masks is not None:
            part = own_masks[:, rows, seen]
            if part.dtype.kind == "b":
                np.copyto(scores, -np.inf, where=~part)
            else:
                scores += part
        unseen = None
        if causal:
            place = rows.stop - row, scores.shape[-1], row
            unseen = keys_behind(*place)
            if len(scores) > 1:
                with errstate(invalid="ignore"):
                    scores += terms_of_keys_behind(*place, scores.dtype)
            else:
                np.copyto(scores, -np.inf, where=unseen)
        yield rows, *powers_of(scores, unseen)


def times_transposed(x: Buffer, y: Buffer) -> Any:
    """Returns the products of the matrices of a stack and the transposed ones of another."""
    turned = y.swapaxes(1, 2)
    work = x.shape[1] * x.shape[2] * y.shape[1]
    return np.matmul(x, np.ascontiguousarray(turned) if work <= LARGEST_SMALL_PRODUCT else turned)


@lru_cache(maxsize=MOST_KEPT_MASKS)
def keys_behind(queries: int, keys: int, first: int) -> Any:
    """Returns a mask of the keys that stand behind each of some queries, from a first one on."""
    mask = ~np.tri(queries, keys, first, np.bool_)
    mask.flags.writeable = False
    return mask


@lru_cache(maxsize=MOST_KEPT_MASKS)
def terms_of_keys_behind(queries: int, keys: int, first: int, dtype: DType) -> Any:
    """Returns the same as what scores get added, in a third of the time that a mask takes."""
    terms = np.where(keys_behind(queries, keys, first), dtype.type(-np.inf), dtype.type(0))
    terms.flags.writeable = False
    return terms


def powers_of(scores: Buffer, unseen: Buffer | None = None) -> tuple[Any, Any]:
    """Returns the powers of scores, maybe in their place, and the inverse of every row's sum.

    Scores of unseen keys are minus infinity, or NaN where they were infinite. A row that is minus
    infinity throughout becomes zeros.
    """
    if not scores.shape[-1]:
        return scores, np.ones((*scores.shape[:-1], 1), scores.dtype)
    limit = np.finfo(scores.dtype)
    # Most scores need no shift, which saves finding the largest of every row.
    if scores.max(initial=-np.inf) <= 0.5 * np.log(limit.max):
        powers = np.exp(scores)
        total = row_sums(powers)
        if total.min(initial=np.inf) >= np.sqrt(limit.tiny):
            return powers, 1 / total
    if unseen is not None:
        np.copyto(scores, -np.inf, where=unseen)
    top = scores.max(-1, keepdims=True)
    np.copyto(top, 0, where=np.isneginf(top))
    with errstate(invalid="ignore"):
        scores -= top
        np.exp(scores, out=scores)
        total = row_sums(scores)
    np.copyto(total, 1, where=total == 0)
    return scores, 1 / total


def row_sums(x: Buffer) -> Any:
    """Returns the sums over the last of three axes, which stays with length 1."""
    return sum(x, axis=(2,), keepdims=True)


def masks_of(masks: Buffer, whole: slice) -> Buffer:
    """Returns the masks of some of the matrices. Several may share one mask."""
    if masks.ndim == 2:
        return masks[np.newaxis]
    return masks[np.unravel_index(np.arange(whole.start, whole.stop), masks.shape[:-2])]


def stacked_matrices(x: Buffer) -> Buffer:
    """Returns an array with all axes but the last two as one."""
    return x.reshape(prod(x.shape[:-2]), *x.shape[-2:])


def working(x: Buffer) -> Buffer:
    """Returns an array of 16-bit numbers as one of 32 bits, in which they are added up."""
    return x.astype(np.float32) if x.itemsize == 2 else x
