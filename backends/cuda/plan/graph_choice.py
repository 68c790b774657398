"""Says which programs a GPU runs as CUDA graphs."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

from ...cpu.plan.codegen.operands import is_variable
from .donated_memory import DonatedMemory
from .plan_text import is_better_alone, is_host_number, is_of_host

if TYPE_CHECKING:
    from ...cpu.plan.annotations import EquationLike, ProgramLike

__all__ = ["can_be_graph", "can_be_small_graph", "is_collective"]

# Operations that queue nothing.
QUEUING_NOTHING = frozenset(
    {"astype", "broadcast_to", "flip", "reshape", "stop_gradient", "transpose"}
)
# A graph is worth it for so many operations.
FEWEST_RECORDED = 4
# A graph of fewer, if it copies results of so many bytes together, at most.
MOST_COPIED_BYTES = 1 << 20


def can_be_graph(program: ProgramLike, fewest: int = FEWEST_RECORDED) -> bool:
    """Says whether a graph may do all of a program's work on the GPU.

    Calls decide on the host what they do. A number of the host's may be read by kernels that are
    made for the program alone.

    Args:
        program: the program, whose equations are launches.
        fewest: for how many of them a graph is worth it.
    """
    count = 0
    for equation in program.equations:
        primitive, operands = equation.primitive, equation.operands
        numbers = [x for x in operands if is_variable(x) and is_host_number(x)]
        if is_of_host(equation):
            if primitive.impl is None or len(numbers) < sum(map(is_variable, operands)):
                return False
            continue
        if primitive.impl is None and not primitive.fused:
            return False
        if numbers and (not primitive.fused or is_better_alone(primitive)):
            return False
        count += primitive.name not in QUEUING_NOTHING
    return count >= fewest and not any(
        equation.primitive.effect for equation in program.equations
    )


def can_be_small_graph(program: ProgramLike, donated: Sequence[int]) -> bool:
    """Says whether a graph is worth it for a program of few operations.

    The host does nothing for it but launch it, and its results are small, or lie in memory that is
    given away.

    Args:
        program: the program, whose equations are launches.
        donated: the numbers of the inputs whose memory results may take.
    """
    values = [*program.inputs, *program.outputs]
    if not all(map(is_variable, values)) or any(map(is_host_number, values)):
        return False
    if any(is_of_host(e) or is_collective(e) for e in program.equations):
        return False
    taken = DonatedMemory(program, donated).taken
    inputs = {*program.inputs}
    copied = [x for k, x in enumerate(program.outputs) if k not in taken and x not in inputs]
    size = sum(prod(x.type.shape) * x.type.dtype.itemsize for x in copied)
    return size <= MOST_COPIED_BYTES and can_be_graph(program, 1)


def is_collective(equation: EquationLike) -> bool:
    """Says whether processes compute an equation together."""
    return getattr(equation.primitive, "collective", False)
