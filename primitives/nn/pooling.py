"""Pooling: the maximum or the mean of windows that slide over the spatial axes.

The maximum's derivative goes to the first element of a window that has it. A primitive without a
derivative finds that element; the primitives that move tangents and cotangents there and back are
linear.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ...backends.annotations import Shape, ShapeLike
from ..core.annotations import ArrayLike, Prepared, Value
from ..core.annotations import operations as ops
from ..core.array import Array
from ..core.derivative_rules import shape_of
from ..core.errors import misfit
from ..core.families import linear
from ..core.primitive import Primitive, of_parameters
from ..core.shape_dtype import ShapeDtype
from ..core.test_samples import DISTINCT, Domain, Operand, Sample
from ..shape.sliding_windows import (
    Padding,
    PaddingLike,
    count_windows,
    per_axis,
    resolve_padding,
    spatial_of,
)

__all__ = ["avg_pool", "avg_pool_grad", "max_pool", "max_pool_argmax", "pool_scatter", "pool_take"]


class Windows(NamedTuple):
    """Holds the windows' lengths, their distances, and the padding around the input."""

    window: Shape
    stride: Shape
    padding: Padding

    def places(self, name: str, spatial: Shape) -> Shape:
        """Returns how many there are along each axis; refuses those longer than the input."""
        dense = (1,) * len(spatial)
        return count_windows(name, spatial, self.window, self.stride, self.padding, dense)


# -- parameters and shapes


def _prepared(
    primitive: Primitive,
    xs: tuple[ArrayLike, ...],
    window: ShapeLike,
    stride: ShapeLike | None = None,
    padding: PaddingLike = 0,
    **params: Any,
) -> Prepared:
    """Returns operands and parameters, once shapes are known to fit: kernels rely on it.

    Operands with a value for each window give the shape below the windows as ``spatial``.
    """
    shapes = tuple([shape_of(x) for x in xs])
    given = window, stride, padding, params.get("spatial")
    resolve = _resolved if all(map(_is_plain_parameter, given)) else _resolved.__wrapped__
    params["windows"], spatial = resolve(primitive, shapes, *given)
    if "spatial" in params:
        params["spatial"] = spatial
    return xs, params


def _is_plain_parameter(value: object) -> bool:
    """Says whether a parameter's equals all have its meaning: 2 is equal to 2.0 too."""
    if type(value) is tuple:
        return all(type(v) is int for v in value)
    return type(value) is int or type(value) is str or value is None


@lru_cache(maxsize=1024)
def _resolved(
    primitive: Primitive,
    shapes: tuple[Shape, ...],
    window: ShapeLike,
    stride: ShapeLike | None,
    padding: PaddingLike,
    spatial: ShapeLike | None,
) -> tuple[Windows, Shape]:
    """Returns the windows and the spatial shape below them, for operands of certain shapes."""
    name = primitive.name
    rank = len(spatial_of(name, shapes[0]))
    below = shapes[0][2:] if spatial is None else per_axis(name, "spatial", spatial, rank)
    sizes = per_axis(name, "window", window, rank)
    strides = sizes if stride is None else per_axis(name, "stride", stride, rank)
    paddings = resolve_padding(name, padding, below, sizes, strides, (1,) * rank)
    for axis, (size, pair) in enumerate(zip(sizes, paddings)):
        if max(pair) >= size:
            raise misfit(
                f"{name}: along spatial axis {axis} a window of {size} fits into a padding of "
                f"{max(pair)} alone",
                "make the padding smaller than the window",
            )
    windows = Windows(sizes, strides, paddings)
    params: dict[str, Any] = {"windows": windows} | ({} if spatial is None else {"spatial": below})
    primitive.infer(primitive, *[ShapeDtype(shape, float) for shape in shapes], **params)
    return windows, below


def _prepare_max(
    x: ArrayLike, window: ShapeLike, stride: ShapeLike | None = None, padding: PaddingLike = 0
) -> Prepared:
    return _prepared(max_pool, (x,), window, stride, padding)


def _prepare_argmax(x: ArrayLike, window: ShapeLike, **places: Any) -> Prepared:
    return _prepared(max_pool_argmax, (x,), window, **places)


