"""Convolutions as machine code: the results of eager mode, whatever the sizes and the layouts."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.drawn_operands import laid_out
from support.long_forms import sized
from support.native import missing, run_compiled

import functensor as ft
import functensor.numpy as fnp
from functensor import nn
from functensor.backends.cpu import convolution as on_the_cpu
from functensor.backends.cpu.plan.native import convolution_runs, native_run
from functensor.backends.cpu.plan.native import convolutions as convolution_kernels
from functensor.backends.cpu.plan.native.convolutions import convolution_kernel
from functensor.backends.cpu.plan.native.kernel_gradients import kernel_gradient
from functensor.backends.cpu.plan.native.segments import Segment
from functensor.backends.cpu.plan.native.sliding import Sliding, part_length
from functensor.backends.cpu.plan.native.sliding_runs import NativeKernelGradient
from functensor.backends.kernels.check import check_kernel
from functensor.backends.kernels.interpret import interpret
from functensor.backends.native.machine import machine_code
from functensor.jitting.tiers import native_plan

pytestmark = [
    pytest.mark.skipif(bool(missing), reason=missing),
    pytest.mark.filterwarnings("ignore::functensor.jitting.retraces.RetraceWarning"),
]


def arrays(shape, kernel, dtype="f4", seed=0):
    """Returns images and weights."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=shape).astype(dtype), rng.normal(size=kernel).astype(dtype)


def convolutions(call, *args):
    """Returns how many convolutions of a function are kernels, and how many are not."""
    plan = native_plan(ft.jit(call).lower(*args).program, ())
    lines = plan.source if plan is not None else ft.jit(call).lower(*args).source
    left = sum(
        lines.count(f"= {name}(") for name in ("conv", "conv_input_grad", "conv_kernel_grad")
    )
    return lines.count("= convolution_"), left


def close(got, wanted):
    """Asserts that results differ by rounding alone, and in no NaN and no infinity."""
    assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape)
    got, wanted = np.asarray(got), np.asarray(wanted)
    scale = np.abs(wanted).max(initial=1, where=np.isfinite(wanted))
    np.testing.assert_allclose(got, wanted, rtol=0, atol=64 * np.finfo(got.dtype).eps * scale)


def check(x, w, layouts=("plain",), **sizes):
    """Asserts that a convolution and its derivatives are those of eager mode."""

    def call(x, w):
        return nn.conv(x, w, **sizes)

    def loss(x, w):
        return fnp.sum(fnp.sin(call(fnp.tanh(x), w)))

    grads = ft.grad(loss, argnums=(0, 1))
    for function in (call, grads):
        with ft.config.using(check_programs=True):
            jitted = ft.jit(function).compile(x, w)
        assert "failed" not in jitted.explain(), jitted.explain()
        wanted = ft.tree.leaves(function(fnp.asarray(x), fnp.asarray(w)))
        for layout in layouts:
            found = ft.tree.leaves(jitted(laid_out(x, layout), laid_out(w, layout)))
            for got, right in zip(found, wanted, strict=True):
                close(got, right)
    return call, grads


SHAPES = {
    "square": ((2, 8, 9, 10), (16, 8, 3, 3), {}),
    "few channels": ((2, 3, 9, 10), (16, 3, 3, 3), {}),
    "one channel": ((3, 1, 9, 10), (16, 1, 3, 3), {}),
    "padded": ((2, 8, 9, 10), (16, 8, 3, 3), {"padding": 1}),
    "padded at one side": ((2, 8, 5, 6), (16, 8, 3, 2), {"padding": ((0, 2), (1, 0))}),
    "few padded channels": ((2, 3, 9, 10), (16, 3, 3, 3), {"padding": "SAME"}),
    "a single image": ((1, 8, 9, 10), (16, 8, 3, 3), {"padding": 1}),
    "outputs beside a panel": ((2, 8, 6, 6), (21, 8, 3, 3), {}),
    "places of two lengths": ((2, 8, 6, 13), (16, 8, 3, 3), {}),
    "strides": ((2, 8, 9, 14), (16, 8, 3, 3), {"stride": (1, 2)}),
    "dilation": ((2, 8, 9, 14), (16, 8, 3, 3), {"dilation": (1, 2), "padding": 2}),
    "many terms": ((2, 48, 6, 6), (16, 48, 3, 3), {}),
    "places without equal parts": ((1, 4, 2, 133), (16, 4, 1, 3), {}),
    "single elements": ((2, 100, 6, 6), (16, 100, 1, 1), {}),
    "rows": ((2, 8, 20), (16, 8, 5), {"padding": 2}),
}


