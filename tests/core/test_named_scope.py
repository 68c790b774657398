"""Scopes: names for parts of a function, which the equations of all its programs carry."""

import inspect
import threading

import numpy
import pytest
from hypothesis import given, settings
from support.error_cases import line_of
from support.long_forms import sized
from support.random_programs import arrays, steps, taken

import functensor as ft
import functensor.numpy as np
from functensor.passes.batch_elementwise import stacked_groups
from functensor.passes.batch_matmuls import joined_products
from functensor.passes.contraction_order import contraction_paths
from functensor.passes.fusion import fusion
from functensor.passes.inline_calls import inlined
from functensor.passes.pipeline import PASSES, optimized
from functensor.passes.simplify import algebra
from functensor.passes.sink_broadcasts import sinking
from functensor.programs.named_scope import active, common_scope, joined_scope
from functensor.programs.program import Equation

X = numpy.linspace(0.1, 0.9, 4)
EVERY = (*PASSES, contraction_paths, inlined, joined_products, stacked_groups, fusion, optimized)


def paths():
    """Returns the scopes that are active, the innermost last."""
    return [entry.path for entry in active.entries]


def scopes(program):
    """Returns the names and scopes of a program's equations, bodies within it included."""
    found = []
    for equation in program.equations:
        found.append((equation.primitive.name, equation.scope))
        for body in getattr(equation.primitive, "bodies", ()):
            found += scopes(body)
    return found


def staged(f, *args):
    return scopes(ft.make_program(f)(*args))


@ft.named_scope("block")
def block(x):
    """Squares, and more."""
    with ft.named_scope("attention"):
        y = np.sin(x)
    return np.exp(x) + y


# -- where operations are recorded


def test_scopes_nest_and_end():
    def f(x):
        y = np.cos(x)
        with ft.named_scope("outer"):
            y = block(y)
        return block(y) * 2

    assert staged(f, X) == [
        ("cos", ""),
        ("sin", "outer/block/attention"),
        ("exp", "outer/block"),
        ("add", "outer/block"),
        ("sin", "block/attention"),
        ("exp", "block"),
        ("add", "block"),
        ("multiply", ""),
    ]
    assert paths() == [""]


def test_a_decorated_function_is_like_the_function():
    assert block.__name__ == "block"
    assert block.__doc__ == "Squares, and more."
    assert list(inspect.signature(block).parameters) == ["x"]
    numpy.testing.assert_array_equal(block(X), numpy.exp(X) + numpy.sin(X))

    class Layer:
        @ft.named_scope("layer")
        def __call__(self, x):
            return np.sin(x)

    assert staged(Layer(), X) == [("sin", "layer")]


def test_one_scope_object_may_be_entered_again_and_by_recursion():
    scope = ft.named_scope("part")

    @scope
    def f(x, depth):
        return f(np.sin(x), depth - 1) if depth else np.cos(x)

    def g(x):
        with scope, scope:
            return f(x, 1)

    assert staged(g, X) == [("sin", "part/part/part"), ("cos", "part/part/part/part")]
    assert repr(scope) == "named_scope('part')"


def test_an_exception_leaves_nothing_behind():
    def f(x):
        with ft.named_scope("outer"):
            block(x)
            raise KeyError("mine")

    for form in (f, ft.make_program(f), ft.jit(f), ft.grad(f), ft.vmap(f)):
        with pytest.raises(KeyError):
            form(X)
        assert paths() == [""]
    assert staged(np.sin, X) == [("sin", "")]


def test_threads_have_scopes_of_their_own():
    found = []
    with ft.named_scope("mine"):
        thread = threading.Thread(target=lambda: found.extend(staged(np.sin, X)))
        thread.start()
        thread.join()
        assert staged(np.sin, X) == [("sin", "mine")]
    assert found == [("sin", "")]


def test_a_generator_may_end_in_another_thread():
    def numbers():
        with ft.named_scope("inside"):
            yield 1

    generator = numbers()
    thread = threading.Thread(target=next, args=[generator])
    thread.start()
    thread.join()
    generator.close()
    assert paths() == [""]
    assert staged(np.sin, X) == [("sin", "")]


