"""Stacks of matrix products by cuBLAS, of operands with strides and without a copy of any.

``cupy.matmul`` copies transposed matrices of a stack, repeats broadcast ones, and cannot add to its
output.
"""

from __future__ import annotations

import cupy
from cupy import ndarray

from ...config import config
from .contraction import ANY_ALGORITHM, cublas_type_of, current_cublas

__all__ = ["multiply"]


def multiply(a: ndarray, b: ndarray, out: ndarray, *, accumulate: bool = False) -> None:
    """Writes ``a @ b`` into ``out``, or adds it.

    Args:
        a, b: stacks (matrices, rows, columns) of one dtype that cuBLAS knows. A stack may repeat
            one matrix by a stride of 0.
        out: a stack whose rows are contiguous, of that dtype, or of float32 for 16 bits.
        accumulate: whether to add.
    """
    count, rows, inner = a.shape
    columns = b.shape[2]
    if not out.size:
        return
    if not inner:
        if not accumulate:
            out.fill(0)
        return
    kind, made = cublas_type_of(a.dtype), cublas_type_of(out.dtype)
    if kind is None or made is None:
        raise TypeError(f"cuBLAS does not multiply {a.dtype}")
    a, a_step, a_turned = laid_out(a)
    b, b_step, b_turned = laid_out(b)
    handle, cublas = current_cublas()
    # cuBLAS counts along columns: to it every matrix is transposed, and so the factors change
    # places.
    out_step = out.strides[1] // out.itemsize if rows > 1 else columns
    cublas.gemmStridedBatchedEx(
        handle, b_turned, a_turned, columns, rows, inner, kind.one,
        b.data.ptr, kind.dtype, b_step, b.strides[0] // b.itemsize,
        a.data.ptr, kind.dtype, a_step, a.strides[0] // a.itemsize,
        kind.one if accumulate else kind.zero,
        out.data.ptr, made.dtype, out_step, out.strides[0] // out.itemsize, count,
        kind.exact if config.matmul_precision == "highest" else kind.fast, ANY_ALGORITHM,
    )  # fmt: skip


def laid_out(x: ndarray) -> tuple[ndarray, int, int]:
    """Returns a stack, copied if it has to be, its step, and whether its columns are contiguous."""
    _, rows, columns = x.shape
    by_row, by_column = x.strides[1] // x.itemsize, x.strides[2] // x.itemsize
    if columns == 1 or by_column == 1:
        if rows == 1:
            return x, columns, 0
        if by_row >= columns:
            return x, by_row, 0
    if rows == 1 or by_row == 1:
        if columns == 1:
            return x, rows, 1
        if by_column >= rows:
            return x, by_column, 1
    return cupy.ascontiguousarray(x), columns, 0
