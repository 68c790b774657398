"""The plain arrays behind values, under every transformation and of every kind."""

import numpy
import pytest

import functensor as ft
import functensor.numpy as np
from functensor.hooks.values import (
    examples_in,
    magnitudes,
    plain_value,
    tangents_of,
    wait_for,
)

X = numpy.array([0.5, -1.0, 2.0])
BATCH = numpy.stack([X, 2 * X])


def seen(transformed, *args):
    """Returns what is behind the operand of a sine, and of how many examples it is."""
    found = []

    def see(op, inputs, output):
        found.append((plain_value(inputs[0]), examples_in(inputs[0])))

    with ft.hooks.use(ft.hooks.FnHook(forward=see), match="sin"):
        transformed(*args)
    return found[-1]


WAYS = {
    "eager": (np.sin, X, 1),
    "jit": (ft.jit(np.sin), X, 1),
    "grad": (ft.grad(lambda x: np.sum(np.sin(x))), X, 1),
    "hessian": (ft.hessian(lambda x: np.sum(np.sin(x))), X, 1),
    "vmap": (ft.vmap(np.sin), BATCH, 2),
    "vmap of vmap": (ft.vmap(ft.vmap(np.sin)), BATCH, 6),
    "vmap of grad": (ft.vmap(ft.grad(lambda x: np.sum(np.sin(x)))), BATCH, 2),
    "grad of vmap": (ft.grad(lambda x: np.sum(ft.vmap(np.sin)(x))), BATCH, 2),
    "second axis": (ft.vmap(np.sin, 1), BATCH, 3),
    "tensor": (lambda x: np.sin(ft.tensor(x, requires_grad=True)), X, 1),
}


@pytest.mark.parametrize("way", WAYS)
def test_the_array_behind_an_operand_has_batch_axes_in_front(way):
    fun, x, examples = WAYS[way]
    plain, count = seen(fun, x)
    assert type(plain) is numpy.ndarray
    assert numpy.array_equal(plain, x.T if way == "second axis" else x)
    assert count == examples


def test_staged_values_have_none():
    found = []
    ft.make_program(lambda x: found.append(plain_value(x)) or x)(X)
    assert found == [None]
    assert plain_value(None) is None


def test_tangents():
    found = []
    ft.jvp(lambda x: found.extend(tangents_of(x)) or x, (X,), (2 * X,))
    assert numpy.array_equal(found, [2 * X])


def test_magnitudes():
    assert magnitudes(numpy.array([[3 + 4j], [0]])).tolist() == [5.0, 0.0]
    assert magnitudes(numpy.array([[-1, 2]], "int8")).tolist() == [-1.0, 2.0]
    assert magnitudes(numpy.float16(0.5)).tolist() == [0.5]
    bfloat16 = np.asarray([1.5, -2.0]).astype("bfloat16")
    assert magnitudes(plain_value(bfloat16)).tolist() == [1.5, -2.0]
    assert magnitudes(numpy.zeros((0, 3), bool)).shape == (0,)
    assert magnitudes(numpy.array([True])).dtype == numpy.float64


def test_the_device_of_every_value_is_waited_for(monkeypatch):
    from functensor.backends import get

    waits = []
    monkeypatch.setattr(type(get("numpy")), "synchronize", lambda self: waits.append(self.name))
    wait_for([X, None, np.asarray(X)])
    assert waits == []
    wait_for([1.0, np.sum(X)])
    assert waits == ["numpy"]
