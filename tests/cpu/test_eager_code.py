"""Large convolutions and pools of eager mode: what machine code computes is what NumPy does."""

import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.drawn_operands import laid_out
from support.long_forms import sized

import functensor as ft
import functensor.numpy as fnp
from functensor import nn
from functensor.backends import get as get_backend
from functensor.backends.cpu import eager_code, eager_ways
from functensor.backends.cpu.plan.codegen.called import unwrapped
from functensor.backends.cpu.plan.native import channel_pools, eager_convolutions
from functensor.backends.cpu.plan.native.channel_pools import WindowLoops
from functensor.backends.cpu.plan.threads import pool
from functensor.backends.kernels.check import check_kernel
from functensor.backends.kernels.interpret import interpret
from functensor.backends.native import c_library_flags, machine
from functensor.primitives import registry as ops
from functensor.primitives.contract.conv import Geometry
from functensor.primitives.core.registry import registry
from functensor.primitives.nn.pooling import Windows

needs_code = pytest.mark.skipif(not machine.compiles_here(), reason=machine.why_not())
KERNELS = get_backend("numpy").kernels


@pytest.fixture(autouse=True)
def begins_anew(monkeypatch):
    """Has machine code made of small work too, after the first call."""
    monkeypatch.setattr(eager_code, "kinds", {})
    monkeypatch.setattr(eager_code, "SECONDS_OVER_NUMPY", 0.0)
    monkeypatch.setattr(eager_code, "CALLS_OVER_NUMPY", 1)
    monkeypatch.setattr(eager_code, "CALLS_OF_EACH_WAY", 10**9)
    monkeypatch.setattr(eager_ways, "SMALLEST_WORK", 0)
    monkeypatch.setattr(eager_ways, "FEWEST_POOLED", 0)
    monkeypatch.setattr(channel_pools, "FEWEST_SHARED", 0)
    monkeypatch.setattr(pool.threads, "number", 2)
    with ft.config.using(benchmark=True):
        yield


def known():
    """Returns the kinds that were called, in order, once all that is to be made is there.

    Machine code computes them from now on.
    """
    found = [*eager_code.kinds.values()]
    for kind in found:
        assert kind.job is None or kind.job.wait(60)
        assert kind.job is None or kind.job.error is None, kind.job.error
        kind.settled = kind.settled or kind.code is not None
    return found


def compiled():
    """Returns the names of those that run as machine code."""
    return sorted({kind.name for kind in known() if kind.code is not None})


def eager(name, *operands, **params):
    """Computes a primitive as eager mode does."""
    return registry[name].impl(*operands, **params)


def normal(shape, dtype="f4", seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def channels_last(x):
    """Returns an array of the same values whose channels lie last in memory."""
    return np.moveaxis(np.ascontiguousarray(np.moveaxis(x, 1, -1)), -1, 1)


def close(got, wanted):
    """Asserts that results differ by rounding alone, and in no NaN and no infinity."""
    assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape)
    got, wanted = np.asarray(got), np.asarray(wanted)
    scale = np.abs(wanted).max(initial=1, where=np.isfinite(wanted))
    np.testing.assert_allclose(got, wanted, rtol=0, atol=128 * np.finfo(got.dtype).eps * scale)


def same(got, wanted):
    """Asserts that results have the same bits, and lie in memory in the same order."""
    got, wanted = np.asarray(got), np.asarray(wanted)
    assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape)
    assert np.argsort(got.strides).tolist() == np.argsort(wanted.strides).tolist()
    assert got.tobytes() == wanted.tobytes()


def check(function, *args, equal=close):
    """Asserts that a function has the same results by NumPy, and by machine code where it is."""
    with ft.config.using(deterministic=True):
        wanted = ft.tree.leaves(function(*args))
    assert not eager_code.kinds
    for _ in range(3):
        for got, right in zip(ft.tree.leaves(function(*args)), wanted, strict=True):
            equal(got, right)
        known()
    return compiled()


def of_convolution(x, w, **sizes):
    """Returns a convolution, its gradients and a product of its Hessian and a vector."""

    def loss(x, w):
        return fnp.sum(fnp.real(fnp.sin(nn.conv(x, w, **sizes))))

    grad = ft.grad(loss, argnums=(0, 1))
    return nn.conv(x, w, **sizes), grad(x, w), ft.jvp(grad, (x, w), (x, w))[1]


