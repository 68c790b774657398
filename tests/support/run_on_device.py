"""Calls of checks that are the same everywhere: on a GPU, or jitted.

Operands and results stay NumPy's; a call in between is brought to the device and back by a
primitive that every transformation goes through, so that derivatives and batches are computed
there too.
"""

from contextlib import contextmanager

import numpy

import functensor as ft
from functensor.primitives.core.registry import registry as ops

JITTED = {}


class Place:
    """The device that calls are made on; tests on a GPU change it."""

    device = "cpu"
    jitted = False


@contextmanager
def calls_jitted():
    """Makes calls of jitted functions for the length of a ``with`` block."""
    Place.jitted = True
    try:
        yield
    finally:
        Place.jitted = False
        JITTED.clear()


@contextmanager
def calls_on(device):
    """Makes calls on a device for the length of a ``with`` block."""
    before = Place.device
    Place.device = device
    try:
        with ft.default_device(device):
            yield
    finally:
        Place.device = before


def placed(call, operands):
    """Returns what a call on the device gives, as arrays on the CPU; or what a jitted one gives."""
    if Place.jitted:
        return jitted(call)(*operands)
    weak = {bool, int, float, complex}
    if Place.device == "cpu" or (operands and all(type(x) in weak for x in operands)):
        return call(*operands)
    there = [x if type(x) in weak else ops.to_device(x, Place.device) for x in operands]
    return ft.tree.map(returned, call(*there))


def jitted(call):
    """Returns a jitted function, the same one for functions that close over the same objects."""
    met = [cell.cell_contents for cell in call.__closure__ or ()]
    key = call.__code__, *map(id, met)
    if key not in JITTED:
        # Objects that are closed over are kept alive, so that no other one can have their ids.
        JITTED[key] = ft.jit(call), met
    return JITTED[key][0]


def returned(x):
    """Returns an array on the CPU that was computed on the device."""
    if not isinstance(x, ft.Array):
        return x
    assert x.device == ft.to_device(0.0, Place.device).device, f"computed on {x.device}"
    return ops.to_device(x, "cpu")


def settled(primitive, x):
    """Returns a result without what is for each device to choose: the signs of vectors."""
    if Place.device == "cpu" or primitive.name not in ("eig", "eigh", "svd"):
        return x
    return abs(x)


def module_of(x):
    """Returns the module whose functions make arrays that can meet x: NumPy, or functensor's."""
    return ft.numpy if isinstance(x, ft.Array) else numpy


def beside(x, constant):
    """Returns a constant of a test where it can meet x."""
    return module_of(x).asarray(constant)
