"""Reductions: sums, products, extrema, truth over axes."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from math import prod as size_of
from typing import Any

import numpy as np

from ...backends.annotations import ArrayModule, Axes, Axis, Buffer, DTypeLike, Number
from ...backends.restoring import errstate
from ..core.annotations import ArrayLike, Prepared
from ..core.annotations import operations as ops
from ..core.array import Array
from ..core.buffers import checked_number, device_of
from ..core.derivative_rules import shape_of
from ..core.errors import misfit
from ..core.families import infer_reduction, prepare_reduction, reduction, with_options
from ..core.primitive import Primitive
from ..core.shape_dtype import ShapeDtype, canonical_axes, number_dtype, shape_dtype
from ..core.test_samples import DISTINCT, LOGICAL

__all__ = [
    "all", "any", "argmax", "argmin", "count_nonzero", "logsumexp", "max", "mean", "min", "prod",
    "spread_over_axes", "sum",
]  # fmt: skip


def spread_over_axes(reduced: Array, shape: tuple[int, ...], axis: Axes) -> Array:
    """Returns a reduced value broadcast back over the axes that were reduced, without a copy."""
    if len(axis) < len(shape):
        kept = tuple(1 if i in axis else n for i, n in enumerate(shape))
        if shape_of(reduced) != kept:
            reduced = ops.reshape.bind((reduced,), {"shape": kept})
    out: Array = ops.broadcast_to.bind((reduced,), {"shape": shape})
    return out


def _dtype_arguments(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Prepared:
    params = {
        "axis": canonical_axes(axis, len(shape_of(a))),
        "keepdims": bool(keepdims),
        "dtype": None if dtype is None else number_dtype(dtype),
    }
    return (a,), with_options(params, out, initial, where)


def _mean_arguments(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
) -> Prepared:
    return _dtype_arguments(a, axis, dtype, out, keepdims, None, where)


def _truth_arguments(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
) -> Prepared:
    return prepare_reduction(a, axis, out, keepdims, None, where)


def _position_arguments(
    a: ArrayLike, axis: Axis = None, out: None = None, *, keepdims: bool = False
) -> Prepared:
    return prepare_reduction(a, axis, out, keepdims)


def _count_arguments(a: ArrayLike, axis: Axis = None, *, keepdims: bool = False) -> Prepared:
    return prepare_reduction(a, axis, None, keepdims)


def selecting(name: str, neutral: Number | None, combine: str) -> Callable[..., Any]:
    """Returns what reduces the elements where a condition holds, from an initial value on.

    A neutral number stands for the other elements; where there is none, there has to be an initial
    value. The primitive ``combine`` joins that to the result.
    """

    def optional(
        x: Array, initial: ArrayLike | None, where: ArrayLike | None, params: dict[str, Any]
    ) -> Array:
        shape = shape_of(x)
        if where is not None:
            if initial is None and neutral is None:
                raise ValueError(
                    f"{name}: with where= there may be no elements at all: give initial= as well"
                )
            known = shape_dtype(x).dtype
            rest: Any = neutral
            if neutral is None:
                rest = ops.astype(checked_number(initial, known), known)
            x = ops.where(where, x, rest)
            if shape_of(x) != shape:
                raise misfit(
                    f"{name}: where= of shape {shape_of(where)} does not broadcast to {shape}",
                    "give a condition for each element, or for each along some axes",
                )
        primitive: Primitive = ops[name]
        if initial is None:
            return primitive.bind((x,), params)
        reduced = infer_reduction(primitive, shape_dtype(x), **params)
        initial = ops.astype(checked_number(initial, reduced.dtype), reduced.dtype)
        if neutral is None and 0 in [shape[a] for a in params["axis"]]:
            return ops.broadcast_to(ops.to_device(initial, device_of(x)), reduced.shape)
        join: Primitive = ops[combine]
        return join(primitive.bind((x,), params), initial)

    return optional


DTYPE = {"dtype": "the result's dtype, which it is computed in; None for x's (integers: int64)."}

# -- sums

sum = reduction(
    "sum",
    lambda g, x_shape, *, axis: spread_over_axes(g, x_shape, axis),
    jvp=(lambda t, *, axis, keepdims, dtype: _sum_of(t, axis, keepdims, dtype),),
    prepare=_dtype_arguments, optional=selecting("sum", 0, "add"), dtypes="fdD",
    doc="Returns the sum over axes.",
    options=DTYPE,
    example="np.sum([[1, 2], [3, 4]], axis=0) -> [4, 6]",
)


def _sum_of(x: Array, axis: Axes, keepdims: bool, dtype: DTypeLike | None = None) -> Array:
    return sum.bind((x,), {"axis": axis, "keepdims": keepdims, "dtype": dtype})


# The largest count by which a cotangent is divided at once.
LARGEST_UNSCALED_COUNT = 1 << 15


def _mean_vjp(g: Array, x_shape: tuple[int, ...], *, axis: Axes) -> Array:
    # The cotangent is scaled before it is spread, while it is small. A count of 0 changes nothing.
    count: float = size_of(x_shape[a] for a in axis)
    if count > LARGEST_UNSCALED_COUNT:
        # float16 may not hold larger counts; division by a power of two is exact.
        g, count = g / LARGEST_UNSCALED_COUNT, count / LARGEST_UNSCALED_COUNT
    return spread_over_axes(g / (count or 1), x_shape, axis)


def _mean_reference(x: Buffer, axis: Axis, keepdims: bool, dtype: DTypeLike | None = None) -> Any:
    """NumPy's mean, which warns where there are no elements."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return np.mean(x, axis=axis, keepdims=keepdims, dtype=dtype)


