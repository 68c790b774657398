"""Hooks around loops, branches and checkpoints: the same in every transformation, staged or not."""

import numpy
import pytest
from support.long_forms import thinned

import functensor as ft
import functensor.numpy as np
from functensor.hooks import FnHook, use

X = numpy.array([0.3, -1.2, 2.0])


def several(x):
    """A loop's body: an operation that the hooks change and others."""
    return np.sin(x) * X + 1.0


CONTROL = {
    "cond": lambda x: ft.cond(np.sum(x) > 0, several, lambda x: x, x),
    "switch": lambda x: ft.switch(np.astype(np.sum(x) > 0, int), [lambda x: x, several], x),
    "scan": lambda x: ft.scan(lambda c, y: (np.sin(c) * y, c * y), x[0], x),
    "scan, closure": lambda x: ft.scan(lambda c, y: (np.sin(x[1] * c) * y, c), 1.0, x),
    "fori_loop": lambda x: ft.fori_loop(0, 3, lambda i, c: several(c) * x, x),
    "while_loop": lambda x: ft.while_loop(
        lambda c: np.sum(c) < 9, lambda c: c + 2 + np.sin(c) / 2, x, max_steps=5
    ),
    "map": lambda x: ft.control.map(lambda y: np.sin(y) * y, x),
    "associative_scan": lambda x: ft.associative_scan(lambda a, b: np.sin(a) * b, x),
    "nested": lambda x: ft.scan(
        lambda c, y: (ft.fori_loop(0, 2, lambda i, d: np.sin(d) * y, c), c), x[0], x
    ),
    "checkpoint": ft.checkpoint(several),
    "checkpoint of vmap": ft.checkpoint(ft.vmap(lambda x: np.sin(x) * x)),
    "checkpoint of scan": ft.checkpoint(
        lambda x: ft.scan(lambda c, y: (np.sin(c) * y, c * y), x[0], x)
    ),
    "jit": ft.jit(several),
}


def total(f):
    """Returns a scalar function."""
    return lambda x: sum(np.sum(np.sin(leaf)) for leaf in ft.tree.leaves(f(x)))


def batch(x):
    return np.stack([x, x + 0.5])


# The first of each row is done without a program, and says what the others have to give.
WAYS = {
    "values": {
        "eager": lambda f: f,
        "jit": ft.jit,
        "checkpoint": ft.checkpoint,
        "vmap": lambda f: lambda x: ft.tree.map(lambda y: y[0], ft.vmap(f)(batch(x))),
        "jit of vmap": lambda f: ft.jit(
            lambda x: ft.tree.map(lambda y: y[0], ft.vmap(f)(batch(x)))
        ),
        "vjp": lambda f: lambda x: ft.vjp(f, x)[0],
    },
    "gradients": {
        "grad": lambda f: ft.grad(total(f)),
        "grad of jit": lambda f: ft.grad(ft.jit(total(f))),
        "jit of grad": lambda f: ft.jit(ft.grad(total(f))),
        "vmap of grad": lambda f: lambda x: ft.vmap(ft.grad(total(f)))(batch(x))[0],
        "grad of checkpoint": lambda f: ft.grad(ft.checkpoint(total(f))),
        "jit of grad of checkpoint": lambda f: ft.jit(ft.grad(ft.checkpoint(total(f)))),
    },
}
SEEN = []


def doubled_output(op, inputs, output):
    return 2 * output if op.name == "sin" else None


def doubled_gradients(op, grad_inputs, grad_output):
    return [2 * g for g in grad_inputs] if op.name == "sin" else None


HOOKS = {
    "forward, observing": FnHook(forward=lambda op, inputs, output: SEEN.append(op.name)),
    "forward, replacing": FnHook(forward=doubled_output),
    "backward, observing": FnHook(backward=lambda op, grads, g: SEEN.append(op.name)),
    "backward, replacing": FnHook(backward=doubled_gradients),
    "both": FnHook(doubled_output, doubled_gradients),
}


def same(got, wanted):
    for a, b in zip(ft.tree.leaves(got), ft.tree.leaves(wanted), strict=True):
        numpy.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)


PAIRS = [pytest.param(name, hook, id=f"{name}-{hook}") for hook in HOOKS for name in CONTROL]


