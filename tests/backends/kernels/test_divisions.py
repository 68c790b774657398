"""Whole quotients and remainders of kernels: the same bits as NumPy's, machine code's too."""

import numpy as np
import pytest
from support.native import missing, run_compiled

from functensor.backends.kernels.graph import ExprGraph
from functensor.backends.kernels.interpret import interpret
from functensor.backends.kernels.schedule import KernelResult, scheduled


def wholes(dtype):
    """All pairs of numbers at the limits of a dtype, and of small ones."""
    limits = np.iinfo(dtype)
    few = [0, 1, 2, 3, 7, 64, limits.max - 1, limits.max, limits.min, limits.min + 1]
    if limits.min:
        few += [-1, -2, -3, -7, -64]
    return [x.ravel() for x in np.meshgrid(*[np.array(few, dtype)] * 2)]


def of_pairs(operation, x, y):
    """The kernel of an operation of two arrays."""
    graph = ExprGraph((len(x),))
    nodes = [graph.input(number, x.dtype, [0]) for number in range(2)]
    found = graph.op(operation, *nodes)
    return scheduled("pairs", graph, nodes, [KernelResult(found, found.axes)], whole=True)


def assert_numpys(operation, x, y):
    with np.errstate(all="ignore"):
        wanted = getattr(np, operation)(x, y)
    kernel = of_pairs(operation, x, y)
    for run in (by_interpreter, *([] if missing else [by_machine])):
        out = np.full_like(x, 77)
        run(kernel, [x, y, out])
        np.testing.assert_array_equal(out, wanted)
        zeros = wanted == 0
        np.testing.assert_array_equal(np.signbit(out[zeros]), np.signbit(wanted[zeros]))


def by_interpreter(kernel, arrays):
    interpret(kernel, arrays, by_formulas=True)


def by_machine(kernel, arrays):
    run_compiled(kernel, arrays, [(0, 0, len(arrays[0]))])


@pytest.mark.parametrize("dtype", list("bBhHiIqQ"))
@pytest.mark.parametrize("operation", ["floor_divide", "remainder"])
def test_zero_divides_and_the_lowest_number_wraps_around(operation, dtype):
    assert_numpys(operation, *wholes(dtype))


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_remainders_of_floats_are_exact(dtype):
    limits, rng = np.finfo(dtype), np.random.default_rng(3)
    few = [
        *(0.0, 1.0, 0.1, 3.0, 7.25, np.inf, np.nan, limits.max, limits.tiny, limits.eps),
        *(limits.smallest_subnormal, 5 * limits.smallest_subnormal, 2.0 ** (limits.nmant + 1)),
        *np.exp(rng.uniform(-30, 30, 40)),
    ]
    few = np.array([*few, *np.negative(few)], dtype)
    x, y = (v.ravel() for v in np.meshgrid(few, few))
    assert_numpys("fmod", x, y)
    # Near multiples, where a rounded quotient may be one too large.
    count = np.trunc(np.exp(rng.uniform(0, np.log(2) * (limits.nmant + 4), 3000)))
    y = np.exp(rng.uniform(-5, 5, 3000)).astype(dtype)
    x = (count * y).astype(dtype)
    assert_numpys("fmod", x + np.spacing(x) * rng.integers(-2, 3, 3000).astype(dtype), y)
