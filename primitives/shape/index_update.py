"""Updates of immutable arrays: ``x.at[key].set(v)`` and its kin.

Every one takes ``(x, key, v)``: v broadcasts to the shape of ``x[key]`` and is cast to x's dtype,
which the result has.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from ...backends.annotations import ArrayModule, Buffer
from ..core.annotations import ArrayLike, Value
from ..core.annotations import operations as ops
from ..core.array import Array
from ..core.buffers import beside
from ..core.derivative_rules import shape_of
from ..core.errors import misfit
from ..core.index_key import (
    ARRAY,
    FULL,
    IndexKey,
    batched_index_key,
    is_unknown_mask,
    split_index_key,
)
from ..core.primitive import Primitive
from ..core.registry import registry
from ..core.shape_dtype import ShapeDtype, broadcast_shapes, shape_dtype
from ..core.test_samples import INDEX, Operand, Sample
from .index import Scatter, index_primitive, inverse_order, scatter_sum, with_axes_in_order

__all__ = [
    "index_add_primitive", "index_max_primitive", "index_min_primitive", "index_multiply_primitive",
    "index_set_primitive",
]  # fmt: skip


def _check_values(
    got: tuple[int, ...], wanted: tuple[int, ...], key: IndexKey, shape: tuple[int, ...]
) -> None:
    if got != () and got != wanted and broadcast_shapes("x.at[...]", got, wanted) != wanted:
        raise misfit(
            f"x.at[...]: values of shape {got} do not broadcast to the elements {key} of an "
            f"array of shape {shape}, which have shape {wanted}",
            "axes are compared from the last; only axes of length 1 grow",
        )


def _infer_update(
    primitive: Primitive, x: ShapeDtype, v: ShapeDtype, *indices: ShapeDtype, key: IndexKey
) -> ShapeDtype:
    _check_values(v.shape, key.shape(x, indices), key, x.shape)
    return ShapeDtype(x.shape, x.dtype)


def _batch_update(
    primitive: Primitive, values: Sequence[Value], flags: Sequence[bool], params: dict[str, Any]
) -> Value:
    x, v, *indices = values
    if not flags[0]:
        size = next(shape_of(a)[0] for a, flag in zip(values, flags, strict=True) if flag)
        x = ops.broadcast_to(x, (size, *shape_of(x)))
    key, made, layout, order = batched_index_key(params["key"], x, indices, True, flags[2:])
    # v gets all axes of one example's elements, so that they can be put in the batch's order.
    shape = shape_of(v)
    rank = len(layout.shape)
    if flags[1]:
        v = ops.reshape(v, (shape[0], *(1,) * (rank - len(shape) + 1), *shape[1:]))
    elif shape:
        v = ops.reshape(v, (*(1,) * (rank - len(shape) + 1), *shape))
    if shape:
        v = with_axes_in_order(v, inverse_order(order))
    return primitive.bind((x, v, *made), {"key": key})


def _update_reference(ufunc: np.ufunc | None) -> Callable[..., Any]:
    def reference(x: Buffer, v: Buffer, *indices: Buffer, key: IndexKey) -> Buffer:
        out = np.array(x)
        if ufunc is None:
            out[key.fill(indices)] = v
        else:
            native = key.fill(indices)
            ufunc.at(out, native, np.broadcast_to(v, out[native].shape).astype(out.dtype))
        return out

    return reference


def _computing(ufunc: str | None) -> Callable[..., Any]:
    """Returns the function that updates a copy, combining elements and values with a ufunc."""

    def compute(xp: ArrayModule, x: Buffer, v: Buffer, *indices: Buffer, key: IndexKey) -> Buffer:
        out = xp.array(x)
        v = xp.asarray(v).astype(out.dtype, copy=False)
        native = key.fill(indices)
        if ufunc is None:
            out[native] = v
        elif key.arrays:
            # NumPy 2.4 reads past the end of values that have fewer axes than the elements.
            getattr(xp, ufunc).at(out, native, xp.broadcast_to(v, key.shape(x, indices)))
        else:
            out[native] = getattr(xp, ufunc)(out[native], v)
        return out

    return compute


# The updates done to every element; a mask says afterwards which elements keep theirs.
UPDATE_OF_ALL: dict[str, Callable[[Any, Any], Any]] = {
    "index_set": lambda x, v: v,
    "index_add": lambda x, v: ops.add(x, v),
    "index_multiply": lambda x, v: ops.multiply(x, v),
    "index_min": lambda x, v: ops.minimum(x, v),
    "index_max": lambda x, v: ops.maximum(x, v),
}


def _updated_at_mask(primitive: Primitive, x: ArrayLike, mask: Array, v: Array) -> Array:
    """Updates at a mask whose values are not known; all its elements get the same value."""
    shape, lengths = shape_of(mask), shape_of(x)
    if shape != lengths[: len(shape)]:
        raise IndexError(f"x.at[...]: a mask of shape {shape} for an array of shape {lengths}")
    mask = ops.reshape(mask, (*shape, *(1,) * (len(lengths) - len(shape))))
    return ops.where(mask, UPDATE_OF_ALL[primitive.name](x, v), x)


def _apply(primitive: Primitive, array: ArrayLike, key: Any, v: ArrayLike) -> Array:
    if is_unknown_mask(key) and len(shape_of(key)) + len(shape_of(v)) <= len(shape_of(array)):
        return _updated_at_mask(primitive, array, key, ops.astype(v, shape_dtype(array).dtype))
    x, indices, static = split_index_key(array, key)
    known = shape_dtype(x)
    values = shape_dtype(v)
    if values.dtype.kind == "c" and known.dtype.kind != "c":
        raise TypeError(
            f"x.at[...]: complex values do not fit into {known!r}; use v.real or x.astype(complex)"
        )
    if values.dtype != known.dtype and values.weak is None:
        v = ops.astype(v, known.dtype)
    wanted = static.shape(known.shape, indices)
    extra = len(values.shape) - len(wanted)
    if extra > 0 and set(values.shape[:extra]) == {1}:
        v = ops.reshape(v, values.shape[extra:])
    _check_values(shape_of(v), wanted, static, known.shape)
    out = primitive.bind((x, v, *indices), {"key": static})
    # Single booleans in the key have added axes.
    return out if x is array else ops.reshape(out, shape_of(array))


UPDATE_DOC = """``x.at[key].{name}(v)``: a copy of an array with some elements {what}.

    Args:
        x: an array.
        key: which elements: whatever may stand in ``x[key]``.
        v: values that broadcast to the shape of ``x[key]``; they are cast to x's dtype.

    Returns:
        An array of x's shape and dtype.{note}

    Raises:
        IndexError: an index is out of bounds.
        ShapeError: the values do not broadcast to the elements.

    >>> import functensor.numpy as np
    >>> np.array([1.0, 2.0, 3.0]).at[1:].{name}(2.5)
    Array({shown}, dtype=float64, device='cpu')
    """

UPDATE_NOTES = {
    "set": " Of repeated places the last wins.",
    "add": " Repeated places add up.",
    "multiply": " Repeated places multiply.",
}


def update(name: str, what: str, shown: str, ufunc: str | None, **rules: Any) -> Primitive:
    """Declares an update: a primitive of ``(x, v, *index_arrays)``, a function of ``(x, key, v)``.

    Args:
        name: what it is called after ``x.at[key].``.
        what: what happens to the elements, for its documentation.
        shown: the result of its example.
        ufunc: the array module's ufunc that combines elements and values; None takes the values.
        rules: its derivatives, and the dtypes for which they hold.
    """
    primitive = Primitive(
        f"index_{name}",
        compute=_computing(ufunc), infer=_infer_update, batch=_batch_update, broadcasts=True,
        movable=slice(2, None), hosted=True,
        reference=_update_reference(getattr(np, ufunc) if ufunc else None),
        samples=[
            Sample((3,), (), key=IndexKey((1,))),
            Sample((4, 3), (3,), key=IndexKey((slice(None, None, 2),))),
            Sample((2, 3, 4), (3, 1), key=IndexKey((1, Ellipsis, slice(1, 3)))),
            Sample((0, 3), (1, 2), key=IndexKey((slice(0, 0), slice(1, None)))),
            Sample(
                (2, 4, 3), Operand((2, 1)), Operand((), INDEX(4)), key=IndexKey((FULL, ARRAY), 1)
            ),
            Sample((2,), Operand((6,)), Operand((6,), INDEX(2)), key=IndexKey((ARRAY,), 1)),
        ],
        **rules,
    )

    def function(x: ArrayLike, key: Any, v: ArrayLike, /) -> Array:
        return _apply(primitive, x, key, v)

    function.__name__ = function.__qualname__ = primitive.name
    note = UPDATE_NOTES.get(name, "")
    function.__doc__ = UPDATE_DOC.format(name=name, what=what, shown=shown, note=note)
    registry.add_function(function)
    return primitive


def _at(x: ArrayLike, xs: Sequence[Any], key: IndexKey) -> Array:
    """Returns the elements of an array to which an update with operands ``xs`` goes."""
    return index_primitive.bind((x, *xs[2:]), {"key": key})


def _put(kind: str, x: ArrayLike, v: ArrayLike, xs: Sequence[Any], key: IndexKey) -> Array:
    """Returns an update of another array at the same elements."""
    primitive: Primitive = ops[f"index_{kind}"]
    return primitive.bind((x, v, *xs[2:]), {"key": key})


def _shapes_and_indices(ans: Value, xs: Sequence[Any]) -> tuple[Any, ...]:
    return (None, None, None, *xs[2:])


def _set_values_vjp(g: Array, xs: Sequence[Any], key: IndexKey) -> Array:
    """Returns the cotangent of values: that of the elements, for those that no other replaced."""
    picked = _at(g, xs, key)
    if not key.arrays:
        return picked
    # Every value leaves its number at its place. A value that finds another number was replaced.
    numbers = beside(g, np.arange(1, prod(shape_of(picked)) + 1).reshape(shape_of(picked)))
    unnumbered = ops.broadcast_to(beside(g, np.int64(0)), shape_of(g))
    left = _at(_put("set", unnumbered, numbers, xs, key), xs, key)
    return ops.where(ops.equal(left, numbers), picked, 0)


index_set_primitive = update(
    "set",
    "replaced",
    "[1. , 2.5, 2.5]",
    None,
    keep=_shapes_and_indices,
    vjp=(
        lambda g, xs, *, key: _put("set", g, 0, xs, key),
        lambda g, xs, *, key: _set_values_vjp(g, xs, key),
    ),
    pushforward=lambda ts, xs, *, key: _put("set", ts[0], ts[1], xs, key),
    dtypes="fdD",
)

index_add_primitive = update(
    "add",
    "added to",
    "[1. , 4.5, 5.5]",
    "add",
    keep=_shapes_and_indices,
    vjp=(lambda g: g, lambda g, xs, *, key: _at(g, xs, key)),
    pushforward=lambda ts, xs, *, key: _put("add", ts[0], ts[1], xs, key),
    dtypes="fdD",
)


def _other_factors(xs: Sequence[Any], key: IndexKey) -> Array:
    """Returns, for every value of ``index_multiply``, the product of what it is multiplied with.

    Without index arrays no place repeats, and that is the element itself. Otherwise the values
    that go to the same place are divided out again; zeros, which cannot be, are counted instead.
    """
    x, v = xs[:2]
    picked = _at(x, xs, key)
    if not key.arrays:
        return picked
    known = shape_dtype(x)
    zeros = ops.broadcast_to(beside(x, known.dtype.type(0)), known.shape)
    is_zero = ops.equal(v, 0)
    factor = ops.where(is_zero, known.dtype.type(1), v)
    product = _at(_put("multiply", zeros + known.dtype.type(1), factor, xs, key), xs, key)
    count = _at(_put("add", zeros, is_zero, xs, key), xs, key)
    elsewhere = ops.not_equal(count, ops.astype(is_zero, known.dtype))
    return picked * ops.where(elsewhere, known.dtype.type(0), product / factor)


def _scattered(values: Array, xs: Sequence[Any], key: IndexKey) -> Array:
    known = shape_dtype(xs[0])
    return scatter_sum([Scatter(known.shape, known.dtype, key, xs[2:], values)])


index_multiply_primitive = update(
    "multiply",
    "multiplied",
    "[1. , 5. , 7.5]",
    "multiply",
    vjp=(
        lambda g, xs, *, key: _put("multiply", g, xs[1], xs, key),
        lambda g, xs, *, key: _at(g, xs, key) * _other_factors(xs, key),
    ),
    jvp=(
        lambda t, xs, *, key: _put("multiply", t, xs[1], xs, key),
        lambda t, xs, *, key: _scattered(t * _other_factors(xs, key), xs, key),
    ),
    dtypes="fdD",
)


def _extremum_shares(ans: Array, xs: Sequence[Any], key: IndexKey) -> tuple[Array, Array, Array]:
    """Returns which elements and values are an extremum, and among how many each is."""
    dtype = shape_dtype(ans).dtype
    element = ops.astype(ops.equal(xs[0], ans), dtype)
    value = ops.astype(ops.equal(_at(ans, xs, key), xs[1]), dtype)
    # NaN equals nothing; there the count is raised to 1, and the derivative is zero.
    count = ops.maximum(_put("add", element, value, xs, key), dtype.type(1))
    return element, value, count


def _extremum_pullback(g: Array, ans: Array, xs: Sequence[Any], *, key: IndexKey) -> list[Any]:
    element, value, count = _extremum_shares(ans, xs, key)
    shared = g / count
    return [shared * element, _at(shared, xs, key) * value, *[None] * (len(xs) - 2)]


def _extremum_pushforward(
    ts: Sequence[Array], ans: Array, xs: Sequence[Any], *, key: IndexKey
) -> Array:
    element, value, count = _extremum_shares(ans, xs, key)
    return _put("add", ts[0] * element, ts[1] * value, xs, key) / count


EXTREMUM: dict[str, Any] = {"pullback": _extremum_pullback, "pushforward": _extremum_pushforward}

index_min_primitive = update(
    "min", "replaced by smaller values", "[1. , 2. , 2.5]", "minimum", **EXTREMUM
)
index_max_primitive = update(
    "max", "replaced by larger values", "[1. , 2.5, 3. ]", "maximum", **EXTREMUM
)
