"""Which machine code is such that the processor tells of each NaN and infinity that it makes.

The flags of a thread tell of sums, products, quotients and roots. The code is the same whether
anybody asks or not. A plan is asked if all of it is segments of equations that are made of such
arithmetic, or that make neither NaN nor infinity. LLVM may compute a number for those lanes alone
that need it: a choice that drops the others hides what was told of them. So a plan is not asked
where a result is hidden in that way. What is hidden within an equation is in none of its results.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ....kernels.kernel import LoopKernel
from ..codegen.operands import is_variable
from ..watched import has_inexact_type, may_make
from .elementwise_nodes import operand_dtype
from .segment_code import VIEW_NAMES
from .work_in_parts import KernelInParts, ProductInParts

if TYPE_CHECKING:
    from ..annotations import EquationLike, ProgramLike
    from .segments import NativeProgram, Segment

__all__ = ["tells_all"]

# Primitives that make NaN and infinity by arithmetic alone. The exponentials and logarithms of the
# losses are of numbers for which they are finite.
TOLD_PRIMITIVES = frozenset({
    "add", "cross_entropy", "cross_entropy_grad", "divide", "matmul", "mean", "multiply", "sqrt",
    "square", "subtract", "sum",
})  # fmt: skip
# A sum takes a product in without rounding it by itself, so that nothing is told of it.
PRODUCTS, SUMS = frozenset({"multiply", "square"}), frozenset({"mean", "sum"})
# The letters of the dtypes of whole numbers and truth values, and of the floats that are told of.
WHOLE_CHARS, TOLD_CHARS = frozenset("?bBhHiIlLqQ"), frozenset("fd")
# BLAS computes smaller products on the calling thread.
SMALLEST_THREADED_WORK = 1 << 13


def tells_all(machine: NativeProgram, shares: bool) -> bool:
    """Says whether the processor tells of each NaN and infinity that a program makes.

    Args:
        machine: the program, with its segments.
        shares: whether the plan has BLAS compute on the threads that call it.
    """
    return machine.is_machine_code and all(tells(x, shares) for x in machine.segments)


def tells(segment: Segment, shares: bool) -> bool:
    """Says the same of a segment."""
    kernels = [call.kernel for call in segment.code.calls]
    known = all(isinstance(x, KernelInParts | LoopKernel | ProductInParts) for x in kernels)
    largest = segment.code.largest_product
    return (
        known
        and (shares or largest < SMALLEST_THREADED_WORK)
        and all(map(is_told, segment.code.equations))
    )


def is_told(equation: EquationLike) -> bool:
    """Says whether the processor tells of each NaN and infinity that an equation makes."""
    name = equation.primitive.name
    if not has_known_dtypes(equation):
        return False
    if equation.primitive.fused:
        program = equation.primitive.program
        return all(map(is_told_in_region, program.equations)) and not hides(program)
    return name == "matmul" or (name in VIEW_NAMES and len(equation.operands) == 1)


def has_known_dtypes(equation: EquationLike) -> bool:
    """Says whether an equation takes and makes no numbers but those that are told of."""
    dtypes = [x.type.dtype for x in equation.outputs]
    dtypes += map(operand_dtype, equation.operands)
    return {dtype.char for dtype in dtypes} <= WHOLE_CHARS | TOLD_CHARS


def is_told_in_region(equation: EquationLike) -> bool:
    """Says whether the processor tells of what an equation of a region makes, where it is seen."""
    told = equation.primitive.name in TOLD_PRIMITIVES
    return (
        has_known_dtypes(equation)
        and not equation.primitive.bodies
        and (told or (not may_make(equation) and len(equation.outputs) == 1))
    )


def hides(program: ProgramLike) -> bool:
    """Says whether results of a region's equations may be dropped before anything is told."""
    uses: dict[Any, set[str]] = {x: {"return"} for x in program.outputs}
    for equation in program.equations:
        for x in filter(is_variable, equation.operands):
            uses.setdefault(x, set()).add(equation.primitive.name)
    given = set(program.inputs)
    for equation in program.equations:
        name = equation.primitive.name
        seen = TOLD_PRIMITIVES | {"return"}
        if name in PRODUCTS:
            seen -= SUMS
        # The sign of a difference is known without it, and that of a product. That of a sum of two
        # numbers in memory is not: it is computed for all lanes.
        if name == "add" and all(is_variable(x) and x in given for x in equation.operands):
            seen |= {"relu"}
        if name in TOLD_PRIMITIVES and any(
            has_inexact_type(out.type) and seen.isdisjoint(uses.get(out, ()))
            for out in equation.outputs
        ):
            return True
    return False
