"""Python's numbers stay weak: in programs, in plans, without them, and under transformations."""

import numpy as np
import pytest

import functensor as ft
import functensor.numpy as fnp
from functensor.programs.compiled import Compiled, compiled


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
    made.plan = None
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
    """What NumPy's functions give of Python's numbers decides promotions; operators' does not."""
    fun, x = NUMBERS[name], np.ones(3, "f4")
    wanted = fun(0.5, x)
    for got in (ft.jit(fun)(0.5, x), ft.jit(ft.vmap(lambda x: fun(0.5, x)))(x)):
        assert got.dtype == wanted.dtype
        np.testing.assert_array_equal(got, wanted)
    assert ft.eval_shape(fun, 0.5, x).dtype == wanted.dtype
