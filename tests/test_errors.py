"""The full text of every message: what happened, the user's line, the transformations, the fix."""

import re

import numpy
import pytest

import functensor as ft
import functensor.numpy as np
from functensor.primitives import errors
from functensor.primitives.core import Primitive
from functensor.primitives.families import unary
from functensor.primitives.registry import registry

X = numpy.arange(3.0)
CONVERSION_FIX = (
    "use functensor.numpy instead of numpy; ft.value(x) or ft.stop_gradient(x) drops the "
    "gradient; ft.custom_vjp gives foreign code a rule"
)
BUFFER_FIX = "buf = functensor.numpy.zeros(shape), then buf = buf.at[i].set(x)"
ESCAPE_FIX = (
    "return the value from the transformed function (has_aux=True for extras) instead of storing "
    "it, or store ft.value(x)"
)


def line_of(traceback):
    """Returns ``file:line`` of the innermost frame of this file in a traceback."""
    found = None
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if code.co_filename == __file__:
            found = f"{code.co_filename}:{traceback.tb_lineno}"
        traceback = traceback.tb_next
    return found


def defined(fun):
    """Returns how messages mention a function: its name, and where it is defined."""
    return f"{fun.__name__} ({__file__}:{fun.__code__.co_firstlineno})"


def text(what, line, fix, number, under=""):
    """Returns a message, put together as a reader sees it."""
    stack = f"\n  under {under}" if under else ""
    return f"{what}\n  at {line}{stack}\n  fix: {fix}\n  see docs/errors.md#error-{number}"


def check(error, call, what, fix, number, under=""):
    """Calls a function that must fail, and compares the whole message."""
    with pytest.raises(error) as info:
        call()
    assert type(info.value) is error
    assert str(info.value) == text(what, line_of(info.tb), fix, number, under)


@pytest.fixture
def planted():
    """Returns a function that declares a primitive, which is taken out again after the test."""
    yield lambda kind, **declared: kind("planted", **declared)
    registry.remove("planted")


def test_every_error_has_an_anchor_in_the_documentation():
    documented = {int(n) for n in re.findall(r'id="error-(\d+)"', documentation())}
    classes = [getattr(errors, name) for name in errors.__all__]
    promised = {
        int(n)
        for kind in classes
        if isinstance(kind, type)
        for n in re.findall(r"errors\.md#error-(\d+)", kind.__doc__ or "")
    }
    assert promised
    assert promised <= documented


def documentation():
    """Returns the text of the documentation of errors."""
    from pathlib import Path

    return (Path(__file__).resolve().parent.parent / "docs" / "errors.md").read_text()


# 1: a tracer where NumPy wants numbers


def test_1_asarray_names_the_argument_and_the_transformation():
    def f(params, x):
        return numpy.asarray(params["w"] * x)

    check(
        errors.TracerConversionError,
        lambda: ft.grad(f, argnums=(0, 1))({"w": X, "b": X}, X),
        "f (test_errors.py) asked for a plain NumPy array, but got float64[3], which depends on "
        "argument 0['w'] and argument 1",
        CONVERSION_FIX,
        1,
        f"grad({defined(f)})",
    )


def test_1_a_function_of_numpy_is_named():
    def f(points, shift):
        return numpy.linalg.svd(points[1][None] - shift)

    check(
        errors.TracerConversionError,
        lambda: ft.vjp(f, [X, X], 2.0),
        "numpy.linalg.svd asked for a plain NumPy array, but got float64[1,3], which depends on "
        "argument 0[1] and argument 1",
        CONVERSION_FIX,
        1,
        f"vjp({defined(f)})",
    )


def test_1_by_name():
    def f(x, scale):
        return numpy.asarray(x * scale)

    check(
        errors.TracerConversionError,
        lambda: ft.value_and_grad(f, argnames="scale")(X, scale=2.0),
        "f (test_errors.py) asked for a plain NumPy array, but got float64[3], which depends on "
        "argument 'scale'",
        CONVERSION_FIX,
        1,
        f"value_and_grad({defined(f)})",
    )


