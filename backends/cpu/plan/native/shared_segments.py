"""Segments whose larger kernels and products are shared among threads.

The segment's own thread and helpers take the parts of one call, and then go on with the next; see
``backends/native/team.py``. So work of some microseconds is shared, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from ....blas_calls import SMALLEST_BLAS_THREADED_WORK
from ....blas_threads import controlled
from ....native.printer import Module
from ....native.tables import returned_unless
from ....native.team import opened_and_closed, shared_call
from ..codegen.operands import is_variable
from ..threads.pool import threads
from .copies import CopiedPart, copy_kernel
from .elementwise_nodes import operand_dtype, operand_shape
from .label_code import LabelTests
from .layouts import LayOut, broadcast_strides, in_c_order
from .matrix_pairs import strides_in_rows
from .native_run import STREAM_EFFORT, has_gathers
from .number_kernels import is_of_numbers
from .region_graph import NotNative
from .region_kernels import RegionKernel
from .segment_code import VIEW_NAMES, WRONG_LABEL, SegmentCall
from .step_code import InnerType, InnerValue, SegmentWithLoops
from .work_in_parts import (
    KernelInParts,
    LabelsInParts,
    MatrixStack,
    ProductInParts,
    WorkInParts,
    sum_of_parts,
)

if TYPE_CHECKING:
    from ..annotations import EquationLike, Operand, VariableLike

__all__ = ["SharedSegment", "single"]

# Efforts count tenths of a nanosecond, about. Smaller work is not worth what the call of a segment
# takes longer for a hand-off. Larger work does not need this one, and memory for its results is
# better given back after each call.
SMALLEST_HANDED_EFFORT, LARGEST_HANDED_EFFORT = 200_000, 60_000_000
# A region has so many blocks at least, and one more for each such effort.
FEWEST_REGION_PARTS, MOST_REGION_PARTS, EFFORT_OF_BLOCK = 4, 16, 100_000
# The same limits for the multiplications of products.
SMALLEST_SHARED_PRODUCT, LARGEST_SHARED_PRODUCT = 1 << 19, 1 << 29
# A product has more parts than threads, up to so many, where BLAS then computes each on one thread.
MOST_PRODUCT_PARTS = 8
# BLAS computes products with a vector of fewer multiplications on the calling thread.
SMALLEST_VECTOR_THREADED_WORK = 1 << 13
# Work of so much is shared where the segment has such calls.
SMALLEST_ACCOMPANYING_EFFORT, SMALLEST_ACCOMPANYING_PRODUCT = 50_000, 1 << 17
# Fewer bytes of labels are tested by one thread.
SMALLEST_SHARED_LABELS = 1 << 18
# A segment of a long program ends no earlier where its first equation comes again.
FEWEST_BEFORE_REPEATS = 100
# Fewer equations of numbers alone are left to Python, and fewer elements of a single equation.
FEWEST_NUMBERS, FEWEST_ELEMENTS = 8, 4
# The most elements of a result whose parts are looked at one by one.
MOST_MARKED = 1 << 24
# The most memory, in bytes, that the blocks of a region have of their own.
MOST_SCRATCH = 1 << 20


class SharedSegment(SegmentWithLoops):
    """Collects equations of a segment whose larger calls threads share.

    Attributes:
        is_shared: whether it has such calls.
    """

    collected = (*SegmentWithLoops.collected, "is_shared", "_accompanying")
    is_shared = False
    reads_backwards = True
    # How many equations of numbers it has.
    _count_of_numbers = 0

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # What makes the work of a call in parts, by the call's number.
        self._accompanying: dict[int, Callable[[], WorkInParts]] = {}

    @property
    def works(self) -> bool:
        """Says whether it computes anything that NumPy's functions do not do as quickly."""
        if not self._calls:
            return False
        if len(self._calls) > 1:
            return True
        (equation, *others) = [e for e in self.equations if e.outputs[0] not in self.views]
        if others:
            return len(others) != self._count_of_numbers - 1 or len(others) >= FEWEST_NUMBERS
        return not self._count_of_numbers and not is_tiny(equation)

    # -- collecting

    def add(self, equation: EquationLike) -> bool:
        if self._numbers.are_read_by(equation) and not is_deferred(equation):
            self._close_numbers()
        return super().add(equation)

    def repeats_with(self, equation: EquationLike) -> bool:
        """Says whether an equation is one like the first, behind enough others.

        Where steps are written out, segments then begin at one place of a step, and have equal
        functions.
        """
        return len(self.equations) >= FEWEST_BEFORE_REPEATS and kind_in_step(
            self.equations[0]
        ) == kind_in_step(equation)

    def end(self) -> None:
        """Ends the collection: there comes no equation more."""
        self._close_numbers()
        for number, in_parts in self._accompanying.items() if self.is_shared else ():
            self._calls[number] = self._calls[number]._replace(kernel=in_parts())

    def _add(self, equation: EquationLike) -> None:
        if is_deferred(equation) and self._numbers.take(equation):
            self._count_of_numbers += 1
            return
        super()._add(equation)

    def _region(self, equation: EquationLike) -> None:
        if has_gathers(equation.primitive):
            self._turn(equation.operands)
        self._turn([x for x in equation.operands if operand_dtype(x).kind == "c"])
        super()._region(equation)

    def _product(self, equation: EquationLike) -> None:
        self._turn(equation.operands)
        super()._product(equation)

    def _turn(self, operands: Sequence[Operand]) -> None:
        """Copies arrays that lie backwards."""
        for x in filter(is_variable, operands):
            lying = self._layout(x)
            if min(lying.strides, default=0) < 0:
                self._lying[x] = self._copied(lying)

    def _add_region(
        self, region: RegionKernel, given: Sequence[LayOut], outs: Sequence[LayOut]
    ) -> None:
        graph, effort = region.graph, region.effort
        late = [result for result in graph.results if result.late]
        wanted = max(int(effort / EFFORT_OF_BLOCK), FEWEST_REGION_PARTS)
        count = min(wanted, MOST_REGION_PARTS, graph.grid.rows)
        accompanies = SMALLEST_ACCOMPANYING_EFFORT <= effort < SMALLEST_HANDED_EFFORT and count > 1
        fits = SMALLEST_HANDED_EFFORT <= effort < LARGEST_HANDED_EFFORT and count > 1
        # Sums of parts are decided now, by what came before.
        fits |= accompanies and self.is_shared
        if not fits or any(r.imag is not None or r.node.dtype.char not in "fd" for r in late):
            number = len(self._calls)
            super()._add_region(region, given, outs)
            # Noted behind the call: a region that is refused has none, and its number is another's.
            if accompanies and not late:
                self._accompanying[number] = partial(region_in_parts, region, count)
            return
        work = region_in_parts(region, count)
        if work.memory > MOST_SCRATCH:
            super()._add_region(region, given, outs)
            return
        into, sums = [], []
        for out, result, output in zip(outs, graph.results, graph.outputs, strict=True):
            if result.late:
                dtype, size = result.node.dtype, prod(output.rest)
                parts = self._fresh(InnerValue(InnerType((count, *output.rest), dtype)))
                kernel = sum_of_parts(dtype, output.reduction, count, size, output.divisor)
                sums.append(SegmentCall(kernel, (parts, out), 1))
                into.append(parts)
            else:
                into.append(out)
        labels = tuple([x[:3] for x in region.labels])
        self._calls += [SegmentCall(work, (*given, *into), len(given), labels), *sums]
        self.is_shared = True

    def _add_product(self, x: LayOut, y: LayOut, into: LayOut) -> int:
        stack = np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
        work = prod(stack) * x.shape[-2] * prod(y.shape[-2:])
        most = product_parts(work) if work >= SMALLEST_SHARED_PRODUCT else 1
        largest = LARGEST_SHARED_PRODUCT if controlled() is not None else SMALLEST_SHARED_PRODUCT
        if work >= largest or self.blas is None:
            raise NotNative("a large product")
        x, y = (v if v.matrix(-2) is not None else self._copied(v) for v in (x, y))
        rows, terms, columns = x.shape[-2], x.shape[-1], y.shape[-1]
        if prod(y.shape[:-2]) == 1 and in_c_order(x.shape[:-1], strides_in_rows(x)):
            # All rows of a stack are multiplied at once by one matrix.
            stack, rows = (), prod(x.shape[:-1])
            x = x._replace(shape=(rows, terms), strides=x.strides[-2:])
            y = y._replace(shape=y.shape[-2:], strides=y.strides[-2:])
        left, right = (matrix_stack(v, stack) for v in (x, y))
        sizes = rows, columns, terms
        dtype = operand_dtype(into.owner)
        shared = partial(ProductInParts, self.blas, dtype, stack, sizes, left, right)
        product = shared(most)
        if work >= SMALLEST_ACCOMPANYING_PRODUCT and product.parts == 1:
            self._accompanying[len(self._calls)] = partial(shared, threads.number)
        self._calls.append(SegmentCall(product, (x, y, into), 2))
        self.is_shared |= product.parts > 1
        return work

    def _has_view(self, x: Operand, out: VariableLike) -> bool:
        return not out.type.shape or super()._has_view(x, out)

    def _view(self, equation: EquationLike) -> None:
        (x, *_), (out,) = equation.operands, equation.outputs
        if not out.type.shape:
            self._element(equation)
            return
        lying = self._layout(x) if equation.primitive.name == "reshape" and is_variable(x) else None
        if lying is None or not self.made or lying.reshaped(out.type.shape) is not None:
            super()._view(equation)
            return
        # NumPy copies an array whose axes it cannot join, too.
        self._refuse_moved(equation)
        self._copy([lying], out, lying.shape, [CopiedPart(lying.shape, lying.strides, 0)])

    def _element(self, equation: EquationLike) -> None:
        """Takes in a single element of an array of the segment, as a number of its own."""
        x, (out,) = equation.operands[0], equation.outputs
        if x not in self.made or not operand_shape(x) or out.type.weak:
            raise NotNative("a number")
        lying = self._view_layout(equation)
        one = lying._replace(shape=(1,), strides=(1,))
        self._copy([one], out, (1,), [CopiedPart((1,), (1,), 0)])

    def _other(self, equation: EquationLike) -> None:
        parts = joined_parts(equation) if equation.primitive.name == "scatter_add" else None
        if parts is None or self.made.isdisjoint(filter(is_variable, equation.operands)):
            super()._other(equation)
            return
        self._refuse_moved(equation)
        given = [self._layout(x) for x in equation.operands]
        parts = [part._replace(strides=x.strides) for part, x in zip(parts, given, strict=True)]
        (out,) = equation.outputs
        self._copy(given, out, out.type.shape, parts, added=True)

    def _copy(
        self,
        given: Sequence[LayOut],
        out: VariableLike,
        shape: Sequence[int],
        parts: Sequence[CopiedPart],
        added: bool = False,
    ) -> None:
        """Adds the copy of values into a result, seen as one of a shape."""
        into = self._lying[out] = self._fresh(out)
        self._add_copy(given, into, shape, parts, added=added)

    def _add_copy(
        self,
        given: Sequence[LayOut],
        into: LayOut,
        shape: Sequence[int],
        parts: Sequence[CopiedPart],
        strides: Sequence[int] | None = None,
        added: bool = False,
    ) -> None:
        """Adds the call of a copy, of a shape and strides where the result lies."""
        dtype, rows = into.owner.type.dtype, shape[0] if shape else 1
        effort = STREAM_EFFORT * prod(shape) * dtype.itemsize / 4
        in_blocks = (
            effort >= SMALLEST_HANDED_EFFORT
            and 1 < rows < prod(shape)
            and all(part.shape[0] == rows for part in parts)
        )
        copy = copy_kernel(dtype, shape, parts, strides, in_blocks=in_blocks, added=added)
        kernel = KernelInParts(copy, rows, min(rows, FEWEST_REGION_PARTS)) if in_blocks else copy
        self.is_shared |= in_blocks
        self._calls.append(SegmentCall(kernel, (*given, into), len(given)))
        self.effort += effort

    def products_may_thread(self, careful: bool) -> bool:
        """Says whether BLAS may compute a product on threads of its own, where it has them.

        ``careful`` says whether it is so of each product with a vector that BLAS might share.
        """
        least = SMALLEST_VECTOR_THREADED_WORK if careful else SMALLEST_BLAS_THREADED_WORK
        for kernel in [call.kernel for call in self._calls]:
            if not isinstance(kernel, ProductInParts):
                work = getattr(kernel, "largest_product", 0)
            elif kernel.has_vectors:
                work = kernel.work
            else:
                work = kernel.work * least // SMALLEST_BLAS_THREADED_WORK
            if work >= least:
                return True
        return False

    # -- writing

    def _in_place_pairs(self, call: SegmentCall) -> set[tuple[int, int]]:
        if isinstance(call.kernel, ProductInParts):
            return set()
        if isinstance(call.kernel, KernelInParts):
            call = call._replace(kernel=call.kernel.kernel)
        return super()._in_place_pairs(call)

    def _own_bytes(self, call: SegmentCall) -> int:
        if isinstance(call.kernel, WorkInParts):
            return call.kernel.memory
        return super()._own_bytes(call)

    def _end_text(self, module: Module, objects: int) -> None:
        if self.is_shared:
            opened_and_closed(self.lines, module, objects + 1)

    def _write_label_test(self, labels: LabelTests, module: Module) -> None:
        if not self.is_shared or labels.size * labels.dtype.itemsize < SMALLEST_SHARED_LABELS:
            super()._write_label_test(labels, module)
            return
        lines = self.lines
        room = lines.room(2)
        lines.add(f"store ptr {labels.address}, ptr {room}, align 8")
        word = lines.let(f"getelementptr ptr, ptr {room}, i64 1")
        lines.add(f"store i64 0, ptr {word}, align 8")
        work = LabelsInParts(labels, FEWEST_REGION_PARTS)
        shared_call(lines, module, "%team", work.function(module), room, work.parts)
        found = lines.let(f"load atomic i64, ptr {word} monotonic, align 8")
        returned_unless(lines, lines.let(f"icmp eq i64 {found}, 0"), WRONG_LABEL)

    def _write_call(self, call: SegmentCall, module: Module, offset: int) -> None:
        work = call.kernel
        if not isinstance(work, WorkInParts):
            super()._write_call(call, module, offset)
            return
        lines = self.lines
        self._write_label_tests(call, module)
        name = work.function(module)
        room = self._room(call, self._scratch(call, offset))
        if work.parts > 1:
            shared_call(lines, module, "%team", name, room, work.parts)
        else:
            lines.add(f"call void @{name}(ptr {room}, i64 0)")


