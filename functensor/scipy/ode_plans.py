"""Equations of ``odeint`` on plain buffers: operation by operation, as plans, as machine code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from ..backends.annotations import ArrayModule, Buffer, DType
from ..jitting.compile import Compiled
from ..jitting.tiers import Tiers
from ..primitives.core.annotations import Value, Values
from ..primitives.core.annotations import operations as ops
from ..primitives.core.array import Array
from ..primitives.core.buffers import to_buffer
from ..primitives.core.errors import ConcretizationError, TracerConversionError, function_name
from ..primitives.core.shape_dtype import ShapeDtype, result_type
from ..primitives.core.trace import RAW, under
from ..programs import Program, Variable
from ..programs.staging import make_program
from .runge_kutta import Norm, Options, integrate
from .runge_kutta_program import solution_at_times

__all__ = [
    "Slope", "Solver", "StateVector", "StepByStep", "as_buffer_function", "one_vector",
    "part_as_dtype", "program_of_equation", "run_or_repeated",
]  # fmt: skip

# What NumPy's functions raise for some values of a state: a singular matrix, a division by zero
# where that is to be an error, an index out of bounds.
FAILURES_OF_EQUATIONS = (np.linalg.LinAlgError, ArithmeticError, IndexError)

# Takes the leaves of the state, the time, and the arguments; returns the leaves of the slope.
Slope = Callable[[Values, Any, Values], Values]


class StateVector:
    """The places of the leaves of a state in one vector.

    Args:
        types: those of the leaves.
        dtype: that of the vector where there are no leaves.

    Attributes:
        types: the same.
        type: that of the vector.

    >>> import numpy as np
    >>> pair = StateVector([ShapeDtype((), "float32"), ShapeDtype((2,), "float64")])
    >>> pair.joined([np.float32(1), np.array([2.0, 3.0])], np)
    array([1., 2., 3.])
    """

    def __init__(self, types: Sequence[ShapeDtype], dtype: DType | None = None) -> None:
        self.types = types
        ends = [0, *accumulate(known.size for known in types)]
        self._parts = [slice(*pair) for pair in pairwise(ends)]
        kinds = [known.dtype for known in types]
        self.type = ShapeDtype((ends[-1],), result_type(*kinds) if kinds else dtype)

    def joined(self, buffers: Sequence[Buffer], xp: ArrayModule) -> Buffer:
        """Returns a vector of buffers of the leaves."""
        return one_vector([xp.asarray(y) for y in buffers], xp).astype(self.type.dtype, copy=False)

    def leaves(self, vector: Any) -> Values:
        """Returns the parts of a vector, in their shapes and dtypes."""
        return [
            part_as_dtype(vector[part], known.dtype).reshape(known.shape)
            for part, known in zip(self._parts, self.types, strict=True)
        ]

    def columns(self, solution: Buffer, ranks: Sequence[int], xp: ArrayModule) -> list[Buffer]:
        """Returns the parts of vectors at several times, whose axis comes behind ``ranks`` axes."""
        outs = []
        for part, known, rank in zip(self._parts, self.types, ranks, strict=True):
            out = part_as_dtype(solution[:, part], known.dtype)
            out = out.reshape(len(solution), *known.shape)
            outs.append(xp.moveaxis(out, 0, rank) if rank else out)
        return outs


def one_vector(buffers: Sequence[Buffer], xp: ArrayModule) -> Buffer:
    """Returns buffers of any shapes as one new vector.

    >>> import numpy as np
    >>> one_vector([np.zeros(()), np.ones((1, 2))], np)
    array([0., 1., 1.])
    """
    return xp.concatenate([y.reshape(-1) for y in buffers])


def program_of_equation(
    func: Slope,
    layout: StateVector,
    time: ShapeDtype,
    args: Sequence[ShapeDtype],
) -> Program | None:
    """Returns an equation as a program of vectors; None where it branches on values.

    Args:
        func: takes the leaves of the state, the time, and the arguments; returns slopes.
        layout: how the leaves lie in a vector.
        time, args: the types of the time and of the arguments.

    Returns:
        What takes a vector, the time and the arguments, and returns the slopes as a vector.

    >>> import numpy as np
    >>> number = ShapeDtype((), "float64")
    >>> def spring(y, t, args):
    ...     return [y[1], -args[0] * y[0]]
    >>> made = program_of_equation(spring, StateVector([number] * 2), number, [number])
    >>> made.run([np.array([1.0, 2.0]), np.float64(0.0), np.float64(3.0)])
    [Array([ 2., -3.], dtype=float64, device='cpu')]
    """

    def flat(state: Array, t: Array, args: Values) -> Array:
        slopes = [ops.reshape(out, (-1,)) for out in func(layout.leaves(state), t, args)]
        return slopes[0] if len(slopes) == 1 else ops.concatenate(slopes)

    flat.__name__ = function_name(func)
    with suppress(ConcretizationError, TracerConversionError):
        return make_program(flat)(layout.type, time, list(args))
    return None


class StepByStep:
    """The solution of an equation that is a program, steps of which are decided in Python.

    It takes buffers: a vector with all leaves of the state, the times, and the arguments.

    Args:
        slope: takes a vector, the time and the arguments; returns the slopes as a vector.
        options, norm: the precision, and the norm of errors.

    Attributes:
        grows: whether machine code may take over from the plan of the equation.
    """

    grows = False

    def __init__(self, slope: Compiled, options: Options, norm: Norm) -> None:
        self.slope, self.options, self.norm = slope, options, norm

    def __call__(self, buffers: Sequence[Buffer]) -> Values:
        """Returns the vector at the times, and where the solution ended."""
        y, times, *args = buffers
        kind = self.slope.staged.inputs[1].type.dtype.type
        run = self.slope.run if self.grows else self.slope.plan

        def slope(t: float, vector: Buffer) -> Buffer:
            return run([vector, kind(t), *args])[0]  # type: ignore[no-any-return]

        solution, end = integrate(slope, y, times, self.options, self.norm)
        return [solution, *end]

    def inputs(self, y: Buffer, times: Buffer, args: Values) -> list[Buffer]:
        """Returns the buffers that it takes."""
        _, _, *buffers = self.slope.buffers_of([y, 0.0, *args])
        return [y, times.astype(np.float64, copy=False), *buffers]

    def forget(self) -> None:
        """Lets the memory of the equation's plan go."""
        self.slope.plan.forget()


