"""Polynomials as their coefficients, that of the highest power first.

Leading zeros are dropped where NumPy drops them and where values are known; they stay under vmap
and while staging, since the length of the result would depend on them.
"""

from __future__ import annotations

import operator
import warnings
from functools import reduce
from math import factorial
from typing import Any

import numpy as np

from ..primitives.core.annotations import ArrayLike
from ..primitives.core.annotations import operations as ops
from ..primitives.core.array import Array
from ..primitives.core.buffers import beside
from ..primitives.core.errors import misfit
from ..primitives.core.shape_dtype import INEXACT, REAL, finfo, result_type
from .arguments import array_beside, arrays_together, as_inexact
from .creation import asarray
from .known_values import are_values_known, is_computed, value_of
from .zeros_ones import eye, ones_like, zeros_like

__all__ = [
    "poly", "polyadd", "polyder", "polydiv", "polyfit", "polyint", "polymul", "polysub", "roots",
    "vander",
]  # fmt: skip


def _as_coefficients(name: str, p: ArrayLike) -> Array:
    """Returns coefficients, a single one as an array too."""
    p = ops.atleast_1d(asarray(p))
    if len(p.shape) != 1:
        raise misfit(
            f"{name}: coefficients stand on one axis, not in shape {p.shape}",
            f"np.{name}(p.ravel(), ...)",
        )
    return p


def _coefficients_from(p: Array, start: int | None, stop: int | None) -> Array:
    return ops.index(p, slice(start, stop))


def _leading_zeros(name: str, p: Array) -> int:
    """Returns how many zeros are in front, which is none where values are not known."""
    if not are_values_known(p):
        return 0
    places = np.flatnonzero(value_of(name, p, ""))
    return int(places[0]) if len(places) else int(p.shape[0])


@ops.add_function
def vander(x: ArrayLike, N: int | None = None, increasing: bool = False) -> Array:
    """Returns the matrix of powers of numbers: Vandermonde's.

    Args:
        x: numbers on one axis.
        N: how many powers, from 0 up; as many as numbers by default.
        increasing: whether the power 0 stands in the first column rather than in the last.

    Returns:
        A matrix with a row for each number, of at least ``int64`` or ``float64``.

    Raises:
        ShapeError: x has not one axis.
        ValueError: N is negative.

    >>> import functensor.numpy as np
    >>> np.vander(np.array([1, 2, 3]), 2).tolist()
    [[1, 1], [2, 1], [3, 1]]
    """
    x = asarray(x)
    if len(x.shape) != 1:
        raise misfit(
            f"vander: numbers stand on one axis, not in shape {x.shape}", "np.vander(x.ravel())"
        )
    count = x.shape[0] if N is None else operator.index(N)
    if count < 0:
        raise ValueError(f"vander: there are no {count} powers")
    if x.dtype.kind != "V":
        x = ops.astype(x, np.promote_types(x.dtype, int))
    if not count:
        return zeros_like(x, shape=(x.shape[0], 0))
    columns: list[Any] = [ones_like(x)]
    for _ in range(count - 1):
        columns.append(ops.multiply(columns[-1], x))
    return ops.stack(columns if increasing else columns[::-1], axis=1)


# -- arithmetic


def _of_one_length(name: str, a1: ArrayLike, a2: ArrayLike) -> tuple[Array, Array]:
    """Returns coefficients of two polynomials, as many for both."""
    pair = [_as_coefficients(name, p) for p in arrays_together((a1, a2), name)]
    length = max(p.shape[0] for p in pair)
    first, second = (ops.pad(p, (length - p.shape[0], 0)) for p in pair)
    return first, second


@ops.add_function
def polyadd(a1: ArrayLike, a2: ArrayLike) -> Array:
    """Returns the coefficients of the sum of two polynomials.

    Args:
        a1, a2: coefficients, that of the highest power first.

    >>> import functensor.numpy as np
    >>> np.polyadd([1, 2], [9, 5, 4])
    Array([9, 6, 6], dtype=int64, device='cpu')
    """
    return ops.add(*_of_one_length("polyadd", a1, a2))


@ops.add_function
def polysub(a1: ArrayLike, a2: ArrayLike) -> Array:
    """Returns the coefficients of the difference of two polynomials.

    Args:
        a1, a2: coefficients, that of the highest power first.

    >>> import functensor.numpy as np
    >>> np.polysub([2, 10, -2], [3, 10, -4])
    Array([-1,  0,  2], dtype=int64, device='cpu')
    """
    return ops.subtract(*_of_one_length("polysub", a1, a2))


