"""Functions with rules of their own, ``custom_vjp`` and ``custom_jvp``, and constants."""

from collections import namedtuple
from functools import partial

import numpy as np
import pytest
from support.trees import close

import functensor as ft
from functensor.primitives.core.errors import (
    ConcretizationError,
    EscapedTracerError,
    MissingRuleError,
    RuleResultError,
)
from functensor.primitives.core.registry import registry as ops

X = np.array([0.3, -0.7, 1.1])
M = np.arange(6.0).reshape(2, 3) / 7
Pair = namedtuple("Pair", "a b")


# The rules are wrong by a factor of ten on purpose, so that it shows whether they were used.


def times_ten():
    """Returns ``sin`` whose derivative is ten times its cosine, with a rule for either mode."""

    @ft.custom_vjp
    def by_vjp(x):
        return ops.sin(x)

    by_vjp.defvjp(lambda x: (ops.sin(x), x), lambda x, g: (10.0 * g * ops.cos(x),))

    @ft.custom_jvp
    def by_jvp(x):
        return ops.sin(x)

    by_jvp.defjvp(
        lambda primals, tangents: (ops.sin(primals[0]), 10.0 * tangents[0] * ops.cos(primals[0]))
    )
    return [by_vjp, by_jvp]


BOTH = pytest.mark.parametrize("fun", times_ten(), ids=["custom_vjp", "custom_jvp"])


@BOTH
def test_a_rule_serves_both_modes_and_every_transformation(fun):
    sin, cos = np.sin(X), np.cos(X)
    close(fun(ops.positive(X)), sin)
    close(ft.grad(lambda x: ops.sum(fun(x)))(X), 10 * cos)
    close(ft.value_and_grad(fun)(0.0), (0.0, 10.0))
    close(ft.vjp(fun, X)[1](X), (10 * cos * X,))
    close(ft.jvp(fun, (X,), (X,)), (sin, 10 * cos * X))
    close(ft.linearize(fun, X)[1](X), 10 * cos * X)
    close(ft.jacfwd(fun)(X), np.diag(10 * cos))
    close(ft.jacrev(fun)(X), np.diag(10 * cos))
    close(ft.vmap(fun)(M), np.sin(M))
    close(ft.vmap(fun, 1, 1)(M), np.sin(M))
    close(ft.vmap(ft.grad(fun))(X), 10 * cos)
    close(ft.grad(lambda x: ops.sum(ft.vmap(fun)(x)))(X), 10 * cos)
    close(ft.vmap(lambda t: ft.jvp(fun, (X,), (t,))[1])(np.eye(3)), np.diag(10 * cos))
    close(ft.jvp(ft.vmap(fun), (X,), (X,))[1], 10 * cos * X)
    close(ft.make_program(fun)(X)(X), sin)
    close(ft.grad(lambda x: ops.sum(ft.make_program(fun)(X)(x)))(X), 10 * cos)
    close(ft.vmap(ft.make_program(fun)(1.0 * X[0]))(X), sin)
    assert ft.eval_shape(fun, X) == ft.ShapeDtype((3,), "float64")


@BOTH
def test_rules_are_differentiated_in_their_turn(fun):
    second = -10 * np.sin(X)
    close(ft.hessian(lambda x: ops.sum(fun(x)))(X), np.diag(second))
    close(ft.jacrev(ft.grad(lambda x: ops.sum(fun(x))))(X), np.diag(second))
    close(ft.jacfwd(ft.jacfwd(fun))(X)[0, 0], np.array([second[0], 0.0, 0.0]))
    close(ft.grad(ft.grad(fun))(0.5), -10 * np.sin(0.5))
    close(ft.grad(ft.grad(ft.grad(fun)))(0.5), -10 * np.cos(0.5))
    close(ft.hvp(lambda x: ops.sum(fun(x)), (X,), (X,)), second * X)


@BOTH
def test_rules_of_nested_calls(fun):
    close(ft.grad(lambda x: fun(fun(x)))(0.5), 100 * np.cos(np.sin(0.5)) * np.cos(0.5))
    close(ft.jvp(lambda x: fun(fun(x)), (0.5,), (1.0,))[1], 100 * np.cos(np.sin(0.5)) * np.cos(0.5))


