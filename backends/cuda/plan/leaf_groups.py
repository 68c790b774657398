"""Groups regions that do the same with different arrays, so that one launch does all of them.

The updates of an optimizer are such regions: one for each parameter.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...cpu.plan.codegen.operands import constant, is_variable
from ...cpu.plan.native.not_native import NotNative
from .late_means import behind_last_mean, means_begun
from .leaf_kernels import is_of_leaves, leaf_kernel
from .region_run import is_on_host, region_source

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable

    from ...cpu.plan.annotations import EquationLike, Operand, ProgramLike, VariableLike

__all__ = ["CallGroup", "FusedCall", "ManyLeaves", "grouped_leaves", "with_groups"]

# The bytes of the table while texts are compared, which have no rows then.
NO_BYTES = 0


class FusedCall:
    """A call of what one launch computes, alike to a region."""

    name = "fused"
    fused = True
    impl = infer = None
    collective = effect = False
    bodies: Sequence[Any] = ()


class CallGroup(FusedCall):
    """A call of regions that need nothing of each other, by one launch.

    Attributes:
        program: what they compute, one after the other.
        members: the equations of the regions.

    Args:
        members: the equations of the regions.
    """

    def __init__(self, members: Sequence[EquationLike]) -> None:
        programs = [equation.primitive.program for equation in members]
        self.members = members
        self.program: ProgramLike = type(programs[0])(
            self.name,
            [x for program in programs for x in program.inputs],
            [e for program in programs for e in program.equations],
            [x for program in programs for x in program.outputs],
        )

    @classmethod
    def equation(cls, members: Sequence[EquationLike]) -> EquationLike:
        """Returns the equation that does what those of the regions do."""
        operands = [x for equation in members for x in equation.operands]
        outputs = [x for equation in members for x in equation.outputs]
        made: EquationLike = members[0].by(cls(members), operands, {}, outputs)  # type: ignore[attr-defined]
        return made

    def prove(self) -> None:
        """Checks what the regions claim."""
        for equation in self.members:
            equation.primitive.prove()


class ManyLeaves(CallGroup):
    """A call of regions that do the same with different arrays."""


def grouped_leaves(program: ProgramLike) -> ProgramLike:
    """Returns a program whose regions of one text are grouped, where none needs another.

    What needs the last of several means over processes is another group than the rest.

    Args:
        program: the program, its regions fused.
    """
    alike: dict[Hashable, list[EquationLike]] = {}
    for equation in program.equations:
        if equation.primitive.fused and is_of_leaves(equation.primitive):
            alike.setdefault(operations_of(equation), []).append(equation)
    keys: dict[Hashable, list[EquationLike]] = {}
    late = behind_last_mean(program.equations)
    # Texts are made where two may be the same.
    for equation in [x for some in alike.values() if len(some) > 1 for x in some]:
        key = leaf_key(equation)
        if key is not None:
            keys.setdefault((key, id(equation) in late), []).append(equation)
    equations = list(program.equations)
    for members in keys.values():
        if len(members) > 1:
            equations = with_groups(equations, members, many_leaves_of)
    if len(equations) == len(program.equations):
        return program
    return program.with_equations(equations)  # type: ignore[attr-defined, no-any-return]


def operations_of(equation: EquationLike) -> Hashable:
    """Returns the operations of a region, and the dtypes of its operands."""
    program = equation.primitive.program
    names = [e.primitive.name for e in program.equations]
    return (*names, None, *[(x.type.dtype, bool(x.type.shape)) for x in program.inputs])


def leaf_key(equation: EquationLike) -> Hashable:
    """Returns what regions of leaves have in common that one launch may compute; None without."""
    given = equation.operands
    try:
        on_host = list(map(is_on_host, given))
        source = region_source("leaves", equation.primitive, given, on_host)
    except NotNative:
        return None
    kernel = leaf_kernel(source, 1, NO_BYTES)
    if kernel is None:
        return None
    numbers = [number_key(given[place.number]) for place in kernel.numbers]
    return kernel.text, len(given), (*numbers,)


def number_key(x: Operand) -> int:
    """Returns what tells an operand from others, of whatever value."""
    return id(x if is_variable(x) else constant(x))


def with_groups(
    equations: Sequence[EquationLike],
    members: Sequence[EquationLike],
    group_of: Callable[[Sequence[EquationLike]], EquationLike | None],
) -> list[EquationLike]:
    """Returns equations, in order, some of them in groups within which none needs another.

    Args:
        equations: the equations.
        members: those that may be in groups.
        group_of: returns what does the work of a group, or None where it is to stay as it is.
    """
    among = set(map(id, members))
    # By how many of the members lie, one behind the other, before what makes a value.
    stages: dict[VariableLike, int] = {}
    groups: dict[int, list[EquationLike]] = {}
    for equation in equations:
        stage = max([stages.get(x, 0) for x in variables(equation)], default=0)
        if id(equation) in among:
            groups.setdefault(stage, []).append(equation)
            stage += 1
        stages |= dict.fromkeys(equation.outputs, stage)
    units: dict[int, EquationLike] = {}
    for group in groups.values():
        whole = group_of(group)
        if whole is not None:
            units |= dict.fromkeys(map(id, group), whole)
    return sorted_by_need([*dict.fromkeys(units.get(id(e), e) for e in reversed(equations))][::-1])


def many_leaves_of(members: Sequence[EquationLike]) -> EquationLike | None:
    """Returns the equation that does what several regions do; None where there is one alone."""
    return ManyLeaves.equation(members) if len(members) > 1 else None


def variables(equation: EquationLike) -> Iterable[VariableLike]:
    """Returns the variables that an equation reads."""
    return filter(is_variable, equation.operands)


def sorted_by_need(equations: Sequence[EquationLike]) -> list[EquationLike]:
    """Returns equations each behind those whose results it needs, else in the order given.

    Those that wait for means over processes come when nothing else is left to be done.
    """
    begun = means_begun(equations)
    ranks = [
        (id(equation) in begun, begun.get(id(equation), i), i)
        for i, equation in enumerate(equations)
    ]
    makers = {x: i for i, equation in enumerate(equations) for x in equation.outputs}
    waiting: list[int] = []
    followers: list[list[int]] = [[] for _ in equations]
    for i, equation in enumerate(equations):
        needed = {makers[x] for x in variables(equation) if x in makers}
        waiting.append(len(needed))
        for other in needed:
            followers[other].append(i)
    free = [ranks[i] for i, number in enumerate(waiting) if not number]
    heapq.heapify(free)
    order: list[EquationLike] = []
    while free:
        *_, i = heapq.heappop(free)
        order.append(equations[i])
        for follower in followers[i]:
            waiting[follower] -= 1
            if not waiting[follower]:
                heapq.heappush(free, ranks[follower])
    return order