@ops.add_function
def polymul(a1: ArrayLike, a2: ArrayLike) -> Array:
    """Returns the coefficients of the product of two polynomials.

    Args:
        a1, a2: coefficients, that of the highest power first.

    >>> import functensor.numpy as np
    >>> np.polymul([1, 2], [1, -2])
    Array([ 1,  0, -4], dtype=int64, device='cpu')
    """
    factors = []
    for p in arrays_together((a1, a2), "polymul"):
        p = _as_coefficients("polymul", p)
        zeros = min(_leading_zeros("polymul", p), p.shape[0] - 1)
        factors.append(_coefficients_from(p, zeros, None))
    return ops.convolve_full(*factors)


@ops.add_function
def polydiv(u: ArrayLike, v: ArrayLike) -> tuple[Array, Array]:
    """Returns the quotient and the remainder of two polynomials.

    Args:
        u, v: coefficients of the dividend and of the divisor, that of the highest power first.

    Returns:
        The quotient and the remainder, which has fewer coefficients than the divisor unless that is
        a number.

    >>> import functensor.numpy as np
    >>> [p.tolist() for p in np.polydiv([3.0, 5.0, 2.0], [2.0, 1.0])]
    [[1.5, 1.75], [0.25]]
    """
    u, v = (_as_coefficients("polydiv", p) for p in arrays_together((u, v), "polydiv"))
    kind = result_type(u.dtype, v.dtype, *([] if u.dtype.kind in INEXACT else [np.float64]))
    u, v = ops.astype(u, kind), ops.astype(v, kind)
    steps = u.shape[0] - v.shape[0] + 1
    if steps <= 0:
        return zeros_like(u, shape=1), _without_small_leading(u)
    lead, rest = ops.index(v, 0), _coefficients_from(v, 1, None)
    quotient = []
    for _ in range(steps):
        factor = ops.divide(ops.index(u, 0), lead)
        quotient.append(factor)
        # The first coefficient is 0 now, and goes.
        near = ops.subtract(_coefficients_from(u, 1, v.shape[0]), ops.multiply(factor, rest))
        u = ops.concatenate([near, _coefficients_from(u, v.shape[0], None)])
    if not u.shape[0]:
        u = zeros_like(u, shape=1)
    return ops.stack(quotient), _without_small_leading(u)


def _without_small_leading(r: Array) -> Array:
    """Returns a remainder without leading coefficients that are next to zero, if that is known."""
    if not are_values_known(r):
        return r
    large = np.abs(value_of("polydiv", r, "")) > 1e-8
    first = int(np.argmax(large)) if large.any() else r.shape[0] - 1
    return _coefficients_from(r, first, None)


