"""Arrays extended before and after their axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .indexing import index_primitive
from .keys import Key
from .primitive import Primitive
from .registry import operand, registry
from .registry import registry as ops
from .rules import shape_of
from .samples import Sample
from .types import ShapeDtype, canonical_axis

__all__ = ["pad", "pad_primitive"]

Widths = tuple[tuple[int, int], ...]


def _inside(shape: tuple[int, ...], pad_width: Widths) -> Key:
    """Returns the key of the array that was padded in an array of the padded shape."""
    return Key(tuple([slice(b, n - a) for n, (b, a) in zip(shape, pad_width, strict=True)]))


def _padded_shape(shape: tuple[int, ...], pad_width: Widths) -> tuple[int, ...]:
    return tuple([n + before + after for n, (before, after) in zip(shape, pad_width, strict=True)])


def _pad(xp: Any, x: Any, value: Any, *, pad_width: Widths) -> Any:
    x = xp.asarray(x)
    shape = _padded_shape(x.shape, pad_width)
    if type(value) in (int, float) and value == 0:
        out = xp.zeros(shape, x.dtype)
    else:
        out = xp.empty(shape, x.dtype)
        out[...] = value
    out[_inside(shape, pad_width).native] = x
    return out


def _infer_pad(
    primitive: Primitive, x: ShapeDtype, value: ShapeDtype, *, pad_width: Widths
) -> ShapeDtype:
    return ShapeDtype(_padded_shape(x.shape, pad_width), x.dtype)


def _batch_pad(
    primitive: Primitive, values: Sequence[Any], flags: Sequence[bool], params: dict[str, Any]
) -> Any:
    x, value = values
    if not flags[0]:
        x = ops.broadcast_to(x, (shape_of(value)[0], *shape_of(x)))
    if flags[1]:
        size, *own = shape_of(value)
        value = ops.reshape(value, (size, *(1,) * (len(shape_of(x)) - 1 - len(own)), *own))
    return primitive.bind((x, value), {"pad_width": ((0, 0), *params["pad_width"])})


# The value broadcasts to the result, so that a batch may have one for each example.
pad_primitive: Primitive = Primitive(
    "pad",
    compute=_pad,
    infer=_infer_pad,
    batch=_batch_pad,
    vjp=(
        lambda g, *, pad_width: index_primitive.bind(
            (g,), {"key": _inside(shape_of(g), pad_width)}
        ),
        lambda g, *, pad_width: ops["index_set"].bind(
            (g, 0), {"key": _inside(shape_of(g), pad_width)}
        ),
    ),
    pushforward=lambda ts, *, pad_width: pad_primitive.bind(ts, {"pad_width": pad_width}),
    broadcasts=True,
    dtypes="fdD",
    reference=lambda x, value, *, pad_width: np.pad(x, pad_width, constant_values=value),
    samples=[
        Sample((2, 3), (), pad_width=((1, 0), (0, 2))),
        Sample((3,), (), pad_width=((0, 0),)),
        Sample((0, 3), (), pad_width=((2, 1), (0, 0))),
    ],
)

PAD_MODES = ("constant", "edge", "reflect", "symmetric", "wrap", "empty")


def _widths(pad_width: Any, ndim: int) -> Widths:
    if isinstance(pad_width, dict):
        named = {canonical_axis(axis, ndim): width for axis, width in pad_width.items()}
        pairs = [_widths(named.get(axis, 0), 1)[0] for axis in range(ndim)]
    else:
        widths = np.asarray(pad_width)
        if widths.size and widths.dtype.kind not in "iu":
            raise TypeError(f"pad: pad_width holds integers, not {widths.dtype}")
        pairs = [(before, after) for before, after in np.broadcast_to(widths, (ndim, 2)).tolist()]
    if any(before < 0 or after < 0 for before, after in pairs):
        raise ValueError(f"pad: pad_width {pad_width} has negative values; cut with x[a:b]")
    return tuple(pairs)


def _value_pairs(values: Any, ndim: int) -> list[tuple[Any, Any]]:
    """Returns the value before and after every axis, given as NumPy has it, tracers included."""
    rows = list(values)
    if all(shape_of(row) == () for row in rows):
        rows = [rows]
    pairs = [(row[0], row[-1]) for row in rows]
    if len(pairs) not in (1, ndim) or any(len(row) > 2 for row in rows):
        raise ValueError(f"pad: constant_values {values!r} are not one pair or one for each axis")
    return pairs * ndim if len(pairs) == 1 else pairs


@registry.add_function
def pad(array: Any, pad_width: Any, mode: str = "constant", **kwargs: Any) -> Any:
    """Returns an array with elements added before and after its axes.

    Args:
        array: an array.
        pad_width: how many elements: one number, one pair (before, after), a pair for each axis,
            or a dict of those by axis.
        mode: what they are: ``constant``, ``edge``, ``reflect``, ``symmetric``, ``wrap``, or
            ``empty`` where it does not matter.
        kwargs: ``constant_values`` for mode ``constant``: one value (0 by default), a pair, or a
            pair for each axis.

    Returns:
        An array of the same dtype.

    >>> import functensor.numpy as np
    >>> np.pad(np.array([1.0, 2.0]), (1, 2))
    Array([0., 1., 2., 0., 0.], dtype=float64, device='cpu')
    >>> np.pad(np.array([1.0, 2.0, 3.0]), 1, mode="reflect")
    Array([2., 1., 2., 3., 2.], dtype=float64, device='cpu')
    """
    array = operand(array)
    shape = shape_of(array)
    widths = _widths(pad_width, len(shape))
    values = kwargs.pop("constant_values", 0)
    if mode not in PAD_MODES:
        raise ValueError(f"pad: mode {mode!r} is none of {', '.join(PAD_MODES)}")
    if kwargs:
        raise ValueError(f"pad: {', '.join(kwargs)} is not offered for mode {mode!r}")
    if mode in ("constant", "empty"):
        if not isinstance(values, list | tuple) and shape_of(values) == ():
            return pad_primitive.bind((array, values), {"pad_width": widths})
        for axis, ends in enumerate(_value_pairs(values, len(shape))):
            for side, value in enumerate(ends):
                alone = [(0, 0)] * len(shape)
                alone[axis] = (widths[axis][0], 0) if side == 0 else (0, widths[axis][1])
                array = pad_primitive.bind((array, value), {"pad_width": tuple(alone)})
        return array
    for axis, ends in enumerate(widths):
        if ends != (0, 0):
            places = np.pad(np.arange(shape[axis]), ends, mode=mode)  # type: ignore[call-overload]
            array = ops.take(array, places, axis)
    return array
