"""Runs of small products and regions that need nothing of each other, by one launch."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

import cupy
from cupy import ndarray

from ..launch import WIDEST_LOAD_BYTES, is_contiguous
from .joint_parts import ProductWithRegion
from .kernel_text import Argument, GeneratedKernel
from .region_run import GroupRun, dtypes_of_numbers, given_by_value, region_source
from .small_products import (
    PRODUCT_THREADS,
    PRODUCT_WARPS,
    SUMS,
    WARP_COLUMNS,
    WARP_ROWS,
    product_blocks,
    product_part,
)

if TYPE_CHECKING:
    from ...cpu.plan.annotations import EquationLike, VariableLike
    from .region_source import RegionSource

__all__ = ["JointRun"]

KERNEL_HEAD = re.compile(
    r'extern "C" __global__ void __launch_bounds__\(\d+\)\n(\w+)\((.*)\) \{\n'
)
LAST_NAME = re.compile(r"(\w+)$")


class LaunchPart(NamedTuple):
    """A part of a launch.

    Attributes:
        text: the text of its function, and how it is called.
        call: the call, but for its arguments.
        blocks: the numbers of its blocks.
        parameters: the declarations of its parameters, and their names.
        arguments: what it is given.
        source: the kernels of its region; None where it has none.
    """

    text: str
    call: str
    blocks: tuple[int, int]
    parameters: Sequence[str]
    arguments: Sequence[Argument]
    source: RegionSource | None


def part_of_text(
    text: str, call: str, blocks: Sequence[int], arguments: Sequence[Argument], source: Any
) -> LaunchPart:
    """Returns a part, from the text of a kernel.

    Args:
        text: the text, in which the number of a block is ``block_x``, ``block_y``.
        call: what the function is given first.
        blocks: the numbers of its blocks.
        arguments: what the kernel is given.
        source: the kernels of its region.
    """
    # Functions that the kernel calls stand before it.
    found = KERNEL_HEAD.search(text)
    assert found is not None
    name, parameters = found[1], found[2].split(", ") if found[2] else []
    first = "const unsigned int block_x, const unsigned int block_y, float *sums"
    shown = ", ".join([first, *parameters])
    head = f"{text[: found.start()]}static __device__ __forceinline__ void\n{name}({shown}) {{\n"
    body = text[found.end() :].replace("blockIdx.x", "block_x").replace("blockIdx.y", "block_y")
    across, along = [*blocks, 1][:2]
    return LaunchPart(head + body, f"{name}({call}", (across, along), parameters, arguments, source)


def joint_text(name: str, parts: Sequence[LaunchPart]) -> str:
    """Returns the text of a kernel of which each part has some blocks."""
    shown = [
        LAST_NAME.sub(rf"p{i}_\1", parameter)
        for i, part in enumerate(parts)
        for parameter in part.parameters
    ]
    lines = [part.text for part in parts]
    lines += [
        f'extern "C" __global__ void __launch_bounds__({PRODUCT_THREADS})',
        f"{name}({', '.join(shown)}) {{",
        f"    __shared__ float {SUMS}[{PRODUCT_WARPS * WARP_ROWS * WARP_COLUMNS}];",
    ]
    begin = 0
    for i, part in enumerate(parts):
        names = [f"p{i}_{''.join(LAST_NAME.findall(x))}" for x in part.parameters]
        across, along = part.blocks
        own = f"(blockIdx.x - {begin}u)" if begin else "blockIdx.x"
        places = (own, "0u") if along == 1 else (f"{own} % {across}u", f"{own} / {across}u")
        begin += across * along
        call = f"{part.call}{', '.join([*places, SUMS, *names])});"
        if i < len(parts) - 1:
            lines += [f"    if (blockIdx.x < {begin}u) {{", f"        {call}", "        return;"]
            lines.append("    }")
        else:
            lines.append(f"    {call}")
    return "\n".join([*lines, "}", ""])


class JointRun(GroupRun):
    """Computes the outputs of small products and regions: ``run(*operands)``.

    Args:
        name, members, apart: as in `GroupRun`.
        precision: the precision of the factors, as ``config.matmul_precision`` has it.

    Raises:
        NotNative: a kernel does not compute them.
    """

    def __init__(
        self, name: str, members: Sequence[EquationLike], precision: str, apart: bool = False
    ) -> None:
        super().__init__(name, members, apart)
        self._precision = precision
        parts = [self._part(f"{name}_{i}", member) for i, member in enumerate(members)]
        self._parts = dict(zip(map(id, members), parts, strict=True))
        counts = [len(equation.operands) for equation in members]
        made = [len(equation.outputs) for equation in members]
        begins = {
            "in": [0, *accumulate(counts)],
            "out": [sum(counts) + n for n in (0, *accumulate(made))],
        }
        places = [
            begins[place.kind][i] + place.number
            for i, part in enumerate(parts)
            for place in part.arguments
        ]
        blocks = sum(part.blocks[0] * part.blocks[1] for part in parts)
        text = joint_text(name, parts)
        self.kernel = GeneratedKernel(name, text, (blocks,), PRODUCT_THREADS, (), 1)
        self._places = places
        self._count = sum(counts)
        # The dtypes of operands that are passed by value, and the operands that are read.
        self._held = [x for member in members for x in self._dtypes_of_numbers(member)]
        self._read = sorted({i for i in places if i < self._count and self._held[i] is None})
        self._numbers = sorted({i for i in places if i < self._count} - {*self._read})

    def _on_host(self, member: EquationLike) -> list[bool]:
        return given_by_value(member.operands, self._apart)

    def _dtypes_of_numbers(self, member: EquationLike) -> list[Any]:
        """Returns for operands the dtypes of numbers that are passed by value, None for others."""
        pairs = zip(dtypes_of_numbers(member.primitive), self._on_host(member), strict=True)
        return [dtype if on_host else None for dtype, on_host in pairs]

    def _part(self, name: str, member: EquationLike) -> LaunchPart:
        primitive, given, on_host = member.primitive, member.operands, self._on_host(member)
        source: RegionSource | None
        if type(primitive) is not ProductWithRegion:
            source = region_source(name, primitive, given, on_host)
            (kernel,) = source.kernels
            return part_of_text(kernel.text, "", kernel.blocks, kernel.arguments, source)
        source = None
        if primitive.region is not None:
            # The second factor stands behind the region's operands.
            count = len(given) - 1
            source = region_source(name, primitive.region, given[:count], on_host[:count])
        factors = primitive.number, len(given) - 1
        text, arguments = product_part(name, primitive.shape, factors, self._precision, source)
        return part_of_text(text, "", [product_blocks(primitive.shape)], arguments, source)

    def writes_apart(self, part: EquationLike, x: VariableLike) -> bool:
        """Says whether a part may write results where an operand lies in the same order."""
        primitive, source = part.primitive, self._parts[id(part)].source
        if type(primitive) is ProductWithRegion:
            factors = part.operands[primitive.number], part.operands[-1]
            return all(x is not factor for factor in factors)
        return source is not None and source.writes_apart

    def __call__(self, *operands: Any, into: Sequence[ndarray | None] = ()) -> list[Any]:
        """Queues the kernel, whose outputs lie in memory that is given, or in new memory."""
        given: list[Any] = [*operands]
        for i in self._numbers:
            given[i] = self._held[i].type(given[i])
        for i in self._read:
            x = given[i]
            if type(x) is not ndarray:
                x = cupy.asarray(x)
            if not is_contiguous(x) or x.data.ptr % WIDEST_LOAD_BYTES:
                x = x.copy()
            given[i] = x
        outs = self._memory(into)
        given += outs
        arguments = tuple([given[i] for i in self._places])
        self._function(self.kernel.blocks, (self.kernel.threads,), arguments)
        return outs
