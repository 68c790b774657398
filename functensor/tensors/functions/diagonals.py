"""Functions of PyTorch that read diagonals, make matrices of them, and keep triangles."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...primitives.core.array import Array
from ...primitives.core.buffers import beside
from ...primitives.core.registry import registry as ops

__all__ = ["diag", "diag_embed", "diagflat", "diagonal", "tril", "triu"]


def diagonal(input: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    """Returns a view of a diagonal of two axes, as a last axis."""
    return input.diagonal(offset, dim1, dim2)


def diag(input: Array, diagonal: int = 0) -> Any:
    """Returns the diagonal of a matrix, or a matrix with a vector as its diagonal."""
    return ops.diag(input, diagonal)


def diagflat(input: Array, offset: int = 0) -> Any:
    """Returns a matrix with all elements as its diagonal."""
    return ops.diagflat(input, offset)


def diag_embed(input: Array, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    """Returns matrices with the last axis as their diagonals."""
    size = input.shape[-1] + abs(offset)
    places = np.arange(input.shape[-1])
    rows, columns = places + max(-offset, 0), places + max(offset, 0)
    zeros = beside(input, np.zeros((*input.shape[:-1], size, size), input.dtype))
    out = ops.index_set(zeros, (..., rows, columns), input)
    return ops.moveaxis(out, (-2, -1), (dim1, dim2))


def check_is_matrix(name: str, input: Array) -> None:
    """Raises a ``RuntimeError`` for what has fewer than two axes."""
    if input.ndim < 2:
        raise RuntimeError(f"{name}: matrices, not the shape {tuple(input.shape)}")


def tril(input: Array, diagonal: int = 0) -> Any:
    """Returns matrices with zeros above a diagonal."""
    check_is_matrix("tril", input)
    return ops.tril(input, diagonal)


def triu(input: Array, diagonal: int = 0) -> Any:
    """Returns matrices with zeros below a diagonal."""
    check_is_matrix("triu", input)
    return ops.triu(input, diagonal)
