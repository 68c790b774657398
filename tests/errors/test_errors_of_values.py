"""The full text of the messages where Python asks a traced value for its number."""

import math
import pickle

import numpy
import pytest
from support.error_cases import check, defined

import functensor as ft
import functensor.numpy as np
from functensor.primitives.core import errors

X = numpy.arange(3.0)


# 4 and 5: Python asks a traced value for its number


def test_4_branching():
    def f(x):
        return x if x > 0 else -x

    check(
        errors.ConcretizationError,
        lambda: ft.vmap(f)(X),
        "bool() asked for the value of bool[], which depends on argument 0 (x), which is not known "
        "while the function is traced",
        "np.where(condition, a, b) instead of if/and/or/min, or ft.cond(condition, f, g, x)",
        4,
        f"vmap({defined(f)})",
    )


def test_4_under_staging():
    def f(x):
        return min(x[0], x[1])

    check(
        errors.ConcretizationError,
        lambda: ft.make_program(f)(X),
        "bool() asked for the value of bool[], which depends on argument 0 (x), which is not known "
        "while the function is traced",
        "np.where(condition, a, b) instead of if/and/or/min, or ft.cond(condition, f, g, x)",
        4,
        f"make_program({defined(f)})",
    )


DICT_FIX = "np.asarray(list(d.values()))[i] for numbers, ft.switch(i, functions, x) for functions"
OTHERWISE = "compute with arrays, or pass the number in from outside"


@pytest.mark.parametrize(
    ("ask", "name", "dtype", "fix"),
    [
        (
            lambda x: float(x),
            "float()",
            "float64",
            "x.astype(float) instead of float(x), functensor.numpy instead of math",
        ),
        (
            lambda x: math.sin(x),
            "float()",
            "float64",
            "x.astype(float) instead of float(x), functensor.numpy instead of math",
        ),
        (lambda x: int(x), "int()", "float64", "x.astype(int) instead of int(x)"),
        (
            lambda x: complex(x),
            "complex()",
            "float64",
            "x.astype(complex) instead of complex(x), functensor.numpy instead of cmath",
        ),
        (
            lambda x: x.item(),
            ".item()",
            "float64",
            "x without .item(): an array of one element computes as a number does",
        ),
        (
            lambda x: x.tolist(),
            ".tolist()",
            "float64",
            "x without .tolist(): an array can be indexed and iterated over",
        ),
        (
            lambda x: [1, 2, 3][x],
            "[1, 2, 3][x]",
            "int64",
            "np.asarray([1, 2, 3])[x] for numbers, ft.switch(x, [1, 2, 3], x) for functions",
        ),
        (lambda x: {0: 1.0}[x], "{0: 1.0}[x]", "int64", DICT_FIX),
        (lambda x: x in {1, 2}, "x in {1, 2}", "int64", DICT_FIX),
        (lambda x: "ab"[:x], '"ab"[:x]', "int64", OTHERWISE),
        (lambda x: round(x), "round(x)", "float64", "np.round(x)"),
        (lambda x: np.zeros(x), "np.zeros(x)", "int64", OTHERWISE),
    ],
)
def test_5_conversion(ask, name, dtype, fix):
    wanted = "; a plain value is wanted for 'shape' of functensor.numpy.zeros()"
    check(
        errors.ConcretizationError,
        lambda: ft.vmap(ask)(X.astype(dtype)),
        f"{name} asked for the value of {dtype}[], which depends on argument 0 (x), which is not "
        f"known while the function is traced{wanted if 'zeros' in name else ''}",
        fix,
        5,
        f"vmap({defined(ask)})",
    )


def test_5_python_branches_on_values_under_grad():
    assert ft.grad(lambda x: x * int(x) if x > 1 else -x)(3.0) == 3


@pytest.mark.parametrize(
    ("convert", "name"),
    [
        (lambda x: math.sin(x), "float()"),
        (lambda x: complex(x), "complex()"),
        (lambda x: x.item(), ".item()"),
        (lambda x: x.tolist(), ".tolist()"),
        (lambda x: pickle.dumps(x), "pickle"),
    ],
)
def test_1_a_derivative_is_not_lost_to_a_plain_number(convert, name):
    def f(x):
        return x * convert(x)

    check(
        errors.TracerConversionError,
        lambda: ft.grad(f)(2.0),
        f"{name} asked for the plain value of float64[], which depends on argument 0 (x), and "
        "would lose its derivative",
        "compute with functensor.numpy; ft.value(x) drops the derivative",
        1,
        f"grad({defined(f)})",
        line=f"{__file__}:{convert.__code__.co_firstlineno}",
    )


