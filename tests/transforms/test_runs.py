"""Counts of runs of the user's functions: none is in silence if nothing comes of it."""

from itertools import count

import numpy
import pytest

import functensor as ft
import functensor.numpy as np
from functensor import extend

LINES = count()
X = numpy.array([0.3, 0.7, 1.1])


def by_vjp(f):
    fun = ft.custom_vjp(f)
    fun.defvjp(lambda x: (np.sin(x) * 1.0, x), lambda x, g: (g * np.cos(x),))
    return fun


def by_jvp(f):
    fun = ft.custom_jvp(f)
    fun.defjvp(lambda p, t: (np.sin(p[0]) * 1.0, t[0] * np.cos(p[0])))
    return fun


def by_op(f):
    return ft.custom_op(f, abstract=lambda x: x, vjp=lambda g, ans, x: g, batch=True)


def by_numpy(f):
    like = ft.ShapeDtype((3,), "float64")
    return extend.numpy_function(f, result=like, vjp=lambda g, ans, x: (g,), vmap="vectorized")


def total(f):
    return lambda x: np.sum(f(x))



ONCE = [1, 1, 1]
TWICE = [2, 2, 2]
STAGED = [1, 0, 0]
LOOKED = [2, 1, 1]
NEVER = [0, 0, 0]
REFUSED = None
# The transformed function, and how often the user's runs in three calls: in general, and if it
# branches on values.
WAYS = {
    "grad": (lambda f: ft.grad(total(f)), ONCE, ONCE),
    "value_and_grad": (lambda f: ft.value_and_grad(total(f)), ONCE, ONCE),
    "elementwise_grad": (ft.elementwise_grad, ONCE, ONCE),
    "vjp": (lambda f: lambda x: ft.vjp(f, x)[1](x), ONCE, ONCE),
    "jvp": (lambda f: lambda x: ft.jvp(f, (x,), (x,)), ONCE, ONCE),
    "linearize": (lambda f: lambda x: ft.linearize(f, x)[1](x), ONCE, ONCE),
    "hvp": (lambda f: lambda x: ft.hvp(total(f), (x,), (x,)), ONCE, ONCE),
    "hessian": (lambda f: ft.hessian(total(f)), ONCE, ONCE),
    "jacfwd": (ft.jacfwd, ONCE, ONCE),
    "jacrev": (ft.jacrev, ONCE, ONCE),
    "jacobian": (ft.jacobian, ONCE, ONCE),
    "jacobian of grad": (lambda f: ft.jacobian(ft.grad(total(f))), ONCE, ONCE),
    "vmap": (lambda f: lambda x: ft.vmap(f)(np.stack([x, x])), ONCE, REFUSED),
    "vmap of grad": (lambda f: lambda x: ft.vmap(ft.grad(total(f)))(x[None]), ONCE, REFUSED),
    "jit": (ft.jit, STAGED, REFUSED),
    "jit of grad": (lambda f: ft.jit(ft.grad(total(f))), STAGED, REFUSED),
    "checkpoint": (ft.checkpoint, ONCE, ONCE),
    "grad of checkpoint": (lambda f: ft.grad(total(ft.checkpoint(f))), TWICE, TWICE),
    "custom_vjp": (by_vjp, ONCE, ONCE),
    "grad of custom_vjp": (lambda f: ft.grad(total(by_vjp(f))), STAGED, STAGED),
    "vmap of grad of custom_vjp": (
        lambda f: (lambda g: lambda x: ft.vmap(ft.grad(total(g)))(x[None]))(by_vjp(f)),
        STAGED,
        STAGED,
    ),
    "custom_jvp": (by_jvp, ONCE, ONCE),
    "jvp of custom_jvp": (
        lambda f: (lambda g: lambda x: ft.jvp(g, (x,), (x,)))(by_jvp(f)),
        STAGED,
        STAGED,
    ),
    "grad of custom_jvp": (lambda f: ft.grad(total(by_jvp(f))), LOOKED, LOOKED),
    "custom_op": (by_op, ONCE, ONCE),
    "grad of custom_op": (lambda f: ft.grad(total(by_op(f))), ONCE, ONCE),
    "jit of custom_op": (lambda f: ft.jit(by_op(f)), ONCE, ONCE),
    "numpy_function": (by_numpy, ONCE, ONCE),
    "grad of numpy_function": (lambda f: ft.grad(total(by_numpy(f))), ONCE, ONCE),
    "jit of numpy_function": (lambda f: ft.jit(by_numpy(f)), ONCE, ONCE),
    "cond": (lambda f: lambda x: ft.cond(True, f, np.cos, x), ONCE, ONCE),
    "grad of cond": (lambda f: ft.grad(total(lambda x: ft.cond(True, f, np.cos, x))), ONCE, ONCE),
    "jit of cond": (
        lambda f: ft.jit(lambda x: ft.cond(x[0] > 0, f, np.cos, x)), STAGED, REFUSED
    ),
    "switch": (lambda f: lambda x: ft.switch(0, [f, np.cos], x), ONCE, ONCE),
    "scan": (lambda f: lambda x: ft.scan(lambda c, _: (f(c), c), x, X[:1]), ONCE, ONCE),
    "jit of scan": (
        lambda f: ft.jit(lambda x: ft.scan(lambda c, _: (f(c), c), x, X)), STAGED, REFUSED
    ),
    "jit of grad of scan": (
        lambda f: ft.jit(ft.grad(lambda x: np.sum(ft.scan(lambda c, _: (f(c), c), x, X)[0]))),
        STAGED,
        REFUSED,
    ),
    "fori_loop": (lambda f: lambda x: ft.fori_loop(0, 1, lambda _, c: f(c), x), ONCE, ONCE),
    "jit of fori_loop": (
        lambda f: ft.jit(lambda x: ft.fori_loop(0, 4, lambda _, c: f(c), x)), STAGED, REFUSED
    ),
    "while_loop": (
        lambda f: lambda x: ft.while_loop(lambda c: c[0] < 1, lambda c: (1, f(c[1])), (0, x)),
        ONCE,
        ONCE,
    ),
    "jit of while_loop": (
        lambda f: ft.jit(
            lambda x: ft.while_loop(lambda c: c[0] < 4, lambda c: (c[0] + 1, f(c[1])), (0, x))
        ),
        STAGED,
        REFUSED,
    ),
}


