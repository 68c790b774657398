"""Lanes of loops of short steps that fold: several sums side by side."""

import numpy as np
import pytest
from support.native import missing, run_compiled

from functensor.backends.kernels.graph import ExprGraph, function
from functensor.backends.kernels.interpret import interpret
from functensor.backends.kernels.kernel import For, all_statements
from functensor.backends.kernels.schedule import KernelResult, scheduled


def folding(columns, of, dtype="float32", rows=3):
    """The kernel of a fold of what is computed of each row."""
    graph = ExprGraph((rows, columns))
    x = graph.input(0, dtype, [0, 1])
    found = graph.fold("add", of(x), [1])
    return scheduled("folding", graph, [x], [KernelResult(found, found.axes)], whole=True)


def lanes(kernel):
    return [s.lanes for s in all_statements(kernel.body) if isinstance(s, For) and s.folds]


@pytest.mark.parametrize(
    ("columns", "of", "wanted"),
    [
        (512, lambda x: x, 64),
        (512, lambda x: x * x, 64),
        # The last places would be one vector and three idle ones.
        (16 * 13, lambda x: x * x, 16),
        (512, function("exp"), 16),
        (512, lambda x: (x * x - x) * (x + 1) * (x + 2), 16),
    ],
)
def test_short_steps_have_several_sums(columns, of, wanted):
    assert lanes(folding(columns, of)) == [wanted]


@pytest.mark.skipif(bool(missing), reason=missing)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("columns", [64, 128, 64 * 200])
def test_machine_code_adds_them_in_the_same_order(columns, dtype):
    kernel = folding(columns, lambda x: x * x, dtype)
    x = np.random.default_rng(5).normal(size=(3, columns)).astype(dtype)
    wanted, found = np.zeros(3, dtype), np.zeros(3, dtype)
    interpret(kernel, [x, wanted])
    run_compiled(kernel, [x, found], [(0, 0, 3)])
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_allclose(found, np.sum(x.astype("float64") ** 2, axis=1), rtol=1e-6)
