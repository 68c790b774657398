"""Meshes: the processes of a program along named axes."""

from __future__ import annotations

import operator
from collections.abc import Hashable, Mapping, Sequence
from math import prod
from typing import Any

from .. import tree
from ..backends.config import config
from ..primitives.collectives import ProcessAxes
from ..primitives.core.array_likes import is_array_like
from ..primitives.core.buffers import device_of
from ..primitives.core.errors import failure, message
from ..primitives.core.trace import slot
from .groups import process_group
from .objects import said_by_first
from .world import world

__all__ = ["Mesh", "ProcessAxis", "all_along", "axes_by_name", "axes_of_step", "mesh"]


class ProcessAxis:
    """A named axis of a mesh, over which collectives of this process go.

    Attributes:
        mesh: the mesh.
        name: the axis's name.
        size: the number of processes along it.
        index: the position of this process.
    """

    def __init__(self, mesh: Mesh, name: Hashable, size: int, index: int) -> None:
        self.mesh = mesh
        self.name = name
        self.size = size
        self.index = index

    def collect(self, name: str, buffer: Any, axes: Sequence[Any], params: dict[str, Any]) -> Any:
        """Does a collective over axes, of which this is the first, on a buffer."""
        from .collecting import collected

        return collected(self.mesh, name, buffer, axes, params)

    def order_of_first(self, key: str, order: Sequence[int], axes: Sequence[Any]) -> Sequence[int]:
        """Returns the order that the first process along some axes has for a key."""
        ranks = self.mesh.ranks([axis.name for axis in axes])
        if len(ranks) == 1:
            return order
        words = "order of gradients of the first rank"
        said: Sequence[int] = said_by_first(world().comm, ranks, key, order, words)
        return said

    def check_same(self, what: str, buffer: Any, axes: Sequence[Any]) -> None:
        """Checks that an argument or output is the same along axes, where that is asked for."""
        if config.check_collectives:
            from .checking import check_same_values

            check_same_values(self.mesh, what, buffer, axes)

    def __repr__(self) -> str:
        return repr(self.name)

    def __reduce__(self) -> tuple[Any, ...]:
        return axis_of, (self.mesh, self.name)


def axis_of(mesh: Mesh, name: Hashable) -> ProcessAxis:
    """Returns the axis of a mesh that has a name: one that was pickled."""
    return mesh.axes[name]


