"""Questions about values that come down to comparisons."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..backends.restoring import errstate
from ..primitives.core.annotations import ArrayLike
from ..primitives.core.annotations import operations as ops
from ..primitives.core.array import Array
from ..primitives.core.buffers import checked_number, operands_together, wrap
from ..primitives.core.errors import refuse_out, would_change
from ..primitives.core.shape_dtype import REAL, finfo
from .arguments import arrays_together, as_inexact
from .creation import asarray
from .dtypes import result_type

__all__ = [
    "allclose", "array_equal", "array_equiv", "isclose", "iscomplex", "isneginf", "isposinf",
    "isreal", "nan_to_num", "select",
]  # fmt: skip


@ops.add_function
def isclose(
    a: ArrayLike, b: ArrayLike, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Array:
    """Says of every element whether it is close: abs(a - b) <= atol + rtol * abs(b).

    Args:
        a, b: arrays that broadcast to each other.
        rtol, atol: the relative and the absolute tolerance.
        equal_nan: whether NaN is close to NaN.

    Returns:
        An array of ``bool``.

    >>> import functensor.numpy as np
    >>> np.isclose(np.array([1.0, 1.1]), 1.0 + 1e-9)
    Array([ True, False], dtype=bool, device='cpu')
    """
    a, b = arrays_together((a, b), "isclose")
    b = as_inexact(b)
    # Differences of infinities are decided by the comparison.
    with errstate(invalid="ignore"):
        near = ops.less_equal(
            ops.abs(ops.subtract(a, b)), ops.add(ops.multiply(ops.abs(b), rtol), atol)
        )
    out = ops.logical_or(ops.logical_and(near, ops.isfinite(b)), ops.equal(a, b))
    if equal_nan:
        out = ops.logical_or(out, ops.logical_and(ops.isnan(a), ops.isnan(b)))
    return out


@ops.add_function
def allclose(
    a: ArrayLike, b: ArrayLike, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Array:
    """Says whether all elements are close, as `isclose` has it.

    Args:
        a, b, rtol, atol, equal_nan: as for `isclose`.

    Returns:
        A ``bool`` without axes, which stays traced under a transformation.

    >>> import functensor.numpy as np
    >>> bool(np.allclose(np.ones(2), 1.0))
    True
    """
    return ops.all(isclose(a, b, rtol, atol, equal_nan))


@ops.add_function
def array_equal(a1: ArrayLike, a2: ArrayLike, equal_nan: bool = False) -> Array:
    """Says whether two arrays have the same shape and the same elements.

    Args:
        a1, a2: the arrays.
        equal_nan: whether NaN equals NaN.

    Returns:
        A ``bool`` without axes, which stays traced under a transformation.

    >>> import functensor.numpy as np
    >>> bool(np.array_equal(np.ones(2), np.ones(3)))
    False
    """
    a1, a2 = arrays_together((a1, a2), "array_equal")
    if a1.shape != a2.shape:
        return wrap(np.bool_(False))
    same = ops.equal(a1, a2)
    if equal_nan:
        same = ops.logical_or(same, ops.logical_and(ops.isnan(a1), ops.isnan(a2)))
    return ops.all(same)


@ops.add_function
def array_equiv(a1: ArrayLike, a2: ArrayLike) -> Array:
    """Says whether two arrays broadcast to each other and have the same elements then.

    Args:
        a1, a2: arrays.

    Returns:
        A ``bool`` without axes, which stays traced under a transformation.

    >>> import functensor.numpy as np
    >>> bool(np.array_equiv(np.ones(2), np.ones((3, 2))))
    True
    """
    a1, a2 = arrays_together((a1, a2), "array_equiv")
    try:
        np.broadcast_shapes(a1.shape, a2.shape)
    except ValueError:
        return wrap(np.bool_(False))
    return ops.all(ops.equal(a1, a2))


@ops.add_function
def nan_to_num(
    x: ArrayLike,
    copy: bool = True,
    nan: ArrayLike = 0.0,
    posinf: ArrayLike | None = None,
    neginf: ArrayLike | None = None,
) -> Array:
    """Returns an array with NaN and infinities replaced by numbers.

    Args:
        x: an array.
        copy: True: arrays are immutable.
        nan: what stands for NaN.
        posinf, neginf: what stands for the infinities; None for the dtype's largest and smallest
            number.

    Returns:
        An array of x's shape and dtype. Derivatives flow to the elements that are kept.

    Raises:
        ImmutableArrayError: ``copy=False``, so that x itself would be changed.

    >>> import functensor.numpy as np
    >>> np.nan_to_num(np.array([1.0, np.nan]))
    Array([1., 0.], dtype=float64, device='cpu')
    """
    if not copy:
        raise would_change("np.nan_to_num(x, copy=False)", x, "x = np.nan_to_num(x)")
    x = asarray(x)
    if x.dtype.kind == "c":
        parts = (nan_to_num(part, copy, nan, posinf, neginf) for part in (x.real, x.imag))
        real, imaginary = parts
        return ops.astype(ops.add(real, ops.multiply(imaginary, 1j)), x.dtype)
    if x.dtype.kind not in REAL:
        return x
    limits = finfo(x.dtype)
    largest = float(limits.max) if posinf is None else posinf
    smallest = float(limits.min) if neginf is None else neginf
    # Python's own take the dtype by themselves; complex ones do not fit.
    numbers = [
        n if type(n) in (bool, int, float) else ops.astype(checked_number(n, x.dtype), x.dtype)
        for n in (nan, largest, smallest)
    ]
    out = ops.where(ops.isnan(x), numbers[0], x)
    out = ops.where(ops.equal(x, np.inf), numbers[1], out)
    return ops.where(ops.equal(x, -np.inf), numbers[2], out)


def _is_infinity(name: str, x: ArrayLike, infinity: float, out: None) -> Array:
    refuse_out(name, out)
    x = asarray(x)
    if x.dtype.kind == "c":
        raise TypeError(
            f"{name}: complex infinities have no sign; ask of np.real(x) or np.imag(x), or np.isinf"
        )
    return ops.equal(x, infinity)


@ops.add_function
def isposinf(x: ArrayLike, out: None = None) -> Array:
    """Says of every element whether it is positive infinity.

    Args:
        x: a real array of any shape, or a number.
        out: None; arrays are immutable.

    >>> import functensor.numpy as np
    >>> np.isposinf(np.array([np.inf, -np.inf]))
    Array([ True, False], dtype=bool, device='cpu')
    """
    return _is_infinity("isposinf", x, np.inf, out)


@ops.add_function
def isneginf(x: ArrayLike, out: None = None) -> Array:
    """Says of every element whether it is negative infinity.

    Args:
        x: a real array of any shape, or a number.
        out: None; arrays are immutable.

    >>> import functensor.numpy as np
    >>> np.isneginf(np.array([np.inf, -np.inf]))
    Array([False,  True], dtype=bool, device='cpu')
    """
    return _is_infinity("isneginf", x, -np.inf, out)


@ops.add_function
def isreal(x: ArrayLike) -> Array:
    """Says of every element whether its imaginary part is zero.

    >>> import functensor.numpy as np
    >>> np.isreal(np.array([1.0, 1j]))
    Array([ True, False], dtype=bool, device='cpu')
    """
    return ops.equal(ops.imag(asarray(x)), 0)


@ops.add_function
def iscomplex(x: ArrayLike) -> Array:
    """Says of every element whether its imaginary part is not zero.

    >>> import functensor.numpy as np
    >>> np.iscomplex(np.array([1.0, 1j]))
    Array([False,  True], dtype=bool, device='cpu')
    """
    return ops.not_equal(ops.imag(asarray(x)), 0)


@ops.add_function
def select(
    condlist: Sequence[ArrayLike], choicelist: Sequence[ArrayLike], default: ArrayLike = 0
) -> Array:
    """Returns for every element the choice of the first condition that is true there.

    Args:
        condlist: boolean arrays.
        choicelist: as many arrays; all of them broadcast to each other.
        default: what stands where no condition is true.

    Returns:
        An array of the dtype to which the choices promote.

    >>> import functensor.numpy as np
    >>> x = np.arange(4.0)
    >>> np.select([x < 1, x < 3], [-x, x * x], 10.0)
    Array([-0.,  1.,  4., 10.], dtype=float64, device='cpu')
    """
    if len(condlist) != len(choicelist) or not condlist:
        raise ValueError(f"select: {len(condlist)} conditions for {len(choicelist)} choices")
    out: Array
    out, *parts = operands_together("select", default, *condlist, *choicelist)
    condlist, choicelist = parts[: len(condlist)], parts[len(condlist) :]
    # The default does not take the dtype of one choice.
    out = ops.astype(out, result_type(*choicelist, out))
    for condition, choice in zip(reversed(condlist), reversed(choicelist), strict=True):
        out = ops.where(condition, choice, out)
    return out
