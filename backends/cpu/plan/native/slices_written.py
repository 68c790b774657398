"""Joined arrays, and sums of values at slices of zeros: what writes slices of a result."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy as np

from ....kernels.kernel import LoopKernel
from ....native.instructions import Lines
from ....native.printer import Module
from ....native.tables import clear_bytes, element
from ..codegen.operands import bytes_of, is_variable
from .copies import CopiedPart, copy_kernel, update_kernel
from .element_access import part_of
from .elementwise_nodes import operand_dtype, operand_shape
from .layouts import broadcast_strides, c_strides
from .native_run import STREAM_EFFORT
from .number_kernels import CALL_EFFORT
from .region_graph import NotNative
from .step_code import InnerFunction, InnerType, call_of_kernel

if TYPE_CHECKING:
    from ..annotations import EquationLike

__all__ = ["SlicesWritten", "writes_slices"]

# NumPy copies larger arrays, in bytes, as quickly, and threads share what stands beside.
LARGEST_WRITTEN_BYTES = 1 << 20


def writes_slices(equation: EquationLike) -> bool:
    """Says whether an equation joins arrays, or adds values at slices of zeros."""
    name = equation.primitive.name
    if name == "concatenate":
        return True
    return name == "scatter_add" and not any(key.arrays for key in equation.params["keys"])


class SlicesWritten(InnerFunction):
    """The function of such an equation.

    Args:
        equation: the equation.

    Raises:
        NotNative: its dtypes or its keys are others, or it is large.
    """

    def __init__(self, equation: EquationLike) -> None:
        super().__init__([])
        (out,) = equation.outputs
        self._out = out.type
        dtype, shape = out.type.dtype, tuple(out.type.shape)
        if any(operand_dtype(x) != dtype for x in equation.operands):
            raise NotNative("arrays of other dtypes")
        if not out.type.size or bytes_of(out.type) > LARGEST_WRITTEN_BYTES:
            raise NotNative("an empty or a large array")
        shapes = [operand_shape(x) for x in equation.operands]
        self.operands = [
            (x.type if is_variable(x) else InnerType(own, dtype), own)
            for x, own in zip(equation.operands, shapes, strict=True)
        ]
        self._kernels: list[tuple[int, LoopKernel, int]] = []
        self._adds = equation.primitive.name == "scatter_add"
        if self._adds:
            if dtype.char in "?eE":
                raise NotNative("sums of another dtype")
            for number, (own, key) in enumerate(zip(shapes, equation.params["keys"], strict=True)):
                part = part_of(shape, key)
                if prod(part.shape):
                    strides = tuple(broadcast_strides(own, c_strides(own), part.shape))
                    given = [CopiedPart(part.shape, strides, 0)]
                    kernel = update_kernel("add", dtype, part.shape, given, part.strides)
                    self._kernels.append((number, kernel, part.begin))
        else:
            axis, begin, strides = equation.params["axis"], 0, c_strides(shape)
            for number, own in enumerate(shapes):
                if prod(own):
                    joined = [CopiedPart(own, tuple(c_strides(own)), 0)]
                    kernel = copy_kernel(dtype, own, joined, strides)
                    self._kernels.append((number, kernel, begin * strides[axis]))
                begin += own[axis]
        elements = out.type.size * (1 + 2 * self._adds * len(shapes))
        self.effort = CALL_EFFORT + STREAM_EFFORT * elements * np.dtype(dtype).itemsize / 4

    def _write(self, lines: Lines, name: str, module: Module) -> None:
        given = [element(lines, "%table", i) for i in range(len(self.operands) + 1)]
        out = given[-1]
        if self._adds:
            clear_bytes(lines, out, bytes_of(self._out))
        size = self._out.dtype.itemsize
        for number, kernel, begin in self._kernels:
            part = lines.let(f"getelementptr i8, ptr {out}, i64 {begin * size}")
            before = [part] if self._adds else []
            call_of_kernel(lines, module, kernel, [*before, given[number], part])
        lines.add("ret i64 0")
