"""Linear filters of sequences, by SciPy's or CuPy's compiled loop."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from ...backends.annotations import ArrayModule, Buffer, Shape
from ...backends.optional_modules import scipy_module
from ..core.annotations import operations as ops
from ..core.array import Array
from ..core.buffers import beside
from ..core.derivative_rules import shape_of
from ..core.errors import misfit
from ..core.families import batch_elementwise
from ..core.primitive import Primitive
from ..core.shape_dtype import ShapeDtype, broadcast_shapes, result_type, shape_dtype
from ..core.test_samples import POSITIVE, Operand, Sample
from .correlate import correlate_valid

__all__ = ["linear_filter"]


def _infer_filter(primitive: Primitive, b: ShapeDtype, a: ShapeDtype, x: ShapeDtype) -> ShapeDtype:
    if not min(b.ndim, a.ndim, x.ndim) or not b.shape[-1] or not a.shape[-1]:
        raise misfit(
            f"linear_filter: coefficients of shapes {b.shape} and {a.shape} for sequences of "
            f"shape {x.shape}",
            "give at least one coefficient in each polynomial, along the last axis",
        )
    stack = broadcast_shapes(primitive.name, b.shape[:-1], a.shape[:-1], x.shape[:-1])
    return ShapeDtype((*stack, x.shape[-1]), result_type(b.dtype, a.dtype, x.dtype))


def _compiled_filter(xp: ArrayModule) -> Callable[..., Buffer]:
    """Returns the filter of SciPy, or that of CuPy, which warns that it may change."""
    function: Callable[..., Buffer]
    if xp is np:
        function = scipy_module(xp, "signal").lfilter
        return function

    def lfilter(*args: Buffer, **options: Any) -> Buffer:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            out: Buffer = scipy_module(xp, "signal").lfilter(*args, **options)
        return out

    return lfilter


def _filtered(xp: ArrayModule, b: Buffer, a: Buffer, x: Buffer) -> Buffer:
    """Filters the sequences of each pair of polynomials at once."""
    lfilter = _compiled_filter(xp)
    dtype = result_type(b.dtype, a.dtype, x.dtype)
    # SciPy has no loop for half precision.
    kind = np.dtype(np.float32) if dtype == np.float16 else dtype
    b, a, x = (xp.asarray(z, kind) for z in (b, a, x))
    stack = np.broadcast_shapes(b.shape[:-1], a.shape[:-1], x.shape[:-1])
    out = xp.zeros((*stack, x.shape[-1]), kind)
    if not out.size:
        return out.astype(dtype)
    pairs = np.broadcast_shapes(b.shape[:-1], a.shape[:-1])
    if np.prod(pairs) == 1:
        b, a = b.reshape(-1), a.reshape(-1)
        return xp.broadcast_to(lfilter(b, a, x, axis=-1), out.shape).astype(dtype)
    b, a = (xp.broadcast_to(z, (*pairs, z.shape[-1])) for z in (b, a))
    x = xp.broadcast_to(x, out.shape)
    front = len(stack) - len(pairs)
    for place in np.ndindex(pairs):
        # An axis of length 1 among the pairs stands for all of that axis.
        key = tuple([i if n > 1 else slice(None) for i, n in zip(place, pairs)])
        key = (*(slice(None),) * front, *key)
        out[key] = lfilter(b[place], a[place], x[key], axis=-1)
    return out.astype(dtype)


def _unit_polynomial(x: Array) -> Array:
    """Returns the polynomial 1 beside others."""
    return ops.ones_like(ops.index(x, (Ellipsis, slice(0, 1))))


def _filter_vjp_sequences(g: Array, x: Array, y: Array) -> Array:
    """Returns cotangents filtered from the end."""
    return ops.flip(linear_filter.bind((x, y, ops.flip(g, -1)), {}), -1)


def _overlaps(v: Array, x: Array, count: int) -> Array | Buffer:
    """Returns the sums of products of sequences with others that are 0, 1, ... steps late."""
    stack = shape_of(v)[:-1]
    length = shape_of(v)[-1]
    if not length:
        return beside(v, np.zeros((*stack, count), shape_dtype(v).dtype))
    v = ops.pad(v, [(0, 0)] * len(stack) + [(0, count - 1)])
    return correlate_valid.bind((v, ops.broadcast_to(x, (*stack, length))), {})


def _filter_vjp_numerator(g: Array, y: Array, z: Array, x_shape: Shape) -> Array | Buffer:
    return _overlaps(_filter_vjp_sequences(g, _unit_polynomial(y), y), z, x_shape[-1])


def _filter_vjp_denominator(g: Array, ans: Array, y: Array) -> Array | Buffer:
    return -_overlaps(_filter_vjp_sequences(g, _unit_polynomial(y), y), ans, shape_of(y)[-1])


def _filter_reference(b: Buffer, a: Buffer, x: Buffer) -> Buffer:
    stack = np.broadcast_shapes(b.shape[:-1], a.shape[:-1], x.shape[:-1])
    out = np.zeros((*stack, x.shape[-1]), np.result_type(b, a, x))
    x = np.broadcast_to(x, out.shape)
    for n in range(out.shape[-1]):
        for k in range(min(n + 1, b.shape[-1])):
            out[..., n] += b[..., k] * x[..., n - k]
        for k in range(1, min(n + 1, a.shape[-1])):
            out[..., n] -= a[..., k] * out[..., n - k]
        out[..., n] /= a[..., 0]
    return out


linear_filter: Primitive = Primitive(
    "linear_filter",
    family="filtering", compute=_filtered, infer=_infer_filter, batch=batch_elementwise,
    broadcasts=True,
    vjp=(_filter_vjp_numerator, _filter_vjp_denominator, _filter_vjp_sequences),
    jvp=(
        lambda g, y, z: linear_filter.bind((g, y, z), {}),
        # The tangents of a y = b x are ta y + a ty = 0.
        lambda g, ans, y: -linear_filter.bind((g, y, ans), {}),
        lambda g, x, y: linear_filter.bind((x, y, g), {}),
    ),
    reference=_filter_reference, dtypes="fdD",
    samples=[
        Sample((3,), Operand((2,), POSITIVE), (5,)), Sample((1,), Operand((4,), POSITIVE), (2,)),
        Sample((2, 2), Operand((2, 1, 1), POSITIVE), (2, 3)),
        Sample((2,), Operand((2,), POSITIVE), (0, 3)),
        Sample((2,), Operand((2,), POSITIVE), (2, 0)),
    ],
    doc="""Filters sequences: y of ``sum(a[k] y[n - k]) = sum(b[k] x[n - k])``, 0 before the first.

    Args:
        b, a: polynomials along the last axis, the first coefficient of a not 0.
        x: sequences along the last axis.

    Returns:
        An array of x's length, behind the shape to which the leading axes broadcast.

    Source: A. V. Oppenheim and R. W. Schafer, "Discrete-Time Signal Processing", chapter 6.
    """,
)
