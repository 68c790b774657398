"""A residual hook that notes what it does, and what its tests differentiate."""

import weakref

import numpy

import functensor as ft
import functensor.numpy as np
from functensor.hooks import ResidualHook

W = np.asarray(numpy.linspace(-1.0, 1.0, 16).reshape(4, 4))
X = np.asarray(numpy.linspace(-2.0, 2.0, 20).reshape(5, 4))
BATCH = np.stack([X, X + 0.3])


class Bytes(ResidualHook):
    """Keeps residuals as bytes, and notes what is packed and unpacked."""

    def __init__(self):
        super().__init__()
        self.packed = []
        self.unpacked = []
        self.originals = []

    def pack(self, op, value):
        self.packed.append((op.name, value.shape, op.phase))
        self.originals.append(weakref.ref(value._data))
        return numpy.asarray(value).tobytes(), value.shape, value.dtype

    def unpack(self, op, packed):
        self.unpacked.append(op.name)
        held, shape, dtype = packed
        return numpy.frombuffer(held, dtype).reshape(shape)

    def names(self):
        return [name for name, _, _ in self.packed]

    def alive(self):
        return [name for name, ref in zip(self.names(), self.originals, strict=True) if ref()]


def network(w, x):
    for i in range(3):
        with ft.scope(f"layer{i}"):
            x = np.tanh(x @ w)
    return np.sum(np.sin(x).T * 2)


def twice(f):
    return lambda w, x: np.sum(ft.grad(f)(w, x) ** 2)


def bits(tree):
    return [numpy.asarray(leaf).tobytes() for leaf in ft.tree.leaves(tree)]
