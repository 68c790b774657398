"""Eigenvalues, singular values, and the factor QR, each with its vectors.

Vectors of coinciding eigenvalues or singular values have no derivative. The rules then leave out
the terms that would be divided by 0: derivatives of the values stay right, and derivatives of
results that do not depend on the choice of the vectors stay finite. Values that differ by rounding
alone count as coinciding.

Differentials are those of M. Giles, "Collected matrix derivative results for forward and reverse
mode algorithmic differentiation" (2008), for complex matrices too. A cotangent is transposed
without conjugation, so that for ``t -> u t v`` it is ``u.mT g v.mT``.
"""

from __future__ import annotations

import numpy as np

from ...backends.annotations import ArrayModule, Buffer, Shape
from ...backends.arrays import linalg
from ..core.annotations import operations as ops
from ..core.array import Array
from ..core.buffers import beside
from ..core.derivative_rules import shape_of
from ..core.test_samples import Sample
from ..elementwise.cast_and_complex import complex_of, is_complex, real_of
from .stacks import (
    adjoint,
    coinciding,
    conjugate,
    diagonal_matrix,
    diagonal_of,
    hermitian_part,
    near,
    of_matrices,
    packed_parts,
    safe_reciprocal,
    unpacked,
)

__all__ = [
    "eig", "eig_shapes", "eigh", "eigvals", "eigvalsh", "qr", "qr_shapes", "svd", "svd_shapes",
    "svdvals",
]  # fmt: skip

SPACED_DIAGONALS = {n: 3.0 * np.diag(np.arange(1.0, n + 1)) for n in (0, 1, 2, 3)}
SPACED_SAMPLES = [
    Sample(near(SPACED_DIAGONALS[3])),
    Sample(near(SPACED_DIAGONALS[2], 2)),
    Sample(near(SPACED_DIAGONALS[0])),
]


def _symmetric(xp: ArrayModule, a: Buffer) -> Buffer:
    return 0.5 * (a + xp.conj(xp.swapaxes(a, -1, -2)))


def _differences(values: Array) -> Array:
    """Returns in row i and column j value j less value i."""
    return ops.expand_dims(values, -2) - ops.expand_dims(values, -1)


def _inverse_differences(values: Array) -> Array:
    gaps = _differences(values)
    return safe_reciprocal(gaps, coinciding(values, gaps, shape_of(values)[-1]))


# -- Hermitian matrices: v.mT.conj() h v = diag(w)


def eig_shapes(n: int) -> list[Shape]:
    """Returns the shapes of the parts of a packed eigendecomposition: values, and vectors."""
    return [(n,), (n, n)]


def _eigh(xp: ArrayModule, a: Buffer) -> Buffer:
    w, v = xp.linalg.eigh(_symmetric(xp, a))
    return packed_parts(xp, [w.astype(v.dtype), v], eig_shapes(a.shape[-1]))


def _eigh_jvp(g: Array, ans: Array, x: Array) -> Array:
    shapes = eig_shapes(shape_of(x)[-1])
    w, v = unpacked(ans, shapes)
    change = ops.matmul(adjoint(v), ops.matmul(hermitian_part(g), v))
    turned = ops.matmul(v, _inverse_differences(ops.real(w)) * change)
    values: Array = ops.real(diagonal_of(change)) * x.dtype.type(1)
    return packed_parts(ops, [values, turned], shapes)


def _eigh_vjp(g: Array, ans: Array, x: Array) -> Array:
    shapes = eig_shapes(shape_of(x)[-1])
    w, v = unpacked(ans, shapes)
    by_w, by_v = unpacked(g, shapes)
    by_change = diagonal_matrix(ops.real(by_w)) + _inverse_differences(ops.real(w)) * ops.matmul(
        v.mT, by_v
    )
    return hermitian_part(ops.matmul(conjugate(v), ops.matmul(by_change, v.mT)))


eigh = of_matrices(
    "eigh",
    lambda a: (a[0] + a[0] * a[0],),
    compute=_eigh,
    vjp=(_eigh_vjp,), jvp=(_eigh_jvp,), samples=SPACED_SAMPLES,
    doc="Returns the eigenvalues of Hermitian parts in rising order, and the vectors, packed.",
)