def test_without_staging_nothing_is_recorded_and_results_are_the_same():
    before = numpy.asarray(block(X))
    with ft.named_scope("outer"):
        after = block(X)
        gradient = ft.grad(lambda x: np.sum(block(x)))(X)
    numpy.testing.assert_array_equal(after, before)
    numpy.testing.assert_array_equal(gradient, numpy.exp(X) + numpy.cos(X))


# -- transformations


@pytest.mark.parametrize("order", [1, 2])
def test_the_way_back_has_the_scope_of_the_way_there(order):
    def loss(x):
        with ft.named_scope("layer"):
            y = np.sin(x)
        with ft.named_scope("loss"):
            return np.sum(y**3)

    f = loss
    for _ in range(order):
        f = (lambda inner: lambda x: np.sum(ft.grad(inner)(x)))(f)
    program = ft.make_program(f)(X)
    for form in (program, optimized(program)):
        assert {name: scope for name, scope in scopes(form) if name in ("sin", "cos")} == (
            {"sin": "layer", "cos": "layer"}
        )
        for equation in form.equations:
            # Every operation of the derivative has the line of the one that it stems from.
            number = int(equation.line.rpartition(":")[2]) - loss.__code__.co_firstlineno
            assert equation.scope == {2: "layer", 4: "loss"}.get(number, ""), str(equation)


@pytest.mark.parametrize(
    "transformed",
    [
        ft.vmap(block),
        lambda x: ft.jvp(block, (x,), (x,)),
        lambda x: ft.jvp(ft.vmap(block), (x,), (x,)),
    ],
)
def test_batches_and_tangents_have_the_scope_that_is_active(transformed):
    found = dict(staged(transformed, X))
    assert found["sin"] == found.get("cos", "block/attention") == "block/attention"
    assert found["exp"] == found["add"] == "block"


def test_a_rule_of_the_users_has_the_scope_that_is_active_there():
    @ft.custom_vjp
    def f(x):
        return np.sin(x)

    def forward(x):
        with ft.named_scope("there"):
            return np.sin(x), np.cos(x)

    def backward(slope, g):
        with ft.named_scope("back"):
            return (g * slope,)

    f.defvjp(forward, backward)

    def loss(x):
        with ft.named_scope("loss"):
            return np.sum(f(x))

    found = staged(lambda x: ft.grad(loss)(x), X)
    assert ("cos", "loss/there") in found
    assert ("multiply", "back") in found


# -- jit


def test_a_program_that_all_callers_share_begins_without_a_scope():
    jitted = ft.jit(block)
    with ft.named_scope("first"):
        jitted(X)
        lowered = jitted.lower(X)
    assert dict(scopes(lowered.program)) == {
        "sin": "block/attention", "exp": "block", "add": "block",
    }  # fmt: skip
    assert jitted.cache_size == 1

    def f(x):
        with ft.named_scope("one"):
            y = jitted(x)
        with ft.named_scope("two"):
            return jitted(y)

    names = ["block/attention", "block", "block"]
    for form in (f, ft.jit(f)):
        found = [scope for _, scope in staged(form, X)]
        assert found == [f"{call}/{name}" for call in ("one", "two") for name in names]


def test_derivatives_and_batches_of_jitted_functions():
    jitted = ft.jit(block)

    def f(x):
        with ft.named_scope("outer"):
            return np.sum(jitted(x))

    # Derived programs are made once, in whatever scope.
    with ft.named_scope("elsewhere"):
        ft.grad(f)(X)
        ft.vmap(f)(X[None])
    for form in (ft.grad(f), ft.jit(ft.grad(f)), ft.hessian(f), lambda x: ft.vmap(f)(x[None])):
        found = staged(form, X)
        assert {scope for name, scope in found if name in ("sin", "cos")} == {
            "outer/block/attention"
        }
        assert {scope for name, scope in found if name == "exp"} == {"outer/block"}


def test_calls_that_give_way_to_their_programs():
    double = ft.custom_jvp(lambda x: np.sin(x) + x)
    double.defjvp(lambda xs, ts: (double(*xs), 2 * ts[0]))

    def f(x):
        with ft.named_scope("outer"):
            return ft.checkpoint(block)(double(x))

    program = ft.make_program(f)(X)
    assert [scope for _, scope in scopes(program)] == ["outer", "outer"]
    assert scopes(inlined(program)) == [
        ("sin", "outer"),
        ("add", "outer"),
        ("sin", "outer/block/attention"),
        ("exp", "outer/block"),
        ("add", "outer/block"),
    ]


