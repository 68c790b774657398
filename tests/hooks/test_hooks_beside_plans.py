"""A jitted function returns the same bits under hooks as without, in whatever tier it runs."""

from contextlib import ExitStack

import numpy
import pytest
from support.hooked_programs import program
from support.long_forms import sized
from support.native import missing
from test_identity_hooks import TRANSFORMATIONS, Noting, Observing, Returning, bits, data

import functensor as ft
import functensor.numpy as np
from functensor.hooks import FnHook, Hook, use
from functensor.jitting import tiers

TIERS = ["over NumPy", "machine code", "deterministic"]


@pytest.fixture(autouse=True, params=sized(TIERS[:1], TIERS))
def tier(request, monkeypatch):
    monkeypatch.setattr(tiers, "SECONDS_BEFORE_COMPILING", float("inf"))
    if request.param == "machine code":
        if missing:
            pytest.skip(missing)
        # It takes over behind the first call of a plan.
        monkeypatch.setattr(tiers, "SECONDS_BEFORE_COMPILING", 0.0)
        monkeypatch.setattr(tiers, "MOST_OF_NUMPYS_TIME", float("inf"))
        monkeypatch.setattr(tiers.Tiers, "begin", tiers.Tiers.finish)
    with ft.config.using(deterministic=request.param == "deterministic"):
        yield request.param


def steady(run, *args):
    """Returns the bits of results, once the tier is there that stays."""
    for _ in range(3):
        found = bits(run(*args))
    return found


@pytest.mark.long
@pytest.mark.parametrize("seed", range(sized(3, 12)))
@pytest.mark.parametrize("inside", [False, True], ids=["jit of grad", "grad of jit"])
def test_bits_and_observations_are_those_without_plans(seed, inside):
    f, args = program(seed), data(seed)
    for mode, transform in TRANSFORMATIONS.items():
        run = transform(ft.jit(f)) if inside else ft.jit(transform(f))
        plain, wanted, found = steady(run, *args), Noting(False), Noting(False)
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


def test_first_calls_have_the_bits_of_plans(tier):
    plain = steady(ft.jit(ft.value_and_grad(rounded)), W, X)
    assert plain != bits(ft.value_and_grad(rounded)(W, X))
    fresh = ft.jit(ft.value_and_grad(rounded))
    for number in range(4):
        with use(Observing()):
            # The first call is the one that machine code takes over behind.
            assert bits(fresh(W, X)) == plain or (tier, number) == ("machine code", 0)


def test_donated_arguments_last_until_the_results_are_there():
    def step(w, x):
        return w - 0.1 * ft.grad(rounded)(w, x)

    plain = steady(ft.jit(step), W, X)
    donating, hook = ft.jit(step, donate_argnums=0), Observing()
    steady(lambda: donating(np.array(W), X))
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


def test_hooks_are_asked_once_in_the_call_in_which_one_begins_to_replace():
    """Before it and behind it are others, in a loop with more calls of each."""
    seen, late, xs = [], Late(8), np.arange(1.0, 4.0)

    def f(x):
        return ft.scan(lambda c, y: (np.sin(c) * y, np.cos(c)), x, xs)

    jitted = ft.jit(f)
    for call in range(4):
        seen.clear()
        with ExitStack() as stack:
            stack.enter_context(use(FnHook(forward=lambda op, i, out: seen.append(op.name))))
            stack.enter_context(use(late, "sin"))
            found = jitted(0.5)
        assert seen == ["sin", "multiply", "cos"] * 3
        assert late.calls == 3 * (call + 1)
        again, late.calls = late.calls, 3 * call
        with use(late, "sin"):
            wanted = f(0.5)
        late.calls = again
        for a, b in zip(ft.tree.leaves(found), ft.tree.leaves(wanted), strict=True):
            numpy.testing.assert_allclose(a, b, rtol=1e-14)


