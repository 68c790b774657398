"""Large work that is independent: neighbours in the program, shared among threads at once."""

import numpy as np
import pytest

import functensor as ft
import functensor.numpy as fnp
from functensor.backends import blas_threads
from functensor.backends import get as get_backend
from functensor.backends.cpu.plan import equations
from functensor.backends.cpu.plan.regions import cost, region_run
from functensor.backends.cpu.plan.threads import pool
from functensor.passes import schedule_parallel as neighbours_pass
from functensor.passes.fusion import fusion
from functensor.passes.pipeline import optimized
from functensor.passes.schedule_parallel import neighbours


@pytest.fixture
def all_large(monkeypatch):
    """Has three threads share whatever can be shared."""
    monkeypatch.setattr(pool.threads, "number", 3)
    monkeypatch.setattr(equations, "SMALLEST_SHARED_WORK", 1)
    monkeypatch.setattr(region_run, "SMALLEST_SHARED_EFFORT", 0)
    monkeypatch.setattr(cost, "SMALLEST_SHARED_EFFORT", 0)
    monkeypatch.setattr(neighbours_pass, "FEWEST_SHARED_MULTIPLICATIONS", 1)


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def staged(fun, *args):
    return fusion(optimized(ft.make_program(fun)(*args)), 64)


def names(program):
    return [equation.primitive.name for equation in program.equations]


def planned(fun, *args, donated=()):
    return get_backend("numpy").plan(staged(fun, *args), donated)


X, Y, W = normal(40, 30), normal(40, 20, seed=1), normal(30, 20, seed=2)


def gradients(x, g, w):
    """Computes both products of a layer's backward pass, and what is done with them."""
    to_x, to_w = g @ w.T, x.T @ g
    return fnp.tanh(to_x) * 2, w - 0.1 * fnp.square(to_w)


def test_independent_work_is_moved_together(all_large):
    program = staged(gradients, X, Y, W)
    found = names(program)
    first = found.index("matmul")
    assert found[first : first + 2] == ["matmul", "matmul"]
    assert found[-2:] == ["fused", "fused"]


def test_the_order_of_what_depends_stays(all_large):
    def chain(x, w):
        return fnp.sin(fnp.cos(x @ w) @ w.T) * 2

    program = staged(chain, X, W)
    large = [name for name in names(program) if name != "transpose"]
    assert large == ["matmul", "fused", "matmul", "fused"]
    assert neighbours(program) is program
    assert "= run_side_by_side" not in get_backend("numpy").plan(program).source


def test_what_is_large_is_not_moved_ahead(all_large, monkeypatch):
    monkeypatch.setattr(neighbours_pass, "LARGEST_MOVED_ELEMENTS", 8)

    def fun(x, y):
        return fnp.sin(x) * 2, fnp.cumsum(y, axis=0), fnp.cos(y) * 3

    assert names(staged(fun, X, Y)) == ["fused", "cumsum", "fused"]
    monkeypatch.setattr(neighbours_pass, "LARGEST_MOVED_ELEMENTS", 1 << 20)
    assert names(staged(fun, X, Y)) == ["cumsum", "fused", "fused"]


def test_no_more_than_some_wait(all_large, monkeypatch):
    monkeypatch.setattr(neighbours_pass, "MOST_NEIGHBOURS", 2)
    arrays = [normal(16, 16, seed=i) for i in range(5)]

    def fun(*arrays):
        return [fnp.sin(x) * 2 + fnp.sum(y[:2, :2]) for x, y in zip(arrays, arrays[::-1])]

    plan = planned(fun, *arrays)
    lines = [line for line in plan.source.splitlines() if "= run_side_by_side" in line]
    calls = [line.count("region_") for line in lines]
    assert sum(calls) >= 4
    for got, wanted in zip(plan(arrays), fun(*arrays), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-5)


def test_results_are_those_of_one_after_the_other(all_large, monkeypatch):
    plan = planned(gradients, X, Y, W)
    assert plan.source.count("= run_side_by_side") == 2
    wanted = gradients(X, Y, W)
    for number in (1, 2, 5):
        monkeypatch.setattr(pool.threads, "number", number)
        for got, want in zip(plan([X, Y, W]), wanted, strict=True):
            assert got.dtype == np.float32
            np.testing.assert_allclose(got, np.asarray(want), rtol=1e-4, atol=1e-5)
    monkeypatch.setattr(pool, "controlled", lambda: None)
    for got, want in zip(plan([X, Y, W]), wanted, strict=True):
        np.testing.assert_allclose(got, np.asarray(want), rtol=1e-4, atol=1e-5)


