"""Contractions by cuBLAS: every product of two arrays is as few calls as its strides allow.

Transposed operands are passed as such, stacks of matrices as strides, broadcast axes as stride 0.
Calls are remembered by shapes and strides. Half precision is added up in float32, and float32
in float32 unless the user lets the matrix units round it to TF32.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from types import ModuleType
from typing import Any

import cupy
import numpy as np
from cupy import ndarray
from cupy._core._routines_linalg import set_compute_type
from cupy.cuda.device import get_cublas_handle

from ...annotations import Buffer, DType, Shape
from ...arrays.einsum import Contract, compute
from ...config import config
from ...dtypes import result_type
from ..capturing import captured_here
from ..strides import strides_without_gaps
from .matmul_calls import ProductAxis, ProductCalls, product_calls
from .padding import Matrix, copy_columns, padded_product
from .turned_factors import turned_factors

__all__ = ["CONTRACTION_FUNCTIONS", "matmul_of_padded"]

# cuBLAS's numbers for the dtypes of elements and of sums.
R_16F, R_16BF, R_32F, R_64F, C_32F, C_64F = 2, 14, 0, 1, 4, 5
BY_32F, BY_TF32, BY_64F = 68, 77, 70
BY_MATRIX_UNITS = frozenset({BY_TF32})
# Sums of 16-bit floats that are split among blocks are not rounded to 16 bits in between.
FULL_PRECISION_REDUCTION = 16
ANY_ALGORITHM = -1

# CuPy's own products, in its linear algebra, follow the same rule; CUPY_TF32 has no effect.
set_compute_type(np.float32, 1)


class CublasType:
    """A dtype as cuBLAS multiplies it: cuBLAS's numbers, and 1 and 0 to point to."""

    __slots__ = ("dtype", "exact", "fast", "held", "itemsize", "one", "zero")

    def __init__(
        self, itemsize: int, dtype: int, scalar: type[np.inexact[Any]], exact: int, fast: int
    ) -> None:
        self.itemsize, self.dtype, self.exact, self.fast = itemsize, dtype, exact, fast
        self.held: Buffer = np.array([1, 0], scalar)
        self.one = self.held.ctypes.data
        self.zero = self.one + self.held.itemsize


CUBLAS_TYPES = {
    np.dtype("float16"): CublasType(2, R_16F, np.float32, BY_32F, BY_32F),
    np.dtype("float32"): CublasType(4, R_32F, np.float32, BY_32F, BY_TF32),
    np.dtype("float64"): CublasType(8, R_64F, np.float64, BY_64F, BY_64F),
    np.dtype("complex64"): CublasType(8, C_32F, np.complex64, BY_32F, BY_TF32),
    np.dtype("complex128"): CublasType(16, C_64F, np.complex128, BY_64F, BY_64F),
}
BFLOAT16 = CublasType(2, R_16BF, np.float32, BY_32F, BY_32F)

# cuBLAS, which is loaded when it is first needed, by the handles that are set up.
PREPARED: dict[int, ModuleType] = {}


def cublas_type_of(dtype: DType) -> CublasType | None:
    """Returns how a dtype's matrices are multiplied; None if cuBLAS does not know it."""
    found = CUBLAS_TYPES.get(dtype)
    if found is None and dtype.name == "bfloat16":
        found = CUBLAS_TYPES[dtype] = BFLOAT16
    return found


def current_cublas() -> tuple[Any, Any]:
    """Returns a handle of the current stream, and what has cuBLAS's functions."""
    recorded = captured_here.cublas
    if recorded is not None:
        return recorded.handle, recorded
    handle = get_cublas_handle()
    return handle, PREPARED.get(handle) or cublas_on(handle)


def cublas_on(handle: int) -> ModuleType:
    """Returns cuBLAS, once a handle is set up."""
    if handle not in PREPARED:
        from cupy_backends.cuda.libs import cublas

        cublas.setMathMode(handle, FULL_PRECISION_REDUCTION)
        PREPARED[handle] = cublas
    return PREPARED[handle]


