"""Arguments of loops and branches: the full text of the messages about those that do not fit."""

import numpy
import pytest
from support.error_cases import both, check, defined, stack

import functensor as ft
import functensor.numpy as np
from functensor.control import BodyTypeError
from functensor.primitives.core.errors import AxisSizeError, ConcretizationError

X = numpy.array([0.5, 1.0, 2.0])
CHOICE = "cond(x > 0, true_fun, false_fun, x)"
ANY = "cond(np.any(pred), ...); np.where(pred, x, y) chooses element by element"
BRANCHES = "switch(index, [lambda x: x, np.sin], x)"
INTEGER = "switch(np.astype(index, int), branches, ...)"
EACH = "vmap(lambda i: switch(i, branches, ...))(index) chooses element by element"
WHILE = "while_loop(lambda x: x < 10, lambda x: x * 2, init_val{})"
STEPS = WHILE.format(", max_steps=1000")
FORI = "fori_loop(0, 10, lambda i, x: x * i, init_val)"
SCAN = "scan(lambda carry, x: (carry + x, carry), init, xs)"
UNROLL = "unroll=True, or a number of steps"


def step(carry, x):
    return carry, x


@both
@pytest.mark.parametrize(
    ("call", "what", "fix"),
    [
        (
            lambda x: ft.cond(x > 0, np.sin, np.cos, x),
            "cond: pred is bool[3], not a boolean or a number without axes",
            ANY,
        ),
        (
            lambda x: ft.cond("a", np.sin, np.cos, x),
            "cond: pred is a str, not a boolean or a number without axes",
            CHOICE,
        ),
        (
            lambda x: ft.cond(True, x, np.cos, x),
            "cond: true_fun is float64[3], not a function",
            "cond(pred, ...) with true_fun=lambda *operands: value",
        ),
        (
            lambda x: ft.cond(x[0] > 0, np.cos, 1, x),
            "cond: false_fun is an int, not a function",
            "cond(pred, ...) with false_fun=lambda *operands: value",
        ),
        (
            lambda x: ft.switch(x[0], [np.sin, np.cos], x),
            "switch: index is float64[], not an integer without axes",
            INTEGER,
        ),
        (
            lambda x: ft.switch(np.astype(x, "int32"), [np.sin, np.cos], x),
            "switch: index is int32[3], not an integer without axes",
            EACH,
        ),
        (
            lambda x: ft.switch(0, [np.sin, 3], x),
            "switch: branches[1] is an int, not a function",
            BRANCHES,
        ),
        (
            lambda x: ft.switch(0, step, x),
            "switch: branches is a function, not a list of functions",
            BRANCHES,
        ),
        (
            lambda x: ft.while_loop(x > 0, np.sin, x),
            "while_loop: cond_fun is bool[3], not a function",
            WHILE.format(""),
        ),
        (
            lambda x: ft.while_loop(lambda c: True, None, x),
            "while_loop: body_fun is a NoneType, not a function",
            WHILE.format(""),
        ),
        (
            lambda x: ft.while_loop(lambda c: False, np.sin, x, max_steps=1.5),
            "while_loop: max_steps is a float, not an integer",
            STEPS,
        ),
        (
            lambda x: ft.fori_loop(0, 2.5, step, x),
            "fori_loop: upper is a float, not an integer without axes",
            FORI,
        ),
        (
            lambda x: ft.fori_loop(x, 3, step, x),
            "fori_loop: lower is float64[3], not an integer without axes",
            FORI,
        ),
        (
            lambda x: ft.fori_loop(0, 3, x, x),
            "fori_loop: body_fun is float64[3], not a function",
            FORI,
        ),
        (
            lambda x: ft.fori_loop(0, 3, step, x, unroll="all"),
            "fori_loop of step: unroll is a str, not an integer",
            UNROLL,
        ),
        (lambda x: ft.scan(x, 0, x), "scan: f is float64[3], not a function", SCAN),
        (
            lambda x: ft.scan(step, 0, None, length=3.0),
            "scan of step: length is a float, not an integer",
            "scan(f, init, None, length=10)",
        ),
        (
            lambda x: ft.scan(step, 0, x, unroll=0.5),
            "scan of step: unroll is a float, not an integer",
            UNROLL,
        ),
        (
            lambda x: ft.control.map(3, x),
            "map: f is an int, not a function",
            "map(lambda x: np.sum(x), xs)",
        ),
        (
            lambda x: ft.control.map(np.sin, x, batch_size="2"),
            "map of sin: batch_size is a str, not an integer",
            "map(f, xs, batch_size=32)",
        ),
        (
            lambda x: ft.associative_scan(3, x),
            "associative_scan: fn is an int, not a function",
            "associative_scan(np.add, elems)",
        ),
    ],
)
def test_22_arguments_of_other_types(form, call, what, fix):
    line = f"{__file__}:{call.__code__.co_firstlineno}"
    check(TypeError, lambda: form(call)(X), what, fix, 22, stack(form, call), line=line)