def _mean_of_selected(x: Array, initial: None, where: ArrayLike, params: dict[str, Any]) -> Array:
    known = shape_dtype(x)
    dtype = params["dtype"] or infer_reduction(mean, known, **params).dtype
    total = ops.sum(x, params["axis"], dtype, keepdims=params["keepdims"], where=where)
    there = ops.broadcast_to(ops.astype(where, bool), known.shape)
    count = ops.sum(there, params["axis"], keepdims=params["keepdims"])
    # The quotient keeps its dtype; over no elements it is NaN, without a warning of the division.
    share = ops.divide(total, ops.astype(ops.maximum(count, 1), dtype))
    return ops.where(ops.equal(count, 0), np.nan, share)


mean = reduction(
    "mean",
    _mean_vjp,
    jvp=(lambda t, **params: ops.mean.bind((t,), params),),
    prepare=_mean_arguments, optional=_mean_of_selected, empty=False, reference=_mean_reference,
    dtypes="fdD",
    doc="Returns the mean over axes; of integers in ``float64``.",
    options=DTYPE,
    example="np.mean([[1, 2], [3, 4]], axis=0) -> [2.0, 3.0]",
)


def _count_nonzero(xp: ArrayModule, x: Buffer, *, axis: Axes, keepdims: bool) -> Buffer:
    counts = xp.asarray(xp.count_nonzero(x, axis=axis))
    return xp.expand_dims(counts, axis)[()] if keepdims else counts[()]


count_nonzero = reduction(
    "count_nonzero",
    compute=_count_nonzero, prepare=_count_arguments, domain=LOGICAL,
    doc="Returns how many elements are not zero.",
    example="np.count_nonzero([[0, 2], [3, 4]], axis=0) -> [1, 2]",
)

# -- sums of exponentials


def _exponential_weights(x: Array, ans: Array, axis: Axes) -> Array:
    """Returns exp(x) over the sum of exponentials whose logarithm ``ans`` is."""
    return ops.exp(ops.log_ratio(x, spread_over_axes(ans, shape_of(x), axis)))


def _logsumexp_reference(x: Buffer, axis: Axis, keepdims: bool) -> Any:
    with errstate(divide="ignore"):
        return np.log(np.sum(np.exp(x), axis=axis, keepdims=keepdims))


logsumexp = reduction(
    "logsumexp",
    lambda g, ans, x, *, axis: (
        spread_over_axes(g, shape_of(x), axis) * _exponential_weights(x, ans, axis)
    ),
    jvp=(
        lambda t, ans, x, *, axis, keepdims: _sum_of(
            t * _exponential_weights(x, ans, axis), axis, keepdims
        ),
    ),
    prepare=_count_arguments, reference=_logsumexp_reference, empty=False,
    doc="Returns the logarithm of the sum of exponentials over axes, without overflow.",
    example="np.logsumexp([1000.0, -np.inf]) -> 1000.0",
)

# -- products


def _exclusive(x: Array, axis: int, reverse: bool) -> Array:
    """Returns the products of all elements before each, or behind each."""
    return ops.cumprod(x, axis, reverse=reverse, exclusive=True)


def _others_product(x: Array, axis: Axes) -> Array:
    """Returns for each element the product of all others: a quotient fails where it is 0."""
    *rest, last = axis
    own = _exclusive(x, last, False) * _exclusive(x, last, True)
    if not rest:
        return own
    total = prod.bind((x,), {"axis": (last,), "keepdims": True, "dtype": None})
    return own * _others_product(total, tuple(rest))


def _prod_vjp(g: Array, x: Array, *, axis: Axes) -> Array:
    return spread_over_axes(g, shape_of(x), axis) * _others_product(x, axis) if axis else g


def _prod_jvp(t: Array, x: Array, *, axis: Axes, keepdims: bool) -> Array:
    if not axis:
        return t
    others = _others_product(x, axis)
    # An element that does not change adds nothing, however large the product of the others is.
    idle = ops.logical_and(ops.isinf(others), t == 0)
    return _sum_of(ops.where(idle, 0, t * ops.where(idle, 1, others)), axis, keepdims)


prod = reduction(
    "prod",
    _prod_vjp,
    jvp=(_prod_jvp,), prepare=_dtype_arguments, optional=selecting("prod", 1, "multiply"),
    compute=lambda xp, x, *, axis, keepdims, dtype: xp.prod(
        x, axis=axis, keepdims=keepdims, dtype=dtype
    ),
    dtypes="fdD",
    doc="Returns the product over axes.",
    options=DTYPE,
    example="np.prod([[1, 2], [3, 4]], axis=0) -> [3, 8]",
)

