"""The full text of the messages about rules, axes, graphs, gradients and shapes."""

import numpy
import pytest
from support.error_cases import check, defined, text

import functensor as ft
import functensor.numpy as np
from functensor.primitives.core import errors
from functensor.primitives.core.primitive import Primitive
from functensor.primitives.core.registry import registry

X = numpy.arange(3.0)


@pytest.fixture
def planted():
    """Returns a function that declares a square, which is taken out again after the test."""

    def declare(**rules):
        square = registry.square
        right = {"compute": "square", "infer": square.infer, "batch": square.batch}
        return Primitive("planted", **{**right, **rules})

    yield declare
    registry.remove("planted")


# 8: a rule that is missing


def test_8_no_vjp_and_no_jvp(planted):
    primitive = planted()

    def f(x):
        return np.sum(primitive(x))

    fix = "declare it, e.g. planted = unary('planted', lambda g, x: g * ...), or give the function"
    check(
        errors.MissingRuleError,
        lambda: ft.grad(f)(X),
        "no vjp for 'planted' with respect to argument 0",
        f"{fix} a rule with ft.custom_vjp",
        8,
        f"grad({defined(f)})",
    )
    check(
        errors.MissingRuleError,
        lambda: ft.jvp(primitive, (X,), (X,)),
        "no jvp for 'planted' with respect to argument 0",
        f"{fix} a rule with ft.custom_jvp",
        8,
        "jvp(planted)",
    )


def missing_fix(mode):
    """Returns right code for a primitive without a rule of a mode."""
    return f"declare it with {mode}=..., or build the primitive with a family that supplies it"


def test_8_no_batch_rule(planted):
    primitive = planted(batch=None)

    def f(x):
        return np.sum(primitive(x))

    assert [*primitive(np.array(X))] == [0, 1, 4]
    check(
        errors.MissingRuleError,
        lambda: ft.vmap(f)(X[None]),
        "no batch rule for 'planted'",
        missing_fix("batch"),
        8,
        f"vmap({defined(f)})",
    )


@pytest.mark.parametrize("transform", [ft.eval_shape, lambda f, x: ft.make_program(f)(x)])
def test_8_no_infer_rule(planted, transform):
    primitive = planted(infer=None)

    def f(x):
        return np.sum(primitive(x))

    assert [*primitive(np.array(X))] == [0, 1, 4]
    name = "eval_shape" if transform is ft.eval_shape else "make_program"
    check(
        errors.MissingRuleError,
        lambda: transform(f, X),
        "no infer rule for 'planted'",
        missing_fix("infer"),
        8,
        f"{name}({defined(f)})",
    )


@pytest.mark.parametrize(
    ("kind", "fix"),
    [("custom_vjp", "f.defvjp(fwd, bwd)"), ("custom_jvp", "f.defjvp(rule)")],
)
def test_8_custom_function_without_a_rule(kind, fix):
    def f(x):
        return x * 2

    f = getattr(ft, kind)(f)
    check(errors.MissingRuleError, lambda: f(X), f"{kind} function f has no rule", fix, 8)


# 9: a custom rule returns the wrong thing


def ruled(fwd, bwd):
    """Returns a function of a tree with the rules given."""

    @ft.custom_vjp
    def f(p):
        return np.sum(p["a"]["w"] * 2)

    f.defvjp(fwd, bwd)
    return f


def right_fwd(p):
    return np.sum(p["a"]["w"] * 2), None


TREE = {"a": {"w": X}}
EXPECTED_TREE = "{'a': {'w': float64[3]}}"


def test_9_bwd_returns_another_structure():
    f = ruled(right_fwd, lambda _, g: ({"a": {"v": g}},))
    check(
        errors.RuleResultError,
        lambda: ft.grad(f)(TREE),
        "the bwd rule of f returned a cotangent {'a': {'v': float64[]}}, "
        f"expected {EXPECTED_TREE}: trees differ at ['a']: tree 0 has {{'w': ...}}, but tree 1 has "
        "{'v': ...}\n  tree 0: TreeDef({'a': {'w': *}})\n  tree 1: TreeDef({'a': {'v': *}})"
        f"\n    the rule is {defined(f._rules[1])}",
        f"return a cotangent in the structure and shapes {EXPECTED_TREE}",
        9,
        f"grad({defined(f.__wrapped__)})",
    )


