"""What is added up over the steps of a loop, added where it is made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from .values import constant, is_variable

__all__ = ["is_zero", "keys_of", "sums_of"]


def sums_of(program: Any, totals: Mapping[str, Any]) -> dict[Any, str]:
    """Returns the variables that are used for nothing but a sum, by the name of its total.

    A sum of two such values is none itself: both are added to the total.

    Args:
        program: the body.
        totals: for every total the output that is added to it.
    """
    uses = Counter(x for e in program.equations for x in e.operands if is_variable(x))
    uses.update(x for x in program.outputs if is_variable(x))
    made = {out: equation for equation in program.equations for out in equation.outputs}
    found: dict[Any, str] = {}
    left = list(totals.items())
    while left:
        name, x = left.pop()
        if not is_variable(x) or uses[x] != 1 or x not in made or not x.type.shape:
            continue
        found[x] = name
        if made[x].primitive.name == "add":
            left += [(name, y) for y in made[x].operands if is_alike(x, y)]
    return found


def is_alike(x: Any, y: Any) -> bool:
    """Says whether an operand is a variable of a result's shape and dtype."""
    if not is_variable(y):
        return False
    return bool(x.type.shape == y.type.shape and x.type.dtype == y.type.dtype)


def is_zero(x: Any) -> bool:
    """Says whether an output is a constant that adds nothing."""
    if is_variable(x):
        return False
    # Zeros that broadcast take no memory, and are looked at in no time.
    value = np.asarray(constant(x))
    return not (value if any(value.strides) else value[(0,) * value.ndim]).any()


def keys_of(equation: Any) -> Iterator[tuple[Any, Any, list[Any]]]:
    """Returns for every key of a scatter itself, its values and its index arrays."""
    keys = equation.params["keys"]
    start = len(keys)
    for key, values in zip(keys, equation.operands, strict=False):
        yield key, values, list(equation.operands[start : start + key.arrays])
        start += key.arrays
