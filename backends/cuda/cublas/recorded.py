"""Calls of cuBLAS that graphs record. CuPy's refuse that."""

from __future__ import annotations

import ctypes
from ctypes import c_int, c_longlong, c_void_p
from functools import cache
from typing import Any

import cupy

from ..capturing import NotCaptured
from .contraction import FULL_PRECISION_REDUCTION

__all__ = ["RecordedCublas"]

# What NVIDIA advises for its larger GPUs.
WORKSPACE_BYTES = 32 << 20


@cache
def cublas_library() -> Any:
    """Returns the library that CuPy has loaded.

    Raises:
        NotCaptured: it is not found by its name.
    """
    major = cupy.cuda.runtime.runtimeGetVersion() // 1000
    try:
        return ctypes.CDLL(f"libcublas.so.{major}")
    except OSError as error:
        raise NotCaptured(f"cuBLAS is not found: {error}") from None


def check_status(status: int) -> None:
    """Raises what a call of the library failed with."""
    if status:
        raise RuntimeError(f"cuBLAS failed with status {status}")


OPERANDS = (c_void_p, c_int, c_int)
STRIDED_OPERANDS = (c_void_p, c_int, c_int, c_longlong)
SIZES = (c_void_p, c_int, c_int, c_int, c_int, c_int, c_void_p)


class RecordedCublas:
    """A handle of cuBLAS for one stream, with memory of its own.

    Args:
        stream: the stream.
    """

    def __init__(self, stream: Any) -> None:
        found = cublas_library()
        self._product, self._products = found.cublasGemmEx, found.cublasGemmStridedBatchedEx
        self._product.argtypes = (*SIZES, *OPERANDS, *OPERANDS, c_void_p, *OPERANDS, c_int, c_int)
        self._products.argtypes = (
            *(*SIZES, *STRIDED_OPERANDS, *STRIDED_OPERANDS, c_void_p, *STRIDED_OPERANDS),
            *(c_int, c_int, c_int),
        )
        handle = c_void_p()
        check_status(found.cublasCreate_v2(ctypes.byref(handle)))
        self.handle = handle
        # It is no array, and lives as long as the process: no pool is to count it.
        self._workspace = cupy.cuda.memory.Memory(WORKSPACE_BYTES)
        check_status(found.cublasSetStream_v2(handle, c_void_p(stream.ptr)))
        workspace = c_void_p(self._workspace.ptr), ctypes.c_size_t(WORKSPACE_BYTES)
        check_status(found.cublasSetWorkspace_v2(handle, *workspace))
        check_status(found.cublasSetMathMode(handle, FULL_PRECISION_REDUCTION))

    def gemmEx(self, *arguments: Any) -> None:
        """Queues a product, of the arguments that CuPy's function of this name takes."""
        check_status(self._product(*arguments))

    def gemmStridedBatchedEx(self, *arguments: Any) -> None:
        """Queues a stack of products, of the arguments that CuPy's function of this name takes."""
        check_status(self._products(*arguments))
