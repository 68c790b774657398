"""Bessel functions: modified ones of any order, those of both kinds of integer orders."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cupy
import numpy as np
from cupy import ndarray

from ...annotations import DType
from ...arrays.special_remainders import as_arrays, loop_dtype
from ..annotations import GpuOperand
from ..launch import SMALL_BLOCK_THREADS, Kernel
from ..unsupported import not_on_gpu

__all__ = ["BESSEL_FUNCTIONS"]

BESSEL_INSTANCES = {
    "jv": "first_kind",
    "yv": "second_kind",
    "iv": "modified_first<false>",
    "ive": "modified_first<true>",
    "kv": "modified_second<false>",
    "kve": "modified_second<true>",
}

bessel = Kernel("bessel", "bessel", "pppl", tuple(BESSEL_INSTANCES.values()))


def bessel_values(kind: str, order: GpuOperand, x: GpuOperand, dtype: DType) -> ndarray:
    """Returns a Bessel function of an order, in a dtype."""
    spread = cupy.broadcast_arrays(*as_arrays(cupy, np.float64, order, x))
    orders, places = map(cupy.ascontiguousarray, spread)
    out = cupy.empty(spread[0].shape, np.float64)
    if out.size:
        blocks = -(-out.size // SMALL_BLOCK_THREADS)
        function = BESSEL_INSTANCES[kind]
        bessel(function, blocks, SMALL_BLOCK_THREADS, orders, places, out, out.size)
    return out.astype(dtype, copy=False)


def of_order(name: str) -> Callable[..., ndarray]:
    """Returns a function of an order and an argument."""
    return lambda order, x: bessel_values(name, order, x, loop_dtype(name, order, x))


def of_integer_order(name: str, kind: str) -> Callable[..., ndarray]:
    """Returns a function that takes integer orders alone."""

    def compute(order: Any, x: GpuOperand) -> ndarray:
        if isinstance(order, cupy.ndarray):
            if order.dtype.kind not in "?iu":
                raise not_on_gpu(name, "orders in an array are integers there, of an integer dtype")
        elif order != int(order):
            raise not_on_gpu(name, f"its order is {order}, which is no integer")
        return bessel_values(kind, order, x, loop_dtype(name, order, x))

    return compute


def of_fixed_order(name: str, kind: str, order: float) -> Callable[..., ndarray]:
    """Returns a function whose name says its order."""
    return lambda x: bessel_values(kind, order, x, loop_dtype(name, x))


FIXED_ORDERS = {
    "i0e": ("ive", 0.0), "i1": ("iv", 1.0), "i1e": ("ive", 1.0), "k0": ("kv", 0.0),
    "k0e": ("kve", 0.0), "k1": ("kv", 1.0), "k1e": ("kve", 1.0),
}  # fmt: skip
INTEGER_ORDERS = {"jv": "jv", "kn": "kv", "yn": "yv", "yv": "yv"}
BESSEL_FUNCTIONS: dict[str, Callable[..., ndarray]] = {
    **{name: of_order(name) for name in ("iv", "ive", "kv", "kve")},
    **{name: of_integer_order(name, kind) for name, kind in INTEGER_ORDERS.items()},
    **{name: of_fixed_order(name, *kind) for name, kind in FIXED_ORDERS.items()},
}
