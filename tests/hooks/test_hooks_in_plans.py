"""Plans that call hooks: what hooks keep, replace, add and end while a plan runs."""

import numpy
import pytest

import functensor as ft
import functensor.numpy as np
from functensor.hooks import FnHook, Hook, use
from functensor.primitives.core.trace import slot


def test_hooks_keep_no_arrays_that_a_plan_writes_into_again():
    def step(carry, x):
        return np.sin(carry) * x, carry + x

    f = ft.jit(lambda x: ft.scan(step, x[0], x)[1])
    x = np.linspace(0.5, 2.0, 12).reshape(4, 3)
    for _ in range(3):
        kept = []

        def keep(op, inputs, output, kept=kept):
            kept.extend((value, numpy.array(value)) for value in (*inputs, output))

        with use(FnHook(forward=keep)):
            f(x)
        assert len(kept) > 30
        for value, copy in kept:
            numpy.testing.assert_array_equal(value, copy)


def test_hooks_that_are_not_traceable_are_called_every_time():
    for way in (lambda f: f, ft.jit, ft.grad, lambda f: ft.jit(ft.grad(f))):
        seen = []

        def doubled(op, inputs, output, seen=seen):
            seen.append(op.name)
            return 2 * output if op.name == "sin" else None

        g = way(lambda x: np.sum(np.sin(x) * x))
        wanted = []
        for _ in range(4):
            seen.clear()
            with use(FnHook(forward=doubled)):
                wanted.append(g(np.ones(2)).tolist())
            assert seen == ["sin", "multiply", "sum"]
        assert wanted == wanted[:1] * 4


def test_a_hook_may_replace_values_by_those_of_numpy():
    f = ft.jit(lambda x: np.sum(np.sin(x)))
    hook = FnHook(forward=lambda op, inputs, output: 3 * numpy.asarray(output))
    for _ in range(4):
        with use(hook, "sin"):
            assert float(f(np.ones(2))) == pytest.approx(6 * numpy.sin(1.0), rel=1e-15)


def test_a_traceable_hook_is_compiled_in():
    seen = []

    def doubled(op, inputs, output):
        seen.append(op.name)
        return 2 * output

    f = ft.jit(ft.grad(lambda x: np.sum(np.sin(x))))
    for _ in range(4):
        with use(FnHook(forward=doubled, traceable=True), "sin"):
            numpy.testing.assert_allclose(f(np.ones(2)), 2 * numpy.cos(np.ones(2)), rtol=1e-15)
    hook = FnHook(forward=doubled, traceable=True)
    seen.clear()
    for _ in range(4):
        with use(hook, "sin"):
            f(np.ones(2))
    assert len(seen) == 2  # as it was written, and staged


def test_hooks_that_come_and_go_while_a_plan_runs():
    f = ft.jit(lambda x: np.sin(np.cos(x)))
    seen, count = [], []

    def adding(op, inputs, output):
        count.append(op.name)
        if len(count) == 3:
            handles.append(use(FnHook(forward=lambda op, inputs, output: seen.append(op.name))))
        if len(count) == 5:
            handles[0].remove()

    handles = [use(FnHook(forward=adding))]
    for _ in range(4):
        f(np.ones(2))
    assert seen == ["cos", "sin", "cos", "sin"]
    assert len(count) == 5
    np.tan(np.ones(2))
    assert seen[4:] == ["tan"]
    handles[1].remove()
    assert slot.trace is None


@pytest.mark.parametrize("x", [2, 2.0, True, 2j, numpy.float32(2)])
def test_results_of_jitted_functions_are_arrays_under_hooks_too(x):
    f = ft.jit(lambda x: x * 2)
    wanted = f(x)
    for _ in range(3):
        with use(Hook()):
            got = f(x)
        assert type(got) is ft.Array
        assert (numpy.float32(1) * got).dtype == (numpy.float32(1) * wanted).dtype
    with ft.disable_jit():
        assert type(f(x)) is ft.Array