def product_parts(work: int) -> int:
    """Returns how many parts a product of so many multiplications has, where threads share it.

    There are more parts than threads if BLAS computes these on the calling thread by itself.
    """
    number = threads.number
    while work // number >= SMALLEST_BLAS_THREADED_WORK and number < MOST_PRODUCT_PARTS:
        number += threads.number
    return number if work // number < SMALLEST_BLAS_THREADED_WORK else threads.number


def region_in_parts(region: RegionKernel, count: int) -> KernelInParts:
    """Returns a region's kernel in so many parts."""
    return KernelInParts(region.kernel(whole=False), region.graph.grid.rows, count)


def kind_in_step(equation: EquationLike) -> tuple[Any, ...]:
    """Returns what equations of the same place in two steps have in common."""
    primitive = equation.primitive
    inner = [e.primitive.name for e in primitive.program.equations] if primitive.fused else ()
    types = [(x.type.dtype, x.type.shape) for x in equation.outputs]
    return equation.line, primitive.name, tuple(inner), types


def is_deferred(equation: EquationLike) -> bool:
    """Says whether an equation outside of loops is computed in a kernel of numbers."""
    values = [*filter(is_variable, equation.operands), *equation.outputs]
    # Views of arrays share memory; a number without axes is none.
    view = equation.primitive.name in VIEW_NAMES and all(x.type.shape for x in values)
    return not view and not equation.outputs[0].type.weak and is_of_numbers(equation)


