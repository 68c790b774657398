"""Partition specs: along which axes of a mesh the axes of an array are cut."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

from .. import tree
from ..primitives.core.errors import message
from ..tree import containers

__all__ = ["PartitionSpec", "broadcast_specs"]


class PartitionSpec:
    """Says for each axis of an array along which axes of a mesh it is cut.

    Args:
        entries: for each axis of the array the name of an axis of the mesh, a tuple of several, of
            which the last counts fastest, or None where it is not cut. Axes behind the last entry
            are not cut.

    >>> import functensor as ft
    >>> ft.distributed.P("data", None, ("model", "pipe"))
    P('data', None, ('model', 'pipe'))
    """

    __slots__ = ("entries", "is_local")

    def __init__(self, *entries: Any) -> None:
        self.entries: tuple[tuple[Hashable, ...], ...] = tuple(
            () if e is None else tuple(e) if isinstance(e, tuple | list) else (e,) for e in entries
        )
        self.is_local = False
        names = self.names()
        if len(set(names)) < len(names):
            raise ValueError(f"P{entries} names an axis twice")

    @classmethod
    def local(cls, *entries: Any) -> PartitionSpec:
        """Returns the spec of arrays of which each process has its own part already.

        It is a value of one process: a derivative by it, or of it, is that process's own. On an
        emulated mesh, where one process stands for all, it means the same as the class itself.

        Args:
            entries: as for the class.

        >>> import functensor as ft
        >>> ft.distributed.P.local("data")
        P.local('data')
        """
        out = cls(*entries)
        out.is_local = True
        return out

    def names(self) -> tuple[Hashable, ...]:
        """Returns the names of the axes along which it cuts."""
        return tuple(name for entry in self.entries for name in entry)

    def __repr__(self) -> str:
        shown = ", ".join(
            repr(None if not e else e[0] if len(e) == 1 else e) for e in self.entries
        )
        return f"P.local({shown})" if self.is_local else f"P({shown})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PartitionSpec):
            return NotImplemented
        return (self.entries, self.is_local) == (other.entries, other.is_local)

    def __hash__(self) -> int:
        return hash((self.entries, self.is_local))


NOT_CUT = PartitionSpec()


def broadcast_specs(
    what: str, specs: Any, values: Any, shape: Mapping[Hashable, int]
) -> list[PartitionSpec]:
    """Returns a spec for each leaf of a tree.

    Args:
        what: what messages call the specs.
        specs: a tree of specs with which the tree begins; None stands for ``P()``.
        values: the tree.
        shape: the lengths of the mesh's axes.
    """
    try:
        found = containers.broadcast_prefix(specs, values, lambda x: x is None)
    except ValueError as error:
        raise ValueError(
            message(
                f"{what}={specs} does not fit the structure {tree.structure(values)}: {error}",
                fix="give one spec, or the structure with which the values begin",
            )
        ) from error
    for spec in found:
        if spec is not None and not isinstance(spec, PartitionSpec):
            raise TypeError(
                message(f"{what} holds {spec!r}, which is no spec", fix=f"{what}=P('data')")
            )
        for name in spec.names() if spec is not None else ():
            if name not in shape:
                raise ValueError(
                    message(
                        f"{what} has {spec}, and the mesh no axis {name!r}: its axes are "
                        f"{', '.join(map(repr, shape))}",
                        fix=f"{what}=P({next(iter(shape), None)!r})",
                    )
                )
    return [NOT_CUT if spec is None else spec for spec in found]
