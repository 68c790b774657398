"""Arrays extended before and after their axes."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...backends.annotations import ArrayModule, Buffer
from ..core.annotations import ArrayLike, Value
from ..core.annotations import operations as ops
from ..core.array import Array
from ..core.buffers import beside, own_array
from ..core.derivative_rules import shape_of
from ..core.errors import ImmutableArrayError, would_change
from ..core.index_key import IndexKey
from ..core.primitive import Primitive
from ..core.registry import operand
from ..core.shape_dtype import INEXACT, ShapeDtype, canonical_axis, shape_dtype
from ..core.test_samples import Sample
from .index import index_primitive

__all__ = ["pad", "pad_primitive"]

Widths = tuple[tuple[int, int], ...]

# Right code where an array is written into, and in a function that fills rows.
FIX_OF_WRITING = "fix: x = x.at[i].set(value)"
FIX_OF_FILLED_ROW = "fix: row = row.at[i].set(value), and return row from the function"


def _key_of_unpadded(shape: tuple[int, ...], pad_width: Widths) -> IndexKey:
    """Returns the key of the array that was padded in an array of the padded shape."""
    return IndexKey(tuple([slice(b, n - a) for n, (b, a) in zip(shape, pad_width, strict=True)]))


def _padded_shape(shape: tuple[int, ...], pad_width: Widths) -> tuple[int, ...]:
    return tuple([n + before + after for n, (before, after) in zip(shape, pad_width, strict=True)])


def _compute_pad(xp: ArrayModule, x: Buffer, value: Buffer | float, *, pad_width: Widths) -> Buffer:
    x = xp.asarray(x)
    shape = _padded_shape(x.shape, pad_width)
    if type(value) in (int, float) and value == 0:
        out = xp.zeros(shape, x.dtype)
    else:
        out = xp.empty(shape, x.dtype)
        out[...] = value
    out[_key_of_unpadded(shape, pad_width).native] = x
    return out


def _infer_pad(
    primitive: Primitive, x: ShapeDtype, value: ShapeDtype, *, pad_width: Widths
) -> ShapeDtype:
    return ShapeDtype(_padded_shape(x.shape, pad_width), x.dtype)


def _batch_pad(
    primitive: Primitive, values: Sequence[Value], flags: Sequence[bool], params: dict[str, Any]
) -> Value:
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
    compute=_compute_pad, infer=_infer_pad, batch=_batch_pad,
    vjp=(
        lambda g, *, pad_width: index_primitive.bind(
            (g,), {"key": _key_of_unpadded(shape_of(g), pad_width)}
        ),
        lambda g, *, pad_width: ops["index_set"].bind(
            (g, 0), {"key": _key_of_unpadded(shape_of(g), pad_width)}
        ),
    ),
    pushforward=lambda ts, *, pad_width: pad_primitive.bind(ts, {"pad_width": pad_width}),
    broadcasts=True, dtypes="fdD",
    reference=lambda x, value, *, pad_width: np.pad(x, pad_width, constant_values=value),
    samples=[
        Sample((2, 3), (), pad_width=((1, 0), (0, 2))), Sample((3,), (), pad_width=((0, 0),)),
        Sample((0, 3), (), pad_width=((2, 1), (0, 0))),
    ],
)

# The modes, each with its option and the default of that.
PAD_MODES: dict[str, tuple[str, Any]] = {
    "constant": ("constant_values", 0),
    "edge": ("", None),
    "empty": ("", None),
    "linear_ramp": ("end_values", 0),
    "maximum": ("stat_length", None),
    "mean": ("stat_length", None),
    "median": ("stat_length", None),
    "minimum": ("stat_length", None),
    "reflect": ("reflect_type", "even"),
    "symmetric": ("reflect_type", "even"),
    "wrap": ("", None),
}
SUMMARIES = {"maximum": "max", "mean": "mean", "median": "median", "minimum": "min"}


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


def _value_pairs(name: str, values: Any, ndim: int) -> list[tuple[Any, Any]]:
    """Returns the value before and after every axis, given as NumPy has it, tracers included."""
    if values is None or (not isinstance(values, list | tuple) and shape_of(values) == ()):
        return [(values, values)] * ndim
    rows = list(values)
    if all(shape_of(row) == () for row in rows):
        rows = [rows]
    pairs = [(row[0], row[-1]) for row in rows]
    if len(pairs) not in (1, ndim) or any(len(row) > 2 for row in rows):
        raise ValueError(f"pad: {name} {values!r} are not one pair or one for each axis")
    return pairs * ndim if len(pairs) == 1 else pairs


def _along(x: ArrayLike, axis: int, start: int | None, stop: int | None) -> Array:
    """Returns a part of an array along an axis."""
    return ops.index(x, (*(slice(None),) * axis, slice(start, stop)))


def _summary(x: ArrayLike, axis: int, mode: str, count: int | None, side: int) -> Array:
    """Returns a summary of the elements at one end of an axis, which is kept with length 1."""
    length = shape_of(x)[axis]
    count = length if count is None else min(operator.index(count), length)
    if count < 1:
        raise ValueError(f"pad: stat_length={count}, but mode {mode!r} takes one element at least")
    end = _along(x, axis, *((None, count) if side == 0 else (length - count, None)))
    out = getattr(ops, SUMMARIES[mode])(end, axis=axis, keepdims=True)
    dtype = shape_dtype(x).dtype
    return ops.astype(ops.rint(out) if dtype.kind in "iu" else out, dtype)


def _ramp(x: ArrayLike, axis: int, end: ArrayLike, width: int, side: int) -> Array:
    """Returns numbers from an end value to the edge of an array, without the edge itself."""
    dtype = shape_dtype(x).dtype
    edge = _along(x, axis, *((None, 1) if side == 0 else (shape_of(x)[axis] - 1, None)))
    kind = dtype if dtype.kind in INEXACT else np.dtype(np.float64)
    steps = beside(x, (np.arange(width) / width).astype(kind)[:: 1 - 2 * side])
    share = ops.reshape(steps, (-1, *(1,) * (len(shape_of(x)) - axis - 1)))
    out = ops.add(end, ops.multiply(ops.subtract(ops.astype(edge, kind), end), share))
    return ops.astype(out if dtype.kind in INEXACT else ops.floor(out), dtype)


def _padded_along(
    x: ArrayLike, axis: int, mode: str, ends: tuple[int, int], options: tuple[Any, Any]
) -> Array:
    """Returns an array extended along an axis by values computed from it."""
    if not shape_of(x)[axis]:
        raise ValueError(
            f"pad: axis {axis} is empty, which only modes 'constant' and 'empty' can extend"
        )
    parts = [x]
    for side, (width, option) in enumerate(zip(ends, options, strict=True)):
        if not width:
            continue
        if mode == "linear_ramp":
            part = _ramp(x, axis, option, width, side)
        else:
            part = _summary(x, axis, mode, option, side)
            lengths = tuple([width if i == axis else n for i, n in enumerate(shape_of(part))])
            part = ops.broadcast_to(part, lengths)
        parts.insert(0 if side == 0 else len(parts), part)
    return ops.concatenate(parts, axis=axis)


def _odd(x: ArrayLike, axis: int, mode: str, ends: tuple[int, int]) -> Array:
    """Returns an array continued along an axis by its mirror image through the edge's value.

    Every new element is one of the array's, or its negative, plus multiples of both edges. NumPy's
    function, applied to indices and to arrays with a one at an edge, tells them.
    """
    length = shape_of(x)[axis]
    wide = (-1, *(1,) * (len(shape_of(x)) - axis - 1))
    dtype = shape_dtype(x).dtype
    places = np.pad(np.arange(length), ends, mode=mode)  # type: ignore[call-overload]
    inside = (places > 0) & (places < length - 1)
    shares = []
    for edge in (0, length - 1):
        unit = (np.arange(length) == edge).astype(np.int64)
        odd: Any = {"mode": mode, "reflect_type": "odd"}
        shares.append(np.pad(unit, ends, **odd))
    if length == 1:
        shares[1] = 0 * shares[1]
    sign = np.where(inside, 1 - shares[0] - shares[1], 0)
    out = ops.take(x, places, axis)
    first, last = _along(x, axis, None, 1), _along(x, axis, length - 1, None)
    total: Any = 0
    for part, share in zip((out, first, last), (sign, *shares), strict=True):
        factor = beside(x, share.astype(dtype).reshape(wide))
        total = ops.add(total, ops.multiply(part, factor))
    padded: Array = total
    return padded


def _padded_by_function(
    x: Array, function: Callable[..., Array], widths: Widths, options: dict[str, Any]
) -> Array:
    """Returns a padded array whose rows along each axis in turn a function has filled."""
    for axis, ends in enumerate(widths):

        def fill(row: Array, axis: int = axis, ends: tuple[int, int] = ends) -> Array:
            try:
                out = function(row, ends, axis, options)
            except ImmutableArrayError as error:
                # NumPy's function writes into the row, and returns nothing.
                text = str(error).replace(FIX_OF_WRITING, FIX_OF_FILLED_ROW)
                error.args = (text, *error.args[1:])
                raise
            if out is None:
                raise would_change(
                    "pad(mode=function): a function that returns nothing",
                    row,
                    "return row.at[...].set(values) from the function",
                )
            return out

        x = ops.apply_along_axis(fill, axis, x)
    return x


@ops.add_function
def pad(array: ArrayLike, pad_width: Any, mode: Any = "constant", **kwargs: Any) -> Array:
    """Returns an array with elements added before and after its axes.

    Args:
        array: an array.
        pad_width: how many elements: one number, one pair (before, after), a pair for each axis,
            or a dict of those by axis.
        mode: what they are: ``constant``, ``edge``, ``reflect``, ``symmetric``, ``wrap``;
            ``maximum``, ``mean``, ``median`` or ``minimum`` of the elements; ``linear_ramp``
            towards an end value; or ``empty`` where it does not matter. A function
            ``f(row, (before, after), axis, kwargs)`` gets rows along each axis in turn, with zeros
            added, and returns them filled; NumPy's changes them in place instead.
        kwargs: ``constant_values`` for mode ``constant``, ``end_values`` for ``linear_ramp``: one
            value (0 by default), a pair, or a pair for each axis. ``stat_length``, likewise: of
            how many elements at either end the maximum, mean, median or minimum is taken; by
            default of all. ``reflect_type="odd"`` for ``reflect`` and ``symmetric``: twice the
            edge's value minus the mirror image.

    Returns:
        An array of the same dtype.

    Raises:
        ValueError: there is no such mode, it has no such option, or an axis without elements is to
            be extended by what depends on them.

    >>> import functensor.numpy as np
    >>> np.pad(np.array([1.0, 2.0]), (1, 2))
    Array([0., 1., 2., 0., 0.], dtype=float64, device='cpu')
    >>> np.pad(np.array([1.0, 2.0, 3.0]), 1, mode="reflect")
    Array([2., 1., 2., 3., 2.], dtype=float64, device='cpu')
    """
    x: Array = operand(array)
    shape = shape_of(x)
    widths = _widths(pad_width, len(shape))
    if callable(mode):
        padded = pad_primitive.bind((x, 0), {"pad_width": widths})
        return _padded_by_function(padded, mode, widths, kwargs)
    if mode not in PAD_MODES:
        raise ValueError(f"pad: mode {mode!r} is none of {', '.join(PAD_MODES)}")
    option, default = PAD_MODES[mode]
    values = kwargs.pop(option, default)
    if kwargs:
        raise ValueError(f"pad: {', '.join(kwargs)} is not offered for mode {mode!r}")
    if mode == "empty":
        return pad_primitive.bind((x, 0), {"pad_width": widths})
    if mode == "constant":
        if not isinstance(values, list | tuple) and shape_of(values) == ():
            return pad_primitive.bind((x, values), {"pad_width": widths})
        for axis, ends in enumerate(_value_pairs(option, values, len(shape))):
            for side, value in enumerate(ends):
                alone = [(0, 0)] * len(shape)
                alone[axis] = (widths[axis][0], 0) if side == 0 else (0, widths[axis][1])
                x = pad_primitive.bind((x, value), {"pad_width": tuple(alone)})
        return own_array(x)  # type: ignore[no-any-return]
    if option == "reflect_type" and values not in ("even", "odd"):
        raise ValueError(f"pad: reflect_type is 'even' or 'odd', not {values!r}")
    computed = option not in ("", "reflect_type")
    pairs = _value_pairs(option, values, len(shape)) if computed else [(None, None)] * len(shape)
    for axis, (ends, given) in enumerate(zip(widths, pairs, strict=True)):
        if ends == (0, 0):
            continue
        if computed:
            x = _padded_along(x, axis, mode, ends, given)
        elif values == "odd":
            x = _odd(x, axis, mode, ends)
        else:
            x = ops.take(x, np.pad(np.arange(shape[axis]), ends, mode=mode), axis)
    return own_array(x)  # type: ignore[no-any-return]
