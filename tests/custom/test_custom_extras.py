"""Rules that take more than arrays, comparisons, and rules in other forms."""

import gc
import subprocess
import sys
import weakref
from functools import partial

import numpy as np
import pytest
from support.trees import close

import functensor as ft
import functensor.numpy as fnp
from functensor.primitives.core.errors import MissingRuleError, RuleResultError

X = np.array([0.3, -0.7, 1.1])


# -- arguments that are not differentiated


def by_vjp(**nondiff):
    @partial(ft.custom_vjp, **nondiff)
    def fun(options, x, power=2, *, scale=1.0, mode="plain"):
        assert mode in ("plain", "other")
        return scale * options["gain"] * x**power

    def fwd(options, x, power, *, scale, mode):
        return fun(options, x, power, scale=scale, mode=mode), x

    def bwd(options, power, x, g, *, scale, mode):
        slope = 10.0 if mode == "plain" else 100.0
        return (g * slope * scale * options["gain"] * power * x ** (power - 1),)

    fun.defvjp(fwd, bwd)
    return fun


def by_jvp(**nondiff):
    @partial(ft.custom_jvp, **nondiff)
    def fun(options, x, power=2, *, scale=1.0, mode="plain"):
        return scale * options["gain"] * x**power

    @fun.defjvp
    def rule(options, power, primals, tangents, *, scale, mode):
        (x,), (t,) = primals, tangents
        slope = 10.0 if mode == "plain" else 100.0
        out = fun(options, x, power, scale=scale, mode=mode)
        return out, t * slope * scale * options["gain"] * power * x ** (power - 1)

    return fun


@pytest.mark.parametrize("kind", [by_vjp, by_jvp])
@pytest.mark.parametrize(
    "nondiff",
    [
        {"nondiff_argnums": (0, 2)},
        {"nondiff_argnames": ("options", "power")},
        {"nondiff_argnums": 0, "nondiff_argnames": "power"},
        {"nondiff_argnums": (0, -1), "nondiff_argnames": ["power", "scale"]},
    ],
)
def test_static_arguments_by_position_and_name(kind, nondiff):
    fun = kind(**nondiff)
    options = {"gain": 3.0, "unhashable": []}  # as it is, though it is a tree with a number
    close(fun(options, fnp.asarray(X)), 3 * X**2)
    close(ft.grad(lambda x: fnp.sum(fun(options, x)))(X), 60 * X)
    close(ft.grad(lambda x: fnp.sum(fun(options, x, power=3)))(X), 90 * X**2)
    other = lambda x: fun(options, x, 3, mode="other", scale=2.0)  # noqa: E731
    close(ft.grad(lambda x: fnp.sum(other(x)))(X), 1800 * X**2)
    close(ft.jvp(other, (X,), (X,)), (6 * X**3, 1800 * X**3))
    close(ft.vmap(ft.grad(other))(X), 1800 * X**2)
    close(ft.make_program(other)(X)(X), 6 * X**3)
    close(ft.grad(ft.checkpoint(lambda x: fnp.sum(other(x))))(X), 1800 * X**2)


@pytest.mark.parametrize("kind", [ft.custom_vjp, ft.custom_jvp])
def test_names_and_positions_that_are_not_there(kind):
    def fun(x, y, *, n=1):
        return x

    with pytest.raises(ValueError, match="fun has no argument 'z'; it has x, y, n"):
        kind(fun, nondiff_argnames=("z",))
    with pytest.raises(ValueError, match=r"nondiff_argnums=\(2,\): fun has 2 positional arguments"):
        kind(fun, nondiff_argnums=2)


