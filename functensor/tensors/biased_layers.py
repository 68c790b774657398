"""Biases of layers of tensors, added where the result lies, with the nodes of all steps."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..backends import blas_calls
from ..backends.arrays.channel_sums import add_to_channels
from ..primitives.core.registry import registry as ops
from ..primitives.core.trace import slot
from ..traces.reverse import make_node
from .grad_mode import mode
from .tape import TAPE

__all__ = ["images_with_bias", "rows_with_bias"]

# The dtypes that BLAS multiplies and that are as wide as PyTorch's.
MULTIPLIED_BY_BLAS = "fd"


def rows_with_bias(x: Any, weight: Any, bias: Any, params: dict[str, Any]) -> Any:
    """Returns ``x @ weight.T + bias`` of tensors on the CPU, with the bits of the two steps.

    A product is written once, with the bias in it, where machine code of our own computes it.
    Elsewhere the bias is added in the product's memory.

    Args:
        x: a tensor of shape (..., inputs).
        weight: of shape (outputs, inputs).
        bias: of shape (outputs,).
        params: the parameters of the product as an ``einsum`` of x and weight.

    Returns:
        A tensor; None where the steps are to be done one by one, for transformations and hooks
        that see each, and for operands of other kinds.
    """
    buffers = buffers_at_hand(x, weight, bias)
    if buffers is None:
        return None
    rows, columns, row = buffers
    outputs, inputs = columns.shape
    if row.shape != (outputs,) or not rows.size:
        return None
    if rows.ndim == 2:
        sums = blas_calls.biased_product(rows, columns.T, row)
    else:
        matrix = rows.reshape(-1, inputs)
        sums = blas_calls.biased_product(matrix, columns.T, row)
        sums = sums.reshape(*rows.shape[:-1], outputs)
    return TAPE.wrap(sums, sum_node(x.node, weight.node, bias.node, buffers, sums, params))


def buffers_at_hand(*operands: Any) -> list[Any] | None:
    """Returns the buffers of tensors that NumPy computes with in one dtype, and nobody looks on."""
    if slot.trace is not None:
        return None
    buffers = []
    for operand in operands:
        if not isinstance(operand, TAPE.tracer) or operand.owner is not TAPE:
            return None
        buffers.append(operand._data)
    dtype = getattr(buffers[0], "dtype", None)
    if dtype is None or dtype.char not in MULTIPLIED_BY_BLAS:
        return None
    if any([type(x) is not np.ndarray or x.dtype != dtype for x in buffers]):  # noqa: C419 - quicker
        return None
    return buffers


def images_with_bias(images: Any, bias: Any) -> Any:
    """Returns images with a number added to each channel, in their own memory where that may be.

    Args:
        images: the result of a convolution, which the caller alone holds: (batch, channels, ...).
        bias: a tensor of shape (channels,).
    """
    shape = bias.shape[0], *(1,) * (len(images.shape) - 2)
    buffers = buffers_at_hand(images, bias)
    if buffers is None or has_kept_elements(images) or not buffers[0].flags.writeable:
        return images + ops.reshape(bias, shape)
    column = ops.reshape(bias, shape)
    add_to_channels(*buffers)
    node = None
    if mode.enabled:
        node = node_of_sum(images.node, column.node, buffers[0], column._data)
    return TAPE.wrap(buffers[0], node)


def has_kept_elements(x: Any) -> bool:
    """Says whether the node of a tensor has kept its elements for the backward pass."""
    return x.node is not None and any(kept is x._data for kept in x.node.saved)


def sum_node(
    x: Any, weight: Any, bias: Any, buffers: list[Any], sums: Any, params: dict[str, Any]
) -> Any:
    """Returns the node of such a sum, of the operands' nodes; None where none requires grad.

    The rules of both steps read neither the product nor the sum, only their shape.
    """
    if not mode.enabled:
        return None
    product = None
    mask = (x is not None) + 2 * (weight is not None)
    if mask:
        keep = ops["einsum"].keepers[mask]
        saved = keep(None, buffers[:2])
        product = make_node(ops["einsum"], (x, weight), saved, params, sums)
    return node_of_sum(product, bias, sums, buffers[2])


def node_of_sum(x: Any, bias: Any, sums: Any, added: Any) -> Any:
    """Returns the node of a sum, of the nodes of what was added; None where there are none.

    Args:
        x, bias: the nodes.
        sums: the buffer of the result.
        added: that of the bias.
    """
    mask = (x is not None) + 2 * (bias is not None)
    if not mask:
        return None
    saved = ops["add"].keepers[mask](sums, (sums, added))
    return make_node(ops["add"], (x, bias), saved, {}, sums)
