"""Computes many small elementwise operations by one operation on a stack of their operands."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ..primitives.core.index_key import IndexKey
from ..primitives.core.registry import registry
from ..primitives.core.shape_dtype import ShapeDtype
from ..programs.program import Equation, Program, Variable, type_of, used, with_replaced
from . import batch_elementwise_groups as grouping
from .batch_elementwise_groups import Chain, Group, GroupSums, ProgramOrder
from .simplify_shapes import sliced

if TYPE_CHECKING:
    from ..primitives.core.primitive_like import PrimitiveLike

__all__ = ["stacked_groups"]

# The factors of a chain of products may take turns with so many others.
PERIOD = 3
SUM_OF_ROWS = {"axis": (0,), "keepdims": False, "dtype": None}
RUNNING = {"axis": 0, "dtype": None, "reverse": False, "exclusive": False}


def stacked_groups(program: Program) -> Program:
    """Returns a program that computes groups of small elementwise operations at once.

    Loops of Python leave many of them, each of which costs more to start than to compute:

    * ``cos(a), cos(b), ...``, of which none depends on another, are the rows of one ``cos`` of all
      operands in a stack; operands that all have in common are broadcast.
    * ``((a * b) * c) * ...``, whose factors do not depend on the products before them, is a running
      product of the stack of all factors.
    * ``a * b + c * d + ...`` is the sum of one product of two stacks along their first axis, and
      ``a + b + ...`` is the sum of one stack.

    The sums add up in another order, and are rounded differently; of -0.0 alone the sum is 0.0.
    All else is the same.

    Args:
        program: any program; the one itself is returned where there are no such operations.

    >>> import functensor as ft, functensor.numpy as np
    >>> from functensor.passes.dead_code import dead_code
    >>> program = ft.make_program(lambda x: [np.sin(np.exp(x[i])) for i in range(8)])(
    ...     np.ones((8, 3))
    ... )
    >>> for line in str(dead_code(stacked_groups(program))).splitlines()[:4]:
    ...     print(line)
    <lambda>(a: float64[8,3]):
        b: float64[8,3] = exp(a)
        c: float64[8,3] = sin(b)
        d: float64[3] = index(c, key=[0])
    """
    small = list(map(grouping.is_groupable, program.equations))
    if sum(small) < grouping.FEWEST_GROUPED_EQUATIONS:
        return program
    if any(x.device != "cpu" for e in program.equations for x in e.outputs):
        return program
    order = ProgramOrder(program, small)
    found: list[GroupSums | Group | Chain] = [*grouping.sums_in_groups(order)]
    candidates = [number for number, is_one in enumerate(small) if is_one]
    while candidates:
        groups = grouping.groups_of(order, candidates)
        found += groups
        # A group needs its operands later than some of its members did, and is there before what
        # uses others: both leaves room for more.
        candidates = order.beside(groups)
    found += grouping.chains_of(order)
    if not found:
        return program
    return written_group(program, order, found)


class Rows:
    """The new equations, and the stacks whose rows are known as variables.

    Attributes:
        equations: the old ones.
        new: those so far.
        known: for every variable that is made otherwise now what it is.
    """

    def __init__(self, equations: Sequence[Equation]) -> None:
        self.equations = equations
        self.new: list[Equation] = []
        self.known: dict[Variable, Any] = {}
        # The stack that a variable is a row of, and the number of the row.
        self._rows: dict[Variable, tuple[Variable, int]] = {}
        # The rows that no equation has taken out yet.
        self._inside: dict[Variable, tuple[Variable, int, Equation]] = {}
        self._numbers: dict[Variable, int] = {}

    def add(
        self,
        primitive: PrimitiveLike,
        operands: Sequence[Any],
        params: dict[str, Any],
        of: Equation,
        known: ShapeDtype,
    ) -> Variable:
        """Adds an equation in the place of one; returns what it makes."""
        out = Variable(known, of.outputs[0].device)
        self.append(of.by(primitive, operands, params, [out]))
        return out

    def append(self, equation: Equation) -> None:
        """Adds an equation of the new program, of operands of the old one."""
        self.take_out(equation.operands)
        equation = equation.over(self.known)
        self.new.append(equation)
        taken = sliced(equation)
        if taken is not None and not taken[1]:
            self._numbers.setdefault(taken[0], len(self._numbers))
            self._rows[equation.outputs[0]] = taken[0], taken[2]

    def take_out(self, xs: Iterable[Any]) -> None:
        """Takes rows among variables out of their stacks, where that was not done yet."""
        for x in used(xs):
            if x in self._inside:
                of, i, equation = self._inside.pop(x)
                key = {"key": IndexKey((i,))}
                self.known[x] = self.add(registry["index"], [of], key, equation, x.type)

    def named(
        self, name: str, operands: Sequence[Any], params: dict[str, Any], of: Equation
    ) -> Variable:
        """Adds an equation of the primitive of a name."""
        primitive = registry[name]
        known = primitive.infer(primitive, *map(type_of, operands), **params)
        return self.add(primitive, operands, params, of, known)

    def enter(
        self, variables: Sequence[Variable], of: Variable, equation: Equation, first: int = 0
    ) -> None:
        """Notes that variables are the rows of one, from the first on."""
        self._numbers[of] = len(self._numbers)
        for i, x in enumerate(variables, first):
            self._inside[x] = of, i, equation
            self._rows[x] = of, i

    def place(self, x: Variable) -> tuple[int, int]:
        """Returns by what variables are sorted, so that rows of one come in their order."""
        found = self._rows.get(x)
        return (-1, 0) if found is None else (self._numbers[found[0]], found[1])

    def run(self, xs: Sequence[Any]) -> tuple[Variable, slice] | None:
        """Returns of what variables are the rows, and which; None if there is none."""
        found = [self._rows.get(x) for x in xs]
        if len(found) < 2 or found[0] is None or found[1] is None:
            return None
        of, start = found[0]
        step = found[1][1] - start
        if not step or any(row != (of, start + i * step) for i, row in enumerate(found)):
            return None
        end = start + len(xs) * step
        return of, slice(start, end if end >= 0 else None, step)

    def of(self, xs: Sequence[Any], equation: Equation) -> Variable:
        """Returns a stack of variables, all of one type; one that is there already if it can."""
        found = self.run(xs)
        if found is not None:
            return self._taken(*found, equation)
        made = self.named("stack", xs, {"axis": 0}, equation)
        self._numbers[made] = len(self._numbers)
        for i, x in enumerate(xs):
            self._rows.setdefault(x, (made, i))
        return made

    def _taken(self, of: Variable, rows: slice, equation: Equation) -> Variable:
        if rows == slice(0, of.type.shape[0], 1):
            return of
        return self.named("index", [of], {"key": IndexKey((rows,))}, equation)

    def alternating(self, xs: Sequence[Any], equation: Equation) -> Variable | None:
        """Returns a stack of variables that take turns, each the same or rows of one; or None."""
        if not xs:
            return None
        shape = type_of(xs[0]).shape
        for period in range(1, PERIOD + 1):
            if len(xs) % period or len(xs) < 2 * period:
                continue
            columns = [xs[i::period] for i in range(period)]
            runs = [self.run(column) for column in columns]
            same = [all(x is column[0] for x in column) for column in columns]
            if not all(run is not None or s for run, s in zip(runs, same, strict=True)):
                continue
            count = len(columns[0])
            parts = []
            for column, run in zip(columns, runs, strict=True):
                if run is None:
                    wide = {"shape": (count, *shape)}
                    part = self.named("broadcast_to", [column[0]], wide, equation)
                else:
                    part = self._taken(*run, equation)
                if period > 1:
                    part = self.named("reshape", [part], {"shape": (count, 1, *shape)}, equation)
                parts.append(part)
            if period == 1:
                return parts[0]
            joined = self.named("concatenate", parts, {"axis": 1}, equation)
            return self.named("reshape", [joined], {"shape": (len(xs), *shape)}, equation)
        return None


def write_group(rows: Rows, group: Group) -> None:
    """Adds the equations that compute a group."""
    members = [rows.equations[i] for i in group.members]
    first = members[0]
    operands = []
    for column in zip(*(e.operands for e in members), strict=True):
        shared = all(x is column[0] for x in column) or type(column[0]) is not Variable
        operands.append(column[0] if shared else rows.of(column, first))
    known = first.outputs[0].type
    wide = ShapeDtype((len(members), *known.shape), known.dtype)
    made = rows.add(first.primitive, operands, {}, first, wide)
    rows.enter([e.outputs[0] for e in members], made, first)


def write_chain(rows: Rows, chain: Chain) -> None:
    """Adds the running product of all factors of a chain."""
    first = rows.equations[chain.members[0]]
    for begin in range(1, PERIOD + 1):
        rest = rows.alternating(chain.factors[begin:], first)
        if rest is not None:
            top = rows.of(chain.factors[:begin], first)
            factors = rows.named("concatenate", [top, rest], {"axis": 0}, first)
            break
    else:
        factors = rows.of(chain.factors, first)
    made = rows.named("cumprod", [factors], RUNNING, first)
    rows.enter([rows.equations[i].outputs[0] for i in chain.members], made, first, 1)


def write_sums(rows: Rows, sums: GroupSums) -> None:
    """Adds the equations of a sum, and notes the variable that stands for it."""
    of = rows.equations[sums.root]
    found = sums.terms
    if sums.products:
        pairs = [rows.equations[i].operands for i in sums.products]
        pairs = [(y, x) if rows.place(x) < rows.place(y) else (x, y) for x, y in pairs]
        pairs.sort(key=lambda pair: rows.place(pair[0]))
        # The first step and the last of a loop may differ from all others.
        firsts, count = [x for x, _ in pairs], len(pairs)
        parts = ((0, count), (0, count - 1), (1, count), (1, count - 1))
        start, stop = next((p for p in parts if rows.run(firsts[slice(*p)])), parts[0])
        x, y = (rows.of(column, of) for column in zip(*pairs[start:stop], strict=True))
        product = rows.named("multiply", [x, y], {}, of)
        others = [rows.named("multiply", pair, {}, of) for pair in pairs[:start] + pairs[stop:]]
        found = [rows.named("sum", [product], SUM_OF_ROWS, of), *others, *found]
    if len(found) >= grouping.FEWEST_GROUPED_EQUATIONS:
        found = [rows.named("sum", [rows.of(found, of)], SUM_OF_ROWS, of)]
    total, *rest = found
    for x in rest:
        total = rows.named("add", [total, x], {}, of)
    rows.known[of.outputs[0]] = total


GROUP_WRITERS: dict[type, Any] = {Group: write_group, Chain: write_chain, GroupSums: write_sums}


def written_group(
    program: Program, order: ProgramOrder, found: Sequence[GroupSums | Group | Chain]
) -> Program:
    """Returns the program with groups, chains and sums in the place of their members."""
    rows = Rows(program.equations)
    things: list[tuple[Any, Any]] = [(thing.place, thing) for thing in found]
    things += [
        (order.places[number], equation)
        for number, equation in enumerate(program.equations)
        if number not in order.taken
    ]
    things.sort(key=lambda thing: thing[0])
    for _, thing in things:
        if type(thing) is Equation:
            rows.append(thing)
        else:
            GROUP_WRITERS[type(thing)](rows, thing)
    rows.take_out(program.outputs)
    return program.with_equations(rows.new, with_replaced(program.outputs, rows.known))
