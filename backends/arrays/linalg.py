"""Kernels of linear algebra that array modules lack, or have in a form that does not fit.

They take the array module first, work on stacks of matrices, and leave their operands alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import permutations
from math import factorial, log2, prod
from typing import TYPE_CHECKING, Any

import numpy as np

from ..restoring import errstate

if TYPE_CHECKING:
    from ..annotations import ArrayModule, Buffer

__all__ = [
    "check_finite", "cholesky", "cofactors", "cofactors_by_singular_values",
    "cofactors_of_inverses", "expm", "failure_with_advice", "inverses", "pivots_to_permutation",
    "pseudo_inverse", "sign_and_logarithm", "singular_values", "solve", "svd",
]  # fmt: skip

LinAlgError = np.linalg.LinAlgError


@contextmanager
def failure_with_advice(name: str, advice: str) -> Iterator[None]:
    """Adds the name of a function, and advice, to the array module's error."""
    try:
        yield
    except LinAlgError as error:
        reason = str(error)
        raise LinAlgError(f"{name}: {reason[:1].lower()}{reason[1:]}; {advice}") from error


LEAST_SQUARES = "lstsq and pinv take singular matrices too"


def cholesky(xp: ArrayModule, a: Buffer) -> Any:
    """Returns the lower factors of Hermitian parts."""
    with failure_with_advice(
        "cholesky", "a + 1e-6 * np.eye(n) is, if a has eigenvalues just below 0"
    ):
        other = xp.swapaxes(a, -1, -2)
        hermitian = a + (xp.conj(other) if a.dtype.kind == "c" else other)
        hermitian *= 0.5
        return xp.linalg.cholesky(hermitian)


def solve(xp: ArrayModule, a: Buffer, b: Buffer) -> Any:
    """Solves ``a x = b``; one matrix for a stack of right-hand sides is factorised once."""
    with failure_with_advice("solve", LEAST_SQUARES):
        if b.ndim <= 2 or prod(a.shape[:-2]) != 1:
            return xp.linalg.solve(a, b)
        stack = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        columns = xp.moveaxis(xp.broadcast_to(b, (*stack, *b.shape[-2:])), -2, 0)
        rows, width = columns.shape[0], prod(columns.shape[1:])
        found = xp.linalg.solve(a.reshape(a.shape[-2:]), columns.reshape(rows, width))
        return xp.moveaxis(found.reshape(columns.shape), 0, -2)


def inverses(xp: ArrayModule, a: Buffer, *, strict: bool) -> Any:
    """Returns inverses. A singular matrix is an error; if not strict, its inverse is NaN."""
    try:
        return xp.linalg.inv(a)
    except LinAlgError:
        if strict:
            with failure_with_advice("inv", LEAST_SQUARES):
                raise
    # The determinant comes from the same factors.
    singular = (xp.linalg.slogdet(a)[0] == 0)[..., None, None]
    found = xp.linalg.inv(xp.where(singular, xp.eye(a.shape[-1], dtype=a.dtype), a))
    return xp.where(singular, xp.nan, found).astype(a.dtype)


def check_finite(xp: ArrayModule, name: str, *matrices: Buffer) -> None:
    """Raises an error for infinities and NaN, for which LAPACK's iterations would never end."""
    if not all(xp.isfinite(a).all() for a in matrices):
        raise LinAlgError(f"{name}: the matrices hold inf or NaN")


def svd(xp: ArrayModule, a: Buffer, *, full_matrices: bool) -> Any:
    """Returns singular values and vectors."""
    check_finite(xp, "svd", a)
    return xp.linalg.svd(a, full_matrices=full_matrices)


def singular_values(xp: ArrayModule, a: Buffer) -> Any:
    """Returns singular values alone, for which some versions of LAPACK take infinities and NaN."""
    try:
        return xp.linalg.svd(a, compute_uv=False)
    except LinAlgError:
        check_finite(xp, "svd", a)
        raise


def pseudo_inverse(xp: ArrayModule, a: Buffer, limit: Buffer) -> Any:
    """Returns pseudo-inverses, with a limit to the singular values for every matrix."""
    check_finite(xp, "pinv", a)
    stack = np.broadcast_shapes(a.shape[:-2], limit.shape[:-2])
    return xp.linalg.pinv(xp.broadcast_to(a, (*stack, *a.shape[-2:])), limit[..., 0, 0].real)


# -- cofactors


