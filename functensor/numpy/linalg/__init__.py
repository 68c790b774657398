"""Linear algebra under NumPy's names, on stacks of matrices, with derivatives to any order.

The last two axes are a matrix; all in front of them broadcast. Single and double precision, real
and complex. SciPy is not needed.
"""

from __future__ import annotations

from numpy.linalg import LinAlgError

from ...faces.publish import publish
from .decompositions import (
    EighResult,
    EigResult,
    QRResult,
    SVDResult,
    eig,
    eigh,
    eigvals,
    eigvalsh,
    qr,
    svd,
    svdvals,
)
from .norms import cond, matrix_norm, matrix_rank, norm, vector_norm
from .products import (
    cross,
    diagonal,
    matmul,
    matrix_power,
    matrix_transpose,
    multi_dot,
    outer,
    tensordot,
    trace,
    vecdot,
)
from .solving import (
    SlogdetResult,
    cholesky,
    det,
    expm,
    inv,
    lstsq,
    pinv,
    slogdet,
    solve,
    tensorinv,
    tensorsolve,
)

__all__ = [
    "EigResult", "EighResult", "LinAlgError", "QRResult", "SVDResult", "SlogdetResult", "cholesky",
    "cond", "cross", "det", "diagonal", "eig", "eigh", "eigvals", "eigvalsh", "expm", "inv",
    "lstsq", "matmul", "matrix_norm", "matrix_power", "matrix_rank", "matrix_transpose",
    "multi_dot", "norm", "outer", "pinv", "qr", "slogdet", "solve", "svd", "svdvals", "tensordot",
    "tensorinv", "tensorsolve", "trace", "vecdot", "vector_norm",
]  # fmt: skip

publish(globals())