CONVOLUTIONS = {
    "square": ((3, 16, 9, 10), (24, 16, 3, 3), {}),
    "padded": ((3, 16, 9, 10), (16, 16, 3, 3), {"padding": 1}),
    "rows": ((3, 16, 20), (16, 16, 5), {"padding": 2}),
    "dilation": ((2, 16, 9, 14), (16, 16, 3, 3), {"dilation": (1, 2), "padding": 2}),
    "outputs beside a panel": ((2, 16, 6, 13), (21, 16, 3, 3), {}),
}
OF_CONVOLUTION = ["conv", "conv_input_grad", "conv_kernel_grad"]


@needs_code
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize(("shape", "kernel", "sizes"), CONVOLUTIONS.values(), ids=CONVOLUTIONS)
def test_convolutions_and_their_derivatives(shape, kernel, sizes, dtype):
    x, w = map(fnp.asarray, (normal(shape, dtype), normal(kernel, dtype)))
    assert check(lambda x, w: of_convolution(x, w, **sizes), x, w) == OF_CONVOLUTION


@needs_code
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize(("shape", "kernel", "sizes"), CONVOLUTIONS.values(), ids=CONVOLUTIONS)
def test_without_leave_convolutions_have_the_bits_of_numpy(shape, kernel, sizes, dtype):
    x, w = map(fnp.asarray, (normal(shape, dtype), normal(kernel, dtype)))
    with ft.config.using(benchmark=False):
        found = check(lambda x, w: of_convolution(x, w, **sizes), x, w, equal=same)
    assert {kind.name for kind in eager_code.kinds.values()} == {*OF_CONVOLUTION} >= {*found}


@needs_code
def test_a_trial_tells_whose_bits_machine_code_has(monkeypatch):
    (x, w), params = CALL
    types = [(v.shape, v.dtype) for v in (x, w, KERNELS["conv"](x, w, **params))]
    code = eager_convolutions.telling_convolution("conv", types, params)

    def other(*operands, **params):
        return np.nextafter(code(operands), np.float32(np.inf))

    def alike(x, w, **params):
        return code((x, w)) if w.flags.c_contiguous else other(x, w)

    fortran, gaps = np.asfortranarray(w), np.repeat(w, 2, 3)[..., ::2]
    with ft.config.using(benchmark=False):
        for kernel, results in ((other, [False] * 3), (alike, [True, False, False])):
            eager_code.kinds.clear()
            run = eager_code.by_machine_code("conv", kernel)
            for count, weights in enumerate((w, fortran, gaps), 1):
                for _ in range(2):
                    same(run(x, weights, **params), kernel(x, weights, **params))
                    assert [kind.code is not None for kind in known()] == results[:count]
        eager_code.kinds.clear()
        monkeypatch.setattr(eager_code, "LARGEST_TRIED_OPERAND", 100)
        eager_code.by_machine_code("conv", alike)(x, w, **params)
        assert compiled() == []


@needs_code
@pytest.mark.parametrize("layout", ["plain", "fortran", "strided", "read-only", "unaligned"])
def test_operands_that_lie_otherwise(layout):
    x, w = normal((3, 16, 9, 10)), normal((24, 16, 3, 3))
    geometry = Geometry((1, 1), ((0, 0), (0, 0)), (1, 1), 1)
    wanted = KERNELS["conv"](x, w, geometry=geometry)
    for _ in range(2):
        close(eager("conv", laid_out(x, layout), laid_out(w, layout), geometry=geometry), wanted)
        assert len(known()) == (layout != "unaligned")


@st.composite
def drawn_convolutions(draw):
    """Draws images, weights, and the sizes of a convolution."""
    rank = draw(st.integers(1, 2))
    groups = draw(st.sampled_from([1, 1, 1, 2]))
    kernel = [draw(st.integers(1, 3)) for _ in range(rank)]
    sizes = {
        "stride": tuple([draw(st.sampled_from([1, 1, 2])) for _ in range(rank)]),
        "dilation": tuple([draw(st.sampled_from([1, 1, 2])) for _ in range(rank)]),
        "padding": tuple([(draw(st.integers(0, 3)), draw(st.integers(0, 3))) for _ in kernel]),
        "groups": groups,
    }
    spatial = [draw(st.sampled_from([5, 6, 7, 9, 13, 20])) for _ in range(rank)]
    channels, outputs = draw(st.sampled_from([1, 2, 7, 8, 16, 24])), draw(st.integers(4, 20))
    dtypes = [draw(st.sampled_from(["f4", "f4", "f8", "f8", "c8"]))] * 2
    if draw(st.integers(0, 9)) == 0:
        dtypes[1] = "f8"
    shape = (draw(st.integers(0, 3)), channels * groups, *spatial)
    x = normal(shape, dtypes[0])
    return x, normal((outputs * groups, channels, *kernel), dtypes[1], 1), sizes


