"""Factors and solutions of stacks of matrices by the LAPACK that NumPy brought.

NumPy's own functions factorise a matrix, solve one system, and drop the factors. These keep them.
The functions are called by their addresses, on matrices in Fortran's order. Where NumPy has another
LAPACK than OpenBLAS's, there are none.
"""

from __future__ import annotations

import ctypes
from contextlib import suppress
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from .blas_threads import blas_libraries

if TYPE_CHECKING:
    from .annotations import Buffer, DType

__all__ = [
    "LAPACK_NAMES",
    "PREFIXES",
    "has_lapack",
    "lu_of_stack",
    "solved_by_factors",
    "triangles_of_stack_solved",
]  # fmt: skip

# The names of the functions, with the bits of their whole numbers.
LAPACK_NAMES = (("scipy_{}_64_", 64), ("{}_64_", 64), ("{}_", 32))
# The first letters of their names for the letters of dtypes.
PREFIXES = {"f": "s", "d": "d", "F": "c", "D": "z"}
WHOLE: dict[int, Any] = {64: ctypes.c_int64, 32: ctypes.c_int32}
PIVOT_DTYPES = {bits: np.dtype(kind) for bits, kind in WHOLE.items()}
# Numbers that calls take by address.
ONES: list[Buffer] = []
# How many whole numbers are kept for calls, which take them by address.
MOST_WHOLE_NUMBERS = 1024


@lru_cache(maxsize=64)
def _lapack_function(name: str, char: str) -> tuple[Any, int] | None:
    """Returns a function for a dtype's letter, and the bits of its whole numbers."""
    for library in blas_libraries():
        for form, bits in LAPACK_NAMES:
            with suppress(AttributeError):
                return getattr(library, form.format(PREFIXES[char] + name)), bits
    return None


def has_lapack(dtype: DType) -> bool:
    """Says whether the functions are known, for a dtype."""
    return dtype.char in PREFIXES and _lapack_function("getrf", dtype.char) is not None


@lru_cache(maxsize=MOST_WHOLE_NUMBERS)
def _number_by_reference(number: int, bits: int) -> Any:
    """Returns a whole number by reference."""
    return ctypes.byref(WHOLE[bits](number))


def _called(name: str, char: str, count: int, given: list[Any]) -> list[int]:
    """Calls a function for each matrix of a stack; returns what each call says, 0 if all went well.

    Args:
        name: its name without the letter of the dtype.
        char: that letter.
        count: the matrices.
        given: its arguments but the last: whole numbers, letters, and pairs of an array of matrices
            and the bytes from one to the next.
    """
    found = _lapack_function(name, char)
    assert found is not None
    function, bits = found
    said = WHOLE[bits](0)
    last = ctypes.byref(said)
    arguments: list[Any] = []
    moving = []
    for x in given:
        if type(x) is tuple:
            place = ctypes.c_void_p(x[0].__array_interface__["data"][0])
            if count > 1 and x[1]:
                moving.append((place, x[1]))
            arguments.append(place)
        else:
            arguments.append(_number_by_reference(x, bits) if type(x) is int else x)
    out = []
    for number in range(count):
        if number:
            for place, step in moving:
                place.value += step
        function(*arguments, last)
        out.append(said.value)
    return out


def lu_of_stack(a: Buffer) -> Buffer:
    """Returns the factors of matrices, and in a last row the pivots.

    Args:
        a: matrices of shape (..., n, n), n above 0, of a dtype that `has_lapack` knows.

    Returns:
        An array of shape (..., n + 1, n): both factors of each matrix, transposed, and below them
        which row each one was swapped with in turn, counted from 1.
    """
    stack, n = a.shape[:-2], a.shape[-1]
    count = prod(stack)
    out = np.empty((*stack, n + 1, n), a.dtype)
    out[..., :n, :] = a.mT
    known = _lapack_function("getrf", a.dtype.char)
    assert known is not None
    pivots = np.empty((*stack, n), PIVOT_DTYPES[known[1]])
    size = a.dtype.itemsize
    if count:
        own = (pivots, n * pivots.itemsize)
        _called("getrf", a.dtype.char, count, [n, n, (out, (n + 1) * n * size), n, own])
    out[..., n, :] = pivots
    return out


