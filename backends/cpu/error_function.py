"""The error function, its complement and the exact gelu, for NumPy's buffers.

The polynomials and rational functions were fitted for this module, by weighted least squares on
Chebyshev nodes in 50 digits. The comment before each one is its relative error.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .blocks import blockwise

if TYPE_CHECKING:
    from ..annotations import Buffer

__all__ = ["erf", "erfc", "gelu_exact", "gelu_exact_grad"]

# erf(x) = x P(x^2) / Q(x^2) for |x| up to the limit, beyond which it rounds to 1. All coefficients
# are positive, so that nothing cancels. From the highest power down.
ERF: dict[str, tuple[float, tuple[float, ...], tuple[float, ...]]] = {
    # 1.9e-8
    "f": (
        3.92,
        (
            2.0469500989531353e-06, 0.0002848084842725788, 0.0037697203494688712,
            0.05276070683132061, 0.19052403588301167, 1.1283791469058662,
        ),
        (
            3.805546998562098e-05, 0.0011632237200254348, 0.014977525251340317, 0.11415446834575776,
            0.5021802746976028, 1.0,
        ),
    ),
    # 3.6e-17
    "d": (
        5.95,
        (
            1.5458724963606954e-17, 2.2044676008677414e-14, 3.330596329400973e-12,
            1.7281855367742557e-10, 6.787095445516026e-09, 1.704695784393929e-07,
            3.915596941781191e-06, 5.723021605466839e-05, 0.0008579428279448735,
            0.006915119275488283, 0.06620420644630479, 0.22064361442202002, 1.1283791670955126,
        ),
        (
            8.733071162859231e-16, 3.29851430481683e-13, 2.556038284242883e-11,
            1.1296013725264346e-09, 3.533125194738414e-08, 8.390878910779745e-07,
            1.5567127876656548e-05, 0.00022695555449335858, 0.0025726975068510283,
            0.02203824598501279, 0.13496316545209966, 0.5288736453633411, 1.0,
        ),
    ),
}  # fmt: skip

# exp(z^2) erfc(z) = P(t) / (z + K) with t = 1 - 2 K / (z + K), for all z >= 0: the mapping of
# M. M. Shepherd and J. G. Laframboise, "Chebyshev approximation of (1 + 2x) exp(x^2) erfc x in
# 0 <= x < oo", Mathematics of Computation 36 (1981), with a simpler factor. Highest power first.
SCALED_ERFC: dict[str, tuple[float, tuple[float, ...]]] = {
    # 4.0e-8
    "f": (
        2.8,
        (
            -0.00021143648886526198, 0.0002496223818567009, 0.002012338543239263,
            -0.0052279996363841464, -0.008334010700378732, 0.07997519236862319, -0.2559075589786203,
            0.5400243042277214, -0.8554645682181515, 1.0670736985923506,
        ),
    ),
    # 4.4e-17
    "d": (
        3.2,
        (
            1.443773601976533e-09, 8.497089788753178e-10, -1.529842775162514e-08,
            -1.348473774138915e-08, 9.407060858085711e-08, 1.215405981649975e-07,
            -4.971146157344075e-07, -8.600705774944265e-07, 2.80975358764216e-06,
            5.364333496751931e-06, -1.9147170071620993e-05, -2.8177938286941844e-05,
            0.00015731931005017, 4.7281944379489143e-05, -0.0013551308237107684,
            0.0023231748456976676, 0.006869393026033977, -0.05018176903714834, 0.16134572075422812,
            -0.36257767722771944, 0.6352344242263623, -0.907492653981533, 1.0798598195960596,
        ),
    ),
}  # fmt: skip

# exp(-z^2) is zero in double precision beyond this; the limit keeps infinities out of quotients.
LARGEST_ERFC_ARGUMENT = 40.0
LOG_HALF = -math.log(2.0)


def _horner(t: Buffer, coefficients: Sequence[float], out: Buffer) -> None:
    """Evaluates a polynomial by Horner's rule, the highest power first."""
    np.multiply(t, coefficients[0], out=out)
    for c in coefficients[1:-1]:
        out += c
        out *= t
    out += coefficients[-1]


