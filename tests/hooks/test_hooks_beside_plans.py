"""With `config.deterministic` a jitted function returns the same bits under hooks as without."""

import numpy
import pytest
from support.hooked_programs import program
from support.long_forms import sized
from test_identity_hooks import TRANSFORMATIONS, Noting, Observing, Returning, bits, data

import functensor as ft
import functensor.numpy as np
from functensor.hooks import FnHook, Hook, use


@pytest.fixture(autouse=True)
def deterministic():
    with ft.config.using(deterministic=True):
        yield


@pytest.mark.long
@pytest.mark.parametrize("seed", range(sized(3, 40)))
@pytest.mark.parametrize("inside", [False, True], ids=["jit of grad", "grad of jit"])
def test_bits_and_observations_are_those_without_plans(seed, inside):
    f, args = program(seed), data(seed)
    for mode, transform in TRANSFORMATIONS.items():
        run = transform(ft.jit(f)) if inside else ft.jit(transform(f))
        plain, wanted, found = bits(run(*args)), Noting(False), Noting(False)
        with use(wanted), ft.disable_jit():
            run(*args)
        for hook in (Observing(), Returning(), found, found):
            found.seen.clear()
            with use(hook):
                assert bits(run(*args)) == plain, (f.__name__, mode)
        # A plan shows branches of a batch for examples that do not take them.
        if inside or ("cond" not in f.__name__ and mode in ("evaluated", "grad")):
            assert set(found.seen) == set(wanted.seen), (f.__name__, mode)


def rounded(w, x):
    """Has a gradient that differs in its last bits from that of its plan, which is a loop's."""
    return np.sum(ft.scan(lambda c, r: (np.tanh(w @ c) * r, c @ w), w[0], x)[1] ** 2)


W = np.asarray(numpy.random.RandomState(0).randn(3, 3))
X = np.asarray(numpy.random.RandomState(1).randn(20, 3))
XS = X.reshape(2, 10, 3)


def test_first_calls_have_the_bits_of_plans():
    plain = bits(ft.jit(ft.value_and_grad(rounded))(W, X))
    assert plain != bits(ft.value_and_grad(rounded)(W, X))
    fresh = ft.jit(ft.value_and_grad(rounded))
    for _ in range(3):
        with use(Observing()):
            assert bits(fresh(W, X)) == plain


def test_donated_arguments_last_until_the_results_are_there():
    def step(w, x):
        return w - 0.1 * ft.grad(rounded)(w, x)

    plain = bits(ft.jit(step)(W, X))
    donating, hook = ft.jit(step, donate_argnums=0), Observing()
    for _ in range(3):
        w = np.array(W)
        with use(hook):
            assert bits(donating(w, X)) == plain
        with pytest.raises(ft.errors.DonatedArrayError):
            np.sum(w)


class Late(Hook):
    """Replaces what it sees from a call on."""

    def __init__(self, first):
        self.first = first
        self.calls = 0

    def forward(self, op, inputs, output):
        self.calls += 1
        return output * 2 if self.calls >= self.first else None


@pytest.mark.parametrize("inside", [False, True], ids=["jit of grad", "grad of jit"])
def test_values_that_a_hook_replaces_at_last_count(inside):
    f = ft.grad(ft.jit(np.sin)) if inside else ft.jit(ft.grad(np.sin))
    hook = Late(3)
    with use(hook, "sin"):
        found = [float(f(0.0)) for _ in range(4)]
    assert found == [1.0, 1.0, 2.0, 2.0]


@pytest.mark.parametrize("inside", [False, True], ids=["jit of grad", "grad of jit"])
def test_cotangents_that_a_hook_replaces_at_last_count(inside):
    f = ft.grad(ft.jit(np.sin)) if inside else ft.jit(ft.grad(np.sin))
    calls = []

    def backward(op, grad_inputs, grad_output):
        calls.append(op.name)
        return [3 * grad_inputs[0]] if len(calls) > 2 else None

    hook = FnHook(backward=backward)
    with use(hook):
        assert [float(f(0.0)) for _ in range(4)] == [1.0, 1.0, 3.0, 3.0]