def _prepare_take(x: ArrayLike, winner: ArrayLike, **places: Any) -> Prepared:
    return _prepared(pool_take, (x, winner), **places)


def _prepare_scatter(
    g: ArrayLike, winner: ArrayLike, *, spatial: ShapeLike, **places: Any
) -> Prepared:
    return _prepared(pool_scatter, (g, winner), spatial=spatial, **places)


def _prepare_avg(
    x: ArrayLike,
    window: ShapeLike,
    stride: ShapeLike | None = None,
    padding: PaddingLike = 0,
    *,
    count_include_pad: bool = True,
) -> Prepared:
    include = bool(count_include_pad)
    return _prepared(avg_pool, (x,), window, stride, padding, count_include_pad=include)


def _prepare_avg_grad(
    g: ArrayLike, *, spatial: ShapeLike, count_include_pad: bool = True, **places: Any
) -> Prepared:
    include = bool(count_include_pad)
    return _prepared(avg_pool_grad, (g,), spatial=spatial, count_include_pad=include, **places)


def _agree(name: str, count: Shape, *values: ShapeDtype) -> None:
    for value in values:
        if value.shape != (*values[0].shape[:2], *count):
            raise misfit(
                f"{name}: values of shape {value.shape} for windows of shape {count}",
                f"give an array of shape {(*values[0].shape[:2], *count)}",
            )


def _infer_down(primitive: Primitive, x: ShapeDtype, **params: Any) -> ShapeDtype:
    count = params["windows"].places(primitive.name, x.shape[2:])
    dtype = x.dtype
    if primitive is max_pool_argmax:
        dtype = np.min_scalar_type(-prod(params["windows"].window))
    elif primitive is avg_pool and dtype.kind in "?biu":
        dtype = np.dtype(float)
    return ShapeDtype((*x.shape[:2], *count), dtype)


def _infer_take(
    primitive: Primitive, x: ShapeDtype, winner: ShapeDtype, *, windows: Windows
) -> ShapeDtype:
    out = _infer_down(primitive, x, windows=windows)
    _agree(primitive.name, out.shape[2:], out, winner)
    return out


def _infer_up(
    primitive: Primitive, g: ShapeDtype, *winner: ShapeDtype, spatial: Shape, **params: Any
) -> ShapeDtype:
    _agree(primitive.name, params["windows"].places(primitive.name, spatial), g, *winner)
    return ShapeDtype((*g.shape[:2], *spatial), g.dtype)


def _batch_pool(
    primitive: Primitive, values: Sequence[Value], flags: Sequence[bool], params: dict[str, Any]
) -> Array:
    """Batches by taking every example's images for more images."""
    size, images = shape_of(values[flags.index(True)])[:2]
    folded = []
    for v, flag in zip(values, flags):
        shape = shape_of(v)[flag:]
        v = v if flag else ops.broadcast_to(v, (size, *shape))
        folded.append(ops.reshape(v, (size * images, *shape[1:])))
    out = primitive.bind(folded, params)
    return ops.reshape(out, (size, images, *shape_of(out)[1:]))


# -- the maximum


def _winner(x: Array, windows: Windows) -> Array:
    return max_pool_argmax.bind((x,), {"windows": windows})


def _scatter(g: Array, winner: Array, spatial: Shape, windows: Windows) -> Array:
    return pool_scatter.bind((g, winner), {"spatial": spatial, "windows": windows})


_ARGUMENTS = """
    Args:
        x: an array of shape ``(batch, channels, *spatial)``, with one or more spatial axes.
        window: the windows' lengths, an integer or one for each spatial axis.
        stride: how far they lie apart; None for as far as they are long.
        padding: elements around x, {padding}: an integer, an integer or a pair (before, after)
            for each spatial axis, "VALID" for none, "SAME" for ``ceil(length / stride)`` windows.
"""
_RAISES = """
    Raises:
        ShapeError: a window is longer than the padded axis.
"""
_EXAMPLE = """
    >>> import numpy as np
    >>> from functensor.primitives.nn.pooling import {name}
    >>> {name}(np.arange(4.0).reshape(1, 1, 4), 2)
    Array({shown}, dtype=float64, device='cpu')
    """

