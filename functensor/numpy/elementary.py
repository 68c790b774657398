"""Elementary functions made of primitives."""

from __future__ import annotations

from math import pi

import numpy as np

from ..backends.annotations import DTypeLike
from ..primitives.core.annotations import ArrayLike
from ..primitives.core.annotations import operations as ops
from ..primitives.core.array import Array
from ..primitives.core.errors import refuse_out, refuse_where
from ..primitives.core.shape_dtype import REAL, number_dtype, result_type, shape_dtype
from ..primitives.core.ufunc_facts import check_casting
from ..primitives.core.ufunc_methods import UFUNC_METHODS, method_of
from .arguments import arrays_together, as_inexact
from .creation import asarray
from .zeros_ones import zeros_like

__all__ = ["fabs", "float_power", "polyval", "sinc"]


@ops.add_function
def fabs(
    x: ArrayLike, /, out: None = None, *, where: ArrayLike = True, dtype: DTypeLike | None = None
) -> Array:
    """Returns the absolute values of real numbers, of integers in a floating-point dtype.

    Args:
        x: a real array of any shape, or a number.
        out, where: refused: arrays are immutable.
        dtype: the dtype to compute in; None for x's own.

    Raises:
        TypeError: x is complex, or the dtype does not hold it.

    >>> import functensor.numpy as np
    >>> np.fabs(np.array([-1, 2]))
    Array([1., 2.], dtype=float64, device='cpu')
    """
    refuse_out("fabs", out)
    refuse_where("fabs", where)
    x = asarray(x)
    if dtype is not None and x.dtype.kind != "c":
        check_casting("fabs", [shape_dtype(x)], number_dtype(dtype), "same_kind")
        x = ops.astype(x, dtype)
    if x.dtype.kind == "c":
        raise TypeError(f"fabs takes real numbers, not {x.describe()}; np.abs takes complex ones")
    if x.dtype.kind not in REAL:
        x = ops.astype(x, np.fabs(np.ones((), x.dtype)).dtype)
    return ops.abs(x)


@ops.add_function
def sinc(x: ArrayLike) -> Array:
    """Returns sin(pi x) / (pi x), which is 1 at zero.

    Args:
        x: an array of any shape, or a number.

    >>> import functensor.numpy as np
    >>> np.sinc(np.array([0.0, 0.5]))
    Array([1.        , 0.63661977], dtype=float64, device='cpu')
    """
    x = as_inexact(x)
    angle = ops.multiply(x, pi)
    # A series near zero, so that derivatives of any order are those of the function.
    small = ops.less(ops.abs(angle), 0.01)
    squared = ops.square(ops.where(small, angle, 0))
    series = 1 - squared / 6 * (1 - squared / 20 * (1 - squared / 42))
    angle = ops.multiply(ops.where(small, 1, x), pi)
    return ops.where(small, series, ops.divide(ops.sin(angle), angle))


@ops.add_function
def float_power(
    x: ArrayLike, y: ArrayLike, /, out: None = None, *, where: ArrayLike = True
) -> Array:
    """Returns x to the power y in at least double precision, of integers too.

    Args:
        x, y: arrays whose shapes broadcast, or numbers.
        out, where: refused: arrays are immutable.

    >>> import functensor.numpy as np
    >>> np.float_power(2, -1)
    Array(0.5, dtype=float64, device='cpu')
    """
    refuse_out("float_power", out)
    refuse_where("float_power", where)
    x, y = arrays_together((x, y), "float_power")
    kind = result_type(x.dtype, y.dtype, np.float64)
    x, y = ops.astype(x, kind), ops.astype(y, kind)
    if not y.shape and kind.kind == "f":
        # `power` takes the root for the single exponent 0.5, which differs at -0 and -infinity.
        edge = ops.logical_or(ops.equal(x, 0), ops.equal(x, -np.inf))
        x = ops.where(ops.logical_and(edge, ops.equal(y, 0.5)), ops.abs(x), x)
    return ops.power(x, y)


for _name in UFUNC_METHODS:
    setattr(float_power, _name, method_of(float_power, "float_power", _name))


@ops.add_function
def polyval(p: ArrayLike, x: ArrayLike) -> Array:
    """Returns values of a polynomial, by Horner's rule.

    Args:
        p: the coefficients on one axis, that of the highest power first.
        x: where to evaluate it.

    >>> import functensor.numpy as np
    >>> np.polyval([3, 0, 1], 5)
    Array(76, dtype=int64, device='cpu')
    """
    p, x = arrays_together((p, x), "polyval")
    out = zeros_like(x)
    for i in range(p.shape[0]):
        out = ops.add(ops.multiply(out, x), ops.index(p, i))
    return out
