"""Each transformation by itself: what it takes, what it returns, what it refuses."""

import math
from collections import OrderedDict, namedtuple
from dataclasses import dataclass

import numpy as np
import pytest
from support.trees import close

import functensor as ft
from functensor.primitives.core.errors import (
    GradientInputError,
    NonScalarOutputError,
    RuleResultError,
)
from functensor.primitives.core.registry import registry as ops

Point = namedtuple("Point", "x y")


@dataclass
class Layer:
    w: object
    b: object


def numeric_jacobian(fun, x, eps=1e-6):
    """Returns the Jacobian of an array function of one array by central differences."""
    x = np.asarray(x, float)
    columns = []
    for i in np.ndindex(x.shape):
        step = np.zeros(x.shape)
        step[i] = eps
        columns.append((np.asarray(fun(x + step)) - np.asarray(fun(x - step))) / (2 * eps))
    shape = np.shape(fun(x))
    return np.stack(columns, -1).reshape(shape + x.shape) if columns else np.zeros(shape + x.shape)


X = np.array([0.3, -1.2, 2.0])
M = np.arange(6.0).reshape(2, 3) / 7


# -- grad and value_and_grad: which arguments


def product(a, b, c=4.0):
    return a * a * b * c


SELECTIONS = [
    ({}, 48.0),
    ({"argnums": 0}, 48.0),
    ({"argnums": 1}, 16.0),
    ({"argnums": -1}, 12.0),
    ({"argnums": np.int64(1)}, 16.0),
    ({"argnums": (0,)}, (48.0,)),
    ({"argnums": [2, 0]}, (12.0, 48.0)),
    ({"argnums": (0, -1)}, (48.0, 12.0)),
    ({"argnames": "b"}, 16.0),
    ({"argnames": ("c", "a")}, {"c": 12.0, "a": 48.0}),
    ({"argnames": ["a"]}, {"a": 48.0}),
    ({"argnums": 0, "argnames": "c"}, (48.0, 12.0)),
    ({"argnums": (1,), "argnames": ("a",)}, ((16.0,), {"a": 48.0})),
]


@pytest.mark.parametrize(("selection", "wanted"), SELECTIONS)
def test_grad_selects_arguments_by_position_and_name(selection, wanted):
    close(ft.grad(product, **selection)(2.0, 3.0, 4.0), wanted)
    close(ft.value_and_grad(product, **selection)(2.0, 3.0, 4.0), (48.0, wanted))


def test_grad_by_a_keyword_that_is_given_by_name():
    close(ft.grad(product, argnames="c")(2.0, 3.0, c=4.0), 12.0)
    close(ft.grad(product, argnames=("b", "c"))(2.0, c=4.0, b=3.0), {"b": 16.0, "c": 12.0})
    close(ft.grad(lambda x, *, scale: x * scale)(2.0, scale=5.0), 5.0)
    close(ft.grad(lambda x, **kw: x * kw["k"], argnames="k")(2.0, k=5.0), 2.0)


@pytest.mark.parametrize("argnums", [3, -4, (0, 3)])
def test_grad_refuses_positions_that_are_not_there(argnums):
    with pytest.raises(TypeError, match=r"argnums=.* product .*3\s+positional arguments"):
        ft.grad(product, argnums)(2.0, 3.0, 4.0)


def test_grad_refuses_names_that_are_not_there():
    with pytest.raises(TypeError, match=r"product.* was not given an argument named 'z'"):
        ft.grad(product, argnames="z")(2.0, 3.0, 4.0)


TREES = [
    {"w": X, "b": np.float64(0.5)},
    [X, X + 1],
    (X, (np.float64(2.0),)),
    Point(X, np.float64(2.0)),
    Layer(X, np.float64(2.0)),
    OrderedDict(z=X, a=X * 2),
    {"layers": [Layer(X, X), None, Point(X, None)], "none": None},
]


def total(tree):
    return sum(ops.sum(leaf * leaf * leaf) for leaf in ft.tree.leaves(tree))


