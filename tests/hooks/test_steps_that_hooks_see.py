"""Hooks see the operations of a user's loops and branches, as often in a program as outside."""

import numpy
import pytest

import functensor as ft
import functensor.numpy as np
from functensor.hooks import FnHook, use

X = np.array([1.0, -1.0, 0.2])
W = numpy.arange(9.0).reshape(3, 3) / 9


def looped(x):
    return ft.while_loop(lambda c: c < 9.0, np.exp, x, max_steps=5)


FUNCTIONS = {
    "cond": lambda x: ft.cond(x > 0, np.sin, np.cos, x),
    "switch": lambda x: ft.switch(np.astype(x > 0, int), [np.sin, np.cos, np.exp], x),
    "while_loop": looped,
    "counted": lambda x: ft.while_loop(
        lambda c: c[0] < 3, lambda c: (c[0] + 1, np.exp(c[1])), (0, x), max_steps=5
    )[1],
    "while_loop in checkpoint": ft.checkpoint(looped),
}
WAYS = {
    "vmap": ft.vmap,
    "grad": lambda f: ft.grad(lambda x: f(x[0])),
    "grad of vmap": lambda f: ft.grad(lambda x: np.sum(ft.vmap(f)(x))),
    "vmap of grad": lambda f: ft.vmap(ft.grad(f)),
    "vmap of vmap of grad": lambda f: lambda x: ft.vmap(ft.vmap(ft.grad(f)))(
        np.stack([x, x + 0.5])
    ),
    "jvp of grad": lambda f: lambda x: ft.jvp(ft.grad(f), (x[0],), (x[1],))[1],
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_program_shows_what_is_shown_outside_of_jit(name, way):
    """A way back through a loop runs parts of it again, of which a hook is shown nothing."""
    f, seen = WAYS[way](FUNCTIONS[name]), []
    jitted = ft.jit(f)
    hook = FnHook(
        forward=lambda op, inputs, output: seen.append((op.name, op.phase)),
        backward=lambda op, cotangents, g: seen.append((op.name, op.phase)),
    )
    with use(hook):
        expected_value = f(X)
    expected = sorted(seen)
    for _ in range(3):
        seen.clear()
        with use(hook):
            value = jitted(X)
        assert sorted(seen) == expected
        numpy.testing.assert_allclose(value, expected_value, rtol=1e-12)


def test_steps_are_shown_again_to_hooks_that_ask_for_it():
    seen = []
    jitted = ft.jit(ft.grad(looped))
    hook = FnHook(forward=lambda op, inputs, output: seen.append(op.phase))
    for _ in range(2):
        seen.clear()
        with use(hook, "exp", on_replay=True):
            jitted(0.1)
    assert seen == ["forward"] * 3 + ["replay"] * 3


def test_a_step_that_is_run_again_is_replaced_again():
    halved = FnHook(forward=lambda op, inputs, output: output / 2)
    gradient = ft.grad(looped)
    jitted = ft.jit(gradient)
    with use(halved, "exp"):
        expected = gradient(1.5)
    for _ in range(3):
        with use(halved, "exp"):
            numpy.testing.assert_allclose(jitted(1.5), expected, rtol=1e-14)


def test_no_step_is_run_for_examples_that_are_all_done():
    """A batch runs both branches of a choice, but a step only where an example goes on."""
    largest = []
    hook = FnHook(
        forward=lambda op, inputs, output: largest.append(float(np.max(ft.hooks.value(output))))
    )
    jitted = ft.jit(ft.vmap(ft.grad(looped)))
    for _ in range(2):
        largest.clear()
        with use(hook, "exp"):
            jitted(X)
    assert len(largest) == 4


@pytest.mark.parametrize("inner", ["grad", "jvp"])
def test_derivatives_within_branches_of_examples(inner):
    def derived(z, w):
        if inner == "grad":
            return ft.grad(lambda z: np.sum(np.tanh(w @ z)))(z) + z
        return ft.jvp(lambda z: np.tanh(w @ z), (z,), (z * 2,))[1] + z

    def f(x, w):
        return np.sum(ft.switch(np.argmax(x), [derived, lambda x, w: x * 2], x, w))

    jitted = ft.jit(ft.vmap(ft.grad(f, (0, 1)), (0, None)))
    batch = numpy.stack([X, X[::-1], -X])
    expected = jitted(batch, W)
    hook = FnHook(backward=lambda op, cotangents, g: None)
    for _ in range(3):
        with use(hook):
            got = jitted(batch, W)
        for a, b in zip(got, expected, strict=True):
            numpy.testing.assert_allclose(a, b, rtol=1e-13)
