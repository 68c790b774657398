"""Stacks of matrices: as one matrix after the other, of every dtype and layout, and with one call
of LAPACK's a matrix where there is any.
"""

from functools import partial

import mpmath
import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st
from support.counted import lines_run

import functensor as ft
import functensor.numpy as fnp
from functensor import testing
from functensor.backends.arrays import lapack, matrix_functions
from functensor.backends.arrays import linalg as linalg_kernels
from functensor.scipy import linalg

DTYPES = ["float32", "float64", "complex64", "complex128"]
LAYOUTS = ["rows", "columns", "strided", "reversed"]


def normal(rng, shape, dtype):
    x = rng.normal(size=shape)
    return (x + 1j * rng.normal(size=shape) if dtype[0] == "c" else x).astype(dtype)


def laid_out(x, layout):
    """Returns equal matrices whose elements lie otherwise in memory."""
    if layout == "columns":
        return np.ascontiguousarray(x.mT).mT
    if layout == "strided":
        wide = np.zeros((*x.shape[:-1], 2 * x.shape[-1]), x.dtype)
        wide[..., ::2] = x
        return wide[..., ::2]
    return x[::-1, ::-1].copy()[::-1, ::-1] if layout == "reversed" else x


def rounding(dtype):
    return float(np.finfo(dtype).eps)


@st.composite
def stacks(draw, square=True):
    """Draws a stack's length, the matrices' sizes, a dtype, layouts and a generator of numbers."""
    n = draw(st.integers(0, 20))
    return {
        "stack": draw(st.integers(0, 7)),
        "shape": (n, n) if square else (draw(st.integers(0, 9)), n),
        "width": draw(st.integers(0, 3)),
        "dtype": draw(st.sampled_from(DTYPES)),
        "layouts": draw(st.tuples(st.sampled_from(LAYOUTS), st.sampled_from(LAYOUTS))),
        "shared": draw(st.sampled_from(["none", "matrix", "columns"])),
        "rng": np.random.default_rng(draw(st.integers(0, 2**32 - 1))),
    }


def made(drawn):
    """Returns matrices and right-hand sides, one of which may be the same for the whole stack."""
    rng, dtype, stack = drawn["rng"], drawn["dtype"], drawn["stack"]
    m, n = drawn["shape"]
    a = normal(rng, (1 if drawn["shared"] == "matrix" else stack, m, n), dtype)
    b = normal(rng, (1 if drawn["shared"] == "columns" else stack, m, drawn["width"]), dtype)
    return tuple(laid_out(x, kind) for x, kind in zip((a, b), drawn["layouts"], strict=True))


@settings(max_examples=60, deadline=None)
@given(stacks(), st.booleans(), st.booleans(), st.sampled_from("NTC"))
def test_residuals_of_triangular_systems_are_those_of_substitution(drawn, lower, unit, trans):
    a, b = made(drawn)
    # Whatever the condition is: no inverse of a block would be as accurate.
    kept = a.copy(), b.copy()
    x = np.asarray(linalg.solve_triangular(a, b, trans=trans, lower=lower, unit_diagonal=unit))
    for value, before in zip((a, b), kept, strict=True):
        np.testing.assert_array_equal(value, before)
    n = a.shape[-1]
    triangle = np.tril(a) if lower else np.triu(a)
    if unit:
        triangle = triangle * (1 - np.eye(n, dtype=a.dtype)) + np.eye(n, dtype=a.dtype)
    triangle = {"N": triangle, "T": triangle.mT, "C": triangle.conj().mT}[trans]
    assert x.dtype == a.dtype
    assert x.shape == (*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), *b.shape[-2:])
    wide = np.complex128 if drawn["dtype"][0] == "c" else np.float64
    gap = np.abs(triangle.astype(wide) @ x.astype(wide) - b)
    limit = 4 * (n + 1) * rounding(a.dtype) * (np.abs(triangle) @ np.abs(x) + np.abs(b))
    assert (gap <= limit).all()


