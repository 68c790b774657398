"""Sums, products, extrema and counts of integers and booleans, and products of floats."""

from itertools import product

import numpy as np
import pytest
from support.long_forms import thinned
from support.native import missing
from support.native_loops import assert_same, compiled, drawn, of_slices

import functensor as ft
import functensor.numpy as fnp
from functensor.backends import get
from functensor.backends.cpu.plan.native import native_run, segment_code
from functensor.jitting.tiers import native_program

pytestmark = [
    pytest.mark.skipif(bool(missing), reason=missing),
    pytest.mark.filterwarnings("ignore:.* encountered in reduce:RuntimeWarning"),
]
REDUCTIONS = {
    "sum": fnp.sum,
    "mean": fnp.mean,
    "product": fnp.prod,
    "count": fnp.count_nonzero,
    "any": fnp.any,
    "all": fnp.all,
    "largest": lambda x, **how: fnp.max(x, **how) + 0,
    "smallest": lambda x, **how: fnp.min(x, **how) + 0,
}
AXES = [None, 0, 1, (0, 2), -1, (1, 2)]
# Sums and products of these wrap around.
LARGE = {1: 100, 2: 30_000, 4: 2_000_000_000, 8: 4_000_000_000_000_000_000}


def numbers(shape, dtype, seed=0):
    dtype = np.dtype(dtype)
    if dtype.kind in "f?b":
        return drawn(shape, dtype.str[1:], seed) if dtype.kind == "f" else drawn(shape, "?", seed)
    rng = np.random.default_rng(seed)
    size = LARGE[dtype.itemsize]
    return rng.integers(-size if dtype.kind == "i" else 0, size, shape).astype(dtype)


@pytest.mark.parametrize(
    ("keepdims", "dtype"), thinned(product((False, True), "?bBhHiIqQfd"), every=2)
)
def test_reductions(dtype, keepdims):
    x = numbers((3, 17, 2), dtype)
    names = [n for n in REDUCTIONS if dtype != "?" or n not in ("largest", "smallest")]

    def f(x):
        return [
            REDUCTIONS[name](x, axis=axis, keepdims=keepdims) for name in names for axis in AXES
        ]

    wanted = f(x)
    assert_same(compiled(of_slices(f), x)(x), wanted)
    assert_same(ft.jit(f).compile(x)(x), wanted)
    strided = x[::-1, ::2]
    wanted = f(strided)
    assert_same(compiled(of_slices(lambda x: f(x[:, ::2])), x)(x[::-1]), wanted)


CASTS = [(x, y) for x in "?bIq" for y in "biQfd"] + [("d", y) for y in "iqf"]


@pytest.mark.parametrize(("dtype", "wanted"), CASTS)
def test_reductions_in_other_dtypes(dtype, wanted):
    # No product overflows, of which order would decide what comes of a zero.
    x = numbers((4, 33), dtype) if wanted in "biQ" else np.abs(drawn((4, 33), "i4")).astype(dtype)

    def f(x):
        return [fnp.sum(x, axis=axis, dtype=wanted) for axis in (None, 0, 1)] + [
            fnp.prod(x, axis=axis, dtype=wanted) for axis in (None, 0, 1)
        ]

    assert_same(compiled(of_slices(f), x)(x), f(x))


@pytest.mark.parametrize("shape", [(1, 3), (3, 1), (1, 1), (1,)])
def test_axes_of_length_one(shape):
    for dtype in "?iqfd":
        x = numbers(shape, dtype) * np.array(-0.0 if dtype in "fd" else 1).astype(dtype)

        def f(x):
            return [
                g(x, axis=axis)
                for g in (fnp.sum, fnp.prod, fnp.count_nonzero, fnp.mean)
                for axis in ((), *range(-1, x.ndim))
            ]

        found, wanted = compiled(of_slices(f), x)(x), f(x)
        assert_same(found, wanted)
        assert [np.signbit(v).tolist() for v in found] == [np.signbit(v).tolist() for v in wanted]


def test_no_elements():
    for dtype in "?id":
        x = np.zeros((0, 3), dtype)

        def f(x):
            return [
                g(x, axis=axis)
                for g in (fnp.sum, fnp.prod, fnp.count_nonzero, fnp.any, fnp.all)
                for axis in (None, 0, 1)
            ]

        assert_same(ft.jit(f).compile(x)(x), f(x))


