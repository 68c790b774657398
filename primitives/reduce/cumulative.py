"""Running sums and products."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np

from ...backends.annotations import Buffer, DTypeLike
from ...backends.arrays import cumulative
from ..core.annotations import ArrayLike, Prepared, Value
from ..core.annotations import operations as ops
from ..core.array import Array
from ..core.derivative_rules import shape_of
from ..core.errors import refuse_out
from ..core.families import along, along_one_axis, filled_operands, infer_along
from ..core.primitive import Primitive
from ..core.shape_dtype import broadcast_shapes, canonical_axis, number_dtype, result_type
from ..core.test_samples import Sample

__all__ = ["cumprod", "cumsum", "linear_recurrence", "shift"]


def _cumsum_arguments(
    a: ArrayLike,
    axis: int | None = None,
    dtype: DTypeLike | None = None,
    out: ArrayLike | None = None,
    *,
    reverse: bool = False,
) -> Prepared:
    refuse_out("cumsum", out)
    x, axis = along_one_axis(a, axis)
    dtype = None if dtype is None else number_dtype(dtype)
    return (x,), {"axis": axis, "dtype": dtype, "reverse": bool(reverse)}


def _cumulative_samples(*flags: str) -> list[Sample]:
    """Every axis, and with it every combination of flags."""
    shapes = [((4,), 0), ((2, 3), 1), ((3, 2, 2), 0), ((0, 3), 0), ((2, 0), 0), ((1,), 0)]
    chosen = [dict(zip(flags, on)) for on in product((False, True), repeat=len(flags))]
    return [
        Sample(shape, axis=axis, dtype=None, **options)
        for options in chosen
        for shape, axis in shapes
    ]


CUMULATIVE_OPTIONS = {
    "a": "an array.",
    "axis": "along which axis; None flattens the array first.",
    "dtype": "the result's dtype; None for a's own (integers: int64).",
    "out": "None; arrays are immutable.",
    "reverse": "whether to start at the end.",
}
CUMULATIVE_RETURNS = "An array of a's shape, flat where ``axis`` is None."


def _cumulative_reference(function: Callable[..., Buffer], first: float) -> Callable[..., Buffer]:
    """Returns NumPy's function, which knows nothing of the other end or of a late start."""

    def reference(
        x: Buffer, axis: int, dtype: DTypeLike | None, reverse: bool, exclusive: bool = False
    ) -> Buffer:
        out = function(np.flip(x, axis) if reverse else x, axis=axis, dtype=dtype)
        if exclusive:
            out = np.roll(out, 1, axis)
            np.moveaxis(out, axis, 0)[:1] = first
        return np.flip(out, axis) if reverse else out

    return reference


cumsum = along(
    "cumsum",
    lambda g, *, axis, reverse: ops.cumsum(g, axis, reverse=not reverse),
    prepare=_cumsum_arguments, compute=cumulative.cumsum, linear=True,
    samples=_cumulative_samples("reverse"), reference=_cumulative_reference(np.cumsum, 0.0),
    dtypes="fdD",
    doc="Returns the sums of all elements up to each.",
    options=CUMULATIVE_OPTIONS,
    returns=CUMULATIVE_RETURNS,
    example="np.cumsum([1, 2, 3]) -> [1, 3, 6]",
)

# -- products. Their derivatives hold where elements are zero: nothing is divided.


def _shift_arguments(x: ArrayLike, by: int, axis: int = -1) -> Prepared:
    return (x,), {"by": int(by), "axis": canonical_axis(axis, len(shape_of(x)))}


def _shift_reference(x: Buffer, by: int, axis: int) -> Buffer:
    moved = np.moveaxis(x, axis, -1) @ np.eye(x.shape[axis], k=by, dtype=x.dtype)
    return np.moveaxis(moved, -1, axis)


shift = along(
    "shift",
    lambda g, *, by, axis: ops.shift(g, -by, axis),
    prepare=_shift_arguments, compute=cumulative.shift, linear=True,
    samples=[
        Sample((4,), by=1, axis=0), Sample((4,), by=-4, axis=0), Sample((2, 3), by=-1, axis=1),
        Sample((3, 2, 2), by=2, axis=0), Sample((2, 0), by=1, axis=0),
    ],
    reference=_shift_reference, dtypes="fdD",
    doc="Returns the elements moved along an axis; those that leave it are lost, zeros enter.",
    options={"by": "how far, to the front if negative.", "axis": "along which axis."},
)


def _cumprod_arguments(
    a: ArrayLike,
    axis: int | None = None,
    dtype: DTypeLike | None = None,
    out: ArrayLike | None = None,
    *,
    reverse: bool = False,
    exclusive: bool = False,
) -> Prepared:
    refuse_out("cumprod", out)
    (x,), params = _cumsum_arguments(a, axis, dtype, reverse=reverse)
    return (x,), {**params, "exclusive": bool(exclusive)}