def test_values_that_a_hook_keeps_have_derivatives():
    """The loss has a penalty on what the hook was shown, an operand, an output and a cotangent."""

    def loss(x, f, kept):
        hook = FnHook(forward=lambda op, inputs, out: kept.extend([*inputs, out]))
        with use(hook, "tanh"):
            value = f(x)
        return value + sum(np.sum(k**2) for k in kept)

    def f(x):
        return np.sum(np.tanh(3 * x))

    x = np.array([0.1, -0.4])
    wanted = ft.grad(lambda x: loss(x, f, []))(x)
    numpy.testing.assert_allclose(ft.grad(lambda x: loss(x, ft.jit(f), []))(x), wanted, rtol=1e-14)
    pushed = ft.jvp(lambda x: loss(x, ft.jit(f), []), (x,), (x,))[1]
    numpy.testing.assert_allclose(pushed, wanted @ x, rtol=1e-14)

    def slope(x, f):
        kept = []
        hook = FnHook(backward=lambda op, grad_inputs, g: kept.append(grad_inputs[0]))
        with use(hook, "tanh"):
            ft.grad(f)(x)
        return np.sum(kept[0] ** 2)

    wanted = ft.grad(lambda x: slope(x, f))(x)
    numpy.testing.assert_allclose(ft.grad(lambda x: slope(x, ft.jit(f)))(x), wanted, rtol=1e-14)


def test_captured_values_have_derivatives():
    f = ft.jit(lambda x: np.sum(ft.tag(np.tanh(x), "h") ** 2))
    x = np.array([0.3, 0.7])

    def penalty(x):
        out, values = ft.hooks.capture(f, "h")(x)
        return out + np.sum(values["h"])

    with use(Observing()):
        found = ft.grad(penalty)(x)
    h = numpy.tanh(numpy.asarray(x))
    numpy.testing.assert_allclose(found, (2 * h + 1) * (1 - h**2), rtol=1e-14)


def test_traced_values_that_a_function_closes_over_have_one_cotangent():
    def loss(w):
        return ft.jit(lambda x: np.sum(np.sin(w * x)))(w)

    plain, seen = ft.grad(loss)(np.array([0.5, 2.0])), []
    with use(FnHook(backward=lambda op, grad_inputs, g: seen.append(op.name))):
        numpy.testing.assert_allclose(ft.grad(loss)(np.array([0.5, 2.0])), plain, rtol=1e-14)
    assert seen == ["sum", "sin", "multiply"]


@pytest.mark.parametrize("modes", ["tensors", "batches", "checkpoint", "scan", "linearize"])
def test_results_within_other_transformations_keep_their_bits(modes):
    f = ft.jit(rounded)

    def tensors():
        w = ft.Tensor(W, requires_grad=True)
        loss = f(w, X)
        loss.backward()
        return loss.detach(), w.grad

    forms = {
        "tensors": tensors,
        "batches": lambda: ft.vmap(ft.grad(f), (None, 0))(W, np.stack([X, 2 * X])),
        "checkpoint": lambda: ft.grad(ft.checkpoint(f))(W, X),
        "scan": lambda: ft.grad(lambda w: ft.scan(lambda c, x: (c + f(w, x), c), 0.0, XS)[0])(W),
        "linearize": lambda: ft.linearize(f, W, X)[1](W, X),
    }
    plain = bits(forms[modes]())
    for hook in (Observing(), Returning()):
        with use(hook):
            assert bits(forms[modes]()) == plain


def test_an_error_in_a_hook_leaves_the_next_call_right():
    f, calls = ft.jit(np.sin), []

    def forward(op, inputs, output):
        calls.append(op.name)
        if len(calls) == 2:
            raise OSError("full")

    plain = bits(ft.grad(f)(0.5))
    with use(FnHook(forward=forward)):
        assert bits(ft.grad(f)(0.5)) == plain
        with pytest.raises(OSError, match="full"):
            ft.grad(f)(0.5)
        assert bits(ft.grad(f)(0.5)) == plain
    assert bits(ft.grad(f)(0.5)) == plain
    assert calls == ["sin"] * 3


def test_a_hook_that_ends_itself_sees_nothing_more():
    f, seen = ft.jit(lambda x: np.sin(np.sin(x))), []

    def forward(op, inputs, output):
        seen.append(op.name)
        handle.remove()

    with use(FnHook(forward=forward)) as handle:
        ft.grad(f)(0.5)
        ft.grad(f)(0.5)
    assert seen == ["sin"]


def test_a_hook_that_a_hook_adds_sees_what_comes_next():
    f, seen = ft.jit(lambda x: np.cos(np.sin(x))), []
    second = FnHook(forward=lambda op, inputs, output: seen.append(op.name))
    handles = []

    def forward(op, inputs, output):
        if not handles:
            handles.append(use(second))

    with use(FnHook(forward=forward)):
        ft.grad(f)(0.5)
    handles[0].remove()
    assert seen == ["cos"]
