"""Linear algebra on a GPU: stacks, factors, and what is NaN where NumPy raises an error."""

import numpy as np
import pytest
import scipy.linalg

import functensor as ft
from functensor.primitives.core.registry import registry as ops

pytestmark = pytest.mark.gpu

RNG = np.random.default_rng(5)
LINALG = ft.numpy.linalg
EPS = {"f": 1e-4, "d": 1e-10, "F": 1e-4, "D": 1e-10}


def matrices(*shape, dtype="d"):
    """Returns matrices far from singular ones."""
    x = RNG.normal(size=shape)
    if np.dtype(dtype).kind == "c":
        x = x + 1j * RNG.normal(size=shape)
    return (x + 4 * shape[-1] ** 0.5 * np.eye(*shape[-2:])).astype(dtype)


def placed(x):
    return ft.to_device(x, "cuda")


def close(got, wanted, dtype="d"):
    assert got.device == placed(0.0).device
    got = np.asarray(ft.to_device(got, "cpu"))
    assert (got.shape, got.dtype) == (wanted.shape, wanted.dtype)
    np.testing.assert_allclose(got, wanted, rtol=EPS[dtype], atol=EPS[dtype])


STACKS = [
    ((5, 5), (5, 2)),
    ((3, 4, 4), (3, 4, 2)),
    ((4, 4), (2, 3, 4, 1)),
    ((2, 1, 3, 3), (4, 3, 2)),
]


@pytest.mark.parametrize("dtype", "fdFD")
@pytest.mark.parametrize(("a", "b"), STACKS)
def test_systems_and_their_stacks(a, b, dtype):
    x, y = matrices(*a, dtype=dtype), matrices(*b, dtype=dtype)
    close(LINALG.solve(placed(x), placed(y)), np.linalg.solve(x, y), dtype)
    close(LINALG.inv(placed(x)), np.linalg.inv(x), dtype)
    # As views with strides, which transposes and slices are.
    turned = np.ascontiguousarray(np.swapaxes(x, -1, -2))
    close(LINALG.solve(placed(turned).mT, placed(y)), np.linalg.solve(x, y), dtype)
    for lower in (True, False):
        triangle = np.tril(x) if lower else np.triu(x)
        got = ft.scipy.linalg.solve_triangular(placed(x), placed(y), lower=lower)
        close(got, np.linalg.solve(triangle, y), dtype)


@pytest.mark.parametrize(("lower", "upper", "n"), [(1, 1, 6), (2, 0, 5), (0, 3, 4), (3, 3, 2)])
def test_bands(lower, upper, n):
    bands, y = RNG.normal(size=(lower + upper + 1, n)), RNG.normal(size=(n, 2))
    bands[upper] += 8
    got = ft.scipy.linalg.solve_banded((lower, upper), placed(bands), placed(y))
    close(got, scipy.linalg.solve_banded((lower, upper), bands, y))


@pytest.mark.parametrize("shape", [(5, 5), (4, 6), (6, 4), (3, 5, 5), (0, 3, 3), (2, 0, 0)])
def test_factors_multiply_to_the_matrix(shape):
    x = matrices(*shape)
    there = placed(x)
    u, s, vh = LINALG.svd(there, full_matrices=False)
    close((u * s[..., None, :]) @ vh, x)
    p, lower, upper = ft.scipy.linalg.lu(there)
    close(p @ lower @ upper, x)
    q, r = LINALG.qr(there)
    close(q @ r, x)
    if shape[-1] == shape[-2]:
        hermitian = 0.5 * (x + np.swapaxes(x, -1, -2))
        w, v = LINALG.eigh(placed(hermitian))
        close((v * w[..., None, :]) @ v.mT, hermitian)
        w, v = LINALG.eig(there)
        close((v * w[..., None, :]).astype("D"), np.asarray(ft.to_device((there + 0j) @ v, "cpu")))
        close(ft.scipy.linalg.expm(there / 8), scipy.linalg.expm(x / 8))


def test_a_stack_has_the_vectors_that_its_matrices_have():
    x = matrices(3, 5, 5)
    for name in ("eigh", "svd"):
        parts = getattr(LINALG, name)(placed(x))
        for i, one in enumerate(x):
            alone = getattr(LINALG, name)(placed(one))
            for part, wanted in zip(parts, alone, strict=True):
                close(part[i], np.asarray(ft.to_device(wanted, "cpu")))


def test_what_has_no_solution_is_nan_and_the_rest_of_the_stack_is_right():
    x = matrices(3, 4, 4)
    x[1] = 0
    got = np.asarray(ft.to_device(LINALG.inv(placed(x)), "cpu"))
    assert np.isnan(got[1]).all()
    np.testing.assert_allclose(got[::2], np.linalg.inv(x[::2]), rtol=1e-10)
    definite = x @ np.swapaxes(x, -1, -2) + np.eye(4)
    definite[1] -= 9 * np.eye(4)
    got = np.asarray(ft.to_device(LINALG.cholesky(placed(definite)), "cpu"))
    assert np.isnan(got[1]).all()
    np.testing.assert_allclose(got[::2], np.linalg.cholesky(definite[::2]), rtol=1e-10)
    got = np.asarray(ft.to_device(LINALG.solve(placed(x[1]), placed(np.ones(4))), "cpu"))
    assert not np.isfinite(got).any()


@pytest.mark.parametrize("shape", [(4,), (3, 4), (0,), (2, 0)])
def test_pivots(shape):
    pivots = np.array([2, 1, 3, 3, 1])[RNG.integers(0, 5, shape)]
    wanted = ops.pivots_to_permutation.bind((pivots,), {"rows": 5})
    got = ops.pivots_to_permutation.bind((placed(pivots),), {"rows": 5})
    np.testing.assert_array_equal(ft.to_device(got, "cpu"), wanted)


def test_large_exponents_and_numbers_that_are_none():
    x = np.array([[0.0, 30.0], [-30.0, 0.0]])
    close(ft.scipy.linalg.expm(placed(x)), scipy.linalg.expm(x))
    x[0, 0] = np.inf
    assert np.isnan(np.asarray(ft.to_device(ft.scipy.linalg.expm(placed(x)), "cpu"))).all()
