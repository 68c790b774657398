"""Linear systems: solutions, inverses, determinants, and Cholesky's factor.

Rules are the differentials of ``a x = b`` and the like, as collected by M. Giles, "Collected
matrix derivative results for forward and reverse mode algorithmic differentiation" (2008). A
cotangent is transposed without conjugation, so that for ``t -> u t v`` it is ``u.mT g v.mT``.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...backends.annotations import ArrayModule, Axes, Buffer
from ...backends.arrays import linalg
from ...backends.restoring import errstate
from ..core.annotations import operations as ops
from ..core.array import Array
from ..core.buffers import beside
from ..core.derivative_rules import shape_of
from ..core.families import prepare_reduction, reduction
from ..core.in_steps import PrimitiveInSteps
from ..core.test_samples import NONZERO, Sample
from ..reduce.reductions import spread_over_axes
from .by_factors import (
    det_by_factors,
    factors_pay,
    kept_factors,
    slogdet_by_factors,
    slogdet_jvp,
    slogdet_vjp,
    solve_by_factors,
)
from .stacks import adjoint, conjugate, hermitian_part, near, of_matrices, safe_reciprocal
from .triangular import triangular_solve

__all__ = ["cholesky", "cofactors", "det", "euclidean_norm", "inv", "pinv", "slogdet", "solve"]

EYE = {n: 3.0 * np.eye(n) for n in (0, 1, 2, 3)}

# -- systems and inverses


def _solve_pullback(g: Array, ans: Array, x: Array) -> tuple[Array, Array]:
    # One factorisation, that of the transposed matrix, serves both operands.
    by_y = ops.solve(x.mT, g)
    return -ops.matmul(by_y, ans.mT), by_y


solve = of_matrices(
    "solve",
    lambda a, b: (a[1], b[1]),
    kind=PrimitiveInSteps, in_steps=factors_pay, first=(kept_factors, {"strict": True}),
    last=(solve_by_factors, {"strict": True, "transposed": False}),
    compute=linalg.solve, reference=np.linalg.solve,
    pullback=_solve_pullback,
    jvp=(lambda g, ans, x: -ops.solve(x, ops.matmul(g, ans)), lambda g, x: ops.solve(x, g)),
    dtypes="fdD",
    samples=[
        Sample(near(EYE[3]), (3, 2)), Sample(near(EYE[2], 2), (2, 1)),
        Sample(near(EYE[2]), (2, 2, 3)), Sample(near(EYE[2], 1), (3, 2, 1)),
        Sample(near(EYE[2], 2, 1), (3, 2, 1)), Sample(near(EYE[0]), (0, 2)),
        Sample(near(EYE[2]), (2, 0)),
    ],
    doc="Returns x with ``a @ x = b``, for stacks of matrices a and b.",
)


inv = of_matrices(
    "inv",
    lambda a, strict: a,
    compute=linalg.inverses,
    reference=lambda a, strict: np.linalg.inv(a),
    vjp=(lambda g, ans: -ops.matmul(ans.mT, ops.matmul(g, ans.mT)),),
    jvp=(lambda g, ans: -ops.matmul(ans, ops.matmul(g, ans)),),
    dtypes="fdD",
    samples=[
        Sample(near(EYE[3]), strict=True), Sample(near(EYE[2], 2), strict=False),
        Sample(near(EYE[0]), strict=True),
    ],
    doc="Returns inverses; of singular matrices an error, or NaN where that is not ``strict``.",
)


def _pinv_terms(ans: Array, x: Array) -> tuple[Array, Array, Array, Array]:
    """Returns two Gram matrices of the inverse, and the projections that it makes vanish."""
    m, n = shape_of(x)[-2:]
    left = ops.subtract(beside(x, np.eye(m, dtype=x.dtype)), ops.matmul(x, ans))
    right = ops.subtract(beside(x, np.eye(n, dtype=x.dtype)), ops.matmul(ans, x))
    return ops.matmul(ans, adjoint(ans)), ops.matmul(adjoint(ans), ans), left, right


def _pinv_jvp(g: Array, ans: Array, x: Array) -> Array:
    rows, columns, left, right = _pinv_terms(ans, x)
    t = adjoint(g)
    return (
        ops.matmul(rows, ops.matmul(t, left))
        + ops.matmul(right, ops.matmul(t, columns))
        - ops.matmul(ans, ops.matmul(g, ans))
    )


def _pinv_vjp(g: Array, ans: Array, x: Array) -> Array:
    rows, columns, left, right = _pinv_terms(ans, x)
    by_adjoint = ops.matmul(rows.mT, ops.matmul(g, left.mT)) + ops.matmul(
        right.mT, ops.matmul(g, columns.mT)
    )
    return adjoint(by_adjoint) - ops.matmul(ans.mT, ops.matmul(g, ans.mT))


pinv = of_matrices(
    "pinv",
    lambda a, limit: a[::-1],
    square=False, compute=linalg.pseudo_inverse,
    reference=lambda a, limit: np.linalg.pinv(a, limit.real.min()),
    vjp=(_pinv_vjp, lambda g: None),
    jvp=(_pinv_jvp, lambda g: None),
    dtypes="fdD",
    samples=[
        Sample((3, 2), near([[-1.0]])), Sample((2, 2, 3), near([[-1.0]], 2)),
        Sample((0, 2), near([[-1.0]])),
    ],
    doc="""Returns pseudo-inverses; singular values up to ``limit`` times the largest count as 0.

    The derivative is that among matrices of the same rank: G. Golub and V. Pereyra, "The
    differentiation of pseudo-inverses and nonlinear least squares problems whose variables
    separate", SIAM J. Numer. Anal. 10 (1973).
    """,
)

# -- determinants


def _cofactors_rule(g: Array, xs: Sequence[Array], i: int) -> Array:
    """Serves both modes: cofactors are symmetric in all matrices and linear in each direction."""
    return ops.cofactors(*xs[:i], g, *xs[i + 1 :]) if i else ops.cofactors(*xs, g)


cofactors = of_matrices(
    "cofactors",
    lambda a, *directions: a,
    compute=linalg.cofactors,
    reference=lambda a, *directions: _cofactors_reference(a, *directions),
    vjp=_cofactors_rule, jvp=_cofactors_rule, dtypes="fdD",
    samples=[Sample((3, 3)), Sample((2, 2, 2), (2, 2)), Sample((2, 3, 3), (3, 3)), Sample((0, 0))],
    doc="""Returns the gradient of the derivative of the determinant along directions.

    Without a direction that is the matrix of cofactors, ``det(x) inv(x).mT``, for singular
    matrices too.
    """,
)


def _cofactors_reference(a: Buffer, *directions: Buffer) -> Buffer:
    """Returns cofactors by the determinant's expansion, one element after the other."""
    stack = np.broadcast_shapes(*(m.shape[:-2] for m in (a, *directions)))
    n = a.shape[-1]
    out = np.zeros((*stack, n, n), a.dtype)
    matrices = [np.broadcast_to(m, (*stack, n, n)) for m in (a, *directions)]
    for place in np.ndindex(*stack, n, n):
        *where, row, column = place
        own, *others = (m[tuple(where)] for m in matrices)
        unit = np.zeros((n, n), a.dtype)
        unit[row, column] = 1
        replaced = [unit, *others]
        for rows in np.ndindex(*(n,) * len(replaced)):
            if len(set(rows)) == len(rows):
                swapped = own.copy()
                for r, m in zip(rows, replaced, strict=True):
                    swapped[r] = m[r]
                # It warns on arm64 where the first column is of real numbers.
                with errstate(divide="ignore", invalid="ignore"):
                    out[place] += np.linalg.det(swapped)
    return out


