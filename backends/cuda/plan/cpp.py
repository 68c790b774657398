"""Prints the operations of kernels as CUDA C++.

Floats of 16 bits are held as ``float`` and rounded behind each operation. Whole numbers wrap
around, which C++ promises only of those without a sign.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import isfinite
from typing import TYPE_CHECKING, Any

import numpy as np

from ...cpu.plan.codegen.operands import COMPARISON_SIGNS
from ...kernels.operations import KERNEL_COMPARISONS, KERNEL_FUNCTIONS

if TYPE_CHECKING:
    from ...annotations import DType
    from ...kernels.graph import Expr

__all__ = [
    *("LONG_FUNCTIONS", "MEMORY_TYPES", "called_function", "fold_functor", "held_type"),
    *("SINE_AND_COSINE", "is_reciprocal", "read_element", "shown_number", "shown_operation"),
    "sines_and_cosines",
]

# The types of elements in memory, by the character of the dtype.
MEMORY_TYPES = {
    "?": "bool", "b": "signed char", "h": "short", "i": "int", "l": "long long", "q": "long long",
    "B": "unsigned char", "H": "unsigned short", "I": "unsigned int", "L": "unsigned long long",
    "Q": "unsigned long long", "e": "half_t", "E": "bfloat16_t", "f": "float", "d": "double",
}  # fmt: skip
NARROW = "eE"
C_SIGNS = {
    "add": "+", "subtract": "-", "multiply": "*", "divide": "/", "bitwise_and": "&",
    "bitwise_or": "|", "bitwise_xor": "^", "right_shift": ">>",
}  # fmt: skip
BOOLEAN_SIGNS = {
    **C_SIGNS, "add": "|", "maximum": "|", "multiply": "&", "minimum": "&",
}  # fmt: skip
WRAPPING_SIGNS = {"add": "+", "subtract": "-", "multiply": "*", "left_shift": "<<"}
# The functions of C++ for doubles; those for floats have an f behind their names.
FLOAT_FUNCTIONS = {
    "absolute": "fabs", "arccos": "acos", "arccosh": "acosh", "arcsin": "asin",
    "arcsinh": "asinh", "arctan": "atan", "arctan2": "atan2", "arctanh": "atanh", "power": "pow",
    **{
        name: name
        for name in ("ceil", "floor", "fma", "rint", "sqrt", "trunc", *sorted(KERNEL_FUNCTIONS))
        if not name.startswith("arc") and name != "power"
    },
}  # fmt: skip
# The sine and the cosine at once.
SINE_AND_COSINE = "turned"
# The types that functions take which are long when they are written out.
LONG_FUNCTIONS = {
    f"{name}{end}": type_
    for name in [SINE_AND_COSINE, *(FLOAT_FUNCTIONS[name] for name in KERNEL_FUNCTIONS)]
    for end, type_ in (("", "double"), ("f", "float"))
}
TAKING_TWO = frozenset(["atan2", "fmod", "hypot", "pow"])
HELPERS = {
    "maximum": "larger_of", "minimum": "smaller_of", "floor_divide": "floor_quotient",
    "remainder": "floor_remainder",
}  # fmt: skip
FOLD_FUNCTORS = {
    "add": "plus", "multiply": "times", "maximum": "larger", "minimum": "smaller",
}  # fmt: skip


def held_type(dtype: DType) -> str:
    """Returns the type of a number that is computed with."""
    return "float" if dtype.char in NARROW else MEMORY_TYPES[dtype.char]


def read_element(text: str, dtype: DType) -> str:
    """Returns an element of memory as a number that is computed with."""
    return f"float({text})" if dtype.char in NARROW else text


def fold_functor(operation: str) -> str:
    """Returns the name of the class that folds two numbers."""
    return FOLD_FUNCTORS[operation]


def shown_number(value: Any) -> str:
    """Returns the text of NumPy's scalar, with all its digits."""
    dtype = value.dtype
    if dtype.kind == "b":
        return "true" if value else "false"
    if dtype.kind in "iu":
        whole = int(value)
        end = {("i", 8): "ll", ("u", 8): "ull", ("u", 4): "u"}.get((dtype.kind, dtype.itemsize), "")
        # C++ reads the lowest number as minus one that is too large.
        if dtype.itemsize >= 4 and dtype.kind == "i" and whole == np.iinfo(dtype).min:
            return f"({whole + 1}{end} - 1)"
        return f"({whole}{end})" if whole < 0 else f"{whole}{end}"
    number, end = float(value), "" if dtype.char == "d" else "f"
    if isfinite(number):
        return f"({number.hex()}{end})"
    word = "not_a_number" if number != number else "infinity"
    return f"({'-' * (number < 0)}{word}<{held_type(dtype)}>())"


