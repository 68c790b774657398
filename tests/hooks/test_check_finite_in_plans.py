"""Jitted functions run as plans under `check_finite`, and raise what they raise one by one."""

import re
import threading

import numpy
import pytest
from support.small_limits import lower_limits

import functensor as ft
import functensor.numpy as np
from functensor import nn
from functensor.backends.cpu.plan.threads.pool import threads
from functensor.primitives.core.trace import slot
from functensor.testing import assert_allclose

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

GOOD, ZERO = numpy.array([1.0, 2.0, 4.0]), numpy.array([1.0, 0.0, 4.0])
LARGE = numpy.array([1.0, 1e300, 4.0])


def roots(x):
    return np.sum(np.sqrt(x))


@ft.custom_vjp
def crooked(x):
    return np.sum(x)


crooked.defvjp(lambda x: (np.sum(x), x), lambda x, g: (g / x,))


def hidden(x):
    """A value that no result shows."""
    return np.where(x > 0, 1 / x, 0.0)


def steps(x):
    return ft.scan(lambda c, x: (hidden(x) + 0 * c, c), 1.0, x)


def until(x):
    return ft.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, hidden(x[c[0]])), (0, 0.0))


def chosen(x):
    return ft.cond(x[0] > 0, lambda x: np.sum(np.log(x)), np.sum, x)


# A function, an argument for which it raises, and the beginning of the message.
CASES = {
    "a ufunc": (np.log, ZERO, "log made infinity of float64[3] from 0 to 4"),
    "hidden": (hidden, ZERO, "divide made infinity of int from 1 to 1 and float64[3] from 0 to 4"),
    "NaN": (np.sqrt, -GOOD, "sqrt made NaN of float64[3] from -4 to -1"),
    "overflow": (np.square, LARGE, "square made infinity of float64[3] from 1 to 1e+300"),
    "a product": (lambda x: 1 / ((x / 1e100) @ (x / 1e100)), LARGE, "matmul made infinity"),
    "a sum": (lambda x: 1 / np.sum(np.stack([x, x]) * 1.5e8), LARGE, "sum made infinity"),
    "a cast": (lambda x: x.astype("float32"), LARGE, "astype made infinity"),
    "float32": (lambda x: np.exp(x.astype("float32") * 30), GOOD * 0 + 3, "exp made infinity"),
    "float16": (lambda x: np.square(x.astype("float16")), GOOD * 300, "square made infinity"),
    "complex": (lambda x: np.abs(1 / (x * 1j)), ZERO, "divide made NaN"),
    "grad": (ft.grad(roots), ZERO, "the gradient of sqrt by operand 0"),
    "value_and_grad": (ft.value_and_grad(roots), ZERO, "the gradient of sqrt by operand 0"),
    "grad of grad": (
        ft.grad(lambda x: np.sum(ft.grad(lambda y: np.sum(y**1.5))(x))),
        ZERO,
        "the gradient of power by operand 0",
    ),
    "jvp": (lambda x: ft.jvp(np.sqrt, (x,), (x + 1,)), ZERO, "the tangent of sqrt"),
    "jacfwd": (ft.jacfwd(np.sqrt), ZERO, "the tangent of sqrt made NaN"),
    "vmap": (ft.vmap(lambda x: 1 / x), ZERO, "divide made infinity"),
    "vmap of grad": (ft.vmap(ft.grad(np.sqrt)), ZERO, "the gradient of sqrt by operand 0"),
    "custom_vjp": (ft.grad(crooked), ZERO, "divide made infinity of float64[] from 1 to 1"),
    "checkpoint": (ft.grad(ft.checkpoint(roots)), ZERO, "the gradient of sqrt by operand 0"),
    "scan": (steps, ZERO, "divide made infinity"),
    "grad of scan": (
        ft.grad(lambda x: ft.scan(lambda c, x: (c + np.sqrt(x), None), 0.0, x)[0]),
        ZERO,
        "the gradient of sqrt by operand 0",
    ),
    "while": (until, ZERO, "divide made infinity"),
    "cond": (chosen, ZERO, "log made infinity"),
    "jit": (ft.jit(hidden), ZERO, "divide made infinity"),
}


