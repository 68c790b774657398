"""Optimizers that change tensors in place; the pure optimizers compute for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np

from ..primitives.core.array import Array
from ..primitives.core.buffers import all_wrapped, wrap
from ..primitives.core.errors import GradientInputError, MissingGradientError, failure
from ..primitives.core.shape_dtype import INEXACT, shape_dtype
from ..tensors import Tensor, gradient_of, missing_reason
from ..tensors.in_place import take_buffer
from ..tensors.tape import turned
from ..tree import containers as tree
from .algorithms import adagrad, adam, adamw, lion, momentum, sgd
from .optimizer import Optimizer, Rate, rate_at

__all__ = [
    "SGD", "Adagrad", "Adam", "AdamW", "Lion", "MomentumSGD", "StatefulOptimizer",
    "updated_columns",
]  # fmt: skip


class StatefulOptimizer:
    """Updates tensors by the gradients that ``backward`` has left in them.

    Args:
        params: tensors that require grad.
        lr: the learning rate: a number, or a function of how many updates were made before.
        make: makes the pure optimizer of a learning rate.

    Attributes:
        params: the tensors.
        lr: the learning rate; may be set between steps.

    Raises:
        GradientInputError: there are no tensors, or one cannot be updated.
    """

    def __init__(
        self, params: Iterable[Tensor], lr: Rate, make: Callable[[Rate], Optimizer[Any]]
    ) -> None:
        self.params = [params] if isinstance(params, Tensor) else list(params)
        if not self.params:
            raise failure(
                GradientInputError,
                f"{type(self).__name__} was given no parameters",
                fix="pass a list of tensors (of an iterator that was not used before)",
            )
        for i, p in enumerate(self.params):
            if not isinstance(p, Tensor) or not p.is_leaf or p.dtype.kind not in INEXACT:
                what = p.name() if isinstance(p, Tensor) else f"of type {type(p).__name__}"
                raise failure(
                    GradientInputError,
                    f"parameter {i} of {type(self).__name__} is {what}: it must be a tensor "
                    "of floats that was not computed from others",
                    fix="Tensor(data, requires_grad=True)",
                )
        if len(set(self.params)) < len(self.params):
            raise ValueError(f"{type(self).__name__} was given a parameter twice")
        self.lr = lr
        make(lr)  # checks its range
        self._make = make
        self._pure = make(lambda step: rate_at(self.lr, step))
        # One state for each, so that a parameter without a gradient is left out altogether.
        self._states = [self._pure.init(wrap(p._data)) for p in self.params]

    def __getstate__(self) -> dict[str, Any]:
        # The pure optimizer reads the rate of this object; a copy has its own.
        return {name: value for name, value in vars(self).items() if name != "_pure"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._pure = self._make(lambda step: rate_at(self.lr, step))

    def step(self) -> None:
        """Updates every tensor that has a gradient.

        Raises:
            MissingGradientError: none has; the message says why for each.
        """
        # All parameters that were updated equally often go together, as one list.
        groups: dict[int, list[tuple[int, Any]]] = {}
        step, number = None, -1
        for i, p in enumerate(self.params):
            gradient = gradient_of(p)
            if gradient is not None:
                # Those that were updated together have one and the same count.
                if self._states[i].step is not step:
                    step = self._states[i].step
                    number = int(step)
                groups.setdefault(number, []).append((i, wrap(turned(gradient._data))))
        for members in groups.values():
            self._update([i for i, _ in members], [g for _, g in members])
        if not groups:
            reasons = [f"    {p.name()}: {missing_reason(p)}" for p in self.params]
            raise failure(
                MissingGradientError,
                f"{type(self).__name__}.step(): no parameter has a gradient\n"
                + "\n".join(reasons),
                fix="loss.backward() before step(), and zero_grad() after it",
            )

    def _update(self, places: list[int], gradients: list[Any]) -> None:
        """Updates some of the tensors, whose states are at the same step."""
        states = [self._states[i] for i in places]
        make = type(states[0])
        if not all(isinstance(slot, Array) for slot in states[0][2:]):
            # A state that holds another one is of one parameter, and cannot be put together.
            for i, state, gradient in zip(places, states, gradients, strict=True):
                value = wrap(self.params[i]._data)
                value, self._states[i] = self._pure.update(value, state, gradient)
                self.params[i].take_value(value)
            return
        slots = [[x._data for x in column] for column in zip(*[s[2:] for s in states])]
        values = [self.params[i]._data for i in places]
        held = [x._data for x in gradients]
        step = int(states[0].step)
        after = updated_columns(self._pure, states[0], step, [values, held, *slots])
        following = wrap(np.int64(step + 1))
        for i, state, value, *own in zip(places, states, *after, strict=True):
            take_buffer(self.params[i], value)
            self._states[i] = make(following, state.loss, *all_wrapped(own))

    def zero_grad(self) -> None:
        """Clears the gradients of all tensors."""
        for p in self.params:
            p.grad = None

    def state_dict(self) -> dict[str, Any]:
        """Returns the learning rate and, for every tensor, its state as a named tuple."""
        return {"lr": self.lr, "states": list(self._states)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on from what `state_dict` returned, also where a file made dicts of named tuples.

        Raises:
            ValueError: it belongs to other parameters or another optimizer.
        """
        states = list(state["states"])
        if len(states) != len(self._states):
            raise ValueError(
                f"the state is one of {len(states)} parameters, not of {len(self._states)}"
            )
        for i, (new, old) in enumerate(zip(states, self._states, strict=True)):
            if isinstance(new, dict) and tuple(new) == old._fields:
                states[i] = new = type(old)(**new)
            found, wanted = (tree.map(shape_dtype, s) for s in (new, old))
            if type(new) is not type(old) or found != wanted:
                raise ValueError(
                    f"the state of parameter {i} is {found}, which does not fit {wanted}"
                )
        self.lr = state["lr"]
        self._states = states

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {len(self.params)} parameters, lr={self.lr}>"


