"""Equations of ``odeint`` as functions of plain buffers: operation by operation, or as a plan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from ..backends.annotations import DType
from ..jitting.compile import Compiled, compiled
from ..primitives.core.annotations import Value, Values
from ..primitives.core.annotations import operations as ops
from ..primitives.core.array import Array
from ..primitives.core.buffers import to_buffer
from ..primitives.core.errors import ConcretizationError, TracerConversionError
from ..primitives.core.shape_dtype import ShapeDtype
from ..primitives.core.trace import RAW, under
from ..programs import Program, Variable
from ..programs.staging import make_program

__all__ = ["as_buffer_function", "part_as_dtype", "plan_of_equation"]


def plan_of_equation(
    func: Callable[[Values, Any, Values], Values],
    types: Sequence[ShapeDtype],
    parts: Sequence[slice],
    vector: ShapeDtype,
    time: ShapeDtype,
    args: Sequence[ShapeDtype],
) -> Compiled | None:
    """Returns an equation as a compiled function of vectors; None where it branches on values.

    Args:
        func: takes the leaves of the state, the time, and the arguments; returns slopes.
        types, parts: the types of the leaves, and which parts of a vector they are.
        vector, time, args: the types of what it takes: a vector with all leaves, the time, and the
            arguments.

    Returns:
        What takes these and returns the slopes as a vector. Its plan is None on a GPU.

    >>> import numpy as np
    >>> number, pair = ShapeDtype((), "float64"), ShapeDtype((2,), "float64")
    >>> halves = [slice(0, 1), slice(1, 2)]
    >>> def spring(y, t, args):
    ...     return [y[1], -args[0] * y[0]]
    >>> made = plan_of_equation(spring, [number] * 2, halves, pair, number, [number])
    >>> made.plan([np.array([1.0, 2.0]), np.float64(0.0), np.float64(3.0)])
    [array([ 2., -3.])]
    """

    def flat(state: Array, t: Array, args: Values) -> Array:
        leaves = [
            ops.reshape(part_as_dtype(state[part], known.dtype), known.shape)
            for part, known in zip(parts, types, strict=True)
        ]
        slopes = [ops.reshape(out, (-1,)) for out in func(leaves, t, args)]
        return slopes[0] if len(slopes) == 1 else ops.concatenate(slopes)

    with suppress(ConcretizationError, TracerConversionError):
        return compiled(make_program(flat)(vector, time, list(args)))
    return None


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
