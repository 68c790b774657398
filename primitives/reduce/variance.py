"""Variance and standard deviation: one primitive, as sums would take many passes."""

from __future__ import annotations

from math import nan, prod
from typing import Any

import numpy as np

from ...backends.annotations import ArrayModule, Axes, Axis, Buffer, DTypeLike
from ...backends.restoring import errstate
from ..core.annotations import ArrayLike, Prepared
from ..core.annotations import operations as ops
from ..core.array import Array, is_unknown
from ..core.buffers import beside
from ..core.derivative_rules import shape_of
from ..core.errors import refuse_out
from ..core.families import Reduction, batch_reduction, infer_reduction
from ..core.primitive import Primitive, of_parameters
from ..core.registry import operand
from ..core.shape_dtype import INEXACT, ShapeDtype, canonical_axes, result_type, shape_dtype
from ..core.test_samples import Sample
from ..elementwise.cast_and_complex import is_complex, real_of

__all__ = ["std", "var"]


def _var_arguments(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: ArrayLike | None = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
    mean: ArrayLike | None = None,
    correction: float | None = None,
) -> Prepared:
    refuse_out("var", out)
    if correction is not None:
        if ddof != 0:
            raise ValueError("ddof and correction are the same thing: give one of them")
        ddof = correction
    a = operand(a)
    own = shape_dtype(a)
    if dtype is None and (own.dtype.kind in "biu" or own.weak is not None):
        dtype = result_type(own.dtype, np.float64)
    if dtype is not None and own.dtype != dtype:
        a = ops.astype(a, dtype)
    axes = canonical_axes(axis, len(own.shape))
    params = {"axis": axes, "keepdims": bool(keepdims), "ddof": ddof}
    known = type(ddof) is int or not is_unknown(ddof)
    if mean is not None or (where is not None and where is not True) or not known:
        params["options"] = None, mean, where
    return (a,), params


def _var_of_selected(
    x: Array, mean: ArrayLike | None, where: ArrayLike | None, params: dict[str, Any]
) -> Array:
    """Returns the variance of elements where a condition holds, or about a mean that is given."""
    axis, keepdims = params["axis"], params["keepdims"]
    if mean is None and (where is None or where is True):
        return _var_of_any_freedom(x, params)
    shape, where = shape_of(x), beside(x, np.bool_(True)) if where is None else where
    if mean is None:
        mean = ops.mean(x, axis, keepdims=True, where=where)
    deviation = ops.where(where, ops.subtract(x, mean), 0)
    if is_complex(x):
        # Not the square of the magnitude, which has no second derivative where it is zero.
        squares = ops.real(ops.multiply(deviation, ops.conj(deviation)))
    else:
        squares = ops.square(deviation)
    there = ops.broadcast_to(ops.astype(where, bool), shape)
    count = ops.sum(there, axis, keepdims=keepdims)
    freedom = ops.astype(ops.subtract(count, params["ddof"]), shape_dtype(squares).dtype)
    total = ops.sum(squares, axis, keepdims=keepdims)
    share = ops.divide(total, ops.where(ops.greater(freedom, 0), freedom, 1))
    return ops.where(ops.greater(freedom, 0), share, nan)


def _var_of_any_freedom(x: Array, params: dict[str, Any]) -> Array:
    """Returns the variance where the degrees of freedom are traced."""
    plain = var.bind((x,), {**params, "ddof": 0})
    count = prod(shape_of(x)[i] for i in params["axis"])
    share = ops.divide(np.float64(count), ops.maximum(ops.subtract(count, params["ddof"]), 0))
    return ops.multiply(plain, ops.astype(share, shape_dtype(plain).dtype))


def _freedom(shape: tuple[int, ...], axis: Axes, ddof: float) -> float:
    """Returns the number by which the sum of squares is divided."""
    return max(prod([shape[i] for i in axis]) - ddof, 0)


def _squares(xp: ArrayModule, x: Buffer, axis: Axes, keepdims: bool) -> Any:
    """Returns sums of squared magnitudes, and overwrites the operand."""
    if x.dtype.kind == "c":
        x = x.real**2 + x.imag**2
    elif axis == (x.ndim - 1,) and hasattr(xp, "vecdot"):
        out = xp.vecdot(x, x)
        return out[..., None] if keepdims else out
    else:
        x *= x
    return xp.add.reduce(x, axis, keepdims=keepdims)


def _compute_var(xp: ArrayModule, x: Buffer, *, axis: Axes, keepdims: bool, ddof: float) -> Any:
    x = xp.asarray(x)
    freedom = _freedom(x.shape, axis, ddof)
    # As NumPy does, since squares of half precision soon overflow.
    wide = x.astype(np.float32) if x.dtype == np.float16 else x
    means = xp.add.reduce(wide, axis, keepdims=True) / max(_freedom(x.shape, axis, 0), 1)
    squares = _squares(xp, xp.asarray(wide - means), axis, keepdims)
    if freedom:
        out = squares / freedom
    else:
        with errstate(divide="ignore", invalid="ignore"):
            out = squares / freedom
    return out if wide is x else out.astype(x.dtype)


