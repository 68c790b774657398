"""Python's numbers stay weak: in programs, in plans, without them, and under transformations."""

import numpy as np
import pytest

import functensor as ft
import functensor.numpy as fnp
from functensor.jitting.compile import Compiled, compiled


def test_weak_scalars_stay_weak_while_a_program_runs():
    x = np.ones(3, "f4")
    program = ft.make_program(lambda s, x: (s * 2.0) * x)(0.7, x)
    assert program(0.7, x).dtype == np.float32
    assert ft.vmap(lambda x: program(0.7, x))(np.ones((2, 3), "f4")).dtype == np.float32
    for derived in (ft.jacrev, ft.jacfwd):
        found = derived(lambda x: program(0.7, x) * program(0.5, x))(x)
        assert found.dtype == np.float32
    out, _ = ft.jvp(lambda s: program(s, x), (0.7,), (1.0,))
    assert out.dtype == np.float32
    out, _ = ft.vjp(lambda s: program(s, x), 0.7)
    assert out.dtype == np.float32


def test_nested_calls_return_arrays_that_decide_dtypes():
    x = np.ones(3, "f4")

    def inner(s):
        return {"double": s * 2.0, "three": 3.0, "same": s}

    jitted = ft.jit(inner)
    for key in ("double", "three", "same"):
        for f in (lambda s, x: jitted(s)[key] * x, lambda s, x: jitted(2.5)[key] * x):  # noqa: B023
            assert f(0.7, x).dtype == np.float64
            assert ft.jit(f)(0.7, x).dtype == np.float64
            assert ft.vmap(f, (None, 0))(0.7, x).dtype == np.float64


@pytest.mark.parametrize("weak", [0.7, 3, True, 1 + 2j])
def test_programs_without_a_plan_give_the_same(weak):
    x = fnp.asarray(np.linspace(0.5, 2, 3, dtype="f4"))

    def f(s, x):
        return (s * 2 + 1) * x, fnp.where(x > 1, s, s * 2), s * 3, x + s

    wanted = ft.jit(f)(weak, x)
    program = ft.make_program(f)(weak, x)
    made = Compiled(program)
    made.run = None
    for values in ([weak, x], [np.asarray(weak), x]):
        for got, other, plain in zip(made(values), wanted, f(weak, x), strict=True):
            assert got.dtype == other.dtype == np.asarray(plain).dtype
            np.testing.assert_allclose(got, other, rtol=1e-6)
    assert compiled(program).plan is not None


NUMBERS = {
    "a function of a number": lambda t, x: x + fnp.sin(t),
    "operators": lambda t, x: x * (abs(-t) * 2 + 1) ** 2,
    "a function of two": lambda t, x: x + fnp.maximum(t, 2.0),
    "operators on what a function gave": lambda t, x: fnp.sin(t) * 2.0 * x,
}


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_decide_dtypes_as_they_do_when_evaluated(name):
    """Results of NumPy's functions of numbers decide promotions; those of operators do not."""
    fun, x = NUMBERS[name], np.ones(3, "f4")
    wanted = fun(0.5, x)
    for got in (ft.jit(fun)(0.5, x), ft.jit(ft.vmap(lambda x: fun(0.5, x)))(x)):
        assert got.dtype == wanted.dtype
        np.testing.assert_array_equal(got, wanted)
    assert ft.eval_shape(fun, 0.5, x).dtype == wanted.dtype


