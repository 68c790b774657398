"""Joined, padded and updated arrays in segments: each part is written where it lies in the result.

What a region computes for a part alone goes there at once, and what lies elsewhere is copied.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..codegen.operands import bytes_of, constant, is_variable
from .copies import CopiedPart
from .elementwise_nodes import operand_dtype, operand_shape
from .layouts import LayOut, broadcast_strides, c_strides
from .region_graph import NotNative
from .shared_segments import FEWEST_REGION_PARTS, SharedSegment, region_in_parts
from .work_in_parts import KernelInParts

if TYPE_CHECKING:
    from ..annotations import EquationLike, Operand, VariableLike

__all__ = ["SegmentWithJoins"]

JOINED_BY_PARTS = frozenset({"concatenate", "index_set", "pad", "stack"})
# A smaller result, in bytes, is joined by one function.
SMALLEST_JOINED_BYTES = 1 << 14
# A join of more parts would be many kernels.
MOST_JOINED_PARTS = 16


class JoinedPart(NamedTuple):
    """A part of a joined array.

    Attributes:
        operand: the array that it is; None for a number in all places.
        source: where the elements lie.
        lies: where they lie in the result.
    """

    operand: Operand | None
    source: LayOut
    lies: LayOut


class SegmentWithJoins(SharedSegment):
    """Collects equations of a segment, joins among them."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # The equations of regions with one result, and the numbers of their calls.
        self._made_alone: dict[VariableLike, tuple[int, EquationLike]] = {}

    def _region(self, equation: EquationLike) -> None:
        before = len(self._calls)
        super()._region(equation)
        if len(self._calls) == before + 1 and len(equation.outputs) == 1:
            self._made_alone[equation.outputs[0]] = before, equation

    def _add(self, equation: EquationLike) -> None:
        (out, *_) = equation.outputs
        name = equation.primitive.name
        if name not in JOINED_BY_PARTS or bytes_of(out.type) < SMALLEST_JOINED_BYTES:
            super()._add(equation)
            return
        self._refuse_moved(equation)
        if any(operand_dtype(x) != out.type.dtype for x in equation.operands[:1]):
            raise NotNative("an array of another dtype")
        if equation.primitive.name == "pad":
            parts = self._padded(equation)
        elif equation.primitive.name == "index_set":
            parts = self._updated(equation)
        else:
            parts = self._side_by_side(equation)
        if len(parts) > MOST_JOINED_PARTS:
            raise NotNative("many parts")
        for part in [part for part in parts if not self._goes_to(part)]:
            _, source, (_, _, shape, strides) = part
            copied = CopiedPart(shape, source.strides, 0)
            self._add_copy([source], part.lies, shape, [copied], strides)
        self._lying[out] = self._fresh(out)

    def _side_by_side(self, equation: EquationLike) -> list[JoinedPart]:
        """Returns the parts of arrays that are put side by side."""
        (out,), axis = equation.outputs, equation.params["axis"] % equation.outputs[0].type.ndim
        strides, begin, parts = c_strides(out.type.shape), 0, []
        stack = equation.primitive.name == "stack"
        own = (*strides[:axis], *strides[axis + 1 :]) if stack else strides
        for x in equation.operands:
            if operand_dtype(x) != out.type.dtype:
                raise NotNative("arrays of other dtypes")
            shape = operand_shape(x)
            if prod(shape):
                lies = LayOut(out, begin * strides[axis], shape, own)
                source = self._layout(x if is_variable(x) else np.asarray(constant(x)))
                parts.append(JoinedPart(x, source, lies))
            begin += 1 if stack else shape[axis]
        return parts

    def _padded(self, equation: EquationLike) -> list[JoinedPart]:
        """Returns the array that is padded, and the slabs around it."""
        (out,), (x, value) = equation.outputs, equation.operands
        if operand_shape(value) or not prod(operand_shape(x)) or not is_variable(x):
            raise NotNative("a pad of several values, or of nothing")
        if is_variable(value):
            if value.type.dtype != out.type.dtype:
                raise NotNative("a pad of another dtype")
            number = self._layout(value)
        else:
            number = self._layout(np.full(1, constant(value), out.type.dtype))
        lengths = out.type.shape
        widths = zip(lengths, equation.params["pad_width"], strict=True)
        box = [(before, length - after) for length, (before, after) in widths]
        around = [lying_at(out, slab) for slab in slabs_around(box, lengths)]
        same = [number._replace(shape=v.shape, strides=(0,) * len(v.shape)) for v in around]
        parts = [JoinedPart(None, *pair) for pair in zip(same, around, strict=True)]
        return [JoinedPart(x, self._layout(x), lying_at(out, box)), *parts]

    def _updated(self, equation: EquationLike) -> list[JoinedPart]:
        """Returns the part of an array that is set, and the slabs of the array around it."""
        (out,), (x, value, *indices) = equation.outputs, equation.operands
        lengths = out.type.shape
        found = None if indices else box_of(equation.params["key"].native, lengths)
        if found is None or not is_variable(x):
            raise NotNative("a part that is no box")
        box, kept = found
        lies = lying_at(out, box)
        shape, strides = ([v[i] for i in kept] for v in (lies.shape, lies.strides))
        lies = lies._replace(shape=tuple(shape), strides=tuple(strides))
        if not is_variable(value):
            value = np.asarray(constant(value)).astype(out.type.dtype)
        elif value.type.dtype != out.type.dtype:
            raise NotNative("a value of another dtype")
        own = self._layout(value)
        whole = own.shape == lies.shape
        spread = tuple(broadcast_strides(own.shape, own.strides, lies.shape))
        source = own if whole else own._replace(shape=lies.shape, strides=spread)
        parts = [JoinedPart(value if whole else None, source, lies)]
        known = self._layout(x)
        for slab in slabs_around(box, lengths):
            there = known.part(tuple([slice(*ends) for ends in slab]))
            parts.append(JoinedPart(None, there, lying_at(out, slab)))
        return parts

    def _goes_to(self, part: JoinedPart) -> bool:
        """Has what a region computes for a part alone written there; says whether there is such."""
        x = part.operand
        if not is_variable(x) or x not in self._made_alone or self._uses[x] != 1:
            return False
        number, equation = self._made_alone[x]
        if self._lying[x] != self._fresh(x):
            return False
        if part.lies.shape and part.lies.strides[-1] != 1:
            return False
        call = self._calls[number]
        given = call.given[: call.reads]
        try:
            region = self.kernels.of(equation, [v.strides for v in given], part.lies.strides)
        except NotNative:
            return False
        if isinstance(call.kernel, KernelInParts):
            kernel: Any = region_in_parts(region, call.kernel.parts)
        else:
            kernel = region.kernel(whole=True)
        if number in self._accompanying:
            count = region.graph.grid.rows
            self._accompanying[number] = partial(
                region_in_parts, region, min(count, FEWEST_REGION_PARTS)
            )
        self._calls[number] = call._replace(kernel=kernel, given=(*given, part.lies))
        self._lying[x] = part.lies
        return True


