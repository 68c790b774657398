"""The parts that tests of tensors share."""

import re

import numpy
import pytest

import functensor as ft

VALUES = numpy.array([[0.5, -1.5, 2.0], [1.0, 0.25, -0.75]])


def leaf(values=VALUES):
    """Returns a tensor that requires grad."""
    return ft.Tensor(values, requires_grad=True)


def message_of(error, call):
    """Returns the lines of the message with which a call fails, LINE in place of a file's line."""
    with pytest.raises(error) as caught:
        call()
    return re.sub(r"\S+\.py:\d+", "LINE", str(caught.value)).split("\n")
