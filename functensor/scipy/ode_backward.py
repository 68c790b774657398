"""The way back through ``odeint``: the adjoint equation, solved from each time to the one before.

Within a program the whole of it is one call, of which machine code is made: a loop over the times,
with the loop over the steps in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..backends.annotations import Buffer
from ..backends.devices import device_of, to_host
from ..backends.restoring import quiet
from ..control.cond import cond
from ..control.while_loop import fori_loop
from ..custom.call import InlinedCall
from ..jitting.compile import compiled
from ..jitting.tiers import Tiers
from ..primitives.core.annotations import Value, Values
from ..primitives.core.annotations import operations as ops
from ..primitives.core.array import Array, Tracer
from ..primitives.core.buffers import to_buffer, wrap
from ..primitives.core.shape_dtype import ShapeDtype, shape_dtype
from ..primitives.core.trace import is_staged, slot
from ..programs.program import Program, argument_type
from ..programs.staging import make_program
from ..traces.forward import zeros_like
from .ode_plans import Slope, StateVector, program_of_equation, run_or_repeated
from .runge_kutta import Norm, NoStepError, relative_tolerance
from .runge_kutta_program import solution_at_times

__all__ = ["BackwardCall", "pulled"]

# An interval is halved so often where the state cannot be computed backward.
MOST_HALVINGS = 12
# The error of a state that was computed backward, in relation to the tolerances. Slopes that depend
# on the state have as large an error.
MOST_DRIFT = 100.0


def pulled_by_intervals(
    ode: Any, adjoint: Any, residuals: Values, gs: Values, func: Slope
) -> Values:
    """Returns the cotangents of the state, of the times, and of arguments.

    Args:
        ode: the call whose way back it is.
        adjoint: the equation of the state, its cotangent, and those of the arguments.
        residuals: the solution, the times, and the arguments.
        gs: the cotangents of the solution.
        func: the equation.
    """
    solution, times, args = ode.split(residuals)
    count = len(solution)
    last = times.shape[0] - 1
    moved = ode.at(gs, last)
    by_args = [zeros_like(args[i]) for i in adjoint.moves]
    by_times: list[Value] = []
    for i in range(last, 0, -1):
        state = ode.at(solution, i)
        by_times.append(time_cotangent(ode.at(gs, i), func(state, times[i], args)))
        ends = (times[i - 1], ode.at(solution, i - 1)), (times[i], state)
        earlier = pulled_across(ode, adjoint, ends, [*moved, *by_args], args, MOST_HALVINGS)
        moved, by_args = earlier[:count], earlier[count:]
        if i > 1:
            moved = [a + g for a, g in zip(moved, ode.at(gs, i - 1), strict=True)]
    if last:
        first = func(ode.at(solution, 0), times[0], args)
        by_times.append(-time_cotangent(moved, first))
        moved = [a + g for a, g in zip(moved, ode.at(gs, 0), strict=True)]
    else:
        by_times.append(zeros_like(times[0]))
    return [*moved, ops.stack(by_times[::-1]), *by_args]


def pulled_across(
    ode: Any,
    adjoint: Any,
    ends: Sequence[tuple[Any, Values]],
    cotangents: Values,
    args: Values,
    halvings: int,
) -> Values:
    """Returns the cotangents of the state and of arguments at the earlier end of an interval.

    The adjoint equation computes the state backward, too, and that may be unstable where the
    solution itself is stable: a small error grows, until the state is another one or beyond all
    numbers. The interval is then halved, with the state in its middle solved forward.

    Args:
        ode, adjoint: as for `pulled_by_intervals`.
        ends: the time and the state at the earlier end, and at the later one.
        cotangents: those of the state and of arguments at the later end.
        args: the arguments.
        halvings: how often the interval may be halved.
    """
    (begin, first), (end, last) = ends
    try:
        outs = adjoint.bind([*last, *cotangents, ops.stack([end, begin]), *args])
        found: Values = adjoint.at(outs, 1)
        if not halvings or is_back(ode, found[: len(last)], first):
            return found[len(last) :]
    except NoStepError:
        if not halvings:
            raise
    middle = begin + (end - begin) / 2
    solved = ode.bind([*first, ops.stack([begin, middle]), *args])
    between = middle, ode.at(solved, 1)
    later = pulled_across(ode, adjoint, (between, ends[1]), cotangents, args, halvings - 1)
    return pulled_across(ode, adjoint, (ends[0], between), later, args, halvings - 1)


def is_back(ode: Any, found: Values, known: Values) -> bool:
    """Says whether a state that was computed backward is the one that it was forward.

    What is not known while a program is staged counts as that.
    """
    for x, y in zip(map(value_below, found), map(value_below, known), strict=True):
        if x is not None and y is not None and x.size:
            x, y = as_numpys(x), as_numpys(y)
            rtol = relative_tolerance(ode.options, x.dtype)
            with quiet():
                # A NaN is where the solution is one.
                if (abs(x - y) > MOST_DRIFT * (ode.options.atol + rtol * abs(y))).any():
                    return False
    return True


def as_numpys(x: Any) -> Buffer:
    """Returns a buffer as NumPy's array."""
    return np.asarray(to_host(x))


