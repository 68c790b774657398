"""Rules and kernels that run later keep what they closed over when they were called.

Names stand for others by then, such as the variable of a loop.
"""

# ruff: noqa: B023 - what is tested

import copy
import pickle

import numpy as np
import pytest

import functensor as ft
import functensor.numpy as fnp
import functensor.torch as torch
from functensor import extend
from functensor.testing import assert_allclose

X = 0.7


def by_custom_vjp(x):
    for k in (1.0, 2.0, 3.0):
        f = ft.custom_vjp(lambda y: k * y * y)
        f.defvjp(lambda y: (k * y * y, y), lambda y, g: (2 * k * y * g,))
        x = f(x)
    return x


def by_custom_jvp(x):
    for k in (1.0, 2.0, 3.0):
        f = ft.custom_jvp(lambda y: k * y * y)
        f.defjvp(lambda primals, tangents: (k * primals[0] ** 2, 2 * k * primals[0] * tangents[0]))
        x = f(x)
    return x


def by_a_rule_for_each_argument(x):
    for k in (1.0, 2.0, 3.0):
        f = ft.custom_jvp(lambda y: k * y * y)
        f.defjvps(lambda t, out, y: 2 * k * y * t)
        x = f(x)
    return x


def by_custom_gradient(x):
    for k in (1.0, 2.0, 3.0):
        x = ft.custom_gradient(lambda y: (k * y * y, lambda g: 2 * k * y * g))(x)
    return x


def by_an_argument_that_is_a_function(x):
    apply = ft.custom_vjp(lambda f, y: f(y), nondiff_argnums=(0,))
    apply.defvjp(lambda f, y: (f(y), y), lambda f, y, g: (2 * g * f(y) / y,))
    for k in (1.0, 2.0, 3.0):
        x = apply(lambda y: k * y * y, x)
    return x


def by_an_array_that_changes(x):
    k = np.zeros(())
    for value in (1.0, 2.0, 3.0):
        k[...] = value
        f = ft.custom_vjp(lambda y: k * y * y)
        f.defvjp(lambda y: (k * y * y, y), lambda y, g: (2 * k * y * g,))
        x = f(x)
    return x


def by_numpy_function(x):
    for k in (1.0, 2.0, 3.0):
        x = extend.numpy_function(
            lambda y: k * y * y,
            numpy_vjp=lambda g, ans, y: 2 * k * y * g,
            numpy_jvp=lambda ts, ans, y: 2 * k * y * ts[0],
            vmap="vectorized",
        )(x)
    return x


def by_custom_op(x):
    for k in (1.0, 2.0, 3.0):
        x = ft.custom_op(
            lambda y: k * y * y,
            abstract=lambda y: y,
            vjp=lambda g, ans, y: 2 * k * y * g,
            batch=True,
        )(x)
    return x


def by_a_function_with_a_rule_within_a_checkpoint(x):
    for k in (1.0, 2.0, 3.0):
        f = ft.custom_vjp(lambda y: k * y * y)
        f.defvjp(lambda y: (k * y * y, y), lambda y, g: (2 * k * y * g,))
        x = ft.checkpoint(lambda y: f(y))(x)
    return x


def by_a_tuple_of_functions(x):
    for k in (1.0, 2.0, 3.0):
        parts = (lambda y: k * y, lambda y: y * y)
        x = ft.checkpoint(lambda y: parts[0](parts[1](y)))(x)
    return x


FUNCTIONS = [
    by_custom_vjp,
    by_custom_jvp,
    by_a_rule_for_each_argument,
    by_custom_gradient,
    by_an_argument_that_is_a_function,
    by_an_array_that_changes,
    by_numpy_function,
    by_custom_op,
    by_a_function_with_a_rule_within_a_checkpoint,
    by_a_tuple_of_functions,
]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_derivatives_and_programs_are_those_of_the_loop(function):
    value, slope = 12 * X**8, 96 * X**7
    for run in (function, ft.jit(function), lambda x: ft.vmap(function)(fnp.stack([x]))[0]):
        assert_allclose(run(X), value)
        assert_allclose(ft.grad(run)(X), slope)
        assert_allclose(ft.jit(ft.grad(run))(X), slope)
        assert_allclose(ft.jvp(run, (X,), (1.0,))[1], slope)
    x = torch.tensor(X, dtype=torch.float64, requires_grad=True)
    function(x).backward()
    assert_allclose(np.asarray(x.grad), slope)


