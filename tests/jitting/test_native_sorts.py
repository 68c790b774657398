"""Sorts in loops of machine code: NumPy's order of NaN and of equal elements, bit by bit."""

import numpy as np
import pytest
from support.native import missing
from support.native_loops import compiled, loops_of, of_slices

import functensor as ft
import functensor.numpy as fnp
from functensor.backends.cpu.plan.native import sorts

pytestmark = pytest.mark.skipif(bool(missing), reason=missing)

DTYPES = ("?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8")
LENGTHS = (1, 2, 3, 8, 15, 16, 17, 31, 32, 33, 48, 100, 129, 256)
FUNCTIONS = {"argsort": fnp.argsort, "sort": fnp.sort}


def numbers(shape, dtype, seed=0):
    """Returns numbers of which many are equal, with NaN, infinities and zeros of both signs."""
    rng = np.random.default_rng(seed)
    dtype = np.dtype(dtype)
    if dtype.kind != "f":
        return rng.integers(0 if dtype.kind != "i" else -9, 10, shape).astype(dtype)
    special = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 0.5, -0.5])
    chosen = special[rng.integers(0, len(special), shape)]
    return np.where(rng.random(shape) < 0.5, chosen, rng.normal(size=shape)).astype(dtype)


def assert_same_bits(found, wanted):
    for x, y in zip(ft.tree.leaves(found), ft.tree.leaves(wanted), strict=True):
        x, y = np.asarray(x), np.asarray(y)
        assert (x.dtype, x.shape) == (y.dtype, y.shape)
        np.testing.assert_array_equal(x, y)
        if x.dtype.kind == "f":
            # The sign of NaN is the processor's.
            known = ~np.isnan(x)
            np.testing.assert_array_equal(np.signbit(x)[known], np.signbit(y)[known])


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_elements_and_their_places_in_order(dtype, name):
    rows = [numbers(n, dtype, n) for n in LENGTHS]

    def every(*rows):
        return [
            FUNCTIONS[name](row, stable=True, descending=down)
            for row in rows
            for down in (False, True)
        ]

    once = of_slices(every)
    assert_same_bits(compiled(once, *rows)(*rows), every(*map(fnp.asarray, rows)))


@pytest.mark.parametrize("axis", [0, 1, 2, None])
@pytest.mark.parametrize("shape", [(3, 20, 2), (17, 1, 5), (2, 3, 40)])
def test_any_axis(shape, axis):
    x = numbers(shape, "f8")

    def both(x):
        return [f(x, axis=axis, stable=True) for f in FUNCTIONS.values()]

    assert_same_bits(compiled(of_slices(both), x)(x), both(fnp.asarray(x)))


@pytest.mark.parametrize("dtype", ["i4", "f8"])
def test_long_axes(dtype):
    x = numbers((2, sorts.MOST_SORTED_STABLY), dtype)

    def both(x):
        return [f(x, stable=True, descending=True) for f in FUNCTIONS.values()]

    assert_same_bits(compiled(of_slices(both), x)(x), both(fnp.asarray(x)))


def test_the_values_of_an_unstable_sort_are_those_of_numpy():
    x = numbers((5, 40), "f4")
    x[x == 0] = 0.0
    once = of_slices(lambda x: [fnp.sort(x), fnp.sort(x, axis=0, descending=True)])
    assert_same_bits(compiled(once, x)(x), [np.sort(x), np.sort(x, axis=0)[::-1]])


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0)])
def test_no_elements(shape):
    def f(x):
        return ft.scan(lambda c, _: (c + 1, fnp.sort(x, axis=0)), 0.0, None, 2)[1]

    x = np.empty(shape)
    jitted = ft.jit(f).compile(x)
    assert np.asarray(jitted(x)).shape == (2, *shape)


LEFT = {
    "many elements": np.ones(sorts.MOST_SORTED + 1),
    "complex numbers": np.ones(4, complex),
}


@pytest.mark.parametrize("x", LEFT.values(), ids=LEFT)
def test_other_sorts_stay_with_numpy(x):
    once = of_slices(fnp.sort)
    jitted = ft.jit(once).compile(x)
    np.testing.assert_array_equal(jitted(x), np.sort(x))
    assert loops_of(jitted)[0] == 0


def test_what_is_taken_by_an_order_is_not_tested():
    x = numbers((6, 20), "f8")

    def f(x):
        return ft.scan(lambda c, row: (c + row[fnp.argsort(row)], c), x[0], x)

    jitted = compiled(f, x)
    assert "out of bounds" not in jitted._last.compiled.run.source
    assert_same_bits(jitted(x), f(fnp.asarray(x)))


def test_derivatives_and_batches():
    x = np.random.default_rng(0).normal(size=(4, 3, 18))

    def loss(row, weights):
        return fnp.sum(fnp.sort(row) * weights) + fnp.sum(row[fnp.argsort(row)[:3]] ** 2)

    def f(x):
        weights = fnp.arange(18.0)
        every = ft.vmap(ft.grad(loss), in_axes=(0, None))
        return ft.scan(lambda c, rows: (c - 0.1 * every(rows + c, weights), c), x[0], x)

    found, wanted = compiled(f, x)(x), f(fnp.asarray(x))
    for a, b in zip(ft.tree.leaves(found), ft.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def test_equal_elements_have_the_same_derivatives_over_numpy():
    x = np.random.default_rng(0).integers(0, 4, (3, 40)).astype("f8")

    def f(x):
        weights = fnp.arange(40.0)
        return ft.scan(lambda c, row: (c, ft.grad(lambda r: fnp.sort(r) @ weights)(row)), 0, x)[1]

    np.testing.assert_array_equal(compiled(f, x)(x), f(fnp.asarray(x)))


MIDDLES = {
    "median": fnp.median,
    "median of rows": lambda x: fnp.median(x, axis=1),
    "median of columns": lambda x: fnp.median(x, axis=0, keepdims=True),
    "quantiles": lambda x: fnp.quantile(x, fnp.array([0.0, 0.25, 0.9]), axis=1),
    "percentile": lambda x: fnp.percentile(x, 30, method="lower"),
}


@pytest.mark.parametrize("name", MIDDLES)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_medians_and_quantiles(dtype, name):
    function = MIDDLES[name]
    usual = np.random.default_rng(1).normal(size=(5, 12)).astype(dtype)
    strange = np.where(usual > 1, np.nan, usual)
    once = of_slices(function)
    jitted = compiled(once, usual)
    for x in (usual, strange, usual.round()):
        np.testing.assert_allclose(jitted(x), function(fnp.asarray(x)), rtol=1e-6)


def test_a_whole_partition_stays_with_numpy():
    x = np.random.default_rng(1).normal(size=40)
    once = of_slices(lambda x: fnp.partition(x, 7))
    jitted = ft.jit(once).compile(x)
    assert loops_of(jitted)[0] == 0
    np.testing.assert_array_equal(jitted(x), fnp.partition(fnp.asarray(x), 7))
