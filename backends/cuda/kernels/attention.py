"""Attention on a GPU: by cuDNN where it is there, by kernels, or by blocks of cuBLAS products.

No way holds more than a block of the scores. The kernels take heads of up to 128 numbers in float32
and in 16 bits, on GPUs with matrix units for them; blocks take everything else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from math import prod
from typing import Any, NamedTuple
from weakref import ref

import cupy
import numpy as np
from cupy import ndarray

from ...annotations import DType, Shape
from ...arrays.nn_formulas import stacked_shape
from ...config import config
from .. import cudnn
from ..annotations import Heads
from ..index_tables import table
from ..launch import Kernel
from ..row_layout import limit
from ..strides import strides_of
from .attention_by_products import backward_by_blocks, forward_by_blocks, mask_kind

__all__ = ["ATTENTION_FUNCTIONS", "attention", "attention_grad"]

ATTENTION_BLOCK_THREADS = 128
# The rows that a block of threads of the kernels owns, and those of the tiles that it goes over.
OWN_ROWS = 64
TILE_ROWS = 32
TILE_WIDTHS = (64, 128)
# The words of 32 bits behind the numbers of a tile's row.
PADDING_WORDS = 4
# Rows of queries of at most so many bytes, padding included, are held in registers.
LARGEST_HELD_ROW_BYTES = 256 + 4 * PADDING_WORDS
# The type that a kernel multiplies with, by dtype and config.matmul_precision.
PRODUCTS = {
    ("float32", "highest"): "full_t",
    ("float32", "tf32"): "tf32_t",
    ("float16", "highest"): "pair_t<half_t>",
    ("bfloat16", "highest"): "pair_t<bfloat16_t>",
}
KERNEL_DTYPES = {name for name, _ in PRODUCTS}
INSTANCES = tuple(f"{product}, {width}" for product in PRODUCTS.values() for width in TILE_WIDTHS)

FORWARD_INSTANCES = tuple(f"{t}, {64 if t.endswith('64') else 32}" for t in INSTANCES)
ATTENTION_FORWARD = Kernel("attention", "attention_forward", "pppppppd", FORWARD_INSTANCES)
ATTENTION_BY_QUERY = Kernel("attention", "attention_by_query", "ppppppppppd", INSTANCES)
ATTENTION_BY_KEY = Kernel("attention", "attention_by_key", "pppppppppd", INSTANCES)


def attention(
    q: ndarray, k: ndarray, v: ndarray, mask: ndarray | None = None, *, causal: bool, scale: float,
    learned: bool = False,
) -> ndarray:
    """Returns ``softmax(scale * q @ k^T + mask) @ v``; a query that sees no key gets zeros."""
    heads = Heads(four_axes(q), four_axes(k), four_axes(v), four_mask(mask, q, k), causal, scale)
    out, sums = launches_of(heads).forward(heads)
    if q.ndim != 4:
        out = out.reshape(*q.shape[:-1], v.shape[-1])
    remember(out, q, k, sums)
    return out


def attention_grad(
    g: ndarray, out: ndarray, q: ndarray, k: ndarray, v: ndarray, mask: ndarray | None = None, *,
    causal: bool, scale: float,
) -> ndarray:
    """Returns the gradients of q, k and v, stacked, for that of ``attention``'s output."""
    heads = Heads(four_axes(q), four_axes(k), four_axes(v), four_mask(mask, q, k), causal, scale)
    launches = launches_of(heads)
    sums = recalled(out, q, k)
    if sums is None:
        # The output comes from elsewhere, so the sums of its rows were not kept.
        sums = launches.forward(heads)[1]
    stacked = launches.backward(four_axes(g), four_axes(out), heads, sums)
    return stacked if q.ndim == 4 else stacked.reshape(3, *q.shape[:-2], *stacked.shape[3:])


# -- the logarithms of the rows' sums, which the forward pass keeps for the backward pass

SUMS_OF_OUTPUTS: dict[int, tuple[ref[Any], ref[Any], ref[Any], RowSums]] = {}


def remember(out: ndarray, q: ndarray, k: ndarray, sums: RowSums) -> None:
    """Keeps the sums of an output's rows for as long as the output lives."""
    key = id(out)
    gone = ref(out, lambda _: SUMS_OF_OUTPUTS.pop(key, None))
    SUMS_OF_OUTPUTS[key] = gone, ref(q), ref(k), sums


