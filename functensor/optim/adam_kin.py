"""Optimizers like Adam: by a maximum, rectified, or looking ahead."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..primitives.core.annotations import Value
from ..primitives.core.annotations import operations as ops
from ..primitives.core.array import Array
from ..primitives.core.shape_dtype import finfo, shape_dtype
from .algorithms import (
    AdamState,
    ResultPlaces,
    Scalars,
    Slots,
    _adam_numbers,
    _check_ranges,
    _real_zeros,
    _zeros,
)
from .optimizer import Arithmetic, Optimizer, Rate, Scalar, elementwise, rate_at

__all__ = [
    "AdamaxState", "AmsgradState", "NadamState", "adamax", "amsgrad", "nadam", "radam",
]  # fmt: skip

# From here on the variance of Adam's rate is known well enough to be rectified (Liu et al., 4).
FEWEST_DEGREES = 5
# How fast the momentum of `nadam` comes to its end (Dozat, 2016).
WARM_UP_BASE = 0.96


class AmsgradState(NamedTuple):
    """The state of `amsgrad`: besides step and loss, Adam's means, and the largest squares."""

    step: Array
    loss: Array
    mean: Any
    square: Any
    peak: Any


class AdamaxState(NamedTuple):
    """The state of `adamax`: besides step and loss, means of gradients and decaying maxima."""

    step: Array
    loss: Array
    mean: Any
    peak: Any


class NadamState(NamedTuple):
    """The state of `nadam`: besides step and loss, Adam's means, and the product of momenta."""

    step: Array
    loss: Array
    mean: Any
    square: Any
    product: Any


def means_of_adam(
    xp: Arithmetic, g: Value, slots: Slots, numbers: Scalars, out: ResultPlaces
) -> Slots:
    """Returns the running means of gradients and of squares; ``out[0]`` is scratch."""
    b1, b2, b1_rest, b2_rest = numbers
    scratch, new_m, new_v, *_ = out
    fresh = xp.multiply(g, b1_rest, scratch)
    m = xp.add(xp.multiply(slots[0], b1, new_m), fresh, new_m)
    fresh = xp.multiply(xp.square_abs(g, scratch), b2_rest, scratch)
    return m, xp.add(xp.multiply(slots[1], b2, new_v), fresh, new_v)


def amsgrad(
    lr: Rate, b1: Scalar = 0.9, b2: Scalar = 0.999, eps: Scalar = 1e-8, weight_decay: Scalar = 0.0
) -> Optimizer[AmsgradState]:
    """Returns Adam that divides by the largest mean of squares so far, so that rates only fall.

    Args:
        lr: the learning rate: a number, or a function of how many updates were made before.
        b1: the decay of the mean of gradients, from 0 up to 1.
        b2: the decay of the mean of their squares, from 0 up to 1.
        eps: a number added to the denominator, which keeps it from zero.
        weight_decay: how fast weights decay by themselves, for each unit of the learning rate.

    Returns:
        An `Optimizer` with the state `AmsgradState`.

    Raises:
        ValueError: an argument is out of its range.

    S. Reddi, S. Kale and S. Kumar, "On the convergence of Adam and beyond", 2018, algorithm 2,
    with Adam's corrections.

    >>> import functensor as ft, functensor.numpy as np
    >>> opt = ft.optim.amsgrad(0.1)
    >>> x = np.array([1.0])
    >>> np.round(opt.update(x, opt.init(x), np.array([5.0]))[0], 6)
    Array([0.9], dtype=float64, device='cpu')
    """
    _check_ranges("amsgrad", lr=lr, eps=eps, weight_decay=weight_decay, b1=b1, b2=b2)

    def coefficients(step: Scalar) -> Scalars:
        rate = rate_at(lr, step)
        return *_adam_numbers(rate, step + 1, b1, b2, eps), 1 - rate * weight_decay

    def rule(
        xp: Arithmetic, p: Value, g: Value, slots: Slots, numbers: Scalars, out: ResultPlaces
    ) -> Slots:
        rate, floor, *decays, kept = numbers
        m, v = means_of_adam(xp, g, slots, decays, out)
        peak = xp.maximum(slots[2], v, out[3])
        width = xp.add(xp.sqrt(peak, out[0]), floor, out[0])
        move = xp.multiply(xp.divide(m, width, out[0]), rate, out[0])
        return xp.subtract(xp.multiply(p, kept, None), move, out[0]), m, v, peak

    starts = _zeros, _real_zeros, _real_zeros
    return elementwise("amsgrad", AmsgradState, starts, coefficients, rule)


