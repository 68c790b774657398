"""Python's numbers in loops that run plainly have the values that they have under jit."""

import functools
import math
import operator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import functensor as ft
import functensor.numpy as fnp
from functensor.primitives.core.python_numbers import (
    Complex,
    Float,
    Int,
    as_number,
    as_python_number,
)

pytestmark = [
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
    pytest.mark.filterwarnings("ignore::functensor.jitting.retraces.RetraceWarning"),
]

BINARY = [
    operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod,
]  # fmt: skip
WHOLE = [operator.and_, operator.or_, operator.xor]
UNARY = [operator.neg, abs, lambda x: x * x]
INTEGERS = [0, 1, -1, 3, -7, 2**40, 2**62, -(2**63), 2**63 - 1]
FLOATS = [0.0, -0.0, 1.5, -2.5, 1e200, 5e-324, math.inf, -math.inf, math.nan]
NUMBERS = st.sampled_from([*INTEGERS, *FLOATS])


def outcome(f, *args):
    """Returns what a call gives: leaves with their dtypes, or the error's class."""
    try:
        leaves = ft.tree.leaves(f(*args))
    except (ArithmeticError, TypeError, ValueError) as error:
        return type(error)
    return [(np.asarray(x).dtype, repr(np.asarray(x).tolist())) for x in leaves]


def loops(body, start):
    """Returns a loop of each kind with a body of a number and a counter."""
    return {
        "fori": lambda: ft.fori_loop(0, 4, lambda i, s: body(s, i), start),
        "scan": lambda: ft.scan(lambda s, _: (body(s, 2), s), start, None, length=4),
        "while": lambda: ft.while_loop(
            lambda c: c[0] < 4, lambda c: (c[0] + 1, body(c[1], c[0])), (0, start)
        ),
    }


STEPS = st.lists(
    st.tuples(st.sampled_from([*BINARY, *WHOLE, *UNARY]), NUMBERS, st.integers(0, 2)),
    min_size=1,
    max_size=4,
)


@given(NUMBERS, STEPS, st.sampled_from(["fori", "scan", "while"]))
def test_plain_loops_of_numbers_are_as_under_jit(start, steps, kind):
    def body(s, i):
        for operation, number, place in steps:
            if operation in UNARY:
                s = operation(s)
            else:
                # Python asks a float first, which takes an integer for one of its own.
                place = 0 if type(number) is float and place == 1 else place
                s = operation(*[(s, number), (number, s), (s, i)][place])
        return s

    run = loops(body, start)[kind]
    assert outcome(run) == outcome(ft.jit(run))


@pytest.mark.parametrize("kind", ["fori", "scan", "while"])
@pytest.mark.parametrize(
    ("start", "body"),
    [
        (1.0, lambda s, i: 1.0 / (s - s)),
        (3, lambda s, i: s * 2**40),
        (3, lambda s, i: s << 40),
        (3, lambda s, i: s // 0),
        (3, lambda s, i: s % (s - s)),
        (10.0, lambda s, i: s**2.5 * 1e200),
        (-3.0, lambda s, i: s**0.5),
        (2, lambda s, i: s**-1),
        (2, lambda s, i: s**i),
        (1.0, lambda s, i: s + 1 / i),
        (2.0, lambda s, i: divmod(s, 0.0)[1]),
        (1j, lambda s, i: s / 0),
        (True, lambda s, i: ~s & 5 if s is None else s),
    ],
)
def test_what_pythons_arithmetic_refuses(kind, start, body):
    run = loops(body, start)[kind]
    assert outcome(run) == outcome(ft.jit(run))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "complex64"])
def test_numbers_in_plain_loops_decide_no_promotion(dtype):
    x = np.ones(3, dtype)

    def run(x):
        def step(c, row):
            s, _ = c
            s = s + 1
            array = fnp.asarray(row)
            return (s, array * s + s * array - np.multiply(array, s)), s * array

        return ft.scan(step, (1, x), np.ones((2, 3), dtype))

    for wanted, got in zip(ft.tree.leaves(ft.jit(run)(x)), ft.tree.leaves(run(x)), strict=True):
        assert got.dtype == wanted.dtype
        np.testing.assert_array_equal(got, wanted)


