"""Factors of matrices that are kept for several systems: of a solution, and of its derivatives.

No derivative goes through the factors. They are constants of which the solution is computed, and
the solution has its derivative by the matrix itself, which is an operand too. That holds for every
order: the derivative's own systems have the same factors.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...backends import lapack_of_numpy
from ...backends.annotations import ArrayModule, Buffer, Shape
from ...backends.arrays import linalg
from ..core.annotations import operations as ops
from ..core.array import Array
from ..core.buffers import beside, device_of
from ..core.derivative_rules import shape_of
from ..core.errors import misfit
from ..core.primitive import Primitive
from ..core.shape_dtype import shape_dtype
from ..core.test_samples import Operand, Sample
from .stacks import near, of_matrices

__all__ = [
    "cofactors_by_factors", "det_by_factors", "factors_pay", "kept_factors", "slogdet_by_factors",
    "slogdet_jvp", "slogdet_vjp", "solve_by_factors",
]  # fmt: skip

# To factorise a smaller matrix a second time takes no longer than to keep the factors.
FEWEST_KEPT_ROWS = 64
KEPT_CHARS = "fdFD"


def factors_pay(*operands: Array) -> bool:
    """Says whether a matrix that derivatives need again is factorised once, for some operands."""
    known = [shape_dtype(x) for x in operands]
    return (
        known[0].shape[-1] >= FEWEST_KEPT_ROWS
        and all(x.dtype == known[0].dtype for x in known)
        and known[0].dtype.char in KEPT_CHARS
        and len({device_of(x) for x in operands}) == 1
    )


def _kept_factors(xp: ArrayModule, a: Buffer, *, strict: bool) -> Buffer:
    n = a.shape[-1]
    if xp is not np or not a.size or not lapack_of_numpy.has_lapack(a.dtype):
        # Pivots of 0 stand for factors that were not found.
        return xp.zeros((*a.shape[:-2], n + 1, n), a.dtype)
    factors = lapack_of_numpy.lu_of_stack(a)
    if strict and not factors[..., :n, :].diagonal(0, -2, -1).all():
        with linalg.failure_with_advice("solve", linalg.LEAST_SQUARES):
            raise linalg.LinAlgError("Singular matrix")
    return factors


def _kept_shape(matrix: Shape, strict: bool) -> Shape:
    return matrix[0] + 1, matrix[1]


def no_factors(n: int, *stack: int) -> tuple[Operand, Operand]:
    """Returns operands for tests: factors that were not found, and matrices.

    No factors can be drawn for matrices that are drawn.
    """
    return near(np.full((n + 1, n), -1.0), *stack), near(3 * np.eye(n), *stack)


kept_factors = of_matrices(
    "kept_factors",
    _kept_shape,
    compute=_kept_factors, constant=True, dtypes="fdD",
    samples=[
        Sample(near(3 * np.eye(3)), strict=True), Sample(near(3 * np.eye(2), 2), strict=False),
        Sample(near(np.eye(0)), strict=True),
    ],
    doc="""Returns what `solve_by_factors` needs of matrices, as one row more than they have.

    A singular matrix is an error where that is ``strict``.
    """,
)
# Systems alone make an error of it.
kept_factors.told_as = "solve"


def _solve_by_factors(
    xp: ArrayModule, factors: Buffer, a: Buffer, b: Buffer, *, strict: bool, transposed: bool
) -> Buffer:
    n = b.shape[-2]
    factors, a = _in_one_stack(xp, factors, a)
    if a.dtype != b.dtype or not b.size or not _are_known(xp, factors, a):
        matrices = xp.swapaxes(a, -1, -2) if transposed else a
        if strict:
            return linalg.solve(xp, matrices, b)  # type: ignore[no-any-return]
        return xp.matmul(linalg.inverses(xp, matrices, strict=False), b)
    found = lapack_of_numpy.solved_by_factors(factors, b, transposed=transposed)
    pivots = factors[..., :n, :].diagonal(0, -2, -1)
    if pivots.all():
        return found
    regular = np.all(pivots, axis=-1, keepdims=True)[..., None]
    return np.where(regular, found, np.nan).astype(b.dtype)


def _in_one_stack(xp: ArrayModule, factors: Buffer, a: Buffer) -> tuple[Buffer, Buffer]:
    """Returns factors and matrices, as many of either."""
    if factors.shape[:-2] == a.shape[:-2]:
        return factors, a
    stack = np.broadcast_shapes(factors.shape[:-2], a.shape[:-2])
    broadcast = [xp.broadcast_to(x, (*stack, *x.shape[-2:])) for x in (factors, a)]
    return broadcast[0], broadcast[1]


def _are_known(xp: ArrayModule, factors: Buffer, a: Buffer) -> bool:
    """Says whether factors of matrices were found."""
    if xp is not np or factors.dtype != a.dtype or not a.size:
        return False
    return bool(np.all(factors[..., a.shape[-1], 0].real > 0))


def _solution(factors: Array, a: Array, b: Array, strict: bool, transposed: bool) -> Array:
    params = {"strict": strict, "transposed": transposed}
    return solve_by_factors.bind((factors, a, b), params)


def _by_factors_jvp(
    g: Array, ans: Array, x: Array, y: Array, *, strict: bool, transposed: bool
) -> Array:
    change = ops.matmul(g.mT if transposed else g, ans)
    return -_solution(x, y, change, strict, transposed)


def _by_factors_pullback(
    g: Array, ans: Array, x: Array, y: Array, *, strict: bool, transposed: bool
) -> tuple[None, Array, Array]:
    by_z = _solution(x, y, g, strict, not transposed)
    left, right = (ans, by_z) if transposed else (by_z, ans)
    return None, -ops.matmul(left, right.mT), by_z


def _fitting(factors: Shape, a: Shape) -> None:
    if factors != (a[0] + 1, a[1]) or a[0] != a[1]:
        raise misfit(
            f"factors of shape {factors}, and matrices of {a}", "factors are kept_factors(a)"
        )


def _by_factors_shape(factors: Shape, a: Shape, b: Shape, **params: bool) -> Shape:
    _fitting(factors, a)
    return b


solve_by_factors: Primitive = of_matrices(
    "solve_by_factors",
    _by_factors_shape,
    square=False, compute=_solve_by_factors,
    pullback=_by_factors_pullback,
    jvp=(
        lambda g: None,
        _by_factors_jvp,
        lambda g, x, y, **params: solve_by_factors.bind((x, y, g), params),
    ),
    dtypes="fdD",
    samples=[
        Sample(*no_factors(n, *stack), Operand(b), strict=strict, transposed=transposed)
        for n, stack, b, strict, transposed in [
            (3, (), (3, 2), True, False), (2, (2,), (2, 1), False, True),
            (2, (), (2, 2, 3), True, False), (0, (), (0, 2), True, True),
        ]
    ],
    doc="""Returns x with ``a @ x = b``, by the factors of stacks of matrices a.

    Args:
        factors: ``kept_factors(a)``; where that found none, a is factorised again.
        a: the matrices, by which x has its derivative.
        b: right-hand sides of shape (..., n, k).
        strict: whether a singular matrix is an error; otherwise x is NaN.
        transposed: whether to solve with transposed matrices.
    """,
)

# -- determinants


def _inverses(factors: Array, a: Array) -> Array:
    """Returns inverses; NaN for singular matrices."""
    eye: Any = beside(a, np.eye(shape_of(a)[-1], dtype=a.dtype))
    return _solution(factors, a, eye, False, False)


def _sign_and_logarithm(xp: ArrayModule, factors: Buffer, a: Buffer) -> tuple[Buffer, Buffer]:
    """Returns the signs of determinants, and the logarithms of their sizes."""
    factors, a = _in_one_stack(xp, factors, a)
    if not _are_known(xp, factors, a):
        sign, logarithm = xp.linalg.slogdet(a)
        return sign, logarithm
    return linalg.sign_and_logarithm(xp, factors)


def _slogdet_by_factors(xp: ArrayModule, factors: Buffer, a: Buffer) -> Buffer:
    sign, logarithm = _sign_and_logarithm(xp, factors, a)
    return xp.stack([sign, logarithm.astype(sign.dtype)], axis=-1)


def _of_determinants(factors: Shape, a: Shape) -> Shape:
    _fitting(factors, a)
    return (2,)


def imaginary_part(x: Array) -> Array:
    """Returns i times the imaginary part."""
    return x - ops.real(x)


def slogdet_jvp(g: Array, ans: Array, x: Array, inverse: Array) -> Array:
    """Returns the change of the packed signs and logarithms of determinants."""
    # The logarithm of the determinant changes by this; the sign turns with its imaginary part.
    change = ops.sum(g * inverse.mT, axis=(-2, -1))
    sign = ops.index(ans, (Ellipsis, 0))
    logarithm = ops.real(change) * x.dtype.type(1)
    # The sign of a real matrix changes by 0, even where the inverse is NaN.
    turn = sign * imaginary_part(change) if x.dtype.kind == "c" else sign - sign
    return ops.stack([turn, logarithm], axis=-1)


def slogdet_vjp(g: Array, ans: Array, inverse: Array) -> Array:
    """Returns the cotangents of matrices for those of packed signs and logarithms."""
    change = ops.real(ops.index(g, (Ellipsis, 1)))
    if ans.dtype.kind == "c":
        by_sign = imaginary_part(ops.index(g, (Ellipsis, 0)) * ops.index(ans, (Ellipsis, 0)))
        change = by_sign + change
    change = ops.expand_dims(change, (-2, -1))
    # What asks for the sign alone is not given the NaN of a singular matrix's inverse.
    return ops.where(change == 0, 0, change * inverse.mT)


slogdet_by_factors = of_matrices(
    "slogdet_by_factors",
    _of_determinants,
    square=False, compute=_slogdet_by_factors,
    vjp=(lambda g: None, lambda g, ans, x, y: slogdet_vjp(g, ans, _inverses(x, y))),
    jvp=(lambda g: None, lambda g, ans, x, y: slogdet_jvp(g, ans, y, _inverses(x, y))),
    dtypes="fdD",
    samples=[Sample(*no_factors(3)), Sample(*no_factors(2, 2)), Sample(*no_factors(0))],
    doc="Returns the signs of determinants, and the logarithms of their sizes, packed.",
)


def _cofactors_by_factors(xp: ArrayModule, factors: Buffer, a: Buffer) -> Buffer:
    factors, a = _in_one_stack(xp, factors, a)
    if not _are_known(xp, factors, a):
        return linalg.cofactors(xp, a)
    eye = np.eye(a.shape[-1], dtype=a.dtype)
    inverse = _solve_by_factors(xp, factors, a, eye, strict=False, transposed=False)
    found: Buffer | None = linalg.cofactors_of_inverses(
        xp, a, inverse, lambda: _determinants(xp, factors, a)
    )
    return linalg.cofactors_by_singular_values(xp, a) if found is None else found


def _of_cofactors(factors: Shape, a: Shape) -> Shape:
    _fitting(factors, a)
    return a


cofactors_by_factors = of_matrices(
    "cofactors_by_factors",
    _of_cofactors,
    square=False, compute=_cofactors_by_factors,
    vjp=(lambda g: None, lambda g, y: ops.cofactors(y, g)),
    jvp=(lambda g: None, lambda g, y: ops.cofactors(y, g)),
    dtypes="fdD",
    samples=[Sample(*no_factors(3)), Sample(*no_factors(2, 2)), Sample(*no_factors(0))],
    doc="Returns the matrices of cofactors, ``det(a) inv(a).mT``, for singular matrices too.",
)


def _determinants(xp: ArrayModule, factors: Buffer, a: Buffer) -> Buffer:
    sign, logarithm = _sign_and_logarithm(xp, factors, a)
    return (sign * xp.exp(logarithm)).astype(a.dtype)


def _det_by_factors(xp: ArrayModule, factors: Buffer, a: Buffer) -> Buffer:
    factors, a = _in_one_stack(xp, factors, a)
    return _determinants(xp, factors, a) if _are_known(xp, factors, a) else xp.linalg.det(a)


def _of_matrix(factors: Shape, a: Shape) -> Shape:
    _fitting(factors, a)
    return ()


det_by_factors = of_matrices(
    "det_by_factors",
    _of_matrix,
    square=False, compute=_det_by_factors,
    vjp=(
        lambda g: None,
        lambda g, x, y: ops.expand_dims(g, (-2, -1)) * cofactors_by_factors.bind((x, y), {}),
    ),
    jvp=(
        lambda g: None,
        lambda g, x, y: ops.sum(g * cofactors_by_factors.bind((x, y), {}), axis=(-2, -1)),
    ),
    dtypes="fdD",
    samples=[Sample(*no_factors(3)), Sample(*no_factors(2, 2)), Sample(*no_factors(0))],
    doc="Returns determinants.",
)
