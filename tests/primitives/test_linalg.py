"""Linear algebra where it is not smooth sailing: singular, repeated, empty, wrong; and accuracy."""

import subprocess
import sys
from itertools import pairwise

import mpmath
import numpy
import pytest
import scipy.linalg

import functensor as ft
import functensor.numpy as np
from functensor.backends.arrays.linalg import cofactors_by_singular_values
from functensor.numpy.linalg.products import _best_splits
from functensor.scipy import linalg as scipy_linalg
from functensor.testing import assert_allclose, check_grads

linalg = np.linalg


def drawn(*shape, seed=0, dtype="d"):
    rng = numpy.random.default_rng(seed)
    x = rng.standard_normal(shape)
    if numpy.dtype(dtype).kind == "c":
        x = x + 1j * rng.standard_normal(shape)
    return x.astype(dtype)


def definite(n, seed=0, dtype="d"):
    x = drawn(n, n, seed=seed, dtype=dtype)
    return x @ x.conj().T + numpy.eye(n)


# -- determinants of singular matrices


@pytest.mark.parametrize("rank", [0, 1, 2, 3])
@pytest.mark.parametrize("dtype", ["d", "D"])
def test_determinant_has_all_derivatives_at_every_rank(rank, dtype):
    a = drawn(4, rank, dtype=dtype) @ drawn(rank, 4, seed=1, dtype=dtype)
    check_grads(linalg.det, (a,), order=3, rtol=1e-6)


@pytest.mark.parametrize("a", [numpy.eye(3), numpy.zeros((2, 2)), numpy.diag([1.0, 1.0, 0.0])])
def test_determinant_where_singular_values_coincide(a):
    check_grads(linalg.det, (a,), order=4, rtol=1e-5)


def test_gradient_of_a_singular_determinant_is_the_matrix_of_cofactors():
    a = numpy.array([[1.0, 2.0], [2.0, 4.0]])
    assert_allclose(ft.grad(linalg.det)(a), numpy.array([[4.0, -2.0], [-2.0, 1.0]]), atol=1e-14)


def test_gradient_of_a_determinant_is_silent_where_lapack_divides_by_zero(monkeypatch):
    computed = numpy.linalg.det

    def loud(a):
        numpy.divide(numpy.ones(1), 0.0)
        return computed(a)

    a = numpy.array([[1.0, 2.0], [2.0, 4.0]]) * (1 + 1j)
    wanted = numpy.array([[4.0, -2.0], [-2.0, 1.0]]) * (1 + 1j)
    monkeypatch.setattr(numpy.linalg, "det", loud)
    found = cofactors_by_singular_values(numpy, a)
    assert_allclose(found, wanted, atol=1e-14)


def test_slogdet_of_a_singular_matrix_among_others():
    a = numpy.stack([numpy.eye(2), numpy.ones((2, 2)), 2 * numpy.eye(2)])
    sign, logabsdet = linalg.slogdet(a)
    assert sign.tolist() == [1.0, 0.0, 1.0]
    assert logabsdet.tolist() == [0.0, -numpy.inf, 2 * numpy.log(2.0)]
    g = ft.grad(lambda x: linalg.slogdet(x).logabsdet[2])(a)
    assert_allclose(g[2], numpy.eye(2) / 2)


def test_slogdet_and_cholesky_agree_on_the_gradient_of_symmetric_matrices():
    a = definite(4)

    def by_factor(x):
        return 2 * np.log(linalg.diagonal(linalg.cholesky(x))).sum()

    wanted = ft.grad(lambda x: linalg.slogdet(x).logabsdet)(a)
    # Functions that read the lower triangle alone have the gradient of both there.
    folded = numpy.tril(wanted) + numpy.triu(wanted, 1).T
    assert_allclose(ft.grad(by_factor)(a), folded, atol=1e-12)
    assert_allclose(ft.grad(lambda x: by_factor((x + x.T) / 2))(a), wanted)
    eigenvalues = ft.grad(lambda x: np.log(linalg.eigvalsh(x)).sum())(a)
    assert_allclose(eigenvalues, folded, atol=1e-12)
    assert_allclose(ft.grad(lambda x: np.log(linalg.svdvals(x)).sum())(a), wanted)


# -- norms where they have a kink