def test_numbers_beside_numpys_arrays_decide_no_promotion():
    seen = []

    def step(i, s):
        seen.extend([np.ones(2, "float32") * s, s * np.ones(2, "float32"), np.float32(2) + s])
        return s * 1.5

    ft.fori_loop(0, 2, step, 1.0)
    assert {x.dtype for x in seen} == {np.dtype("float32")}


def test_numbers_of_plain_loops_are_pythons_in_all_else():
    seen = []

    def step(i, s):
        seen.append((["a", "b", "c"][i], math.sqrt(s), list(range(i)), f"{s}", s > 1, {i: s}[i]))
        return s * 2

    assert float(ft.fori_loop(0, 3, step, 1.0)) == 8.0
    assert seen[2] == ("c", 2.0, [0, 1], "4.0", True, 4.0)
    assert isinstance(seen[0][-1], float)


NESTED = {
    "grad": lambda s: ft.grad(lambda x: x * x * s)(s),
    "vmap": lambda s: fnp.sum(ft.vmap(lambda x: x * s)(np.ones(3))),
    "jit": lambda s: ft.jit(lambda x: x / 3)(s),
    "jvp": lambda s: ft.jvp(lambda x: x * s, (s,), (1.0,))[1],
    "cond": lambda s: ft.cond(s > 0, lambda x: x / 2, lambda x: x * 2.0, s),
    "fori": lambda s: ft.fori_loop(0, 3, lambda i, x: x + s, s),
    "scan": lambda s: ft.scan(lambda c, x: (c * s, x), s, None, length=2)[0],
    "where": lambda s: fnp.where(s > 1, s, 2.0),
    "linspace": lambda s: fnp.linspace(0.0, s, 3)[1],
    "asarray": lambda s: fnp.asarray([s, 1.0])[0] + fnp.asarray(s),
    "checkpoint": lambda s: ft.checkpoint(lambda x: x * s)(s),
    "function": lambda s: fnp.sin(s) + fnp.maximum(s, 1.0),
}


@pytest.mark.parametrize("name", NESTED)
def test_numbers_of_plain_loops_go_where_pythons_go(name):
    def run(x):
        return ft.fori_loop(0, 2, lambda i, s: NESTED[name](s) * 1.0 + s, x)

    wanted = outcome(lambda: NESTED[name](1.5))
    assert outcome(lambda: NESTED[name](as_number(1.5))) == wanted
    assert isinstance(wanted, list)
    plainly, jitted = run(1.5), ft.jit(run)(1.5)
    assert plainly.dtype == jitted.dtype
    np.testing.assert_allclose(plainly, jitted, rtol=1e-12)


def test_numbers_that_branches_return():
    """As the docs say: eagerly nothing is known of the other branch, whose dtype jit takes."""

    def run(c, x):
        return ft.cond(x > 0, lambda c: c * 2, lambda c: c * x, c)

    one = np.float32(1)
    assert (run(1.5, one).dtype, ft.jit(run)(1.5, one).dtype) == ("float64", "float32")
    assert run(1.5, -one).dtype == ft.jit(run)(1.5, -one).dtype == "float32"


def test_jitted_functions_under_hooks_get_numbers_that_divide_by_zero():
    tree = {"a": [1.0, np.ones(2)], "b": None}
    seen = []

    @functools.partial(ft.jit, static_argnames="n")
    def f(tree, x, n):
        seen.append((tree["a"][1] is given["a"][1], type(n)))
        return tree["a"][0] / x

    given = tree
    with ft.hooks.use(ft.hooks.FnHook(forward=lambda op, inputs, out: None)):
        assert float(f(tree, 0.0, n=3)) == math.inf
        assert math.isnan(float(f(tree, x=math.nan, n=3)))
    # NumPy's arrays are ours, so that hooks see what is done with them, in every run.
    assert set(seen) == {(False, int)}


def test_classes_of_numbers():
    for x, kind in ((1, Int), (1.5, Float), (1j, Complex)):
        assert type(as_number(x)) is kind
        assert type(as_python_number(as_number(x))) is type(x)
        assert as_python_number(-as_number(x)) == -x
        assert pow(as_number(x), 2) == x * x
    assert as_number(True) is True
    assert pow(as_number(7), 3, 5) == 3
    assert ~as_number(5) == -6
    assert +as_number(5) == 5


