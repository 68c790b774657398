"""Joined and padded arrays in segments: each part is written where it lies in the result.

What a region computes for a part alone goes there at once, and what lies elsewhere is copied.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..codegen.operands import bytes_of, constant, is_variable
from .copies import CopiedPart, copy_kernel
from .elementwise_nodes import operand_dtype, operand_shape
from .layouts import LayOut, c_strides
from .native_run import STREAM_EFFORT
from .region_graph import NotNative
from .segment_code import SegmentCall
from .shared_segments import (
    FEWEST_REGION_PARTS,
    SMALLEST_HANDED_EFFORT,
    SharedSegment,
    region_in_parts,
)
from .work_in_parts import KernelInParts

if TYPE_CHECKING:
    from ..annotations import EquationLike, Operand, VariableLike

__all__ = ["SegmentWithJoins"]

JOINS = frozenset({"concatenate", "pad", "stack"})
# A smaller result, in bytes, is joined by one function.
SMALLEST_JOINED_BYTES = 1 << 14
# A join of more parts would be many kernels.
MOST_PARTS = 16


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
        if equation.primitive.name not in JOINS or bytes_of(out.type) < SMALLEST_JOINED_BYTES:
            super()._add(equation)
            return
        self._refuse_moved(equation)
        if any(operand_dtype(x) != out.type.dtype for x in equation.operands[:1]):
            raise NotNative("an array of another dtype")
        parts = (
            self._padded(equation)
            if equation.primitive.name == "pad"
            else self._side_by_side(equation)
        )
        if len(parts) > MOST_PARTS:
            raise NotNative("many parts")
        copied = [part for part in parts if not self._goes_to(part)]
        for part in copied:
            self._copy_part(part)
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
        strides, widths = c_strides(out.type.shape), equation.params["pad_width"]
        box = [(0, length) for length in out.type.shape]
        parts = []

        def lying(box: Sequence[tuple[int, int]]) -> LayOut:
            begin = sum(low * stride for (low, _), stride in zip(box, strides, strict=True))
            return LayOut(out, begin, tuple([high - low for low, high in box]), strides)

        for axis, (before, after) in enumerate(widths):
            length = out.type.shape[axis]
            for ends in ((0, before), (length - after, length)):
                if ends[0] < ends[1]:
                    slab = lying([*box[:axis], ends, *box[axis + 1 :]])
                    all_same = number._replace(shape=slab.shape, strides=(0,) * len(slab.shape))
                    parts.append(JoinedPart(None, all_same, slab))
            box[axis] = before, length - after
        return [JoinedPart(x, self._layout(x), lying(box)), *parts]

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

    def _copy_part(self, part: JoinedPart) -> None:
        """Adds the copy of a part."""
        dtype, (shape, strides) = part.lies.owner.type.dtype, part.lies[2:]
        effort = STREAM_EFFORT * prod(shape) * dtype.itemsize / 4
        in_blocks = effort >= SMALLEST_HANDED_EFFORT and 1 < shape[0] < prod(shape)
        copied = CopiedPart(shape, part.source.strides, 0)
        kernel: Any = copy_kernel(dtype, shape, [copied], strides, in_blocks=in_blocks)
        if in_blocks:
            kernel = KernelInParts(kernel, shape[0], min(shape[0], FEWEST_REGION_PARTS))
            self.is_shared = True
        self._calls.append(SegmentCall(kernel, (part.source, part.lies), 1))
        self.effort += effort
