"""Proofs that the blocks of a region take the elements that its places say.

A place lists the axes of the grid that a value has. Blocks see the value with its axes transposed
and joined. The proof checks this for all operands and results of a region. It also checks that the
operands of every step broadcast to its result.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import TYPE_CHECKING

from .block_source import BlockCode
from .grid import Grid, Groups
from .region_grid import reordered_region
from .steps import BlockStep, BlockValue, joint_groups

if TYPE_CHECKING:
    from ....annotations import Axes, Shape
    from ..annotations import GridPlace, RegionLike, VariableLike

__all__ = ["PlanError", "prove_region"]

# Beginnings of lines whose operands broadcast to the result.
BROADCASTING = "np.", "{0}.clip", "outer(", "rowwise("
SPREADING = "np.broadcast_to"


class PlanError(ValueError):
    """Generated code takes other elements than the program says: the plan is wrong."""


def prove_region(code: BlockCode, region: RegionLike, order: Sequence[int] | None) -> None:
    """Checks the code of a region whose axes are in an order of memory.

    Raises:
        PlanError: a value lies elsewhere than its place says, or is overwritten too early.
    """
    lengths, places = reordered_region(region, order)
    grid = code.grid
    if grid.lengths != lengths or grid.group[0] or any(
        b - a not in (0, 1) for a, b in zip(grid.group, grid.group[1:])
    ):
        raise PlanError(f"the axes {grid.group} are not those of a grid {lengths}, joined")
    for variable, value, how in zip(region.program.inputs, code.inputs, code.shapes):
        axes, shape = how or (None, ())
        if value.groups:
            _lies(grid, variable, places[variable], axes, shape, value.groups)
        elif shape:
            raise PlanError(f"{variable.type} is brought to {shape}, and has no axes")
    for out, output in zip(region.program.outputs, code.outputs):
        if output.reduction:
            _is_left(grid, out, places[out], output.axes, output.rest)
            continue
        shape = grid.joined(output.groups)
        _lies(grid, out, places[out], output.axes, shape, output.groups)
        made = frozenset() if output.value is None else output.value.groups
        if 0 not in output.groups or not made <= output.groups:
            raise PlanError(f"{out.type} is made of {sorted(made)}")
    _steps_fit(code.inputs, code.steps)


def _lies(
    grid: Grid, x: VariableLike, place: GridPlace, axes: Axes | None, shape: Shape, groups: Groups
) -> None:
    """Checks that transposing and reshaping a value bring it to where its place says."""
    joined: list[int] = []
    for group, length in enumerate(grid.shape):
        members = [axis for axis, g in enumerate(grid.group) if g == group]
        joined += members if group in groups else []
        if len(shape) != len(grid.shape) or shape[group] != (length if group in groups else 1):
            raise PlanError(f"{x.type} is brought to {shape} for the axes {sorted(groups)}")
    moved = moved_axes(place, axes)
    if moved != joined:
        raise PlanError(f"{x.type} at {place} is brought to the axes {joined} of the grid")


def moved_axes(place: GridPlace, axes: Axes | None) -> list[int] | None:
    """Returns the axes of the grid that a value has once it is transposed; None without all."""
    order = range(len(place)) if axes is None else axes
    if len(order) != len(place):
        return None
    return [axis for axis in map(place.__getitem__, order) if axis is not None]


def _is_left(
    grid: Grid, x: VariableLike, place: GridPlace, axes: Axes | None, rest: Shape
) -> None:
    """Checks that the remaining axes of a sum over blocks are in the order of the result."""
    left = moved_axes(place, axes)
    if left is None or left != sorted(left) or 0 in map(grid.group.__getitem__, left):
        raise PlanError(f"{x.type} at {place} is put together over the axes {left}")
    if prod(rest) != x.type.size:
        raise PlanError(f"{x.type} is put together from parts {tuple(rest)}")


def _steps_fit(inputs: Iterable[BlockValue], steps: Sequence[BlockStep]) -> None:
    """Checks that operands exist before their use and have the axes of the result."""
    there = set(map(id, inputs))
    holds: dict[int, BlockValue] = {}
    for step in steps:
        values = [x for x in step.operands if type(x) is BlockValue]
        if not there.issuperset(map(id, values)):
            raise PlanError(f"{step.form} needs a value that no step before makes")
        taken = step.made.slot if step.made is not None and step.kind == "apart" else None
        if any(x.slot is not None and (holds[x.slot] is not x or x.slot == taken) for x in values):
            raise PlanError(f"{step.form} needs a value that is overwritten")
        made = step.made
        if made is None:
            continue
        groups = joint_groups(values)
        if step.form.startswith(BROADCASTING) and not step.form.startswith(SPREADING):
            fits = made.groups == groups
        else:
            fits = made.groups <= groups or (
                step.form.startswith(SPREADING) and made.groups >= groups
            )
        if not fits:
            raise PlanError(f"{step.form} of {sorted(groups)} gives {sorted(made.groups)}")
        there.add(id(made))
        if made.slot is not None:
            holds[made.slot] = made
