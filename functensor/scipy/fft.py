"""SciPy's ``fft``: Fourier, cosine and sine transforms, differentiable in both modes.

The Fourier transforms are those of `functensor.numpy.fft`, under SciPy's signatures.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import TypeVar

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
from .fft_cosine_sine import dct, dctn, dst, dstn, idct, idctn, idst, idstn

__all__ = [
    "dct", "dctn", "dst", "dstn", "fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "hfft2",
    "hfftn", "idct", "idctn", "idst", "idstn", "ifft", "ifft2", "ifftn", "ifftshift", "ihfft",
    "ihfft2", "ihfftn", "irfft", "irfft2", "irfftn", "next_fast_len", "prev_fast_len", "rfft",
    "rfft2", "rfftfreq", "rfftn",
]  # fmt: skip

Transform = TypeVar("Transform", bound=Callable[..., Array])

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


def _fourier_document(name: str, places: str, example: str) -> str:
    root = name.rstrip("2n")
    several = "" if root == name else ", along several axes"
    call = f"[{example}]" if several else example
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
"""


def _documented(function: Transform, name: str, doc: str) -> Transform:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


def _without_plan(name: str, plan: None) -> None:
    if plan is not None:
        raise NotImplementedError(f"{name}: there are no plans to pass: leave plan= out")


def _one_axis_transform(name: str, shape: str) -> Callable[..., Array]:
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

    document = _fourier_document(name, FOURIER_ONE_AXIS, "[1.0, 2.0]")
    return _documented(transform, name, document + shape + "\n")


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


def _over_named_axes(
    name: str,
    plan: None,
    x: ArrayLike,
    s: ShapeLike | None,
    axes: Axis,
    norm: str | None,
) -> Array:
    """Returns the transform of that name over axes."""
    _without_plan(name, plan)
    x = as_inexact(x)
    s, axes = (None if z is None else as_list(z) for z in (s, axes))
    chosen = axes if axes is not None else range(len(x.shape)) if s is None else range(-len(s), 0)
    places = [canonical_axis(axis, len(x.shape)) for axis in chosen]
    if len(set(places)) < len(places):
        raise ValueError(f"{name}: all axes must be unique, not {tuple(places)}")
    if "h" in name:
        return _hermitian_transform(name, x, s, places, norm)
    out: Array = getattr(numpy_fft, name[:-1] + "n")(x, s, places, norm)
    return out


def _several_axes_transform(name: str, shape: str) -> Callable[..., Array]:
    """Returns a transform along several axes."""

    def transform(
        x: ArrayLike,
        s: ShapeLike | None = None,
        axes: Axis = None,
        norm: str | None = None,
        overwrite_x: bool = False,
        workers: int | None = None,
        *,
        plan: None = None,
    ) -> Array:
        return _over_named_axes(name, plan, x, s, axes, norm)

    places = FOURIER_MANY_AXES.format("None for all, or the last ones, as many as s has")
    document = _fourier_document(name, places, "[1.0, 2.0]")
    return _documented(transform, name, document + shape + "\n")


def _two_axes_transform(name: str, shape: str) -> Callable[..., Array]:
    """Returns a transform along two axes."""

    def transform(
        x: ArrayLike,
        s: ShapeLike | None = None,
        axes: Axis = (-2, -1),
        norm: str | None = None,
        overwrite_x: bool = False,
        workers: int | None = None,
        *,
        plan: None = None,
    ) -> Array:
        return _over_named_axes(name, plan, x, s, axes, norm)

    places = FOURIER_MANY_AXES.format("the last two")
    document = _fourier_document(name, places, "[1.0, 2.0]")
    return _documented(transform, name, document + shape + "\n")


fft = _one_axis_transform("fft", "(2,)")
ifft = _one_axis_transform("ifft", "(2,)")
rfft = _one_axis_transform("rfft", "(2,)")
irfft = _one_axis_transform("irfft", "(2,)")
hfft = _one_axis_transform("hfft", "(2,)")
ihfft = _one_axis_transform("ihfft", "(2,)")
fftn = _several_axes_transform("fftn", "(1, 2)")
ifftn = _several_axes_transform("ifftn", "(1, 2)")
rfftn = _several_axes_transform("rfftn", "(1, 2)")
irfftn = _several_axes_transform("irfftn", "(1, 2)")
hfftn = _several_axes_transform("hfftn", "(1, 2)")
ihfftn = _several_axes_transform("ihfftn", "(1, 2)")
fft2 = _two_axes_transform("fft2", "(1, 2)")
ifft2 = _two_axes_transform("ifft2", "(1, 2)")
rfft2 = _two_axes_transform("rfft2", "(1, 2)")
irfft2 = _two_axes_transform("irfft2", "(1, 2)")
hfft2 = _two_axes_transform("hfft2", "(1, 2)")
ihfft2 = _two_axes_transform("ihfft2", "(1, 2)")


def _is_fast(n: int, factors: tuple[int, ...]) -> bool:
    for factor in factors:
        while n % factor == 0:
            n //= factor
    return n == 1


def _target(name: str, target: int) -> int:
    least = operator.index(target)
    if least < 1:
        raise ValueError(f"{name}: Target cannot be negative or 0, but is {least}")
    return int(least)


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
    n = _target("next_fast_len", target)
    while not _is_fast(n, FAST_FACTORS[:3] if real else FAST_FACTORS):
        n += 1
    return n


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
    n = _target("prev_fast_len", target)
    while not _is_fast(n, FAST_FACTORS[:3] if real else FAST_FACTORS):
        n -= 1
    return n


publish(globals())
