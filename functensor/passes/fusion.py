"""Joins elementwise chains and their reductions into regions, which plans run block by block."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import prod

from ..backends.config import config
from ..backends.region_functions import LABELLED
from ..programs.named_scope import common_scope
from ..programs.program import Equation, Operand, Program, Variable, type_of, used
from .exchange_order import check_exchanges
from .fused_region import (
    Kinds,
    Region,
    broadcast_place,
    identity,
    lengths,
    main_operand,
    operand_place,
    row_place,
)
from .index_ranges import IndexRange, IndexRanges
from .region_gathers import gather_place, index_place, is_in_bounds, is_slow_alone
from .region_order import equations_in_order
from .region_proofs import GATHERED_FROM, Place, count_of_sources
from .schedule_parallel import neighbours
from .unlocked import computed_once

__all__ = ["fusion"]

# Grids of fewer elements fit into the cache as they are.
SMALLEST_REGION_ELEMENTS = 65536
# A single equation is worth a region where threads can share it: over so many times the smallest.
FEWEST_SMALLEST_REGIONS_TO_SHARE = 4
# A reduction of the first axis leaves at most this many elements for every block, which are added
# up in the end.
MOST_PARTIAL_ELEMENTS = 8192


def fusion(
    program: Program,
    smallest: int = SMALLEST_REGION_ELEMENTS,
    takes: Callable[[Equation], bool] | None = None,
) -> Program:
    """Returns a program whose elementwise chains are regions.

    Equations are put together that go over the same grid of elements, one using what the other
    computes or both the same operand: elementwise ones; reductions at the end of a chain; those
    along other axes than the first, what is computed of their results row by row, and that
    broadcast again, as in softmax or layer norm. No region needs a value that depends on what it
    returns itself.

    Args:
        program: any program.
        smallest: how many elements a grid has at least.
        takes: says whether an equation can be a part of a region; by default all of known kinds.
    """
    clusters = Clusters(program, smallest, takes)
    regions = clusters.chosen()
    if not regions:
        return program

    def region(number: int, members: list[int]) -> Equation:
        return _region(clusters, regions[number], members)

    members = [cluster.members for cluster in regions]
    order = equations_in_order(program, clusters.makers, members, region)
    fused = neighbours(program.with_equations(order))
    if config.check_programs:
        check_exchanges(program, fused)
    return fused


class Cluster:
    """Equations that go together over a grid.

    Attributes:
        grid: the grid.
        stage: how many clusters lie, one behind the other, before it.
        members: the numbers of its equations.
    """

    __slots__ = ("grid", "members", "stage")

    def __init__(self, grid: tuple[int, ...], stage: int) -> None:
        self.grid = grid
        self.stage = stage
        self.members: list[int] = []


class Clusters:
    """Finds clusters, in one pass over a program.

    A value is ready at a stage: what a cluster makes is ready for others one stage later, and
    clusters of one stage never depend on each other.
    """

    def __init__(
        self, program: Program, smallest: int, takes: Callable[[Equation], bool] | None = None
    ) -> None:
        self.program = program
        self.smallest = smallest
        self.equations = program.equations
        self.of: dict[int, Cluster] = {}
        self.places: dict[int, Place] = {}
        self.makers = {v: i for i, e in enumerate(self.equations) for v in e.outputs}
        self.kinds = Kinds(self.equations, takes)
        self._large = {v for v in (*program.inputs, *self.makers) if v.type.size >= smallest}
        self.returned = set(used(program.outputs))
        # Values that are ready at the beginning are not noted.
        self._ready: dict[Variable, int] = {}
        # The stage of the last operation of several processes: no later one is ready before.
        self._exchanged = 0
        # Results of reductions that are complete only after all blocks.
        self._late: set[int] = set()
        self._sharing: dict[tuple[int, tuple[int, ...], Variable], Cluster] = {}
        # Equations that may move to where their result is needed, since nothing is kept for them.
        self._free: set[int] = set()
        for i, equation in enumerate(self.equations):
            self._place(i, equation)
        for i in sorted(self.of, reverse=True):
            self._drop_move(i)
        grids = [cluster.grid for cluster in set(self.of.values())]
        if len(set(grids)) < len(grids):
            for i in sorted(self.of, reverse=True):
                self._sink(i)

    @computed_once
    def users(self) -> dict[Variable, list[int]]:
        """For every variable that is used the numbers of the equations that use it."""
        users: dict[Variable, list[int]] = {}
        for i, equation in enumerate(self.equations):
            for variable in used(equation.operands):
                users.setdefault(variable, []).append(i)
        return users

    def inner(self, x: Operand, cluster: Cluster) -> bool:
        """Says whether an operand is made within a cluster."""
        return type(x) is Variable and self.of.get(self.makers.get(x, -1)) is cluster

    def chosen(self) -> list[Cluster]:
        """Returns the clusters that are worth a region."""
        return [c for c in dict.fromkeys(self.of.values()) if self._worth(c)]

    def _worth(self, cluster: Cluster) -> bool:
        busy = sum(self.kinds[i] != "move" for i in cluster.members)
        if all(self.kinds[i] in ("move", "product") for i in cluster.members):
            return False  # which BLAS does by itself
        if busy == 1 and any(is_slow_alone(self.equations[i]) for i in cluster.members):
            return False
        if busy == 1 and any(self._is_outer(i) for i in cluster.members):
            return True
        fewest = FEWEST_SMALLEST_REGIONS_TO_SHARE * self.smallest
        return busy > 1 or (busy == 1 and prod(cluster.grid) >= fewest)

    def _is_outer(self, i: int) -> bool:
        """Says whether an equation's result is larger than each of its operands."""
        equation = self.equations[i]
        size = max(out.type.size for out in equation.outputs)
        operands = used(equation.operands)
        if self.kinds[i] != "element" or len(operands) < 2:
            return False
        return all(x.type.size < size for x in operands)

    # -- joining

    def _place(self, i: int, equation: Equation) -> None:
        operands = used(equation.operands)
        stage = max([self._ready.get(v, 0) for v in operands], default=0)
        if equation.exchanges():
            stage = self._exchanged = max(stage, self._exchanged)
        # No cluster has made what is ready at the beginning.
        cluster = self._joined(i, equation, operands, stage) if stage else None
        if cluster is None and self._is_large(equation, operands):
            cluster = self._begun(i, equation, stage)
        if cluster is None:
            if stage:
                for out in equation.outputs:
                    self._ready[out] = stage
            return
        self.of[i] = cluster
        cluster.members.append(i)
        self._ready[equation.outputs[0]] = cluster.stage + 1
        for variable in operands:
            if not self.inner(variable, cluster) and type_of(variable).size > 1:
                key = cluster.stage, cluster.grid, variable
                other = self._sharing.setdefault(key, cluster)
                if other is not cluster:
                    self._merge(other, cluster)
                    cluster = other

    def _is_large(self, equation: Equation, operands: Sequence[Variable]) -> bool:
        """Says whether anything in an equation is large enough for a grid."""
        if not (self._large.isdisjoint(operands) and self._large.isdisjoint(equation.outputs)):
            return True
        if len(operands) == len(equation.operands):
            return False
        constants = [x for x in equation.operands if type(x) is not Variable]
        return any(type_of(x).size >= self.smallest for x in constants)

    def _merge(self, into: Cluster, cluster: Cluster) -> None:
        for i in cluster.members:
            self.of[i] = into
        into.members += cluster.members
        for key, found in self._sharing.items():
            if found is cluster:
                self._sharing[key] = into

    def _joined(
        self, i: int, equation: Equation, operands: Sequence[Variable], stage: int
    ) -> Cluster | None:
        """Returns the cluster whose values an equation uses, if it can be one of it."""
        makers: dict[Variable, int] = {}
        for v in operands:
            if self._ready.get(v, 0) == stage:
                maker = makers[v] = self.makers.get(v, -1)
                if maker not in self.of or maker in self._late:
                    return None
        if not self.kinds[i] or not self._is_known(i, makers):
            return None
        found = list(dict.fromkeys([self.of[m] for m in makers.values()]))
        # A grid may be the first axes of another: numbers of rows beside the rows.
        first = max(found, key=lambda c: len(c.grid))
        if any(c.stage != stage - 1 or c.grid != first.grid[: len(c.grid)] for c in found):
            return None
        known = {v: self.places[maker] for v, maker in makers.items()}
        place = self._place_of(i, equation, first.grid, known)
        if place is None:
            return None
        for other in found:
            if other is not first:
                self._merge(first, other)
        self.places[i] = place
        return first

    def _is_known(self, i: int, made: Iterable[Variable]) -> bool:
        """Says whether a gather can be in the cluster that makes some of its operands.

        The array is complete before. Numbers that may be out of bounds are tested before, too, and
        so are labels where kernels read these.
        """
        equation, made = self.equations[i], set(made)
        if self.kinds.are_of_kernels and equation.primitive.name in LABELLED:
            return made.isdisjoint(used(equation.operands[-1:]))
        if self.kinds[i] != "gather":
            return True
        sources = used(equation.operands[: count_of_sources(equation)])
        return made.isdisjoint(sources) and is_in_bounds(equation, self.ranges, made)

    @computed_once
    def ranges(self) -> IndexRanges:
        """The ranges of whole numbers."""
        return IndexRanges(self.equations)

    def _begun(self, i: int, equation: Equation, stage: int) -> Cluster | None:
        """Returns a new cluster for an equation, over the grid of its largest value."""
        kind = self.kinds[i]
        if kind in ("", "move"):
            return None
        made = kind in ("element", "gather")
        largest: Operand = equation.outputs[0] if made else main_operand(equation)
        grid = lengths(type_of(largest).shape)
        if not grid or prod(grid) < self.smallest:
            return None
        place = self._place_of(i, equation, grid, {})
        if place is None:
            return None
        self.places[i] = place
        return Cluster(grid, stage)

    # -- places

    def _place_of(
        self, i: int, equation: Equation, grid: tuple[int, ...], known: dict[Variable, Place]
    ) -> Place | None:
        """Returns where an equation's result lies in a grid; None where it does not fit."""
        kind = self.kinds[i]
        shape = equation.outputs[0].type.shape
        first = equation.operands[0]
        if kind == "element" or equation.primitive.name == "broadcast_to":
            return broadcast_place(shape, grid, known)
        if kind == "gather":
            return broadcast_place(shape, grid, gather_place(equation, known))
        if kind == "product":
            return self._product(i, equation, grid, known)
        if type(first) is Variable and first in known:
            source = known[first]
        elif lengths(type_of(first).shape) == grid:
            source = identity(type_of(first).shape)
        else:
            return None
        if kind == "move":
            axes = iter([axis for axis in source if axis is not None])
            return tuple([None if n == 1 else next(axes) for n in shape])
        if kind == "reduction":
            return self._reduced(i, equation, source, grid)
        return row_place(equation, source, grid, known)

    def _product(
        self, i: int, equation: Equation, grid: tuple[int, ...], known: dict[Variable, Place]
    ) -> Place | None:
        matrix, (x, y) = main_operand(equation), equation.operands
        if type_of(matrix).shape != grid:
            return None
        vector = y if matrix is x else x
        if type(matrix) is Variable and known.get(matrix, (0, 1)) != (0, 1):
            return None
        if matrix is x:
            return None if type(vector) is Variable and vector in known else (0,)
        if type(vector) is Variable and known.get(vector, (0,)) != (0,):
            return None
        self._late.add(i)
        return (1,)

    def _reduced(
        self, i: int, equation: Equation, source: Place, grid: tuple[int, ...]
    ) -> Place | None:
        axes = equation.params["axis"]
        if equation.params["keepdims"]:
            place = tuple([None if a in axes else axis for a, axis in enumerate(source)])
        else:
            place = tuple([axis for a, axis in enumerate(source) if a not in axes])
        if 0 in {source[a] for a in axes}:
            many = equation.outputs[0].type.size > MOST_PARTIAL_ELEMENTS
            if many or equation.primitive.name == "var":
                return None
            self._late.add(i)
        elif 0 not in place:
            # The same for all blocks: of a value without the first axis.
            return None
        return place

    def operand_place(self, i: int, n: int) -> Place:
        """Returns where an equation takes an operand in the grid, if it is from outside."""
        place, kind, equation = self.places[i], self.kinds[i], self.equations[i]
        shape = type_of(equation.operands[n]).shape
        if kind == "element" or equation.primitive.name == "broadcast_to":
            return operand_place(shape, place)
        if kind == "gather":
            return index_place(equation, place, n)
        if kind == "product":
            return (0, 1) if len(shape) == 2 else (1,) if place == (0,) else (0,)
        if n == 0:
            return identity(shape)
        whole = identity(type_of(equation.operands[0]).shape)
        if equation.primitive.name == "affine_normalize":
            return whole[-1:]
        return whole[: len(shape)]

    # -- afterwards

    def _drop_move(self, i: int) -> None:
        """Takes a move out of its cluster where nothing in it uses the result."""
        (variable,) = self.equations[i].outputs
        cluster = self.of[i]
        if self.kinds[i] == "move" and not any(
            self.of.get(user) is cluster for user in self.users.get(variable, ())
        ):
            cluster.members.remove(i)
            del self.of[i]

    def _sink(self, i: int) -> None:
        """Moves an equation to the cluster that alone needs its result, if that keeps no more."""
        (variable,) = self.equations[i].outputs
        cluster = self.of[i]
        if self.kinds[i] != "element" or variable in self.returned:
            return
        users = self.users.get(variable, [])
        homes = {id(self.of[u]) if u in self.of else 0 for u in users}
        if len(homes) != 1 or 0 in homes:
            return
        home = self.of[users[0]]
        if home is cluster or home.grid != cluster.grid or home.stage <= cluster.stage:
            return
        if self.places[i] != identity(variable.type.shape):
            return
        # Along the last axis a row of numbers lies elsewhere than along the first.
        if any(self.operand_place(u, n) != self.places[i] for u, n in self._uses(variable, users)):
            return
        if not all(self._is_known(u, [variable]) for u in users):
            return
        if i not in self._free and self._keeps(cluster, i):
            return
        cluster.members.remove(i)
        home.members.append(i)
        self.of[i] = home

    def _uses(self, x: Variable, users: Iterable[int]) -> list[tuple[int, int]]:
        """Returns the numbers of equations that use a value, with those of the operands."""
        return [(u, n) for u in users for n, y in enumerate(self.equations[u].operands) if y is x]

    def _keeps(self, cluster: Cluster, i: int) -> bool:
        """Says whether a cluster would keep values for the sake of an equation that moves out."""
        waiting, makers = [(x, i) for x in used(self.equations[i].operands)], []
        while waiting:
            x, user = waiting.pop()
            if not self.inner(x, cluster) or self._leaves(x, cluster, user):
                continue
            # What the user alone needs moves out after it.
            maker, places = self.makers[x], [self.operand_place(*n) for n in self._uses(x, [user])]
            alone = self.kinds[maker] == "element" and {*self.users[x]} == {user}
            if not alone or {self.places[maker], *places} != {identity(x.type.shape)}:
                return True
            makers.append(maker)
            waiting += [(y, maker) for y in used(self.equations[maker].operands)]
        self._free.update(makers)
        return False

    def _leaves(self, x: Variable, cluster: Cluster, besides: int) -> bool:
        """Says whether a value leaves its cluster anyhow."""
        if x in self.returned:
            return True
        return any(u != besides and self.of.get(u) is not cluster for u in self.users[x])


