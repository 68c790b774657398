"""The full text of the messages about tracers: what happened, where, under what, and the fix."""

import re
from pathlib import Path

import numpy
import pytest
from support.error_cases import check, defined, text

import functensor as ft
import functensor.numpy as np
from functensor.primitives.core import errors

X = numpy.arange(3.0)
CONVERSION_FIX = (
    "use functensor.numpy instead of numpy; ft.value(x) or ft.stop_gradient(x) drops the "
    "gradient; ft.extend.numpy_function gives foreign code a rule"
)
# Under vmap and staging there is no value.
UNKNOWN_FIX = (
    "use functensor.numpy instead of numpy; ft.extend.numpy_function gives foreign code a rule"
)
BUFFER_FIX = "buf = functensor.numpy.zeros(shape), then buf = buf.at[i].set(x)"
ESCAPE_FIX = (
    "return the value from the transformed function (has_aux=True for extras) instead of storing "
    "it, or store ft.value(x)"
)
UNKNOWN_ESCAPE_FIX = "return the value from the transformed function instead of storing it"


def test_every_error_has_an_anchor_in_the_documentation():
    documentation = Path(__file__).resolve().parents[2] / "docs" / "errors.md"
    documented = {int(n) for n in re.findall(r'id="error-(\d+)"', documentation.read_text())}
    docstrings = [getattr(errors, name).__doc__ or "" for name in errors.__all__]
    promised = {int(n) for doc in docstrings for n in re.findall(r"errors\.md#error-(\d+)", doc)}
    assert promised
    assert promised <= documented


# 1: a tracer where NumPy wants numbers


def test_1_asarray_names_the_argument_and_the_transformation():
    def f(params, x):
        return numpy.asarray(params["w"] * x)

    check(
        errors.TracerConversionError,
        lambda: ft.grad(f, argnums=(0, 1))({"w": X, "b": X}, X),
        'numpy.asarray(params["w"] * x) in f (test_errors.py) asked for a plain NumPy array, but '
        "got float64[3], which depends on argument 0 (params)['w'] and argument 1 (x)",
        CONVERSION_FIX,
        1,
        f"grad({defined(f)})",
    )


