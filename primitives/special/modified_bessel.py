"""Modified Bessel functions of integer order; NumPy has the first of them, ``i0``."""

from __future__ import annotations

from math import factorial

import numpy as np

from ...backends.annotations import ArrayModule, Buffer
from ...backends.optional_modules import extra
from ...backends.restoring import errstate
from ..core.annotations import operations as ops
from ..core.array import Array
from ..core.families import elementwise

__all__ = ["modified_bessel"]

# Terms of the power series, all of one sign, and of the asymptotic series. Where the second takes
# over, both are correct to all digits of double precision for small orders.
SERIES_TERMS = 60
ASYMPTOTIC_TERMS = 24
SMALLEST_ASYMPTOTIC_ARGUMENT = 25.0


def _by_powers(xp: ArrayModule, x: Buffer, order: int) -> Buffer:
    """DLMF 10.25.2: the sum of (x/2)^(2k + n) / (k! (k + n)!)."""
    square = x * x / 4
    total = xp.ones_like(x)
    for k in range(SERIES_TERMS, 0, -1):
        total = 1 + total * square / (k * (k + order))
    return total * (x / 2) ** order / factorial(order)


def _by_reciprocals(xp: ArrayModule, x: Buffer, order: int) -> Buffer:
    """DLMF 10.40.1: exp(x) / sqrt(2 pi x) times a series in 1/x."""
    total = xp.ones_like(x)
    for k in range(ASYMPTOTIC_TERMS, 0, -1):
        total = 1 - total * (4 * order**2 - (2 * k - 1) ** 2) / (8 * k * x)
    # Twice half of the exponential overflows only where the function does.
    half = xp.exp(xp.minimum(x, 2000.0) / 2)
    return half * (total / xp.sqrt(2 * xp.pi * xp.minimum(x, 2000.0))) * half


def _compute_modified_bessel(xp: ArrayModule, x: Buffer, *, order: int) -> Buffer:
    x = xp.asarray(x)
    dtype = np.result_type(x.dtype, np.float16) if x.dtype.kind != "f" else x.dtype
    size = xp.abs(x).astype(np.float64)
    limit = max(SMALLEST_ASYMPTOTIC_ARGUMENT, float(order * order))
    with errstate(over="ignore"):
        out = _by_powers(xp, xp.minimum(size, limit), order)
        if xp.any(size > limit):
            far = _by_reciprocals(xp, xp.maximum(size, limit), order)
            out = xp.where(size > limit, far, out)
    out = xp.where(xp.isnan(x), xp.nan, out)
    if order % 2:
        out = xp.copysign(out, x)
    with errstate(over="ignore"):
        return out.astype(np.float64 if dtype == np.float16 and x.dtype.kind != "f" else dtype)[()]


def _modified_bessel_vjp(g: Array, x: Array, *, order: int) -> Array:
    """DLMF 10.29.1: the mean of the two neighbouring orders."""
    above = ops.modified_bessel(x, order=order + 1)
    if not order:
        return g * above
    return g * (0.5 * (above + ops.modified_bessel(x, order=order - 1)))


modified_bessel = elementwise(
    "modified_bessel",
    _modified_bessel_vjp,
    prepare=lambda x, *, order: ((x,), {"order": int(order)}),
    compute=_compute_modified_bessel, params=({"order": 0}, {"order": 1}, {"order": 3}),
    reference=lambda x, *, order: extra("scipy.special", "scipy").iv(order, x),
    doc="Returns the modified Bessel function of the first kind of an integer order.",
    options={"order": "the order, an integer from 0 up."},
    source="NIST Digital Library of Mathematical Functions, 10.25, 10.29 and 10.40",
)
