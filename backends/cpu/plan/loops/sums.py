"""Sums over the steps of a loop, added up where their terms are made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..codegen.operands import constant, is_variable

if TYPE_CHECKING:
    from ....annotations import KeyLike
    from ..annotations import EquationLike, Operand, ProgramLike, VariableLike

__all__ = ["Outer", "is_zero", "keys_of", "makers_of", "outer_sums", "terms_of_totals"]


def terms_of_totals(program: ProgramLike, totals: Mapping[str, Operand]) -> dict[VariableLike, str]:
    """Returns the variables whose only use is a sum, by the name of its total.

    For a sum of two such values, both are added to the total.
    """
    uses, made = uses_of(program), makers_of(program)
    found: dict[VariableLike, str] = {}
    left = list(totals.items())
    while left:
        name, x = left.pop()
        if not is_variable(x) or uses[x] != 1 or x not in made or not x.type.shape:
            continue
        found[x] = name
        if made[x].primitive.name == "add":
            left += [(name, y) for y in made[x].operands if is_variable(y) and y.type == x.type]
    return found


def uses_of(program: ProgramLike) -> Counter[VariableLike]:
    """Returns how often each variable is an operand or an output."""
    operands = (x for e in program.equations for x in e.operands)
    return Counter(filter(is_variable, chain(operands, program.outputs)))


def makers_of(program: ProgramLike) -> dict[VariableLike, EquationLike]:
    """Returns the equation that makes each variable."""
    return {out: equation for equation in program.equations for out in equation.outputs}


def is_zero(x: Operand) -> bool:
    """Says whether an output is a constant that adds nothing."""
    if is_variable(x):
        return False
    # One element tells about zeros that are broadcast; there may be none.
    value = np.asarray(constant(x))
    return not (value if any(value.strides) else value[(slice(1),) * value.ndim]).any()


def keys_of(equation: EquationLike) -> Iterator[tuple[KeyLike, Any, list[Any]]]:
    """Yields every key of a scatter with its values and its index arrays."""
    keys = equation.params["keys"]
    start = len(keys)
    for key, values in zip(keys, equation.operands, strict=False):
        yield key, values, list(equation.operands[start : start + key.arrays])
        start += key.arrays


class Outer(NamedTuple):
    """A sum over all steps of a column times a row: one product of all columns and rows.

    Attributes:
        total: the name of the sum.
        left, right: the vectors that are the column and the row of a step.
    """

    total: str
    left: VariableLike
    right: VariableLike


def outer_sums(
    program: ProgramLike, sums: Mapping[VariableLike, str], fixed: Collection[Operand]
) -> tuple[list[Outer], set[VariableLike]]:
    """Returns the sums of columns times rows, and the variables that nothing else needs.

    ``sums`` has the variables that are only added to a total, ``fixed`` the inputs that are equal
    in all steps.
    """
    uses, made = uses_of(program), makers_of(program)
    found: list[Outer] = []
    unneeded: set[VariableLike] = set()
    for x, total in sums.items():
        if made[x].primitive.name != "multiply" or x.type.dtype.char not in "fd":
            continue
        pair = {y.type.shape[1:] == (1,): y for y in made[x].operands if is_variable(y)}
        if len(pair) != 2 or not all(is_line_of(y, x) for y in pair.values()):
            continue
        lines = {side: source_of(y, made) for side, y in pair.items()}
        if any(y.type.ndim != 1 or y in fixed for y in lines.values()):
            continue
        found.append(Outer(total, lines[True], lines[False]))
        unneeded.add(x)
        uses.subtract(pair.values())
        unneeded.update(y for side, y in pair.items() if not uses[y] and y is not lines[side])
    return found, unneeded


def is_line_of(y: VariableLike, x: VariableLike) -> bool:
    """Says whether an operand is a column or a row of the lengths of a matrix."""
    (n, m), dtype = x.type.shape if x.type.ndim == 2 else (0, 0), x.type.dtype
    return min(n, m) > 1 and y.type.dtype == dtype and y.type.shape in ((n, 1), (1, m))


def source_of(x: VariableLike, made: Mapping[VariableLike, EquationLike]) -> VariableLike:
    """Returns the variable that a variable is reshaped from, through all reshapes."""
    while x in made and made[x].primitive.name == "reshape" and is_variable(made[x].operands[0]):
        (x,) = made[x].operands
    return x