@both
@pytest.mark.parametrize(
    ("call", "what", "fix"),
    [
        (lambda x: ft.switch(0, [], x), "switch: branches is empty", BRANCHES),
        (
            lambda x: ft.while_loop(lambda c: True, np.sin, x, max_steps=-1),
            "while_loop: max_steps=-1 is negative",
            STEPS,
        ),
        (
            lambda x: ft.scan(step, 0, None, length=-1),
            "scan of step: length=-1 is negative",
            "scan(f, init, None, length=10)",
        ),
        (
            lambda x: ft.scan(step, 0, x, unroll=-2),
            "scan of step: unroll=-2 is negative",
            UNROLL,
        ),
        (
            lambda x: ft.control.map(np.sin, x, batch_size=0),
            "map of sin: batch_size=0 is not positive",
            "map(f, xs, batch_size=32)",
        ),
    ],
)
def test_22_numbers_that_are_too_small(form, call, what, fix):
    line = f"{__file__}:{call.__code__.co_firstlineno}"
    check(ValueError, lambda: form(call)(X), what, fix, 22, stack(form, call), line=line)


@both
@pytest.mark.parametrize(
    ("result", "shown", "fix"),
    [
        (lambda c: c > 0, "bool[3]", "return np.any(x < 10) from it, or np.all"),
        (lambda c: 1, "an int", "return x < 10 from it"),
        (lambda c: None, "a NoneType", "return x < 10 from it"),
        (lambda c: np.sum(c), "float64[]", "return x < 10 from it"),
    ],
)
def test_22_a_condition_that_is_no_boolean(form, result, shown, fix):
    def holds(c):
        return result(c)

    def f(x):
        return ft.while_loop(holds, np.sin, x)

    check(
        TypeError,
        lambda: form(f)(X),
        f"while_loop: the condition holds returned {shown}, not a boolean without axes",
        fix,
        22,
        stack(form, f, f"while_loop({defined(holds)})"),
        line=f"{__file__}:{f.__code__.co_firstlineno + 1}",
    )


@both
def test_22_the_number_of_the_step_is_no_part_of_the_carry(form):
    def body(i, c):
        return {"w": c["w"][None]}

    def fixed(x):
        return ft.fori_loop(0, 3, body, {"w": x})

    def traced(x, n):
        return ft.fori_loop(n, n + 3, body, {"w": x})

    for f, args in ((fixed, [X]), (traced, [X, numpy.int64(2)])):
        check(
            BodyTypeError,
            lambda f=f, args=args: form(f)(*args),
            "fori_loop of body: carry['w'] came in as float64[3] and was returned as float64[1,3]",
            "np.broadcast_to(init, (1, 3)), or return an array of shape (3,)",
            22,
            stack(form, f),
            line=f"{__file__}:{f.__code__.co_firstlineno + 1}",
        )

    def other(i, c):
        return c["w"]

    with pytest.raises(BodyTypeError) as info:
        form(lambda x: ft.fori_loop(0, 3, other, {"w": x}))(X)
    assert str(info.value).startswith(
        "fori_loop of other: the carry that the body returned is TreeDef(*), but it was given "
        "TreeDef({'w': *})\n"
    )


# 10: axes


@both
def test_10_an_array_without_the_axis(form):
    def f(x):
        return ft.associative_scan(np.add, {"a": x[:, None], "b": x}, axis=-2)

    check(
        AxisSizeError,
        lambda: form(f)(X),
        "associative_scan of add: elems['b'] is float64[3], which has no axis -2",
        "give every array the axis that is scanned: axis=0 is the first one",
        10,
        stack(form, f),
        line=f"{__file__}:{f.__code__.co_firstlineno + 1}",
    )


@both
def test_10_map_is_called_map(form):
    def f(x):
        return ft.control.map(np.sin, [x, x[:2]])

    check(
        AxisSizeError,
        lambda: form(f)(X),
        "map of sin: the arrays differ in length\n"
        "    xs[0]: float64[3] has length 3   <- differs\n"
        "    xs[1]: float64[2] has length 2",
        "give all arrays in xs the same length along their first axis",
        10,
        stack(form, f),
        line=f"{__file__}:{f.__code__.co_firstlineno + 1}",
    )
    with pytest.raises(AxisSizeError, match=r"map\(f, np.arange\(10\)\)"):
        form(lambda x: ft.control.map(np.sin, None))(X)
    with pytest.raises(BodyTypeError, match="map of <lambda>: the result is of type str, not an"):
        form(lambda x: ft.control.map(lambda row: "text", x))(X)


# 5: a traced number of steps


@pytest.mark.parametrize(
    "call",
    [
        lambda n: ft.scan(step, 0, None, length=n),
        lambda n: ft.while_loop(lambda c: True, np.sin, 1.0, max_steps=n),
        lambda n: ft.control.map(np.sin, X, batch_size=n),
        lambda n: ft.switch(0, [step] * 2, n, n)[0] + ft.scan(step, 0, X, unroll=n)[0],
    ],
)
def test_5_numbers_of_steps_are_pythons(call):
    with pytest.raises(ConcretizationError) as info:
        ft.jit(call)(3)
    assert " asked for the value of int64[], which depends on argument 0 (n), " in str(info.value)
    assert f"  at {__file__}:{call.__code__.co_firstlineno}\n" in str(info.value)
    assert str(info.value).endswith("python -m functensor.errors 5")