def message(call):
    """Returns the first line of what the check raises, without numbers of lines."""
    with pytest.raises(ft.errors.NonFiniteError) as caught:
        call()
    assert slot.trace is not None
    assert __file__ in str(caught.value)
    return re.sub(r"\.py:\d+", ".py", str(caught.value).splitlines()[0])


@pytest.mark.parametrize("small", [False, True], ids=["", "in regions"])
@pytest.mark.parametrize("name", CASES)
def test_the_same_error_as_operation_by_operation(name, small, monkeypatch):
    if small:
        lower_limits(monkeypatch)
    fun, bad, words = CASES[name]
    jitted = ft.jit(fun)
    fine = GOOD / 8
    with ft.hooks.check_finite():
        wanted = message(lambda: fun(np.asarray(bad)))
        assert wanted.startswith(words)
        # The first call runs operation by operation, whatever comes of it.
        for _ in range(2):
            assert message(lambda: jitted(bad)) == wanted
        for _ in range(3):
            assert_allclose(jitted(fine), fun(np.asarray(fine)))
        assert message(lambda: jitted(bad)) == wanted
        assert message(lambda: jitted(np.asarray(bad))) == wanted
        assert_allclose(jitted(fine), fun(np.asarray(fine)))
    assert slot.trace is None
    jitted(bad)
    assert jitted.cache_size == 1


@pytest.mark.parametrize("name", ["grad", "vmap", "jacfwd", "hessian"])
def test_transformations_of_jitted_functions(name):
    transform = getattr(ft, name)
    mapped = transform is ft.vmap
    given, bad = (GOOD[:, None], -GOOD[:, None]) if mapped else (GOOD, ZERO)
    with ft.hooks.check_finite():
        for call in (transform(ft.jit(roots)), ft.jit(transform(ft.jit(roots)))):
            for _ in range(2):
                assert_allclose(call(given), transform(roots)(given))
            assert "sqrt" in message(lambda call=call: call(bad))


def test_a_plan_runs_after_the_first_call_and_nothing_is_staged_again(runs):
    step = ft.jit(ft.grad(roots))
    step(GOOD)
    entry, _ = step._entry((GOOD,), {})
    source = step.lower(GOOD).source
    with step.assert_no_retrace():
        for _ in range(3):
            with ft.hooks.check_finite():
                step(GOOD), step(GOOD)
            step(GOOD)
            with ft.config.using(check_finite=True):
                step(GOOD)
    assert len(runs) == 1
    assert step._entry((GOOD,), {})[0] is entry
    assert step.lower(GOOD).source == source
    assert "report" not in source
    with ft.hooks.check_finite():
        step(-GOOD[:2] * 0 + 1), step(GOOD)
    assert len(runs) == 2


HIDDEN = {
    "a branch": (
        lambda p, x: ft.cond(p, lambda y: y * np.log(np.zeros(())), lambda y: y * 2, x),
        (False, True),
    ),
    "a switch": (
        lambda i, x: ft.switch(i, [lambda y: y, lambda y: y + np.log(np.zeros(4))], x),
        (0, 1),
    ),
    "a loop without steps": (
        lambda n, x: ft.fori_loop(0, n, lambda i, c: c + np.exp(np.full(4, 1000.0)), x),
        (0, 2),
    ),
    "a while_loop without steps": (
        lambda n, x: ft.while_loop(
            lambda c: c[0] < n, lambda c: (c[0] + 1, c[1] + np.sqrt(-np.ones(4))), (0, x)
        )[1],
        (0, 2),
    ),
    "a number that float32 lacks": (
        lambda p, x: ft.cond(p, lambda y: y * 1e200, lambda y: y * 2, x.astype("float32")),
        (False, True),
    ),
    "a number that float32 lacks, and infinity": (
        lambda c, x: (x * c).astype("float32") * 1e200,
        (numpy.inf, 1.0),
    ),
    "a whole number that float32 lacks": (
        lambda c, x: (x * c).astype("float32") + 10**39,
        (numpy.inf, 1.0),
    ),
}


@pytest.mark.filterwarnings("ignore:(divide by zero|overflow|invalid value) encountered")
@pytest.mark.parametrize("name", HIDDEN)
def test_constants_that_only_a_later_call_uses_are_checked(name):
    f, (first, later) = HIDDEN[name]
    function, x = ft.jit(f), np.ones(4)
    with ft.hooks.check_finite():
        for _ in range(3):
            function(first, x)
        with pytest.raises(ft.errors.NonFiniteError, match=r"made (infinity|NaN)"):
            function(later, x)