@ops.add_function
def polyder(p: ArrayLike, m: int = 1) -> Array:
    """Returns the coefficients of a polynomial's derivative.

    Args:
        p: coefficients, that of the highest power first.
        m: how often to differentiate.

    >>> import functensor.numpy as np
    >>> np.polyder([1, 1, 1, 1])
    Array([3, 2, 1], dtype=int64, device='cpu')
    """
    m = operator.index(m)
    if m < 0:
        raise ValueError(f"polyder: m={m}; polyint integrates")
    p = _as_coefficients("polyder", p)
    left = max(p.shape[0] - m, 0)
    factors = [factorial(i + m) // factorial(i) for i in range(left)][::-1]
    if not m:
        return p
    kind = float if p.dtype.kind in INEXACT else int
    return ops.multiply(_coefficients_from(p, 0, left), beside(p, np.array(factors, kind)))


@ops.add_function
def polyint(p: ArrayLike, m: int = 1, k: ArrayLike | None = None) -> Array:
    """Returns the coefficients of a polynomial's antiderivative.

    Args:
        p: coefficients, that of the highest power first.
        m: how often to integrate.
        k: the constants of integration, that of the highest power first; one number for all, by
            default 0. Derivatives flow to them.

    Returns:
        Inexact coefficients.

    Raises:
        ShapeError: there are fewer than m constants.
        ValueError: m is negative.

    >>> import functensor.numpy as np
    >>> np.polyint([1.0, 1.0, 1.0])
    Array([0.33333333, 0.5       , 1.        , 0.        ], dtype=float64, device='cpu')
    """
    m = operator.index(m)
    if m < 0:
        raise ValueError(f"polyint: m={m}; polyder differentiates")
    p = _as_coefficients("polyint", p)
    constants = ops.atleast_1d(array_beside(p, 0.0 if k is None else k))
    if constants.shape == (1,) and m > 1:
        constants = ops.broadcast_to(constants, (m,))
    if constants.shape[0] < m or len(constants.shape) != 1:
        raise misfit(
            f"polyint: {m} constants are needed, not {constants.shape}",
            "np.polyint(p, m, k=constants), with m numbers",
        )
    if not m:
        return p
    both = ops.concatenate([as_inexact(p), _coefficients_from(constants, 0, m)])
    powers = range(p.shape[0] + m - 1, -1, -1)
    # The constant that comes in at a step is integrated in all later ones.
    divisors = [factorial(i) // factorial(max(i - m, 0)) for i in powers]
    return ops.divide(both, beside(both, np.array(divisors, finfo(both.dtype).dtype)))


# -- roots


def _eigenvalues(matrix: Array) -> Array:
    from .linalg import eigvals  # imported when it is first used

    return eigvals(matrix)


@ops.add_function
def roots(p: ArrayLike, *, strip_zeros: bool = True) -> Array:
    """Returns the roots of a polynomial: the eigenvalues of its companion matrix.

    Args:
        p: coefficients, that of the highest power first.
        strip_zeros: whether to look at the values, where they are known, for leading and trailing
            zeros and for real roots; the length of the result does not depend on them otherwise.

    Returns:
        Complex numbers, one for each power, in no order; real ones where NumPy's are and the
        values are known. Derivatives hold where roots differ.

    Source: R. A. Horn and C. R. Johnson, "Matrix Analysis", 3.3

    >>> import functensor.numpy as np
    >>> np.sort(np.roots([1.0, -3.0, 2.0]).real)
    Array([1., 2.], dtype=float64, device='cpu')
    """
    p = as_inexact(_as_coefficients("roots", p))
    known = strip_zeros and are_values_known(p)
    zeros = 0
    if known:
        value = value_of("roots", p, "")
        places = np.flatnonzero(value)
        if not len(places):
            return zeros_like(p, shape=0)
        zeros = p.shape[0] - 1 - int(places[-1])
        p = _coefficients_from(p, int(places[0]), int(places[-1]) + 1)
    degree = p.shape[0] - 1
    if degree < 1:
        return zeros_like(p, shape=max(zeros, 0))
    first = ops.divide(ops.negative(_coefficients_from(p, 1, None)), ops.index(p, 0))
    below = eye(degree - 1, degree, dtype=p.dtype, device=p.device)
    found = _eigenvalues(ops.concatenate([ops.expand_dims(first, 0), below], axis=0))
    if known and p.dtype.kind in REAL and not np.any(value_of("roots", found, "").imag):
        found = ops.real(found)
    return ops.concatenate([found, zeros_like(found, shape=zeros)]) if zeros else found


@ops.add_function
def poly(seq_of_zeros: ArrayLike) -> Array:
    """Returns the coefficients of the polynomial with given roots, or of a characteristic one.

    Args:
        seq_of_zeros: roots on one axis, or a square matrix, whose eigenvalues are the roots.

    Returns:
        Coefficients, that of the highest power first and 1. Of complex roots that are known to come
        in conjugate pairs, and of real matrices, they are real.

    Raises:
        ShapeError: it is neither.

    >>> import functensor.numpy as np
    >>> np.poly([1.0, 2.0])
    Array([ 1., -3.,  2.], dtype=float64, device='cpu')
    """
    zeros = ops.atleast_1d(asarray(seq_of_zeros))
    pairs = False
    if len(zeros.shape) == 2 and zeros.shape[0] == zeros.shape[1] and zeros.shape[0]:
        pairs = zeros.dtype.kind != "c"
        zeros = _eigenvalues(zeros)
    elif len(zeros.shape) != 1:
        raise misfit(
            f"poly: roots on one axis, or a square matrix, not shape {zeros.shape}",
            "np.poly(roots.ravel())",
        )
    elif zeros.dtype.kind == "c" and are_values_known(zeros):
        value = value_of("poly", zeros, "")
        pairs = bool(np.all(np.sort(value) == np.sort(value.conj())))
    kind = zeros.dtype if zeros.dtype.char in "fdFD" else np.dtype(np.float64)
    if not zeros.shape[0]:
        return ones_like(zeros, kind, shape=())
    one = ones_like(zeros, kind, shape=1)
    factors = [
        ops.concatenate([one, ops.negative(_coefficients_from(ops.astype(zeros, kind), i, i + 1))])
        for i in range(zeros.shape[0])
    ]
    out = reduce(ops.convolve_full, factors)
    return ops.real(out) if pairs and out.dtype.kind == "c" else out


# -- fits


@ops.add_function
def polyfit(
    x: ArrayLike,
    y: ArrayLike,
    deg: int,
    rcond: float | None = None,
    full: bool = False,
    w: ArrayLike | None = None,
    cov: bool | str = False,
) -> Array | tuple[Array | float, ...]:
    """Returns the coefficients of the polynomial that is closest to points: by least squares.

    Args:
        x: where the points lie, on one axis.
        y: their values, or values in columns, for each of which a polynomial is fitted.
        deg: the polynomial's degree.
        rcond: singular values up to this times the largest count as 0; by default the number of
            points times the precision.
        full: whether to return the solver's findings as well.
        w: what the distances are multiplied with before they are squared.
        cov: whether to return the coefficients' covariances as well; ``"unscaled"`` takes the
            weights to be 1 over standard deviations that are known.

    Returns:
        The coefficients, that of the highest power first, on the first axis. With ``full`` a tuple
        of these, the sums of squared residuals, the rank, the singular values and rcond; with
        ``cov`` a pair of these and the covariances. Derivatives flow to x, y and w.

    Raises:
        TypeError: shapes do not fit, or there are no points.
        ValueError: deg is negative, or there are too few points for their covariances.

    >>> import functensor.numpy as np
    >>> x = np.array([0.0, 1.0, 2.0])
    >>> np.allclose(np.polyfit(x, 3 * x - 1, 1), [3.0, -1.0]).item()
    True
    """
    from .linalg import inv, lstsq  # imported when they are first used

    order = operator.index(deg) + 1
    x, y, *weights = arrays_together([v for v in (x, y, w) if v is not None], "polyfit")
    if order < 1:
        raise ValueError(f"polyfit: deg={deg}, but no polynomial has a negative degree")
    if len(x.shape) != 1 or not x.shape[0] or len(y.shape) not in (1, 2):
        raise TypeError(f"polyfit: x of shape {x.shape} and y of shape {y.shape}")
    count = x.shape[0]
    if y.shape[0] != count:
        raise TypeError(f"polyfit: {count} places and {y.shape[0]} values")
    x = as_inexact(x)
    if rcond is None:
        rcond = count * float(finfo(x.dtype).eps)
    left, right = vander(x, order), ops.astype(y, result_type(y.dtype, np.float64))
    for w in weights:
        if w.shape != (count,):
            raise TypeError(f"polyfit: weights of shape {w.shape} for {count} points")
        wide = ops.expand_dims(w, 1)
        left = ops.multiply(left, wide)
        right = ops.multiply(right, wide if len(y.shape) == 2 else w)
    # Columns of one length make singular values comparable. The solution does not depend on it.
    scale = ops.stop_gradient(ops.sqrt(ops.sum(ops.square(ops.abs(left)), axis=0)))
    scale = ops.where(ops.equal(scale, 0), 1, scale)
    left = ops.divide(left, scale)
    solution, residuals, rank, values = lstsq(left, right, rcond)
    tall = ops.expand_dims(scale, 1) if len(y.shape) == 2 else scale
    c = ops.divide(solution, tall)
    if full:
        return c, residuals, rank, values, rcond
    if is_computed(rank) and int(value_of("polyfit", rank, "")) != order:
        message = f"polyfit: the points do not determine a polynomial of degree {deg}"
        warnings.warn(message, np.exceptions.RankWarning, stacklevel=3)
    if not cov:
        return c
    spread = inv(ops.matmul(ops.transpose(left), left))
    spread = ops.divide(spread, ops.multiply(ops.expand_dims(scale, 1), scale))
    if len(y.shape) == 2:
        spread = ops.expand_dims(spread, 2)
    if cov != "unscaled":
        if count <= order:
            raise ValueError(f"polyfit: more than {order} points are needed for their covariances")
        rest = ops.subtract(right, ops.matmul(left, solution))
        total = ops.sum(ops.square(ops.abs(rest)), axis=0)
        spread = ops.multiply(spread, ops.divide(total, count - order))
    return c, spread