def run_product(
    product: ProductCalls,
    x: ndarray,
    y: ndarray,
    kind: CublasType,
    zeros: tuple[bool, bool] = (False, False),
    spread: bool = False,
) -> ndarray:
    """Returns the product of two arrays of one dtype, by its calls.

    Args:
        product: the calls.
        x, y: the arrays.
        kind: their dtype.
        zeros: for both whether zeros lie between their rows.
        spread: whether rows of the result may lie further apart than they are long.
    """
    x_order, y_order, calls, shape, axes = product
    _, x_first, (t_first, t_second), (m, n, k), lead, strides, each = calls
    if x_order is not None:
        x = x.transpose(x_order).copy(order="C")
    if y_order is not None:
        y = y.transpose(y_order).copy(order="C")
    out = ndarray(shape, x.dtype)
    handle, cublas = current_cublas()
    by = kind.exact if config.matmul_precision == "highest" else kind.fast
    first, second, made = (x, y, out) if x_first else (y, x, out)
    a, b, c, dtype = first.data.ptr, second.data.ptr, made.data.ptr, kind.dtype
    if len(each) == 1 and each[0][0] == 1:
        if by in BY_MATRIX_UNITS or kind.itemsize == 2:
            p, q = ((k, m) if t_first else (m, k)), ((n, k) if t_second else (k, n))
            whole = Matrix(made, m, n, lead[2])
            # Copies have no zeros between rows.
            known = zeros[0] and x_order is None, zeros[1] and y_order is None
            of_first, of_second = known if x_first else known[::-1]
            one = Matrix(first, *p, lead[0], of_first)
            other = Matrix(second, *q, lead[1], of_second)
            turns = t_first, t_second
            if by in BY_MATRIX_UNITS and kind.itemsize == 4:
                one, other, turns = turned_factors(one, other, turns, m * n * k)
                a, b = one.array.data.ptr, other.array.data.ptr
                lead = one.leading, other.leading, lead[2]
                t_first, t_second = turns
            aligned = padded_product(one, other, whole, turns)
            if aligned is not None:
                (u, v, w), (rows, columns, summed) = aligned[:3], aligned.sizes
                cublas.gemmEx(
                    handle, t_first, t_second, rows, columns, summed, kind.one,
                    u.array.data.ptr, dtype, u.leading, v.array.data.ptr, dtype, v.leading,
                    kind.zero, w.array.data.ptr, dtype, w.leading, by, ANY_ALGORITHM,
                )  # fmt: skip
                if spread and axes is None and m == shape[-1]:
                    steps = strides_without_gaps((*shape[:-1], w.leading))
                    strides_of_rows = [step * kind.itemsize for step in steps]
                    return ndarray(shape, x.dtype, w.array.data, strides_of_rows)
                if w.array is not out:
                    copy_columns(w, whole)
                return out if axes is None else out.transpose(axes)
        cublas.gemmEx(
            handle, t_first, t_second, m, n, k, kind.one, a, dtype, lead[0], b, dtype, lead[1],
            kind.zero, c, dtype, lead[2], by, ANY_ALGORITHM,
        )  # fmt: skip
        return out if axes is None else out.transpose(axes)
    size = kind.itemsize
    for count, x_at, y_at, at in each:
        first_at, second_at = (x_at, y_at) if x_first else (y_at, x_at)
        cublas.gemmStridedBatchedEx(
            handle, t_first, t_second, m, n, k, kind.one,
            a + first_at * size, dtype, lead[0], strides[0],
            b + second_at * size, dtype, lead[1], strides[1],
            kind.zero, c + at * size, dtype, lead[2], strides[2], count, by, ANY_ALGORITHM,
        )  # fmt: skip
    return out if axes is None else out.transpose(axes)


