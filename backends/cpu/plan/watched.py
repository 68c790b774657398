"""Plans that report where NaN or infinity is made: what their lines have beside those of others.

NumPy asks the processor after each ufunc whether a result overflowed or was invalid, which costs
nothing. Sums, products, quotients and roots of real numbers are computed by instructions that
always tell, so that their lines stay as they are. Many primitives cannot make NaN or infinity. The
results of all others are tested. What is reported may be a false alarm: whoever runs the plan looks
closer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ...blas_calls import SHORTEST_BLAS_THREADED_VECTOR
from ...finiteness import INEXACT_KINDS, has_infinity, has_nan, is_finite
from ...restoring import reporting, silently
from .codegen.operands import is_variable

if TYPE_CHECKING:
    from .annotations import EquationLike, VariableType

__all__ = [
    "as_reporting",
    "is_reported",
    "is_tested",
    "may_make",
    "quietly",
    "quietly_called",
    "report_results",
    "write_report",
]

# Ufuncs that are one instruction of the processor for each number.
INSTRUCTIONS = ("add", "divide", "multiply", "reciprocal", "sqrt", "square", "subtract")
# Primitives, and ufuncs that they are made of, whose results are finite if their operands are, and
# have NaN only if these do.
HARMLESS = frozenset({
    "broadcast_to", "ceil", "checkpoint_name", "clip", "concatenate", "conj", "copysign",
    "expand_dims", "flip", "floor", "imag", "max", "maximum", "min", "minimum", "negative",
    "optimization_barrier", "real", "relu", "relu_grad", "reshape", "roll", "sign", "sort",
    "squeeze", "stack", "stop_gradient", "tanh", "transpose", "trunc", "where",
})  # fmt: skip
# The call of a function at the beginning of a line's right side.
CALL = re.compile(r"((?:np\.)?[A-Za-z_]\w*)\(")


@cache
def reported_ufuncs() -> frozenset[str]:
    """Returns the names of the ufuncs of which this machine tells that they overflow."""
    infinity = np.inf

    def cases(largest: Any) -> dict[str, Sequence[tuple[Any, ...]]]:
        # Operands whose result is infinite, or NaN.
        return {
            "add": [(largest, largest), (infinity, -infinity)],
            "divide": [(largest, 0.5), (1.0, 0.0), (0.0, 0.0)],
            "multiply": [(largest, largest), (0.0, infinity)],
            "reciprocal": [(0.0,)],
            "sqrt": [(-1.0,)],
            "square": [(largest,)],
            "subtract": [(-largest, largest), (infinity, infinity)],
        }

    def tells(name: str, char: str, operands: tuple[Any, ...]) -> bool:
        found: dict[str, int] = {}
        # Such an operand stands last, where registers are not full.
        columns = [np.array([1.0] * 36 + [x], char) for x in operands]
        reporting(found.__setitem__, getattr(np, name), columns)
        return bool(found)

    return frozenset(
        name
        for name in INSTRUCTIONS
        if all(
            tells(name, char, operands)
            for char in "fd"
            for operands in cases(np.finfo(char).max)[name]
        )
    )


def is_reported(ufunc: str, dtypes: Sequence[Any]) -> bool:
    """Says whether NumPy reports NaN and infinity that a ufunc makes in a loop of some dtypes."""
    return ufunc in reported_ufuncs() and all(dtype.char in "fd" for dtype in dtypes)


def may_make(equation: EquationLike) -> bool:
    """Says whether an equation may make NaN or infinity, as far as its name and type tell."""
    if equation.primitive.name in HARMLESS:
        return False
    return any(has_inexact_type(out.type) for out in equation.outputs)


def has_inexact_type(known: VariableType) -> bool:
    """Says whether values of a type may be NaN or infinite."""
    return known.dtype.kind in INEXACT_KINDS


def quietly(function: Callable[..., Any], *args: Any, **params: Any) -> Any:
    """Calls a function of which nothing is reported: its result is tested."""
    return silently(partial(function, **params) if params else function, args)


def quietly_called(text: str, name: str) -> str:
    """Returns the text of a call with the function called by `quietly`, whose name is given."""
    return CALL.sub(rf"{name}(\1, ", text, count=1) if CALL.match(text) else text


def report_results(results: Sequence[Any], *operands: Any) -> None:
    """Reports NaN and infinity in results that are in no operand.

    Args:
        results: arrays and numbers.
        operands: what they were made of. One in whose memory a result lies counts as finite.
    """
    for x in results:
        if is_finite(x):
            continue
        whole = [v for v in operands if not np.may_share_memory(v, x)]
        finite = all(map(is_finite, whole))
        report: Any = np.geterrcall()
        if has_nan(x) and (finite or not any(map(has_nan, whole))):
            report("NaN", 0)
        if finite and has_infinity(x):
            report("infinity", 0)


def as_reporting(work: Callable[[], Any]) -> Callable[[], Any]:
    """Returns a function for other threads that reports to the one to whom this thread reports."""
    report: Any = np.geterrcall()
    return partial(reporting, report, work, ())


def is_tested(ufunc: Any, equation: EquationLike) -> bool:
    """Says whether the results of an equation are tested; regions and bodies test their own.

    Args:
        ufunc: the ufunc that computes it and the dtypes of its loop, or None.
        equation: the equation.
    """
    if equation.primitive.bodies or not may_make(equation):
        return False
    if equation.primitive.name == "index" and len(equation.operands) == 1:
        return False
    return ufunc is None or not is_reported(ufunc[0].__name__, ufunc[1])


def write_report(writer: Any, number: int, equation: EquationLike) -> None:
    """Writes the test of an equation's results, if they need one."""
    if not is_tested(writer.ufuncs[number], equation):
        return
    source = writer.source
    results = "".join(f"{source.names[out]}, " for out in equation.outputs)
    given = [source.names[x] if is_variable(x) else source.shown(x) for x in equation.operands]
    source.add(f"{source.bind(report_results)}({', '.join([f'({results})', *given])})", equation)
    sizes = [out.type.size for out in equation.outputs]
    writer.shares |= max(sizes) >= SHORTEST_BLAS_THREADED_VECTOR
