"""The algorithms of optimizers: each has a rule for one parameter, and the numbers of a step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

from ..backends.annotations import DType
from ..numpy.zeros_ones import full_like
from ..primitives.core.annotations import Value
from ..primitives.core.array import Array
from ..primitives.core.shape_dtype import finfo, shape_dtype
from .optimizer import Arithmetic, Optimizer, Rate, Scalar, elementwise, rate_at

__all__ = [
    "AdagradState", "AdamState", "LionState", "MomentumState", "SgdState", "adagrad", "adam",
    "adamw", "lion", "momentum", "sgd",
]  # fmt: skip


Scalars: TypeAlias = Sequence[Scalar]
# The values that an optimizer keeps for one parameter. Rules return the new parameter before them.
Slots: TypeAlias = Sequence[Value]
# Memory for the new parameter and slots; None where a rule makes new arrays.
ResultPlaces: TypeAlias = Sequence[Any]

# The arguments that say how much of a value is left after a step.
DECAYS = ("momentum", "b1", "b2")


class SgdState(NamedTuple):
    """The state of `sgd`: how many updates were made, and the last loss."""

    step: Array
    loss: Array


class MomentumState(NamedTuple):
    """The state of `momentum`: besides step and loss, every parameter's velocity."""

    step: Array
    loss: Array
    velocity: Any


class AdamState(NamedTuple):
    """The state of `adam`: besides step and loss, the running means of gradients and squares."""

    step: Array
    loss: Array
    mean: Any
    square: Any


class LionState(NamedTuple):
    """The state of `lion`: besides step and loss, the running means of gradients."""

    step: Array
    loss: Array
    mean: Any


class AdagradState(NamedTuple):
    """The state of `adagrad`: besides step and loss, every parameter's sum of squares."""

    step: Array
    loss: Array
    total: Any


def sgd(lr: Rate) -> Optimizer[SgdState]:
    """Returns gradient descent: ``p <- p - lr g``.

    Args:
        lr: the learning rate: a number, or a function of how many updates were made before.

    Returns:
        An `Optimizer` with the state `SgdState`.

    Raises:
        ValueError: the learning rate is negative.

    H. Robbins and S. Monro, "A stochastic approximation method", 1951.

    >>> import functensor as ft, functensor.numpy as np
    >>> opt = ft.optim.sgd(lambda step: 1.0 / (1 + step))
    >>> x = np.array([4.0])
    >>> state = opt.init(x)
    >>> x, state = opt.update(x, state, np.array([1.0]))
    >>> x, state = opt.update(x, state, np.array([1.0]))
    >>> x
    Array([2.5], dtype=float64, device='cpu')
    """
    _check_ranges("sgd", lr=lr)

    def coefficients(step: Scalar) -> Scalars:
        return (rate_at(lr, step),)

    def rule(
        xp: Arithmetic, p: Value, g: Value, slots: Slots, numbers: Scalars, out: ResultPlaces
    ) -> Slots:
        (rate,) = numbers
        return (xp.subtract(p, xp.multiply(g, rate, out[0]), out[0]),)

    return elementwise("sgd", SgdState, (), coefficients, rule)


