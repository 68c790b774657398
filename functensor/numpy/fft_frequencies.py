"""Frequencies of the elements of a spectrum, and their order."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from ..primitives.core.array import Array
from ..primitives.core.errors import ConcretizationError
from ..primitives.core.registry import registry as ops
from ..primitives.core.shape_dtype import canonical_axis, listed
from .creation import asarray

__all__ = ["fftfreq", "fftshift", "ifftshift", "rfftfreq"]


def _spacing(n: int, d: Any) -> Any:
    """Returns the distance between two frequencies."""
    if isinstance(d, Array):
        return ops.divide(1.0, ops.multiply(d, n))
    return 1.0 / (n * d)


def _count(name: str, n: Any) -> int:
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


def _frequencies(indices: Any, spacing: Any, dtype: Any, device: Any) -> Any:
    dtype = np.dtype(np.float64 if dtype is None else dtype)
    if device is None and isinstance(spacing, Array):
        device = spacing.device
    return ops.multiply(asarray(indices.astype(dtype), device=device), spacing)


def fftfreq(n: int, d: Any = 1.0, dtype: Any = None, device: Any = None) -> Any:
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
    n = _count("fftfreq", n)
    spacing = _spacing(n, d)
    half = (n - 1) // 2 + 1
    indices = np.concatenate([np.arange(half), np.arange(-(n // 2), 0)])
    return _frequencies(indices, spacing, dtype, device)


def rfftfreq(n: int, d: Any = 1.0, dtype: Any = None, device: Any = None) -> Any:
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
    n = _count("rfftfreq", n)
    spacing = _spacing(n, d)
    return _frequencies(np.arange(n // 2 + 1), spacing, dtype, device)


def _shifted(x: Any, axes: Any, sign: int) -> Any:
    x = asarray(x)
    ndim = len(x.shape)
    if axes is None:
        axes = range(ndim)
    axes = [canonical_axis(axis, ndim) for axis in listed(axes)]
    shifts = tuple(sign * (x.shape[axis] // 2) for axis in axes)
    return ops.roll(x, shifts, axis=tuple(axes)) if axes else x


def fftshift(x: Any, axes: Any = None) -> Any:
    """Returns a spectrum with frequency 0 moved to the middle.

    Args:
        x: an array.
        axes: along which axes: None for all, an integer or several.

    >>> import functensor.numpy as np
    >>> np.fft.fftshift(np.array([0.0, 1.0, 2.0, -2.0, -1.0]))
    Array([-2., -1.,  0.,  1.,  2.], dtype=float64, device='cpu')
    """
    return _shifted(x, axes, 1)


def ifftshift(x: Any, axes: Any = None) -> Any:
    """Returns an array with what `fftshift` moved back in place.

    Args:
        x, axes: as for `fftshift`.

    >>> import functensor.numpy as np
    >>> np.fft.ifftshift(np.array([-2.0, -1.0, 0.0, 1.0, 2.0]))
    Array([ 0.,  1.,  2., -2., -1.], dtype=float64, device='cpu')
    """
    return _shifted(x, axes, -1)
