"""Error functions of complex numbers, which SciPy computes.

The functions of real numbers are primitives of their own, with kernels of their own, which hand
complex operands over to these.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...backends.annotations import ArrayModule, Buffer
from ...backends.optional_modules import scipy_module
from ..core.annotations import operations as ops
from ..core.array import Array
from ..core.families import unary
from .scipy_functions import DLMF

if TYPE_CHECKING:
    from ..core.primitive import UnaryPrimitive

__all__ = [
    "OF_COMPLEX", "complex_erf", "complex_erfc", "complex_erfcx", "complex_erfi", "complex_ndtr",
    "faddeeva",
]  # fmt: skip

PEAK = 2.0 / math.sqrt(math.pi)
# From this modulus on so many terms of the asymptotic series have all digits.
SMALLEST_ASYMPTOTIC_MODULUS = 8.0
FADDEEVA_TERMS = 20


def _of_complex(
    name: str, function: str, vjp: Callable[..., Array], section: str, **declared: Any
) -> UnaryPrimitive:
    """Declares the function of complex numbers that SciPy has by another name."""

    def compute(xp: ArrayModule, x: Buffer) -> Buffer:
        out: Buffer = getattr(scipy_module(xp, "special"), function)(x)
        return out

    return unary(
        name,
        vjp,
        compute=compute, reference=f"scipy.special.{function}", dtypes="D",
        source=DLMF + section,
        **declared,
    )


complex_erf = _of_complex("complex_erf", "erf", lambda g, x: g * (PEAK * ops.exp(-x * x)), "7.2.1")
complex_erfc = _of_complex(
    "complex_erfc", "erfc", lambda g, x: -g * (PEAK * ops.exp(-x * x)), "7.2.2"
)


def _faddeeva_grad(x: Array) -> Array:
    """Returns ``-2 x w(x) + 2 i / sqrt(pi)``, which cancels where x is large.

    There, in the upper half plane, by DLMF 7.12.1; w(x) is ``2 exp(-x**2) - w(-x)`` in the lower.
    """
    far = ops.greater(ops.abs(x), SMALLEST_ASYMPTOTIC_MODULUS)
    below = ops.logical_and(far, ops.less(ops.imag(x), 0))
    near = ops.where(far, 1.0, x)
    direct = -2 * near * ops.faddeeva(near) + 1j * PEAK
    z = ops.where(far, ops.where(below, -x, x), 1j * SMALLEST_ASYMPTOTIC_MODULUS)
    u = 0.5 / (z * z)
    total: Array | float = 0.0
    for k in range(FADDEEVA_TERMS, 0, -1):
        total = (2 * k + 1) * (1 + total) * u
    series = -0.5j * PEAK * (1 + total) / (z * z)
    lower = ops.where(below, x, -1j)
    rest = ops.where(below, -4 * lower * ops.exp(-lower * lower), 0)
    return ops.where(far, series + rest, direct)


faddeeva = _of_complex(
    "faddeeva",
    "wofz",
    lambda g, x: g * _faddeeva_grad(x),
    "7.2.3",
    doc="Returns Faddeeva's function ``exp(-z**2) * erfc(-i z)`` of complex numbers.",
    arguments={"z": "a complex array of any shape, or a number."},
)
# These are not made of those above: the array module makes NaN of i times an infinity.
complex_erfcx = _of_complex(
    "complex_erfcx", "erfcx", lambda g, x: g * (1j * _faddeeva_grad(1j * x)), "7.2.3"
)
complex_erfi = _of_complex(
    "complex_erfi", "erfi", lambda g, x: g * (PEAK * ops.exp(x * x)), "7.2.1"
)
complex_ndtr = _of_complex(
    "complex_ndtr",
    "ndtr",
    lambda g, x: g * (PEAK * math.sqrt(0.125) * ops.exp(-0.5 * x * x)),
    "7.2.2",
)

# The functions of complex numbers by the names of those of real ones.
OF_COMPLEX = {
    "erf": complex_erf,
    "erfc": complex_erfc,
    "erfcx": complex_erfcx,
    "erfi": complex_erfi,
    "ndtr": complex_ndtr,
}