def test_constants_are_checked_too():
    f = ft.jit(lambda x: x + np.log(np.zeros(3)))
    with ft.hooks.check_finite():
        for _ in range(2):
            assert "log made infinity" in message(lambda: f(GOOD))


def test_false_alarms(runs):
    f = ft.jit(lambda x: np.log(x))
    with ft.hooks.check_finite(where="sqrt"):
        for i in range(1, 4):
            assert_allclose(f(ZERO), numpy.log(ZERO))
            assert len(runs) == i
    g = ft.jit(lambda x: np.var(x) * 2)
    nan = numpy.array([1.0, numpy.nan])
    with ft.hooks.check_finite():
        assert_allclose(g(nan[:1]), 0.0)
        for _ in range(2):
            assert numpy.isnan(float(g(nan)))


@pytest.mark.parametrize(
    "fun",
    [
        nn.sigmoid, nn.softmax, nn.silu, nn.gelu, nn.log_softmax, np.tanh,
        lambda x: np.sum(x) * 2,
        lambda x: np.where(x > 0, np.sqrt(np.where(x > 0, x, 1.0)), 0.0),
        lambda x: nn.softmax(np.where(x > 0, x, -np.inf)),
        lambda x: x @ np.where(x > 0, x, -np.inf),
    ],
)  # fmt: skip
@pytest.mark.parametrize("small", [False, True], ids=["", "in regions"])
def test_what_raises_no_alarm(fun, small, runs, monkeypatch):
    if small:
        lower_limits(monkeypatch)
    f = ft.jit(fun)
    with ft.hooks.check_finite():
        for _ in range(3):
            f(numpy.array([-1000.0, 1.0, 2.0], "float32"))
    assert len(runs) == 1


def test_nan_or_infinity_alone():
    f = ft.jit(lambda x: np.log(x))
    for choices, x, raises in [
        ({"inf": False}, ZERO, False),
        ({"inf": False}, -GOOD, True),
        ({"nan": False}, ZERO, True),
        ({"nan": False}, -GOOD, False),
    ]:
        with ft.hooks.check_finite(**choices):
            f(GOOD)
            for call in (f, np.log, f):
                if raises:
                    message(lambda call=call, x=x: call(np.asarray(x)))
                else:
                    call(np.asarray(x))
    with pytest.raises(ValueError, match="nan and inf are both False"):
        ft.hooks.check_finite(nan=False, inf=False)
    assert slot.trace is None


def test_where_and_scope():
    def f(x):
        with ft.scope("first"):
            y = np.log(x)
        with ft.scope("second"):
            return ft.tag(np.log(x) + y, "both")

    jitted = ft.jit(f)
    for choice, raises in [
        ({"where": "log"}, True),
        ({"where": "exp"}, False),
        ({"where": ["exp", "log"]}, True),
        ({"scope": "second"}, True),
        ({"scope": "third"}, False),
        ({"where": lambda op: op.name == "add"}, False),
    ]:
        with ft.hooks.check_finite(**choice):
            for call in (f, jitted, jitted):
                call(np.asarray(GOOD))
                if raises:
                    message(lambda call=call: call(np.asarray(ZERO)))
                else:
                    call(np.asarray(ZERO))
    with pytest.raises(TypeError, match="match is a name"):
        ft.hooks.check_finite(where=3)


def test_a_handle_ends_the_check():
    f = ft.jit(ft.grad(roots))
    handle = ft.hooks.check_finite()
    assert message(lambda: f(ZERO))
    with ft.hooks.check_finite(inf=False):
        assert message(lambda: f(ZERO))
    handle.remove()
    assert slot.trace is None
    f(ZERO)
    with ft.hooks.check_finite() as handle:
        pull = ft.vjp(roots, ZERO)[1]
        with pytest.raises(ft.errors.NonFiniteError):
            pull(1.0)
        ft.hooks.remove(handle.id)
        pull(1.0)


def test_the_switch_within_and_beside(runs):
    f = ft.jit(hidden)
    with ft.config.using(check_finite=True):
        f(GOOD)
        with ft.config.using(check_finite=False):
            f(ZERO), f(ZERO)
        message(lambda: f(ZERO))
    assert len(runs) == 2