def _eigenvectors(decomposition: str, x: Array) -> Array:
    """Returns the eigenvectors of matrices by ``eigh`` or ``eig``."""
    return unpacked(ops[decomposition](x), eig_shapes(shape_of(x)[-1]))[1]


def _eigvalsh_jvp(g: Array, x: Array) -> Array:
    v = _eigenvectors("eigh", x)
    return ops.real(ops.sum(conjugate(v) * ops.matmul(hermitian_part(g), v), axis=-2))


def _eigvalsh_vjp(g: Array, x: Array) -> Array:
    v = _eigenvectors("eigh", x)
    return ops.matmul(conjugate(v) * ops.expand_dims(g, -2), v.mT)


eigvalsh = of_matrices(
    "eigvalsh",
    lambda a: (a[0],),
    dtype=real_of,
    compute=lambda xp, a: xp.linalg.eigvalsh(_symmetric(xp, a)),
    vjp=(_eigvalsh_vjp,), jvp=(_eigvalsh_jvp,), dtypes="fdD", samples=SPACED_SAMPLES,
    doc="Returns the eigenvalues of Hermitian parts in rising order.",
)

# -- general matrices: a v = v diag(w)


def _eig(xp: ArrayModule, a: Buffer) -> Buffer:
    w, v = xp.linalg.eig(a)
    dtype = complex_of(a.dtype)
    return packed_parts(xp, [w.astype(dtype), v.astype(dtype)], eig_shapes(a.shape[-1]))


def _anchors(v: Array) -> Array | Buffer:
    """Returns 1 at the component of each vector that LAPACK makes real, the largest one."""
    n = shape_of(v)[-1]
    if not n:
        return beside(v, np.zeros((0, 0), bool))
    sizes = ops.where(ops.imag(v) == 0, ops.abs(v), -1)
    largest = ops.expand_dims(ops.argmax(sizes, axis=-2), -2)
    return ops.equal(largest, beside(v, np.arange(n)[:, None]))


def _eig_jvp(g: Array, ans: Array, x: Array) -> Array:
    shapes = eig_shapes(shape_of(x)[-1])
    w, v = unpacked(ans, shapes)
    change = ops.solve(v, ops.matmul(g * v.dtype.type(1), v))
    turned = ops.matmul(v, _inverse_differences(w) * change)
    # Vectors keep their length, and that component real.
    stretched = ops.real(ops.sum(conjugate(v) * turned, axis=-2, keepdims=True))
    anchored = ops.where(_anchors(v), turned / ops.where(_anchors(v), v, 1), 0)
    angles = ops.imag(ops.sum(anchored, axis=-2, keepdims=True))
    return packed_parts(ops, [diagonal_of(change), turned - v * (stretched + 1j * angles)], shapes)


def _eig_vjp(g: Array, ans: Array, x: Array) -> Array:
    shapes = eig_shapes(shape_of(x)[-1])
    w, v = unpacked(ans, shapes)
    by_w, by_v = unpacked(g, shapes)
    along = ops.sum(by_v * v, axis=-2, keepdims=True)
    anchors = _anchors(v)
    anchored = ops.where(anchors, 1j * ops.imag(along) / ops.where(anchors, v, 1), 0)
    by_v = by_v - ops.real(along) * conjugate(v) - anchored
    by_change = _inverse_differences(w) * ops.matmul(v.mT, by_v) + diagonal_matrix(by_w)
    return ops.matmul(ops.solve(v.mT, by_change), v.mT)


eig = of_matrices(
    "eig",
    lambda a: (a[0] + a[0] * a[0],),
    dtype=complex_of, compute=_eig,
    vjp=(_eig_vjp,), jvp=(_eig_jvp,), dtypes="fdD",
    samples=[SPACED_SAMPLES[0], Sample(near([[0.0, 3.0], [-5.0, 0.0]], 2)), SPACED_SAMPLES[2]],
    doc="""Returns eigenvalues and eigenvectors of any square matrices, packed; always complex.

    Vectors have length 1 and their largest component is real, as LAPACK has it. The derivative
    is that for distinct eigenvalues.
    """,
)