@pytest.mark.parametrize("kind", ["fori", "scan", "while"])
@pytest.mark.parametrize("wrapped", [lambda f: f, ft.jit])
@pytest.mark.parametrize(
    ("words", "start", "body"),
    [
        ("divide made infinity of float", 1.0, lambda s, i: 1.0 / (s - s)),
        ("divide made infinity of int", 1, lambda s, i: 1 / (s - s)),
        ("multiply made infinity of float", 1e100, lambda s, i: s * s),
        ("power made infinity of float", 1e100, lambda s, i: s**2.5),
        ("subtract made NaN of float", 1e300, lambda s, i: s * math.inf - s * math.inf),
    ],
)
def test_check_finite_names_the_operation_on_numbers(kind, wrapped, words, start, body):
    run = loops(body, start)[kind] if wrapped is not ft.jit else None

    def jitted(x):
        return loops(body, x)[kind]()

    call = run if run is not None else lambda: ft.jit(jitted)(start)
    with ft.config.using(check_finite=True), pytest.raises(ft.errors.NonFiniteError) as caught:
        call()
    assert words in str(caught.value)
    assert __file__ in str(caught.value)
    # Without it the same is infinity or NaN.
    assert not all(np.isfinite(x).all() for x in ft.tree.leaves(call()))


LARGE = 2**70
TOO_LARGE = {
    "returned": lambda s, i: LARGE,
    "64 bits": lambda s, i: 2**63,
    "add": lambda s, i: s + LARGE,
    "subtract": lambda s, i: LARGE - s,
    "multiply": lambda s, i: s * LARGE,
    "floor_divide": lambda s, i: s // LARGE,
    "remainder": lambda s, i: s % LARGE,
    "or": lambda s, i: s | 2**63,
    "less": lambda s, i: (s < LARGE) * 1 + s,
    "float": lambda s, i: s * 0.5 + LARGE,
}


@pytest.mark.parametrize("kind", ["fori", "scan", "while"])
@pytest.mark.parametrize("name", TOO_LARGE)
@pytest.mark.parametrize("start", [3, np.int64(3)])
def test_integers_that_64_bits_do_not_hold(name, kind, start):
    begin = start * 1.0 if name == "float" else start
    plainly = outcome(loops(TOO_LARGE[name], begin)[kind])
    assert plainly == outcome(ft.jit(lambda x: loops(TOO_LARGE[name], x)[kind]()), begin)
    assert (plainly is OverflowError) == (name not in ("less", "float"))


RETURNING = {
    "cond": lambda: ft.cond(True, lambda x: LARGE, lambda x: x, 1),
    "jit": lambda: ft.jit(lambda: LARGE)(),
    "vjp": lambda: ft.vjp(lambda x: LARGE, 1.0)[0],
    "jvp": lambda: ft.jvp(lambda x: LARGE, (1.0,), (1.0,)),
    "vmap": lambda: ft.vmap(lambda x: LARGE)(np.ones(2)),
    "init": lambda: ft.fori_loop(0, 2, lambda i, c: c, LARGE),
}


@pytest.mark.parametrize("name", RETURNING)
def test_no_array_holds_an_integer_of_pythons(name):
    with pytest.raises(OverflowError, match="an integer of 71 bits"):
        RETURNING[name]()


def test_numbers_decide_no_dtype_in_functions_of_numpys_either():
    x = np.ones(2, "float32")
    for number, whole in ((2.5, 1), (as_number(2.5), as_number(1))):
        assert fnp.result_type("float32", number) == np.result_type(x, number) == "float32"
        assert np.where(x > 0, x, number).dtype == np.clip(x, whole, number).dtype == "float32"
        assert fnp.where(x > 0, x, number).dtype == "float32"
        assert np.stack([number, whole]).tolist() == [2.5, 1.0]
        assert np.linspace(0, number, whole + 1).tolist() == [0.0, 2.5]


@pytest.mark.parametrize(
    ("body", "instead"),
    [
        (lambda s, i: s + 1.0 / i, lambda s, i: s + fnp.divide(1.0, i)),
        (lambda s, i: s + True / i, lambda s, i: s + 1 / i),
        (lambda s, i: s + (i > 5) / (i > 9), lambda s, i: s + fnp.divide(i > 5, i > 9)),
    ],
)
def test_what_python_computes_itself_as_the_docs_say(body, instead):
    run = loops(body, 0.0)["fori"]
    assert outcome(run) is ZeroDivisionError
    wanted = outcome(ft.jit(run))
    assert wanted == outcome(loops(instead, 0.0)["fori"])
    assert wanted[0][1] in ("inf", "nan")