# -- control flow


@pytest.mark.parametrize("form", [lambda f: f, ft.vmap, ft.jacfwd], ids=["plain", "vmap", "jacfwd"])
def test_bodies_have_the_whole_path(form):
    def step(c, _):
        with ft.named_scope("step"):
            return np.sin(c), None

    def root(c):
        with ft.named_scope("root"):
            return np.sqrt(c)

    def f(x):
        with ft.named_scope("loop"):
            y, _ = ft.scan(step, x, None, length=3)
            z = ft.while_loop(lambda c: np.sum(c) < 9, lambda c: c + np.exp(c), y)
        with ft.named_scope("choice"):
            return ft.cond(np.sum(z) > 0, root, np.tanh, z)

    found = staged(form(f), X[:, None])
    for name, scope in [
        ("scan", "loop"),
        ("sin", "loop/step"),
        ("exp", "loop"),
        ("sqrt", "choice/root"),
        ("tanh", "choice"),
    ]:
        assert {s for n, s in found if n == name} == {scope}, name


def test_the_way_back_through_a_loop():
    def step(c, _):
        with ft.named_scope("step"):
            return np.sin(c), None

    def f(x):
        with ft.named_scope("loop"):
            return np.sum(ft.scan(step, x, None, length=3)[0])

    found = staged(ft.grad(f), X)
    assert [scope for name, scope in found if name == "scan"] == ["loop"] * 2
    assert {scope for name, scope in found if name in ("sin", "cos", "multiply")} == {"loop/step"}


# -- passes


@settings(max_examples=sized(15, 60))
@given(arrays(), steps())
def test_passes_keep_scopes(values, steps):
    def f(*operands):
        pool = list(operands)
        with ft.named_scope("all"):
            for number, step in enumerate(steps):
                with ft.named_scope("even" if number % 2 else "odd"):
                    try:
                        pool.append(taken(pool, *step))
                    except (ValueError, TypeError, IndexError):
                        continue
        return pool[len(operands) :]

    with numpy.errstate(all="ignore"):
        program = ft.make_program(f)(*values)
        for improve in EVERY:
            better = improve(program)
            for equation in better.equations:
                own = {equation.scope}
                if equation.primitive.name == "fused":
                    own = {e.scope for e in equation.primitive.bodies[0].equations}
                    assert equation.scope == common_scope(own)
                assert own <= {"all/odd", "all/even"}, better.show(lines=True)


M = numpy.ones((3, 4))


T = numpy.ones((5, 8, 3), "float32"), numpy.ones((3, 4), "float32"), numpy.ones(4, "float32")


def recurrence(x, w, b):
    h = np.zeros((5, 4), "float32")
    for i in range(8):
        h = np.tanh(x[:, i] @ w + h + b)
    return np.sum(h)


@pytest.mark.parametrize(
    ("improve", "fun", "args"),
    [
        (algebra, lambda x: -(-(x * -1.0) / 4.0), (X,)),
        (algebra, lambda x: np.reshape(np.reshape(x, (4, 3)), (2, 6)), (M,)),
        (algebra, lambda x: np.reshape(np.sum(x, axis=1), (3, 1)), (M,)),
        (algebra, lambda x: (x.T @ x).T.T, (M,)),
        (algebra, lambda x: np.transpose(np.transpose(x) @ x), (M,)),
        (algebra, lambda x: np.broadcast_to(x, (3, 4)) + M.T.T * x, (X,)),
        (algebra, lambda x: np.where(np.ones_like(x) > 0, x, 0.0)[:, None], (X,)),
        (sinking, lambda x: np.exp(np.broadcast_to(np.sin(x), (3, 4))), (X,)),
        (sinking, lambda x: np.exp(np.transpose(x)) + 1.0, (M,)),
        (contraction_paths, lambda x: np.einsum("ij,jk,kl->li", x, x.T, x), (M,)),
        (contraction_paths, lambda x, y: x @ x.T @ y, (numpy.ones((400, 4)), numpy.ones(400))),
        (joined_products, recurrence, T),
        (joined_products, ft.grad(recurrence, argnums=(1, 2)), T),
        (stacked_groups, lambda x: [np.sin(np.exp(x[i])) for i in range(8)], (numpy.ones((8, 3)),)),
        (stacked_groups, lambda *xs: sum(np.exp(x) * x for x in xs), [X] * 9),
        (fusion, lambda x: np.sum(np.exp(x) * np.tanh(x), axis=0), (numpy.ones((300, 300)),)),
    ],
)  # fmt: skip
def test_what_passes_add_has_the_scope_of_what_it_stands_for(improve, fun, args):
    program = ft.make_program(ft.named_scope("s")(fun))(*args)
    better = improve(program)
    assert {scope for _, scope in scopes(better)} == {"s"}, better.show(lines=True)
    assert str(better) != str(program)