def _infer_var(
    primitive: Primitive, x: ShapeDtype, *, axis: Axes, keepdims: bool, ddof: float
) -> ShapeDtype:
    shape = infer_reduction(ops["sum"], x, axis=axis, keepdims=keepdims, dtype=None).shape
    return ShapeDtype(shape, real_of(x.dtype))


def _deviation(x: Array, axis: Axes) -> Array:
    """Returns what the elements differ by from their mean, conjugated if complex."""
    centred = ops.subtract(x, ops.mean(x, axis, keepdims=True))
    return ops.conj(centred) if shape_dtype(x).dtype.kind == "c" else centred


def _twice_over_freedom(x: Array, shape: tuple[int, ...], axis: Axes, ddof: float) -> Array:
    """Returns twice a value over the degrees of freedom; of no elements there is nothing to do."""
    freedom = _freedom(shape, axis, ddof) or (nan if _freedom(shape, axis, 0) else 2)
    return ops.multiply(x, 2 / freedom)


def _var_vjp(g: Array, x: Array, *, axis: Axes, ddof: float) -> Array:
    # The mean's own derivative drops out, as deviations add up to zero.
    shape = shape_of(x)
    share = _twice_over_freedom(g, shape, axis, ddof)
    kept = tuple([1 if i in axis else n for i, n in enumerate(shape)])
    return ops.multiply(ops.reshape(share, kept), _deviation(x, axis))


def _var_jvp(t: Array, x: Array, *, axis: Axes, keepdims: bool, ddof: float) -> Array:
    product = ops.real(ops.multiply(_deviation(x, axis), t))
    total = ops.sum(product, axis, keepdims=keepdims)
    return _twice_over_freedom(total, shape_of(x), axis, ddof)


var = of_parameters(
    "var",
    kind=Reduction,
    optional=_var_of_selected, prepare=_var_arguments, compute=_compute_var, infer=_infer_var,
    batch=batch_reduction,
    vjp=(_var_vjp,), jvp=(_var_jvp,),
    samples=[
        Sample(shape, axis=axis, keepdims=keepdims, ddof=ddof)
        for shape, axis, keepdims, ddof in [
            ((), (), False, 0),
            ((4,), (0,), False, 1),
            ((2, 3), (0, 1), True, 0),
            ((2, 3, 4), (0, 2), False, 0.5),
            ((2, 3, 4), (2,), False, 1),
            ((2, 3, 4), (1,), True, 1),
            ((2, 0, 3), (0,), False, 0),
        ]
    ],
    dtypes="fdD",
    doc="""Returns the variance over axes: the mean of squared deviations from the mean.

    Args:
        a: an array.
        axis: the axis or axes to reduce; all of them by default.
        dtype: in which dtype to compute; None for a's own (integers: ``float64``).
        out: None; arrays are immutable.
        ddof: what to subtract from the number of elements, by which the sum of squares is
            divided: 1 for the unbiased estimate from a sample. It may be traced.
        keepdims: whether the reduced axes stay, with length 1.
        where: a condition that broadcasts to a: which elements to take; None for all.
        mean: the mean, where it is known, with the reduced axes kept.
        correction: another name of ddof.

    Returns:
        A real array without the reduced axes.

    Raises:
        numpy.exceptions.AxisError: a has no such axis.

    >>> import functensor.numpy as np
    >>> np.var(np.array([1.0, 2.0, 3.0]), ddof=1)
    Array(1., dtype=float64, device='cpu')
    """,
)


@ops.add_function
def std(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: ArrayLike | None = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
    mean: ArrayLike | None = None,
    correction: float | None = None,
) -> Array:
    """Returns the standard deviation over axes: the root of the variance.

    Args:
        a, axis, dtype, out, ddof, keepdims, where, mean, correction: as for ``var``.

    Returns:
        A real array without the reduced axes. Where all elements are equal the derivative is
        taken to be zero.

    >>> import functensor.numpy as np
    >>> np.std(np.array([1.0, 3.0]))
    Array(1., dtype=float64, device='cpu')
    """
    refuse_out("std", out)
    options: dict[str, Any] = {"where": where, "mean": mean, "correction": correction}
    a = operand(a)
    narrow = shape_dtype(a).dtype
    if dtype is None and narrow.itemsize == 2 and narrow.kind in INEXACT:
        # The variance may overflow where its root does not.
        wide = std(ops.astype(a, np.float32), axis, None, None, ddof, keepdims, **options)
        return ops.astype(wide, narrow)
    variance = var(a, axis, dtype, None, ddof, keepdims, **options)
    # The root's infinite slope at zero must not meet the zeros of the variance's derivative.
    flat = ops.equal(variance, 0)
    return ops.where(flat, 0, ops.sqrt(ops.where(flat, 1, variance)))