@pytest.mark.parametrize("kind", [by_vjp, by_jvp])
def test_static_arguments_with_traced_values_are_refused(kind):
    fun = kind(nondiff_argnums=(0, 2))
    words = r"fun: the argument '{}' is not differentiated, but holds a traced value float64\[\]"
    with pytest.raises(TypeError, match=words.format("options")):
        ft.grad(lambda a: fun({"gain": a}, a))(1.0)
    with pytest.raises(TypeError, match=words.format("scale")):
        ft.grad(lambda a: fun({"gain": 1.0}, a, scale=a))(1.0)
    with pytest.raises(TypeError, match=words.format("scale")):
        ft.vmap(lambda a: fun({"gain": 1.0}, 2.0, scale=a))(X)


# -- the output of a rule is compared with the function's


def flawed(kind, wrong):
    def fun(x):
        return {"s": fnp.sum(x), "x": x}

    if kind == "fwd":
        custom = ft.custom_vjp(fun)
        custom.defvjp(lambda x: (wrong(x), None), lambda _, g: (g["x"],))
    else:
        custom = ft.custom_jvp(fun)
        custom.defjvp(lambda primals, tangents: (wrong(primals[0]), wrong(tangents[0])))
    return lambda: ft.grad(lambda x: fnp.sum(ft.tree.leaves(custom(x))[0]))(X)


WRONG = [
    (lambda x: {"s": fnp.sum(x)}, "{'s': float64[]}", ""),
    (lambda x: (fnp.sum(x), x), "(float64[], float64[3])", ""),
    (lambda x: {"s": x, "x": x}, "{'s': float64[3], 'x': float64[3]}", ": at ['s']"),
    (
        lambda x: {"s": fnp.sum(x), "x": x.astype("float32")},
        "{'s': float64[], 'x': float32[3]}",
        ": at ['x']",
    ),
]


@pytest.mark.parametrize("kind", ["fwd", "jvp"])
@pytest.mark.parametrize(("wrong", "got", "where"), WRONG)
def test_9_the_output_of_a_rule_differs_from_the_functions(kind, wrong, got, where):
    with pytest.raises(RuleResultError) as info:
        flawed(kind, wrong)()
    lines = str(info.value).split("\n")
    assert lines[0] == (
        f"the {kind} rule of fun returned the output {got}, but the function returns "
        "{'s': float64[], 'x': float64[3]}" + where
    )
    assert lines[-2:] == [
        "  fix: return an output like that of fun itself",
        "  see python -m functensor.errors 9",
    ]


def test_outputs_are_compared_once_for_every_signature():
    runs = []

    @ft.custom_vjp
    def fun(x):
        runs.append(x.shape)
        return x * 2.0

    fun.defvjp(lambda x: (x * 2.0, None), lambda _, g: (g * 2.0,))
    for _ in range(3):
        ft.grad(lambda x: fnp.sum(fun(x)))(X)
    assert runs == [(3,)]
    ft.grad(fun)(1.0)
    assert runs == [(3,), ()]


def test_what_cannot_be_staged_is_not_compared():
    @ft.custom_vjp
    def fun(x):
        return x if x[0] > 0 else fnp.sum(x)

    fun.defvjp(lambda x: (fun(x), None), lambda _, g: (g * 5.0,))
    close(ft.grad(lambda x: fnp.sum(fun(x)))(X), np.full(3, 5.0))


def branching(runs):
    @ft.custom_vjp
    def fun(x):
        runs.append(1)
        return x if x[0] > 0 else fnp.sum(x)

    fun.defvjp(lambda x: (fnp.sum(x), x.shape), lambda shape, g: (fnp.full(shape, g),))
    return fun


def test_what_cannot_be_staged_is_asked_once_whatever_it_is_called_with():
    runs = []
    fun = branching(runs)
    for n in (3, 3, 4, 5):
        close(ft.grad(lambda x: fnp.sum(fun(x)))(np.ones(n)), np.ones(n))
    assert len(runs) == 1
    # The same statement makes the function again.
    close(ft.vmap(ft.grad(branching(runs)))(np.ones((2, 3))), np.ones((2, 3)))
    assert len(runs) == 1


