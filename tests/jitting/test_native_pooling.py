"""Pooling as machine code: every window, padding and dtype has the bits of eager mode."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.drawn_operands import laid_out, values_of
from support.long_forms import sized
from support.native import missing

import functensor as ft
import functensor.numpy as fnp
from functensor import nn
from functensor.backends.cpu.plan.native import native_run, segment_code, windows
from functensor.jitting.tiers import native_program
from functensor.primitives.nn.pooling import max_pool_argmax

pytestmark = [
    pytest.mark.skipif(bool(missing), reason=missing),
    pytest.mark.filterwarnings("ignore::functensor.jitting.retraces.RetraceWarning"),
]


def winners(x, window, stride=None, padding=0):
    """Returns which element of every window is the largest."""
    return max_pool_argmax(x, window, stride=stride, padding=padding)


def names_left(call, *args):
    """Returns the names of the equations that are no kernels."""
    equations = native_program(ft.jit(call).lower(*args).program).equations
    return {e.primitive.name for e in equations} - {"fused"}


def compiled(call, *args):
    """Returns a jitted function whose machine code for some arguments is there."""
    with ft.config.using(check_programs=True):
        jitted = ft.jit(call).compile(*args)
    assert "as machine code" in jitted.explain(), jitted.explain()
    return jitted


def check(call, *args, left=(), exact=True):
    """Asserts that machine code pools what eager mode does, of arrays of every layout too."""
    assert names_left(call, *args) == set(left)
    jitted = compiled(call, *args)
    wanted = ft.tree.leaves(call(*map(fnp.asarray, args)))
    for layout in ("plain", "fortran", "strided"):
        found = ft.tree.leaves(jitted(*[laid_out(x, layout) for x in args]))
        for got, right in zip(found, wanted, strict=True):
            assert got.dtype == right.dtype
            got, right = np.asarray(got), np.asarray(right)
            if exact:
                np.testing.assert_array_equal(got, right)
            else:
                np.testing.assert_allclose(got, right, rtol=1e-5, atol=1e-6)
            if exact and got.dtype.kind == "f":
                zeros = right == 0
                np.testing.assert_array_equal(np.signbit(got[zeros]), np.signbit(right[zeros]))


X = np.random.default_rng(0).normal(size=(2, 3, 9, 14))
WINDOWS = {
    "pairs": (2,),
    "two lengths": ((3, 2),),
    "that overlap": (3, 1),
    "that lie apart": (2, 3),
    "padded": (3, 2, 1),
    "padded at one side": ((3, 2), (2, 2), ((0, 2), (1, 0))),
    "padded along the first axis": ((3, 3), 1, ((1, 1), (0, 0))),
    "as long as an axis": ((9, 1), 1),
    "one of each image": ((4, 4), (9, 14)),
}


@pytest.mark.parametrize("given", WINDOWS.values(), ids=WINDOWS)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_windows(given, dtype):
    def call(x):
        return nn.max_pool(x, *given), nn.avg_pool(x, *given), winners(x, *given)

    check(call, X.astype(dtype))


@pytest.mark.parametrize("dtype", ["i1", "i4", "u2", "u8", "?"])
def test_maxima_of_other_dtypes(dtype):
    x = values_of((2, 2, 8, 11), dtype, True, 3)
    check(lambda x: (nn.max_pool(x, 3, 2, 1), winners(x, 2)), x)


@pytest.mark.parametrize("shape", [(2, 3, 10), (1, 2, 4, 5, 6), (1, 2, 2, 2), (3, 1, 2)])
def test_one_to_three_spatial_axes(shape):
    x = np.random.default_rng(1).normal(size=shape)
    check(lambda x: (nn.max_pool(x, 2), nn.avg_pool(x, 2), winners(x, 2)), x)


def test_special_values():
    x = np.random.default_rng(2).choice([0.0, -0.0, 1, np.nan, np.inf, -np.inf], (2, 3, 8, 12))

    def call(x):
        return nn.max_pool(x, 2), nn.max_pool(x, 3, 2, 1), winners(x, 2), nn.avg_pool(x, 2)

    with np.errstate(all="ignore"):
        check(call, x)


def test_work_around_a_pool_is_with_it():
    def call(x, w):
        return fnp.sum(nn.relu(nn.max_pool(x * 2, 2) - w), axis=(2, 3))

    check(call, X[..., :8, :], np.ones((3, 1, 1)), exact=False)
    program = native_program(ft.jit(call).lower(X[..., :8, :], np.ones((3, 1, 1))).program)
    # The array is complete before its windows are pooled.
    assert len(program.equations) == 2


def test_derivatives_and_batches():
    x = X.astype("f4")

    def loss(x):
        return fnp.sum(nn.max_pool(x, 2) ** 2) + fnp.sum(fnp.sin(nn.avg_pool(x, (3, 2))))

    check(ft.grad(loss), x, left=["pool_scatter", "avg_pool_grad"], exact=False)
    check(lambda x, t: ft.jvp(loss, (x,), (t,)), x, -x, left=["add"], exact=False)
    check(ft.vmap(lambda x: nn.max_pool(x, 2)), np.stack([x, -x]), left=["reshape"])


def test_blocks(monkeypatch):
    for module in (native_run, segment_code):
        monkeypatch.setattr(module, "SMALLEST_EFFORT_TO_SHARE", 50)
    check(lambda x: (nn.max_pool(x, 2), nn.avg_pool(x, 3, 2, 1)), X)


LEFT = {
    "long windows": (lambda x: nn.max_pool(x, 5), "max_pool"),
    "short padded rows": (lambda x: nn.max_pool(x, 3, 1, 1), "max_pool"),
    "means without the padding": (
        lambda x: nn.avg_pool(x, 3, 2, 1, count_include_pad=False),
        "avg_pool",
    ),
    "float16": (lambda x: nn.max_pool(x.astype("f2"), 2), "max_pool"),
    "few channels that a convolution has left": (
        lambda x: nn.max_pool(nn.relu(nn.conv(x, np.ones((4, 3, 3, 3)))), 2),
        "max_pool",
    ),
    "a single image of a convolution": (
        lambda x: nn.max_pool(nn.relu(nn.conv(x[:1], np.ones((16, 3, 3, 3)))), 2),
        "max_pool",
    ),
}


@pytest.mark.parametrize(("call", "name"), LEFT.values(), ids=LEFT)
def test_what_stays_with_numpy(call, name):
    assert name in names_left(call, X)
    jitted = ft.jit(call).compile(X)
    assert "failed" not in jitted.explain()
    np.testing.assert_allclose(jitted(X), call(X), rtol=1e-6, atol=1e-6)


def test_large_arrays_of_elements_that_lie_apart(monkeypatch):
    assert not names_left(lambda x: nn.max_pool(x, 3), X)
    monkeypatch.setattr(windows, "MOST_STRIDED_ELEMENTS", X.size - 1)
    assert names_left(lambda x: nn.max_pool(x, 3), X) == {"max_pool"}


@st.composite
def pools(draw):
    """Draws an array and windows."""
    rank = draw(st.integers(1, 2))
    spatial = [draw(st.sampled_from([2, 3, 5, 8, 17, 33, 130])) for _ in range(rank)]
    window = [draw(st.integers(1, min(n, 4))) for n in spatial]
    stride = [draw(st.integers(1, 4)) for _ in range(rank)]
    padding = [(draw(st.integers(0, (k - 1))), draw(st.integers(0, k - 1))) for k in window]
    shape = (draw(st.integers(1, 3)), draw(st.integers(1, 3)), *spatial)
    x = values_of(shape, draw(st.sampled_from(["f4", "f8", "i4", "u1", "?"])), True, 5)
    return x, (tuple(window), tuple(stride), tuple(padding))


@settings(max_examples=sized(25, 120))
@given(pools())
def test_drawn_pools(drawn):
    x, given = drawn

    def call(x):
        return nn.max_pool(x, *given), winners(x, *given), nn.avg_pool(x, *given)

    jitted = ft.jit(call).compile(x)
    assert "failed" not in jitted.explain(), jitted.explain()
    with np.errstate(all="ignore"):
        for got, right in zip(jitted(x), call(fnp.asarray(x)), strict=True):
            np.testing.assert_array_equal(np.asarray(got), np.asarray(right))
