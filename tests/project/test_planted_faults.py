"""Every check of the registry-driven tests finds the fault that it is for.

Each fault is planted into a primitive that is otherwise right, declared for the length of a test.
"""

import numpy as np
import pytest
import support.registry_cases as cases

import functensor as ft
from functensor.primitives.core.derivative_rules import compile_rule
from functensor.primitives.core.families import (
    batch_elementwise,
    elementwise,
    infer_elementwise,
    reduction,
    unary,
)
from functensor.primitives.core.primitive import Primitive
from functensor.primitives.core.registry import registry as ops
from functensor.primitives.core.shape_dtype import ShapeDtype
from functensor.primitives.core.test_samples import POSITIVE, Operand, Sample

ALL = [*cases.SAMPLE_CHECKS]


def spread(g, x_shape, axis):
    """Broadcasts a sum's cotangent back."""
    kept = tuple(1 if i in axis else n for i, n in enumerate(x_shape))
    return ops.broadcast_to(ops.reshape(g, kept), x_shape)


# Primitives that are right. Each is declared by what may be replaced in it by something wrong.


def cube(**wrong):
    """x * x * x, declared as a unary primitive."""
    right = {
        "vjp": lambda g, x: 3 * g * x * x,
        "compute": lambda xp, x: xp.multiply(xp.square(x), x),
        "reference": lambda x: np.power(x, 3),
        "dtypes": "fdD",
    }
    return unary("planted", **{**right, **wrong})


def product(**wrong):
    """x * y, declared as an elementwise primitive."""
    rules = wrong.pop("rules", (lambda g, y: g * y, lambda g, x: g * x))
    right = {"compute": "multiply", "reference": np.multiply, "dtypes": "fdD"}
    return elementwise("planted", *rules, **{**right, **wrong})


def total(**wrong):
    """The sum over axes, declared as a reduction."""
    right = {
        "vjp": lambda g, x_shape, *, axis: spread(g, x_shape, axis),
        "jvp": (lambda t, *, axis, keepdims: ops.sum(t, axis=axis, keepdims=keepdims),),
        "compute": "sum",
        "reference": np.sum,
    }
    return reduction("planted", **{**right, **wrong})


def ratio(**wrong):
    """x / y of operands that need no broadcasting, declared without a family."""
    right = {
        "compute": "divide",
        "reference": "numpy.divide",
        "infer": infer_elementwise,
        "batch": batch_elementwise,
        "broadcasts": True,
        "pullback": lambda g, ans, y: (g / y, -g * ans / y),
        "pushforward": lambda ts, ans, y: (ts[0] - ts[1] * ans) / y,
        "samples": [
            Sample((2, 3), Operand((2, 3), POSITIVE)),
            Sample((0,), Operand((0,), POSITIVE)),
        ],
    }
    return Primitive("planted", **{**right, **wrong})


@pytest.fixture
def declare():
    """Returns a function that declares a primitive, which is taken out again after the test."""

    def declared(kind, **wrong):
        return kind(**wrong)

    yield declared
    if "planted" in ops:
        ops.remove("planted")


def failing(primitive):
    """Returns the names of the checks that a primitive fails, with the errors."""
    failed = {}
    for name, check in cases.SAMPLE_CHECKS.items():
        try:
            cases.run_check(check, primitive)
        except Exception as error:
            failed[name] = error
    return failed


@pytest.mark.parametrize("kind", [cube, product, total, ratio])
def test_right_primitive_passes(declare, kind):
    primitive = declare(kind)
    cases.check_reference(primitive)
    cases.check_samples(primitive)
    assert failing(primitive) == {}


@pytest.mark.parametrize("number", [2.0, 2, 2j], ids=str)
def test_compute_may_return_a_number_of_python(declare, number):
    def compute(xp, x):
        return x * x * x

    assert type(compute(np, number)) is type(number)
    primitive = declare(cube, compute=compute)
    assert failing(primitive) == {}
    out = primitive(number)
    assert type(out) is ft.Array
    assert (out.shape, out.dtype) == ((), np.asarray(number).dtype)
    assert out == number**3


def test_compute_may_return_a_number_of_python_under_transformations(declare):
    primitive = declare(cube, compute=lambda xp, x: x * x * x)
    for out, wanted in [
        (ft.grad(primitive)(2.0), 12),
        (ft.grad(ft.grad(primitive))(2.0), 12),
        (ft.jvp(primitive, (2.0,), (1.0,))[1], 12),
        (ft.grad(primitive, holomorphic=True)(2j), -12),
    ]:
        assert type(out) is ft.Array
        assert out.shape == ()
        assert out == wanted
    # The number stays weak: it does not decide the gradient's dtype.
    gradient = ft.grad(lambda x: primitive(2.0) * x)(np.float32(3))
    assert gradient.dtype == np.float32
    assert gradient == 8


# Faults, each with its primitive, the checks that must fail with it, and those that must not.


def value_of_the_wrong_operand(g, x):
    return g * x


def right_but_constant(g, x):
    """Right as a number, but the dependence on x is hidden from the next derivative."""
    return g * ops.stop_gradient(3 * x * x)