def value_below(x: Any) -> Any:
    """Returns the buffer of a value that transformations compute with; None while staging."""
    while isinstance(x, Tracer):
        x = getattr(x, "value", None)
    return None if x is None else to_buffer(x)


def time_cotangent(gs: Sequence[Any], slopes: Sequence[Any]) -> Array:
    """Returns the sum of products of cotangents and slopes, which is the cotangent of a time."""
    total = sum(ops.sum(g * s) for g, s in zip(gs, slopes, strict=True))
    return ops.real(total)


class BackwardCall(InlinedCall):
    """The way back as one call of a program.

    Operands are the solution, the times, the arguments, and the cotangents of the solution.

    Args:
        ode, adjoint: as for `pulled_by_intervals`.

    Attributes:
        whole: what solves all of it for the types of the latest operands, and those types.
    """

    def __init__(self, ode: Any, adjoint: Any) -> None:
        super().__init__("odeint backward", self._pulled)
        self.ode = ode
        self.adjoint = adjoint
        self.whole: tuple[Any, Whole | None] = None, None
        self.infer = self._infer

    @staticmethod
    def serves(ode: Any, adjoint: Any, residuals: Values) -> bool:
        """Says whether the way back is one call: in a program, of one dtype."""
        if not is_staged():
            return False
        solution, times, args = ode.split(residuals)
        moved = [argument_type(args[i]) for i in adjoint.moves]
        dtypes = {x.dtype for x in (*map(argument_type, solution), *moved)}
        return len(dtypes) == 1 and dtypes.pop().kind == "f" and times.shape[0] > 1

    def _infer(self, *operands: ShapeDtype) -> list[ShapeDtype]:
        solution, times, rest = self.ode.split(list(operands))
        state = [without_times(y, rank) for y, rank in zip(solution, self.ode.ranks)]
        by_args = [rest[i].strong() for i in self.adjoint.moves]
        return [*state, ShapeDtype(times.shape, state[0].dtype), *by_args]

    def _pulled(self, operands: Values) -> Values:
        if slot.trace is None:
            buffers = [*map(to_buffer, operands)]
            if all(device_of(x) == "cpu" for x in buffers):
                whole = self._planned([*map(shape_dtype, operands)])
                if whole is not None:
                    return [*map(wrap, whole(buffers))]
        return self.by_intervals(operands)

    def by_intervals(self, operands: Values, func: Slope | None = None) -> Values:
        """Returns the cotangents, by a call of the adjoint equation for each interval.

        ``func`` is what computes the equation, by default the equation itself.
        """
        count = len(operands) - len(self.ode.ranks)
        given = operands[:count], operands[count:]
        return pulled_by_intervals(self.ode, self.adjoint, *given, func or self.ode.func)

    def compile_for(self, types: Sequence[ShapeDtype]) -> None:
        """Compiles machine code of the whole way back for operands of such types."""
        whole = self._planned(types)
        if whole is not None:
            whole.tiers.finish()
            return
        ode, adjoint = self.ode, self.adjoint
        state = [without_times(y, rank) for y, rank in zip(types, ode.ranks)]
        times, args = types[len(state)], types[len(state) + 1 : len(types) - len(state)]
        interval = ShapeDtype((2,), times.dtype)
        by_args = [args[i].strong() for i in adjoint.moves]
        adjoint.compile_for([*state, *state, *by_args, interval, *args])

    def _planned(self, types: Sequence[ShapeDtype]) -> Whole | None:
        """Returns what solves all of it for operands of such types; None where nothing does."""
        # Another thread may replace it meanwhile.
        known = self.whole
        if known[0] != types:
            # Each interval has a plan, too.
            self.adjoint.in_program = True
            equations = None
            if not any(self.adjoint.ranks) and not any(known.weak for known in types):
                equations = equations_of(self.ode, self.adjoint, [*types])
            self.whole = known = types, None if equations is None else Whole(self, equations)
        return known[1]


