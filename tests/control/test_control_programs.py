"""Control flow within programs: one equation each, with compiled bodies and little memory."""

import numpy
import pytest
from support.counted import peak_of

import functensor as ft
import functensor.numpy as np

X = numpy.array([0.5, 1.0, 2.0])


def calls(program):
    return [e.primitive for e in program.equations if getattr(e.primitive, "bodies", ())]


# -- what is recorded


def test_a_scan_is_one_equation_with_its_body_below():
    program = ft.make_program(lambda x: ft.scan(lambda c, s: (c * s, c), 1.0, x))(X)
    assert str(program).splitlines() == [
        "<lambda>(a: float64[3]):",
        "    b: float64[], c: float64[3] = scan(1.0, a)",
        "        <lambda>(a: float64[], b: float64[]):",
        "            c: float64[] = multiply(a, b)",
        "            return c, a",
        "    return b, c",
    ]


def test_what_is_the_same_in_every_step_is_computed_once():
    program = ft.make_program(
        lambda w, x: ft.scan(lambda c, s: (c * s + np.exp(w), None), 1.0, x)[0]
    )(2.0, X)
    assert [e.primitive.name for e in program.equations] == ["exp", "scan"]


def test_a_branch_keeps_what_it_computes_to_itself():
    program = ft.make_program(
        lambda p, x: ft.cond(p, lambda: np.exp(x), lambda: np.sum(x) * np.ones(3))
    )(True, X)
    (call,) = calls(program)
    assert len(program.equations) == 1
    assert [[e.primitive.name for e in body.equations] for body in call.bodies] == [
        ["sum", "multiply"],
        ["exp"],
    ]


def test_a_condition_that_is_known_leaves_one_branch():
    program = ft.make_program(lambda x: ft.cond(True, np.exp, np.cos, x))(X)
    assert [e.primitive.name for e in program.equations] == ["exp"]


def test_unrolled_loops_leave_their_steps():
    program = ft.make_program(lambda x: ft.fori_loop(0, 3, lambda i, c: c * c, x, unroll=True))(X)
    assert [e.primitive.name for e in program.equations] == ["multiply"] * 3


def test_reverse_mode_stacks_only_what_differs_by_step():
    w = numpy.ones((3, 3))

    def f(w, xs):
        return np.sum(ft.scan(lambda h, x: (np.tanh(w @ h + x), None), np.zeros(3), xs)[0])

    program = ft.make_program(ft.grad(f))(w, numpy.ones((7, 3)))
    forward, backward = calls(program)
    stacked = [known.shape for known in forward.infer()[1:]]
    assert sorted(stacked) == [(7, 3), (7, 3)]
    # The weights' cotangents are added up, not stacked.
    assert [known.shape for known in backward.infer()] == [(3,), (3, 3)]


@pytest.mark.parametrize("wanted", [0, 1])
def test_reverse_mode_computes_what_is_wanted(wanted):
    def f(w, xs):
        return ft.scan(lambda h, x: (np.tanh(h * w) * x, None), 1.0, xs)[0]

    program = ft.make_program(ft.grad(f, wanted))(2.0, X)
    assert len(calls(program)[1].infer()) == 2


# -- memory and time


def peak(fun):
    """Returns the bytes that a call needs at most at one time."""
    fun()
    fun()
    return peak_of(fun)


def test_a_loop_needs_the_memory_of_a_step():
    x = numpy.ones(10_000)

    def loop(n):
        f = ft.jit(lambda x: ft.fori_loop(0, n, lambda i, c: np.sin(c) + 1, x))
        return peak(lambda: f(x))

    # Machine code, which may take over at any call, has another number of arrays.
    with ft.config.using(deterministic=True):
        assert loop(200) < loop(10) + x.nbytes


def test_reverse_mode_of_a_bounded_loop_keeps_few_steps():
    x = numpy.ones(10_000)

    def grad(n):
        def f(x):
            out = ft.while_loop(lambda c: c[0] < 9, lambda c: np.sin(c) + 1, x, max_steps=n)
            return np.sum(out)

        g = ft.jit(ft.grad(f))
        return peak(lambda: g(x)) / x.nbytes

    # Three times the square root of the number of steps, and a few arrays more.
    assert grad(400) < 3 * 20 + 6


def test_an_associative_scan_takes_few_steps():
    calls = []

    def add(a, b):
        calls.append(a.shape[0])
        return a + b

    prefixes = ft.associative_scan(add, numpy.ones(1024))
    numpy.testing.assert_array_equal(prefixes, numpy.arange(1.0, 1025))
    assert len(calls) <= 20
    assert sum(calls) <= 2 * 1024


CONSTANT = numpy.ones(3)
LOOPS_OF_CONSTANTS = {
    "scan": lambda n, u: ft.scan(
        lambda c, y: ((c[0] + 1, CONSTANT), (CONSTANT, c[0])), (n, u), None, length=4
    ),
    "backwards": lambda n, u: ft.scan(
        lambda c, y: ((c[0] + 1, CONSTANT), CONSTANT + y), (n, u), CONSTANT, reverse=True
    ),
    "fori_loop": lambda n, u: ft.fori_loop(0, 4, lambda i, c: (c[0] + 1, CONSTANT), (n, u)),
    "while_loop": lambda n, u: ft.while_loop(
        lambda c: c[0] < 4, lambda c: (c[0] + 1, CONSTANT), (n, u)
    ),
    "cond": lambda n, u: ft.fori_loop(
        0,
        4,
        lambda i, c: ft.cond(
            c[0] > 1, lambda c: (c[0] + 1, CONSTANT), lambda c: (c[0] + 1, c[1]), c
        ),
        (n, u),
    ),
    "gradient": lambda n, u: ft.grad(
        lambda u: np.sum(
            ft.scan(lambda c, y: ((c[0] + 1, CONSTANT), c[1] * y), (n, u), CONSTANT)[1]
        )
    )(u),
}


@pytest.mark.parametrize("name", LOOPS_OF_CONSTANTS)
def test_loops_take_constants_that_are_arrays(name):
    fun = LOOPS_OF_CONSTANTS[name]
    for n in (numpy.int64(2), 2):
        args = n, numpy.arange(3.0)
        wanted = ft.tree.leaves(fun(*args))
        for x, y in zip(ft.tree.leaves(ft.jit(fun)(*args)), wanted, strict=True):
            numpy.testing.assert_array_equal(numpy.asarray(x), numpy.asarray(y), strict=True)
