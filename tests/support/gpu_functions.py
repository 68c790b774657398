"""Functions and arrays with which plans on GPUs are tested, with a GPU and without one."""

import numpy as np

import functensor as ft
import functensor.numpy as fnp
from functensor import nn

RNG = np.random.default_rng(0)


def normal(*shape):
    """Returns random numbers in float32."""
    return RNG.normal(size=shape).astype("f4")


X, Y, ROW = normal(37, 24), normal(37, 24), normal(24)


def layer_loss(p):
    """A loss through a layer norm."""
    return fnp.sum(fnp.sin(nn.layer_norm(*p)))


def gaussian(x):
    """A sum whose gradient takes several functions."""
    return fnp.sum(fnp.tanh(x) * fnp.exp(-x * x) + fnp.log1p(x * x))


def network(params, x, labels):
    """The loss of a perceptron."""
    w, b, v = params
    return fnp.mean(nn.softmax_cross_entropy(nn.relu(x @ w + b) @ v, labels))


def step(params, state, x, labels):
    """A step of Adam."""
    loss, grads = ft.value_and_grad(network)(params, x, labels)
    return *ft.optim.adam(1e-2).update(params, state, grads), loss
