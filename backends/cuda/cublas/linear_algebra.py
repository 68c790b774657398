"""Linear algebra through cuSOLVER and cuBLAS, where CuPy's functions differ from NumPy's.

Nothing waits for the GPU to say that a matrix is singular or not positive definite: results are
then NaN, where NumPy raises an error. Eigenvectors and singular vectors come from one algorithm for
a matrix and from another for a stack of them; so that both give the same ones, each has the sign
with which its largest component is positive.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod

import cupy
import numpy as np
from cupy import ndarray

from ...annotations import DType, Shape
from ...arrays import linalg
from ...optional_modules import scipy_module
from ..launch import SMALL_BLOCK_THREADS, Kernel
from ..unsupported import absent
from .kept_factors import (
    are_known,
    det_of_factors,
    kept_factors,
    slogdet_of_factors,
    solved_of_factors,
)

__all__ = ["LINEAR_ALGEBRA_FUNCTIONS"]


def stack_shape(*operands: ndarray) -> Shape:
    """Returns the shape of the stack to which operands' stacks broadcast."""
    return np.broadcast_shapes(*(x.shape[:-2] for x in operands))


def broadcast_stack(x: ndarray, stack: Shape, dtype: DType) -> ndarray:
    """Returns matrices of a dtype, as many as a stack has."""
    x = x.astype(dtype, copy=False)
    return x if x.shape[:-2] == stack else cupy.broadcast_to(x, (*stack, *x.shape[-2:]))


def packed_results(*parts: ndarray) -> ndarray:
    """Returns results for one stack, the first of two axes, one behind the other on one axis."""
    stack = parts[0].shape[:-2]
    return cupy.concatenate(
        [x.reshape(*stack, prod(x.shape[len(stack) :])) for x in parts], axis=-1
    )


# -- systems


def one_system(solve: Callable[..., ndarray], a: ndarray, b: ndarray) -> ndarray:
    """Solves for all of a stack's right-hand sides as columns of one system, factorised once."""
    columns = cupy.moveaxis(b, -2, 0)
    flat = columns.reshape(columns.shape[0], prod(columns.shape[1:]))
    found = solve(a.reshape(a.shape[-2:]).astype(b.dtype, copy=False), flat)
    return cupy.moveaxis(found.reshape(columns.shape), 0, -2)


def solve(a: ndarray, b: ndarray) -> ndarray:
    """Returns x with ``a @ x = b``."""
    dtype = np.result_type(a.dtype, b.dtype)
    stack = stack_shape(a, b)
    if not prod(stack) * b.shape[-1] * b.shape[-2]:
        return cupy.zeros((*stack, *b.shape[-2:]), dtype)
    if prod(a.shape[:-2]) == 1 and prod(stack) > 1:
        return one_system(cupy.linalg.solve, a, broadcast_stack(b, stack, dtype))
    return cupy.linalg.solve(broadcast_stack(a, stack, dtype), broadcast_stack(b, stack, dtype))


def finite_or_nan(found: ndarray) -> ndarray:
    """Returns solutions, those of singular matrices as NaN."""
    proper = cupy.isfinite(found).all(axis=(-2, -1), keepdims=True)
    return cupy.where(proper, found, cupy.nan)


def solve_by_factors(
    factors: ndarray, a: ndarray, b: ndarray, *, strict: bool, transposed: bool
) -> ndarray:
    """Returns x with ``a @ x = b``, by factors where they are known."""
    stack = stack_shape(factors, a, b)
    if b.size and a.dtype == b.dtype and are_known(factors):
        function = partial(solved_of_factors, transposed=transposed)
        if prod(factors.shape[:-2]) == 1 and prod(stack) > 1:
            rows = factors.reshape(factors.shape[-2:])
            found = one_system(function, rows, broadcast_stack(b, stack, b.dtype))
        else:
            rows = broadcast_stack(factors, stack, b.dtype)
            found = function(rows, broadcast_stack(b, stack, b.dtype))
    else:
        found = solve(cupy.swapaxes(a, -1, -2) if transposed else a, b)
    return broadcast_stack(found if strict else finite_or_nan(found), stack, found.dtype)


def slogdet_by_factors(factors: ndarray, a: ndarray) -> ndarray:
    """Returns the signs of determinants and the logarithms of their sizes, packed."""
    if a.size and are_known(factors):
        found = slogdet_of_factors(factors)
    else:
        sign, logarithm = cupy.linalg.slogdet(a)
        found = cupy.stack([sign, logarithm.astype(sign.dtype)], axis=-1)
    return cupy.broadcast_to(found, (*stack_shape(factors, a), 2))