def lying_at(out: VariableLike, box: Sequence[tuple[int, int]]) -> LayOut:
    """Returns where a box lies in an array: the first place along each axis, and the one behind."""
    strides = c_strides(out.type.shape)
    begin = sum(low * stride for (low, _), stride in zip(box, strides, strict=True))
    return LayOut(out, begin, tuple([high - low for low, high in box]), strides)


def slabs_around(
    box: Sequence[tuple[int, int]], lengths: Sequence[int]
) -> Iterator[list[tuple[int, int]]]:
    """Yields boxes that fill an array together with a box in it."""
    for axis, (low, high) in enumerate(box):
        for ends in ((0, low), (high, lengths[axis])):
            if ends[0] < ends[1]:
                rest = [(0, length) for length in lengths[axis + 1 :]]
                yield [*box[:axis], ends, *rest]


def box_of(
    key: Sequence[Any], lengths: Sequence[int]
) -> tuple[list[tuple[int, int]], list[int]] | None:
    """Returns the box that a key names, and the axes that the part has; None of other parts."""
    if any(type(item) not in (int, slice, type(Ellipsis)) for item in key):
        return None
    named = [*key] if Ellipsis in key else [*key, Ellipsis]
    place = named.index(Ellipsis)
    named[place : place + 1] = [slice(None)] * (len(lengths) - len(named) + 1)
    box, kept = [], []
    for axis, (item, length) in enumerate(zip(named, lengths, strict=True)):
        if isinstance(item, slice):
            low, high, step = item.indices(length)
            if step != 1 or low >= high:
                return None
            kept.append(axis)
        else:
            low = item + length if item < 0 else item
            high = low + 1
        box.append((low, high))
    return box, kept
