"""Eigenvalues, singular values, and the factors QR.

Of matrices whose eigenvalues or singular values coincide, vectors have no derivative: a basis of
their common space is arbitrary. Derivatives of the values, and of sums of functions of them, are
right there too, to first order; those of what does not depend on the choice of the basis are
finite, but lack what the vectors contribute within the common space. `expm`, and ``sqrtm`` and
``logm`` of ``functensor.scipy.linalg``, are right for all matrices.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, overload

from ...primitives.core.annotations import ArrayLike, of_array
from ...primitives.core.annotations import operations as ops
from ...primitives.core.array import Array
from ...primitives.linalg import decompositions
from ...primitives.linalg.decompositions import eig_shapes, qr_shapes, svd_shapes
from ...primitives.linalg.stacks import adjoint, unpacked
from .arguments import as_matrices, mirrored

__all__ = [
    "EigResult", "EighResult", "QRResult", "SVDResult", "eig", "eigh", "eigvals", "eigvalsh", "qr",
    "svd", "svdvals",
]  # fmt: skip


class EigResult(NamedTuple):
    """Eigenvalues, and eigenvectors as columns."""

    eigenvalues: Array
    eigenvectors: Array


class EighResult(NamedTuple):
    """Eigenvalues in rising order, and orthonormal eigenvectors as columns."""

    eigenvalues: Array
    eigenvectors: Array


class QRResult(NamedTuple):
    """A factor with orthonormal columns, and an upper triangular one."""

    Q: Array
    R: Array


class SVDResult(NamedTuple):
    """Left vectors as columns, singular values in falling order, and right vectors as rows."""

    U: Array
    S: Array
    Vh: Array


def _hermitian_operand(name: str, a: ArrayLike, triangle: str) -> Array:
    """Returns an argument as Hermitian matrices, of which the named triangle counts."""
    if str(triangle).upper() not in ("L", "U"):
        raise ValueError(f"{name}: UPLO is 'L' or 'U', not {triangle!r:.60}")
    return mirrored(as_matrices(name, a, square=True), lower=triangle.upper() == "L")


def eigh(a: ArrayLike, UPLO: str = "L") -> EighResult:
    """Returns the eigenvalues and eigenvectors of Hermitian matrices.

    Args:
        a: an array of shape (..., n, n), of which one triangle is read. Gradients lie in that
            triangle; those of ``eigh((a + a.mT.conj()) / 2)`` are Hermitian.
        UPLO: which triangle, ``"L"`` or ``"U"``.

    Returns:
        A named tuple ``(eigenvalues, eigenvectors)`` of shapes (..., n), real and rising, and
        (..., n, n), as columns. Where eigenvalues coincide, see the module.

    Raises:
        MatrixShapeError: the matrices are not square.
        LinAlgError: the iteration did not converge.

    >>> import functensor.numpy as np
    >>> np.linalg.eigh([[2.0, 0.0], [0.0, 1.0]]).eigenvalues.tolist()
    [1.0, 2.0]
    """
    a = _hermitian_operand("eigh", a, UPLO)
    values, vectors = unpacked(ops.eigh(a), eig_shapes(a.shape[-1]))
    return EighResult(ops.real(values), vectors)


@of_array
def eigvalsh(a: ArrayLike, UPLO: str = "L") -> Array:
    """Returns the eigenvalues of Hermitian matrices.

    Args:
        a: an array of shape (..., n, n), of which one triangle is read. Gradients lie in that
            triangle; those of ``eigvalsh((a + a.mT.conj()) / 2)`` are Hermitian.
        UPLO: which triangle, ``"L"`` or ``"U"``.

    Returns:
        A real array of shape (..., n), rising.

    Raises:
        MatrixShapeError: the matrices are not square.
        LinAlgError: the iteration did not converge.

    >>> import functensor.numpy as np
    >>> np.linalg.eigvalsh([[2.0, 0.0], [0.0, 1.0]]).tolist()
    [1.0, 2.0]
    """
    return ops.eigvalsh(_hermitian_operand("eigvalsh", a, UPLO))


def eig(a: ArrayLike) -> EigResult:
    """Returns the eigenvalues and eigenvectors of square matrices.

    Args:
        a: an array of shape (..., n, n).

    Returns:
        A named tuple ``(eigenvalues, eigenvectors)`` of shapes (..., n) and (..., n, n), as
        columns; complex also where all eigenvalues are real, so that the dtype does not depend on
        values. Vectors have length 1 and a real largest component. The derivative is that for
        distinct eigenvalues; it grows without bound towards a matrix that lacks vectors.

    Raises:
        MatrixShapeError: the matrices are not square.
        LinAlgError: the iteration did not converge.

    >>> import functensor.numpy as np
    >>> np.linalg.eig([[0.0, 1.0], [-1.0, 0.0]]).eigenvalues.tolist()
    [1j, -1j]
    """
    a = as_matrices("eig", a, square=True)
    return EigResult(*unpacked(ops.eig(a), eig_shapes(a.shape[-1])))


@of_array
def eigvals(a: ArrayLike) -> Array:
    """Returns the eigenvalues of square matrices.

    Args:
        a: an array of shape (..., n, n).

    Returns:
        A complex array of shape (..., n), in no order. The derivative is that for distinct
        eigenvalues; it grows without bound towards a matrix that lacks vectors.

    Raises:
        MatrixShapeError: the matrices are not square.
        LinAlgError: the iteration did not converge.

    >>> import functensor.numpy as np
    >>> np.linalg.eigvals([[0.0, 1.0], [-1.0, 0.0]]).tolist()
    [1j, -1j]
    """
    return ops.eigvals(as_matrices("eigvals", a, square=True))


@overload
def svd(
    a: ArrayLike, full_matrices: bool = ..., compute_uv: Literal[True] = ..., hermitian: bool = ...
) -> SVDResult: ...


@overload
def svd(
    a: ArrayLike, full_matrices: bool = ..., *, compute_uv: Literal[False], hermitian: bool = ...
) -> Array: ...


@overload
def svd(
    a: ArrayLike, full_matrices: bool = ..., compute_uv: bool = ..., hermitian: bool = ...
) -> Array | SVDResult: ...


def svd(
    a: ArrayLike, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False
) -> Array | SVDResult:
    """Returns singular values and vectors: ``a = U * S @ Vh``.

    Args:
        a: an array of shape (..., m, n).
        full_matrices: whether vectors make square matrices; those behind the k = min(m, n) first
            are some basis of what these leave out, and have the derivatives of the space.
        compute_uv: whether to return vectors; the values alone are faster.
        hermitian: whether matrices are Hermitian: from eigenvalues, of lower triangles.

    Returns:
        A named tuple ``(U, S, Vh)`` of shapes (..., m, k or m), (..., k), real and falling, and
        (..., k or n, n); without ``compute_uv`` only S. Where values coincide, see the module.

    Raises:
        MatrixShapeError: a has fewer than two axes.
        LinAlgError: the iteration did not converge.

    >>> import functensor.numpy as np
    >>> np.linalg.svd([[0.0, 2.0], [1.0, 0.0]], compute_uv=False).tolist()
    [2.0, 1.0]
    """
    if hermitian:
        return _hermitian_svd(a, compute_uv)
    a = as_matrices("svd", a)
    if not compute_uv:
        return ops.svdvals(a)
    full = bool(full_matrices)
    u, s, vh = unpacked(
        decompositions.svd.bind((a,), {"full_matrices": full}), svd_shapes(a.shape[-2:], full)
    )
    return SVDResult(u, ops.real(s), vh)


def _hermitian_svd(a: ArrayLike, compute_uv: bool) -> Array | SVDResult:
    values, vectors = eigh(a)
    sizes = ops.abs(values)
    order = ops.flip(ops.argsort(sizes, axis=-1), axis=-1)
    sizes = ops.take_along_axis(sizes, order, axis=-1)
    if not compute_uv:
        return sizes
    columns = ops.broadcast_to(ops.expand_dims(order, -2), vectors.shape)
    u = ops.take_along_axis(vectors, columns, axis=-1)
    signs = ops.where(ops.take_along_axis(values, order, axis=-1) < 0, -1.0, 1.0)
    signs = ops.astype(signs, vectors.dtype)
    return SVDResult(u, sizes, adjoint(u * ops.expand_dims(signs, -2)))


@of_array
def svdvals(x: ArrayLike, /) -> Array:
    """Returns singular values.

    Args:
        x: an array of shape (..., m, n).

    Returns:
        A real array of shape (..., min(m, n)), falling. The derivative of one that is 0 is 0.

    Raises:
        MatrixShapeError: x has fewer than two axes.
        LinAlgError: the iteration did not converge.

    >>> import functensor.numpy as np
    >>> np.linalg.svdvals([[0.0, 2.0], [1.0, 0.0]]).tolist()
    [2.0, 1.0]
    """
    return ops.svdvals(as_matrices("svdvals", x))


def qr(a: ArrayLike, mode: str = "reduced") -> Array | QRResult:
    """Returns factors with orthonormal columns and upper triangular ones: ``a = Q @ R``.

    Args:
        a: an array of shape (..., m, n).
        mode: ``"reduced"``: k = min(m, n) columns in Q; ``"complete"``: m of them, of which those
            behind the n first are some basis of what these leave out, and have the derivatives of
            the space; ``"r"``: only R.

    Returns:
        A named tuple ``(Q, R)`` of shapes (..., m, k) and (..., k, n), or R alone. The derivative
        is that for linearly independent columns (the first m of a wide matrix).

    Raises:
        ValueError: there is no such mode.
        MatrixShapeError: a has fewer than two axes.
        LinAlgError: in a derivative, that columns are not independent.

    >>> import functensor.numpy as np
    >>> q, r = np.linalg.qr(np.ones((3, 1)))
    >>> q.shape, abs(r).tolist() == [[np.sqrt(3.0)]]
    ((3, 1), True)
    """
    if mode not in ("reduced", "complete", "r"):
        raise ValueError(f"qr: mode is 'reduced', 'complete' or 'r', not {mode!r}")
    a = as_matrices("qr", a)
    m, n = a.shape[-2:]
    k = min(m, n)
    kind = "complete" if mode == "complete" and m > n else "reduced"
    square = a if n <= m else ops.index(a, (Ellipsis, slice(None, m)))
    packed = decompositions.qr.bind((square,), {"mode": kind})
    q, r = unpacked(packed, qr_shapes((m, k), kind))
    if n > m:
        rest = ops.matmul(adjoint(q), ops.index(a, (Ellipsis, slice(m, None))))
        r = ops.concatenate([r, rest], axis=-1)
    return r if mode == "r" else QRResult(q, r)