def test_what_no_hook_sees_is_computed_once():
    def f(w, x):
        return np.sum(np.tanh(w @ ft.tag(np.tanh(w @ x), "h")))

    jitted = ft.jit(ft.value_and_grad(f))
    plain, hook = steady(jitted, W, X.T), Observing()
    for _ in range(3):
        with use(hook, "h"):
            assert bits(jitted(W, X.T)) == plain
    programs = [entry.compiled.program for entry in jitted._entries.values()]
    products = [str(program).count("matmul(") for program in programs]
    shown = [len(program.outputs) for program in programs]
    assert (products, shown) == ([5, 3], [2, 0])
    assert str(programs[1]).count("hook on") == 2


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
    plain = steady(forms[modes])
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


@pytest.mark.parametrize("mode", ["evaluated", "grad", "vmap", "jit of grad"])
def test_a_hook_of_the_functions_own_is_called_once_a_call(mode):
    calls = []
    own = FnHook(forward=lambda op, inputs, output: calls.append(op.name))

    def f(x):
        with use(own, "sin"):
            return 2 * np.sin(x)

    forms = {
        "evaluated": ft.jit(f),
        "grad": ft.grad(ft.jit(f)),
        "vmap": ft.vmap(ft.jit(f)),
        "jit of grad": ft.jit(ft.grad(f)),
    }
    x = np.ones(2) if mode == "vmap" else np.asarray(1.0)
    for hook in (Observing(), Returning()):
        for _ in range(3):
            calls.clear()
            with use(hook):
                forms[mode](x)
            assert calls == ["sin"]


@pytest.mark.parametrize("mode", ["evaluated", "grad", "vmap", "grad of vmap"])
def test_values_that_a_function_takes_back_count(mode):
    """What the hook was shown reaches the result without a derivative, too."""
    taken = []

    def f(x):
        taken.clear()
        out = np.sum(np.tanh(x))
        return out + sum(np.sum(h) for h in taken)

    forms = {
        "evaluated": lambda f: f(X[0]),
        "grad": lambda f: ft.value_and_grad(f)(X[0]),
        "vmap": lambda f: ft.vmap(f)(X),
        "grad of vmap": lambda f: ft.grad(lambda x: np.sum(ft.vmap(f)(x)))(X),
    }
    jitted, hook = ft.jit(f), FnHook(forward=lambda op, inputs, output: taken.append(output))
    with use(hook, "tanh"):
        wanted = forms[mode](f)
        for _ in range(3):
            found = forms[mode](jitted)
            for a, b in zip(ft.tree.leaves(found), ft.tree.leaves(wanted), strict=True):
                numpy.testing.assert_allclose(a, b, rtol=1e-14)


def test_a_checkpoint_repeats_what_it_did_before_a_hook_replaced_cotangents():
    """The hook replaces none before the second run begins."""
    f = ft.checkpoint(ft.jit(lambda x: np.sum(np.sin(x) * x)))
    calls = []

    def backward(op, grad_inputs, grad_output):
        calls.append(op.name)
        return [None if g is None else 2 * g for g in grad_inputs]

    def loss(x):
        return 3 * f(x)

    x = np.array([0.3, 0.7])
    with use(FnHook(backward=backward), "multiply"):
        wanted = ft.grad(lambda x: 3 * np.sum(np.sin(x) * x))(x)
    for _ in range(2):
        with use(FnHook(backward=backward), "multiply"):
            numpy.testing.assert_allclose(ft.grad(loss)(x), wanted, rtol=1e-14)
    assert calls


@pytest.mark.parametrize(("exacts", "runs"), [([False], 2), ([True], 3), ([False, True], 3)])
def test_without_exactness_nothing_runs_twice(exacts, runs):
    """The function is written down once as it runs, once with hooks and once without."""
    written = []

    def f(x):
        written.append(x)
        return np.sum(np.sin(x) ** 2)

    jitted, x = ft.jit(f), np.arange(3.0)
    hooks = [FnHook(forward=lambda op, inputs, output: None, exact=exact) for exact in exacts]
    assert ("exact=False" in repr(hooks[0])) is not exacts[0]
    for _ in range(3):
        with ExitStack() as stack:
            for hook in hooks:
                stack.enter_context(use(hook))
            found = jitted(x)
        numpy.testing.assert_allclose(found, numpy.sum(numpy.sin([0, 1, 2]) ** 2), rtol=1e-14)
    assert len(written) == runs