# Five hooks and thirteen functions: one in three pairs has all of both.
@pytest.mark.parametrize(("name", "hook"), thinned(PAIRS, every=3))
def test_a_hook_around_the_call_does_the_same_everywhere(name, hook):
    """The hook is registered within the function that is transformed, around the loop."""
    f = CONTROL[name]

    def hooked(x):
        with use(HOOKS[hook]):
            return f(x)

    def around(x):
        # The hook is there when derivatives are taken too.
        with use(HOOKS[hook]):
            return ft.grad(total(f))(x)

    for ways in WAYS.values():
        first, *others = ways.values()
        wanted = first(hooked)(X)
        if "observing" in hook:
            same(wanted, first(f)(X))
        for way in others:
            same(way(hooked)(X), wanted)
    wanted = around(X)
    if hook == "backward, replacing":
        assert numpy.any(numpy.asarray(wanted) != numpy.asarray(ft.grad(total(f))(X)))
    for name in ("jit", "checkpoint", "vmap", "vjp"):
        same(WAYS["values"][name](around)(X), wanted)


@pytest.mark.parametrize("kind", ["forward", "backward"])
def test_staged_bodies_show_the_operations_of_every_step_and_not_the_call(kind):
    seen = []
    hook = FnHook(**{kind: lambda op, a, b: seen.append(op.name)})

    def watched(x):
        with use(hook):
            return ft.grad(lambda x: ft.scan(lambda c, y: (np.sin(c) * y, None), x[0], x)[0])(x)

    ft.jit(watched)(X)
    assert seen.count("sin") == seen.count("multiply") == 3
    assert "scan" not in seen


def test_backward_hooks_see_the_cotangents_that_are_asked_for_whatever_is_traced():
    counts = []

    def shrunk(op, grads, g):
        there = [x for x in grads if x is not None]
        counts.append(len(there))
        total = 1 + sum(np.sum(x**2) for x in there)
        return [None if x is None else x / total for x in grads]

    w = numpy.array([2.0, 3.0, 4.0])

    def slope(x, w):
        # By the first argument alone.
        with use(FnHook(backward=shrunk), match="multiply|matmul"):
            return ft.grad(lambda x: np.sum(np.sin(x * w) * w) + x @ w)(x)

    def of_batch(xs, ws):
        with use(FnHook(backward=shrunk), match="multiply|matmul"):
            each = ft.vmap(lambda x, w: np.sum(np.sin(x * w) * w) + x @ w)
            return ft.grad(lambda xs: np.sum(each(xs, ws)))(xs)

    wanted = slope(X, w)
    assert set(counts) == {1}
    for f in (ft.jit(slope), ft.checkpoint(slope)):
        same(f(X, w), wanted)
    same(ft.vmap(slope)(X[None], w[None])[0], wanted)
    same(of_batch(X[None], w[None])[0], wanted)
    same(ft.jit(of_batch)(X[None], w[None])[0], wanted)
    assert set(counts) == {1}


def test_a_removed_hook_does_again_what_it_replaced_and_sees_nothing():
    calls = []

    def forward(op, inputs, output):
        calls.append(op.name)
        return output + 1 if op.name == "sin" else None

    def f(x):
        with use(FnHook(forward)):
            return ft.checkpoint(lambda x: np.sin(x) * x)(x)

    def plainly(x):
        return (np.sin(x) + 1) * x

    numpy.testing.assert_allclose(ft.grad(f)(0.7), ft.grad(plainly)(0.7))
    # The second run asks for what was replaced alone.
    assert calls == ["sin", "multiply", "sin"]


def test_a_hook_that_removes_itself_is_gone_in_the_second_run_too():
    calls = []

    def forward(op, inputs, output):
        calls.append(op.name)
        handle.remove()
        return output * 2

    with use(FnHook(forward)) as handle:
        got = ft.grad(ft.checkpoint(lambda x: np.sin(np.sin(x)) * x))(0.7)
    wanted = ft.grad(lambda x: np.sin(np.sin(x) * 2) * x)(0.7)
    numpy.testing.assert_allclose(got, wanted)
    assert calls == ["sin", "sin"]


def test_transformed_functions_keep_their_names_in_nested_checkpoints():
    twice = ft.checkpoint(ft.checkpoint(ft.grad(lambda x: np.sum(np.sin(x) * x))))
    wanted = ft.hessian(lambda x: np.sum(np.sin(x) * x))(X)
    same(ft.jacrev(twice)(X), wanted)
    same(ft.jacrev(ft.checkpoint(twice))(X), wanted)
