"""L-BFGS, whose steps end where a line search finds the loss low and flat enough."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..backends.errors.public_functions import guarded
from ..control import while_loop
from ..numpy.zeros_ones import full_like
from ..primitives.core.annotations import Value
from ..primitives.core.annotations import operations as ops
from ..primitives.core.array import Array
from ..primitives.core.buffers import device_of, wrap
from ..primitives.core.errors import GradientInputError, failure
from ..primitives.core.shape_dtype import result_type, shape_dtype
from ..transforms.grad import differentiated
from ..tree import containers as tree
from .argument_order import wrong_state
from .optimizer import Optimizer, Rate, _python_scalar, is_updated, loss_to_come, rate_at
from .wrapped_states import counted

__all__ = ["LbfgsState", "lbfgs"]

# How much of the fall that the first slope promises a step must bring (Nocedal and Wright, 3.1).
ENOUGH_FALL = 1e-4
# How much of the first slope may be left at the end of a step.
SLOPE_LEFT = 0.9


class LbfgsState(NamedTuple):
    """The state of `lbfgs`: besides step and loss, the last moves, and changes of gradients.

    ``moves`` and ``changes`` have one row for each remembered step, the last one at the end, and
    one column for each number among the parameters; ``inverses`` has 1 over their inner products,
    and 0 where nothing is remembered. ``evaluations`` counts how often the loss was computed.
    """

    step: Array
    loss: Array
    moves: Array
    changes: Array
    inverses: Array
    evaluations: Array


class LineSearchOptimizer(Optimizer[LbfgsState]):
    """An optimizer that computes the loss several times in a step."""

    __slots__ = ("_searching",)

    def __init__(self, name: str, init: Any, update: Any, searching: Callable[..., Any]) -> None:
        super().__init__(name, init, update)
        self._searching = searching

    def minimize(self, loss: Callable[..., Any], *, has_aux: bool = False) -> Callable[..., Any]:
        """Returns a function that makes one step towards the minimum of a loss.

        Args:
            loss: ``loss(params, *batch)`` returns a scalar, with ``has_aux`` a pair of that and
                extras.
            has_aux: whether it does.

        Returns:
            A pure function, as that of `Optimizer.minimize`.
        """
        return guarded(self._searching(loss, has_aux), f"{self.name}.minimize(loss)")


def lbfgs(lr: Rate = 1.0, memory: int = 10, max_evaluations: int = 25) -> Optimizer[LbfgsState]:
    """Returns L-BFGS with a line search, for losses that are the same function in every step.

    A direction is made of the last moves and of how the gradient changed along them. Along it the
    step is doubled or halved until the loss falls enough and its slope has become flat enough.

    It needs the loss: use ``minimize``; ``update`` raises an error.

    Args:
        lr: how long the first step that is tried is: a number, or a function of how many updates
            were made before. 1 is right but for the first update, which is shortened.
        memory: how many moves are remembered.
        max_evaluations: how often the loss is computed along one line at most.

    Returns:
        An `Optimizer` with the state `LbfgsState`.

    Raises:
        ValueError: an argument is not positive.

    J. Nocedal, "Updating quasi-Newton matrices with limited storage", 1980; the search is that of
    A. Lewis and M. Overton, "Nonsmooth optimization via quasi-Newton methods", 2013, algorithm 2.6.

    >>> import functensor as ft, functensor.numpy as np
    >>> def valley(x):
    ...     return (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2
    >>> opt = ft.optim.lbfgs()
    >>> step = ft.jit(opt.minimize(valley))
    >>> x = np.array([-1.2, 1.0])
    >>> state = opt.init(x)
    >>> for _ in range(40):
    ...     x, state = step(x, state)
    >>> print(np.round(x, 6))
    [1. 1.]
    """
    for argument, given in (("memory", memory), ("max_evaluations", max_evaluations)):
        if given < 1:
            raise ValueError(f"lbfgs: {argument} is {given}, it must be positive")
    if isinstance(lr, int | float) and lr <= 0:
        raise ValueError(f"lbfgs: lr is {lr}, it must be positive")

    def init(params: object) -> LbfgsState:
        x, _ = packed(params)
        n, dtype = shape_dtype(x).shape[0], shape_dtype(x).dtype
        rows = [full_like(x, 0, shape=shape) for shape in ((memory, n), (memory, n), (memory,))]
        loss = loss_to_come(dtype, device_of(x))
        return LbfgsState(wrap(np.int64(0)), loss, rows[0], rows[1], rows[2], wrap(np.int64(0)))

    def update(params: Any, state: Any, grads: Any) -> Any:
        raise failure(
            TypeError,
            "lbfgs: update has gradients alone, but a line search needs the loss",
            fix="step = opt.minimize(loss); params, state = step(params, state)",
        )

    def searching(loss: Callable[..., Any], has_aux: bool) -> Callable[..., Any]:
        value_and_grad = differentiated("minimize", loss, has_aux=has_aux)

        def step(params: Any, state: Any, *batch: Any, **kwargs: Any) -> Any:
            if type(state) is not LbfgsState:
                raise wrong_state("lbfgs", state, LbfgsState)
            x, unpacked = packed(params)
            dtype = shape_dtype(x).dtype

            def evaluated(at: Value) -> tuple[Array, Any, Any]:
                value, grads = value_and_grad(unpacked(at), *batch, **kwargs)
                value, aux = value if has_aux else (value, None)
                matching = tree.map(lambda p, g: g if is_updated(p) else p, params, grads)
                return ops.astype(value, dtype), packed(matching)[0], aux

            value, g, aux = evaluated(x)
            direction = ops.negative(times_inverse(state, g))
            # Rounding may spoil what is remembered: then it goes straight down.
            falls = ops.less(inner(direction, g), 0)
            direction = ops.where(falls, direction, ops.negative(g))
            slope = inner(direction, g)
            rate = rate_at(lr, _python_scalar(state.step))
            first = ops.where(
                ops.greater(state.inverses[-1], 0),
                1.0,
                ops.minimum(1.0, ops.divide(1.0, ops.add(ops.sum(ops.absolute(g)), 1e-30))),
            )
            first = ops.astype(ops.multiply(first, rate), dtype)

            def probe(found: Search) -> Search:
                at, low, high = found.following, found.low, found.high
                new, gradient, _ = evaluated(ops.add(x, ops.multiply(direction, at)))
                fell = ops.less_equal(
                    new, ops.add(value, ops.multiply(ops.multiply(slope, at), ENOUGH_FALL))
                )
                steep = ops.less(inner(gradient, direction), ops.multiply(slope, SLOPE_LEFT))
                low = ops.where(ops.logical_and(fell, steep), at, low)
                high = ops.where(fell, high, at)
                middle = ops.multiply(ops.add(low, ops.where(ops.isinf(high), low, high)), 0.5)
                after = ops.where(ops.isinf(high), ops.multiply(at, 2.0), middle)
                better = ops.logical_and(fell, ops.less_equal(new, found.value))
                return Search(
                    ops.astype(after, dtype),
                    ops.astype(low, dtype),
                    ops.astype(high, dtype),
                    ops.where(better, at, found.at),
                    ops.where(better, new, found.value),
                    ops.where(better, gradient, found.gradient),
                    ops.logical_and(fell, ops.logical_not(steep)),
                    ops.add(found.tries, 1),
                )

            zero = ops.multiply(first, 0)
            begin = Search(
                first, zero, ops.add(zero, np.inf), zero, value, g,
                ops.equal(slope, 0), wrap(np.int64(0)),
            )  # fmt: skip
            end = while_loop(
                lambda found: ops.logical_and(
                    ops.logical_not(found.done), ops.less(found.tries, max_evaluations)
                ),
                probe,
                begin,
            )
            move = ops.multiply(direction, end.at)
            after = with_move(state, move, ops.subtract(end.gradient, g))
            evaluations = ops.add(state.evaluations, ops.add(end.tries, 1))
            result = LbfgsState(counted(state.step), value, *after, evaluations)
            params = unpacked(ops.add(x, move))
            return (params, result, aux) if has_aux else (params, result)

        return step

    return LineSearchOptimizer("lbfgs", init, update, searching)


class Search(NamedTuple):
    """A line search on its way: the next step, the bounds, and the best step with its gradient."""

    following: Array
    low: Array
    high: Array
    at: Array
    value: Array
    gradient: Array
    done: Array
    tries: Array


def packed(params: Any) -> tuple[Array, Callable[[Any], Any]]:
    """Returns all floats of a tree in one vector, and a function that makes the tree of it."""
    leaves, treedef = tree.flatten(params)
    places = [i for i, x in enumerate(leaves) if is_updated(x)]
    kinds = [shape_dtype(leaves[i]) for i in places]
    if not places or any(kind.dtype.kind == "c" for kind in kinds):
        raise failure(
            GradientInputError,
            "lbfgs: it needs parameters of real floats",
            fix="params = {'real': x.real, 'imag': x.imag}",
        )
    dtype = result_type(np.float32, *[kind.dtype for kind in kinds])
    flat = [ops.astype(ops.reshape(leaves[i], (-1,)), dtype) for i in places]

    def unpacked(vector: Any) -> Any:
        after, start = list(leaves), 0
        for i, kind in zip(places, kinds, strict=True):
            stop = start + int(np.prod(kind.shape, dtype=int))
            after[i] = ops.astype(ops.reshape(vector[start:stop], kind.shape), kind.dtype)
            start = stop
        return treedef.unflatten(after)

    return ops.concatenate(flat) if len(flat) > 1 else flat[0], unpacked


def inner(x: Value, y: Value) -> Array:
    """Returns the inner product of two vectors."""
    out: Array = ops.sum(ops.multiply(x, y))
    return out


def times_inverse(state: LbfgsState, g: Value) -> Any:
    """Returns the remembered inverse of the second derivative times a vector, by two loops."""
    count = shape_dtype(state.inverses).shape[0]
    weights: list[Any] = [None] * count
    for i in reversed(range(count)):
        weights[i] = ops.multiply(state.inverses[i], inner(state.moves[i], g))
        g = ops.subtract(g, ops.multiply(state.changes[i], weights[i]))
    last = state.inverses[-1]
    known = ops.greater(last, 0)
    # The newest pair has the scale of the second derivative.
    scale = ops.multiply(last, inner(state.changes[-1], state.changes[-1]))
    g = ops.divide(g, ops.where(known, scale, 1.0))
    for i in range(count):
        back = ops.multiply(state.inverses[i], inner(state.changes[i], g))
        g = ops.add(g, ops.multiply(state.moves[i], ops.subtract(weights[i], back)))
    return g


def with_move(state: LbfgsState, move: Value, change: Value) -> tuple[Any, Any, Any]:
    """Returns what is remembered after a move; one without curvature is left out."""
    bend = inner(move, change)
    known = ops.greater(bend, 0)
    inverse = ops.divide(1.0, ops.where(known, bend, 1.0))
    new = (move, change, inverse)
    out = []
    for old, x in zip((state.moves, state.changes, state.inverses), new, strict=True):
        shifted = ops.concatenate([old[1:], ops.expand_dims(ops.astype(x, old.dtype), 0)])
        out.append(ops.where(known, shifted, old))
    return out[0], out[1], out[2]