@settings(max_examples=40, deadline=None)
@given(stacks(square=False), st.booleans())
def test_factors_and_orders_are_lapacks(drawn, pivoting):
    a, _ = made(drawn)
    if pivoting:
        found = np.asarray(linalg.qr(a, mode="r", pivoting=True)[1])
        wanted = [scipy.linalg.qr(m, mode="r", pivoting=True)[1] for m in a] if a.size else []
    else:
        found = [np.asarray(x) for x in linalg.lu_factor(a)]
        wanted = [scipy.linalg.lu_factor(m) for m in a] if a.size else []
    for i, answer in enumerate(wanted):
        if pivoting:
            np.testing.assert_array_equal(found[i], answer)
        else:
            np.testing.assert_array_equal(found[1][i], answer[1])
            limit = 100 * rounding(a.dtype) * np.abs(answer[0]).max()
            assert np.abs(found[0][i] - answer[0]).max() <= limit


@settings(max_examples=40, deadline=None)
@given(stacks(), st.integers(0, 3), st.integers(0, 3))
def test_banded_systems_are_solved(drawn, lower, upper):
    _, b = made(drawn)
    n, stack = b.shape[-2], drawn["stack"]
    bands = normal(drawn["rng"], (stack, lower + upper + 1, n), drawn["dtype"])
    bands[:, upper] += 2 * (lower + upper + 1)
    bands = laid_out(bands, drawn["layouts"][0])
    x = np.asarray(linalg.solve_banded((lower, upper), bands, b))
    dense = np.zeros((stack, n, n), bands.dtype)
    for i in range(n):
        for j in range(max(i - lower, 0), min(i + upper + 1, n)):
            dense[:, i, j] = bands[:, upper + i - j, j]
    gap = np.abs(dense @ x - b)
    limit = 20 * (n + 1) * rounding(bands.dtype) * (np.abs(dense) @ np.abs(x) + np.abs(b))
    assert (gap <= limit).all()


def _positive(a, hermitian):
    """Returns matrices without eigenvalues on the negative axis."""
    n = a.shape[-1]
    if hermitian:
        a = a @ a.conj().mT
        a = a + a.conj().mT
    return (a + 5 * n * np.eye(n)).astype(a.dtype)


@settings(max_examples=40, deadline=None)
@given(stacks(), st.booleans())
def test_roots_squared_and_logarithms_are_right(drawn, hermitian):
    a = laid_out(_positive(made(drawn)[0], hermitian), drawn["layouts"][1])
    root, log = np.asarray(linalg.sqrtm(a)), np.asarray(linalg.logm(a))
    assert root.dtype == log.dtype == a.dtype
    assert root.shape == log.shape == a.shape
    limit = 50 * (a.shape[-1] + 1) * rounding(a.dtype) * np.abs(a).max(initial=0)
    assert np.abs(root @ root - a).max(initial=0) <= limit
    back = np.asarray(linalg.expm(log))
    assert np.abs(back - a).max(initial=0) <= 10 * limit


@settings(max_examples=40, deadline=None)
@given(stacks(), st.booleans(), st.integers(1, 5))
def test_sylvesters_equation_is_solved(drawn, hermitian, m):
    a, _ = made(drawn)
    a = _positive(a, hermitian)
    b = _positive(normal(drawn["rng"], (m, m), drawn["dtype"]), hermitian)
    q = normal(drawn["rng"], (drawn["stack"], a.shape[-1], m), drawn["dtype"])
    q = laid_out(q, drawn["layouts"][0])
    x = np.asarray(linalg.solve_sylvester(a, b, q))
    assert x.dtype == q.dtype
    sizes = np.abs(a).max(initial=0) + np.abs(b).max()
    limit = 50 * (a.shape[-1] + m) * rounding(q.dtype) * sizes * np.abs(x).max(initial=0)
    assert np.abs(a @ x + x @ b - q).max(initial=0) <= limit + rounding(q.dtype)