@BOTH
def test_dtypes_are_kept(fun):
    x = X.astype("float32")
    gradient = ft.grad(lambda x: ops.sum(fun(x)))(x)
    assert gradient.dtype == np.float32
    assert ft.jvp(fun, (x,), (x,))[1].dtype == np.float32


@BOTH
def test_metadata_is_the_functions_own(fun):
    assert fun.__name__ in ("by_vjp", "by_jvp")
    assert callable(fun.__wrapped__)


# -- trees, several arguments, what is not an array


def tree_vjp():
    @ft.custom_vjp
    def fun(p, q):
        return {"s": ops.sum(p["a"] * q.a), "t": (p["b"] * q.b, None)}

    def fwd(p, q):
        return fun(p, q), {"p": p, "q": q, "text": "kept", "n": None}

    def bwd(res, g):
        assert res["text"] == "kept"
        p, q = res["p"], res["q"]
        gs, gt = g["s"], g["t"][0]
        return {"a": gs * q.a, "b": gt * q.b}, Pair(gs * p["a"], gt * p["b"])

    fun.defvjp(fwd, bwd)
    return fun


def tree_jvp():
    @ft.custom_jvp
    def fun(p, q):
        return {"s": ops.sum(p["a"] * q.a), "t": (p["b"] * q.b, None)}

    @fun.defjvp
    def rule(primals, tangents):
        (p, q), (dp, dq) = primals, tangents
        s = ops.sum(dp["a"] * q.a + p["a"] * dq.a)
        return fun(p, q), {"s": s, "t": (dp["b"] * q.b + p["b"] * dq.b, None)}

    return fun


@pytest.mark.parametrize("fun", [tree_vjp(), tree_jvp()], ids=["custom_vjp", "custom_jvp"])
def test_trees_in_and_out(fun):
    p, q = {"a": X, "b": np.float64(2.0)}, Pair(X + 1, np.float64(3.0))
    out = {"s": np.sum(X * (X + 1)), "t": (6.0, None)}
    assert ft.tree.structure(fun(p, q)) == ft.tree.structure(out)
    got, pull = ft.vjp(fun, p, q)
    close(got, out)
    close(pull({"s": 2.0, "t": (1.0, None)}), ({"a": 2 * (X + 1), "b": 3.0}, Pair(2 * X, 2.0)))
    close(ft.jvp(fun, (p, q), (p, q)), (out, {"s": 2 * out["s"], "t": (12.0, None)}))
    both = ft.grad(lambda p, q: fun(p, q)["s"], argnums=(0, 1))(p, q)
    close(both, ({"a": X + 1, "b": 0.0}, Pair(X, 0.0)))
    shared = ft.vmap(fun, ({"a": 0, "b": None}, None))
    ps = {"a": np.stack([X, 2 * X]), "b": 2.0}
    close(shared(ps, q)["s"], out["s"] * np.array([1.0, 2.0]))
    close(ft.jvp(shared, (ps, q), (ps, q))[1]["s"], out["s"] * np.array([2.0, 4.0]))
    by_p, by_q = ft.grad(lambda p, q: ops.sum(shared(p, q)["s"]), argnums=(0, 1))(ps, q)
    close((by_p["a"], by_q), (np.stack([X + 1, X + 1]), Pair(3 * X, 0.0)))
    per_example = ft.vmap(ft.grad(lambda p: fun(p, q)["s"]), ({"a": 0, "b": None},))
    close(per_example({"a": np.stack([X, X]), "b": 2.0})["a"], np.stack([X + 1, X + 1]))


def scaled(kind):
    """Returns ``f(scale, x, mode)`` with static ends; its derivative is scaled, too."""

    if kind == "custom_vjp":

        @partial(ft.custom_vjp, nondiff_argnums=(0, 2))
        def fun(apply, x, mode="twice"):
            return apply(x) * (2 if mode == "twice" else 1)

        def fwd(apply, x, mode):
            return fun(apply, x, mode), (mode, x)

        def bwd(apply, mode, res, g):
            assert res[0] == mode
            return (g * (20.0 if mode == "twice" else 10.0) * apply(res[1]),)

        fun.defvjp(fwd, bwd)
    else:

        @partial(ft.custom_jvp, nondiff_argnums=(0, 2))
        def fun(apply, x, mode="twice"):
            return apply(x) * (2 if mode == "twice" else 1)

        @fun.defjvp
        def rule(apply, mode, primals, tangents):
            (x,), (t,) = primals, tangents
            return fun(apply, x, mode), t * (20.0 if mode == "twice" else 10.0) * apply(x)

    return fun


