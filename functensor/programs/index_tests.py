"""Values that are added at index arrays, and the tests of these where nothing reads there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..primitives.core.registry import registry
from .program import Equation, Variable, type_of

__all__ = ["additions", "additions_to_zeros", "with_index_tests"]


def with_index_tests(equations: Sequence[Equation], live: list[Equation]) -> list[Equation]:
    """Returns live equations, of which scatters test indices if the reads there are not live.

    A scatter is the derivative of a read, and takes its indices for tested by that. An update tests
    its own.

    Args:
        equations: all equations.
        live: those that outputs depend on.
    """
    if len(live) == len(equations):
        return live
    dropped = reads_of(equations) - reads_of(live)
    if not dropped:
        return live
    found: list[Equation] = []
    for equation in live:
        untested = equation.primitive.name == "scatter_add" and not dropped.isdisjoint(
            index_places(equation)
        )
        found += additions_to_zeros(equation) if untested else [equation]
    return found


def reads_of(equations: Sequence[Equation]) -> set[Any]:
    """Returns what reads at computed indices read, as `index_places` tells."""
    reads = [equation for equation in equations if equation.primitive.name == "index"]
    return {place for equation in reads for place in index_places(equation)}


def index_places(equation: Equation) -> list[Any]:
    """Returns the keys of reads and scatters with the shape of the array, and the indices.

    Those whose indices are all constant are left out: staging has tested these.
    """
    name, operands, params = equation.primitive.name, equation.operands, equation.params
    found: list[tuple[Any, Any, Sequence[Any]]] = []
    if name == "index" and len(operands) > 1:
        found.append((params["key"], type_of(operands[0]).shape, operands[1:]))
    elif name == "scatter_add":
        start = len(params["keys"])
        for key in params["keys"]:
            found.append((key, params["shape"], operands[start : start + key.arrays]))
            start += key.arrays
    places = [(*known, *[as_variable(x) for x in indices]) for *known, indices in found]
    return [place for place in places if any(place[2:])]


def as_variable(x: Any) -> Variable | None:
    """Returns an index that is computed; None for a constant."""
    return x if isinstance(x, Variable) else None


def additions_to_zeros(scatter: Equation) -> list[Equation]:
    """Returns equations that add the values of a scatter to an array of zeros."""
    (out,) = scatter.outputs
    zeros = Variable(out.type, out.device)
    zero = np.zeros((), out.type.dtype)
    shape = {"shape": out.type.shape}
    filled = scatter.by(registry["broadcast_to"], [zero], shape, [zeros])
    return [filled, *additions(zeros, scatter, out)]


def additions(x: Variable, scatter: Equation, out: Variable) -> list[Equation]:
    """Returns updates that add the values of a scatter to an array, one after another."""
    keys = scatter.params["keys"]
    start = len(keys)
    updates: list[Equation] = []
    for key, values in zip(keys, scatter.operands, strict=False):
        places = scatter.operands[start : start + key.arrays]
        start += key.arrays
        after = out if len(updates) == len(keys) - 1 else Variable(out.type, out.device)
        updates.append(
            scatter.by(registry["index_add"], [x, values, *places], {"key": key}, [after])
        )
        x = after
    return updates