def test_1_under_several_transformations():
    def inner(y):
        return numpy.asarray(y * 2)

    def outer(x):
        return np.sum(ft.grad(inner)(x))

    check(
        errors.TracerConversionError,
        lambda: ft.vmap(outer)(X),
        "inner (test_errors.py) asked for a plain NumPy array, but got float64[], which depends "
        "on argument 0",
        CONVERSION_FIX,
        1,
        f"vmap({defined(outer)}) of grad({defined(inner)})",
    )


# 2: a tracer that is written into a NumPy buffer


def test_2_slice_of_a_buffer():
    def f(x):
        buf = numpy.zeros(3)
        buf[:] = x
        return buf

    check(
        errors.ImmutableArrayError,
        lambda: ft.grad(f)(X),
        "buf[i] = x: buf is a plain ndarray and cannot record gradients of x, float64[3]",
        BUFFER_FIX,
        2,
        f"grad({defined(f)})",
    )


def test_2_output_argument():
    def f(x):
        buf = numpy.zeros(3)
        buf += x
        return buf

    check(
        errors.ImmutableArrayError,
        lambda: ft.vmap(f)(X[None]),
        "buf[i] = x: buf is a plain ndarray (float64[3]) and cannot record gradients of x, "
        "float64[3]",
        BUFFER_FIX,
        2,
        f"vmap({defined(f)})",
    )


# 3: assignment to an item


def test_3_assignment():
    x = np.array(X)

    def assign():
        x[0] = 1.0

    check(
        errors.ImmutableArrayError,
        assign,
        "x[...] = value: an array (float64[3]) is immutable",
        "x = x.at[i].set(value)",
        3,
    )


@pytest.mark.parametrize("kind", ["set", "add", "multiply", "min", "max"])
def test_3_result_thrown_away(kind):
    x = np.array(X)
    with pytest.warns(errors.UnusedUpdateWarning) as caught:
        if kind == "set":
            x.at[0].set(1.0)
        elif kind == "add":
            x.at[0].add(1.0)
        elif kind == "multiply":
            x.at[0].multiply(1.0)
        elif kind == "min":
            x.at[0].min(1.0)
        else:
            x.at[0].max(1.0)
    (warning,) = caught
    assert str(warning.message) == text(
        f"the result of x.at[...].{kind}(...) is thrown away; x itself is unchanged",
        f"{__file__}:{warning.lineno}",
        f"x = x.at[i].{kind}(value)",
        3,
    )
    assert warning.filename == __file__


def test_3_results_that_are_used_give_no_warning():
    x = np.array(X)
    y = x.at[0].set(1.0)
    assert [*(y + x.at[1].add(2.0))] == [1, 4, 4]
    assert x.at[0].get() == 0


# 4 and 5: Python asks a traced value for its number


def test_4_branching():
    def f(x):
        return x if x > 0 else -x

    check(
        errors.ConcretizationError,
        lambda: ft.vmap(f)(X),
        "bool() asked for the value of bool[], which is not known while the function is traced",
        "np.where(condition, a, b) instead of if/and/or/min",
        4,
        f"vmap({defined(f)})",
    )


def test_4_under_staging():
    def f(x):
        return min(x[0], x[1])

    check(
        errors.ConcretizationError,
        lambda: ft.make_program(f)(X),
        "bool() asked for the value of bool[], which is not known while the function is traced",
        "np.where(condition, a, b) instead of if/and/or/min",
        4,
        f"make_program({defined(f)})",
    )


@pytest.mark.parametrize(
    ("ask", "name", "dtype"),
    [
        (lambda x: float(x), "float()", "float64"),
        (lambda x: int(x), "int()", "float64"),
        (lambda x: complex(x), "complex()", "float64"),
        (lambda x: x.item(), ".item()", "float64"),
        (lambda x: x.tolist(), ".tolist()", "float64"),
        (lambda x: [1, 2, 3][x], "an index", "int64"),
        (lambda x: range(x), "an index", "int64"),
    ],
)
def test_5_conversion(ask, name, dtype):
    check(
        errors.ConcretizationError,
        lambda: ft.vmap(ask)(X.astype(dtype)),
        f"{name} asked for the value of {dtype}[], which is not known while the function is traced",
        "compute with arrays, or pass the number in from outside",
        5,
        f"vmap({defined(ask)})",
    )


def test_5_python_sees_the_values_under_grad():
    assert ft.grad(lambda x: x * float(x) if x > 1 else -x)(3.0) == 3