det = of_matrices(
    "det",
    lambda a: (),
    kind=PrimitiveInSteps, in_steps=factors_pay, first=(kept_factors, {"strict": False}),
    last=(det_by_factors, {}),
    compute=lambda xp, a: xp.linalg.det(a),
    reference=np.linalg.det,
    vjp=(lambda g, x: ops.expand_dims(g, (-2, -1)) * ops.cofactors(x),),
    jvp=(lambda g, x: ops.sum(g * ops.cofactors(x), axis=(-2, -1)),),
    dtypes="fdD", samples=[Sample((3, 3)), Sample((2, 2, 2)), Sample((0, 0)), Sample((0, 2, 2))],
    doc="Returns determinants.",
)


def _slogdet(xp: ArrayModule, a: Buffer) -> Buffer:
    sign, logarithm = xp.linalg.slogdet(a)
    return xp.stack([sign, logarithm.astype(sign.dtype)], axis=-1)


def _inverse_or_nan(x: Array) -> Array:
    """Returns inverses; NaN for singular matrices."""
    out: Array = inv.bind((x,), {"strict": False})
    return out


slogdet = of_matrices(
    "slogdet",
    lambda a: (2,),
    kind=PrimitiveInSteps, in_steps=factors_pay, first=(kept_factors, {"strict": False}),
    last=(slogdet_by_factors, {}),
    compute=_slogdet,
    vjp=(lambda g, ans, x: slogdet_vjp(g, ans, _inverse_or_nan(x)),),
    jvp=(lambda g, ans, x: slogdet_jvp(g, ans, x, _inverse_or_nan(x)),),
    dtypes="fdD",
    samples=[Sample(near(EYE[3])), Sample(near(EYE[2], 2)), Sample(near(EYE[0]))],
    doc="Returns the signs of determinants, and the logarithms of their sizes, packed.",
)

