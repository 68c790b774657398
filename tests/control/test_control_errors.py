"""The full text of the messages about loops and branches, plainly and while a program is staged."""

import numpy
import pytest
from support.error_cases import both, check, defined, stack, staged

import functensor as ft
import functensor.numpy as np
from functensor.control import BodyTypeError
from functensor.primitives.core.errors import AxisSizeError, MissingRuleError

X = numpy.array([0.5, 1.0, 2.0])


# 22: types that change


@both
def test_22_a_carry_of_another_structure(form):
    def body(c, x):
        return {"w": c["w"]}, None

    def f(x):
        return ft.scan(body, {"w": x, "b": x}, x)

    check(
        BodyTypeError,
        lambda: form(f)(X),
        "scan of body: the carry that the body returned is TreeDef({'w': *}), but it was given "
        "TreeDef({'b': *, 'w': *})",
        "return from the body a carry of the structure of the initial value",
        22,
        stack(form, f, f"scan({defined(body)})"),
        line=f"{__file__}:{f.__code__.co_firstlineno + 1}",
    )


@both
def test_22_a_carry_of_another_shape(form):
    def body(c, x):
        return {"w": c["w"][None], "b": x}, None

    def f(x):
        return ft.scan(body, {"w": x, "b": x[0]}, x)

    check(
        BodyTypeError,
        lambda: form(f)(X),
        "scan of body: carry['w'] came in as float64[3] and was returned as float64[1,3]",
        "np.broadcast_to(init, (1, 3)), or return an array of shape (3,)",
        22,
        stack(form, f),
        line=f"{__file__}:{f.__code__.co_firstlineno + 1}",
    )


@both
def test_22_a_carry_of_another_dtype(form):
    def body(c):
        return c / 2

    def f(n):
        return ft.while_loop(lambda c: c > 1, body, n)

    check(
        BodyTypeError,
        lambda: form(f)(numpy.int64(3)),
        "while_loop of body: carry came in as int64[] and was returned as float64[]",
        'return x.astype("int64"), or begin with np.astype(init, "float64")',
        22,
        stack(form, f),
        line=f"{__file__}:{f.__code__.co_firstlineno + 1}",
    )


@both
def test_22_a_body_without_a_pair(form):
    def body(c, x):
        return c, x, x

    def f(x):
        return ft.scan(body, 0.0, x)

    check(
        BodyTypeError,
        lambda: form(f)(X),
        "scan of body: the body returned 3 values, not a pair",
        "return carry, y; return carry, None where there is nothing to stack",
        22,
        stack(form, f, f"scan({defined(body)})"),
        line=f"{__file__}:{f.__code__.co_firstlineno + 1}",
    )


@both
def test_22_a_carry_that_is_no_array(form):
    def body(c, x):
        return "text", None

    def f(x):
        return ft.scan(body, 0.0, x)

    with pytest.raises(BodyTypeError, match="the carry that the body returned is of type str"):
        form(f)(X)
    with pytest.raises(BodyTypeError, match=r"the initial value\['s'\] is of type str, not an arr"):
        form(lambda x: ft.scan(body, {"s": "text"}, x))(X)


def test_22_branches_of_different_structures():
    def first(x):
        return {"a": x}

    def second(x):
        return x

    def f(x):
        return ft.cond(x[0] > 0, first, second, x)

    check(
        BodyTypeError,
        lambda: ft.make_program(f)(X),
        "cond: the result of true_fun is TreeDef({'a': *}), that of false_fun TreeDef(*)",
        "return the same structure from all branches",
        22,
        f"make_program({defined(f)}) of cond: true_fun({defined(first)})",
        line=f"{__file__}:{f.__code__.co_firstlineno + 1}",
    )


@pytest.mark.parametrize("form", [staged, ft.vmap], ids=["staged", "vmap"])
def test_22_branches_of_different_types(form):
    def f(x):
        return ft.switch(np.astype(x, int), [lambda: [1.0, x], lambda: [2, x], lambda: [x > 0, x]])

    with pytest.raises(BodyTypeError) as info:
        form(f)(numpy.float32(2) if form is staged else X.astype("float32"))
    lines = str(info.value).splitlines()
    assert lines[0] == (
        "switch: the result[0] of branches[2] is bool[], that of branches[0] weak float64[]"
    )
    assert lines[-2:] == [
        '  fix: x.astype("float64") in branches[2]',
        "  see python -m functensor.errors 22",
    ]


# 10: lengths


@both
def test_10_arrays_of_different_lengths(form):
    def body(c, x):
        return c, None

    def f(x):
        return ft.scan(body, 0.0, {"a": x, "b": x[:2], "c": x}, length=3)

    check(
        AxisSizeError,
        lambda: form(f)(X),
        "scan of body: the arrays differ in length\n"
        "    xs['a']: float64[3] has length 3\n"
        "    xs['b']: float64[2] has length 2   <- differs\n"
        "    xs['c']: float64[3] has length 3\n"
        "    length=3",
        "give all arrays in xs the same length along their first axis",
        10,
        stack(form, f),
        line=f"{__file__}:{f.__code__.co_firstlineno + 1}",
    )


@both
def test_10_no_length_and_no_axis(form):
    with pytest.raises(AxisSizeError, match="xs has no array, and there is no length"):
        form(lambda x: ft.scan(lambda c, x: (c, None), x))(X)
    with pytest.raises(AxisSizeError, match=r"xs\[1\] is float64\[\], which has no axis"):
        form(lambda x: ft.scan(lambda c, x: (c, None), 0, (x, x[0])))(X)
    with pytest.raises(AxisSizeError, match=r"elems\['b'\]: float64\[2\]"):
        form(lambda x: ft.associative_scan(lambda a, b: a, {"a": x, "b": x[:2]}))(X)


# 8: reverse mode of a loop without a bound


def test_8_reverse_mode_of_a_while_loop_without_a_bound():
    def loss(x):
        return ft.while_loop(lambda c: c < 10, lambda c: c * x, x)

    gradient = ft.grad(loss)
    what = (
        "no vjp for {} whose number of steps is not known while the program is staged: reverse "
        "mode has to keep values of every step"
    )
    check(
        MissingRuleError,
        lambda: ft.make_program(gradient)(2.0),
        what.format("'while_loop'"),
        "while_loop(cond_fun, body_fun, init_val, max_steps=1000)",
        8,
        f"make_program({defined(loss)}) of grad({defined(loss)})",
        line=f"{__file__}:{loss.__code__.co_firstlineno + 1}",
    )
    assert float(gradient(2.0)) == 32.0
    assert float(ft.jit(ft.jacfwd(loss))(2.0)) == 32.0

    def counted(x, n):
        return ft.fori_loop(0, n, lambda i, c: c * x, x)

    with pytest.raises(MissingRuleError) as info:
        ft.jit(ft.grad(counted))(2.0, 3)
    assert what.format("'fori_loop'") in str(info.value)
    assert "  fix: fori_loop(0, 10, ...) with Python integers as bounds" in str(info.value)
    assert float(ft.grad(counted)(2.0, 3)) == 32.0
