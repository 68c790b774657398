"""Recurrent layers as one operation each: all steps of a sequence, forward and on the way back.

The products of inputs with their weights are computed before, for all steps at once; what is left
for each step is the product of the last state. On the way back the gates are computed again, for
all steps at once, from the states that are the result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...backends.annotations import ArrayModule, Buffer, Shape
from ..core.annotations import operations as ops
from ..core.array import Array
from ..core.buffers import beside
from ..core.derivative_rules import shape_of
from ..core.errors import misfit
from ..core.families import batch_filled
from ..core.primitive import Primitive
from ..core.shape_dtype import ShapeDtype, result_type, shape_dtype
from ..core.test_samples import Sample
from .activations import sigmoid

__all__ = ["gru", "lstm"]


def _check_shapes(name: str, wanted: dict[str, tuple[Shape, Shape]]) -> None:
    for operand, (found, right) in wanted.items():
        if found != right:
            raise misfit(f"{name}: {operand} has shape {found}, not {right}", f"give it {right}")


def _inferred(gates: int, outputs: int) -> Callable[..., ShapeDtype]:
    """Returns the inference of a layer of some gates, whose steps return some states."""

    def infer(primitive: Primitive, x: ShapeDtype, *rest: ShapeDtype) -> ShapeDtype:
        *states, weight = rest[: outputs + 1]
        bias = rest[outputs + 1 :]
        if x.ndim < 3 or x.shape[-1] % gates:
            raise misfit(
                f"{primitive.name}: inputs of shape {x.shape}",
                f"give (..., steps, examples, {gates} * width)",
            )
        *lead, steps, examples, rows = x.shape
        width = rows // gates
        wanted = {"the weight": (weight.shape, (*lead, rows, width))}
        for state in states:
            wanted["a state"] = state.shape, (*lead, examples, width)
        for b in bias:
            wanted["the bias"] = b.shape, (*lead, rows)
        _check_shapes(primitive.name, wanted)
        dtype = result_type(x.dtype, *[v.dtype for v in rest])
        return ShapeDtype((*lead, steps, examples, outputs * width), dtype)

    return infer


def _zeros_of(x: Any) -> Any:
    """Returns zeros of an array's shape and dtype, where that is."""
    return beside(x, np.zeros(shape_of(x), shape_dtype(x).dtype))


def _step(x: Any, t: int) -> Any:
    """Returns the part of a step."""
    return x[..., t, :, :]


def _all_steps(parts: Sequence[Any], like: Any) -> Array:
    """Returns the parts of all steps as one array; of none as one without steps, like another."""
    out: Array = ops.stack(list(parts), -3) if parts else _zeros_of(like)
    return out


def _before(first: Any, states: Any) -> Any:
    """Returns the states in which steps begin: the first, and all but the last."""
    return ops.concatenate([ops.expand_dims(first, -3), states[..., :-1, :, :]], -3)


def _times(x: Any, weight: Any) -> Any:
    """Returns the products of states with transposed weights: of one step, or of all."""
    weight = weight.mT
    return ops.matmul(x, weight if x.ndim == weight.ndim else ops.expand_dims(weight, -3))


def _to_state(g: Any, weight: Any) -> Any:
    """Returns what gates pull back to the state that they were computed from."""
    return ops.matmul(g, weight)


def _by_recurrent_weight(g: Any, states: Any) -> Any:
    """Returns the cotangent of weights, over all steps and examples."""
    return ops.einsum("...tbg,...tbh->...gh", g, states)


def _quarters(x: Any, parts: int) -> list[Any]:
    """Returns equal parts along the last axis."""
    width = x.shape[-1] // parts
    return [x[..., i * width : (i + 1) * width] for i in range(parts)]


# -- LSTM: gates i, f, n, o; c <- f c + i n, h <- o tanh(c)


def _lstm(xp: ArrayModule, x: Buffer, h: Buffer, c: Buffer, weight: Buffer) -> Buffer:
    width = h.shape[-1]
    dtype = result_type(*[v.dtype for v in (x, h, c, weight)])
    out = xp.empty((*x.shape[:-1], 2 * width), dtype)
    turned = xp.swapaxes(weight, -1, -2)
    for t in range(x.shape[-3]):
        gates = xp.matmul(h, turned)
        gates += _step(x, t)
        forget_input = sigmoid.impl(gates[..., : 2 * width])
        new = xp.tanh(gates[..., 2 * width : 3 * width])
        new *= forget_input[..., :width]
        c = forget_input[..., width:] * c
        c += new
        h = sigmoid.impl(gates[..., 3 * width :])
        h *= xp.tanh(c)
        out[..., t, :, :width] = h
        out[..., t, :, width:] = c
    return out


def _lstm_reference(x: Buffer, h: Buffer, c: Buffer, weight: Buffer) -> Buffer:
    out = []
    for t in range(x.shape[-3]):
        i, f, n, o = np.split(x[..., t, :, :] + h @ np.swapaxes(weight, -1, -2), 4, -1)
        c = c / (1 + np.exp(-f)) + np.tanh(n) / (1 + np.exp(-i))
        h = np.tanh(c) / (1 + np.exp(-o))
        out.append(np.concatenate([h, c], -1))
    return np.stack(out, -3) if out else np.zeros((*x.shape[:-1], 2 * h.shape[-1]), x.dtype)