TABLE = {0: 10.0, 1: 20.0, 2: 30.0}
RIGHT = {
    "float": (lambda x: x.astype(float) * 2, [0.0, 2.0, 4.0]),
    "math": (lambda x: np.sin(x * 0.0), [0.0, 0.0, 0.0]),
    "int": (lambda x: x.astype(int) + 1, [1, 2, 3]),
    "complex": (lambda x: x.astype(complex) * 1j, [0j, 1j, 2j]),
    "item": (lambda x: x + x, [0, 2, 4]),
    "round": (lambda x: np.round(x + 0.7), [1.0, 2.0, 3.0]),
    "index": (lambda x: np.asarray([1, 2, 3])[x], [1, 2, 3]),
    "function": (lambda x: ft.switch(x, [np.sin, np.negative, np.square], 0.0), [0.0, 0.0, 0.0]),
    "key": (lambda x: np.asarray(list(TABLE.values()))[x], [10.0, 20.0, 30.0]),
    "branch": (lambda x: np.where(x > 0, x, -1), [-1, 1, 2]),
    "branches": (lambda x: ft.cond(x > 1, lambda x: x, lambda x: -x, x), [0, -1, 2]),
    "foreign code": (
        ft.extend.numpy_function(lambda x: numpy.asarray(x) * 2, vmap="vectorized"),
        [0, 2, 4],
    ),
}


@pytest.mark.parametrize("name", RIGHT)
@pytest.mark.parametrize("form", [ft.vmap, lambda f: lambda xs: [ft.jit(f)(x) for x in xs]])
def test_what_the_fixes_say_is_right_code(form, name):
    right, wanted = RIGHT[name]
    numpy.testing.assert_array_equal(form(right)(numpy.arange(3)), wanted)


# What a value in the body of a loop or a branch depends on.
WITHIN = {
    "carry": (
        lambda w, x: ft.while_loop(lambda c: c["n"] < 3, lambda c: ask(c["w"]), {"n": 0, "w": w}),
        "carry['w']",
    ),
    "condition": (
        lambda w, x: ft.while_loop(lambda c: bool(c[1] < 3), lambda c: c, [w, x]),
        "carry[1]",
    ),
    "items": (lambda w, x: ft.scan(lambda c, a: (c, ask(a + 1)), w, BATCH), "xs"),
    "both": (lambda w, x: ft.scan(lambda c, a: (c, ask(c + a)), w, BATCH), "carry and xs"),
    "closure": (
        lambda w, x: ft.scan(lambda c, a: (c, ask(c * x)), w, BATCH),
        "carry and argument 1 (x)",
    ),
    "nested": (
        lambda w, x: ft.scan(
            lambda c, a: ft.scan(lambda d, b: (d, ask(b * c + x)), a, BATCH), w, BATCH
        ),
        "xs and carry and argument 1 (x)",
    ),
    "branch": (
        lambda w, x: ft.cond(x > 0, lambda a: ask(a + w), lambda a: a, x),
        "argument 0 (w) and argument 1 (x)",
    ),
}
BATCH = numpy.ones(2)


def ask(x):
    return x if x > 0 else -x


@pytest.mark.parametrize("name", WITHIN)
def test_4_the_body_of_a_loop_names_what_its_value_depends_on(name):
    f, wanted = WITHIN[name]
    with pytest.raises(errors.ConcretizationError) as info:
        ft.jit(f)(1.0, 2.0)
    found = str(info.value).splitlines()[0].partition(", which depends on ")[2]
    clause = found.removesuffix(", which is not known while the function is traced")
    assert sorted(clause.split(" and ")) == sorted(wanted.split(" and "))


def test_a_value_that_is_known_is_no_key_either():
    def f(x):
        return x * TABLE[x]

    def right(x):
        return x * TABLE[ft.value(x).item()]

    with pytest.raises(TypeError) as info:
        ft.grad(f)(2.0)
    assert str(info.value) == (
        "TABLE[x] asked for the hash of float64[], which depends on argument 0 (x): an array has "
        "none\n"
        f"  at {__file__}:{f.__code__.co_firstlineno + 1}\n"
        f"  under grad({defined(f)})\n"
        "  fix: ft.value(x).item() is a number, which can be a key"
    )
    assert ft.grad(right)(2.0) == 30.0
