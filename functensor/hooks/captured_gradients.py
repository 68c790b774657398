"""Hooks that take values on the way, and the gradients by them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..primitives.core.annotations import operations as ops
from ..primitives.core.array import Array, unknown_behind
from ..primitives.core.derivative_rules import shape_of
from ..primitives.core.trace import RAW, Trace, slot
from ..traces.batch import BatchTrace, BatchTracer
from ..traces.captured_values import Taken, resolved, taking
from ..traces.forward import zeros_like
from .hook import Hook
from .operation import Operation
from .values import levels_of, plain_value

__all__ = ["Capture", "CaptureGradients"]


class Capture(Hook):
    """Takes the values, or their gradients, for the one who captures."""

    traceable = True
    compiled = False

    def take(self, op: Operation, value: Any, shape: Any = None) -> None:
        """Takes a value, or a number for one of a shape."""
        if taking.values is not None:
            taking.values.append(Taken(self, name_of(op), op.line, value, shape))


def name_of(op: Operation) -> str:
    """Returns what an operation's value is called, behind the name of its scope."""
    name = op.tag or op.name
    return f"{op.scope}/{name}" if op.scope else name


class CaptureGradients(Capture):
    """Takes the cotangents of outputs.

    It takes a number for each output too, as an output itself is taken. So gradients have the names
    of the values, and the axes of loops and batches in the same order.

    Args:
        outside: the trace under which the function runs.
    """

    def __init__(self, outside: Trace) -> None:
        self.outside = set(map(id, traces_from(outside)))
        self.count = 0
        # The numbers of an operation's outputs, the gradients by those, and how many axes of
        # batches each gradient has in front.
        self.numbers: dict[Operation, list[int]] = {}
        self.gradients: dict[int, Taken] = {}
        self.axes: dict[int, int] = {}

    def forward(self, op: Operation, inputs: Sequence[Any], output: Array) -> None:
        self.numbers.setdefault(op.first or op, []).append(self.count)
        found = [level.owner for level in levels_of(output) if isinstance(level, BatchTracer)]
        batches = [batch for batch in found if id(batch) not in self.outside]
        self.axes[self.count] = len(batches)
        number = full(batches, self.count) if batches else self.count
        self.take(op, number, shape_of(output))
        self.count += 1

    def backward(self, op: Operation, grad_inputs: Sequence[Any], grad_output: Any) -> None:
        gs = grad_output if isinstance(grad_output, tuple) else (grad_output,)
        for number, g in zip(self.numbers.get(op.first or op, ()), gs):
            self.gradients[number] = Taken(self, name_of(op), op.line, self.of_each(g))

    def of_each(self, g: Any) -> Any:
        """Returns a gradient for each example of the batches in which the way back runs."""
        around = [trace for trace in traces_from(slot.trace) if isinstance(trace, BatchTrace)]
        batches = [batch for batch in around if id(batch) not in self.outside]
        known = {id(level.owner) for level in levels_of(g) if isinstance(level, BatchTracer)}
        if all(id(batch) in known for batch in batches):
            return g
        return ops.multiply(g, ops.astype(full(batches, 1), g.dtype))

    def resolve(self) -> None:
        """Makes the gradients values of the level that runs."""
        for number, taken in self.gradients.items():
            self.gradients[number] = taken._replace(value=resolved(taken))

    def of(self, numbers: Any) -> Any:
        """Returns the gradients by outputs, given their numbers; None if there are none."""
        known = numbers_in(numbers)
        if not known.size:
            return None
        # Each step of a loop has a number of its own, and all examples of a batch have the same.
        varies = [(known != known.take([0], axis)).any() for axis in range(known.ndim)]
        order = sorted(range(known.ndim), key=lambda axis: not varies[axis])
        sizes = [known.shape[axis] for axis in order]
        loops = sum(varies)
        steps = known.transpose(order).reshape(*sizes[:loops], -1)[..., 0].reshape(-1)
        found = [self.gradients.get(int(number)) for number in steps]
        some = next((taken.value for taken in found if taken is not None), None)
        if some is None:
            return None
        shape = shape_of(some)[self.axes[int(steps[0])] :]
        gs = [zeros_like(some) if taken is None else taken.value for taken in found]
        total = ops.reshape(ops.stack(gs), (*sizes, *shape))
        behind = range(known.ndim, known.ndim + len(shape))
        return ops.transpose(total, (*np.argsort(order).tolist(), *behind))


def traces_from(trace: Trace | None) -> list[Trace]:
    """Returns a trace and those below it."""
    found = []
    while trace is not None and trace is not RAW:
        found.append(trace)
        trace = trace.parent
    return found


def full(batches: Sequence[BatchTrace], number: int) -> Any:
    """Returns a number for each example of batches, of which the innermost comes first."""
    x: Any = None
    for batch in reversed(batches):
        if x is None:
            x = batch.argument(np.full([each.size for each in reversed(batches)], number))
        x = batch.wrap(x)
    return x


def numbers_in(numbers: Any) -> np.ndarray[Any, Any]:
    """Returns numbers that were taken as an array; of those that a program hands on, none."""
    if unknown_behind(numbers) is not None:
        return np.zeros(0, int)
    return np.asarray(plain_value(numbers))