# The windows of samples have one, two and three axes, and every parameter.
_PLAIN_POOL = Windows((2,), (2,), ((0, 0),))
_SQUARE = Windows((2, 2), (2, 2), ((0, 0), (0, 0)))
_OVERLAPPING = Windows((3, 2), (2, 1), ((1, 1), (1, 1)))
_SPARSE_POOL = Windows((2, 2), (3, 3), ((0, 1), (1, 0)))
_SOLID_POOL = Windows((2, 2, 2), (1, 1, 1), ((0, 0),) * 3)
_PLACE = Domain(0, 3, kind="i")

max_pool = of_parameters(
    "max_pool",
    prepare=_prepare_max, infer=_infer_down, batch=_batch_pool,
    vjp=(lambda g, x, *, windows: _scatter(g, _winner(x, windows), shape_of(x)[2:], windows),),
    jvp=(lambda g, x, **params: ops.pool_take.bind((g, _winner(x, **params)), params),),
    reference="support.references.max_pool",
    samples=[
        Sample(Operand((2, 3, 6), DISTINCT), windows=_PLAIN_POOL),
        Sample(Operand((2, 2, 5, 4), DISTINCT), windows=_SQUARE),
        Sample(Operand((1, 2, 5, 6), DISTINCT), windows=_OVERLAPPING),
        Sample(Operand((1, 1, 4, 5), DISTINCT), windows=_SPARSE_POOL),
        Sample(Operand((1, 2, 3, 4, 2), DISTINCT), windows=_SOLID_POOL),
        Sample((0, 2, 4), windows=_PLAIN_POOL),
    ],
    doc=f"""Returns the maximum of every window that slides over the spatial axes.
{_ARGUMENTS.format(padding="less than all")}

    Returns:
        An array of shape ``(batch, channels, *windows)`` of x's dtype. The derivative goes to the
        first element, in C order, that is equal to the maximum, or to the first NaN.
{_RAISES}{_EXAMPLE.format(name="max_pool", shown="[[[1., 3.]]]")}""",
)

max_pool_argmax = Primitive(
    "max_pool_argmax",
    prepare=_prepare_argmax, infer=_infer_down, batch=_batch_pool, constant=True,
    reference="support.references.max_pool_argmax", samples=max_pool.samples,
    doc=f"""Returns which element of every window is its maximum, the first of equal ones or NaN.
{_ARGUMENTS.format(padding="less than all")}

    Returns:
        An array of small integers of shape ``(batch, channels, *windows)``: places in the window,
        counted in C order.
{_RAISES}    """,
)

pool_take = Primitive(
    "pool_take",
    prepare=_prepare_take, infer=_infer_take, batch=_batch_pool,
    vjp=(lambda g, x_shape, y, *, windows: _scatter(g, y, x_shape[2:], windows), None),
    jvp=(lambda g, y, **params: ops.pool_take.bind((g, y), params), None),
    dtypes="fdD", reference="support.references.pool_take",
    samples=[
        Sample((2, 3, 6), Operand((2, 3, 3), _PLACE), windows=_PLAIN_POOL),
        Sample((2, 2, 5, 4), Operand((2, 2, 2, 2), _PLACE), windows=_SQUARE),
        Sample((1, 2, 5, 6), Operand((1, 2, 3, 7), _PLACE), windows=_OVERLAPPING),
        Sample((1, 1, 4, 5), Operand((1, 1, 2, 2), _PLACE), windows=_SPARSE_POOL),
        Sample((1, 2, 3, 4, 2), Operand((1, 2, 2, 3, 1), _PLACE), windows=_SOLID_POOL),
        Sample((0, 2, 4), Operand((0, 2, 2), _PLACE), windows=_PLAIN_POOL),
    ],
    doc="""Returns of every window the element at a given place; of the padding, zero.

    Args:
        x: an array of shape ``(batch, channels, *spatial)``.
        winner: places in the windows, as ``max_pool_argmax`` returns them.
        window, stride, padding: those of ``max_pool``.

    Returns:
        An array of winner's shape and x's dtype.
    """,
)