# 6: a tracer that outlived its transformation


LEAKED = []


def leaking(x):
    y = x * 2
    LEAKED.append(y)
    return np.sum(y)


@pytest.mark.parametrize(
    ("transform", "name", "shape", "made"),
    [
        (lambda: ft.grad(leaking)(X), "grad", "3", "made by multiply"),
        (lambda: ft.vjp(leaking, X), "vjp", "3", "made by multiply"),
        (lambda: ft.jvp(leaking, (X,), (X,)), "jvp", "3", "made by forward mode"),
        (lambda: ft.vmap(leaking)(X[None]), "vmap", "3", "made by vectorisation"),
        (lambda: ft.make_program(leaking)(X), "make_program", "3", "made by staging"),
    ],
)
@pytest.mark.parametrize(
    "use",
    [
        lambda x: x + 1,
        lambda x: np.sum(x),
        lambda x: ft.grad(lambda y: np.sum(y * x))(X),
        lambda x: ft.vmap(lambda y: y * x)(X),
        lambda x: ft.jvp(lambda y: y * x, (X,), (X,)),
    ],
)
def test_6_escaped_tracer(transform, name, shape, made, use):
    LEAKED.clear()
    transform()
    escaped = LEAKED.pop()
    check(
        errors.EscapedTracerError,
        lambda: use(escaped),
        f"a tracer float64[{shape}], {made}, was used after {name} of {defined(leaking)} had ended",
        ESCAPE_FIX,
        6,
    )


# 7: grad of something else than a real scalar, by something else than floats


def test_7_output_is_no_scalar():
    def f(x):
        return x * 2

    check(
        errors.NonScalarOutputError,
        lambda: ft.grad(f)(X),
        "grad of f: the output has shape (3,), not ()",
        "use ft.jacrev or ft.vjp, or reduce it, e.g. .sum()",
        7,
    )


@pytest.mark.parametrize(("factor", "dtype"), [(1j, "complex128"), (None, "int64")])
def test_7_output_is_not_real(factor, dtype):
    def f(x):
        return np.argmax(x) if factor is None else np.sum(x * factor)

    check(
        errors.NonScalarOutputError,
        lambda: ft.value_and_grad(f)(X),
        f"value_and_grad of f: the output is {dtype}, not real",
        "return a float; holomorphic=True is for complex outputs of complex inputs",
        7,
    )


def test_7_integer_input():
    def f(p):
        return np.sum(p["w"][0])

    check(
        errors.GradientInputError,
        lambda: ft.grad(f)({"w": [numpy.arange(3)]}),
        "argument 0['w'][0] is int64: int64 has no gradient",
        "pass a float, e.g. x.astype(float), or allow_int=True",
        7,
    )


def test_7_input_is_no_array():
    check(
        errors.GradientInputError,
        lambda: ft.grad(lambda p: p["x"])({"x": X, "name": "sine"}),
        "argument 0['name'] is of type str, not an array",
        "pass arrays and numbers; give others outside of argnums, or register their type with "
        "ft.tree.register",
        7,
    )


# 8: a rule that is missing


def test_8_no_vjp(planted):
    planted(unary, compute="square", arity=1, constant=False) if False else None
    primitive = declare_without_rules(planted)
    fix = "declare it, e.g. planted = unary('planted', lambda g, x: g * ...), or give the function"
    check(
        errors.MissingRuleError,
        lambda: ft.grad(lambda x: np.sum(primitive(x)))(X),
        "no vjp for 'planted' with respect to argument 0",
        f"{fix} a rule with ft.custom_vjp",
        8,
    )
    check(
        errors.MissingRuleError,
        lambda: ft.jvp(primitive, (X,), (X,)),
        "no jvp for 'planted' with respect to argument 0",
        f"{fix} a rule with ft.custom_jvp",
        8,
    )


def declare_without_rules(planted):
    """Declares a primitive that has neither rules nor the word that there are none."""

    def declare(name, **declared):
        return Primitive(name, **declared)

    return planted(
        declare,
        compute="square",
        infer=registry.square.infer,
        batch=registry.square.batch,
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
        "{'v': ...}\n  tree 0: TreeDef({'a': {'w': *}})\n  tree 1: TreeDef({'a': {'v': *}})",
        f"return a cotangent in the structure and shapes {EXPECTED_TREE}",
        9,
    )