@pytest.mark.parametrize("kind", ["custom_vjp", "custom_jvp"])
def test_nondiff_arguments_reach_the_rules_as_they_are(kind):
    fun = scaled(kind)
    e = np.exp(X)
    close(ft.grad(lambda x: ops.sum(fun(ops.exp, x, "once")))(X), 10 * e)
    close(ft.jvp(lambda x: fun(ops.exp, x, mode="twice"), (X,), (X,)), (2 * e, 20 * e * X))
    close(ft.vmap(lambda x: fun(ops.exp, x, "once"))(X), e)
    close(ft.vmap(ft.grad(lambda x: fun(ops.exp, x, "once")))(X), 10 * e)
    # Defaults are filled in, by position or by name alike.
    close(fun(ops.exp, ops.positive(X)), 2 * e)
    close(ft.grad(lambda x: ops.sum(fun(ops.exp, x)))(X), 20 * e)
    close(ft.grad(lambda x: ops.sum(fun(x=x, apply=ops.exp)))(X), 20 * e)


def test_keywords_and_defaults_become_positions():
    @ft.custom_vjp
    def power(x, n=2.0):
        return x**n

    power.defvjp(lambda x, n: (x**n, (x, n)), lambda res, g: (g * 100.0, None))
    for call in (lambda x: power(x), lambda x: power(x, n=2.0), lambda x: power(n=2.0, x=x)):
        close(ft.grad(call)(3.0), 100.0)
        close(call(np.float64(3.0)), 9.0)
    with pytest.raises(TypeError, match="unexpected keyword argument 'm'"):
        power(1.0, m=2)


def test_none_is_a_cotangent_of_zero():
    @ft.custom_vjp
    def fun(tree, y, n):
        return ops.sum(tree["a"] * tree["b"] * y) * n

    fun.defvjp(lambda *args: (fun(*args), args), lambda res, g: (None, g * res[0]["a"], None))
    tree = {"a": X, "b": X}
    got = ft.grad(fun, argnums=(0, 1))(tree, X, 3)
    close(got, ({"a": 0 * X, "b": 0 * X}, X))
    close(ft.jvp(lambda t: fun(t, X, 3), (tree,), (tree,))[1], 0.0)
    close(ft.vmap(ft.grad(lambda y: fun(tree, y, 3)))(np.stack([X, X])), np.stack([X, X]))
    integers = ft.grad(lambda n, y: fun(tree, y, n), argnums=(0, 1), allow_int=True)(3, X)
    close(integers, (0, X))


def test_residuals_need_not_be_arrays():
    class Opaque:
        pass

    held = Opaque()

    @ft.custom_vjp
    def fun(x):
        return x * 2.0

    def bwd(res, g):
        assert res[0] is held
        assert res[2:] == ["text", None, len]
        return (g * res[1],)

    fun.defvjp(lambda x: (x * 2.0, [held, x, "text", None, len]), bwd)
    close(ft.grad(lambda x: ops.sum(fun(x)))(X), X)
    close(ft.vmap(ft.grad(fun))(X), X)
    close(ft.grad(lambda x: ops.sum(ft.vmap(fun)(x)))(X), X)
    close(ft.jvp(fun, (X,), (X,))[1], X * X)
    close(ft.hessian(fun)(3.0), 1.0)


def test_gradient_clipping_and_straight_through():
    @ft.custom_vjp
    def clipped(x):
        return x

    clipped.defvjp(lambda x: (x, None), lambda _, g: (ops.clip(g, -1.0, 1.0),))
    gradient = ft.grad(lambda x: ops.sum(clipped(x) * np.array([5.0, -7.0, 0.5])))(X)
    close(gradient, np.array([1.0, -1.0, 0.5]))

    def straight_through(x):
        return x + ft.stop_gradient(ops.round(x) - x)

    close(ft.value_and_grad(straight_through)(1.3), (1.0, 1.0))