@pytest.mark.parametrize("order", [None, 1, 2, 3, 1.5, 0.5, -1, -2.5, numpy.inf, -numpy.inf, 0])
def test_vector_norms_have_derivative_zero_at_zero(order):
    def norm(x):
        return linalg.norm(x, order)

    assert float(norm(numpy.zeros(3))) == 0
    assert ft.grad(norm)(numpy.zeros(3)).tolist() == [0, 0, 0]
    assert ft.grad(norm)(numpy.zeros(3) + 0j).tolist() == [0, 0, 0]
    assert numpy.isfinite(ft.hessian(norm)(numpy.zeros(3))).all()
    assert ft.jvp(norm, (numpy.zeros(3),), (numpy.ones(3),))[1] == 0


@pytest.mark.parametrize("order", ["fro", "nuc", 1, -1, 2, -2, numpy.inf, -numpy.inf])
def test_matrix_norms_have_derivative_zero_at_zero(order):
    gradient = ft.grad(lambda x: linalg.norm(x, order))(numpy.zeros((2, 3)))
    assert gradient.tolist() == [[0, 0, 0], [0, 0, 0]]


@pytest.mark.parametrize("order", [3, 0.5, -2])
def test_norms_of_vectors_with_some_zeros(order):
    x = numpy.array([3.0, 0.0, 4.0])
    gradient = ft.grad(lambda x: linalg.norm(x, order))(x)
    assert numpy.isfinite(gradient).all()
    assert gradient[1] == 0


def test_norms_of_high_order_do_not_overflow():
    x = numpy.array([1e200, 2e200])
    assert_allclose(linalg.norm(x, 50), 2e200, rtol=1e-14)
    assert_allclose(linalg.norm(x, -50), 1e200, rtol=1e-14)
    assert linalg.norm(numpy.array([1.0, numpy.inf]), 3) == numpy.inf
    assert numpy.isnan(linalg.norm(numpy.array([1.0, numpy.nan]), 3))


def test_values_alone_need_no_distinct_ones():
    eye = numpy.eye(3)
    assert_allclose(ft.grad(lambda x: linalg.norm(x, "nuc"))(2 * eye), eye, atol=1e-14)
    assert linalg.norm(ft.grad(lambda x: linalg.norm(x, 2))(2 * eye), "nuc") == pytest.approx(1)
    assert_allclose(linalg.trace(ft.grad(linalg.cond)(2 * eye)), 0.0, atol=1e-14)
    assert_allclose(ft.grad(lambda x: (linalg.eigvalsh(x) ** 3).sum())(2 * eye), 12 * eye)


# -- eigenvectors and singular vectors where values coincide


def rotated(values, seed=0):
    """Returns a symmetric matrix with eigenvalues that coincide up to rounding."""
    q, _ = numpy.linalg.qr(drawn(len(values), len(values), seed=seed))
    return (q * values) @ q.T


@pytest.mark.parametrize(
    "a", [2 * numpy.eye(3), rotated([1.0, 1.0, 3.0]), rotated([0.0, 0.0, 1.0]), numpy.zeros((3, 3))]
)
def test_derivatives_stay_finite_where_eigenvalues_coincide(a):
    weights = drawn(3, 3)

    def projected(x):
        w, v = linalg.eigh(x)
        return ((v * (w**2 + w)) @ v.T * weights).sum()

    def decomposed(x):
        u, s, vh = linalg.svd(x)
        return ((u * s) @ vh * weights).sum()

    for f in (projected, decomposed):
        gradient = numpy.asarray(ft.grad(f)(a))
        assert numpy.isfinite(gradient).all()
        assert abs(gradient).max() < 100
        assert numpy.isfinite(ft.hessian(f)(a)).all()


def test_projection_on_a_separate_space_is_right_although_others_coincide():
    a, t = rotated([1.0, 1.0, 3.0]), drawn(3, 3)
    t = t + t.T

    def projection(x):
        v = linalg.eigh(x).eigenvectors[:, 2:]
        return v @ v.T

    step = 1e-5
    wanted = (projection(a + step * t) - projection(a - step * t)) / (2 * step)
    assert_allclose(ft.jvp(projection, (a,), (t,))[1], wanted, rtol=1e-8, atol=1e-8)


def test_diagonalisable_matrix_with_coinciding_eigenvalues():
    gradient = ft.grad(lambda x: np.real(linalg.eigvals(x) ** 2).sum())(2 * numpy.eye(3))
    assert_allclose(gradient, 4 * numpy.eye(3))
    vectors = ft.jacrev(lambda x: np.real(linalg.eig(x).eigenvectors))(numpy.eye(2))
    assert numpy.isfinite(vectors).all()


