"""Elements by their place: ``x[key]`` in every form of NumPy, and its transpose, scatter-add.

A cotangent of ``x[key]`` is a ``Scatter``, not a dense array of x's size. The reverse walker adds
up all that belong to one array at once, so that T slices cost one array and not T arrays.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...backends.annotations import ArrayModule, Buffer, DType, Number, Shape
from ..core.annotations import ArrayLike, Value
from ..core.annotations import operations as ops
from ..core.array import Array
from ..core.buffers import ARRAY_TYPES, new_object, operands_together
from ..core.derivative_rules import shape_of
from ..core.errors import misfit, refuse_out, would_change
from ..core.index_key import (
    ARRAY,
    FULL,
    STATIC,
    IndexKey,
    basic_index_key,
    batched_index_key,
    split_index_key,
)
from ..core.primitive import Primitive
from ..core.registry import operand
from ..core.shape_dtype import ShapeDtype, canonical_axis
from ..core.test_samples import INDEX, Operand, Sample
from ..core.trace import slot

__all__ = [
    "Scatter", "index", "index_primitive", "inverse_order", "put_along_axis", "scatter_add",
    "scatter_sum", "take", "take_along_axis", "with_axes_in_order",
]  # fmt: skip


# -- x[key]


def _compute_index(xp: ArrayModule, x: Buffer, *indices: Buffer, key: IndexKey) -> Any:
    if type(x) is not xp.ndarray:
        x = xp.asarray(x)
    if not indices:
        return x[key.native]
    axis = len(key.native) - 1
    # Along one axis ``take`` is several times faster, but it copies arrays that are not contiguous.
    if (
        key.native[axis] == ARRAY
        and key.native[:axis] == (FULL,) * axis
        and axis < x.ndim
        and x.flags.c_contiguous
        and type(indices[0]) is xp.ndarray
        and indices[0].dtype.kind == "i"
    ):
        return x.take(indices[0], axis)
    return x[key.fill(indices)]


def _infer_index(
    primitive: Primitive, x: ShapeDtype, *indices: ShapeDtype, key: IndexKey
) -> ShapeDtype:
    return ShapeDtype(key.shape(x, indices), x.dtype)


def _batch_index(
    primitive: Primitive, values: Sequence[Value], flags: Sequence[bool], params: dict[str, Any]
) -> Value:
    x, *arrays = values
    key, indices, _, order = batched_index_key(params["key"], x, arrays, flags[0], flags[1:])
    return with_axes_in_order(primitive.bind((x, *indices), {"key": key}), order)


def with_axes_in_order(x: Value, order: tuple[int, ...]) -> Value:
    """Transposes unless the axes are in order already."""
    return x if order == tuple(range(len(order))) else ops.transpose(x, order)


def inverse_order(order: tuple[int, ...]) -> tuple[int, ...]:
    """Returns the transposition that undoes one."""
    return tuple(sorted(range(len(order)), key=order.__getitem__))


index_primitive = Primitive(
    "index",
    compute=_compute_index, infer=_infer_index, batch=_batch_index,
    keep=lambda ans, xs: (None, shape_of(xs[0]), *xs[1:]),
    vjp=(lambda g, x_shape, xs, *, key: Scatter(x_shape, g.dtype, key, xs[1:], g),),
    linear=True, movable=slice(1, None), hosted=True, dtypes="fdD",
    reference=lambda x, *indices, key: np.asarray(x)[key.fill(indices)],
    samples=[
        Sample((), key=IndexKey(())),
        Sample((2, 3, 4), key=IndexKey((1, slice(None, None, -2), None))),
        Sample((3, 4), key=IndexKey((Ellipsis, -1))),
        Sample((0, 3), key=IndexKey((slice(0, 0), slice(1, None)))),
        Sample((4, 3), Operand((2, 2), INDEX(4)), key=IndexKey((ARRAY,), 1)),
        Sample((4, 3), Operand((), INDEX(3)), key=IndexKey((FULL, ARRAY), 1)),
        Sample(
            (2, 4, 3),
            Operand((2,), INDEX(4)),
            Operand((2, 1), INDEX(3)),
            key=IndexKey((FULL, ARRAY, ARRAY), 2),
        ),
        Sample((3, 4, 2), Operand((2,), INDEX(3)), key=IndexKey((ARRAY, FULL, 1), 1)),
        Sample((4, 0), Operand((3,), INDEX(4)), key=IndexKey((ARRAY, Ellipsis), 1)),
        Sample((3,), Operand((0,), INDEX(3)), key=IndexKey((ARRAY,), 1)),
    ],
)


@ops.add_function
def index(x: ArrayLike, key: Any, /) -> Array:
    """``x[key]``: elements of an array, by every key that NumPy takes.

    Args:
        x: an array.
        key: integers, slices, None, Ellipsis, integer arrays and boolean masks, or a tuple of them.

    Returns:
        An array of x's dtype; of slices and integers alone, a view.

    Raises:
        IndexError: an index is out of bounds, or there are too many.
        ConcretizationError: a mask under vmap, whose number of true elements is not known.

    >>> import functensor.numpy as np
    >>> x = np.arange(6.0).reshape(2, 3)
    >>> x[:, 1]
    Array([1., 4.], dtype=float64, device='cpu')
    >>> x[x > 2]
    Array([3., 4., 5.], dtype=float64, device='cpu')
    """
    # Keys of integers, slices, None and Ellipsis go straight to the buffer.
    if STATIC.issuperset(map(type, key)) if type(key) is tuple else type(key) in STATIC:
        if slot.trace is None and type(x) is Array:
            out = new_object(Array)
            out._data = x._data[key]
            return out
        static = basic_index_key(key if type(key) is tuple else (key,))
        return index_primitive.bind((x,), {"key": static})
    x, indices, static = split_index_key(x, key)
    return index_primitive.bind((x, *indices), {"key": static})


# -- its transpose


class Scatter:
    """A sparse cotangent: zeros everywhere but at a key.

    Attributes:
        shape, dtype: those of the array that it is the cotangent of.
        key: the static part of the key.
        index_arrays: the index arrays.
        g: the cotangent of what was taken there.
    """

    __slots__ = ("dtype", "g", "index_arrays", "key", "shape")

    def __init__(
        self, shape: Shape, dtype: DType, key: IndexKey, index_arrays: Sequence[Any], g: Array
    ) -> None:
        self.shape = shape
        self.dtype = dtype
        self.key = key
        self.index_arrays = index_arrays
        self.g = g


def scatter_sum(scatters: Sequence[Scatter]) -> Array:
    """Returns the dense sum of sparse cotangents of one array, in a single primitive."""
    operands = [scatter.g for scatter in scatters]
    for scatter in scatters:
        operands += scatter.index_arrays
    first = scatters[0]
    keys = tuple([scatter.key for scatter in scatters])
    return scatter_add.bind(operands, {"shape": first.shape, "keys": keys})


def _parts(
    operands: Sequence[Any], keys: Sequence[IndexKey]
) -> Iterator[tuple[IndexKey, Any, slice]]:
    """Yields, for each key, its values and which of the operands are its index arrays."""
    start = len(keys)
    for key, values in zip(keys, operands, strict=False):
        yield key, values, slice(start, start + key.arrays)
        start += key.arrays


def _infer_scatter_add(
    primitive: Primitive, *operands: ShapeDtype, shape: tuple[int, ...], keys: Sequence[IndexKey]
) -> ShapeDtype:
    for key, values, own in _parts(operands, keys):
        wanted = key.shape(shape, operands[own])
        if wanted != values.shape:
            raise misfit(
                f"scatter_add: values of shape {values.shape} for the elements {key} of an "
                f"array of shape {shape}, which have shape {wanted}",
                f"np.broadcast_to(values, {wanted})",
            )
    return ShapeDtype(shape, operands[0].dtype)


def _batch_scatter(
    primitive: Primitive, values: Sequence[Value], flags: Sequence[bool], params: dict[str, Any]
) -> Value:
    size = next(shape_of(v)[0] for v, flag in zip(values, flags, strict=True) if flag)
    shape = (size, *params["shape"])
    gs: list[Any] = []
    arrays: list[Any] = []
    keys: list[IndexKey] = []
    for (key, g, own), flag in zip(_parts(values, params["keys"]), flags, strict=False):
        whole, indices, _, order = batched_index_key(key, shape, values[own], True, flags[own])
        if not flag:
            g = ops.broadcast_to(g, (size, *shape_of(g)))
        gs.append(with_axes_in_order(g, inverse_order(order)))
        arrays += indices
        keys.append(whole)
    return primitive.bind((*gs, *arrays), {**params, "shape": shape, "keys": tuple(keys)})


def _scatter_add_pullback(g: Array, xs: Sequence[Any], *, keys: Sequence[IndexKey]) -> list[Any]:
    gs = [index_primitive.bind((g, *xs[own]), {"key": key}) for key, _, own in _parts(xs, keys)]
    return gs + [None] * (len(xs) - len(gs))


def _scatter_add_pushforward(
    ts: Sequence[Array], xs: Sequence[Array], *, shape: tuple[int, ...], keys: Sequence[IndexKey]
) -> Array:
    return scatter_add.bind((*ts[: len(keys)], *xs[len(keys) :]), {"shape": shape, "keys": keys})


def _scatter_add_reference(
    *operands: Buffer, shape: tuple[int, ...], keys: Sequence[IndexKey]
) -> Buffer:
    out = np.zeros(shape, np.asarray(operands[0]).dtype)
    for key, values, own in _parts(operands, keys):
        np.add.at(out, key.fill(operands[own]), values)
    return out


def _indices_only(ans: Array, xs: Sequence[Any]) -> tuple[Any, ...]:
    return (None, *(x if getattr(x, "dtype", ans.dtype).kind in "iu" else None for x in xs))


scatter_add = Primitive(
    "scatter_add",
    infer=_infer_scatter_add, batch=_batch_scatter, keep=_indices_only,
    pullback=_scatter_add_pullback,
    pushforward=_scatter_add_pushforward,
    movable=slice(1, None), hosted=True, dtypes="fdD", reference=_scatter_add_reference,
    samples=[
        Sample((2,), (), shape=(3, 2), keys=(IndexKey((1,)), IndexKey((-1, 0)))),
        Sample(
            (2, 3),
            (4, 3),
            shape=(4, 3),
            keys=(IndexKey((slice(None, None, 2),)), IndexKey((Ellipsis,))),
        ),
        Sample((0, 3), shape=(4, 3), keys=(IndexKey((slice(0, 0),)),)),
        Sample((5, 8), Operand((5,), INDEX(3)), shape=(3, 8), keys=(IndexKey((ARRAY,), 1),)),
        Sample(
            (),
            (4, 2),
            Operand((4,), INDEX(3)),
            Operand((4,), INDEX(2)),
            shape=(3, 2, 2),
            keys=(IndexKey((0, 0, 0)), IndexKey((ARRAY, FULL, ARRAY), 2)),
        ),
    ],
    doc="""Adds values into one array of zeros, each at its own key; places that repeat add up.

    Args:
        operands: the values for each key, of the shape of the elements there, then the integer
            arrays of all keys in order.
        shape: the result's shape.
        keys: an ``IndexKey`` for each of the values.

    Returns:
        An array of that shape, of the first values' dtype.
    """,
)


# -- elements along an axis


@ops.add_function
def take(
    a: ArrayLike,
    indices: ArrayLike,
    axis: int | None = None,
    out: ArrayLike | None = None,
    mode: str | None = "raise",
    *,
    fill_value: Number | None = None,
) -> Array:
    """Returns elements along an axis.

    Args:
        a: an array.
        indices: integers, of any shape.
        axis: along which axis; None takes from the flattened array.
        out: None; arrays are immutable.
        mode: the treatment of indices out of bounds: ``raise``, ``wrap``, ``clip`` or ``fill``.
        fill_value: for ``fill``, the value there; by default NaN or the least integer.

    Returns:
        An array of a's dtype, with the axes of ``indices`` in the place of ``axis``.

    >>> import functensor.numpy as np
    >>> np.take(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([1, 0]), axis=1)
    Array([[2., 1.],
           [4., 3.]], dtype=float64, device='cpu')
    """
    if out is not None:
        refuse_out("take", out)
    if isinstance(a, (list, tuple)):
        a, _ = operands_together("take", a, indices)
    if axis is None:
        a, axis = ops.reshape(a, -1), 0
    axis = canonical_axis(axis, len(shape_of(a)))
    length = shape_of(a)[axis]
    if not isinstance(indices, Array) and type(indices) not in ARRAY_TYPES:
        empty = isinstance(indices, (list, tuple)) and not np.size(indices)
        indices = np.asarray(indices, np.int64 if empty else None)
    if getattr(indices, "dtype", None) == np.bool_:
        # They are numbers here, not a mask.
        indices = ops.astype(indices, np.int64)
    if mode == "wrap":
        indices = ops.remainder(indices, length)
    elif mode == "clip":
        indices = ops.clip(indices, 0, length - 1)
    elif mode == "fill":
        a = ops.asarray(a)
        return a.at[(*(FULL,) * axis, indices)].get(mode="fill", fill_value=fill_value)
    elif mode not in ("raise", None):
        raise ValueError(f"take: mode is 'raise', 'wrap', 'clip' or 'fill', not {mode!r}")
    return index(a, (*(FULL,) * axis, indices))


def _along_axis(
    a: ArrayLike, indices: ArrayLike, axis: int | None
) -> tuple[ArrayLike, tuple[Any, ...]]:
    """Returns the array and the key that picks, along an axis, an own index for every place."""
    a, indices = operand(a), operand(indices)
    if axis is None:
        a, axis = ops.reshape(a, -1), 0
    shape, got = shape_of(a), shape_of(indices)
    if getattr(indices, "dtype", None) == np.bool_:
        raise IndexError("take_along_axis and put_along_axis have integers for indices, not bool")
    axis = canonical_axis(axis, len(shape))
    if len(got) != len(shape):
        raise ValueError(f"indices of {len(got)} axes for an array of {len(shape)}: give as many")
    places: list[Any] = [
        np.arange(length).reshape(-1, *(1,) * (len(shape) - i - 1))
        for i, length in enumerate(shape)
    ]
    places[axis] = indices
    return a, tuple(places)


@ops.add_function
def take_along_axis(arr: ArrayLike, indices: ArrayLike, axis: int | None = -1) -> Array:
    """Returns elements along an axis, by an own index for every place on the other axes.

    Args:
        arr: an array.
        indices: integers, with as many axes as arr; other axes than ``axis`` broadcast.
        axis: along which axis; None takes from the flattened array.

    Returns:
        An array of arr's dtype and, where nothing broadcasts, of the indices' shape.

    >>> import functensor.numpy as np
    >>> x = np.array([[3.0, 1.0], [2.0, 4.0]])
    >>> np.take_along_axis(x, np.argmax(x, axis=1, keepdims=True), axis=1)
    Array([[3.],
           [4.]], dtype=float64, device='cpu')
    """
    return index(*_along_axis(arr, indices, axis))


@ops.add_function
def put_along_axis(
    arr: ArrayLike, indices: ArrayLike, values: ArrayLike, axis: int | None, *, inplace: bool = True
) -> Array:
    """Returns an array with elements along an axis replaced, as ``take_along_axis`` picks them.

    NumPy's function changes its argument and returns nothing. Arrays are immutable, so that
    ``inplace=False`` has to be said, as in JAX.

    Args:
        arr: an array.
        indices: integers, with as many axes as arr; other axes than ``axis`` broadcast.
        values: what to put there; broadcasts to the indices' shape.
        axis: along which axis; None puts into the flattened array.
        inplace: False: a new array is returned.

    Returns:
        An array of arr's shape and dtype.

    Raises:
        ImmutableArrayError: ``inplace`` is not False, so that arr itself would be changed.

    >>> import functensor.numpy as np
    >>> np.put_along_axis(np.zeros((2, 2)), np.array([[1], [0]]), 5.0, axis=1, inplace=False)
    Array([[0., 5.],
           [5., 0.]], dtype=float64, device='cpu')
    """
    if inplace:
        raise would_change(
            "np.put_along_axis(x, i, values, axis)",
            arr,
            "x = functensor.numpy.put_along_axis(x, i, values, axis, inplace=False)",
        )
    arr = operand(arr)
    a, key = _along_axis(arr, indices, axis)
    return ops.reshape(ops.index_set(a, key, operand(values)), shape_of(arr))
