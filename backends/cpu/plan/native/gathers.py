"""Gathers as nodes: elements of an input at places that indices and axes of the grid name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ....kernels.graph import Expr, ExprGraph, Gathering
from ....region_functions import WINDOWED
from .complex_nodes import AnyNode, ComplexExpr, part_dtype
from .layouts import c_strides, in_c_order, unjoined
from .not_native import NotNative
from .windows import LONGEST_GRID_AXIS, is_native_windowed

if TYPE_CHECKING:
    from ....annotations import DType
    from ..annotations import EquationLike
    from .gather_source import GatherSource

__all__ = ["IndexedAxes", "indexed_axes", "is_native_gather"]


class IndexedAxes(NamedTuple):
    """The places of the elements of a gather.

    Attributes:
        source: the input.
        begin: the first element.
        slices: axes of the grid along which elements lie at fixed strides, with these.
        indexed: the axis of the input, and its length, for every index array.
        rolled: axes of the grid that begin elsewhere: their length, by how much they are rolled,
            and their strides.
        flat: by how much all elements in a row are rolled; 0 if they are not.
    """

    source: GatherSource
    begin: int
    slices: dict[int, int]
    indexed: Sequence[tuple[int, int]]
    rolled: Mapping[int, tuple[int, int, int]]
    flat: int = 0

    @property
    def sources(self) -> Sequence[GatherSource]:
        """The arrays of which elements are taken."""
        return (self.source,)

    def unjoined_axes(self, lengths: Sequence[int]) -> Iterator[frozenset[int]]:
        """Yields sets of the grid's axes that are not joined with axes outside of their set."""
        yield frozenset(self.slices)
        yield from unjoined(self.slices, lengths)
        for axis in self.rolled:
            yield frozenset([axis])

    def node(self, graph: ExprGraph, indices: Sequence[Expr], groups: Sequence[int]) -> AnyNode:
        """Returns the elements.

        Args:
            graph: makes nodes.
            indices: the nodes of the index arrays.
            groups: for every axis of the grid the joined axis that it is of.
        """
        source = self.source
        terms = {groups[a]: self.slices[a] for a in sorted(self.slices)}
        places = [graph.within(x, n) for x, (_, n) in zip(indices, self.indexed, strict=True)]
        strides = [source.strides[axis] for axis, _ in self.indexed]
        for axis, (length, shift, stride) in self.rolled.items():
            place = graph.place(groups[axis])
            places.append(graph.within(place - np.int32(shift), length))
            strides.append(stride)
        if self.flat:
            place = graph.constant(-self.flat, np.int64)
            for axis, stride in terms.items():
                place = place + graph.converted("cast", graph.place(axis), np.int64) * stride
            places, strides, terms = [graph.within(place, prod(source.shape))], [1], {}

        def part(number: int, parts: int, dtype: DType) -> Expr:
            where = Gathering(
                source.number,
                tuple([(axis, parts * stride) for axis, stride in terms.items()]),
                tuple([parts * stride for stride in strides]),
                parts * self.begin + number,
            )
            return graph.gather(dtype, places, where)

        if source.dtype.kind != "c":
            return part(0, 1, source.dtype)
        real, imag = (part(number, 2, part_dtype(source.dtype)) for number in range(2))
        return ComplexExpr(real, imag)


def indexed_axes(
    equation: EquationLike,
    place: Sequence[int | None],
    lengths: Sequence[int],
    source: GatherSource,
) -> IndexedAxes:
    """Returns where the elements of a gather lie.

    Args:
        equation: the equation, of ``index`` or ``roll``.
        place: the axes of the grid that its result has.
        lengths: the lengths of the grid's axes.
        source: what it takes elements of.

    Raises:
        NotNative: kernels do not gather them.
    """
    if equation.primitive.name == "roll":
        return rolled_axes(equation, place, source)
    slices: dict[int, int] = {}
    indexed: list[tuple[int, int]] = []
    begin = axis = 0
    for item, out in places_of_key(equation):
        if item is None:
            continue
        stride, length = source.strides[axis], source.shape[axis]
        if type(item) is slice:
            first, _, step = item.indices(length)
            begin += first * stride
            along = place[out]
            if along is not None:
                slices[along] = step * stride
        elif type(item) is int:
            begin += (item + length if item < 0 else item) * stride
        else:
            indexed.append((axis, length))
        axis += 1
    return IndexedAxes(source, begin, slices, indexed, {})


def places_of_key(equation: EquationLike) -> list[tuple[Any, int]]:
    """Returns the parts of a key, a slice for each whole axis, with their axes of the result.

    Index arrays and the integers beside them have the same axes, which stand where the first of
    them stands, or in front if something comes between them.
    """
    x, *indices = equation.operands
    native = equation.params["key"].native
    taken = sum(item is not None and item is not Ellipsis for item in native)
    whole = [slice(None)] * (len(x.type.shape) - taken)
    parts: list[Any] = []
    for item in native:
        parts += whole if item is Ellipsis else [item]
    if Ellipsis not in native:
        parts += whole
    rank = max(len(v.type.shape) if hasattr(v, "type") else np.ndim(v) for v in indices)
    # Index arrays are strings in a key.
    together = [n for n, item in enumerate(native) if type(item) in (int, str)]
    # An Ellipsis comes between them even if it stands for no axis.
    placed = together[-1] - together[0] >= len(together)
    out = rank if placed else 0
    axes: list[int] = []
    for item in parts:
        if type(item) in (int, str):
            out += 0 if placed else rank
            placed = True
            axes.append(-1)
        else:
            axes.append(out)
            out += 1
    return list(zip(parts, axes, strict=True))


def rolled_axes(
    equation: EquationLike, place: Sequence[int | None], source: GatherSource
) -> IndexedAxes:
    """Returns where the elements of an array lie that is rolled."""
    shift, axis = equation.params["shift"], equation.params["axis"]
    if axis is None:
        if not in_c_order(source.shape, source.strides):
            raise NotNative("a roll of all elements in another order")
        strides = c_strides(source.shape)
        flat = {a: stride for a, stride in zip(place, strides) if a is not None}
        return IndexedAxes(source, 0, flat, (), {}, shift[0] % prod(source.shape))
    steps = {i: by % source.shape[i] for i, by in zip(axis, shift, strict=True)}
    along = {
        a: (source.shape[i], steps[i], source.strides[i])
        for i, a in enumerate(place)
        if a is not None and steps.get(i)
    }
    slices = {a: source.strides[i] for i, a in enumerate(place) if a is not None and a not in along}
    return IndexedAxes(source, 0, slices, (), along)


def is_native_gather(equation: EquationLike) -> bool:
    """Says whether kernels gather the elements that an equation wants."""
    name, known = equation.primitive.name, equation.outputs[0].type
    if name in WINDOWED:
        return is_native_windowed(equation, {})
    # All elements of an array that is rolled as a whole are one axis.
    if name == "roll" and equation.params["axis"] is None:
        return known.size < LONGEST_GRID_AXIS
    return max(known.shape, default=0) < LONGEST_GRID_AXIS