# -- Hermitian matrices: one triangle counts; its gradients are in test_linalg_triangles.py


@pytest.mark.parametrize("dtype", ["d", "D"])
def test_one_triangle_counts(dtype):
    a = definite(3, dtype=dtype)
    low, up = numpy.tril(a), numpy.triu(a)
    assert_allclose(linalg.cholesky(low), numpy.linalg.cholesky(a))
    assert_allclose(linalg.cholesky(up, upper=True), numpy.linalg.cholesky(a).conj().T)
    assert_allclose(linalg.eigvalsh(low), numpy.linalg.eigvalsh(a))
    assert_allclose(linalg.eigvalsh(up, "U"), numpy.linalg.eigvalsh(a))
    assert_allclose(linalg.eigh(up, "u").eigenvalues, numpy.linalg.eigvalsh(a))
    assert_allclose(linalg.pinv(low, hermitian=True), numpy.linalg.inv(a))


# -- least squares and pseudo-inverses of any rank


def test_least_squares_for_deficient_and_stacked_matrices():
    a = drawn(5, 1) @ drawn(1, 3, seed=1)
    b = drawn(5, 2)
    ours, theirs = linalg.lstsq(a, b), numpy.linalg.lstsq(a, b)
    for mine, other in zip(ours, theirs, strict=True):
        assert_allclose(mine, numpy.asarray(other), atol=1e-13)
    assert ours[1].shape == (0,)
    stack = drawn(2, 5, 3)
    x, residuals, rank, s = linalg.lstsq(stack, b)
    for i in range(2):
        wanted = numpy.linalg.lstsq(stack[i], b)
        assert_allclose(x[i], wanted[0])
        assert_allclose(residuals[i], wanted[1])
        assert_allclose(s[i], wanted[3])
    assert rank.tolist() == [3, 3]
    assert ft.vmap(lambda a: linalg.lstsq(a, b)[1])(stack).shape == (2, 2)


# -- no elements


EMPTY = {
    "inv": [(0, 0), (2, 0, 0)],
    "det": [(0, 0), (0, 3, 3)],
    "slogdet": [(0, 0), (0, 3, 3)],
    "cholesky": [(0, 0), (0, 3, 3)],
    "eigh": [(0, 0), (0, 3, 3)],
    "eigvalsh": [(0, 0)],
    "qr": [(0, 2), (2, 0), (0, 3, 2)],
    "svd": [(0, 2), (3, 0), (0, 3, 2)],
    "svdvals": [(0, 2)],
    "pinv": [(0, 2), (2, 3, 0)],
    "norm": [(0,), (0, 3)],
    "matrix_norm": [(0, 3), (0, 2, 2)],
}


@pytest.mark.parametrize(("name", "shape"), [(n, s) for n, shapes in EMPTY.items() for s in shapes])
def test_matrices_without_elements(name, shape):
    x = numpy.zeros(shape)
    got, wanted = getattr(linalg, name)(x), getattr(numpy.linalg, name)(x)
    got, wanted = ([v] if not isinstance(v, tuple) else list(v) for v in (got, wanted))
    for mine, other in zip(got, wanted, strict=True):
        assert_allclose(mine, numpy.asarray(other))

    def total(x):
        out = getattr(linalg, name)(x)
        return sum(v.sum() for v in (out if isinstance(out, tuple) else [out]))

    assert ft.grad(total)(x).shape == shape


def test_rank_of_matrices_without_elements():
    assert linalg.matrix_rank(numpy.zeros((0, 2))).tolist() == 0
    assert linalg.matrix_rank(numpy.zeros((2, 2, 0))).tolist() == [0, 0]


@pytest.mark.parametrize("name", ["expm", "logm", "sqrtm", "lu", "polar", "cosm"])
def test_scipy_functions_of_matrices_without_elements(name):
    outs = getattr(scipy_linalg, name)(numpy.zeros((2, 0, 0)))
    for out in outs if isinstance(outs, tuple) else [outs]:
        assert out.shape == (2, 0, 0)