def test_donated_arguments_survive():
    f = ft.jit(lambda x, y: x + 1 / y, donate_argnums=0)
    x = np.asarray(GOOD)
    with ft.hooks.check_finite():
        for _ in range(3):
            assert_allclose(f(x, GOOD), GOOD + 1 / GOOD)
        message(lambda: f(x, ZERO))
        with ft.hooks.check_finite(where="exp"):
            message(lambda: f(x, ZERO))
        assert_allclose(x, GOOD)
    assert_allclose(f(x, GOOD), GOOD + 1 / GOOD)
    with pytest.raises(ft.errors.DonatedArrayError):
        np.sum(x)


def test_false_alarms_leave_donated_arguments_as_they_are():
    f = ft.jit(lambda x: x / x, donate_argnums=0)
    x = np.asarray(ZERO)
    with ft.hooks.check_finite(where="exp"):
        for _ in range(3):
            assert_allclose(f(x), numpy.array([1.0, numpy.nan, 1.0]))
    assert_allclose(x, ZERO)


def test_other_hooks_are_called_once():
    seen = []
    hook = ft.hooks.FnHook(forward=lambda op, inputs, output: seen.append(op.name))
    f = ft.jit(hidden)
    inner = ft.jit(ft.hooks.wrap(hidden, hook))
    with ft.hooks.check_finite(where="exp"):
        for call in (f, f, f):
            with ft.hooks.use(hook):
                call(ZERO)
            assert seen == ["greater", "divide", "where"]
            seen.clear()
        for _ in range(3):
            inner(ZERO)
            assert seen == ["greater", "divide", "where"]
            seen.clear()


def test_an_error_of_the_plan():
    def f(x):
        return np.linalg.cholesky(np.diag(np.log(x)))

    jitted = ft.jit(f)
    fine = numpy.array([2.0, 3.0])
    with ft.hooks.check_finite():
        for _ in range(2):
            jitted(fine)
        assert "log made infinity" in message(lambda: jitted(numpy.array([2.0, 0.0])))
        with pytest.raises(numpy.linalg.LinAlgError):
            jitted(numpy.array([0.5, 0.5]))
        with ft.hooks.check_finite(where="exp"):
            jitted(fine), jitted(fine)
    assert slot.trace is None
    with ft.hooks.check_finite(where="exp"):
        jitted(fine)
        with pytest.raises(numpy.linalg.LinAlgError):
            jitted(numpy.array([2.0, 0.0]))
    assert slot.trace is None


@pytest.mark.parametrize("place", [0, 5000, -1])
def test_threads_of_plans_report(place, monkeypatch):
    lower_limits(monkeypatch)
    monkeypatch.setattr(threads, "number", 3)
    f = ft.jit(lambda x: np.where(x > 0, np.sqrt(1 / x) * 2, 0.0) + x)
    x = numpy.ones((100, 100))
    with ft.hooks.check_finite():
        f(x)
        assert_allclose(f(x), numpy.full((100, 100), 3.0))
        x.flat[place] = 0.0
        assert "divide made infinity" in message(lambda: f(x))
    assert "region" in f.lower(x).source


def test_each_thread_has_its_own_check():
    f = ft.jit(hidden)
    f(GOOD)
    ends = {}
    barrier = threading.Barrier(4)

    def work(number):
        barrier.wait()
        for _ in range(50):
            if number % 2:
                with ft.hooks.check_finite():
                    ends.setdefault(number, []).append(message(lambda: f(ZERO)))
                    f(GOOD)
            else:
                ends.setdefault(number, []).append(float(f(ZERO)[1]))

    workers = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    [worker.start() for worker in workers]
    [worker.join() for worker in workers]
    assert ends[0] == ends[2] == [0.0] * 50
    assert ends[1] == ends[3]
    assert len(ends[1]) == 50


def test_the_treatment_of_errors_is_set_back():
    f = ft.jit(hidden)
    with numpy.errstate(all="raise"), ft.hooks.check_finite():
        before = numpy.geterr(), numpy.geterrcall()
        f(GOOD), f(GOOD)
        message(lambda: f(ZERO))
        assert (numpy.geterr(), numpy.geterrcall()) == before