def momentum(
    lr: Rate, momentum: Scalar = 0.9, nesterov: bool = False, dampening: Scalar = 0.0
) -> Optimizer[MomentumState]:
    """Returns gradient descent with momentum: ``v <- momentum v + g``, ``p <- p - lr v``.

    Args:
        lr: the learning rate: a number, or a function of how many updates were made before.
        momentum: how much of the velocity is left after a step, from 0 up to 1.
        nesterov: look ahead: ``p <- p - lr (momentum v + g)``.
        dampening: what part of a gradient does not enter the velocity, but for the first.

    Returns:
        An `Optimizer` with the state `MomentumState`.

    Raises:
        ValueError: an argument is out of its range.

    B. Polyak, "Some methods of speeding up the convergence of iteration methods", 1964; for
    Nesterov's form I. Sutskever et al., "On the importance of initialization and momentum in deep
    learning", 2013.

    >>> import functensor as ft, functensor.numpy as np
    >>> opt = ft.optim.momentum(0.5, momentum=0.5)
    >>> x = np.array([4.0])
    >>> state = opt.init(x)
    >>> x, state = opt.update(x, state, np.array([2.0]))
    >>> opt.update(x, state, np.array([2.0]))[0]
    Array([1.5], dtype=float64, device='cpu')
    """
    _check_ranges("momentum", lr=lr, momentum=momentum, dampening=dampening)
    plain = isinstance(dampening, int | float) and dampening == 0

    def coefficients(step: Scalar) -> Scalars:
        if plain:
            return rate_at(lr, step), momentum
        return rate_at(lr, step), momentum, 1 - dampening * (step > 0)

    def rule(
        xp: Arithmetic, p: Value, g: Value, slots: Slots, numbers: Scalars, out: ResultPlaces
    ) -> Slots:
        rate, kept, *share = numbers
        entering = xp.multiply(g, share[0], out[0]) if share else g
        v = xp.add(xp.multiply(slots[0], kept, out[1]), entering, out[1])
        direction = xp.add(xp.multiply(v, kept, out[0]), g, out[0]) if nesterov else v
        return xp.subtract(p, xp.multiply(direction, rate, out[0]), out[0]), v

    kernel = "nesterov" if nesterov else "momentum"
    kernel = kernel if plain else "dampened"
    return elementwise("momentum", MomentumState, (_zeros,), coefficients, rule, kernel=kernel)


def adam(
    lr: Rate, b1: Scalar = 0.9, b2: Scalar = 0.999, eps: Scalar = 1e-8
) -> Optimizer[AdamState]:
    """Returns Adam: steps of about lr, whatever the scale of a parameter's gradient.

    After t steps ``m <- b1 m + (1 - b1) g``, ``v <- b2 v + (1 - b2) g^2`` and
    ``p <- p - lr m' / (sqrt(v') + eps)`` with ``m' = m / (1 - b1^t)``, ``v' = v / (1 - b2^t)``.

    Args:
        lr: the learning rate: a number, or a function of how many updates were made before.
        b1: the decay of the mean of gradients, from 0 up to 1.
        b2: the decay of the mean of their squares, from 0 up to 1.
        eps: a number added to the denominator, which keeps it from zero.

    Returns:
        An `Optimizer` with the state `AdamState`.

    Raises:
        ValueError: an argument is out of its range.

    D. Kingma and J. Ba, "Adam: a method for stochastic optimization", 2015, algorithm 1.

    >>> import functensor as ft, functensor.numpy as np
    >>> opt = ft.optim.adam(0.1)
    >>> params = [np.array([1.0]), np.array([1.0])]
    >>> params, state = opt.update(params, opt.init(params), [np.array([0.5]), np.array([50.0])])
    >>> np.round(np.concatenate(params), 6)
    Array([0.9, 0.9], dtype=float64, device='cpu')
    """
    _check_ranges("adam", lr=lr, eps=eps, b1=b1, b2=b2)

    def coefficients(step: Scalar) -> Scalars:
        return _adam_numbers(rate_at(lr, step), step + 1, b1, b2, eps)

    return elementwise("adam", AdamState, (_zeros, _real_zeros), coefficients, _adam_rule)


