"""Pure optimizers, wrappers and L-BFGS on a GPU go as on the CPU."""

import numpy
import pytest
from optim.equal_steps import LINES, gradients, optimizer_of, start
from optim.test_optimizer_table import eagerly, train, valley
from optim.test_optimizer_table import start as beginning

import functensor as ft
import functensor.numpy as np
from functensor import optim

pytestmark = pytest.mark.gpu


def on_host(tree):
    return ft.tree.map(lambda x: numpy.asarray(ft.to_device(x, "cpu")), tree)


def ten_steps(line, device):
    optimizer = optimizer_of(line.split(" | ")[0], optim)
    params = ft.tree.map(lambda x: ft.to_device(np.asarray(x), device), start())
    state = optimizer.init(params)
    for step in range(1, 11):
        grads = gradients(line, on_host(params), step)
        grads = ft.tree.map(lambda x: ft.to_device(np.asarray(x), device), grads)
        params, state = optimizer.update(params, state, grads)
    return on_host(params)


@pytest.mark.parametrize("line", LINES)
def test_ten_steps(line):
    here, there = (ten_steps(line, device) for device in ("cpu", "cuda:0"))
    for x, y in zip(ft.tree.leaves(here), ft.tree.leaves(there), strict=True):
        numpy.testing.assert_allclose(y, x, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("jitted", [False, True])
def test_a_line_search(jitted):
    optimizer = optim.lbfgs()
    x = ft.to_device(np.array([-1.2, 1.0]), "cuda:0")
    run = train if jitted else eagerly
    found, state = (ft.jit(run, static_argnums=(0, 1, 3)) if jitted else run)(
        optimizer, valley, x, 40
    )
    numpy.testing.assert_allclose(on_host(found), [1.0, 1.0], rtol=1e-6)
    assert int(state.evaluations) < 150


def test_clipping_by_each_norm():
    optimizer = optim.clipped_by_norm(optim.sgd(0.1), 0.5)
    params = ft.tree.map(lambda x: ft.to_device(x, "cuda:0"), beginning())
    moved, _ = optimizer.update(params, optimizer.init(params), params)
    expected, _ = optimizer.update(beginning(), optimizer.init(beginning()), beginning())
    for x, y in zip(ft.tree.leaves(on_host(moved)), ft.tree.leaves(expected), strict=True):
        numpy.testing.assert_allclose(x, y, rtol=1e-12)
