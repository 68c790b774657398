"""Discrete cosine and sine transforms of `functensor.scipy.fft`, made of Fourier transforms.

Definitions, types and scales are SciPy's. Without a scale, with n points and k from 0 on:

    dct, 1: y[k] = x[0] + (-1)^k x[n-1] + 2 sum(x[j] cos(pi k j / (n - 1)), 0 < j < n - 1)
    dct, 2: y[k] = 2 sum(x[j] cos(pi k (2 j + 1) / (2 n)))
    dct, 3: y[k] = x[0] + 2 sum(x[j] cos(pi (2 k + 1) j / (2 n)), 0 < j)
    dct, 4: y[k] = 2 sum(x[j] cos(pi (2 k + 1) (2 j + 1) / (4 n)))

Of these, dst has sines, and its frequencies begin at 1.

Source: J. Makhoul, "A fast cosine transform in one and two dimensions", IEEE Transactions on
Acoustics, Speech and Signal Processing 28 (1980).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from math import sqrt

import numpy as np

from ..backends.annotations import Axis, Buffer, ShapeLike
from ..numpy import fft
from ..numpy.arguments import as_inexact
from ..primitives.contract.fourier import NORMS
from ..primitives.core.annotations import ArrayLike
from ..primitives.core.annotations import operations as ops
from ..primitives.core.array import Array
from ..primitives.core.buffers import beside
from ..primitives.core.shape_dtype import as_list, canonical_axis, finfo
from .axis_slices import cut_last, padded_last

__all__ = ["dct", "dctn", "documented", "dst", "dstn", "idct", "idctn", "idst", "idstn"]

# The type of the inverse of each type.
OPPOSITE = {1: 1, 2: 3, 3: 2, 4: 4}


# -- along the last axis, real, without a scale


def _weighed(x: Array, weights: Buffer) -> Array:
    """Returns an array times NumPy's constants along its last axis, in its precision."""
    kind = np.dtype(f"c{2 * finfo(x.dtype).dtype.itemsize}")
    if weights.dtype.kind != "c":
        kind = finfo(x.dtype).dtype
    return x * beside(x, weights.astype(kind))


def _turns(n: int, quarter: int) -> Buffer:
    """Returns ``exp(-pi i k / quarter)`` for k up to n."""
    turns: Buffer = np.exp(-1j * np.pi * np.arange(n) / quarter)
    return turns


def _cosine_1(x: Array) -> Array:
    return ops.real(fft.rfft(ops.concatenate([x, ops.flip(cut_last(x, 1, -1), -1)], axis=-1)))