@needs_code
@settings(max_examples=sized(10, 60))
@given(drawn_convolutions())
def test_drawn_convolutions(drawn):
    x, w, sizes = drawn
    eager_code.kinds.clear()
    found = check(lambda x, w: of_convolution(x, w, **sizes), fnp.asarray(x), fnp.asarray(w))
    is_left = sizes["groups"] > 1 or x.dtype.kind == "c" or not x.size
    # Cotangents of a wider kernel's results have its dtype.
    taken = {"conv_input_grad"} if x.dtype != w.dtype else {*eager_ways.CONVOLUTIONS}
    assert taken.issuperset(found)
    assert not (found and is_left)


POOLS = {
    "tiles": ((3, 24, 8, 6), Windows((2, 2), (2, 2), ((0, 0), (0, 0)))),
    "a rest": ((2, 17, 7, 9), Windows((2, 3), (2, 3), ((0, 0), (0, 0)))),
    "apart": ((2, 16, 8, 9), Windows((2, 1), (3, 2), ((0, 0), (0, 0)))),
    "rows": ((2, 16, 13), Windows((4,), (4,), ((0, 0),))),
    "overlapping": ((2, 16, 8, 9), Windows((3, 3), (2, 2), ((0, 0), (0, 0)))),
}


def ties(shape, dtype, special):
    """Returns an array with many equal numbers; some are NaN, infinities and zeros."""
    rng = np.random.default_rng(3)
    x = rng.integers(-2, 3, shape).astype(dtype)
    if special:
        some = rng.random(shape) < 0.2
        x[some] = rng.choice([np.nan, np.inf, -np.inf, -0.0, 0.0], some.sum())
    return channels_last(x)


@needs_code
@pytest.mark.parametrize("special", [False, True])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize(("shape", "windows"), POOLS.values(), ids=POOLS)
def test_pools_have_the_bits_of_numpy(shape, windows, dtype, special):
    def pooled(x):
        winner = ops.max_pool_argmax.bind((x,), {"windows": windows})
        best = ops.max_pool.bind((x,), {"windows": windows})
        params = {"spatial": shape[2:], "windows": windows}
        back = ops.pool_scatter.bind((best, winner), params)
        plain = fnp.asarray(np.ascontiguousarray(best))
        return best, winner, back, ops.pool_scatter.bind((plain, winner), params)

    overlap = windows.stride < windows.window
    wanted = ["max_pool", "max_pool_argmax"] + ["pool_scatter"] * (not overlap)
    with np.errstate(all="raise"):
        assert check(pooled, fnp.asarray(ties(shape, dtype, special)), equal=same) == wanted


@needs_code
@pytest.mark.parametrize("layout", ["plain", "fortran", "channels last", "strided", "unaligned"])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_choices_between_elements_have_the_bits_of_numpy(monkeypatch, dtype, layout):
    monkeypatch.setattr(eager_ways.CHOSEN, "fewest", 0)
    x, y = normal((3, 16, 9, 10), dtype), normal((3, 16, 9, 10), dtype, 1)
    special = np.array([np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0], dtype)
    for i, a in enumerate((x, y)):
        a.flat[: 36 * 36] = np.resize(special if i else np.repeat(special, 6), 36 * 36)
    x, y = (channels_last(a) if layout == "channels last" else laid_out(a, layout) for a in (x, y))
    with ft.config.using(benchmark=False), np.errstate(all="raise"):
        for _ in range(3):
            same(eager("relu", y), KERNELS["relu"](y))
            same(eager("relu_grad", x, y), KERNELS["relu_grad"](x, y))
            found = compiled()
    is_flat = layout not in ("strided", "unaligned")
    assert found == (["relu", "relu_grad"] if is_flat else [])