pool_scatter = Primitive(
    "pool_scatter",
    prepare=_prepare_scatter, infer=_infer_up, batch=_batch_pool,
    vjp=(lambda g, y, *, spatial, **params: pool_take.bind((g, y), params), None),
    jvp=(lambda g, y, **params: ops.pool_scatter.bind((g, y), params), None),
    dtypes="fdD", reference="support.references.pool_scatter",
    samples=[
        Sample((2, 3, 3), Operand((2, 3, 3), _PLACE), spatial=(6,), windows=_PLAIN_POOL),
        Sample((2, 3, 3), Operand((2, 3, 3), _PLACE), spatial=(7,), windows=_PLAIN_POOL),
        Sample((2, 2, 2, 2), Operand((2, 2, 2, 2), _PLACE), spatial=(5, 4), windows=_SQUARE),
        Sample((1, 2, 3, 7), Operand((1, 2, 3, 7), _PLACE), spatial=(5, 6), windows=_OVERLAPPING),
        Sample((1, 1, 2, 2), Operand((1, 1, 2, 2), _PLACE), spatial=(4, 5), windows=_SPARSE_POOL),
        Sample((0, 2, 2), Operand((0, 2, 2), _PLACE), spatial=(4,), windows=_PLAIN_POOL),
    ],
    doc="""Transposes ``pool_take``: adds a value for every window to the element at a given place.

    Args:
        g: an array of shape ``(batch, channels, *windows)``.
        winner: places in the windows, as ``max_pool_argmax`` returns them.
        spatial: the spatial shape of the array below the windows.
        window, stride, padding: those of ``max_pool``.

    Returns:
        An array of shape ``(batch, channels, *spatial)`` of g's dtype.
    """,
)


# -- the mean


avg_pool = linear(
    "avg_pool",
    lambda g, x_shape, **params: ops.avg_pool_grad.bind((g,), {"spatial": x_shape[2:], **params}),
    prepare=_prepare_avg, infer=_infer_down, batch=_batch_pool, dtypes="fdD",
    reference="support.references.avg_pool",
    samples=[
        Sample((2, 3, 6), windows=_PLAIN_POOL, count_include_pad=True),
        Sample((2, 2, 5, 4), windows=_SQUARE, count_include_pad=True),
        Sample((1, 2, 5, 6), windows=_OVERLAPPING, count_include_pad=True),
        Sample((1, 2, 5, 6), windows=_OVERLAPPING, count_include_pad=False),
        Sample((1, 1, 4, 5), windows=_SPARSE_POOL, count_include_pad=False),
        Sample((1, 2, 3, 4, 2), windows=_SOLID_POOL, count_include_pad=True),
        Sample((0, 2, 4), windows=_PLAIN_POOL, count_include_pad=True),
    ],
    doc=f"""Returns the mean of every window that slides over the spatial axes.
{_ARGUMENTS.format(padding="zero")}
        count_include_pad: whether the padding's elements count in the number that is divided by.

    Returns:
        An array of shape ``(batch, channels, *windows)`` of x's dtype, float64 for integers.
{_RAISES}{_EXAMPLE.format(name="avg_pool", shown="[[[0.5, 2.5]]]")}""",
)

avg_pool_grad = linear(
    "avg_pool_grad",
    lambda g, *, spatial, **params: avg_pool.bind((g,), params),
    prepare=_prepare_avg_grad, infer=_infer_up, batch=_batch_pool, dtypes="fdD",
    reference="support.references.avg_pool_grad",
    samples=[
        Sample((2, 3, 3), spatial=(6,), windows=_PLAIN_POOL, count_include_pad=True),
        Sample((2, 2, 2, 2), spatial=(5, 4), windows=_SQUARE, count_include_pad=True),
        Sample((1, 2, 3, 7), spatial=(5, 6), windows=_OVERLAPPING, count_include_pad=False),
        Sample((1, 1, 2, 2), spatial=(4, 5), windows=_SPARSE_POOL, count_include_pad=False),
        Sample((0, 2, 2), spatial=(4,), windows=_PLAIN_POOL, count_include_pad=True),
    ],
    doc="""Transposes ``avg_pool``: every window spreads its value evenly over its elements.

    Args:
        g: an array of shape ``(batch, channels, *windows)``.
        spatial: the spatial shape of the array below the windows.
        window, stride, padding, count_include_pad: those of ``avg_pool``.

    Returns:
        An array of shape ``(batch, channels, *spatial)`` of g's dtype.
    """,
)
