"""The memory in which every variable of a program lies, and until when it is needed.

A view needs the memory of what it is a view of, so that liveness is that of storages: what one
allocation holds, whatever names it has.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ...fresh_results import FRESH_PRIMITIVES, FRESH_REDUCTIONS
from .codegen.operands import bytes_of, is_native_array, is_variable
from .codegen.ufuncs import is_ufunc

if TYPE_CHECKING:
    from .annotations import EquationLike, Operand, ProgramLike, VariableLike

__all__ = ["Liveness", "Storage"]

# What broadcast arrays take that are copied.
LARGEST_COPIED_BROADCAST_BYTES = 8192
NO_ROWS: Mapping[VariableLike, tuple[VariableLike, Any]] = MappingProxyType({})


class Storage:
    """One allocation.

    Attributes:
        owner: the variable that it was made for.
        outside: whether it is an input's or a constant's, which nothing may be written into.
        escapes: whether it is, or may be, returned.
        last: the number of the last equation that needs it.
    """

    __slots__ = ("escapes", "last", "outside", "owner")

    def __init__(self, owner: VariableLike | None, outside: bool) -> None:
        self.owner = owner
        self.outside = outside
        self.escapes = False
        self.last = -1


class Liveness:
    """Storages and last uses of a program.

    Args:
        program: the program.
        donated: the numbers of inputs that may be overwritten.
        rows: for results that are made in the memory of another one that one, and which part.

    Attributes:
        storages: for every variable where it may lie.
        dead: for the numbers of equations the variables that nothing uses after them.
    """

    def __init__(
        self,
        program: ProgramLike,
        donated: Collection[int] = (),
        rows: Mapping[VariableLike, tuple[VariableLike, Any]] = NO_ROWS,
    ) -> None:
        self.storages: dict[VariableLike, frozenset[Storage]] = {}
        self._constants = frozenset((Storage(None, True),))
        self._joined = {x: Storage(x, False) for x, _ in rows.values()}
        self._rows = rows
        for number, variable in enumerate(program.inputs):
            self.storages[variable] = frozenset((Storage(variable, number not in donated),))
        last: dict[VariableLike, int] = {}
        for number, equation in enumerate(program.equations):
            fresh = is_fresh(equation)
            for variable in equation.outputs:
                self.storages[variable] = self._made(equation, variable, fresh)
            for x in filter(is_variable, equation.operands):
                last[x] = number
                for storage in self.storages[x]:
                    storage.last = number
            for x in equation.outputs:
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
        """Returns where an operand may lie."""
        return self.storages[x] if is_variable(x) else self._constants

    def _made(
        self, equation: EquationLike, variable: VariableLike, fresh: bool
    ) -> frozenset[Storage]:
        joined = self._rows[variable][0] if variable in self._rows else variable
        own = frozenset((self._joined.get(joined) or Storage(variable, False),))
        return own if fresh else own.union(*map(self.of, equation.operands))


def is_copied(equation: EquationLike) -> bool:
    """Says whether a broadcast array is so small that it is quicker copied than viewed."""
    x, known = equation.operands[0], equation.outputs[0].type
    if not is_variable(x) or x.type.weak or x.type.dtype != known.dtype:
        return False
    return is_native_array(known) and 0 < bytes_of(known) <= LARGEST_COPIED_BROADCAST_BYTES


def is_fresh(equation: EquationLike) -> bool:
    """Says whether an equation's outputs surely share no memory with its operands.

    Where that is declared nowhere, a result is taken to be a view of any operand, maybe.
    """
    primitive, params = equation.primitive, equation.params
    name = primitive.name
    if name in FRESH_PRIMITIVES or primitive.fused:
        return True
    if name == "broadcast_to":
        return is_copied(equation)
    if name == "index":
        # Index arrays copy, but those without axes are numbers. A single element is a number too,
        # and with an ellipsis a view.
        arrays = [getattr(x, "type", x) for x in equation.operands[1:]]
        if any(getattr(x, "shape", ()) for x in arrays):
            return True
        return not equation.outputs[0].type.shape and ... not in params["key"].native
    if name == "astype":
        x = equation.operands[0]
        known = getattr(x, "type", x)
        return bool(equation.outputs[0].type.dtype != getattr(known, "dtype", None))
    if primitive.family == "elementwise":
        return is_ufunc(primitive.compute)
    return name in FRESH_REDUCTIONS and bool(params.get("axis"))