def _recurrence_pullback(
    g: Array, xs: Sequence[Array], ans: Array, *, axis: int, reverse: bool
) -> tuple[Array, Array]:
    ahead = -1 if reverse else 1
    # A cotangent goes the other way, by the factors that follow.
    factors = ops.shift(xs[0], -ahead, axis)
    total = ops.linear_recurrence(factors, g, axis, not reverse)
    return total * ops.shift(ans, ahead, axis), total


def _recurrence_pushforward(
    ts: Sequence[Array], xs: Sequence[Array], ans: Array, *, axis: int, reverse: bool
) -> Array:
    ahead = -1 if reverse else 1
    fresh = ts[1] + ts[0] * ops.shift(ans, ahead, axis)
    return ops.linear_recurrence(xs[0], fresh, axis, reverse)


def _recurrence_arguments(
    a: ArrayLike, b: ArrayLike, axis: int = -1, reverse: bool = False
) -> Prepared:
    shape = broadcast_shapes("linear_recurrence", shape_of(a), shape_of(b))
    operands = [x if shape_of(x) == shape else ops.broadcast_to(x, shape) for x in (a, b)]
    return tuple(operands), {"axis": canonical_axis(axis, len(shape)), "reverse": bool(reverse)}


def _recurrence_batch(
    primitive: Primitive, values: Sequence[Value], flags: Sequence[bool], params: dict[str, Any]
) -> Value:
    return primitive.bind(filled_operands(values, flags), {**params, "axis": params["axis"] + 1})


def _recurrence_reference(a: Buffer, b: Buffer, axis: int, reverse: bool) -> Buffer:
    a, b = (np.moveaxis(z, axis, 0) for z in np.broadcast_arrays(a, b))
    out = np.array(b, result_type(a, b))
    places = range(len(out))
    previous = None
    for i in reversed(places) if reverse else places:
        if previous is not None:
            out[i] += a[i] * out[previous]
        previous = i
    return np.moveaxis(out, 0, axis)


linear_recurrence = Primitive(
    "linear_recurrence",
    family="along", compute=cumulative.linear_recurrence, prepare=_recurrence_arguments,
    infer=infer_along, batch=_recurrence_batch,
    pullback=_recurrence_pullback,
    pushforward=_recurrence_pushforward,
    samples=[
        Sample(shape, shape, axis=axis, reverse=reverse)
        for reverse in (False, True)
        for shape, axis in (((4,), 0), ((2, 3), 1), ((3, 2, 2), 0), ((0, 3), 0), ((2, 0), 0))
    ],
    reference=_recurrence_reference, dtypes="fdD",
    doc="""Solves ``h[i] = b[i] + a[i] h[i - 1]`` along an axis, with 0 before the first element.

    Args:
        a: the factors; that of the first element has no effect.
        b: the terms that are added.
        axis: along which axis.
        reverse: whether to start at the end, with ``h[i + 1]``.

    Returns:
        An array of the shape to which a and b broadcast.
    """,
)


def _cumprod_vjp(g: Array, x: Array, *, axis: int, reverse: bool, exclusive: bool) -> Array:
    # The cotangent of element i is the product of all before it times s[i], the sum of the
    # cotangents of all products with element i, each times the product of the elements between.
    back = 1 if reverse else -1
    before = ops.cumprod(x, axis, reverse=reverse, exclusive=True)
    first = ops.shift(g, back, axis) if exclusive else g
    return before * ops.linear_recurrence(ops.shift(x, back, axis), first, axis, not reverse)


def _cumprod_jvp(t: Array, x: Array, *, axis: int, reverse: bool, exclusive: bool) -> Array:
    ahead = -1 if reverse else 1
    before = ops.cumprod(x, axis, reverse=reverse, exclusive=True)
    total = ops.linear_recurrence(x, t * before, axis, reverse)
    return ops.shift(total, ahead, axis) if exclusive else total


cumprod = along(
    "cumprod",
    _cumprod_vjp,
    jvp=(_cumprod_jvp,), prepare=_cumprod_arguments, compute=cumulative.cumprod,
    samples=_cumulative_samples("reverse", "exclusive"),
    reference=_cumulative_reference(np.cumprod, 1.0), dtypes="fdD",
    doc="Returns the products of all elements up to each.",
    options={**CUMULATIVE_OPTIONS, "exclusive": "whether each product leaves out its own element."},
    returns=CUMULATIVE_RETURNS,
    example="np.cumprod([1, 2, 3]) -> [1, 2, 6]",
)
