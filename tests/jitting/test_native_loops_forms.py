"""Steps of loops in the forms that people write: constants, strided updates, gradients, dtypes."""

import numpy as np
import pytest
from support.native import missing
from support.native_loops import assert_same, compiled, drawn

import functensor as ft
import functensor.numpy as fnp

pytestmark = pytest.mark.skipif(bool(missing), reason=missing)
DTYPES = ["f4", "f8", "c8", "c16", "i4"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_arrays_that_a_step_closes_over(dtype):
    weights = drawn((3,), dtype, 1)
    flags = weights.real > 0

    def f(x):
        def step(i, x):
            return fnp.where(flags, x * weights[::-1] + 1, x - weights) + (2 * weights)[:, None]

        return ft.fori_loop(0, 3, step, x)

    x = drawn((3, 3), dtype)
    assert_same(compiled(f, x)(x), f(x))


def test_regions_take_arrays_of_constants():
    # Closed over, as data are by many a loss.
    data = np.linspace(0.0, 1.0, 1000)

    def f(x):
        return fnp.sin(x * data) + fnp.cos(data + x)

    x = np.linspace(1.0, 2.0, 1000)
    jitted = ft.jit(f).compile(x)
    source = jitted._last.compiled.run.source
    assert source.count("segment_0(") == 1, source
    assert not any(name in source for name in ("np_multiply", "np_add")), source
    assert_same(jitted(x), f(x))


UPDATES = {
    "column": lambda x, i: x.at[:, i].set(x[:, i - 1] + 1),
    "column of a cube": lambda x, i: x.at[:, i, None].add(1),
    "every second": lambda x, i: x.at[i, ::2].multiply(2),
    "added to a part": lambda x, i: x.at[1:, ::2].add(x[:-1, 1::2] * i),
    "set to a number": lambda x, i: x.at[:, 2].set(i),
    "broadcast": lambda x, i: x.at[:, 1::2].add(x[i, 0]),
    "largest": lambda x, i: x.at[i, ::2].max(-x[i - 1, 1::2]).at[:, i].min(x[:, i - 1] * 2),
}  # fmt: skip
# Complex numbers have no largest one; machine code multiplies none in place.
CASES = [(name, x) for name in UPDATES for x in DTYPES if name != "largest" or x[0] != "c"]
OVER_NUMPY = {("every second", "c8"), ("every second", "c16")}


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_updates_of_elements_that_are_no_neighbours(name, dtype):
    def f(x):
        return ft.fori_loop(0, 4, lambda i, x: UPDATES[name](x, i), x)

    x = drawn((4, 4), dtype)
    jitted = ft.jit(f).compile(x) if (name, dtype) in OVER_NUMPY else compiled(f, x)
    assert_same(jitted(x), f(x))
    # The array that was given stays as it was.
    assert_same(x, drawn((4, 4), dtype))


def test_an_update_outside_of_bounds_is_an_error():
    def f(x, n):
        return ft.fori_loop(0, n, lambda i, x: x.at[:, i].set(1), x)

    jitted = compiled(f, np.ones((3, 4)), 4)
    assert_same(jitted(np.zeros((3, 4)), 4), np.ones((3, 4)))
    with pytest.raises(IndexError, match="index 4 is out of bounds"):
        jitted(np.zeros((3, 4)), 5)


def test_gradients_by_elements():
    def energy(x):
        a, b, c = x
        return a * b + fnp.sin(c) * x[1] + fnp.sum(x[::2] ** 2)

    def f(x):
        return ft.fori_loop(0, 5, lambda i, x: x - 0.1 * ft.grad(energy)(x), x)

    x = np.array([0.5, -1.0, 2.0])
    assert_same(compiled(f, x)(x), f(x))
    batch = np.stack([x, 2 * x, -x])
    assert_same(compiled(ft.vmap(f), batch)(batch), ft.vmap(f)(batch))


def test_gradients_by_rows_that_overlap():
    def energy(x):
        return fnp.sum(x[1:] * x[:-1]) + fnp.sum(fnp.cos(x[fnp.array([0, 0, 2])]))

    def f(x):
        return ft.scan(lambda x, _: (x - 0.1 * ft.grad(energy)(x), energy(x)), x, None, length=4)

    x = drawn((4, 3), "f8")
    assert_same(ft.jit(f).compile(x)(x), f(x))


def test_updates_of_no_elements():
    def f(x):
        return ft.fori_loop(0, 4, lambda i, x: x.at[:, 2:2].add(x[:, 1:1] * i), x)

    x = drawn((4, 4), "f8")
    assert_same(ft.jit(f).compile(x)(x), f(x))


def test_updates_by_what_is_not_a_number():
    def f(x, y):
        return ft.fori_loop(0, 2, lambda i, x: x.at[:, i].max(y).at[i].min(y[:3]), x)

    x = np.array([[np.nan, 1.0, -0.0], [2.0, np.inf, 0.0], [0.0, -np.inf, 3.0]])
    y = np.array([0.0, np.nan, -1.0])
    assert_same(compiled(f, x, y)(x, y), f(x, y))


def test_dtypes_that_meet():
    def f(x, n):
        def step(i, x):
            joined = fnp.concatenate([x[:2], fnp.stack([n + i, 1])])
            return x + fnp.sum(joined.astype(np.float32), dtype=np.float64)

        return ft.fori_loop(0, 3, step, x)

    x = np.array([0.5, -1.0, 0.25])
    assert_same(compiled(f, x, 2)(x, 2), f(x, 2), 1e-6)