def test_memory_that_another_reads_is_not_taken(all_large):
    x, y = normal(60, 50), normal(60, 50, seed=3)

    def fun(x, y):
        z = fnp.cumsum(x * y, axis=0)
        # Both read z; neither may write where it lies before the other is done.
        return fnp.sin(z) * 2, fnp.sum(fnp.cos(z.reshape(50, 60)) * 3, axis=0), z.shape[0] * y

    plan = planned(fun, x, y)
    z = np.cumsum(x * y, axis=0)
    for _ in range(20):
        first, second, third = plan([x, y])
        np.testing.assert_allclose(first, np.sin(z) * 2, rtol=1e-4, atol=1e-4)
        wanted = (np.cos(z.reshape(50, 60)) * 3).sum(0)
        # Sums up to 38, in single precision, of sines and cosines of sums.
        np.testing.assert_allclose(second, wanted, rtol=1e-6, atol=1e-4)
        np.testing.assert_allclose(third, 60 * y, rtol=1e-6)


def test_donated_memory_is_taken_within_a_group(all_large):
    a, b = fnp.asarray(normal(60, 50)), fnp.asarray(normal(60, 50, seed=1))
    wanted = [np.sin(np.asarray(x)) * 2 + 1 for x in (a, b)]
    where = [np.asarray(x).ctypes.data for x in (a, b)]
    plan = planned(lambda a, b: (fnp.sin(a) * 2 + 1, fnp.sin(b) * 2 + 1), a, b, donated=(0, 1))
    got = plan([np.array(np.asarray(x)) for x in (a, b)])
    for x, want in zip(got, wanted, strict=True):
        np.testing.assert_allclose(x, want, rtol=1e-6)
    assert len({*where, *(x.ctypes.data for x in got)}) == 4


def test_stacks_of_rows_times_a_matrix(all_large):
    x, w = normal(4, 10, 30), normal(30, 20, seed=1)
    g = normal(4, 10, 20, seed=2)

    def fun(x, g, w):
        return x @ w, g @ w.T, fnp.swapaxes(x, 1, 2) @ g, fnp.sin(x) * 2

    plan = planned(fun, x, g, w)
    assert plan.source.count("(product_") == 3
    for got, want in zip(plan([x, g, w]), fun(x, g, w), strict=True):
        assert got.shape == want.shape
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_errors_of_one_reach_the_caller_and_leave_the_plan_usable(all_large):
    x, labels = normal(64, 10), np.arange(64) % 10

    def fun(x, y, labels):
        losses = ft.nn.softmax_cross_entropy(x * 2, labels)
        return fnp.sum(losses * 2), fnp.sum(fnp.sin(y) * 3)

    plan = planned(fun, x, x.T.copy(), labels)
    wanted = plan([x, x.T.copy(), labels])
    with pytest.raises(IndexError, match="label 10"):
        plan([x, x.T.copy(), labels + 1])
    for got, want in zip(plan([x, x.T.copy(), labels]), wanted, strict=True):
        np.testing.assert_array_equal(got, want)
    assert not blas_threads.held()


@pytest.mark.parametrize(
    ("fun", "least", "most"),
    [
        (lambda x: fnp.maximum(x, 0) * 2, 1, 4),
        (lambda x: fnp.exp(fnp.sin(x)), 5, 12),
        (lambda x: fnp.tanh(x) * fnp.exp(-fnp.square(x)) + fnp.log1p(x * x), 9, 20),
    ],
)
def test_work_is_counted_in_passes(fun, least, most):
    x = normal(256, 512)
    program = fusion(optimized(ft.make_program(fun)(x)))
    plan = get_backend("numpy").plan(program)
    (run,) = (v for v in plan._scope.values() if isinstance(v, region_run.RegionRun))
    assert least * x.size <= run.effort / cost.PASS_EFFORT <= most * x.size