def test_a_function_that_is_made_anew_each_time_is_staged_once():
    runs = []

    def loss(x):
        @ft.custom_vjp
        def fun(x):
            runs.append(1)
            return fnp.sum(x)

        fun.defvjp(lambda x: (fnp.sum(x), x), lambda x, g: (g * fnp.ones(x.shape),))
        return fun(x)

    for _ in range(4):
        ft.grad(loss)(X)
    assert len(runs) == 1


def scaled(wrong, power=2):
    @ft.custom_vjp
    def fun(x):
        return fnp.sum(x**power)

    def fwd(x):
        return (x if wrong else fun(x)), x

    fun.defvjp(fwd, lambda x, g: (g * x,))
    return lambda x: fnp.sum(fun(x))


def test_each_product_of_a_factory_is_compared():
    ft.grad(scaled(False))(X)
    for _ in range(2):
        with pytest.raises(RuleResultError, match="but the function returns"):
            ft.grad(scaled(True))(X)


@pytest.mark.parametrize("by_default", [False, True])
def test_the_function_too_may_be_what_a_factory_varies(by_default):
    def make(n):
        if by_default:
            fun = ft.custom_jvp(lambda x, *, n=n: fnp.zeros(n) * x)
            fun.defjvp(lambda p, t, *, n: (fnp.zeros(2) * p[0], fnp.zeros(2) * t[0]))
        else:
            fun = ft.custom_jvp(lambda x: fnp.zeros(n) * x)
            fun.defjvp(lambda p, t: (fnp.zeros(2) * p[0], fnp.zeros(2) * t[0]))
        return lambda x: fnp.sum(fun(x))

    close(ft.grad(make(2))(1.0), 0.0)
    with pytest.raises(RuleResultError, match=r"float64\[2\], but the function returns float64\[3"):
        ft.grad(make(3))(1.0)


def test_a_call_that_fails_does_not_end_the_comparisons():
    @ft.custom_vjp
    def fun(x):
        return x @ np.ones(3)

    fun.defvjp(lambda x: (x, x), lambda x, g: (g,))
    loss = lambda x: fnp.sum(fun(x))  # noqa: E731
    close(ft.grad(loss)(np.ones(4)), np.ones(4))  # the function itself would fail
    with pytest.raises(RuleResultError, match="but the function returns"):
        ft.grad(loss)(X)


def test_a_wrong_static_argument_does_not_end_the_comparisons():
    @partial(ft.custom_vjp, nondiff_argnums=1)
    def fun(x, mode):
        return {"sum": fnp.sum(x)}[mode]

    fun.defvjp(lambda x, mode: (x, None), lambda mode, _, g: (g,))
    ft.grad(lambda x: fnp.sum(fun(x, "total")))(X)
    with pytest.raises(RuleResultError, match="but the function returns"):
        ft.grad(lambda x: fnp.sum(fun(x, "sum")))(X)


@pytest.mark.parametrize("error", [ValueError, KeyError])
def test_what_fails_in_its_own_way_is_not_run_at_every_gradient(error):
    runs = []

    def loss(x):
        @ft.custom_vjp
        def fun(x):
            runs.append(1)
            raise error("not for tracers")

        fun.defvjp(lambda x: (x, None), lambda _, g: (g,))
        return fnp.sum(fun(x))

    for _ in range(3):
        ft.grad(loss)(X)
    assert len(runs) == 1


def test_what_asks_for_values_behind_an_error_of_its_own_is_run_once():
    runs = []

    @ft.custom_vjp
    def fun(x):
        runs.append(1)
        try:
            return x if x.ravel()[0] > 0 else fnp.sum(x)
        except TypeError as error:
            raise ValueError("no") from error

    fun.defvjp(lambda x: (fun(x), None), lambda _, g: (g,))
    for n in (3, 3, 4):
        ft.grad(lambda x: fnp.sum(fun(x)))(np.ones(n))
    assert len(runs) == 3 + 1


