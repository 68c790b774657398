"""Small kernels over a grid of three rows, which blocks are cut from, and four columns."""

import numpy as np

from functensor.backends.kernels.kernel import (
    BLOCK_NUMBER,
    Buffer,
    For,
    Index,
    Let,
    Load,
    LoopAxis,
    LoopKernel,
    LoopValue,
    Store,
)

F4, F8 = np.dtype(np.float32), np.dtype(np.float64)
I4, B1 = np.dtype(np.int32), np.dtype(bool)
ONE = np.float32(1)
ROW, COL = LoopAxis("i", 3, block=True), LoopAxis("j", 4)
K, L, M = LoopAxis("k", 3, block=True), LoopAxis("l", 3), LoopAxis("m", 2)
A, OUT = Buffer("a", F4, (3, 4), "in"), Buffer("out", F4, (3, 4), "out")
B = Buffer("b", F4, (4,), "out")
KEPT, OF_ROWS = Buffer("kept", F4, (4,), "scratch"), Buffer("rows", F4, (3,), "scratch")
PART = Buffer("part", F4, (BLOCK_NUMBER.extent, 4), "part")
THERE, COLUMN = Index([(ROW, 4), (COL, 1)]), Index([(COL, 1)])
OF_PART = Index([(BLOCK_NUMBER, 4), (COL, 1)])


def value(dtype=F4):
    return LoopValue(dtype)


def kernel(*body, buffers=(A, OUT), scratch=(KEPT,)):
    return LoopKernel("k", buffers, scratch, body)


def rows(*body, lanes=1):
    """A kernel that stores its output whole, and does other things at each of its places."""
    inner = [*body, Store(OUT, THERE, ONE)]
    return kernel(For(ROW, [For(COL, inner, (), lanes)]))


def let(operation, result, *operands):
    return rows(Let(value(result), operation, operands))


def everywhere(*body, **options):
    return kernel(For(ROW, [For(COL, body)]), **options)


def filled(buffer, index, lanes=1):
    return For(COL, [Store(buffer, index, ONE)], (), lanes)


STORED = For(ROW, [For(COL, [Store(OUT, THERE, ONE)])])
X, Y, Z = value(), value(), value()
TWICE = Load(X, A, THERE)


def broken(kernel, message):
    """A kernel, and the error about it."""
    return kernel, f"kernel k, {message}"
