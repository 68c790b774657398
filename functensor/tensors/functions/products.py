"""Functions of PyTorch that multiply matrices and vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ...primitives.core.array import Array
from ...primitives.core.errors import ShapeError, failure
from ...primitives.core.registry import registry as ops
from .naming import as_tensor_result, copied, error_of

__all__ = [
    "addbmm", "addmm", "addmv", "addr", "baddbmm", "bmm", "cdist", "chain_matmul", "cholesky",
    "cross", "det", "dot", "einsum", "ger", "inner", "inverse", "kron",
    "logdet", "matmul", "matrix_power", "mm", "mv", "outer", "pinverse", "qr", "slogdet", "spmm",
    "svd", "tensordot", "trace", "vdot",
]  # fmt: skip


def check_axes(name: str, input: Array, mat2: Any, first: int, second: int) -> None:
    """Checks the numbers of axes of two operands.

    Raises:
        ShapeError: they are others.
    """
    if (input.ndim, mat2.ndim) != (first, second):
        raise failure(
            ShapeError,
            f"{name}: operands have {first} and {second} axes, not the shapes {input.shape} and "
            f"{mat2.shape}",
            fix="torch.matmul broadcasts",
        )


def matmul(input: Array, other: Any) -> Any:
    """Returns matrix products, broadcast over axes before the last two."""
    return ops.matmul(input, other)


def mm(input: Array, mat2: Any) -> Any:
    """Returns the product of two matrices."""
    check_axes("mm", input, mat2, 2, 2)
    return ops.matmul(input, mat2)


spmm = mm


def bmm(input: Array, mat2: Any) -> Any:
    """Returns the products of two rows of matrices."""
    check_axes("bmm", input, mat2, 3, 3)
    if input.shape[0] != mat2.shape[0]:
        raise ShapeError(f"bmm: {input.shape[0]} matrices and {mat2.shape[0]}")
    return ops.matmul(input, mat2)


def mv(input: Array, vec: Any) -> Any:
    """Returns the product of a matrix and a vector."""
    check_axes("mv", input, vec, 2, 1)
    return ops.matmul(input, vec)


def dot(input: Array, tensor: Any) -> Any:
    """Returns the inner product of two vectors."""
    check_axes("dot", input, tensor, 1, 1)
    return ops.matmul(input, tensor)


def vdot(input: Array, other: Any) -> Any:
    """Returns the inner product of two vectors, the first conjugated."""
    check_axes("vdot", input, other, 1, 1)
    return ops.vdot(input, other)


def inner(input: Array, other: Any) -> Any:
    """Returns the sums of products over the last axes of both."""
    return ops.inner(input, other)


def outer(input: Array, vec2: Any) -> Any:
    """Returns the matrix of products of two vectors' elements."""
    check_axes("outer", input, vec2, 1, 1)
    return input[:, None] * vec2


ger = outer


def scaled(x: Any, factor: float) -> Any:
    """Returns a tensor times a number; itself for 1."""
    return x if factor == 1 else factor * x


def scaled_sum(input: Array, product: Any, beta: float, alpha: float) -> Any:
    """Returns ``beta * input + alpha * product``; nothing of the input where beta is 0."""
    if np.broadcast_shapes(input.shape, product.shape) != tuple(product.shape):
        raise ShapeError(
            f"a tensor of shape {tuple(input.shape)} is not spread over a product of shape "
            f"{tuple(product.shape)}"
        )
    product = scaled(product, alpha)
    return product if beta == 0 else scaled(input, beta) + product


def addmm(input: Array, mat1: Any, mat2: Any, *, beta: float = 1, alpha: float = 1) -> Any:
    """Returns ``beta * input + alpha * (mat1 @ mat2)``."""
    return scaled_sum(input, mm(mat1, mat2), beta, alpha)


def addmv(input: Array, mat: Any, vec: Any, *, beta: float = 1, alpha: float = 1) -> Any:
    """Returns ``beta * input + alpha * (mat @ vec)``."""
    return scaled_sum(input, mv(mat, vec), beta, alpha)


def addr(input: Array, vec1: Any, vec2: Any, *, beta: float = 1, alpha: float = 1) -> Any:
    """Returns ``beta * input + alpha * outer(vec1, vec2)``."""
    return scaled_sum(input, outer(vec1, vec2), beta, alpha)


def baddbmm(input: Array, batch1: Any, batch2: Any, *, beta: float = 1, alpha: float = 1) -> Any:
    """Returns ``beta * input + alpha * (batch1 @ batch2)`` for rows of matrices."""
    return scaled_sum(input, bmm(batch1, batch2), beta, alpha)


def addbmm(input: Array, batch1: Any, batch2: Any, *, beta: float = 1, alpha: float = 1) -> Any:
    """Returns ``beta * input`` and ``alpha`` times the sum of the products of matrices."""
    products = bmm(batch1, batch2)
    return scaled_sum(input, ops.sum(products, 0, products.dtype), beta, alpha)


def einsum(equation: str, *operands: Any) -> Any:
    """Returns a sum of products by a formula of axes, as ``"ij,jk->ik"``.

    >>> import functensor.torch as torch
    >>> torch.einsum("i,i->", torch.ones(3), torch.ones(3)).item()
    3.0
    """
    one = len(operands) == 1 and isinstance(operands[0], tuple | list)
    return ops.einsum(equation, *(operands[0] if one else operands))


