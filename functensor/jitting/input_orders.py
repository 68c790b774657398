"""Machine code for arguments that lie in memory in another order than C's, or with steps.

Columns of a table that lie one behind the other, as pandas has them, and transposed arrays are read
where they lie: the program takes them transposed, and transposes them back, which is an index map.
Slices are read by their strides.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, TypeAlias

import numpy as np

from ..primitives.core.registry import registry
from ..primitives.core.shape_dtype import ShapeDtype
from ..programs.program import Equation, Program, Variable

__all__ = ["InputOrders", "OrderedPlan", "ReadSteps", "input_orders", "with_inputs_in_order"]

# A slice with longer steps is copied: all that reads it would take a line of memory an element.
LONGEST_READ_STEP = 4


def fits_order(buffer: Any, order: tuple[int, ...] | ReadSteps) -> bool:
    """Says whether an array lies by some axes, or has some strides."""
    if isinstance(order, ReadSteps):
        return order.fit(buffer)
    flags = buffer.transpose(order).flags
    return bool(flags.c_contiguous and flags.aligned)


class ReadSteps(tuple[int, ...]):
    """The strides of the axes of an array that has steps in memory, in elements."""

    __slots__ = ()

    def fit(self, buffer: Any) -> bool:
        """Says whether an array of the same shape and dtype has these strides."""
        size = buffer.itemsize
        return buffer.flags.aligned and all(
            n == 1 or stride == size * step
            for n, stride, step in zip(buffer.shape, buffer.strides, self, strict=True)
        )

    def laid(self, buffer: Any) -> Any:
        """Returns an array with these strides: the one itself, or a copy."""
        if self.fit(buffer):
            return buffer
        last = sum((n - 1) * step for n, step in zip(buffer.shape, self, strict=True))
        whole = np.empty(1 + last, buffer.dtype)
        strides = [step * buffer.itemsize for step in self]
        copy = np.lib.stride_tricks.as_strided(whole, buffer.shape, strides)
        copy[...] = buffer
        return copy


# For each input the axes by which it is transposed to lie in order, or the strides by which it is
# read; None where it stays.
InputOrders: TypeAlias = tuple[tuple[int, ...] | ReadSteps | None, ...]


def input_orders(buffers: Sequence[Any], fixed: Collection[int]) -> InputOrders:
    """Returns the axes by which arrays are transposed to lie in C order, or their strides.

    Args:
        buffers: the arrays, and numbers.
        fixed: the numbers of those that stay as they are.

    >>> x = np.zeros((2, 3, 4))
    >>> input_orders([x, x.T, x.transpose(0, 2, 1), x[:, :, ::2], 1.0], ())
    (None, (2, 1, 0), (0, 2, 1), (12, 4, 2), None)
    """
    return tuple(
        [
            None if i in fixed else axes_in_order(buffer) or steps_of(buffer)
            for i, buffer in enumerate(buffers)
        ]
    )


def axes_in_order(buffer: Any) -> tuple[int, ...] | None:
    """Returns the axes by which an array is transposed to lie in C order, if it does not."""
    if type(buffer) is not np.ndarray or buffer.ndim < 2 or buffer.flags.c_contiguous:
        return None
    axes = tuple(sorted(range(buffer.ndim), key=lambda i: -buffer.strides[i]))
    turned = buffer.transpose(axes).flags
    return axes if turned.c_contiguous and turned.aligned else None


def steps_of(buffer: Any) -> ReadSteps | None:
    """Returns the strides of a slice with steps that kernels read where it lies."""
    if type(buffer) is not np.ndarray or buffer.flags.c_contiguous or not buffer.flags.aligned:
        return None
    if buffer.dtype.kind != "f" or not buffer.dtype.isnative or not buffer.size:
        return None
    # The number of elements from the first to the last of all axes within.
    within = 0
    for stride, n in sorted(zip(buffer.strides, buffer.shape, strict=True)):
        step, rest = divmod(stride, buffer.itemsize)
        if n == 1:
            continue
        if rest or step <= within or (not within and step > LONGEST_READ_STEP):
            return None
        within += step * (n - 1)
    return ReadSteps([stride // buffer.itemsize for stride in buffer.strides])


def with_inputs_in_order(program: Program, orders: InputOrders) -> Program:
    """Returns a program that takes its inputs transposed by some axes each, or by their strides.

    Args:
        program: any program; none of its outputs is an input that is transposed.
        orders: the axes and strides.
    """
    inputs, turned_back = list(program.inputs), []
    for i, order in enumerate(orders):
        if order is None:
            continue
        x = inputs[i]
        steps = order if isinstance(order, ReadSteps) else None
        axes = tuple(range(len(order))) if steps is not None else order
        shape = tuple([x.type.shape[a] for a in axes])
        inputs[i] = Variable(ShapeDtype(shape, x.type.dtype), x.device)
        inputs[i].strides = steps
        back = tuple([axes.index(i) for i in range(len(axes))])
        turned_back.append(Equation(registry["transpose"], [inputs[i]], {"axes": back}, [x]))
    equations = [*turned_back, *program.equations]
    return Program(program.name, inputs, equations, program.outputs)


class OrderedPlan:
    """A plan that is given its arguments transposed, or with steps in memory.

    Once arguments come that lie otherwise, a plan for C order is made for these.

    Attributes:
        source, called, has_machine_code, tells: those of the plan.
        key: empty: plans on the disk are found for C order alone.

    Args:
        plan: the plan.
        orders: the axes by which arguments are transposed, and the strides of others.
        make: makes the plan for C order.
    """

    key = ""

    def __init__(self, plan: Any, orders: InputOrders, make: Callable[[], Any]) -> None:
        self._plan = plan
        self._orders = [(i, order) for i, order in enumerate(orders) if order is not None]
        self._make = make
        self._job: Any = None
        self._for_others: Any = None
        self.source: str = plan.source
        self.called: Any = plan.called
        self.has_machine_code: bool = plan.has_machine_code
        self.tells: bool = plan.tells

    def __call__(self, buffers: Sequence[Any]) -> list[Any]:
        """Computes the results."""
        plan, given = self._chosen(buffers)
        return plan(given)  # type: ignore[no-any-return]

    def told(self, buffers: Sequence[Any]) -> Any:
        """Does the same, and returns what the processor has told, too."""
        return self._plan.told(self._turned(buffers))

    def forget(self) -> None:
        """Lets kept memory go, until the plan runs again."""
        self._plan.forget()
        if self._for_others is not None:
            self._for_others.forget()

    def _chosen(self, buffers: Sequence[Any]) -> tuple[Any, Sequence[Any]]:
        """Returns the plan that runs, and what it is given."""
        if not all(fits_order(buffers[i], order) for i, order in self._orders):
            if self._for_others is not None:
                return self._for_others, buffers
            if self._job is None or self._job.dropped:
                from ..backends.native.background import later_for

                self._job = later_for(self, OrderedPlan._make_for_others)
        return self._plan, self._turned(buffers)

    def _make_for_others(self) -> None:
        self._for_others = self._make()

    def _turned(self, buffers: Sequence[Any]) -> list[Any]:
        turned = list(buffers)
        for i, order in self._orders:
            x = turned[i]
            turned[i] = order.laid(x) if isinstance(order, ReadSteps) else x.transpose(order)
        return turned
