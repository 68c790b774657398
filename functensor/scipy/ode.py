"""Ordinary differential equations, differentiated by differential equations of their own.

Backward, the adjoint equation is solved from the last time to the first; forward, tangents are
solved for together with the solution. Both are calls of the same kind, which have derivatives
again, so that all orders and all combinations with ``vmap`` exist.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from math import inf, isfinite
from typing import Any, TypeAlias

import numpy as np

from .. import tree
from ..backends.annotations import ArrayModule, Buffer
from ..backends.devices import backend_of, to_host
from ..backends.errors.public_functions import check_function
from ..custom.call import CustomCall, InlinedCall, at_face_pair, replaced
from ..functions.closure import close
from ..jitting.compile import compiled
from ..numpy.arguments import as_inexact
from ..numpy.creation import asarray
from ..primitives.core.annotations import ArrayLike, Value, Values
from ..primitives.core.annotations import operations as ops
from ..primitives.core.array import Array
from ..primitives.core.array_likes import is_array_like
from ..primitives.core.buffers import beside, device_of, exposed, to_buffer, wrap
from ..primitives.core.errors import ConcretizationError, TracerConversionError, function_name
from ..primitives.core.shape_dtype import REAL, ShapeDtype, shape_dtype
from ..primitives.core.trace import Trace, is_staged, slot, under
from ..programs.staging import make_program
from ..traces.forward import zeros_like
from ..traces.reverse import is_inexact
from ..transforms.grad import vjp
from ..transforms.jvp import jvp
from ..transforms.vmap import vmap
from ..tree.containers import TreeDef
from .ode_backward import pulled
from .ode_plans import (
    Slope,
    Solver,
    StateVector,
    StepByStep,
    as_buffer_function,
    one_vector,
    program_of_equation,
)
from .runge_kutta import End, Norm, Options, check_end, integrate

__all__ = ["odeint"]

# How the state lies in a vector, what solves by a plan of the equation, None where there is none,
# and whether the equation branches on values.
Planned: TypeAlias = tuple[StateVector, Solver | StepByStep | None, bool]


class OdeCall(CustomCall):
    """The solution of an equation at given times, on flat lists of arrays.

    Operands are the state at the first time, the times, and arguments. The state's arrays may have
    batch axes in front; the axis of the times comes behind those.

    Args:
        func: the equation.
        ranks, arg_ranks: the numbers of batch axes of the state's arrays, and of the arguments.
        options: the precision of the solution.
        derived: whether the equation is made by transformations; it is staged then, so that they
            run once and not for every stage of every step.

    Attributes:
        in_program: whether the call is a part of a program. Its equation is staged too then.
        moves: of an adjoint equation, the numbers of the arguments that it has cotangents of.
    """

    in_program = False
    moves: Sequence[int] = ()

    def __init__(
        self,
        func: Slope,
        ranks: Sequence[int],
        arg_ranks: Sequence[int],
        options: Options,
        derived: bool = True,
    ) -> None:
        super().__init__("odeint", self._solve, self._fwd, self._bwd, self._push)
        self.func = func
        self.ranks = list(ranks)
        self.arg_ranks = list(arg_ranks)
        self.options = options
        self.derived = derived
        # The types, arguments and function of the equation that was staged last.
        self.latest: tuple[Any, Any, Any] = (None, [], None)
        # The types of the latest operands, and what was planned for them.
        self.planned: tuple[Any, Planned] | None = None
        self.infer = self._infer

    def split(self, operands: Values) -> tuple[Values, Any, Values]:
        """Returns the state, the times and the arguments."""
        count = len(self.ranks)
        return operands[:count], operands[count], operands[count + 1 :]

    def at(self, solution: Values, i: int) -> Values:
        """Returns the state at one of the times."""
        return [
            ops.index(y, (*(slice(None),) * rank, i))
            for y, rank in zip(solution, self.ranks, strict=True)
        ]

    def bind(self, operands: Sequence[Any]) -> Values:
        """Applies the call at the level of the current trace, which may record it in a program."""
        self.in_program = self.in_program or is_staged()
        return super().bind(operands)

    def _infer(self, *operands: ShapeDtype) -> list[ShapeDtype]:
        state, times, _ = self.split(list(operands))
        return [
            ShapeDtype((*y.shape[:rank], times.shape[0], *y.shape[rank:]), y.dtype)
            for y, rank in zip(state, self.ranks, strict=True)
        ]

    def _solve(self, operands: Values) -> Values:
        if slot.trace is not None:
            return self.bind(operands)
        state, times, args = self.split(operands)
        buffers = [*map(to_buffer, state)]
        placed = next((y for y in buffers if device_of(y) != "cpu"), buffers[0])
        on_cpu = device_of(placed) == "cpu" and all(device_of(to_buffer(x)) == "cpu" for x in args)
        layout, solver, branches = self._planned([*map(shape_dtype, operands)], on_cpu)
        xp: ArrayModule = backend_of(placed).xp
        start = layout.joined(buffers, xp)
        checked = _checked_times(times)
        if solver is not None:
            solution, *ended = solver(solver.inputs(start, checked, args))
            end = End(*ended)
        else:
            func = self._equation(layout.types, times, args, branches)

            def slope(t: float, vector: Buffer) -> Buffer:
                slopes = func([*(leaf[()] for leaf in layout.leaves(vector)), times.dtype.type(t)])
                return one_vector([xp.asarray(out) for out in slopes], xp)

            solution, end = integrate(slope, start, checked, self.options, self._norm(layout))
        check_end(end, checked, self.options)
        return [wrap(x) for x in layout.columns(solution, self.ranks, xp)]

    def _norm(self, layout: StateVector) -> Norm:
        return Norm([known.shape for known in layout.types], self.ranks)

    def compile_for(self, types: Sequence[ShapeDtype]) -> None:
        """Compiles machine code of the whole method for operands of such types."""
        solver = self._planned(types, True)[1]
        if isinstance(solver, Solver):
            solver.tiers.finish()

    def _planned(self, types: Sequence[ShapeDtype], on_cpu: bool) -> Planned:
        """Returns what is planned for operands of such types."""
        key = [*types, on_cpu, self.in_program]
        planned = self.planned
        if planned is None or planned[0] != key:
            state, time, arg_types = self.split([*types])
            layout, branches = StateVector(state), False
            solver: Solver | StepByStep | None = None
            if on_cpu and (self.derived or self.in_program):
                dtype = ShapeDtype((), time.dtype)
                program = program_of_equation(self.func, layout, dtype, arg_types)
                branches = program is None
                made = None if program is None else compiled(program)
                if made is not None and made.plan is not None:
                    steps = StepByStep(made, self.options, self._norm(layout))
                    # A program may run often, so that machine code of the whole method pays.
                    solver = Solver(steps, time.shape[0]) if self.in_program else steps
            planned = self.planned = key, (layout, solver, branches)
        return planned[1]

    def _equation(
        self, types: Sequence[ShapeDtype], times: Array | Buffer, args: Values, branches: bool
    ) -> Callable[[Values], Values]:
        """Returns the equation as a function of plain buffers: the state's, and the time.

        ``branches`` says that it branches on values, and is run anew for every stage.
        """

        def func(y: Values, t: Array) -> Values:
            return self.func(y, t, args)

        def called(values: Values) -> Values:
            *y, t = map(wrap, values)
            return [to_buffer(out) for out in func(y, t)]

        if branches or not self.derived:
            return called
        # The backward pass solves all intervals with the same arguments.
        run: Callable[[Values], Values]
        known, before, run = self.latest
        if known != types or any(a is not b for a, b in zip(args, before, strict=True)):
            try:
                program = make_program(func)(list(types), ShapeDtype((), times.dtype))
                run = as_buffer_function(program)
            except (ConcretizationError, TracerConversionError):
                # It branches on values, and is run anew for every stage, which is slower.
                run = called
            self.latest = list(types), args, run
        return run

    # -- backward

    def _fwd(self, operands: Values) -> tuple[Values, Values]:
        outs = self.bind(operands)
        return outs, [*outs, *operands[len(self.ranks) :]]

    def _bwd(self, residuals: Values, gs: Values) -> Values:
        args = self.split(residuals)[2]
        known = [i for i, arg in enumerate(args) if is_inexact(arg)]
        adjoint = self._adjoint(known)
        *moved, by_times = (found := pulled(self, adjoint, residuals, gs))[: len(self.ranks) + 1]
        cotangents = replaced([None] * len(args), known, found[len(self.ranks) + 1 :])
        return [*moved, by_times, *cotangents]

    def _adjoint(self, known: Sequence[int]) -> OdeCall:
        """Returns the equation of the state, its cotangent, and those of arguments, backward."""
        count = len(self.ranks)

        def func(state: Values, t: Array, args: Values) -> Values:
            y, adjoint = state[:count], state[count : 2 * count]

            def slope(y: Values, moved: Values) -> Values:
                return self.func(y, t, replaced(args, known, moved))

            slopes, pull = vjp(slope, y, [args[i] for i in known])
            by_y, by_args = pull(adjoint)
            return [*slopes, *[-c for c in (*by_y, *by_args)]]

        ranks = [*self.ranks, *self.ranks, *[self.arg_ranks[i] for i in known]]
        call = OdeCall(func, ranks, self.arg_ranks, self.options)
        call.moves = known
        return call

    # -- forward

    def forward(self, level: Trace, values: Values, tangents: Values) -> tuple[Values, Values]:
        """Returns the outputs and their tangents, for tangents None where they are zero."""
        given = [i for i, t in enumerate(tangents) if t is not None]

        def push(values: Values, some: Values) -> tuple[Values, Values]:
            return self._push(values, replaced([None] * len(values), given, some))

        with under(level):
            return at_face_pair(push, values, [tangents[i] for i in given])

    def _push(self, values: Values, tangents: Values) -> tuple[Values, Values]:
        solution = self.bind(values)
        state, times, args = self.split(values)
        by_state, by_times, by_args = self.split(tangents)
        known = [i for i, t in enumerate(by_args) if t is not None and is_inexact(args[i])]
        start = [zeros_like(y) if t is None else t for y, t in zip(state, by_state, strict=True)]
        if by_times is not None:
            slopes = self.func(state, times[0], args)
            start = [t - s * by_times[0] for t, s in zip(start, slopes, strict=True)]
        call = self._tangent(known)
        outs = call.bind([*state, *start, times, *args, *[by_args[i] for i in known]])[len(state) :]
        if by_times is not None:
            shifts = [
                [s * by_times[i] for s in self.func(self.at(solution, i), times[i], args)]
                for i in range(times.shape[0])
            ]
            columns = zip(outs, zip(*shifts, strict=True), self.ranks, strict=True)
            outs = [out + ops.stack(column, axis=rank) for out, column, rank in columns]
        return solution, outs

    def _tangent(self, known: Sequence[int]) -> OdeCall:
        """Returns the equation of the state and its tangent; those of arguments come last."""
        count, number = len(self.ranks), len(self.arg_ranks)

        def func(state: Values, t: Array, args: Values) -> Values:
            y, tangent = state[:count], state[count:]
            args, moved = args[:number], args[number:]

            def slope(y: Values, some: Values) -> Values:
                return self.func(y, t, replaced(args, known, some))

            slopes, change = jvp(slope, (y, [args[i] for i in known]), (tangent, moved))
            return [*slopes, *change]

        arg_ranks = [*self.arg_ranks, *[self.arg_ranks[i] for i in known]]
        return OdeCall(func, self.ranks * 2, arg_ranks, self.options)

    # -- batches

    def batched(
        self, flags: Sequence[bool], size: int, axis_name: Hashable | None = None
    ) -> CustomCall:
        """Returns the same for a batch, whose examples take their steps together."""
        state_flags, times_flag, arg_flags = self.split(list(flags))
        if times_flag:
            axes = [0 if flag else None for flag in flags]
            mapped = vmap(
                self._by_intervals, in_axes=(axes,), axis_size=size, axis_name=axis_name
            )
            return InlinedCall(self.name, mapped)
        func = vmap(
            self.func,
            in_axes=([0] * len(state_flags), None, [0 if flag else None for flag in arg_flags]),
            axis_size=size,
            axis_name=axis_name,
        )
        call = OdeCall(
            func,
            [rank + 1 for rank in self.ranks],
            [rank + flag for rank, flag in zip(self.arg_ranks, arg_flags, strict=True)],
            self.options,
        )

        def solve(operands: Values) -> Values:
            state, times, args = self.split(operands)
            filled = [
                y if flag else ops.broadcast_to(y, (size, *shape_dtype(y).shape))
                for y, flag in zip(state, state_flags, strict=True)
            ]
            return call.bind([*filled, times, *args])

        return InlinedCall(self.name, solve)

    def _by_intervals(self, operands: Values) -> Values:
        """Solves from one time to the next, with the fraction in between as the variable.

        Examples with times of their own then have that variable in common.
        """
        if self.options.hmax < inf:
            raise ValueError("odeint: under vmap over the times, steps have no common hmax")
        state, times, args = self.split(operands)
        number = len(args)

        def func(y: Values, fraction: Array, args: Values) -> Values:
            start, length = args[number:]
            slopes = self.func(y, start + fraction * length, args[:number])
            return [ops.astype(s * length, s.dtype) for s in slopes]

        call = OdeCall(func, self.ranks, [*self.arg_ranks, 0, 0], self.options)
        unit = beside(times, np.array([0, 1], shape_dtype(times).dtype))
        states = [state]
        for i in range(times.shape[0] - 1):
            ends = call.bind([*states[-1], unit, *args, times[i], times[i + 1] - times[i]])
            states.append(call.at(ends, 1))
        return [
            ops.stack(column, axis=rank)
            for column, rank in zip(zip(*states, strict=True), self.ranks, strict=True)
        ]


def _checked_times(times: Value) -> Buffer:
    """Returns the times, which ascend or descend, as NumPy's array."""
    buffer = np.asarray(to_host(to_buffer(times)))
    steps = buffer[1:] - buffer[:-1]
    # Times in order are finite if both ends are.
    finite = isfinite(buffer[0]) and isfinite(buffer[-1])
    if not finite or not ((steps >= 0).all() or (steps <= 0).all()):
        raise ValueError(
            f"odeint: times must be finite, and ascend or descend, not {buffer!r:.80}: sort them, "
            "e.g. np.sort(t)"
        )
    return buffer


