"""Windows that taper a signal towards its ends, and the Bessel function that one is made of."""

from __future__ import annotations

import operator
from math import pi

import numpy as np

from ..backends.annotations import Buffer
from ..primitives.core.annotations import ArrayLike
from ..primitives.core.annotations import operations as ops
from ..primitives.core.array import Array
from ..primitives.core.buffers import beside
from ..primitives.special.modified_bessel import modified_bessel
from .arguments import as_inexact
from .creation import asarray
from .zeros_ones import ones, zeros

__all__ = ["bartlett", "blackman", "hamming", "hanning", "i0", "kaiser"]


def _cosines(M: int, *weights: float) -> Array:
    """Returns a sum of cosines over M points: weights of the constant, one period, two periods."""
    count = operator.index(int(M))
    if count < 1:
        return zeros(0)
    if count == 1:
        return ones(1)
    # From the middle out, so that both halves are the same to the last digit.
    places = np.arange(1 - count, count, 2) * (pi / (count - 1))
    total: Buffer = sum(weight * np.cos(k * places) for k, weight in enumerate(weights))
    return asarray(total)


def hanning(M: int) -> Array:
    """Returns the Hann window: half of 1 minus a cosine.

    Args:
        M: how many points; of none or less an empty array.

    Returns:
        ``float64`` numbers from 0 to 1 on one axis.

    >>> import functensor.numpy as np
    >>> np.hanning(3)
    Array([0., 1., 0.], dtype=float64, device='cpu')
    """
    return _cosines(M, 0.5, 0.5)


def hamming(M: int) -> Array:
    """Returns the Hamming window: a cosine that does not quite reach 0.

    Args:
        M: how many points; of none or less an empty array.

    Returns:
        ``float64`` numbers from 0.08 to 1 on one axis.

    >>> import functensor.numpy as np
    >>> np.round(np.hamming(3), 2)
    Array([0.08, 1.  , 0.08], dtype=float64, device='cpu')
    """
    return _cosines(M, 0.54, 0.46)


def blackman(M: int) -> Array:
    """Returns the Blackman window: the sum of two cosines.

    Args:
        M: how many points; of none or less an empty array.

    Returns:
        ``float64`` numbers from 0 to 1 on one axis.

    >>> import functensor.numpy as np
    >>> np.round(np.blackman(5), 2) + 0.0
    Array([0.  , 0.34, 1.  , 0.34, 0.  ], dtype=float64, device='cpu')
    """
    return _cosines(M, 0.42, 0.5, 0.08)


def bartlett(M: int) -> Array:
    """Returns the triangular window, which is 0 at its ends.

    Args:
        M: how many points; of none or less an empty array.

    Returns:
        ``float64`` numbers from 0 to 1 on one axis.

    >>> import functensor.numpy as np
    >>> np.bartlett(5)
    Array([0. , 0.5, 1. , 0.5, 0. ], dtype=float64, device='cpu')
    """
    return asarray(np.bartlett(int(M)))


@ops.add_function
def i0(x: ArrayLike) -> Array:
    """Returns the modified Bessel function of the first kind of order 0.

    Args:
        x: a real array of any shape, or a number.

    Returns:
        An inexact array of x's shape.

    Source: NIST Digital Library of Mathematical Functions, 10.25 and 10.40

    >>> import functensor.numpy as np
    >>> np.i0(0.0)
    Array(1., dtype=float64, device='cpu')
    """
    x = as_inexact(x)
    if x.dtype.kind == "c":
        raise TypeError(f"i0: real numbers are wanted, not {x.describe()}")
    return modified_bessel(x, order=0)


def kaiser(M: int, beta: ArrayLike) -> Array:
    """Returns the Kaiser window: a Bessel function of a half circle.

    Args:
        M: how many points; of none or less an empty array.
        beta: the shape: 0 a rectangle, 14 very narrow; derivatives flow to it.

    Returns:
        Inexact numbers from 0 to 1 on one axis.

    Source: J. F. Kaiser, "Digital filters", in Systems Analysis by Digital Computer (1966)

    >>> import functensor.numpy as np
    >>> np.kaiser(3, 0.0)
    Array([1., 1., 1.], dtype=float64, device='cpu')
    """
    count = int(M)
    if count < 1:
        return zeros(0)
    if count == 1:
        return ones(1)
    beta = asarray(beta, None if hasattr(beta, "dtype") else np.float64)
    height = np.sqrt(np.maximum(1 - (np.arange(1 - count, count, 2) / (count - 1)) ** 2, 0))
    return ops.divide(i0(ops.multiply(beta, beside(beta, height))), i0(beta))
