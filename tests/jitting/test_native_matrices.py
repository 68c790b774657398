"""Systems, inverses, determinants and Cholesky's factor in loops and segments of machine code."""

import numpy as np
import pytest
from support.native import missing
from support.native_loops import assert_same, compiled

import functensor as ft
import functensor.numpy as fnp
import functensor.scipy.linalg as fsl
from functensor.backends import get as get_backend
from functensor.backends.native.blas import numpy_blas
from functensor.jitting.tiers import native_program

pytestmark = [
    pytest.mark.skipif(bool(missing), reason=missing),
    pytest.mark.skipif(
        not missing and not (numpy_blas() and numpy_blas().has("gesv", np.dtype("f8"))),
        reason="NumPy's LAPACK is not known here",
    ),
]
SIZES = [1, 2, 3, 5, 20]


def matrices(n, dtype, stack=()):
    rng = np.random.default_rng(n)
    return (rng.normal(size=(*stack, n, n)) + 3 * np.eye(n)).astype(dtype)


def in_order(a):
    """Returns symmetric matrices with eigenvalues from one up."""
    return a @ np.swapaxes(a, -1, -2) / a.shape[-1] + np.eye(a.shape[-1], dtype=a.dtype)


FUNCTIONS = {
    "solve a vector": lambda a, x: fnp.linalg.solve(a + x[0], x),
    "solve columns": lambda a, x: fnp.sum(fnp.linalg.solve(a, x[:, None] * a[:, :2]), 1),
    "inv": lambda a, x: fnp.linalg.inv(a * fnp.cos(x[0])) @ x,
    "det": lambda a, x: x / fnp.linalg.det(a - 2 * x[0]),
    "slogdet": lambda a, x: x * fnp.linalg.slogdet(-a)[0] + fnp.linalg.slogdet(a + x[0])[1],
    "cholesky": lambda a, x: fnp.linalg.cholesky(a @ a.T + x[0] * a * 0.01) @ x,
    "below": lambda a, x: fsl.solve_triangular(a, x, lower=True) / 9,
    "above, transposed": lambda a, x: fsl.solve_triangular(a, x[:, None] * a, trans=1)[:, 0] / 9,
    "ones": lambda a, x: fsl.solve_triangular(a / 9, x, lower=True, unit_diagonal=True),
    "by factors": lambda a, x: fsl.cho_solve((fnp.linalg.cholesky(a @ a.T), True), x * x[0]),
    "swapped rows": lambda a, x: fnp.linalg.solve(a[::-1], x) * fnp.linalg.det(a[::-1] / 3),
}


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_in_a_loop(name, dtype, n):
    a = matrices(n, dtype)
    x = np.linspace(0.1, 0.3, n).astype(dtype)

    def f(a, x):
        return ft.fori_loop(0, 3, lambda i, x: 0.1 * (FUNCTIONS[name](a, x) + x), x)

    rtol = 1e-4 if dtype == "f4" else 1e-11
    assert_same(compiled(f, a, x)(a, x), f(a, x).astype(dtype), rtol)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_batches(name):
    a, x = matrices(3, "f8", (4,)), np.linspace(0.1, 0.5, 12).reshape(4, 3)

    def f(a, x):
        return ft.fori_loop(0, 2, lambda i, x: 0.1 * FUNCTIONS[name](a, x), x)

    for axes in ((0, 0), (None, 0), (0, None)):
        own = [v if axis == 0 else v[0] for v, axis in zip((a, x), axes, strict=True)]
        batched = ft.vmap(f, axes)
        assert_same(ft.jit(batched).compile(*own)(*own), batched(*own), 1e-11)
    assert_same(compiled(ft.vmap(f), a, x)(a, x), ft.vmap(f)(a, x), 1e-11)


def kalman(noise, seen):
    """The likelihood of positions of a target, whose velocity is a random walk."""
    motion, eye = np.array([[1.0, 0.1], [0.0, 1.0]]), np.eye(2)

    def step(state, z):
        mean, covariance = state
        mean, covariance = motion @ mean, motion @ covariance @ motion.T + noise[0] * eye
        spread = covariance + noise[1] * eye
        gain = fnp.linalg.solve(spread, covariance).T
        surprise = z - mean
        term = surprise @ fnp.linalg.solve(spread, surprise) + fnp.linalg.slogdet(spread)[1]
        return (mean + gain @ surprise, covariance - gain @ covariance), term

    return fnp.sum(ft.scan(step, (np.zeros(2), 10.0 * eye), seen)[1])


