"""Products of small matrices as parts of kernels, with what is done to each of their elements."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...kernels.graph import input_place
from .kernel_text import UNUSED, Argument, KernelText, Room
from .points import Points, PointSegment, ordered_strides

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...kernels.graph import Expr
    from .region_source import RegionSource

__all__ = [
    *("PRODUCT_THREADS", "SUMS", "ProductShape", "is_small", "merges", "product_blocks"),
    "product_part",
]

PRODUCT_THREADS, PRODUCT_WARPS = 256, 8
# The rows and columns of a warp's results, and how many elements of them it adds up in a step.
WARP_ROWS, WARP_COLUMNS, STEP = 16, 8, 16
# The memory of a block in which its warps leave what they have added up.
SUMS = "sums"
# The multiplications of a product, at most: beyond that libraries read less memory.
MOST_PRODUCTS_OF_ELEMENTS = 1 << 23
# The elements that are summed, at most: a block adds up all of them.
MOST_SUMMED = 2048
# The warps that keep a large GPU busy.
ENOUGH_WARPS = 1056
# The steps of a warp, at most, where others can have a share.
STEPS_OF_WARP = 4
# The types by which the units for matrices multiply floats.
FACTOR_TYPES = {"highest": "full_t", "tf32": "tf32_t"}


class ProductShape(NamedTuple):
    """The shape of a product of two matrices, and how they lie in memory.

    Attributes:
        rows, columns, summed: of the result, and what is summed.
        turned: for both factors whether it lies column by column.
    """

    rows: int
    columns: int
    summed: int
    turned: tuple[bool, bool]

    @property
    def tiles(self) -> int:
        """The number of warps' results."""
        return -(-self.rows // WARP_ROWS) * -(-self.columns // WARP_COLUMNS)

    @property
    def split(self) -> int:
        """The number of warps that share the sums of a result."""
        steps, split = -(-self.summed // STEP), 1
        while split < PRODUCT_WARPS and (
            steps > STEPS_OF_WARP * split
            or (steps >= 2 * split and self.tiles * split < ENOUGH_WARPS)
        ):
            split *= 2
        return split


def is_small(shape: ProductShape) -> bool:
    """Says whether a product is quicker with what is done to its elements than by a library."""
    rows, columns, summed, _ = shape
    count = rows * columns * summed
    return 0 < count <= MOST_PRODUCTS_OF_ELEMENTS and summed <= MOST_SUMMED


def product_blocks(shape: ProductShape) -> int:
    """Returns the number of blocks of a product."""
    return -(-shape.tiles * shape.split // PRODUCT_WARPS)


def merges(source: RegionSource, number: int, shape: ProductShape) -> bool:
    """Says whether a region does something to each element of a product alone.

    Args:
        source: the kernels of the region.
        number: the number of the input that the product is.
        shape: the product.
    """
    axes = frozenset(range(len(source.lengths)))
    nodes = source.needed([r.node for r, _ in source.results])
    if any(x.operation in ("fold", "gather", "place", "within", "source") for x in nodes):
        return False
    if any(r.axes != axes or r.divisor != 1 for r, _ in source.results):
        return False
    product = input_of(source, number)
    if product is None or product not in nodes:
        return False
    known = source.rooms[product].strides
    whole = prod(source.lengths) == shape.rows * shape.columns
    return whole and known == ordered_strides(axes, source.lengths)


def input_of(source: RegionSource, number: int) -> Expr | None:
    """Returns the node of an input; None where there is none."""
    return next((x for x in source.rooms if input_place(x)[0] == number), None)


def product_part(
    name: str,
    shape: ProductShape,
    factors: tuple[int, int],
    precision: str,
    source: RegionSource | None,
) -> tuple[str, Sequence[Argument]]:
    """Returns the text of the lines of a product, and its arguments with their parameters.

    Args:
        name: the name of the function.
        shape: the product.
        factors: the numbers of the operands that are multiplied. The first of them has the number
            of the region's input that the product is.
        precision: the precision of the factors, as ``config.matmul_precision`` has it.
        source: the kernels of the region that takes each element; None where it is stored.
    """
    rows, columns, summed, turned = shape
    place = source.place_type if source is not None else "unsigned int"
    text = KernelText(name, PRODUCT_THREADS, place, shares=True)
    single = np.dtype(np.float32)
    first, second = (text.read(Room(Argument("in", x), single, {0: 1})) for x in factors)
    turns = ", ".join(["true" if x else "false" for x in turned])
    split = shape.split
    types = f"{FACTOR_TYPES[precision]}, {rows}, {columns}, {summed}, {turns}, {split}"
    text.add(f"small_product<{types}>({first}, {second}, block_x, {SUMS});")
    count = WARP_ROWS * WARP_COLUMNS * PRODUCT_WARPS // split
    text.open(f"for (int number = threadIdx.x; number < {count}; number += {PRODUCT_THREADS})")
    text.add(f"const small_place at = small_place_of<{rows}, {columns}, {split}>(block_x, number);")
    text.add("if (!at.there) continue;")
    text.add(f"{UNUSED} const {place} i = at.row * {columns} + at.column;")
    text.add(f"const float product = small_sum<{types}>({first}, {second}, at, {SUMS}, number);")
    if source is None:
        points = Points((rows * columns,), [PointSegment((0,), "i")])
        text.store(Room(Argument("out", 0), single, {0: 1}), points, "product")
    else:
        node = input_of(source, factors[0])
        assert node is not None
        text.names[node] = "product"
        axes = tuple(range(len(source.lengths)))
        points = Points(source.lengths, [PointSegment(axes, "i")])
        text.compute(source.needed([r.node for r, _ in source.results]), points, source.rooms, {})
        for r, room in source.results:
            text.store(room, points, text.names[r.node])
    text.close()
    made = text.finished([product_blocks(shape), 1])
    return made.text, made.arguments
