"""Staging tells what it does only once: random numbers, written-out loops, side effects."""

import gc
import random
import re
import sys
import threading
import warnings
import weakref
from functools import partial
from types import ModuleType

import numpy
import pytest

import functensor as ft
import functensor.numpy as np
from functensor.errors import EscapedTracerError, StagingWarning
from functensor.programs.side_effects import Cycle, free_cycles

X = numpy.array([0.3, -1.2, 2.0])
GENERATOR = numpy.random.default_rng(0)
SEEN = []
OUTSIDE = "outside of the function"


def said(call):
    """Returns what a call warns of, with LINE in place of the lines of this file."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    found = [w for w in caught if issubclass(w.category, StagingWarning)]
    assert all(w.filename == __file__ for w in found)
    return [re.sub(r"[^\s(]+\.py:\d+", "LINE", str(w.message)).splitlines() for w in found]


class Layer:
    def __init__(self, rng):
        self.rng = rng

    def noisy(self, x):
        return x + self.rng.normal()


def helper(x):
    return x * GENERATOR.uniform()


def draws():
    """Returns functions that draw numbers, by what the warning calls the source."""
    local = numpy.random.RandomState(1)
    theirs = random.Random(1)
    layer = Layer(numpy.random.default_rng(2))
    return [
        ("numpy.random", lambda x: x * numpy.random.normal()),  # noqa: NPY002
        ("numpy.random", lambda x: np.sin(x) + numpy.random.permutation(3)),  # noqa: NPY002
        ("Python's random", lambda x: x * random.random()),
        ("the generator 'local'", lambda x: x * local.normal()),
        ("the generator 'theirs'", lambda x: x * theirs.random()),
        ("the generator 'GENERATOR'", lambda x: x * GENERATOR.normal()),
        ("the generator 'GENERATOR'", lambda x: helper(x) + 1),
        ("the generator 'GENERATOR'", partial(lambda y, x: helper(x) + y, 2.0)),
        ("the generator 'rng'", layer.noisy),
    ]


@pytest.mark.parametrize("index", range(len(draws())))
def test_numbers_that_are_drawn_once(index):
    name, f = draws()[index]
    jitted = ft.jit(f)
    ((first, *rest),) = said(lambda: jitted(X))
    assert first.startswith(f"{name} was drawn from while ")
    # Other tests may have left threads running.
    assert first.removesuffix(" (unless another thread drew them)").endswith(
        "was staged: the numbers are constants of its program, the same in every call"
    )
    assert rest == [
        "  at LINE",
        f"  fix: draw with functensor.random of a key that is an argument, or {OUTSIDE}",
        "  see python -m functensor.errors 24",
    ]
    # Once for each function, however often it is staged.
    assert said(lambda: (jitted(X), jitted(X.astype("float32")))) == []


def test_the_innermost_function_is_named():
    inner = ft.jit(lambda x: x + numpy.random.normal())  # noqa: NPY002
    outer = ft.jit(lambda x: inner(x) * 2)
    ((first, *_),) = said(lambda: outer(X))
    assert first.startswith("numpy.random was drawn from while <lambda> (LINE)")


def test_other_threads_are_mentioned():
    @ft.jit
    def f(x):
        return x + numpy.random.normal()  # noqa: NPY002

    over = threading.Event()
    other = threading.Thread(target=over.wait, args=(10,))
    other.start()
    try:
        ((first, *_),) = said(lambda: f(X))
    finally:
        over.set()
        other.join()
    assert first.endswith("the same in every call (unless another thread drew them)")


@pytest.mark.parametrize("module", ["random", "numpy.random"])
def test_modules_that_another_thread_is_importing(module, monkeypatch):
    """Python enters a module before it runs its first line."""
    monkeypatch.setitem(sys.modules, module, ModuleType(module))
    assert float(ft.jit(lambda x: x + 1)(1.0)) == 2.0


def test_functions_that_draw_nothing_are_silent():
    key = ft.random.key(0)

    def pure(x):
        # A generator of the function's own, with a seed, gives the same numbers in every call.
        return np.sin(x) + numpy.random.default_rng(0).normal() + ft.random.normal(key)

    def draws(x):
        return x + GENERATOR.normal()

    def other(x):
        return x if x.ndim else draws(x)

    for f in (pure, other, ft.grad(lambda x: np.sum(pure(x))), ft.vmap(pure), np.sin):
        assert said(lambda f=f: ft.jit(f)(X)) == []
    numpy.random.normal()  # noqa: NPY002
    assert said(lambda: ft.jit(lambda x: x * 2)(X)) == []


def test_a_loop_that_is_written_out():
    def steps(x, count):
        for _ in range(count):
            x = x * 0.5
        return x

    short = ft.jit(steps, static_argnums=1)
    assert said(lambda: short(X, 1000)) == []
    ((first, *rest),) = said(lambda: short(X, 5001))
    assert first == (
        "5,001 operations of steps (LINE) come from one line, LINE: a loop of Python's is "
        "written out step by step while it is staged, unless this is one long formula"
    )
    assert rest[1] == "  fix: ft.fori_loop(0, n, body, start) or ft.scan(body, start, xs)"
    assert said(lambda: short(X, 5002)) == []
    looped = ft.jit(lambda x: ft.fori_loop(0, 20_000, lambda i, x: x * 0.999, x))
    assert said(lambda: looped(X)) == []


# -- the debug switch


@pytest.fixture
def checked():
    assert not ft.config.check_tracer_leaks
    with ft.config.using(check_tracer_leaks=True):
        yield


@pytest.mark.usefixtures("checked")
@pytest.mark.parametrize("wrap", [ft.jit, lambda f: ft.grad(ft.jit(lambda x: np.sum(f(x))))])
def test_values_that_outlive_their_program(wrap):
    def f(x):
        SEEN.append(np.sin(x))
        return x * 2

    with pytest.raises(EscapedTracerError, match=r"outlived the staging of") as caught:
        wrap(f)(X)
    SEEN.clear()
    assert re.search(r"made at \S+test_side_effects\.py:\d+, outlived", str(caught.value))
    assert str(caught.value).endswith(
        "  fix: return the value, and store what a call returns\n"
        "  see python -m functensor.errors 6"
    )


@pytest.mark.usefixtures("checked")
def test_what_changes_from_run_to_run():
    runs = []

    def counting(x):
        runs.append(1)
        return x * len(runs)

    def branching(x):
        runs.append(1)
        return np.sin(x) if len(runs) % 2 else np.cos(x)

    def returning(x):
        runs.append(1)
        return [x] * len(runs)

    def drawing(x):
        return x + numpy.random.default_rng().normal()

    for f, what in (
        (counting, "an operand of multiply at LINE is not the same"),
        (branching, "cos at LINE was sin the second time"),
        (returning, "it returned "),
        (drawing, "an operand of add at LINE is not the same"),
    ):
        runs.clear()
        if f is branching:
            runs.append(1)
        ((first, *_),) = said(lambda f=f: ft.jit(f)(X))
        assert first.startswith(f"{f.__name__} (LINE) was staged twice and did not do the same: ")
        assert what in first


@pytest.mark.usefixtures("checked")
def test_traced_values_that_are_printed(capsys):
    @ft.jit
    def f(x):
        print(x)
        return x * 2, f"{x}"[:0] or x

    found = said(lambda: f(1.0))
    assert len(found) == 2
    assert found[0][0] == (
        "a traced value float64[] was printed or formatted while f (LINE) was staged: it has no "
        "value yet, and the text is made once"
    )
    assert capsys.readouterr().out.startswith("StagedTracer<float64[]")


@pytest.mark.usefixtures("checked")
def test_nothing_is_said_of_pure_functions():
    def step(c, y):
        return np.sin(c) * y, c

    def loss(x):
        return np.sum(ft.checkpoint(np.tanh)(x) * ft.scan(step, x[0], x)[0]) + X.sum()

    functions = [loss, ft.grad(loss), ft.hessian(loss), lambda x: ft.cond(x[0] > 0, loss, loss, x)]
    for f in functions:
        jitted = ft.jit(f)
        assert said(lambda jitted=jitted: jitted(X)) == []
        numpy.testing.assert_allclose(jitted(X), f(X))
        assert said(lambda jitted=jitted: ft.vmap(jitted)(numpy.stack([X, X]))) == []


def test_without_the_switch_nothing_is_looked_for():
    @ft.jit
    def f(x):
        SEEN.append(str(x))
        return x * len(SEEN)

    assert said(lambda: f(X)) == []
    assert len(SEEN) == 1
    SEEN.clear()
    with pytest.raises(ValueError, match=r"config\.check_tracer_leaks is one of True, False"):
        ft.config.check_tracer_leaks = 1


def test_cycles_are_freed_while_another_thread_frees_others():
    begun, go_on = threading.Event(), threading.Event()

    class Slow:
        def __init__(self):
            self.itself = self

        def __del__(self):
            begun.set()
            go_on.wait(60)

    Slow()
    thread = threading.Thread(target=gc.collect)
    thread.start()
    assert begun.wait(60)
    made = weakref.ref(Cycle())
    assert gc.collect() == 0
    assert made() is not None
    threading.Timer(0.05, go_on.set).start()
    free_cycles()
    assert made() is None
    thread.join()
