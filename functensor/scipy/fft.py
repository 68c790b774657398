"""SciPy's ``fft``: Fourier, cosine and sine transforms, differentiable in both modes.

The Fourier transforms are those of `functensor.numpy.fft`, under SciPy's signatures.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence

from ..backends.annotations import Axis, ShapeLike
from ..faces.publish import publish
from ..numpy import fft as numpy_fft
from ..numpy.arguments import as_inexact
from ..numpy.fft import fftfreq, fftshift, ifftshift, rfftfreq
from ..primitives.contract.fourier import NORMS
from ..primitives.core.annotations import ArrayLike
from ..primitives.core.annotations import operations as ops
from ..primitives.core.array import Array
from ..primitives.core.shape_dtype import as_list, canonical_axis
from .fft_cosine_sine import dct, dctn, documented, dst, dstn, idct, idctn, idst, idstn

__all__ = [
    "dct", "dctn", "dst", "dstn", "fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "hfft2",
    "hfftn", "idct", "idctn", "idst", "idstn", "ifft", "ifft2", "ifftn", "ifftshift", "ihfft",
    "ihfft2", "ihfftn", "irfft", "irfft2", "irfftn", "next_fast_len", "prev_fast_len", "rfft",
    "rfft2", "rfftfreq", "rfftn",
]  # fmt: skip

# Transforms are fast for lengths without other prime factors; real ones do without the last two.
FAST_FACTORS = (2, 3, 5, 7, 11)

TRANSFORM_TITLES = {
    "fft": "the discrete Fourier transform",
    "ifft": "the inverse of `fft`",
    "rfft": "half the discrete Fourier transform of real values",
    "irfft": "the real values of which x is half the spectrum",
    "hfft": "the real spectrum of which x is half the signal",
    "ihfft": "half the signal of which x is the real spectrum",
}
FOURIER_ONE_AXIS = """n: how many points; None for x's.
    axis: along which axis."""
FOURIER_MANY_AXES = """s: how many points along each of the axes; None for x's.
    axes: along which axes; {}."""


def _fourier_document(name: str, places: str) -> str:
    root = name.rstrip("2n")
    several = "" if root == name else ", along several axes"
    call, shape = ("[[1.0, 2.0]]", (1, 2)) if several else ("[1.0, 2.0]", (2,))
    halves = root[0] in "irh" and root not in ("ifft", "ihfft", "rfft")
    return f"""Returns {TRANSFORM_TITLES[root]}{several}.

Args:
    x: an array.
    {places}
    norm: "backward", "ortho" or "forward": which direction has the scale; None for the first.
    overwrite_x, workers: of no effect.
    plan: None.

Returns:
    {"A real" if halves else "A complex"} array, in x's precision.

Raises:
    ValueError: a length is not positive, or ``norm`` is another word.

Source: `functensor.numpy.fft` has the formulas.

