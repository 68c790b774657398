"""Checkpointed functions under hooks, in jitted functions and in scopes."""

import numpy
import pytest

import functensor as ft
import functensor.numpy as np
from functensor.hooks import FnHook, Hook, use

policies = ft.checkpoint_policies
X = numpy.array([0.3, -0.7, 1.1])
W = numpy.arange(9.0).reshape(3, 3) / 9
CHOICES = {
    "nothing": None,
    "dots": policies.dots_saveable,
    "everything": policies.everything_saveable,
    "names": policies.save_only_these_names("hidden"),
}


def layer(x, w):
    return np.sin(ft.tag(np.tanh(w @ x), "hidden")) / 3


def watcher(seen):
    return FnHook(
        forward=lambda op, inputs, output: seen.append((op.name, op.scope, op.phase)),
        backward=lambda op, cotangents, g: seen.append((op.name, op.scope, op.phase)),
    )


@pytest.mark.parametrize("on_replay", [False, True])
@pytest.mark.parametrize("policy", CHOICES)
def test_a_jitted_gradient_shows_what_an_eager_one_does_in_every_call(policy, on_replay):
    f = ft.checkpoint(layer, policy=CHOICES[policy])
    gradient = ft.grad(lambda x, w: np.sum(f(x, w)), (0, 1))
    jitted, seen = ft.jit(gradient), []
    plain = jitted(X, W)
    hook = watcher(seen)
    with use(hook, on_replay=on_replay):
        gradient(X, W)
    expected = sorted(seen)
    assert expected
    for _ in range(3):
        seen.clear()
        with use(hook, on_replay=on_replay):
            got = jitted(X, W)
        if not (on_replay and CHOICES[policy]):
            # With a policy the second run computes what is asked for, and in programs all.
            assert sorted(seen) == expected
        for a, b in zip(got, plain, strict=True):
            numpy.testing.assert_allclose(a, b, rtol=1e-14)


@pytest.mark.parametrize("policy", CHOICES)
def test_the_second_run_is_in_the_scope_of_the_call(policy):
    """A hook that sees one scope alone has to replace there again what it replaced."""
    f = ft.checkpoint(layer, policy=CHOICES[policy])

    def loss(f):
        def scoped(x, w):
            with ft.scope("block"):
                out = f(x, w)
            return np.sum(out)

        return ft.grad(scoped, (0, 1))

    doubled = FnHook(
        forward=lambda op, inputs, output: output * 2 if op.name == "tanh" else None
    )
    with use(doubled, scope="block"):
        expected = loss(layer)(X, W)
    jitted = ft.jit(loss(f))
    for gradient in (loss(f), jitted, jitted, jitted):
        with use(doubled, scope="block"):
            got = gradient(X, W)
        for a, b in zip(got, expected, strict=True):
            numpy.testing.assert_allclose(a, b, rtol=1e-14)
    seen = []
    with use(watcher(seen), scope="block", on_replay=True):
        loss(ft.checkpoint(layer))(X, W)
    assert {phase for _, _, phase in seen} == {"forward", "backward", "replay"}


@pytest.mark.parametrize("outer", CHOICES)
@pytest.mark.parametrize("inner", CHOICES)
def test_policies_within_policies(inner, outer):
    """A policy is known by its identity, also where a second run has a copy of the function."""
    nested = ft.checkpoint(
        ft.checkpoint(layer, policy=CHOICES[inner]), policy=CHOICES[outer]
    )
    late = ft.checkpoint(
        lambda x, w: ft.checkpoint(layer, policy=CHOICES[inner])(x, w), policy=CHOICES[outer]
    )
    expected = ft.grad(lambda x: np.sum(layer(x, W)))(X)
    for f in (nested, late):
        gradient = ft.grad(lambda x, f=f: np.sum(f(x, W)))
        assert numpy.array_equal(gradient(X), expected)
        numpy.testing.assert_allclose(ft.jit(gradient)(X), expected, rtol=1e-14)


def test_public_functions_stay_the_same_in_a_second_run():
    chosen, met = np.nansum, []

    def f(x):
        met.append(chosen)
        return chosen(x)

    ft.grad(ft.checkpoint(f))(1.0)
    assert met == [np.nansum, np.nansum]


