"""Optimizers and their wrappers go 100 steps as Optax's or PyTorch's."""

import numpy
import pytest
from optim.equal_steps import KEPT, LINES, RECORD, gradients, optimizer_of, start

import functensor as ft
from functensor import optim

with numpy.load(RECORD) as file:
    RECORDED = dict(zip(LINES, file["rows"], strict=True))


@pytest.mark.parametrize("line", LINES)
def test_100_steps_are_theirs(line):
    optimizer = optimizer_of(line.split(" | ")[0], optim)
    params = start()
    state = optimizer.init(params)
    rows = []
    for step in range(1, 101):
        grads = gradients(line, ft.tree.map(numpy.asarray, params), step)
        params, state = optimizer.update(params, state, grads)
        if step in KEPT:
            rows.append(numpy.concatenate([numpy.ravel(x) for x in ft.tree.leaves(params)]))
    # Optax has the weights of Adafactor's means and the rates of schedules in single precision,
    # PyTorch the product of NAdam's momenta.
    single = line.startswith(("adafactor", "nadam")) or "warm_up" in line
    tolerance = 1e-6 if single else 1e-9
    numpy.testing.assert_allclose(rows, RECORDED[line], rtol=tolerance, atol=tolerance / 100)
    assert int(state.step) == 100