class LstmSteps:
    """All that derivatives of the steps need: c <- f c + i n, h <- o tanh(c).

    Attributes:
        by_gates: the derivatives of c by i, f and n, and of h by o, all by what is in the gates.
        by_c: the derivative of h by c.
        forget: f.
        h, c: the states in which the steps begin.
    """

    def __init__(self, ans: Any, x: Any, h: Any, c: Any, weight: Any) -> None:
        hs, cs = _quarters(ans, 2)
        self.h, self.c = _before(h, hs), _before(c, cs)
        i, f, n, o = _quarters(x + _times(self.h, weight), 4)
        i, f, n, o = ops.sigmoid(i), ops.sigmoid(f), ops.tanh(n), ops.sigmoid(o)
        bent = ops.tanh(cs)
        self.by_gates = ops.concatenate(
            [n * i * (1 - i), self.c * f * (1 - f), i * (1 - n * n), bent * o * (1 - o)], -1
        )
        self.by_c = o * (1 - bent * bent)
        self.forget = f


def _lstm_pullback(g: Array, ans: Array, xs: Sequence[Array]) -> list[Array]:
    x, h, c, weight = xs
    steps = shape_of(x)[-3]
    if not steps:
        return [_zeros_of(v) for v in xs]
    known = LstmSteps(ans, x, h, c, weight)
    g_h, g_c = _quarters(g, 2)
    pulled: list[Any] = []
    by_h: Any = None
    by_c: Any = None
    for t in reversed(range(steps)):
        by_h = _step(g_h, t) if by_h is None else _step(g_h, t) + by_h
        now = _step(g_c, t) + by_h * _step(known.by_c, t)
        by_c = now if by_c is None else now + by_c
        gates = ops.concatenate([by_c, by_c, by_c, by_h], -1) * _step(known.by_gates, t)
        pulled.append(gates)
        by_h, by_c = _to_state(gates, weight), by_c * _step(known.forget, t)
    by_x = _all_steps(pulled[::-1], x)
    return [by_x, by_h, by_c, _by_recurrent_weight(by_x, known.h)]


def _lstm_pushforward(ts: Sequence[Array], ans: Array, xs: Sequence[Array]) -> Array:
    x, h, c, weight = xs
    t_x, t_h, t_c, t_weight = ts
    known = LstmSteps(ans, x, h, c, weight) if shape_of(x)[-3] else None
    moved = []
    for t in range(shape_of(x)[-3]):
        assert known is not None
        gates = _step(t_x, t) + _times(t_h, weight) + _times(_step(known.h, t), t_weight)
        i, f, n, o = _quarters(gates * _step(known.by_gates, t), 4)
        t_c = _step(known.forget, t) * t_c + i + f + n
        t_h = _step(known.by_c, t) * t_c + o
        moved.append(ops.concatenate([t_h, t_c], -1))
    return _all_steps(moved, ans)


lstm = Primitive(
    "lstm",
    compute=_lstm, infer=_inferred(4, 2), batch=batch_filled,
    pullback=_lstm_pullback, pushforward=_lstm_pushforward,
    reference=_lstm_reference,
    samples=[
        Sample((3, 2, 8), (2, 2), (2, 2), (8, 2)),
        Sample((2, 1, 3, 4), (2, 3, 1), (2, 3, 1), (2, 4, 1)),
        Sample((0, 2, 8), (2, 2), (2, 2), (8, 2)), Sample((2, 0, 8), (0, 2), (0, 2), (8, 2)),
    ],
    doc="""Returns the states of an LSTM after each step.

    Args:
        x: what inputs add to the gates input, forget, cell and output, of shape
            (..., steps, examples, 4 * width).
        h, c: the states before the first step, of shape (..., examples, width).
        weight: of shape (..., 4 * width, width), by which ``h`` enters the gates.

    Returns:
        An array of shape (..., steps, examples, 2 * width): h, and behind it c.

    Raises:
        ShapeError: the shapes do not fit.

    Hochreiter and Schmidhuber, "Long short-term memory", 1997, with the gate of Gers et al., 2000.
    """,
)


# -- GRU: gates r, z, n = tanh(. + r (W h + b)); h <- (1 - z) n + z h


def _gru(xp: ArrayModule, x: Buffer, h: Buffer, weight: Buffer, bias: Buffer) -> Buffer:
    width = h.shape[-1]
    dtype = result_type(*[v.dtype for v in (x, h, weight, bias)])
    out = xp.empty((*x.shape[:-1], width), dtype)
    turned, bias = xp.swapaxes(weight, -1, -2), bias[..., None, :]
    for t in range(x.shape[-3]):
        own, inner = _step(x, t), xp.matmul(h, turned)
        inner += bias
        gates = sigmoid.impl(own[..., : 2 * width] + inner[..., : 2 * width])
        new = gates[..., :width] * inner[..., 2 * width :]
        new += own[..., 2 * width :]
        new = xp.tanh(new)
        h = new + gates[..., width:] * (h - new)
        out[..., t, :, :] = h
    return out


