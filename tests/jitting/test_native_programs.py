"""Programs that Hypothesis draws give as machine code what they give eagerly.

Values are as close as rounding allows, which is followed through every step; derivatives are as
exact as eager ones. By default few programs are drawn; with ``FUNCTENSOR_LONG_TESTS=1`` 600, and
100 derivatives.
"""

from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from support.drawn_operands import operands
from support.long_forms import sized
from support.native import missing
from support.native_programs import drawn_program, followed, numbers_of_steps
from support.rounding_bounds import assert_within

import functensor as ft
import functensor.numpy as fnp
from functensor import nn
from functensor.backends.cpu.plan.native import native_run, segment_code, shared_segments

pytestmark = [
    pytest.mark.skipif(bool(missing), reason=missing),
    pytest.mark.filterwarnings("ignore::functensor.jitting.retraces.RetraceWarning"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
]


def same_bits(x, y):
    """Says whether two arrays are the same, NaN being equal to NaN."""
    return np.array_equal(x, y, equal_nan=np.asarray(x).dtype.kind == "f")


@contextmanager
def limits(how):
    """Lets threads share small regions in many blocks, where this is asked for."""
    with pytest.MonkeyPatch.context() as patch:
        if how == "blocks":
            for module in (native_run, segment_code):
                patch.setattr(module, "SMALLEST_EFFORT_TO_SHARE", 50)
        if how == "teams":
            for limit in ("SMALLEST_HANDED_EFFORT", "SMALLEST_SHARED_PRODUCT"):
                patch.setattr(shared_segments, limit, 50)
        yield


@settings(max_examples=sized(50, 300))
@given(
    operands(),
    numbers_of_steps(),
    st.integers(0, 255),
    st.sampled_from(["plain", "plain", "blocks", "teams", "donated"]),
)
@example(  # NumPy's tangent is three units in the last place away
    ([np.full(64, 0.5, "f4")], [np.full(64, 1.5867028, "f4")]), [(0, 29, 0, 0)], 0, "plain"
)
def test_programs(both, numbers, returned, how):
    first, second = both
    program = drawn_program(first, numbers, returned)
    if program is None:
        return
    donated = range(len(first)) if how == "donated" else ()
    with limits(how):
        jitted = ft.jit(program, donate_argnums=tuple(donated)).compile(*first)
    assert "failed" not in jitted.explain(), jitted.explain()
    with told(jitted, first):
        check_calls(program, jitted, first, second, how == "donated")


def test_a_refused_region_leaves_nothing_to_the_next_call():
    def program(x):
        soft = fnp.logaddexp(x * 1.0, 0.0)
        both = fnp.stack([soft, x * 1.0])
        return both <= soft, fnp.sinh((both <= soft).astype("f2")), fnp.log10(fnp.tanh(both))

    x = np.random.default_rng(0).integers(-9, 9, (31, 2, 3, 16)).astype("i2")
    with limits("blocks"):
        jitted = ft.jit(program).compile(x)
    for found, wanted in zip(jitted(x), program(fnp.asarray(x)), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=2e-3)


def test_a_refused_product_leaves_no_copies_to_what_comes_next():
    def program(x, y):
        turned = fnp.flip(x, 0)
        product = turned @ (y * 2 + 1)  # of integers, which NumPy computes
        return product, turned * 2 + product

    x, y = np.random.default_rng(0).integers(0, 5, (2, 40, 40))
    jitted = ft.jit(program).compile(x, y)
    assert "as machine code" in jitted.explain()
    for found, wanted in zip(jitted(x, y), program(fnp.asarray(x), fnp.asarray(y)), strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_a_flipped_array_that_is_copied_for_a_kernel_is_returned():
    def program(x):
        turned = fnp.flip(x * x)
        return turned, turned * 2 + x

    real, imag = np.random.default_rng(0).normal(size=(2, 50, 60))
    x = real + 1j * imag
    jitted = ft.jit(program).compile(x)
    assert "as machine code" in jitted.explain()
    for found, wanted in zip(jitted(x), program(fnp.asarray(x)), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-12)


@contextmanager
def told(jitted, operands):
    """Adds the program to what a failed assertion says."""
    try:
        yield
    except AssertionError as error:
        error.add_note(str(jitted.lower(*operands).program))
        raise


def check_calls(program, jitted, first, second, donated):
    """Calls a jitted program twice, with different operands, and compares all results."""

    def called(operands):
        # Memory of its own may hold results; other memory is copied before.
        given = [fnp.array(x) for x in operands] if donated else operands
        return [np.asarray(x) for x in jitted(*given)]

    before = [x.copy() for x in first]
    outs = called(first)
    kept = [x.copy() for x in outs]
    assert all(map(same_bits, first, before)), "an operand has changed"
    for place, got, known in zip(program.returned, outs, program.known, strict=True):
        assert_within(got, known, f"value {place}")
    others = called(second)
    for place, got, known in zip(program.returned, others, followed(program, second), strict=True):
        assert_within(got, known, f"value {place} of a second call")
    assert all(map(same_bits, outs, kept)), "a result of the first call has changed"


# -- derivatives and batches of smooth programs


SMOOTH = [
    *(fnp.sin, fnp.tanh, nn.sigmoid, nn.softplus, nn.gelu, nn.silu, fnp.arctan, fnp.arcsinh),
    *(lambda x: fnp.exp(-x * x), lambda x: fnp.sqrt(1 + x * x), lambda x: fnp.log1p(x * x)),
    *(lambda x: x * 0.5 + 1, lambda x: 1 / (1 + x * x), lambda x: x**3 / (1 + x * x), nn.mish),
]
SMOOTH_PAIRS = [
    *(fnp.add, fnp.multiply, fnp.subtract, fnp.logaddexp, lambda x, y: x / (2 + y * y)),
    *(lambda x, y: fnp.hypot(x, y * y + 1), lambda x, y: fnp.where(PLACES[: y.size] > 0, x, y[0])),
]
SMOOTH_ROWS = [nn.softmax, nn.log_softmax, nn.layer_norm, nn.rms_norm]
SMOOTH_FOLDS = [fnp.sum, fnp.mean, fnp.var, nn.logsumexp]
PLACES = np.resize([1, -1, 1], 64)
SMOOTH_SHAPES = [(4, 6), (6, 4), (6,), (4,), (1, 6), (2, 4, 6), (3, 1), (5, 5), (8, 16), ()]


def smooth_step(values, kind, which, first, second):
    """Returns the result of a step of a smooth program.

    Raises:
        ValueError, TypeError, IndexError: there is no such step.
    """
    x = values[-1 - first % min(len(values), 3)]
    y = values[-1 - second % len(values)]
    axis = second % x.ndim if x.ndim else None
    match kind % 8:
        case 0 | 1:
            return SMOOTH[which % len(SMOOTH)](x)
        case 2 | 3:
            return SMOOTH_PAIRS[which % len(SMOOTH_PAIRS)](x, y)
        case 4 if x.ndim:
            return SMOOTH_ROWS[which % len(SMOOTH_ROWS)](x, axis=axis)
        case 5:
            fold = SMOOTH_FOLDS[which % len(SMOOTH_FOLDS)]
            return fold(x, axis=axis if which % 3 else None, keepdims=bool(which % 2))
        case 6 if x.ndim > 1 and y.ndim:
            if which % 2:
                x = fnp.swapaxes(x, -1, -2)
            return fnp.matmul(x, y) * 0.3
        case 7 if x.ndim:
            return smooth_view(x, y, which, axis)
    raise ValueError("there is no such step")


def smooth_view(x, y, which, axis):
    """Returns elements of an array in other places, or some of them."""
    match which % 9:
        case 0 | 1:
            return fnp.transpose(x)
        case 2:
            return fnp.reshape(x, (-1,))
        case 3:
            return x[..., 1:]
        case 4:
            return x[::-1]
        case 5:
            return fnp.cumsum(x, axis=axis) * 0.3
        case 6:
            return fnp.take(x, np.array([0, x.shape[axis] - 1, 0]), axis=axis)
        case 7:
            return fnp.concatenate([x, y], axis=axis)
    labels = PLACES[: int(np.prod(x.shape[:-1]))].reshape(x.shape[:-1]) % x.shape[-1]
    return nn.softmax_cross_entropy(x, labels)


class SmoothProgram:
    """A smooth function of some arrays, to a number.

    Attributes:
        steps: the numbers of the steps that exist.
    """

    def __init__(self, operands, numbers):
        self.steps = []
        values = [fnp.asarray(x) for x in operands]
        for step in numbers:
            try:
                out = smooth_step(values, *step)
            except (ValueError, TypeError, IndexError):
                continue
            if 0 < out.size <= 2000:
                values.append(out)
                self.steps.append(step)

    def __call__(self, *operands):
        values = list(operands)
        for step in self.steps:
            values.append(smooth_step(values, *step))
        last = values[-1]
        weights = np.cos(np.arange(last.size)).reshape(last.shape).astype(last.dtype)
        rest = sum(fnp.mean(x * x) for x in operands)
        return fnp.sum(fnp.sin(last) * weights) + rest * 0.125


def directions(operands):
    return [np.cos(0.7 * np.arange(x.size)).reshape(x.shape).astype(x.dtype) for x in operands]


def gradients(f, *xs):
    value, found = ft.value_and_grad(f, argnums=tuple(range(len(xs))))(*xs)
    return [value, *found]


def tangents(f, *xs):
    return list(ft.jvp(f, xs, tuple(directions(xs))))


def curvatures(f, *xs):
    """Returns the product of the Hessian and a direction, in reverse mode over reverse mode."""
    ways = directions(xs)

    def along(*xs):
        found = ft.grad(f, argnums=tuple(range(len(xs))))(*xs)
        return sum(fnp.sum(g * d) for g, d in zip(found, ways, strict=True))

    return list(ft.grad(along, argnums=tuple(range(len(xs))))(*xs))


def pushed_gradients(f, *xs):
    """Returns the product of the Hessian and a direction, in forward mode over reverse mode."""
    return list(ft.jvp(lambda *xs: gradients(f, *xs)[1:], xs, tuple(directions(xs)))[1])


def batches(f, *xs):
    batch = [fnp.stack([x, x * 0.5, x - 0.25]) for x in xs]
    return list(ft.vmap(lambda *xs: gradients(f, *xs))(*batch))


def curved_batches(f, *xs):
    batch = [fnp.stack([x, x * 0.5]) for x in xs]
    return list(ft.vmap(lambda *xs: pushed_gradients(f, *xs))(*batch))


MODES = [gradients, tangents, curvatures, pushed_gradients, batches, curved_batches]


def assert_as_exact(got, eager, near, double, what):
    """Asserts that results are about as exact as those of eager mode.

    How far results near by are from those of double precision says how much the program magnifies
    rounding: ``condition`` units in the last place of the largest element.

    Args:
        got, eager: results in some precision.
        near: eager results in float32, and of operands that are rounded to float32 otherwise.
        double: eager results in float64.
        what: names the result.
    """
    double = np.asarray(double, np.float64)
    got, eager = np.asarray(got), np.asarray(eager)
    assert (got.dtype, got.shape) == (eager.dtype, eager.shape)
    scale = np.max(np.abs(double), initial=1e-3)
    moved = max(np.max(np.abs(np.asarray(x, np.float64) - double), initial=0) for x in near)
    condition = moved / (np.finfo("f4").eps * scale)
    # A program that magnifies rounding more tells nothing.
    assert np.isfinite(condition)
    assume(condition < 1e4)
    off = np.max(np.abs(got.astype(np.float64) - eager), initial=0) / (
        np.finfo(got.dtype).eps * scale
    )
    assert off <= 16 * max(condition, 4), f"{what} is {off} units off, the condition is {condition}"


@settings(max_examples=sized(16, 60))
@given(
    st.lists(st.sampled_from(SMOOTH_SHAPES), min_size=1, max_size=3),
    numbers_of_steps(),
    st.sampled_from(MODES),
    st.sampled_from(["f4", "f8"]),
    st.integers(0, 999),
)
@example([(8, 16), (4, 6)], [(5, 0, 1, 0)], gradients, "f4", 4)
def test_derivatives_and_batches(shapes, numbers, mode, dtype, seed):
    rng = np.random.default_rng(seed)
    wide = [np.asarray(rng.uniform(-1.5, 1.5, shape)) for shape in shapes]
    single = [x.astype("f4") for x in wide]
    wide = [x.astype("f8") for x in single]
    given_ones = wide if dtype == "f8" else single
    program = SmoothProgram(wide, numbers)

    def derived(*xs):
        return mode(program, *xs)

    # A sum that cancels may be exact in one order of its terms by luck, and in no other.
    eps = np.finfo("f4").eps
    otherwise = [x * (1 + eps * rng.choice([-1, 1], x.shape)) for x in wide]
    ones, twos, others = (derived(*xs) for xs in (single, wide, otherwise))
    jitted = ft.jit(derived).compile(*given_ones)
    assert "failed" not in jitted.explain(), jitted.explain()
    with told(jitted, given_ones):
        for i, got in enumerate(jitted(*given_ones)):
            eager = twos[i] if dtype == "f8" else ones[i]
            what = f"result {i} of {mode.__name__}"
            assert_as_exact(got, eager, (ones[i], others[i]), twos[i], what)