def _eigvals_jvp(g: Array, x: Array) -> Array:
    v = _eigenvectors("eig", x)
    return diagonal_of(ops.solve(v, ops.matmul(g * v.dtype.type(1), v)))


def _eigvals_vjp(g: Array, x: Array) -> Array:
    v = _eigenvectors("eig", x)
    return ops.matmul(ops.solve(v.mT, diagonal_matrix(g)), v.mT)


eigvals = of_matrices(
    "eigvals",
    lambda a: (a[0],),
    dtype=complex_of,
    compute=lambda xp, a: xp.linalg.eigvals(a).astype(complex_of(a.dtype)),
    vjp=(_eigvals_vjp,), jvp=(_eigvals_jvp,), dtypes="fdD",
    samples=[SPACED_SAMPLES[0], Sample(near([[0.0, 3.0], [-5.0, 0.0]], 2)), SPACED_SAMPLES[2]],
    doc="Returns the eigenvalues of any square matrices; always complex.",
)

# -- singular values: u diag(s) vh


def svd_shapes(matrix: Shape, full_matrices: bool) -> list[Shape]:
    """Returns the shapes of the parts of a packed singular value decomposition: u, s and vh."""
    m, n = matrix
    k = min(m, n)
    return [(m, m if full_matrices else k), (k,), (n if full_matrices else k, n)]


def _svd(xp: ArrayModule, a: Buffer, *, full_matrices: bool) -> Buffer:
    u, s, vh = linalg.svd(xp, a, full_matrices=full_matrices)
    return packed_parts(xp, [u, s.astype(u.dtype), vh], svd_shapes(a.shape[-2:], full_matrices))


class _Factors:
    """Factors of which both rules of the decomposition are made.

    Attributes:
        u, v: the vectors of singular values; u_rest, v_rest: those behind, of full matrices.
        inverse: the reciprocals of the singular values, as a row, 0 where those are.
        turning, twisting: the reciprocals of their differences, and of their sums.
    """

    def __init__(self, ans: Array, shape: Shape, full_matrices: bool) -> None:
        m, n = shape
        k = min(m, n)
        self.shapes = svd_shapes(shape, full_matrices)
        u, s, vh = unpacked(ans, self.shapes)
        s, v = ops.real(s), adjoint(vh)
        self.u, self.u_rest = _split_columns(u, k)
        self.v, self.v_rest = _split_columns(v, k)
        sums = ops.expand_dims(s, -2) + ops.expand_dims(s, -1)
        gaps = _differences(s)
        length = max(m, n)
        self.inverse = ops.expand_dims(safe_reciprocal(s, coinciding(s, s, length)), -2)
        self.turning = safe_reciprocal(gaps, coinciding(s, gaps, length))
        self.twisting = safe_reciprocal(sums, coinciding(s, sums, length))


def _split_columns(vectors: Array, k: int) -> tuple[Array, Array | None]:
    """Returns the first k columns, and the others."""
    if shape_of(vectors)[-1] == k:
        return vectors, None
    first = ops.index(vectors, (Ellipsis, slice(None, k)))
    return first, ops.index(vectors, (Ellipsis, slice(k, None)))


def _outside_span(vectors: Array, x: Array) -> Array:
    """Returns the part of x's columns that is orthogonal to all of the vectors."""
    return x - ops.matmul(vectors, ops.matmul(adjoint(vectors), x))


def _vector_changes(vectors: Array, rest: Array | None, inner: Array, image: Array) -> Array:
    """Returns how vectors change: within their space by ``inner``, out of it as the image does."""
    n, k = shape_of(vectors)[-2:]
    change = ops.matmul(vectors, inner)
    if k < n:
        change = change + _outside_span(vectors, image)
    if rest is None:
        return change
    others = -ops.matmul(vectors, adjoint(ops.matmul(adjoint(rest), image)))
    return ops.concatenate([change, others], axis=-1)


