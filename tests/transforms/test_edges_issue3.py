"""Edges that property-based tests of linear algebra, solvers and sparse patterns came upon."""

import numpy as onp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.long_forms import sized

import functensor as ft
import functensor.numpy as np
from functensor import nn, sparse
from functensor.primitives.core.errors import RuleResultError, ShapeError
from functensor.scipy import integrate, linalg, optimize

X = onp.random.default_rng(3).normal(size=6)
MATRIX = onp.array([[4.0, 1.0], [1.0, 3.0]])
LinAlgError = onp.linalg.LinAlgError


# -- the pattern of a sparse derivative is never too small


@ft.custom_vjp
def rounded(x):
    return np.round(x)


rounded.defvjp(lambda x: (np.round(x), x), lambda x, g: (g * np.cos(x),))


@ft.custom_vjp
def turned(x):
    return 2 * x


turned.defvjp(lambda x: (2 * x, None), lambda _, g: (g[::-1],))


@ft.custom_jvp
def floored(x):
    return np.floor(x)


floored.defjvp(lambda xs, ts: (np.floor(xs[0]), np.sin(xs[0]) * ts[0][::-1]))


@ft.custom_gradient
def stepped(x):
    return np.sign(x), lambda g: 3 * g


@ft.custom_jvp
def doubled(x):
    return 2 * x


doubled.defjvp(lambda xs, ts: (doubled(xs[0]), doubled(ts[0])))


@ft.custom_vjp
def picked(x, places):
    return x[places]


picked.defvjp(
    lambda x, places: (x[places], places),
    lambda places, g: (np.zeros(6).at[places].add(g), None),
)


def rows(fun):
    return lambda x: np.reshape(ft.vmap(fun)(np.reshape(x, (2, 3))), -1)


STEPS = {
    "rule of rounding": rounded,
    "rule that reverses": turned,
    "rule of the floor": floored,
    "rule of a sign": stepped,
    "rules of a batch": rows(rounded),
    "tangents of a batch": rows(floored),
    "constant places": lambda x: picked(x, onp.array([0, 0, 5, 3, 3, 1])),
    "computed places": lambda x: picked(x, np.argsort(x)),
    "sorted places": lambda x: x[np.argsort(x)],
    "running sums": np.cumsum,
    "a spectrum": lambda x: np.fft.irfft(np.fft.rfft(x), 6),
    "complex": lambda x: np.real((x + 1j * x[::-1]) ** 2),
    "softmax": lambda x: np.reshape(nn.softmax(np.reshape(x, (2, 3)), axis=1), -1),
    "the whole batch": lambda x: ft.vmap(lambda y: y * ft.psum(y, "i"), axis_name="i")(x),
    "neighbours": lambda x: x.at[1:].multiply(x[:-1]),
    "run again": ft.checkpoint(lambda x: np.tanh(x) * x[0]),
    "a gradient": ft.grad(lambda x: np.sum(np.sin(x[1:] * x[:-1]))),
    "constants": lambda x: np.concatenate([x[:4], onp.array([90, -7])]),
}


@given(st.lists(st.sampled_from(sorted(STEPS)), min_size=1, max_size=4))
@settings(max_examples=sized(10, 30))
def test_no_place_is_missing(names):
    def fun(x):
        for name in names:
            x = STEPS[name](x)
        return x

    dense = onp.asarray(ft.jacfwd(fun)(X))
    assert not (sparse.jacobian_pattern(fun)(X).todense() < (dense != 0)).any()
    onp.testing.assert_allclose(sparse.jacobian(fun)(X).todense(), dense, rtol=1e-9, atol=1e-9)


def test_patterns_of_rules_are_exact():
    eye = onp.eye(6).astype(bool)
    onp.testing.assert_array_equal(sparse.jacobian_pattern(rounded)(X).todense(), eye)
    onp.testing.assert_array_equal(sparse.jacobian_pattern(floored)(X).todense(), eye[::-1])
    assert sparse.jacobian_pattern(doubled)(X).todense().all()  # no rule is followed for ever
    onp.testing.assert_allclose(sparse.jacobian(doubled)(X).todense(), 2 * onp.eye(6))


