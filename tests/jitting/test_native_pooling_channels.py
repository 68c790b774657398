"""Pools and their derivatives behind convolutions, whose channels lie last: eager mode's bits."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.drawn_operands import values_of
from support.long_forms import sized
from support.native import missing

import functensor as ft
import functensor.numpy as fnp
from functensor import nn
from functensor.backends.cpu.plan.native import native_run, spreads
from functensor.backends.kernels.graph import ExprGraph
from functensor.backends.kernels.interpret import interpret
from functensor.backends.kernels.schedule import KernelResult, scheduled
from functensor.jitting.tiers import native_program
from functensor.primitives.nn.pooling import (
    avg_pool_grad,
    max_pool_argmax,
    pool_scatter,
    pool_take,
)

pytestmark = [
    pytest.mark.skipif(bool(missing), reason=missing),
    pytest.mark.filterwarnings("ignore::functensor.jitting.retraces.RetraceWarning"),
]
CHANNELS = 8
# With groups it is none of the convolutions that are kernels.
IDENTITY = "conv"


def left_by_a_convolution(x):
    """Returns the same numbers, with the channels last in memory."""
    return nn.conv(x, np.ones((x.shape[1], 1, *(1,) * (x.ndim - 2)), x.dtype), groups=x.shape[1])


def kernels_and_rest(call, *args):
    """Returns how many kernels a function has, and the names of all else."""
    names = [e.primitive.name for e in native_program(ft.jit(call).lower(*args).program).equations]
    return names.count("fused"), {*names} - {"fused"}


def check(call, *args, left=(IDENTITY,)):
    """Asserts that machine code has the bits of eager mode, the signs of zeros too."""
    assert kernels_and_rest(call, *args)[1] == set(left)
    with ft.config.using(check_programs=True):
        jitted = ft.jit(call).compile(*args)
    assert "as machine code" in jitted.explain(), jitted.explain()
    found = ft.tree.leaves(jitted(*args))
    for got, right in zip(found, ft.tree.leaves(call(*map(fnp.asarray, args))), strict=True):
        assert got.dtype == right.dtype
        got, right = np.asarray(got), np.asarray(right)
        np.testing.assert_array_equal(got, right)
        if got.dtype.kind == "f":
            zeros = right == 0
            np.testing.assert_array_equal(np.signbit(got[zeros]), np.signbit(right[zeros]))


def pools(*windows):
    """Returns a function of pools; the largest elements are not unique."""

    def call(x):
        x = left_by_a_convolution(x)
        return (
            nn.max_pool(x, *windows),
            max_pool_argmax(x, **named(windows)),
            nn.avg_pool(x, *windows),
        )

    return call


def derivatives(*windows):
    """Returns a function of the derivatives of pools, of values for windows."""
    given = named(windows)

    def call(x, g):
        x = left_by_a_convolution(x)
        winner = max_pool_argmax(x, **given)
        spatial = x.shape[2:]
        return (
            pool_scatter(g, winner, spatial=spatial, **given),
            pool_take(x, winner, **given),
            avg_pool_grad(left_by_a_convolution(g), spatial=spatial, **given),
        )

    return call


def named(windows):
    """Returns windows as parameters with names."""
    return dict(zip(("window", "stride", "padding"), windows))


def values_for(x, windows, dtype):
    """Returns values for all windows of an array, zeros of both signs among them."""
    shape = nn.max_pool(x, *windows).shape
    return np.random.default_rng(4).choice([0.0, -0.0, 1.5, -2, 0.25, 7], shape).astype(dtype)


WINDOWS = {
    "pairs": (2,),
    "two lengths": ((3, 2),),
    "that overlap": (3, 1),
    "that overlap along one axis": ((2, 3), (2, 2)),
    "that lie apart": (2, 3),
    "padded": (3, 2, 1),
    "padded at one side": ((3, 2), (2, 2), ((0, 2), (1, 0))),
    "short and padded": (3, 1, 1),
    "of which some elements are in none": ((2, 3), (4, 5)),
}


@pytest.mark.parametrize("windows", WINDOWS.values(), ids=WINDOWS)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_windows(windows, dtype):
    x = np.random.default_rng(0).integers(-3, 4, (2, CHANNELS, 9, 14)).astype(dtype)
    call = pools(*windows)
    check(call, x)
    assert kernels_and_rest(call, x)[0] == 1
    check(derivatives(*windows), x, values_for(x, windows, dtype))


@pytest.mark.parametrize("shape", [(2, 8, 10), (3, 9, 4, 5, 6)])
def test_one_and_three_spatial_axes(shape):
    x = np.random.default_rng(1).integers(-3, 4, shape).astype("f8")
    check(pools(2), x)
    check(derivatives(2, 1), x, values_for(x, (2, 1), "f8"))


def test_special_values():
    x = np.random.default_rng(2).choice([0.0, -0.0, 1, np.nan, np.inf, -np.inf], (2, 8, 8, 12))
    for windows in [(2,), (3, 2, 1)]:
        g = np.random.default_rng(3).permuted(nn.max_pool(x, *windows))
        with np.errstate(all="ignore"):
            check(pools(*windows), x)
            check(derivatives(*windows), x, g)


def test_a_step_of_training_has_a_kernel_for_each_pass():
    """What comes behind the pool's derivative is with it: that of relu, and a bias's."""
    rng = np.random.default_rng(5)
    x, w, b = rng.normal(size=(2, 3, 10, 10)), rng.normal(size=(16, 3, 3, 3)), rng.normal(size=16)

    def loss(w, b, x):
        y = nn.relu(nn.conv(x, w) + b.reshape(-1, 1, 1))
        return fnp.sum(fnp.sin(nn.max_pool(y, 2)))

    grads = ft.grad(loss, argnums=(0, 1))
    kernels, rest = kernels_and_rest(grads, w, b, x)
    # The bias and relu; both results of the pool; cos; what goes back, and its sum.
    assert (kernels, rest) == (3, {"conv", "conv_kernel_grad"})
    jitted = ft.jit(grads).compile(w, b, x)
    for got, right in zip(jitted(w, b, x), grads(w, b, x)):
        np.testing.assert_allclose(np.asarray(got), np.asarray(right), rtol=1e-9, atol=1e-9)


def test_blocks(monkeypatch):
    monkeypatch.setattr(native_run, "SMALLEST_EFFORT_TO_SHARE", 50)
    x = np.random.default_rng(6).integers(-3, 4, (5, CHANNELS, 9, 14)).astype("f4")
    check(pools(3, 2, 1), x)
    check(derivatives(3, 2, 1), x, values_for(x, (3, 2, 1), "f4"))


LEFT = {
    "few channels": (2, 4, 8, 8),
    "a single image": (1, 8, 8, 8),
    "an axis of a single place": (2, 8, 2, 8),
}


@pytest.mark.parametrize("shape", LEFT.values(), ids=LEFT)
def test_what_stays_with_numpy(shape):
    x = np.random.default_rng(7).normal(size=shape)
    left = {IDENTITY, "max_pool_argmax", "pool_scatter", "pool_take", "avg_pool_grad"}
    call = derivatives(2)
    assert kernels_and_rest(call, x, values_for(x, (2,), "f8"))[1] == left


def test_axes_that_are_too_long_to_be_divided():
    assert spreads.is_short_enough(1 << 20, 4)
    assert not spreads.is_short_enough(1 << 15, 3)
    x = np.zeros((2, 8, 22000), "f4")
    _, rest = kernels_and_rest(derivatives(3), x, values_for(x, (3,), "f4"))
    assert {"avg_pool_grad", "pool_scatter"} <= rest


@pytest.mark.parametrize("divisor", [1, 2, 3, 5, 7, 8, 13])
def test_quotients(divisor):
    """All places of axes that are short enough are divided exactly."""
    length = (1 << spreads.QUOTIENT_BITS) // divisor - 1
    assert spreads.is_short_enough(length, divisor)
    graph = ExprGraph([length])
    node = spreads.floor_of_quotient(graph.place(0), divisor)
    result = np.zeros(length, np.int32)
    interpret(scheduled("divided", graph, [], [KernelResult(node, frozenset([0]))]), [result])
    np.testing.assert_array_equal(result, np.arange(length) // divisor)


@st.composite
def drawn_pools(draw):
    """Draws an array and windows."""
    rank = draw(st.integers(1, 2))
    spatial = [draw(st.sampled_from([2, 3, 5, 8, 17])) for _ in range(rank)]
    window = [draw(st.integers(1, min(n, 4))) for n in spatial]
    stride = [draw(st.integers(1, 5)) for _ in range(rank)]
    padding = [(draw(st.integers(0, k - 1)), draw(st.integers(0, k - 1))) for k in window]
    shape = (draw(st.integers(1, 3)), draw(st.sampled_from([1, 8, 9, 16])), *spatial)
    x = values_of(shape, draw(st.sampled_from(["f4", "f8"])), True, 5)
    return x, (tuple(window), tuple(stride), tuple(padding))


@settings(max_examples=sized(25, 300))
@given(drawn_pools())
def test_drawn_pools(drawn):
    x, windows = drawn
    g = values_for(x, windows, x.dtype)
    for call, args in [(pools(*windows), (x,)), (derivatives(*windows), (x, g))]:
        jitted = ft.jit(call).compile(*args)
        assert "failed" not in jitted.explain(), jitted.explain()
        with np.errstate(all="ignore"):
            wanted = call(*map(fnp.asarray, args))
        for got, right in zip(jitted(*args), wanted, strict=True):
            np.testing.assert_array_equal(np.asarray(got), np.asarray(right))
