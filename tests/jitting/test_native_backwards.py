"""Arrays that machine code reads from their ends on: flips, and slices with negative steps."""

import numpy as np
import pytest
from support.native import missing

import functensor as ft
import functensor.numpy as fnp

pytestmark = pytest.mark.skipif(bool(missing), reason=missing)

RNG = np.random.default_rng(0)
SHAPES = [(37,), (40, 33), (5, 6, 7)]
FORMS = {
    "first axis": lambda x: (x[::-1] | x) if x.dtype == bool else x[::-1] * 2 + x,
    "all axes": lambda x: (fnp.flip(x), fnp.flip(x) & x if x.dtype == bool else fnp.flip(x) + x),
    "last axis": lambda x: (x[..., ::-1] == x, fnp.where(x[..., ::-1] > x, x, x[:1])),
    "a sum": lambda x: fnp.sum(x[::-1], 0) + fnp.sum(x[..., ::-1] != 0, -1).sum(),
    "joined": lambda x: fnp.concatenate([x[::-1], x, x[:, None][:, 0]]),
    "steps": lambda x: x[::-2] == x[-1],
    "a view of a view": lambda x: (x[::-1].reshape(-1) == x.ravel(), x.T[::-1] != x.T[:1]),
    "twice": lambda x: x[::-1][::-1] == x,
    "of what is computed": lambda x: ((x != 0)[::-1] == (x == 0), (x == x[:1])[..., ::-1]),
}


def check(call, x, rtol=1e-5):
    with ft.config.using(check_programs=True):
        jitted = ft.jit(call).compile(x)
    assert "as machine code" in jitted.explain()
    got, wanted = map(ft.tree.leaves, (jitted(x), call(fnp.asarray(x))))
    for a, b in zip(got, wanted, strict=True):
        a, b = np.asarray(a), np.asarray(b)
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol)
    return jitted


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "c8", "i1", "i4", "?"])
def test_flips(dtype, shape):
    x = (RNG.normal(size=shape) * 2).astype(dtype)
    forms = FORMS.values() if dtype != "c8" else [FORMS["first axis"], FORMS["joined"]]
    check(lambda x: [form(x) for form in forms], x, 1e-2 if dtype == "f2" else 1e-5)


CALLS = {
    "left": lambda x: fnp.tanh(x[::-1] @ x.T),
    "right": lambda x: fnp.tanh(x.T @ x[::-1]),
    "columns": lambda x: fnp.tanh(x[:, ::-1] @ x.T[:, :3]),
    "small": lambda x: fnp.tanh(x[:4, :4][::-1] @ x[:4, :3]),
    "a stack": lambda x: fnp.tanh(x.reshape(4, 10, 33)[::-1] @ x[:33, :5]),
    "indices": lambda x: x[fnp.arange(5)[::-1]] * 2,
    "elements of a flip": lambda x: x[::-1][fnp.arange(5)] * 2,
    "a loop": lambda x: ft.scan(lambda s, r: (s + r, s * r), x[0], x[::-1]),
    "a gradient": ft.grad(lambda x: fnp.sum(fnp.sin(x[::-1]) * x)),
    "a system": lambda x: fnp.linalg.solve(x[:30, :30][::-1] + 40 * fnp.eye(30), x[:30, 0]) + 1,
}


@pytest.mark.parametrize("name", CALLS)
def test_what_reads_flips(name):
    check(CALLS[name], RNG.normal(size=(40, 33)), 1e-10)


def test_a_flip_is_not_copied():
    jitted = check(lambda x: x[::-1] * 2 + 1, RNG.normal(size=3000))
    assert "flip" not in jitted._last.compiled.run.source