>>> from functensor.scipy import fft
>>> fft.{name}({call}).shape
{shape}
"""


def _without_plan(name: str, plan: None) -> None:
    if plan is not None:
        raise NotImplementedError(f"{name}: there are no plans to pass: leave plan= out")


def _one_axis_transform(name: str) -> Callable[..., Array]:
    """Returns a transform along one axis."""

    def transform(
        x: ArrayLike,
        n: int | None = None,
        axis: int = -1,
        norm: str | None = None,
        overwrite_x: bool = False,
        workers: int | None = None,
        *,
        plan: None = None,
    ) -> Array:
        _without_plan(name, plan)
        out: Array = getattr(numpy_fft, name)(x, n, axis, norm)
        return out

    return documented(transform, name, _fourier_document(name, FOURIER_ONE_AXIS))


def _hermitian_transform(
    name: str, x: Array, s: Sequence[int] | None, axes: Sequence[int], norm: str | None
) -> Array:
    """Returns a transform between half of a Hermitian signal and its real spectrum.

    It is that between real values and half of their spectrum, the other way round and conjugated.
    """
    if norm is not None and norm not in NORMS:
        raise ValueError(f"{name}: norm={norm!r}: it is 'backward', 'ortho' or 'forward'")
    scale = NORMS["backward" if norm is None else norm]
    if name[0] == "i":
        return ops.conj(numpy_fft.rfftn(x, s, axes, scale))
    return numpy_fft.irfftn(ops.conj(as_inexact(x)), s, axes, scale)


def _several_axes_transform(name: str) -> Callable[..., Array]:
    """Returns a transform along several axes, or along two."""
    two = name[-1] == "2"

    def transform(
        x: ArrayLike,
        s: ShapeLike | None = None,
        axes: Axis = (-2, -1) if two else None,
        norm: str | None = None,
        overwrite_x: bool = False,
        workers: int | None = None,
        *,
        plan: None = None,
    ) -> Array:
        _without_plan(name, plan)
        x = as_inexact(x)
        s, axes = (None if z is None else as_list(z) for z in (s, axes))
        if axes is None:
            axes = range(len(x.shape)) if s is None else range(-len(s), 0)
        places = [canonical_axis(axis, len(x.shape)) for axis in axes]
        if len(set(places)) < len(places):
            raise ValueError(f"{name}: all axes must be unique, not {tuple(places)}")
        if "h" in name:
            return _hermitian_transform(name, x, s, places, norm)
        out: Array = getattr(numpy_fft, name[:-1] + "n")(x, s, places, norm)
        return out

    default = "the last two" if two else "None for all, or the last ones, as many as s has"
    document = _fourier_document(name, FOURIER_MANY_AXES.format(default))
    return documented(transform, name, document)


fft = _one_axis_transform("fft")
ifft = _one_axis_transform("ifft")
rfft = _one_axis_transform("rfft")
irfft = _one_axis_transform("irfft")
hfft = _one_axis_transform("hfft")
ihfft = _one_axis_transform("ihfft")
fftn = _several_axes_transform("fftn")
ifftn = _several_axes_transform("ifftn")
rfftn = _several_axes_transform("rfftn")
irfftn = _several_axes_transform("irfftn")
hfftn = _several_axes_transform("hfftn")
ihfftn = _several_axes_transform("ihfftn")
fft2 = _several_axes_transform("fft2")
ifft2 = _several_axes_transform("ifft2")
rfft2 = _several_axes_transform("rfft2")
irfft2 = _several_axes_transform("irfft2")
hfft2 = _several_axes_transform("hfft2")
ihfft2 = _several_axes_transform("ihfft2")


def _nearest_fast_length(name: str, target: int, real: bool, step: int) -> int:
    """Returns the first fast length from a target on, upwards or downwards: ``step`` is 1 or -1."""
    n = int(operator.index(target))
    if n < 1:
        raise ValueError(f"{name}: Target cannot be negative or 0, but is {n}")
    while True:
        rest = n
        for factor in FAST_FACTORS[:3] if real else FAST_FACTORS:
            while rest % factor == 0:
                rest //= factor
        if rest == 1:
            return n
        n += step


def next_fast_len(target: int, real: bool = False) -> int:
    """Returns the least length from a target on for which transforms are fast.

    Args:
        target: a positive integer.
        real: whether real values are transformed.

    Returns:
        An integer.

    Raises:
        ValueError: the target is not positive.

    >>> from functensor.scipy import fft
    >>> fft.next_fast_len(13), fft.next_fast_len(13, real=True)
    (14, 15)
    """
    return _nearest_fast_length("next_fast_len", target, real, 1)


def prev_fast_len(target: int, real: bool = False) -> int:
    """Returns the greatest length up to a target for which transforms are fast.

    Args:
        target, real: as for `next_fast_len`.

    Returns:
        An integer.

    Raises:
        ValueError: the target is not positive.

    >>> from functensor.scipy import fft
    >>> fft.prev_fast_len(13), fft.prev_fast_len(14, real=True)
    (12, 12)
    """
    return _nearest_fast_length("prev_fast_len", target, real, -1)


publish(globals())