def test_arrays_that_a_function_closes_over_are_not_kept():
    gone = []

    def loss(x):
        weights = fnp.ones(3) * 2
        table = {"weights": np.ones(3)}
        gone.extend([weakref.ref(weights), weakref.ref(table["weights"])])

        @ft.custom_vjp
        def fun(x):
            return fnp.sum(x * weights * table["weights"])

        fun.defvjp(lambda x: (fun(x), None), lambda _, g: (g * weights,))
        return fun(x)

    ft.grad(loss)(X)
    gc.collect()
    assert [kept() for kept in gone] == [None, None]


def test_a_rule_that_is_set_later_is_compared_too():
    fun = ft.custom_vjp(lambda x: fnp.sum(x))
    fun.defvjp(lambda x: (fnp.sum(x), x), lambda x, g: (g * x,))
    ft.grad(fun)(X)
    fun.defvjp(lambda x: (x[:2], x), lambda x, g: (x,))
    with pytest.raises(RuleResultError, match="but the function returns"):
        ft.grad(lambda x: fnp.sum(fun(x)))(X)


def test_what_is_known_of_a_function_keeps_nothing_alive():
    class Callable:
        def __call__(self, x):
            return fnp.sum(x)

    inner = Callable()
    gone = weakref.ref(inner)
    fun = ft.custom_vjp(inner)
    fun.defvjp(lambda x, inner=inner: (inner(x), x), lambda x, g: (g * x,))
    ft.grad(fun)(X)
    del fun, inner
    gc.collect()
    assert gone() is None


# -- defjvps


def test_a_rule_for_each_argument():
    @ft.custom_jvp
    def fun(p, y, n):
        return {"a": p["a"] * y, "n": n}

    fun.defjvps(
        lambda t, out, p, y, n: {"a": 10 * t["a"] * y, "n": 0 * n},
        lambda t, out, p, y, n: {"a": 100 * t * out["a"] / y, "n": 0 * n},
        None,
    )
    p = {"a": X}
    got = ft.jvp(lambda p, y: fun(p, y, 1.0)["a"], (p, 2.0), ({"a": X + 1}, 3.0))[1]
    close(got, 20 * (X + 1) + 300 * X)
    close(ft.grad(lambda y: fnp.sum(fun(p, y, 1.0)["a"]))(2.0), 100 * X.sum())
    close(ft.grad(lambda n: fun(p, 2.0, n)["n"])(2.0), 0.0)
    each = ft.vmap(ft.grad(lambda y: fnp.sum(fun(p, y, 1.0)["a"])))
    close(each(X), np.full(3, 100 * X.sum()))
    second = ft.grad(ft.grad(lambda y: fnp.sum(fun(p, y, 1.0)["a"])))(2.0)
    # out / y differentiates in its turn: 100 out'/y - 100 out / y**2.
    close(second, 100 * 100 * X.sum() / 2 - 100 * X.sum() / 2)


def test_rules_for_each_argument_beside_static_ones():
    @partial(ft.custom_jvp, nondiff_argnums=(1,))
    def fun(x, n, y, *, k=1.0):
        return k * x**n * y

    fun.defjvps(
        lambda t, out, x, n, y, *, k: t * n * out / x, lambda t, out, x, n, y, *, k: t * out / y
    )
    close(ft.grad(fun, (0, 2))(2.0, 3, 5.0, k=2.0), (120.0, 16.0))
    with pytest.raises(ValueError, match="defjvps of fun: 3 rules for 2 differentiable arguments"):
        fun.defjvps(None, None, None)
    fun.defjvps(None, None)
    close(ft.grad(fun)(2.0, 3, 5.0), 0.0)
    fun.defjvps(lambda t, out, x, n, y, *, k: np.ones(2), None)
    with pytest.raises(RuleResultError, match=r"jvp rule of fun returned a tangent float64\[2\]"):
        ft.grad(fun)(2.0, 3, 5.0)