def _scaled_erfc(z: Buffer, shifted: Buffer, t: Buffer, out: Buffer) -> None:
    """Fills ``out`` with ``exp(z^2) erfc(z)`` for ``z >= 0``; uses the other two buffers."""
    k, coefficients = SCALED_ERFC[z.dtype.char]
    np.add(z, k, out=shifted)
    np.divide(-2.0 * k, shifted, out=t)
    t += 1.0
    _horner(t, coefficients, out)
    out /= shifted


def _erf(x: Buffer, out: Buffer, bounded: Buffer, squared: Buffer, below: Buffer) -> None:
    limit, numerator, denominator = ERF[x.dtype.char]
    x.clip(-limit, limit, out=bounded)
    np.multiply(bounded, bounded, out=squared)
    _horner(squared, numerator, out)
    _horner(squared, denominator, below)
    out /= below
    out *= bounded
    out.clip(-1.0, 1.0, out=out)
    # At the limit rounding leaves 1 - 3e-16.
    far = np.absolute(x, out=squared) >= limit
    if far.any():
        np.copyto(out, np.copysign(1.0, x, out=below), where=far)


def _erfc(x: Buffer, out: Buffer, z: Buffer, a: Buffer, b: Buffer) -> None:
    np.absolute(x, out=z)
    z.clip(0.0, LARGEST_ERFC_ARGUMENT, out=z)
    _scaled_erfc(z, a, b, out)
    # exp(-z^2) by a part of z whose square is exact, and the rest: z^2 itself loses digits.
    np.multiply(z, 16.0, out=a)
    np.rint(a, out=a)
    a *= 0.0625
    np.subtract(z, a, out=b)
    z += a
    b *= z
    np.negative(b, out=b)
    out *= np.exp(b, out=b)
    a *= a
    np.negative(a, out=a)
    out *= np.exp(a, out=a)
    # 2 - erfc(|x|) for negative x, without branches.
    np.copysign(1.0, x, out=a)
    out *= a
    np.subtract(1.0, a, out=a)
    out += a


erf = blockwise(_erf, 3)
_erfc_blocks = blockwise(_erfc, 3)


def erfc(x: Buffer) -> Any:
    """Returns ``1 - erf(x)`` to full relative accuracy; single precision is done in double."""
    if getattr(x, "dtype", None) in (np.float16, np.float32):
        return _erfc_blocks(x.astype(np.float64)).astype(x.dtype)
    return _erfc_blocks(x)


def _upper_tail(x: Buffer, half_density: Buffer, z: Buffer, a: Buffer, out: Buffer) -> None:
    """Fills ``out`` with ``P(X > |x|)`` of a standard normal X over ``half_density``.

    Leaves ``z = |x| / sqrt(2)`` and ``half_density = exp(-z^2) / 2``.
    """
    np.absolute(x, out=z)
    z *= math.sqrt(0.5)
    z.clip(0.0, LARGEST_ERFC_ARGUMENT, out=z)
    _scaled_erfc(z, half_density, a, out)
    np.multiply(z, z, out=half_density)
    np.subtract(LOG_HALF, half_density, out=half_density)
    np.exp(half_density, out=half_density)


def _gelu_by_erf(x: Buffer, out: Buffer, density: Buffer, z: Buffer, a: Buffer) -> None:
    # x P(X <= x) = max(x, 0) - |x| P(X > |x|): nothing cancels for negative x.
    _upper_tail(x, density, z, a, out)
    out *= density
    out *= z
    out *= -math.sqrt(2.0)
    out += x.clip(0.0, np.inf, out=a)


def _gelu_exact_grad(x: Buffer, out: Buffer, density: Buffer, z: Buffer, a: Buffer) -> None:
    # P(X <= x) + x density(x) is w for negative x and 1 - w for others,
    # w = P(X > |x|) - |x| density(x).
    _upper_tail(x, density, z, a, out)
    z *= 2.0 / math.sqrt(math.pi)
    out -= z
    out *= density
    np.multiply(out, -2.0, out=a)
    a += 1.0
    a *= np.greater_equal(x, 0.0, out=z)
    out += a


gelu_exact = blockwise(_gelu_by_erf, 3)
gelu_exact_grad = blockwise(_gelu_exact_grad, 3)
