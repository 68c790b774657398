"""Finds the small elementwise operations that `batch_elementwise` computes together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from ..primitives.core.shape_dtype import ShapeDtype
from ..programs.program import Equation, Program, Variable, used
from .constants import constant_key

__all__ = [
    *("Chain", "Group", "GroupSums", "ProgramOrder"),
    *("chains_of", "groups_of", "is_groupable", "sums_in_groups"),
]

# Fewer are not worth the stack, nor are larger ones, which take longer to compute than to start;
# what is stacked is to stay in the cache.
FEWEST_GROUPED_EQUATIONS, LARGEST_GROUPED_BYTES, LARGEST_GROUP_BYTES = 8, 4096, 32768
GROUPED_DTYPE_KINDS = "fiubc"
INEXACT_DTYPES = "fdFD"
# Of complex numbers NumPy rounds running products in another way.
EXACT_RUNNING_DTYPES = "fd"
# The place of an equation in the new program: that of an old one, and how many come before it.
GroupPlace = tuple[int, int]
BEFORE: GroupPlace = (-1, 0)


def is_groupable(equation: Equation) -> bool:
    """Says whether an equation computes a small array, element by element."""
    primitive = equation.primitive
    if primitive.family != "elementwise" or equation.params:
        return False
    known = equation.outputs[0].type
    if not known.shape or known.dtype.kind not in GROUPED_DTYPE_KINDS:
        return False
    return 0 < known.size * known.dtype.itemsize <= LARGEST_GROUPED_BYTES


def at_most(known: ShapeDtype) -> int:
    """Returns how many arrays of a type are put together."""
    return LARGEST_GROUP_BYTES // (known.size * known.dtype.itemsize)


class ProgramOrder:
    """The order of equations, and those that have been taken out already.

    Attributes:
        equations: the program's equations.
        small: which of them compute a small array, element by element.
        makers: for every variable the number of the equation that makes it.
        users: for every variable the numbers of those that use it; one past the last if it is
            returned.
        places: for every number where the equation is going to be.
        taken: the numbers of those that something else stands for.
    """

    def __init__(self, program: Program, small: list[bool]) -> None:
        self.equations = program.equations
        self.small = small
        self.makers: dict[Variable, int] = {}
        self.users: dict[Variable, list[int]] = {}
        for number, equation in enumerate(self.equations):
            for x in equation.operands:
                if type(x) is Variable:
                    self.users.setdefault(x, []).append(number)
            for x in equation.outputs:
                self.makers[x] = number
        end = len(self.equations)
        for x in used(program.outputs):
            self.users.setdefault(x, []).append(end)
        self.places: list[GroupPlace] = [(number, 0) for number in range(end + 1)]
        self.taken: set[int] = set()
        self._moves = 0
        self._kinds: dict[int, int] = {}
        self._known: dict[ShapeDtype, int] = {}

    def kind(self, known: ShapeDtype) -> int:
        """Returns a number for a type, the same for equal ones."""
        kind = self._kinds.get(id(known))
        if kind is None:
            kind = self._kinds[id(known)] = self._known.setdefault(known, len(self._known))
        return kind

    def made(self, operands: Iterable[Any]) -> GroupPlace:
        """Returns where the last of some operands is made."""
        makers, places = self.makers, self.places
        last = BEFORE
        for x in operands:
            if type(x) is Variable and x in makers:
                place = places[makers[x]]
                if place > last:
                    last = place
        return last

    def needed(self, variable: Variable, but: int = -1) -> GroupPlace:
        """Returns where a variable is used first, by others than one equation."""
        places = self.places
        first = places[-1]
        for number in self.users.get(variable, ()):
            if number != but and places[number] < first:
                first = places[number]
        return first

    def beside(self, groups: Sequence[Group]) -> list[int]:
        """Returns the small equations that only groups need, or that need nothing else."""
        members = [self.equations[i] for group in groups for i in group.members]
        # Many members may have an operand or a user in common: each of these is asked once.
        operands = {x for equation in members for x in used(equation.operands)}
        makers = {self.makers.get(x, -1) for x in operands if self.taken.issuperset(self.users[x])}
        users = {i for equation in members for i in self.users.get(equation.outputs[0], ())}
        users = {i for i in users if i < len(self.small) and self.small[i]} - self.taken
        found = {i for i in makers - self.taken if i >= 0 and self.small[i]}
        found.update(i for i in users if self._needs_none(self.equations[i]))
        return sorted(found)

    def _needs_none(self, equation: Equation) -> bool:
        """Says whether no operand is made by a small equation that is still there."""
        makers = {self.makers.get(x, -1) for x in used(equation.operands)} - self.taken
        return not any(i >= 0 and self.small[i] for i in makers)

    def move(
        self, members: Sequence[int], after: GroupPlace, before: GroupPlace
    ) -> GroupPlace | None:
        """Moves equations to one place, if there is one; returns it."""
        place = after[0], self._moves + 1
        if not after < place < before:
            return None
        self._moves += 1
        self.put(members, place)
        return place

    def put(self, members: Iterable[int], place: GroupPlace) -> None:
        """Notes that equations are going to be at a place, as part of something else."""
        for number in members:
            self.places[number] = place
            self.taken.add(number)


class Group(NamedTuple):
    """Equations of one elementwise primitive: their numbers, and where they go."""

    members: list[int]
    place: GroupPlace


class Chain(NamedTuple):
    """Products, each of which is a factor of the next.

    Attributes:
        members: their numbers.
        factors: the first product's first factor, and the other one of each.
        place: where they go.
    """

    members: list[int]
    factors: list[Any]
    place: GroupPlace


class GroupSums(NamedTuple):
    """A sum of many.

    Attributes:
        root: the number of the last addition.
        terms: what is added up.
        products: the numbers of the products among them.
        place: where it goes.
    """

    root: int
    terms: list[Any]
    products: list[int]
    place: GroupPlace


def sums_in_groups(order: ProgramOrder) -> list[GroupSums]:
    """Returns the chains of additions that are sums of many small arrays."""
    inner: dict[Variable, int] = {}
    roots: list[int] = []
    is_sum = [s and _is_sum(e) for s, e in zip(order.small, order.equations, strict=True)]
    # One past the last are results.
    is_sum.append(False)
    for number, equation in enumerate(order.equations):
        if not is_sum[number]:
            continue
        out = equation.outputs[0]
        users = order.users.get(out, ())
        if len(users) == 1 and is_sum[users[0]]:
            inner[out] = number
        elif not inner.keys().isdisjoint(equation.operands):
            roots.append(number)
    found = []
    for root in roots:
        terms, members = _terms(order, root, inner)
        most = at_most(order.equations[root].outputs[0].type)
        if not FEWEST_GROUPED_EQUATIONS <= len(terms) <= most:
            continue
        products = [order.makers[x] for x in terms if _is_product(order, x)]
        if len(products) < FEWEST_GROUPED_EQUATIONS:
            products = []
        gone = {order.equations[i].outputs[0] for i in products}
        place = order.places[root]
        order.put([*members, *products], place)
        found.append(GroupSums(root, [x for x in terms if x not in gone], products, place))
    return found


def _is_sum(equation: Equation) -> bool:
    if equation.primitive.name != "add":
        return False
    known = equation.outputs[0].type
    return known.dtype.char in INEXACT_DTYPES and _are_variables_of(equation, known)


def _is_product(order: ProgramOrder, x: Variable) -> bool:
    """Says whether a term is a product of its own type that nothing else needs."""
    maker = order.makers.get(x)
    if maker is None or len(order.users[x]) > 1:
        return False
    equation = order.equations[maker]
    return equation.primitive.name == "multiply" and _are_variables_of(equation, x.type)


def _are_variables_of(equation: Equation, known: ShapeDtype) -> bool:
    """Says whether all operands are variables of a type."""
    return all(type(x) is Variable and x.type == known for x in equation.operands)


def _terms(
    order: ProgramOrder, root: int, inner: dict[Variable, int]
) -> tuple[list[Any], list[int]]:
    """Returns the terms of a chain of additions, and the additions."""
    terms: list[Any] = []
    members = [root]
    waiting = [*order.equations[root].operands]
    while waiting:
        x = waiting.pop()
        number = inner.get(x)
        if number is None:
            terms.append(x)
        else:
            members.append(number)
            waiting += order.equations[number].operands
    return terms, members


class Begun:
    """A group to which more equations may come.

    Attributes:
        members: their numbers.
        after: where the last of their operands is made.
        before: where one of their results is used first.
        factors: of a chain.
    """

    __slots__ = ("after", "before", "factors", "members")

    def __init__(
        self, number: int, after: GroupPlace, before: GroupPlace, factors: Sequence[Any]
    ) -> None:
        self.members = [number]
        self.after = after
        self.before = before
        self.factors = [*factors]


def groups_of(order: ProgramOrder, candidates: Sequence[int]) -> list[Group]:
    """Returns the equations of one elementwise primitive that can be computed at one place."""
    alike: dict[Any, int] = {}
    keys = {}
    for number in candidates:
        if number not in order.taken:
            key = keys[number] = _group_key(order, order.equations[number])
            alike[key] = alike.get(key, 0) + 1
    begun: list[Begun] = []
    last: dict[Any, Begun] = {}
    joined: dict[int, Begun] = {}
    for number, key in keys.items():
        if alike[key] < FEWEST_GROUPED_EQUATIONS:
            continue
        equation = order.equations[number]
        out = equation.outputs[0]
        after, before = order.made(equation.operands), order.needed(out)
        group = last.get(key)
        makers = [joined.get(order.makers.get(x, -1)) for x in used(equation.operands)]
        if (
            group is not None
            and after < group.before
            and group.after < before
            and len(group.members) < at_most(out.type)
            # The use of one of the results by the equation itself is not before anything.
            and group not in makers
        ):
            group.members.append(number)
            group.after = max(after, group.after)
            group.before = min(before, group.before)
        else:
            group = last[key] = Begun(number, after, before, ())
            begun.append(group)
        joined[number] = group
    found = []
    for group in begun:
        if len(group.members) < FEWEST_GROUPED_EQUATIONS:
            continue
        equations = [order.equations[i] for i in group.members]
        if not _apart(equations):
            continue
        # Groups that were found before may have moved what this one depends on.
        after = order.made(x for e in equations for x in e.operands)
        before = min(order.needed(e.outputs[0]) for e in equations)
        place = order.move(group.members, after, before)
        if place is not None:
            found.append(Group(group.members, place))
    return found


def _apart(equations: list[Equation]) -> bool:
    """Says whether every operand has the results' shape, or is the same for all."""
    shape = equations[0].outputs[0].type.shape
    columns = 0
    for column in zip(*(e.operands for e in equations), strict=True):
        x = column[0]
        if type(x) is not Variable or all(y is x for y in column):
            continue
        if x.type.shape != shape:
            return False
        columns += 1
    return columns > 0


