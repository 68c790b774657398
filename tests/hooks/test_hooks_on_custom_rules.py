"""Hooks on functions with rules of their own: they change no bit, and see no forward cotangents."""

import numpy
import pytest
from test_identity_hooks import Returning, bits

import functensor as ft
import functensor.numpy as np
from functensor.hooks import FnHook, use
from functensor.scipy.integrate import odeint

W = np.asarray(numpy.random.RandomState(3).randn(5, 5).astype("float32"))


@ft.custom_gradient
def product(x):
    y = np.tanh(x)
    return x * y, lambda g: g * (y + x * (1 - y**2))


@ft.custom_vjp
def cube(x):
    return x**3


cube.defvjp(lambda x: (x**3, x), lambda x, g: (3 * x**2 * g,))


def decayed(x):
    return odeint(lambda y, t: np.sin(t) - y, x, np.array([0.0, 0.5, 1.0]))[-1]


def squared_gradient(x):
    return np.sum(ft.grad(lambda x: np.sum(np.sin(W @ product(product(x)) * x)))(x) ** 2)


@pytest.mark.parametrize(
    "run",
    [
        ft.grad(squared_gradient),
        ft.grad(lambda x: np.sum(np.sin(ft.vmap(decayed)(W * x)))),
    ],
    ids=["custom_gradient", "odeint"],
)
def test_results_are_bit_identical(run):
    plain = bits(run(W[0]))
    with use(Returning()):
        assert bits(run(W[0])) == plain


@pytest.mark.parametrize("f", [cube, product], ids=["custom_vjp", "custom_gradient"])
@pytest.mark.parametrize("batch", [False, True])
def test_forward_mode_shows_no_cotangents(f, batch):
    seen = []
    hook = FnHook(
        forward=lambda op, inputs, output: seen.append(op.phase),
        backward=lambda op, grad_inputs, grad_output: [3 * grad_inputs[0]],
    )
    run = ft.vmap(f) if batch else f
    plain = ft.jvp(run, (W,), (W,))
    with use(hook):
        found = ft.jvp(run, (W,), (W,))
    assert bits(found) == bits(plain)
    assert set(seen) == {"tangent"}


def test_replaced_cotangents_of_a_batch_count():
    def total(x):
        return np.sum(ft.vmap(decayed)(W * x))

    plain = ft.grad(total)(W[0])
    hook = FnHook(backward=lambda op, gi, g: [None if c is None else 2 * c for c in gi])
    with use(hook, "odeint"):
        found = ft.grad(total)(W[0])
    numpy.testing.assert_allclose(found, 2 * plain, rtol=1e-5)
