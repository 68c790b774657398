"""Optimizers that divide by running means of squares without Adam's corrections."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..primitives.core.annotations import Value
from ..primitives.core.array import Array
from ..primitives.core.shape_dtype import shape_dtype
from .algorithms import ResultPlaces, Scalars, Slots, _check_ranges, _real_zeros, _zeros
from .optimizer import Arithmetic, Optimizer, Rate, Scalar, elementwise, rate_at

__all__ = ["AdadeltaState", "RmspropState", "adadelta", "rmsprop"]


class RmspropState(NamedTuple):
    """The state of `rmsprop`: besides step and loss, two means and the velocity."""

    step: Array
    loss: Array
    square: Any
    mean: Any
    velocity: Any


class AdadeltaState(NamedTuple):
    """The state of `adadelta`: besides step and loss, means of squares of gradients and steps."""

    step: Array
    loss: Array
    square: Any
    moved: Any


def rmsprop(
    lr: Rate,
    decay: Scalar = 0.99,
    eps: Scalar = 1e-8,
    momentum: Scalar = 0.0,
    centered: bool = False,
) -> Optimizer[RmspropState]:
    """Returns RMSprop: ``s <- decay s + (1 - decay) g^2``, ``p <- p - lr g / (sqrt(s) + eps)``.

    Args:
        lr: the learning rate: a number, or a function of how many updates were made before.
        decay: the decay of the mean of squares, from 0 up to 1.
        eps: a number added to the denominator, which keeps it from zero.
        momentum: how much of the last step is left, from 0 up to 1.
        centered: whether the square of the mean of gradients is taken off ``s``.

    Returns:
        An `Optimizer` with the state `RmspropState`.

    Raises:
        ValueError: an argument is out of its range.

    T. Tieleman and G. Hinton, lecture 6.5 of "Neural networks for machine learning", 2012; centered
    as in A. Graves, "Generating sequences with recurrent neural networks", 2013.

    >>> import functensor as ft, functensor.numpy as np
    >>> opt = ft.optim.rmsprop(0.1, decay=0.75, eps=0.0)
    >>> x = np.array([1.0])
    >>> opt.update(x, opt.init(x), np.array([3.0]))[0]
    Array([0.8], dtype=float64, device='cpu')
    """
    _check_ranges("rmsprop", lr=lr, eps=eps, momentum=momentum, b1=decay)

    def coefficients(step: Scalar) -> Scalars:
        return rate_at(lr, step), decay, 1 - decay, eps, momentum

    def rule(
        xp: Arithmetic, p: Value, g: Value, slots: Slots, numbers: Scalars, out: ResultPlaces
    ) -> Slots:
        rate, kept, rest, floor, inertia = numbers
        scratch, new_square, new_mean, new_velocity = out
        fresh = xp.multiply(xp.square_abs(g, scratch), rest, scratch)
        square = xp.add(xp.multiply(slots[0], kept, new_square), fresh, new_square)
        fresh = xp.multiply(g, rest, scratch)
        mean = xp.add(xp.multiply(slots[1], kept, new_mean), fresh, new_mean)
        spread = xp.subtract(square, xp.square_abs(mean, scratch), scratch) if centered else square
        width = xp.add(xp.sqrt(spread, scratch), floor, scratch)
        ratio = xp.divide(g, width, scratch)
        velocity = xp.add(xp.multiply(slots[2], inertia, new_velocity), ratio, new_velocity)
        step = xp.multiply(velocity, rate, scratch)
        return xp.subtract(p, step, scratch), square, mean, velocity

    return elementwise(
        "rmsprop", RmspropState, (_real_zeros, _zeros, _zeros), coefficients, rule
    )


def adadelta(
    lr: Rate = 1.0, decay: Scalar = 0.9, eps: Scalar = 1e-6
) -> Optimizer[AdadeltaState]:
    """Returns Adadelta: steps of the size of the last ones, by the scale of the gradient.

    ``s <- decay s + (1 - decay) g^2``, ``d = g sqrt(a + eps) / sqrt(s + eps)``,
    ``a <- decay a + (1 - decay) d^2``, ``p <- p - lr d``.

    Args:
        lr: the learning rate: a number, or a function of how many updates were made before.
        decay: the decay of both means, from 0 up to 1.
        eps: a number added to both, which lets steps begin.

    Returns:
        An `Optimizer` with the state `AdadeltaState`.

    Raises:
        ValueError: an argument is out of its range.

    M. Zeiler, "ADADELTA: an adaptive learning rate method", 2012.

    >>> import functensor as ft, functensor.numpy as np
    >>> opt = ft.optim.adadelta(1.0, decay=0.75, eps=0.0)
    >>> x = np.array([1.0])
    >>> opt.update(x, opt.init(x), np.array([3.0]))[0]
    Array([1.], dtype=float64, device='cpu')
    """
    _check_ranges("adadelta", lr=lr, eps=eps, b1=decay)

    def coefficients(step: Scalar) -> Scalars:
        return rate_at(lr, step), decay, 1 - decay, eps

    def rule(
        xp: Arithmetic, p: Value, g: Value, slots: Slots, numbers: Scalars, out: ResultPlaces
    ) -> Slots:
        rate, kept, rest, floor = numbers
        scratch, new_square, new_moved = out
        fresh = xp.multiply(xp.square_abs(g, scratch), rest, scratch)
        square = xp.add(xp.multiply(slots[0], kept, new_square), fresh, new_square)
        before = xp.sqrt(xp.add(slots[1], floor, scratch), scratch)
        # The width needs memory of its own: the others are taken.
        own = xp.add(square, floor, None)
        # A sum without axes is a number, which has no memory to write into.
        place = own if shape_dtype(own).shape else None
        width = xp.sqrt(own, place)
        d = xp.multiply(xp.divide(before, width, scratch), g, scratch)
        fresh = xp.multiply(xp.square_abs(d, place), rest, place)
        moved = xp.add(xp.multiply(slots[1], kept, new_moved), fresh, new_moved)
        return xp.subtract(p, xp.multiply(d, rate, scratch), scratch), square, moved

    return elementwise("adadelta", AdadeltaState, (_real_zeros, _real_zeros), coefficients, rule)