def adamw(
    lr: Rate, b1: Scalar = 0.9, b2: Scalar = 0.999, eps: Scalar = 1e-8, weight_decay: Scalar = 1e-2
) -> Optimizer[AdamState]:
    """Returns Adam with weights that decay by themselves: ``p <- (1 - lr weight_decay) p``.

    After that the step is that of `adam`: the decay is no part of the gradient, so that it is not
    divided by the gradient's scale.

    Args:
        lr: the learning rate: a number, or a function of how many updates were made before.
        b1: the decay of the mean of gradients, from 0 up to 1.
        b2: the decay of the mean of their squares, from 0 up to 1.
        eps: a number added to the denominator, which keeps it from zero.
        weight_decay: how fast weights decay, for each unit of the learning rate.

    Returns:
        An `Optimizer` with the state `AdamState`.

    Raises:
        ValueError: an argument is out of its range.

    I. Loshchilov and F. Hutter, "Decoupled weight decay regularization", 2019, algorithm 2.

    >>> import functensor as ft, functensor.numpy as np
    >>> opt = ft.optim.adamw(0.1, weight_decay=0.5)
    >>> x = np.array([1.0, -2.0])
    >>> np.round(opt.update(x, opt.init(x), np.array([0.5, 0.0]))[0], 6)
    Array([ 0.85, -1.9 ], dtype=float64, device='cpu')
    """
    _check_ranges("adamw", lr=lr, eps=eps, weight_decay=weight_decay, b1=b1, b2=b2)

    def coefficients(step: Scalar) -> Scalars:
        rate = rate_at(lr, step)
        return *_adam_numbers(rate, step + 1, b1, b2, eps), 1 - rate * weight_decay

    def rule(
        xp: Arithmetic, p: Value, g: Value, slots: Slots, numbers: Scalars, out: ResultPlaces
    ) -> Slots:
        *rest, kept = numbers
        step, m, v = _adam_step(xp, g, slots, rest, out)
        # The step occupies the parameter's memory; the product needs memory of its own.
        return xp.subtract(xp.multiply(p, kept, None), step, out[0]), m, v

    return elementwise("adamw", AdamState, (_zeros, _real_zeros), coefficients, rule)


def _adam_numbers(rate: Scalar, t: Scalar, b1: Scalar, b2: Scalar, eps: Scalar) -> Scalars:
    """Returns what the t-th step of Adam needs."""
    # lr m' / (sqrt(v') + eps) = rate m / (sqrt(v) + floor): two passes fewer.
    root = (1 - b2**t) ** 0.5
    return rate * root / (1 - b1**t), eps * root, b1, b2, 1 - b1, 1 - b2


def _adam_step(
    xp: Arithmetic, g: Value, slots: Slots, numbers: Scalars, out: ResultPlaces
) -> Slots:
    """Returns what Adam subtracts from a parameter, and the new means."""
    rate, floor, b1, b2, b1_rest, b2_rest = numbers
    new_p, new_m, new_v = out
    fresh = xp.multiply(g, b1_rest, new_p)
    m = xp.add(xp.multiply(slots[0], b1, new_m), fresh, new_m)
    fresh = xp.multiply(xp.square_abs(g, new_p), b2_rest, new_p)
    v = xp.add(xp.multiply(slots[1], b2, new_v), fresh, new_v)
    ratio = xp.divide(m, xp.add(xp.sqrt(v, new_p), floor, new_p), new_p)
    return xp.multiply(ratio, rate, new_p), m, v


def _adam_rule(
    xp: Arithmetic, p: Value, g: Value, slots: Slots, numbers: Scalars, out: ResultPlaces
) -> Slots:
    step, m, v = _adam_step(xp, g, slots, numbers, out)
    return xp.subtract(p, step, out[0]), m, v


def lion(
    lr: Rate, b1: Scalar = 0.9, b2: Scalar = 0.99, weight_decay: Scalar = 0.0
) -> Optimizer[LionState]:
    """Returns Lion: steps of lr by the sign of a mean of gradients, which is all it takes of it.

    ``p <- (1 - lr weight_decay) p - lr sign(b1 m + (1 - b1) g)``, ``m <- b2 m + (1 - b2) g``. It
    wants a learning rate of a third to a tenth of Adam's.

    Args:
        lr: the learning rate: a number, or a function of how many updates were made before.
        b1: how much of the mean there is in the direction, from 0 up to 1.
        b2: the decay of the mean of gradients, from 0 up to 1.
        weight_decay: how fast weights decay, for each unit of the learning rate.

    Returns:
        An `Optimizer` with the state `LionState`.

    Raises:
        ValueError: an argument is out of its range.

    X. Chen et al., "Symbolic discovery of optimization algorithms", 2023, algorithm 2.

    >>> import functensor as ft, functensor.numpy as np
    >>> opt = ft.optim.lion(0.1)
    >>> x = np.array([1.0, 1.0, 1.0])
    >>> np.round(opt.update(x, opt.init(x), np.array([5.0, -0.001, 0.0]))[0], 6)
    Array([0.9, 1.1, 1. ], dtype=float64, device='cpu')
    """
    _check_ranges("lion", lr=lr, weight_decay=weight_decay, b1=b1, b2=b2)

    def coefficients(step: Scalar) -> Scalars:
        rate = rate_at(lr, step)
        return rate, b1, b2, 1 - b1, 1 - b2, 1 - rate * weight_decay

    def rule(
        xp: Arithmetic, p: Value, g: Value, slots: Slots, numbers: Scalars, out: ResultPlaces
    ) -> Slots:
        rate, b1, b2, b1_rest, b2_rest, kept = numbers
        new_p, new_m = out
        fresh = xp.multiply(g, b1_rest, new_p)
        blend = xp.add(xp.multiply(slots[0], b1, new_m), fresh, new_m)
        direction = xp.multiply(xp.sign(blend, new_m), rate, new_m)
        new = xp.subtract(xp.multiply(p, kept, new_p), direction, new_p)
        # The gradient's share needs memory of its own: both others are taken.
        fresh = xp.multiply(g, b2_rest, None)
        return new, xp.add(xp.multiply(slots[0], b2, new_m), fresh, new_m)

    return elementwise("lion", LionState, (_zeros,), coefficients, rule)


