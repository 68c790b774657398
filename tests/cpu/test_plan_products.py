"""Products, convolutions and activations within plans: shared among threads, in steps of blocks."""

import os
import threading

import numpy as np
import pytest

import functensor as ft
import functensor.numpy as fnp
from functensor import nn
from functensor.backends import blas_threads
from functensor.backends.cpu import blocks, convolution, parallel
from functensor.backends.cpu.plan import equations
from functensor.backends.cpu.plan.regions import row_sums
from functensor.backends.cpu.plan.threads import matmul, pool


@pytest.fixture
def three_threads(monkeypatch):
    monkeypatch.setattr(pool.threads, "number", 3)


@pytest.fixture
def everything_shared(three_threads, monkeypatch):
    monkeypatch.setattr(equations, "SMALLEST_SHARED_WORK", 1)


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


SHAPES = [
    ((100, 7), (7, 30)),
    ((7, 30), (30, 100)),
    ((5, 3), (3, 2)),
    ((1, 40), (40, 1)),
    ((90, 4), (4,)),
    ((200,), (200, 5)),
    ((2,), (2, 3)),
    ((4, 6, 5), (4, 5, 3)),
    ((2, 3, 6, 5), (2, 3, 5, 4)),
    ((90, 1), (1, 60)),
    ((50, 1), (1, 90)),
    ((5, 40, 1), (5, 1, 30)),
    ((90,), (90, 1)),
]