WEAK = [True, 3, 2.5, 1 + 2j]
OPERATIONS = {
    "a + b": lambda a, b: a + b,
    "a - b": lambda a, b: a - b,
    "a * b": lambda a, b: a * b,
    "a / b": lambda a, b: a / b,
    "a // b": lambda a, b: a // b,
    "a % b": lambda a, b: a % b,
    "a ** b": lambda a, b: a**b,
    "a << b": lambda a, b: a << b,
    "a >> b": lambda a, b: a >> b,
    "a & b": lambda a, b: a & b,
    "a | b": lambda a, b: a | b,
    "a ^ b": lambda a, b: a ^ b,
    "(a < b) + (a == b)": lambda a, b: (a < b) + (a == b),
    "(a >= b) * True": lambda a, b: (a >= b) * True,
    "-a": lambda a, b: -a,
    "+a": lambda a, b: +a,
    "~a": lambda a, b: ~a,
    "abs(a)": lambda a, b: abs(a),
    "a ** 2": lambda a, b: a**2,
    "True + a": lambda a, b: True + a,
    "a * b + a": lambda a, b: a * b + a,
    "2.0 * a - b": lambda a, b: 2.0 * a - b,
    "add": fnp.add,
    "multiply": fnp.multiply,
    "power": fnp.power,
    "maximum": fnp.maximum,
    "equal": fnp.equal,
    "where": lambda a, b: fnp.where(a, a, b),
    "negative of a square": lambda a, b: fnp.negative(fnp.square(a + 1)),
    "sqrt(abs(a))": lambda a, b: fnp.sqrt(abs(a)),
    "asarray": lambda a, b: fnp.asarray(a) * b,
    "array": lambda a, b: fnp.array(a) + b,
    "sum": lambda a, b: fnp.sum(a) * b,
}
DTYPES = ["bool", "int8", "int64", "float16", "float32", "complex64"]


def dtype_of(x):
    return np.asarray(x).dtype


@pytest.mark.filterwarnings("ignore:Bitwise inversion '~' on bool is deprecated")
@pytest.mark.parametrize("a", WEAK, ids=repr)
@pytest.mark.parametrize("b", WEAK, ids=repr)
def test_arithmetic_of_numbers_is_pythons(a, b):
    """By itself and beside arrays of all dtypes it gives what it gives where nothing is staged."""
    others = [np.array([1, 0, 1]).astype(dtype) for dtype in DTYPES]

    def done(name, a, b):
        number = OPERATIONS[name](a, b)
        return [number, *(fnp.multiply(number, x) for x in others)]

    wanted = {}
    for name in OPERATIONS:
        try:
            wanted[name] = done(name, a, b)
        except TypeError:
            continue  # Python has no such operator for these numbers
    assert len(wanted) > len(OPERATIONS) // 2
    found = ft.jit(lambda a, b: {name: done(name, a, b) for name in wanted})(a, b)
    for name, results in wanted.items():
        for got, x in zip(found[name], results, strict=True):
            assert dtype_of(got) == dtype_of(x), name
            # Half precision has eleven bits.
            precision = {"float16": 1e-3, "float32": 1e-6, "complex64": 1e-6}
            rtol = precision.get(str(dtype_of(x)), 1e-14)
            np.testing.assert_allclose(np.asarray(got), np.asarray(x), rtol=rtol)


def test_three_booleans():
    assert ft.jit(lambda a, b, c: a * b + c)(True, True, True) == 2
    assert ft.jit(lambda a, b: a - b)(True, True).dtype == np.int64
    x = np.array([200, 3], "uint8")
    # The sum of two numbers by a function is an array, which decides the dtype.
    assert ft.jit(lambda a, b, x: fnp.add(a, b) + x)(200, 200, x).tolist() == [600, 403]


def test_numbers_that_transformations_pass_on():
    x = np.ones(3, "f4")
    fun = lambda t, b, x: fnp.sum(x * (t * 2.0) * (b + b))  # noqa: E731
    for transformed in (
        ft.grad(fun, 2), ft.grad(fun), ft.vmap(fun, (None, None, 0)),
        lambda t, b, x: ft.jvp(lambda x: fun(t, b, x), (x,), (x,))[1],
        lambda t, b, x: ft.jvp(lambda t: fun(t, b, x), (t,), (1.0,))[1],
        lambda t, b, x: ft.grad(lambda x: fun(t, b, x))(x),
        lambda t, b, x: ft.fori_loop(0, 2, lambda i, c: c * (t * 2.0) * (b + b), x),
    ):  # fmt: skip
        got, wanted = ft.jit(transformed)(0.5, True, x), transformed(0.5, True, x)
        assert got.dtype == wanted.dtype
        np.testing.assert_allclose(got, wanted, rtol=1e-6)
