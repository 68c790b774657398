"""Frequencies of the elements of a spectrum, and their order."""

from __future__ import annotations

import operator

import numpy as np

from ..backends.annotations import Axis, Buffer, DTypeLike
from ..primitives.core.annotations import ArrayLike, Number
from ..primitives.core.annotations import operations as ops
from ..primitives.core.array import Array
from ..primitives.core.errors import ConcretizationError
from ..primitives.core.shape_dtype import as_list, canonical_axis
from .creation import asarray

__all__ = ["fftfreq", "fftshift", "ifftshift", "rfftfreq"]


def _frequency_spacing(n: int, d: Number | Array) -> Number | Array:
    """Returns the distance between two frequencies."""
    if isinstance(d, Array):
        return ops.divide(1.0, ops.multiply(d, n))
    return 1.0 / (n * d)


def _checked_count(name: str, n: int) -> int:
    """Returns how many elements are transformed."""
    try:
        count = None if isinstance(n, bool) else operator.index(n)
    except ConcretizationError:
        raise
    except TypeError:
        count = None
    if count is None or count < 1:
        raise ValueError(f"{name}: n should be an integer of at least 1, not {n!r}")
    return count


def _frequencies(
    indices: Buffer, spacing: Number | Array, dtype: DTypeLike | None, device: str | None
) -> Array:
    dtype = np.dtype(np.float64 if dtype is None else dtype)
    if device is None and isinstance(spacing, Array):
        device = spacing.device
    return ops.multiply(asarray(indices.astype(dtype), device=device), spacing)


def fftfreq(
    n: int, d: Number | Array = 1.0, dtype: DTypeLike | None = None, device: str | None = None
) -> Array:
    """Returns the frequencies of the elements of `fft.fft`, in cycles per unit of the spacing.

    Args:
        n: how many elements are transformed.
        d: the distance between samples.
        dtype: the dtype of the result, by default float64.
        device: "cpu" or None.

    Returns:
        An array of shape (n,), with those from 0 up first and then the negative ones.

    Raises:
        ValueError: n is not an integer of at least 1.

    >>> import functensor.numpy as np
    >>> np.fft.fftfreq(4, d=0.5)
    Array([ 0. ,  0.5, -1. , -0.5], dtype=float64, device='cpu')
    """
    n = _checked_count("fftfreq", n)
    spacing = _frequency_spacing(n, d)
    half = (n - 1) // 2 + 1
    indices = np.concatenate([np.arange(half), np.arange(-(n // 2), 0)])
    return _frequencies(indices, spacing, dtype, device)


def rfftfreq(
    n: int, d: Number | Array = 1.0, dtype: DTypeLike | None = None, device: str | None = None
) -> Array:
    """Returns the frequencies of the elements of `fft.rfft`, none of which is negative.

    Args:
        n, d, dtype, device: as for `fftfreq`.

    Returns:
        An array of shape (n // 2 + 1,).

    Raises:
        ValueError: n is not an integer of at least 1.

    >>> import functensor.numpy as np
    >>> np.fft.rfftfreq(4, d=0.5)
    Array([0. , 0.5, 1. ], dtype=float64, device='cpu')
    """
    n = _checked_count("rfftfreq", n)
    spacing = _frequency_spacing(n, d)
    return _frequencies(np.arange(n // 2 + 1), spacing, dtype, device)


def _shifted(x: ArrayLike, axes: Axis, sign: int) -> Array:
    x = asarray(x)
    ndim = len(x.shape)
    if axes is None:
        axes = range(ndim)
    axes = [canonical_axis(axis, ndim) for axis in as_list(axes)]
    shifts = tuple(sign * (x.shape[axis] // 2) for axis in axes)
    return ops.roll(x, shifts, axis=tuple(axes)) if axes else x


def fftshift(x: ArrayLike, axes: Axis = None) -> Array:
    """Returns a spectrum with frequency 0 moved to the middle.

    Args:
        x: an array.
        axes: along which axes: None for all, an integer or several.

    >>> import functensor.numpy as np
    >>> np.fft.fftshift(np.array([0.0, 1.0, 2.0, -2.0, -1.0]))
    Array([-2., -1.,  0.,  1.,  2.], dtype=float64, device='cpu')
    """
    return _shifted(x, axes, 1)


def ifftshift(x: ArrayLike, axes: Axis = None) -> Array:
    """Returns an array with what `fftshift` moved back in place.

    Args:
        x, axes: as for `fftshift`.

    >>> import functensor.numpy as np
    >>> np.fft.ifftshift(np.array([-2.0, -1.0, 0.0, 1.0, 2.0]))
    Array([ 0.,  1.,  2., -2., -1.], dtype=float64, device='cpu')
    """
    return _shifted(x, axes, -1)
