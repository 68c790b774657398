"""Known values, or a size, for functions whose results depend on values in their shape."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..backends.devices import device_of, to_host
from ..backends.errors.asked_values import asking
from ..primitives.core.array import Tracer, concrete, unknown_behind
from ..primitives.core.buffers import beside
from ..primitives.core.errors import ConcretizationError, message
from ..primitives.core.registry import registry as ops

__all__ = ["first_true", "is_at_hand", "is_computed", "is_known", "value_of"]


def is_known(*arrays: Any) -> bool:
    """Says whether the values of arrays can be looked at.

    >>> import functensor as ft
    >>> ft.grad(lambda x: x * is_known(x))(2.0).item()
    1.0
    """
    return all(unknown_behind(x) is None for x in arrays)


def is_computed(*arrays: Any) -> bool:
    """Says whether the values of arrays can be looked at, and need not be computed for that."""
    return is_known(*arrays) and not any(map(_is_lazy, arrays))


def _is_lazy(x: Any) -> bool:
    while isinstance(x, Tracer) and not x.lazy:
        x = x.value
    return isinstance(x, Tracer)


def is_at_hand(*arrays: Any) -> bool:
    """Says whether the values of arrays can be looked at without waiting for them.

    Where they are not, what is wrong with them raises no error.
    """
    return is_computed(*arrays) and all(device_of(concrete(x, "")) == "cpu" for x in arrays)


def value_of(name: str, x: Any, fix: str, what: str = "the shape of what {} returns") -> Any:
    """Returns an array's value, on which the shape of a result depends, as NumPy's.

    That of an array on a GPU is waited for.

    Args:
        name: the function that asks, for the message.
        x: the array.
        fix: right code for where the value is not known.
        what: what else depends on it, with a place for the function.

    Raises:
        ConcretizationError: the value is not known, under vmap or while staging.
    """
    inner = unknown_behind(x)
    if inner is not None:
        text = message(
            f"{what.format(name)} depends on the value of {x.describe()}"
            f"{inner.dependence()}, which is not known while the function is traced",
            under=inner.under(),
            fix=fix,
            number=5,
        )
        raise asking(ConcretizationError(text), x)
    return np.asarray(to_host(concrete(x, name)))


def first_true(mask: Any, size: int) -> tuple[Any, Any]:
    """Returns the first places, on one axis, where a mask holds, and which of them there are.

    Args:
        mask: booleans on one axis.
        size: how many places to return.

    Returns:
        The places and as many booleans; where there is none the place is a valid one, unless the
        mask is empty.
    """
    length = mask.shape[0]
    order = ops.argsort(ops.logical_not(mask), 0, stable=True)
    if size <= length:
        places = ops.index(order, slice(0, size))
    else:
        places = ops.concatenate([order, beside(order, np.zeros(size - length, np.intp))])
    return places, ops.less(beside(mask, np.arange(size)), ops.sum(mask))
