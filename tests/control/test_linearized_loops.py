"""``linearize`` of loops, branches and checkpoints: results are known, and hooks see them once."""

import numpy
import pytest

import functensor as ft
import functensor.numpy as np
from functensor.hooks import FnHook, use

X = numpy.array([0.3, -0.7, 1.1])
W = numpy.ones((3, 3)) / 2
BIG = numpy.linspace(0.0, 1.0, 100_000)


def scanned(x):
    return ft.scan(lambda c, w: (np.sin(c * w), np.sum(c)), x, W)[0]


def looped(x):
    return ft.while_loop(lambda c: np.sum(c) < 30, np.exp, x, max_steps=5)


FUNCTIONS = {
    "scan": scanned,
    "fori_loop": lambda x: ft.fori_loop(0, 3, lambda i, c: np.sin(c) * x, x),
    "while_loop": looped,
    "while_loop without a limit": lambda x: ft.while_loop(lambda c: np.sum(c) < 30, np.exp, x),
    "map": lambda x: ft.control.map(np.sin, x),
    "cond": lambda x: ft.cond(np.sum(x) > 0, np.sin, np.cos, x),
    "switch": lambda x: ft.switch(np.argmax(x), [np.sin, np.cos, np.exp], x),
    "vmap of cond": ft.vmap(lambda x: ft.cond(x > 0, np.sin, np.cos, x)),
    "vmap of scan": ft.vmap(lambda x: ft.scan(lambda c, w: (c * w, c), x, X)[0]),
    "vmap of while_loop": ft.vmap(lambda x: looped(np.stack([x, x + 1]))),
    "jit of scan": ft.jit(scanned),
    "checkpoint": ft.checkpoint(lambda x: np.sin(np.cos(x) * x)),
    "checkpoint of scan": ft.checkpoint(scanned),
    "policy": ft.checkpoint(
        lambda x: np.sin(W @ np.cos(x)), policy=ft.checkpoint_policies.dots_saveable
    ),
    "grad of scan": ft.grad(lambda x: np.sum(scanned(x) ** 2)),
    "grad of while_loop": ft.grad(lambda x: np.sum(looped(x))),
    "grad of checkpoint": ft.grad(
        lambda x: np.sum(ft.checkpoint(lambda x: np.sin(W @ x))(x) ** 2)
    ),
    "grad of policy": ft.grad(
        lambda x: np.sum(
            ft.checkpoint(
                lambda x: np.sin(W @ x), policy=ft.checkpoint_policies.dots_saveable
            )(x)
            ** 2
        )
    ),
}


def linearized(f):
    def both(x, t):
        out, linear = ft.linearize(f, x)
        return out, linear(t)

    return both


def watcher(seen):
    return FnHook(
        forward=lambda op, inputs, output: seen.append((op.name, op.phase)),
        backward=lambda op, cotangents, g: seen.append((op.name, op.phase)),
    )


@pytest.mark.parametrize("watched", [False, True])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_are_arrays_and_those_of_jvp(name, watched):
    f, t = FUNCTIONS[name], numpy.cos(X)
    out, tangent = ft.jvp(f, (X,), (t,))
    jitted = ft.jit(linearized(f))
    for both in (linearized(f), jitted, jitted, jitted):
        if watched:
            with use(watcher([])):
                found = both(X, t)
        else:
            found = both(X, t)
        assert [type(x) for x in found] == [ft.Array, ft.Array]
        numpy.testing.assert_allclose(found[0], out, rtol=1e-14)
        numpy.testing.assert_allclose(found[1], tangent, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_hooks_see_operations_once_and_nothing_of_the_linear_function(name):
    f, seen = FUNCTIONS[name], []
    hook = watcher(seen)
    with use(hook):
        ft.jvp(f, (X,), (X,))
        expected = sorted(seen)
        seen.clear()
        _, linear = ft.linearize(f, X)
        assert sorted(seen) == expected
        seen.clear()
        linear(X)
        assert not seen


def test_python_branches_on_results_of_loops():
    def f(x):
        y = ft.fori_loop(0, 3, lambda i, c: c * 2 if c[0] > 0 else c, x)
        return y * 2 if y[0] > 1 else y

    numpy.testing.assert_array_equal(ft.linearize(f, X)[0], f(X))
    numpy.testing.assert_allclose(ft.jacfwd(f)(X), 16 * numpy.eye(3), rtol=1e-15)


def test_the_nonlinear_work_is_done_once():
    out, linear = ft.linearize(lambda x: np.sin(np.exp(x)), BIG)
    assert type(out) is ft.Array
    program = ft.make_program(linear)(BIG)
    assert {e.primitive.name for e in program.equations} == {"multiply"}


@pytest.mark.parametrize("jitted", [False, True])
def test_a_hook_that_replaces_values(jitted):
    double = FnHook(forward=lambda op, inputs, output: output * 2)
    with use(double, "sin"):
        expected = ft.jvp(scanned, (X,), (X,))
    both = linearized(scanned)
    both = ft.jit(both) if jitted else both
    for _ in range(3):
        with use(double, "sin"):
            found = both(X, X)
        for a, b in zip(found, expected, strict=True):
            numpy.testing.assert_allclose(a, b, rtol=1e-14)
