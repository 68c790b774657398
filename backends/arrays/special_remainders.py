"""Remainders without cancellation, which kernels of incomplete gamma and beta functions share.

Sums are arranged so that the leading terms, which cancel, are never formed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache, wraps
from typing import TYPE_CHECKING, Any

import numpy as np

from ..devices import device_of, on_device
from ..dtypes import result_type
from ..optional_modules import scipy_module
from ..restoring import quiet

if TYPE_CHECKING:
    from ..annotations import ArrayModule, Buffer, DType, DTypeLike

__all__ = [
    "DROP",
    "as_arrays",
    "digamma_gap",
    "dtype_of_reals",
    "elementwise_in_doubles",
    "exp_remainder",
    "integrate",
    "log_remainder",
    "loop_dtype",
    "panel_nodes",
    "put_where",
    "special",
    "stirling_error",
]  # fmt: skip

# An integrand is followed until it has fallen by this factor's logarithm: 3e-20.
DROP = 45.0
# The nodes of a panel, and the elements of a block. A block stays in the cache; on a GPU it keeps
# all cores busy without taking much memory.
PANEL_NODES = 64
CPU_BLOCK_ELEMENTS = 1024
GPU_BLOCK_ELEMENTS = 65536
# Bernoulli numbers over 2k (2k - 1), k from 1, of the series of log gamma: DLMF 5.11.1.
STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156, -3617 / 122400)
# Bernoulli numbers over 2k, k from 1, of the series of digamma: DLMF 5.11.2.
DIGAMMA = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12, -3617 / 8160)
SMALLEST_STIRLING_ARGUMENT = 12.0


def special(xp: ArrayModule) -> Any:
    """Returns SciPy's module of special functions for an array module."""
    return scipy_module(xp, "special")


def as_arrays(xp: ArrayModule, dtype: DTypeLike, *operands: Any) -> list[Buffer]:
    """Returns arrays and numbers as arrays of a dtype that lie on one device."""
    if xp is np:
        return [np.asarray(x, dtype) for x in operands]
    device = next(device_of(x) for x in operands if isinstance(x, xp.ndarray))
    return [
        x.astype(dtype, copy=False)
        if isinstance(x, xp.ndarray)
        else on_device(np.asarray(x, dtype)[()], device)
        for x in operands
    ]


def dtype_of_reals(name: str, *operands: Any) -> DType:
    """Returns the dtype of a function of real operands: theirs, double precision for integers."""
    dtype = result_type(*operands)
    if dtype.kind == "c":
        raise TypeError(f"{name} is defined for real numbers only, got {dtype}")
    return dtype if dtype.kind == "f" else np.dtype(np.float64)


def loop_dtype(name: str, *operands: Any) -> DType:
    """Returns the dtype in which one of SciPy's functions computes: single precision at least.

    >>> loop_dtype("spence", np.ones(2, "f2")), loop_dtype("erfi", np.ones(2, "f2"))
    (dtype('float32'), dtype('float64'))
    """
    dtype = result_type(*operands)
    wide = np.result_type(dtype, np.float32)
    if wide != dtype and wide.itemsize <= 4:
        wide = half_precision_result(name, dtype, len(operands))
    return wide


@cache
def half_precision_result(name: str, dtype: DType, count: int) -> Any:
    """Returns the dtype that a function makes of half precision, or of small integers."""
    with quiet():
        return getattr(special(np), name)(*[np.ones(1, dtype)] * count).dtype