def test_a_filter_and_its_gradient():
    noise, seen = np.array([0.3, 0.7]), np.random.default_rng(0).normal(size=(30, 2))
    assert_same(compiled(kalman, noise, seen)(noise, seen), kalman(noise, seen), 1e-12)
    slope = ft.grad(kalman)
    # One loop goes forward, and one back.
    assert_same(compiled(slope, noise, seen, loops=2)(noise, seen), slope(noise, seen), 1e-11)


def test_a_singular_matrix_in_a_step():
    def f(a, x):
        return ft.fori_loop(0, 4, lambda i, x: fnp.linalg.solve(a - i * fnp.eye(2), x), x)

    fine, singular = 5 * np.eye(2), 2 * np.eye(2)
    jitted = compiled(f, fine, np.ones(2))
    assert_same(jitted(fine, np.ones(2)), f(fine, np.ones(2)))
    with pytest.raises(np.linalg.LinAlgError, match="solve: singular matrix") as seen:
        jitted(singular, np.ones(2))
    assert "test_native_matrices.py" in str(seen.value.__notes__)
    assert_same(jitted(fine, np.ones(2)), f(fine, np.ones(2)))


def test_what_fails_outside_of_loops():
    def f(a):
        return fnp.linalg.cholesky(a), fnp.linalg.inv(a) * 2 + 1

    jitted = ft.jit(f).compile(np.eye(3))
    assert "as machine code" in jitted.explain()
    assert_same(jitted(in_order(matrices(3, "f8"))), f(in_order(matrices(3, "f8"))), 1e-12)
    with pytest.raises(np.linalg.LinAlgError, match="cholesky: matrix is not positive definite"):
        jitted(-np.eye(3))


def test_a_zero_in_a_diagonal():
    def f(a, x):
        return ft.fori_loop(0, 3, lambda i, x: fsl.solve_triangular(a - i * np.eye(2), x), x)

    jitted = compiled(f, 5 * np.eye(2), np.ones(2))
    with pytest.raises(np.linalg.LinAlgError, match="singular matrix"):
        jitted(2 * np.eye(2), np.ones(2))


@pytest.mark.filterwarnings("ignore:invalid value encountered in")
def test_determinants_of_singular_matrices():
    def f(a):
        return ft.fori_loop(0, 2, lambda i, x: x + fnp.linalg.det(a), 0.0), fnp.linalg.slogdet(a)

    for a in (np.zeros((2, 2)), np.ones((2, 2)), np.full((2, 2), np.nan), -np.eye(2)):
        jitted = ft.jit(f).compile(a)
        assert_same(jitted(a), f(a))


def test_gradients_at_singular_matrices():
    # Eager mode makes NaN of the inverse, which is no error there.
    def f(a):
        slope = ft.grad(lambda a: fnp.linalg.slogdet(a)[1])
        return ft.fori_loop(0, 1, lambda i, x: x + slope(a), a)

    a = np.ones((2, 2))
    assert_same(compiled(f, np.eye(2))(a), f(a))


def test_stacks_of_other_shapes_and_large_matrices_stay_over_numpy():
    a, b = matrices(2, "f8", (3, 1)), matrices(2, "f8", (1, 4))
    jitted = ft.jit(lambda a, b: fnp.linalg.solve(a, b) * 2).compile(a, b)
    assert_same(jitted(a, b), fnp.linalg.solve(a, b) * 2, 1e-12)
    large = matrices(300, "f8")
    jitted = ft.jit(lambda a: fnp.linalg.inv(a) + 1).compile(large)
    assert_same(jitted(large), fnp.linalg.inv(large) + 1, 1e-11)
    empty = np.zeros((2, 0, 0))
    assert_same(ft.jit(fnp.linalg.inv).compile(empty)(empty), fnp.linalg.inv(empty))


def test_complex_matrices_stay_over_numpy():
    a = matrices(3, "f8") + 1j * matrices(3, "f8")[::-1]
    assert_same(ft.jit(lambda a: fnp.linalg.inv(a) * 2).compile(a)(a), fnp.linalg.inv(a) * 2, 1e-11)


@pytest.mark.parametrize(("n", "alone"), [(4, False), (24, True)])
def test_triangular_systems_keep_blas_to_one_thread(n, alone):
    """BLAS would wait for a thread of its own, for milliseconds where others have the cores."""

    def solved(a, b):
        return fsl.solve_triangular(a, b, lower=True) * 2

    a = matrices(n, np.float64)
    program = native_program(ft.make_program(solved)(a, a))
    assert get_backend("numpy").plan(program, (), native=True).parts.shares == alone
    assert_same(ft.jit(solved).compile(a, a)(a, a), solved(a, a), 1e-12)