def test_9_bwd_returns_another_shape():
    f = ruled(right_fwd, lambda _, g: ({"a": {"w": g}},))
    check(
        errors.RuleResultError,
        lambda: ft.grad(f)(TREE),
        "the bwd rule of f returned a cotangent {'a': {'w': float64[]}}, "
        f"expected {EXPECTED_TREE}: at ['a']['w'] the shape is (), not (3,)"
        f"\n    the rule is {defined(f._rules[1])}",
        f"return a cotangent in the structure and shapes {EXPECTED_TREE}",
        9,
        f"grad({defined(f.__wrapped__)})",
    )


def test_9_bwd_returns_no_tuple():
    f = ruled(right_fwd, lambda _, g: {"a": {"w": X}})
    check(
        errors.RuleResultError,
        lambda: ft.grad(f)(TREE),
        "the bwd rule of f returned {'a': {'w': float64[3]}}, expected a tuple of 1 cotangents for "
        f"({EXPECTED_TREE},)\n    the rule is {defined(f._rules[1])}",
        "return a tuple with a cotangent, or None, of each differentiable argument",
        9,
        f"grad({defined(f.__wrapped__)})",
    )


def test_9_fwd_returns_no_pair():
    f = ruled(lambda p: np.sum(p["a"]["w"]), None)
    check(
        errors.RuleResultError,
        lambda: ft.grad(f)(TREE),
        "the fwd rule of f returned float64[], not a pair"
        f"\n    the rule is {defined(f._rules[0])}",
        "return out, residuals",
        9,
        f"grad({defined(f.__wrapped__)})",
    )


def test_9_jvp_rule_returns_another_shape():
    @ft.custom_jvp
    def f(x):
        return [x * 2]

    f.defjvp(lambda primals, tangents: ([primals[0] * 2], [np.sum(tangents[0])]))
    check(
        errors.RuleResultError,
        lambda: ft.jvp(f, (X,), (X,)),
        "the jvp rule of f returned a tangent [float64[]], expected [float64[3]]: at [0] the shape "
        f"is (), not (3,)\n    the rule is {defined(f._rule)}",
        "return a tangent in the structure and shapes [float64[3]]",
        9,
        f"jvp({defined(f.__wrapped__)})",
    )


def test_9_cotangents_and_tangents_that_the_user_gives():
    def f(x):
        return x, x

    out, pull = ft.vjp(f, X)
    check(
        errors.RuleResultError,
        lambda: pull(out[0]),
        "vjp of f was given a cotangent of structure TreeDef(*), but its output has the structure "
        "TreeDef((*, *))",
        "pass a cotangent with the structure of the output",
        9,
    )
    check(
        errors.RuleResultError,
        lambda: pull((X, X[:2])),
        "a cotangent of shape (2,) was given for an output float64[3]",
        "pass a cotangent of shape (3,)",
        9,
    )
    check(
        errors.RuleResultError,
        lambda: ft.jvp(f, (X,), (X[:2],)),
        "a tangent of shape (2,) was given for an argument float64[3]",
        "pass a tangent of shape (3,)",
        9,
    )
    check(
        errors.RuleResultError,
        lambda: ft.jvp(f, (X,), ([X],)),
        "jvp of f: the tangents have the structure TreeDef(([*],)), the arguments TreeDef((*,))",
        "give each argument a tangent of its own structure",
        9,
    )


def test_9_a_primitive_returns_a_cotangent_of_another_shape(planted):
    primitive = planted(vjp=(lambda g: g[:2],))

    def f(x):
        return np.sum(primitive(x))

    check(
        errors.RuleResultError,
        lambda: ft.grad(f)(X),
        "the vjp of 'planted' returned a cotangent of shape (2,) for an operand of shape (3,)",
        "a cotangent has the shape of its operand",
        9,
        f"grad({defined(f)})",
    )


