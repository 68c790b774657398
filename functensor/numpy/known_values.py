"""Known values, or a size, for functions whose results depend on values in their shape."""

from __future__ import annotations

import numpy as np

from ..backends.annotations import Buffer
from ..backends.devices import device_of, to_host
from ..backends.errors.asked_values import asking
from ..primitives.core.annotations import ArrayLike
from ..primitives.core.annotations import operations as ops
from ..primitives.core.array import Array, Tracer, concrete, unknown_behind
from ..primitives.core.buffers import beside
from ..primitives.core.errors import ConcretizationError, message

__all__ = ["are_values_known", "first_true", "is_at_hand", "is_computed", "value_of"]


def are_values_known(*arrays: ArrayLike) -> bool:
    """Says whether the values of arrays can be looked at.

    >>> import functensor as ft
    >>> ft.grad(lambda x: x * are_values_known(x))(2.0).item()
    1.0
    """
    return all(unknown_behind(x) is None for x in arrays)


def is_computed(*arrays: ArrayLike) -> bool:
    """Says whether the values of arrays can be looked at, and need not be computed for that."""
    return are_values_known(*arrays) and not any(map(_is_lazy, arrays))


def _is_lazy(x: ArrayLike) -> bool:
    while isinstance(x, Tracer) and not x.lazy:
        x = x.value
    return isinstance(x, Tracer)


def is_at_hand(*arrays: ArrayLike) -> bool:
    """Says whether the values of arrays can be looked at without waiting for them.

    Where they are not, what is wrong with them raises no error.
    """
    return is_computed(*arrays) and all(device_of(concrete(x, "")) == "cpu" for x in arrays)


def value_of(name: str, x: Array, fix: str, what: str = "the shape of what {} returns") -> Buffer:
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


def first_true(mask: Array, size: int) -> tuple[Array, Array]:
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