def element_strides(strides: Shape, itemsize: int) -> Shape | None:
    """Returns strides in elements; None where they are no whole numbers of them."""
    return None if any(s % itemsize for s in strides) else tuple(s // itemsize for s in strides)


@lru_cache(maxsize=8192)
def calls_of_matmul(
    x_shape: Shape, x_strides: Shape, y_shape: Shape, y_strides: Shape, itemsize: int
) -> ProductCalls | None:
    """Returns the calls of ``matmul``; None where strides give none."""
    m, n = len(x_shape), len(y_shape)
    by_x, by_y = element_strides(x_strides, itemsize), element_strides(y_strides, itemsize)
    if 0 in x_shape or 0 in y_shape or by_x is None or by_y is None:
        return None
    if not m or not n or x_shape[-1] != y_shape[max(n - 2, 0)]:
        return None
    rank = max(m, n, 2) - 2
    axes = []
    for i in range(rank):
        a, b = i - rank + m - 2, i - rank + n - 2
        x_length, y_length = x_shape[a] if a >= 0 else 1, y_shape[b] if b >= 0 else 1
        if x_length != y_length and 1 not in (x_length, y_length):
            return None
        shared = x_length if y_length == 1 else y_length
        axes.append(
            ProductAxis(shared, a if x_length > 1 else None, b if y_length > 1 else None, i)
        )
    out = rank
    if m > 1:
        axes.append(ProductAxis(x_shape[-2], m - 2, None, out))
        out += 1
    if n > 1:
        axes.append(ProductAxis(y_shape[-1], None, n - 1, out))
    axes.append(ProductAxis(x_shape[-1], m - 1, max(n - 2, 0), None))
    return product_calls(axes, by_x, by_y, itemsize)


@lru_cache(maxsize=8192)
def calls_of_contraction(
    terms: tuple[str, str, str], x_shape: Shape, x_strides: Shape, y_shape: Shape,
    y_strides: Shape, itemsize: int,
) -> ProductCalls | None:
    """Returns the calls of a contraction of named axes; None where strides give none."""
    by_x, by_y = element_strides(x_strides, itemsize), element_strides(y_strides, itemsize)
    if 0 in x_shape or 0 in y_shape or by_x is None or by_y is None:
        return None
    x_term, y_term, out = terms
    lengths = dict(zip(x_term + y_term, x_shape + y_shape))

    def place(letter: str, term: str) -> int | None:
        found = term.find(letter)
        return None if found < 0 else found

    axes = [
        ProductAxis(length, *(place(letter, term) for term in terms))
        for letter, length in lengths.items()
        if letter in out or (letter in x_term and letter in y_term)
    ]
    return product_calls(axes, by_x, by_y, itemsize)


def promoted_pair(x: ndarray, y: ndarray) -> tuple[ndarray, ndarray]:
    """Returns two arrays of the dtype to which theirs promote."""
    if x.dtype == y.dtype:
        return x, y
    dtype = result_type(x.dtype, y.dtype)
    return x.astype(dtype, copy=False), y.astype(dtype, copy=False)


def matmul(x: ndarray, y: ndarray) -> ndarray:
    """Returns ``x @ y``."""
    if type(x) is not ndarray or type(y) is not ndarray:
        return cupy.matmul(x, y)
    if x.dtype is not y.dtype:
        x, y = promoted_pair(x, y)
    kind = CUBLAS_TYPES.get(x.dtype) or cublas_type_of(x.dtype)
    if kind is None:
        return cupy.matmul(x, y)
    if x.ndim > 1 < y.ndim and x.shape[-1] == 1 == y.shape[-2]:
        return cupy.multiply(x, y)  # sums of one term are exact
    size = kind.itemsize
    calls = calls_of_matmul(x.shape, x.strides, y.shape, y.strides, size)
    return run_product(calls, x, y, kind) if calls is not None else matmul_by_cupy(x, y)


def matmul_of_padded(
    x: ndarray, y: ndarray, zeros: tuple[bool, bool] = (False, False), spread: bool = False
) -> ndarray:
    """Returns ``x @ y``, of arrays that a plan has padded, or for one that may be.

    Args:
        x, y: the arrays.
        zeros: for both whether zeros lie between their rows; not those of transposed copies.
        spread: whether rows of the result may lie further apart than they are long.
    """
    there = type(x) is ndarray and type(y) is ndarray and x.dtype == y.dtype
    kind = cublas_type_of(x.dtype) if there else None
    if kind is None:
        return matmul(x, y)
    calls = calls_of_matmul(x.shape, x.strides, y.shape, y.strides, x.itemsize)
    return matmul(x, y) if calls is None else run_product(calls, x, y, kind, zeros, spread)


def matmul_by_cupy(x: ndarray, y: ndarray) -> ndarray:
    """Returns the product of matrices without elements, or whose strides are not whole."""
    if x.size and y.size and None not in (element_strides(v.strides, v.itemsize) for v in (x, y)):
        return cupy.matmul(x, y)
    return cupy.matmul(cupy.ascontiguousarray(x), cupy.ascontiguousarray(y))


def contract(x: ndarray, y: ndarray, way: Contract) -> ndarray:
    """Returns two arrays' product, summed over the named axes that the result has not."""
    if x.dtype is not y.dtype:
        x, y = promoted_pair(x, y)
    kind = CUBLAS_TYPES.get(x.dtype) or cublas_type_of(x.dtype)
    if kind is None:
        return way(cupy, x, y)
    size = kind.itemsize
    calls = calls_of_contraction(way.terms, x.shape, x.strides, y.shape, y.strides, size)
    return way(cupy, x, y) if calls is None else run_product(calls, x, y, kind)


def einsum(*operands: ndarray, subscripts: str) -> ndarray:
    """Returns a sum of products over named axes, two operands at a time."""
    arrays = [x if type(x) is ndarray else cupy.asarray(x) for x in operands]
    return compute(cupy, *arrays, subscripts=subscripts, contract=contract)


CONTRACTION_FUNCTIONS: dict[str, Callable[..., ndarray]] = {"matmul": matmul, "einsum": einsum}