# -- dtypes


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
@pytest.mark.parametrize("name", ["inv", "det", "cholesky", "eigvalsh", "svdvals", "pinv", "expm"])
def test_single_precision_stays_single(name, dtype):
    a = definite(3, dtype=dtype).astype(dtype)
    out = getattr(linalg, name)(a)
    assert out.dtype in (numpy.float32, dtype)
    assert ft.grad(lambda x: np.real(getattr(linalg, name)(x)).sum())(a).dtype == dtype


def test_integers_count_as_float64_and_half_precision_is_refused():
    assert linalg.inv([[2, 0], [0, 4]]).tolist() == [[0.5, 0.0], [0.0, 0.25]]
    assert linalg.matrix_power(numpy.array([[1, 1], [0, 1]]), -1).dtype == numpy.float64
    with pytest.raises(TypeError, match="inv computes in single and double precision, not in flo"):
        linalg.inv(numpy.eye(2, dtype="float16"))


# -- NumPy's own functions, and what is imported when


def test_numpys_own_functions_dispatch_here():
    a, b = np.array(definite(3)), drawn(3)
    assert isinstance(numpy.linalg.solve(a, b), ft.Array)
    assert isinstance(numpy.linalg.eigh(a), linalg.EighResult)
    gradient = ft.grad(lambda x: numpy.linalg.slogdet(x)[1] + numpy.linalg.norm(x))(a)
    wanted = numpy.linalg.inv(a).T + numpy.asarray(a) / numpy.linalg.norm(a)
    assert_allclose(gradient, wanted)


def test_named_results_are_trees():
    stack = numpy.stack([definite(3), definite(3, seed=1)])
    w, v = ft.vmap(linalg.eigh)(stack)
    assert (w.shape, v.shape) == ((2, 3), (2, 3, 3))
    out, tangent = ft.jvp(linalg.svd, (stack[0],), (stack[1],))
    assert isinstance(tangent, linalg.SVDResult)
    assert ft.vjp(linalg.qr, stack[0])[1](linalg.QRResult(*linalg.qr(stack[1])))[0].shape == (3, 3)
    assert_allclose(out.S, linalg.svdvals(stack[0]))


def test_nested_lists_of_traced_values():
    gradient = ft.grad(lambda x: linalg.det([[x, 1.0], [1.0, x]]))(3.0)
    assert_allclose(gradient, 6.0)


def test_numpy_functions_need_no_scipy():
    code = """
import sys, numpy
import functensor as ft, functensor.numpy as np
assert "functensor.numpy.linalg" not in sys.modules
sys.modules["scipy"] = None
a = numpy.eye(2) * 2 + 0.1
for f in "inv det cholesky eigvalsh svdvals pinv expm cond norm eigvals".split():
    ft.grad(lambda x: np.real(getattr(np.linalg, f)(x)).sum())(a)
for f in "eigh svd qr slogdet eig".split():
    ft.grad(lambda x: sum(np.real(out).sum() for out in getattr(np.linalg, f)(x)))(a)
"""
    subprocess.run([sys.executable, "-c", code], check=True)


# -- orders and accuracy


def test_best_order_of_a_product():
    # The example of Cormen et al., "Introduction to Algorithms".
    lengths = [30, 35, 15, 5, 10, 20, 25]
    split = _best_splits([np.zeros(shape) for shape in pairwise(lengths)])
    assert (split[0, 5], split[0, 2], split[3, 5]) == (2, 0, 4)


def exact(function, a):
    """Returns a function of a matrix in 50 digits."""
    with mpmath.workdps(50):
        out = function(mpmath.matrix(numpy.asarray(a).tolist()))
        return numpy.array(out.tolist(), complex)


def relative_error(got, wanted):
    return numpy.linalg.norm(numpy.asarray(got) - wanted) / numpy.linalg.norm(wanted)


@pytest.mark.parametrize("size", [1e-8, 1.0, 5.0, 100.0])
def test_exponential_is_accurate(size):
    a = drawn(5, 5)
    a = a * (size / numpy.linalg.norm(a, 2))
    # The condition number of the exponential is at least the matrix's norm.
    assert relative_error(linalg.expm(a), exact(mpmath.expm, a)) < 1e-15 * max(size, 1)


@pytest.mark.parametrize("corner", [1e6, 1e100])
def test_exponential_of_a_matrix_far_from_normal(corner):
    a = numpy.array([[1.0, corner], [0.0, -1.0]])
    wanted = [[numpy.e, corner * numpy.sinh(1.0)], [0.0, 1 / numpy.e]]
    numpy.testing.assert_allclose(linalg.expm(a), wanted, rtol=1e-14)