def in_single_precision(g, x):
    return 3 * g * ops.astype(x * x, "float32")


def batched_by_nothing(primitive, values, flags, params):
    """Forgets to align operands of different rank."""
    return primitive.bind(values, params)


def batched_in_one_axis_only(primitive, values, flags, params):
    """Forgets that the axes count one further."""
    return primitive.bind(values, params)


def infers_first_shape(primitive, *operands, **params):
    return ShapeDtype(operands[0].shape, infer_elementwise(primitive, *operands).dtype)


def infers_double(primitive, *operands, **params):
    return ShapeDtype(infer_elementwise(primitive, *operands).shape, "float64")


def fails_without_elements(xp, x):
    return xp.multiply(xp.square(x), x) + 0 * xp.ravel(x)[:1].max()


FAULTS = {
    "wrong vjp": (cube, {"vjp": lambda g, x: 2 * g * x * x}, "derivatives", "forward types"),
    "wrong vjp of the second operand": (
        product,
        {"rules": (lambda g, y: g * y, lambda g, y: g * y)},
        "derivatives",
        "forward types batching",
    ),
    "wrong vjp, right jvp": (
        cube,
        {"vjp": lambda g, x: -3 * g * x * x, "jvp": (lambda t, x: 3 * t * x * x,)},
        "derivatives",
        "forward types",
    ),
    "wrong jvp, right vjp": (
        cube,
        {"jvp": (lambda t, x: 3 * t * x,)},
        "derivatives",
        "forward types",
    ),
    "wrong pushforward": (
        ratio,
        {"pushforward": lambda ts, ans, y: (ts[0] + ts[1] * ans) / y},
        "derivatives",
        "forward types",
    ),
    "wrong pullback": (
        ratio,
        {"pullback": lambda g, ans, y: (g / y, g * ans / y)},
        "derivatives",
        "forward types",
    ),
    "wrong second order": (cube, {"vjp": right_but_constant}, "derivatives", "forward types"),
    "wrong batching of ranks": (
        product,
        {"batch": batched_by_nothing},
        "batching nested_batching batched_derivatives",
        "forward types derivatives",
    ),
    "wrong batching of axes": (
        total,
        {"batch": batched_in_one_axis_only},
        "batching empty_batch nested_batching",
        "forward types derivatives",
    ),
    "wrong inferred shape": (
        product,
        {"infer": infers_first_shape},
        "types",
        "forward derivatives batching",
    ),
    "wrong inferred dtype": (cube, {"infer": infers_double}, "types", "forward derivatives"),
    "wrong value": (cube, {"reference": lambda x: x**3 + 1e-6}, "forward", "types derivatives"),
    "wrong dtype": (
        cube,
        {"compute": lambda xp, x: xp.asarray(x, complex if x.dtype.kind == "c" else float) ** 3},
        "forward",
        "batching",
    ),
    "dtype lost between the passes": (
        cube,
        {"vjp": in_single_precision},
        "derivatives",
        "forward types",
    ),
    "fails without elements": (
        cube,
        {"compute": fails_without_elements},
        "forward types empty_batch",
        "",
    ),
    "Python's numbers made strong": (
        product,
        {"compute": lambda xp, x, y: xp.multiply(xp.asarray(x), xp.asarray(y))},
        "weak",
        "forward types derivatives batching",
    ),
    "operand written to": (
        cube,
        {"compute": lambda xp, x: xp.multiply(x, xp.square(x), out=x) if xp.ndim(x) else x**3},
        "forward",
        "",
    ),
    "no rule for an operand": (
        product,
        {"rules": (lambda g, y: g * y, None)},
        "derivatives operand_subsets batched_derivatives",
        "forward types batching",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_fault_is_found(declare, fault):
    kind, wrong, must_fail, must_pass = FAULTS[fault]
    wrong = dict(wrong)
    replaced = {name: wrong.pop(name) for name in ("infer", "batch") if name in wrong}
    primitive = declare(kind, **wrong)
    for name, rule in replaced.items():
        setattr(primitive, name, rule)
    failed = failing(primitive)
    assert set(must_fail.split()) <= failed.keys(), failed
    assert not set(must_pass.split()) & failed.keys(), failed


@pytest.mark.parametrize("mode", ["vjp", "jvp"])
def test_a_rule_with_an_unknown_letter_is_refused_where_it_is_declared(mode):
    rules = {"vjp": lambda g, x: g, "jvp": [lambda g, x: g]}
    rules[mode] = {"vjp": lambda g, w: g, "jvp": [lambda g, w: g]}[mode]
    with pytest.raises(ValueError, match="a rule names 'w'; the letters are g, ans, xs"):
        unary("planted_letter", **rules)
    assert "planted_letter" not in ops


def test_a_rule_takes_the_static_parameters_that_it_does_not_name():
    rule = compile_rule(lambda g, x, *, by, **params: (g, x, by, params), 0)
    assert rule(1.0, (None, 2.0), {"by": 3, "eps": 4}) == (1.0, 2.0, 3, {"eps": 4})
