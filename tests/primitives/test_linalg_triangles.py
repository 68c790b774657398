"""Functions that read a part of a matrix: what they compute is what they differentiate.

NumPy and SciPy read one triangle, or a few diagonals, and never look at the rest. Values have to
be theirs for matrices in which the rest is something else, and derivatives those of that function:
right where numerical ones are taken, and 0 by what is not read.
"""

import numpy as np
import pytest
import scipy.linalg

import functensor as ft
import functensor.numpy as fnp
from functensor.scipy import linalg
from functensor.testing import check_grads

RNG = np.random.default_rng(5)
LOWER, UPPER = np.tril(np.ones((3, 3), bool)), np.triu(np.ones((3, 3), bool))
B = np.array([1.0, -2.0, 0.5])


def projected(np, pair):
    """A function of eigenvectors that does not depend on their phases."""
    values, vectors = pair
    return (vectors * np.sin(values)) @ vectors.mT.conj()


def of_svd(np, parts):
    u, s, vh = parts
    return (u * np.sin(s)) @ vh


def solved(**options):
    return lambda np, la, x: la.solve(x, B, **options)


# The part that is read, and the function of the namespaces numpy and scipy.linalg.
CASES = {
    "eigvalsh": (LOWER, lambda np, la, x: np.linalg.eigvalsh(x)),
    "eigvalsh upper": (UPPER, lambda np, la, x: np.linalg.eigvalsh(x, "U")),
    "eigh": (LOWER, lambda np, la, x: projected(np, np.linalg.eigh(x))),
    "eigh upper": (UPPER, lambda np, la, x: projected(np, np.linalg.eigh(x, "U"))),
    "cholesky": (LOWER, lambda np, la, x: np.linalg.cholesky(x)),
    "cholesky upper": (UPPER, lambda np, la, x: np.linalg.cholesky(x, upper=True)),
    "pinv": (LOWER, lambda np, la, x: np.linalg.pinv(x, hermitian=True)),
    "svd": (LOWER, lambda np, la, x: of_svd(np, np.linalg.svd(x, hermitian=True))),
    "svd values": (LOWER, lambda np, la, x: np.linalg.svd(x, compute_uv=False, hermitian=True)),
    "tril": (LOWER, lambda np, la, x: np.sin(np.tril(x))),
    "triu": (UPPER, lambda np, la, x: np.sin(np.triu(x))),
    "scipy eigh": (LOWER, lambda np, la, x: projected(np, la.eigh(x))),
    "scipy eigh upper": (UPPER, lambda np, la, x: projected(np, la.eigh(x, lower=False))),
    "scipy eigvalsh": (UPPER, lambda np, la, x: la.eigvalsh(x, lower=False)),
    "scipy eigvalsh by b": (LOWER, lambda np, la, x: la.eigvalsh(np.diag(B), x, lower=True)),
    "scipy eigvalsh of two": (UPPER, lambda np, la, x: la.eigvalsh(x, np.diag(B * B), lower=False)),
    "scipy cholesky": (UPPER, lambda np, la, x: la.cholesky(x)),
    "scipy cholesky lower": (LOWER, lambda np, la, x: la.cholesky(x, lower=True)),
    "cho_solve": (UPPER, lambda np, la, x: la.cho_solve(la.cho_factor(x), B)),
    "cho_solve lower": (LOWER, lambda np, la, x: la.cho_solve(la.cho_factor(x, lower=True), B)),
    "cho_solve's factor": (LOWER, lambda np, la, x: la.cho_solve((x, True), B)),
    "solve_triangular": (UPPER, lambda np, la, x: la.solve_triangular(x, B)),
    "solve_triangular lower": (LOWER, lambda np, la, x: la.solve_triangular(x, B, lower=True)),
    "solve_triangular unit": (
        np.triu(UPPER, 1),
        lambda np, la, x: la.solve_triangular(x, B, trans="C", unit_diagonal=True),
    ),
    "solve sym": (UPPER, solved(assume_a="sym")),
    "solve her": (LOWER, solved(assume_a="her", lower=True)),
    "solve pos": (UPPER, solved(assume_a="pos")),
    "solve pos lower": (LOWER, solved(assume_a="pos", lower=True)),
    "solve upper": (UPPER, solved(assume_a="upper triangular")),
    "solve lower": (LOWER, solved(assume_a="lower triangular")),
    "solve diagonal": (np.eye(3, dtype=bool), solved(assume_a="diagonal")),
    "inv sym": (UPPER, lambda np, la, x: la.inv(x, assume_a="sym")),
    "inv pos": (LOWER, lambda np, la, x: la.inv(x, assume_a="pos", lower=True)),
    "inv upper": (UPPER, lambda np, la, x: la.inv(x, assume_a="upper triangular")),
}


# Functions that look at all elements, or in which NaN becomes 0 times NaN; and those that NumPy or
# SciPy have for real matrices alone, or in another way for complex ones.
WHOLE = {"tril", "triu", "svd", "pinv", "svd values"}
REAL_ONLY = {"inv pos"}


def matrix(dtype, read):
    """A matrix with something else where it is not read, which no function may see."""
    x = RNG.uniform(-0.5, 0.5, (3, 3)) + np.diag([3.0, 4.0, 5.0])
    if dtype == "D":
        x = x + 1j * np.where(np.eye(3), 0, RNG.uniform(-0.5, 0.5, (3, 3)))
    return np.where(read, x, x + 7.0)


@pytest.mark.parametrize("dtype", ["d", "D"])
@pytest.mark.parametrize("name", CASES)
def test_the_part_that_is_read_has_the_derivative(name, dtype):
    read, function = CASES[name]
    x = matrix(dtype, read)

    def ours(x):
        return function(fnp, linalg, x)

    if dtype == "d" or name not in REAL_ONLY:
        np.testing.assert_allclose(ours(x), function(np, scipy.linalg, x), atol=1e-10)
    check_grads(ours, (x,), order=2, rtol=2e-6)
    g = ft.grad(lambda x: fnp.abs(fnp.sum(ours(x))))(x)
    np.testing.assert_array_equal(np.asarray(g)[~read], 0)


@pytest.mark.parametrize("name", sorted(CASES.keys() - WHOLE))
def test_what_is_not_read_may_be_nan(name):
    read, function = CASES[name]
    x = np.where(read, matrix("d", read), np.nan)
    value, pull = ft.vjp(lambda x: function(fnp, linalg, x), x)
    (g,) = pull(fnp.ones_like(value))
    assert np.isfinite(value).all()
    assert np.isfinite(g).all()


def test_eigenvalues_of_a_triangle_that_an_issue_shows():
    x = np.array([[2.0, 0.0], [1.0, 3.0]])
    check_grads(fnp.linalg.eigvalsh, (x,), order=2)
    g = ft.grad(lambda x: fnp.sum(fnp.linalg.eigvalsh(x) ** 3))(x)
    np.testing.assert_allclose(g, [[15.0, 0.0], [30.0, 30.0]])


def test_symmetrised_arguments_have_hermitian_gradients():
    x = matrix("D", LOWER)
    half = (x + x.conj().T) / 2

    def total(x):
        return fnp.sum(fnp.linalg.eigvalsh((x + x.mT.conj()) / 2) ** 2)

    g = np.asarray(ft.grad(total)(x))
    np.testing.assert_allclose(g, g.conj().T, atol=1e-12)
    # JAX's and this library's convention: the gradient of real functions is conjugated.
    np.testing.assert_allclose(g, 2 * half.conj(), atol=1e-12)