def test_solutions_depend_on_everything():
    def solution(x):
        decay = integrate.odeint(lambda y, t: -y * x[:2], x[2:4], onp.array([0.0, 0.5]))
        least = optimize.minimize(lambda z: np.sum((z - x[4:]) ** 2 + z**4), onp.zeros(2))
        return np.concatenate([np.reshape(decay, -1), least.x])

    dense = onp.asarray(ft.jacfwd(solution)(X))
    onp.testing.assert_allclose(sparse.jacobian(solution)(X).todense(), dense, atol=1e-6)


def test_sparse_derivatives_of_complex_values():
    total = sparse.jacobian(lambda x: np.sum(x)[None] * 1j)(X)
    assert total.todense().tolist() == [[1j] * 6]
    with pytest.raises(TypeError, match=r"of float64 to complex128: .* leave out mode='rev'"):
        sparse.jacobian(lambda x: x * 1j, mode="rev")(X)
    with pytest.raises(TypeError, match="sparse derivative of abs, of complex128 to float64"):
        sparse.jacobian(np.abs)(X + 1j)


def test_patterns_that_do_not_fit():
    with pytest.raises(TypeError, match=r"pattern= is a Pattern, .*, not int"):
        sparse.jacobian(np.sin, pattern=3)(X)
    for mode in ("fwd", "rev"):
        with pytest.raises(ShapeError, match="has 9 rows, but the result has 6 elements"):
            sparse.jacobian(np.sin, pattern=sparse.Pattern([8], [0], (9, 6)), mode=mode)(X)


# -- a rule that calls its own function


def test_a_linear_function_is_its_own_derivative():
    assert float(ft.grad(doubled)(1.0)) == 2.0
    assert float(ft.grad(ft.checkpoint(doubled))(1.0)) == 2.0
    assert ft.vmap(ft.grad(doubled))(X).tolist() == [2.0] * 6
    hessian = ft.hessian(lambda x: np.sum(doubled(x) ** 2))(X)
    onp.testing.assert_allclose(hessian, 8 * onp.eye(6))


def test_a_rule_on_values_stays_a_rule():
    @ft.custom_jvp
    def exp(x):
        return np.exp(x)

    # Three times the derivative shows which one is taken.
    exp.defjvp(lambda xs, ts: (exp(xs[0]), 3 * exp(xs[0]) * ts[0]))
    assert [float(ft.grad(exp)(0.0)), float(ft.grad(ft.grad(exp))(0.0))] == [3.0, 9.0]


# -- matrices


@pytest.mark.parametrize("rest", [onp.nan, onp.inf, 1e20])
def test_the_other_triangle_is_not_read(rest):
    lower, upper = MATRIX.copy(), MATRIX.copy()
    lower[0, 1], upper[1, 0] = rest, rest
    values = onp.linalg.eigvalsh(MATRIX)
    factor = onp.linalg.cholesky(MATRIX)
    b = onp.array([1.0, 2.0])
    for a, uplo in ((lower, "L"), (upper, "U")):
        low = uplo == "L"
        onp.testing.assert_allclose(np.linalg.eigvalsh(a, uplo), values, rtol=1e-14)
        got = np.linalg.cholesky(a, upper=not low)
        onp.testing.assert_allclose(got, factor if low else factor.T, rtol=1e-14)
        for structure in ("sym", "her", "pos"):
            x = linalg.solve(a, b, lower=low, assume_a=structure)
            onp.testing.assert_allclose(x, onp.linalg.solve(MATRIX, b), rtol=1e-14)
    lower[0, 1] = 1e20
    whole = ft.grad(lambda a: np.linalg.eigvalsh(a)[0])(lower)
    onp.testing.assert_allclose(whole, ft.grad(lambda a: np.linalg.eigvalsh(a)[0])(MATRIX))


