"""Columns beside rows in plans: the same bits as NumPy's, in fewer and longer inner loops."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import functensor as ft
import functensor.numpy as fnp
from functensor.backends import get as get_backend
from functensor.backends.cpu.plan.regions import broadcast_rows as columns
from functensor.backends.cpu.plan.regions.broadcast_rows import is_outer, outer
from functensor.passes.fusion import fusion
from functensor.passes.pipeline import optimized

VALUES = np.array([0.0, -0.0, 1.5, -2.0, np.inf, -np.inf, np.nan, 1e-30], "float32")


def some(shape, seed):
    return np.random.default_rng(seed).choice(VALUES, shape)


@given(
    many=st.integers(1, 40),
    length=st.integers(1, 130),
    before=st.lists(st.integers(1, 3), max_size=2),
    missing=st.booleans(),
    first=st.booleans(),
    name=st.sampled_from(["add", "subtract", "multiply", "divide", "maximum"]),
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_the_bits_are_those_of_the_ufunc(many, length, before, missing, first, name):
    ufunc = getattr(np, name)
    x = some((*before, many, 1), 1)
    y = some((*([1] * len(before) if missing else before), 1, length), 2)
    out = np.full((*before, many, length), 7, "float32")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(columns, "SMALLEST_OUTER_ELEMENTS", 1)
        outer(ufunc, x, y, out, first)
    wanted = ufunc(x, y) if first else ufunc(y, x)
    numbers = ~np.isnan(wanted)
    np.testing.assert_array_equal(np.isnan(out), ~numbers)
    np.testing.assert_array_equal(out[numbers].view("int32"), wanted[numbers].view("int32"))


def test_rows_that_are_repeated_are_computed_at_once():
    called = []

    def multiply(x, y, out):
        called.append(out.shape)
        np.multiply(x, y, out)

    x, y = np.ones((64, 64, 1), "float32"), np.ones((64, 1, 10), "float32")
    outer(multiply, x, y, np.empty((64, 64, 10), "float32"), True)
    assert called == [(64, 8, 80)]


@pytest.mark.parametrize(
    ("shape", "x", "y", "wanted"),
    [
        ((9, 8, 7), {0, 1}, {0, 2}, True),
        ((9, 8, 7), {0, 2}, {0, 1}, False),
        ((9, 8, 7), {1}, {0, 2}, True),
        ((8, 7), {0}, {1}, True),
        ((9, 8, 7), {0, 1, 2}, {0, 2}, False),
        ((9, 8, 7), {1}, {2}, False),
        ((9, 8, 700), {0, 1}, {0, 2}, False),
        ((9,), {0}, set(), False),
    ],
)
def test_which_are_columns_and_rows(shape, x, y, wanted):
    assert is_outer(shape, frozenset(x), frozenset(y)) is wanted


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("shape", [(96, 48, 20), (80, 1, 16), (1, 128, 64)])
def test_gradients_of_every_example(shape):
    examples, wide, narrow = shape
    x = np.random.default_rng(0).normal(size=(examples, wide)).astype("float32")
    g = np.random.default_rng(1).normal(size=(examples, narrow)).astype("float32")
    x[0, 0], g[-1, -1] = -0.0, np.inf

    def products(x, g):
        return x[:, :, None] * g[:, None], g[:, None] - x[:, :, None]

    plan = get_backend("numpy").plan(fusion(optimized(ft.make_program(products)(x, g)), 1024))
    assert ("outer(" in plan.source) == (wide > 1)
    for got, wanted in zip(plan([x, g]), products(x, g), strict=True):
        np.testing.assert_array_equal(got.view("int32"), wanted.view("int32"))


def test_sums_of_products_are_not_computed_of_the_products():
    x = np.random.default_rng(0).normal(size=(300, 40)).astype("float32")
    y = np.random.default_rng(1).normal(size=(300, 30)).astype("float32")

    def fun(x, y):
        return fnp.sum(x[:, :, None] * y[:, None], axis=(1, 2))

    got = ft.jit(fun)(x, y)
    # Sums up to 155, in single precision, of terms that cancel.
    np.testing.assert_allclose(got, x.sum(1) * y.sum(1), rtol=1e-6, atol=1e-4)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("number", [0.0, -0.0, 3, -2.5])
@pytest.mark.parametrize("swapped", [False, True])
def test_logarithms_of_sums_with_a_number(dtype, number, swapped):
    x = np.random.default_rng(0).normal(size=2048).astype(dtype) * 30
    x[:6] = 0, -0.0, np.inf, -np.inf, np.nan, number

    def fun(x):
        pair = (x, number) if swapped else (number, x)
        return fnp.logaddexp(*pair) * 2

    plan = get_backend("numpy").plan(fusion(optimized(ft.make_program(fun)(x)), 1024))
    assert "logaddexp" not in plan.source
    (got,) = plan([x])
    wanted = np.asarray(fun(fnp.asarray(x)))
    assert got.dtype == dtype
    np.testing.assert_array_equal(got, wanted)
    np.testing.assert_array_equal(np.signbit(got), np.signbit(wanted))


@pytest.mark.parametrize("size", [10, 5000])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_derivative_of_relu_keeps_what_is_not_finite_where_it_is_chosen(size, dtype):
    x = np.resize(VALUES, size).astype(dtype)
    y = np.random.default_rng(0).normal(size=size).astype(dtype)
    y[:3] = 0.0, -0.0, np.nan
    got = np.asarray(ft.vjp(ft.nn.relu, fnp.asarray(y))[1](fnp.asarray(x))[0])
    wanted = np.where(y > 0, x, 0)
    np.testing.assert_array_equal(got, wanted)
    chosen = y > 0
    np.testing.assert_array_equal(np.signbit(got[~chosen]), False)
    assert got.dtype == dtype
