"""Optimizers whose steps are scaled by the size of a whole parameter: LAMB and Adafactor."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..numpy.zeros_ones import full_like
from ..primitives.core.annotations import Value
from ..primitives.core.annotations import operations as ops
from ..primitives.core.array import Array
from ..primitives.core.shape_dtype import finfo, shape_dtype
from .adam_kin import chosen_number, means_of_adam
from .algorithms import (
    AdamState,
    ResultPlaces,
    Scalars,
    Slots,
    _check_ranges,
    _real_dtype,
    _real_zeros,
    _zeros,
)
from .optimizer import Arithmetic, Optimizer, Rate, Scalar, elementwise, rate_at

__all__ = ["AdafactorState", "adafactor", "bounded_adafactor", "lamb"]

# No parameter is taken for smaller than this when its step is scaled (Shazeer and Stern, 6).
SMALLEST_SCALE = 1e-3


class AdafactorState(NamedTuple):
    """The state of `adafactor`: besides step and loss, means of squares.

    A matrix that is large enough has means over rows and over columns, and an array of one element
    among ``square``; any other parameter has a mean for each element, and one element among both.
    """

    step: Array
    loss: Array
    row: Any
    column: Any
    square: Any


def lamb(
    lr: Rate, b1: Scalar = 0.9, b2: Scalar = 0.999, eps: Scalar = 1e-6, weight_decay: Scalar = 0.0
) -> Optimizer[AdamState]:
    """Returns LAMB: Adam whose step for each parameter is as long as lr times the parameter.

    With ``u = m' / (sqrt(v') + eps) + weight_decay p``, whose first part is that of `adam`,
    ``p <- p - lr |p| / |u| u``. Where one of the norms is zero, the ratio is 1.

    Args:
        lr: the learning rate: a number, or a function of how many updates were made before.
        b1: the decay of the mean of gradients, from 0 up to 1.
        b2: the decay of the mean of their squares, from 0 up to 1.
        eps: a number added to the denominator, which keeps it from zero.
        weight_decay: how much of a parameter is added to its direction.

    Returns:
        An `Optimizer` with the state `AdamState`.

    Raises:
        ValueError: an argument is out of its range.

    Y. You et al., "Large batch optimization for deep learning: training BERT in 76 minutes", 2020,
    algorithm 2.

    >>> import functensor as ft, functensor.numpy as np
    >>> opt = ft.optim.lamb(0.1)
    >>> x = np.array([3.0, 4.0])
    >>> after, _ = opt.update(x, opt.init(x), np.array([1.0, 0.0]))
    >>> np.round(after, 5)
    Array([2.5, 4. ], dtype=float64, device='cpu')
    """
    _check_ranges("lamb", lr=lr, eps=eps, weight_decay=weight_decay, b1=b1, b2=b2)

    def coefficients(step: Scalar) -> Scalars:
        t = step + 1
        corrections = 1 / (1 - b1**t), 1 / (1 - b2**t)
        return rate_at(lr, step), eps, weight_decay, *corrections, b1, b2, 1 - b1, 1 - b2

    def rule(
        xp: Arithmetic, p: Value, g: Value, slots: Slots, numbers: Scalars, out: ResultPlaces
    ) -> Slots:
        rate, floor, decay, mean_factor, square_factor, *decays = numbers
        m, v = means_of_adam(xp, g, slots, decays, out)
        width = ops.add(ops.sqrt(ops.multiply(v, square_factor)), floor)
        u = ops.divide(ops.multiply(m, mean_factor), width)
        u = ops.add(u, ops.multiply(p, decay))
        sizes = [ops.sqrt(ops.sum(xp.square_abs(x, None))) for x in (p, u)]
        known = ops.logical_and(ops.greater(sizes[0], 0), ops.greater(sizes[1], 0))
        ratio = ops.where(known, ops.divide(sizes[0], ops.where(known, sizes[1], 1)), 1)
        return ops.subtract(p, ops.multiply(u, ops.multiply(ratio, rate))), m, v

    starts = _zeros, _real_zeros
    return elementwise("lamb", AdamState, starts, coefficients, rule, by_primitives=True)


def adafactor(
    lr: Rate,
    decay_power: float = 0.8,
    eps: Scalar = 1e-30,
    clipping: Scalar | None = 1.0,
    scale_by_parameter: bool = True,
    min_size_to_factor: int = 128,
) -> Optimizer[AdafactorState]:
    """Returns Adafactor: a mean of squares for each row and column, not for each element.

    Both means give ``v = row column / mean(row)``, and the step is ``g / sqrt(v)``. Step t weighs
    the squares before it by ``1 - t^-decay_power``. A step whose root mean square is above
    ``clipping`` is brought there. It is then scaled by lr, and by the root mean square of the
    parameter, at least 0.001.

    Args:
        lr: the learning rate: a number, or a function of how many updates were made before.
        decay_power: how fast the means become slower.
        eps: a number added to squares.
        clipping: the largest root mean square of a step before scaling; None for no limit.
        scale_by_parameter: whether steps are scaled by parameters.
        min_size_to_factor: how long the second longest axis of a parameter is, at least, if it has
            means of rows and columns. These are over its two longest axes.

    Returns:
        An `Optimizer` with the state `AdafactorState`.

    Raises:
        ValueError: an argument is out of its range.

    N. Shazeer and M. Stern, "Adafactor: adaptive learning rates with sublinear memory cost", 2018,
    algorithms 4 and 5.

    >>> import functensor as ft, functensor.numpy as np
    >>> opt = ft.optim.adafactor(0.1, min_size_to_factor=2)
    >>> x = np.full((2, 3), 2.0)
    >>> after, state = opt.update(x, opt.init(x), np.ones((2, 3)))
    >>> after[0], state.row.shape, state.column.shape
    (Array([1.8, 1.8, 1.8], dtype=float64, device='cpu'), (2,), (3,))
    """
    _check_ranges("adafactor", lr=lr, eps=eps, decay_power=decay_power, clipping=clipping or 0)

    def axes(p: Value) -> tuple[int, int] | None:
        """Returns the second longest axis and the longest one, where both have means."""
        shape = shape_dtype(p).shape
        if len(shape) < 2:
            return None
        *_, second, first = (int(axis) for axis in np.argsort(shape))
        return (second, first) if shape[second] >= min_size_to_factor else None

    def start_of(part: int) -> Any:
        def start(p: Value) -> Value:
            pair = axes(p)
            if pair is None:
                return _real_zeros(p) if part == 2 else full_like(p, 0, _real_dtype(p), shape=(1,))
            if part == 2:
                return full_like(p, 0, _real_dtype(p), shape=(1,))
            shape = list(shape_dtype(p).shape)
            del shape[pair[1 - part]]
            return full_like(p, 0, _real_dtype(p), shape=tuple(shape))

        return start

    def coefficients(step: Scalar) -> Scalars:
        fresh = (step + 1) ** -decay_power
        return rate_at(lr, step), 1 - fresh, fresh, eps

    def rule(
        xp: Arithmetic, p: Value, g: Value, slots: Slots, numbers: Scalars, out: ResultPlaces
    ) -> Slots:
        rate, kept, fresh, floor = numbers
        squares = ops.add(xp.square_abs(g, None), floor)
        row, column, square = slots
        pair = axes(p)
        if pair is None:
            square = ops.add(ops.multiply(square, kept), ops.multiply(squares, fresh))
            u = ops.divide(g, ops.sqrt(square))
        else:
            second, first = pair
            means = [ops.mean(squares, axis=first), ops.mean(squares, axis=second)]
            row = ops.add(ops.multiply(row, kept), ops.multiply(means[0], fresh))
            column = ops.add(ops.multiply(column, kept), ops.multiply(means[1], fresh))
            own = second - 1 if second > first else second
            share = ops.divide(row, ops.mean(row, axis=own, keepdims=True))
            width = ops.expand_dims(ops.sqrt(share), first)
            u = ops.divide(g, ops.multiply(width, ops.expand_dims(ops.sqrt(column), second)))
        if clipping is not None:
            u = ops.divide(u, ops.maximum(1, ops.divide(root_mean_square(xp, u), clipping)))
        if scale_by_parameter:
            u = ops.multiply(u, ops.maximum(root_mean_square(xp, p), SMALLEST_SCALE))
        return ops.subtract(p, ops.multiply(u, rate)), row, column, square

    starts = start_of(0), start_of(1), start_of(2)
    return elementwise(
        "adafactor", AdafactorState, starts, coefficients, rule, by_primitives=True
    )


def bounded_adafactor(
    lr: Rate = 1e-2, decay_power: float = 0.8, eps: Scalar | None = None,
    smallest_scale: Scalar = 1e-3, clipping: Scalar = 1.0, weight_decay: Scalar = 0.0,
) -> Optimizer[AdafactorState]:  # fmt: skip
    """Returns Adafactor with bounds in place of added numbers, and rates that fall.

    It is PyTorch's. Means are over the last two axes of every parameter that has two. The variance
    ``row column / mean(row)`` is not below ``eps^2``, and its denominator not below ``eps``. In
    step t the rate is ``min(lr, 1 / sqrt(t))`` times the root mean square of the parameter, which
    counts as ``smallest_scale`` at least.

    Args:
        lr: the learning rate: a number, or a function of how many updates were made before.
        decay_power: how fast the means become slower, as in `adafactor`.
        eps: the bound; None for the spacing of numbers at 1 in the dtype that is computed in.
        smallest_scale: no parameter is taken for smaller.
        clipping: the largest root mean square of a step before scaling.
        weight_decay: how fast weights decay by themselves, for each unit of ``lr``.

    Returns:
        An `Optimizer` with the state `AdafactorState`, whose rows and columns keep their axes.

    Raises:
        ValueError: an argument is out of its range.

    N. Shazeer and M. Stern, "Adafactor: adaptive learning rates with sublinear memory cost", 2018,
    as PyTorch has it.

    >>> import functensor as ft, functensor.numpy as np
    >>> opt = ft.optim.bounded_adafactor(0.1)
    >>> x = np.full((2, 3), 2.0)
    >>> after, state = opt.update(x, opt.init(x), np.ones((2, 3)))
    >>> after[0], state.row.shape, state.column.shape
    (Array([1.8, 1.8, 1.8], dtype=float64, device='cpu'), (2, 1), (1, 3))
    """
    _check_ranges(
        "bounded_adafactor", lr=lr, decay_power=decay_power, eps=eps or 0, clipping=clipping,
        smallest_scale=smallest_scale, weight_decay=weight_decay,
    )  # fmt: skip

    def start_of(axis: int | None) -> Any:
        def start(p: Value) -> Value:
            shape = list(shape_dtype(p).shape)
            if (len(shape) > 1) is (axis is None):
                shape = [1]
            elif axis is not None:
                shape[axis] = 1
            return full_like(p, 0, _real_dtype(p), shape=tuple(shape))

        return start

    def coefficients(step: Scalar) -> Scalars:
        t, rate = step + 1, rate_at(lr, step)
        fresh, slow = t**-decay_power, t**-0.5
        falling = chosen_number(rate < slow, rate, slow)
        return falling, 1 - fresh, fresh, 1 - rate * weight_decay

    def rule(
        xp: Arithmetic, p: Value, g: Value, slots: Slots, numbers: Scalars, out: ResultPlaces
    ) -> Slots:
        rate, kept, fresh, staying = numbers
        bound = float(finfo(shape_dtype(p).dtype).eps) if eps is None else eps
        row, column, square = slots
        squares = xp.square_abs(g, None)
        if len(shape_dtype(p).shape) > 1:
            means = [ops.mean(squares, axis=axis, keepdims=True) for axis in (-1, -2)]
            row = ops.add(ops.multiply(row, kept), ops.multiply(means[0], fresh))
            column = ops.add(ops.multiply(column, kept), ops.multiply(means[1], fresh))
            whole = ops.maximum(ops.mean(row, axis=-2, keepdims=True), bound)
            variance = ops.divide(ops.multiply(row, column), whole)
        else:
            variance = square = ops.add(ops.multiply(square, kept), ops.multiply(squares, fresh))
        u = ops.divide(g, ops.sqrt(ops.maximum(variance, bound * bound)))
        excess = ops.maximum(1, ops.divide(root_mean_square(xp, u), clipping))
        scale = ops.maximum(root_mean_square(xp, p), smallest_scale)
        move = ops.multiply(u, ops.divide(ops.multiply(scale, rate), excess))
        return ops.subtract(ops.multiply(p, staying), move), row, column, square

    starts = start_of(-1), start_of(-2), start_of(None)
    return elementwise(
        "bounded_adafactor", AdafactorState, starts, coefficients, rule, by_primitives=True
    )


def root_mean_square(xp: Arithmetic, x: Value) -> Array:
    """Returns the root of the mean of the squares of absolute values."""
    out: Array = ops.sqrt(ops.mean(xp.square_abs(x, None)))
    return out
