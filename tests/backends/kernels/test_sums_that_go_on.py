"""Sums in loops within loops that go on where the sum so far ends, one number after the other."""

import numpy as np
import pytest
from support.native import missing, run_compiled

from functensor.backends.kernels.check import KernelError, check_kernel
from functensor.backends.kernels.interpret import interpret
from functensor.backends.kernels.kernel import (
    Buffer,
    Fold,
    For,
    Index,
    Load,
    LoopAxis,
    LoopKernel,
    LoopValue,
    Store,
)
from functensor.backends.kernels.printed import kernel_text

F4, F8 = np.dtype(np.float32), np.dtype(np.float64)
ROWS, TERMS, LANES = 5, 70, 16


def sums_kernel(goes_on=True, lanes=LANES, steps=1, operation="add", dtype=F4):
    """Returns a kernel of sums of products over rows and terms, for as many columns as lanes."""
    row, term, column = LoopAxis("row", ROWS), LoopAxis("term", TERMS), LoopAxis("column", LANES)
    x = Buffer("x", F4, (ROWS, TERMS), "in")
    w = Buffer("w", F4, (ROWS, TERMS, LANES), "in")
    out = Buffer("out", F4, (LANES,), "out")
    number, weight, inner = LoopValue(F4), LoopValue(F4), LoopValue(F4)
    total = LoopValue(dtype)
    body = [
        Load(number, x, Index([(row, TERMS), (term, 1)])),
        Load(weight, w, Index([(row, TERMS * LANES), (term, LANES), (column, 1)])),
    ]
    sums = Fold(inner, operation, number, weight, total if goes_on else None)
    outer = Fold(total, "hand_on" if goes_on else "add", inner)
    loops = [
        For(row, [For(term, body, [sums], steps)], [outer]),
        Store(out, Index([(column, 1)]), total),
    ]
    return LoopKernel("sums", [x, w, out], [], [For(column, loops, (), lanes)])


def operands():
    rng = np.random.default_rng(0)
    shapes = (ROWS, TERMS), (ROWS, TERMS, LANES)
    return [rng.normal(size=shape).astype(F4) for shape in shapes]


def one_by_one(x, w):
    """Adds up all products, each rounded once with the sum: a double has every bit of a product."""
    total = np.zeros(LANES, F4)
    for number, weights in zip(x.ravel(), w.reshape(-1, LANES), strict=True):
        total = (total + np.float64(number) * weights.astype(F8)).astype(F4)
    return total


@pytest.mark.parametrize("lanes", [1, LANES])
def test_sums_go_on(lanes):
    x, w = operands()
    out = np.zeros(LANES, F4)
    interpret(sums_kernel(lanes=lanes), [x, w, out])
    np.testing.assert_array_equal(out, one_by_one(x, w))
    parts = np.zeros(LANES, F4)
    interpret(sums_kernel(goes_on=False), [x, w, parts])
    assert np.any(parts != out)


@pytest.mark.skipif(bool(missing), reason=missing)
@pytest.mark.parametrize("lanes", [1, LANES])
def test_compiled_sums_go_on(lanes):
    x, w = operands()
    found = np.full(LANES, np.nan, F4)
    run_compiled(sums_kernel(lanes=lanes), [x, w, found], [(0, 0, 0)])
    np.testing.assert_array_equal(found, one_by_one(x, w))


def test_text_of_sums_that_go_on():
    text = kernel_text(sums_kernel())
    assert "for row in 5, folding v4 = hand_on(v3):" in text
    assert "for term in 70, folding v3 = add(v1 * v2) from v4:" in text


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"steps": 8, "lanes": 1}, "not one of single places"),
        ({"operation": "maximum"}, "begins with"),
        ({"dtype": F8}, "begins with|gives"),
    ],
)
def test_rules_of_sums_that_go_on(changes, match):
    check_kernel(sums_kernel())
    with pytest.raises(KernelError, match=match):
        check_kernel(sums_kernel(**changes))
