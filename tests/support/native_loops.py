"""Loops for tests of machine code, and what tells that it runs them."""

import numpy as np

import functensor as ft
import functensor.numpy as fnp
from functensor.backends.cpu.plan.native import native_loops
from functensor.jitting.input_orders import OrderedPlan


def loops_of(jitted):
    """Returns how many loops of a jitted function's last call machine code runs, and Python."""
    plan = jitted._last.compiled.run
    plan = plan._plan if isinstance(plan, OrderedPlan) else plan
    by_python = sum(f"] = {name}([" in plan.source for name in plan._calls)
    segments = [v for name, v in plan._scope.items() if name.endswith("_again")]
    calls = [call for again in segments for call in again.__self__.code._calls]
    native = sum(isinstance(call.kernel, native_loops.NativeLoop) for call in calls)
    return native, by_python


def compiled(f, *args, loops=1, **options):
    """Returns a function jitted as machine code, which runs so many loops, and none by Python."""
    jitted = ft.jit(f, **options).compile(*args)
    assert "as machine code" in jitted.explain(), jitted.explain()
    assert loops_of(jitted) == (loops, 0), jitted._last.compiled.run.source
    return jitted


def assert_same(got, wanted, rtol=None):
    """Asserts that trees of arrays have the same structure, dtypes and values."""
    got, first = ft.tree.flatten(got)
    wanted, second = ft.tree.flatten(wanted)
    assert first == second
    for x, y in zip(got, wanted, strict=True):
        x, y = np.asarray(x), np.asarray(y)
        assert (x.dtype, x.shape) == (y.dtype, y.shape)
        if rtol is None and x.dtype.kind in "fc":
            rtol = 50 * np.finfo(x.dtype).eps
        np.testing.assert_allclose(x, y, rtol=rtol or 0, atol=rtol or 0)


def of_slices(f):
    """Returns a function of arrays as a step of a loop, which runs once."""

    def once(*args):
        rows = [fnp.asarray(x)[None] for x in args]
        found = ft.scan(lambda carry, row: (carry, f(*row)), 0, rows)[1]
        return ft.tree.map(lambda x: x[0], found)

    return once


def drawn(shape, dtype, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-2, 2, shape)
    if dtype in ("c8", "c16"):
        return (x + 1j * rng.uniform(-2, 2, shape)).astype(dtype)
    if dtype == "?":
        return x > 0
    return np.abs(8 * x).astype(dtype) if dtype[0] == "u" else (8 * x).astype(dtype) / (
        1 if dtype[0] == "i" else 8
    )


def recurrent(h, w, xs):
    def step(h, x):
        h = fnp.tanh(h @ w + x)
        return h, h

    return ft.scan(step, h, xs)


RNN = drawn((5,), "f8"), drawn((5, 5), "f8", 1) / 4, drawn((6, 5), "f8", 2)