def solved_by_factors(factors: Buffer, b: Buffer, *, transposed: bool) -> Buffer:
    """Returns x with ``a @ x = b``, for the factors of a, none of whose pivots is 0.

    Args:
        factors: a result of `lu_of_stack`.
        b: right-hand sides of shape (..., n, k) and of the same dtype; both stacks broadcast.
        transposed: whether the matrices are transposed.
    """
    n, k = b.shape[-2:]
    if b.ndim > 2 and prod(factors.shape[:-2]) == 1:
        # All right-hand sides are columns of one system.
        stack = np.broadcast_shapes(factors.shape[:-2], b.shape[:-2])
        columns = np.moveaxis(np.broadcast_to(b, (*stack, n, k)), -2, 0)
        one = columns.reshape(n, prod(columns.shape[1:]))
        found = solved_by_factors(factors.reshape(n + 1, n), one, transposed=transposed)
        return np.moveaxis(found.reshape(columns.shape), 0, -2)
    known = _lapack_function("getrs", b.dtype.char)
    assert known is not None
    stack = b.shape[:-2]
    if factors.shape[:-2] != stack:
        stack = np.broadcast_shapes(factors.shape[:-2], stack)
        factors = np.broadcast_to(factors, (*stack, n + 1, n))
    factors = np.ascontiguousarray(factors)
    out = np.empty((*stack, k, n), b.dtype)
    out[...] = b.mT
    if out.size:
        pivots = factors[..., n, :].real.astype(PIVOT_DTYPES[known[1]])
        size = b.dtype.itemsize
        letter = b"T" if transposed else b"N"
        own = (factors, (n + 1) * n * size), n, (pivots, n * pivots.itemsize)
        _called("getrs", b.dtype.char, prod(stack), [letter, n, k, *own, (out, k * n * size), n])
    return np.ascontiguousarray(out.mT)


def triangles_of_stack_solved(
    a: Buffer, b: Buffer, *, lower: bool, transposed: bool, unit_diagonal: bool
) -> Buffer:
    """Returns x with ``a @ x = b`` of triangular a, none of whose diagonals has a 0.

    Args:
        a: matrices of shape (..., n, n), of which one triangle is read.
        b: right-hand sides of shape (..., n, k), not empty and of the same dtype; both stacks
            broadcast.
        lower, transposed, unit_diagonal: which triangle, what of it, and whether its diagonal is 1.
    """
    n, k = b.shape[-2:]
    stack = b.shape[:-2]
    if a.shape[:-2] != stack:
        stack = np.broadcast_shapes(a.shape[:-2], stack)
    size = b.dtype.itemsize
    step = n * n * size if prod(a.shape[:-2]) > 1 else 0
    if step and a.shape[:-2] != stack:
        a = np.broadcast_to(a, (*stack, n, n))
    if a.ndim == 2 and a.flags.f_contiguous:
        a, lower, transposed = a.mT, not lower, not transposed
    a = np.ascontiguousarray(a)
    out = np.empty((*stack, k, n), b.dtype)
    out[...] = b.mT
    # In Fortran's order each matrix is its transpose. LAPACK's own function starts threads for it.
    letters = [b"L", b"U" if lower else b"L", b"N" if transposed else b"T"]
    letters.append(b"U" if unit_diagonal else b"N")
    given = [*letters, n, k, _one(b.dtype.char), (a, step), n, (out, k * n * size), n]
    _called("trsm", b.dtype.char, prod(stack), given)
    return np.ascontiguousarray(out.mT)


@lru_cache
def _one(char: str) -> Any:
    """Returns the number 1 of a dtype's letter by reference."""
    number = np.ones((), char)
    place = ctypes.c_void_p(number.__array_interface__["data"][0])
    ONES.append(number)
    return place
