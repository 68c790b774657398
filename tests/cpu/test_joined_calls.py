"""Neighbouring arithmetic of noted kernels as one pass, which has NumPy's bits."""

import numpy as np
import pytest

from functensor.backends.blas_threads import controlled
from functensor.backends.cpu import noted_calls, stacks
from functensor.backends.native import machine
from functensor.backends.restoring import quiet

pytestmark = pytest.mark.skipif(
    not machine.compiles_here() or controlled() is None,
    reason=machine.why_not() or "BLAS is none that can be kept to a thread",
)

EDGES = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, -1e-40, 3e38, -3e38, 1.0, -1.0]


def chained(x, y, out, spare):
    np.multiply(x, y, out=out)
    np.add(out, 0.1, out=out)
    np.subtract(x, out, out=spare)
    np.divide(spare, y, out=spare)
    np.reciprocal(spare, out=spare)
    np.negative(spare, out=spare)
    spare.clip(-1.5, 2.5, out=spare)
    np.multiply(out, spare, out=out)


def clipped_at_zero(x, y, out, spare):
    x.clip(0.0, 1.0, out=spare)
    np.add(spare, 0.0, out=spare)
    y.clip(-1.0, -0.0, out=out)
    np.multiply(out, spare, out=out)


def around_exp(x, y, out, spare):
    np.negative(x, out=spare)
    np.multiply(spare, 3.0, out=spare)
    np.exp(spare, out=out)
    np.add(out, y, out=out)
    np.divide(x, out, out=out)


def of_rows(x, y, out, spare):
    np.subtract(x, y[..., :1], out=spare)
    np.multiply(spare, y[..., :1, :], out=spare)
    np.positive(spare, out=out)


KERNELS = {f.__name__: f for f in (chained, clipped_at_zero, around_exp, of_rows)}
# How many calls there are once neighbours are joined.
CALLS = {"chained": 1, "clipped_at_zero": 1, "around_exp": 3, "of_rows": 1}


def operands(length, dtype):
    """Returns two arrays in which all edges meet, and others."""
    random = np.random.default_rng(length)
    x, y = (3 * random.normal(size=(2, 3, 5, length))).astype(dtype)
    pairs = [(a, b) for a in EDGES for b in EDGES]
    for place, (a, b) in zip(np.ndindex(x.shape), pairs):
        x[place], y[place] = a, b
    return x, y


def calls_of(kernel, x):
    """Returns the run of a kernel for items of x's shape, without a trial."""
    layout = x.shape[1:], x.strides[1:]
    return stacks.StackCalls(kernel, [layout] * 3, x.dtype, [x.shape[1:]], {})


@pytest.mark.parametrize("dtype", ["f", "d"])
@pytest.mark.parametrize("length", [1, 2, 15, 16, 17, 40])
@pytest.mark.parametrize("name", KERNELS)
def test_results_have_the_bits_of_numpy(name, length, dtype):
    with quiet():
        x, y = operands(length, dtype)
        wanted, spare = np.empty_like(x), np.empty_like(x)
        KERNELS[name](x, y, wanted, spare)
        found = np.empty_like(x)
        calls = calls_of(KERNELS[name], x)
        calls([x, y, found], 1)
    # Where two NaN meet, either of them comes out.
    np.testing.assert_array_equal(found, wanted)
    some = ~np.isnan(wanted)
    np.testing.assert_array_equal(np.signbit(found)[some], np.signbit(wanted)[some])
    if length > 2:
        assert len(calls.notes.calls) == CALLS[name]


def noted(kernel, shape=(4, 8), spares=()):
    x = np.ones((1, *shape), "f")
    layout = x.shape[1:], x.strides[1:]
    return noted_calls.noted_calls(kernel, [layout] * 3, x.dtype, spares, {})[0].calls


def turned(x, y, out):
    np.add(x, y, out=out)
    np.multiply(out[:, :, :4].swapaxes(1, 2), y[:, :, :4], out=out[:, :, :4])


def neighbours(x, y, out):
    np.add(x[:, :, 1:], y[:, :, 1:], out=out[:, :, 1:])
    np.multiply(out[:, :, :-1], y[:, :, 1:], out=out[:, :, :-1])


def other_shapes(x, y, out):
    np.add(x, y, out=out)
    np.multiply(x[:, :2], y[:, :2], out=out[:, :2])


def strided(x, y, out):
    np.add(x[:, :, ::2], y[:, :, ::2], out=out[:, :, ::2])
    np.multiply(x[:, :, ::2], y[:, :, ::2], out=out[:, :, ::2])


@pytest.mark.parametrize("kernel", [turned, neighbours, other_shapes, strided])
def test_calls_that_stay_apart(kernel):
    assert len(noted(kernel)) == 2


def test_many_operands_are_not_joined():
    def kernel(x, y, out):
        for i in range(14):
            np.add(x[:, :, i], y[:, :, i], out=out[:, :, i])
            np.add(x[:, i], y[:, i], out=out[:, i])

    assert len(noted(kernel, (14, 14))) == 28

    def sums(x, y, out):
        for i in range(14):
            np.add(out, float(i), out=out)

    assert len(noted(sums)) == 2


def test_spare_memory_that_nobody_reads_is_not_written():
    def kernel(x, y, out, spare):
        np.add(x, y, out=spare)
        np.multiply(spare, x, out=out)

    (call,) = noted(kernel, (4, 8), [(4, 8)])
    assert len(call.begins) == 4
    spare = np.zeros((1, 4, 8), "f")
    x = np.ones((1, 4, 8), "f")
    calls = calls_of(kernel, x)
    stacks.stack_memory.bytes(calls.spare)[:] = 7
    out = np.empty_like(x)
    calls([x, x, out], 1)
    np.testing.assert_array_equal(out, 2)
    assert (stacks.stack_memory.bytes(calls.spare)[: spare.nbytes] == 7).all()


def test_products_read_what_was_joined_before():
    def kernel(x, y, out, spare):
        np.add(x, y, out=spare)
        np.multiply(spare, 2.0, out=spare)
        np.matmul(spare, x, out=out)

    random = np.random.default_rng(0)
    x, y = random.normal(size=(2, 3, 6, 6)).astype("f")
    out = np.empty_like(x)
    calls = calls_of(kernel, x)
    calls([x, y, out], 1)
    assert len(calls.notes.calls) == 2
    np.testing.assert_allclose(out, 2 * (x + y) @ x, rtol=1e-5, atol=1e-5)