def updated_columns(
    pure: Optimizer[Any], like: Any, step: int, columns: Sequence[list[Any]]
) -> Sequence[list[Any]]:
    """Returns columns of buffers after one update, by a plan if there is one by now.

    Args:
        pure: a pure optimizer.
        like: one of its states.
        step: how many updates were made before.
        columns: lists of buffers: of parameters, of their gradients, and for each of the slots.

    Returns:
        The columns of new parameters and slots.
    """
    planned = pure._planned
    found: Any = planned and planned(columns, step)
    if found:
        return found  # type: ignore[no-any-return]
    params, gradients, *slots = map(all_wrapped, columns)
    state = type(like)(wrap(np.int64(step)), like.loss, *slots)
    params, after = pure.update(params, state, gradients)
    return [[x._data for x in column] for column in (params, *after[2:])]


class SGD(StatefulOptimizer):
    """Gradient descent on tensors: see `sgd`.

    Args:
        params: tensors that require grad.
        lr: the learning rate: a number, or a function of how many updates were made before.

    >>> import functensor as ft
    >>> w = ft.Tensor([4.0], requires_grad=True)
    >>> opt = ft.optim.SGD([w], lr=0.25)
    >>> (w * w).sum().backward()
    >>> opt.step()
    >>> opt.zero_grad()
    >>> w
    Tensor([2.], dtype=float32, requires_grad=True)
    """

    def __init__(self, params: Iterable[Tensor], lr: Rate) -> None:
        super().__init__(params, lr, sgd)


class MomentumSGD(StatefulOptimizer):
    """Gradient descent with momentum on tensors: see `momentum`.

    Args:
        params: tensors that require grad.
        lr: the learning rate: a number, or a function of how many updates were made before.
        momentum: how much of the velocity is left after a step.
        nesterov: look ahead.
    """

    def __init__(
        self, params: Iterable[Tensor], lr: Rate, momentum: float = 0.9, nesterov: bool = False
    ) -> None:
        super().__init__(params, lr, partial(_momentum, momentum=momentum, nesterov=nesterov))


_momentum = momentum


class Adam(StatefulOptimizer):
    """Adam on tensors: see `adam`.

    Args:
        params: tensors that require grad.
        lr: the learning rate: a number, or a function of how many updates were made before.
        b1, b2: the decays of the means of gradients and of their squares.
        eps: what keeps the denominator from zero.
    """

    def __init__(
        self,
        params: Iterable[Tensor],
        lr: Rate = 1e-3,
        b1: float = 0.9,
        b2: float = 0.999,
        eps: float = 1e-8,
    ) -> None:
        super().__init__(params, lr, partial(adam, b1=b1, b2=b2, eps=eps))


class AdamW(StatefulOptimizer):
    """Adam with decaying weights on tensors: see `adamw`.

    Args:
        params: tensors that require grad.
        lr: the learning rate: a number, or a function of how many updates were made before.
        b1, b2: the decays of the means of gradients and of their squares.
        eps: what keeps the denominator from zero.
        weight_decay: how fast weights decay, for each unit of the learning rate.
    """

    def __init__(
        self,
        params: Iterable[Tensor],
        lr: Rate = 1e-3,
        b1: float = 0.9,
        b2: float = 0.999,
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
    ) -> None:
        make = partial(adamw, b1=b1, b2=b2, eps=eps, weight_decay=weight_decay)
        super().__init__(params, lr, make)


class Lion(StatefulOptimizer):
    """Lion on tensors: see `lion`.

    Args:
        params: tensors that require grad.
        lr: the learning rate: a number, or a function of how many updates were made before.
        b1: how much of the mean of gradients there is in the direction.
        b2: the decay of that mean.
        weight_decay: how fast weights decay, for each unit of the learning rate.
    """

    def __init__(
        self,
        params: Iterable[Tensor],
        lr: Rate = 1e-4,
        b1: float = 0.9,
        b2: float = 0.99,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(params, lr, partial(lion, b1=b1, b2=b2, weight_decay=weight_decay))


class Adagrad(StatefulOptimizer):
    """Adagrad on tensors: see `adagrad`.

    Args:
        params: tensors that require grad.
        lr: the learning rate: a number, or a function of how many updates were made before.
        initial_accumulator_value: what the sum of squares is at first.
        eps: what keeps the denominator from zero.
    """

    def __init__(
        self,
        params: Iterable[Tensor],
        lr: Rate = 1e-2,
        initial_accumulator_value: float = 0.0,
        eps: float = 1e-10,
    ) -> None:
        start = initial_accumulator_value
        make = partial(adagrad, initial_accumulator_value=start, eps=eps)
        super().__init__(params, lr, make)
