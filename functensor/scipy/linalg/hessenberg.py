"""Hessenberg's form, products with the factor Q, and functions of matrices by eigenvalues."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...backends.restoring import quiet
from ...custom.rules import custom_jvp
from ...numpy.creation import asarray
from ...numpy.known_values import are_values_known, value_of
from ...numpy.linalg.arguments import as_matrices
from ...numpy.linalg.decompositions import eig
from ...numpy.linalg.solving import inv
from ...primitives.core.annotations import ArrayLike
from ...primitives.core.annotations import operations as ops
from ...primitives.core.array import Array
from ...primitives.core.buffers import beside
from ...primitives.core.errors import misfit
from ...primitives.core.shape_dtype import finfo
from ...primitives.linalg.stacks import adjoint, conjugate
from ...transforms.jvp import jvp
from .decompositions import qr

__all__ = ["funm", "hessenberg", "qr_multiply"]

# Imaginary parts up to so many units of rounding of the largest element count as 0.
ROUNDING = 1e3


def _reflection(column: Array) -> tuple[Array, Array]:
    """Returns v and tau: ``1 - tau v v*`` takes a column to its first axis, its length there real.

    tau is 0 for a column that is there already.
    """
    alpha, tail = column[..., :1], column[..., 1:]
    rest = ops.sum(ops.real(tail * conjugate(tail)), axis=-1, keepdims=True)
    turned = ops.real(alpha * conjugate(alpha)) - ops.real(alpha) ** 2 if _is_complex(column) else 0
    none = ops.equal(rest, 0)
    if _is_complex(column):
        none = ops.logical_and(none, ops.equal(ops.imag(alpha), 0))
    length = ops.real(alpha) ** 2 + turned + rest
    length = ops.sqrt(ops.where(none, 1.0, length))
    beta = ops.where(ops.less(ops.real(alpha), 0), length, -length)
    tau = ops.where(none, 0.0, (beta - alpha) / beta)
    v = ops.concatenate([ops.ones_like(alpha), tail / ops.where(none, 1.0, alpha - beta)], axis=-1)
    return v, tau


def _is_complex(x: Array) -> bool:
    return bool(x.dtype.kind == "c")


def hessenberg(
    a: ArrayLike, calc_q: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> Array | tuple[Array, Array]:
    """Returns Hessenberg's form: unitarily similar, with zeros below the first subdiagonal.

    Args:
        a: an array of shape (..., n, n).
        calc_q: whether to return the unitary factor too.
        overwrite_a, check_finite: of no effect.

    Returns:
        H of a's shape, or the pair (H, Q) with ``a = Q @ H @ Q.mT.conj()``. It takes n steps on
        whole matrices.

    Raises:
        MatrixShapeError: the matrices are not square.

    Source: G. H. Golub and C. F. Van Loan, "Matrix Computations", 7.4.3: Householder's reflections.

    >>> from functensor.scipy import linalg
    >>> linalg.hessenberg([[1.0, 2.0, 3.0], [3.0, 0.0, 0.0], [4.0, 0.0, 0.0]]).round(6).tolist()
    [[1.0, -3.6, 0.2], [-5.0, 0.0, 0.0], [0.0, 0.0, 0.0]]
    """
    h = as_matrices("hessenberg", a, square=True)
    n = h.shape[-1]
    q = ops.zeros_like(h) + beside(h, np.eye(n, dtype=h.dtype))
    # Two rows have this form already; the last column of complex matrices gets a real subdiagonal.
    for j in range((n - 1 if _is_complex(h) else n - 2) if n > 2 else 0):
        v, tau = _reflection(h[..., j + 1 :, j])
        zeros = ops.zeros_like(h[..., : j + 1, j])
        column = ops.expand_dims(ops.concatenate([zeros, v], axis=-1), -1)
        tau = ops.expand_dims(tau, -1)
        row = adjoint(column)
        h = h - ops.matmul(conjugate(tau) * column, ops.matmul(row, h))
        h = h - ops.matmul(ops.matmul(h, column), tau * row)
        q = q - ops.matmul(ops.matmul(q, column), tau * row)
    h = ops.triu(h, -1)
    return (h, q) if calc_q else h


def qr_multiply(
    a: ArrayLike,
    c: ArrayLike,
    mode: str = "right",
    pivoting: bool = False,
    conjugate: bool = False,
    overwrite_a: bool = False,
    overwrite_c: bool = False,
) -> tuple[Array, ...]:
    """Returns a product with the factor Q of matrices, and their factor R.

    Args:
        a: an array of shape (..., m, n).
        c: one vector, or matrices; of ``min(m, n)`` rows on the right of Q, of m columns on its
            left.
        mode: "right" for ``c @ Q``, "left" for ``Q @ c``.
        pivoting: as for `qr`.
        conjugate: whether to take Q's complex conjugate.
        overwrite_a, overwrite_c: of no effect.

    Returns:
        The product, a vector for one, and R of shape (..., min(m, n), n); with pivoting the
        permutation too.

    Raises:
        ValueError: the mode is another word.
        ShapeError: c does not fit.

    Source: `qr`, in economic mode.

    >>> from functensor.scipy import linalg
    >>> product, r = linalg.qr_multiply([[3.0], [4.0]], [3.0, 4.0])
    >>> product.round(12).tolist(), r.round(12).tolist()
    ([-5.0], [[-5.0]])
    """
    if mode not in ("left", "right"):
        raise ValueError(f"qr_multiply: Mode argument can only be 'left' or 'right', not {mode!r}")
    a, c = as_matrices("qr_multiply", a), asarray(c)
    vector = len(c.shape) == 1
    if vector:
        c = ops.expand_dims(c, -1 if mode == "left" else 0)
    m, k = a.shape[-2], min(a.shape[-2:])
    found, wanted = (c.shape[-2], k) if mode == "left" else (c.shape[-1], m)
    if found != wanted:
        raise misfit(
            f"qr_multiply: Array shapes are not compatible: a is {a.shape}, c {c.shape}",
            f"c has {wanted} {'rows' if mode == 'left' else 'columns'} for mode={mode!r}",
        )
    q, *rest = qr(a, mode="economic", pivoting=pivoting)
    q = ops.conj(q) if conjugate else q
    product = ops.matmul(q, c) if mode == "left" else ops.matmul(c, q)
    if vector:
        product = ops.squeeze(product, -1 if mode == "left" else -2)
    return (product, *rest)


def _slopes(func: Callable[[Any], Any], w: Array) -> Array:
    """Returns the divided differences of a function at all pairs of eigenvalues.

    Source: J. L. Daleckii and S. G. Krein, 1965; N. Higham, "Functions of Matrices", theorem 3.11.
    """
    f, slope = jvp(func, (w,), (ops.ones_like(w),))
    row, column = ops.expand_dims(w, -2), ops.expand_dims(w, -1)
    gaps = column - row
    size = ops.maximum(ops.maximum(ops.abs(row), ops.abs(column)), 1e-30)
    # For closer eigenvalues, the difference has lost more digits than the mean slope is wrong by.
    same = ops.less(ops.abs(gaps), size * float(finfo(w.dtype).eps) ** 0.5)
    quotients = (ops.expand_dims(f, -1) - ops.expand_dims(f, -2)) / ops.where(same, 1.0, gaps)
    mean = (ops.expand_dims(slope, -1) + ops.expand_dims(slope, -2)) / 2
    return ops.where(same, mean, quotients)


def funm(A: ArrayLike, func: Callable[[Any], Any], disp: bool = True) -> Array:
    """Returns a function of diagonalisable matrices, applied to their eigenvalues.

    Args:
        A: an array of shape (..., n, n).
        func: an analytic function of an array of complex numbers, that gives one of them; written
            with functensor's functions or NumPy's, so that it has a derivative.
        disp: True; an estimate of the error is not implemented.

    Returns:
        An array of A's shape: real for real A. The first derivative is right where eigenvalues
        coincide too, further ones where they are distinct.

    Raises:
        MatrixShapeError: the matrices are not square.
        NotImplementedError: ``disp`` is False.
        LinAlgError: a matrix is not diagonalisable, or the result for a real one is complex; where
            that is not known, under jit, the second is NaN.

    Source: N. Higham, "Functions of Matrices", SIAM 2008, chapters 1 and 3.

    >>> from functensor.scipy import linalg
    >>> linalg.funm([[4.0, 0.0], [0.0, 9.0]], lambda x: x**0.5).round(12).tolist()
    [[2.0, 0.0], [0.0, 3.0]]
    """
    if not disp:
        raise NotImplementedError("funm: disp=False, an estimate of the error: leave it out")
    A = as_matrices("funm", A, square=True)

    @custom_jvp
    def whole(x: Array) -> Array:
        w, v = eig(x)
        return ops.matmul(v * ops.expand_dims(asarray(func(w)), -2), inv(v))

    @whole.defjvp
    def rule(primals: tuple[Any], tangents: tuple[Any]) -> tuple[Array, Array]:
        (x,), (t,) = primals, tangents
        w, v = eig(x)
        back = inv(v)
        inner = ops.matmul(back, ops.matmul(t, v)) * _slopes(func, w)
        return whole(x), ops.matmul(v, ops.matmul(inner, back))

    z = A if _is_complex(A) else A * np.ones((), np.result_type(A.dtype, np.complex64))
    out: Array = whole(z)
    _check_eigenvectors(z)
    if _is_complex(A):
        return out
    tolerance = ROUNDING * float(finfo(A.dtype).eps) * A.shape[-1]
    sizes = ops.abs(ops.stop_gradient(out))
    largest = ops.max(sizes, axis=(-2, -1), keepdims=True, initial=0.0)
    imaginary = ops.abs(ops.imag(ops.stop_gradient(out)))
    real = ops.less_equal(imaginary, tolerance * (1.0 + largest))
    if not are_values_known(real):
        return ops.where(ops.all(real, axis=(-2, -1), keepdims=True), ops.real(out), np.nan)
    if not value_of("funm", real, "").all():
        raise np.linalg.LinAlgError(
            "funm: the result for a real matrix is complex: A.astype(complex) gives it"
        )
    return ops.real(out)


def _check_eigenvectors(z: Array) -> None:
    """Refuses known matrices that are not the product of their eigenvectors and eigenvalues."""
    z = ops.stop_gradient(z)
    if not are_values_known(z) or not z.size:
        return
    host = value_of("funm", z, "")
    w, v = np.linalg.eig(host)
    scale = np.abs(host).max(axis=(-2, -1), keepdims=True)
    with quiet():
        gap = np.abs((v * w[..., None, :]) @ np.linalg.pinv(v, rcond=1e-300) - host)
    if not (gap <= 1e-4 * scale).all():
        raise np.linalg.LinAlgError(
            "funm: a matrix has too few eigenvectors: it is not diagonalisable; expm, logm and "
            "sqrtm take such matrices too"
        )
