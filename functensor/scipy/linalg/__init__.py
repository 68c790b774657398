"""Linear algebra under SciPy's names, on stacks of matrices, with derivatives to any order."""

from __future__ import annotations

from numpy.linalg import LinAlgError

from ...faces.publish import publish
from .decompositions import eig, eigh, eigvals, eigvalsh, qr, svd, svdvals
from .factors import cho_factor, cho_solve, cholesky, lu, lu_factor, lu_solve
from .hessenberg import funm, hessenberg, qr_multiply
from .matrix_functions import (
    cosm,
    expm,
    expm_frechet,
    fractional_matrix_power,
    logm,
    polar,
    sinm,
    sqrtm,
)
from .special_matrices import (
    block_diag,
    circulant,
    companion,
    hankel,
    hilbert,
    khatri_rao,
    toeplitz,
)
from .systems import (
    det,
    inv,
    lstsq,
    norm,
    pinv,
    solve,
    solve_banded,
    solve_continuous_lyapunov,
    solve_discrete_lyapunov,
    solve_lyapunov,
    solve_sylvester,
    solve_triangular,
)

__all__ = [
    "LinAlgError", "block_diag", "cho_factor", "cho_solve", "cholesky", "circulant", "companion",
    "cosm", "det", "eig", "eigh", "eigvals", "eigvalsh", "expm", "expm_frechet",
    "fractional_matrix_power", "funm", "hankel", "hessenberg", "hilbert", "inv", "khatri_rao",
    "logm", "lstsq", "lu", "lu_factor", "lu_solve", "norm", "pinv", "polar", "qr", "qr_multiply",
    "sinm", "solve", "solve_banded", "solve_continuous_lyapunov", "solve_discrete_lyapunov",
    "solve_lyapunov", "solve_sylvester", "solve_triangular", "sqrtm", "svd", "svdvals", "toeplitz",
]  # fmt: skip

publish(globals())