def adamax(
    lr: Rate, b1: Scalar = 0.9, b2: Scalar = 0.999, eps: Scalar = 1e-8
) -> Optimizer[AdamaxState]:
    """Returns Adam by the maximum norm: ``u <- max(b2 u, |g| + eps)``.

    ``m <- b1 m + (1 - b1) g`` and ``p <- p - lr m / ((1 - b1^t) u)``.

    Args:
        lr: the learning rate: a number, or a function of how many updates were made before.
        b1: the decay of the mean of gradients, from 0 up to 1.
        b2: the decay of the maximum of their sizes, from 0 up to 1.
        eps: a number added to sizes, which keeps the maximum from zero.

    Returns:
        An `Optimizer` with the state `AdamaxState`.

    Raises:
        ValueError: an argument is out of its range.

    D. Kingma and J. Ba, "Adam: a method for stochastic optimization", 2015, algorithm 2.

    >>> import functensor as ft, functensor.numpy as np
    >>> opt = ft.optim.adamax(0.5, eps=0.0)
    >>> x = np.array([1.0])
    >>> opt.update(x, opt.init(x), np.array([-3.0]))[0]
    Array([1.5], dtype=float64, device='cpu')
    """
    _check_ranges("adamax", lr=lr, eps=eps, b1=b1, b2=b2)

    def coefficients(step: Scalar) -> Scalars:
        return rate_at(lr, step) / (1 - b1 ** (step + 1)), b1, 1 - b1, b2, eps

    def rule(
        xp: Arithmetic, p: Value, g: Value, slots: Slots, numbers: Scalars, out: ResultPlaces
    ) -> Slots:
        rate, kept, rest, decay, floor = numbers
        scratch, new_m, new_peak = out
        m = xp.add(xp.multiply(slots[0], kept, new_m), xp.multiply(g, rest, scratch), new_m)
        size = xp.add(xp.sqrt(xp.square_abs(g, scratch), scratch), floor, scratch)
        peak = xp.maximum(xp.multiply(slots[1], decay, new_peak), size, new_peak)
        move = xp.multiply(xp.divide(m, peak, scratch), rate, scratch)
        return xp.subtract(p, move, scratch), m, peak

    return elementwise("adamax", AdamaxState, (_zeros, _real_zeros), coefficients, rule)


def radam(
    lr: Rate, b1: Scalar = 0.9, b2: Scalar = 0.999, eps: Scalar = 1e-8, weight_decay: Scalar = 0.0
) -> Optimizer[AdamState]:
    """Returns Adam whose first steps are rectified: it does not divide before it knows by what.

    Args:
        lr: the learning rate: a number, or a function of how many updates were made before.
        b1: the decay of the mean of gradients, from 0 up to 1.
        b2: the decay of the mean of their squares, from 0 up to 1.
        eps: a number added to the denominator, which keeps it from zero.
        weight_decay: how fast weights decay by themselves, for each unit of the learning rate.

    Returns:
        An `Optimizer` with the state `AdamState`.

    Raises:
        ValueError: an argument is out of its range.

    L. Liu et al., "On the variance of the adaptive learning rate and beyond", 2020, algorithm 2.

    >>> import functensor as ft, functensor.numpy as np
    >>> opt = ft.optim.radam(0.5)
    >>> x = np.array([1.0])
    >>> opt.update(x, opt.init(x), np.array([3.0]))[0]
    Array([-0.5], dtype=float64, device='cpu')
    """
    _check_ranges("radam", lr=lr, eps=eps, weight_decay=weight_decay, b1=b1, b2=b2)
    longest = 2 / (1 - b2) - 1

    def coefficients(step: Scalar) -> Scalars:
        t = step + 1
        rate = rate_at(lr, step)
        unbiased = rate / (1 - b1**t)
        degrees = longest - 2 * t * b2**t / (1 - b2**t)
        known = degrees > FEWEST_DEGREES
        safe = chosen_number(known, degrees, FEWEST_DEGREES + 1.0)
        share = (safe - 4) * (safe - 2) * longest / ((longest - 4) * (longest - 2) * safe)
        divided = chosen_number(known, unbiased * (share * (1 - b2**t)) ** 0.5, 0.0)
        plain = chosen_number(known, 0.0, unbiased)
        return divided, plain, eps, 1 - rate * weight_decay, b1, b2, 1 - b1, 1 - b2

    def rule(
        xp: Arithmetic, p: Value, g: Value, slots: Slots, numbers: Scalars, out: ResultPlaces
    ) -> Slots:
        divided, plain, floor, kept, *decays = numbers
        m, v = means_of_adam(xp, g, slots, decays, out)
        width = xp.add(xp.sqrt(v, out[0]), floor, out[0])
        factor = xp.add(xp.divide(divided, width, out[0]), plain, out[0])
        move = xp.multiply(factor, m, out[0])
        return xp.subtract(xp.multiply(p, kept, None), move, out[0]), m, v

    return elementwise("radam", AdamState, (_zeros, _real_zeros), coefficients, rule)


