"""Attention: means of values, weighted by how well their keys fit queries."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

import numpy as np

from ..backends.annotations import DType
from ..numpy.creation import asarray
from ..primitives.core.annotations import ArrayLike, of_arrays
from ..primitives.core.annotations import operations as ops
from ..primitives.core.array import Array, Tracer
from ..primitives.core.derivative_rules import shape_of
from ..primitives.core.errors import ShapeError, describe, misfit
from ..primitives.core.shape_dtype import result_type
from ..primitives.nn.attention import attention as attend
from ..primitives.nn.attention import check_shapes

__all__ = ["attention", "scaled_dot_product_attention"]


@of_arrays
def attention(
    q: ArrayLike,
    k: ArrayLike,
    v: ArrayLike,
    mask: ArrayLike | None = None,
    causal: bool = False,
    *,
    scale: float | None = None,
) -> Array:
    """Returns means of values, weighted by how well their keys fit queries.

    Vaswani et al., https://arxiv.org/abs/1706.03762: ``softmax(scale * q @ k^T) @ v``. Never more
    than a block of the scores is in memory, in the gradient as well; derivatives by a mask and
    those of higher order hold all of them.

    Args:
        q: queries of shape (..., queries, width).
        k: keys of shape (..., keys, width).
        v: values of shape (..., keys, outputs).
        mask: which keys a query sees: booleans, or numbers to be added to the scores, of a shape
            that broadcasts to (..., queries, keys); None for all.
        causal: whether query i sees only keys 0 to i.
        scale: by what products are multiplied; None for ``1 / sqrt(width)``.

    Returns:
        An array of shape (..., queries, outputs). A query that sees no key gets zeros.

    Raises:
        ShapeError: the shapes do not fit.
        TypeError: queries, keys or values are complex.

    >>> import functensor.numpy as np
    >>> from functensor import nn
    >>> x = np.arange(6.0).reshape(3, 2)
    >>> nn.attention(x, x, x, causal=True)[0].tolist()
    [0.0, 1.0]
    """
    operands = [asarray(x) for x in (q, k, v)]
    dtype = common_dtype(operands)
    shapes = [x.shape for x in operands]
    if min(map(len, shapes)) < 2:
        raise _misfit(shapes)
    lead, *leads = [shape[:-2] for shape in shapes]
    if leads != [lead, lead]:
        try:
            lead = np.broadcast_shapes(lead, *leads)
        except ValueError:
            raise _misfit(shapes) from None
    for i, x in enumerate(operands):
        if x.dtype != dtype:
            x = ops.astype(x, dtype)
        if x.shape[:-2] != lead:
            x = ops.broadcast_to(x, (*lead, *x.shape[-2:]))
        operands[i] = x
    if mask is not None:
        mask = asarray(mask)
        if mask.dtype.kind != "b" and mask.dtype != dtype:
            mask = ops.astype(mask, dtype)
        operands.append(mask)
    check_shapes("attention", [x.shape for x in operands])
    width = shapes[0][-1]
    if scale is None:
        scale = 1 / sqrt(width) if width else 1.0
    # The derivative of a traced mask may be asked for, which takes the memory of all scores.
    learned = isinstance(mask, Tracer)
    return attend.bind(
        operands, {"causal": bool(causal), "scale": float(scale), "learned": learned}
    )


def common_dtype(operands: Sequence[Array]) -> DType:
    """Returns the dtype in which attention of queries, keys and values is computed.

    Raises:
        TypeError: they are complex.
    """
    first, *others = [x.dtype for x in operands]
    dtype = first if others == [first, first] else result_type(first, *others)
    if dtype.kind == "c":
        wrong = next(x for x in operands if x.dtype.kind == "c")
        raise TypeError(f"attention takes real queries, keys and values, not {describe(wrong)}")
    return np.dtype(float) if dtype.kind in "biu" else dtype


def _misfit(shapes: list[tuple[int, ...]]) -> ShapeError:
    q, k, v = shapes
    return misfit(
        f"attention: queries of shape {q}, keys {k}, values {v}",
        "give queries (..., queries, width), keys (..., keys, width), values (..., keys, "
        "outputs), whose other axes broadcast",
    )


@of_arrays
def scaled_dot_product_attention(
    query: ArrayLike,
    key: ArrayLike,
    value: ArrayLike,
    attn_mask: ArrayLike | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Array:
    """Returns `attention` under the name and with the arguments that it has in PyTorch.

    Args:
        query, key, value: queries (..., queries, width), keys (..., keys, width), values (...,
            keys, outputs).
        attn_mask: booleans, true where a query sees a key, or numbers to be added; None for all.
        dropout_p: 0; random numbers need a key here, as `dropout` takes one.
        is_causal: whether query i sees only keys 0 to i.
        scale: by what products are multiplied; None for ``1 / sqrt(width)``.
        enable_gqa: whether several heads of queries share one of keys and values: the third axis
            from the end of the former is a multiple of that of the latter.

    Returns:
        An array of shape (..., queries, outputs).

    Raises:
        ShapeError: the shapes do not fit.
        ValueError: dropout is asked for.

    >>> import functensor.numpy as np
    >>> from functensor import nn
    >>> heads = np.ones((2, 4, 3, 8))
    >>> nn.scaled_dot_product_attention(heads, heads, heads, is_causal=True).shape
    (2, 4, 3, 8)
    """
    if dropout_p:
        raise ValueError(
            f"scaled_dot_product_attention: dropout_p={dropout_p}, but there is no key for random "
            "numbers; nn.dropout(x, key, rate) of what comes out of the layer takes one"
        )
    if enable_gqa:
        heads, shared = (shape_of(x)[-3] for x in (query, key))
        if heads % max(shared, 1):
            raise _misfit([shape_of(x) for x in (query, key, value)])
        key, value = (ops.repeat(x, heads // max(shared, 1), -3) for x in (key, value))
    return attention(query, key, value, attn_mask, is_causal, scale=scale)