# 10: vmap over axes of different lengths


def test_10_sizes_that_disagree():
    def f(p, x, *, scale):
        return p["w"] * x * scale

    check(
        errors.AxisSizeError,
        lambda: ft.vmap(f, in_axes=({"w": 1, "b": None}, 0))(
            {"w": numpy.ones((2, 3)), "b": X}, numpy.ones(4), scale=X
        ),
        "vmap of f: the mapped axes differ in length\n"
        "    argument 0 (p)['w']: float64[2, 3], axis 1 has length 3\n"
        "    argument 1 (x): float64[4], axis 0 has length 4   <- differs\n"
        "    argument 'scale': float64[3], axis 0 has length 3",
        "give every mapped argument the same length, or in_axes=None to share one",
        10,
    )


def test_10_nothing_to_map_over():
    def f(x):
        return x

    check(
        errors.AxisSizeError,
        lambda: ft.vmap(f, in_axes=None)(X),
        "vmap of f: no argument is mapped",
        "map at least one argument, or give axis_size=",
        10,
    )
    check(
        errors.AxisSizeError,
        lambda: ft.vmap(f)(1.0),
        "vmap of f: argument 0 (x) is a scalar and has no axis to map over",
        "in_axes=None for arguments that all examples share",
        10,
    )
    check(
        errors.AxisSizeError,
        lambda: ft.vmap(f, out_axes=None)(X),
        "vmap of f: out_axes is None for an output that depends on the example",
        "out_axes=0",
        10,
    )


def test_10_axes_for_another_number_of_arguments():
    def f(x, y):
        return x

    check(
        ValueError,
        lambda: ft.vmap(f, in_axes=(0,))(X, X),
        "vmap of f: in_axes=(0,) has 1 entries for 2 positional arguments",
        "an entry, an axis or None, for each argument: in_axes=(0, 0)",
        10,
    )


# 11: static arguments that there are not


@pytest.mark.parametrize(
    ("options", "what", "fix"),
    [
        (
            {"static_argnums": 3},
            "static_argnums=3, but it has 2 positional arguments",
            "a position from -2 to 1",
        ),
        (
            {"static_argnames": "n"},
            "static_argnames='n', but its arguments are x, y",
            "static_argnames='x'",
        ),
        (
            {"static_argnums": 0, "donate_argnums": 0},
            "0 is static and donated, but a static argument has no buffer to give away",
            "name it in one of the two options",
        ),
    ],
)
def test_11_static_arguments_that_there_are_not(options, what, fix):
    def f(x, y):
        return x

    check(ValueError, lambda: ft.jit(f, **options), f"jit of f: {what}", fix, 11)


# 12: backward twice, and changes in place


def test_12_leaf_changed_in_place():
    x = ft.Tensor(X, requires_grad=True)
    with ft.no_grad():
        x += 1

    def change():
        x[0] = 5.0

    check(
        errors.BackwardError,
        change,
        f"x[...] = value: tensor {x.id} ({x.describe()}), at version 1, is a leaf that requires "
        "grad: a change in place would cut it off from its gradient",
        "with no_grad(): for an update, or change a copy: y = x.clone()",
        12,
    )


# 13: .grad is None


def missing_gradient(x, why, fix):
    """Checks the warning on reading a tensor's gradient."""
    with pytest.warns(errors.MissingGradientWarning) as caught:
        assert x.grad is None
    (warning,) = caught
    assert warning.filename == __file__
    assert str(warning.message) == text(
        f".grad of tensor {x.id} ({x.describe()}) was read, but it is None: {why}",
        f"{__file__}:{warning.lineno}",
        fix,
        13,
    )


def test_13_does_not_require_grad():
    why = "its requires_grad is False"
    missing_gradient(ft.Tensor(X), why, "Tensor(data, requires_grad=True)")


