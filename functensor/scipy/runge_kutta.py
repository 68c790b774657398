"""The explicit Runge-Kutta method of Dormand and Prince with steps of its own choice, on vectors.

Sources: J. R. Dormand and P. J. Prince, "A family of embedded Runge-Kutta formulae", 1980; the
interpolant between steps, L. F. Shampine, "Some practical Runge-Kutta formulas", 1986; the choice
of steps, E. Hairer, S. Norsett and G. Wanner, "Solving ordinary differential equations I", 1993,
section II.4.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from math import inf
from operator import add
from typing import Any, NamedTuple

import numpy as np

from ..backends.annotations import ArrayModule, Buffer, DType
from ..backends.devices import backend_of, device_of, on_device, to_host
from ..backends.restoring import quiet
from ..primitives.core.shape_dtype import finfo

__all__ = [
    "BETWEEN", "ERROR", "GROW", "RUNGE_KUTTA_NODES", "SAFETY", "SHORTEST", "SHRINK", "STAGES",
    "End", "NoStepError", "Norm", "Options", "check_end", "integrate", "relative_tolerance",
]  # fmt: skip

# The first stage is at the beginning of a step.
RUNGE_KUTTA_NODES = [1 / 5, 3 / 10, 4 / 5, 8 / 9, 1, 1]
STAGES = [
    np.array(row)
    for row in (
        [1 / 5],
        [3 / 40, 9 / 40],
        [44 / 45, -56 / 15, 32 / 9],
        [19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729],
        [9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656],
        [35 / 384, 0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84],
    )
]
# The weights of the error: of the result of fifth order minus that of fourth order.
ERROR = np.array([71 / 57600, 0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40])
# The weights of the stages at a fraction of a step, as polynomials of fourth degree in it.
BETWEEN = np.array(
    [
        [1, -8048581381 / 2820520608, 8663915743 / 2820520608, -12715105075 / 11282082432],
        [0, 0, 0, 0],
        [0, 131558114200 / 32700410799, -68118460800 / 10900136933, 87487479700 / 32700410799],
        [0, -1754552775 / 470086768, 14199869525 / 1410260304, -10690763975 / 1880347072],
        [0, 127303824393 / 49829197408, -318862633887 / 49829197408, 701980252875 / 199316789632],
        [0, -282668133 / 205662961, 2019193451 / 616988883, -1453857185 / 822651844],
        [0, 40617522 / 29380423, -110615467 / 29380423, 69997945 / 29380423],
    ]
)

SAFETY = 0.9
SHRINK = 0.2
GROW = 10.0
# The shortest step to begin with, beside the time: shorter ones may follow.
SHORTEST = 2.0**-42


class Options(NamedTuple):
    """The precision of a solution: tolerances, steps between two points, and the longest step."""

    rtol: float
    atol: float
    mxstep: float
    hmax: float


class NoStepError(RuntimeError):
    """Steps became too small: ``odeint`` raises it as the ``RuntimeError`` that it documents."""


class End(NamedTuple):
    """The end of a solution, at all its times or before.

    Attributes:
        done: at how many of the times it is known.
        t, h: the time that was reached, and the length that the next step would have.
        taken: the steps since the last of the times that it is known at.
    """

    done: float
    t: float
    h: float
    taken: float


class Norm:
    """The root mean square of a vector's elements; of many examples in it, that of the worst.

    Args:
        shapes: the shapes of the arrays that make up the vector.
        ranks: how many of the first axes of each array count examples.
    """

    def __init__(self, shapes: Sequence[tuple[int, ...]], ranks: Sequence[int]) -> None:
        self.groups: dict[tuple[int, ...], list[slice]] = {}
        start = 0
        for shape, rank in zip(shapes, ranks, strict=True):
            size = int(np.prod(shape))
            if size:
                self.groups.setdefault(shape[:rank], []).append(slice(start, start + size))
            start += size

    def __call__(self, vector: Buffer) -> float:
        """Returns the norm of a buffer's vector, for which a GPU is waited."""
        # Comparisons would lose a NaN, which has to be seen.
        worst = max(map(to_host, self.squares(vector)), key=lambda v: (v != v, v), default=0.0)
        return float(np.sqrt(worst))

    def squares(self, vector: Any) -> list[Any]:
        """Returns the largest mean square of each group of examples."""
        squares = (vector.conj() * vector).real
        found = []
        for batch, parts in self.groups.items():
            rows = int(np.prod(batch))
            blocks = [squares[part].reshape(rows, -1) for part in parts]
            total = reduce(add, (block.sum(axis=1, dtype=float) for block in blocks))
            found.append(total.max() / sum(block.shape[1] for block in blocks))
        return found


def relative_tolerance(options: Options, dtype: DType) -> float:
    """Returns the tolerance, at least where it would measure errors of rounding.

    >>> relative_tolerance(Options(0.0, 0.0, inf, inf), np.dtype("float64")) == 2.0**-50
    True
    """
    return max(options.rtol, 4 * float(finfo(dtype).eps))


