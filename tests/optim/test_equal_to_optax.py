"""Optimizers and their wrappers go 100 steps as Optax's."""

import numpy
import pytest
from optim.optax_table import KEPT, LINES, RECORD, gradients, optimizer_of, start

import functensor as ft
from functensor import optim

with numpy.load(RECORD) as file:
    RECORDED = dict(zip(LINES, file["rows"], strict=True))


@pytest.mark.parametrize("line", LINES)
def test_100_steps_are_optaxs(line):
    optimizer = optimizer_of(line.split(" | ")[0], optim)
    params = start()
    state = optimizer.init(params)
    rows = []
    for step in range(1, 101):
        grads = gradients(line, ft.tree.map(numpy.asarray, params), step)
        params, state = optimizer.update(params, state, grads)
        if step in KEPT:
            rows.append(numpy.concatenate([numpy.ravel(x) for x in ft.tree.leaves(params)]))
    numpy.testing.assert_allclose(rows, RECORDED[line], rtol=1e-9, atol=1e-11)
    assert int(state.step) == 100
