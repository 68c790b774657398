"""Convolution of sequences, as two bilinear primitives along the last axis.

``convolve_full`` and ``correlate_valid`` are closed under differentiation: the derivatives of each
are among the two, so that all orders exist. Nothing is conjugated. Leading axes are batch axes.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...backends.annotations import ArrayModule, Buffer
from ..core.annotations import operations as ops
from ..core.errors import misfit
from ..core.families import batch_filled, linear
from ..core.primitive import Primitive
from ..core.shape_dtype import ShapeDtype, result_type
from ..core.test_samples import Sample

__all__ = ["convolve_full", "correlate_valid"]


def _infer_sequences(primitive: Primitive, x: ShapeDtype, y: ShapeDtype) -> ShapeDtype:
    n, m = x.shape[-1], y.shape[-1]
    full = primitive is convolve_full
    if x.shape[:-1] != y.shape[:-1] or not n or not m or (n < m and not full):
        raise misfit(
            f"{'convolve' if full else 'correlate'}: sequences of shapes {x.shape} and {y.shape}",
            "give two sequences of at least one element, the longer one first",
        )
    length = n + m - 1 if full else n - m + 1
    return ShapeDtype((*x.shape[:-1], length), result_type(x.dtype, y.dtype))


def _dots(xp: ArrayModule, x: Buffer, y: Buffer) -> Buffer:
    """Returns the sums of products of y with the window at every place along the last axis of x.

    The windows overlap in the memory of x, nothing is copied.
    """
    if hasattr(xp, "lib"):
        windows = xp.lib.stride_tricks.sliding_window_view(x, y.shape[-1], axis=-1)
    else:
        places = np.arange(x.shape[-1] - y.shape[-1] + 1)[:, None] + np.arange(y.shape[-1])
        windows = x[..., xp.asarray(places)]
    if xp is np:
        # NumPy's conjugates of booleans would be integers.
        y = np.conjugate(y) if y.dtype.kind == "c" else y
        out: Buffer = np.vecdot(y[..., None, :], windows)
        return out
    return xp.einsum("...kj,...j->...k", windows, y)


def _full(xp: ArrayModule, x: Buffer, y: Buffer) -> Buffer:
    if x.ndim == 1 and hasattr(xp, "convolve"):
        return xp.convolve(x, y)
    if x.shape[-1] < y.shape[-1]:
        x, y = y, x
    n, m = x.shape[-1], y.shape[-1]
    if xp is not np:
        wide = xp.zeros((*x.shape[:-1], n + 2 * m - 2), x.dtype)
        wide[..., m - 1 : m - 1 + n] = x
        return _dots(xp, wide, y[..., ::-1])
    # Partial overlaps are summed alone: zeros beside x would make NaN of infinities.
    out = np.empty((*x.shape[:-1], n + m - 1), np.result_type(x, y))
    back = np.conjugate(y[..., ::-1]) if y.dtype.kind == "c" else y[..., ::-1]
    out[..., m - 1 : n] = _dots(xp, x, y[..., ::-1])
    for k in range(1, m):
        np.vecdot(back[..., m - k :], x[..., :k], out=out[..., k - 1])
        np.vecdot(back[..., :k], x[..., n - k :], out=out[..., n + m - 1 - k])
    return out


def _valid(xp: ArrayModule, x: Buffer, y: Buffer) -> Buffer:
    if x.ndim == 1 and hasattr(xp, "convolve"):
        return xp.convolve(x, y[::-1], "valid")
    return _dots(xp, x, y)


def _of_rows(function: Callable[[Buffer, Buffer], Buffer]) -> Callable[[Buffer, Buffer], Buffer]:
    """Returns NumPy's function of two sequences, applied to every pair of rows."""

    def reference(x: Buffer, y: Buffer) -> Buffer:
        pairs = zip(x.reshape(-1, x.shape[-1]), y.reshape(-1, y.shape[-1]), strict=True)
        length = len(function(np.ones(x.shape[-1]), np.ones(y.shape[-1])))
        out = [function(row, kernel) for row, kernel in pairs]
        return np.array(out, np.result_type(x, y)).reshape(*x.shape[:-1], length)

    return reference


EMPTY_ROWS = Sample((0, 3), (0, 2))

convolve_full = linear(
    "convolve_full",
    lambda g, y: ops.correlate_valid(g, y),
    lambda g, x: ops.correlate_valid(g, x),
    compute=_full, infer=_infer_sequences, batch=batch_filled, dtypes="fdD",
    reference=_of_rows(np.convolve),
    samples=[
        Sample((4,), (3,)), Sample((2,), (5,)), Sample((1,), (1,)), Sample((2, 3), (2, 2)),
        EMPTY_ROWS,
    ],
    doc="""Returns the convolution of sequences: ``out[k] = sum(x[i] * y[k - i])``, all of it.

    Args:
        x, y: arrays whose leading axes are equal.

    Returns:
        An array whose last axis has the sum of both lengths, minus 1.

    >>> import numpy as np
    >>> from functensor.primitives.contract.correlate import convolve_full
    >>> convolve_full(np.array([1.0, 2.0]), np.array([1.0, 1.0]))
    Array([1., 3., 2.], dtype=float64, device='cpu')
    """,
)
correlate_valid = linear(
    "correlate_valid",
    lambda g, y: ops.convolve_full(g, y),
    lambda g, x: ops.correlate_valid(x, g),
    compute=_valid, infer=_infer_sequences, batch=batch_filled, dtypes="fdD",
    reference=_of_rows(lambda x, y: np.convolve(x, y[::-1], "valid")),
    samples=[
        Sample((4,), (3,)), Sample((5,), (2,)), Sample((3,), (3,)), Sample((2, 5), (2, 2)),
        Sample((2, 5), (2, 4)), EMPTY_ROWS,
    ],
    doc="""Returns how sequences match at every shift: ``out[k] = sum(x[k + j] * y[j])``.

    Args:
        x, y: arrays whose leading axes are equal; the last axis of x is at least as long as y's.

    Returns:
        An array whose last axis has the difference of both lengths, plus 1.

    >>> import numpy as np
    >>> from functensor.primitives.contract.correlate import correlate_valid
    >>> correlate_valid(np.array([1.0, 2.0, 4.0]), np.array([1.0, 1.0]))
    Array([3., 6.], dtype=float64, device='cpu')
    """,
)
