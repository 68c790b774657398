"""Factors of matrices that are kept for several systems, by cuSOLVER, and of stacks by cuBLAS.

Both count along columns, and are given matrices as their rows lie: they factorise the transposes. A
matrix's factors lie where it lay, and behind them the old numbers of its columns, counted from 1.

Nothing waits for the GPU to say whether an array has factors. Those that were made here are known
by the memory that they lie in; of others the matrices are factorised again.
"""

from __future__ import annotations

from math import prod
from typing import Any
from weakref import ref

import cupy
import numpy as np
from cupy import ndarray

from ...annotations import DType
from ...arrays import linalg

__all__ = ["are_known", "det_of_factors", "kept_factors", "slogdet_of_factors", "solved_of_factors"]

# The letters by which the libraries call dtypes.
CUSOLVER_LETTERS = {"f": "s", "d": "d", "F": "c", "D": "z"}
# Larger matrices of a stack are factorised one by one, as CuPy does it.
MOST_ROWS_OF_STACKS = 2048
AS_COLUMNS, AS_ROWS = 0, 1

# The arrays that have factors, by their ids.
_factors_made: dict[int, ref[ndarray]] = {}


class Solvers:
    """The functions of the libraries for a dtype.

    Attributes:
        factorise, solve, room: those of cuSOLVER, and that which says how much memory it needs.
        factorise_all, solve_all: those of cuBLAS, for stacks.
    """

    def __init__(self, dtype: DType) -> None:
        from cupy_backends.cuda.libs import cublas, cusolver  # only where they are needed

        letter = CUSOLVER_LETTERS[dtype.char]
        self.factorise = getattr(cusolver, f"{letter}getrf")
        self.room = getattr(cusolver, f"{letter}getrf_bufferSize")
        self.solve = getattr(cusolver, f"{letter}getrs")
        self.factorise_all = getattr(cublas, f"{letter}getrfBatched")
        self.solve_all = getattr(cublas, f"{letter}getrsBatched")

    @staticmethod
    def handles() -> tuple[Any, Any]:
        """Returns the handles of cuSOLVER and of cuBLAS for the current stream."""
        from cupy.cuda import device

        return device.get_cusolver_handle(), device.get_cublas_handle()


def kept_factors(a: ndarray, *, strict: bool) -> ndarray:
    """Returns the factors of matrices, as one row more than they have.

    Those of singular matrices give solutions that are infinite or NaN, ``strict`` or not.
    """
    *stack, n, _ = a.shape
    if not a.size or a.dtype.char not in CUSOLVER_LETTERS:
        return cupy.zeros((*stack, n + 1, n), a.dtype)
    out = cupy.empty((*stack, n + 1, n), a.dtype)
    out[..., :n, :] = a
    count = prod(stack)
    columns = cupy.empty((*stack, n), np.int32)
    solvers, (solver, blas) = Solvers(a.dtype), Solvers.handles()
    info = cupy.empty(count, np.int32)
    if is_stack(count, n):
        places = addresses(out, count, (n + 1) * n)
        solvers.factorise_all(
            blas, n, places.data.ptr, n, columns.data.ptr, info.data.ptr, count
        )
    else:
        work = cupy.empty(solvers.room(solver, n, n, out.data.ptr, n), a.dtype)
        for i in range(count):
            begin = out.data.ptr + i * (n + 1) * n * out.itemsize
            solvers.factorise(
                solver, n, n, begin, n, work.data.ptr, columns.data.ptr + i * n * 4, info.data.ptr
            )
    out[..., n, :] = columns
    key = id(out)
    _factors_made[key] = ref(out, lambda _: _factors_made.pop(key, None))
    return out


def is_stack(count: int, n: int) -> bool:
    """Says whether matrices are factorised together."""
    return count > 1 and n <= MOST_ROWS_OF_STACKS


def addresses(x: ndarray, count: int, step: int) -> ndarray:
    """Returns the addresses of places that are some elements apart, on the GPU."""
    begin, bytes_apart = x.data.ptr, step * x.itemsize
    return cupy.arange(begin, begin + bytes_apart * count, bytes_apart, dtype=np.uintp)


def are_known(factors: ndarray) -> bool:
    """Says whether an array has factors that were made here, or is a view of whole ones."""
    whole = factors if factors.base is None else factors.base
    found = _factors_made.get(id(whole))
    same = found is not None and found() is whole
    return same and factors.shape[-2:] == whole.shape[-2:] and factors.dtype == whole.dtype


def solved_of_factors(factors: ndarray, b: ndarray, *, transposed: bool) -> ndarray:
    """Returns the solutions of systems, of as many matrices as there are stacks of right sides.

    One matrix, without a stack, may serve for all columns of a matrix of right sides.
    """
    *stack, n, columns = b.shape
    count = prod(stack)
    factors = cupy.ascontiguousarray(factors)
    swaps = cupy.ascontiguousarray(factors[..., n, :].real.astype(np.int32))
    # The libraries have the columns of right sides one behind the other.
    out = cupy.empty((*stack, columns, n), b.dtype)
    out[...] = cupy.swapaxes(b, -1, -2)
    turned = AS_COLUMNS if transposed else AS_ROWS
    solvers, (solver, blas) = Solvers(b.dtype), Solvers.handles()
    if is_stack(count, n):
        places, rows = addresses(factors, count, (n + 1) * n), addresses(out, count, columns * n)
        told = np.empty(1, np.int32)
        solvers.solve_all(
            blas, turned, n, columns, places.data.ptr, n, swaps.data.ptr, rows.data.ptr, n,
            told.ctypes.data, count,
        )  # fmt: skip
    else:
        info = cupy.empty(1, np.int32)
        size = b.itemsize
        for i in range(count):
            solvers.solve(
                solver, turned, n, columns, factors.data.ptr + i * (n + 1) * n * size, n,
                swaps.data.ptr + i * n * 4, out.data.ptr + i * columns * n * size, n,
                info.data.ptr,
            )  # fmt: skip
    return cupy.swapaxes(out, -1, -2)


def slogdet_of_factors(factors: ndarray) -> ndarray:
    """Returns the signs of determinants and the logarithms of their sizes, packed."""
    sign, logarithm = linalg.sign_and_logarithm(cupy, factors)
    return cupy.stack([sign, logarithm.astype(sign.dtype)], axis=-1)


def det_of_factors(factors: ndarray) -> ndarray:
    """Returns determinants."""
    sign, logarithm = linalg.sign_and_logarithm(cupy, factors)
    return (sign * cupy.exp(logarithm)).astype(factors.dtype)
