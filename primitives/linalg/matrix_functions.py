"""Functions of matrices: exponentials, logarithms, square roots, and Sylvester's equation."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...backends.annotations import ArrayModule, Buffer
from ...backends.arrays import linalg, matrix_functions
from ...backends.optional_modules import scipy_module
from ..core.annotations import operations as ops
from ..core.array import Array
from ..core.buffers import beside
from ..core.derivative_rules import shape_of
from ..core.shape_dtype import result_type
from ..core.test_samples import Sample
from .stacks import chunked, near, of_matrices

__all__ = ["along_block", "expm", "logm", "solve_sylvester", "sqrtm"]


def along_block(function: Callable[[Array], Array], x: Array, direction: Array) -> Array:
    """Returns the derivative of a function of matrices along a direction.

    It stands in the upper right block of the function of ``[[x, direction], [0, x]]``: R. Mathias,
    "A chain rule for matrix functions and applications", SIAM J. Matrix Anal. Appl. 17 (1996).
    The direction is scaled to the size of x, so that it does not decide how that is computed.
    """
    n = shape_of(x)[-1]
    if not n:
        return direction
    sizes = [
        ops.max(ops.abs(ops.stop_gradient(v)), axis=(-2, -1), keepdims=True) for v in (x, direction)
    ]
    own, other = (ops.where(size == 0, 1, size) for size in sizes)
    scale = ops.astype(other / own, x.dtype)
    upper = ops.concatenate(ops.broadcast_arrays(x, direction / scale), axis=-1)
    right = ops.broadcast_to(x, (*shape_of(upper)[:-2], n, n))
    zeros = ops.broadcast_to(beside(x, np.zeros((), x.dtype)), right.shape)
    lower = ops.concatenate([zeros, right], axis=-1)
    whole = function(ops.concatenate([upper, lower], axis=-2))
    return ops.index(whole, (Ellipsis, slice(None, n), slice(n, None))) * scale


expm = of_matrices(
    "expm",
    lambda a: a,
    compute=linalg.expm, reference="scipy.linalg.expm",
    vjp=(lambda g, x: along_block(ops.expm, x.mT, g),),
    jvp=(lambda g, x: along_block(ops.expm, x, g),),
    dtypes="fdD", samples=[Sample((3, 3)), Sample((2, 2, 2)), Sample((0, 0))],
    doc="Returns the exponentials of matrices.",
)

PRINCIPAL = np.array([[3.0, 1.0, 0.0], [-2.0, 4.0, 0.0], [0.0, 1.0, 2.0]])
PRINCIPAL_SAMPLES = [Sample(near(PRINCIPAL[:n, :n], *stack)) for n, *stack in ((3,), (2, 2), (0,))]


def _scipy_for_each(name: str) -> Callable[[Buffer], Buffer]:
    """Returns SciPy's function of one matrix, for each of a stack."""

    def reference(a: Buffer) -> Buffer:
        function = getattr(scipy_module(np, "linalg"), name)
        wide = a.astype(result_type(a.dtype, np.float64))
        return chunked(lambda m: function(m) if m.size else m, np, wide).astype(a.dtype)

    return reference


logm = of_matrices(
    "logm",
    lambda a: a,
    compute=lambda xp, a: matrix_functions.logm(a),
    reference=_scipy_for_each("logm"),
    vjp=(lambda g, x: along_block(ops.logm, x.mT, g),),
    jvp=(lambda g, x: along_block(ops.logm, x, g),),
    dtypes="fdD", samples=PRINCIPAL_SAMPLES,
    doc="Returns the principal logarithms of matrices.",
)

# -- Sylvester's equation, which a square root's derivative solves


def _sylvester(xp: ArrayModule, a: Buffer, b: Buffer, q: Buffer) -> Buffer:
    dtype = result_type(a.dtype, b.dtype, q.dtype)
    out: Buffer = matrix_functions.solve_sylvester(a, b, q, dtype)
    return out


def _sylvester_pullback(g: Array, ans: Array, x: Array, y: Array) -> tuple[Array, Array, Array]:
    by_z = ops.solve_sylvester(x.mT, y.mT, g)
    return -ops.matmul(by_z, ans.mT), -ops.matmul(ans.mT, by_z), by_z


def _sylvester_reference(a: Buffer, b: Buffer, q: Buffer) -> Buffer:
    """Solves the system for all elements of the solution, row by row."""
    m, n = q.shape[-2:]
    stack = np.broadcast_shapes(a.shape[:-2], b.shape[:-2], q.shape[:-2])
    system = np.einsum("...ik,jl->...ijkl", a, np.eye(n, dtype=q.dtype)) + np.einsum(
        "ik,...lj->...ijkl", np.eye(m, dtype=q.dtype), b
    )
    right = np.broadcast_to(q, (*stack, m, n)).reshape(*stack, m * n, 1)
    return np.linalg.solve(system.reshape(*system.shape[:-4], m * n, m * n), right).reshape(
        *stack, m, n
    )


solve_sylvester = of_matrices(
    "solve_sylvester",
    lambda a, b, q: q,
    compute=_sylvester, reference=_sylvester_reference,
    pullback=_sylvester_pullback,
    jvp=(
        lambda g, ans, x, y: -ops.solve_sylvester(x, y, ops.matmul(g, ans)),
        lambda g, ans, x, y: -ops.solve_sylvester(x, y, ops.matmul(ans, g)),
        lambda g, x, y: ops.solve_sylvester(x, y, g),
    ),
    dtypes="fdD",
    samples=[
        Sample(near(3 * np.eye(3)), near(3 * np.eye(2)), (3, 2)),
        Sample(near(3 * np.eye(2), 2), near(3 * np.eye(2)), (2, 2)),
        Sample(near(3 * np.eye(2)), near(np.eye(0)), (2, 0)),
    ],
    doc="Returns x with ``a @ x + x @ b = q``.",
)

sqrtm = of_matrices(
    "sqrtm",
    lambda a: a,
    compute=lambda xp, a: matrix_functions.sqrtm(a),
    reference=_scipy_for_each("sqrtm"),
    vjp=(lambda g, ans: ops.solve_sylvester(ans.mT, ans.mT, g),),
    jvp=(lambda g, ans: ops.solve_sylvester(ans, ans, g),),
    dtypes="fdD", samples=PRINCIPAL_SAMPLES,
    doc="""Returns the principal square roots of matrices.

    The derivative t of the root r solves ``r t + t r = g``: N. Higham, "Functions of Matrices",
    SIAM 2008, chapter 6.
    """,
)