def _check_options(options: Options) -> None:
    """Refuses tolerances and limits of steps that are out of range."""
    for name, value in options._asdict().items():
        tolerance = name in ("rtol", "atol")
        if not (value >= 0 if tolerance else value > 0):
            wanted = "a number from 0 up, 1e-8 for example" if tolerance else "positive, or inf"
            raise ValueError(f"odeint: {name} is {wanted}, not {value}")


def odeint(
    func: Callable[..., Any],
    y0: Any,
    t: ArrayLike,
    *params: Any,
    args: tuple[Any, ...] = (),
    rtol: float = 1.4e-8,
    atol: float = 1.4e-8,
    mxstep: float = inf,
    hmax: float = inf,
) -> Any:
    """Solves the ordinary differential equation ``dy/dt = func(y, t, *params)``.

    By the method of Dormand and Prince, of order five, with steps of its own choice. Derivatives
    flow to ``y0``, ``t``, ``params`` and to arrays that ``func`` closes over, in both modes and to
    any order: they are solutions of differential equations too, to the same tolerances. Reverse
    mode computes the state backward, too. Where that leads elsewhere than to the state before, as
    for stiff equations, it halves the time in between, and solves the state in the middle forward;
    ``jit`` of ``vmap`` of a gradient does not, and wants closer times ``t``. Under vmap
    all examples take their steps together, so that the worst one meets the tolerances; with times
    of their own they step from each time to the next.

    Args:
        func: returns the slope, a tree of the structure and shapes of ``y0``, for a state, a time
            and the arguments. It is called with plain numbers, unless derivatives are taken or
            the call is staged.
        y0: the state at ``t[0]``: a tree of real or complex arrays.
        t: ascending or descending times, of shape (n,).
        params: further arguments of ``func``, trees of arrays, one after another as JAX has them.
        args: the same as one tuple, as in SciPy.
        rtol, atol: how large the error of a step may be, in relation to the state and absolutely;
            ``rtol`` is at least four units in the last place of the state's precision.
        mxstep: how many steps may be taken from one time to the next.
        hmax: the longest step.

    Returns:
        The state at all times: a tree of arrays with a leading axis of length n.

    Raises:
        ValueError: times are neither ascending nor descending; ``rtol`` or ``atol`` is negative, or
            ``hmax`` or ``mxstep`` is not positive.
        TypeError: ``func`` returns a tree that does not fit ``y0``.
        RuntimeError: the solution cannot be continued, or needs more steps.

    Source: R. T. Q. Chen et al., "Neural ordinary differential equations", 2018, appendix B.

    >>> import functensor as ft, functensor.numpy as np
    >>> decay = lambda rate: ft.scipy.integrate.odeint(
    ...     lambda y, t: -rate * y, 1.0, np.array([0.0, 1.0])
    ... )[-1]
    >>> print(np.round(decay(2.0), 6), np.round(ft.grad(decay)(2.0), 6))
    0.135335 -0.135335
    """
    check_function("odeint", func, "func")
    leaves, treedef = tree.flatten(y0)
    state = [as_inexact(leaf) for leaf in leaves]
    if not state:
        raise TypeError("odeint: y0 has no arrays")
    times = asarray(t)
    if len(times.shape) != 1 or not times.shape[0]:
        raise ValueError(f"odeint: t has shape {times.shape}; give at least one time, on one axis")
    if times.dtype.kind not in REAL:
        times = ops.astype(times, np.float64)
    types = [shape_dtype(leaf).strong() for leaf in state]
    arg_leaves, arg_tree = tree.flatten((*params, *args))
    places = [i for i, leaf in enumerate(arg_leaves) if is_array_like(leaf)]
    count = len(places)

    def slope(y: Values, t: Array, values: Values) -> Values:
        given = arg_tree.unflatten(replaced(arg_leaves, places, values))
        return _slope_leaves(func(treedef.unflatten(y), t, *given), treedef, types)

    values = [exposed(arg_leaves[i]) for i in places]
    closed, constants = close(slope, state, times[0], values)

    def func_of_all(y: Values, t: Array, values: Values) -> Values:
        return closed(values[count:], y, t, values[:count])  # type: ignore[no-any-return]

    # Errors in programs name the user's function.
    func_of_all.__name__ = function_name(func)
    options = Options(float(rtol), float(atol), float(mxstep), float(hmax))
    _check_options(options)
    ranks = [0] * (count + len(constants))
    call = OdeCall(func_of_all, [0] * len(state), ranks, options, derived=False)
    return treedef.unflatten(call.bind([*state, times, *values, *constants]))


def _slope_leaves(out: Any, treedef: TreeDef, types: Sequence[ShapeDtype]) -> Values:
    """Returns the leaves of a slope in the dtypes of the state, checked against it."""
    leaves, got = tree.flatten(out)
    known = [shape_dtype(leaf) for leaf in leaves]
    if got != treedef or [k.shape for k in known] != [k.shape for k in types]:
        raise TypeError(
            f"odeint: func returned {got} of shapes {[k.shape for k in known]}, but y0 is "
            f"{treedef} of shapes {[k.shape for k in types]}: return the slope of every array"
        )
    for k, wanted in zip(known, types, strict=True):
        if k.dtype.kind == "c" and wanted.dtype.kind != "c":
            raise TypeError(
                f"odeint: func returned a complex slope for a state of {wanted.dtype}: start from "
                "a complex y0, e.g. y0 + 0j"
            )
    return [
        leaf if k.dtype == wanted.dtype and not k.weak else ops.astype(leaf, wanted.dtype)
        for leaf, k, wanted in zip(leaves, known, types, strict=True)
    ]