def _svd_jvp(g: Array, ans: Array, x: Array, *, full_matrices: bool) -> Array:
    f = _Factors(ans, shape_of(x)[-2:], full_matrices)
    image, back_image = ops.matmul(g, f.v), ops.matmul(adjoint(g), f.u)
    change = ops.matmul(adjoint(f.u), image)
    turned = f.turning * 0.5 * (change + adjoint(change))
    twisted = f.twisting * 0.5 * (change - adjoint(change))
    u = _vector_changes(f.u, f.u_rest, turned + twisted, image * f.inverse)
    v = _vector_changes(f.v, f.v_rest, turned - twisted, back_image * f.inverse)
    s: Array = ops.real(diagonal_of(change)) * x.dtype.type(1)
    return packed_parts(ops, [u, s, adjoint(v)], f.shapes)


def _by_image(
    vectors: Array, rest: Array | None, by_vectors: Array, by_rest: Array | None
) -> Array | None:
    """Returns the cotangent of the image, by which vectors leave their space."""
    n, k = shape_of(vectors)[-2:]
    if k == n:
        return None
    by_image = _outside_span(conjugate(vectors), by_vectors)
    if rest is None:
        return by_image
    others = ops.matmul(conjugate(rest), adjoint(ops.matmul(vectors.mT, by_rest)))
    return by_image - others


def _svd_vjp(g: Array, ans: Array, x: Array, *, full_matrices: bool) -> Array:
    shape = shape_of(x)[-2:]
    f = _Factors(ans, shape, full_matrices)
    by_u, by_s, by_vh = unpacked(g, f.shapes)
    by_u, by_u_rest = _split_columns(by_u, min(shape))
    by_v, by_v_rest = _split_columns(adjoint(by_vh), min(shape))
    inner_u, inner_v = ops.matmul(f.u.mT, by_u), ops.matmul(f.v.mT, by_v)
    turned, twisted = f.turning * (inner_u + inner_v), f.twisting * (inner_u - inner_v)
    by_change = 0.5 * (turned + adjoint(turned) + twisted - adjoint(twisted))
    by_change = by_change + diagonal_matrix(ops.real(by_s))
    out = ops.matmul(conjugate(f.u), ops.matmul(by_change, f.v.mT))
    by_image = _by_image(f.u, f.u_rest, by_u, by_u_rest)
    if by_image is not None:
        out = out + ops.matmul(by_image * f.inverse, f.v.mT)
    by_image = _by_image(f.v, f.v_rest, by_v, by_v_rest)
    if by_image is not None:
        out = out + adjoint(ops.matmul(by_image * f.inverse, f.u.mT))
    return out


svd = of_matrices(
    "svd",
    lambda a, full_matrices: (sum(int(np.prod(shape)) for shape in svd_shapes(a, full_matrices)),),
    square=False, compute=_svd,
    vjp=(_svd_vjp,), jvp=(_svd_jvp,),
    samples=[
        Sample(near(SPACED_DIAGONALS[3]), full_matrices=True),
        Sample(near(np.eye(3, 2) * [6.0, 3.0], 2), full_matrices=False),
        Sample(near(np.eye(2, 3) * [[6.0], [3.0]]), full_matrices=False),
        Sample((0, 2), full_matrices=False),
    ],
    doc="Returns u, the singular values in falling order, and vh, packed.",
)


def _svdvals_factors(x: Array) -> tuple[Array, Array, Array]:
    """Returns the vectors, and where singular values are not 0: there is the kink of a size."""
    shapes = svd_shapes(shape_of(x)[-2:], False)
    u, s, vh = unpacked(svd.bind((x,), {"full_matrices": False}), shapes)
    return u, adjoint(vh), ops.real(s) != 0


def _svdvals_jvp(g: Array, x: Array) -> Array:
    u, v, positive = _svdvals_factors(x)
    return ops.real(ops.sum(conjugate(u) * ops.matmul(g, v), axis=-2)) * positive


def _svdvals_vjp(g: Array, x: Array) -> Array:
    u, v, positive = _svdvals_factors(x)
    return ops.matmul(conjugate(u) * ops.expand_dims(g * positive, -2), v.mT)


svdvals = of_matrices(
    "svdvals",
    lambda a: (min(a),),
    dtype=real_of, square=False,
    compute=linalg.singular_values,
    vjp=(_svdvals_vjp,), jvp=(_svdvals_jvp,), dtypes="fdD",
    samples=[
        Sample(near(SPACED_DIAGONALS[3])), Sample(near(np.eye(3, 2) * [6.0, 3.0], 2)),
        Sample(near(np.eye(2, 3) * [[6.0], [3.0]])), Sample((0, 2)),
    ],
    doc="Returns singular values in falling order; the derivative of one that is 0 is 0.",
)

