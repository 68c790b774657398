"""Kernels of regions, each made once: an optimizer has equal regions for many parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..codegen.operands import constant, is_variable
from .native_run import effort_of
from .region_graph import NotNative, RegionGraph

if TYPE_CHECKING:
    from ....kernels.kernel import LoopKernel
    from ..annotations import EquationLike, Operand, RegionLike
    from ..labels import LabelRead

__all__ = ["RegionKernel", "RegionKernels"]

# What parameters of equations may be for regions to be compared by them.
PLAIN_CLASSES = int, float, str, type(None), np.dtype, type


class RegionKernel:
    """The kernels of a region.

    Attributes:
        graph: the graph of the region.
        effort: its work, in tenths of a nanosecond.
        labels: the inputs that are labels or indices, and who reads them.
    """

    def __init__(self, graph: RegionGraph) -> None:
        self.graph = graph
        self.effort = effort_of(graph)
        self.labels: Sequence[LabelRead] = graph.labels
        # No lock is held while they are made, which the child of a fork would find held for ever.
        self._made: dict[bool, LoopKernel] = {}

    def kernel(self, whole: bool) -> LoopKernel:
        """Returns the kernel that computes all rows in one run, or a block of rows."""
        if whole not in self._made:
            self._made[whole] = self.graph.kernel("kernel", whole)
        return self._made[whole]


class RegionKernels:
    """Makes kernels of the regions of a program."""

    def __init__(self) -> None:
        self._made: dict[Any, RegionKernel] = {}

    def of(
        self,
        equation: EquationLike,
        strides: Sequence[tuple[int, ...]],
        within: tuple[int, ...] | None = None,
    ) -> RegionKernel:
        """Returns the kernel of a region.

        Args:
            equation: the equation of the region.
            strides: how its operands lie.
            within: how its only result lies in another array; None in C order.

        Raises:
            NotNative: there is none, or a result lies in another order.
        """
        key = region_key(equation.primitive, equation.operands, strides)
        key = None if key is None else (within, key)
        found = None if key is None else self._made.get(key)
        if found is None:
            found = self._new(equation, strides, within)
            if key is not None and not found.labels:
                self._made[key] = found
        return found

    def _new(
        self,
        equation: EquationLike,
        strides: Sequence[tuple[int, ...]],
        within: tuple[int, ...] | None,
    ) -> RegionKernel:
        given = equation.primitive, equation.operands
        graph = RegionGraph(*given, None, strides, False, within)
        if any(output.axes is not None for output in graph.outputs):
            raise NotNative("a result in another order")
        return RegionKernel(graph)


def region_key(
    region: RegionLike, given: Sequence[Operand], strides: Sequence[tuple[int, ...]]
) -> Any:
    """Returns what decides the kernel of a region; None where more does than can be compared."""
    program, places = region.program, region.places
    if region.ranges or not all(map(is_variable, given)):
        return None
    numbers: dict[Any, int] = {}
    key: list[Any] = [region.grid, tuple(strides)]

    def enter(x: Any) -> None:
        numbers[x] = len(numbers)
        key.append((x.type.shape, x.type.dtype, x.type.weak, places[x]))

    for x in program.inputs:
        enter(x)
    for equation in program.equations:
        params = [*equation.params.items()]
        if not all(is_told_by_text(value) for _, value in params):
            return None
        # Equal numbers may have different types, and zeros different signs.
        key += (equation.primitive, repr(params))
        for x in equation.operands:
            number = None if is_variable(x) else constant(x)
            if number is None:
                key.append(numbers[x])
            elif np.ndim(number) == 0:
                key.append((type(number), repr(number)))
            else:
                return None
        for out in equation.outputs:
            enter(out)
    key.append(tuple([numbers[x] for x in program.outputs]))
    return tuple(key)


def is_told_by_text(value: Any) -> bool:
    """Says whether a parameter's text tells all of it."""
    if isinstance(value, tuple):
        return all(map(is_told_by_text, value))
    return isinstance(value, PLAIN_CLASSES)
