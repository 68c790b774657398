"""NumPy's ``fft``: discrete Fourier transforms, differentiable in both modes.

Scales follow ``norm``, as in NumPy: "backward" divides the inverse transform by the number of
elements, "forward" the other one, and "ortho" both by its square root.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import TypeAlias

from ..faces.publish import publish
from ..primitives.contract import fourier
from ..primitives.contract.fourier import NORMS
from ..primitives.core.annotations import ArrayLike, of_array
from ..primitives.core.annotations import operations as ops
from ..primitives.core.array import Array
from ..primitives.core.errors import refuse_out
from ..primitives.core.shape_dtype import canonical_axis
from .arguments import as_inexact
from .fft_frequencies import fftfreq, fftshift, ifftshift, rfftfreq

__all__ = [
    "fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifft2", "ifftn", "ifftshift",
    "ihfft", "irfft", "irfft2", "irfftn", "rfft", "rfft2", "rfftfreq", "rfftn",
]  # fmt: skip


# Lengths, or axes; None stands for all of them.
Integers: TypeAlias = Sequence[int] | None
# "backward", "ortho" or "forward"; None is "backward".
Scaling: TypeAlias = str | None


# -- what all transforms have in common


def _transform_operand(name: str, a: ArrayLike, out: None, real: bool = False) -> Array:
    """Returns an operand as an array; raises where it is complex and has to be real."""
    refuse_out(name, out, "np.fft")
    a = as_inexact(a)
    if real and a.dtype.kind == "c":
        raise TypeError(f"{name} transforms real values, not {a.dtype}: use fft, or pass a.real")
    return a


def _checked_norm(norm: Scaling) -> str:
    """Returns the name of a scaling, checked."""
    name = "backward" if norm is None else norm
    if name not in NORMS:
        raise ValueError(f'Invalid norm value {norm}; should be "backward", "ortho" or "forward".')
    return name


def _checked_length(name: str, n: int) -> int:
    """Returns a number of points, checked."""
    length = operator.index(n)
    if length < 1:
        raise ValueError(
            f"Invalid number of FFT data points ({length}) specified: {name} needs at least one "
            "along every axis that it transforms; n= or s= pads with zeros"
        )
    return length


def _cut_or_padded(a: Array, length: int, axis: int) -> Array:
    """Returns an array cut, or filled up with zeros, to a length along an axis."""
    present = a.shape[axis]
    if length < present:
        return ops.index(a, (*(slice(None),) * axis, slice(length)))
    if length == present:
        return a
    widths = [(0, length - present if i == axis else 0) for i in range(len(a.shape))]
    return ops.pad(a, widths)


def _complex_transform(
    name: str, a: Array, lengths: Sequence[int], axes: Sequence[int], norm: Scaling, inverse: bool
) -> Array:
    """Returns the transform over axes, the last one first."""
    params = {"inverse": inverse, "norm": _checked_norm(norm)}
    if len(set(axes)) < len(axes):
        for n, axis in zip(reversed(lengths), reversed(axes)):
            a = _complex_transform(name, a, (n,), (axis,), norm, inverse)
        return a
    for n, axis in zip(lengths, axes, strict=True):
        a = _cut_or_padded(a, _checked_length(name, n), axis)
    if axes:
        a = fourier.fft.bind((a,), {**params, "axes": tuple(axes)})
    return a


def _half_spectrum(name: str, a: Array, n: int, axis: int, norm: Scaling) -> Array:
    """Returns half the spectrum of real values."""
    a = _cut_or_padded(a, _checked_length(name, n), axis)
    return fourier.rfft.bind((a,), {"axis": axis, "norm": _checked_norm(norm)})


def _values_of_half_spectrum(name: str, a: Array, n: int, axis: int, norm: Scaling) -> Array:
    """Returns the real values of half a spectrum."""
    n = _checked_length(name, n)
    a = _cut_or_padded(a, n // 2 + 1, axis)
    return fourier.irfft.bind((a,), {"n": n, "axis": axis, "norm": _checked_norm(norm)})


def _lengths_and_axes(
    name: str, a: Array, s: Integers, axes: Integers, half: bool = False
) -> tuple[list[int], list[int]]:
    """Returns how many points are transformed along which axes.

    A length of -1 is that of the operand. Where ``half``, the operand is half a spectrum along the
    last of the axes.
    """
    ndim = len(a.shape)
    if axes is None:
        axes = range(ndim) if s is None else range(-len(s), 0)
    axes = [canonical_axis(axis, ndim) for axis in axes]
    whole = [a.shape[axis] for axis in axes]
    if s is None:
        if half and axes:
            whole[-1] = 2 * (whole[-1] - 1)
        return whole, axes
    if len(s) != len(axes):
        raise ValueError(
            f"{name}: Shape and axes have different lengths: s={tuple(s)} has {len(s)} entries for "
            f"{len(axes)} axes"
        )
    return [n if m in (-1, None) else m for m, n in zip(s, whole)], axes


def _last_axis(name: str, axes: list[int]) -> int:
    if not axes:
        raise ValueError(f"{name} needs at least one axis")
    return axes[-1]


# -- along one axis


@of_array
def fft(
    a: ArrayLike, n: int | None = None, axis: int = -1, norm: Scaling = None, out: None = None
) -> Array:
    """Returns the discrete Fourier transform, ``sum(a[j] * exp(-2 pi i j k / n))``, along an axis.

    Args:
        a: a real or complex array.
        n: how many elements to transform: a is cut, or filled up with zeros; by default all.
        axis: along which axis.
        norm: "backward" (the default), "ortho" or "forward".
        out: None; arrays are immutable.

    Returns:
        A complex array, in a's precision, of length n along the axis.

    Raises:
        ValueError: there is nothing to transform.

    >>> import functensor.numpy as np
    >>> np.fft.fft(np.array([1.0, 2.0, 3.0, 4.0]))
    Array([10.+0.j, -2.+2.j, -2.+0.j, -2.-2.j], dtype=complex128, device='cpu')
    """
    a = _transform_operand("fft", a, out)
    axis = canonical_axis(axis, len(a.shape))
    return _complex_transform("fft", a, (a.shape[axis] if n is None else n,), (axis,), norm, False)


@of_array
def ifft(
    a: ArrayLike, n: int | None = None, axis: int = -1, norm: Scaling = None, out: None = None
) -> Array:
    """Returns the inverse of `fft`, ``sum(a[k] * exp(2 pi i j k / n)) / n``, along an axis.

    Args:
        a, n, axis, norm, out: as for `fft`.

    Returns:
        A complex array, in a's precision, of length n along the axis.

    Raises:
        ValueError: there is nothing to transform.

    >>> import functensor.numpy as np
    >>> np.fft.ifft(np.array([4.0, 0.0, 0.0, 0.0]))
    Array([1.+0.j, 1.+0.j, 1.+0.j, 1.+0.j], dtype=complex128, device='cpu')
    """
    a = _transform_operand("ifft", a, out)
    axis = canonical_axis(axis, len(a.shape))
    return _complex_transform("ifft", a, (a.shape[axis] if n is None else n,), (axis,), norm, True)


@of_array
def rfft(
    a: ArrayLike, n: int | None = None, axis: int = -1, norm: Scaling = None, out: None = None
) -> Array:
    """Returns the first half of the discrete Fourier transform of real values; it says all.

    Args:
        a: a real array.
        n, axis, norm, out: as for `fft`.

    Returns:
        A complex array, in a's precision, of length ``n // 2 + 1`` along the axis.

    Raises:
        TypeError: a is complex.
        ValueError: there is nothing to transform.

    >>> import functensor.numpy as np
    >>> np.fft.rfft(np.array([1.0, 2.0, 3.0, 4.0]))
    Array([10.+0.j, -2.+2.j, -2.+0.j], dtype=complex128, device='cpu')
    """
    a = _transform_operand("rfft", a, out, real=True)
    axis = canonical_axis(axis, len(a.shape))
    return _half_spectrum("rfft", a, a.shape[axis] if n is None else n, axis, norm)


@of_array
def irfft(
    a: ArrayLike, n: int | None = None, axis: int = -1, norm: Scaling = None, out: None = None
) -> Array:
    """Returns the inverse of `rfft`: the real values of which a is half the spectrum.

    Args:
        a: a real or complex array.
        n: how many values there are: a is cut, or filled up with zeros, to ``n // 2 + 1``
            elements; by default ``2 * (m - 1)`` for m elements.
        axis, norm, out: as for `fft`.

    Returns:
        A real array, in a's precision, of length n along the axis.

    Raises:
        ValueError: there are no values.

    >>> import functensor.numpy as np
    >>> np.fft.irfft(np.array([10.0, -2.0 + 2.0j, -2.0]))
    Array([1., 2., 3., 4.], dtype=float64, device='cpu')
    """
    a = _transform_operand("irfft", a, out)
    axis = canonical_axis(axis, len(a.shape))
    n = 2 * (a.shape[axis] - 1) if n is None else n
    return _values_of_half_spectrum("irfft", a, n, axis, norm)


@of_array
def hfft(
    a: ArrayLike, n: int | None = None, axis: int = -1, norm: Scaling = None, out: None = None
) -> Array:
    """Returns the transform of values that are half of a Hermitian signal: a real spectrum.

    Args:
        a, n, axis, norm, out: as for `irfft`.

    Returns:
        A real array, in a's precision, of length n along the axis.

    Raises:
        ValueError: there are no values.

    >>> import functensor.numpy as np
    >>> np.fft.hfft(np.array([1.0, 2.0, 3.0]))
    Array([ 8., -2.,  0., -2.], dtype=float64, device='cpu')
    """
    a = _transform_operand("hfft", a, out)
    axis = canonical_axis(axis, len(a.shape))
    n = 2 * (a.shape[axis] - 1) if n is None else n
    return _values_of_half_spectrum("hfft", ops.conj(a), n, axis, NORMS[_checked_norm(norm)])


@of_array
def ihfft(
    a: ArrayLike, n: int | None = None, axis: int = -1, norm: Scaling = None, out: None = None
) -> Array:
    """Returns the inverse of `hfft`: the first half of the signal of which a is the spectrum.

    Args:
        a, n, axis, norm, out: as for `rfft`.

    Returns:
        A complex array, in a's precision, of length ``n // 2 + 1`` along the axis.

    Raises:
        TypeError: a is complex.
        ValueError: there is nothing to transform.

    >>> import functensor.numpy as np
    >>> np.fft.ihfft(np.array([8.0, -2.0, 0.0, -2.0])).real
    Array([1., 2., 3.], dtype=float64, device='cpu')
    """
    a = _transform_operand("ihfft", a, out, real=True)
    axis = canonical_axis(axis, len(a.shape))
    n = a.shape[axis] if n is None else n
    return ops.conj(_half_spectrum("ihfft", a, n, axis, NORMS[_checked_norm(norm)]))


# -- along several axes


@of_array
def fftn(
    a: ArrayLike, s: Integers = None, axes: Integers = None, norm: Scaling = None, out: None = None
) -> Array:
    """Returns the discrete Fourier transform over several axes.

    Args:
        a: a real or complex array.
        s: how many elements to transform along each axis, -1 for all; a is cut, or filled up with
            zeros.
        axes: over which axes, the last one first; by default all, or as many last ones as ``s``
            has entries. An axis that is named twice is transformed twice.
        norm: "backward" (the default), "ortho" or "forward".
        out: None; arrays are immutable.

    Returns:
        A complex array, in a's precision.

    Raises:
        ValueError: ``s`` and ``axes`` differ in length, or there is nothing to transform.

    >>> import functensor.numpy as np
    >>> np.fft.fftn(np.ones((2, 2))).real
    Array([[4., 0.],
           [0., 0.]], dtype=float64, device='cpu')
    """
    a = _transform_operand("fftn", a, out)
    return _complex_transform("fftn", a, *_lengths_and_axes("fftn", a, s, axes), norm, False)


@of_array
def ifftn(
    a: ArrayLike, s: Integers = None, axes: Integers = None, norm: Scaling = None, out: None = None
) -> Array:
    """Returns the inverse of `fftn`.

    Args:
        a, s, axes, norm, out: as for `fftn`.

    >>> import functensor.numpy as np
    >>> np.fft.ifftn(np.ones((2, 2))).real
    Array([[1., 0.],
           [0., 0.]], dtype=float64, device='cpu')
    """
    a = _transform_operand("ifftn", a, out)
    return _complex_transform("ifftn", a, *_lengths_and_axes("ifftn", a, s, axes), norm, True)


@of_array
def rfftn(
    a: ArrayLike, s: Integers = None, axes: Integers = None, norm: Scaling = None, out: None = None
) -> Array:
    """Returns `rfft` over the last of several axes, then `fft` over the others.

    Args:
        a: a real array.
        s, axes, norm, out: as for `fftn`.

    Returns:
        A complex array, in a's precision, of length ``n // 2 + 1`` along the last of the axes.

    Raises:
        TypeError: a is complex.
        ValueError: as for `fftn`, or there is no axis.

    >>> import functensor.numpy as np
    >>> np.fft.rfftn(np.ones((2, 4))).shape
    (2, 3)
    """
    a = _transform_operand("rfftn", a, out, real=True)
    lengths, axes = _lengths_and_axes("rfftn", a, s, axes)
    half = _half_spectrum("rfftn", a, lengths[-1] if axes else 1, _last_axis("rfftn", axes), norm)
    return _complex_transform("rfftn", half, lengths[:-1], axes[:-1], norm, False)


@of_array
def irfftn(
    a: ArrayLike, s: Integers = None, axes: Integers = None, norm: Scaling = None, out: None = None
) -> Array:
    """Returns the inverse of `rfftn`.

    Args:
        a: a real or complex array, half a spectrum along the last of the axes.
        s: how many values there are along each axis; by default ``2 * (m - 1)`` for m elements of
            the last one.
        axes, norm, out: as for `fftn`.

    Returns:
        A real array, in a's precision.

    Raises:
        ValueError: as for `rfftn`.

    >>> import functensor.numpy as np
    >>> np.fft.irfftn(np.fft.rfftn(np.ones((2, 4)))).shape
    (2, 4)
    """
    a = _transform_operand("irfftn", a, out)
    lengths, axes = _lengths_and_axes("irfftn", a, s, axes, half=True)
    last = _last_axis("irfftn", axes)
    half = _complex_transform("irfftn", a, lengths[:-1], axes[:-1], norm, True)
    return _values_of_half_spectrum("irfftn", half, lengths[-1], last, norm)


@of_array
def fft2(
    a: ArrayLike,
    s: Integers = None,
    axes: Integers = (-2, -1),
    norm: Scaling = None,
    out: None = None,
) -> Array:
    """Returns `fftn` over the last two axes.

    Args:
        a, s, axes, norm, out: as for `fftn`.

    >>> import functensor.numpy as np
    >>> np.fft.fft2(np.ones((3, 2, 2)))[0].real
    Array([[4., 0.],
           [0., 0.]], dtype=float64, device='cpu')
    """
    refuse_out("fft2", out, "np.fft")
    return fftn(a, s, axes, norm)


@of_array
def ifft2(
    a: ArrayLike,
    s: Integers = None,
    axes: Integers = (-2, -1),
    norm: Scaling = None,
    out: None = None,
) -> Array:
    """Returns `ifftn` over the last two axes.

    Args:
        a, s, axes, norm, out: as for `fftn`.

    >>> import functensor.numpy as np
    >>> np.fft.ifft2(np.ones((3, 2, 2)))[0].real
    Array([[1., 0.],
           [0., 0.]], dtype=float64, device='cpu')
    """
    refuse_out("ifft2", out, "np.fft")
    return ifftn(a, s, axes, norm)


@of_array
def rfft2(
    a: ArrayLike,
    s: Integers = None,
    axes: Integers = (-2, -1),
    norm: Scaling = None,
    out: None = None,
) -> Array:
    """Returns `rfftn` over the last two axes.

    Args:
        a, s, axes, norm, out: as for `rfftn`.

    >>> import functensor.numpy as np
    >>> np.fft.rfft2(np.ones((3, 2, 4))).shape
    (3, 2, 3)
    """
    refuse_out("rfft2", out, "np.fft")
    return rfftn(a, s, axes, norm)


@of_array
def irfft2(
    a: ArrayLike,
    s: Integers = None,
    axes: Integers = (-2, -1),
    norm: Scaling = None,
    out: None = None,
) -> Array:
    """Returns `irfftn` over the last two axes.

    Args:
        a, s, axes, norm, out: as for `irfftn`.

    >>> import functensor.numpy as np
    >>> np.fft.irfft2(np.ones((3, 2, 3))).shape
    (3, 2, 4)
    """
    refuse_out("irfft2", out, "np.fft")
    return irfftn(a, s, axes, norm)


publish(globals())