# -- extrema: equal ones share the derivative alike


def _infer_extremum(primitive: Primitive, x: ShapeDtype, **params: Any) -> ShapeDtype:
    out = infer_reduction(primitive, x, **params)
    if out.size and not x.size:
        fix = f"np.{primitive.name}(x, initial=...) says what that of no elements is"
        if primitive.name.startswith("arg"):
            fix = "ask for x.size first"
        raise misfit(f"{primitive.name}: over no elements, of shape {x.shape}, there is none", fix)
    return out


def _extremal(x: Array, ans: Array, axis: Axes) -> tuple[Array, Array]:
    """Returns 1 where an extremum is and 0 elsewhere, and how many times it is there."""
    found = ops.astype(x == spread_over_axes(ans, shape_of(x), axis), ans.dtype)
    return found, _sum_of(found, axis, True)


def _extremum_vjp(g: Array, ans: Array, x: Array, *, axis: Axes) -> Array:
    found, times = _extremal(x, ans, axis)
    g = ops.reshape.bind((g,), {"shape": shape_of(times)}) / times
    return spread_over_axes(g, shape_of(x), axis) * found


def _extremum_jvp(t: Array, ans: Array, x: Array, *, axis: Axes, keepdims: bool) -> Array:
    found, times = _extremal(x, ans, axis)
    total = _sum_of(t * found, axis, True) / times
    return total if keepdims else ops.reshape.bind((total,), {"shape": shape_of(ans)})


def _extremum(name: str, of_two: str, shown: str) -> dict[str, Any]:
    return {
        "jvp": (_extremum_jvp,), "infer": _infer_extremum,
        "optional": selecting(name, None, of_two),
        "domain": DISTINCT, "empty": False,
        "doc": f"Returns the {of_two} over axes, NaN where there is one; equal ones share the "
        "derivative.",
        "example": f"np.{name}([[1, 4], [3, 2]], axis=0) -> {shown}",
    }


max = reduction(
    "max", _extremum_vjp, prepare=prepare_reduction, **_extremum("max", "maximum", "[3, 4]")
)
min = reduction(
    "min", _extremum_vjp, prepare=prepare_reduction, **_extremum("min", "minimum", "[1, 2]")
)


def _place_of_extremum(name: str, of_two: str, shown: str) -> dict[str, Any]:
    """Describes the search for the first extremum, in the order of the axes that are searched.

    NumPy searches one axis or all; vmap makes several of all.
    """

    def compute(xp: ArrayModule, x: Buffer, *, axis: Axes, keepdims: bool) -> Any:
        x = xp.asarray(x)
        search = getattr(xp, name)
        if len(axis) == x.ndim:
            return search(x, axis=None, keepdims=keepdims)
        if len(axis) == 1:
            return search(x, axis=axis[0], keepdims=keepdims)
        left = tuple(i for i in range(x.ndim) if i not in axis)
        shape = (*(x.shape[i] for i in left), size_of(x.shape[a] for a in axis))
        found = search(x.transpose(left + axis).reshape(shape), axis=-1)
        return xp.expand_dims(found, axis) if keepdims else found

    def reference(x: Buffer, axis: Axis = None, keepdims: bool = False) -> Buffer:
        axes = canonical_axes(axis, np.ndim(x))
        last = tuple(range(-len(axes), 0))
        gathered = np.moveaxis(x, axes, last)
        left = gathered.shape[: np.ndim(x) - len(axes)]
        rows = gathered.reshape(*left, size_of(np.shape(x)[a] for a in axes))
        found = getattr(np, name)(rows, axis=-1)
        return np.expand_dims(found, axes) if keepdims else found

    return {
        "infer": _infer_extremum, "compute": compute, "reference": reference,
        "domain": DISTINCT, "empty": False,
        "doc": f"Returns the index of the first {of_two}; over several axes, that among all their "
        "elements.",
        "example": f"np.{name}([[1, 4], [3, 2]], axis=0) -> {shown}",
    }


argmax = reduction(
    "argmax", prepare=_position_arguments, **_place_of_extremum("argmax", "maximum", "[1, 0]")
)
argmin = reduction(
    "argmin", prepare=_position_arguments, **_place_of_extremum("argmin", "minimum", "[0, 1]")
)

# -- truth

any = reduction(
    "any",
    prepare=_truth_arguments, optional=selecting("any", False, "logical_or"), domain=LOGICAL,
    doc="Returns whether any element holds; numbers hold if they are not zero.",
    example="np.any([[True, False], [False, False]], axis=0) -> [True, False]",
)
all = reduction(
    "all",
    prepare=_truth_arguments, optional=selecting("all", True, "logical_and"), domain=LOGICAL,
    doc="Returns whether all elements hold; numbers hold if they are not zero.",
    example="np.all([[True, True], [True, False]], axis=0) -> [True, False]",
)