def test_not_a_number_counts():
    x = np.array([0.0, -0.0, np.nan, np.inf, 1e-320])

    def f(x):
        return [fnp.count_nonzero(x), fnp.prod(x), fnp.prod(x[3:]), fnp.sum(x != x)]

    assert_same(compiled(of_slices(f), x)(x), f(x))


def test_numbers_of_a_loop():
    def f(n, x):
        def step(i, state):
            n, x = state
            return n + fnp.sum(n) * fnp.prod(i), x + fnp.sum(i > 1) + fnp.count_nonzero(n)

        return ft.fori_loop(0, 4, step, (n, x))

    assert_same(compiled(f, 3, 0.5)(3, 0.5), f(3, 0.5))


@pytest.mark.parametrize("dtype", ["?", "i", "q", "d"])
def test_batches_and_derivatives(dtype):
    def f(x):
        def step(total, row):
            total = total + fnp.sum(row) * fnp.count_nonzero(row) + fnp.prod(row)
            return total, fnp.mean(row > 0)

        return ft.scan(step, fnp.zeros((), (x[0].sum() + 0).dtype), x)

    x = numbers((3, 4, 5), dtype)
    batch = ft.vmap(f)
    assert_same(compiled(batch, x)(x), batch(x))
    if dtype == "d":
        x = x[0] + 3.0
        derivative = ft.grad(lambda x: f(x)[0])
        assert_same(ft.jit(derivative).compile(x)(x), derivative(x), 1e-12)


def test_large_arrays_are_added_up_in_blocks():
    x = np.arange(1_000_000).reshape(1000, 1000) % 7 * 1_000_000_007

    def f(x):
        y = (x * 3) ^ 5
        return [
            fnp.sum(y), fnp.sum(y, axis=0), fnp.sum(y, axis=1), fnp.count_nonzero(y > 10),
            fnp.max(y), fnp.prod(y | 1, axis=1), fnp.sum(y.astype(np.int32), dtype=np.int32),
        ]  # fmt: skip

    jitted = ft.jit(f).compile(x)
    assert "as machine code" in jitted.explain(), jitted.explain()
    assert_same(jitted(x), f(x))


def test_blocks_of_numpy_reduce_integers_too(monkeypatch):
    # They compute the regions that kernels refuse though they have all of its equations.
    x = numbers((300, 400), "i")

    def f(x):
        y = x ^ 3
        return [
            fnp.sum(y), fnp.sum(y, axis=0), fnp.sum(y, axis=1), fnp.prod(y, axis=1), fnp.max(y),
            fnp.min(y, axis=1), fnp.sum(y, dtype=np.int32), fnp.sum(y, axis=1, dtype=np.int32),
            fnp.prod(y, axis=0, dtype=np.int32), fnp.prod(y * 1e-9, axis=1), fnp.prod(1 / y),
        ]  # fmt: skip

    wanted = f(x)
    monkeypatch.setattr(native_run, "native_region", lambda *args: None)
    monkeypatch.setattr(segment_code.SegmentCode, "_add", segment_code.SegmentCode._other)
    plan = get("numpy").plan(native_program(ft.make_program(f)(x)), (), native=True)
    assert plan.source.count("row_reduction(") == 5, plan.source
    assert_same(plan([x]), wanted)


@pytest.mark.parametrize("length", [1, 3])
@pytest.mark.parametrize("dtype", ["?", "u1", "i4", "i8", "u8"])
@pytest.mark.parametrize("name", ["sum", "mean", "prod"])
def test_results_of_a_given_dtype_of_whole_numbers(name, dtype, length):
    # Means of numbers that wrap around to more than 2**63 are no integers of NumPy's.
    least = 0 if dtype == "u8" else -1
    x = (np.arange(2 * length) % 4 + least).astype("i1").reshape(length, 2)
    for operand in (x, x.astype(dtype), x.astype("f4") + 0.5):
        wanted = getattr(np, name)(operand, axis=0, dtype=dtype)
        jitted = ft.jit(lambda x: getattr(fnp, name)(x, axis=0, dtype=dtype))
        jitted(operand)
        jitted._last.compiled.tiers.finish()
        for got in (getattr(fnp, name)(operand, axis=0, dtype=dtype), jitted(operand)):
            assert got.dtype == wanted.dtype
            np.testing.assert_array_equal(got, wanted)