def adagrad(
    lr: Rate, initial_accumulator_value: float = 0.0, eps: Scalar = 1e-10
) -> Optimizer[AdagradState]:
    """Returns Adagrad: ``a <- a + g^2``, ``p <- p - lr g / (sqrt(a) + eps)``.

    Args:
        lr: the learning rate: a number, or a function of how many updates were made before.
        initial_accumulator_value: what ``a`` is at first, not negative.
        eps: a number added to the denominator, which keeps it from zero.

    Returns:
        An `Optimizer` with the state `AdagradState`.

    Raises:
        ValueError: an argument is out of its range.

    J. Duchi, E. Hazan and Y. Singer, "Adaptive subgradient methods for online learning and
    stochastic optimization", 2011.

    >>> import functensor as ft, functensor.numpy as np
    >>> opt = ft.optim.adagrad(1.0)
    >>> x = np.array([1.0])
    >>> x, state = opt.update(x, opt.init(x), np.array([3.0]))
    >>> x, state = opt.update(x, state, np.array([4.0]))
    >>> np.round(x, 6), state.total
    (Array([-0.8], dtype=float64, device='cpu'), Array([25.], dtype=float64, device='cpu'))
    """
    _check_ranges("adagrad", lr=lr, initial_accumulator_value=initial_accumulator_value, eps=eps)

    def start(p: Value) -> Value:
        return full_like(p, initial_accumulator_value, _real_dtype(p))

    def coefficients(step: Scalar) -> Scalars:
        return rate_at(lr, step), eps

    def rule(
        xp: Arithmetic, p: Value, g: Value, slots: Slots, numbers: Scalars, out: ResultPlaces
    ) -> Slots:
        rate, floor = numbers
        a = xp.add(slots[0], xp.square_abs(g, out[0]), out[1])
        ratio = xp.divide(g, xp.add(xp.sqrt(a, out[0]), floor, out[0]), out[0])
        return xp.subtract(p, xp.multiply(ratio, rate, out[0]), out[0]), a

    return elementwise("adagrad", AdagradState, (start,), coefficients, rule)


def _zeros(p: Value) -> Value:
    """Returns zeros of a parameter's shape and dtype, where it is."""
    return full_like(p, 0)


def _real_zeros(p: Value) -> Value:
    """Returns zeros of a parameter's shape, real ones for a complex parameter."""
    return full_like(p, 0, _real_dtype(p))


def _real_dtype(p: Value) -> DType:
    """Returns the dtype of a parameter's absolute value."""
    dtype = shape_dtype(p).dtype
    return finfo(dtype).dtype if dtype.kind == "c" else dtype


def _check_ranges(name: str, **values: Rate) -> None:
    """Checks the arguments of an optimizer that are given as Python's numbers."""
    for argument, value in values.items():
        below = 1 if argument in DECAYS else float("inf")
        if isinstance(value, int | float) and not 0 <= value < below:
            limit = f" and below {below}" if argument in DECAYS else ""
            raise ValueError(f"{name}: {argument} is {value}: it must not be negative{limit}")