@pytest.mark.parametrize("tree", TREES, ids=lambda t: type(t).__name__)
def test_grad_returns_the_structure_of_its_argument(tree):
    wanted = ft.tree.map(lambda x: 3 * x**2, tree)
    close(ft.grad(total)(tree), wanted)
    close(ft.value_and_grad(total)(tree)[1], wanted)
    close(ft.vjp(total, tree)[1](1.0), (wanted,))
    close(ft.jacfwd(total)(tree), wanted)
    close(ft.jacrev(total)(tree), wanted)
    close(ft.jvp(ft.grad(total), (tree,), (tree,))[1], ft.tree.map(lambda x: 6 * x * x, tree))


def test_grad_of_a_tree_without_leaves():
    assert ft.grad(lambda tree: 1.0)({"a": None}) == {"a": None}


# -- aux, dtypes, constants


def test_aux_is_returned_as_it_is_and_without_tracers():
    def loss(x):
        hidden = x * x
        return ops.sum(hidden), {"hidden": hidden, "text": "kept", "none": None, "n": 3, "x": x}

    gradient, aux = ft.grad(loss, has_aux=True)(X)
    close(gradient, 2 * X)
    (value, aux2), gradient2 = ft.value_and_grad(loss, has_aux=True)(X)
    close((value, gradient2), (np.sum(X * X), 2 * X))
    _, _, aux3 = ft.vjp(loss, X, has_aux=True)
    _, _, aux4 = ft.jvp(loss, (X,), (X,), has_aux=True)
    for extras in (aux, aux2, aux3, aux4):
        assert (extras["text"], extras["none"], extras["n"]) == ("kept", None, 3)
        close((extras["hidden"], extras["x"]), (X * X, X))
        assert type(extras["hidden"]) is ft.Array


@pytest.mark.parametrize("out", [3.0, (1.0, 2.0, 3.0), [1.0, 2.0]])
@pytest.mark.parametrize(
    "transform",
    [
        lambda f: ft.grad(f, has_aux=True)(1.0),
        lambda f: ft.value_and_grad(f, has_aux=True)(1.0),
        lambda f: ft.vjp(f, 1.0, has_aux=True),
        lambda f: ft.jvp(f, (1.0,), (1.0,), has_aux=True),
        lambda f: ft.jacfwd(f, has_aux=True)(1.0),
        lambda f: ft.jacrev(f, has_aux=True)(1.0),
    ],
)
def test_has_aux_wants_a_pair(transform, out):
    with pytest.raises(TypeError, match=r"has_aux=True is for .* a pair .* but .* returned "):
        transform(lambda x: out)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_gradients_have_the_dtype_of_their_input(dtype):
    x = X.astype(dtype)

    def loss(x, scale):
        return ops.sum(x * x * scale + 2.0 * x - 1) / 3

    value, gradients = ft.value_and_grad(loss, (0, 1))(x, 0.5)
    assert value.dtype == dtype
    rtol = 1e-2 if dtype == "float16" else 1e-6
    close(gradients[0], ((2 * x * 0.5 + 2) / 3).astype(dtype), rtol)
    assert gradients[1].dtype == np.float64
    assert ft.jvp(lambda x: loss(x, 0.5), (x,), (np.ones(3),))[1].dtype == dtype
    assert ft.vjp(lambda x: x * 2.0, x)[1](np.ones(3))[0].dtype == dtype
    assert ft.linearize(lambda x: x * 2.0, x)[1](np.ones(3)).dtype == dtype
    assert ft.jacfwd(lambda x: x * 2.0)(x).dtype == ft.jacrev(lambda x: x * 2.0)(x).dtype == dtype


def test_mixed_precision_gradients_come_back_in_each_inputs_dtype():
    a, b = X.astype("float32"), X
    gradients = ft.grad(lambda a, b: ops.sum(a * b), (0, 1))(a, b)
    assert [g.dtype for g in gradients] == [np.float32, np.float64]


