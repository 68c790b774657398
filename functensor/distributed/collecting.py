"""The collectives of processes: what each primitive does on a buffer, by its name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..backends.config import config
from ..backends.devices import backend_of
from .checking import check_collective

__all__ = ["collected"]

Collecting = Callable[[Any, Any, Any, dict[str, Any]], Any]


def _extreme_values(group: Any, xp: Any, x: Any, largest: bool) -> Any:
    if x.dtype.kind != "c":
        return group.extremum(x, largest)
    # No integers are in the order of complex numbers.
    rows = group.gather(x)
    return rows.max(axis=0) if largest else rows.min(axis=0)


def _gathered(group: Any, xp: Any, x: Any, params: dict[str, Any]) -> Any:
    return xp.moveaxis(group.gather(x), 0, params["axis"])


def _sum_scattered(group: Any, xp: Any, x: Any, params: dict[str, Any]) -> Any:
    return group.scatter_sum(xp.moveaxis(x, params["axis"], 0))


def _exchanged(group: Any, xp: Any, x: Any, params: dict[str, Any]) -> Any:
    rows = group.exchange(xp.moveaxis(x, params["split_axis"], 0))
    return xp.moveaxis(rows, 0, params["concat_axis"])


COLLECTIVES: dict[str, Collecting] = {
    "begin_mean": lambda group, xp, x, params: group.begin_mean(x, params["owned"]),
    "begin_scattered_mean": lambda group, xp, x, params: group.begin_scatter_mean(x),
    "psum": lambda group, xp, x, params: group.sum(x),
    "pmax": lambda group, xp, x, params: _extreme_values(group, xp, x, True),
    "pmin": lambda group, xp, x, params: _extreme_values(group, xp, x, False),
    "all_gather": _gathered,
    "psum_scatter": _sum_scattered,
    "all_to_all": _exchanged,
    "ppermute": lambda group, xp, x, params: group.permute(x, params["perm"]),
}


def collected(
    mesh: Any, name: str, buffer: Any, axes: Sequence[Any], params: dict[str, Any]
) -> Any:
    """Does a collective over axes of a mesh.

    Args:
        mesh: the mesh.
        name: the primitive's name.
        buffer: the operand.
        axes: the axes.
        params: the primitive's other parameters.
    """
    if name == "axis_index":
        place = 0
        for axis in axes:
            place = place * axis.size + axis.index
        return buffer + place
    if config.check_collectives:
        check_collective(name, buffer, axes, params)
    xp = backend_of(buffer).xp
    group = mesh.group([axis.name for axis in axes], buffer)
    return COLLECTIVES[name](group, xp, buffer, params)