def test_loops_show_the_way_back_of_every_step():
    for wrapped in (np.sin, ft.vmap(np.sin)):

        def f(w, fun=wrapped):
            return np.sum(ft.fori_loop(0, 3, lambda i, c: c + fun(w) * 5.0, np.ones(2)))

        w = np.array([1.0, 2.0])
        g = ft.hooks.clip_gradients(f, "sin", max_value=1.0)
        for _ in range(3):
            numpy.testing.assert_array_equal(ft.grad(g)(w), [3.0, -3.0])
            numpy.testing.assert_array_equal(ft.jit(ft.grad(g))(w), [3.0, -3.0])


DERIVATIVES = {
    "jvp": lambda f: lambda x: ft.jvp(f, (x,), (x,)),
    "grad": ft.value_and_grad,
    "hessian": ft.hessian,
    "loop": lambda f: ft.grad(lambda x: ft.fori_loop(0, 2, lambda i, c: f(c), x)),
}


@pytest.mark.parametrize("form", DERIVATIVES)
@pytest.mark.parametrize("moment", ["forward", "backward"])
@pytest.mark.parametrize("first", [2, 3, 5])
def test_a_hook_that_begins_to_replace_in_a_derivative_is_asked_nothing_else_again(
    form, moment, first
):
    """The call runs anew, and what the hook has looked at is not shown to it a second time."""

    class Late(Hook):
        calls, begins = 0, float("inf")

        def forward(self, op, inputs, output):
            self.calls += 1
            return 2 * output if moment == "forward" and self.calls >= self.begins else None

        def backward(self, op, grad_inputs, grad_output):
            self.calls += 1
            late = moment == "backward" and self.calls >= self.begins
            return [None if g is None else 2 * g for g in grad_inputs] if late else None

    f = DERIVATIVES[form](lambda x: np.sin(np.cos(x) * x))
    jitted, late, eager, other, x = ft.jit(f), Late(), Late(), [], np.asarray(0.7)
    watching = FnHook(forward=lambda op, inputs, output: other.append(op.name))
    for _ in range(2):
        with use(watching), use(late):
            jitted(x)
    count, late.calls, late.begins, eager.begins = late.calls // 2, 0, first, first
    other.clear()
    with use(watching), use(late):
        found = jitted(x)
    shown = list(other)
    other.clear()
    with use(watching), use(eager):
        wanted = f(x)
    for a, b in zip(ft.tree.leaves(found), ft.tree.leaves(wanted), strict=True):
        numpy.testing.assert_allclose(a, b, rtol=1e-14)
    assert shown == other
    # A derivative of the hook asks it once more for each cotangent that it replaces.
    again = 3 if (form, moment) == ("hessian", "backward") else 1
    assert count <= late.calls <= count + again


def test_a_value_that_is_replaced_before_one_with_a_derivative_is_the_first_to_be_asked_for():
    calls = []

    def forward(op, inputs, output):
        calls.append(op.name)
        return 2 * output if late and len(calls) > 1 else None

    def f(x, y):
        return ft.jvp(lambda t: np.cos(np.sin(y)) * np.tanh(t), (x,), (x,))

    late, jitted, x, y = False, ft.jit(f), np.asarray(0.7), np.asarray(0.2)
    hook = FnHook(forward=forward)
    for _ in range(2):
        with use(hook):
            jitted(x, y)
    late = True
    calls.clear()
    with use(hook):
        found = jitted(x, y)
    assert calls == ["sin", "cos", "tanh", "cos", "tanh", "multiply"]
    calls.clear()
    with use(FnHook(forward=forward)):
        wanted = f(x, y)
    numpy.testing.assert_allclose(found, wanted, rtol=1e-14)


def test_arrays_that_a_program_makes_of_nothing_are_no_operations():
    """A program makes large ones itself, which are constants where nothing is staged."""

    def f(x):
        made = np.eye(300)[0] + np.zeros((300, 300))[1] + np.linspace(0, 1, 90000)[:300]
        return np.sin(made * np.arange(90000)[:300]) * x

    x, seen = np.ones(300), []
    hook = FnHook(forward=lambda op, inputs, output: seen.append(op.name))
    with use(hook):
        wanted = f(x)
    names, jitted = list(seen), ft.jit(f)
    for _ in range(2):
        seen.clear()
        with use(hook):
            numpy.testing.assert_allclose(jitted(x), wanted, rtol=1e-14)
        assert seen == names