def test_python_scalars_stay_weak_inside_of_transformations():
    x = X.astype("float32")
    seen = []

    def loss(scale):
        seen.append((x * scale).dtype)
        return ops.sum(x * scale * 2.0)

    assert ft.grad(loss)(3.0).dtype == np.float64
    ft.jvp(loss, (3.0,), (1.0,))
    ft.linearize(loss, 3.0)
    ft.vjp(loss, 3.0)
    ft.grad(ft.grad(loss))(3.0)
    assert set(seen) == {np.dtype("float32")}


@pytest.mark.parametrize("constant", [2.0, np.float64(2.0), np.array(2.0)], ids=type)
def test_outputs_that_do_not_depend_on_the_input_have_zero_derivatives(constant):
    close(ft.value_and_grad(lambda x: constant)(X), (2.0, np.zeros(3)))
    out, pull = ft.vjp(lambda x: {"a": constant, "b": x}, X)
    close((out, pull({"a": 1.0, "b": X})), ({"a": 2.0, "b": X}, (X,)))
    close(ft.jvp(lambda x: constant, (X,), (X,)), (2.0, 0.0))
    close(ft.linearize(lambda x: constant, X)[1](X), 0.0)
    close(ft.jacfwd(lambda x: constant)(X), np.zeros(3))
    close(ft.jacrev(lambda x: constant)(X), np.zeros(3))
    close(ft.hessian(lambda x: constant)(X), np.zeros((3, 3)))


def test_unused_arguments_have_zero_gradients():
    close(ft.grad(lambda a, b: ops.sum(a), (0, 1))(X, M), (np.ones(3), np.zeros((2, 3))))


def test_the_same_array_passed_twice_counts_once_for_each_argument():
    x = ops.positive(X)
    close(ft.grad(lambda a, b: ops.sum(a * a * b), (0, 1))(x, x), (2 * X * X, X * X))
    close(ft.grad(lambda t: ops.sum(t[0] * t[1]))([x, x]), [X, X])


def test_integers_have_no_gradient_unless_allowed():
    with pytest.raises(GradientInputError, match=r"argument 0 is int64.*\n.*\n.*allow_int=True"):
        ft.grad(lambda n: n * 2.0)(3)
    with pytest.raises(GradientInputError, match=r"argument 0\['n'\]\[1\] is int32"):
        ft.grad(lambda t: 1.0)({"n": (X, np.int32(1))})
    with pytest.raises(GradientInputError, match=r"argument 1\.y is bool"):
        ft.grad(lambda a, p: 1.0, argnums=(0, 1))(1.0, Point(X, True))
    with pytest.raises(GradientInputError, match="argument 'b' is of type str"):
        ft.grad(lambda a, b: 1.0, argnames="b")(1.0, b="text")
    got = ft.grad(lambda t: ops.sum(t["x"] * t["n"]), allow_int=True)({"x": X, "n": np.arange(3)})
    close(got, {"x": np.arange(3.0), "n": np.zeros(3, int)})


@pytest.mark.parametrize(
    ("out", "words"),
    [
        (lambda x: x * 2, r"shape \(3,\).*\n.*\n.*(ft\.)?jacrev.*vjp.*sum"),
        (lambda x: ops.sum(x) > 0, "is bool, not real"),
        (lambda x: 3, "is int64, not real"),
        (lambda x: ops.sum(x) * 1j, "is complex128, not real"),
        (lambda x: [ops.sum(x)], r"the output is a list, not a scalar[\s\S]*has_aux=True"),
        (lambda x: {"a": x}, "the output is a dict, not a scalar"),
        (lambda x: None, "the output is a NoneType, not a scalar"),
        (lambda x: "text", "the output is a str, not a scalar"),
    ],
)
def test_grad_wants_a_real_scalar(out, words):
    with pytest.raises(NonScalarOutputError, match=words):
        ft.grad(out)(X)


# -- complex


