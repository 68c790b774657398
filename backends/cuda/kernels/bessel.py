"""Bessel functions: modified ones of any order, those of the first and second kind of integers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cupy
import numpy as np

from ...arrays.special_remainders import as_arrays, loop_dtype
from ..launch import Kernel
from ..unsupported import refused

__all__ = ["TABLE"]

Array = Any
BLOCK = 128
KINDS = {
    "jv": "first_kind",
    "yv": "second_kind",
    "iv": "modified_first<false>",
    "ive": "modified_first<true>",
    "kv": "modified_second<false>",
    "kve": "modified_second<true>",
}

bessel = Kernel("bessel", "bessel", "pppl", tuple(KINDS.values()))


def computed(kind: str, order: Any, x: Any, dtype: Any) -> Array:
    """Returns a Bessel function of an order, in a dtype."""
    spread = cupy.broadcast_arrays(*as_arrays(cupy, np.float64, order, x))
    orders, places = map(cupy.ascontiguousarray, spread)
    out = cupy.empty(spread[0].shape, np.float64)
    if out.size:
        bessel(KINDS[kind], -(-out.size // BLOCK), BLOCK, orders, places, out, out.size)
    return out.astype(dtype, copy=False)


def of_order(name: str) -> Callable[..., Array]:
    """Returns a function of an order and an argument."""
    return lambda order, x: computed(name, order, x, loop_dtype(name, order, x))


def of_integer(name: str, kind: str) -> Callable[..., Array]:
    """Returns a function that is there for integer orders alone."""

    def compute(order: Any, x: Any) -> Array:
        if isinstance(order, cupy.ndarray):
            if order.dtype.kind not in "?iu":
                raise refused(name, "orders in an array are integers there, of an integer dtype")
        elif order != int(order):
            raise refused(name, f"its order is {order}, which is no integer")
        return computed(kind, order, x, loop_dtype(name, order, x))

    return compute


def of_fixed(name: str, kind: str, order: float) -> Callable[..., Array]:
    """Returns a function of an order that its name says."""
    return lambda x: computed(kind, order, x, loop_dtype(name, x))


TABLE: dict[str, Callable[..., Array]] = {
    "i0e": of_fixed("i0e", "ive", 0.0),
    "i1": of_fixed("i1", "iv", 1.0),
    "i1e": of_fixed("i1e", "ive", 1.0),
    "iv": of_order("iv"),
    "ive": of_order("ive"),
    "jv": of_integer("jv", "jv"),
    "k0": of_fixed("k0", "kv", 0.0),
    "k0e": of_fixed("k0e", "kve", 0.0),
    "k1": of_fixed("k1", "kv", 1.0),
    "k1e": of_fixed("k1e", "kve", 1.0),
    "kn": of_integer("kn", "kv"),
    "kv": of_order("kv"),
    "kve": of_order("kve"),
    "yn": of_integer("yn", "yv"),
    "yv": of_integer("yv", "yv"),
}
