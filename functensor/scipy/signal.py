"""SciPy's ``signal``: convolution, correlation, filters, resampling and trends.

`signal_filters` has recursive filters, `signal_smoothing` smoothing and resampling.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import log2, prod
from typing import TypeAlias

import numpy as np

from ..backends.annotations import Axis, DType
from ..faces.publish import publish
from ..numpy import fft
from ..numpy.arguments import as_inexact
from ..numpy.creation import asarray
from ..primitives.contract.conv import Geometry, conv
from ..primitives.core.annotations import ArrayLike
from ..primitives.core.annotations import operations as ops
from ..primitives.core.array import Array
from ..primitives.core.buffers import beside, wrap
from ..primitives.core.shape_dtype import INEXACT, as_list, canonical_axis, finfo, result_type
from .signal_filters import filtfilt, lfilter, lfilter_zi, sosfilt, sosfilt_zi, sosfiltfilt
from .signal_smoothing import hilbert, hilbert2, resample, savgol_coeffs, savgol_filter

__all__ = [
    "convolve", "convolve2d", "correlate", "correlate2d", "detrend", "fftconvolve", "filtfilt",
    "hilbert", "hilbert2", "lfilter", "lfilter_zi", "oaconvolve", "resample", "savgol_coeffs",
    "savgol_filter", "sosfilt", "sosfilt_zi", "sosfiltfilt",
]  # fmt: skip

# Axes of one operand, and those of the other that go with them.
AxisPairs: TypeAlias = tuple[Sequence[int], Sequence[int]]

RESULT_MODES = ("full", "same", "valid")
CONVOLUTION_METHODS = ("auto", "direct", "fft")
# The words for continuations of an image, and the modes of padding for them.
BOUNDARIES = {"fill": "constant", "wrap": "wrap", "symm": "symmetric"}

# One element's share in a step of the transforms costs as much as about ten multiplications of the
# direct sum, and the transforms have an overhead of about 50,000 multiplications.
STEP_COST = 10
FFT_OVERHEAD = 50_000


def _signals_to_convolve(
    name: str, in1: ArrayLike, in2: ArrayLike, mode: str
) -> tuple[Array, Array]:
    """Returns both operands as arrays, checked."""
    if mode not in RESULT_MODES:
        raise ValueError(f"{name}: mode={mode!r}: acceptable modes are 'full', 'same' and 'valid'")
    in1, in2 = asarray(in1), asarray(in2)
    if len(in1.shape) != len(in2.shape):
        raise ValueError(
            f"{name}: in1 and in2 should have the same dimensionality; their shapes are "
            f"{in1.shape} and {in2.shape}: reshape one, e.g. in2[None, :] for rows"
        )
    return in1, in2


def _smaller_last(name: str, in1: Array, in2: Array, axes: Sequence[int]) -> tuple[Array, Array]:
    """Returns the operands of mode "valid", in which the second one has to fit into the first."""
    pairs = [(in1.shape[axis], in2.shape[axis]) for axis in axes]
    if all(m >= n for m, n in pairs):
        return in1, in2
    if all(m <= n for m, n in pairs):
        return in2, in1
    raise ValueError(
        f"{name}: for mode='valid' one operand must be at least as large as the other along every "
        f"axis; their shapes are {in1.shape} and {in2.shape}"
    )


def _padding(mode: str, k: int) -> tuple[int, int]:
    """Returns the numbers of zeros before and after the operand of a kernel of length k."""
    return {"full": (k - 1, k - 1), "same": (k // 2, (k - 1) // 2), "valid": (0, 0)}[mode]


def _direct(in1: Array, in2: Array, mode: str, dtype: DType) -> Array:
    """Returns the convolution, summed up; both operands have elements, and at least one axis."""
    if mode == "full" and in2.size > in1.size:
        in1, in2 = in2, in1
    # Booleans are counted: a count above 0 is True.
    kind = np.dtype(np.intp) if dtype.kind == "b" else dtype
    paddings = [_padding(mode, k) for k in in2.shape]
    image, kernel = (ops.expand_dims(ops.astype(x, kind), (0, 1)) for x in (in1, ops.flip(in2)))
    out = _correlated(image, kernel, paddings)
    return ops.astype(ops.squeeze(out, (0, 1)), dtype)


def _correlated(images: Array, kernels: Array, paddings: Sequence[tuple[int, int]]) -> Array:
    """Returns the sums of products of images (number, channel, *places) and kernels likewise."""
    ones = (1,) * len(paddings)
    return conv.bind((images, kernels), {"geometry": Geometry(ones, tuple(paddings), ones, 1)})


def _convolved_along(
    in1: ArrayLike, in2: ArrayLike, mode: str, axes: AxisPairs, dot_axes: AxisPairs | None
) -> Array:
    """Returns the convolution over some axes, summed over pairs of others."""
    in1, in2 = asarray(in1), asarray(in2)
    if mode not in RESULT_MODES:
        raise ValueError(f"convolve: mode={mode!r} is none of 'full', 'same' and 'valid'")
    parts = []
    for x, along, summed in zip((in1, in2), axes, dot_axes or ((), ()), strict=True):
        ndim = len(x.shape)
        moved = [[canonical_axis(axis, ndim) for axis in group] for group in (summed, along)]
        rest = [axis for axis in range(ndim) if axis not in moved[0] + moved[1]]
        if len(rest) + len(moved[0]) + len(moved[1]) != ndim:
            raise ValueError(f"convolve: axes={axes} and dot_axes={dot_axes} name an axis twice")
        shapes = [tuple(x.shape[axis] for axis in group) for group in (rest, *moved)]
        x = ops.transpose(x, (*rest, *moved[0], *moved[1]))
        parts.append((ops.reshape(x, (prod(shapes[0]), prod(shapes[1]), *shapes[2])), shapes))
    (a, (rest1, summed1, along1)), (b, (rest2, summed2, along2)) = parts
    if summed1 != summed2 or len(along1) != len(along2) or 0 in (a.size, b.size):
        raise ValueError(
            f"convolve: axes={axes} and dot_axes={dot_axes} do not fit operands of shapes "
            f"{in1.shape} and {in2.shape}"
        )
    places = range(2, 2 + len(along1))
    swapped = mode == "valid" and _smaller_last("convolve", a, b, places)[0] is b
    if swapped:
        a, b = b, a
    kernels = ops.flip(b, tuple(places))
    out = _correlated(a, kernels, [_padding(mode, b.shape[axis]) for axis in places])
    if swapped:
        out = ops.swapaxes(out, 0, 1)
    return ops.reshape(out, (*rest1, *rest2, *out.shape[2:]))


def _prefers_fft(in1: Array, in2: Array, mode: str, dtype: DType) -> bool:
    """Tells whether transforms are faster; integers are summed up, which is exact."""
    if dtype.kind not in INEXACT:
        return False
    full = [m + n - 1 for m, n in zip(in1.shape, in2.shape)]
    valid = [m - n + 1 for m, n in zip(in1.shape, in2.shape)]
    points, outputs = prod(full), prod({"full": full, "same": in1.shape, "valid": valid}[mode])
    steps: float = STEP_COST * points * log2(max(points, 2))
    return bool(outputs * prod(in2.shape) > steps + FFT_OVERHEAD)


def _convolve(name: str, in1: Array, in2: Array, mode: str, method: str) -> Array:
    if method not in CONVOLUTION_METHODS:
        raise ValueError(
            f"{name}: method={method!r}: acceptable methods are 'auto', 'direct' and 'fft'"
        )
    dtype = result_type(in1.dtype, in2.dtype)
    if not in1.shape:
        return ops.multiply(in1, in2)
    if 0 in (in1.size, in2.size):
        raise ValueError(f"{name}: an operand is empty; shapes are {in1.shape} and {in2.shape}")
    if mode == "valid":
        in1, in2 = _smaller_last(name, in1, in2, range(len(in1.shape)))
    if method == "direct" or (method == "auto" and not _prefers_fft(in1, in2, mode, dtype)):
        return _direct(in1, in2, mode, dtype)
    out = fftconvolve(in1, in2, mode)
    return ops.astype(ops.round(out) if dtype.kind in "biu" else out, dtype)


def convolve(
    in1: ArrayLike,
    in2: ArrayLike,
    mode: str = "full",
    method: str = "auto",
    *,
    axes: AxisPairs | None = None,
    dot_axes: AxisPairs | None = None,
) -> Array:
    """Returns the convolution of two arrays over all of their axes.

    Args:
        in1, in2: arrays with as many axes.
        mode: "full": wherever the operands overlap; "same": the middle of that, of in1's shape;
            "valid": where the smaller one lies within the larger one.
        method: "direct" sums products up; "fft" multiplies transforms, which spreads a NaN or an
            infinity over all elements; "auto" takes the way that is likely to be faster.
        axes: as HIPS autograd has them, a pair of lists: which axes of in1 to convolve with which
            of in2, by direct sums. The operands may differ in their number of axes.
        dot_axes: with ``axes``, a pair of lists: which axes of in1 to sum products over with which
            of in2. The result has the remaining axes of in1, then those of in2, then ``axes``.

    Returns:
        An array of the promoted dtype; along every axis of length m + n - 1 in mode "full", m in
        mode "same" and ``abs(m - n) + 1`` in mode "valid".

    Raises:
        ValueError: the operands differ in their number of axes, one is empty, neither fits into
            the other in mode "valid", or ``axes`` and ``dot_axes`` do not fit.

    >>> import functensor as ft, functensor.numpy as np
    >>> ft.scipy.signal.convolve(np.array([1.0, 2.0, 3.0]), np.array([1.0, 10.0]))
    Array([ 1., 12., 23., 30.], dtype=float64, device='cpu')
    """
    if axes is not None:
        return _convolved_along(in1, in2, mode, axes, dot_axes)
    if dot_axes is not None:
        raise ValueError("convolve: dot_axes goes with axes, the axes to convolve along")
    in1, in2 = _signals_to_convolve("convolve", in1, in2, mode)
    return _convolve("convolve", in1, in2, mode, method)


def _images(
    name: str, in1: ArrayLike, in2: ArrayLike, mode: str, boundary: str, fillvalue: ArrayLike
) -> tuple[Array, Array, list[slice]]:
    """Returns an image continued beyond its edges, a kernel, and the slices of the result."""
    in1, in2 = _signals_to_convolve(name, in1, in2, mode)
    if len(in1.shape) != 2 or 0 in (in1.size, in2.size):
        raise ValueError(
            f"{name}: operands are images with two axes and elements, not of shapes {in1.shape} "
            f"and {in2.shape}"
        )
    if boundary not in BOUNDARIES:
        raise ValueError(f"{name}: boundary={boundary!r}: it is 'fill', 'wrap' or 'symm'")
    cuts = []
    for m, n in zip(in1.shape, in2.shape):
        length = {"full": m + n - 1, "same": m, "valid": m - n + 1}[mode]
        start = (m + n - 1 - length) // 2
        cuts.append(slice(start, start + length))
    widths = [(n - 1, n - 1) for n in in2.shape]
    fill = {"constant_values": fillvalue} if boundary == "fill" else {}
    return ops.pad(in1, widths, mode=BOUNDARIES[boundary], **fill), in2, cuts


def convolve2d(
    in1: ArrayLike,
    in2: ArrayLike,
    mode: str = "full",
    boundary: str = "fill",
    fillvalue: ArrayLike = 0,
) -> Array:
    """Returns the convolution of two images.

    Args:
        in1, in2: arrays with two axes.
        mode: as for `convolve`.
        boundary: the values of in1 beyond its edges: "fill" a number, "wrap" itself again, "symm"
            its mirror image.
        fillvalue: the number.

    Returns:
        As `convolve`.

    Raises:
        ValueError: as for `convolve`.

    >>> import functensor as ft, functensor.numpy as np
    >>> ft.scipy.signal.convolve2d(np.ones((2, 2)), np.ones((1, 2)), boundary="symm")
    Array([[2., 2., 2.],
           [2., 2., 2.]], dtype=float64, device='cpu')
    """
    if mode == "valid":
        both = _signals_to_convolve("convolve2d", in1, in2, mode)
        in1, in2 = _smaller_last("convolve2d", *both, (0, 1))
    image, kernel, cuts = _images("convolve2d", in1, in2, mode, boundary, fillvalue)
    return ops.index(convolve(image, kernel, "valid"), tuple(cuts))


def correlate2d(
    in1: ArrayLike,
    in2: ArrayLike,
    mode: str = "full",
    boundary: str = "fill",
    fillvalue: ArrayLike = 0,
) -> Array:
    """Returns the correlation of two images, ``sum(in1[l + k] * conj(in2[l]))``.

    Args:
        in1, in2, mode, boundary, fillvalue: as for `convolve2d`.

    Returns:
        As `convolve`.

    Raises:
        ValueError: as for `convolve`.

    >>> import functensor as ft, functensor.numpy as np
    >>> ft.scipy.signal.correlate2d(np.eye(2), np.array([[1.0, 2.0]]), "same")
    Array([[1., 0.],
           [2., 1.]], dtype=float64, device='cpu')
    """
    flipped = False
    if mode == "valid":
        in1, in2 = _signals_to_convolve("correlate2d", in1, in2, mode)
        larger, smaller = _smaller_last("correlate2d", in1, in2, (0, 1))
        # The correlation of swapped operands runs backwards.
        flipped, in1, in2 = larger is not in1, larger, smaller
    image, kernel, cuts = _images("correlate2d", in1, in2, mode, boundary, fillvalue)
    out = convolve(image, ops.conj(ops.flip(kernel)), "valid")
    if mode == "same":
        cuts = [slice(n // 2, n // 2 + m) for m, n in zip(ops.asarray(in1).shape, kernel.shape)]
    out = ops.index(out, tuple(cuts))
    return ops.flip(out) if flipped else out


def correlate(in1: ArrayLike, in2: ArrayLike, mode: str = "full", method: str = "auto") -> Array:
    """Returns the correlation of two arrays over all axes, ``sum(in1[l + k] * conj(in2[l]))``.

    Args:
        in1, in2, mode, method: as for `convolve`.

    Returns:
        As `convolve`.

    Raises:
        ValueError: as for `convolve`.

    >>> import functensor as ft, functensor.numpy as np
    >>> ft.scipy.signal.correlate(np.array([1.0, 2.0, 3.0]), np.array([1.0, 10.0]))
    Array([10., 21., 32.,  3.], dtype=float64, device='cpu')
    """
    in1, in2 = _signals_to_convolve("correlate", in1, in2, mode)
    reversed_in2 = ops.conj(ops.flip(in2) if in2.shape else in2)
    return _convolve("correlate", in1, reversed_in2, mode, method)


def _fast_length(least: int) -> int:
    """Returns the next length without prime factors above 5, which transforms are fast for.

    >>> _fast_length(13)
    15
    """
    best = 1 << (least - 1).bit_length()
    fives = 1
    while fives < best:
        threes = fives
        while threes < best:
            rest = -(-least // threes)
            best = min(best, threes << (rest - 1).bit_length())
            threes *= 3
        fives *= 5
    return best


def fftconvolve(in1: ArrayLike, in2: ArrayLike, mode: str = "full", axes: Axis = None) -> Array:
    """Returns the convolution of two arrays by multiplying their Fourier transforms.

    Args:
        in1, in2: arrays with as many axes.
        mode: as for `convolve`.
        axes: over which axes; None for all. Along the others the operands broadcast.

    Returns:
        A real or complex array; no elements, on one axis, where an operand has none.

    Raises:
        ValueError: shapes do not fit, or ``axes`` is empty.

    >>> import functensor as ft, functensor.numpy as np
    >>> ft.scipy.signal.fftconvolve(np.ones((2, 3)), np.ones((2, 2)), axes=1).shape
    (2, 4)
    """
    return _by_spectra("fftconvolve", in1, in2, mode, axes)


def oaconvolve(in1: ArrayLike, in2: ArrayLike, mode: str = "full", axes: Axis = None) -> Array:
    """Returns the convolution of two arrays, as `fftconvolve` does, under its other name.

    SciPy's transforms blocks of the longer operand, where the other one is short; the result is the
    same up to rounding.

    Args:
        in1, in2, mode, axes: as for `fftconvolve`.

    Returns:
        As `fftconvolve`.

    Raises:
        ValueError: as for `fftconvolve`.

    >>> import functensor as ft, functensor.numpy as np
    >>> ft.scipy.signal.oaconvolve(np.ones(4), np.ones(2)).round(12).tolist()
    [1.0, 2.0, 2.0, 2.0, 1.0]
    """
    return _by_spectra("oaconvolve", in1, in2, mode, axes)


def _by_spectra(name: str, in1: ArrayLike, in2: ArrayLike, mode: str, axes: Axis) -> Array:
    """Returns the convolution over axes, the product of transforms."""
    in1, in2 = _signals_to_convolve(name, in1, in2, mode)
    ndim = len(in1.shape)
    if not ndim:
        return ops.multiply(in1, in2)
    named = list(range(ndim)) if axes is None else as_list(axes)
    if not named:
        raise ValueError(f"{name}: when provided, axes cannot be empty")
    chosen = [canonical_axis(axis, ndim) for axis in named]
    if len(set(chosen)) < len(chosen):
        raise ValueError(f"{name}: all axes must be unique, not {axes}")
    if 0 in (in1.size, in2.size):
        return wrap(beside(in1, np.zeros(0, result_type(in1.dtype, in2.dtype, np.float32))))
    # Along an axis on which an operand has one element, multiplication broadcasts.
    chosen = [axis for axis in chosen if in1.shape[axis] != 1 and in2.shape[axis] != 1]
    for axis, (m, n) in enumerate(zip(in1.shape, in2.shape)):
        if axis not in chosen and m != n and 1 not in (m, n):
            raise ValueError(
                f"{name}: incompatible shapes {in1.shape} and {in2.shape}: they do not "
                f"broadcast along axis {axis}, which is not transformed"
            )
    if mode == "valid":
        in1, in2 = _smaller_last(name, in1, in2, chosen)
    product = _multiplied_spectra(in1, in2, chosen)
    key = [slice(None)] * ndim
    for axis in range(ndim):
        m, n = in1.shape[axis], in2.shape[axis]
        full = m + n - 1 if axis in chosen else max(m, n)
        length = full if mode == "full" else m
        if mode == "valid":
            length = m - n + 1 if axis in chosen else full
        start = (full - length) // 2
        key[axis] = slice(start, start + length)
    return ops.index(product, tuple(key))


def _multiplied_spectra(in1: Array, in2: Array, axes: list[int]) -> Array:
    """Returns the full convolution, with zeros after it."""
    kind = result_type(in1.dtype, in2.dtype)
    if kind.kind in "biu":
        kind = np.dtype(np.float64)
    if not axes:
        return ops.multiply(ops.astype(in1, kind), ops.astype(in2, kind))
    lengths = [_fast_length(in1.shape[axis] + in2.shape[axis] - 1) for axis in axes]
    there, back = (fft.fftn, fft.ifftn) if kind.kind == "c" else (fft.rfftn, fft.irfftn)
    spectra = [there(ops.astype(x, kind), lengths, axes) for x in (in1, in2)]
    return ops.astype(back(ops.multiply(*spectra), lengths, axes), kind)


def detrend(
    data: ArrayLike,
    axis: int = -1,
    type: str = "linear",
    bp: int | Sequence[int] = 0,
    overwrite_data: bool = False,
) -> Array:
    """Returns data without its trend along an axis.

    Args:
        data: a real or complex array.
        axis: along which axis.
        type: "linear" takes the line away that fits best, by least squares; "constant" the mean.
        bp: for lines: where a new one begins, one or several places.
        overwrite_data: arrays never change.

    Returns:
        An array of the data's shape.

    Raises:
        ValueError: there is no such type, or a place lies beyond the data.

    >>> import functensor as ft, functensor.numpy as np
    >>> ft.scipy.signal.detrend(np.array([1.0, 2.0, 3.0, 10.0]), type="constant")
    Array([-3., -2., -1.,  6.], dtype=float64, device='cpu')
    """
    data = as_inexact(data)
    if type not in ("linear", "l", "constant", "c"):
        raise ValueError(f"detrend: type={type!r}: types are 'linear' and 'constant'")
    axis = canonical_axis(axis, len(data.shape))
    if type in ("constant", "c"):
        return ops.subtract(data, ops.mean(data, axis=axis, keepdims=True))
    length = data.shape[axis]
    ends = np.unique(np.concatenate([[0], np.ravel(bp), [length]])).astype(int).tolist()
    if ends[0] < 0 or ends[-1] > length:
        raise ValueError(f"detrend: bp={bp!r}: places lie between 0 and {length}")
    before = (slice(None),) * axis
    parts = []
    for start, stop in pairwise(ends):
        part = ops.index(data, (*before, slice(start, stop)))
        place = np.arange(stop - start) - (stop - start - 1) / 2
        place = place.astype(finfo(data.dtype).dtype)
        # A single place has no slope.
        norm = float(np.sum(place * place)) or 1.0
        place = beside(data, place.reshape(-1, *(1,) * (len(data.shape) - axis - 1)))
        slope = ops.sum(part * place, axis=axis, keepdims=True) / norm
        parts.append(part - ops.mean(part, axis=axis, keepdims=True) - slope * place)
    return ops.concatenate(parts, axis=axis) if parts else data


publish(globals())