def counting(runs, branching):
    """Returns a function that notes its runs; each has a line of its own, as a user's would."""
    names = {"runs": runs, "np": np, "numpy": numpy}
    condition = "x.ravel()[0] > 5" if branching else "False"
    text = f"""def f(x):
    runs.append(1)
    if {condition}:
        return x
    return (numpy if isinstance(x, numpy.ndarray) else np).sin(x) * 1.0
"""
    exec(compile("\n" * next(LINES) + text, "<user>", "exec"), names)
    return names["f"]


@pytest.mark.parametrize("branching", [False, True])
@pytest.mark.parametrize("name", WAYS)
def test_functions_run_as_often_as_is_said(name, branching):
    make, plain, where_branching = WAYS[name]
    runs: list[int] = []
    fun = make(counting(runs, branching))
    wanted = where_branching if branching else plain
    if wanted is REFUSED:
        with pytest.raises(ft.errors.ConcretizationError):
            fun(X)
        assert len(runs) == 1
        return
    counts = []
    for _ in range(3):
        runs.clear()
        fun(X)
        counts.append(len(runs))
    assert counts == wanted


# Verdicts on functions with rules


def with_options(runs, branching=("first",)):
    def fun(x, kind, *, scale=1.0):
        runs.append(kind)
        if kind in branching and x[0] > 0:
            return x * scale
        return {"smooth": np.sum(x), "first": x, "second": x * scale}[kind]

    made = ft.custom_vjp(fun, nondiff_argnums=1)
    # Wrong for "smooth".
    made.defvjp(
        lambda x, kind, *, scale: (x * scale, None), lambda kind, _, g, *, scale: (g * scale,)
    )
    return made


def gradient(fun, *args, **options):
    return ft.grad(lambda x: np.sum(fun(x, *args, **options)))(X)


def test_a_verdict_is_of_static_values():
    runs: list[str] = []
    fun = with_options(runs)
    for _ in range(2):
        gradient(fun, "first")  # cannot be staged
        gradient(fun, "second")
        with pytest.raises(ft.errors.RuleResultError, match="but the function returns"):
            gradient(fun, "smooth")
    assert runs == ["first", "second", "smooth", "smooth"]
    runs.clear()
    for scale in (1.0, 2.0, 1.0, 2.0):
        gradient(fun, "second", scale=scale)
    assert runs == ["second"]


@pytest.mark.parametrize("kind", ["first", "second"])
def test_values_that_are_others_each_time_are_asked_for_a_few_times(kind):
    runs: list[str] = []
    fun = with_options(runs)
    for i in range(60):
        gradient(fun, kind, scale=2.0 + i)
    assert len(runs) <= 16
    runs.clear()
    for _ in range(60):
        gradient(fun, kind, scale=numpy.float64(2.0) * numpy.ones(3))
    assert len(runs) <= 16


def test_a_verdict_is_of_what_a_function_closes_over():
    runs = []

    def make(branches, size=3):
        @ft.custom_vjp
        def fun(x):
            runs.append(branches)
            return x if branches and x[0] > 0 else x[:size]

        fun.defvjp(lambda x: (x * 1.0, None), lambda _, g: (g,))
        return fun

    gradient(make(True))
    # The same statement; these can be staged.
    gradient(make(False))
    assert runs == [True, False]
    with pytest.raises(ft.errors.RuleResultError):
        gradient(make(False, 2))


def test_side_effects_happen_once():
    runs = []

    def growing(x):
        runs.append(1)
        return x * len(runs)

    for jacobian in (ft.jacobian, ft.jacfwd, ft.jacrev):
        runs.clear()
        numpy.testing.assert_array_equal(jacobian(growing)(X), numpy.eye(3))
        assert len(runs) == 1


def test_a_users_mistake_is_raised_as_it_is():
    runs = []

    def wrong(x):
        runs.append(1)
        raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        ft.jacobian(wrong)(X)
    assert len(runs) == 1