def without_times(y: ShapeDtype, rank: int) -> ShapeDtype:
    """Returns the type of a state, for that of a solution with so many batch axes in front."""
    return ShapeDtype((*y.shape[:rank], *y.shape[rank + 1 :]), y.dtype)


class Equations:
    """The equation and its adjoint equation as programs of vectors.

    Args:
        types: those of the solution, the times, the arguments, and the solution's cotangents.
        state, by_args: how a state lies in a vector, and how cotangents of arguments do.
        plain, moved: the programs.
    """

    def __init__(
        self,
        types: Values,
        state: StateVector,
        by_args: StateVector,
        plain: Program,
        moved: Program,
    ) -> None:
        self.types = types
        self.state, self.by_args = state, by_args
        self.plain, self.moved = plain, moved

    def slope(self, y: Values, t: Any, args: Values) -> Values:
        """Returns what the equation does, by a plan of it."""
        vector = ops.concatenate([ops.reshape(leaf, (-1,)) for leaf in y])
        return self.state.leaves(compiled(self.plain)([vector, t, *args])[0])


def equations_of(ode: Any, adjoint: Any, types: Values) -> Equations | None:
    """Returns both equations; None where one branches on values.

    Args:
        ode, adjoint: as for `pulled_by_intervals`.
        types: those of the solution, the times, the arguments, and the solution's cotangents.
    """
    solution, times, rest = ode.split(types)
    args = rest[: len(ode.arg_ranks)]
    state = StateVector([ShapeDtype(y.shape[1:], y.dtype) for y in solution])
    by_args = StateVector([args[i] for i in adjoint.moves], state.type.dtype)
    time = ShapeDtype((), times.dtype)
    plain = program_of_equation(ode.func, state, time, args)
    layout = adjoint_layout(state, by_args)
    moved = None if plain is None else program_of_equation(adjoint.func, layout, time, args)
    if plain is None or moved is None:
        return None
    return Equations(types, state, by_args, plain, moved)


def adjoint_layout(state: StateVector, by_args: StateVector) -> StateVector:
    """Returns how the state, its cotangent and those of arguments lie in a vector."""
    return StateVector([*state.types, *state.types, *by_args.types])


class Whole:
    """The whole way back: interval by interval, until machine code takes over.

    Args:
        call: the call.
        equations: its equations.

    Attributes:
        run: the quicker of both, once that is decided.
    """

    def __init__(self, call: BackwardCall, equations: Equations) -> None:
        self.plan = ByIntervals(call, equations)
        self.tiers = Tiers(self, program_of_way_back(call.ode, call.adjoint, equations), ())
        self.run: Any = self.tiers
        self.tiers.take_earlier_choice()

    def forget_plan(self) -> None:
        """Lets memory go that the plan over NumPy keeps."""
        self.plan.forget()

    def __call__(self, buffers: Sequence[Buffer]) -> Values:
        """Returns the cotangents."""
        outs: Values = [False]
        if self.run is not self.plan:
            outs = run_or_repeated(self.run, self.plan, buffers)
        if not outs[-1]:
            outs = self.plan(buffers)
        return outs[:-1]