@pytest.mark.parametrize(("shape", "kernel", "sizes"), SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_convolutions(shape, kernel, sizes, dtype):
    x, w = arrays(shape, kernel, dtype)
    call, _ = check(x, w, ("plain", "fortran", "strided"), **sizes)
    assert convolutions(call, x, w) == (1, 0)


def test_derivatives_are_kernels_too():
    x, w = arrays((2, 16, 9, 10), (16, 16, 3, 3))
    _, grads = check(x, w, padding=1)
    assert convolutions(grads, x, w) == (3, 0)


def test_derivatives_of_many_images_are_sums_of_blocks(monkeypatch):
    monkeypatch.setattr(on_the_cpu, "SMALLEST_WORK_TO_SHARE", 1)
    x, w = arrays((9, 16, 12, 13), (16, 16, 3, 3))
    _, grads = check(x, w)
    plan = native_plan(ft.jit(grads).lower(x, w).program, ())
    runs = [run for name, run in plan._scope.items() if name.startswith("convolution_")]
    of_kernel = [run for run in runs if isinstance(run, NativeKernelGradient)]
    # The sums of all blocks take no more memory than the operands.
    assert [len(run.blocks) for run in of_kernel] == [8]


LEFT_OF_DERIVATIVES = {
    "large sums": ((1, 64, 6, 6), (128, 64, 3, 3)),
    "few neighbours": ((2, 1, 8, 8), (16, 1, 2, 2)),
    "long rows": ((1, 4, 2, 260), (16, 4, 1, 3)),
    "no windows": ((2, 8, 6, 6), (16, 8, 1, 1)),
}


@pytest.mark.parametrize(("shape", "kernel"), LEFT_OF_DERIVATIVES.values(), ids=LEFT_OF_DERIVATIVES)
def test_derivatives_in_kernels_that_stay_with_numpy(shape, kernel):
    x, w = arrays(shape, kernel)
    _, grads = check(x, w)
    source = native_plan(ft.jit(grads).lower(x, w).program, ()).source
    assert "= conv_kernel_grad(" in source


def test_neighbours_hand_over_their_channels_last():
    x, w = arrays((2, 16, 12, 12), (16, 16, 3, 3))
    jitted = ft.jit(lambda x: nn.conv(nn.relu(nn.conv(x, w)), w)).compile(x)
    run = jitted._last.compiled.run._scope["convolution_1"]
    given = []

    class Noted(type(run)):
        def __call__(self, x, w):
            given.append(x.transpose(self.axes).flags.c_contiguous)
            return super().__call__(x, w)

    run.__class__ = Noted
    close(jitted(x), nn.conv(nn.relu(nn.conv(fnp.asarray(x), w)), w))
    assert given == [True]


def test_layers_of_a_kind_have_the_same_code(monkeypatch):
    made = []

    def noted(text, names):
        made.append(names)
        return machine_code(text, names)

    monkeypatch.setattr(native_run, "machine_code", noted)
    x, w = arrays((2, 16, 9, 10), (16, 16, 3, 3))

    def call(x):
        for _ in range(4):
            x = nn.conv(nn.relu(x), w, padding=1)
        return x

    jitted = ft.jit(call).compile(x)
    close(jitted(x), call(fnp.asarray(x)))
    assert [[name.partition("_")[0] for name in names] for names in made] == [["blocks", "windows"]]


LEFT = {
    "groups": ((2, 32, 6, 6), (32, 16, 3, 3), {"groups": 2}),
    "few outputs": ((2, 8, 6, 6), (4, 8, 3, 3), {}),
    "narrow results": ((2, 8, 6, 5), (16, 8, 3, 3), {}),
    "three spatial axes": ((2, 8, 5, 5, 6), (16, 8, 2, 2, 2), {}),
    "many terms": ((1, 512, 6, 6), (16, 512, 3, 3), {}),
    "terms without equal parts": ((2, 131, 6, 6), (16, 131, 1, 1), {}),
    "many weights for few places": ((1, 128, 4, 6), (256, 128, 2, 3), {}),
    "nothing": ((0, 8, 6, 6), (16, 8, 3, 3), {}),
    "other numbers": ((2, 8, 6, 6), (16, 8, 3, 3), {"dtype": "c8"}),
}


@pytest.mark.parametrize(("shape", "kernel", "sizes"), LEFT.values(), ids=LEFT)
def test_what_stays_with_numpy(shape, kernel, sizes):
    dtype = sizes.pop("dtype", "f4")
    x, w = arrays(shape, kernel, dtype)
    assert convolutions(lambda x, w: nn.conv(x, w, **sizes), x, w) == (0, 1)
    close(
        ft.jit(nn.conv, static_argnames=tuple(sizes)).compile(x, w, **sizes)(x, w, **sizes),
        nn.conv(fnp.asarray(x), fnp.asarray(w), **sizes),
    )


def test_strided_derivatives_stay_with_numpy():
    x, w = arrays((2, 16, 12, 12), (16, 16, 3, 3))
    _, grads = check(x, w, stride=2)
    assert convolutions(grads, x, w) == (2, 1)


def test_special_values():
    x, w = arrays((2, 16, 8, 8), (16, 16, 3, 3))
    x[0, 3, 4, 5], x[1, 2, 0, 0] = np.inf, np.nan
    with np.errstate(all="ignore"):
        check(x, w, padding=1)
        w[3, 2, 0, 0], w[5, 1, 2, 2] = np.inf, np.nan
        # Zeros around g meet no weight in eager mode, except along the last axis.
        check(x, w)
        check(x, w, padding=1)


def test_weights_without_room_in_the_cache(monkeypatch):
    monkeypatch.setattr(convolution_kernels, "LARGEST_CACHED_WEIGHTS", 0)
    x, w = arrays((2, 8, 9, 10), (40, 8, 3, 3))
    check(x, w, padding=1)


@pytest.mark.parametrize("images", [1, 5])
def test_blocks(monkeypatch, images):
    monkeypatch.setattr(convolution_runs, "SMALLEST_WORK_TO_SHARE", 1)
    x, w = arrays((images, 8, 9, 10), (16, 8, 3, 3))
    call, _ = check(x, w, padding=1)
    plan = native_plan(ft.jit(call).lower(x, w).program, ())
    assert len(plan._scope["convolution_0"].blocks) == (4 if images == 1 else 5)


def test_parts_of_sums():
    assert [part_length(n) for n in (1, 128, 192, 131, 288)] == [1, 128, 96, 131, 96]


SLIDINGS = {
    "strides and dilation": Sliding(
        np.dtype("f4"), 2, 6, 21, (5, 9), (3, 3), (2, 1), (1, 2), ((1, 1), (2, 0))
    ),
    "few channels": Sliding(
        np.dtype("f8"), 2, 3, 9, (6, 9), (3, 3), (1, 1), (1, 1), ((0, 0), (1, 1))
    ),
    "a single image": Sliding(
        np.dtype("f4"), 1, 100, 16, (3, 6), (1, 1), (1, 1), (1, 1), ((0, 0), (0, 0))
    ),
}
WIDE = {
    "outputs beside two registers": Sliding(
        np.dtype("f4"), 2, 5, 43, (3, 16), (3, 3), (1, 1), (1, 1), ((1, 1), (2, 0)), wide=True
    ),
    "one register": Sliding(
        np.dtype("f8"), 2, 4, 9, (3, 27), (3, 3), (1, 1), (1, 1), ((0, 0), (1, 1)), wide=True
    ),
}
SLIDINGS |= WIDE


@pytest.mark.parametrize("sliding", SLIDINGS.values(), ids=SLIDINGS)
def test_kernels_keep_the_rules_of_their_language(sliding):
    kernel = convolution_kernel("windows", sliding)
    check_kernel(kernel)
    x, w, out = (arrays(b.shape, 1, b.dtype)[0] for b in kernel.buffers)
    found = np.full_like(out, np.nan)
    interpret(kernel, [x, w, out])
    rows = sliding.images if sliding.images > 1 else sliding.places[0]
    run_compiled(kernel, [x, w, found], [(0, 0, 1), (1, 1, rows)])
    np.testing.assert_array_equal(found, out)


@pytest.mark.parametrize("sliding", SLIDINGS.values(), ids=SLIDINGS)
def test_kernels_of_derivatives_keep_the_rules(sliding):
    kernel = kernel_gradient("windows", sliding)
    check_kernel(kernel)
    (x, g), part = (arrays(b.shape, 1, b.dtype)[0] for b in kernel.buffers[:2]), kernel.buffers[2]
    out = np.zeros((2, part.shape[1]), part.dtype)
    found = np.full_like(out, np.nan)
    blocks = [(0, 0, 1), (1, 1, sliding.images)]
    for block in blocks:
        interpret(kernel, [x, g, out], *block)
    run_compiled(kernel, [x, g, found], blocks)
    np.testing.assert_array_equal(found, out)


def bits_of(make, sliding, arrays):
    """Returns what a kernel computes of arrays, as its bytes."""
    kernel = make("windows", sliding)
    out = kernel.buffers[2]
    shape = (1, out.shape[1]) if out.role == "part" else out.shape
    found = np.full(shape, np.nan, out.dtype)
    run_compiled(kernel, [*arrays, found], [(0, 0, sliding.images)])
    return found.tobytes()


@pytest.mark.parametrize("sliding", WIDE.values(), ids=WIDE)
def test_wide_registers_change_no_bit(sliding):
    narrow = sliding._replace(wide=False)
    assert (narrow.sums, narrow.lanes) == (6, 64 // sliding.dtype.itemsize)
    assert sliding.sums > 6
    assert sliding.lanes == (32 if sliding.outputs > 32 else narrow.lanes)
    x, g = (arrays(b.shape, 1, b.dtype)[0] for b in kernel_gradient("windows", narrow).buffers[:2])
    assert bits_of(kernel_gradient, sliding, [x, g]) == bits_of(kernel_gradient, narrow, [x, g])
    taps = arrays((sliding.terms, sliding.outputs), 1, sliding.dtype)[0]
    found = []
    for each in (sliding, narrow):
        panels = [
            taps[:, begin + i * lanes : begin + (i + 1) * lanes].ravel()
            for count, begin, lanes in each.panels
            for i in range(count)
        ]
        found.append(bits_of(convolution_kernel, each, [x, np.concatenate(panels)]))
    assert found[0] == found[1]


@st.composite
def drawn_convolutions(draw):
    """Draws images, weights, and the sizes of a convolution."""
    rank = draw(st.integers(1, 2))
    kernel = [draw(st.integers(1, 3)) for _ in range(rank)]
    sizes = {
        "stride": tuple([draw(st.sampled_from([1, 1, 2])) for _ in range(rank)]),
        "dilation": tuple([draw(st.sampled_from([1, 1, 2])) for _ in range(rank)]),
        "padding": tuple([(draw(st.integers(0, 3)), draw(st.integers(0, 3))) for _ in kernel]),
    }
    spatial = [draw(st.sampled_from([5, 6, 7, 9, 13, 20])) for _ in range(rank)]
    channels, outputs = draw(st.sampled_from([1, 2, 7, 8, 16, 24])), draw(st.integers(8, 40))
    dtype = draw(st.sampled_from(["f4", "f8"]))
    shape = (draw(st.integers(1, 3)), channels, *spatial)
    return *arrays(shape, (outputs, channels, *kernel), dtype), sizes


@settings(max_examples=sized(15, 80))
@given(drawn_convolutions())
def test_drawn_convolutions(drawn):
    x, w, sizes = drawn
    check(x, w, **sizes)


def test_segments_take_no_array_that_would_be_copied(monkeypatch):
    """What convolutions leave lies in another order, which a segment would copy in each call."""
    x, w = arrays((2, 16, 8, 8), (16, 16, 3, 3))
    v = arrays((16 * 9, 10), (1,))[0] / 100

    def loss(params, x):
        w, b, v = params
        y = nn.max_pool(nn.relu(nn.conv(x, w) + b[:, None, None]), 2)
        return fnp.sum(fnp.sin(y.reshape(len(x), -1) @ v))

    def step(params, x):
        return ft.tree.map(lambda p, g: p - 0.1 * g, params, ft.grad(loss)(params, x))

    params = [w, np.ones(16, "f4"), v]
    assert "segment_0(" in native_plan(ft.jit(step).lower(params, x).program, ()).source

    def refused(self, *arrays):
        raise AssertionError("it was copied")

    monkeypatch.setattr(Segment, "again", refused)
    jitted = ft.jit(step).compile(params, x)
    for got, right in zip(jitted(params, x), step([fnp.asarray(p) for p in params], x)):
        close(got, right)