def chosen_number(condition: Any, x: Scalar, y: Scalar) -> Scalar:
    """Returns the first of two numbers where a condition holds, which may be traced."""
    if isinstance(condition, bool | np.bool_):
        return x if condition else y
    return ops.where(condition, x, y)


def nadam(
    lr: Rate, b1: Scalar = 0.9, b2: Scalar = 0.999, eps: Scalar = 1e-8,
    momentum_decay: Scalar = 4e-3, weight_decay: Scalar = 0.0,
) -> Optimizer[NadamState]:  # fmt: skip
    """Returns Adam with Nesterov's look ahead, whose momentum grows from half of b1.

    Args:
        lr: the learning rate: a number, or a function of how many updates were made before.
        b1: the decay of the mean of gradients, from 0 up to 1.
        b2: the decay of the mean of their squares, from 0 up to 1.
        eps: a number added to the denominator, which keeps it from zero.
        momentum_decay: how fast the momentum grows: in step t it is
            ``b1 (1 - 0.96^(momentum_decay t) / 2)``.
        weight_decay: how fast weights decay by themselves, for each unit of the learning rate.

    Returns:
        An `Optimizer` with the state `NadamState`.

    Raises:
        ValueError: an argument is out of its range.

    T. Dozat, "Incorporating Nesterov momentum into Adam", 2016.

    >>> import functensor as ft, functensor.numpy as np
    >>> opt = ft.optim.nadam(0.1)
    >>> x = np.array([1.0])
    >>> x, state = opt.update(x, opt.init(x), np.array([2.0]))
    >>> np.round(x, 4)
    Array([0.8944], dtype=float64, device='cpu')
    """
    _check_ranges("nadam", lr=lr, eps=eps, weight_decay=weight_decay, b1=b1, b2=b2)

    def momentum_of(t: Scalar) -> Scalar:
        return b1 * (1 - 0.5 * WARM_UP_BASE ** (t * momentum_decay))

    def coefficients(step: Scalar) -> Scalars:
        t = step + 1
        rate = rate_at(lr, step)
        root = (1 - b2**t) ** 0.5
        rate_now, now, following = rate * root, momentum_of(t), momentum_of(t + 1)
        return (
            rate_now * (1 - now), rate_now * following, now, following, eps * root,
            1 - rate * weight_decay, b1, b2, 1 - b1, 1 - b2,
        )  # fmt: skip

    def rule(
        xp: Arithmetic, p: Value, g: Value, slots: Slots, numbers: Scalars, out: ResultPlaces
    ) -> Slots:
        by_g, by_m, now, following, floor, kept, *decays = numbers
        m, v = means_of_adam(xp, g, slots, decays, out)
        product = xp.multiply(slots[2], now, out[3])
        ahead = xp.subtract(1.0, xp.multiply(product, following, None), None)
        of_g = xp.divide(by_g, xp.subtract(1.0, product, None), None)
        of_m = xp.divide(by_m, ahead, None)
        direction = xp.add(xp.multiply(g, of_g, out[0]), xp.multiply(m, of_m, None), out[0])
        width = xp.add(xp.sqrt(v, None), floor, None)
        move = xp.divide(direction, width, out[0])
        return xp.subtract(xp.multiply(p, kept, None), move, out[0]), m, v, product

    starts = _zeros, _real_zeros, real_one
    return elementwise("nadam", NadamState, starts, coefficients, rule)


def real_one(p: Value) -> Value:
    """Returns a one without axes, of the real dtype of a parameter."""
    dtype = shape_dtype(p).dtype
    return np.ones((), finfo(dtype).dtype if dtype.kind == "c" else dtype)
