"""Square roots and logarithms of stacks of matrices, and Sylvester's equation, by Schur's form.

Every step on triangles is done for a whole superdiagonal of all matrices. Hermitian matrices have
a diagonal for their form, and one call of NumPy's finds those of a whole stack.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from ..restoring import quiet
from . import lapack
from .linalg import check_finite
from .substitution import is_substituted, solve_by_substitution

if TYPE_CHECKING:
    from ..annotations import Buffer, DType, Shape

__all__ = ["ComplexResultError", "logm", "solve_sylvester", "sqrtm"]

LinAlgError = np.linalg.LinAlgError
# Longer triangles are halved, so that products of blocks take most of the time.
LONGEST_UNHALVED_TRIANGLE = 64


class ComplexResultError(LinAlgError):
    """A function of a real matrix is complex, so that its dtype would depend on values."""


def _size(a: Buffer) -> Any:
    """Returns the largest absolute value of every matrix, with two axes of length 1."""
    return np.abs(a).max(axis=(-2, -1), keepdims=True)


def _adjoint(a: Buffer) -> Buffer:
    return a.conj().mT


def _is_hermitian(a: Buffer) -> bool:
    return bool((a == _adjoint(a)).all())


def _as_input(name: str, out: Buffer, a: Buffer) -> Buffer:
    """Returns results in the dtype of their matrices; an error if only a result is complex."""
    if a.dtype.kind != "c" and out.dtype.kind == "c":
        if (_size(out.imag) > 1e4 * np.finfo(a.dtype).eps * _size(out)).any():
            raise ComplexResultError(
                f"{name}: the result for a real matrix is complex, as it has an eigenvalue on the "
                f"negative axis; {name}(a.astype(complex)) gives it"
            )
        out = out.real
    return out.astype(a.dtype)


def _by_eigenvalues(function: Callable[[Any], Any], w: Buffer, v: Buffer) -> Any:
    """Returns the function of Hermitian matrices, exactly Hermitian where it is real."""
    values = function(w if (w >= 0).all() else w.astype(np.complex128))
    out = (v * values[..., None, :]) @ _adjoint(v)
    return out if values.dtype.kind == "c" else 0.5 * (out + _adjoint(out))


def _spectrum(name: str, a: Buffer) -> tuple[Any, Any] | None:
    """Returns eigenvalues and vectors, rounding errors below 0 as 0; None if not Hermitian."""
    check_finite(np, name, a)
    if not _is_hermitian(a):
        return None
    w, v = np.linalg.eigh(a.astype(np.complex128 if a.dtype.kind == "c" else np.float64))
    rounding = a.shape[-1] * np.finfo(w.dtype).eps * np.abs(w).max(axis=-1, keepdims=True)
    return np.where((w < 0) & (w >= -rounding), 0.0, w), v


# -- triangles


def _roots(t: Buffer) -> Buffer:
    """Returns the square roots of upper triangular matrices behind one axis.

    Å. Björck and S. Hammarling, "A Schur method for the square root of a matrix", Linear Algebra
    and its Applications 52/53 (1983): superdiagonal k follows from those below it.
    """
    count, n = t.shape[:2]
    out = np.zeros(t.shape, t.dtype)
    if n > LONGEST_UNHALVED_TRIANGLE:
        # The corners solve triangular Sylvester equations.
        half = n // 2
        first = out[:, :half, :half] = _roots(t[:, :half, :half])
        second = out[:, half:, half:] = _roots(t[:, half:, half:])
        corner = t[:, :half, half:]
        out[:, :half, half:] = lapack.sylvester_solved(first, second, corner, adjoint=False)
        return out
    flat = out.reshape(count, n * n)
    # Element [i, k] is that of row i, or of column i, which is k steps from the diagonal.
    rows, columns = np.zeros((2, n, n, count), t.dtype)
    diagonal = rows[:, 0] = columns[:, 0] = np.sqrt(t.diagonal(0, 1, 2).T)
    flat[:, :: n + 1] = diagonal.T
    # As in LAPACK's function for Sylvester's equation, no divisor is 0.
    least = np.maximum(np.finfo(float).eps * np.abs(diagonal).max(axis=0), np.finfo(float).tiny)
    with quiet():
        for k in range(1, n):
            rest = t.diagonal(k, 1, 2).T
            if k > 1:
                known = rows[: n - k, 1:k], columns[k:, k - 1 : 0 : -1]
                rest = rest - np.einsum("ikn,ikn->in", *known)
            divisor = diagonal[: n - k] + diagonal[k:]
            found = rest / np.where(np.abs(divisor) <= least, least, divisor)
            rows[: n - k, k] = columns[k:, k] = found
            flat[:, k : (n - k) * n : n + 1] = found.T
    return out


def _forms(a: Buffer) -> tuple[Any, Any]:
    """Returns triangles and vectors of matrices, all behind one axis."""
    n = a.shape[-1]
    return lapack.schur(a.reshape(prod(a.shape[:-2]), n, n).astype(np.complex128))


def _turned_back(vectors: Buffer, t: Buffer, shape: Shape) -> Buffer:
    return (vectors @ t @ _adjoint(vectors)).reshape(shape)


def sqrtm(a: Buffer) -> Buffer:
    """Returns the principal square roots of matrices.

    Raises:
        LinAlgError: a matrix is singular and has none, or holds inf or NaN.
        ComplexResultError: the matrices are real and a root is not.
    """
    if not a.size:
        return a.copy()
    spectrum = _spectrum("sqrtm", a)
    if spectrum is not None:
        return _as_input("sqrtm", _by_eigenvalues(np.sqrt, *spectrum), a)
    t, vectors = _forms(a)
    root = _roots(t)
    with quiet():
        gap = _size(root @ root - t)
    if not (gap <= 1e-6 * _size(t)).all():
        raise LinAlgError("sqrtm: the matrix is singular and has no square root")
    return _as_input("sqrtm", _turned_back(vectors, root, a.shape), a)


# Nodes and weights on [0, 1], of which the sum over w x / (1 + n x) is the Padé approximant of
# degree 8 of log(1 + x), and the norm up to which that is exact to double precision: N. Higham,
# "Functions of Matrices", SIAM 2008, chapter 11.
LOG_NODES, LOG_WEIGHTS = (np.asarray(part) for part in np.polynomial.legendre.leggauss(8))
LOG_NORM = 0.25


def logm(a: Buffer) -> Buffer:
    """Returns the principal logarithms of matrices, by repeated square roots.

    Raises:
        LinAlgError: a matrix is singular, or holds inf or NaN.
        ComplexResultError: the matrices are real and a logarithm is not.
    """
    if not a.size:
        return a.copy()
    spectrum = _spectrum("logm", a)
    if spectrum is not None:
        _refuse_singular(spectrum[0])
        return _as_input("logm", _by_eigenvalues(np.log, *spectrum), a)
    t, vectors = _forms(a)
    eigenvalues = t.diagonal(0, 1, 2)
    _refuse_singular(eigenvalues)
    log = _logarithms(t)
    np.einsum("nii->ni", log)[...] = np.log(eigenvalues)
    return _as_input("logm", _turned_back(vectors, log, a.shape), a)


def _refuse_singular(eigenvalues: Buffer) -> None:
    """Raises the error for eigenvalues of 0."""
    if not eigenvalues.all():
        raise LinAlgError("logm: the matrix is singular and has no logarithm")


def _logarithms(t: Buffer) -> Buffer:
    """Returns the logarithms of upper triangular matrices, exact above their diagonals."""
    eye = np.eye(t.shape[-1])
    root = t.copy()
    halvings = np.zeros((len(t), 1, 1))
    far = np.ones(len(t), bool)
    for _ in range(100):
        far[far] = np.abs(root[far] - eye).sum(axis=-2).max(axis=-1) > LOG_NORM
        if not far.any():
            break
        root[far] = _roots(root[far])
        halvings[far] += 1
    rest = root - eye
    nodes, weights = (x[:, None, None, None] for x in ((LOG_NODES + 1) / 2, LOG_WEIGHTS / 2))
    flags = {"lower": False, "transposed": False, "unit_diagonal": False}
    n = t.shape[-1]
    solve: Any = lapack.triangles_solved
    if is_substituted(len(LOG_NODES) * len(t), n, n):
        solve = solve_by_substitution
    terms = solve(eye + nodes * rest, rest, t.dtype, **flags)
    return np.triu((weights * terms).sum(axis=0) * 2.0**halvings, 1)


# -- Sylvester's equation


def solve_sylvester(a: Buffer, b: Buffer, q: Buffer, dtype: DType) -> Any:
    """Solves ``a x + x b = q`` for stacks of matrices, which broadcast.

    R. Bartels and G. Stewart, "Solution of the matrix equation AX + XB = C", Communications of the
    ACM 15 (1972).

    Args:
        a, b, q: the matrices.
        dtype: the result's, one that LAPACK knows.

    Raises:
        LinAlgError: a matrix holds inf or NaN.
    """
    check_finite(np, "solve_sylvester", a, b, q)
    stack = np.broadcast_shapes(a.shape[:-2], b.shape[:-2], q.shape[:-2])
    if not q.size or 0 in stack:
        return np.zeros((*stack, *q.shape[-2:]), dtype)
    a, b = (x.astype(dtype, copy=False) for x in (a, b))
    if _is_hermitian(a) and _is_hermitian(b):
        (first, u), (second, v) = np.linalg.eigh(a), np.linalg.eigh(b)
        sums = first[..., :, None] + second[..., None, :]
        least = np.finfo(dtype).eps * np.maximum(_size(first[..., None]), _size(second[..., None]))
        least = np.maximum(least, np.finfo(dtype).tiny)
        found = (_adjoint(u) @ q @ v) / np.where(np.abs(sums) <= least, least, sums)
    else:
        (s, u), (t, v) = lapack.schur(a), lapack.schur(_adjoint(b))
        found = lapack.sylvester_solved(s, t, (_adjoint(u) @ q @ v).astype(dtype, copy=False))
    return (u @ found @ _adjoint(v)).astype(dtype, copy=False)