def test_gradient_descent_on_a_complex_variable_reaches_the_minimum():
    target = np.array([1.0 - 2.0j, 0.5j])

    def loss(z):
        return ops.sum(ops.square(ops.abs(z - target)))

    z = np.array([3.0 + 1.0j, -2.0 + 0.0j])
    for _ in range(60):
        z = z - 0.2 * np.asarray(ops.conj(ft.grad(loss)(z)))
    np.testing.assert_allclose(z, target, atol=1e-8)


def test_complex_gradient_is_the_real_derivative_minus_i_times_the_imaginary_one():
    z = 0.3 + 0.8j

    def loss(z):
        return ops.real(z * z * z) + ops.imag(z) * 2.0

    eps = 1e-6
    by_x = float(loss(z + eps) - loss(z - eps)) / (2 * eps)
    by_y = float(loss(z + 1j * eps) - loss(z - 1j * eps)) / (2 * eps)
    assert complex(ft.grad(loss)(z)) == pytest.approx(by_x - 1j * by_y, abs=1e-8)


def test_holomorphic_derivatives():
    z = np.array([0.3 + 0.8j, -1.0 + 0.1j])
    close(ft.grad(lambda z: z * z * z, holomorphic=True)(0.3 + 0.8j), 3 * (0.3 + 0.8j) ** 2)
    close(ft.jacfwd(lambda z: z * z, holomorphic=True)(z), np.diag(2 * z))
    close(ft.jacrev(lambda z: z * z, holomorphic=True)(z), np.diag(2 * z))
    second = ft.hessian(lambda z: ops.sum(z * z * z), holomorphic=True)(z)
    close(second, np.diag(6 * z))
    with pytest.raises(NonScalarOutputError, match="is float64, not complex"):
        ft.grad(lambda z: ops.real(z), holomorphic=True)(z[0])
    for jacobian in (ft.jacfwd, ft.jacrev):
        with pytest.raises(TypeError, match="say holomorphic=True"):
            jacobian(lambda z: z * z)(z)
    for derivative in (ft.grad, ft.jacfwd, ft.jacrev):
        with pytest.raises(TypeError, match="holomorphic=True is for complex inputs, not float64"):
            derivative(lambda x: x * 1j, holomorphic=True)(2.0)
    with pytest.raises(TypeError, match="holomorphic=True is for complex outputs, not float64"):
        ft.jacrev(ops.real, holomorphic=True)(z)


def test_complex_directions_of_real_values_are_refused():
    with pytest.raises(RuleResultError, match=r"a complex tangent was given for an argument float"):
        ft.jvp(ops.sin, (X,), (1j * X,))
    with pytest.raises(RuleResultError, match=r"a complex cotangent was given for an output float"):
        ft.vjp(ops.sin, X)[1](1j * X)


def test_real_inputs_of_complex_functions_have_real_derivatives():
    def loss(x):
        return ops.sum(ops.square(ops.abs(x * (1 + 2j) + 3j)))

    close(ft.grad(loss)(X), 2 * (1 * X) + 2 * 2 * (2 * X + 3))


# -- vjp


def test_vjp_of_many_outputs_can_be_pulled_many_times():
    def fun(x, m):
        return {"a": x * x, "b": [ops.sum(m * x), m]}

    out, pull = ft.vjp(fun, X, M)
    close(out, {"a": X * X, "b": [np.sum(M * X), M]})
    for scale in (1.0, -2.0, 0.0):
        got = pull({"a": scale * X, "b": [np.float64(scale), scale * M]})
        by_x = scale * 2 * X * X + scale * M.sum(0)
        close(got, (by_x, scale * (np.broadcast_to(X, (2, 3)) + M)))


