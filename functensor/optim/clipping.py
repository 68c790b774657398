"""Optimizers to which gradients come clipped, and several wrappers around one optimizer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..backends.errors.public_functions import check_function
from ..primitives.core.annotations import Value
from ..primitives.core.annotations import operations as ops
from ..primitives.core.array import Array
from ..primitives.core.errors import GradientInputError, describe, failure
from ..primitives.core.shape_dtype import finfo, shape_dtype
from ..tree import containers as tree
from .argument_order import checking_order
from .optimizer import Optimizer, Scalar, State, Tree, is_updated
from .other_losses import with_gradients

__all__ = ["chained", "clipped_by_global_norm", "clipped_by_norm", "clipped_by_value"]


def clipped_by_value(optimizer: Optimizer[State], limit: Scalar) -> Optimizer[State]:
    """Returns an optimizer to which every element of a gradient comes between two bounds.

    Args:
        optimizer: a pure optimizer.
        limit: the largest absolute value of an element.

    Returns:
        An `Optimizer` with the same state.

    Raises:
        ValueError: the limit is negative.
        GradientInputError: a gradient that an update is given is complex.

    >>> import functensor as ft, functensor.numpy as np
    >>> opt = ft.optim.clipped_by_value(ft.optim.sgd(1.0), 0.5)
    >>> x = np.zeros(3)
    >>> opt.update(x, opt.init(x), np.array([2.0, -2.0, 0.25]))[0]
    Array([-0.5 ,  0.5 , -0.25], dtype=float64, device='cpu')
    """
    _check_limit("clipped_by_value", limit)

    def clipped(p: Any, g: Any) -> Any:
        if shape_dtype(g).dtype.kind == "c":
            raise failure(
                GradientInputError,
                f"clipped_by_value: a gradient is {describe(g)}, and complex numbers have no order",
                fix="clipped_by_norm or clipped_by_global_norm, which keep the phase",
            )
        return ops.clip(g, -limit, limit)

    return with_gradients(optimizer, clipped)


def clipped_by_norm(optimizer: Optimizer[State], limit: Scalar) -> Optimizer[State]:
    """Returns an optimizer to which the gradient of each parameter comes no longer than a limit.

    Args:
        optimizer: a pure optimizer.
        limit: the largest norm of one parameter's gradient, the root of its sum of squares.

    Returns:
        An `Optimizer` with the same state.

    Raises:
        ValueError: the limit is negative.

    >>> import functensor as ft, functensor.numpy as np
    >>> opt = ft.optim.clipped_by_norm(ft.optim.sgd(1.0), 0.5)
    >>> x = [np.zeros(2), np.zeros(1)]
    >>> opt.update(x, opt.init(x), [np.array([3.0, 4.0]), np.array([0.25])])[0]
    [Array([-0.3, -0.4], dtype=float64, device='cpu'), Array([-0.25], dtype=float64, device='cpu')]
    """
    _check_limit("clipped_by_norm", limit)
    return with_gradients(
        optimizer, lambda p, g: clipped_to_norm(g, sum_of_squares(g), limit), by_element=False
    )


def clipped_by_global_norm(optimizer: Optimizer[State], limit: Scalar) -> Optimizer[State]:
    """Returns an optimizer to which all gradients come clipped_to_norm by the same factor.

    The factor makes the root of the sum of all squares no greater than the limit.

    Args:
        optimizer: a pure optimizer.
        limit: the largest norm of all gradients together.

    Returns:
        An `Optimizer` with the same state.

    Raises:
        ValueError: the limit is negative.

    R. Pascanu, T. Mikolov and Y. Bengio, "On the difficulty of training recurrent neural networks",
    2013.

    >>> import functensor as ft, functensor.numpy as np
    >>> opt = ft.optim.clipped_by_global_norm(ft.optim.sgd(1.0), 0.5)
    >>> x = [np.zeros(1), np.zeros(1)]
    >>> opt.update(x, opt.init(x), [np.array([3.0]), np.array([4.0])])[0]
    [Array([-0.3], dtype=float64, device='cpu'), Array([-0.4], dtype=float64, device='cpu')]
    """
    _check_limit("clipped_by_global_norm", limit)

    def update(params: Tree, state: State, grads: Tree) -> tuple[Tree, State]:
        squares = [sum_of_squares(g) for g in tree.leaves(grads) if is_updated(g)]
        if squares:
            total = squares[0]
            for square in squares[1:]:
                total = ops.add(total, square)

            def clipped(g: Value) -> Value:
                return clipped_to_norm(g, total, limit) if is_updated(g) else g

            grads = tree.map(clipped, grads)
        return optimizer.update(params, state, grads)

    checked = checking_order(optimizer.name, optimizer.init, update)
    return Optimizer(optimizer.name, *checked, reach="tree")


def chained(*parts: Any) -> Optimizer[Any]:
    """Returns an optimizer within several wrappers, of which the first sees gradients first.

    Args:
        parts: functions that take an optimizer and return one, and an optimizer at the end.

    Returns:
        An `Optimizer`.

    Raises:
        TypeError: the last part is no optimizer, or another one is no function.

    >>> import functensor as ft, functensor.numpy as np
    >>> from functools import partial
    >>> opt = ft.optim.chained(
    ...     partial(ft.optim.clipped_by_value, limit=1.0),
    ...     partial(ft.optim.with_weight_decay, weight_decay=0.5),
    ...     ft.optim.sgd(0.5),
    ... )
    >>> x = np.array([8.0])
    >>> opt.update(x, opt.init(x), np.array([100.0]))[0]
    Array([5.5], dtype=float64, device='cpu')
    """
    wrappers: tuple[Callable[[Any], Any], ...] = parts[:-1]
    made = parts[-1] if parts else None
    if not isinstance(made, Optimizer):
        raise TypeError(
            f"chained: the last part is of type {type(made).__name__}, not an optimizer"
            "\n  fix: chained(partial(clipped_by_norm, limit=1.0), adam(1e-3))"
        )
    for wrapper in reversed(wrappers):
        check_function("chained", wrapper, "parts")
        made = wrapper(made)
    return made


def sum_of_squares(g: Value) -> Array:
    """Returns the sum of the squares of absolute values, at least in single precision."""
    if shape_dtype(g).dtype.itemsize == 2:
        g = ops.astype(g, np.float32)
    magnitudes = ops.absolute(g) if shape_dtype(g).dtype.kind == "c" else g
    out: Array = ops.sum(ops.square(magnitudes))
    return out


def clipped_to_norm(g: Value, total: Array, limit: Scalar) -> Array:
    """Returns a gradient times what brings the root of a sum of squares to a limit, at most 1."""
    norm = ops.sqrt(total)
    within = norm <= limit
    # The factor of a short gradient is not computed, so that a norm of 0 does no harm.
    factor = ops.where(within, 1.0, ops.divide(limit, ops.where(within, 1.0, norm)))
    dtype = shape_dtype(g).dtype
    real = finfo(dtype).dtype if dtype.kind == "c" else dtype
    out: Array = ops.multiply(g, ops.astype(factor, real))
    return out


def _check_limit(name: str, limit: Scalar) -> None:
    if isinstance(limit, int | float) and limit < 0:
        raise ValueError(f"{name}: limit is {limit}, it is not negative")
