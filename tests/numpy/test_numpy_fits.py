"""Polynomials, histograms and covariances at their edges, with messages and known derivatives."""

import warnings

import numpy as np
import pytest
from support.numpy_cases import RNG, same

import functensor as ft
import functensor.numpy as fnp
from functensor.testing import check_grads

X = np.array([0.0, 1.0, 2.0, 3.0, 4.0])
Y = RNG.normal(size=5)
NAN = np.nan

# -- polynomials


def test_fits_are_numpys():
    w = np.array([1.0, 2.0, 1.0, 0.5, 1.0])
    for y in (Y, np.stack([Y, Y**2], 1), Y.astype("float32")):
        for options in ({}, {"w": w}, {"rcond": 1e-3}):
            np.testing.assert_allclose(
                fnp.polyfit(X, y, 2, **options), np.polyfit(X, y, 2, **options), rtol=1e-9
            )
        for cov in (True, "unscaled"):
            got, wanted = fnp.polyfit(X, y, 1, cov=cov), np.polyfit(X, y, 1, cov=cov)
            for mine, other in zip(got, wanted, strict=True):
                np.testing.assert_allclose(mine, other, rtol=1e-6)
                assert mine.dtype == other.dtype
        full, known = fnp.polyfit(X, y, 2, full=True), np.polyfit(X, y, 2, full=True)
        for mine, other in zip(full, known, strict=True):
            np.testing.assert_allclose(mine, other, rtol=1e-6)


def test_fits_of_polynomials_find_them():
    p = np.array([2.0, -1.0, 0.5])
    np.testing.assert_allclose(fnp.polyfit(X, np.polyval(p, X), 2), p, atol=1e-12)
    # A value's weight in a mean is the coefficient's derivative by it.
    same(ft.grad(lambda y: fnp.polyfit(X, y, 0)[0])(Y), np.full(5, 0.2))
    check_grads(lambda x, y: fnp.polyfit(x, y, 2), (X + 0.1 * Y, Y), order=2, rtol=1e-6)


