"""Calls of cuBLAS that graphs record. CuPy's refuse that."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import cupy

from ..capturing import NotCaptured

__all__ = ["RecordedCublas"]

# Sums of 16-bit floats that are split among blocks are not rounded to 16 bits in between.
FULL_PRECISION_REDUCTION = 16
# What NVIDIA advises for its larger GPUs.
WORKSPACE_BYTES = 32 << 20


@cache
def library() -> Any:
    """Returns the library that CuPy has loaded.

    Raises:
        NotCaptured: it is not found by its name.
    """
    major = cupy.cuda.runtime.runtimeGetVersion() // 1000
    try:
        return ctypes.CDLL(f"libcublas.so.{major}")
    except OSError as error:
        raise NotCaptured(f"cuBLAS is not found: {error}") from None


def checked(status: int) -> None:
    """Raises what a call of the library failed with."""
    if status:
        raise RuntimeError(f"cuBLAS failed with status {status}")


Pointer, Int, Long = ctypes.c_void_p, ctypes.c_int, ctypes.c_longlong
OPERANDS = (Pointer, Int, Int)
STRIDED_OPERANDS = (Pointer, Int, Int, Long)
HEAD = (Pointer, Int, Int, Int, Int, Int, Pointer)


class RecordedCublas:
    """A handle of cuBLAS for one stream, with memory of its own.

    Args:
        stream: the stream.
    """

    def __init__(self, stream: Any) -> None:
        found = library()
        self._product, self._products = found.cublasGemmEx, found.cublasGemmStridedBatchedEx
        self._product.argtypes = (*HEAD, *OPERANDS, *OPERANDS, Pointer, *OPERANDS, Int, Int)
        self._products.argtypes = (
            *(*HEAD, *STRIDED_OPERANDS, *STRIDED_OPERANDS, Pointer, *STRIDED_OPERANDS),
            *(Int, Int, Int),
        )
        handle = ctypes.c_void_p()
        checked(found.cublasCreate_v2(ctypes.byref(handle)))
        self.handle = handle
        # It is no array, and lives as long as the process: no pool is to count it.
        self._workspace = cupy.cuda.memory.Memory(WORKSPACE_BYTES)
        checked(found.cublasSetStream_v2(handle, Pointer(stream.ptr)))
        workspace = Pointer(self._workspace.ptr), ctypes.c_size_t(WORKSPACE_BYTES)
        checked(found.cublasSetWorkspace_v2(handle, *workspace))
        checked(found.cublasSetMathMode(handle, FULL_PRECISION_REDUCTION))

    def gemmEx(self, *arguments: Any) -> None:
        """Queues a product, of the arguments that CuPy's function of this name takes."""
        checked(self._product(*arguments))

    def gemmStridedBatchedEx(self, *arguments: Any) -> None:
        """Queues a stack of products, of the arguments that CuPy's function of this name takes."""
        checked(self._products(*arguments))
