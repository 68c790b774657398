"""Constant numbers of a GPU become those of the host, where kernels have them in their text."""

import numpy as np
import pytest
from support.gpu_functions import gaussian, normal
from support.gpu_programs import DEVICE, Kernels, moved

import functensor as ft
from functensor.backends import protocol
from functensor.jitting.gpu_tiers import gpu_program
from functensor.passes.host_numbers import host_numbers
from functensor.primitives.core.array import Array
from functensor.primitives.core.buffers import wrap
from functensor.programs.program import Variable


class There(np.ndarray):
    """Stands for the memory of a GPU."""


class Memory:
    """Stands for the backend of that memory."""

    def device_of(self, buffer):
        """Returns the name of the GPU."""
        return DEVICE

    def to_host(self, buffer):
        """Returns what the host has of it."""
        return np.asarray(buffer)


@pytest.fixture(autouse=True)
def memory(monkeypatch):
    monkeypatch.setitem(protocol.BY_BUFFER, There, Memory())


def there(x):
    """Returns an array that lies there, in the same order."""
    x = np.asarray(x)
    strides = np.lib.stride_tricks.as_strided
    return wrap(strides(np.array(x).view(There), x.shape, x.strides, subok=True))


def there_alone(function, *args):
    """Returns the program of a function on a GPU, its constants too."""
    program = moved(ft.make_program(function)(*args))

    def of(x):
        return there(x) if type(x) is Array else x

    equations = [e.with_operands([*map(of, e.operands)]) for e in program.equations]
    return program.with_equations(equations)


def constants(program):
    """Returns the constants of a program that are arrays of that memory."""
    return [
        x
        for equation in program.equations
        for x in equation.operands
        if type(x) is Array and x.device == DEVICE
    ]


@pytest.mark.parametrize("size", [40, 1 << 20])
def test_cotangents_of_sums_are_no_operands_of_regions(size):
    x = normal(size)
    program = there_alone(ft.grad(gaussian), x)
    assert constants(program)
    (found,) = gpu_program(program, Kernels()).equations
    assert [*found.operands] == [*program.inputs]
    (wanted,) = gpu_program(moved(ft.make_program(ft.grad(gaussian))(x)), Kernels()).equations
    bodies = [one.primitive.program.equations for one in (found, wanted)]
    assert [e.primitive for e in bodies[0]] == [e.primitive for e in bodies[1]]


@pytest.mark.parametrize(
    ("known", "is_number"),
    [
        (np.float32(2), True),
        (np.full((1,), 2, "f4"), True),
        (np.broadcast_to(np.float32(2), (3, 4)), True),
        (np.full((3, 4), 2, "f4"), True),
        (np.arange(12, dtype="f4").reshape(3, 4), False),
        (np.arange(4, dtype="f4"), False),
        (np.broadcast_to(np.float32(2), (5, 3, 4)), False),
        (np.zeros((0, 3, 4), "f4"), False),
    ],
    ids=str,
)
def test_what_has_one_value_and_decides_no_shape_is_a_number(known, is_number):
    x = normal(3, 4)
    program = there_alone(lambda x: x * wrap(known), x)
    (equation,) = host_numbers(program).equations
    assert type(equation.operands[0]) is Variable
    number = equation.operands[1]
    assert equation.outputs[0].type == program.outputs[0].type
    if is_number:
        assert (type(number), number) == (np.float32, 2)
    else:
        assert number.device == DEVICE
        assert number.shape == known.shape


def test_the_host_has_no_numbers_where_they_decide_the_device():
    program = there_alone(lambda x: x * 2, np.float32(3))
    assert host_numbers(program) is program