def _gru_reference(x: Buffer, h: Buffer, weight: Buffer, bias: Buffer) -> Buffer:
    out = []
    for t in range(x.shape[-3]):
        r, z, n = np.split(x[..., t, :, :], 3, -1)
        inner = h @ np.swapaxes(weight, -1, -2) + bias[..., None, :]
        hr, hz, hn = np.split(inner, 3, -1)
        z = 1 / (1 + np.exp(-z - hz))
        n = np.tanh(n + hn / (1 + np.exp(-r - hr)))
        h = (1 - z) * n + z * h
        out.append(h)
    return np.stack(out, -3) if out else np.zeros((*x.shape[:-1], h.shape[-1]), x.dtype)


class GruSteps:
    """All that derivatives of the steps need: h <- (1 - z) n + z h, n = tanh(x + r a).

    Attributes:
        by_inputs: the derivatives of the next h by what inputs add to r, z and n.
        by_inner: the same by the products of the state, a among them.
        keep: z, the derivative of the next h by h itself.
        h: the states in which the steps begin.
    """

    def __init__(self, ans: Any, x: Any, h: Any, weight: Any, bias: Any) -> None:
        self.h = _before(h, ans)
        inner = _times(self.h, weight) + ops.expand_dims(ops.expand_dims(bias, -2), -2)
        x_r, x_z, x_n = _quarters(x, 3)
        h_r, h_z, a = _quarters(inner, 3)
        r, z = ops.sigmoid(x_r + h_r), ops.sigmoid(x_z + h_z)
        n = ops.tanh(x_n + r * a)
        by_n = (1 - z) * (1 - n * n)
        by_r, by_z = by_n * a * r * (1 - r), (self.h - n) * z * (1 - z)
        self.by_inputs = ops.concatenate([by_r, by_z, by_n], -1)
        self.by_inner = ops.concatenate([by_r, by_z, by_n * r], -1)
        self.keep = z


def _gru_pullback(g: Array, ans: Array, xs: Sequence[Array]) -> list[Array]:
    x, h, weight, bias = xs
    steps = shape_of(x)[-3]
    if not steps:
        return [_zeros_of(v) for v in xs]
    known = GruSteps(ans, x, h, weight, bias)
    pulled: list[Any] = []
    by_h: Any = None
    for t in reversed(range(steps)):
        by_h = _step(g, t) if by_h is None else _step(g, t) + by_h
        pulled.append(by_h)
        inner = ops.concatenate([by_h, by_h, by_h], -1) * _step(known.by_inner, t)
        by_h = by_h * _step(known.keep, t) + _to_state(inner, weight)
    each = _all_steps(pulled[::-1], ans)
    each = ops.concatenate([each, each, each], -1)
    by_inner = each * known.by_inner
    by_weight, by_bias = _by_recurrent_weight(by_inner, known.h), ops.sum(by_inner, (-3, -2))
    return [each * known.by_inputs, by_h, by_weight, by_bias]


def _gru_pushforward(ts: Sequence[Array], ans: Array, xs: Sequence[Array]) -> Array:
    x, h, weight, bias = xs
    t_x, t_h, t_weight, t_bias = ts
    known = GruSteps(ans, x, h, weight, bias) if shape_of(x)[-3] else None
    moved = []
    for t in range(shape_of(x)[-3]):
        assert known is not None
        inner = _times(t_h, weight) + _times(_step(known.h, t), t_weight)
        inner = inner + ops.expand_dims(t_bias, -2)
        changes = _step(t_x, t) * _step(known.by_inputs, t) + inner * _step(known.by_inner, t)
        r, z, n = _quarters(changes, 3)
        t_h = _step(known.keep, t) * t_h + r + z + n
        moved.append(t_h)
    return _all_steps(moved, ans)


gru = Primitive(
    "gru",
    compute=_gru, infer=_inferred(3, 1), batch=batch_filled,
    pullback=_gru_pullback, pushforward=_gru_pushforward,
    reference=_gru_reference,
    samples=[
        Sample((3, 2, 6), (2, 2), (6, 2), (6,)), Sample((2, 1, 3, 3), (2, 3, 1), (2, 3, 1), (2, 3)),
        Sample((0, 2, 6), (2, 2), (6, 2), (6,)), Sample((2, 0, 6), (0, 2), (6, 2), (6,)),
    ],
    doc="""Returns the states of a GRU after each step.

    Args:
        x: what inputs add to the gates reset, update and new, of shape
            (..., steps, examples, 3 * width).
        h: the states before the first step, of shape (..., examples, width).
        weight, bias: of shape (..., 3 * width, width) and (..., 3 * width), by which ``h`` enters
            the gates; the reset gate multiplies what enters the new one.

    Returns:
        An array of shape (..., steps, examples, width).

    Raises:
        ShapeError: the shapes do not fit.

    Cho et al., "Learning phrase representations using RNN encoder-decoder", 2014.
    """,
)