def test_vjp_pulls_under_every_transformation():
    _, pull = ft.vjp(lambda x: x * x, X)
    rows = ft.vmap(pull)(np.eye(3))
    close(rows, (np.diag(2 * X),))
    close(ft.jvp(pull, (X,), (np.ones(3),)), ((2 * X * X,), (2 * X,)))
    close(ft.grad(lambda g: ops.sum(pull(g)[0] * g))(X), 4 * X * X)

    def nested(x):
        out, inner = ft.vjp(lambda y: y * y * x, x)
        return ops.sum(inner(out * 0 + 1)[0] + out)

    close(ft.grad(nested)(X), 4 * X + 3 * X * X)
    close(ft.jvp(nested, (X,), (X,))[1], np.sum(4 * X * X + 3 * X**3))
    alone = ft.vmap(lambda x: nested(x[None]))(X)
    close(alone, 2 * X * X + X**3)


@pytest.mark.parametrize(
    ("cotangent", "words"),
    [
        ([X], r"structure TreeDef\(\[\*\]\).*TreeDef\(\(\*, \*\)\)"),
        ((X,), "structure"),
        (None, "structure"),
        ((X, X), r"cotangent of shape \(3,\) .* float64\[\]"),
        ((np.ones((1, 3)), 1.0), r"cotangent of shape \(1, 3\) .* float64\[3\]"),
    ],
)
def test_vjp_refuses_cotangents_that_do_not_fit(cotangent, words):
    _, pull = ft.vjp(lambda x: (x, ops.sum(x)), X)
    with pytest.raises(RuleResultError, match=words):
        pull(cotangent)


def test_vjp_passes_integers_through():
    out, pull = ft.vjp(lambda x, n: (x * n, n + 1), X, np.arange(3))
    close(out, (X * np.arange(3), np.arange(3) + 1))
    close(pull((X, np.zeros(3, int))), (X * np.arange(3), np.zeros(3, int)))


# -- jvp and linearize


def test_jvp_of_trees():
    got = ft.jvp(lambda t, s: {"p": t[0] * t[1], "s": s}, ([X, X + 1], 2.0), ([X, X], 1.0))
    close(got, ({"p": X * (X + 1), "s": 2.0}, {"p": X * (X + 1) + X * X, "s": 1.0}))


@pytest.mark.parametrize(
    ("tangents", "words"),
    [
        ((X,), "structure"),
        ((X, (X,)), "structure"),
        ((X, [X, X]), "structure"),
        ((X, [1.0]), r"tangent of shape \(\) was given for an argument float64\[3\]"),
        ((M, [X]), r"tangent of shape \(2, 3\)"),
    ],
)
def test_jvp_and_linearize_refuse_tangents_that_do_not_fit(tangents, words):
    with pytest.raises(RuleResultError, match=words):
        ft.jvp(lambda x, t: x * t[0], (X, [X]), tangents)
    with pytest.raises(RuleResultError, match=words):
        ft.linearize(lambda x, t: x * t[0], X, [X])[1](*tangents)


@pytest.mark.parametrize("primals", [X, ops.positive(X), 2.0], ids=type)
def test_jvp_wants_tuples(primals):
    with pytest.raises(TypeError, match=r"takes a tuple or list of arguments"):
        ft.jvp(lambda x: x, primals, primals)


def test_linearize_does_the_nonlinear_work_once():
    runs = []

    def fun(t):
        runs.append(1)
        return {"a": ops.exp(t[0]) * t[1], "b": 7.0, "c": t[1]}

    out, linear = ft.linearize(fun, [X, X + 1])
    e = np.exp(X)
    close(out, {"a": e * (X + 1), "b": 7.0, "c": X + 1})
    for scale in (1.0, -0.5):
        wanted = {"a": scale * (e * (X + 1) * X + e * X), "b": 0.0, "c": scale * X}
        close(linear([scale * X, scale * X]), wanted)
    assert len(runs) == 1
    batch = ft.vmap(linear)([np.eye(3), np.zeros((3, 3))])
    close(batch["a"], np.diag(e * (X + 1)))
    close(batch["b"], np.zeros(3))
    close(ft.grad(lambda t: ops.sum(linear([t, t])["a"]))(X), e * (X + 1) + e)
    seen = []
    hook = ft.hooks.FnHook(forward=lambda op, inputs, out: seen.append(op.name))
    with ft.hooks.use(hook):
        linear([X, X])
    assert "exp" not in seen