# -- Cholesky's factor


def _half_triangle(x: Array) -> Array:
    """Returns the lower triangles with their diagonals halved."""
    n = shape_of(x)[-1]
    return x * beside(x, np.tri(n, dtype=x.dtype) - 0.5 * np.eye(n, dtype=x.dtype))


def _cholesky_jvp(g: Array, ans: Array) -> Array:
    inner = _solved_below(ans, adjoint(_solved_below(ans, hermitian_part(g))))
    return ops.matmul(ans, _half_triangle(adjoint(inner)))


def _cholesky_vjp(g: Array, ans: Array) -> Array:
    # The steps of forward mode are transposed, from the last to the first.
    inner = _solved_below(ans, _half_triangle(ops.matmul(ans.mT, g)), transposed=True)
    return hermitian_part(_solved_below(conjugate(ans), inner.mT, transposed=True).mT)


def _solved_below(lower: Array, b: Array, transposed: bool = False) -> Array:
    """Solves systems of lower triangles."""
    params = {"lower": True, "transposed": transposed, "unit_diagonal": False}
    return triangular_solve.bind((lower, b), params)


cholesky = of_matrices(
    "cholesky",
    lambda a: a,
    compute=linalg.cholesky,
    reference=lambda a: np.linalg.cholesky(0.5 * (a + np.conj(np.swapaxes(a, -1, -2)))),
    vjp=(_cholesky_vjp,), jvp=(_cholesky_jvp,), dtypes="fdD",
    samples=[Sample(near(EYE[3])), Sample(near(EYE[2], 2)), Sample(near(EYE[0]))],
    doc="""Returns lower triangles L with ``L @ adjoint(L)`` the Hermitian part of the operand.

    I. Murray, "Differentiation of the Cholesky decomposition" (2016).
    """,
)

# -- lengths


def _euclidean_norm(xp: ArrayModule, x: Buffer, *, axis: Axes, keepdims: bool) -> Buffer:
    if x.dtype == np.float16:
        # Squares in half precision soon overflow.
        wide = _euclidean_norm(xp, x.astype(np.float32), axis=axis, keepdims=keepdims)
        return wide.astype(np.float16)
    squares = x.real**2 + x.imag**2 if x.dtype.kind == "c" else x * x
    return xp.sqrt(squares.sum(axis=axis, keepdims=keepdims))


def _direction(x: Array, ans: Array, axis: Axes) -> Array:
    """Returns the conjugate of x over its length, 0 where that is 0."""
    if ans.dtype == np.float16:
        # The reciprocal of a small length overflows in half precision.
        return conjugate(x) / spread_over_axes(ops.where(ans == 0, np.inf, ans), shape_of(x), axis)
    return conjugate(x) * spread_over_axes(safe_reciprocal(ans, ans == 0), shape_of(x), axis)


def _euclidean_norm_jvp(g: Array, ans: Array, x: Array, *, axis: Axes, keepdims: bool) -> Array:
    change = ops.real(g * _direction(x, ans, axis))
    return ops.sum(change, axis=axis, keepdims=keepdims) if axis else change


euclidean_norm = reduction(
    "euclidean_norm",
    lambda g, ans, x, *, axis: spread_over_axes(g, shape_of(x), axis) * _direction(x, ans, axis),
    jvp=(_euclidean_norm_jvp,), prepare=prepare_reduction, domain=NONZERO, compute=_euclidean_norm,
    reference=lambda x, axis=None, keepdims=False: _euclidean_norm(
        np, np.asarray(x), axis=axis, keepdims=keepdims
    ),
    dtypes="fdD",
    doc="Returns the square root of the sum of squared sizes over axes; its derivative at 0 is 0.",
)
