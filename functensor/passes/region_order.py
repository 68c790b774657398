"""Puts the equations of a program with regions in order."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence

from ..programs.live_equations import live_equations
from ..programs.program import Equation, Program, Variable, used

__all__ = ["equations_in_order"]


def equations_in_order(
    program: Program,
    makers: Mapping[Variable, int],
    members_of_regions: Sequence[Sequence[int]],
    region: Callable[[int, list[int]], Equation],
) -> list[Equation]:
    """Returns equations and regions, each after what it depends on, else in the old order.

    Operations of several processes keep their order, whatever the regions are.

    Args:
        program: the program without regions.
        makers: the number of the equation that makes a variable.
        members_of_regions: the numbers of each region's equations.
        region: returns the call of a region, given its number and those of its equations.
    """
    unit = {i: min(numbers) for numbers in members_of_regions for i in numbers}
    members: dict[int, list[int]] = {}
    for i in range(len(program.equations)):
        members.setdefault(unit.get(i, i), []).append(i)
    chosen = {min(numbers): n for n, numbers in enumerate(members_of_regions)}
    made: dict[int, Equation] = {}
    waiting: dict[int, int] = {}
    followers: dict[int, list[int]] = {}
    exchanged: int | None = None
    for u, own in members.items():
        made[u] = region(chosen[u], own) if u in chosen else program.equations[u]
        known = [v for v in used(made[u].operands) if v in makers]
        needed = {unit.get(makers[v], makers[v]) for v in known}
        if made[u].exchanges():
            needed |= set() if exchanged is None else {exchanged}
            exchanged = u
        waiting[u] = len(needed)
        for other in needed:
            followers.setdefault(other, []).append(u)
    free = [u for u, count in waiting.items() if not count]
    heapq.heapify(free)
    order: list[Equation] = []
    while free:
        u = heapq.heappop(free)
        order.append(made[u])
        for follower in followers.get(u, ()):
            waiting[follower] -= 1
            if not waiting[follower]:
                heapq.heappush(free, follower)
    # Regions have taken in some moves.
    return live_equations(order, program.outputs, all_exchanges=True)
