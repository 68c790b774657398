"""Attention without the score matrix: its output, and its gradients as a primitive of their own.

Backends compute both block by block. Only derivatives of the gradients, and those by a mask, are
written with other primitives and hold a score matrix; second derivatives cannot do without it.

With s = scale q k^T + mask, p = softmax(s) and out = p v, the gradients for the cotangent g are

    by v: p^T g,  by q: scale ds k,  by k: scale ds^T q,  where ds = p (g v^T - sum(g out)).

Dao et al., https://arxiv.org/abs/2205.14135.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Any

import numpy as np

from ...backends.annotations import Buffer, Shape
from ...backends.arrays.nn_formulas import stacked_shape
from ..core.annotations import ArrayLike, Prepared, Value
from ..core.annotations import operations as ops
from ..core.array import Array
from ..core.derivative_rules import shape_of
from ..core.errors import misfit
from ..core.families import filled_operands
from ..core.primitive import Primitive
from ..core.shape_dtype import ShapeDtype
from ..core.test_samples import LOGICAL, Operand, Sample

__all__ = ["attention", "attention_grad", "check_shapes"]


# -- shapes and batching


def check_shapes(name: str, shapes: Sequence[Shape]) -> None:
    """Checks that operands fit together, on which kernels rely.

    Args:
        name: the primitive, for messages.
        shapes: those of queries, keys and values, and of a mask if there is one.

    Raises:
        ShapeError: they do not.
    """
    q, k, v, *masks = shapes
    mask = masks[0] if masks else None
    fits = (
        min(len(q), len(k), len(v)) >= 2
        and q[:-2] == k[:-2] == v[:-2]
        and q[-1] == k[-1]
        and k[-2] == v[-2]
    )
    if fits and mask is not None:
        full = (*q[:-1], k[-2])
        fits = len(mask) <= len(full) and all(m in (1, n) for m, n in zip(mask[::-1], full[::-1]))
    if not fits:
        with_mask = "" if mask is None else f" and a mask of shape {mask}"
        raise misfit(
            f"{name}: queries of shape {q}, keys {k}, values {v}{with_mask}",
            "give queries (..., queries, width), keys (..., keys, width), values (..., "
            "keys, outputs), and a mask that broadcasts to (..., queries, keys)",
        )


def _prepare_attention(
    q: ArrayLike,
    k: ArrayLike,
    v: ArrayLike,
    mask: ArrayLike | None = None,
    *,
    causal: bool = False,
    scale: float = 1.0,
    learned: bool = True,
) -> Prepared:
    operands = (q, k, v) if mask is None else (q, k, v, mask)
    check_shapes("attention", [shape_of(x) for x in operands])
    return operands, {"causal": bool(causal), "scale": float(scale), "learned": bool(learned)}


def _infer_attention(primitive: Primitive, *operands: ShapeDtype, **params: Any) -> ShapeDtype:
    check_shapes(primitive.name, [x.shape for x in operands])
    q, _, v, *_ = operands
    return ShapeDtype((*q.shape[:-1], v.shape[-1]), q.dtype)


def _infer_attention_grad(primitive: Primitive, *operands: ShapeDtype, **params: Any) -> ShapeDtype:
    g, out, q, k, v, *masks = operands
    wanted = _infer_attention(primitive, q, k, v, *masks).shape
    if g.shape != wanted or out.shape != wanted:
        raise misfit(
            f"{primitive.name}: a cotangent of shape {g.shape} and an output of {out.shape}",
            f"give arrays of shape {wanted}",
        )
    return ShapeDtype(stacked_shape(q.shape, k.shape, v.shape), q.dtype)


def _with_batch_axes(values: Sequence[Value], flags: Sequence[bool], arrays: int) -> list[Value]:
    """Returns operands that all have a batch axis; a mask without one stays as it is."""
    out: list[Value]
    if any(flags[:arrays]):
        out = filled_operands(values[:arrays], [*flags[:arrays]])
    else:
        size = shape_of(values[arrays])[0]
        out = [ops.broadcast_to(v, (size, *shape_of(v))) for v in values[:arrays]]
    if len(values) > arrays:
        mask = values[arrays]
        if flags[arrays]:
            shape = shape_of(mask)
            between = len(shape_of(out[-1])) - len(shape)
            mask = ops.reshape(mask, (shape[0], *(1,) * between, *shape[1:]))
        out.append(mask)
    return out


def _batch_attention(
    primitive: Primitive, values: Sequence[Value], flags: Sequence[bool], params: dict[str, Any]
) -> Array:
    return primitive.bind(_with_batch_axes(values, flags, 3), params)


def _batch_attention_grad(
    primitive: Primitive, values: Sequence[Value], flags: Sequence[bool], params: dict[str, Any]
) -> Array:
    return ops.moveaxis(primitive.bind(_with_batch_axes(values, flags, 5), params), 1, 0)


# -- the formula, written with other primitives


def _attention_scores(q: Array, k: Array, mask: Array | None, causal: bool, scale: float) -> Array:
    scores = ops.matmul(ops.multiply(q, scale), k.mT)
    if mask is not None:
        if mask.dtype.kind == "b":
            scores = ops.where(mask, scores, -inf)
        else:
            scores = ops.add(scores, mask)
    if causal:
        # A mask computed from the scores is on their device.
        everywhere = ops.logical_or(ops.isfinite(scores), True)
        scores = ops.where(ops.tril(everywhere), scores, -inf)
    return scores


def _softmax_rows(scores: Array) -> Array:
    """Returns the softmax of rows; zeros for one that is minus infinity throughout."""
    if not shape_of(scores)[-1]:
        return scores
    top = ops.stop_gradient(ops.max(scores, -1, keepdims=True))
    top = ops.where(ops.equal(top, -inf), 0, top)
    powers = ops.exp(ops.subtract(scores, top))
    total = ops.sum(powers, -1, keepdims=True)
    return ops.divide(powers, ops.where(ops.equal(total, 0), 1, total))


def _softmax_grad(x: Array, weights: Array) -> Array:
    """Returns the derivative of softmax where it is ``weights``, which is its own transpose."""
    return ops.multiply(weights, ops.subtract(x, _row_total(ops.multiply(x, weights))))


def _row_total(x: Array) -> Array:
    return ops.sum(x, -1, keepdims=True)


def _by_weight(g: Array, out: Array, v: Array) -> Array:
    """Returns ``g v^T - sum(g out)``: times the weights it is the cotangent of the scores."""
    return ops.subtract(ops.matmul(g, v.mT), _row_total(ops.multiply(g, out)))


def _summed_to(x: Array, shape: Shape) -> Array:
    """Sums an array down to a shape that broadcasts to its own."""
    extra = len(shape_of(x)) - len(shape)
    axes = (*range(extra), *(i + extra for i, n in enumerate(shape) if n == 1))
    return ops.reshape(ops.sum(x, axes), shape) if axes else x


def _moved_scores(
    t_q: Array, t_k: Array, t_mask: Array | None, q: Array, k: Array, scale: float
) -> Array:
    """Returns how the scores move with q, k and, if there is one, a mask."""
    by_q = ops.matmul(ops.multiply(t_q, scale), k.mT)
    moved = ops.add(by_q, ops.matmul(ops.multiply(q, scale), t_k.mT))
    return moved if t_mask is None else ops.add(moved, t_mask)


def _derivable(mask: Array) -> bool:
    return mask.dtype.kind != "b"


def _split_operands(xs: Sequence[Array]) -> tuple[Array, Array, Array, Array | None]:
    """Returns queries, keys, values and a mask, None if there is none."""
    q, k, v, *masks = xs
    return q, k, v, masks[0] if masks else None


# -- the output


def _attention_pullback(
    g: Array, ans: Array, xs: Sequence[Array], *, causal: bool, scale: float, learned: bool
) -> list[Array | None]:
    q, k, v, mask = _split_operands(xs)
    stacked = attention_grad.bind((g, ans, *xs), {"causal": causal, "scale": scale})
    pulled: list[Array | None] = [
        _stacked_part(stacked, i, shape_of(x)) for i, x in enumerate((q, k, v))
    ]
    if mask is not None:
        by_mask = None
        if learned and _derivable(mask):
            weights = _softmax_rows(_attention_scores(q, k, mask, causal, scale))
            by_score = ops.multiply(weights, _by_weight(g, ans, v))
            by_mask = _summed_to(by_score, shape_of(mask))
        pulled.append(by_mask)
    return pulled


def _stacked_part(stacked: Array, number: int, shape: Shape) -> Array:
    """Returns one of three gradients without its padding."""
    if shape_of(stacked)[-2:] == shape[-2:]:
        return stacked[number]
    return stacked[number, ..., : shape[-2], : shape[-1]]


def _attention_pushforward(
    ts: Sequence[Array], xs: Sequence[Array], *, causal: bool, scale: float, learned: bool
) -> Array:
    q, k, v, mask = _split_operands(xs)
    t_q, t_k, t_v, t_mask = _split_operands(ts)
    weights = _softmax_rows(_attention_scores(q, k, mask, causal, scale))
    moved = _moved_scores(t_q, t_k, t_mask, q, k, scale)
    through = ops.matmul(_softmax_grad(moved, weights), v)
    return ops.add(through, ops.matmul(weights, t_v))


def _attention_reference(
    q: Buffer, k: Buffer, v: Buffer, mask: Buffer | None = None, **params: Any
) -> Buffer:
    return np.asarray(_weights_by_definition(q, k, mask, **params) @ v, np.result_type(q))


def _weights_by_definition(
    q: Buffer, k: Buffer, mask: Buffer | None, *, causal: bool, scale: float, learned: bool = False
) -> Buffer:
    scores = scale * (q @ np.swapaxes(k, -1, -2))
    if mask is not None:
        scores = np.where(mask, scores, -inf) if mask.dtype.kind == "b" else scores + mask
    if causal:
        scores = np.where(np.tri(*scores.shape[-2:], dtype=np.bool_), scores, -inf)
    powers = np.exp(scores)
    total = np.maximum(np.sum(powers, -1, keepdims=True), np.finfo(powers.dtype).tiny)
    out: Buffer = powers / total
    return out


_FULL = {"causal": False, "scale": 0.5}
_CAUSAL = {"causal": True, "scale": 0.8}

attention = Primitive(
    "attention",
    prepare=_prepare_attention, infer=_infer_attention, batch=_batch_attention,
    pullback=_attention_pullback,
    pushforward=_attention_pushforward,
    reference=_attention_reference,
    samples=[
        Sample((3, 2), (4, 2), (4, 3), **_FULL, learned=True),
        Sample((2, 3, 2), (2, 3, 2), (2, 3, 2), **_CAUSAL, learned=True),
        Sample((1, 2, 4, 2), (1, 2, 3, 2), (1, 2, 3, 2), (2, 1, 3), **_CAUSAL, learned=True),
        Sample((2, 3, 2), (2, 4, 2), (2, 4, 1), Operand((3, 4), LOGICAL), **_FULL, learned=True),
        Sample((0, 3, 2), (0, 4, 2), (0, 4, 3), **_FULL, learned=True),
        Sample((2, 3, 2), (2, 0, 2), (2, 0, 3), **_FULL, learned=True),
    ],
    doc="""Returns ``softmax(scale * q @ k^T + mask) @ v`` and never holds all scores.

    Args:
        q: queries of shape (..., queries, width).
        k: keys of shape (..., keys, width), with the same leading axes and of the same dtype.
        v: values of shape (..., keys, outputs), likewise.
        mask: booleans, or numbers to be added to the scores, of a shape that broadcasts to
            (..., queries, keys); may be left out.
        causal: whether query i sees only keys 0 to i.
        scale: the factor of products.
        learned: whether a mask of numbers has a derivative; it takes as much memory as the scores.

    Returns:
        An array of shape (..., queries, outputs). A query that sees no key gets zeros.
    """,
)


# -- its gradients. The output is an operand too, although it follows from the others.


def _attention_grad_pullback(
    h: Array, ans: Array, xs: Sequence[Array], *, causal: bool, scale: float
) -> list[Array | None]:
    g, out, (q, k, v, mask) = xs[0], xs[1], _split_operands(xs[2:])
    h_q, h_k, h_v = (_stacked_part(h, i, shape_of(x)) for i, x in enumerate((q, k, v)))
    weights = _softmax_rows(_attention_scores(q, k, mask, causal, scale))
    by_weight = _by_weight(g, out, v)
    g_scores = ops.multiply(weights, by_weight)
    moved = _moved_scores(h_q, h_k, None, q, k, scale)
    weighted = ops.multiply(moved, weights)
    share = _row_total(weighted)
    by_scores = _softmax_grad(
        ops.add(ops.multiply(moved, by_weight), ops.matmul(g, h_v.mT)), weights
    )
    pulled: list[Array | None] = [
        ops.add(
            ops.subtract(ops.matmul(weighted, v), ops.multiply(share, out)),
            ops.matmul(weights, h_v),
        ),
        ops.negative(ops.multiply(share, g)),
        ops.multiply(ops.add(ops.matmul(by_scores, k), ops.matmul(g_scores, h_k)), scale),
        ops.multiply(ops.add(ops.matmul(by_scores.mT, q), ops.matmul(g_scores.mT, h_q)), scale),
        ops.matmul(weighted.mT, g),
    ]
    if mask is not None:
        pulled.append(_summed_to(by_scores, shape_of(mask)) if _derivable(mask) else None)
    return pulled


def _attention_grad_pushforward(
    ts: Sequence[Array], ans: Array, xs: Sequence[Array], *, causal: bool, scale: float
) -> Array:
    g, out, (q, k, v, mask) = xs[0], xs[1], _split_operands(xs[2:])
    t_g, t_out, (t_q, t_k, t_v, t_mask) = ts[0], ts[1], _split_operands(ts[2:])
    weights = _softmax_rows(_attention_scores(q, k, mask, causal, scale))
    by_weight = _by_weight(g, out, v)
    g_scores = ops.multiply(weights, by_weight)
    moved = _moved_scores(t_q, t_k, t_mask, q, k, scale)
    t_weights = _softmax_grad(moved, weights)
    t_by_weight = ops.add(ops.matmul(t_g, v.mT), ops.matmul(g, t_v.mT))
    t_share = ops.add(_row_total(ops.multiply(t_g, out)), _row_total(ops.multiply(g, t_out)))
    t_by_weight = ops.subtract(t_by_weight, t_share)
    t_g_scores = ops.add(ops.multiply(t_weights, by_weight), ops.multiply(weights, t_by_weight))
    by_q = ops.add(ops.matmul(t_g_scores, k), ops.matmul(g_scores, t_k))
    by_k = ops.add(ops.matmul(t_g_scores.mT, q), ops.matmul(g_scores.mT, t_q))
    by_v = ops.add(ops.matmul(t_weights.mT, g), ops.matmul(weights.mT, t_g))
    parts = ops.multiply(by_q, scale), ops.multiply(by_k, scale), by_v
    return ops.stack([_padded_part(part, x, ans) for part, x in zip(parts, (q, k, v))])


def _padded_part(part: Array, x: Array, ans: Array) -> Array:
    """Returns a part with as many rows and columns as all parts have together."""
    shape, wanted = shape_of(x), shape_of(ans)[1:]
    widths = [(0, n - m) for m, n in zip(shape, wanted)]
    return part if shape == wanted else ops.pad(part, widths)


def _attention_grad_reference(
    g: Buffer, out: Buffer, q: Buffer, k: Buffer, v: Buffer, *masks: Buffer, **params: Any
) -> Buffer:
    weights = _weights_by_definition(q, k, masks[0] if masks else None, **params)
    g_scores = weights * (g @ np.swapaxes(v, -1, -2) - np.sum(g * out, -1, keepdims=True))
    stacked = np.zeros(stacked_shape(q.shape, k.shape, v.shape), np.result_type(q))
    stacked[0, ..., : q.shape[-2], : q.shape[-1]] = params["scale"] * (g_scores @ k)
    stacked[1, ..., : k.shape[-2], : k.shape[-1]] = params["scale"] * (
        np.swapaxes(g_scores, -1, -2) @ q
    )
    stacked[2, ..., : v.shape[-2], : v.shape[-1]] = np.swapaxes(weights, -1, -2) @ g
    return stacked


attention_grad = Primitive(
    "attention_grad",
    infer=_infer_attention_grad, batch=_batch_attention_grad,
    pullback=_attention_grad_pullback,
    pushforward=_attention_grad_pushforward,
    reference=_attention_grad_reference,
    samples=[
        Sample((3, 3), (3, 3), (3, 2), (4, 2), (4, 3), **_FULL),
        Sample(*[(2, 3, 2)] * 5, **_CAUSAL),
        Sample(*[(1, 2, 4, 2)] * 3, *[(1, 2, 3, 2)] * 2, (2, 1, 3), **_CAUSAL),
        Sample(
            *[(2, 3, 1)] * 2, (2, 3, 2), (2, 4, 2), (2, 4, 1), Operand((3, 4), LOGICAL), **_FULL
        ),
        Sample((0, 3, 3), (0, 3, 3), (0, 3, 2), (0, 4, 2), (0, 4, 3), **_FULL),
    ],
    doc="""Returns the gradients of ``attention`` by q, k and v.

    Args:
        g: the cotangent of the output.
        out: the output.
        q, k, v, mask: the operands of ``attention``.
        causal, scale: its parameters.

    Returns:
        An array of shape (3, ..., rows, columns): the three gradients, those with fewer rows or
        columns than the others filled up with zeros.
    """,
)