def called_function(name: str, function: str) -> str:
    """Returns the text of a function that does what a long one does and is called."""
    type_ = LONG_FUNCTIONS[function]
    letters = "xy" if function.removesuffix("f") in TAKING_TWO or function in TAKING_TWO else "x"
    taken = ", ".join(f"{type_} {letter}" for letter in letters)
    result = f"turned_by<{type_}>" if function.startswith(SINE_AND_COSINE) else type_
    return (
        f"static __device__ __noinline__ {result} {name}({taken}) "
        f"{{ return {function}({', '.join(letters)}); }}\n"
    )


def sines_and_cosines(nodes: Iterable[Expr]) -> dict[Expr, tuple[Expr, ...]]:
    """Returns for operands of which both the sine and the cosine are computed these two nodes."""
    found: dict[Expr, dict[str, Expr]] = {}
    for node in nodes:
        if node.operation in ("sin", "cos") and node.dtype.char in "fd":
            found.setdefault(node.operands[0], {})[node.operation] = node
    return {x: (of["sin"], of["cos"]) for x, of in found.items() if len(of) == 2}


def unsigned_type(dtype: DType) -> str:
    """Returns the type without a sign in which whole numbers are computed, and wrap around."""
    return "unsigned long long" if dtype.itemsize == 8 else "unsigned int"


def is_reciprocal(node: Expr) -> bool:
    """Says whether a node is the quotient of 1 and another one, in float32."""
    if node.operation != "divide" or held_type(node.dtype) != "float":
        return False
    first = node.operands[0]
    while first.operation == "spread":
        (first,) = first.operands
    return first.operation == "constant" and first.detail == 1


def shown_operation(node: Expr, operands: Sequence[str], quick: bool = False) -> str:
    """Returns the expression of a node that is no input, number or place.

    Args:
        node: the node.
        operands: the names of its operands.
        quick: whether a flag ``rare`` may say that a quotient is another number.
    """
    name, dtype = node.operation, node.dtype
    taken = node.operands[1 if name == "select" else 0].dtype
    if name == "select":
        condition, x, y = operands
        return f"({condition} ? {x} : {y})"
    if name == "cast":
        return _cast(operands[0], dtype)
    if name == "bits":
        return _bits(operands[0], taken, dtype)
    if name in KERNEL_COMPARISONS:
        return f"({operands[0]} {COMPARISON_SIGNS[name]} {operands[1]})"
    if dtype.kind in "fV":
        if quick and is_reciprocal(node):
            text = f"quick_reciprocal({operands[1]}, rare)"
        else:
            text = _of_floats(name, "" if dtype.char == "d" else "f", operands)
        return f"float(({MEMORY_TYPES[dtype.char]})({text}))" if dtype.char in NARROW else text
    if dtype.kind == "b":
        return f"(!{operands[0]})" if name == "invert" else _signed(BOOLEAN_SIGNS[name], operands)
    return _of_integers(name, dtype, operands)


def _signed(sign: str, operands: Sequence[str]) -> str:
    return f"({operands[0]} {sign} {operands[1]})"


def _of_floats(name: str, end: str, operands: Sequence[str]) -> str:
    if name in C_SIGNS:
        return _signed(C_SIGNS[name], operands)
    if name == "negative":
        return f"(-{operands[0]})"
    function = HELPERS.get(name) or f"{FLOAT_FUNCTIONS[name]}{end}"
    return f"{function}({', '.join(operands)})"


def _of_integers(name: str, dtype: DType, operands: Sequence[str]) -> str:
    own, wide = MEMORY_TYPES[dtype.char], unsigned_type(dtype)
    if name in WRAPPING_SIGNS:
        x, y = operands
        return f"({own})(({wide}){x} {WRAPPING_SIGNS[name]} ({wide}){y})"
    if name == "negative":
        return f"({own})(0u - ({wide}){operands[0]})"
    if name == "invert":
        return f"({own})(~{operands[0]})"
    if name == "absolute":
        (x,) = operands
        return f"({x} < 0 ? ({own})(0u - ({wide}){x}) : {x})" if dtype.kind == "i" else x
    if name in HELPERS:
        return f"{HELPERS[name]}<{own}>({', '.join(operands)})"
    return f"({own}){_signed(C_SIGNS[name], operands)}"


def _cast(x: str, new: DType) -> str:
    if new.kind == "b":
        return f"({x} != 0)"
    if new.char in NARROW:
        return f"float(({MEMORY_TYPES[new.char]})(float({x})))"
    return f"({held_type(new)}){x}"


def _bits(x: str, old: DType, new: DType) -> str:
    if old.char in NARROW:
        return f"({MEMORY_TYPES[new.char]})bits_of(({MEMORY_TYPES[old.char]})({x}))"
    if new.char in NARROW:
        return f"float(of_bits<{MEMORY_TYPES[new.char]}>({x}))"
    return f"same_bits<{held_type(new)}>({x})"

