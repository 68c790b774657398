"""Triangular systems and the factors LU, through SciPy's bindings of LAPACK."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np

from ...backends.annotations import ArrayModule, Buffer, Shape
from ...backends.arrays import lapack, linalg
from ...backends.arrays.substitution import (
    eliminated,
    is_eliminated,
    is_substituted,
    solve_by_substitution,
)
from ...backends.optional_modules import scipy_module
from ..core.annotations import operations as ops
from ..core.array import Array
from ..core.buffers import beside
from ..core.derivative_rules import shape_of
from ..core.families import batch_elementwise
from ..core.primitive import Primitive
from ..core.shape_dtype import ShapeDtype, result_type
from ..core.test_samples import Domain, Operand, Sample
from .stacks import chunked, near, of_matrices, packed_parts, unpacked

__all__ = ["lu", "lu_shapes", "pivots_to_permutation", "triangular_solve"]

# -- systems


def _triangular_solve(
    xp: ArrayModule, a: Buffer, b: Buffer, *, lower: bool, transposed: bool, unit_diagonal: bool
) -> Buffer:
    dtype = result_type(a.dtype, b.dtype)
    flags = {"lower": lower, "transposed": transposed, "unit_diagonal": unit_diagonal}
    if xp is not np or not lapack.is_lapack_dtype(dtype):
        solve: Callable[..., Buffer] | None = scipy_module(xp, "linalg").solve_triangular
    else:
        solve = None

    def one(matrix: Buffer, columns: Buffer) -> Buffer:
        if not columns.size:
            return xp.zeros(columns.shape, dtype)
        if solve is None:
            out: Buffer = lapack.triangles_solved(matrix, columns, dtype, **flags)
            return out
        return solve(
            matrix,
            columns,
            trans=int(transposed),
            lower=lower,
            unit_diagonal=unit_diagonal,
            check_finite=False,
        )

    if a.ndim == 2 and b.ndim > 2:
        # All right-hand sides of one matrix are columns of one system.
        columns = xp.moveaxis(b, -2, 0)
        flat = columns.reshape(b.shape[-2], columns[:1].size)
        return xp.moveaxis(one(a, flat).reshape(columns.shape), 0, -2)
    if solve is None and prod(stack := np.broadcast_shapes(a.shape[:-2], b.shape[:-2])) and b.size:
        if is_substituted(prod(stack), *b.shape[-2:]):
            found: Buffer | None = solve_by_substitution(a, b, dtype, **flags)
            if found is not None:
                return found
        out: Buffer = lapack.triangles_solved(a, b, dtype, **flags)
        return out
    return chunked(one, xp, a, b)


def _solve_triangle(
    a: Array, b: Array, transposed: bool, lower: bool, unit_diagonal: bool
) -> Array:
    params = {"lower": lower, "transposed": transposed, "unit_diagonal": unit_diagonal}
    return triangular_solve.bind((a, b), params)


def _triangle_read(x: Array, lower: bool, unit_diagonal: bool) -> Array:
    """Returns the part of matrices that a triangular system reads."""
    return ops.tril(x, -unit_diagonal) if lower else ops.triu(x, int(unit_diagonal))


def _triangular_jvp(
    g: Array, ans: Array, x: Array, *, lower: bool, transposed: bool, unit_diagonal: bool
) -> Array:
    change = _triangle_read(g, lower, unit_diagonal)
    product = ops.matmul(change.mT if transposed else change, ans)
    return -_solve_triangle(x, product, transposed, lower, unit_diagonal)


def _triangular_pullback(
    g: Array, ans: Array, x: Array, *, lower: bool, transposed: bool, unit_diagonal: bool
) -> tuple[Array, Array]:
    by_y = _solve_triangle(x, g, not transposed, lower, unit_diagonal)
    left, right = (ans, by_y) if transposed else (by_y, ans)
    return -_triangle_read(ops.matmul(left, right.mT), lower, unit_diagonal), by_y


def _triangular_reference(
    a: Buffer, b: Buffer, lower: bool, transposed: bool, unit_diagonal: bool
) -> Buffer:
    a = np.tril(a) if lower else np.triu(a)
    if unit_diagonal:
        a = a + np.eye(a.shape[-1], dtype=a.dtype) * (1 - a)
    return np.linalg.solve(a.mT if transposed else a, b)


triangular_solve = of_matrices(
    "triangular_solve",
    lambda a, b, **params: (a[1], b[1]),
    compute=_triangular_solve, reference=_triangular_reference,
    pullback=_triangular_pullback,
    jvp=(_triangular_jvp, lambda g, x, **flags: ops.triangular_solve.bind((x, g), flags)),
    dtypes="fdD",
    samples=[
        Sample(operand, rhs, lower=lower, transposed=transposed, unit_diagonal=unit)
        for operand, rhs, lower, transposed, unit in [
            (near(3 * np.eye(3)), (3, 2), True, False, False),
            (near(3 * np.eye(2), 2), (2, 1), False, True, True),
            (near(3 * np.eye(2)), (2, 2, 1), False, False, False),
            (near(3 * np.eye(0)), (0, 2), True, True, False),
        ]
    ],
    doc="Returns x with ``a @ x = b`` of triangular a, of which only the triangle is read.",
)

# -- factors


def lu_shapes(m: int, n: int) -> list[Shape]:
    """Returns the shapes of packed factors: both triangles in one matrix, and the pivots."""
    return [(m, n), (min(m, n),)]


def _lu(xp: ArrayModule, a: Buffer) -> Buffer:
    if xp is np and a.size and lapack.is_lapack_dtype(a.dtype):
        quicker = is_eliminated(prod(a.shape[:-2]), *a.shape[-2:])
        factors, pivots = eliminated(a) if quicker else lapack.factorised(a)
        return packed_parts(xp, (factors, pivots.astype(a.dtype)), lu_shapes(*a.shape[-2:]))
    factor = scipy_module(xp, "linalg").lapack.get_lapack_funcs(("getrf",), (a[..., :1, :1],))[0]

    def one(matrix: Buffer) -> Buffer:
        if not matrix.size:
            return xp.zeros(min(matrix.shape), a.dtype)
        factors, pivots, _ = factor(matrix)
        return xp.concatenate([factors.ravel(), pivots.astype(a.dtype)])

    return chunked(one, xp, a)


def _lu_parts(values: Array, shape: Shape) -> tuple[Array, Array, Array]:
    """Returns both factors, filled up to square matrices with the identity, and the permutation."""
    m, n = shape
    k = min(m, n)
    both, pivots = unpacked(values, lu_shapes(m, n))
    order = pivots_to_permutation.bind((ops.real(pivots),), {"rows": m})
    lower = ops.tril(ops.index(both, (Ellipsis, slice(None, k))), -1)
    upper = ops.triu(ops.index(both, (Ellipsis, slice(None, k), slice(None))))
    lower = _zero_padded(lower, m - k, -1) + beside(both, np.eye(m, dtype=both.dtype))
    rest = beside(both, np.diag(np.r_[np.zeros(k), np.ones(n - k)]).astype(both.dtype))
    return lower, _zero_padded(upper, n - k, -2) + rest, order


def _zero_padded(x: Array, count: int, axis: int) -> Array:
    widths = [(0, 0)] * len(shape_of(x))
    widths[axis] = (0, count)
    return ops.pad(x, widths) if count else x


def _with_rows(x: Array, order: Array) -> Array:
    """Returns matrices with their rows in another order."""
    order = ops.expand_dims(order, -1)
    return ops.take_along_axis(x, ops.broadcast_to(order, shape_of(x)), axis=-2)


def _lu_jvp(g: Array, ans: Array, x: Array) -> Array:
    shapes = lu_shapes(*shape_of(x)[-2:])
    lower, upper, order = _lu_parts(ans, shapes[0])
    change = _solve_triangle(lower, _with_rows(g, order), False, True, True)
    change = _solve_triangle(upper, change.mT, True, False, False).mT
    both = ops.matmul(lower, ops.tril(change, -1)) + ops.matmul(ops.triu(change), upper)
    pivots = ops.broadcast_to(beside(x, np.zeros((), x.dtype)), (*shape_of(x)[:-2], *shapes[1]))
    return packed_parts(ops, [both, pivots], shapes)


def _lu_vjp(g: Array, ans: Array, x: Array) -> Array:
    shapes = lu_shapes(*shape_of(x)[-2:])
    lower, upper, order = _lu_parts(ans, shapes[0])
    by_both, _ = unpacked(g, shapes)
    by_lower = ops.tril(ops.matmul(lower.mT, ops.tril(by_both, -1)), -1)
    by_change = by_lower + ops.triu(ops.matmul(ops.triu(by_both), upper.mT))
    by_change = _solve_triangle(lower, by_change, True, True, True)
    by_change = _solve_triangle(upper, by_change.mT, False, False, False).mT
    return _with_rows(by_change, ops.argsort(order, axis=-1))


def _lu_reference(a: Buffer) -> Buffer:
    """Returns the factors of elimination with the largest pivot of each column, row by row."""
    stack, (m, n) = a.shape[:-2], a.shape[-2:]
    out = np.zeros((*stack, m * n + min(m, n)), a.dtype)
    for place in np.ndindex(*stack):
        rest = a[place].copy()
        pivots = []
        for i in range(min(m, n)):
            pivot = i + int(np.argmax(np.abs(rest[i:, i].real) + np.abs(rest[i:, i].imag)))
            rest[[i, pivot]] = rest[[pivot, i]]
            rest[i + 1 :, i] /= rest[i, i]
            rest[i + 1 :, i + 1 :] -= np.outer(rest[i + 1 :, i], rest[i, i + 1 :])
            pivots.append(pivot)
        out[place] = np.concatenate([rest.ravel(), pivots])
    return out


# Its pivots are clear, and not all of them on the diagonal.
PIVOTED = np.array([[0.0, 6.0, 0.0], [3.0, 0.0, 0.0], [0.0, 0.0, 5.0], [0.0, 0.0, 1.0]])

lu = of_matrices(
    "lu",
    lambda a: (a[0] * a[1] + min(a),),
    square=False, compute=_lu, reference=_lu_reference,
    vjp=(_lu_vjp,), jvp=(_lu_jvp,), dtypes="fdD",
    samples=[
        Sample(near(PIVOTED[:3])), Sample(near(PIVOTED[:2, :2], 2)), Sample(near(PIVOTED[:3, :2])),
        Sample(near(PIVOTED[:2])), Sample((0, 2)),
    ],
    doc="""Returns the factors of matrices with their rows permuted, and the pivots, packed.

    The derivative is that for a fixed permutation.
    """,
)


def _permutation_reference(pivots: Buffer, rows: int) -> Buffer:
    out = np.empty((*pivots.shape[:-1], rows), np.intp)
    for place in np.ndindex(*pivots.shape[:-1]):
        order = list(range(rows))
        for i, other in enumerate(pivots[place]):
            order[i], order[int(other)] = order[int(other)], order[i]
        out[place] = order
    return out


pivots_to_permutation = Primitive(
    "pivots_to_permutation",
    compute=lambda xp, pivots, *, rows: linalg.pivots_to_permutation(
        xp, xp.asarray(pivots).astype(xp.intp), rows=rows
    ),
    reference=_permutation_reference,
    infer=lambda primitive, pivots, *, rows: ShapeDtype((*pivots.shape[:-1], rows), np.intp),
    batch=batch_elementwise, constant=True,
    samples=[
        Sample(Operand((3,), Domain(0, 3, kind="i")), rows=4),
        Sample(Operand((2, 2), Domain(0, 1, kind="i")), rows=2),
        Sample(Operand((0,), Domain(0, 1, kind="i")), rows=2),
    ],
    doc="Returns which row each one was, after swaps of row i with row ``pivots[i]`` in turn.",
)
