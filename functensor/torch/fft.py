"""PyTorch's names of discrete Fourier transforms, over those of `functensor.numpy.fft`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..backends.annotations import DTypeLike
from ..faces.publish import publish
from ..numpy import fft as numpys
from ..primitives.core.registry import registry as ops
from ..tensors import Tensor
from ..tensors.default_dtypes import TENSOR_DTYPES
from ..tensors.functions.naming import as_floats, with_words
from .creation import made
from .outputs import TAKE_OUT, write_results

__all__ = [
    "fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "hfft2", "hfftn", "ifft", "ifft2",
    "ifftn", "ifftshift", "ihfft", "ihfft2", "ihfftn", "irfft", "irfft2", "irfftn", "rfft",
    "rfft2", "rfftfreq", "rfftn",
]  # fmt: skip

LAST_TWO = (-2, -1)
# The scaling of the inverse transform.
OPPOSITE_NORM = {None: "forward", "backward": "forward", "forward": "backward", "ortho": "ortho"}
ARGUMENTS = """

Args:
    input: a tensor; integers are transformed as float32.
"""
SCALED = '    norm: "backward" (the default), "ortho" or "forward", as of `functensor.numpy.fft`.\n'
# Transforms to or from half a spectrum; the others are of complex numbers to complex numbers.
FROM_REAL = "complex numbers, half of a spectrum that is symmetric"
TO_REAL = "real numbers"
COMPLEX = "complex numbers"


def along_one(name: str, what: str, result: str) -> Callable[..., Tensor]:
    """Returns the transform of this name along one axis."""

    def function(
        input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None
    ) -> Tensor:
        out: Tensor = getattr(numpys, name)(as_floats(input), n, dim, norm)
        return out

    doc = (
        f"Returns {what} along an axis.{ARGUMENTS}    n: how many elements the axis has in the "
        "time domain: others are cut off, or zeros added.\n    dim: the axis.\n"
        f"{SCALED}\nReturns:\n    A tensor of {result}, in the input's precision.\n"
    )
    return with_words(function, name, doc)


def fourier_over_axes(
    input: Tensor, s: Sequence[int] | None, dim: int | Sequence[int] | None, name: str, norm: Any
) -> Tensor:
    """Returns the transform of this name over several axes, by default the last ones or all."""
    axes = (dim,) if isinstance(dim, int) else None if dim is None else tuple(dim)
    sizes = (s,) if isinstance(s, int) else None if s is None else tuple(s)
    out: Tensor = getattr(numpys, name)(input, sizes, axes, norm)
    return out


def over_several(name: str, what: str, result: str) -> tuple[Callable[..., Tensor], ...]:
    """Returns the transforms of this name over two axes and over any number of them.

    Those of Hermitian signals are the ones of real signals with the other scaling.
    """
    hermitian = {"hfft": "irfftn", "ihfft": "rfftn"}.get(name)

    def transformed(input: Tensor, s: Any, dim: Any, norm: str | None) -> Tensor:
        x = as_floats(input)
        if hermitian is None:
            return fourier_over_axes(x, s, dim, f"{name}n", norm)
        if norm not in OPPOSITE_NORM:
            raise RuntimeError(f'{name}: norm is "backward", "ortho" or "forward", not {norm!r}')
        if name == "hfft":
            return fourier_over_axes(ops.conj(x), s, dim, hermitian, OPPOSITE_NORM[norm])
        return ops.conj(fourier_over_axes(x, s, dim, hermitian, OPPOSITE_NORM[norm]))  # type: ignore[no-any-return]

    def of_two(
        input: Tensor,
        s: Sequence[int] | None = None,
        dim: Sequence[int] = LAST_TWO,
        norm: str | None = None,
    ) -> Tensor:
        return transformed(input, s, dim, norm)

    def of_any(
        input: Tensor,
        s: Sequence[int] | None = None,
        dim: Sequence[int] | None = None,
        norm: str | None = None,
    ) -> Tensor:
        return transformed(input, s, dim, norm)

    doc = (
        "Returns {what} over {axes} axes.{arguments}    s: how many elements each axis has in the "
        "time domain, -1 for those that there are.\n    dim: the axes, {default}.\n"
        "{scaled}\nReturns:\n    A tensor of {result}, in the input's precision.\n"
    )
    words = {"what": what, "arguments": ARGUMENTS, "scaled": SCALED, "result": result}
    two = doc.format(axes="two", default="the last two by default", **words)
    some = doc.format(axes="several", default="by default all, or as many as s names", **words)
    return with_words(of_two, f"{name}2", two), with_words(of_any, f"{name}n", some)


TRANSFORM = "the discrete Fourier transform"
INVERSE = "the inverse of the discrete Fourier transform"
OF_REAL = "half of the discrete Fourier transform of real numbers"
BACK_TO_REAL = "real numbers of half of their discrete Fourier transform"
OF_HALF = "the transform, which is real, of half of a Hermitian signal"
TO_HALF = "half of the Hermitian signal of a real spectrum"

fft, ifft = along_one("fft", TRANSFORM, COMPLEX), along_one("ifft", INVERSE, COMPLEX)
rfft, irfft = along_one("rfft", OF_REAL, FROM_REAL), along_one("irfft", BACK_TO_REAL, TO_REAL)
hfft, ihfft = along_one("hfft", OF_HALF, TO_REAL), along_one("ihfft", TO_HALF, COMPLEX)
fft2, fftn = over_several("fft", TRANSFORM, COMPLEX)
ifft2, ifftn = over_several("ifft", INVERSE, COMPLEX)
rfft2, rfftn = over_several("rfft", OF_REAL, FROM_REAL)
irfft2, irfftn = over_several("irfft", BACK_TO_REAL, TO_REAL)
hfft2, hfftn = over_several("hfft", OF_HALF, TO_REAL)
ihfft2, ihfftn = over_several("ihfft", TO_HALF, COMPLEX)


def fftfreq(
    n: int, d: float = 1.0, *, dtype: DTypeLike | None = None, device: str | None = None,
    requires_grad: bool = False
) -> Tensor:
    """Returns the frequencies of the elements of `fft`, in cycles per unit of the spacing.

    Args:
        n: how many elements are transformed.
        d: the distance of samples.
        dtype: float32 by default.
        device: the default device by default.
        requires_grad: whether ``backward`` adds to ``grad``.

    Returns:
        A tensor of shape (n,).

    >>> import functensor.torch as torch
    >>> torch.fft.fftfreq(4).tolist()
    [0.0, 0.25, -0.5, -0.25]
    """
    return made(np.fft.fftfreq(n, d), dtype, device, requires_grad, TENSOR_DTYPES["f"])


def rfftfreq(
    n: int, d: float = 1.0, *, dtype: DTypeLike | None = None, device: str | None = None,
    requires_grad: bool = False
) -> Tensor:
    """Returns the frequencies of the elements of `rfft`, none of them negative.

    Args:
        n, d, dtype, device, requires_grad: as for `fftfreq`.

    Returns:
        A tensor of shape (n // 2 + 1,).

    >>> import functensor.torch as torch
    >>> torch.fft.rfftfreq(4).tolist()
    [0.0, 0.25, 0.5]
    """
    return made(np.fft.rfftfreq(n, d), dtype, device, requires_grad, TENSOR_DTYPES["f"])


def fftshift(input: Tensor, dim: int | Sequence[int] | None = None) -> Tensor:
    """Returns a spectrum with frequency 0 moved to the middle.

    Args:
        input: a tensor.
        dim: along which axes; by default all.

    >>> import functensor.torch as torch
    >>> torch.fft.fftshift(torch.fft.fftfreq(4)).tolist()
    [-0.5, -0.25, 0.0, 0.25]
    """
    out: Any = numpys.fftshift(input, dim)
    return out  # type: ignore[no-any-return]


def ifftshift(input: Tensor, dim: int | Sequence[int] | None = None) -> Tensor:
    """Returns a spectrum that `fftshift` moved, in its old order.

    Args:
        input, dim: as for `fftshift`.

    >>> import functensor.torch as torch
    >>> torch.fft.ifftshift(torch.tensor([-0.5, -0.25, 0.0, 0.25])).tolist()
    [0.0, 0.25, -0.5, -0.25]
    """
    out: Any = numpys.ifftshift(input, dim)
    return out  # type: ignore[no-any-return]


publish(globals(), outputs=(TAKE_OUT["torch.fft"], write_results))
