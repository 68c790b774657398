"""Schedules: learning rates as functions of how many updates were made before."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np

from ..primitives.core.annotations import operations as ops
from .optimizer import Rate, Scalar, rate_at

__all__ = [
    "constant_rate", "cosine_decay", "exponential_decay", "one_cycle", "piecewise_rate",
    "polynomial_decay", "step_decay", "warm_up", "warm_up_cosine",
]  # fmt: skip

# A function of how many updates were made before.
Schedule: TypeAlias = Callable[[Scalar], Scalar]
# How a schedule goes from one value to the next.
WAYS_BETWEEN = ("constant", "linear", "cosine")


def constant_rate(rate: Scalar) -> Schedule:
    """Returns a schedule that is always the same.

    Args:
        rate: the learning rate.

    Returns:
        A function of the step.

    >>> import functensor as ft
    >>> ft.optim.constant_rate(0.1)(7)
    0.1
    """
    return lambda step: rate


def step_decay(rate: Scalar, every: int, factor: Scalar = 0.1) -> Schedule:
    """Returns a schedule that is multiplied by a factor after every so many steps.

    Args:
        rate: the learning rate at first.
        every: how many steps there are between two changes.
        factor: what it is multiplied by.

    Returns:
        A function of the step.

    Raises:
        ValueError: ``every`` is not positive.

    >>> import functensor as ft
    >>> rate = ft.optim.step_decay(1.0, every=10, factor=0.5)
    >>> rate(9), rate(10), rate(25)
    (1.0, 0.5, 0.25)
    """
    return exponential_decay(rate, every, factor, staircase=True)


def exponential_decay(
    rate: Scalar,
    steps: int,
    factor: Scalar,
    *,
    begin: int = 0,
    staircase: bool = False,
    end: Scalar | None = None,
) -> Schedule:
    """Returns a schedule that falls by the same factor over equal times.

    Args:
        rate: the learning rate at first.
        steps: in how many steps it is multiplied by ``factor``.
        factor: what it is multiplied by.
        begin: how many steps it stays at first.
        staircase: whether it only changes at multiples of ``steps``.
        end: a bound that it does not cross.

    Returns:
        A function of the step.

    Raises:
        ValueError: ``steps`` is not positive.

    >>> import functensor as ft
    >>> rate = ft.optim.exponential_decay(1.0, 10, 0.25)
    >>> rate(0), rate(5), rate(10)
    (1.0, 0.5, 0.25)
    """
    _check_steps("exponential_decay", steps=steps)

    def schedule(step: Scalar) -> Scalar:
        times = no_less(step - begin, 0) / steps
        if staircase:
            times = math.floor(times) if is_number(times) else ops.floor(times)
        now: Scalar = rate * factor**times
        if end is None:
            return now
        # The end is below the beginning where the rate falls.
        return chosen(factor < 1, no_less(now, end), no_greater(now, end))

    return schedule


def polynomial_decay(
    rate: Scalar, end: Scalar, steps: int, power: Scalar = 1.0, *, begin: int = 0
) -> Schedule:
    """Returns a schedule that goes from one rate to another along a power.

    After t of ``steps`` steps it is ``(rate - end) (1 - t / steps)^power + end``.

    Args:
        rate: the learning rate at first.
        end: the learning rate from the end on.
        steps: how many steps it takes.
        power: the exponent; 1 makes a straight line.
        begin: how many steps it stays at first.

    Returns:
        A function of the step.

    Raises:
        ValueError: ``steps`` is not positive.

    >>> import functensor as ft
    >>> rate = ft.optim.polynomial_decay(1.0, 0.0, 10, power=2.0)
    >>> rate(0), rate(5), rate(12)
    (1.0, 0.25, 0.0)
    """
    _check_steps("polynomial_decay", steps=steps)

    def schedule(step: Scalar) -> Scalar:
        left = 1 - between(step - begin, steps) / steps
        now: Scalar = (rate - end) * left**power + end
        return now

    return schedule


def cosine_decay(
    rate: Scalar, steps: int, end_factor: Scalar = 0.0, power: Scalar = 1.0
) -> Schedule:
    """Returns a schedule that falls along half a wave of the cosine.

    Args:
        rate: the learning rate at first.
        steps: how many steps it takes.
        end_factor: what part of the rate is left at the end.
        power: the exponent of the wave.

    Returns:
        A function of the step.

    Raises:
        ValueError: ``steps`` is not positive.

    I. Loshchilov and F. Hutter, "SGDR: stochastic gradient descent with warm restarts", 2017,
    equation 5.

    >>> import functensor as ft
    >>> rate = ft.optim.cosine_decay(1.0, 10)
    >>> [round(rate(step), 6) for step in (0, 5, 10)]
    [1.0, 0.5, 0.0]
    """
    _check_steps("cosine_decay", steps=steps)

    def schedule(step: Scalar) -> Scalar:
        wave = half_wave(between(step, steps) / steps)
        now: Scalar = rate * ((1 - end_factor) * wave**power + end_factor)
        return now

    return schedule


def warm_up(steps: int, then: Rate, start: Scalar = 0.0) -> Schedule:
    """Returns a schedule that rises along a straight line to another one, and goes on with that.

    Args:
        steps: how many steps the rise takes.
        then: the rate after it: a number, or a schedule, whose steps are counted from there.
        start: the learning rate at first.

    Returns:
        A function of the step.

    Raises:
        ValueError: ``steps`` is not positive.

    >>> import functensor as ft
    >>> rate = ft.optim.warm_up(4, ft.optim.step_decay(1.0, every=10))
    >>> rate(0), rate(1), rate(4), rate(14)
    (0.0, 0.25, 1.0, 0.1)
    """
    _check_steps("warm_up", steps=steps)

    def schedule(step: Scalar) -> Scalar:
        top = rate_at(then, 0)
        rise = start + (top - start) * (between(step, steps) / steps)
        return chosen(step < steps, rise, rate_at(then, no_less(step - steps, 0)))

    return schedule


def warm_up_cosine(
    peak: Scalar,
    warm_up_steps: int,
    steps: int,
    start: Scalar = 0.0,
    end_factor: Scalar = 0.0,
    power: Scalar = 1.0,
) -> Schedule:
    """Returns a schedule that rises along a straight line and falls along a cosine.

    Args:
        peak: the highest learning rate.
        warm_up_steps: how many steps the rise takes.
        steps: how many steps both take together.
        start: the learning rate at first.
        end_factor: what part of the peak is left at the end.
        power: the exponent of the wave.

    Returns:
        A function of the step.

    Raises:
        ValueError: a count of steps is not positive, or the fall has none.

    >>> import functensor as ft
    >>> rate = ft.optim.warm_up_cosine(1.0, 5, 15)
    >>> [round(rate(step), 6) for step in (0, 5, 10, 15)]
    [0.0, 1.0, 0.5, 0.0]
    """
    _check_steps("warm_up_cosine", warm_up_steps=warm_up_steps, falling=steps - warm_up_steps)
    fall = cosine_decay(peak, steps - warm_up_steps, end_factor, power)
    return warm_up(warm_up_steps, fall, start)


def one_cycle(
    peak: Scalar,
    steps: int,
    rise: float = 0.3,
    start_divisor: float = 25.0,
    end_divisor: float = 1e4,
    *,
    way: str = "cosine",
) -> Schedule:
    """Returns a schedule that rises to a peak and falls to far below its beginning.

    Args:
        peak: the highest learning rate.
        steps: how many steps it takes.
        rise: what part of the steps the rise takes.
        start_divisor: the peak divided by the rate at first.
        end_divisor: the rate at first divided by that at the end.
        way: ``"cosine"`` or ``"linear"``.

    Returns:
        A function of the step.

    Raises:
        ValueError: ``steps`` is not positive, no whole step is left to rise or to fall, or the way
            is unknown.

    L. Smith and N. Topin, "Super-convergence: very fast training of neural networks using large
    learning rates", 2018.

    >>> import functensor as ft
    >>> rate = ft.optim.one_cycle(1.0, 10)
    >>> [round(rate(step), 6) for step in (0, 3, 10)]
    [0.04, 1.0, 4e-06]
    """
    rising = int(rise * steps)
    _check_steps("one_cycle", steps=steps, rise=rising, falling=steps - rising)
    factors = {rising: start_divisor, steps: 1 / (start_divisor * end_divisor)}
    return piecewise_rate(peak / start_divisor, factors, way=way)


def piecewise_rate(
    rate: Scalar, factors: Mapping[int, Scalar], *, way: str = "constant"
) -> Schedule:
    """Returns a schedule that is multiplied by factors at some steps.

    Args:
        rate: the learning rate at first.
        factors: what it is multiplied by, by the steps at which it is.
        way: ``"constant"`` for jumps; ``"linear"`` or ``"cosine"`` to go from one value to the
            next between the steps.

    Returns:
        A function of the step.

    Raises:
        ValueError: a step is not positive, or the way is unknown.

    >>> import functensor as ft
    >>> rate = ft.optim.piecewise_rate(1.0, {4: 0.5, 8: 0.5})
    >>> rate(3), rate(4), rate(8)
    (1.0, 0.5, 0.25)
    """
    if way not in WAYS_BETWEEN:
        raise ValueError(f"piecewise_rate: way is {way!r}; it is one of {', '.join(WAYS_BETWEEN)}")
    for at in factors:
        _check_steps("piecewise_rate", factors=at)
    places = sorted(factors)

    def schedule(step: Scalar) -> Scalar:
        now, before = rate, 0
        value: Scalar = rate
        for place in places:
            following = now * factors[place]
            if way != "constant":
                share = between(step - before, place - before) / (place - before)
                share = 1 - half_wave(share) if way == "cosine" else share
                value = chosen(step >= before, now + (following - now) * share, value)
            else:
                value = chosen(step >= place, following, value)
            now, before = following, place
        return value

    return schedule


def is_number(x: object) -> bool:
    """Says whether a value is a number of Python's or NumPy's, not an array."""
    return isinstance(x, bool | int | float | np.generic)


def chosen(condition: Any, x: Scalar, y: Scalar) -> Scalar:
    """Returns one of two numbers, by a condition that may be traced."""
    if is_number(condition):
        return x if condition else y
    out: Scalar = ops.where(condition, x, y)
    return out


def no_less(x: Scalar, low: Scalar) -> Scalar:
    """Returns the greater of two numbers."""
    return chosen(x < low, low, x)


def no_greater(x: Scalar, high: Scalar) -> Scalar:
    """Returns the smaller of two numbers."""
    return chosen(x > high, high, x)


def between(step: Scalar, steps: int) -> Scalar:
    """Returns a step that is not before the beginning and not after the end."""
    return no_greater(no_less(step, 0), steps)


def half_wave(share: Scalar) -> Scalar:
    """Returns half a wave of the cosine, from 1 to 0, at a share of it."""
    return 0.5 * (1 + (math.cos(math.pi * share) if is_number(share) else ops.cos(math.pi * share)))


def _check_steps(name: str, **counts: int) -> None:
    for argument, count in counts.items():
        if count <= 0:
            raise ValueError(f"{name}: {argument} is {count}, it must be positive")