def _group_key(order: ProgramOrder, equation: Equation) -> tuple[Any, ...]:
    """Returns what equations have in common that may be one.

    Operands that are not the same for all are made by the same primitive, or by one group: what is
    a step of a chain is told from what hangs on one, and rows of one stack stay together.
    """
    key: list[Any] = [equation.primitive.name, order.kind(equation.outputs[0].type)]
    for x in equation.operands:
        if type(x) is not Variable:
            key.append(constant_key(x))
        elif x.type.weak:
            key.append(x)
        else:
            maker = order.makers.get(x)
            key.append(order.kind(x.type))
            if maker in order.taken:
                key.append(order.places[maker])
            else:
                key.append("" if maker is None else order.equations[maker].primitive.name)
    return tuple(key)


def chains_of(order: ProgramOrder) -> list[Chain]:
    """Returns the products of products whose other factors are there before all of them."""
    begun: list[Begun] = []
    ends: dict[Any, Begun] = {}
    joined: dict[int, Begun] = {}
    for number, equation in enumerate(order.equations):
        if equation.primitive.name != "multiply" or not order.small[number]:
            continue
        out = equation.outputs[0]
        if number in order.taken or out.type.dtype.char not in EXACT_RUNNING_DTYPES:
            continue
        if not _are_variables_of(equation, out.type):
            continue
        x, y = equation.operands
        for end, factor in ((x, y), (y, x)):
            chain = ends.get(end)
            if chain is None or len(chain.factors) >= at_most(out.type):
                continue
            after = max(chain.after, order.made([factor]))
            before = min(chain.before, order.needed(end, number))
            if after < before and joined.get(order.makers.get(factor, -1)) is not chain:
                del ends[end]
                chain.members.append(number)
                chain.factors.append(factor)
                chain.after, chain.before = after, before
                break
        else:
            chain = Begun(number, order.made((x, y)), order.places[-1], (x, y))
            begun.append(chain)
        ends[out] = joined[number] = chain
    found = []
    for chain in begun:
        if len(chain.members) < FEWEST_GROUPED_EQUATIONS:
            continue
        outs = [order.equations[i].outputs[0] for i in chain.members]
        before = order.needed(outs[-1])
        for out, follower in zip(outs, chain.members[1:], strict=False):
            before = min(before, order.needed(out, follower))
        place = order.move(chain.members, order.made(chain.factors), before)
        if place is not None:
            found.append(Chain(chain.members, chain.factors, place))
    return found