def sign_and_logarithm(xp: ArrayModule, factors: Buffer) -> tuple[Buffer, Buffer]:
    """Returns the signs of determinants, and the logarithms of their sizes.

    Args:
        xp: the array module.
        factors: triangular factors in one matrix, and behind its rows which rows were swapped,
            counted from 1.
    """
    n = factors.shape[-1]
    diagonal = factors[..., :n, :].diagonal(0, -2, -1)
    swaps = (factors[..., n, :].real != xp.arange(1, n + 1)).sum(axis=-1)
    sizes = xp.abs(diagonal)
    with errstate(divide="ignore", invalid="ignore"):
        # As NumPy has it, infinity and NaN have a sign if they are real.
        is_complex = factors.dtype.kind == "c"
        turns = diagonal / sizes if is_complex else xp.where(diagonal < 0, -1, 1)
        turns = xp.where(sizes == 0, 0, turns).astype(factors.dtype)
        logarithm = xp.log(sizes).sum(axis=-1)
    return xp.prod(turns, axis=-1) * (1 - 2 * (swaps % 2)).astype(factors.dtype), logarithm


def largest_column_sums(xp: ArrayModule, a: Buffer) -> Any:
    """Returns the largest sums of sizes over rows."""
    sums = xp.abs(a).sum(axis=-2)
    return sums.max(axis=-1) if a.shape[-1] else sums.sum(axis=-1)


def _products_of_others(xp: ArrayModule, s: Buffer, order: int) -> Buffer:
    """Returns for every tuple of positions the product of the values at all others.

    It is 0 where a position occurs twice. Nothing is divided by: values may be 0.
    """
    n = s.shape[-1]
    places = np.indices((n,) * order)
    out = xp.ones((*s.shape[:-1], *(n,) * order), s.dtype)
    for value in range(n):
        taken = xp.asarray((places == value).any(axis=0))
        out *= xp.where(taken, 1, s[..., value].reshape(*s.shape[:-1], *(1,) * order))
    for i, first in enumerate(places):
        for second in places[i + 1 :]:
            out *= xp.asarray(first != second)
    return out


def _cofactors_by_inverse(xp: ArrayModule, a: Buffer) -> Any:
    """Returns matrices of cofactors, or None where one is too close to a singular matrix."""
    try:
        inverse = xp.linalg.inv(a)
    except LinAlgError:
        return None
    return cofactors_of_inverses(xp, a, inverse, lambda: xp.linalg.det(a))


def cofactors_of_inverses(
    xp: ArrayModule, a: Buffer, inverse: Buffer, determinants: Callable[[], Buffer]
) -> Any:
    """Returns matrices of cofactors by inverses, or None where one is too inaccurate."""
    limit = xp.finfo(a.dtype).eps ** (-1 / 3)
    if not (largest_column_sums(xp, a) * largest_column_sums(xp, inverse) <= limit).all():
        return None
    return determinants()[..., None, None] * xp.swapaxes(inverse, -1, -2)


def cofactors(xp: ArrayModule, a: Buffer, *directions: Buffer) -> Buffer:
    """Returns the gradient of the derivative of the determinant along directions.

    Without a direction that is the matrix of cofactors. In the basis of the singular vectors
    ``a`` is diagonal, and the derivative along k directions is the sum over k rows of the product
    of all other singular values times the determinant of the directions in these rows.
    """
    found = None if directions else _cofactors_by_inverse(xp, a)
    return cofactors_by_singular_values(xp, a, *directions) if found is None else found


def cofactors_by_singular_values(xp: ArrayModule, a: Buffer, *directions: Buffer) -> Buffer:
    """Returns the same, by a way that does not depend on the values."""
    finite = xp.isfinite(a).all(axis=(-2, -1), keepdims=True)
    u, s, vh = xp.linalg.svd(xp.where(finite, a, 0))
    eye = xp.eye(a.shape[-1], dtype=a.dtype)
    u_adjoint, v = xp.conj(xp.swapaxes(u, -1, -2)), xp.conj(xp.swapaxes(vh, -1, -2))
    turned = [u_adjoint @ direction @ v for direction in directions]
    order = len(directions) + 1
    products = _products_of_others(xp, s, order)
    letters = "ijklmnop"[:order]
    total: Any = 0
    # The gradient is by the last matrix of the product, which is therefore left out.
    for image in permutations(range(order)):
        factors = [f"...{letters[m]}{letters[image[m]]}" for m in range(order - 1)]
        places = ",".join([f"...{letters}", *factors])
        row, column = letters[-1], letters[image[-1]]
        if row == column:
            term = xp.einsum(f"{places}->...{row}", products, *turned)[..., None] * eye
        else:
            term = xp.einsum(f"{places}->...{row}{column}", products, *turned)
        swaps = sum(a > b for i, a in enumerate(image) for b in image[i + 1 :])
        total = total - term if swaps % 2 else total + term
    # On arm64 OpenBLAS divides by zero beside complex columns without imaginary parts.
    with errstate(divide="ignore", invalid="ignore"):
        phase = xp.linalg.det(u) * xp.linalg.det(vh)
    found = phase[..., None, None] * (xp.conj(u) @ total.astype(a.dtype) @ xp.conj(vh))
    return xp.where(finite, found, xp.nan).astype(a.dtype)


# -- the exponential

