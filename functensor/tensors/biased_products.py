"""Products of tensors and what is added to them, in one pass and with the nodes of both steps."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..backends import blas_calls
from ..primitives.core.registry import registry as ops
from ..primitives.core.trace import slot
from ..traces.reverse import make_node
from .grad_mode import mode
from .tape import TAPE

__all__ = ["rows_with_bias"]

# The dtypes that BLAS multiplies and that are as wide as PyTorch's.
FLOATS = "fd"


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
    if slot.trace is not None:
        return None
    buffers = []
    for operand in (x, weight, bias):
        if not isinstance(operand, TAPE.tracer) or operand.owner is not TAPE:
            return None
        buffers.append(operand._data)
    rows, columns, row = buffers
    if not type(rows) is type(columns) is type(row) is np.ndarray or not rows.size:
        return None
    dtype = rows.dtype
    if dtype.char not in FLOATS or dtype != columns.dtype or dtype != row.dtype:
        return None
    outputs, inputs = columns.shape
    if row.shape != (outputs,):
        return None
    if rows.ndim == 2:
        sums = blas_calls.biased_product(rows, columns.T, row)
    else:
        matrix = rows.reshape(-1, inputs)
        sums = blas_calls.biased_product(matrix, columns.T, row)
        sums = sums.reshape(*rows.shape[:-1], outputs)
    return TAPE.wrap(sums, sum_node(x.node, weight.node, bias.node, buffers, sums, params))


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
    mask = (product is not None) + 2 * (bias is not None)
    if not mask:
        return None
    saved = ops["add"].keepers[mask](sums, (sums, buffers[2]))
    return make_node(ops["add"], (product, bias), saved, {}, sums)
