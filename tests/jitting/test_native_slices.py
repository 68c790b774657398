"""Joined arrays and values added at slices, within functions of machine code."""

import numpy as np
import pytest
from support.native import missing
from support.native_loops import assert_same

import functensor as ft
import functensor.numpy as fnp
from functensor.backends.cpu.plan.native import slices_written

pytestmark = pytest.mark.skipif(bool(missing), reason=missing)
RNG = np.random.default_rng(0)


def calls_of_numpy(f, *args):
    """Asserts that machine code gives a function's results; returns the plan's text."""
    jitted = ft.jit(f).compile(*args)
    assert "as machine code" in jitted.explain()
    assert_same(jitted(*args), f(*args))
    source = jitted._last.compiled.run.source.split("\n\n")[0]
    return [line for line in source.splitlines() if "concatenate(" in line or "scatter_" in line]


def differences(x):
    d = fnp.diff(x, prepend=0)
    return fnp.sum(d * d * d)


def smoothed(x):
    inner = x[1:-1, 1:-1] * 4 - x[:-2, 1:-1] - x[2:, 1:-1] - x[1:-1, :-2] - x[1:-1, 2:]
    return fnp.sum(inner**3)


@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16", "i4", "i8"])
def test_joined_arrays(dtype):
    x, y = (RNG.normal(size=s).astype(dtype) for s in ((2, 3, 5), (2, 4, 5)))
    for axis, others in ((1, (x, y)), (0, (x, y[:, :3])), (2, (x, y[:, 1:]))):
        assert not calls_of_numpy(lambda *xs, a=axis: fnp.concatenate(xs, a) * 2 + 1, *others)
        assert not calls_of_numpy(lambda *xs, a=axis: fnp.concatenate([*xs, xs[0] + 1], a), *others)
    assert not calls_of_numpy(lambda x, y: fnp.concatenate([x[:, 1:2], y, x[:, :0]], 1) + 1, x, y)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("f", [differences, smoothed])
def test_gradients_of_slices(f, dtype):
    shape = (3000,) if f is differences else (40, 30)
    x = RNG.normal(size=shape).astype(dtype)
    assert not calls_of_numpy(ft.grad(f), x)
    assert not calls_of_numpy(ft.vmap(ft.grad(f)), np.stack([x, 2 * x]))
    hvp = lambda x: ft.jvp(ft.grad(f), (x,), (x,))[1]  # noqa: E731
    assert not calls_of_numpy(hvp, x)


def test_zeros_and_values_that_are_none():
    """Values are added to zeros, which makes -0.0 positive, as in eager mode."""
    x = np.array([-0.0, np.nan, 3.0, -0.0, 1.0])

    def f(x):
        return ft.vjp(lambda x: (x[1:], x[:-1]), x)[1]((-x[1:] * 1, x[1:] * 0 - 0.0))[0]

    assert not calls_of_numpy(f, x)
    got, wanted = ft.jit(f).compile(x)(x), f(x)
    np.testing.assert_array_equal(np.signbit(got), np.signbit(wanted))


def test_large_arrays_stay_with_numpy(monkeypatch):
    x = RNG.normal(size=40)
    monkeypatch.setattr(slices_written, "LARGEST_WRITTEN_BYTES", 8 * x.size - 1)
    assert len(calls_of_numpy(lambda x: fnp.concatenate([x[:20] * 2, x[20:] + 1]) + 1, x)) == 1


def test_threads_give_the_same(monkeypatch):
    x = RNG.normal(size=(3, 30_000))
    assert not calls_of_numpy(ft.grad(lambda x: fnp.sum(fnp.exp(fnp.diff(x, prepend=0)))), x)
