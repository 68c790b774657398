"""Kernels of equations whose values are all single numbers, as conditions of loops are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ....config import config
from ....kernels.check import check_kernel
from ....kernels.graph import ExprGraph
from ....kernels.kernel import LoopKernel
from ....kernels.schedule import scheduled
from ..codegen.operands import constant, is_variable
from .complex_nodes import AnyNode, input_node, kernel_result, leading
from .elementwise_nodes import elementwise
from .machine_dtypes import folded_dtypes, is_machine_dtype
from .region_graph import NotNative

if TYPE_CHECKING:
    from ..annotations import EquationLike, ProgramLike, VariableLike

__all__ = ["CALL_EFFORT", "DeferredNumbers", "NumberEquations", "is_of_numbers", "uses_in_program"]

# The efforts of a call and of an equation of numbers, in tenths of a nanosecond.
CALL_EFFORT = 50
NUMBER_EFFORT = 20
# Reductions of one number that return it; a sum begins with zero.
REDUCTIONS_OF_ONE = frozenset({"max", "mean", "min", "prod", "sum"})


def is_of_numbers(equation: EquationLike) -> bool:
    """Says whether all values of an equation are single numbers, and a kernel computes them."""
    if len(equation.outputs) != 1 or equation.primitive.fused:
        return False
    variables = [x for x in equation.operands if is_variable(x)]
    if any(not is_variable(x) and np.size(constant(x)) != 1 for x in equation.operands):
        return False
    for x in (*variables, *equation.outputs):
        if x.type.size != 1 or not is_machine_dtype(x.type.dtype):
            return False
    graph = ExprGraph()
    nodes = {x: input_node(graph, i, x.type.dtype, frozenset()) for i, x in enumerate(variables)}
    try:
        number_node(graph, equation, nodes)
    except NotNative:
        return False
    return True


def number_node(
    graph: ExprGraph, equation: EquationLike, nodes: dict[VariableLike, AnyNode]
) -> AnyNode:
    """Returns the node of an equation of numbers.

    Args:
        graph: makes nodes.
        equation: the equation.
        nodes: the nodes of variables.

    Raises:
        NotNative: there is none.
    """
    name, first = equation.primitive.name, equation.operands[0]
    if name in REDUCTIONS_OF_ONE and is_variable(first):
        dtype = first.type.dtype
        if dtype.char not in folded_dtypes(name) or dtype != equation.outputs[0].type.dtype:
            raise NotNative(name)
        if dtype.kind == "c":
            raise NotNative(name)
        found = leading(nodes[first])
        return found + 0 if name in ("mean", "sum") else found
    if name == "reshape" and is_variable(first):
        return nodes[first]
    known = [nodes[x] if is_variable(x) else None for x in equation.operands]
    return elementwise(graph, equation, known)


class NumberEquations:
    """Equations of numbers, in order, as one kernel.

    Attributes:
        inputs: the variables that it reads.
        results: those that it computes for others.
        effort: its work, in tenths of a nanosecond.
        kernel: the kernel.

    Args:
        equations: the equations.
        results: the variables that others need.
    """

    def __init__(self, equations: Sequence[EquationLike], results: Sequence[VariableLike]) -> None:
        graph = ExprGraph()
        nodes: dict[VariableLike, Any] = {}
        self.inputs: list[VariableLike] = []
        self.results = results
        self.effort = CALL_EFFORT + NUMBER_EFFORT * len(equations)
        for equation in equations:
            for x in equation.operands:
                if is_variable(x) and x not in nodes:
                    nodes[x] = input_node(graph, len(self.inputs), x.type.dtype, frozenset())
                    self.inputs.append(x)
            (out,) = equation.outputs
            nodes[out] = number_node(graph, equation, nodes)
        given = [leading(nodes[x]) for x in self.inputs]
        ends = [kernel_result(nodes[x], frozenset(), 1) for x in results]
        self.kernel: LoopKernel = scheduled("numbers", graph, given, ends, whole=True)
        if config.check_programs:
            check_kernel(self.kernel)


def uses_in_program(program: ProgramLike) -> Counter[VariableLike]:
    """Returns how often each variable of a program is an operand or an output."""
    operands = [x for e in program.equations for x in e.operands]
    return Counter(filter(is_variable, [*operands, *program.outputs]))


class DeferredNumbers:
    """Defers equations of numbers of a program, so that many of them are one kernel.

    Args:
        uses: the program's, by `uses_in_program`.
    """

    def __init__(self, uses: Counter[VariableLike]) -> None:
        self._uses = uses
        self._equations: list[EquationLike] = []
        self._made: set[VariableLike] = set()

    def take(self, equation: EquationLike) -> bool:
        """Defers an equation if all its values are numbers; says whether it did."""
        if not is_of_numbers(equation):
            return False
        self._equations.append(equation)
        self._made.update(equation.outputs)
        return True

    def are_read_by(self, equation: EquationLike) -> bool:
        """Says whether an equation needs one that was deferred."""
        return not self._made.isdisjoint(filter(is_variable, equation.operands))

    def closed(self) -> list[NumberEquations]:
        """Returns the deferred equations as one kernel; nothing where there are none."""
        equations, self._equations, self._made = self._equations, [], set()
        inner = Counter(x for e in equations for x in e.operands if is_variable(x))
        made = [x for e in equations for x in e.outputs]
        results = [x for x in made if self._uses[x] > inner[x]]
        return [NumberEquations(equations, results)] if results else []