@pytest.mark.parametrize(("x", "y"), [*SHAPES, ((90, 1), (1,)), ((1,), (1, 90))])
def test_products_in_parts(x, y, three_threads):
    x, y = normal(*x), normal(*y, seed=1)
    np.testing.assert_allclose(matmul.threaded_matmul(x, y), x @ y, rtol=1e-5, atol=1e-5)
    out = np.empty_like(x @ y)
    assert matmul.threaded_matmul(x, y, out) is out
    np.testing.assert_allclose(out, x @ y, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("threads", [1, 3])
def test_vectors_in_parts(threads, monkeypatch):
    monkeypatch.setattr(pool.threads, "number", threads)
    x = normal(200)
    got = matmul.threaded_matmul(x, x)
    assert np.shape(got) == ()
    np.testing.assert_allclose(got, x @ x, rtol=1e-5)
    np.testing.assert_allclose(matmul.threaded_matmul(normal(9, 1), x[:1]), normal(9, 1) @ x[:1])


def test_vectors_that_are_shared_by_plans(everything_shared):
    x = normal(200)
    for got in (ft.jit(fnp.matmul)(x, x), ft.jit(lambda x: x @ x)(x), ft.jit(fnp.dot)(x, x)):
        np.testing.assert_allclose(got, x @ x, rtol=1e-5)
    slope = ft.jit(ft.grad(lambda x: x @ x))(x)
    np.testing.assert_allclose(slope, 2 * x, rtol=1e-6)


@pytest.mark.parametrize("shapes", [((1,), (1, 90)), ((90, 1), (1,)), ((1, 1), (1, 90))])
def test_zero_times_infinity_is_nan_in_parts(shapes, three_threads):
    x, y = (np.full(shape, np.inf if max(shape) > 1 else 0.0) for shape in shapes)
    with np.errstate(invalid="ignore"):
        assert np.isnan(matmul.threaded_matmul(x, y)).all()


def test_zero_times_infinity_is_nan_in_blocks_of_one_row():
    row = np.array([[np.inf, 1.0, 2.0]])
    with np.errstate(invalid="ignore"):
        found = [
            row_sums.column_product(np.zeros((1, 1)), row),
            row_sums.row_product(row[:, :1], np.zeros((1, 1))),
        ]
    for got, wanted in zip(found, [[np.nan, 0, 0], [np.nan]], strict=True):
        np.testing.assert_array_equal(got.ravel(), wanted)


@pytest.mark.parametrize("jit", [False, True])
def test_a_weight_of_zero_times_infinity_is_nan(jit):
    conv = ft.jit(nn.conv) if jit else nn.conv
    with np.errstate(invalid="ignore"):
        assert np.isnan(conv(np.full((2, 1, 5), np.inf), np.zeros((1, 1, 1)))).all()


@pytest.mark.parametrize(("x", "y"), [*SHAPES, ((4, 6, 5), (5, 3)), ((3, 1, 5), (3, 5, 4))])
def test_products_of_plans(x, y, everything_shared):
    x, y = normal(*x), normal(*y, seed=1)
    lowered = ft.jit(fnp.matmul).lower(x, y)
    assert "threaded_matmul" in lowered.source
    got = np.asarray(ft.jit(fnp.matmul)(x, y))
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, x @ y, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("wrapped", [np.asarray, fnp.asarray])
@pytest.mark.parametrize("shape", [(4,), (4, 3)])
def test_products_with_what_a_function_closes_over(shape, wrapped):
    matrix = np.sin(np.arange(16.0)).reshape(4, 4)
    spread = np.broadcast_to(np.arange(4.0), (4, 4))
    x, weight = np.cos(np.arange(float(np.prod(shape)))).reshape(shape), wrapped(matrix)
    plan = ft.jit(lambda x: fnp.tanh(fnp.matmul(weight, x)))
    np.testing.assert_allclose(plan(x), np.tanh(matrix @ x), rtol=1e-12)
    # Vectors go to BLAS by the shortest way, matrices into kept memory.
    text = plan.lower(x).source
    assert (".dot(" if x.ndim == 1 else "np_matmul(") in text
    np.testing.assert_allclose(ft.jit(lambda x: spread @ x)(x), spread @ x, rtol=1e-12)
    looped = ft.jit(lambda x: ft.fori_loop(0, 3, lambda i, c: fnp.tanh(weight @ c), x))
    wanted = x
    for _ in range(3):
        wanted = np.tanh(matrix @ wanted)
    np.testing.assert_allclose(looped(x), wanted, rtol=1e-12)


def test_products_of_transposed_and_broadcast_operands(everything_shared):
    x, y = normal(20, 30), normal(20, 40, seed=1)
    np.testing.assert_allclose(ft.jit(lambda x, y: x.T @ y)(x, y), x.T @ y, rtol=1e-5, atol=1e-5)
    spread = ft.jit(lambda x, y: fnp.broadcast_to(x, (8, 20, 30)) @ y)
    y = y.T[:30]
    np.testing.assert_allclose(spread(x, y), np.stack([x @ y] * 8), rtol=1e-5, atol=1e-5)


def test_products_keep_to_small_parts_of_few_rows():
    assert [s.stop - s.start for s in matmul.cuts(100, 3)] == [32, 32, 36]
    assert [s.stop - s.start for s in matmul.cuts(5, 3)] == [1, 2, 2]


@pytest.mark.skipif(blas_threads.controlled() is None, reason="BLAS keeps to no thread")
def test_plans_that_share_work_keep_blas_to_one_thread_throughout(everything_shared, monkeypatch):
    seen = []
    multiply = convolution.multiply

    def watched(*operands):
        seen.append(blas_threads.held())
        multiply(*operands)

    monkeypatch.setattr(convolution, "multiply", watched)
    # A kernel of several products holds BLAS by itself where BLAS has several threads.
    monkeypatch.setattr(blas_threads.controlled(), "several", lambda: False)
    x, w = normal(2, 3, 6, 6), normal(4, 3, 3, 3, seed=1)
    ft.jit(lambda x, w: nn.conv(x, w))(x, w)
    assert set(seen) == {False}
    seen.clear()
    ft.jit(lambda x, w, y: (nn.conv(x, w), y @ y))(x, w, normal(8, 8))
    assert set(seen) == {True}
    assert not blas_threads.held()


GEOMETRIES = [
    {},
    {"stride": 2},
    {"padding": ((1, 1), (2, 0))},
    {"dilation": 2},
    {"groups": 2},
]


@pytest.mark.skipif(blas_threads.controlled() is None, reason="BLAS keeps to no thread")
@pytest.mark.parametrize("options", GEOMETRIES)
@pytest.mark.parametrize("channels", [2, 16])
def test_convolutions_in_parts(options, channels, three_threads, monkeypatch):
    """The same however large the blocks are, and by whatever thread they are computed."""
    groups = options.get("groups", 1)
    x = normal(5, channels, 12, 11)
    w = normal(4, channels // groups, 3, 3, seed=1)

    def loss(x, w):
        return fnp.sum(fnp.square(nn.conv(x, w, **options)))

    wanted = ft.grad(loss, argnums=(0, 1))(x, w)
    assert not parallel.is_parallel()
    monkeypatch.setattr(convolution, "GATHERED_BLOCK_BYTES", 4096)
    with blas_threads.alone():
        assert parallel.is_parallel()
        got = ft.grad(loss, argnums=(0, 1))(x, w)
    for a, b in zip(got, wanted, strict=True):
        # Sums up to 4,000, in single precision, in other orders.
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-3)


@pytest.mark.skipif(blas_threads.controlled() is None, reason="BLAS keeps to no thread")
def test_the_number_of_threads_does_not_change_the_gradient_of_a_kernel(monkeypatch):
    monkeypatch.setattr(convolution, "GATHERED_BLOCK_BYTES", 4096)
    x, w = normal(5, 16, 12, 11), normal(4, 16, 3, 3, seed=1)
    grad = ft.grad(lambda w: fnp.sum(fnp.square(nn.conv(x, w))))
    found = []
    for number in (1, 2, 3):
        monkeypatch.setattr(pool.threads, "number", number)
        with blas_threads.alone():
            found.append(np.asarray(grad(w)))
    assert all(np.array_equal(found[0], x) for x in found)


@pytest.mark.skipif(blas_threads.controlled() is None, reason="BLAS keeps to no thread")
@pytest.mark.parametrize("options", [{}, {"stride": 1}, {"padding": 1}, {"stride": 3}])
@pytest.mark.parametrize("images", [0, 1, 7])
def test_pools_in_parts(options, images, three_threads, monkeypatch):
    x = np.round(normal(images, 3, 9, 8), 1)

    def loss(x):
        return fnp.sum(fnp.square(nn.max_pool(x, 2, **options)))

    for moved in (x, np.moveaxis(np.ascontiguousarray(np.moveaxis(x, 1, -1)), -1, 1)):
        wanted = nn.max_pool(moved, 2, **options), ft.grad(loss)(moved)
        monkeypatch.setattr(blocks, "BLOCK_ELEMENTS", 1)
        with blas_threads.alone():
            got = nn.max_pool(moved, 2, **options), ft.grad(loss)(moved)
        for a, b in zip(got, wanted, strict=True):
            np.testing.assert_array_equal(a, b)
            assert np.asarray(a).strides == np.asarray(b).strides


def test_an_error_of_a_part_is_raised(three_threads):
    def fail(part):
        raise ValueError(part)

    with pytest.raises(ValueError, match="1"):
        parallel.each(fail, [1])
    if blas_threads.controlled() is None:
        pytest.skip("BLAS keeps to no thread")
    with blas_threads.alone(), pytest.raises(ValueError, match=r"[123]"):
        parallel.each(fail, [1, 2, 3])


ACTIVATIONS = [
    nn.silu,
    nn.softplus,
    lambda x: nn.gelu(x, approximate=True),
    lambda x: nn.gelu(x, approximate=False),
    ft.grad(lambda x: fnp.sum(nn.gelu(x, approximate=True))),
    ft.grad(lambda x: fnp.sum(nn.gelu(x, approximate=False))),
]


@pytest.mark.parametrize("fun", ACTIVATIONS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_activations_in_steps_have_the_same_bits(fun, dtype):
    x = (normal(600, 256) * 8).astype(dtype)
    x[0, :9] = [np.inf, -np.inf, np.nan, 0.0, -0.0, 1e30, -1e30, 100, -100]
    jitted = ft.jit(lambda x: fun(x) * 2)
    assert "blocks_0" in jitted.lower(x).source
    got, wanted = np.asarray(jitted(x)), np.asarray(fun(fnp.asarray(x)) * 2)
    assert got.dtype == wanted.dtype
    np.testing.assert_array_equal(got, wanted)
    np.testing.assert_array_equal(np.signbit(got), np.signbit(wanted))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("moved", [0.0, 1e4, -1e4, np.inf, -np.inf, np.nan])
def test_softmax_of_blocks(dtype, moved):
    x = normal(600, 256).astype(dtype)
    x[3] += moved
    x[5, 7] = moved
    for fun in (nn.softmax, lambda x: nn.softmax(x) * 2, lambda x: nn.softmax(-x) + x):
        jitted = ft.jit(fun)
        assert "row_softmax" in jitted.lower(x).source or fun is nn.softmax
        np.testing.assert_allclose(jitted(x), fun(fnp.asarray(x)), rtol=1e-5, atol=1e-7)


def test_softmax_into_the_memory_of_its_operand():
    """A row that vanishes without a shift is computed again from its operand, which is there."""
    x = normal(600, 256)
    x[:, 0] = -1e3
    fun = ft.jit(lambda x: nn.softmax(x * 3 - 200) * 2, donate_argnums=0)
    wanted = nn.softmax(fnp.asarray(x) * 3 - 200) * 2
    np.testing.assert_allclose(fun(fnp.asarray(x.copy())), wanted, rtol=1e-5)


def test_sums_of_rows_times_a_number_each():
    x, b = normal(600, 256), normal(256, seed=1)

    def fun(x, b):
        scale = fnp.sqrt(fnp.mean(fnp.square(x), axis=1, keepdims=True))
        return (
            fnp.sum(x * scale, axis=1) + fnp.sum(x / scale, axis=1) + fnp.sum(x * b, axis=1)
            - fnp.sum(-(b * x) / scale, axis=1)
        )  # fmt: skip

    jitted = ft.jit(fun)
    assert "row_product" in jitted.lower(x, b).source
    # Sums up to 134, in single precision, in another order.
    np.testing.assert_allclose(jitted(x, b), fun(*map(fnp.asarray, (x, b))), rtol=1e-6, atol=1e-4)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="threads cannot be moved")
def test_helpers_keep_off_the_core_of_the_caller(monkeypatch):
    allowed = os.sched_getaffinity(0)
    if len(allowed) < 2 or pool.current_core() < 0:
        pytest.skip("there is one core")
    monkeypatch.setattr(pool, "pool", pool.Pool())
    seen = {}
    together = threading.Barrier(2, timeout=10)

    def work():
        together.wait()
        seen[threading.current_thread().name] = os.sched_getaffinity(0)

    core = min(allowed)
    os.sched_setaffinity(0, {core})
    try:
        pool.share(work, 2)
        assert seen["functensor-1"] == {core}  # there is no other
    finally:
        os.sched_setaffinity(0, allowed)
    pool.share(work, 2)
    assert seen["functensor-1"] == allowed - {pool.pool._caller}
    assert seen[threading.current_thread().name] == allowed
