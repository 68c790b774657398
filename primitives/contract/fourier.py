"""Discrete Fourier transforms: three linear primitives, each other's transposes.

Cotangents are not conjugated, so that ``fft``, whose matrix is symmetric, is its own transpose.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...backends.annotations import ArrayModule, Axes, Buffer, DType, Shape
from ..core.annotations import Value
from ..core.annotations import operations as ops
from ..core.array import Array
from ..core.buffers import beside
from ..core.derivative_rules import shape_of
from ..core.families import batch_along, linear
from ..core.primitive import Primitive
from ..core.shape_dtype import ShapeDtype
from ..core.test_samples import Sample
from ..elementwise.cast_and_complex import complex_of, real_of

__all__ = ["NORMS", "fft", "irfft", "rfft"]

# The direction of a pair of transforms that is divided by the length, and that of the inverse.
NORMS = {"backward": "forward", "ortho": "ortho", "forward": "backward"}


def _no_rows(x: Buffer, *axes: int) -> bool:
    """Says whether there is nothing to transform, which CuPy's FFT does not take."""
    return x.size == 0 and all(x.shape[axis] for axis in axes)


def _fftn(xp: ArrayModule, x: Buffer, *, axes: Axes, inverse: bool, norm: str) -> Buffer:
    if _no_rows(x, *axes):
        return xp.zeros(x.shape, complex_of(x.dtype))
    out: Buffer
    if len(axes) == 1:
        out = (xp.fft.ifft if inverse else xp.fft.fft)(x, axis=axes[0], norm=norm)
    else:
        out = (xp.fft.ifftn if inverse else xp.fft.fftn)(x, axes=axes, norm=norm)
    return out


def _batch_fft(
    primitive: Primitive, values: Sequence[Value], flags: Sequence[bool], params: dict[str, Any]
) -> Array:
    axes = tuple(axis + 1 for axis in params["axes"])
    return primitive.bind(values, {**params, "axes": axes})


fft: Primitive = linear(
    "fft",
    lambda g, **params: fft.bind((g,), params),
    compute=_fftn,
    infer=lambda primitive, x, **params: ShapeDtype(x.shape, complex_of(x.dtype)),
    batch=_batch_fft, dtypes="fdD",
    reference=lambda x, *, inverse, **params: (np.fft.ifftn if inverse else np.fft.fftn)(
        x, **params
    ),
    samples=[
        Sample((5,), axes=(0,), inverse=False, norm="backward"),
        Sample((2, 4), axes=(1, 0), inverse=True, norm="backward"),
        Sample((2, 3, 2), axes=(0, 2), inverse=False, norm="ortho"),
        Sample((2, 3), axes=(1, 1), inverse=True, norm="forward"),
        Sample((0, 3), axes=(1,), inverse=False, norm="forward"),
    ],
    doc="""Returns the discrete Fourier transform over axes, complex to complex.

    Args:
        x: an array.
        axes: over which axes, counted from the front; the last one first.
        inverse: whether the exponent is positive.
        norm: "backward", "ortho" or "forward".

    Returns:
        A complex array of x's shape, in x's precision.
    """,
)


def _infer_rfft(primitive: Primitive, x: ShapeDtype, *, axis: int, norm: str) -> ShapeDtype:
    shape = (*x.shape[:axis], x.shape[axis] // 2 + 1, *x.shape[axis + 1 :])
    return ShapeDtype(shape, complex_of(x.dtype))


def _infer_irfft(
    primitive: Primitive, x: ShapeDtype, *, n: int, axis: int, norm: str
) -> ShapeDtype:
    return ShapeDtype((*x.shape[:axis], n, *x.shape[axis + 1 :]), real_of(x.dtype))


def _occurrences(n: int, ndim: int, axis: int, dtype: DType) -> Buffer:
    """Returns how often each element of half a spectrum occurs in the whole one: once or twice."""
    counts = np.full(n // 2 + 1, 2, real_of(dtype))
    counts[0] = 1
    if n % 2 == 0:
        counts[-1] = 1
    return counts.reshape(-1, *(1,) * (ndim - axis - 1))


def _rfft(xp: ArrayModule, x: Buffer, *, axis: int, norm: str) -> Buffer:
    if _no_rows(x, axis):
        shape = (*x.shape[:axis], x.shape[axis] // 2 + 1, *x.shape[axis + 1 :])
        return xp.zeros(shape, complex_of(x.dtype))
    out: Buffer = xp.fft.rfft(x, axis=axis, norm=norm)
    return out


def _irfft(xp: ArrayModule, x: Buffer, *, n: int, axis: int, norm: str) -> Buffer:
    if _no_rows(x, axis):
        return xp.zeros((*x.shape[:axis], n, *x.shape[axis + 1 :]), real_of(x.dtype))
    out: Buffer = xp.fft.irfft(x, n, axis=axis, norm=norm)
    return out


def _rfft_vjp(g: Array, x_shape: Shape, *, axis: int, norm: str) -> Array:
    n = x_shape[axis]
    once = ops.conj(g) / beside(g, _occurrences(n, len(x_shape), axis, g.dtype))
    return irfft.bind((once,), {"n": n, "axis": axis, "norm": NORMS[norm]})


def _irfft_vjp(g: Array, *, n: int, axis: int, norm: str) -> Array:
    spectrum = rfft.bind((g,), {"axis": axis, "norm": NORMS[norm]})
    return ops.conj(spectrum) * beside(g, _occurrences(n, len(shape_of(g)), axis, g.dtype))


rfft = linear(
    "rfft",
    _rfft_vjp,
    compute=_rfft, infer=_infer_rfft, batch=batch_along, dtypes="fd",
    reference=lambda x, *, axis, norm: np.fft.rfft(x, axis=axis, norm=norm),
    samples=[
        Sample((5,), axis=0, norm="backward"), Sample((4,), axis=0, norm="forward"),
        Sample((1,), axis=0, norm="backward"), Sample((2, 6), axis=1, norm="ortho"),
        Sample((3, 2), axis=0, norm="backward"), Sample((0, 3), axis=1, norm="backward"),
    ],
    doc="""Returns the first half of the discrete Fourier transform of real values.

    Args:
        x: a real array.
        axis: over which axis, counted from the front.
        norm: "backward", "ortho" or "forward".

    Returns:
        A complex array, along the axis of length ``n // 2 + 1`` for n values.
    """,
)

irfft = linear(
    "irfft",
    _irfft_vjp,
    compute=_irfft, infer=_infer_irfft, batch=batch_along, dtypes="fdD",
    reference=lambda x, *, n, axis, norm: np.fft.irfft(x, n, axis=axis, norm=norm),
    samples=[
        Sample((3,), n=5, axis=0, norm="backward"), Sample((3,), n=4, axis=0, norm="forward"),
        Sample((1,), n=1, axis=0, norm="backward"), Sample((2, 4), n=6, axis=1, norm="ortho"),
        Sample((2, 2), n=3, axis=0, norm="backward"), Sample((0, 2), n=3, axis=1, norm="backward"),
    ],
    doc="""Returns the real values of which an array is half the discrete Fourier transform.

    The imaginary parts of the first element, and of the last one for even n, do not count.

    Args:
        x: an array of length ``n // 2 + 1`` along the axis.
        n: how many values.
        axis: along which axis, counted from the front.
        norm: "backward", "ortho" or "forward".

    Returns:
        A real array, along the axis of length n.
    """,
)
