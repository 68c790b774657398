"""Tensors given to transformations: results are tensors, and one graph goes through all of it."""

import gc
import itertools
import weakref

import numpy
import pytest

import functensor as ft
import functensor.numpy as np
from functensor.primitives.core.errors import BackwardError, TracerConversionError

X = numpy.array([0.3, -1.2, 2.0])
W = numpy.array([1.5, 0.4, -0.7])
M = numpy.array([[0.1, 0.5, -0.3], [0.7, -0.2, 0.9], [0.0, 1.1, 0.6]])


def f(x, w):
    return np.sin(x) * w + x**2


def loss(x, w):
    return np.sum(f(x, w) * x)


def both(pair, *args):
    """Returns an output and what the function beside it gives."""
    out, function, *rest = pair
    return out, function(*args), *rest


ADDED = ft.custom_vjp(lambda x, w: x * w)
ADDED.defvjp(lambda x, w: (x * w, (x, w)), lambda r, g: (g * r[1], g * r[0]))
ODE = ft.scipy.integrate.odeint
TIMES = np.linspace(0.0, 0.5, 3)

# Functions of two arguments, each an array or a tensor of three numbers.
CALLS = {
    "jit": ft.jit(f),
    "vmap": ft.vmap(f),
    "vmap, shared": ft.vmap(loss, in_axes=(0, None)),
    "vmap, keyword": lambda x, w: ft.vmap(f)(x, w=w),
    "vmap, named": ft.vmap(lambda x, w: x * w / ft.psum(x, "i"), axis_name="i"),
    "grad": ft.grad(loss),
    "grad, both": ft.grad(loss, argnums=(0, 1)),
    "grad, extras": ft.grad(lambda x, w: (loss(x, w), (x * w, w)), has_aux=True),
    "value_and_grad": ft.value_and_grad(loss, argnums=1),
    "elementwise_grad": ft.elementwise_grad(f),
    "vjp": lambda x, w: both(ft.vjp(f, x, w), x),
    "vjp, extras": lambda x, w: both(ft.vjp(lambda x, w: (x * w, w * w), x, w, has_aux=True), x),
    "jvp": lambda x, w: ft.jvp(f, (x, w), (w, x)),
    "linearize": lambda x, w: both(ft.linearize(f, x, w), w, x),
    "linear_transpose": lambda x, w: ft.linear_transpose(lambda y: 2 * y, x)(w),
    "vjp's function": lambda x, w: ft.vjp(np.sin, X)[1](x),
    "linearize's function": lambda x, w: ft.linearize(np.sin, X)[1](x),
    "hvp": lambda x, w: ft.hvp(lambda x: np.sum(x**3), (x,), (w,)),
    "hessian": ft.hessian(loss, argnums=(0, 1)),
    "jacfwd": ft.jacfwd(f),
    "jacrev": ft.jacrev(f, argnums=(0, 1)),
    "jacobian": ft.jacobian(f),
    "jacobian, named": lambda x, w: ft.jacobian(f, argnames="w")(x, w=w),
    "sparse.jacobian": lambda x, w: ft.sparse.jacobian(f)(x, w).values,
    "sparse.hessian": lambda x, w: ft.sparse.hessian(loss)(x, w).values,
    "checkpoint": ft.checkpoint(f),
    "custom_vjp": ADDED,
    "odeint": lambda x, w: ODE(lambda y, t, w: -y * w, x, TIMES, w),
    "scan": lambda x, w: ft.scan(lambda c, y: (np.sin(c) * y, c), w, x),
    "scan, closure": lambda x, w: ft.scan(lambda c, y: (np.sin(c) * w, c), x, None, length=2),
    "fori_loop": lambda x, w: ft.fori_loop(0, 2, lambda i, c: np.sin(c) * w, x),
    "while_loop": lambda x, w: ft.while_loop(lambda c: np.sum(c**2) < 9, lambda c: c + w, x),
    "cond": lambda x, w: ft.cond(True, f, loss, x, w),
    "switch": lambda x, w: ft.switch(1, [loss, f], x, w),
    "map": lambda x, w: ft.control.map(lambda a: a * w, x),
    "associative_scan": lambda x, w: ft.associative_scan(np.multiply, x * w),
    "vectorize": lambda x, w: np.vectorize(f)(x, w),
    # Several at once.
    "vmap of grad": ft.vmap(ft.grad(lambda x, w: x**3 * w)),
    "grad of vmap": ft.grad(lambda x, w: np.sum(ft.vmap(f)(x, w))),
    "jit of hessian": ft.jit(ft.hessian(loss)),
    "grad of jit": ft.grad(ft.jit(loss)),
    "vmap of checkpoint": ft.vmap(ft.checkpoint(f)),
    "grad of checkpoint": ft.grad(ft.checkpoint(loss)),
    "checkpoint of grad": ft.checkpoint(ft.grad(loss)),
    "vmap of scan": ft.vmap(
        lambda x, w: ft.scan(lambda c, _: (c * w, c), x, None, length=2)
    ),
    "grad of scan": ft.grad(lambda x, w: ft.scan(lambda c, y: (c * y + 1.0, c), x[0], w)[0]),
    "grad of cond": ft.grad(lambda x, w: ft.cond(x[0] > 0, loss, lambda x, w: x[0], x, w)),
    "grad in fori_loop": lambda x, w: ft.fori_loop(
        0, 2, lambda i, x: x - 0.1 * ft.grad(loss)(x, w), x
    ),
    "vmap of custom_vjp": ft.vmap(ADDED),
}
# The kinds of the two arguments: tensors with and without a gradient, arrays.
KINDS = [kinds for kinds in itertools.product("gta", repeat=2) if kinds != ("a", "a")]