def test_13_hook_and_retain_grad_of_what_has_no_gradient():
    x = ft.Tensor(X)
    for name, call in [
        ("retain_grad()", lambda: x.retain_grad()),
        ("register_hook()", lambda: x.register_hook(print)),
    ]:
        check(
            errors.MissingGradientError,
            call,
            f"{name} of tensor {x.id} ({x.describe()}), which will have no gradient: its "
            "requires_grad is False",
            "Tensor(data, requires_grad=True)",
            13,
        )


# 16: shapes that do not fit


BROADCAST_FIX = "make the lengths equal or 1, e.g. x[:, None] adds an axis of length 1"


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda x, y: x + y, "add"),
        (lambda x, y: numpy.arctan2(x, y), "arctan2"),
        (lambda x, y: np.maximum(x, y), "maximum"),
        (lambda x, y: np.where(x > 0, x, y), "where"),
    ],
)
@pytest.mark.parametrize("transform", ["none", "grad", "jvp", "staging"])
def test_16_broadcasting(call, name, transform):
    x, y = np.ones((2, 3)), np.ones((2, 4))
    transformed = {
        "none": lambda: call(x, y),
        "grad": lambda: ft.grad(lambda x: np.sum(call(x, y)))(x),
        "jvp": lambda: ft.jvp(lambda x: call(x, y), (x,), (x,)),
        "staging": lambda: ft.eval_shape(lambda x: call(x, y), x),
    }
    shapes = "(2, 3) and (2, 3) and (2, 4)" if name == "where" else "(2, 3) and (2, 4)"
    lengths = "3 and 3 and 4" if name == "where" else "3 and 4"
    running = {"none": "", "staging": "eval_shape"}.get(transform, transform)
    check(
        errors.ShapeError,
        transformed[transform],
        f"{name}: shapes {shapes} do not broadcast: axis -1 has lengths {lengths}",
        BROADCAST_FIX,
        16,
        # The transformed function is a lambda on the line of the one that transforms it.
        running and f"{running}({defined(transformed[transform])})",
    )


def test_16_contraction():
    check(
        errors.ShapeError,
        lambda: np.ones((2, 3)) @ np.ones((4, 2)),
        "matmul: shapes (2, 3) and (4, 2) do not fit: axis -1 of the first has length 3, axis -2 "
        "of the second 4",
        "transpose one of them, e.g. x @ y.mT; einsum names the axes",
        16,
    )
    check(
        errors.ShapeError,
        lambda: np.einsum("ij,jk->ik", np.ones((2, 3)), np.ones((4, 2))),
        "einsum: index 'j' has length 3 and length 4 in operands of shapes (2, 3) and (4, 2)",
        "the axes that share a letter must be equally long (or 1, to broadcast)",
        16,
    )


def test_16_shapes():
    check(
        errors.ShapeError,
        lambda: np.ones((2, 3)).reshape(4, 2),
        "reshape: (2, 3) has 6 elements, which do not fill (4, 2)",
        "give lengths whose product is 6; one of them may be -1",
        16,
    )
    check(
        errors.ShapeError,
        lambda: np.concatenate([np.ones((2, 3)), np.ones((2, 4))]),
        "concatenate: shapes (2, 3) and (2, 4) do not fit: axis 1 differs",
        "only the axis that is joined may differ; np.concatenate does not broadcast",
        16,
    )
    check(
        errors.ShapeError,
        lambda: np.broadcast_to(np.ones((2, 3)), (3, 2)),
        "broadcast_to: shapes (2, 3) and (3, 2) do not broadcast: axis -2 has lengths 2 and 3",
        BROADCAST_FIX,
        16,
    )
    check(
        errors.ShapeError,
        lambda: np.zeros((4, 3)).at[1].set(np.ones(2)),
        "x.at[...]: shapes (2,) and (3,) do not broadcast: axis -1 has lengths 2 and 3",
        BROADCAST_FIX,
        16,
    )