# -- custom_gradient


def tenfold():
    @ft.custom_gradient
    def fun(x):
        e = fnp.exp(x)
        return fnp.log(1 + e), lambda g: g * 10 * (1 - 1 / (1 + e))

    return fun


def test_a_gradient_that_comes_with_the_output():
    fun, sigmoid = tenfold(), 1 / (1 + np.exp(-X))
    close(fun(fnp.asarray(X)), np.log(1 + np.exp(X)))
    close(ft.grad(lambda x: fnp.sum(fun(x)))(X), 10 * sigmoid)
    close(ft.vmap(ft.grad(fun))(X), 10 * sigmoid)
    close(ft.grad(lambda x: fnp.sum(ft.vmap(fun)(x)))(X), 10 * sigmoid)
    close(ft.jvp(fun, (X,), (X,))[1], 10 * sigmoid * X)
    close(ft.vmap(ft.vjp(fun, X)[1])(np.eye(3)), (np.diag(10 * sigmoid),))
    close(ft.make_program(fun)(X)(X), np.log(1 + np.exp(X)))
    close(ft.grad(lambda x: fnp.sum(ft.make_program(fun)(X)(x)))(X), 10 * sigmoid)
    close(ft.grad(ft.checkpoint(lambda x: fnp.sum(fun(x))))(X), 10 * sigmoid)
    # The rule is differentiated in its turn: exp has its own derivative.
    close(ft.hessian(lambda x: fnp.sum(fun(x)))(X), np.diag(10 * sigmoid * (1 - sigmoid)))
    close(ft.grad(ft.grad(fun))(0.0), 2.5)
    with ft.hooks.use(ft.hooks.FnHook(backward=lambda op, gs, g: None)):
        close(ft.grad(lambda x: fnp.sum(fun(x)))(X), 10 * sigmoid)


def test_the_function_runs_once_for_a_gradient():
    runs = []

    @ft.custom_gradient
    def fun(x, y):
        runs.append(1)
        return {"p": x * y}, lambda g: (g["p"] * y * 10, None)

    close(ft.grad(lambda x, y: fun(x, y)["p"], (0, 1))(2.0, 3.0), (30.0, 0.0))
    assert len(runs) == 1


def test_static_arguments_of_custom_gradient():
    @partial(ft.custom_gradient, nondiff_argnames="n")
    def fun(x, n, *, k=1.0):
        return k * x**n, lambda g: (10 * g * k * n * x ** (n - 1),)

    close(ft.grad(fun)(2.0, 3, k=0.5), 60.0)
    close(ft.vmap(ft.grad(lambda x: fun(x, 2)))(X), 20 * X)


@pytest.mark.parametrize(
    ("fun", "words"),
    [
        (lambda x: x, "gradient rule of .* returned float, not a pair"),
        (lambda x: (x, lambda g: (g, g)), "expected a tuple of 1 cotangents"),
        (lambda x: (x, lambda g: np.ones(2)), r"a cotangent float64\[2\], expected float"),
        (lambda x: (x, lambda g: {"a": g}), "returned a cotangent {'a'"),
    ],
)
def test_9_wrong_results_of_custom_gradient(fun, words):
    with pytest.raises(RuleResultError, match=words):
        ft.grad(lambda x: ft.custom_gradient(fun)(x))(1.0)


def test_rules_that_are_missing():
    @ft.custom_jvp
    def fun(x):
        return x

    with pytest.raises(MissingRuleError, match=r"custom_jvp function fun has no rule"):
        fun(1.0)


def test_a_root_has_a_derivative_where_nothing_else_has_imported_linear_algebra():
    code = (
        "import functensor as ft;"
        "root = lambda a: ft.custom_root(lambda x: x * x - a, 2.0, lambda f, x: ft.value(x));"
        "assert ft.grad(root)(4.0) == 0.25"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
