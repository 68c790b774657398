"""The Runge-Kutta method in operations, so that a program has all its steps: machine code runs it.

It takes the steps of ``runge_kutta.py``, which are decided in Python there.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from math import inf
from typing import Any, NamedTuple

import numpy as np

from ..backends.annotations import DType
from ..control.cond import cond
from ..control.while_loop import fori_loop, while_loop
from ..numpy.creation import asarray
from ..primitives.core.annotations import Values
from ..primitives.core.annotations import operations as ops
from ..primitives.core.array import Array
from ..primitives.core.shape_dtype import finfo
from .runge_kutta import (
    BETWEEN,
    ERROR,
    GROW,
    RUNGE_KUTTA_NODES,
    SAFETY,
    SHORTEST,
    SHRINK,
    STAGES,
    Norm,
    Options,
    relative_tolerance,
)

__all__ = ["solution_at_times"]

NODES = np.array(RUNGE_KUTTA_NODES)
STAGE_WEIGHTS = np.stack([np.pad(row, (0, 7 - len(row))) for row in STAGES])

# Takes a time and the state, and returns the slope.
SlopeAt = Callable[[Any, Any], Any]


class Going(NamedTuple):
    """The values that a step takes and returns.

    Attributes:
        t, y, slope: the time that is reached, and the state and the slope there.
        h: the length of the next step.
        taken: the steps since the last of the times that the solution is known at.
        before, y_before, step, stages: where the latest step began, its length with its sign, and
            its slopes.
        done: at how many times the solution is known.
        solution: the state at the times.
    """

    t: Any
    y: Any
    slope: Any
    h: Any
    taken: Any
    before: Any
    y_before: Any
    step: Any
    stages: Any
    done: Any
    solution: Any


class Method:
    """The method for one equation.

    Args:
        f: the equation.
        dtype: that of the state.
        times: an ascending or a descending array of double precision.
        options, norm: the precision, and the norm of errors.
    """

    def __init__(
        self, f: SlopeAt, dtype: DType, times: Array, options: Options, norm: Norm
    ) -> None:
        self.f, self.times, self.options, self.norm = f, times, options, norm
        self.rtol = relative_tolerance(options, dtype)
        self.dtype, self.real = dtype, finfo(dtype).dtype

    # Machine code takes a loop as a whole, and what stands before it as operations one by one: all
    # is computed in the loop therefore.

    def left(self, t: Array) -> tuple[Array, Array]:
        """Returns the last of the times, and how far it is away."""
        end = self.times[-1]
        return end, abs(end - t)

    def direction(self) -> Array:
        """Returns whether times ascend, as 1, or descend, as -1."""
        return ops.where(self.times[-1] < self.times[0], -1.0, 1.0)

    def size_of(self, vector: Array, scale: Array) -> Array:
        """Returns the norm of a vector in relation to tolerances."""
        squares = self.norm.squares(vector / scale)
        largest: Array = ops.sqrt(reduce(ops.maximum, squares)) if squares else asarray(0.0)
        return largest

    def tolerances(self, magnitudes: Array) -> Array:
        """Returns how large an error may be beside elements of such magnitudes."""
        return self.options.atol + self.rtol * magnitudes

    def in_state(self, x: Any) -> Array:
        """Returns numbers in the precision of the state."""
        return ops.astype(x, self.real)

    def begun(self, going: Going) -> Going:
        """Takes the slope at the first time, and the length of a first step."""
        t, y = self.times[0], going.y
        slope = self.f(t, y)
        return going._replace(
            t=t,
            slope=slope,
            h=self.first_step(t, y, slope),
            done=going.done + 1,
            solution=going.solution.at[0].set(y),
        )

    def first_step(self, t: Array, y: Array, slope: Array) -> Array:
        """Returns a first step, by the size of the solution, its slope and its curvature."""
        longest = ops.minimum(self.left(t)[1], self.options.hmax)
        scale = self.tolerances(abs(y))
        size, speed = self.size_of(y, scale), self.size_of(slope, scale)
        known = (size > 1e-5) & (speed > 1e-5) & (speed < inf)
        trial = ops.minimum(ops.where(known, 0.01 * size / speed, 1e-6), longest)
        step = self.direction() * trial
        ahead = self.f(t + step, y + self.in_state(step) * slope)
        bend = self.size_of(ahead - slope, scale) / trial
        largest = ops.maximum(speed, bend)
        by_trial = ops.maximum(1e-6, trial * 1e-3)
        guess = ops.where(largest > 1e-15, (0.01 / largest) ** 0.2, by_trial)
        guess = ops.minimum(ops.minimum(100 * trial, guess), longest)
        found: Array = ops.where(largest < inf, guess, trial)
        return ops.maximum(found, ops.minimum(SHORTEST * abs(t), longest))

    def is_at_next(self, going: Going) -> Array:
        """Says whether a step reached the first time that the solution is not known at yet."""
        # A loop asks this once more at its end.
        place = ops.minimum(going.done, self.times.shape[0] - 1)
        reached: Array = self.direction() * (self.times[place] - going.t) <= 0
        return reached

    def goes_on(self, going: Going) -> Array:
        """Says whether times are left, and whether one is reached or another step possible."""
        length = ops.minimum(ops.minimum(going.h, self.options.hmax), self.left(going.t)[1])
        # A NaN is no step.
        possible = abs(going.t) + length / 10 > abs(going.t)
        possible = possible & (going.taken < self.options.mxstep)
        possible = possible | (going.done == 0) | self.is_at_next(going)
        goes: Array = (going.done < self.times.shape[0]) & possible
        return goes

    def noted(self, going: Going) -> Going:
        """Writes the solution at a time that the latest step passed."""
        i = going.done
        t = self.times[i]
        part = (t - going.before) / going.step
        square = part * part
        powers = ops.stack([part, square, square * part, square * square])
        weights = going.step * ops.matmul(BETWEEN, powers)
        between = going.y_before + sum_of_stages(weights, going.stages)
        state = ops.where(t == going.t, going.y, ops.astype(between, self.dtype))
        return going._replace(
            done=i + 1, taken=0, solution=going.solution.at[i].set(state)
        )

    def stepped(self, going: Going) -> Going:
        """Takes a step, which stays where it is if the error is too large."""
        t, y = going.t, going.y
        end, left = self.left(t)
        h = ops.minimum(going.h, self.options.hmax)
        is_last = h >= left
        length = ops.where(is_last, left, h)
        step = self.direction() * length
        later = ops.where(is_last, end, t + step)
        stages, reached = self.stages(going, step, later)
        signed = self.in_state(step)
        difference = signed * sum_of_stages(self.in_state(ERROR), stages)
        error = self.size_of(difference, self.tolerances(ops.maximum(abs(y), abs(reached))))
        good = error <= 1
        change = ops.where(error == 0, GROW, SAFETY * error**-0.2)
        less = ops.where(error < inf, ops.maximum(SHRINK, change), SHRINK)
        return going._replace(
            t=ops.where(good, later, t),
            y=ops.where(good, reached, y),
            slope=ops.where(good, stages[6], going.slope),
            h=length * ops.where(good, ops.minimum(GROW, change), less),
            taken=going.taken + 1,
            before=t,
            y_before=y,
            step=step,
            stages=stages,
        )

    def stages(self, going: Going, step: Array, later: Array) -> tuple[Array, Array]:
        """Returns the slopes of a step, and the state that it reaches."""
        y, signed = going.y, self.in_state(step)
        weights, nodes = self.in_state(STAGE_WEIGHTS), asarray(NODES)

        def stage(i: Any, values: tuple[Array, Array]) -> tuple[Array, Array]:
            reached = y + signed * sum_of_stages(weights[i], values[0])
            t = ops.where(i >= 4, later, going.t + nodes[i] * step)
            return values[0].at[i + 1].set(self.f(t, reached)), reached

        first = ops.zeros_like(going.stages).at[0].set(going.slope)
        return fori_loop(0, 6, stage, (first, y))


def sum_of_stages(weights: Array, stages: Array) -> Array:
    """Returns a sum of slopes with weights, which may be of another precision."""
    total: Array = ops.sum(ops.expand_dims(weights, 1) * stages, 0)
    return total


def solution_at_times(
    f: SlopeAt, y: Array, times: Array, options: Options, norm: Norm
) -> Values:
    """Returns the solution of y' = f(t, y) at times, and the fields of its `End`.

    Args:
        f: takes a time and a vector, and returns a new vector.
        y: the vector at the first time.
        times: an ascending or a descending array of double precision.
        options, norm: the precision, and the norm of errors.
    """
    method = Method(f, y.dtype, times, options, norm)
    count = times.shape[0]
    zeros = asarray(np.zeros((max(count, 7), *y.shape), y.dtype))
    going = Going(
        t=0.0,
        y=y,
        slope=zeros[0],
        h=0.0,
        taken=0,
        before=0.0,
        y_before=zeros[0],
        step=1.0,
        stages=zeros[:7],
        done=0,
        solution=zeros[:count],
    )

    def going_on(going: Going) -> Going:
        return cond(method.is_at_next(going), method.noted, method.stepped, going)

    def next_one(going: Going) -> Going:
        return cond(going.done == 0, method.begun, going_on, going)

    last = while_loop(method.goes_on, next_one, going)
    return [last.solution, last.done, last.t, last.h, last.taken]