def elementwise_in_doubles(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """Makes a function of operands that broadcast from one of flat double-precision arrays.

    The kernel gets the array module first, then a block of elements at a time, and keywords as
    they are. The result has the dtype to which the operands promote; integers become double
    precision.
    """

    @wraps(kernel)
    def run(xp: ArrayModule, *operands: Any, **params: Any) -> Buffer:
        dtype = dtype_of_reals(kernel.__name__, *operands)
        spread = xp.broadcast_arrays(*as_arrays(xp, np.float64, *operands))
        flat = [x.reshape(-1) for x in spread]
        out = xp.empty(spread[0].shape, np.float64)
        target = out.reshape(-1)
        block = CPU_BLOCK_ELEMENTS if xp is np else GPU_BLOCK_ELEMENTS
        with quiet():
            for start in range(0, target.size, block):
                part = slice(start, start + block)
                target[part] = kernel(xp, *(x[part] for x in flat), **params)
            return out.astype(dtype)[()]

    return run


def put_where(
    xp: ArrayModule,
    out: Buffer,
    condition: Buffer,
    function: Callable[..., Any],
    operands: Sequence[Any],
    harmless: float,
) -> Buffer:
    """Returns values with a function's put where a condition holds.

    NumPy computes the function there alone. A GPU would have to wait for the condition. So it
    computes everywhere, of a harmless number where the condition does not hold.
    """
    if xp is not np:
        safe = [xp.where(condition, x, harmless) for x in operands]
        return xp.where(condition, function(*safe), out)
    if condition.any():
        out[condition] = function(*(x[condition] for x in operands))
    return out


@cache
def panel_nodes(device: str) -> tuple[Any, Any]:
    """Returns Gauss's and Legendre's nodes and weights from 0 to 1, on a device."""
    places, weights = np.polynomial.legendre.leggauss(PANEL_NODES)
    return on_device(0.5 * (places + 1.0), device), on_device(0.5 * weights, device)


def integrate(
    xp: ArrayModule, integrand: Callable[[Any], Any], length: Buffer, *, logarithmic: bool
) -> Any:
    """Integrates from 0 to a length, for every element at once.

    The integrand takes distances, with an axis of nodes behind that of the elements. A logarithmic
    integral, over ``log(1 + distance)``, is for an integrand that changes both within a distance
    of 1 and over the whole of a long interval.
    """
    places, weights = panel_nodes(device_of(length))
    if logarithmic:
        span = xp.log1p(length)
        steps = span[:, None] * places
        values = integrand(xp.expm1(steps)) * xp.exp(steps)
    else:
        span = length
        values = integrand(span[:, None] * places)
    return span * (values @ weights)


# By the array module's name: computes one of these functions, by its name, in one launch.
AT_ONCE: dict[str, Callable[[str, Any], Any]] = {}


def launched_at_once(function: Callable[..., Any]) -> Callable[..., Any]:
    """Makes a function of elements one kernel on a GPU, where each of its steps would be one."""

    @wraps(function)
    def run(xp: ArrayModule, x: Buffer) -> Any:
        at_once = AT_ONCE.get(xp.__name__)
        return function(xp, x) if at_once is None else at_once(function.__name__, x)

    return run


@launched_at_once
def log_remainder(xp: ArrayModule, u: Buffer) -> Buffer:
    """Returns ``log(1 + u) - u`` without cancellation."""
    # With r = u / (2 + u), log(1 + u) is 2 artanh(r), and u is 2 r / (1 - r).
    near = xp.abs(u) < 0.5
    v = xp.where(near, u, 0.0)
    r = v / (2.0 + v)
    square = r * r
    total = xp.zeros_like(r)
    for k in range(37, 1, -2):
        total = total * square + 1.0 / k
    return xp.where(near, r * (2.0 * square * total - v), xp.log1p(xp.where(near, 0.0, u)) - u)


@launched_at_once
def exp_remainder(xp: ArrayModule, u: Buffer) -> Buffer:
    """Returns ``exp(u) - 1 - u`` without cancellation."""
    near = xp.abs(u) < 0.5
    v = xp.where(near, u, 0.0)
    total = xp.ones_like(v)
    for k in range(15, 2, -1):
        total = 1.0 + total * v / k
    return xp.where(near, 0.5 * v * v * total, xp.expm1(xp.where(near, 0.0, u)) - u)


def inverse_square_series(xp: ArrayModule, z: Buffer, coefficients: tuple[float, ...]) -> Buffer:
    """Returns ``c[0] + c[1] / z^2 + c[2] / z^4 + ...``."""
    w = 1.0 / (z * z)
    total = xp.zeros_like(w)
    for c in reversed(coefficients):
        total = total * w + c
    return total


@launched_at_once
def stirling_error(xp: ArrayModule, z: Buffer) -> Buffer:
    """Returns ``log gamma(z) - ((z - 1/2) log(z) - z + log(2 pi) / 2)`` for z > 0."""
    far = xp.maximum(z, SMALLEST_STIRLING_ARGUMENT)
    near = xp.minimum(z, SMALLEST_STIRLING_ARGUMENT)
    direct = special(xp).gammaln(near) - (near - 0.5) * xp.log(near) + near
    direct -= 0.5 * math.log(2.0 * math.pi)
    series = inverse_square_series(xp, far, STIRLING) / far
    return xp.where(z < SMALLEST_STIRLING_ARGUMENT, direct, series)


@launched_at_once
def digamma_gap(xp: ArrayModule, z: Buffer) -> Buffer:
    """Returns ``log(z) - digamma(z)`` for z > 0."""
    far = xp.maximum(z, SMALLEST_STIRLING_ARGUMENT)
    near = xp.minimum(z, SMALLEST_STIRLING_ARGUMENT)
    direct = xp.log(near) - special(xp).psi(near)
    series = 0.5 / far + inverse_square_series(xp, far, DIGAMMA) / (far * far)
    return xp.where(z < SMALLEST_STIRLING_ARGUMENT, direct, series)