class ByIntervals:
    """The way back interval by interval, on buffers, as tiers compare it with machine code."""

    def __init__(self, call: BackwardCall, equations: Equations) -> None:
        self.call = call
        self.equations = equations

    def __call__(self, buffers: Sequence[Buffer]) -> Values:
        """Returns the cotangents, and that they are there."""
        outs = self.call.by_intervals([*map(wrap, buffers)], self.equations.slope)
        return [*map(to_buffer, outs), True]

    def forget(self) -> None:
        """Lets the memory of the equation's plan go."""
        compiled(self.equations.plain).plan.forget()


def program_of_way_back(ode: Any, adjoint: Any, equations: Equations) -> Program:
    """Returns the whole way back as a program, which also says whether all intervals are solved."""
    plain, moved = equations.plain, equations.moved
    state, by_args = equations.state, equations.by_args
    solution, times, rest = ode.split(equations.types)
    norm = Norm([known.shape for known in adjoint_layout(state, by_args).types], adjoint.ranks)
    count, size = len(ode.arg_ranks), state.type.shape[0]
    rtol = relative_tolerance(ode.options, state.type.dtype)

    def odeint_backward(solution: Values, times: Array, args: Values, gs: Values) -> Values:
        rows, cotangents = rows_by_time(solution), rows_by_time(gs)
        last = times.shape[0] - 1

        def slope(t: Any, vector: Array) -> Any:
            return moved.run([vector, ops.astype(t, times.dtype), *args])[0]

        def slope_at(i: Any) -> Any:
            return plain.run([rows[i], times[i], *args])[0]

        # Machine code takes a loop as a whole, and what stands beside it as operations one by one:
        # all is computed in the loop therefore.

        def interval(i: Any, going: tuple[Any, ...]) -> tuple[Any, ...]:
            back, by_times, solved, *moved_args = going
            by_times = by_times.at[i].set(ops.sum(cotangents[i] * slope_at(i)))
            start = ops.concatenate([rows[i], back, *moved_args])
            ends = ops.astype(ops.stack([times[i], times[i - 1]]), np.float64)
            states, done, *_ = solution_at_times(slope, start, ends, ode.options, norm)
            drift = abs(states[1][:size] - rows[i - 1])
            allowed = MOST_DRIFT * (ode.options.atol + rtol * abs(rows[i - 1]))
            solved = solved & ~ops.any(drift > allowed)
            back = states[1][size : 2 * size]
            back = ops.where(i > 1, back + cotangents[i - 1], back)
            moved_args = [states[1][2 * size :]] * len(moved_args)
            return back, by_times, solved & (done == 2), *moved_args

        def first(i: Any, going: tuple[Any, ...]) -> tuple[Any, ...]:
            back, by_times, solved, *moved_args = going
            by_times = by_times.at[i].set(-ops.sum(back * slope_at(i)))
            return back + cotangents[i], by_times, solved, *moved_args

        def earlier(step: Any, going: tuple[Any, ...]) -> tuple[Any, ...]:
            i = last - step
            return cond(i > 0, interval, first, i, going)

        none = wrap(np.zeros(by_args.type.shape, state.type.dtype))
        by_times = wrap(np.zeros(times.shape, state.type.dtype))
        # Machine code carries no empty arrays: one of arguments is there if there are some.
        moved_args = [none] if by_args.type.size else []
        going = cotangents[last], by_times, wrap(np.True_), *moved_args
        back, by_times, solved, *moved_args = fori_loop(0, last + 1, earlier, going)
        return [*state.leaves(back), by_times, *by_args.leaves([*moved_args, none][0]), solved]

    return make_program(odeint_backward)(solution, times, rest[:count], rest[count:])


def rows_by_time(arrays: Values) -> Array:
    """Returns a matrix that has, for each time, a row of the elements of all arrays."""
    rows = [ops.reshape(x, (x.shape[0], -1)) for x in arrays]
    return rows[0] if len(rows) == 1 else ops.concatenate(rows, axis=1)


def pulled(ode: Any, adjoint: Any, residuals: Values, gs: Values) -> Values:
    """Returns what `pulled_by_intervals` does, by one call where there is such."""
    if not BackwardCall.serves(ode, adjoint, residuals):
        return pulled_by_intervals(ode, adjoint, residuals, gs, ode.func)
    return BackwardCall(ode, adjoint).bind([*residuals, *gs])