def given(kind, value):
    """Returns a value as a tensor that requires grad, another one, or an array."""
    return np.asarray(value) if kind == "a" else ft.tensor(value, requires_grad=kind == "g")


def checked(call, kinds, wrap=lambda x: x, recording=True):
    """Compares a call on tensors with the same call on arrays: values, types, gradients."""
    arrays = [np.asarray(X), np.asarray(W)]
    tensors = [given(kind, value) for kind, value in zip(kinds, (X, W), strict=True)]
    wanted, pull = ft.vjp(lambda *args: call(*map(wrap, args)), *arrays)
    wanted = ft.tree.leaves(wanted)
    found = call(*map(wrap, tensors))
    got = ft.tree.leaves(found)
    total = 0.0
    for x, y in zip(got, wanted, strict=True):
        assert x.dtype == y.dtype
        if not isinstance(x, ft.Tensor):
            # A part that no tensor takes part in, where nothing is transformed.
            x = ft.tensor(x)
        numpy.testing.assert_allclose(x.detach(), y, rtol=1e-12, atol=1e-12)
        total = total + (x * x).sum()
    if not recording or "g" not in kinds:
        assert not any(getattr(x, "requires_grad", False) for x in got)
        return
    out_tree = ft.tree.structure(found)
    by = pull(out_tree.unflatten([2 * y for y in wanted]))
    if not total.requires_grad:
        # The result does not depend on those that require grad.
        assert not any(numpy.any(y) for kind, y in zip(kinds, by, strict=True) if kind == "g")
        return
    total.backward()
    for kind, x, y in zip(kinds, tensors, by, strict=True):
        if kind == "g" and numpy.any(y):
            assert type(x.grad) is ft.Tensor
            numpy.testing.assert_allclose(x.grad, y, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", CALLS)
def test_results_are_those_of_arrays_and_carry_the_graph(name):
    for kinds in KINDS:
        checked(CALLS[name], kinds)


@pytest.mark.parametrize("name", CALLS)
def test_nothing_is_recorded_within_no_grad(name):
    with ft.no_grad():
        checked(CALLS[name], ("g", "g"), recording=False)


TRANSFORMED = {
    "vmap": ft.vmap(lambda t: np.sin(t["a"]) * t["b"][0]),
    "grad": ft.grad(lambda t: loss(t["a"], t["b"][0])),
    "jvp": lambda t: ft.jvp(lambda t: np.sin(t["a"]) * t["b"][0], (t,), (t,)),
    "vjp": lambda t: ft.vjp(lambda t: {"o": f(t["a"], t["b"][0])}, t)[1]({"o": t["a"]}),
    "linearize": lambda t: ft.linearize(lambda t: np.sin(t["a"]) * t["b"][0], t)[1](t),
    "hessian": ft.hessian(lambda t: loss(t["a"], t["b"][0])),
    "jacrev": ft.jacrev(lambda t: f(t["a"], t["b"][0])),
    "scan": lambda t: ft.scan(lambda c, y: (c * y["a"] + y["b"][0], y), 1.0, t),
}


@pytest.mark.parametrize("name", TRANSFORMED)
def test_tensors_within_trees(name):
    for kinds in KINDS:
        checked(lambda x, w: TRANSFORMED[name]({"a": x, "b": [w]}), kinds)


CLOSING = {
    "vmap": lambda x, w: ft.vmap(lambda a: np.sum(a * w))(x),
    "grad": lambda x, w: ft.grad(lambda x: loss(x, w))(x),
    "jvp": lambda x, w: ft.jvp(lambda x: f(x, w), (x,), (x,)),
    "vjp": lambda x, w: ft.vjp(lambda x: f(x, w), x)[1](x),
    "linearize": lambda x, w: ft.linearize(lambda x: f(x, w), x)[1](x),
    "hessian": lambda x, w: ft.hessian(lambda x: loss(x, w))(x),
    "jacfwd": lambda x, w: ft.jacfwd(lambda x: f(x, w))(x),
    "scan in grad": lambda x, w: ft.grad(
        lambda x: np.sum(ft.scan(lambda c, y: (c * y + w, c), x, x)[0])
    )(x),
    "vmap within vmap": lambda x, w: ft.vmap(lambda a: ft.vmap(lambda b: a * b)(w))(x),
}


@pytest.mark.parametrize("name", CLOSING)
def test_tensors_that_a_function_closes_over(name):
    for kinds in KINDS:
        if kinds[0] == "a" and kinds[1] == "g":
            with pytest.raises(TracerConversionError, match="fix: pass it as an argument"):
                checked(CLOSING[name], kinds)
        elif kinds[0] != "a":
            checked(CLOSING[name], kinds)


def test_gradients_of_derivatives_are_those_on_paper():
    x, m = ft.tensor(X, requires_grad=True), ft.tensor(M, requires_grad=True)
    rows = ft.vmap(ft.grad(lambda row: (row**3).sum()))(m)
    turned = ft.grad(lambda x: ((x @ m) * x).sum())(x)
    (rows.sum() + (turned * W).sum()).backward()
    numpy.testing.assert_allclose(x.grad, (M + M.T) @ W)
    numpy.testing.assert_allclose(m.grad, 6 * M + numpy.outer(X, W) + numpy.outer(W, X))


def test_hooks_see_what_transformations_of_tensors_run():
    seen = []
    hook = ft.hooks.FnHook(
        forward=lambda op, inputs, out: seen.append(op.name),
        backward=lambda op, grad_inputs, grad_output: [2 * g for g in grad_inputs],
    )
    x = ft.tensor(X, requires_grad=True)
    with ft.hooks.use(hook, match="sin"):
        ft.vmap(np.sin)(x).sum().backward()
    assert seen == ["sin"]
    numpy.testing.assert_allclose(x.grad, 2 * numpy.cos(X))


def test_a_graph_is_used_up_through_transformations_too():
    x = ft.tensor(X, requires_grad=True)
    total = ft.grad(lambda x: np.sum(x**3))(x).sum()
    total.backward(retain_graph=True)
    total.backward()
    numpy.testing.assert_allclose(x.grad, 12 * X)
    with pytest.raises(BackwardError):
        total.backward()


def test_functions_that_transformations_made_of_tensors_take_tensors():
    x, g = (ft.tensor(v, requires_grad=True) for v in (X, W))
    _, pull = ft.vjp(lambda x: np.sin(x) * 2.0, x)
    pulled = ft.grad(lambda g: np.sum(pull(g)[0] ** 2))(g)
    numpy.testing.assert_allclose(pulled.detach(), 8 * np.cos(X) ** 2 * W)
    pull(W)[0].sum().backward()
    numpy.testing.assert_allclose(x.grad, -2 * numpy.sin(X) * W)
    with pytest.raises(TracerConversionError, match="its gradient would get lost"):
        ft.vmap(pull)(M)


def test_a_raise_leaves_nothing_behind():
    x = ft.tensor(X, requires_grad=True)

    def fails(x):
        raise KeyError("within")

    for transformed in (ft.vmap(fails), ft.grad(fails), ft.jacfwd(fails), ft.hessian(fails)):
        with pytest.raises(KeyError):
            transformed(x)
    assert type(x * 2) is ft.Tensor
    assert type(np.sin(X)) is ft.Array


def test_saved_residuals_of_a_tensor():
    kept = ft.saved_residuals(np.sin, ft.tensor(X, requires_grad=True))
    assert [each.source for each in kept] == ["argument 0"]


def test_transformations_and_what_they_made_are_gone_with_their_last_names():
    def made():
        yield ft.vmap(lambda x: x * X[0])
        yield from (t(lambda x: np.sum(x * X)) for t in (ft.grad, ft.jacfwd, ft.jacrev, ft.hessian))
        yield ft.elementwise_grad(lambda x: x * X)
        yield ft.sparse.jacobian(lambda x: x * X)
        for given in (X, ft.tensor(X, requires_grad=True)):
            yield ft.vjp(np.sin, given)[1]
            yield ft.linearize(np.sin, given)[1]
            yield ft.linear_transpose(lambda x: 2 * x, given)

    gc.collect()
    gc.disable()
    try:
        for function in made():
            function(ft.tensor(X))
            last = weakref.ref(function)
            del function
            assert last() is None
    finally:
        gc.enable()


def solved(x):
    def slope(y, t):
        return -y * x[0] * x.reshape(3, 1)[:, 0] + ft.grad(lambda z: np.sum(z**2) * x[1])(y)

    return ft.scipy.integrate.odeint(slope, x, numpy.array([0.0, 0.5]))[-1]


def least(x):
    return ft.scipy.optimize.minimize(lambda z: np.sum((z - x[0]) ** 2), x * 0).x


@pytest.mark.parametrize("f", [solved, least])
def test_a_solver_calls_functions_of_views_again_within_a_transformation(f):
    x = numpy.array([0.5, -1.0, 2.0])
    wanted = ft.grad(lambda x: np.sum(f(x) ** 2))(x)
    for over in (ft.jit, lambda f: lambda x: ft.vmap(f)(x[None])[0]):
        tensor = ft.tensor(x, requires_grad=True)
        (over(f)(tensor) ** 2).sum().backward()
        numpy.testing.assert_allclose(tensor.grad, wanted, rtol=1e-6, atol=1e-6)
