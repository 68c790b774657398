"""A row beside all rows of a matrix in plans: the same bits as NumPy's, in longer inner loops."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import functensor as ft
import functensor.numpy as fnp
from functensor.backends import get as get_backend
from functensor.backends.cpu.plan.regions import row_sums
from functensor.backends.cpu.plan.regions.broadcast_rows import is_rowwise, row_by_row, rowwise
from functensor.backends.cpu.plan.regions.grid import Grid
from functensor.passes.fusion import fusion
from functensor.passes.pipeline import optimized

VALUES = np.array([0.0, -0.0, 1.5, -2.0, np.inf, -np.inf, np.nan, 1e-30], "float32")

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def some(shape, seed):
    return np.random.default_rng(seed).choice(VALUES, shape)


@given(
    many=st.integers(1, 200),
    length=st.sampled_from([1, 2, 63, 64, 383, 384, 500, 640]),
    first=st.booleans(),
    across=st.booleans(),
    name=st.sampled_from(["add", "subtract", "multiply", "divide", "maximum"]),
)
def test_the_bits_are_those_of_the_ufunc(many, length, first, across, name):
    ufunc = getattr(np, name)
    x = some((length, many), 1).T if across else some((many, length), 1)
    y = some((1, length), 2)
    wanted = ufunc(x, y) if first else ufunc(y, x)
    for out in (np.full((many, length), 7, "float32"), x.copy()):
        rowwise(ufunc, out if out[0, 0] != 7 else x, y, out, first)
        numbers = ~np.isnan(wanted)
        np.testing.assert_array_equal(np.isnan(out), ~numbers)
        np.testing.assert_array_equal(out[numbers].view("int32"), wanted[numbers].view("int32"))


@pytest.mark.parametrize(("many", "wanted"), [(70, [(8, 8000), (6, 1000)]), (7, [(7, 1000)])])
def test_several_rows_are_computed_at_once(many, wanted, monkeypatch):
    called = []

    def multiply(x, y, out):
        called.append(out.shape)
        np.multiply(x, y, out)

    monkeypatch.setattr("functensor.backends.cpu.plan.regions.broadcast_rows.UNBUFFERED_RUN", 8000)
    x, y = np.ones((many, 1000)), np.ones((1, 1000))
    rowwise(multiply, x, y, x, True)
    assert called == wanted


@pytest.mark.parametrize(
    ("shape", "x", "y", "wanted"),
    [
        ((4096, 64), {0, 1}, {1}, True),
        ((4096, 64), {0, 1}, {0}, False),
        ((4096, 64), {1}, {0, 1}, False),
        ((4096, 64), {0, 1}, {0, 1}, False),
        ((4096, 64), {0}, {1}, False),
        ((64, 64), {0, 1}, {1}, False),
        ((4096, 320), {0, 1}, {1}, True),
        ((4096, 321), {0, 1}, {1}, False),
        ((4096, 1), {0, 1}, {1}, False),
        ((64, 64, 64), {0, 1}, {1}, False),
    ],
)
def test_which_are_a_matrix_and_a_row(shape, x, y, wanted):
    axes = [frozenset({a}) for a in range(len(shape))]
    assert is_rowwise(Grid(shape, axes), frozenset(x), frozenset(y), 8) is wanted


@pytest.mark.parametrize("length", [100, 383, 384, 5000])
def test_buffers_are_as_before_afterwards(length):
    before = np.getbufsize()
    with row_by_row(length):
        inside = np.getbufsize()
    assert inside == (256 if length >= 384 else before)
    with pytest.raises(ZeroDivisionError), row_by_row(length):
        raise ZeroDivisionError
    assert np.getbufsize() == before


@pytest.mark.parametrize("length", [16, 512, 1000])
def test_layers_and_their_gradients(length, monkeypatch):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1 << 20) // length * length).reshape(-1, length).astype("float32")
    scale, bias = rng.normal(size=(2, length)).astype("float32")
    inside = []

    def noted(*args):
        inside.append(np.getbufsize())
        return np.sum(np.multiply(*args))

    monkeypatch.setattr("functensor.backends.cpu.plan.regions.steps.total_dot", noted)

    def fun(x, scale, bias):
        y = bias - fnp.tanh(x - bias) * scale
        return fnp.sum(y * y, axis=0), y, fnp.sum(fnp.square(y))

    plan = get_backend("numpy").plan(fusion(optimized(ft.make_program(fun)(x, scale, bias))))
    assert ("rowwise(" in plan.source) == (length <= 640)
    before = np.getbufsize()
    got = plan([x, scale, bias])
    assert {*inside} == {256 if length >= 384 else before}
    assert np.getbufsize() == before
    wide = [a.astype("float64") for a in (x, scale, bias)]
    for a, b in zip(got, fun(*map(fnp.asarray, wide)), strict=True):
        np.testing.assert_allclose(a, np.asarray(b), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("size", [1, 1000, 16384, 16385, 3 * 16384, 50000])
def test_the_sum_of_all_products(size):
    x, y = np.random.default_rng(0).uniform(size=(2, size)).astype("float32")
    got = row_sums.total_dot(x.reshape(-1, 1), y.reshape(-1, 1))
    assert got.dtype == "float32"
    assert np.shape(got) == ()
    exact = float(x.astype("float64") @ y.astype("float64"))
    assert abs(float(got) - exact) <= 1e-6 * exact


def test_scaled_products_do_not_overflow_where_those_without_the_scale_do():
    x = np.full((2048, 48), 1e25, "float32")
    row = np.full(48, 1e-30, "float32")

    def fun(x, row):
        scaled = x * row
        return fnp.sum(scaled * x, axis=1), fnp.sum(x * x), fnp.tanh(scaled)

    plan = get_backend("numpy").plan(fusion(optimized(ft.make_program(fun)(x, row)), 1024))
    sums, infinite, _ = plan([x, row])
    np.testing.assert_allclose(sums, 48e20, rtol=1e-5)
    assert infinite == np.inf


@given(rows=st.integers(0, 60), inner=st.integers(1, 9), elements=st.integers(1, 100))
def test_blocks_are_of_all_rows_in_order(rows, inner, elements):
    blocks = Grid((rows, inner), [frozenset({0}), frozenset({1})]).blocks(elements)
    found = [*blocks]
    assert len(blocks) == len(found)
    assert [number for number, _, _ in found] == [*range(len(found))]
    assert [i for _, low, high in found for i in range(low, high)] == [*range(rows)]
    assert blocks.longest == max((high - low for _, low, high in found), default=0)


def test_arrays_that_no_memory_holds_are_refused_at_once():
    f = ft.jit(lambda x: fnp.zeros((10**6, 10**6, 10**4)) + x)
    with pytest.raises(MemoryError, match="PiB"):
        f(1.0)
    with pytest.raises(MemoryError, match="PiB"):
        ft.jit(lambda x: fnp.sum(fnp.zeros((10**7, 10**8, 10)) * x, axis=2))(1.0)


@pytest.mark.parametrize("length", [1000, 1024, 1025, 2049, 2560])
def test_rows_of_small_numbers(length):
    x = np.random.default_rng(0).integers(0, 255, (800, length)).astype("uint8")
    f = ft.jit(lambda x, row: (x - row) ^ x)
    np.testing.assert_array_equal(f(x, x[0]), (x - x[0]) ^ x)
    mask = x[0] > 100
    g = ft.jit(lambda x, mask: fnp.where((x > 9) & mask, x, 0))
    np.testing.assert_array_equal(g(x, mask), np.where((x > 9) & mask, x, 0))