def _cosine_2(x: Array) -> Array:
    n = x.shape[-1]
    even, odd = cut_last(x, 0, step=2), cut_last(x, 1, step=2)
    mixed = ops.concatenate([even, ops.flip(odd, -1)], axis=-1)
    half = _weighed(fft.rfft(mixed), 2 * _turns(n // 2 + 1, 2 * n))
    # Frequency n - k has the imaginary part of frequency k.
    back = ops.flip(cut_last(ops.imag(half), 1, (n + 1) // 2), -1)
    return ops.concatenate([ops.real(half), ops.negative(back)], axis=-1)


def _cosine_3(x: Array) -> Array:
    n = x.shape[-1]
    count = n // 2 + 1
    low = cut_last(x, 0, count)
    # Frequency n is 0, and it is the opposite of frequency 0.
    tail = ops.flip(cut_last(x, n - count + 1), -1)
    high = ops.concatenate([ops.zeros_like(cut_last(x, 0, 1)), tail], axis=-1)
    spectrum = _weighed(low - 1j * high, n * _turns(count, 2 * n).conj())
    mixed = fft.irfft(spectrum, n)
    even = np.arange(n)
    places = np.where(even % 2, n - 1 - even // 2, even // 2)
    return ops.take(mixed, beside(x, places), axis=-1)


def _cosine_4(x: Array) -> Array:
    n = x.shape[-1]
    wide = fft.fft(_weighed(x, _turns(n, 2 * n)), 2 * n)
    return ops.real(_weighed(cut_last(wide, 0, n), 2 * _turns(n, 2 * n) * _turns(2, 4 * n)[1]))


def _alternating(x: Array) -> Array:
    return _weighed(x, 1.0 - 2.0 * (np.arange(x.shape[-1]) % 2))


def _sine_1(x: Array) -> Array:
    zero = ops.zeros_like(cut_last(x, 0, 1))
    odd = ops.concatenate([zero, x, zero, ops.negative(ops.flip(x, -1))], axis=-1)
    return ops.negative(cut_last(ops.imag(fft.rfft(odd)), 1, x.shape[-1] + 1))


COSINES = {1: _cosine_1, 2: _cosine_2, 3: _cosine_3, 4: _cosine_4}
SINES: dict[int, Callable[[Array], Array]] = {
    1: _sine_1,
    2: lambda x: ops.flip(_cosine_2(_alternating(x)), -1),
    3: lambda x: _alternating(_cosine_3(ops.flip(x, -1))),
    4: lambda x: _alternating(_cosine_4(ops.flip(x, -1))),
}


# -- scales


def _ends(x: Array, first: float, last: float) -> Array:
    """Returns an array whose first and last elements are multiplied."""
    weights = np.ones(x.shape[-1])
    weights[0] *= first
    weights[-1] *= last
    return _weighed(x, weights)


def _with_scale(x: Array, cosine: bool, kind: int, norm: str, orthogonal: bool) -> Array:
    """Returns a transform along the last axis with its scale."""
    n = x.shape[-1]
    root = sqrt(2)
    if orthogonal:
        if kind == 1 and cosine:
            x = _ends(x, root, root)
        elif kind == 3:
            x = _ends(x, root, 1) if cosine else _ends(x, 1, root)
    out = (COSINES if cosine else SINES)[kind](x)
    if orthogonal:
        if kind == 1 and cosine:
            out = _ends(out, 1 / root, 1 / root)
        elif kind == 2:
            out = _ends(out, 1 / root, 1) if cosine else _ends(out, 1, 1 / root)
    if norm == "backward":
        return out
    period = 2 * (n if kind > 1 else n - 1 if cosine else n + 1)
    return out * (1 / sqrt(period) if norm == "ortho" else 1 / period)


def _with_length(name: str, x: Array, n: int | None, axis: int) -> Array:
    """Returns an array, its axis last, cut or filled up with zeros."""
    x = ops.moveaxis(x, axis, -1)
    n = x.shape[-1] if n is None else operator.index(n)
    if n < 1:
        raise ValueError(f"{name}: invalid number of data points ({n}) specified")
    if n <= x.shape[-1]:
        return cut_last(x, 0, n)
    return padded_last(x, 0, n - x.shape[-1])


def _transformed_along(
    name: str,
    x: ArrayLike,
    type: int | Array,
    lengths: Sequence[int | None],
    axes: Sequence[int],
    norm: str | None,
    orthogonalize: bool | None,
) -> Array:
    """Returns a transform along axes; the name says which one, and whether it is an inverse."""
    x = as_inexact(x)
    inverse = name[0] == "i"
    number = operator.index(type) if isinstance(type, Array) else type
    if number not in OPPOSITE:
        raise ValueError(f"{name}: type={type!r}: it is 1, 2, 3 or 4")
    word = "backward" if norm is None else norm
    if word not in NORMS:
        raise ValueError(f"{name}: norm={norm!r}: it is 'backward', 'ortho' or 'forward'")
    orthogonal = word == "ortho" if orthogonalize is None else bool(orthogonalize)
    kind, word = (OPPOSITE[number], NORMS[word]) if inverse else (number, word)
    cosine = "c" in name
    for n, axis in zip(lengths, axes, strict=True):
        part = _with_length(name, x, n, axis)
        if kind == 1 and cosine and part.shape[-1] < 2:
            raise ValueError(f"{name}: type 1 is not defined for fewer than two points")
        if part.dtype.kind == "c":
            # SciPy's does not hand orthogonalize= on to the parts of complex numbers.
            real, imag = (
                _with_scale(z, cosine, kind, word, orthogonal) for z in (part.real, part.imag)
            )
            part = real + 1j * imag
        else:
            part = _with_scale(part, cosine, kind, word, orthogonal)
        x = ops.moveaxis(part, -1, axis)
    return x


# -- the public functions


def _one_axis_cosine(name: str, result: str) -> Callable[..., Array]:
    """Returns a transform along one axis."""

    def transform(
        x: ArrayLike,
        type: int = 2,
        n: int | None = None,
        axis: int = -1,
        norm: str | None = None,
        overwrite_x: bool = False,
        workers: int | None = None,
        orthogonalize: bool | None = None,
    ) -> Array:
        axis = canonical_axis(axis, len(as_inexact(x).shape))
        return _transformed_along(name, x, type, (n,), (axis,), norm, orthogonalize)

    return documented(transform, name, _cosine_document(name, COSINE_ONE_AXIS, result))


def _several_axes_cosine(name: str, result: str) -> Callable[..., Array]:
    """Returns a transform along several axes."""

    def transform(
        x: ArrayLike,
        type: int = 2,
        s: ShapeLike | None = None,
        axes: Axis = None,
        norm: str | None = None,
        overwrite_x: bool = False,
        workers: int | None = None,
        *,
        orthogonalize: bool | None = None,
    ) -> Array:
        x = as_inexact(x)
        lengths: list[int | None] | None = s if s is None else as_list(s)
        if axes is None:
            axes = range(len(x.shape)) if lengths is None else range(-len(lengths), 0)
        axes = [canonical_axis(axis, len(x.shape)) for axis in as_list(axes)]
        lengths = [None] * len(axes) if lengths is None else lengths
        if len(lengths) != len(axes) or len(set(axes)) != len(axes):
            raise ValueError(
                f"{name}: when given, axes and shape arguments have to be of the same length, and "
                f"axes unique: s={tuple(lengths)}, axes={tuple(axes)}"
            )
        return _transformed_along(name, x, type, lengths, axes, norm, orthogonalize)

    return documented(transform, name, _cosine_document(name, COSINE_MANY_AXES, result))


def documented(function: Callable[..., Array], name: str, doc: str) -> Callable[..., Array]:
    """Gives a transform its name and its docstring."""
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


COSINE_ONE_AXIS = """n: how many points, to which x is cut or filled up with zeros; None for all.
    axis: along which axis."""
COSINE_MANY_AXES = """s: how many points along each of the axes; None for all.
    axes: along which axes; None for all, or the last ones, as many as s has."""


def _cosine_document(name: str, places: str, result: str) -> str:
    word = "cosine" if "c" in name else "sine"
    function = name.lstrip("i").rstrip("n")
    call = f"fft.{name}([1.0, 2.0])" if name[-1] != "n" else f"fft.{name}([[1.0, 2.0]])"
    what = f"the discrete {word} transform, as SciPy's"
    undone = "type 3 is the inverse of type 2, but for a factor"
    if name[0] == "i":
        what = f"the inverse of `{name[1:]}`, the discrete {word} transform"
        undone = "that of the transform to undo"
    return f"""Returns {what}.

Args:
    x: an array; of a complex one, real and imaginary part are transformed.
    type: 1, 2, 3 or 4; {undone}.
    {places}
    norm: None or "backward": only the inverse has a scale; "forward": only the transform; "ortho":
        both have the same.
    overwrite_x, workers: of no effect.
    orthogonalize: whether end points are scaled so that the matrix is orthogonal but for a factor;
        None to do so with norm "ortho".

Returns:
    An array of x's shape, with the numbers of points along the axes; integers become float64.

Raises:
    ValueError: an argument is none of its words, or there are too few points.

Source: `functensor.scipy.fft_cosine_sine` has the formulas of ``{function}``.

>>> from functensor.scipy import fft
>>> {call}.round(6).tolist()
{result}
"""


dct = _one_axis_cosine("dct", "[6.0, -1.414214]")
idct = _one_axis_cosine("idct", "[0.957107, -0.457107]")
dst = _one_axis_cosine("dst", "[4.242641, -2.0]")
idst = _one_axis_cosine("idst", "[0.853553, -0.146447]")
dctn = _several_axes_cosine("dctn", "[[12.0, -2.828427]]")
idctn = _several_axes_cosine("idctn", "[[0.478553, -0.228553]]")
dstn = _several_axes_cosine("dstn", "[[8.485281, -4.0]]")
idstn = _several_axes_cosine("idstn", "[[0.426777, -0.073223]]")