# -- Jacobians and Hessians


def vector_fun(p):
    return {"s": ops.sin(p["m"] @ p["x"]), "t": (ops.sum(p["x"] * p["x"]), p["x"])}


@pytest.mark.parametrize("jacobian", [ft.jacfwd, ft.jacrev])
def test_jacobians_of_trees_are_trees_of_trees(jacobian):
    c = np.cos(M @ X)
    wanted = {
        "s": {"m": c[:, None, None] * np.eye(2)[:, :, None] * X, "x": c[:, None] * M},
        "t": (
            {"m": np.zeros((2, 3)), "x": 2 * X},
            {"m": np.zeros((3, 2, 3)), "x": np.eye(3)},
        ),
    }
    close(jacobian(vector_fun)({"m": M, "x": X}), wanted)


@pytest.mark.parametrize("jacobian", [ft.jacfwd, ft.jacrev])
@pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 2), (0,), (2, 0)])
def test_jacobians_agree_with_finite_differences(jacobian, shape):
    x = np.linspace(-1, 2, math.prod(shape)).reshape(shape)

    def fun(x):
        return ops.stack([ops.sin(x) * x, ops.exp(-x)])

    got = jacobian(fun)(x)
    assert got.shape == (2, *shape, *shape)
    np.testing.assert_allclose(got, numeric_jacobian(fun, x), atol=1e-8)


@pytest.mark.parametrize("jacobian", [ft.jacfwd, ft.jacrev])
def test_jacobians_take_argnums_and_aux(jacobian):
    def fun(a, b):
        return a * b, {"text": "t", "a": a}

    got, aux = jacobian(fun, argnums=(1, 0), has_aux=True)(X, 2.0)
    close(got, (X, 2 * np.eye(3)))
    assert aux["text"] == "t"
    close(aux["a"], X)
    close(jacobian(lambda a, b: a * b, argnames="b")(X, b=2.0), X)
    with pytest.raises(GradientInputError, match="argument 0 is int64"):
        jacobian(lambda a: a * 1.0)(3)


def test_hessian_is_symmetric_and_agrees_with_differences_of_gradients():
    def loss(x):
        return ops.sum(ops.exp(x) * x[::-1]) + ops.prod(x)

    got = np.asarray(ft.hessian(loss)(X))
    np.testing.assert_allclose(got, got.T, rtol=1e-12)
    np.testing.assert_allclose(got, numeric_jacobian(ft.grad(loss), X), atol=1e-7)
    close(ft.hvp(loss, (X,), (X + 1,)), got @ (X + 1))


def test_hessian_of_trees_and_vectors():
    got = ft.hessian(lambda p: ops.sum(p["a"] * p["a"] * p["b"]))({"a": X, "b": 2.0})
    wanted = {"a": {"a": np.diag([4.0] * 3), "b": 2 * X}, "b": {"a": 2 * X, "b": 0.0}}
    close(got, wanted)
    assert ft.hessian(lambda x: x * x * x)(X).shape == (3, 3, 3)
    pair = ft.hessian(lambda a, b: ops.sum(a * b), argnums=(0, 1))(X, X)
    close(pair, ((np.zeros((3, 3)), np.eye(3)), (np.eye(3), np.zeros((3, 3)))))
    second, aux = ft.hessian(lambda x: (ops.sum(x * x), x), has_aux=True)(X)
    close((second, aux), (2 * np.eye(3), X))


def test_hvp_of_several_arguments_and_trees():
    got = ft.hvp(lambda p, s: s * ops.sum(p["a"] * p["a"]), ({"a": X}, 3.0), ({"a": X}, 1.0))
    close(got, ({"a": 6 * X + 2 * X}, 2 * np.sum(X * X)))
