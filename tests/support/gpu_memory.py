"""NumPy's memory that stands for a GPU's: new memory holds NaN, and arrays know where they lie."""

from types import SimpleNamespace

import numpy as np

from .leaf_kernels import Buffer

# Where CuPy's arrays begin.
BOUNDARY = 512
# Bytes of this are NaN in all floats.
UNWRITTEN = 255


class GpuArray(Buffer):
    """An array as CuPy makes them: ``GpuArray(shape, dtype, memory, strides)``.

    Args:
        shape, dtype: its own.
        memory: where it begins, as ``data`` of another one has it; None for new memory.
        strides: its strides in bytes; None for those without gaps.
    """

    def __new__(cls, shape, dtype=float, memory=None, strides=None):
        dtype = np.dtype(dtype)
        if memory is None:
            count = int(np.prod(shape)) * dtype.itemsize
            held = np.full(count + 2 * BOUNDARY, UNWRITTEN, "u1")
            begin = -held.ctypes.data % BOUNDARY
            return super().__new__(cls, shape, dtype, held, begin, strides)
        begin = memory.ptr - memory.held.ctypes.data
        return super().__new__(cls, shape, dtype, memory.held, begin, strides)

    @property
    def data(self):
        """Where it lies."""
        held = self
        while isinstance(held.base, np.ndarray):
            held = held.base
        return SimpleNamespace(ptr=self.ctypes.data, device_id=0, held=held)


def on_gpu(x, pitch=None):
    """Returns a copy of an array, the rows of which begin some elements apart."""
    x = np.asarray(x)
    made = GpuArray((*x.shape[:-1], pitch) if pitch else x.shape, x.dtype)
    made = made[..., : x.shape[-1]] if pitch else made
    made[...] = x
    return made


def whole_rows(x):
    """Returns an array with what lies between its rows."""
    pitch = x.strides[-2] // x.itemsize
    return np.asarray(GpuArray((*x.shape[:-1], pitch), x.dtype, x.data))


# What takes the place of CuPy's own functions.
cupy = SimpleNamespace(
    empty=GpuArray,
    asarray=lambda x: x if isinstance(x, GpuArray) else on_gpu(x),
    ascontiguousarray=lambda x: x if x.flags.c_contiguous else on_gpu(x),
)
