"""Systems of band matrices, stored by their diagonals, through SciPy's bindings of LAPACK.

Row k of the bands of a matrix a holds its diagonal ``upper - k``: ``bands[k, j] = a[i, j]`` with
``j - i = upper - k``. Elements without such an i are never read.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...backends.annotations import ArrayModule, Buffer, Shape
from ...backends.arrays import lapack
from ...backends.optional_modules import scipy_module
from ..core.annotations import operations as ops
from ..core.array import Array
from ..core.derivative_rules import shape_of
from ..core.shape_dtype import result_type
from ..core.test_samples import Sample
from .stacks import chunked, near, of_matrices

__all__ = ["banded_solve"]


def _banded_solve(xp: ArrayModule, bands: Buffer, b: Buffer, *, lower: int, upper: int) -> Buffer:
    dtype = result_type(bands.dtype, b.dtype)
    stack = np.broadcast_shapes(bands.shape[:-2], b.shape[:-2])
    if 0 in stack or not b.size:
        return xp.zeros((*stack, *b.shape[-2:]), dtype)
    if xp is np and lapack.is_lapack_dtype(dtype):
        out: Buffer = lapack.banded_solved(bands, b, dtype, lower=lower, upper=upper)
        return out
    solve: Callable[..., Buffer] = scipy_module(xp, "linalg").solve_banded

    def one(rows: Buffer, columns: Buffer) -> Buffer:
        return solve((lower, upper), rows, columns, check_finite=False)

    return chunked(one, xp, bands, b)


def _shifted_by(x: Array, steps: int, axis: int) -> Array:
    """Returns ``x[i + steps]`` along an axis counted from the back, zeros from beyond the ends."""
    length = shape_of(x)[axis]
    start, stop = min(max(steps, 0), length), max(length + min(steps, 0), 0)
    rest = (slice(None),) * (-axis - 1)
    widths = [(0, 0)] * len(shape_of(x))
    widths[axis] = (length - stop, start)
    return ops.pad(ops.index(x, (Ellipsis, slice(start, stop), *rest)), widths)


def _band(bands: Array, k: int) -> Array:
    return ops.index(bands, (Ellipsis, k, slice(None)))


def _bands_times(bands: Array, x: Array, lower: int, upper: int) -> Array:
    """Returns the product of band matrices and columns."""
    terms = [
        _shifted_by(ops.expand_dims(_band(bands, k), -1) * x, upper - k, -2)
        for k in range(lower + upper + 1)
    ]
    return sum(terms[1:], terms[0])


def _transposed_bands(bands: Array, lower: int, upper: int) -> Array:
    """Returns the bands of the transposed matrices, which have ``upper`` lower diagonals."""
    count = lower + upper
    rows = [_shifted_by(_band(bands, count - k), k - lower, -1) for k in range(count + 1)]
    return ops.stack(rows, axis=-2)


def _outer_bands(left: Array, right: Array, lower: int, upper: int) -> Array:
    """Returns the bands of the products of columns and rows, summed over the pairs."""
    rows = [
        ops.sum(_shifted_by(left, k - upper, -2) * right, axis=-1) for k in range(lower + upper + 1)
    ]
    return ops.stack(rows, axis=-2)


def _solve_bands(bands: Array, b: Array, lower: int, upper: int) -> Array:
    return banded_solve.bind((bands, b), {"lower": lower, "upper": upper})


def _banded_pullback(
    g: Array, ans: Array, x: Array, *, lower: int, upper: int
) -> tuple[Array, Array]:
    by_y = _solve_bands(_transposed_bands(x, lower, upper), g, upper, lower)
    return -_outer_bands(by_y, ans, lower, upper), by_y


def _banded_jvp_bands(g: Array, ans: Array, x: Array, *, lower: int, upper: int) -> Array:
    return -_solve_bands(x, _bands_times(g, ans, lower, upper), lower, upper)


def _banded_reference(bands: Buffer, b: Buffer, lower: int, upper: int) -> Buffer:
    n = bands.shape[-1]
    dense = np.zeros((*bands.shape[:-2], n, n), bands.dtype)
    for i in range(n):
        for j in range(max(i - lower, 0), min(i + upper + 1, n)):
            dense[..., i, j] = bands[..., upper + i - j, j]
    return np.linalg.solve(dense, b)


def _banded_sample(lower: int, upper: int, n: int, rhs: Shape, *stack: int) -> Sample:
    strong = np.zeros((lower + upper + 1, n))
    strong[upper] = lower + upper + 2.0
    return Sample(near(strong, *stack), rhs, lower=lower, upper=upper)


banded_solve = of_matrices(
    "banded_solve",
    lambda bands, b, **params: (b[0], b[1]),
    square=False, compute=_banded_solve, reference=_banded_reference,
    pullback=_banded_pullback,
    jvp=(_banded_jvp_bands, lambda g, x, *, lower, upper: _solve_bands(x, g, lower, upper)),
    dtypes="fdD",
    samples=[
        _banded_sample(1, 1, 4, (4, 2)), _banded_sample(0, 2, 3, (3, 1), 2),
        _banded_sample(2, 0, 3, (2, 3, 1)), _banded_sample(2, 1, 2, (2, 1)),
        _banded_sample(0, 0, 2, (2, 2)), _banded_sample(1, 1, 0, (0, 2)),
    ],
    doc="Returns x with ``a @ x = b`` of matrices that are given by their diagonals.",
)