def test_python_control_flow_on_values_in_rules():
    @ft.custom_vjp
    def fun(x):
        return x * 2 if x > 0 else x

    fun.defvjp(lambda x: (fun(x), x > 0), lambda positive, g: (g * 5 if positive else g * 7,))
    close((ft.grad(fun)(1.0), ft.grad(fun)(-1.0)), (5.0, 7.0))


def test_foreign_numpy_code_gets_a_rule():
    """The recommendation of message 1: the body is plain NumPy on concrete values."""

    @ft.custom_vjp
    def foreign(x):
        return np.cumsum(np.sort(np.asarray(x)))

    def fwd(x):
        order = np.argsort(np.asarray(x))
        return foreign(x), order

    def bwd(order, g):
        back = np.empty(len(order))
        back[np.asarray(order)] = np.cumsum(np.asarray(g)[::-1])[::-1]
        return (back,)

    foreign.defvjp(fwd, bwd)
    x = np.array([3.0, 1.0, 2.0])
    out, pull = ft.vjp(foreign, x)
    close(out, np.array([1.0, 3.0, 6.0]))
    close(pull(np.ones(3)), (np.array([1.0, 3.0, 2.0]),))
    assert type(foreign(x)) is ft.Array
    close(ft.grad(lambda x: ops.sum(foreign(x * 2.0)))(x), np.array([2.0, 6.0, 4.0]))


# -- what goes wrong


def with_vjp(fwd, bwd):
    @ft.custom_vjp
    def product(x, t):
        return x * t["y"]

    product.defvjp(fwd, bwd)
    return lambda: ft.grad(lambda x: ops.sum(product(x, {"y": X})))(X)


def with_jvp(rule):
    @ft.custom_jvp
    def product(x, t):
        return x * t["y"]

    product.defjvp(rule)
    return lambda: ft.jvp(lambda x: product(x, {"y": X}), (X,), (X,))


def good_fwd(x, t):
    return x * t["y"], None


WRONG = {
    "fwd no pair": (
        with_vjp(lambda x, t: x * t["y"], lambda r, g: (g, None)),
        ["the fwd rule of product returned", "not a pair", "return out, residuals"],
    ),
    "bwd not a tuple": (
        with_vjp(good_fwd, lambda r, g: g),
        [
            "the bwd rule of product returned float64[3]",
            "a tuple of 2 cotangents",
            "(float64[3], {'y': float64[3]})",
        ],
    ),
    "bwd too few": (
        with_vjp(good_fwd, lambda r, g: (g,)),
        ["returned (float64[3],)", "expected a tuple of 2 cotangents"],
    ),
    "bwd structure": (
        with_vjp(good_fwd, lambda r, g: (g, {"z": g})),
        ["returned a cotangent {'z': float64[3]}, expected {'y': float64[3]}", "differ at"],
    ),
    "bwd shape": (
        with_vjp(good_fwd, lambda r, g: (g, {"y": g[0]})),
        [
            "returned a cotangent {'y': float64[]}, expected {'y': float64[3]}",
            "at ['y'] the shape is (), not (3,)",
        ],
    ),
    "bwd shape at the top": (
        with_vjp(good_fwd, lambda r, g: (ops.sum(g), None)),
        ["at the top the shape is (), not (3,)"],
    ),
    "jvp no pair": (
        with_jvp(lambda p, t: p[0]),
        ["the jvp rule of product returned float64[3], not a pair", "return out, tangent_out"],
    ),
    "jvp structure": (
        with_jvp(lambda p, t: (p[0], (p[0],))),
        ["the jvp rule of product returned a tangent (float64[3],), expected float64[3]"],
    ),
    "jvp shape": (
        with_jvp(lambda p, t: (p[0], t[0][:2])),
        ["returned a tangent float64[2], expected float64[3]", "the shape is (2,), not (3,)"],
    ),
}


@pytest.mark.parametrize(("call", "words"), WRONG.values(), ids=WRONG)
def test_wrong_results_of_rules_are_named_with_trees_and_paths(call, words):
    with pytest.raises(RuleResultError) as caught:
        call()
    text = str(caught.value)
    for part in [*words, "test_custom_rules.py:", "fix: ", "python -m functensor.errors 9"]:
        assert part in text
    close(ft.grad(lambda x: x * x)(3.0), 6.0)