# -- the program of regions


def _region(clusters: Clusters, cluster: Cluster, members: list[int]) -> Equation:
    """Returns the call that takes the place of a cluster's equations."""
    equations = clusters.equations
    places: dict[Variable, Place] = {}
    env: dict[Variable, Variable] = {}
    ranges: dict[Variable, IndexRange] = {}
    given: dict[tuple[Operand, Place], Variable] = {}
    inputs: list[Variable] = []
    operands: list[Operand] = []
    body: list[Equation] = []

    def input_for(x: Operand, place: Place) -> Operand:
        """Returns the region's input for an operand from outside; a number as it is."""
        known = type_of(x)
        if type(x) is not Variable and not known.shape:
            return x
        key = x if type(x) is Variable else id(x), place
        if key not in given:
            move = clusters.makers.get(x, -1) if type(x) is Variable else -1
            is_move = move >= 0 and clusters.kinds[move] == "move" and move not in clusters.of
            if is_move and place != GATHERED_FROM:
                given[key] = moved(equations[move], place)
            else:
                given[key] = Variable(known, x.device if type(x) is Variable else "cpu")
                operands.append(x)
                inputs.append(given[key])
            places[given[key]] = place
        return given[key]

    def moved(move: Equation, place: Place) -> Variable:
        """Takes in what only adds or drops axes of a value from outside."""
        (x,) = move.operands
        source: Place
        if move.primitive.name == "broadcast_to":
            source = operand_place(type_of(x).shape, place)
        else:
            axes = iter([axis for axis in place if axis is not None])
            source = tuple([None if n == 1 else next(axes) for n in type_of(x).shape])
        out = Variable(move.outputs[0].type, move.outputs[0].device)
        body.append(move.by(move.primitive, [input_for(x, source)], move.params, [out]))
        return out

    for i in members:
        equation = equations[i]
        inner = [
            env[x]
            if type(x) is Variable and x in env
            else input_for(x, clusters.operand_place(i, n))
            for n, x in enumerate(equation.operands)
        ]
        if clusters.kinds[i] == "gather":
            for index, mine in zip(equation.operands[1:], inner[1:], strict=True):
                if type(mine) is Variable:
                    ranges[mine] = clusters.ranges.of(index)
        (old,) = equation.outputs
        out = env[old] = Variable(old.type, old.device)
        places[out] = clusters.places[i]
        body.append(equation.by(equation.primitive, inner, equation.params, [out]))
    own = set(members)
    outs = [
        v for v in env if v in clusters.returned or not own.issuperset(clusters.users.get(v, ()))
    ]
    region = Program("fused", inputs, body, [env[v] for v in outs])
    line = equations[members[0]].line
    scope = common_scope(equations[i].scope for i in members)
    made = Region(region, cluster.grid, places, ranges)
    return Equation(made, operands, {}, outs, line, scope)