def integrate(
    f: Callable[[Any, Buffer], Buffer], y: Buffer, times: Buffer, options: Options, norm: Norm
) -> tuple[Buffer, End]:
    """Returns the solution of y' = f(t, y) at times, with y at the first of them, and its end.

    Args:
        f: takes a time and a vector, and returns a new vector.
        y: the vector at the first time, on the device of the solution. The lengths of steps are
            decided on the host, which waits for the norms of errors.
        times: an ascending or a descending array of NumPy's.
        options, norm: the precision, and the norm of errors.
    """
    xp: ArrayModule = backend_of(y).xp
    solution = xp.empty((len(times), *y.shape), y.dtype)
    solution[0] = y
    stages = xp.empty((7, y.size), y.dtype)
    # A trial step may overflow where a shorter one does not. Users see no warning of it.
    with quiet():
        end = _fill(f, xp.array(y), np.asarray(times, np.float64), options, norm, solution, stages)
    return solution, end


def _fill(
    f: Callable[[Any, Buffer], Buffer],
    y: Buffer,
    times: Buffer,
    options: Options,
    norm: Norm,
    solution: Buffer,
    stages: Buffer,
) -> End:
    """Writes the solution at all times but the first one, as far as there is one."""
    t, end = times[0], times[-1]
    direction = -1.0 if end < t else 1.0
    precision = finfo(y.dtype)
    rtol = relative_tolerance(options, y.dtype)
    xp, device = backend_of(y).xp, device_of(y)
    weights_of_stages = [on_device(row.astype(precision.dtype), device) for row in STAGES]
    error_weights = on_device(ERROR.astype(precision.dtype), device)
    done = 1
    taken = 0
    h: float | None = None
    while done < len(times):
        if times[done] == t:
            solution[done] = y
            done += 1
            continue
        if h is None:
            stages[0] = f(t, y)
            longest = min(abs(end - t), options.hmax)
            h = _first_step(f, t, y, stages[0], direction, longest, rtol, options, norm)
        left = abs(end - t)
        h = min(h, options.hmax)
        last = h >= left
        step = left if last else h
        if not abs(t) + step / 10 > abs(t) or taken >= options.mxstep:
            return End(done, t, h, taken)
        later = end if last else t + direction * step
        # A Python number leaves vectors of single precision in their dtype.
        signed = float(direction * step)
        for row, (node, weights) in enumerate(zip(RUNGE_KUTTA_NODES, weights_of_stages), 1):
            reached = y + (weights * signed) @ stages[:row]
            stages[row] = f(later if node == 1 else t + node * signed, reached)
        scale = options.atol + rtol * xp.maximum(abs(y), abs(reached))
        error = norm(signed * (error_weights @ stages) / scale)
        taken += 1
        if not error <= 1:
            h = step * (max(SHRINK, SAFETY * error**-0.2) if error < inf else SHRINK)
            continue
        first = done
        while done < len(times) and direction * (times[done] - later) <= 0:
            done += 1
        if done > first:
            taken = 0
            at = (times[first:done] - t) / signed
            powers = at[:, None] ** np.arange(1, 5)
            weights = on_device(signed * (powers @ BETWEEN.T), device)
            solution[first:done] = y + weights @ stages
            for i in range(first, done):
                if times[i] == later:
                    solution[i] = reached
        t, y = later, reached
        stages[0] = stages[6]
        h = step * (min(GROW, SAFETY * error**-0.2) if error else GROW)
    return End(done, t, 0.0 if h is None else h, taken)


def _first_step(
    f: Callable[[Any, Buffer], Buffer],
    t: float,
    y: Buffer,
    slope: Buffer,
    direction: float,
    longest: float,
    rtol: float,
    options: Options,
    norm: Norm,
) -> float:
    """Returns a first step, by the size of the solution, its slope and its curvature."""
    scale = options.atol + rtol * abs(y)
    size, speed = norm(y / scale), norm(slope / scale)
    trial = 0.01 * size / speed if size > 1e-5 and 1e-5 < speed < inf else 1e-6
    trial = min(trial, longest)
    ahead = f(t + direction * trial, y + (direction * trial * slope).astype(y.dtype))
    bend = norm((ahead - slope) / scale) / trial
    largest = max(speed, bend)
    # Beside tolerances a large slope may ask for a step that the time is too coarse for.
    shortest = min(SHORTEST * abs(t), longest)
    if not (speed < inf and bend < inf):
        return float(max(trial, shortest))
    guess = (0.01 / largest) ** 0.2 if largest > 1e-15 else max(1e-6, trial * 1e-3)
    return float(max(min(100 * trial, guess, longest), shortest))


def check_end(end: End, times: Buffer, options: Options) -> None:
    """Refuses a solution that is not known at all times, as steps became too small, or too many."""
    done, t, h, taken = end
    if done == len(times):
        return
    if taken >= options.mxstep:
        raise RuntimeError(
            f"odeint: {taken:.0f} steps (mxstep) did not lead to t={times[int(done)]:.6g}, only to "
            f"t={t:.6g}: raise mxstep or the tolerances rtol and atol"
        )
    raise NoStepError(
        f"odeint: at t={t:.6g} a step of {h:.3g} is too small to go on: the solution has a "
        "singularity there, or is not a number"
    )
