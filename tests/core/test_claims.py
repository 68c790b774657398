"""Buffers that a function takes from its operands: at once, where nobody else holds any of them."""

import numpy
import pytest

import functensor.numpy as np
from functensor.primitives.core import donation
from functensor.primitives.core.donation import DonatedArrayError, claimed


def operands(count):
    arrays = [np.full(3, float(i)) + 1 for i in range(count)]
    return arrays, [x._data for x in arrays]


def none_are_left(arrays):
    for x in arrays:
        with pytest.raises(DonatedArrayError):
            x.sum()
    return True


def test_buffers_of_arrays_alone_are_taken_together(monkeypatch):
    monkeypatch.setattr(donation, "references_in", None)
    arrays, buffers = operands(4)
    known = list(map(id, buffers))
    claimed(arrays, buffers, (0, 2, 3), "a test")
    assert list(map(id, buffers)) == known
    assert none_are_left([arrays[i] for i in (0, 2, 3)])
    assert arrays[1].tolist() == [2.0] * 3


@pytest.mark.parametrize("other", ["a holder", "a view", "twice", "NumPy's", "read alone"])
def test_a_buffer_that_others_see_is_copied(other):
    arrays, buffers = operands(3)
    seen, number = buffers[1].copy(), id(buffers[1])
    held = None
    if other == "a holder":
        held = buffers[1]
    elif other == "a view":
        held = buffers[1][:2]
    elif other == "twice":
        arrays[2], buffers[2] = arrays[1], buffers[1]
    elif other == "NumPy's":
        arrays[1] = held = buffers[1]
    else:
        buffers[1].flags.writeable = False
    claimed(arrays, buffers, (0, 1, 2), "a test")
    if other == "twice":
        assert buffers[1] is not buffers[2]
    else:
        assert id(buffers[1]) != number
    for buffer in buffers[1:] if other == "twice" else buffers[1:2]:
        numpy.testing.assert_array_equal(buffer, seen)
    assert none_are_left(x for x in arrays if x is not held)