@settings(max_examples=30, deadline=None)
@given(stacks(), st.floats(-2, 2))
def test_exponentials_are_those_of_each_matrix(drawn, exponent):
    """Matrices of one stack have different norms, and are halved as often as alone."""
    a, _ = made({**drawn, "dtype": "complex128" if drawn["dtype"][0] == "c" else "float64"})
    n = a.shape[-1]
    scale = 10 ** (exponent * drawn["rng"].random((len(a), 1, 1))) / max(n, 1)
    a = a * scale
    found = np.asarray(linalg.expm(a))
    assert found.shape == a.shape
    for got, matrix in zip(found, a, strict=True):
        if n:
            check_exponential(got, matrix)


def test_exponentials_are_exact_where_scipy_loses_digits():
    """SciPy 1.17's is off here by 1.3e-12 of the largest element."""
    rows = [-1.2927903875346858, -7.050535930516789], [-6.450891444331477, 3.5093738155321956]
    a = np.array(rows)
    check_exponential(np.asarray(linalg.expm(a)), a)


def check_exponential(got, matrix):
    """Compares an exponential with SciPy's, and with mpmath's where that has fewer digits."""
    limit = 1e-13 * max(np.abs(matrix).sum(axis=0).max(), 1)
    wanted = scipy.linalg.expm(matrix)
    if np.abs(got - wanted).max() > limit * np.abs(wanted).max():
        with mpmath.workdps(50):
            exact = mpmath.expm(mpmath.matrix(matrix.tolist()))
        wanted = np.array(exact.tolist(), matrix.dtype)
    assert np.abs(got - wanted).max() <= limit * np.abs(wanted).max()


# -- transformations

FUNCTIONS = {
    "sqrtm": lambda a, b: linalg.sqrtm(a),
    "sqrtm of Hermitian ones": lambda a, b: linalg.sqrtm(a @ a.mT),
    "logm": lambda a, b: linalg.logm(a),
    "logm of Hermitian ones": lambda a, b: linalg.logm(a @ a.mT),
    "expm": lambda a, b: linalg.expm(a),
    "solve_sylvester": lambda a, b: linalg.solve_sylvester(a, a, b @ b.mT),
    "solve_banded": lambda a, b: linalg.solve_banded((1, 1), fnp.abs(a) + 2, b),
    "solve_triangular": lambda a, b: linalg.solve_triangular(a, b),
    "adjoint systems": lambda a, b: linalg.solve_triangular(a, b, trans="C", lower=True),
    "lu_solve": lambda a, b: linalg.lu_solve(linalg.lu_factor(a), b),
    "cho_solve": lambda a, b: linalg.cho_solve(linalg.cho_factor(a @ a.mT), b),
    "qr": lambda a, b: linalg.qr(a, pivoting=True)[0],
}


def operands(stack, n=3):
    rng = np.random.default_rng(0)
    return rng.normal(size=(stack, n, n)) * 0.3 + 3 * np.eye(n), rng.normal(size=(stack, n, 2))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_vmap_is_the_loop(name):
    f = FUNCTIONS[name]
    a, b = operands(5)
    wanted = [np.asarray(f(x, y)) for x, y in zip(a, b, strict=True)]
    limits = {"rtol": 1e-10, "atol": 1e-12}
    np.testing.assert_allclose(ft.vmap(f)(a, b), np.stack(wanted), **limits)
    np.testing.assert_allclose(ft.jit(ft.vmap(f))(a, b), np.stack(wanted), **limits)
    for axes, given_ in (((0, None), (a, b[0])), ((None, 0), (a[0], b))):
        first = np.stack([
            np.asarray(f(*(x if axis is None else x[i] for x, axis in zip(given_, axes))))
            for i in range(5)
        ])
        np.testing.assert_allclose(ft.vmap(f, axes)(*given_), first, **limits)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_second_derivatives_of_stacks(name):
    f = ft.vmap(FUNCTIONS[name])
    testing.check_grads(lambda a, b: fnp.sum(fnp.sin(f(a, b))), operands(2), order=2)