def tensordot(a: Any, b: Any, dims: Any = 2) -> Any:
    """Returns sums of products over so many last and first axes, or over two lists of axes."""
    return ops.tensordot(a, b, dims if isinstance(dims, int) else tuple([tuple(d) for d in dims]))


def kron(input: Array, other: Any) -> Any:
    """Returns the Kronecker product."""
    return ops.kron(input, other)


def cross(input: Array, other: Any, dim: int | None = None) -> Any:
    """Returns cross products of vectors along an axis; by default the first of length 3."""
    shape = np.broadcast_shapes(input.shape, other.shape)
    axis = shape.index(3) if dim is None else dim
    check_is_space("cross", input, other, axis)
    return ops.cross(input, other, axis=axis)


def check_is_space(name: str, x: Any, y: Any, dim: int) -> None:
    """Raises a ``RuntimeError`` for vectors that have not three coordinates."""
    if (x.shape[dim], y.shape[dim]) != (3, 3):
        lengths = f"{x.shape[dim]} and {y.shape[dim]}"
        raise RuntimeError(f"{name}: axis {dim} of both tensors has length 3, not {lengths}")


def trace(input: Array) -> Any:
    """Returns the sum of a matrix's diagonal.

    Raises:
        RuntimeError: the tensor is no matrix.
    """
    if input.ndim != 2:
        raise RuntimeError(f"trace: a matrix, not the shape {tuple(input.shape)}")
    return ops.trace(input, dtype=np.dtype(np.int64) if input.dtype.kind in "iub" else None)


def chain_matmul(*matrices: Any) -> Any:
    """Returns the product of several matrices, in the order that takes the fewest operations."""
    return multi_dot(matrices)


def multi_dot(tensors: Sequence[Any]) -> Any:
    """Returns the product of several matrices, in the order that takes the fewest operations."""
    from ...numpy import linalg  # which few programs need

    return linalg.multi_dot(list(tensors))


def cdist(x1: Any, x2: Any, p: float = 2.0, compute_mode: str = "") -> Any:
    """Returns the distances of order ``p`` between all rows of two matrices.

    ``compute_mode`` has no effect.

    Raises:
        RuntimeError: a tensor has no rows.
    """
    from .reductions import norm

    if x1.ndim < 2 or x2.ndim < 2:
        raise RuntimeError(f"cdist: matrices, not the shapes {x1.shape} and {x2.shape}")

    if x1.shape[-1] != x2.shape[-1]:
        raise RuntimeError(f"cdist: rows of one length, not {x1.shape[-1]} and {x2.shape[-1]}")
    if p < 0:
        raise RuntimeError(f"cdist: p is at least 0, not {p}")
    return norm(error_of(ops.expand_dims(x1, -2), ops.expand_dims(x2, -3)), p, -1)


def matrix_power(input: Array, n: int) -> Any:
    """Returns the n-th powers of square matrices."""
    from ...numpy import linalg

    found = linalg.matrix_power(input, n)
    return copied(input) if found is input else as_tensor_result(found)


def inverse(input: Array) -> Any:
    """Returns the inverses of square matrices."""
    from ...numpy import linalg

    return linalg.inv(input)


def pinverse(input: Array, rcond: float = 1e-15) -> Any:
    """Returns pseudo-inverses; singular values below ``rcond`` times the largest count as zero."""
    from ...numpy import linalg

    return linalg.pinv(input, rcond)


def det(input: Array) -> Any:
    """Returns the determinants of square matrices."""
    from ...numpy import linalg

    return linalg.det(input)


def slogdet(input: Array) -> Any:
    """Returns the signs and the logarithms of absolute values of determinants."""
    from ...numpy import linalg

    return linalg.slogdet(input)


def logdet(input: Array) -> Any:
    """Returns the logarithms of determinants; NaN of negative ones."""
    sign, size = slogdet(input)
    if input.dtype.kind == "c":
        return ops.log(sign) + size
    return ops.where(ops.less(sign, 0), np.asarray(np.nan, input.dtype), size)


def cholesky(input: Array, upper: bool = False) -> Any:
    """Returns the triangular factors of positive-definite matrices."""
    from ...numpy import linalg
    from .solving import as_hermitian

    return linalg.cholesky(as_hermitian(input), upper=upper)


def qr(input: Array, some: bool = True) -> Any:
    """Returns the orthogonal and triangular factors of matrices."""
    from ...numpy import linalg

    return linalg.qr(input, "reduced" if some else "complete")


class SVD(NamedTuple):
    """Singular values S, and the vectors of matrices ``U @ diag(S) @ V.mH``."""

    U: Any
    S: Any
    V: Any


def svd(input: Array, some: bool = True, compute_uv: bool = True) -> Any:
    """Returns U, S and V of matrices ``U @ diag(S) @ V.mH``."""
    from ...numpy import linalg

    u, s, vh = linalg.svd(input, full_matrices=not some)
    return SVD(u, s, ops.conj(ops.swapaxes(vh, -1, -2)))