def test_9_bwd_returns_another_shape():
    f = ruled(right_fwd, lambda _, g: ({"a": {"w": g}},))
    check(
        errors.RuleResultError,
        lambda: ft.grad(f)(TREE),
        "the bwd rule of f returned a cotangent {'a': {'w': float64[]}}, "
        f"expected {EXPECTED_TREE}: at ['a']['w'] the shape is (), not (3,)",
        f"return a cotangent in the structure and shapes {EXPECTED_TREE}",
        9,
    )


def test_9_bwd_returns_no_tuple():
    f = ruled(right_fwd, lambda _, g: {"a": {"w": X}})
    check(
        errors.RuleResultError,
        lambda: ft.grad(f)(TREE),
        "the bwd rule of f returned {'a': {'w': float64[3]}}, expected a tuple of 1 cotangents for "
        f"({EXPECTED_TREE},)",
        "return a tuple with a cotangent, or None, of each differentiable argument",
        9,
    )


def test_9_fwd_returns_no_pair():
    f = ruled(lambda p: np.sum(p["a"]["w"]), None)
    check(
        errors.RuleResultError,
        lambda: ft.grad(f)(TREE),
        "the fwd rule of f returned float64[], not a pair",
        "return out, residuals",
        9,
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
        "is (), not (3,)",
        "return a tangent in the structure and shapes [float64[3]]",
        9,
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
    square = registry.square
    primitive = planted(
        Primitive,
        compute="square",
        infer=square.infer,
        batch=square.batch,
        vjp=(lambda g: g[:2],),
    )
    check(
        errors.RuleResultError,
        lambda: ft.grad(lambda x: np.sum(primitive(x)))(X),
        "the vjp of 'planted' returned a cotangent of shape (2,) for an operand of shape (3,)",
        "a cotangent has the shape of its operand",
        9,
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
        "    argument 0['w']: float64[2, 3], axis 1 has length 3\n"
        "    argument 1: float64[4], axis 0 has length 4   <- differs\n"
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
        "vmap of f: argument 0 is a scalar and has no axis to map over",
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


# 12: backward twice, and changes in place


def test_12_backward_twice():
    x = ft.Tensor(X, requires_grad=True)
    shared = x * x
    first = shared.sum()
    second = (shared * 2).sum()

    def one():
        first.backward()

    def two():
        second.backward()

    one()
    before = f"{__file__}:{one.__code__.co_firstlineno + 1}"
    check(
        errors.BackwardError,
        two,
        "backward reached 'multiply' a second time: what it had saved was freed by the backward "
        f"pass at {before}",
        "loss.backward(retain_graph=True) the first time; for two losses that share a graph, "
        "(loss1 + loss2).backward()",
        12,
    )


def test_12_backward_without_a_graph():
    x = ft.Tensor(X)
    loss = x.sum()
    check(
        errors.BackwardError,
        loss.backward,
        f"backward() of tensor {loss.id} ({loss.describe()}): nothing that it was computed from "
        "requires grad, so there is no graph to go back over",
        "x = Tensor(data, requires_grad=True) before the loss is computed, outside of no_grad()",
        12,
    )


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


def test_13_no_leaf():
    x = ft.Tensor(X, requires_grad=True)
    why = "it is not a leaf, it was computed by 'multiply'"
    missing_gradient(x * 2, why, "x.retain_grad() before backward()")


def test_13_does_not_require_grad():
    why = "its requires_grad is False"
    missing_gradient(ft.Tensor(X), why, "Tensor(data, requires_grad=True)")


def test_13_hook_and_retain_grad_of_what_has_no_gradient():
    x = ft.Tensor(X)
    for name, call in [
        ("retain_grad()", x.retain_grad),
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
    shapes = "(2, 3), (2, 3) and (2, 4)" if name == "where" else "(2, 3) and (2, 4)"
    lengths = "3 and 3 and 4" if name == "where" else "3 and 4"
    check(
        errors.ShapeError,
        transformed[transform],
        f"{name}: shapes {shapes} do not broadcast: axis -1 has lengths {lengths}",
        BROADCAST_FIX,
        16,
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