def det_by_factors(factors: ndarray, a: ndarray) -> ndarray:
    """Returns determinants."""
    found = det_of_factors(factors) if a.size and are_known(factors) else cupy.linalg.det(a)
    return cupy.broadcast_to(found, stack_shape(factors, a))


def inv(a: ndarray, *, strict: bool) -> ndarray:
    """Returns inverses; NaN for singular matrices."""
    if not a.size:
        return a.copy()
    # Systems leave infinities where there is no solution; inverses of stacks may leave anything.
    eye = cupy.eye(a.shape[-1], dtype=a.dtype)
    return finite_or_nan(cupy.linalg.solve(a, broadcast_stack(eye, a.shape[:-2], a.dtype)))


def pinv(a: ndarray, limit: ndarray) -> ndarray:
    """Returns pseudo-inverses, with a limit to the singular values for every matrix."""
    stack = stack_shape(a, limit)
    least = cupy.broadcast_to(limit[..., 0, 0].real, stack)
    if not prod(stack) * a.shape[-1] * a.shape[-2]:
        return cupy.zeros((*stack, a.shape[-1], a.shape[-2]), a.dtype)
    return cupy.linalg.pinv(broadcast_stack(a, stack, a.dtype), least)


def cholesky(a: ndarray) -> ndarray:
    """Returns the lower factors of Hermitian parts; NaN where these are not positive definite."""
    if not a.size:
        return a.copy()
    found = cupy.linalg.cholesky(0.5 * (a + cupy.conj(cupy.swapaxes(a, -1, -2))))
    # An algorithm that stops leaves a number that has no real root.
    positive = (cupy.diagonal(found, 0, found.ndim - 2, found.ndim - 1).real > 0).all(axis=-1)
    return cupy.where(positive[..., None, None], found, cupy.nan)


def triangular_solve(
    a: ndarray, b: ndarray, *, lower: bool, transposed: bool, unit_diagonal: bool
) -> ndarray:
    """Returns x with ``a @ x = b`` of triangular a."""
    dtype = np.result_type(a.dtype, b.dtype)
    stack = stack_shape(a, b)
    shape = (*stack, *b.shape[-2:])
    if not prod(shape):
        return cupy.zeros(shape, dtype)
    function = partial(
        scipy_module(cupy, "linalg").solve_triangular,
        trans=int(transposed), lower=lower, unit_diagonal=unit_diagonal,
    )  # fmt: skip
    b = broadcast_stack(b, stack, dtype)
    if prod(a.shape[:-2]) == 1:
        return one_system(function, a, b)
    rows = broadcast_stack(a, stack, dtype), b
    return function(*(x.reshape(-1, *x.shape[-2:]) for x in rows)).reshape(shape)


def banded_solve(bands: ndarray, b: ndarray, *, lower: int, upper: int) -> ndarray:
    """Solves ``a @ x = b`` by whole matrices: cuSOLVER has nothing for those with few diagonals."""
    n = bands.shape[-1]
    dtype = np.result_type(bands.dtype, b.dtype)
    if not bands.size or not b.size:
        return cupy.zeros((*stack_shape(bands, b), *b.shape[-2:]), dtype)
    dense = cupy.zeros((*bands.shape[:-2], n * n), dtype)
    for k in range(lower + upper + 1):
        # Column j of this diagonal stands in row j - step.
        step = upper - k
        first, last = max(step, 0), min(n, n + step)
        if first < last:
            start = (first - step) * n + first
            places = slice(start, start + (last - first - 1) * (n + 1) + 1, n + 1)
            dense[..., places] = bands[..., k, first:last]
    dense = dense.reshape(*bands.shape[:-2], n, n)
    return solve(dense, b)


# -- factors and decompositions


def signed(vectors: ndarray) -> ndarray:
    """Returns signs that make the largest component of every column positive, as rows."""
    places = cupy.argmax(cupy.abs(vectors), axis=-2)[..., None, :]
    largest = cupy.take_along_axis(vectors, places, axis=-2).real
    return cupy.where(largest < 0, -1, 1).astype(vectors.dtype)


def eigh(a: ndarray) -> ndarray:
    """Returns the eigenvalues and eigenvectors of Hermitian parts, packed."""
    n = a.shape[-1]
    if not a.size:
        return cupy.zeros((*a.shape[:-2], n + n * n), a.dtype)
    w, v = cupy.linalg.eigh(0.5 * (a + cupy.conj(cupy.swapaxes(a, -1, -2))))
    return packed_results(w.astype(v.dtype)[..., None, :], v * signed(v))