class Mesh:
    """The processes of a program along named axes; `mesh` makes it.

    Attributes:
        shape: the lengths of the axes by their names.
        axes: the axes by their names.
        position: the position of this process along each axis, by its name.
        emulated: whether one process stands for all.
    """

    def __init__(self, shape: Mapping[Hashable, int], rank: int, emulated: bool = False) -> None:
        self.shape = dict(shape)
        self.emulated = emulated
        self.axes: dict[Hashable, ProcessAxis] = {}
        self._strides: dict[Hashable, int] = {}
        self._rank = rank
        stride = prod(self.shape.values())
        for name, length in self.shape.items():
            stride //= length
            self._strides[name] = stride
            self.axes[name] = ProcessAxis(self, name, length, rank // stride % length)
        self._axes_by_device: dict[str, ProcessAxes] = {}
        self.position = {name: axis.index for name, axis in self.axes.items()}

    @property
    def size(self) -> int:
        """The number of processes."""
        return prod(self.shape.values())

    def axes_on(self, device: str) -> ProcessAxes:
        """Returns the axes as collectives find them, of arguments on a device."""
        return self._axes_by_device.setdefault(device, ProcessAxes(self.axes, device))

    def ranks(self, names: Sequence[Hashable]) -> list[int]:
        """Returns the ranks of the processes that differ from this one along some axes alone.

        The last of the names counts fastest.
        """
        found = [self._rank - sum(self.axes[n].index * self._strides[n] for n in names)]
        for name in names:
            steps = [self._strides[name] * i for i in range(self.shape[name])]
            found = [rank + step for rank in found for step in steps]
        return found

    def group(self, names: Sequence[Hashable], buffer: Any) -> Any:
        """Returns the group of these processes, which exchanges buffers like one."""
        return process_group(tuple(self.ranks(names)), buffer)

    def __repr__(self) -> str:
        return f"<mesh of {self.size} processes: {self.shape}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return mesh_of, (self.shape, self.emulated)


def mesh_of(shape: dict[Hashable, int], emulated: bool) -> Mesh:
    """Returns a mesh that was pickled, of the processes that there are here."""
    return mesh(shape, emulated=emulated)


_known_meshes: dict[Any, Mesh] = {}


def mesh(shape: Mapping[Hashable, int], *, emulated: bool = False) -> Mesh:
    """Returns the processes of the program along named axes.

    Processes of consecutive ranks are neighbours along the last axis.

    Args:
        shape: the lengths of axes by their names, ``{"data": 4, "model": 2}``. One may be -1: it
            takes the processes that the others leave.
        emulated: whether this process stands for all of a mesh, so that a function is tried without
            others; `spmd` runs it under `vmap` then.

    Raises:
        TypeError: the shape is no dict of whole numbers.
        ValueError: the lengths do not multiply to the number of processes, or a name is None or a
            tuple.

    >>> import functensor as ft
    >>> ft.distributed.mesh({"data": -1, "model": 1})
    <mesh of 1 processes: {'data': 1, 'model': 1}>
    >>> ft.distributed.mesh({"data": 4}, emulated=True).shape
    {'data': 4}
    """
    found = world()
    try:
        lengths = {name: operator.index(length) for name, length in dict(shape).items()}
    except (TypeError, ValueError):
        raise failure(
            TypeError,
            "distributed.mesh: shape is a dict of whole numbers, the lengths of axes, by the "
            f"names of the axes, not {shape!r}",
            fix='mesh({"data": 4}), or mesh({"data": -1}) for all processes',
        ) from None
    odd = [name for name in lengths if name is None or isinstance(name, tuple)]
    if odd:
        raise failure(
            ValueError,
            f"distributed.mesh: {odd[0]!r} is no name of an axis: specs and collectives take it "
            "for no axis, or for several",
            fix='mesh({"data": 2, "model": 2})',
        )
    missing = [name for name, length in lengths.items() if length == -1]
    rest = prod(length for length in lengths.values() if length != -1)
    count = found.size
    if len(missing) == 1 and not emulated and rest > 0:
        # No fewer than one, so that the error below tells how many processes there have to be.
        lengths[missing[0]] = max(count // rest, 1)
    if not all(n > 0 for n in lengths.values()):
        whose = "lengths of an emulated mesh" if emulated else "lengths, of which one may be -1,"
        raise ValueError(f"distributed.mesh: {whose} are positive: {shape}")
    needed = prod(lengths.values())
    if not emulated and needed != count:
        several = f"a multiple of {rest}" if missing else str(needed)
        raise ValueError(
            message(
                f"distributed.mesh: {dict(shape)} is for {several} processes, and "
                f"the program runs on {count}",
                fix=f"start so many: mpirun -n {needed} python program.py; or try "
                f"the function in one process: mesh({lengths}, emulated=True)",
            )
        )
    key = tuple(lengths.items()), emulated, found
    made = _known_meshes.get(key)
    if made is None:
        made = _known_meshes[key] = Mesh(lengths, 0 if emulated else found.rank, emulated)
    return made


def all_along(names: Sequence[Hashable]) -> Mesh:
    """Returns all processes along the first of some axes."""
    return mesh({name: 1 if i else -1 for i, name in enumerate(names)})


def axes_of_step(values: Any, names: Sequence[Hashable], given: Mesh | None = None) -> ProcessAxes:
    """Returns the axes of processes of the step that runs: of the `spmd` around it if there is one.

    Args:
        values: the step's arguments, on whose device collectives are.
        names: the axes that the step speaks of, for a mesh of all processes.
        given: the mesh in place of that.
    """
    if slot.axes is not None and slot.axes.axes:
        around: ProcessAxes = slot.axes
        return around
    arrays = [x for x in tree.leaves(values) if is_array_like(x)]
    device = next((d for d in map(device_of, arrays) if d != "cpu"), "cpu")
    return (all_along(names) if given is None else given).axes_on(device)


def axes_by_name(
    function: str, axes: ProcessAxes, names: Sequence[Hashable]
) -> tuple[ProcessAxis, ...]:
    """Returns the axes of processes of some names, for a function that messages name.

    Raises:
        ValueError: there is none of a name.
    """
    known: Mapping[Hashable, Any] = axes.axes
    for name in names:
        if name not in known:
            raise ValueError(
                message(
                    f"{function}: the mesh has no axis {name!r}: its axes are "
                    f"{', '.join(map(repr, known))}",
                    fix=f"axis={next(iter(known), 'data')!r}",
                )
            )
    return tuple([known[name] for name in names])
