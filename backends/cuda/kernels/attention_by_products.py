"""Attention by cuBLAS, a block of scores at a time, where the kernels in attention.cu do not apply.

A block has whole rows of scores, so that one kernel computes their softmax.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import cupy
import numpy as np
from cupy import ndarray

from ...annotations import DType
from ..annotations import Heads
from ..cublas.gemm import multiply
from ..launch import SMALL_BLOCK_THREADS, Kernel, c_type
from ..strides import strides_of

__all__ = ["backward_by_blocks", "forward_by_blocks", "mask_kind"]

# The memory that scores take at most, unless one row of them takes more.
MOST_SCORE_BYTES = 128 << 20
# The dtypes in which scores of 16 bits are added up.
WORKING = {"float16": "float32", "bfloat16": "float32"}
NO_MASK, BOOLEAN, ADDED = range(3)

SCORE_TYPES = ("float, float", "double, double", "float, half_t", "float, bfloat16_t")
ATTENTION_WEIGHTS = Kernel(
    "attention_by_products", "attention_weights", "pppllllllllllld", SCORE_TYPES
)
SCORE_GRADS = Kernel("attention_by_products", "score_grads", "ppppplld", SCORE_TYPES)


def mask_kind(mask: ndarray | None) -> int:
    """Returns the number by which kernels know the kind of a mask."""
    if mask is None:
        return NO_MASK
    return BOOLEAN if mask.dtype.kind == "b" else ADDED


def forward_by_blocks(heads: Heads, out: ndarray) -> None:
    """Writes the output."""
    values = stack_of_heads(heads.v)
    found = cupy.empty((len(values), *out.shape[2:]), out.dtype)
    for images, rows, weights in blocks_of_weights(heads):
        multiply(weights, values[images, : weights.shape[2]], found[images, rows])
    out[...] = found.reshape(out.shape)


def backward_by_blocks(g: ndarray, out: ndarray, heads: Heads, parts: Sequence[ndarray]) -> None:
    """Writes the gradients of q, k and v."""
    q, k, v = heads[:3]
    working = working_dtype(q)
    cotangents, outs, queries, keys, values = map(stack_of_heads, (g, out, q, k, v))
    by_q = cupy.empty(queries.shape, q.dtype)
    by_k, by_v = (cupy.zeros(x.shape, working) for x in (keys, values))
    for images, rows, weights in blocks_of_weights(heads):
        seen = slice(weights.shape[2])
        own = cupy.ascontiguousarray(cotangents[images, rows])
        own_out = cupy.ascontiguousarray(outs[images, rows])
        products = cupy.empty(weights.shape, working)
        multiply(own, values[images, seen].swapaxes(1, 2), products)
        grads = cupy.empty(weights.shape, q.dtype)
        SCORE_GRADS(
            block_types(q), weights.shape[0] * weights.shape[1], SMALL_BLOCK_THREADS, products,
            weights, own, own_out, grads, weights.shape[2], v.shape[3], heads.scale,
        )  # fmt: skip
        multiply(grads, keys[images, seen], by_q[images, rows])
        multiply(grads.swapaxes(1, 2), queries[images, rows], by_k[images, seen], accumulate=True)
        multiply(weights.swapaxes(1, 2), own, by_v[images, seen], accumulate=True)
    for part, found in zip(parts, (by_q, by_k, by_v)):
        part[...] = found.reshape(part.shape)


def blocks_of_weights(heads: Heads) -> Iterator[tuple[slice, slice, ndarray]]:
    """Yields slices of the matrices and of their queries, and the weights that these give the keys.

    With a causal mask, keys that no query of a block sees are left out.
    """
    q, k, _, mask, causal, scale = heads
    working = working_dtype(q)
    queries, keys = stack_of_heads(q), stack_of_heads(k)
    total, count, length = len(queries), q.shape[2], k.shape[2]
    fit = max(1, MOST_SCORE_BYTES // (length * working.itemsize))
    many = max(1, fit // count)
    kind = mask_kind(mask)
    by_mask = (0, 0, 0, 0) if mask is None else strides_of(mask)
    for first in range(0, total, many):
        images = slice(first, min(first + many, total))
        for row in range(0, count, fit):
            rows = slice(row, min(row + fit, count))
            seen = min(length, rows.stop) if causal else length
            shape = (images.stop - first, rows.stop - row, seen)
            scores = cupy.empty(shape, working)
            multiply(queries[images, rows], keys[images, :seen].swapaxes(1, 2), scores)
            weights = scores if working == q.dtype else cupy.empty(shape, q.dtype)
            ATTENTION_WEIGHTS(
                block_types(q), shape[0] * shape[1], SMALL_BLOCK_THREADS, scores, weights,
                heads.masking, first, row, shape[1], seen, q.shape[1], int(causal),
                kind, *by_mask, scale,
            )  # fmt: skip
            yield images, rows, weights


def working_dtype(q: ndarray) -> DType:
    """Returns the dtype in which scores are added up."""
    name: str = q.dtype.name
    return np.dtype(WORKING.get(name, name))


def block_types(q: ndarray) -> str:
    """Returns the template arguments of the kernels that work on blocks."""
    return f"{c_type(working_dtype(q))}, {c_type(q.dtype)}"


def stack_of_heads(x: ndarray) -> ndarray:
    """Returns an array with its first two axes as one."""
    return x.reshape(x.shape[0] * x.shape[1], *x.shape[2:])