def recalled(out: ndarray, q: ndarray, k: ndarray) -> RowSums | None:
    """Returns the sums that were kept with the output of given operands; None without any."""
    found = SUMS_OF_OUTPUTS.get(id(out))
    if found is None or found[0]() is not out or found[1]() is not q or found[2]() is not k:
        return None
    return found[3]


class RowSums(NamedTuple):
    """The companion of an output: the way it was made, and the logarithms of its rows' sums."""

    way: str  # cudnn, kernels, blocks, or nothing
    values: ndarray | None = None


# -- launches: all that follows from shapes and strides

LAUNCHES: dict[tuple[Any, ...], AttentionLaunches] = {}
# All launches are forgotten when there are so many.
MOST_LAUNCHES = 1024


def launches_of(heads: Heads) -> AttentionLaunches:
    """Returns the launches for operands of four axes."""
    q, k, v, mask, causal, _ = heads
    pointers = q.data.ptr | k.data.ptr | v.data.ptr
    key = (
        q.dtype,
        *(q.shape, q.strides, k.shape, k.strides, v.shape, v.strides),
        *(pointers % 16, q.data.device_id, causal, cudnn.available(), config.matmul_precision),
        None if mask is None else (mask.dtype, mask.strides),
    )
    launches = LAUNCHES.get(key)
    if launches is None:
        if len(LAUNCHES) >= MOST_LAUNCHES:
            LAUNCHES.clear()
        launches = LAUNCHES[key] = AttentionLaunches(heads)
    return launches


