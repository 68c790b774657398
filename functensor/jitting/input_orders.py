"""Machine code for arguments that lie in memory in another order than C's.

Columns of a table that lie one behind the other, as pandas has them, and transposed arrays are read
where they lie: the program takes them transposed, and transposes them back, which is an index map.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, TypeAlias

import numpy as np

from ..primitives.core.registry import registry
from ..primitives.core.shape_dtype import ShapeDtype
from ..programs.program import Equation, Program, Variable

__all__ = ["InputOrders", "OrderedPlan", "input_orders", "with_inputs_in_order"]

# For each input the axes by which it is transposed to lie in order; None where it stays.
InputOrders: TypeAlias = tuple[tuple[int, ...] | None, ...]


def input_orders(buffers: Sequence[Any], fixed: Collection[int]) -> InputOrders:
    """Returns the axes by which arrays are transposed to lie in C order.

    Args:
        buffers: the arrays, and numbers.
        fixed: the numbers of those that stay as they are.

    >>> x = np.zeros((2, 3, 4))
    >>> input_orders([x, x.T, x.transpose(0, 2, 1), x[:, :, ::2], 1.0], ())
    (None, (2, 1, 0), (0, 2, 1), None, None)
    """
    return tuple(
        [None if i in fixed else axes_in_order(buffer) for i, buffer in enumerate(buffers)]
    )


def axes_in_order(buffer: Any) -> tuple[int, ...] | None:
    """Returns the axes by which an array is transposed to lie in C order, if it does not."""
    if type(buffer) is not np.ndarray or buffer.ndim < 2 or buffer.flags.c_contiguous:
        return None
    axes = tuple(sorted(range(buffer.ndim), key=lambda i: -buffer.strides[i]))
    turned = buffer.transpose(axes).flags
    return axes if turned.c_contiguous and turned.aligned else None


def with_inputs_in_order(program: Program, orders: InputOrders) -> Program:
    """Returns a program that takes its inputs transposed by some axes each.

    Args:
        program: any program; none of its outputs is an input that is transposed.
        orders: the axes.
    """
    inputs, turned_back = list(program.inputs), []
    for i, axes in enumerate(orders):
        if axes is None:
            continue
        x = inputs[i]
        shape = tuple([x.type.shape[a] for a in axes])
        inputs[i] = Variable(ShapeDtype(shape, x.type.dtype), x.device)
        back = tuple([axes.index(i) for i in range(len(axes))])
        turned_back.append(Equation(registry["transpose"], [inputs[i]], {"axes": back}, [x]))
    equations = [*turned_back, *program.equations]
    return Program(program.name, inputs, equations, program.outputs)


class OrderedPlan:
    """A plan that is given its arguments transposed.

    Attributes:
        source, called, has_machine_code, tells: those of the plan.

    Args:
        plan: the plan.
        orders: the axes by which arguments are transposed.
    """

    def __init__(self, plan: Any, orders: InputOrders) -> None:
        self._plan = plan
        self._orders = [(i, axes) for i, axes in enumerate(orders) if axes is not None]
        self.source: str = plan.source
        self.called: Any = plan.called
        self.has_machine_code: bool = plan.has_machine_code
        self.tells: bool = plan.tells

    def __call__(self, buffers: Sequence[Any]) -> list[Any]:
        """Computes the results."""
        return self._plan(self._turned(buffers))  # type: ignore[no-any-return]

    def told(self, buffers: Sequence[Any]) -> Any:
        """Does the same, and returns what the processor has told, too."""
        return self._plan.told(self._turned(buffers))

    def forget(self) -> None:
        """Lets kept memory go, until the plan runs again."""
        self._plan.forget()

    def _turned(self, buffers: Sequence[Any]) -> list[Any]:
        turned = list(buffers)
        for i, axes in self._orders:
            turned[i] = turned[i].transpose(axes)
        return turned
