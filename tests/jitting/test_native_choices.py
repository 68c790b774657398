"""Choices outside of loops: of small branches one segment, of large ones machine code of each."""

import numpy as np
import pytest
from support.native import missing
from support.native_loops import assert_same

import functensor as ft
import functensor.numpy as fnp

pytestmark = pytest.mark.skipif(bool(missing), reason=missing)


def choice(x, s):
    return ft.cond(fnp.sum(x) > s, lambda x: fnp.sin(x) * fnp.exp(-x) + 1, lambda x: x, x)


def plan_of(jitted):
    return jitted._last.compiled.run


@pytest.mark.parametrize("dtype", ["f4", "f8", "c16", "i4"])
def test_a_small_choice_is_part_of_a_segment(dtype):
    x = np.arange(5).astype(dtype)

    def f(x, s, which):
        y = ft.cond(s > 2, lambda x: x * x + 1, lambda x: x, x)
        return ft.switch(which, [lambda y: y - 1, lambda y: y * 2, fnp.flip], y) * 3

    jitted = ft.jit(f).compile(x, 3.0, 1)
    plan = plan_of(jitted)
    assert plan.has_machine_code
    assert "] = cond([" not in plan.source
    for s in (1.0, 3.0):
        for which in (-1, 0, 1, 2, 7):
            assert_same(jitted(x, s, which), f(x, s, which))


def test_a_branch_that_returns_its_operand_gives_memory_of_its_own():
    x = np.ones(4)
    jitted = ft.jit(choice).compile(x, 10.0)
    out = np.asarray(jitted(x, 10.0))
    assert_same(out, x)
    assert not np.may_share_memory(out, x)


def test_branches_of_many_elements_are_shared_and_have_code_of_their_own():
    x = np.linspace(0.0, 1.0, 300_000)
    jitted = ft.jit(choice).compile(x, 0.0)
    plan = plan_of(jitted)
    (equation,) = [e for e in plan.called if e.primitive.name == "cond"]
    bodies = [body.derived["body"][0] for body in equation.primitive.bodies]
    assert bodies[-1].how_it_runs() == ["  the last of these runs as machine code"]
    for s in (0.0, 1e9):
        assert_same(jitted(x, s), choice(x, s))


def test_gradients_and_batches():
    slope = ft.grad(lambda x, s: fnp.sum(choice(x, s) ** 2))
    x = np.linspace(-1.0, 1.0, 6)
    jitted = ft.jit(slope).compile(x, 0.5)
    for s in (0.5, -0.5):
        assert_same(jitted(x, s), slope(x, s))
    batch, limits = np.stack([x, x + 1]), np.array([0.5, 9.0])
    batched = ft.vmap(choice)
    assert_same(ft.jit(batched).compile(batch, limits)(batch, limits), batched(batch, limits))


def test_an_index_out_of_bounds_in_a_branch():
    def f(x, i, flag):
        return ft.cond(flag, lambda x: fnp.asarray(x).at[i].set(1.0), lambda x: x, x) + 1

    x = np.zeros(3)
    jitted = ft.jit(f).compile(x, 1, True)
    assert_same(jitted(x, 1, True), f(x, 1, True))
    assert_same(jitted(x, 9, False), f(x, 9, False))
    with pytest.raises(IndexError, match="index 9 is out of bounds"):
        jitted(x, 9, True)


def test_donated_operands():
    jitted = ft.jit(choice, donate_argnums=0).compile(fnp.ones(50), 0.0)
    for s in (0.0, 1e9):
        assert_same(jitted(fnp.ones(50), s), choice(np.ones(50), s))