def eig(a: ndarray) -> ndarray:
    """Returns eigenvalues and eigenvectors, packed; always complex."""
    n = a.shape[-1]
    dtype = np.result_type(a.dtype, np.complex64)
    if not a.size:
        return cupy.zeros((*a.shape[:-2], n + n * n), dtype)
    w, v = cupy.linalg.eig(a)
    v = v.astype(dtype, copy=False)
    return packed_results(w.astype(dtype, copy=False)[..., None, :], v * signed(v))


def svd(a: ndarray, *, full_matrices: bool) -> ndarray:
    """Returns singular vectors and values, packed."""
    u, s, vh = cupy.linalg.svd(a, full_matrices=full_matrices)
    k = s.shape[-1]
    if k:
        signs = signed(u[..., :k])
        u, vh = u.copy(), vh.copy()
        u[..., :k] *= signs
        vh[..., :k, :] *= cupy.swapaxes(signs, -1, -2)
    return packed_results(u, s.astype(u.dtype)[..., None, :], vh)


def qr(a: ndarray, *, mode: str) -> ndarray:
    """Returns an orthogonal and a triangular factor, packed."""
    m, n = a.shape[-2:]
    if a.size:
        return packed_results(*cupy.linalg.qr(a, mode))
    k = m if mode == "complete" else min(m, n)
    q = cupy.broadcast_to(cupy.eye(m, k, dtype=a.dtype), (*a.shape[:-2], m, k))
    return packed_results(q, cupy.zeros((*a.shape[:-2], k, n), a.dtype))


def lu(a: ndarray) -> ndarray:
    """Returns the factors of matrices with their rows permuted, and the pivots, packed."""
    m, n = a.shape[-2:]
    k = min(m, n)
    out = cupy.zeros((*a.shape[:-2], m * n + k), a.dtype)
    if a.size:
        factorise = scipy_module(cupy, "linalg").lu_factor
        rows = out.reshape(-1, m * n + k)
        for matrix, row in zip(a.reshape(-1, m, n), rows, strict=True):
            factors, pivots = factorise(matrix, check_finite=False)
            row[: m * n] = factors.ravel()
            row[m * n :] = pivots
    return out


swap_rows = Kernel("row_swaps", "swap_rows", "pplll")


def pivots_to_permutation(pivots: ndarray, *, rows: int) -> ndarray:
    """Returns the old number of each row, after swaps of row i with row ``pivots[i]`` in turn."""
    stack, steps = pivots.shape[:-1], pivots.shape[-1]
    out = cupy.empty((*stack, rows), np.intp)
    count = prod(stack)
    if out.size:
        pivots = cupy.ascontiguousarray(pivots, dtype=np.intp)
        blocks = -(-count // SMALL_BLOCK_THREADS)
        swap_rows("", blocks, SMALL_BLOCK_THREADS, pivots, out, count, steps, rows)
    return out


# -- functions of matrices


def expm(a: ndarray) -> ndarray:
    """Returns exponentials; waits for the number of squarings."""
    return linalg.expm(cupy, a) if a.size else a.copy()


def cofactors(a: ndarray, *directions: ndarray) -> ndarray:
    """Returns the gradient of the derivative of the determinant along directions."""
    if not a.size:
        return cupy.zeros((*stack_shape(a, *directions), *a.shape[-2:]), a.dtype)
    return linalg.cofactors_by_singular_values(cupy, a, *directions)


def cofactors_by_factors(factors: ndarray, a: ndarray) -> ndarray:
    """Returns the matrices of cofactors, for which nothing is divided by: by singular values."""
    return cupy.broadcast_to(cofactors(a), (*stack_shape(factors, a), *a.shape[-2:]))


SCHUR = "cuSOLVER has no Schur decomposition"

LINEAR_ALGEBRA_FUNCTIONS: dict[str, Callable[..., ndarray]] = {
    "banded_solve": banded_solve,
    "cholesky": cholesky,
    "cofactors": cofactors,
    "cofactors_by_factors": cofactors_by_factors,
    "det_by_factors": det_by_factors,
    "eig": eig,
    "eigh": eigh,
    "expm": expm,
    "inv": inv,
    "kept_factors": kept_factors,
    "logm": absent("logm", SCHUR),
    "lu": lu,
    "pinv": pinv,
    "pivots_to_permutation": pivots_to_permutation,
    "qr": qr,
    "slogdet_by_factors": slogdet_by_factors,
    "solve": solve,
    "solve_by_factors": solve_by_factors,
    "solve_sylvester": absent("solve_sylvester", SCHUR),
    "sqrtm": absent("sqrtm", SCHUR),
    "svd": svd,
    "triangular_solve": triangular_solve,
}