def is_tiny(equation: EquationLike) -> bool:
    """Says whether an equation is a region of a single one, of a few elements."""
    primitive = equation.primitive
    return primitive.fused and len(primitive.program.equations) == 1 and prod(
        primitive.grid
    ) < FEWEST_ELEMENTS


def single(equation: EquationLike) -> EquationLike:
    """Returns the only equation of such a region, with the region's operands and result."""
    if not is_tiny(equation):
        return equation
    program = equation.primitive.program
    (inner,) = program.equations
    given = dict(zip(program.inputs, equation.operands))
    operands = [given.get(x, x) if is_variable(x) else x for x in inner.operands]
    found: EquationLike = inner.by(inner.primitive, operands, inner.params, equation.outputs)
    return found


def joined_parts(equation: EquationLike) -> list[CopiedPart] | None:
    """Returns the parts that values fill when they are added to zeros; None if some overlap.

    The strides are those of the parts in the result.
    """
    (out,), keys = equation.outputs, equation.params["keys"]
    shape, dtype = out.type.shape, out.type.dtype
    if dtype.kind != "f" or any(key.arrays for key in keys) or out.type.size > MOST_MARKED:
        return None
    marks = np.zeros(shape, np.int8)
    parts = []
    for x, key in zip(equation.operands, keys, strict=True):
        part = marks[key.native if Ellipsis in key.native else (*key.native, ...)]
        if not is_variable(x) or x.type.dtype != dtype or part.shape != x.type.shape:
            return None
        if len(part.shape) != len(shape) or min(part.strides, default=0) < 0:
            return None
        part += 1
        begin = part.__array_interface__["data"][0] - marks.__array_interface__["data"][0]
        parts.append(CopiedPart(part.shape, part.strides, begin))
    return parts if marks.min(initial=1) == marks.max(initial=1) == 1 else None


def matrix_stack(x: LayOut, stack: Sequence[int]) -> MatrixStack:
    """Returns matrices of an array that BLAS takes, as many as a stack has."""
    known = x.matrix(-2)
    assert known is not None
    strides = broadcast_strides(x.shape[:-2], x.strides[:-2], stack)
    return MatrixStack(tuple(strides), *known)
