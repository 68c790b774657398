"""Arguments in the form in which functions compute with them."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ..primitives.core.annotations import ArrayLike
from ..primitives.core.annotations import operations as ops
from ..primitives.core.array import Array
from ..primitives.core.buffers import DEVICE_TYPES, device_of, operands_together
from ..primitives.core.shape_dtype import INEXACT
from .creation import asarray

__all__ = ["array_beside", "arrays_together", "as_inexact", "device_of_first"]


def as_inexact(x: ArrayLike) -> Array:
    """Returns an argument as an array of real or complex numbers; integers become ``float64``.

    >>> as_inexact([1, 2])
    Array([1., 2.], dtype=float64, device='cpu')
    """
    x = asarray(x)
    return x if x.dtype.kind in INEXACT else ops.astype(x, np.float64)


def array_beside(a: Array, x: ArrayLike) -> Array:
    """Returns an argument as an array; numbers and lists come to lie where an array is.

    Args:
        a: the array.
        x: the argument. If it is an array with axes, it stays where it is.
    """
    return asarray(x, device=None if getattr(x, "shape", ()) else a.device)


def device_of_first(xs: Iterable[ArrayLike]) -> str | None:
    """Returns where the first array on a GPU is, or None: numbers then go to the default device."""
    return next((d for d in map(device_of, xs) if d != "cpu"), None)


def arrays_together(xs: Iterable[ArrayLike], name: str = "") -> list[Array]:
    """Returns arguments as arrays, numbers and lists where the first array on a GPU is.

    Args:
        xs: the arguments.
        name: the function's name, to be told of in an error if arrays are on different devices.

    Raises:
        DeviceError: they are, and there is a name.

    >>> arrays_together([1, [2.0]])
    [Array(1, dtype=int64, device='cpu'), Array([2.], dtype=float64, device='cpu')]
    """
    if not DEVICE_TYPES:
        return [asarray(x) for x in xs]
    listed = operands_together(name, *xs) if name else list(xs)
    place = device_of_first(listed)
    return [asarray(x, device=None if getattr(x, "shape", ()) else place) for x in listed]
