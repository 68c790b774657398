"""Differentiation by arguments that are named: passed by position, by keyword, or left out."""

import numpy as np
import pytest
from support.trees import close

import functensor as ft
import functensor.numpy as fnp
from functensor.primitives.core.errors import GradientInputError

X = np.array([0.3, -1.2, 2.0])


def f(x, scale=2.0, *, shift=1.0, **others):
    return fnp.sum(scale * x**2 + shift * x) + sum(others.values())


BY_X, BY_SCALE, BY_SHIFT = 4 * X + 1, np.sum(X**2), np.sum(X)

# The call, the arguments to differentiate by, and the result.
CALLS = [
    (lambda t: t(X), {"argnames": "x"}, BY_X),
    (lambda t: t(x=X), {"argnames": "x"}, BY_X),
    (lambda t: t(x=X), {"argnames": ("x",)}, {"x": BY_X}),
    (lambda t: t(X, 2.0), {"argnames": "scale"}, BY_SCALE),
    (lambda t: t(X, scale=2.0), {"argnames": "scale"}, BY_SCALE),
    (lambda t: t(X), {"argnames": "scale"}, BY_SCALE),  # by its default
    (lambda t: t(X, shift=1.0), {"argnames": "shift"}, BY_SHIFT),
    (lambda t: t(X), {"argnames": ["shift"]}, {"shift": BY_SHIFT}),
    (lambda t: t(X, k=3.0), {"argnames": "k"}, 1.0),
    (lambda t: t(X), {"argnames": ("shift", "x")}, {"shift": BY_SHIFT, "x": BY_X}),
    (lambda t: t(X), {"argnums": 0, "argnames": ("shift",)}, (BY_X, {"shift": BY_SHIFT})),
    (lambda t: t(X), {"argnums": (0,), "argnames": "shift"}, ((BY_X,), BY_SHIFT)),
    (lambda t: t(X, 2.0), {"argnums": (1, 0)}, (BY_SCALE, BY_X)),
]
TRANSFORMS = {
    "grad": lambda **by: ft.grad(f, **by),
    "value_and_grad": lambda **by: lambda *a, **k: ft.value_and_grad(f, **by)(*a, **k)[1],
    "jacfwd": lambda **by: ft.jacfwd(f, **by),
    "jacrev": lambda **by: ft.jacrev(f, **by),
    "jacobian": lambda **by: ft.jacobian(f, **by),
    "elementwise_grad": lambda **by: ft.elementwise_grad(f, **by),
}


@pytest.mark.parametrize("name", TRANSFORMS)
@pytest.mark.parametrize(("call", "by", "wanted"), CALLS)
def test_each_transformation_takes_names(name, call, by, wanted):
    close(call(TRANSFORMS[name](**by)), wanted)


def test_aux_and_second_derivatives_by_name():
    gradient, aux = ft.grad(lambda x, *, y: (x * y, x + y), argnames="y", has_aux=True)(2.0, y=3.0)
    close((gradient, aux), (2.0, 5.0))
    second = ft.hessian(lambda x, y: x**2 * y, argnames=("x", "y"))(2.0, y=3.0)
    close(second, {"x": {"x": 6.0, "y": 4.0}, "y": {"x": 4.0, "y": 0.0}})
    pair = ft.hessian(lambda x, y: x**2 * y, argnums=0, argnames="y")(2.0, 3.0)
    close(pair, ((6.0, 4.0), (4.0, 0.0)))


def test_trees_by_name_and_under_other_transformations():
    def loss(params, x):
        return fnp.sum((params["w"] * x + params["b"]) ** 2)

    params = {"w": np.float64(2.0), "b": np.float64(0.5)}
    wanted = ft.grad(loss)(params, X)
    close(ft.grad(loss, argnames="params")(x=X, params=params), ft.tree.map(np.asarray, wanted))
    each = ft.vmap(lambda x: ft.grad(loss, argnames="x")(params, x=x))(X)
    close(each, 2 * (2 * X + 0.5) * 2)
    nested = ft.grad(lambda s: ft.grad(f, argnames="scale")(X, scale=s) * s)(2.0)
    close(nested, BY_SCALE)


def test_methods_and_objects_that_are_called():
    class Model:
        def __call__(self, x, gain):
            return x * gain

        def method(self, x, gain):
            return x * gain

    for fun in (Model(), Model().method):
        close(ft.grad(fun, argnames="gain")(2.0, gain=3.0), 2.0)
        close(ft.grad(fun, argnames="gain")(2.0, 3.0), 2.0)


def test_messages_name_the_argument():
    with pytest.raises(GradientInputError, match="argument 'n' is int64"):
        ft.grad(lambda x, *, n: x * n, argnames="n")(1.0, n=3)
    with pytest.raises(GradientInputError, match="argument 1 is int64"):
        ft.grad(lambda x, n: x * n, argnames="n")(1.0, 3)


CONVERSIONS = {
    "grad": (lambda f: ft.grad(f, 1)(1.0, 2.0), "argument 1 (y)"),
    "jacfwd": (lambda f: ft.jacfwd(f, 1)(1.0, 2.0), "argument 1 (y)"),
    "jacrev": (lambda f: ft.jacrev(f, 1)(1.0, 2.0), "argument 1 (y)"),
    "jacobian": (lambda f: ft.jacobian(f, argnames="y")(1.0, y=2.0), "argument 'y'"),
    "elementwise_grad": (
        lambda f: ft.elementwise_grad(f, argnames="y")(1.0, 2.0),
        "argument 1 (y)",
    ),
    "jvp": (
        lambda f: ft.jvp(lambda t: f(*t), ((1.0, 2.0),), ((1.0, 2.0),)),
        "at least one of argument 0 (t)[0], argument 0 (t)[1]",
    ),
    "vmap": (lambda f: ft.vmap(f, (None, 0))(1.0, X), "argument 1 (y)"),
    "vmap over all": (
        lambda f: ft.vmap(f)(X, X),
        "at least one of argument 0 (x), argument 1 (y)",
    ),
    "make_program": (lambda f: ft.make_program(f)(1.0, 2.0), "argument 1 (y)"),
}


@pytest.mark.parametrize("name", CONVERSIONS)
def test_lost_values_are_traced_back_to_arguments(name):
    call, wanted = CONVERSIONS[name]

    def convert(x, y):
        return y * float(y * 2.0)

    with pytest.raises(TypeError) as info:
        call(convert)
    assert f", which depends on {wanted}, " in str(info.value)


@pytest.mark.parametrize("transform", [ft.grad, ft.jacfwd, ft.jacobian, ft.elementwise_grad])
def test_names_that_are_not_there(transform):
    known = "its arguments are x, scale, shift"
    for name in ("z", "others"):
        with pytest.raises(TypeError, match=f"f was not given an argument named '{name}'; {known}"):
            transform(f, argnames=name)(X)
    with pytest.raises(TypeError, match="was not given its argument 'y'"):
        transform(lambda x, y: x, argnames=("x", "y"))(1.0)
    with pytest.raises(TypeError, match="was not given its argument 'y'"):
        transform(lambda x, *, y: x, argnames="y")(1.0)
    with pytest.raises(ValueError, match="argnums=0, argnames=x name an argument twice"):
        transform(f, argnums=0, argnames="x")(X)
    with pytest.raises(TypeError, match="the signature of max is not known; pass 'y' by keyword"):
        transform(max, argnames="y")(1.0, 2.0)