@pytest.mark.parametrize(
    ("kind", "fix"),
    [("custom_vjp", r"fun\.defvjp\(fwd, bwd\)"), ("custom_jvp", r"fun\.defjvp\(rule\)")],
)
def test_a_function_without_a_rule_says_so(kind, fix):
    def fun(x):
        return x

    custom = getattr(ft, kind)(fun)
    with pytest.raises(MissingRuleError, match=rf"{kind} function fun has no rule[\s\S]*{fix}"):
        custom(1.0)


def test_exceptions_in_rules_leave_nothing_behind():
    class Planned(Exception):
        pass

    def fails(*args):
        raise Planned

    for call in (with_vjp(fails, fails), with_vjp(good_fwd, fails), with_jvp(fails)):
        for wrapped in (call, lambda call=call: ft.vmap(lambda x: call())(X)):
            with pytest.raises(Planned):
                wrapped()
    close(ft.grad(lambda x: x * x)(3.0), 6.0)
    assert type(ops.add(1.0, 2.0)) is ft.Array


def test_tracers_reach_custom_functions_as_arguments_only():
    def scaled(x, y):
        custom = ft.custom_vjp(lambda v: v * y)
        custom.defvjp(lambda v: (v * y, None), lambda _, g: (g * y,))
        return custom(x)

    close(ft.grad(lambda x: scaled(x, 3.0))(2.0), 3.0)
    for transform in (lambda f: ft.grad(f)(2.0), lambda f: ft.vmap(f)(X)):
        with pytest.raises(EscapedTracerError, match="pass the value as an argument"):
            transform(lambda x: scaled(x * 2, x))


# -- stop_gradient and value


def test_stop_gradient_is_a_constant_in_every_mode():
    def fun(x):
        return ops.sum(x * ft.stop_gradient(x))

    close(ft.grad(fun)(X), X)
    close(ft.jvp(fun, (X,), (np.ones(3),))[1], X.sum())
    close(ft.jacfwd(lambda x: x * ft.stop_gradient(x))(X), np.diag(X))
    close(ft.hessian(fun)(X), np.zeros((3, 3)))
    close(ft.vmap(ft.grad(fun))(M), M)
    tree = ft.stop_gradient({"x": X, "text": "t", "none": None})
    assert tree["text"] == "t"
    close(tree["x"], X)


def test_value_is_the_plain_array_and_refused_where_there_is_none():
    seen = []

    def fun(x):
        seen.append(ft.value({"x": x, "name": "n"}))
        return ops.sum(x * x)

    ft.grad(fun)(X)
    ft.grad(lambda x: ops.sum(ft.grad(fun)(x)))(X)
    for tree in seen:
        assert tree["name"] == "n"
        assert type(tree["x"]) is ft.Array
        close(tree["x"], X)
    with pytest.raises(ConcretizationError, match=r"ft\.value\(\) asked for the value"):
        ft.vmap(fun)(M)


@pytest.mark.parametrize("kind", ["custom_vjp", "custom_gradient"])
@pytest.mark.parametrize("batched", [False, True])
def test_a_rule_that_is_not_linear_is_applied_in_every_step(kind, batched):
    """The operand is the same in all steps; the cotangent of each is clipped, not their sum."""
    if kind == "custom_vjp":

        @ft.custom_vjp
        def clipped(x):
            return x

        clipped.defvjp(lambda x: (x, None), lambda kept, g: (ops.clip(g, -0.5, 0.5),))
    else:
        clipped = ft.custom_gradient(lambda x: (x, lambda g: ops.clip(g, -0.5, 0.5)))
    inner = ft.vmap(clipped) if batched else clipped

    def f(x):
        return ops.sum(ft.fori_loop(0, 3, lambda i, carry: carry + inner(x) * 2.0, x))

    x = np.array([0.3, -0.7, 1.1])
    for run in (ft.grad(f), ft.jit(ft.grad(f)), ft.grad(ft.jit(f))):
        assert run(x).tolist() == [2.5, 2.5, 2.5]