def test_1_a_function_of_numpy_is_named():
    def f(points, shift):
        return numpy.lib.stride_tricks.sliding_window_view(points[1][None] - shift, 2)

    check(
        errors.TracerConversionError,
        lambda: ft.vjp(f, [X, X], 2.0),
        "numpy.lib.stride_tricks.sliding_window_view asked for a plain NumPy array, but got "
        "float64[1,3], which depends on argument 0 (points)[1] and argument 1 (shift)",
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
        "numpy.asarray(x * scale) in f (test_errors.py) asked for a plain NumPy array, but got "
        "float64[3], which depends on argument 'scale'",
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
        "numpy.asarray(y * 2) in inner (test_errors.py) asked for a plain NumPy array, but got "
        "float64[], which depends on argument 0 (y)",
        UNKNOWN_FIX,
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


def test_2_single_element_of_a_buffer():
    def f(x):
        buf = numpy.zeros(3)
        buf[0] = x[0]
        return buf

    check(
        errors.ImmutableArrayError,
        lambda: ft.grad(f)(X),
        "buf[i] = x: buf is a plain ndarray and cannot record gradients of x, float64[]",
        BUFFER_FIX,
        2,
        f"grad({defined(f)})",
        line=f"{__file__}:{f.__code__.co_firstlineno + 2}",
    )


def test_2_single_element_under_several_transformations():
    def f(x):
        buf = numpy.zeros(3)
        buf[0] = x[0]
        return buf

    check(
        errors.ImmutableArrayError,
        lambda: ft.vmap(ft.grad(f))(X[None]),
        "buf[i] = x: buf is a plain ndarray and cannot record gradients of x, float64[]",
        BUFFER_FIX,
        2,
        f"vmap({defined(f)}) of grad({defined(f)})",
        line=f"{__file__}:{f.__code__.co_firstlineno + 2}",
    )


def test_2_other_value_errors_stay_as_they_are():
    mine = ValueError("mine")

    def f(x):
        raise mine from KeyError("x")

    with pytest.raises(ValueError, match=r"^mine$") as info:
        ft.grad(f)(X)
    assert info.value is mine
    assert type(mine.__cause__) is KeyError


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


def test_3_assignment_under_several_transformations():
    def f(x):
        y = x * 2
        y[0] = 1.0
        return np.sum(y)

    check(
        errors.ImmutableArrayError,
        lambda: ft.vmap(ft.grad(f))(X[None]),
        "x[...] = value: an array (float64[3]) is immutable",
        "x = x.at[i].set(value)",
        3,
        f"vmap({defined(f)}) of grad({defined(f)})",
    )


@pytest.mark.parametrize(
    ("kind", "update"),
    [
        ("set", "x.at[0].set(1.0)"),
        ("add", "x.at[0].add(1.0)"),
        ("multiply", "x.at[0].multiply(1.0)"),
        ("min", "x.at[0].min(1.0)"),
        ("max", "x.at[0].max(1.0)"),
    ],
)
def test_3_result_thrown_away(kind, update):
    line = f"{__file__}:7"
    code = compile("\n" * 6 + update, __file__, "exec")
    with pytest.warns(errors.UnusedUpdateWarning) as caught:
        exec(code, {"x": np.array(X), "__name__": __name__})
    (warning,) = caught
    assert f"{warning.filename}:{warning.lineno}" == line
    assert str(warning.message) == text(
        f"the result of x.at[...].{kind}(...) is thrown away; x itself is unchanged",
        line,
        f"x = x.at[i].{kind}(value)",
        3,
    )


def test_3_results_that_are_used_give_no_warning():
    x = np.array(X)
    y = x.at[0].set(1.0)
    assert [*(y + x.at[1].add(2.0))] == [1, 4, 4]
    assert x.at[0].get() == 0


# 6: a tracer that outlived its transformation


LEAKED = []


def leaking(x):
    y = x * 2
    LEAKED.append(y)
    return np.sum(y)


MADE = f"{__file__}:{leaking.__code__.co_firstlineno + 1}"


@pytest.mark.parametrize(
    ("transform", "name", "shape", "made"),
    [
        (lambda: ft.grad(leaking)(X), "grad", "3", "made by multiply"),
        (lambda: ft.vjp(leaking, X), "vjp", "3", "made by multiply"),
        (lambda: ft.jvp(leaking, (X,), (X,)), "jvp", "3", "made by forward mode"),
        (lambda: ft.vmap(leaking)(X[None]), "vmap", "3", "made by vectorisation"),
        (lambda: ft.make_program(leaking)(X), "make_program", "3", f"made by multiply at {MADE}"),
    ],
)
@pytest.mark.parametrize(
    ("use", "running"),
    [
        (lambda x: x + 1, ""),
        (lambda x: np.sum(x), ""),
        (lambda x: ft.grad(lambda y: np.sum(y * x))(X), "grad"),
        (lambda x: ft.vmap(lambda y: y * x)(X), "vmap"),
        (lambda x: ft.jvp(lambda y: y * x, (X,), (X,)), "jvp"),
    ],
)
def test_6_escaped_tracer(transform, name, shape, made, use, running):
    LEAKED.clear()
    transform()
    escaped = LEAKED.pop()
    check(
        errors.EscapedTracerError,
        lambda: use(escaped),
        f"a tracer float64[{shape}], {made}, was used after {name} of {defined(leaking)} had ended",
        UNKNOWN_ESCAPE_FIX if name in ("vmap", "make_program") else ESCAPE_FIX,
        6,
        # The transformed function is a lambda on the line of the one that uses the tracer.
        running and f"{running}({defined(use)})",
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


# Calls that are refused within another transformation name that one


def test_7_within_another_transformation():
    def inner(x):
        return x * 2

    def outer(x):
        return ft.grad(inner)(x)

    check(
        errors.NonScalarOutputError,
        lambda: ft.vmap(outer)(X[None]),
        "grad of inner: the output has shape (3,), not ()",
        "use ft.jacrev or ft.vjp, or reduce it, e.g. .sum()",
        7,
        f"vmap({defined(outer)})",
    )
    check(
        errors.GradientInputError,
        lambda: ft.vmap(outer)(numpy.arange(3)),
        "argument 0 is int64: int64 has no gradient",
        "pass a float, e.g. x.astype(float), or allow_int=True",
        7,
        f"vmap({defined(outer)})",
    )


def test_9_within_another_transformation():
    def f(x):
        _, pull = ft.vjp(lambda y: y * 2, x)
        return pull(x[:2])

    check(
        errors.RuleResultError,
        lambda: ft.vmap(f)(X[None]),
        "a cotangent of shape (2,) was given for an output float64[3]",
        "pass a cotangent of shape (3,)",
        9,
        f"vmap({defined(f)})",
    )


def test_10_within_another_transformation():
    def inner(a, b):
        return a * b

    def outer(x):
        return np.sum(ft.vmap(inner)(x, numpy.ones(4)))

    check(
        errors.AxisSizeError,
        lambda: ft.grad(outer)(X),
        "vmap of inner: the mapped axes differ in length\n"
        "    argument 0 (a): float64[3], axis 0 has length 3\n"
        "    argument 1 (b): float64[4], axis 0 has length 4   <- differs",
        "give every mapped argument the same length, or in_axes=None to share one",
        10,
        f"grad({defined(outer)})",
    )
