"""Optimizers around another one, whose state they keep: every so often, averaged, or where finite.

A state of theirs counts calls of ``update``; ``state.inner.step`` counts those of the optimizer
within.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..control import cond
from ..numpy.zeros_ones import full_like
from ..primitives.core.annotations import Value
from ..primitives.core.annotations import operations as ops
from ..primitives.core.array import Array, Tracer
from ..primitives.core.buffers import wrap
from ..primitives.core.shape_dtype import result_type, shape_dtype
from ..tree import containers as tree
from .argument_order import checking_order
from .optimizer import (
    Optimizer,
    Scalar,
    Tree,
    _column,
    _python_scalar,
    is_updated,
    loss_to_come,
)

__all__ = [
    "AccumulatedState", "AveragedState", "FiniteState", "LookaheadState", "accumulated",
    "apply_if_finite", "lookahead", "with_average",
]  # fmt: skip


class AccumulatedState(NamedTuple):
    """The state of `accumulated`: besides step and loss, that within, and sums of gradients."""

    step: Array
    loss: Array
    inner: Any
    total: Any


class LookaheadState(NamedTuple):
    """The state of `lookahead`: besides step and loss, that within, and the slow parameters."""

    step: Array
    loss: Array
    inner: Any
    slow: Any


class AveragedState(NamedTuple):
    """The state of `with_average`: besides step and loss, that within, and mean parameters."""

    step: Array
    loss: Array
    inner: Any
    average: Any


class FiniteState(NamedTuple):
    """The state of `apply_if_finite`: besides step and loss, that within, and two counts.

    ``skipped`` is how many updates were left out in succession up to now, ``skipped_ever`` how
    many altogether.
    """

    step: Array
    loss: Array
    inner: Any
    skipped: Array
    skipped_ever: Array


def accumulated(optimizer: Optimizer[Any], every: int) -> Optimizer[AccumulatedState]:
    """Returns an optimizer that makes one update of the mean of several gradients.

    Sums of half-precision gradients are kept in single precision.

    Args:
        optimizer: a pure optimizer.
        every: how many gradients make one update.

    Returns:
        An `Optimizer` with the state `AccumulatedState`.

    Raises:
        ValueError: ``every`` is not positive.

    >>> import functensor as ft, functensor.numpy as np
    >>> opt = ft.optim.accumulated(ft.optim.sgd(1.0), every=2)
    >>> x = np.array([8.0])
    >>> x, state = opt.update(x, opt.init(x), np.array([1.0]))
    >>> float(x[0]), float(opt.update(x, state, np.array([3.0]))[0][0])
    (8.0, 6.0)
    """
    _check_every("accumulated", every)

    def init(params: object) -> AccumulatedState:
        inner = optimizer.init(params)
        return AccumulatedState(
            wrap(np.int64(0)), unknown_loss(inner.loss), inner, tree.map(wide_zeros, params)
        )

    def update(params: Tree, state: AccumulatedState, grads: Tree) -> tuple[Tree, AccumulatedState]:
        _column("accumulated", params, tree.structure(params), grads)
        total = tree.map(_with_gradient, state.total, grads)

        def at_the_end(params: Any, inner: Any, total: Any) -> Any:
            mean = tree.map(lambda x: ops.multiply(x, 1 / every) if is_updated(x) else x, total)
            after, inner = optimizer.update(params, inner, mean)
            return after, inner, tree.map(lambda x: full_like(x, 0), total)

        def between(params: Any, inner: Any, total: Any) -> Any:
            return params, inner, total

        step = _python_scalar(state.step)
        full = (step + 1) % every == 0
        params, inner, total = either(full, at_the_end, between, params, state.inner, total)
        return params, AccumulatedState(counted(state.step), state.loss, inner, total)

    checked = checking_order("accumulated", init, update, AccumulatedState)
    return Optimizer("accumulated", *checked, reach=optimizer.reach)


def lookahead(
    optimizer: Optimizer[Any], every: int = 5, rate: Scalar = 0.5
) -> Optimizer[LookaheadState]:
    """Returns an optimizer that goes back a part of the way after every so many updates.

    Then ``slow <- slow + rate (p - slow)`` and ``p <- slow``.

    Args:
        optimizer: a pure optimizer.
        every: how many updates there are between two of the slow parameters.
        rate: what part of the way the slow parameters go.

    Returns:
        An `Optimizer` with the state `LookaheadState`.

    Raises:
        ValueError: ``every`` is not positive.

    M. Zhang et al., "Lookahead optimizer: k steps forward, 1 step back", 2019, algorithm 1.

    >>> import functensor as ft, functensor.numpy as np
    >>> opt = ft.optim.lookahead(ft.optim.sgd(1.0), every=2)
    >>> x = np.array([8.0])
    >>> x, state = opt.update(x, opt.init(x), np.array([1.0]))
    >>> float(x[0]), float(opt.update(x, state, np.array([3.0]))[0][0])
    (7.0, 6.0)
    """
    _check_every("lookahead", every)

    def init(params: object) -> LookaheadState:
        inner = optimizer.init(params)
        return LookaheadState(
            wrap(np.int64(0)), unknown_loss(inner.loss), inner, tree.map(ops.copy, params)
        )

    def update(params: Tree, state: LookaheadState, grads: Tree) -> tuple[Tree, LookaheadState]:
        params, inner = optimizer.update(params, state.inner, grads)

        def back(params: Any, slow: Any) -> Any:
            slow = tree.map(lambda x, p: toward(x, p, rate), slow, params)
            # Two trees of memory of their own, so that both may be donated.
            return tree.map(ops.copy, slow), slow

        full = (_python_scalar(state.step) + 1) % every == 0
        params, slow = either(full, back, lambda params, slow: (params, slow), params, state.slow)
        return params, LookaheadState(counted(state.step), state.loss, inner, slow)

    checked = checking_order("lookahead", init, update, LookaheadState)
    return Optimizer("lookahead", *checked, reach=optimizer.reach)


def with_average(optimizer: Optimizer[Any], decay: Scalar = 0.999) -> Optimizer[AveragedState]:
    """Returns an optimizer that keeps an exponential moving average of the parameters too.

    ``average <- decay average + (1 - decay) p``, beginning with the first parameters. It is
    ``state.average``; the updates are not changed by it.

    Args:
        optimizer: a pure optimizer.
        decay: how much of the average is left after an update, from 0 up to 1.

    Returns:
        An `Optimizer` with the state `AveragedState`.

    Raises:
        ValueError: the decay is out of its range.

    B. Polyak and A. Juditsky, "Acceleration of stochastic approximation by averaging", 1992.

    >>> import functensor as ft, functensor.numpy as np
    >>> opt = ft.optim.with_average(ft.optim.sgd(1.0), decay=0.5)
    >>> x = np.array([8.0])
    >>> x, state = opt.update(x, opt.init(x), np.array([2.0]))
    >>> float(x[0]), float(state.average[0])
    (6.0, 7.0)
    """
    if isinstance(decay, int | float) and not 0 <= decay < 1:
        raise ValueError(f"with_average: decay is {decay}: it must not be negative and below 1")

    def init(params: object) -> AveragedState:
        inner = optimizer.init(params)
        return AveragedState(
            wrap(np.int64(0)), unknown_loss(inner.loss), inner, tree.map(ops.copy, params)
        )

    def update(params: Tree, state: AveragedState, grads: Tree) -> tuple[Tree, AveragedState]:
        params, inner = optimizer.update(params, state.inner, grads)
        average = tree.map(lambda x, p: toward(x, p, 1 - decay), state.average, params)
        return params, AveragedState(counted(state.step), state.loss, inner, average)

    checked = checking_order("with_average", init, update, AveragedState)
    return Optimizer("with_average", *checked, reach=optimizer.reach)


def apply_if_finite(
    optimizer: Optimizer[Any], max_skipped: int | None = None
) -> Optimizer[FiniteState]:
    """Returns an optimizer that leaves out an update where a gradient is not finite.

    Args:
        optimizer: a pure optimizer.
        max_skipped: how many updates in succession are left out; the next one is made whatever
            the gradients are. None stands for all.

    Returns:
        An `Optimizer` with the state `FiniteState`.

    Raises:
        ValueError: ``max_skipped`` is negative.

    >>> import functensor as ft, functensor.numpy as np
    >>> opt = ft.optim.apply_if_finite(ft.optim.sgd(1.0))
    >>> x = np.array([8.0])
    >>> x, state = opt.update(x, opt.init(x), np.array([np.nan]))
    >>> x, int(state.step), int(state.inner.step), int(state.skipped)
    (Array([8.], dtype=float64, device='cpu'), 1, 0, 1)
    """
    if max_skipped is not None and max_skipped < 0:
        raise ValueError(f"apply_if_finite: max_skipped is {max_skipped}, it is not negative")

    def init(params: object) -> FiniteState:
        inner = optimizer.init(params)
        floats = [x for x in tree.leaves(params) if is_updated(x)]
        # The counts of what is left out are where gradients are, so that no update waits for a GPU.
        zeros = [wrap(np.int64(0)) for _ in range(3)]
        if floats:
            zeros[1:] = [full_like(floats[0], 0, np.int64, shape=()) for _ in range(2)]
        return FiniteState(zeros[0], unknown_loss(inner.loss), inner, zeros[1], zeros[2])

    def update(params: Tree, state: FiniteState, grads: Tree) -> tuple[Tree, FiniteState]:
        checks = [ops.all(ops.isfinite(g)) for g in tree.leaves(grads) if is_updated(g)]
        finite: Array = checks[0] if checks else ops.equal(state.skipped, state.skipped)
        for check in checks[1:]:
            finite = ops.logical_and(finite, check)
        bad = ops.astype(ops.logical_not(finite), np.int64)
        skipped = ops.multiply(ops.add(state.skipped, 1), bad)
        made = finite
        if max_skipped is not None:
            made = ops.logical_or(finite, ops.greater(skipped, max_skipped))

        def left_out(params: Any, inner: Any, grads: Any) -> Any:
            return params, inner

        params, inner = either(made, optimizer.update, left_out, params, state.inner, grads)
        ever = ops.add(state.skipped_ever, bad)
        return params, FiniteState(counted(state.step), state.loss, inner, skipped, ever)

    checked = checking_order("apply_if_finite", init, update, FiniteState)
    return Optimizer("apply_if_finite", *checked, reach="tree")


def either(condition: Any, yes: Any, no: Any, *operands: Any) -> Any:
    """Returns what one of two functions makes of operands, by a condition that may be traced."""
    if isinstance(condition, bool):
        return (yes if condition else no)(*operands)
    return cond(condition, yes, no, *operands)


def counted(step: Array) -> Array:
    """Returns one more; the host counts, so that no update waits for a GPU."""
    number: Any = _python_scalar(step)
    following: Array = number + 1 if isinstance(number, Tracer) else wrap(np.int64(number + 1))
    return following


def unknown_loss(*losses: Array) -> Array:
    """Returns NaN in memory of its own, of the dtype of losses and on their device."""
    return loss_to_come(result_type(*[loss.dtype for loss in losses]), losses[0].device)


def wide_zeros(p: Value) -> Value:
    """Returns zeros of a parameter's shape, at least in single precision."""
    dtype = shape_dtype(p).dtype
    return full_like(p, 0, np.float32 if is_updated(p) and dtype.itemsize == 2 else dtype)


def toward(x: Value, p: Value, share: Scalar) -> Value:
    """Returns what lies between two values, by a share of the second one."""
    if not is_updated(x):
        return p
    dtype = shape_dtype(x).dtype
    wide = ops.astype(x, np.float32) if dtype.itemsize == 2 else x
    moved: Array = ops.add(wide, ops.multiply(ops.subtract(p, wide), share))
    return moved if moved.dtype == dtype else ops.astype(moved, dtype)


def _with_gradient(total: Value, g: Value) -> Value:
    if not is_updated(total):
        return total
    out: Array = ops.add(total, g)
    dtype = shape_dtype(total).dtype
    return out if out.dtype == dtype else ops.astype(out, dtype)


def _check_every(name: str, every: int) -> None:
    if every < 1:
        raise ValueError(f"{name}: every is {every}, it must be positive")