def test_bodies_of_loops_keep_arrays_that_change():
    scale = np.zeros(2)

    def f(x, repeat):
        for k in (1.0, 2.0, 3.0):
            scale[:] = k
            x = repeat(lambda y: y * scale, x)
        return fnp.sum(x)

    x = np.ones(2)
    for repeat in (
        lambda body, x: ft.scan(lambda y, _: (body(y), None), x, None, 1)[0],
        lambda body, x: ft.fori_loop(0, 1, lambda _, y: body(y), x),
        lambda body, x: ft.cond(x[0] > 0, body, lambda y: y, x),
    ):
        assert_allclose(ft.jit(f, static_argnums=1)(x, repeat), 12.0)
        assert_allclose(ft.jvp(ft.jit(lambda x: f(x, repeat)), (x,), (x,))[1], 12.0)


def test_a_kernel_may_write_to_an_array_that_it_closes_over():
    space = np.zeros(3)

    def doubled(x):
        np.multiply(x, 2.0, out=space)
        return space

    f = extend.numpy_function(doubled, vjp=lambda g, ans, x: (2 * g,))
    assert_allclose(ft.jit(f)(np.ones(3)), np.full(3, 2.0))
    assert space[0] == 2.0


def test_gradients_within_programs_keep_arrays_that_change():
    scale = np.zeros(2)

    def loss(x):
        for k in (1.0, 2.0, 3.0):
            scale[:] = k
            x = x * scale + scale[0] * x
        return fnp.sum(x * x)

    x = np.array([1.0, -2.0])
    wanted = 2 * 48**2 * x
    assert_allclose(ft.jit(ft.grad(loss))(x), wanted)
    assert_allclose(ft.jit(ft.vmap(ft.grad(loss)))(x[None])[0], wanted)
    assert_allclose(ft.jit(ft.value_and_grad(loss))(x), (48**2 * 5.0, wanted))


def test_rules_write_to_arrays_that_they_close_over():
    calls, space, slopes, seen = np.zeros(2, int), np.empty(3), np.empty(3), np.zeros(3)

    def fwd(y):
        calls[0] += 1
        np.multiply(ft.value(y), 2.0, out=space)
        return y * y, ()

    def bwd(saved, g):
        calls[1] += 1
        slopes[:] = ft.value(g)
        np.copyto(seen, slopes)
        return (space * g,)

    f = ft.custom_vjp(lambda y: y * y)
    f.defvjp(fwd, bwd)
    assert_allclose(ft.grad(lambda x: 3 * fnp.sum(f(x)))(np.ones(3)), np.full(3, 6.0))
    assert (*calls, *slopes, *seen) == (1, 1, 3, 3, 3, 3, 3, 3)


def test_rules_count_in_their_attributes():
    def bwd(y, g):
        bwd.calls += 1
        return (2 * y * g,)

    bwd.calls = 0
    f = ft.custom_vjp(lambda y: y * y)
    f.defvjp(lambda y: (y * y, y), bwd)
    for _ in range(2):
        ft.grad(f)(3.0)
    assert bwd.calls == 2


@pytest.mark.parametrize("changed", [False, True])
def test_calls_share_the_copy_of_an_array_that_stays_as_it_is(changed):
    array, met = np.ones(1000), []

    def bwd(y, g):
        met[:] = [*met, array]
        return (2 * y * g * array[0],)

    f = ft.custom_vjp(lambda y: y * y)
    f.defvjp(lambda y: (y * y, y), bwd)
    _, first = ft.vjp(f, 3.0)
    array[0] += changed
    _, second = ft.vjp(f, 3.0)
    assert_allclose([*first(1.0), *second(1.0)], [6.0, 12.0 if changed else 6.0])
    assert (met[0] is met[1]) is not changed


@ft.custom_vjp
def cube(x):
    return x * x * x


cube.defvjp(lambda x: (x * x * x, x), lambda x, g: (3 * x * x * g,))


def test_copies_and_pickles_are_the_function_itself():
    assert copy.deepcopy({"activation": cube})["activation"] is cube
    assert pickle.loads(pickle.dumps(cube)) is cube
    assert ft.grad(copy.copy(cube))(2.0) == 12.0
    nameless = ft.custom_jvp(lambda x: x)
    assert copy.deepcopy(nameless) is nameless
    with pytest.raises((pickle.PicklingError, AttributeError), match="lambda"):
        pickle.dumps(nameless)
