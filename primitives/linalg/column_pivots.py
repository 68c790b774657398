"""The pivots of QR: the order of columns in which the largest remaining one comes first."""

from __future__ import annotations

import numpy as np

from ...backends.annotations import ArrayModule, Buffer
from ...backends.arrays import lapack
from ...backends.optional_modules import scipy_module
from ..core.test_samples import Sample
from .stacks import chunked, of_matrices

__all__ = ["qr_pivots"]


def _pivots_of_one(matrix: Buffer) -> Buffer:
    if not matrix.size:
        return np.arange(matrix.shape[-1], dtype=np.int32).reshape(1, -1)
    linalg = scipy_module(np, "linalg")
    order: Buffer = linalg.qr(matrix, mode="r", pivoting=True)[1]
    return order.astype(np.int32).reshape(1, -1)


def _pivots(xp: ArrayModule, a: Buffer) -> Buffer:
    # LAPACK's loop has no counterpart on GPUs: it goes back and forth for each column.
    on_host = a if xp is np else xp.asnumpy(a)
    if a.size and lapack.is_lapack_dtype(a.dtype):
        return xp.asarray(lapack.column_orders(on_host))
    out = chunked(_pivots_of_one, np, on_host)
    return xp.asarray(out.reshape(*a.shape[:-2], a.shape[-1]))


def _pivots_reference(a: Buffer) -> Buffer:
    """Takes the column that is longest without its parts along those before."""
    rest = np.array(a, np.result_type(a, float))
    order: list[int] = []
    for _ in range(a.shape[-1]):
        sizes = np.linalg.norm(rest, axis=-2)
        sizes[order] = -1.0
        order.append(int(np.argmax(sizes)))
        column = rest[:, order[-1]]
        if sizes[order[-1]] > 0:
            column = column / sizes[order[-1]]
            rest = rest - np.outer(column, column.conj() @ rest)
    return np.array(order, np.int32)


qr_pivots = of_matrices(
    "qr_pivots",
    lambda a: (a[1],),
    dtype=lambda dtype: np.dtype(np.int32),
    square=False, compute=_pivots, constant=True,
    reference=np.vectorize(_pivots_reference, otypes=[np.int32], signature="(m,n)->(n)"),
    dtypes="fdD", samples=[Sample((3, 3)), Sample((2, 4, 2)), Sample((0, 2))],
    doc="Returns the order of columns in which QR with pivoting takes them.",
)
