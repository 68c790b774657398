"""Loops and choices over many arrays: plans grow with their number, and results lie apart."""

import numpy as np
import pytest

import functensor as ft
import functensor.numpy as fnp
from functensor.backends.memory_search import called_apart

MANY = 60


def halves(i, carry):
    return [0.5 * x for x in carry]


LOOPS = {
    "cond": lambda p: ft.cond(p[0].sum() > 0, lambda p: [2 * x for x in p], lambda p: p, p),
    "fori_loop": lambda p: ft.fori_loop(0, 3, halves, p),
    "scan": lambda p: ft.scan(lambda c, _: (halves(0, c), c[0]), p, None, length=3)[0],
    "while_loop": lambda p: ft.while_loop(lambda c: c[0].sum() > 1, lambda c: halves(0, c), p),
}


def arrays(count):
    return [fnp.asarray(np.arange(4.0) + i) for i in range(count)]


@pytest.mark.parametrize("name", LOOPS)
def test_the_text_grows_with_the_number_of_arrays(name):
    one, two = (len(ft.jit(LOOPS[name]).lower(arrays(n)).source) for n in (MANY, 2 * MANY))
    assert two < 3 * one


@pytest.mark.parametrize("name", LOOPS)
@pytest.mark.parametrize("sign", [1, -1])
def test_results_are_those_of_eager_mode(name, sign):
    given = [sign * x for x in arrays(MANY)]
    for out, expected in zip(ft.jit(LOOPS[name])(given), LOOPS[name](given), strict=True):
        np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("steps", [0, 2])
def test_what_goes_through_unchanged_lies_apart(steps):
    @ft.jit
    def swapped(p):
        return ft.fori_loop(0, steps, lambda i, c: c[::-1], p)

    given = [np.arange(4.0) + i for i in range(MANY)]
    outs = swapped(given)
    before = [np.array(x) for x in outs]
    for x in given:
        x[:] = -1
    for out, expected in zip(outs, before, strict=True):
        np.testing.assert_array_equal(out, expected)


CONSTANT = np.arange(2000.0)
RETURNING_CONSTANTS = {
    "cond": lambda p: ft.cond(p[0][1] > 0, lambda p: [CONSTANT, *p[1:]], lambda p: p, p),
    "scan": lambda p: ft.scan(
        lambda c, _: ([CONSTANT, *map(fnp.sort, c[1:])], None), p, None, length=2
    )[0],
    "nested": lambda p: ft.cond(
        p[0][1] > 0, lambda p: RETURNING_CONSTANTS["cond"](p), lambda p: p[::-1], p
    ),
}


@pytest.mark.parametrize("name", RETURNING_CONSTANTS)
@pytest.mark.parametrize("compiled", [False, True])
def test_nothing_is_written_into_constants_of_bodies(name, compiled):
    def function(p):
        return [fnp.sin(x) + 1 for x in RETURNING_CONSTANTS[name](p)]

    given = [np.arange(2000.0) + i for i in range(MANY)]
    expected = [np.array(x) for x in function(given)]
    jitted = ft.jit(function)
    if compiled:
        jitted.compile(given)
    for _ in range(3):
        for out, right in zip(jitted(given), expected, strict=True):
            np.testing.assert_allclose(out, right, rtol=1e-14)


def test_results_of_a_call_are_made_apart():
    x, y = np.arange(6.0), np.arange(4.0)
    own = np.zeros(3)
    outs = called_apart(lambda given: [given[0][1:], own, y[:2], own, own[1:], 2.0], [x])
    assert outs[1] is own or outs[3] is own
    assert outs[5] == 2.0
    arrays = outs[:5]
    for i, one in enumerate(arrays):
        assert not np.may_share_memory(one, x)
        assert not any(np.may_share_memory(one, other) for other in arrays[:i])