class Solver:
    """The solution step by step, until machine code of the whole method takes over.

    Args:
        plan: the solution step by step.
        count: the number of the times.

    Attributes:
        run: the quicker of both, once that is decided.
    """

    def __init__(self, plan: StepByStep, count: int) -> None:
        self.plan = plan
        program = plan.slope.staged
        vector, time, *args = (x.type for x in program.inputs)

        def odeint(y: Array, times: Array, args: Values) -> Values:
            def slope(t: Any, vector: Array) -> Any:
                return program.run([vector, ops.astype(t, time.dtype), *args])[0]

            return solution_at_times(slope, y, times, plan.options, plan.norm)

        whole = make_program(odeint)(vector, ShapeDtype((count,), np.float64), args)
        self.inputs = plan.inputs
        self.tiers = Tiers(self, whole, ())
        self.run: Callable[[Sequence[Buffer]], Values] = self.tiers
        self.tiers.take_earlier_choice()

    def forget_plan(self) -> None:
        """Lets memory go that the plan over NumPy keeps."""
        self.plan.forget()

    def __call__(self, buffers: Sequence[Buffer]) -> Values:
        """Returns the vector at the times, and where the solution ended."""
        self.plan.grows = self.run is self.plan
        if self.plan.grows or self.run is self.tiers:
            return self.run(buffers)
        return run_or_repeated(self.run, self.plan, buffers)


def run_or_repeated(
    run: Callable[[Sequence[Buffer]], Values],
    plan: Callable[[Sequence[Buffer]], Values],
    buffers: Sequence[Buffer],
) -> Values:
    """Returns what machine code of a whole solution finds; where it fails, what its plan does.

    The plan's error names lines of the user's alone. If the plan finds a solution, machine code met
    a failure of the equation at a step that the plan does not take; any other failure is raised.

    Args:
        run: the machine code.
        plan: what solves the same in parts.
        buffers: what both take.
    """
    fault: Exception | None = None
    try:
        return run(buffers)
    except FAILURES_OF_EQUATIONS:
        # Kept, the error would hold this frame, and so the buffers.
        pass
    except Exception as error:
        fault = error
    outs = plan(buffers)
    if fault is not None:
        raise fault
    return outs


def as_buffer_function(program: Program) -> Callable[[Values], Values]:
    """Returns a program as a function of plain buffers, which runs it operation by operation.

    >>> import numpy as np
    >>> double = make_program(lambda x: x * 2)(ShapeDtype((2,), "float64"))
    >>> as_buffer_function(double)([np.array([1.0, 2.0])])
    [array([2., 4.])]
    """
    places: dict[Variable, int] = {}
    memory: Values = []

    def place(x: Variable | Value) -> int:
        if isinstance(x, Variable):
            if x not in places:
                places[x] = len(memory)
                memory.append(None)
            return places[x]
        memory.append(to_buffer(x))
        return len(memory) - 1

    inputs = [place(x) for x in program.inputs]
    steps = [
        (equation.apply, [place(x) for x in equation.operands], [*map(place, equation.outputs)])
        for equation in program.equations
    ]
    outputs = [place(x) for x in program.outputs]

    def run(values: Values) -> Values:
        env = list(memory)
        for i, value in zip(inputs, values, strict=True):
            env[i] = value
        with under(RAW):
            for apply, operands, results in steps:
                for i, out in zip(results, apply([env[i] for i in operands]), strict=True):
                    env[i] = out
        return [env[i] for i in outputs]

    return run


def part_as_dtype(part: Any, dtype: DType) -> Any:
    """Returns a part of the vector in its own dtype, which beside complex ones may be real.

    >>> import numpy as np
    >>> part_as_dtype(np.array([1 + 0j, 2 + 0j]), np.dtype("float64"))
    array([1., 2.])
    """
    if part.dtype.kind == "c" and dtype.kind != "c":
        part = part.real
    return part.astype(dtype, copy=False)
