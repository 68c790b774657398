"""Optimizers of another loss: with decaying weights, or upwards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..primitives.core.registry import registry as ops
from ..primitives.core.shape_dtype import shape_dtype
from ..tree import containers as tree
from .optimizer import Optimizer, Scalar, State, made_of

__all__ = ["maximized", "with_weight_decay"]


def with_weight_decay(optimizer: Optimizer[State], weight_decay: Scalar) -> Optimizer[State]:
    """Returns an optimizer that adds a part of each parameter to its gradient.

    So it minimises the loss and ``weight_decay / 2`` times the sum of squares of parameters.

    Args:
        optimizer: a pure optimizer.
        weight_decay: how much of a parameter is added to its gradient.

    Returns:
        An `Optimizer` with the same state.

    Raises:
        ValueError: ``weight_decay`` is negative.

    >>> import functensor as ft, functensor.numpy as np
    >>> opt = ft.optim.with_weight_decay(ft.optim.sgd(0.5), 0.25)
    >>> x = np.array([8.0])
    >>> opt.update(x, opt.init(x), np.array([0.0]))[0]
    Array([7.], dtype=float64, device='cpu')
    """
    if isinstance(weight_decay, int | float) and weight_decay < 0:
        raise ValueError(f"with_weight_decay: weight_decay is {weight_decay}, it is not negative")

    def decayed(p: Any, g: Any) -> Any:
        # Of complex parameters, gradients are the conjugates of the steepest ascent.
        towards = ops.conj(p) if shape_dtype(p).dtype.kind == "c" else p
        return ops.add(g, ops.multiply(towards, weight_decay))

    return with_gradients(optimizer, decayed)


def maximized(optimizer: Optimizer[State]) -> Optimizer[State]:
    """Returns an optimizer that goes upwards.

    Args:
        optimizer: a pure optimizer.

    Returns:
        An `Optimizer` with the same state.

    >>> import functensor as ft, functensor.numpy as np
    >>> opt = ft.optim.maximized(ft.optim.sgd(0.5))
    >>> x = np.array([1.0])
    >>> opt.update(x, opt.init(x), np.array([2.0]))[0]
    Array([2.], dtype=float64, device='cpu')
    """

    return with_gradients(optimizer, lambda p, g: ops.negative(g))


def with_gradients(
    optimizer: Optimizer[State], change: Callable[[Any, Any], Any], by_element: bool = True
) -> Optimizer[State]:
    """Returns an optimizer to which gradients come as a function of them and of parameters."""
    inner = optimizer._updating
    reach = optimizer.reach
    if not by_element and reach == "element":
        reach = "parameter"

    def update(params: Any, state: State, grads: Any) -> tuple[Any, State]:
        return optimizer.update(params, state, tree.map(change, params, grads))

    if inner is None:
        return Optimizer(optimizer.name, optimizer.init, update, reach=reach)

    def updating(outer: Callable[[Any, Any], Any] | None) -> Any:
        if outer is None:
            return inner(change)
        return inner(lambda p, g: change(p, outer(p, g)))

    return made_of(optimizer.name, optimizer.init, updating, reach)