@needs_code
def test_derivatives_of_pools():
    x = fnp.asarray(channels_last(normal((3, 16, 8, 10))))

    def loss(x):
        return fnp.sum(fnp.sin(nn.max_pool(x, 2)))

    def derivatives(x):
        grad = ft.grad(loss)
        return grad(x), ft.jvp(grad, (x,), (x,))[1], ft.vmap(grad)(x[None])

    found = check(derivatives, x, equal=lambda a, b: np.testing.assert_array_equal(a, b))
    assert found == ["max_pool", "max_pool_argmax", "pool_scatter"]


@needs_code
def test_tensors_train_by_it():
    import functensor.torch as torch

    x, w = normal((4, 16, 12, 12)), normal((16, 16, 3, 3))

    def gradients():
        model = torch.nn.Conv2d(16, 16, 3)
        with torch.no_grad():
            model.weight.copy_(torch.from_numpy(w))
            model.bias.zero_()
        y = torch.nn.functional.max_pool2d(model(torch.from_numpy(x)).relu(), 2)
        y.square().sum().backward()
        return model.weight.grad.numpy(), model.bias.grad.numpy()

    assert {"conv", "conv_kernel_grad", "max_pool", "max_pool_argmax"} <= {*check(gradients)}


LEFT_POOLS = {
    "padding": (channels_last(normal((2, 16, 8, 8))), {"padding": 1}),
    "channels first": (normal((2, 16, 8, 8)), {}),
    "float16": (channels_last(normal((2, 16, 8, 8), "f2")), {}),
    "few channels": (channels_last(normal((2, 4, 8, 8))), {}),
    "large windows": (channels_last(normal((2, 16, 20, 20))), {"window": 5}),
    "single elements": (channels_last(normal((2, 16, 8, 8))), {"window": 1}),
}


@pytest.mark.parametrize(("x", "sizes"), LEFT_POOLS.values(), ids=LEFT_POOLS)
def test_pools_that_stay_with_numpy(x, sizes):
    check(lambda x: nn.max_pool(x, **{"window": 2, **sizes}), fnp.asarray(x), equal=same)
    assert not eager_code.kinds


@pytest.mark.parametrize("name", eager_ways.CONVOLUTIONS + eager_ways.POOLS)
def test_small_work_and_plans_stay_with_numpy(monkeypatch, name):
    monkeypatch.undo()
    monkeypatch.setattr(eager_code, "kinds", {})
    x, w = normal((1, 16, 8, 8)), normal((16, 16, 3, 3))
    of_convolution(fnp.asarray(x), fnp.asarray(w))
    ft.grad(lambda x: fnp.sum(nn.max_pool(x, 2)))(fnp.asarray(channels_last(x)))
    assert not eager_code.kinds
    assert unwrapped(registry[name].impl) is KERNELS[name]


CALL = (
    (normal((3, 16, 9, 10)), normal((24, 16, 3, 3))),
    {"geometry": Geometry((1, 1), ((0, 0), (0, 0)), (1, 1), 1)},
)


def test_without_machine_code_numpy_computes_all(monkeypatch):
    monkeypatch.setenv("FUNCTENSOR_NATIVE", "0")
    operands, params = CALL
    for _ in range(2):
        same(eager("conv", *operands, **params), KERNELS["conv"](*operands, **params))
    (found,) = known()
    assert (found.code, found.settled, found.job) == (None, True, None)


@needs_code
@pytest.mark.parametrize("error", [machine.NotCompiled, ZeroDivisionError])
def test_what_cannot_be_compiled_stays_with_numpy(monkeypatch, error):
    def fail(kernel):
        raise error("no")

    monkeypatch.setattr(eager_convolutions, "telling_kernel", fail)
    operands, params = CALL
    wanted = KERNELS["conv"](*operands, **params)
    for _ in range(3):
        same(eager("conv", *operands, **params), wanted)
        (found,) = eager_code.kinds.values()
        assert found.job.wait(60)
        assert type(found.job.error) is error
        assert (found.code, found.settled) == (None, True)


@needs_code
def test_a_job_that_was_dropped_begins_again():
    operands, params = CALL
    eager("conv", *operands, **params)
    (found,) = known()
    # As in the child of a fork.
    found.code, found.settled, found.job.dropped = None, False, True
    first = found.job
    eager("conv", *operands, **params)
    assert found.job is not first
    assert compiled() == ["conv"]


