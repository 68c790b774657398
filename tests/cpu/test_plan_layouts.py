"""Regions go over arrays in the order in which they lie in memory."""

import numpy as np
import pytest

import functensor as ft
import functensor.numpy as fnp
from functensor import nn
from functensor.backends import get as get_backend
from functensor.backends.cpu.plan.regions import axis_order, block_source
from functensor.passes.fusion import fusion
from functensor.passes.pipeline import optimized

RNG = np.random.default_rng(0)
X = RNG.normal(size=(4, 3, 9, 8)).astype("float32")
W = RNG.normal(size=(5, 3, 3, 3)).astype("float32")
BIAS = RNG.normal(size=(5, 1, 1)).astype("float32")
ROWS = RNG.normal(size=(7,)).astype("float32")


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(block_source, "SMALLEST_BLOCK_ELEMENTS", 1)
    monkeypatch.setattr(block_source, "LARGEST_BLOCK_ELEMENTS", 64)


def layer(x, w, bias):
    return fnp.tanh(nn.conv(x, w) + bias)


FUNCTIONS = {
    "elementwise": lambda x, w, b, r: layer(x, w, b) * 2,
    "a row beside channels": lambda x, w, b, r: layer(x, w, b) * r[:, None] + 1,
    "sum": lambda x, w, b, r: fnp.sum(layer(x, w, b)),
    "sum over images": lambda x, w, b, r: fnp.sum(layer(x, w, b), axis=0),
    "sum but channels": lambda x, w, b, r: fnp.mean(layer(x, w, b), axis=(0, 2, 3)),
    "max over channels": lambda x, w, b, r: fnp.sin(fnp.max(layer(x, w, b), axis=1)),
    "softmax over channels": lambda x, w, b, r: nn.softmax(layer(x, w, b), axis=1) * 2,
    "softmax over rows": lambda x, w, b, r: nn.softmax(layer(x, w, b), axis=-1) * 2,
    "layer norm": lambda x, w, b, r: nn.layer_norm(layer(x, w, b), fnp.ones(6), fnp.ones(6)) * 2,
    "batch norm": lambda x, w, b, r: (
        (layer(x, w, b) - fnp.mean(layer(x, w, b), (0, 2, 3))[:, None, None]) * 2
    ),
    "transposed": lambda x, w, b, r: fnp.transpose(layer(x, w, b), (0, 3, 2, 1)) * 2 + 1,
    "pooled": lambda x, w, b, r: nn.relu(nn.max_pool(layer(x, w, b), 2) * 2) + 1,
    "two orders": lambda x, w, b, r: layer(x, w, b) * fnp.ones((4, 5, 7, 6)) + fnp.sin(b),
    "gradient": lambda x, w, b, r: ft.grad(lambda w: fnp.sum(layer(x, w, b) ** 2))(w),
    "gradient of the image": lambda x, w, b, r: ft.grad(lambda x: fnp.sum(layer(x, w, b) ** 2))(x),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_do_not_depend_on_the_order(name):
    fun = FUNCTIONS[name]
    program = fusion(optimized(ft.make_program(fun)(X, W, BIAS, ROWS)), 8)
    plan = get_backend("numpy").plan(program)
    assert "fused" in str(program)
    wanted = fun(*map(fnp.asarray, (X, W, BIAS, ROWS)))
    for operands in ([X, W, BIAS, ROWS], [np.asfortranarray(X), W.copy("F"), BIAS, ROWS]):
        (got,) = plan(operands)
        assert got.shape == wanted.shape
        assert got.dtype == wanted.dtype
        np.testing.assert_allclose(got, wanted, rtol=2e-5, atol=2e-5)


def test_channels_stay_last():
    program = fusion(optimized(ft.make_program(layer)(X, W, BIAS)), 8)
    (out,) = program.outputs
    assert axis_order.memory_orders(program)[out] == (0, 2, 3, 1)
    (got,) = get_backend("numpy").plan(program)([X, W, BIAS])
    assert got.transpose(0, 2, 3, 1).flags.c_contiguous
    assert layer(*map(fnp.asarray, (X, W, BIAS))).shape == got.shape
