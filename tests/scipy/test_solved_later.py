"""Equations that are solved or differentiated later keep what their functions closed over.

Names stand for others by then: the variable of a loop, and results that take the names of operands.
"""

# ruff: noqa: B023 - what is tested

import numpy as np
import pytest

import functensor as ft
import functensor.numpy as fnp
import functensor.torch as torch
from functensor import random
from functensor.functions.closure import kept_as_it_is
from functensor.scipy.integrate import odeint
from functensor.scipy.optimize import minimize, root
from functensor.testing import assert_allclose, check_grads

TIMES = np.linspace(0, 1, 2)


def newton(f, x):
    for _ in range(8):
        x = x - f(x) / ft.grad(f)(x)
    return x


def by_odeint(y):
    for rate in (1.0, 2.0):
        y = odeint(lambda s, t: -rate * s * s, y, TIMES)[-1]
    return y


def by_arrays(y):
    buffer = np.zeros(())
    for rate in (1.0, 2.0):
        buffer[...] = rate
        y = odeint(lambda s, t: -buffer * s * s, y, TIMES)[-1]
    return y


def by_custom_root(y):
    for scale in (1.0, 2.0):
        y = ft.custom_root(
            lambda x: x * x * scale - y,
            1.5,
            lambda f, x: newton(lambda z: f(z) * scale, x),
            lambda g, b: b / g(scale) * scale,
        )
    return y


def by_root(y):
    for scale in (1.0, 2.0):
        y = root(lambda x: x * x * scale - y, 1.5).x
    return y


def by_minimize(y):
    for scale in (1.0, 2.0):
        y = minimize(lambda x: fnp.sum((x * scale - y) ** 2 + x**4), np.array([1.5])).x[0]
    return y


FUNCTIONS = [by_odeint, by_arrays, by_custom_root, by_root, by_minimize]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_derivatives_and_programs_are_those_of_the_loop(function):
    wanted = function(1.3)
    tolerances = {"rtol": 1e-4, "atol": 1e-6} if function is by_minimize else {}
    assert_allclose(ft.jit(function)(1.3), wanted, **tolerances)
    assert_allclose(ft.vmap(function)(np.array([1.3]))[0], wanted, **tolerances)
    if function is not by_minimize:  # its solutions are not exact enough for differences
        check_grads(function, (1.3,), order=1, rtol=1e-5)
    slope = ft.grad(function)(1.3)
    for other in (
        ft.jit(ft.grad(function))(1.3),
        ft.grad(ft.jit(function))(1.3),
        ft.vmap(ft.grad(function))(np.array([1.3]))[0],
        ft.jvp(function, (1.3,), (1.0,))[1],
    ):
        assert_allclose(other, slope, rtol=1e-5)


@pytest.mark.parametrize("function", [by_odeint, by_arrays])
def test_tensors_have_the_same_gradients(function):
    x = torch.tensor(1.3, dtype=torch.float64, requires_grad=True)
    function(x).backward()
    difference = (function(1.3 + 1e-4) - function(1.3 - 1e-4)) / 2e-4
    assert_allclose(np.asarray(x.grad), difference, rtol=1e-5)


def test_what_a_function_changes_is_changed():
    count, keys = 0, random.KeyStream(0)

    def slope(y, t):
        nonlocal count
        count += 1
        keys()
        return -y

    def solved(y):
        return odeint(slope, y, TIMES)[-1]

    for call in (solved, ft.grad(solved), ft.jit(solved)):
        before = count
        call(1.0)
        assert count > before
    assert repr(keys).endswith(f"position={count})")


def test_functions_are_themselves_where_nothing_is_transformed():
    scale = 2.0

    def f(x):
        return x * scale

    assert kept_as_it_is(f, 1.0) is f
    kept = []
    ft.grad(lambda x: kept.append(kept_as_it_is(f, x)) or f(x))(1.0)
    scale = 3.0
    assert (kept[0](1.0), f(1.0), kept[0].__name__) == (2.0, 3.0, "f")


def test_what_minimize_calls_beside_the_objective_is_kept():
    seen = []

    def by_a_gradient(y):
        for k in (1.0, 2.0):
            y = minimize(
                lambda x, y: fnp.sum((x - y) ** 2),
                np.array([1.5]),
                (y,),
                method="BFGS",
                jac=lambda x, y: seen.append(k) or 2 * (x - y),
                callback=lambda x: seen.append(10 * k),
            ).x[0]
        return y

    def within_constraints(y):
        for k in (1.0, 2.0):
            bound = {"type": "ineq", "fun": lambda x: x - 2 * k}
            y = minimize(lambda x: fnp.sum((x - y) ** 2), np.array([1.5]), constraints=bound).x[0]
        return y

    def of_a_function(y):
        for k in (1.0, 2.0):
            y = minimize(
                lambda x, f: fnp.sum((x - f(y)) ** 2), np.array([1.5]), (lambda z: k * z,)
            ).x[0]
        return y

    by_a_gradient(1.3)
    wanted, seen[:] = [*seen], []
    assert_allclose(ft.jit(by_a_gradient)(1.3), 1.3, rtol=1e-6)
    assert seen == wanted
    assert {1.0, 2.0, 10.0, 20.0} == {*seen}
    for function, value in ((within_constraints, 4.0), (of_a_function, 2.6)):
        assert_allclose(ft.jit(function)(1.3), value, rtol=1e-6)
    assert_allclose(ft.grad(of_a_function)(1.3), 2.0, rtol=1e-6)


def test_what_a_solver_calls_may_count_in_an_array():
    calls = np.zeros(1, int)

    def slope(y, t):
        calls[0] += 1
        return -y

    def end(y):
        return odeint(slope, y, TIMES)[-1]

    assert_allclose(ft.grad(end)(1.0), np.exp(-1.0), rtol=1e-6)
    assert calls[0] > 1