def test_work_that_took_no_while_is_not_compiled(monkeypatch):
    monkeypatch.setattr(eager_code, "SECONDS_OVER_NUMPY", 10.0)
    operands, params = CALL
    for _ in range(2 * eager_code.CALLS_OVER_NUMPY):
        eager("conv", *operands, **params)
    (found,) = known()
    assert (found.code, found.settled, found.job) == (None, False, None)


@needs_code
def test_machine_code_is_made_after_some_calls(monkeypatch):
    monkeypatch.setattr(eager_code, "CALLS_OVER_NUMPY", 3)
    operands, params = CALL
    for made in (False, False, True):
        eager("conv", *operands, **params)
        assert (compiled() == ["conv"]) == made


def test_the_table_is_bounded(monkeypatch):
    monkeypatch.setattr(eager_code, "MOST_KNOWN_KINDS", 2)
    monkeypatch.setattr(eager_code, "SECONDS_OVER_NUMPY", 10.0)
    _, params = CALL
    for length in range(8, 13):
        eager("conv", normal((1, 16, 8, length)), normal((16, 16, 3, 3)), **params)
        assert len(eager_code.kinds) <= 2


def test_numbers_of_threads_tell_kinds_apart(monkeypatch):
    monkeypatch.setattr(eager_code, "SECONDS_OVER_NUMPY", 10.0)
    operands, params = CALL
    for number, wanted in ((1, 1), (2, 2), (1, 2)):
        monkeypatch.setattr(pool.threads, "number", number)
        eager("conv", *operands, **params)
        assert len(known()) == wanted


@needs_code
def test_several_threads():
    operands, params = CALL
    wanted = KERNELS["conv"](*operands, **params)
    eager("conv", *operands, **params)
    assert compiled() == ["conv"]
    failed, met = [], threading.Barrier(4)

    def work():
        met.wait(30)
        for _ in range(30):
            try:
                close(eager("conv", *operands, **params), wanted)
            except AssertionError as error:
                failed.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


@needs_code
def test_numpy_computes_again_what_it_might_warn_of():
    (x, w), params = CALL
    w = np.abs(w)
    large, calls = np.full_like(x, 1e38), []
    kernel = KERNELS["conv"]

    def noted(*operands, **params):
        calls.append(1)
        return kernel(*operands, **params)

    run = eager_code.by_machine_code("conv", noted)
    run(x, w, **params)
    assert compiled() == ["conv"]
    del calls[:]
    run(x, w, **params)
    assert not calls
    with np.errstate(all="ignore"):
        close(run(large, w, **params), kernel(large, w, **params))
    assert not calls
    with np.errstate(over="raise"), pytest.raises(FloatingPointError, match="overflow"):
        run(large, w, **params)
    assert calls == [1]
    quiet = x.copy()
    quiet[0, 0, 0, 0] = np.nan
    close(run(quiet, w, **params), kernel(quiet, w, **params))
    assert calls == [1]


def test_a_c_library_that_tells_nothing(monkeypatch):
    monkeypatch.setattr(c_library_flags, "c_function", lambda name: 0)
    with pytest.raises(machine.NotCompiled, match="does not tell"):
        eager_convolutions.telling_kernel(None)


@needs_code
@pytest.mark.parametrize("name", ["max_pool", "max_pool_argmax", "pool_scatter"])
@pytest.mark.parametrize(("shape", "windows"), [*POOLS.values()][:4], ids=[*POOLS][:4])
def test_kernels_of_pools_keep_the_rules_of_their_language(name, shape, windows):
    kernel = WindowLoops(name, shape, windows, np.dtype("f4"), np.dtype("i1")).kernel()
    check_kernel(kernel)
    rng = np.random.default_rng(0)
    given = [rng.integers(0, 4, b.shape).astype(b.dtype) for b in kernel.buffers[:-1]]
    out = np.zeros(kernel.buffers[-1].shape, kernel.buffers[-1].dtype)
    interpret(kernel, [*given, out])
    x = [np.moveaxis(v.reshape(shape[0], -1, shape[1]), -1, 1) for v in given]
    counts = [(n - k) // s + 1 for n, k, s in zip(shape[2:], windows.window, windows.stride)]
    spatial = counts if name == "pool_scatter" else shape[2:]
    params = {"spatial": shape[2:]} if name == "pool_scatter" else {}
    operands = [v.reshape(*shape[:2], *spatial) for v in x]
    wanted = KERNELS[name](*operands, windows=windows, **params)
    np.testing.assert_array_equal(out, np.moveaxis(wanted, 1, -1).ravel())
