"""Averages, ranges and counts."""

from __future__ import annotations

from typing import Literal, overload

import numpy as np

from ..backends.annotations import Axis
from ..primitives.core.annotations import ArrayLike
from ..primitives.core.annotations import operations as ops
from ..primitives.core.array import Array
from ..primitives.core.buffers import operands_together
from ..primitives.core.derivative_rules import shape_of
from ..primitives.core.errors import misfit, refuse_out
from ..primitives.core.registry import operand
from ..primitives.core.shape_dtype import REAL, canonical_axis, result_type
from .creation import asarray
from .known_values import value_of
from .zeros_ones import full_like, zeros_like

__all__ = ["average", "bincount", "ptp"]


@overload
def average(
    a: ArrayLike, axis: Axis = ..., weights: ArrayLike | None = ..., returned: Literal[False] = ...,
    *, keepdims: bool = ...,
) -> Array: ...


@overload
def average(
    a: ArrayLike, axis: Axis = ..., weights: ArrayLike | None = ..., *, returned: Literal[True],
    keepdims: bool = ...,
) -> tuple[Array, Array]: ...


@ops.add_function
def average(
    a: ArrayLike,
    axis: Axis = None,
    weights: ArrayLike | None = None,
    returned: bool = False,
    *,
    keepdims: bool = False,
) -> Array | tuple[Array, Array]:
    """Returns the weighted average over axes: sum(a * weights) / sum(weights).

    Args:
        a: an array.
        axis: over which axes: None for all, an integer or a tuple.
        weights: of a's shape, or of the lengths that a has along ``axis``; None for equal ones.
        returned: whether to return the sum of the weights too.
        keepdims: whether the axes stay, with length 1.

    Returns:
        The average; with ``returned`` a pair of that and the sum of the weights.

    Raises:
        ShapeError: the weights' shape does not fit.

    >>> import functensor.numpy as np
    >>> np.average(np.array([1.0, 2.0]), weights=np.array([3.0, 1.0]))
    Array(1.25, dtype=float64, device='cpu')
    """
    a, weights = operands_together("average", a, weights)
    a = asarray(a)
    if weights is None:
        mean = ops.mean(a, axis, keepdims=keepdims)
        if not returned:
            return mean
        number = a.size / max(mean.size, 1)
        return mean, full_like(mean, number)
    weights = asarray(weights)
    if weights.shape != a.shape:
        named = axis if isinstance(axis, tuple) else () if axis is None else (axis,)
        axes = [canonical_axis(i, len(a.shape)) for i in named]
        if not axes or weights.shape != tuple([a.shape[i] for i in axes]):
            of = f"axis {axis} of " if axes else ""
            raise misfit(
                f"average: weights of shape {weights.shape} for {of}an array of shape {a.shape}: "
                "give weights of its shape, or of the lengths of the axes that they are for",
                "np.average(x, axis, weights), with one weight for each slice",
            )
        lengths = [n if i in axes else 1 for i, n in enumerate(a.shape)]
        order = sorted(range(len(axes)), key=axes.__getitem__)
        weights = ops.reshape(ops.transpose(weights, order), lengths)
    kind = result_type(a.dtype, weights.dtype)
    if a.dtype.kind in "biu":
        kind = result_type(kind, np.float64)
    a, weights = ops.astype(a, kind), ops.broadcast_to(ops.astype(weights, kind), a.shape)
    scale = ops.sum(weights, axis=axis, keepdims=keepdims)
    mean = ops.divide(ops.sum(ops.multiply(a, weights), axis=axis, keepdims=keepdims), scale)
    return (mean, scale) if returned else mean


@ops.add_function
def ptp(a: ArrayLike, axis: Axis = None, out: None = None, keepdims: bool = False) -> Array:
    """Returns the range of values over axes: the maximum minus the minimum.

    Args:
        a: an array.
        axis: over which axes: None for all, an integer or a tuple.
        out: None; arrays are immutable.
        keepdims: whether the axes stay, with length 1.

    >>> import functensor.numpy as np
    >>> np.ptp(np.array([3.0, 1.0, 7.0]))
    Array(6., dtype=float64, device='cpu')
    """
    refuse_out("ptp", out)
    a = operand(a)
    return ops.subtract(
        ops.max(a, axis=axis, keepdims=keepdims), ops.min(a, axis=axis, keepdims=keepdims)
    )


@ops.add_function
def bincount(
    x: ArrayLike,
    /,
    weights: ArrayLike | None = None,
    minlength: int = 0,
    *,
    length: int | None = None,
) -> Array:
    """Returns how often each number occurs, or the sum of the weights that come with it.

    Args:
        x: integers from 0 up, on one axis.
        weights: a number for each; derivatives flow to them.
        minlength: the least length of the result.
        length: the length of the result, where the largest integer is not known (under jit, vmap);
            larger integers are an error.

    Returns:
        An array with an element for each number from 0 up.

    Raises:
        ConcretizationError: x is traced and there is no ``length``.
        ShapeError: x has not one axis, or weights do not fit.
        ValueError: an integer is negative, or ``minlength`` is.

    >>> import functensor.numpy as np
    >>> np.bincount(np.array([0, 2, 2]))
    Array([1, 0, 2], dtype=int64, device='cpu')
    """
    x, weights = operands_together("bincount", x, weights)
    x = asarray(x)
    if minlength < 0:
        raise ValueError(f"bincount: minlength is not negative, but {minlength}")
    if len(x.shape) != 1 or (x.dtype.kind not in "biu" and x.size):
        raise misfit(
            f"bincount counts integers on one axis, not {x.describe()}",
            "np.bincount(x.ravel().astype(int))",
        )
    x = ops.astype(x, np.intp)
    if length is None:
        fix = "np.bincount(x, length=n), with a number above the largest integer"
        largest = int(value_of("bincount", ops.max(x), fix)) if x.size else -1
        if x.size and int(ops.min(x)) < 0:
            raise ValueError("bincount counts integers from 0 up; there are negative ones")
        length = max(largest + 1, minlength)
    if weights is None:
        return ops.index_add(zeros_like(x, shape=length), x, 1)
    weights = asarray(weights)
    if shape_of(weights) != x.shape:
        raise misfit(
            f"bincount: weights of shape {weights.shape} for {x.shape[0]} integers",
            "np.bincount(x, weights), with a weight for each integer",
        )
    kind = weights.dtype if weights.dtype.kind in REAL else np.float64
    return ops.index_add(zeros_like(x, kind, shape=length), x, weights)