def test_points_that_do_not_determine_a_polynomial():
    with pytest.warns(np.exceptions.RankWarning, match="do not determine a polynomial of degree 2"):
        got = fnp.polyfit([1.0, 1.0, 2.0], [1.0, 1.0, 3.0], 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        np.testing.assert_allclose(got, np.polyfit([1.0, 1.0, 2.0], [1.0, 1.0, 3.0], 2), atol=1e-12)
    with pytest.raises(ValueError, match="no polynomial has a negative degree"):
        fnp.polyfit(X, Y, -1)
    with pytest.raises(TypeError, match="5 places and 4 values"):
        fnp.polyfit(X, Y[:4], 1)
    with pytest.raises(TypeError, match=r"weights of shape \(2,\) for 5 points"):
        fnp.polyfit(X, Y, 1, w=np.ones(2))
    with pytest.raises(ValueError, match="more than 5 points are needed"):
        fnp.polyfit(X, Y, 4, cov=True)
    with pytest.raises(TypeError, match=r"polyfit: x of shape \(0,\)"):
        fnp.polyfit(X[:0], Y[:0], 1)


@pytest.mark.parametrize(
    "p", [[0, 0, 1, -3, 2, 0], [1, 2, 5], [2.0, 0, 0], [5.0], [0, 0], [1, 1j], [1.0, -6, 11, -6]]
)
def test_roots_are_numpys(p):
    got, wanted = np.asarray(fnp.roots(p)), np.roots(p)
    assert (got.shape, got.dtype) == (wanted.shape, wanted.dtype)
    np.testing.assert_allclose(np.sort_complex(got), np.sort_complex(wanted), atol=1e-12)


def test_derivatives_of_roots():
    # r^2 - s r + t: the larger root of s = 3, t = 2 is 2, with dr/ds = r / (2r - s).
    larger = ft.grad(lambda s: fnp.max(fnp.real(fnp.roots(fnp.stack([1.0, -s, 2.0])))))
    np.testing.assert_allclose(larger(3.0), 2.0)
    assert fnp.roots([1.0, 0.0], strip_zeros=False).dtype == complex
    batch = np.array([[1.0, -3.0, 2.0], [2.0, 0.0, -2.0]])
    got = np.sort(np.asarray(ft.vmap(fnp.roots)(batch)).real, axis=1)
    np.testing.assert_allclose(got, [[1.0, 2.0], [-1.0, 1.0]], atol=1e-12)


@pytest.mark.parametrize("zeros", [[], [1, 2], [1j, -1j], [1 + 1j], [[1.0, 2.0], [3.0, 4.0]]])
def test_polynomials_of_roots_are_numpys(zeros):
    got, wanted = fnp.poly(zeros), np.poly(zeros)
    assert (got.shape, got.dtype) == (np.shape(wanted), np.asarray(wanted).dtype)
    np.testing.assert_allclose(got, wanted, atol=1e-12)


@pytest.mark.parametrize(
    ("u", "v"), [([1, 2, 3], [1, 1]), ([1.0, 2], [1, 2, 3]), ([3.0], [2.0]), ([1, 2, 1], [1, 1])]
)
def test_division_with_a_remainder(u, v):
    same(fnp.polydiv(u, v), np.polydiv(u, v))
    quotient, rest = fnp.polydiv(u, v)
    back = fnp.polyadd(fnp.polymul(quotient, v), rest)
    np.testing.assert_allclose(np.trim_zeros(back, "f"), u)


def test_arithmetic_of_polynomials():
    for call in (
        lambda np: np.polymul([0, 1, 2], [0, 3, 0]),
        lambda np: np.polymul([0, 0], [1, 2]),
        lambda np: np.polyadd(1, [2, 3]),
        lambda np: np.polyder([3, 2, 1], 0),
        lambda np: np.polyder([3, 2, 1], 5),
        lambda np: np.polyint([3, 2], 1, 4),
        lambda np: np.polyint([3.0, 2.0], 3, [1, 2, 3]),
        lambda np: np.polyint([3, 2], 0),
        lambda np: np.vander([1, 2], 0),
        lambda np: np.vander(np.zeros(0), 3),
    ):
        same(call(fnp), call(np))
    for call, words in (
        (lambda: fnp.polyder([1], -1), "polyder: m=-1; polyint integrates"),
        (lambda: fnp.polyint([1], -1), "polyint: m=-1; polyder differentiates"),
        (lambda: fnp.polyint([1], 3, [1, 2]), "polyint: 3 constants are needed"),
        (lambda: fnp.polyadd([[1]], [1]), r"polyadd: coefficients stand on one axis, not in shape"),
        (lambda: fnp.vander([[1]]), "vander: numbers stand on one axis"),
        (lambda: fnp.vander([1], -1), "vander: there are no -1 powers"),
        (lambda: fnp.poly(np.ones((2, 3))), "poly: roots on one axis, or a square matrix"),
    ):
        with pytest.raises(ValueError, match=words):
            call()


# -- histograms


def test_histograms_are_numpys():
    x = np.array([0.0, 0.1, 0.1, 0.3, 0.9, 1.0, 1.0])
    for bins in (1, 10, [0.0, 0.1, 1.0], [0.1, 0.1, 0.3], np.array([2, 3]), "auto", "sturges"):
        same(fnp.histogram(x, bins), np.histogram(x, bins))
        same(fnp.histogram_bin_edges(x, bins), np.histogram_bin_edges(x, bins))
    for values in (x[:0], np.full(3, 2.0), np.array([1, 5, 9])):
        same(fnp.histogram(values, 3), np.histogram(values, 3))
    same(fnp.histogram(x, 4, (0.1, 0.9)), np.histogram(x, 4, (0.1, 0.9)))
    w = np.arange(7) - 1j
    same(fnp.histogram(x, 4, weights=w), np.histogram(x, 4, weights=w))
    same(fnp.histogram([NAN, 0.5], [0, 1]), np.histogram([NAN, 0.5], [0, 1]))
    same(fnp.histogram(x, 3, density=True), np.histogram(x, 3, density=True))


def test_bounds_of_rounding_are_numpys():
    x = np.arange(0, 101) / 100
    for bins in (7, 10, 33, 100):
        same(fnp.histogram(x, bins), np.histogram(x, bins))
        same(fnp.histogram(x.astype("f"), bins)[0], np.histogram(x.astype("f"), bins)[0])


def test_histograms_of_several_dimensions_are_numpys():
    points = RNG.normal(size=(20, 2))
    for bins in (3, (2, 4), [[-1, 0, 1], [-2, 0, 2]], [np.array([-1.0, 1.0]), 3]):
        counts, edges = fnp.histogramdd(points, bins)
        wanted, known = np.histogramdd(points, bins)
        same(counts, wanted)
        same(edges, tuple(known))
        same(fnp.histogram2d(*points.T, bins), np.histogram2d(*points.T, bins))
    same(fnp.histogram2d(*points.T, [-1, 0, 1]), np.histogram2d(*points.T, [-1, 0, 1]))
    same(
        fnp.histogram2d(*points.T, 3, density=True, range=[(-1, 1), (-2, 2)]),
        np.histogram2d(*points.T, 3, density=True, range=[(-1, 1), (-2, 2)]),
    )


def test_derivatives_of_a_density():
    x, w = np.array([0.2, 0.4, 0.9]), np.array([1.0, 2.0, 1.0])

    def first(w):
        return fnp.histogram(x, [0.0, 0.5, 1.0], weights=w, density=True)[0][0]

    # 2 (w0 + w1) / (w0 + w1 + w2)
    same(ft.grad(first)(w), np.array([2 / 16, 2 / 16, -6 / 16]))
    edges = ft.jacrev(lambda x: fnp.histogram(x, 2)[1])(x)
    same(edges, np.array([[1.0, 0.0, 0.0], [0.5, 0.0, 0.5], [0.0, 0.0, 1.0]]))
    counts = ft.vmap(lambda x: fnp.histogram(x, 2)[0])(np.stack([x, np.full(3, 1.0)]))
    assert counts.tolist() == [[2, 1], [0, 3]]


def test_wrong_bins_are_refused():
    for call, words in (
        (lambda: fnp.histogram(X, [2, 1]), "histogram: edges do not increase"),
        (lambda: fnp.histogram(X, 0), "histogram: bins=0, but there has to be one at least"),
        (lambda: fnp.histogram(X, 2, (3, 1)), "has its ends exchanged"),
        (lambda: fnp.histogram([NAN, 1.0]), r"values range from nan to nan; give range="),
        (lambda: fnp.histogram(X, 2, weights=Y[:2]), r"weights of shape \(2,\) for values \(5,\)"),
        (lambda: fnp.histogram(X, [[1, 2]]), "edges stand on one axis"),
        (lambda: fnp.histogramdd((X, X), (1, 2, 3)), "3 kinds of bins and 2 ranges for 2 dim"),
        (lambda: fnp.histogramdd((X, X), weights=Y[:2]), r"weights of shape \(2,\) for 5 points"),
        (lambda: fnp.histogram2d(X, X[:2]), r"x of shape \(5,\) and y of shape \(2,\)"),
    ):
        with pytest.raises(ValueError, match=words):
            call()
    with pytest.raises(TypeError, match="cannot depend on weights"):
        fnp.histogram(X, "auto", weights=Y)
    with pytest.raises(TypeError, match="returns depends on the value"):
        ft.vmap(lambda x: fnp.histogram(x, "auto")[0])(X[None])


# -- covariances


def test_too_few_observations_are_no_error():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        same(fnp.cov(np.ones((2, 1))), np.cov(np.ones((2, 1))))
        same(fnp.corrcoef(np.ones((2, 3))), np.corrcoef(np.ones((2, 3))))
        same(fnp.corrcoef(Y), np.corrcoef(Y))


def test_correlation_stays_in_its_bounds():
    x = RNG.normal(size=200)
    c = fnp.corrcoef(x, 3 * x + 1)
    assert np.max(np.abs(np.asarray(c))) <= 1.0
    g = ft.grad(lambda y: fnp.corrcoef(x, y)[0, 1])(3 * x + 1)
    np.testing.assert_allclose(g, np.zeros(200), atol=1e-12)
    z = x + 1j * x[::-1]
    np.testing.assert_allclose(fnp.corrcoef(z, x), np.corrcoef(z, x), rtol=1e-12)


def test_wrong_observations_are_refused():
    for call, words in (
        (lambda: fnp.cov(np.ones((2, 2, 2))), "variables have two axes at most"),
        (lambda: fnp.cov(X, ddof=0.5), "ddof is an integer, not 0.5"),
        (lambda: fnp.cov(X, aweights=Y[:2]), r"aweights of shape \(2,\) for 5 observations"),
    ):
        with pytest.raises(ValueError, match=words):
            call()
    with pytest.raises(TypeError, match="fweights are integers, not float64"):
        fnp.cov(X, fweights=Y)
