"""Triangular systems and factors of many small matrices at once: as LAPACK's of each."""

import itertools

import numpy as np
import pytest
import scipy.linalg

import functensor as ft
import functensor.numpy as fnp
from functensor.backends import lapack_of_numpy
from functensor.backends.arrays import lapack, substitution
from functensor.scipy import linalg

STACK = 40


def normal(*shape, seed=0, dtype="float64"):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=shape)
    return (x + 1j * rng.normal(size=shape) if dtype == "complex128" else x).astype(dtype)


def systems(n, width, dtype="float64", stack=STACK):
    return normal(stack, n, n, dtype=dtype) + 2 * n * np.eye(n), normal(
        stack, n, width, seed=1, dtype=dtype
    )


FLAGS = list(itertools.product([False, True], repeat=3))


@pytest.mark.parametrize(("lower", "transposed", "unit"), FLAGS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
def test_systems_are_solved_as_by_lapack(lower, transposed, unit, dtype):
    flags = {"lower": lower, "transposed": transposed, "unit_diagonal": unit}
    for n, width in ((1, 1), (2, 3), (5, 1), (9, 4)):
        a, b = systems(n, width, dtype)
        if unit:
            a = a / (4 * n)
        before = a.copy(), b.copy()
        got = substitution.solve_by_substitution(a, b, a.dtype, **flags)
        for x, kept in zip((a, b), before, strict=True):
            np.testing.assert_array_equal(x, kept)
        wanted = np.stack([
            scipy.linalg.solve_triangular(
                m, c, trans=int(transposed), lower=lower, unit_diagonal=unit
            )
            for m, c in zip(a, b, strict=True)
        ])
        assert got.dtype == wanted.dtype
        scale = np.abs(wanted).max()
        assert np.abs(got - wanted).max() <= 8 * n * np.finfo(dtype).eps * scale


def test_ill_conditioned_systems_are_as_accurate_as_by_lapack():
    """Substitution is backward stable: residuals are small even where solutions are not near."""
    a = np.tril(normal(STACK, 12, 12))
    b = normal(STACK, 12, 1, seed=1)
    x = substitution.solve_by_substitution(
        a, b, a.dtype, lower=True, transposed=False, unit_diagonal=False
    )
    assert np.linalg.cond(a).max() > 1e6
    limit = 24 * np.finfo(float).eps * (np.abs(a) @ np.abs(x))
    assert (np.abs(a @ x - b) <= limit + 24 * np.finfo(float).eps * np.abs(b)).all()


@pytest.mark.parametrize("shape", [(9, 1), (1, 9), (4, 4), (3, 2), (2, 3)])
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
def test_factors_are_those_of_lapack(shape, dtype):
    a = normal(STACK, *shape, dtype=dtype)
    a[:5] = np.round(a[:5].real)
    a[5] = 0
    before = a.copy()
    factors, pivots = substitution.eliminated(a)
    np.testing.assert_array_equal(a, before)
    getrf = scipy.linalg.get_lapack_funcs(("getrf",), (a[0],))[0]
    for matrix, got, places in zip(a, factors, pivots, strict=True):
        wanted, wanted_places, _ = getrf(matrix)
        np.testing.assert_array_equal(places, wanted_places)
        np.testing.assert_allclose(got, wanted, rtol=1e-3 if dtype == "float32" else 1e-11,
                                   atol=1e-5 if dtype == "float32" else 1e-13)


@pytest.fixture
def calls(monkeypatch):
    """Returns a list to which the name of every function of LAPACK or BLAS that is called for one
    matrix after the other is added.
    """
    found = []
    routine = lapack._routine

    def noted(module, name, kind):
        def call(*args, **options):
            found.append(name)
            return routine(module, name, kind)(*args, **options)

        return call

    by_address = lapack_of_numpy._called

    def noted_by_address(name, char, count, given):
        found.extend([name] * count)
        return by_address(name, char, count, given)

    monkeypatch.setattr(lapack, "_routine", noted)
    monkeypatch.setattr(lapack_of_numpy, "_called", noted_by_address)
    return found


BATCHED = {
    "solve_triangular": lambda a, b: linalg.solve_triangular(a, b, lower=True),
    "cho_solve": lambda a, b: linalg.cho_solve((fnp.linalg.cholesky(a @ a.T), True), b),
    "lu_solve": lambda a, b: linalg.lu_solve(linalg.lu_factor(a), b),
    "lu": lambda a, b: linalg.lu(a)[1] @ b,
}


@pytest.mark.parametrize("name", sorted(BATCHED))
def test_stacks_of_small_matrices_take_no_call_each(name, calls):
    f = BATCHED[name]
    a, b = systems(4, 2, stack=150)
    got = ft.vmap(f)(a, b)
    assert not calls
    wanted = [f(x, y) for x, y in zip(a, b, strict=True)]
    np.testing.assert_allclose(got, np.stack(list(map(np.asarray, wanted))), rtol=1e-9, atol=1e-12)
    del calls[:]
    ft.vmap(ft.grad(lambda a, b: fnp.sum(f(a, b)), argnums=(0, 1)))(a, b)
    ft.jit(ft.vmap(f))(a, b)
    assert not calls


def test_few_and_large_systems_are_left_to_lapack(calls):
    ft.vmap(BATCHED["solve_triangular"])(*(x[:2] for x in systems(30, 30)))
    ft.vmap(BATCHED["solve_triangular"])(*(x[:7] for x in systems(30, 30)))
    assert calls == ["trsm"] * 9


@pytest.mark.parametrize(
    ("matrices", "columns"),
    [
        ((6, 1), (7,)),
        ((7,), (6, 1)),
        ((), (6, 7)),
        ((6, 7), ()),
        ((7,), (6, 7)),
        ((2, 1), (4, 1, 1)),
    ],
)
def test_stacks_broadcast(matrices, columns):
    a, b = normal(*matrices, 3, 3) + 5 * np.eye(3), normal(*columns, 3, 2, seed=1)
    flags = {"lower": False, "transposed": False, "unit_diagonal": False}
    got = substitution.solve_by_substitution(a, b, a.dtype, **flags)
    assert got.shape == (*np.broadcast_shapes(matrices, columns), 3, 2)
    np.testing.assert_allclose(np.triu(a) @ got, np.broadcast_to(b, got.shape), atol=1e-12)


def test_singular_systems_raise_as_by_lapack():
    a, b = systems(3, 1)
    a[7, 1, 1] = 0
    with pytest.raises(np.linalg.LinAlgError, match="singular"):
        ft.vmap(BATCHED["solve_triangular"])(a, b)


def test_infinities_and_nan_stay_with_their_matrix():
    a, b = systems(3, 1)
    b[3, 0, 0], b[4, 0, 0] = np.nan, np.inf
    got = np.asarray(ft.vmap(BATCHED["solve_triangular"])(a, b))
    assert np.isnan(got[3]).all()
    assert not np.isfinite(got[4]).all()
    assert np.isfinite(np.delete(got, (3, 4), 0)).all()
