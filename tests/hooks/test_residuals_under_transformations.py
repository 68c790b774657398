"""Derivatives of any order, batches and programs under a residual hook, to the last bit."""

import numpy
import pytest
from support.residual_cases import BATCH, Bytes, W, X, bits, network, twice

import functensor as ft
import functensor.numpy as np
from functensor.hooks import ResidualHook, use


@ft.custom_vjp
def cubed(x):
    return x**3


cubed.defvjp(lambda x: (x**3, 3 * x**2), lambda slope, g: (g * slope,))


@ft.custom_vjp
def sine_and_cosine(x):
    return np.sin(x), np.cos(x)


sine_and_cosine.defvjp(
    lambda x: ((np.sin(x), np.cos(x)), (np.sin(x), np.cos(x))),
    lambda saved, gs: (gs[0] * saved[1] - gs[1] * saved[0],),
)

FUNCTIONS = {
    "network": network,
    "lookups": lambda w, x: np.sum(np.sin(x)[numpy.array([0, 2, 0])] * np.exp(w[0])),
    "views": lambda w, x: np.sum(np.sin(np.exp(x).T.reshape(2, 10)) * np.exp(x).reshape(2, 10)),
    "broadcasts": lambda w, x: np.sum(np.sin(np.broadcast_to(np.exp(w[0]), x.shape)) * x),
    "parts": lambda w, x: np.sum(np.sin(np.exp(x)[::2, 1:]) ** 2),
    "columns": lambda w, x: np.sum(np.sin(np.exp(x.T).T * 2) @ w),
    "complex": lambda w, x: np.sum(np.abs(np.exp(1j * np.sin(x)) + np.cos(x)) ** 2),
    "several outputs": lambda w, x: sum(np.sum(y * y) for y in sine_and_cosine(np.tanh(x))),
    "one of several outputs": lambda w, x: np.sum(sine_and_cosine(np.tanh(x))[0] * x),
    "custom rule": lambda w, x: np.sum(cubed(np.sin(x @ w))),
    "scan": lambda w, x: np.sum(ft.scan(lambda c, y: (np.sin(c @ w) * y, c), x[0], x)[0]),
    "fori_loop": lambda w, x: np.sum(ft.fori_loop(0, 3, lambda i, c: np.sin(c @ w), x)),
    "cond": lambda w, x: ft.cond(True, network, lambda w, x: np.sum(x), w, x),
    "checkpoint": lambda w, x: network(w, ft.checkpoint(lambda w, x: np.tanh(x @ w))(w, x)),
    "jitted": lambda w, x: ft.jit(network)(w, np.exp(x)),
    "vmap inside": lambda w, x: np.sum(ft.vmap(lambda row: np.sin(np.exp(row) @ w))(x)),
    "grad inside": lambda w, x: np.sum(ft.grad(network)(w, np.sin(x)) ** 2),
}


TRANSFORMATIONS = {
    "grad": lambda f: ft.grad(f, (0, 1))(W, X),
    "value_and_grad": lambda f: ft.value_and_grad(f)(W, X),
    "vjp": lambda f: ft.vjp(f, W, X)[1](1.0),
    "grad of grad": lambda f: ft.grad(twice(f), 1)(W, X),
    "grad of grad of grad": lambda f: ft.grad(twice(twice(f)))(W, X),
    "forward over reverse": lambda f: ft.jvp(ft.grad(f), (W, X), (W, X)),
    "reverse over forward": lambda f: ft.grad(lambda x: ft.jvp(f, (W, x), (W, X))[1])(X),
    "vmap of grad": lambda f: ft.vmap(ft.grad(f), (None, 0))(W, BATCH),
    "grad of vmap": lambda f: ft.grad(lambda w: np.sum(ft.vmap(f, (None, 0))(w, BATCH)))(W),
    "hessian": lambda f: ft.hessian(lambda row: f(W, row * X))(X[0]),
    "jit of grad": lambda f: ft.jit(ft.grad(f))(W, X),
}


@pytest.mark.filterwarnings("ignore::functensor.programs.staging_warnings.StagingWarning")
@pytest.mark.parametrize("transformation", TRANSFORMATIONS)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_derivatives_stay_the_same_to_the_last_bit(function, transformation):
    def run():
        # All values depend on all arguments.
        return TRANSFORMATIONS[transformation](lambda w, x: FUNCTIONS[function](w, x + w[0]))

    # A jitted function runs as it was written under the hook, and a plan may round otherwise.
    with ft.disable_jit():
        plain = run()
    hook = Bytes()
    with use(hook):
        seen = run()
    assert bits(seen) == bits(plain)
    assert hook.packed
    assert hook.unpacked


def test_a_hook_within_a_jitted_function():
    calls = []

    def pack(op, value):
        calls.append(op.name)
        return value.astype("float32")

    def unpack(op, packed):
        return packed.astype("float64")

    hook = ResidualHook(pack, unpack)

    def inside(w, x):
        with use(hook, "tanh"):
            return ft.grad(network)(w, x)

    eager = inside(W, X)
    del calls[:]
    # It is not called where it does not say that it can be traced.
    jitted = ft.jit(inside)
    numpy.testing.assert_allclose(jitted(W, X), ft.grad(network)(W, X), rtol=1e-12)
    assert calls == []
    hook.traceable = True
    jitted = ft.jit(inside)
    for _ in range(2):
        numpy.testing.assert_allclose(jitted(W, X), eager, rtol=1e-12)
    # It became part of the program, which rounds each of the three residuals.
    assert calls == ["tanh"] * 3
    assert str(jitted.lower(W, X).program).count("dtype=float32") == 3
    assert float(np.max(np.abs(eager - ft.grad(network)(W, X)))) > 1e-12


def test_under_a_hook_jitted_functions_run_as_they_were_written():
    hook = Bytes()
    step = ft.jit(ft.grad(network))
    numpy.testing.assert_allclose(step(W, X), ft.grad(network)(W, X), rtol=1e-12)
    for _ in range(2):
        with use(hook):
            seen = step(W, X)
        assert bits(seen) == bits(ft.grad(network)(W, X))
    assert hook.names() == ["tanh"] * 6
    # And as a plan again without it.
    with step.assert_no_retrace():
        step(W, X)


@pytest.mark.parametrize("on_replay", [False, True])
def test_second_derivatives_of_checkpoints_with_a_policy(on_replay):
    """Values that the second run has not computed are not kept yet, and so are not packed."""
    policy = ft.checkpoint_policies.save_only_these_names("hidden")
    kept = ft.checkpoint(lambda w, x: np.tanh(x @ w), policy=policy)

    def loss(w, x):
        carry, ys = ft.scan(lambda c, row: (kept(w, c) + row, np.sum(c * row)), np.sin(x[0]), x)
        return np.sum(carry) + np.sum(ys)

    def slope(w, x):
        return np.sum(ft.grad(lambda x: np.sum(kept(w, x) ** 2))(np.sin(x)))

    for derivative in (ft.grad(twice(loss)), ft.hessian(loss), ft.hessian(slope)):
        expected = bits(derivative(W, X))
        with use(Bytes(), on_replay=on_replay):
            found = bits(derivative(W, X)), bits(ft.jit(derivative)(W, X))
        assert found == (expected, expected)
