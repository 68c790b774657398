"""Storages: the allocations in which variables of a program lie, and the last use of each.

A view needs the memory of its base. So liveness is a property of storages, not of variables: one
storage may hold several variables. Results that are joined later are made in rows of the joined
array, so that no join copies them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from ...fresh_results import FRESH_ON_CPUS, FRESH_PRIMITIVES, FRESH_REDUCTIONS
from .codegen.called import is_made_apart, is_ufunc
from .codegen.operands import bytes_of, is_native_array, is_variable

if TYPE_CHECKING:
    from .annotations import EquationLike, Operand, PartsOfArrays, ProgramLike, VariableLike

__all__ = [
    *("JOINS", "Liveness", "Storage", "is_copied", "is_fresh", "is_fresh_everywhere", "rows_of"),
    "rows_of_joined",
]

# Primitives that lay arrays one behind the other along an axis.
JOINS = frozenset({"concatenate", "stack"})
# Broadcast arrays up to this many bytes are copied.
LARGEST_COPIED_BROADCAST_BYTES = 8192


class Storage:
    """One allocation.

    Attributes:
        owner: the variable that it was made for; None for constants.
        outside: whether it belongs to an input or a constant.
        escapes: whether it is returned, or may be.
        last: the number of the last equation that needs it.
        read_only: whether nothing is written into it: it lies outside, or may be that of a constant
            of a body.
    """

    __slots__ = ("escapes", "last", "outside", "owner", "read_only")

    def __init__(self, owner: VariableLike | None, outside: bool) -> None:
        self.owner = owner
        self.outside = outside
        self.escapes = False
        self.last = -1
        self.read_only = outside


class Liveness:
    """Storages and last uses of a program.

    Attributes:
        storages: for every variable the storages in which it may lie.
        dead: for the numbers of equations the variables with their last use there.
    """

    def __init__(self, program: ProgramLike, donated: Collection[int], rows: PartsOfArrays) -> None:
        self.storages: dict[VariableLike, frozenset[Storage]] = {}
        self._constants = frozenset((Storage(None, True),))
        self._joined = {x: Storage(x, False) for x, _ in rows.values()}
        self._rows = rows
        for number, variable in enumerate(program.inputs):
            self.storages[variable] = frozenset((Storage(variable, number not in donated),))
        last: dict[VariableLike, int] = {}
        for number, equation in enumerate(program.equations):
            fresh = is_fresh(equation)
            apart = is_made_apart(equation)
            for variable in equation.outputs:
                self.storages[variable] = self._made(equation, variable, fresh)
                for storage in self.storages[variable] if apart else ():
                    storage.read_only = True
            for x in (*filter(is_variable, equation.operands), *equation.outputs):
                last[x] = number
                for storage in self.storages[x]:
                    storage.last = number
        for out in program.outputs:
            if is_variable(out):
                last.pop(out, None)
                for storage in self.storages[out]:
                    storage.escapes = True
                    storage.last = len(program.equations)
        self.dead: dict[int, list[VariableLike]] = {}
        for variable, number in last.items():
            self.dead.setdefault(number, []).append(variable)

    def of(self, x: Operand) -> frozenset[Storage]:
        """Returns the storages in which an operand may lie."""
        return self.storages[x] if is_variable(x) else self._constants

    def _made(
        self, equation: EquationLike, variable: VariableLike, fresh: bool
    ) -> frozenset[Storage]:
        joined = self._rows[variable][0] if variable in self._rows else variable
        own = frozenset((self._joined.get(joined) or Storage(variable, False),))
        return own if fresh else own.union(*map(self.of, equation.operands))


def is_copied(equation: EquationLike) -> bool:
    """Says whether a broadcast array is so small that a copy is quicker to compute with."""
    x, known = equation.operands[0], equation.outputs[0].type
    if not is_variable(x) or x.type.weak or x.type.dtype != known.dtype:
        return False
    if x.type.size == known.size:
        return False  # it repeats no element, and is a view
    return is_native_array(known) and 0 < bytes_of(known) <= LARGEST_COPIED_BROADCAST_BYTES


def is_fresh(equation: EquationLike) -> bool:
    """Says whether an equation's outputs share no memory with its operands in a plan, for sure."""
    primitive, params = equation.primitive, equation.params
    name = primitive.name
    if primitive.fused or name == "native" or is_made_apart(equation):
        return True
    if name == "broadcast_to":
        return is_copied(equation)
    if name == "index":
        # Index arrays with axes copy. A single element is a number, which is fresh, unless the key
        # has an ellipsis: then it is a view.
        arrays = [getattr(x, "type", x) for x in equation.operands[1:]]
        if any(getattr(x, "shape", ()) for x in arrays):
            return True
        return not equation.outputs[0].type.shape and ... not in params["key"].native
    return name in FRESH_ON_CPUS or is_fresh_everywhere(equation)


def is_fresh_everywhere(equation: EquationLike) -> bool:
    """Says whether the function of an equation returns memory of its own on every backend."""
    primitive, name = equation.primitive, equation.primitive.name
    if name == "astype":
        known = getattr(equation.operands[0], "type", equation.operands[0])
        return bool(equation.outputs[0].type.dtype != getattr(known, "dtype", None))
    if name == "scatter_add":
        # Values may lie where they go to already; not those at index arrays.
        return any(key.arrays for key in equation.params["keys"])
    if name in FRESH_PRIMITIVES:
        return True
    if primitive.family == "elementwise":
        return is_ufunc(primitive.compute)
    return name in FRESH_REDUCTIONS and bool(equation.params.get("axis"))


def rows_of(equation: EquationLike) -> list[Any]:
    """Returns for every operand of a join the key of its part of the joined array."""
    if equation.primitive.name == "stack":
        return list(range(len(equation.operands)))
    parts = []
    end = 0
    for x in equation.operands:
        start, end = end, end + x.type.shape[0]
        parts.append(slice(start, end))
    return parts


def rows_of_joined(program: ProgramLike, told: Sequence[Any], most: int) -> PartsOfArrays:
    """Returns, for results that can be made in rows of a joined array, the array and the rows.

    Args:
        program: the program.
        told: for every equation, a true value if its function takes a buffer for the result.
        most: the largest size of such an array in bytes.
    """
    found: PartsOfArrays = {}
    joins = [e for e in program.equations if e.primitive.name in JOINS and not e.params["axis"]]
    if not joins:
        return found
    results = set(filter(is_variable, program.outputs))
    makers = {e.outputs[0] for e, known in zip(program.equations, told, strict=True) if known}
    for equation in joins:
        out = equation.outputs[0]
        if not is_native_array(out.type) or not 0 < bytes_of(out.type) <= most or out in results:
            continue
        if not all(is_variable(x) and x.type.dtype == out.type.dtype for x in equation.operands):
            continue
        rows = {
            x: (out, part)
            for x, part in zip(equation.operands, rows_of(equation), strict=True)
            if x in makers and x not in found and x not in results and is_native_array(x.type)
        }
        # The rest is copied one by one. If it is most, one join of all is quicker.
        if 2 * len(rows) >= len(equation.operands):
            found.update(rows)
    return found
