"""Backward passes that are run again, in a checkpoint or for the derivative of a loop's."""

import numpy
import pytest

import functensor as ft
import functensor.numpy as np
from functensor.hooks import FnHook, Hook, use

X = np.asarray(0.7)


class Phases(Hook):
    def __init__(self):
        self.seen = []

    def before(self, op, values):
        self.seen.append(("before", op.phase, op.name))

    def forward(self, op, inputs, output):
        self.seen.append((op.phase, op.name))

    def backward(self, op, grad_inputs, grad_output):
        self.seen.append((op.phase, op.name))


def slope(x):
    return ft.grad(lambda x: np.sin(x) * x)(x) ** 2


def of_tensor(f):
    def run(x):
        t = ft.Tensor(x, requires_grad=True)
        f(t).backward()
        return t.grad

    return run


FORMS = {"as written": ft.grad, "jitted": lambda f: ft.jit(ft.grad(f)), "tensors": of_tensor}


@pytest.mark.parametrize("form", FORMS)
def test_a_backward_pass_in_a_checkpoint_is_seen_once(form):
    wanted = Phases()
    with use(wanted):
        ft.grad(slope)(X)
    run, once, twice = FORMS[form](ft.checkpoint(slope)), Phases(), Phases()
    for _ in range(3):
        once.seen.clear()
        with use(once):
            run(X)
        assert once.seen == wanted.seen
        twice.seen.clear()
        with use(twice, on_replay=True):
            run(X)
        assert twice.seen.count(("backward", "sin")) == 2 * wanted.seen.count(("backward", "sin"))


@pytest.mark.parametrize("form", ["as written", "jitted"])
def test_cotangents_of_such_a_pass_are_replaced_again(form):
    def doubled():
        return FnHook(backward=lambda op, grad_inputs, g: [3 * grad_inputs[0]])

    with use(doubled(), "sin"):
        wanted = ft.grad(slope)(X)
    run, hook = FORMS[form](ft.checkpoint(slope)), doubled()
    for _ in range(3):
        with use(hook, "sin"):
            numpy.testing.assert_allclose(run(X), wanted, rtol=1e-12)


def test_a_hook_that_is_told_before_operations_alone_lets_sparse_cotangents_be():
    class Told(Hook):
        def before(self, op, values):
            pass

    def f(x):
        return np.sum(ft.grad(lambda x: np.sum(np.sin(x[1] * x)))(np.sin(x)))

    x = np.asarray(numpy.array([0.1, 0.2, 0.3]))
    plain = ft.grad(ft.checkpoint(f))(x)
    with use(Told()):
        assert (ft.grad(ft.checkpoint(f))(x) == plain).all()


def test_they_are_replaced_again_once_the_hook_has_ended():
    hook = FnHook(backward=lambda op, grad_inputs, g: [3 * grad_inputs[0]])
    with use(hook, "sin"):
        value, pull = ft.vjp(slope, X)
    (wanted,) = pull(np.asarray(1.0))
    with use(hook, "sin"):
        found, pull = ft.vjp(ft.checkpoint(slope), X)
    assert found == value
    numpy.testing.assert_allclose(pull(np.asarray(1.0))[0], wanted, rtol=1e-12)


def while_loop(x):
    def step(state):
        return np.sin(state[0]) * x, state[1] + 1

    return ft.while_loop(lambda s: s[1] < 3, step, (x, 0), max_steps=5)[0]


@pytest.mark.parametrize("f", [
    while_loop,
    ft.checkpoint(lambda x: ft.fori_loop(0, 2, lambda i, c: np.sin(c) * x, x)),
], ids=["while_loop", "checkpoint of fori_loop"])  # fmt: skip
def test_derivatives_of_a_backward_pass_show_its_cotangents_once(f):
    twice, seen = ft.grad(lambda x: ft.grad(f)(x) ** 2), []

    def noted(op, grad_inputs, grad_output):
        seen.append((op.name, round(float(ft.hooks.value(grad_output)), 9)))

    hook, jitted = FnHook(backward=noted), ft.jit(twice)
    with use(hook):
        twice(X)
    wanted = list(seen)
    for _ in range(3):
        seen.clear()
        with use(hook):
            jitted(X)
        assert seen == wanted