# -- counts


@pytest.mark.parametrize("name", FUNCTIONS)
def test_more_matrices_run_few_more_lines(name):
    """A wrapper of SciPy's runs some hundred lines a matrix; loops over LAPACK's run a dozen."""
    f = ft.vmap(FUNCTIONS[name])
    few, many = (tuple(map(fnp.asarray, operands(count))) for count in (40, 140))
    f(*few)
    assert lines_run(lambda: f(*many)) - lines_run(lambda: f(*few)) <= 15 * 100


@pytest.mark.parametrize("solved", [matrix_functions.sqrtm, matrix_functions.logm])
def test_hermitian_matrices_take_no_call_of_lapacks(solved, monkeypatch):
    monkeypatch.setattr(lapack, "_routine", None)
    a = _positive(normal(np.random.default_rng(0), (4, 3, 3), "complex128"), True)
    assert np.isfinite(solved(a)).all()


# -- what is singular, or not a number


def test_semidefinite_matrices_have_real_roots():
    """Eigenvalues that rounding makes negative are 0."""
    column = np.random.default_rng(0).normal(size=(50, 4, 1))
    a = column @ column.mT
    root = np.asarray(linalg.sqrtm(a))
    assert np.abs(root @ root - a).max() < 1e-13


def test_one_singular_matrix_of_a_stack_is_refused():
    a = np.stack([np.eye(2), np.eye(2, k=1)])
    for function in (linalg.sqrtm, linalg.logm):
        with pytest.raises(np.linalg.LinAlgError, match="singular"):
            function(a)
    bands = np.ones((2, 1, 3))
    bands[1, 0, 1] = 0
    with pytest.raises(np.linalg.LinAlgError, match="singular"):
        linalg.solve_banded((0, 0), bands, np.ones((2, 3, 1)))
    with pytest.raises(np.linalg.LinAlgError, match="complex"):
        ft.jit(linalg.sqrtm)(np.stack([np.eye(2), -np.eye(2)]))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [2, 20])
def test_nan_stays_with_its_matrix(n, dtype):
    rng = np.random.default_rng(0)
    a = normal(rng, (5, n, n), dtype) + n * np.eye(n, dtype=dtype)
    b = normal(rng, (5, n, 2), dtype)
    b[2, 0, 1] = np.nan
    for x in (
        linalg.solve_triangular(a, b, lower=True),
        linalg.lu_solve(linalg.lu_factor(a), b),
        linalg.solve_banded((0, 0), a[:, :1] + n, b),
    ):
        assert np.isnan(np.asarray(x)[2, :, 1]).any()
        assert np.isfinite(np.delete(np.asarray(x), 2, 0)).all()
        assert np.isfinite(np.asarray(x)[2, :, 0]).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_inverses_of_singular_matrices_of_a_stack_are_nan(dtype):
    """Derivatives of determinants ask for them, and do not stop at matrices without one."""
    rng = np.random.default_rng(0)
    for n in (1, 2, 5):
        a = normal(rng, (40, n, n), dtype)
        a[::3, 0] = 0
        found = linalg_kernels.inverses(np, a, strict=False)
        assert found.dtype == a.dtype
        assert np.isnan(found[::3]).all()
        rest = np.delete(found, np.s_[::3], 0)
        np.testing.assert_array_equal(rest, np.linalg.inv(np.delete(a, np.s_[::3], 0)))
        many = np.concatenate([a] * 5)
        few, more = (
            lines_run(partial(linalg_kernels.inverses, np, x, strict=False)) for x in (a, many)
        )
        assert abs(more - few) <= 10