def test_a_sum_over_the_steps_of_a_loop_may_be_that_of_a_constant():
    """The derivative by a value that only decides is zero, and no variable of the program."""

    def f(x):
        kept = ft.checkpoint(lambda c: np.cumsum(c) - np.mean(c), policy=CHOICES["names"])
        y = x * x[np.argmax(x)] / (1 + x[2] ** 2)
        return np.sum(ft.fori_loop(0, 3, lambda i, c: kept(c), y))

    def masked(x, w):
        @ft.checkpoint(policy=CHOICES["dots"])
        def body(c):
            return np.sqrt(np.abs(c) + 1) * (c * w[0] > 0)

        return np.sum(ft.fori_loop(0, 3, lambda i, c: body(c), x))

    numpy.testing.assert_allclose(ft.jit(ft.grad(f))(X), ft.grad(f)(X), rtol=1e-14)
    expected = ft.grad(masked, (0, 1))(X, W)
    for a, b in zip(ft.jit(ft.grad(masked, (0, 1)))(X, W), expected, strict=True):
        numpy.testing.assert_allclose(a, b, rtol=1e-14)


class Before(Hook):
    """Notes what it is told of before it runs, and computes with the operands."""

    def __init__(self, traceable=False):
        self.traceable = traceable
        self.seen = []

    def before(self, op, values):
        np.sum(values[0] * 2)
        self.seen.append((op.name, op.phase))


FORMS = {
    "eager": ft.grad,
    "jit of grad": lambda f: ft.jit(ft.grad(f)),
    "grad of jit": lambda f: ft.grad(ft.jit(f)),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("on_replay", [False, True])
def test_a_hook_is_told_before_what_a_checkpoint_runs(form, on_replay):
    """A gradient within is a part of either run."""

    def inner(x):
        return ft.grad(lambda y: np.sum(np.sin(y)))(np.tanh(x))

    f, hook = FORMS[form](lambda x: np.sum(ft.checkpoint(inner)(x))), Before()
    expected = ft.grad(lambda x: np.sum(inner(x)))(X)
    first = [(name, "forward") for name in ("tanh", "sin", "sum")]
    within = [("sum", "backward"), ("sin", "backward")]
    again = [(name, "replay") for name in ("tanh", "sin", "sum")] + within if on_replay else []
    for _ in range(3):
        hook.seen.clear()
        with use(hook, on_replay=on_replay):
            numpy.testing.assert_allclose(f(X), expected, rtol=1e-14)
        outside = [("sum", "forward"), ("sum", "backward")]
        assert hook.seen == [*first, *within, *outside, *again, ("tanh", "backward")]


@pytest.mark.parametrize("form", FORMS)
def test_a_traceable_hook_is_told_before_what_a_checkpoint_runs(form):
    f = FORMS[form](lambda x: np.sum(ft.checkpoint(np.sin)(x)))
    for _ in range(3):
        with use(Before(traceable=True)):
            numpy.testing.assert_allclose(f(X), numpy.cos(X), rtol=1e-14)


@pytest.mark.parametrize("hook", [
    FnHook(forward=lambda op, inputs, output: None),
    FnHook(forward=lambda op, inputs, output: 2 * output),
    FnHook(backward=lambda op, cotangents, g: [2 * c for c in cotangents]),
], ids=["looks", "values", "cotangents"])  # fmt: skip
def test_a_checkpoint_between_jitted_functions_repeats_what_it_did(hook):
    """The inner one runs once in the run that hooks are shown, and once more on the way back."""

    def f(x):
        return np.sum(ft.checkpoint(lambda y: inner(y))(x))

    inner = np.sin
    with use(hook, "sin"):
        expected = ft.grad(f)(X)
    inner = ft.jit(np.sin)
    for _ in range(3):
        with use(hook, "sin"):
            numpy.testing.assert_allclose(ft.grad(ft.jit(f))(X), expected, rtol=1e-14)
            both = ft.vmap(ft.grad(ft.jit(f)))(np.stack([X, X]))
        numpy.testing.assert_allclose(both[1], expected, rtol=1e-14)