# -- an orthogonal and a triangular factor: a = q r, for no fewer rows than columns


def qr_shapes(matrix: Shape, mode: str) -> list[Shape]:
    """Returns the shapes of the parts of a packed factorisation: q and r."""
    m, n = matrix
    k = m if mode == "complete" else min(m, n)
    return [(m, k), (k, n)]


def _qr(xp: ArrayModule, a: Buffer, *, mode: str) -> Buffer:
    return packed_parts(xp, xp.linalg.qr(a, mode=mode), qr_shapes(a.shape[-2:], mode))


def _qr_parts(values: Array, shape: Shape, mode: str) -> tuple[Array, Array | None, Array]:
    """Returns q, its columns behind those of r's rows that are not 0, and those rows."""
    q, r = unpacked(values, qr_shapes(shape, mode))
    q, rest = _split_columns(q, shape[1])
    if rest is not None:
        r = ops.index(r, (Ellipsis, slice(None, shape[1]), slice(None)))
    return q, rest, r


def _qr_jvp(g: Array, ans: Array, x: Array, *, mode: str) -> Array:
    m, n = shape_of(x)[-2:]
    q, rest, r = _qr_parts(ans, (m, n), mode)
    step = ops.solve(r.mT, g.mT).mT
    change = ops.matmul(adjoint(q), step)
    lower = ops.tril(change, -1)
    turned = lower - adjoint(lower)
    if is_complex(x):
        # The diagonal of r stays real.
        turned = turned + diagonal_matrix(diagonal_of(change) - ops.real(diagonal_of(change)))
    by_r = ops.matmul(change - turned, r)
    by_q = step - ops.matmul(q, change - turned)
    if rest is None:
        return packed_parts(ops, [by_q, by_r], qr_shapes((m, n), mode))
    others = -ops.matmul(q, adjoint(ops.matmul(adjoint(rest), step)))
    below = ops.broadcast_to(beside(x, np.zeros((), x.dtype)), (*shape_of(by_r)[:-2], m - n, n))
    parts = [ops.concatenate([by_q, others], axis=-1), ops.concatenate([by_r, below], axis=-2)]
    return packed_parts(ops, parts, qr_shapes((m, n), mode))


def _qr_vjp(g: Array, ans: Array, x: Array, *, mode: str) -> Array:
    shape = shape_of(x)[-2:]
    q, rest, r = _qr_parts(ans, shape, mode)
    by_q, by_rest, by_r = _qr_parts(g, shape, mode)
    inner = ops.matmul(by_r, r.mT) - ops.matmul(q.mT, by_q)
    lower = ops.tril(inner - adjoint(inner), -1)
    by_change = inner - lower
    if is_complex(x):
        by_change = by_change - diagonal_matrix(diagonal_of(inner) - ops.real(diagonal_of(inner)))
    by_step = by_q + ops.matmul(conjugate(q), by_change)
    if rest is not None:
        by_step = by_step - ops.matmul(conjugate(rest), adjoint(ops.matmul(q.mT, by_rest)))
    return ops.solve(r, by_step.mT).mT


qr = of_matrices(
    "qr",
    lambda a, mode: (sum(p * q for p, q in qr_shapes(a, mode)),),
    square=False, compute=_qr,
    vjp=(_qr_vjp,), jvp=(_qr_jvp,), dtypes="fdD",
    samples=[
        Sample(near(SPACED_DIAGONALS[3]), mode="reduced"),
        Sample(near(np.eye(3, 2) * 3.0, 2), mode="reduced"),
        Sample(near(np.eye(2, 2) * 3.0), mode="complete"),
        Sample(near(np.zeros((2, 0))), mode="reduced"),
    ],
    doc="""Returns q and r, packed, of matrices with no fewer rows than columns.

    The derivative is that for independent columns: S. Walter and L. Lehmann, "Algorithmic
    differentiation of linear algebra functions with application in optimum experimental design"
    (2010).
    """,
)
