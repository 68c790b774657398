"""Partition specs: along which axes of a mesh the axes of an array are cut."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from math import prod
from typing import Any

from .. import tree
from ..primitives.collectives import axis_names
from ..primitives.core.array import Array
from ..primitives.core.array_likes import is_array_like
from ..primitives.core.buffers import WEAK_TYPES, as_array
from ..primitives.core.errors import describe, message
from ..primitives.core.shape_dtype import shape_dtype
from ..tree import containers

__all__ = [
    "PartitionSpec", "broadcast_specs", "check_entries", "check_names", "checked_argument",
    "is_as_it_is",
]  # fmt: skip


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
    word = what.split()[-1]
    for spec in found:
        if spec is not None and not isinstance(spec, PartitionSpec):
            raise TypeError(
                message(f"{what} holds {spec!r}, which is no spec", fix=f"{word}=P('data')")
            )
        for name in spec.names() if spec is not None else ():
            if name not in shape:
                raise ValueError(
                    message(
                        f"{what} has {spec}, and the mesh no axis {name!r}: its axes are "
                        f"{', '.join(map(repr, shape))}",
                        fix=f"{word}=P({next(iter(shape), None)!r})",
                    )
                )
    return [NOT_CUT if spec is None else spec for spec in found]


def check_names(words: str, names: Iterable[Hashable]) -> None:
    """Checks that no axis of a mesh has the name of one that a function speaks of already."""
    known = axis_names()
    for name in names:
        if name in known:
            what = f"{words} runs within another axis named {name!r}"
            raise ValueError(message(what, fix="give the axes different names"))


def check_entries(words: str, leaf: Any, spec: PartitionSpec) -> None:
    """Checks that an array has the axes of which a spec speaks."""
    ndim = len(shape_dtype(leaf).shape)
    if len(spec.entries) > ndim:
        raise ValueError(
            message(
                f"{words}: {spec} is for {len(spec.entries)} axes, and an array {describe(leaf)} "
                f"has {ndim}",
                fix="P() for an array that is not cut",
            )
        )


def checked_argument(
    words: str, leaf: Any, spec: PartitionSpec, shape: Mapping[Hashable, int]
) -> Any:
    """Returns an argument as an array, of which each process may take its part.

    Tensors stay what they are. Numbers that are not cut give way to the dtypes of arrays.

    Args:
        words: what messages call the function.
        leaf: the argument, or a leaf of it.
        spec: says along which axes it is cut.
        shape: the lengths of the mesh's axes.
    """
    if not is_array_like(leaf):
        if spec.names():
            raise TypeError(f"{words}: {spec} cuts {leaf!r:.40}, which is no array")
        return leaf
    leaf = leaf if isinstance(leaf, Array) else as_array(leaf)
    check_entries(words, leaf, spec)
    for place, entry in enumerate(() if spec.is_local else spec.entries):
        parts = prod(shape[name] for name in entry)
        length = shape_dtype(leaf).shape[place]
        if length % parts:
            raise ValueError(
                message(
                    f"{words}: axis {place} of an array {describe(leaf)} is cut by {spec} into "
                    f"{parts} parts, and has length {length}",
                    fix=f"a length that is a multiple of {parts}",
                )
            )
    return leaf


def is_as_it_is(leaf: Any) -> bool:
    """Says whether an argument is given to all processes as it is: a number, or no array."""
    return not is_array_like(leaf) or type(leaf) in WEAK_TYPES
