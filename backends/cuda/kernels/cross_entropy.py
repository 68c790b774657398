"""The cross entropy of integer labels, for CuPy's buffers.

The loss reads the logits once; its derivative reads them once more and writes. Reverse mode
announces that it will ask for the derivative (``AHEAD_FUNCTIONS``). If the logits are large, the
kernel of the loss then writes the derivative as well, while it has the logits in shared memory. It
bets on the cotangent that the last calls had, which for a mean or a sum is the same every time. The
derivative later costs a look at the cotangent, and is computed anew for the rows that have another
one. The bits of the result do not depend on how the bet went.

A label that is none of the classes makes the row's loss and derivative NaN: to raise an error the
GPU would have to be waited for.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NamedTuple
from weakref import ref

import cupy
import numpy as np
from cupy import ndarray

from ...annotations import DType
from ..annotations import GpuOperand
from ..capturing import copied_once, kept_by_graph
from ..launch import WIDEST_LOAD_BYTES, Kernel, c_type, is_contiguous
from ..row_layout import (
    ROW_INSTANCES,
    geometry,
    inexact,
    limit,
    padded_length,
    padded_rows,
    row_strides,
    wide,
    width,
)
from ..strides import common_stride

__all__ = ["AHEAD_FUNCTIONS", "CROSS_ENTROPY_FUNCTIONS", "cross_entropy_with_grad"]

LOSS_PACKS = ("float, 4", "double, 2", "half_t, 8", "bfloat16_t, 8")
LOSS = Kernel("cross_entropy", "loss", "pppplllllll", ROW_INSTANCES)
LOSS_GRAD_TYPES = (
    *(f"{f}, {f.partition(',')[0]}" for f in ROW_INSTANCES),
    *(f"{f}, float" for f in ROW_INSTANCES if "_t" in f),
)
LOSS_GRAD = Kernel("cross_entropy", "loss_grad", "ppppplllllllll", LOSS_GRAD_TYPES)
LOSS_WITH_GRAD = Kernel("cross_entropy", "loss_with_grad", "pppplllllllld", ROW_INSTANCES)
AHEAD_TYPES = tuple(f"{pack}, {biased}" for pack in LOSS_PACKS for biased in ("false", "true"))
LOSS_AHEAD = Kernel("cross_entropy", "ahead", "ppppppppllllll", AHEAD_TYPES)
SETTLE_LOSS_GRAD = Kernel("cross_entropy", "settle", "pppppppllllll", LOSS_PACKS)
# Logits of fewer bytes are still in the GPU's cache when the derivative reads them.
FEWEST_AHEAD_BYTES = 1 << 25
# The threads for which a processor has registers, 64 each; bytes of a block beside the row.
PROCESSOR_THREADS = 1024
RESERVED_SHARED_BYTES = 2048


class Ahead(NamedTuple):
    """A derivative that was written along with the loss.

    Attributes:
        x: the logits.
        out: the derivative.
        staked: for every row, for which cotangent.
        bets: for which cotangent the next one is.
        watch: forgets all that, once nobody can ask for it.
    """

    x: ndarray
    out: ndarray
    staked: ndarray
    bets: ndarray
    watch: ref[ndarray]


# By the id of the loss that reverse mode keeps, which lives as long as it may still ask.
written_ahead: dict[int, Ahead] = {}


def accumulator(dtype: DType) -> DType:
    """Returns the dtype in which values are added up."""
    return np.dtype(np.float64 if dtype.char == "d" else np.float32)


def values_and_step(values: GpuOperand, dtype: DType | None = None) -> tuple[ndarray, int]:
    """Returns values for every row as an array, and the step from one to the next."""
    values = cupy.asarray(values)
    if dtype is not None and values.dtype != dtype:
        values = values.astype(dtype)
    if values.flags.c_contiguous:
        return values, 1
    found = common_stride(values.shape, values.strides)
    if found is None:
        return cupy.ascontiguousarray(values), 1
    return values, found // values.itemsize


def labelled(labels: ndarray) -> tuple[ndarray, int, int]:
    """Returns labels, the step between them, and their number of bytes, negative if signed."""
    labels, between = values_and_step(labels)
    kind = labels.dtype.itemsize
    return labels, between, -kind if labels.dtype.kind == "i" else kind


def losses(x: ndarray, labels: ndarray) -> tuple[ndarray, ndarray]:
    """Returns the losses twice: in the dtype of the logits, and without rounding."""
    x = inexact(x)
    classes, exact = x.shape[-1], accumulator(x.dtype)
    out = cupy.empty(x.shape[:-1], x.dtype)
    precise = out if exact == out.dtype else cupy.empty(out.shape, exact)
    if out.size == 0:
        return out, precise
    x, row, stride = row_strides(x, 1)
    labels, between, kind = labelled(labels)
    types, n = width(x.dtype, wide(x, row, stride, classes))
    count = out.size
    grid, block, single = geometry(x.dtype, count, classes, n)
    LOSS(
        types, grid, block, x, labels, out, precise,
        count, classes, row, stride, kind, between, single,
    )  # fmt: skip
    return out, precise


def cross_entropy(x: ndarray, labels: ndarray) -> ndarray:
    """Returns ``logsumexp(x)`` over the last axis less the logits of the labels."""
    return losses(x, labels)[0]


@cache
def bets_of(device: int, dtype: DType, count: int, classes: int) -> ndarray:
    """Returns two numbers on the device: what to bet on for arrays of a shape, and the latest.

    The first bet is on the cotangent of a mean.
    """
    return cupy.asarray(np.full(2, 1 / count).astype(dtype).astype(accumulator(dtype)))


def row_step(x: ndarray) -> int | None:
    """Returns the elements from row to row; None where rows have gaps, or lie in no such order."""
    if is_contiguous(x):
        return int(x.shape[-1])
    between = common_stride(x.shape[:-1], x.strides[:-1])
    if between is None or between < 0 or x.strides[-1] != x.itemsize:
        return None
    return int(between // x.itemsize)


def ahead_launch(x: ndarray) -> tuple[int, int, int] | None:
    """Returns blocks, threads and bytes of shared memory for rows that fit; None otherwise."""
    dtype, classes = x.dtype, x.shape[-1]
    if (
        x.size == 0
        or x.nbytes < FEWEST_AHEAD_BYTES
        or row_step(x) is None
        or x.data.ptr % WIDEST_LOAD_BYTES
        or not (dtype.char in "efd" or dtype.kind == "V")
    ):
        return None
    n = 16 // dtype.itemsize
    shared = (classes + 2 * n - 2) // n * 16
    device = x.data.device_id
    if shared + RESERVED_SHARED_BYTES > limit("shared", device):
        return None
    resident = limit("shared_of_processor", device) // (shared + RESERVED_SHARED_BYTES)
    threads = PROCESSOR_THREADS if resident < 2 else PROCESSOR_THREADS // 2
    resident = min(resident, PROCESSOR_THREADS // threads)
    return min(x.size // classes, resident * limit("processors", device)), threads, shared


def launch_ahead(
    place: tuple[int, int, int], x: ndarray, labels: ndarray, out: ndarray, exact: ndarray,
    grad: ndarray, bets: ndarray, staked: ndarray, step: int, bias: ndarray | None = None,
) -> None:
    """Launches the kernel that writes a derivative ahead, as `ahead_launch` says.

    Args:
        place: the blocks, threads and bytes of shared memory.
        x, labels: the logits, and their labels.
        out, exact: memory for the losses, rounded and not.
        grad: memory for the derivative.
        bets, staked: what is bet on, and memory for what was for each row.
        step: the elements from row to row of the derivative.
        bias: what is added to each row of the logits.
    """
    grid, block, shared = place
    biased = "false" if bias is None else "true"
    types = f"{c_type(x.dtype)}, {WIDEST_LOAD_BYTES // x.dtype.itemsize}, {biased}"
    labels, between, kind = labelled(labels)
    LOSS_AHEAD(
        types, grid, block, x, labels, out, exact, grad, bets, staked,
        0 if bias is None else bias, out.size, x.shape[-1], kind, between, row_step(x), step,
        shared=shared,
    )  # fmt: skip


def cross_entropy_ahead(x: ndarray, labels: ndarray) -> tuple[ndarray, ndarray]:
    """Returns the loss twice: as ``cross_entropy`` does, and not rounded, for the derivative."""
    place = ahead_launch(x)
    if place is None:
        return losses(x, labels)
    classes, dtype = x.shape[-1], x.dtype
    out = cupy.empty(x.shape[:-1], dtype)
    exact_dtype = accumulator(dtype)
    exact = out.view() if exact_dtype == dtype else cupy.empty(out.shape, exact_dtype)
    grad, staked = cupy.empty(x.shape, dtype), cupy.empty(out.shape, exact_dtype)
    bets = bets_of(x.data.device_id, dtype, out.size, classes)
    launch_ahead(place, x, labels, out, exact, grad, bets, staked, classes)
    key = id(exact)
    watch = ref(exact, lambda _: written_ahead.pop(key, None))
    written_ahead[key] = Ahead(x, grad, staked, bets, watch)
    return out, exact


def cross_entropy_with_grad(
    x: ndarray, labels: ndarray, g: float, padded: bool = False, bias: ndarray | None = None
) -> tuple[ndarray, ndarray]:
    """Returns the loss, and its derivative where the cotangent of every row is one number.

    Args:
        x, labels: the logits, and their labels.
        g: the number.
        padded: whether rows of the derivative begin at multiples of 16 bytes, with zeros between
            them.
        bias: what is added to each row of the logits, in their dtype.
    """
    x = inexact(x)
    classes, dtype = x.shape[-1], x.dtype
    out = cupy.empty(x.shape[:-1], dtype)
    grad = padded_rows(x.shape, dtype) if padded else cupy.empty(x.shape, dtype)
    step = padded_length(classes, dtype.itemsize) if padded else classes
    # For NaN nothing is written ahead.
    place = ahead_launch(x) if g == g else None
    if place is not None:
        exact_dtype = accumulator(dtype)
        exact, staked = cupy.empty(out.shape, exact_dtype), cupy.empty(out.shape, exact_dtype)
        stakes = kept_by_graph(stakes_of(x.data.device_id, exact_dtype, g))
        bias = None if bias is None else cupy.ascontiguousarray(bias)
        launch_ahead(place, x, labels, out, exact, grad, stakes, staked, step, bias)
        return out, grad
    x = x if bias is None else x + bias
    if grad.size:
        x, row, stride = row_strides(x, 1)
        labels, between, kind = labelled(labels)
        types, n = width(x.dtype, wide(x, row, stride, classes))
        grid, block, single = geometry(x.dtype, out.size, classes, n)
        LOSS_WITH_GRAD(
            types, grid, block, x, labels, out, grad,
            out.size, classes, row, stride, kind, between, single, step, g,
        )  # fmt: skip
    return out, grad


@cache
def stakes_of(device: int, dtype: DType, g: float) -> ndarray:
    """Returns a cotangent on the device, as the kernel reads it that bets on one."""
    copied_once()
    return cupy.asarray(np.full(2, g, dtype))


def cross_entropy_grad(x: ndarray, loss: ndarray, g: ndarray, labels: ndarray) -> ndarray:
    """Returns ``g * (exp(x - loss - x[label]) - onehot(label))`` over the last axis."""
    # It is given away once: a second backward pass gets an array of its own.
    entry = written_ahead.pop(id(loss), None)
    if entry is not None and entry.x is x:
        return settled_grad(entry, loss, g, labels)
    x = inexact(x)
    dtype, classes = x.dtype, x.shape[-1]
    out = cupy.empty(x.shape, dtype)
    if out.size == 0:
        return out
    loss, loss_step = values_and_step(loss)
    if loss.dtype != dtype and loss.dtype != accumulator(dtype):
        loss, loss_step = values_and_step(loss, dtype)
    g, g_step = values_and_step(g, dtype)
    x, row, stride = row_strides(x, 1)
    labels, between, kind = labelled(labels)
    types, n = width(dtype, wide(x, row, stride, classes))
    count = out.size // classes
    grid, block, single = geometry(dtype, count, classes, n)
    LOSS_GRAD(
        f"{types}, {c_type(loss.dtype)}", grid, block, x, loss, g, labels, out,
        count, classes, row, stride, loss_step, g_step, kind, between, single,
    )  # fmt: skip
    return out


def settled_grad(entry: Ahead, exact: ndarray, g: ndarray, labels: ndarray) -> ndarray:
    """Returns the derivative that was written ahead, once every row has its true cotangent."""
    x, out = entry.x, entry.out
    dtype, classes = x.dtype, x.shape[-1]
    g, g_step = values_and_step(g, dtype)
    labels, between, kind = labelled(labels)
    grid = min(exact.size, 2 * limit("processors", x.data.device_id))
    SETTLE_LOSS_GRAD(
        f"{c_type(dtype)}, {16 // dtype.itemsize}", grid, PROCESSOR_THREADS // 2,
        x, labels, exact, g, out, entry.bets, entry.staked,
        exact.size, classes, g_step, kind, between, row_step(x),
    )  # fmt: skip
    return out


CROSS_ENTROPY_FUNCTIONS: dict[str, Callable[..., ndarray]] = {
    "cross_entropy": cross_entropy,
    "cross_entropy_grad": cross_entropy_grad,
}
# These replace the former where reverse mode will ask for a derivative. They return the output, and
# the array that stands for it in the rule.
AHEAD_FUNCTIONS: dict[str, Callable[..., tuple[ndarray, ndarray]]] = {
    "cross_entropy": cross_entropy_ahead
}
