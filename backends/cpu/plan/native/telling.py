"""Finds machine code of which the processor tells each NaN and infinity that it makes.

The flags of a thread tell of sums, products, quotients and roots. The code is the same whether
anybody asks or not. A plan is asked if all of it is segments of equations that are made of such
arithmetic, or that make neither NaN nor infinity. LLVM may compute a number for those lanes alone
that need it: a choice that drops the others hides what was told of them. While it compiles, it may
also compute with numbers of the text that choices take, of which nothing is told. So a plan is not
asked where a result is hidden in these ways. What is hidden within an equation is in none of its
results.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ....kernels.kernel import LoopKernel
from ..codegen.operands import constant, is_variable
from ..watched import has_inexact_type, may_make
from .elementwise_nodes import operand_dtype
from .segment_code import VIEW_NAMES
from .work_in_parts import KernelInParts, ProductInParts

if TYPE_CHECKING:
    from ..annotations import EquationLike
    from .shared_segments import SharedSegment

__all__ = ["tells"]

# Primitives that make NaN and infinity by arithmetic alone. Exponentials end with products that
# overflow, and the logarithms of these are of numbers for which they are finite.
TOLD_ELEMENTWISE = frozenset({
    "add", "divide", "exp", "multiply", "sigmoid", "sigmoid_grad", "silu", "silu_grad", "sqrt",
    "square", "subtract", "tanh_grad",
})  # fmt: skip
TOLD_PRIMITIVES = TOLD_ELEMENTWISE | {
    "affine_normalize", "cross_entropy", "cross_entropy_grad", "log_softmax", "mean", "normalize",
    "normalize_grad", "softmax", "softmax_grad", "sum", "var",
}  # fmt: skip
# A sum takes a product in without rounding it by itself. What that has overflowed by is lost where
# the rest of the sum has the other sign; squares have one sign.
TOLD_PRODUCTS, TOLD_SUMS = frozenset({"multiply"}), frozenset({"mean", "sum"})
# What a result is used for where it is not dropped. The sign of a difference or a product is known
# without it. That of a sum of two numbers in memory is not: it is computed wherever the region is.
SEEING = TOLD_PRIMITIVES | {"memory"}
SEEING_SUMS = SEEING | {"relu", "tanh"}
# Choices that take a number of their own, and what has elements of others from all of an axis.
OWN_NUMBERS, ALONG_AXES = frozenset({"relu", "relu_grad", "sign"}), frozenset({"max", "min"})
# The letters of the dtypes of whole numbers and truth values, and of the floats that are told of.
UNTOLD_CHARS, TOLD_CHARS = frozenset("?bBhHiIlLqQ"), frozenset("fd")


def tells(code: SharedSegment, outputs: Sequence[Any], shares: bool) -> bool:
    """Says whether the processor tells of each NaN and infinity that a segment makes.

    Args:
        code: its equations.
        outputs: the variables that it returns.
        shares: whether the plan has BLAS compute on the threads that call it.
    """
    kinds = KernelInParts, LoopKernel, ProductInParts
    known = all(isinstance(call.kernel, kinds) for call in code.calls)
    if not known or not (shares or not code.products_may_thread(careful=True)):
        return False
    numbers = []
    for equation in code.equations:
        name, region = equation.primitive.name, equation.primitive
        if not has_known_dtypes(equation):
            return False
        if region.fused:
            program = region.program
            if not all(map(is_told, program.equations)):
                return False
            if hides(program.equations, users_of(program.equations, program.outputs)):
                return False
            if foresees(program.equations):
                return False
        elif name in VIEW_NAMES:
            if len(equation.operands) > 1:
                return False
        elif name != "matmul":
            numbers.append(equation)
    uses = users_of(code.equations, outputs)
    return all(map(is_told, numbers)) and not (hides(numbers, uses) or foresees(numbers))


def has_known_dtypes(equation: EquationLike) -> bool:
    """Says whether an equation takes and makes no numbers but those that are told of."""
    dtypes = [x.type.dtype for x in equation.outputs]
    dtypes += map(operand_dtype, equation.operands)
    return {dtype.char for dtype in dtypes} <= UNTOLD_CHARS | TOLD_CHARS


def is_told(equation: EquationLike) -> bool:
    """Says whether the processor tells of what an equation makes, where that is not dropped."""
    told = equation.primitive.name in TOLD_PRIMITIVES
    return (
        has_known_dtypes(equation)
        and not equation.primitive.bodies
        and (told or (not may_make(equation) and len(equation.outputs) == 1))
    )


def users_of(equations: Sequence[EquationLike], outputs: Sequence[Any]) -> dict[Any, set[str]]:
    """Returns the names of the primitives that use each variable, "memory" among them.

    Results of a region, operands of others, and views lie in memory.
    """
    uses: dict[Any, set[str]] = {x: {"memory"} for x in filter(is_variable, outputs)}
    for equation in equations:
        primitive = equation.primitive
        stored = primitive.fused or primitive.name in VIEW_NAMES or primitive.name == "matmul"
        for x in filter(is_variable, equation.operands):
            uses.setdefault(x, set()).add("memory" if stored else primitive.name)
    return uses


def hides(equations: Sequence[EquationLike], uses: dict[Any, set[str]]) -> bool:
    """Says whether results of equations of one kernel may be dropped before anything is told."""
    made = {x for equation in equations for x in equation.outputs}
    for equation in equations:
        name, operands = equation.primitive.name, equation.operands
        from_memory = all(is_variable(x) and x not in made for x in operands)
        seeing = SEEING_SUMS if name == "add" and from_memory else SEEING
        if name in TOLD_PRODUCTS:
            seeing = seeing - TOLD_SUMS
        if name in TOLD_PRIMITIVES and any(
            has_inexact_type(out.type) and seeing.isdisjoint(uses.get(out, ()))
            for out in equation.outputs
        ):
            return True
    return False


def foresees(equations: Sequence[EquationLike]) -> bool:
    """Says whether LLVM may compute with numbers of a kernel's text alone, as it compiles.

    It does so in ``1 / where(x > 0, x, 0.0)`` for elements that are not positive.
    """
    # What may be such a number.
    literal: set[Any] = set()
    for equation in equations:
        name = equation.primitive.name
        known = [
            x in literal if is_variable(x) else np.size(constant(x)) == 1
            for x in equation.operands
        ]
        if name in TOLD_ELEMENTWISE:
            if all(known):
                return True
        elif name not in TOLD_PRIMITIVES | ALONG_AXES and (any(known) or name in OWN_NUMBERS):
            literal.update(equation.outputs)
    return False