class AttentionLaunches:
    """The launches of attention for operands of given shapes and strides.

    Attributes:
        way: ``kernels``, ``blocks``, or ``nothing``.
        fused: whether cuDNN is asked first.
        shape, stacked: those of the output and of the gradients.
        turned: whether heads lie between rows and columns in memory, as they do in the queries.
        joined: whether the rows of queries, keys and values are joined in memory, as gradients are.
        whole: whether the gradients fill the array that they are stacked in.
        width, types, images: the kernels' width, types, and how many images they go over.
        tables: those by which kernels know shapes and strides, by the strides that come later.
    """

    def __init__(self, heads: Heads) -> None:
        q, k, v = heads[:3]
        self.shape = (*q.shape[:3], v.shape[3])
        self.stacked = stacked_shape(q.shape, k.shape, v.shape)
        self.turned = q.strides[1] < q.strides[2]
        self.whole = q.size + k.size + v.size == prod(self.stacked)
        self.joined = self.whole and all(map(lies_between_others, heads[:3]))
        self.fused = False
        self.images = q.shape[0] * q.shape[1]
        needed = max(q.shape[-1], v.shape[-1])
        self.width = next((width for width in TILE_WIDTHS if width >= needed), None)
        self.types = ""
        self.tables: dict[tuple[Any, ...], ndarray] = {}
        if not (prod(q.shape[:3]) and v.size):
            self.way = "nothing"
            return
        self.fused = cudnn.takes_attention(heads)
        self.way = "blocks"
        name = q.dtype.name
        if self.width and q.shape[3] and name in KERNEL_DTYPES:
            needed = self.memory(q, 2 * OWN_ROWS + 4 * TILE_ROWS) + 4 * 4 * TILE_ROWS
            if needed <= shared_limit(q.data.device_id):
                self.way = "kernels"
                precision = config.matmul_precision if name == "float32" else "highest"
                self.types = f"{PRODUCTS[name, precision]}, {self.width}"

    def forward(self, heads: Heads) -> tuple[ndarray, RowSums]:
        """Returns the output and its companion."""
        dtype = heads.q.dtype
        if self.way == "nothing":
            return cupy.zeros(self.shape, dtype), RowSums("nothing")
        out = self.empty(self.shape, dtype)
        if self.fused:
            values = cudnn.attention(heads, out)
            if values is not None:
                return out, RowSums("cudnn", values)
        if self.way == "kernels":
            return out, RowSums("kernels", self.forward_by_kernels(heads, out))
        forward_by_blocks(heads, out)
        return out, RowSums("blocks")

    def backward(self, g: ndarray, out: ndarray, heads: Heads, sums: RowSums) -> ndarray:
        """Returns the gradients, stacked."""
        dtype = heads.q.dtype
        stacked = self.empty_stacked(dtype)
        if sums.way == "nothing" or not self.whole:
            stacked.fill(0)
        if sums.way == "nothing":
            return stacked
        if self.whole:
            parts = [stacked[i] for i in range(3)]
        else:
            shapes = (x.shape for x in heads[:3])
            parts = [stacked[i, :, :, : s[2], : s[3]] for i, s in enumerate(shapes)]
        if sums.way == "cudnn":
            if cudnn.attention_grad(g, out, heads, sums.values, parts):
                return stacked
            # cuDNN has no backward pass for this: the forward pass runs again in another way.
            sums = RowSums(self.way)
            if self.way == "kernels":
                spare = self.empty(self.shape, dtype)
                sums = RowSums("kernels", self.forward_by_kernels(heads, spare))
        if sums.way == "kernels":
            self.backward_by_kernels(g, out, heads, sums.values, parts)
        else:
            backward_by_blocks(g, out, heads, parts)
        return stacked

    def empty(self, shape: Shape, dtype: DType) -> ndarray:
        """Returns an array without values whose heads lie in memory as those of the queries do.

        Heads are often split off from the columns, (images, rows, heads, columns), and are to be
        joined to them again, which then takes no copy.
        """
        if not self.turned:
            return cupy.empty(shape, dtype)
        return cupy.empty((*shape[:-3], shape[-2], shape[-3], shape[-1]), dtype).swapaxes(-3, -2)

    def empty_stacked(self, dtype: DType) -> ndarray:
        """Returns an array for the gradients.

        Queries, keys and values are often split off from the columns of one array, and their
        gradients are to be joined to that of the array, which then takes no copy.
        """
        if not self.joined:
            return self.empty(self.stacked, dtype)
        three, images, heads, rows, width = self.stacked
        return cupy.empty((images, rows, three, heads, width), dtype).transpose(2, 0, 3, 1, 4)

    def memory(self, q: ndarray, rows: int) -> int:
        """Returns the bytes of so many rows of tiles."""
        width = self.width or 0
        return rows * (width * int(q.itemsize) + 4 * PADDING_WORDS)

    def forward_by_kernels(self, heads: Heads, out: ndarray) -> ndarray:
        """Writes the output and returns the logarithms of the rows' sums, to base 2."""
        q, k, v = heads[:3]
        key = out.strides
        shape = self.tables.get(key)
        if shape is None:
            shape = self.tables[key] = shape_of_call(heads, out)
        queries = q.shape[2]
        sums = cupy.empty((self.images, queries), np.float32)
        tile = OWN_ROWS if self.width == TILE_WIDTHS[0] else TILE_ROWS
        held = self.memory(q, 1) <= LARGEST_HELD_ROW_BYTES
        ATTENTION_FORWARD(
            f"{self.types}, {tile}", -(-queries // OWN_ROWS) * self.images,
            ATTENTION_BLOCK_THREADS, q, k, v, heads.masking, out, sums, shape, heads.scale,
            shared=self.memory(q, 4 * tile + (0 if held else OWN_ROWS)),
        )  # fmt: skip
        return sums

    def backward_by_kernels(
        self, g: ndarray, out: ndarray, heads: Heads, sums: ndarray, parts: Sequence[ndarray]
    ) -> None:
        """Writes the gradients of q, k and v."""
        q, k, v = heads[:3]
        key = g.strides, out.strides, (g.data.ptr | out.data.ptr) % 16
        shape = self.tables.get(key)
        if shape is None:
            shape = self.tables[key] = shape_of_call(heads, out, g, parts)
        queries, keys = q.shape[2], k.shape[2]
        shares = cupy.empty((self.images, queries), np.float32)
        shared = self.memory(q, 2 * OWN_ROWS + 4 * TILE_ROWS)
        masked, grads, scale = heads.masking, parts[0], heads.scale
        ATTENTION_BY_QUERY(
            self.types, -(-queries // OWN_ROWS) * self.images, ATTENTION_BLOCK_THREADS,
            g, out, q, k, v, masked, sums, shares, grads, shape, scale, shared=shared,
        )  # fmt: skip
        ATTENTION_BY_KEY(
            self.types, -(-keys // OWN_ROWS) * self.images, ATTENTION_BLOCK_THREADS,
            g, q, k, v, masked, sums, shares, grads, shape, scale, shared=shared,
        )  # fmt: skip


# -- layouts


def four_axes(x: ndarray) -> ndarray:
    """Returns an array (..., rows, columns) as (images, heads, rows, columns), rows contiguous."""
    if x.ndim != 4:
        lead = x.shape[:-2]
        x = x.reshape(prod(lead[:-1]), lead[-1] if lead else 1, *x.shape[-2:])
    if x.strides[3] != x.itemsize and x.shape[3] > 1:
        x = cupy.ascontiguousarray(x)
    return x


def four_mask(mask: ndarray | None, q: ndarray, k: ndarray) -> ndarray | None:
    """Returns a mask that broadcasts to the scores as (images, heads, queries, keys)."""
    if mask is None:
        return None
    if mask.dtype.kind != "b" and mask.dtype != q.dtype:
        mask = mask.astype(q.dtype)
    lead = q.shape[:-2]
    whole = (prod(lead[:-1]), lead[-1] if lead else 1, q.shape[-2], k.shape[-2])
    own = (1,) * (len(lead) + 2 - mask.ndim) + mask.shape
    images = own[: max(len(lead) - 1, 0)]
    if prod(images) not in (1, whole[0]):
        mask = cupy.broadcast_to(mask.reshape(own), (*lead[:-1], *own[-3:]))
        images = lead[:-1]
    heads = own[-3] if lead else 1
    return cupy.broadcast_to(mask.reshape(prod(images), heads, *own[-2:]), whole)


# -- kernels


@cache
def shared_limit(device: int) -> int:
    """Returns how much shared memory a block of threads may have; 0 without matrix units."""
    has_units = int(cupy.cuda.Device(device).compute_capability) >= 80
    return limit("shared", device) if has_units else 0


def shape_of_call(
    heads: Heads, out: ndarray, g: ndarray | None = None, grads: Sequence[ndarray] = ()
) -> ndarray:
    """Returns the table by which kernels know their operands: ``shape_t`` in attention.cu."""
    q, k, v, mask, causal, _ = heads
    loads = [q, k, v] if g is None else [q, k, v, g]
    wide = all(map(is_wide, loads)) | is_wide(out) << 1 | all(map(is_wide, grads)) << 2
    kind = mask_kind(mask)
    by_grad = (0, 0, 0, 0)
    if grads:
        first, second = (x.data.ptr for x in grads[:2])
        by_grad = ((second - first) // q.itemsize, *head_strides(grads[0]))
    return table(
        (
            *(q.shape[1], q.shape[0] * q.shape[1], q.shape[2], k.shape[2], q.shape[3], v.shape[3]),
            *(int(causal), kind, wide),
            *(step for x in (q, k, v, out) for step in head_strides(x)),
            *(head_strides(g) if g is not None else (0, 0, 0)),
            *((0, 0, 0, 0) if mask is None else strides_of(mask)),
            *by_grad,
        ),
        q.data.device_id,
    )


def head_strides(x: ndarray) -> Shape:
    """Returns the strides of images, heads and rows in elements."""
    return strides_of(x)[:3]


def lies_between_others(x: ndarray) -> bool:
    """Says whether rows lie in memory as the first of three: behind each is room for two others."""
    _, heads, _, width = x.shape
    own = (width * x.itemsize, 3 * heads * width * x.itemsize, x.itemsize)
    return all(n == 1 or s == t for n, s, t in zip(x.shape[1:], x.strides[1:], own, strict=True))


def is_wide(x: ndarray) -> bool:
    """Says whether the rows of an array can be read and written 16 bytes at a time."""
    aligned = (x.data.ptr, *x.strides[:3], x.shape[3] * x.itemsize)
    return not any(number % 16 for number in aligned)


ATTENTION_FUNCTIONS: dict[str, Callable[..., ndarray]] = {
    "attention": attention,
    "attention_grad": attention_grad,
}