def test_rewritten_equations_keep_their_scope():
    x = ft.make_program(np.sin)(X).inputs[0]
    other = ft.make_program(np.sin)(X).inputs[0]
    equation = Equation(np.sin, [x], {}, [other], "file:1", "scope")
    assert equation.over({x: other}).scope == "scope"
    assert Equation(np.sin, [x], {}, [other]).scope == ""


@pytest.mark.parametrize(
    ("outer", "inner", "both"),
    [
        ("", "", ""),
        ("a", "", "a"),
        ("", "a/b", "a/b"),
        ("a", "b", "a/b"),
        ("a", "a", "a"),
        ("a", "a/b", "a/b"),
        ("a", "ab", "a/ab"),
        ("a/b", "a", "a/b/a"),
    ],
)
def test_scopes_of_what_is_taken_in(outer, inner, both):
    assert joined_scope(outer, inner) == both


@pytest.mark.parametrize(
    ("some", "common"),
    [
        ([], ""),
        (["a/b"], "a/b"),
        (["a/b", "a/b"], "a/b"),
        (["a/b", "a/c/d"], "a"),
        (["a/b", "a"], "a"),
        (["ab", "a"], ""),
        (["a", ""], ""),
    ],
)
def test_scopes_of_several_operations(some, common):
    assert common_scope(some) == common


# -- what is shown


def test_programs_and_costs_show_scopes():
    def f(x):
        with ft.named_scope("outer"):
            y = np.sin(x)
        return np.sort(y)

    program = ft.make_program(f)(X)
    line = f.__code__.co_firstlineno
    _, first, second, _ = program.show(lines=True).splitlines()
    assert first == f"    b: float64[4] = sin(a)  # {__file__}:{line + 2}, scope outer"
    assert second.endswith(f"  # {__file__}:{line + 3}")
    assert "outer" not in str(program)
    unknown = program.map(
        lambda e: Equation(e.primitive, e.operands, e.params, e.outputs, "", e.scope)
    )
    _, first, second, _ = unknown.show(lines=True).splitlines()
    assert first.endswith("sin(a)  # scope outer")
    assert "#" not in second
    cost = ft.jit(f).lower(X).cost()
    assert [e.scope for e in cost.equations] == ["outer", ""]
    first, second = str(cost).splitlines()[2:]
    assert first.endswith(f"  sin  {__file__}:{line + 2}  scope outer")
    assert second.endswith(f"  {__file__}:{line + 3}")


# -- names that are none


@pytest.mark.parametrize(
    ("name", "error", "what", "fix"),
    [
        (3, TypeError, "is of type int, not a string", 'with ft.named_scope("attention")'),
        (None, TypeError, "is of type NoneType, not a string", 'with ft.named_scope("attention")'),
        (block, TypeError, "is of type function, not a string", '@ft.named_scope("block")'),
        ("", ValueError, "is empty", 'with ft.named_scope("attention")'),
        (
            "a/b",
            ValueError,
            "'a/b' has a slash, which stands between names",
            'with ft.named_scope("a"), ft.named_scope("b")',
        ),
        (
            "/",
            ValueError,
            "'/' has a slash, which stands between names",
            'with ft.named_scope("attention")',
        ),
    ],
)
@pytest.mark.parametrize("function", ["named_scope", "scope"])
def test_names_are_checked(name, error, what, fix, function):
    with pytest.raises(error) as info:
        getattr(ft, function)(name)
    line = line_of(info.tb, __file__)
    fix = fix.replace("named_scope", function)
    assert str(info.value) == f"{function}: the name {what}\n  at {line}\n  fix: {fix}"
