"""Trees for files: one with a node of every kind, and the comparison of trees bit by bit."""

from collections import OrderedDict

import numpy

import functensor as ft
import functensor.numpy as np
from functensor import torch


def tree_of_every_kind():
    """Returns a tree with every kind of node that files have."""
    tensor = torch.arange(4.0).requires_grad_()
    return {
        "w": np.arange(24.0).reshape(2, 3, 4), "half": np.ones(5, "float16"),
        "brain": np.ones(3, "bfloat16"), "complex": np.asarray([1 + 2j, -0.5j]),
        "b": [numpy.arange(3), numpy.array([True, False]), numpy.float32(2.5)],
        "t": (tensor, tensor, torch.ones(2)), "n": [None, True, -3, 2.5, "text\ud800", 1j, 2**80],
        "random": [ft.random.KeyStream(3), torch.Generator().manual_seed(5)],
        7: {(1, "a"): float("inf"), None: float("nan")}, "order": OrderedDict(b=1, a=-0.0),
        "empty": [np.zeros((0, 3)), np.zeros(()), [], {}, ()],
    }  # fmt: skip


def bits(x):
    """Returns an array's bytes."""
    return numpy.asarray(x.data if isinstance(x, ft.Tensor) else x).tobytes()


def same(a, b):
    """Says whether two trees have the same containers, and leaves of equal types and bits."""
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return [*a] == [*b] and all(same(a[k], b[k]) for k in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, ft.random.KeyStream):
        return repr(a) == repr(b)
    if isinstance(a, torch.Generator):
        return a.get_state() == b.get_state()
    if hasattr(a, "dtype"):
        alike = (a.dtype, tuple(a.shape)) == (b.dtype, tuple(b.shape)) and bits(a) == bits(b)
        return alike and getattr(a, "requires_grad", False) == getattr(b, "requires_grad", False)
    if isinstance(a, float | complex):
        return repr(a) == repr(b)
    return a == b
