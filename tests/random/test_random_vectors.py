"""Random vectors and matrices."""

import numpy as np
import pytest
from scipy import stats

import functensor as ft
import functensor.numpy as fnp
from functensor import random
from functensor.primitives.core.errors import ShapeError
from functensor.testing import check_grads

KEY = random.key(2026)
MEAN = np.array([1.0, -2.0, 0.5])
COV = np.array([[2.0, 0.6, -0.4], [0.6, 1.0, 0.2], [-0.4, 0.2, 0.5]])
METHODS = ["cholesky", "eigh", "svd"]
RARE = 1e-6


def host(x):
    return np.asarray(x)


@pytest.mark.parametrize("method", METHODS)
def test_multivariate_normal_follows_its_law(method):
    x = host(random.multivariate_normal(KEY, MEAN, COV, (20_000,), method=method))
    assert x.shape == (20_000, 3)
    np.testing.assert_allclose(x.mean(axis=0), MEAN, atol=5 * np.sqrt(2 / 20_000))
    np.testing.assert_allclose(np.cov(x.T), COV, atol=0.1)
    white = np.linalg.solve(np.linalg.cholesky(COV), (x - MEAN).T)
    for row in white:
        assert stats.kstest(row, "norm").pvalue > RARE
    assert stats.kstest((white**2).sum(axis=0), stats.chi2(3).cdf).pvalue > RARE


@pytest.mark.parametrize("method", METHODS)
def test_multivariate_normal_has_derivatives_keys_and_batches(method):
    def draw(key, mean, root):
        cov = root @ root.T + 0.1 * np.diag([1.0, 2.0, 3.0])
        return random.multivariate_normal(key, mean, cov, (2,), method=method)

    root = np.linalg.cholesky(COV)
    check_grads(lambda m, r: draw(KEY, m, r), (MEAN, root), order=2)
    keys = random.split(KEY, 4)
    got = ft.vmap(draw, (0, None, None))(keys, MEAN, root)
    np.testing.assert_allclose(got, [host(draw(k, MEAN, root)) for k in keys], rtol=1e-12)
    program = ft.make_program(draw)(KEY, MEAN, root)
    np.testing.assert_allclose(program(keys[1], MEAN, root), got[1], rtol=1e-12)
    many = random.multivariate_normal(KEY, np.zeros((4, 3)), COV, method=method)
    assert many.shape == (4, 3)
    covs = np.stack([COV, 2 * COV])
    assert random.multivariate_normal(KEY, MEAN, covs, (5, 2), "float32", method).shape == (5, 2, 3)


def test_singular_covariances_need_eigh_or_svd():
    flat = np.outer([1.0, 2.0], [1.0, 2.0])
    for method in ("eigh", "svd"):
        x = host(random.multivariate_normal(KEY, np.zeros(2), flat, (100,), method=method))
        np.testing.assert_allclose(x[:, 1], 2 * x[:, 0], atol=1e-6)
    with pytest.raises(np.linalg.LinAlgError):
        random.multivariate_normal(KEY, np.zeros(2), -flat)


def test_multivariate_normal_says_what_is_wrong():
    with pytest.raises(ValueError, match="method='qr'; cholesky, eigh or svd"):
        random.multivariate_normal(KEY, MEAN, COV, method="qr")
    with pytest.raises(ShapeError, match=r"mean of shape \(2,\), cov of shape \(3, 3\)"):
        random.multivariate_normal(KEY, MEAN[:2], COV)
    with pytest.raises(ShapeError, match="mean of shape \\(\\), cov of shape"):
        random.multivariate_normal(KEY, 0.0, COV)
    with pytest.raises(ShapeError, match="do not broadcast"):
        random.multivariate_normal(KEY, np.zeros((4, 3)), COV, (3,))


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
def test_orthogonal(dtype):
    atol = 1e-5 if dtype == "float32" else 1e-12
    q = host(random.orthogonal(KEY, 4, (5,), dtype))
    assert (q.shape, q.dtype) == ((5, 4, 4), dtype)
    np.testing.assert_allclose(q @ q.conj().mT, np.broadcast_to(np.eye(4), q.shape), atol=atol)
    tall, wide = host(random.orthogonal(KEY, 4, m=2)), host(random.orthogonal(KEY, 2, m=4))
    np.testing.assert_allclose(tall.T @ tall, np.eye(2), atol=1e-12)
    np.testing.assert_allclose(wide @ wide.T, np.eye(2), atol=1e-12)
    assert random.orthogonal(KEY, 0).shape == (0, 0)
    with pytest.raises(ValueError, match="a matrix of -1 rows"):
        random.orthogonal(KEY, -1)


def test_orthogonal_matrices_are_uniform():
    q = host(random.orthogonal(KEY, 3, (5000,)))
    # A component of a uniform direction in three dimensions is uniform.
    for i, j in ((0, 0), (1, 2), (2, 1)):
        assert stats.kstest(q[:, i, j], stats.uniform(-1, 2).cdf).pvalue > RARE
    assert abs((np.linalg.det(q) > 0).mean() - 0.5) < 5 * 0.5 / np.sqrt(5000)
    keys = random.split(KEY, 3)
    mapped = ft.vmap(lambda k: random.orthogonal(k, 3))(keys)
    np.testing.assert_allclose(mapped, [host(random.orthogonal(k, 3)) for k in keys], rtol=1e-12)
    assert host(fnp.trace(random.orthogonal(KEY, 3))).shape == ()


def test_parameters_may_be_lists_of_traced_values():
    def draws(a):
        both = [a, 2 * a]
        counted = random.bernoulli(KEY, both).sum() + random.choice(KEY, 2, (3,), p=both).sum()
        drawn = random.uniform(KEY, (2,), maxval=both) + random.gamma(KEY, both)
        parts = random.choice(KEY, both, (4,)) + random.permutation(KEY, both)[0]
        return drawn.sum() + parts.sum() + counted + random.categorical(KEY, both)

    check_grads(lambda a: random.uniform(KEY, (2,), maxval=[a, 2 * a]), (0.3,))
    assert np.isfinite(float(ft.grad(draws)(0.3)))
