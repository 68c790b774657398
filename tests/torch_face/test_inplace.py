"""``inplace=True`` of functions and modules: what they are given holds the result."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import functensor as ft
import functensor.torch as torch

F, nn = torch.nn.functional, torch.nn
# PyTorch's functions with ``inplace``, their other arguments, and the modules that call them.
FUNCTIONS = {
    "alpha_dropout": ({"p": 0.5, "training": True}, "AlphaDropout"), "celu": ({}, "CELU"),
    "dropout": ({"p": 0.5, "training": True}, "Dropout"), "dropout1d": ({}, "Dropout1d"),
    "dropout2d": ({}, "Dropout2d"), "dropout3d": ({}, "Dropout3d"),
    "elu": ({"alpha": 0.5}, "ELU"),
    "feature_alpha_dropout": ({"training": True}, "FeatureAlphaDropout"),
    "hardsigmoid": ({}, "Hardsigmoid"), "hardswish": ({}, "Hardswish"),
    "hardtanh": ({"min_val": -0.5}, "Hardtanh"), "leaky_relu": ({}, "LeakyReLU"),
    "mish": ({}, "Mish"), "relu": ({}, "ReLU"), "relu6": ({}, "ReLU6"),
    "rrelu": ({"training": True}, "RReLU"), "selu": ({}, "SELU"), "silu": ({}, "SiLU"),
    "threshold": ({"threshold": 0.1, "value": 5.0}, "Threshold"),
}  # fmt: skip


def values():
    numbers = torch.arange(16.0).reshape(2, 2, 2, 2) - 7.5
    return numbers.unsqueeze(0)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_write_to_what_they_are_given(name):
    options, _ = FUNCTIONS[name]
    function = getattr(F, name)
    torch.manual_seed(0)
    wanted = function(values(), **options)
    torch.manual_seed(0)
    base = torch.stack([values(), values()])
    x = base[1]
    assert function(x, **options, inplace=True) is x
    assert base[1].tolist() == wanted.tolist()
    assert base[0].tolist() == values().tolist() != wanted.tolist()
    assert list(inspect.signature(function).parameters)[-1] == "inplace"


@pytest.mark.parametrize("name", FUNCTIONS)
def test_modules_write_to_what_they_are_given(name):
    options, kind = FUNCTIONS[name]
    options = {key: value for key, value in options.items() if key != "training"}
    x = values()
    torch.manual_seed(0)
    wanted = getattr(nn, kind)(**options)(x)
    assert x.tolist() == values().tolist()
    torch.manual_seed(0)
    assert getattr(nn, kind)(**options, inplace=True)(x) is x
    assert x.tolist() == wanted.tolist()


def test_gradients_are_those_of_the_result():
    x = torch.tensor([-1.0, 2.0], requires_grad=True)
    y = x * 3
    kept = y
    nn.Sequential(nn.LeakyReLU(0.5, inplace=True), nn.ReLU6(inplace=True))(y)
    (y * kept).sum().backward()
    assert y.tolist() == [0.0, 6.0]
    assert x.grad.tolist() == [0.0, 0.0]
    with pytest.raises(RuntimeError, match=r"inplace=True: .* leaf"):
        F.elu(x, inplace=True)


def test_nothing_is_dropped_outside_of_training():
    x = torch.ones(3)
    assert F.dropout(x, 0.5, False, True) is x
    assert nn.Dropout(inplace=True).eval()(x) is x
    assert x.tolist() == [1.0, 1.0, 1.0]


def test_within_transformations():
    def f(x):
        y = x * 2
        nn.ReLU(inplace=True)(y)
        return (y * y).sum()

    x = torch.tensor([-1.0, 2.0])
    assert ft.grad(f)(x).tolist() == [0.0, 16.0]
    assert ft.jit(f)(x).item() == 16.0
    with pytest.raises(ft.errors.ImmutableArrayError, match=r"inplace=True: .* an argument"):
        ft.jit(nn.ReLU(inplace=True))(x)


def test_arrays_are_not_written_to():
    x = ft.numpy.array([-1.0, 2.0])
    assert np.asarray(F.relu(x, inplace=True)).tolist() == [0.0, 2.0]
    assert np.asarray(x).tolist() == [-1.0, 2.0]