# The Padé approximant of degree 13 of exp, the size up to which it is exact in double precision,
# and the first coefficient of its error. The powers of a matrix decide how often it is halved. They
# may be much smaller than those of its norm: A. Al-Mohy and N. Higham, "A new
# scaling and squaring algorithm for the matrix exponential", SIAM J. Matrix Anal. Appl. 31 (2009).
PADE = [
    factorial(26 - i) * factorial(13) / (factorial(26) * factorial(13 - i) * factorial(i))
    for i in range(14)
]
PADE_SIZE = 5.371920351148152
PADE_ERROR = factorial(13) ** 2 / (factorial(26) * factorial(27))
# The length up to which four products of matrices are quicker than 27 with a row.
LONGEST_MULTIPLIED_WHOLE = 16


def _doublings(xp: ArrayModule, a: Buffer, halvings: Buffer) -> Buffer:
    """Returns how often a matrix that was halved to norm 1 can be doubled again."""
    a2 = a @ a
    a4 = a2 @ a2
    fourth, sixth = largest_column_sums(xp, a4), largest_column_sums(xp, a4 @ a2)
    size = xp.maximum(fourth ** (1 / 4), sixth ** (1 / 6)) / PADE_SIZE
    spare = xp.where(size == 0, halvings, xp.clip(-xp.frexp(size)[1], 0, halvings))
    # The error's first term, for sizes instead of numbers, must be below rounding; its logarithm,
    # as it may be smaller than any number.
    tiny = xp.finfo(xp.abs(a[..., :1, :1]).dtype).tiny

    def apart(x: Buffer) -> tuple[Any, Any]:
        """Returns matrices scaled to a largest element of 1, and the logarithms of the scales."""
        largest = xp.maximum(x.max(axis=(-2, -1)), tiny)
        return x / largest[..., None, None], xp.log2(largest)

    power, log_power = xp.abs(a), 0.0
    factors = [(power, log_power)] * (3 if a.shape[-1] <= LONGEST_MULTIPLIED_WHOLE else 27)
    if a.shape[-1] <= LONGEST_MULTIPLIED_WHOLE:
        for count in range(1, 5):
            power, log_scale = apart(power @ power)
            log_power = 2 * log_power + log_scale
            if count > 2:
                factors.append((power, log_power))
    row = xp.ones((*a.shape[:-2], 1, a.shape[-1]), power.dtype)
    log_error = log2(PADE_ERROR) - xp.log2(xp.maximum(largest_column_sums(xp, a), tiny))
    for factor, log_factor in factors:
        row, log_scale = apart(row @ factor)
        log_error = log_error + log_factor + log_scale
    excess = log_error + 26 * spare - log2(xp.finfo(row.dtype).eps / 2)
    return xp.clip(spare - xp.ceil(xp.maximum(excess, 0) / 26), 0, halvings).astype(int)


def expm(xp: ArrayModule, a: Buffer) -> Buffer:
    """Returns exponentials by halving, a Padé approximant, and squaring."""
    norm = largest_column_sums(xp, a)
    finite = xp.isfinite(norm)
    a = xp.where(finite[..., None, None], a, 0)
    large = finite & (norm > PADE_SIZE)
    halvings: Any = None
    if large.any():
        halvings = xp.frexp(xp.where(large, norm, 0))[1]
        one = xp.ones((), norm.dtype)
        a = a * xp.ldexp(one, -halvings)[..., None, None]
        doublings = _doublings(xp, a, halvings)
        a = a * xp.ldexp(one, doublings)[..., None, None]
        halvings = halvings - doublings
    a2 = a @ a
    a4 = a2 @ a2
    a6 = a4 @ a2

    def of_square(b: list[float]) -> Any:
        """Returns a polynomial of a2, of degree 6."""
        low = b[0] * xp.eye(a.shape[-1], dtype=a.dtype) + b[1] * a2 + b[2] * a4 + b[3] * a6
        return low + a6 @ (b[4] * a2 + b[5] * a4 + b[6] * a6)

    odd, even = a @ of_square(PADE[1::2]), of_square(PADE[::2])
    out = xp.linalg.solve(even - odd, even + odd)
    for i in range(0 if halvings is None else int(halvings.max())):
        out = xp.where((halvings > i)[..., None, None], out @ out, out)
    return xp.where(finite[..., None, None], out, xp.nan)


# -- LAPACK's pivots


def pivots_to_permutation(xp: ArrayModule, pivots: Buffer, *, rows: int) -> Buffer:
    """Returns which row of a matrix is each row of the factorised one.

    In turn, row i was swapped with row ``pivots[..., i]``.
    """
    swaps = pivots.reshape(prod(pivots.shape[:-1]), pivots.shape[-1])
    order = xp.tile(xp.arange(rows), (len(swaps), 1))
    stack = xp.arange(len(swaps))
    for i, other in enumerate(swaps.T):
        mine = order[:, i].copy()
        order[:, i] = order[stack, other]
        order[stack, other] = mine
    return order.reshape(*pivots.shape[:-1], rows)