def test_infinities_end_in_an_error():
    a = onp.eye(3)
    a[0, 0] = onp.inf
    for name, call in (
        ("svd", np.linalg.svd),
        ("pinv", np.linalg.pinv),
        ("pinv", lambda a: np.linalg.lstsq(a, a)),
        ("svd", ft.grad(lambda a: np.linalg.norm(a, "nuc"))),
        ("sqrtm", linalg.sqrtm),
        ("logm", linalg.logm),
        ("solve_sylvester", lambda a: linalg.solve_sylvester(a, a, a)),
    ):
        with pytest.raises(LinAlgError, match=f"^{name}: the matrices hold inf or NaN"):
            call(a)
    batch = onp.stack([a, onp.eye(3)])
    cofactors = onp.asarray(ft.vmap(ft.grad(np.linalg.det))(batch))
    assert onp.isnan(cofactors[0]).all()
    onp.testing.assert_allclose(cofactors[1], onp.eye(3))


def test_norms_over_no_elements():
    empty = onp.zeros((2, 0))
    for order in (0.5, 1, 3, onp.inf, -1, -2.5):
        wanted = onp.linalg.norm(empty, order, axis=1) if order > 0 else [onp.inf] * 2
        assert np.linalg.norm(empty, order, axis=1).tolist() == list(wanted)


# -- messages


def test_wrong_arguments():
    with pytest.raises(TypeError, match=r"static_argnums=5, but it was called with 1 positional"):
        ft.grad(ft.checkpoint(np.sin, static_argnums=5))(1.0)
    with pytest.raises(TypeError, match=r"cho_solve: the first argument is the pair that cho_fac"):
        linalg.cho_solve(onp.eye(3), onp.ones(3))
    with pytest.raises(TypeError, match=r"lu_solve: the first argument is the pair that lu_fac"):
        linalg.lu_solve(onp.eye(3), onp.ones(3))
    with pytest.raises(ShapeError, match=r"block_diag: shapes \(2,\) and \(3,\) do not broadcast"):
        linalg.block_diag(onp.ones((2, 1, 1)), onp.ones((3, 1, 1)))
    with pytest.raises(ValueError, match="minimize: x0 has no elements"):
        optimize.minimize(np.sum, onp.zeros(0))
    with pytest.raises(ShapeError, match="root: <lambda> returned 2 numbers for 3 unknowns"):
        optimize.root(lambda x: x[:2], onp.ones(3))
    with pytest.raises(RuleResultError, match="custom_root: solve returned float, not a pair"):
        ft.custom_root(lambda x: x - 1, 1.0, lambda f, x: 1.0, has_aux=True)


@pytest.mark.parametrize("kind", ["set", "add", "subtract", "multiply", "min", "max"])
def test_updates_at_a_mask_that_is_not_known(kind):
    x = onp.arange(12.0).reshape(4, 3) - 5

    def update(row):
        return getattr(row.at[row > 1], kind)(0.5)

    wanted = onp.stack([onp.asarray(update(np.array(row))) for row in x])
    onp.testing.assert_array_equal(ft.vmap(update)(x), wanted)
    onp.testing.assert_array_equal(ft.make_program(update)(x)(x), wanted)
    slope = ft.vmap(ft.grad(lambda row: np.sum(update(row) ** 2)))(x)
    eager = onp.stack([ft.grad(lambda row: np.sum(update(row) ** 2))(row) for row in x])
    onp.testing.assert_array_equal(slope, eager)


def test_updates_of_rows_at_a_mask_that_is_not_known():
    x = onp.arange(12.0).reshape(4, 3)
    update = ft.make_program(lambda x: x.at[x[:, 0] > 4].set(np.array([1.0, 2.0, 3.0])))(x)
    wanted = x.copy()
    wanted[x[:, 0] > 4] = [1.0, 2.0, 3.0]
    onp.testing.assert_array_equal(update(x), wanted)