def test_exponential_of_extremes():
    assert numpy.isnan(linalg.expm(numpy.full((2, 2), numpy.inf))).all()
    stack = numpy.stack([numpy.zeros((2, 2)), 700 * numpy.eye(2), numpy.full((2, 2), numpy.nan)])
    out = linalg.expm(stack)
    wanted = numpy.stack([numpy.eye(2), numpy.exp(700.0) * numpy.eye(2)])
    assert_allclose(out[:2], wanted, rtol=1e-12)
    assert numpy.isnan(out[2]).all()
    # A direction of any size, and of none, along which the derivative is linear.
    for scale in (0.0, 1e-200, 1e200):
        tangent = ft.jvp(linalg.expm, (numpy.eye(2),), (scale * numpy.eye(2),))[1]
        assert_allclose(tangent, scale * numpy.e * numpy.eye(2), rtol=1e-13)


@pytest.mark.parametrize("name", ["logm", "sqrtm"])
@pytest.mark.parametrize("decades", [1, 4])
def test_logarithm_and_root_are_accurate(name, decades):
    x = drawn(5, 5) * 0.3 + numpy.eye(5)
    a = x @ numpy.diag(numpy.logspace(-decades, 0, 5)) @ numpy.linalg.inv(x)
    got, wanted = getattr(scipy_linalg, name)(a), exact(getattr(mpmath, name), a)
    assert relative_error(got, wanted) < 1e-16 * numpy.linalg.cond(a) + 1e-14


@pytest.mark.parametrize("name", ["logm", "sqrtm"])
def test_complex_results_of_complex_matrices(name):
    a = numpy.diag([-4.0, 9.0]).astype(complex)
    wanted = {"logm": [numpy.log(4) + numpy.pi * 1j, numpy.log(9)], "sqrtm": [2j, 3]}[name]
    assert_allclose(getattr(scipy_linalg, name)(a), numpy.diag(wanted).astype(complex))


def test_complex_roots_of_real_matrices():
    a = numpy.array([[1.0, 2.0], [3.0, -4.0]])
    ours, theirs = scipy_linalg.sqrtm, scipy.linalg.sqrtm
    assert_allclose(ours(a), theirs(a))
    assert_allclose(ours(a.astype("f4")), theirs(a).astype("c8"), rtol=1e-5)
    assert ours(numpy.eye(2)).dtype == "float64"
    check_grads(ours, (a,), order=2)
    stack = numpy.stack([a, numpy.eye(2)])
    wanted = numpy.stack([theirs(a), theirs(numpy.eye(2))])
    assert_allclose(ft.vmap(ours)(stack), wanted, atol=1e-12)
    with pytest.raises(numpy.linalg.LinAlgError, match=r"a.astype\(complex\)"):
        ft.jit(ours)(a)
    assert_allclose(ft.jit(ours)(a.astype(complex)), theirs(a))


@pytest.mark.parametrize("shape", [(3, 3), (5, 3), (3, 5), (4, 1), (2, 0)])
@pytest.mark.parametrize("mode", ["full", "economic", "r"])
def test_columns_in_the_order_of_pivots(mode, shape):
    a = drawn(*shape)
    if not a.size:
        assert scipy_linalg.qr(a, mode="economic", pivoting=True)[2].shape == (0,)
        return
    wanted = scipy.linalg.qr(a, mode=mode, pivoting=True)

    def factors(a):
        return scipy_linalg.qr(a, mode=mode, pivoting=True)

    mapped = [x[1] for x in ft.vmap(factors)(numpy.stack([a[::-1], a]))]
    for got in (factors(a), ft.jit(factors)(a), mapped):
        assert len(got) == len(wanted)
        for mine, other in zip(got, wanted, strict=True):
            assert_allclose(mine, numpy.asarray(other, mine.dtype), atol=1e-12)
    if mode == "economic" or shape[0] <= shape[1]:
        check_grads(lambda a: factors(a)[:-1], (a,), order=2)


def test_square_root_of_zero_and_of_a_projection():
    assert scipy_linalg.sqrtm(numpy.zeros((3, 3))).tolist() == [[0.0] * 3] * 3
    projection = numpy.diag([0.0, 0.0, 1.0])
    assert_allclose(scipy_linalg.sqrtm(projection), projection)
