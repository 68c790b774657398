"""Messages of linear algebra about wrong arguments."""

import numpy
import pytest

import functensor as ft
import functensor.numpy as np
from functensor.scipy import linalg as scipy_linalg

linalg = np.linalg


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (
            lambda: linalg.inv(numpy.ones((2, 3))),
            linalg.LinAlgError,
            "inv: matrices of shape (2, 3) are not square",
        ),
        (
            lambda: linalg.det(numpy.ones(3)),
            linalg.LinAlgError,
            "det: an array of shape (3,) is no matrix",
        ),
        (
            lambda: linalg.solve(numpy.eye(2), numpy.ones(3)),
            ValueError,
            "solve: b of shape (3,) for matrices of shape (2, 2): 2 rows are needed",
        ),
        (
            lambda: linalg.solve(numpy.ones((2, 2)), numpy.ones(2)),
            linalg.LinAlgError,
            "solve: singular matrix; lstsq and pinv take singular matrices too",
        ),
        (
            lambda: linalg.inv(numpy.zeros((2, 2))),
            linalg.LinAlgError,
            "inv: singular matrix; lstsq",
        ),
        (
            lambda: linalg.cholesky(-numpy.eye(2)),
            linalg.LinAlgError,
            "cholesky: matrix is not positive definite; a + 1e-6",
        ),
        (lambda: linalg.eigh(numpy.eye(2), "X"), ValueError, "eigh: UPLO is 'L' or 'U', not 'X'"),
        (
            lambda: linalg.qr(numpy.eye(2), "raw"),
            ValueError,
            "qr: mode is 'reduced', 'complete' or 'r', not 'raw'",
        ),
        (lambda: linalg.norm(numpy.ones(2), "fro"), ValueError, "no norm 'fro' of vectors"),
        (lambda: linalg.norm(numpy.ones((2, 2)), 3), ValueError, "no norm 3 of matrices"),
        (
            lambda: linalg.norm(numpy.ones((2, 2, 2)), 2),
            ValueError,
            "vectors have one axis and matrices two; 3 axes",
        ),
        (
            lambda: linalg.norm(numpy.ones((2, 2)), 1, axis=(0, -2)),
            ValueError,
            "names an axis twice",
        ),
        (
            lambda: linalg.cond(numpy.ones((0, 2))),
            linalg.LinAlgError,
            "cond: matrices of shape (0, 2) have no elements",
        ),
        (
            lambda: linalg.pinv(numpy.eye(2), 1e-3, rtol=1e-3),
            ValueError,
            "rcond and rtol exclude each other",
        ),
        (
            lambda: linalg.matrix_rank(numpy.eye(2), 1.0, rtol=1.0),
            ValueError,
            "tol and rtol exclude each other",
        ),
        (lambda: linalg.matrix_power(numpy.eye(2), 0.5), TypeError, "float"),
        (
            lambda: linalg.multi_dot([numpy.eye(2)]),
            ValueError,
            "at least two arrays are needed, not 1",
        ),
        (
            lambda: linalg.multi_dot([numpy.eye(2), numpy.ones(2), numpy.eye(2)]),
            ValueError,
            "all but the first and the last have to be matrices",
        ),
        (
            lambda: linalg.outer(numpy.eye(2), numpy.ones(2)),
            ValueError,
            "outer: vectors are needed",
        ),
        (lambda: linalg.cross(numpy.ones(2), numpy.ones(2)), ValueError, "three components"),
        (
            lambda: linalg.tensorinv(numpy.ones((2, 3)), ind=1),
            ValueError,
            "tensorinv: axes (2,) have 2 elements and axes (3,) 3",
        ),
        (
            lambda: linalg.tensorinv(numpy.eye(2), ind=0),
            ValueError,
            "ind counts the first axes, from 1",
        ),
        (
            lambda: scipy_linalg.solve(numpy.eye(2), numpy.ones(2), assume_a="x"),
            ValueError,
            "assume_a is one of",
        ),
        (
            lambda: scipy_linalg.solve_triangular(numpy.eye(2), numpy.ones(2), trans=3),
            ValueError,
            "trans is 0 or 'N'",
        ),
        (
            lambda: scipy_linalg.solve_triangular(numpy.zeros((2, 2)), numpy.ones(2)),
            linalg.LinAlgError,
            "singular matrix",
        ),
        (
            lambda: scipy_linalg.solve_sylvester(numpy.eye(2), numpy.eye(3), numpy.eye(2)),
            ValueError,
            "q has a's rows and b's columns",
        ),
        (
            lambda: ft.jit(scipy_linalg.sqrtm)(-numpy.eye(2)),
            linalg.LinAlgError,
            "sqrtm(a.astype(complex)) gives it",
        ),
        (
            lambda: scipy_linalg.sqrtm(numpy.eye(2, k=1)),
            linalg.LinAlgError,
            "the matrix is singular and has no square root",
        ),
        (
            lambda: scipy_linalg.logm(-numpy.eye(2)),
            linalg.LinAlgError,
            "logm(a.astype(complex)) gives it",
        ),
        (
            lambda: scipy_linalg.logm(numpy.ones((2, 2)) * 0),
            linalg.LinAlgError,
            "singular and has no logarithm",
        ),
        (
            lambda: scipy_linalg.eigh(numpy.eye(2), subset_by_value=(0, 1)),
            NotImplementedError,
            "subset_by_value",
        ),
        (lambda: scipy_linalg.polar(numpy.eye(2), "up"), ValueError, "side is 'right' or 'left'"),
        (lambda: scipy_linalg.companion(numpy.ones(1)), ValueError, "companion: 1 coefficients"),
        (
            lambda: scipy_linalg.khatri_rao(numpy.ones((2, 2)), numpy.ones((2, 3))),
            ValueError,
            "matrices with as many columns",
        ),
    ],
)
def test_errors(call, kind, text):
    with pytest.raises(kind) as raised:
        call()
    said = "\n".join([str(raised.value), *getattr(raised.value, "__notes__", [])])
    # Text behind a semicolon may be told as the fix.
    assert all(part in said for part in text.split("; ")), said


def test_shape_errors_show_the_users_line_and_a_fix():
    with pytest.raises(ValueError, match="not square") as raised:
        linalg.inv(numpy.ones((2, 3)))
    text = str(raised.value)
    assert __file__ in text
    assert "fix: lstsq and pinv take any shape; x @ x.mT and x.mT @ x are square" in text
    assert "python -m functensor.errors 16" in text
