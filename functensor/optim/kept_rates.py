"""Optimizers whose rates are part of their states: Rprop, and averaged gradient descent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..numpy.zeros_ones import full_like
from ..primitives.core.annotations import Value
from ..primitives.core.annotations import operations as ops
from ..primitives.core.array import Array, Tracer
from ..primitives.core.errors import GradientInputError, describe, failure
from ..primitives.core.shape_dtype import shape_dtype
from .adam_kin import chosen_number
from .algorithms import ResultPlaces, Scalars, Slots, _check_ranges, _zeros
from .optimizer import Arithmetic, Optimizer, Rate, Scalar, _python_scalar, elementwise, rate_at

__all__ = ["AsgdState", "RpropState", "asgd", "real_start", "rprop"]


class RpropState(NamedTuple):
    """The state of `rprop`: besides step and loss, the last gradients, and how long steps are."""

    step: Array
    loss: Array
    gradient: Any
    size: Any


class AsgdState(NamedTuple):
    """The state of `asgd`: besides step and loss, rates, weights of parameters, and averages.

    Every parameter has one rate and one weight, which are float32.
    """

    step: Array
    loss: Array
    rate: Any
    weight: Any
    average: Any


def rprop(
    lr: Rate = 1e-2, down: Scalar = 0.5, up: Scalar = 1.2, smallest: Scalar = 1e-6,
    largest: Scalar = 50.0,
) -> Optimizer[RpropState]:  # fmt: skip
    """Returns Rprop: steps along the signs of gradients, each element with a length of its own.

    The length grows by ``up`` where the gradient keeps its sign, and shrinks by ``down`` where it
    changes; there the element stays, and its gradient counts as zero. It stays too where its
    gradient is not a number. It is for gradients of all examples: those of small batches change
    their signs by chance.

    Args:
        lr: how long the first steps are; a function of how many updates were made before is called
            with 0 alone.
        down: the factor of lengths where gradients change their signs, between 0 and 1.
        up: the factor where they keep them, above 1.
        smallest: no step is shorter.
        largest: no step is longer.

    Returns:
        An `Optimizer` with the state `RpropState`.

    Raises:
        ValueError: an argument is out of its range.
        GradientInputError: a parameter is complex.

    M. Riedmiller and H. Braun, "A direct adaptive method for faster backpropagation learning: the
    RPROP algorithm", 1993.

    >>> import functensor as ft, functensor.numpy as np
    >>> opt = ft.optim.rprop(0.5)
    >>> x = np.array([1.0])
    >>> x, state = opt.update(x, opt.init(x), np.array([300.0]))
    >>> x, state = opt.update(x, state, np.array([0.25]))
    >>> x, state.size
    (Array([-0.1], dtype=float64, device='cpu'), Array([0.6], dtype=float64, device='cpu'))
    """
    _check_ranges("rprop", lr=lr, smallest=smallest, largest=largest)
    for name, value, fits, range_of in (
        ("down", down, 0 < down < 1, "between 0 and 1"), ("up", up, up > 1, "above 1"),
    ):  # fmt: skip
        if isinstance(value, int | float) and not fits:
            raise ValueError(f"rprop: {name} is {value}: it must be {range_of}")

    def first_size(p: Value) -> Value:
        rate = _python_scalar(rate_at(lr, 0))
        if not isinstance(rate, Tracer):
            return full_like(p, rate)
        return ops.astype(ops.add(full_like(p, 0), rate), shape_dtype(p).dtype)

    def coefficients(step: Scalar) -> Scalars:
        return down, up, smallest, largest

    def rule(
        xp: Arithmetic, p: Value, g: Value, slots: Slots, numbers: Scalars, out: ResultPlaces
    ) -> Slots:
        shorter, longer, least, most = numbers
        scratch, _, new_size = out
        agreement = xp.multiply(g, slots[0], scratch)
        turned, kept = xp.less(agreement, 0, None), xp.less(0, agreement, None)
        size = xp.where(kept, xp.multiply(slots[1], longer, new_size), slots[1], None)
        size = xp.where(turned, xp.multiply(slots[1], shorter, new_size), size, None)
        size = xp.minimum(xp.maximum(size, least, new_size), most, new_size)
        gradient = xp.where(turned, 0, g, None)
        # An element whose gradient is not a number stays.
        down = xp.where(xp.less(0, gradient, None), size, 0, None)
        move = xp.where(xp.less(gradient, 0, None), xp.multiply(size, -1, scratch), down, None)
        return xp.subtract(p, move, scratch), gradient, size

    starts = real_start("rprop", _zeros), first_size
    return elementwise("rprop", RpropState, starts, coefficients, rule)


def asgd(
    lr: Rate = 1e-2, decay: Scalar = 1e-4, power: Scalar = 0.75, averaged_from: Scalar = 1e6
) -> Optimizer[AsgdState]:
    """Returns averaged gradient descent: the state has the means of parameters over steps.

    In step t ``p <- (1 - decay r) p - r g`` with the rate ``r = lr / (1 + decay lr t)^power`` of
    the step before, at first ``lr``. The average is the last parameter up to step
    ``averaged_from``, and from there on the mean of all.

    Args:
        lr: the learning rate: a number, or a function of how many updates were made before.
        decay: how fast weights decay, and with ``power`` how fast rates fall.
        power: the power of that fall.
        averaged_from: how many steps the average leaves out.

    Returns:
        An `Optimizer` with the state `AsgdState`.

    Raises:
        ValueError: an argument is out of its range.

    B. Polyak and A. Juditsky, "Acceleration of stochastic approximation by averaging", 1992; rates
    as in L. Bottou, "Stochastic gradient descent tricks", 2012.

    >>> import functensor as ft, functensor.numpy as np
    >>> opt = ft.optim.asgd(0.5, decay=0.0, averaged_from=0)
    >>> x = np.array([4.0])
    >>> state = opt.init(x)
    >>> for _ in range(3):
    ...     x, state = opt.update(x, state, np.array([2.0]))
    >>> x, state.average
    (Array([1.], dtype=float64, device='cpu'), Array([1.5], dtype=float64, device='cpu'))
    """
    _check_ranges("asgd", lr=lr)

    def first_rate(p: Value) -> Value:
        rate = _python_scalar(rate_at(lr, 0))
        return ops.astype(rate, np.float32) if isinstance(rate, Tracer) else np.float32(rate)

    def coefficients(step: Scalar) -> Scalars:
        rate, t = rate_at(lr, step), step + 1
        averaged = t - averaged_from
        weight = 1 / chosen_number(averaged > 1, averaged, 1.0)
        return decay, rate / (1 + decay * rate * t) ** power, weight

    def rule(
        xp: Arithmetic, p: Value, g: Value, slots: Slots, numbers: Scalars, out: ResultPlaces
    ) -> Slots:
        falling, following, weight = numbers
        scratch, new_rate, new_weight, new_average = out
        # Differences of p itself would make NaN of what an infinite gradient left infinite.
        rate = xp.where(xp.less(p, p, None), p, slots[0], None)  # in the parameter's dtype
        kept = xp.subtract(1, xp.multiply(rate, falling, None), None)
        decayed = xp.multiply(p, kept, scratch)
        new = xp.subtract(decayed, xp.multiply(g, slots[0], None), None)
        change = xp.multiply(xp.subtract(new, slots[2], scratch), slots[1], scratch)
        mean = xp.add(slots[2], change, scratch)
        average = xp.where(xp.less(slots[1], 1, None), mean, new, new_average)
        # Both are numbers of the next step.
        rate = xp.add(xp.multiply(slots[0], 0, new_rate), following, new_rate)
        return new, rate, xp.add(xp.multiply(slots[1], 0, new_weight), weight, new_weight), average

    starts = first_rate, lambda p: np.float32(1), _zeros
    return elementwise("asgd", AsgdState, starts, coefficients, rule)


def real_start(name: str, start: Callable[[Value], Value]) -> Callable[[Value], Value]:
    """Returns what a tree of a state holds at first, where no parameter may be complex."""

    def checked(p: Value) -> Value:
        if shape_dtype(p).dtype.kind == "c":
            raise failure(
                GradientInputError,
                f"{name}: a parameter is {describe(p)}; it needs parameters of real floats",
                fix="params = {'real': x.real, 'imag': x.imag}",
            )
        return start(p)

    return checked
