"""Segments: neighbouring equations as one native function, with no Python between them.

A segment has regions, products of matrices by the BLAS that NumPy brought, and views, which are
never run. Its function takes the addresses of array objects, and finds their memory itself.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from copy import copy
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ....config import config
from ....kernels.check import check_kernel
from ....native.array_objects import OBJECT_HEADER
from ....native.blas import Blas
from ....native.instructions import Lines
from ....native.printer import Module
from ....native.scratch import scratch_bytes
from ..codegen.operands import is_variable
from ..labels import LabelRead
from .elementwise_nodes import operand_dtype, operand_shape
from .label_code import LabelTests, write_label_test
from .layout_code import write_layout_test
from .layouts import (
    LayOut,
    below,
    broadcast_strides,
    c_strides,
    flip_key,
    identity_of,
    in_c_order,
    memory_strides,
)
from .native_run import SMALLEST_EFFORT_TO_SHARE, in_place_pairs
from .region_graph import NotNative
from .region_kernels import RegionKernel, RegionKernels
from .small_products import is_small_product, product_kernel

if TYPE_CHECKING:
    from ..annotations import EquationLike, Operand, VariableLike

__all__ = ["VIEW_NAMES", "WRONG_LABEL", "SegmentCode"]

ALIGNMENT = 64
# More equations would take long to compile.
MOST_SEGMENT_EQUATIONS = 600
# Products of more multiplications are shared among threads, outside of segments.
LARGEST_PRODUCT = 1 << 23
# Those of a matrix and a vector take as long as it takes to read the matrix.
LARGEST_VECTOR_PRODUCT = 1 << 20
# The effort of a multiplication, and that of a product's own loops beside it.
PRODUCT_EFFORT, OWN_PRODUCT_EFFORT = 0.3, 50
WRONG_LAYOUT, WRONG_LABEL = 1, 2
VIEW_NAMES = frozenset({"flip", "index", "reshape", "stop_gradient", "transpose"})


class SegmentCall(NamedTuple):
    """A call within a segment.

    Attributes:
        kernel: the kernel; None for a product.
        given: where its operands and results lie.
        reads: the number of operands, which come first.
        labels: the numbers of operands that are labels or indices, with the smallest number and
            the one behind the largest.
    """

    kernel: Any
    given: tuple[LayOut, ...]
    reads: int
    labels: tuple[tuple[int, int, int], ...] = ()


class SegmentCode:
    """Collects equations of a segment, and writes its function.

    Attributes:
        equations: the equations.
        made: the variables that it makes.
        arrays: the variables and constants of other places that it reads, in order.
        effort: the work of its kernels and products, in tenths of a nanosecond.
        views: the equations of views, by what they make.
        labels: the arrays that are labels or indices, and who reads them.
        largest_product: the most multiplications of one product.
        kernels: makes those of regions, for all segments of a program.
        checked: the equations that Python runs again where an index is out of bounds.
    """

    largest_vector_product = LARGEST_VECTOR_PRODUCT
    # Whether kernels read arrays from their ends on.
    reads_backwards = False
    # What equations add to. One that is refused may have been begun, and leaves nothing there.
    collected: tuple[str, ...] = ("arrays", "checked", "effort", "labels", "_calls", "_lying")

    def __init__(
        self,
        blas: Blas | None,
        earlier: Mapping[VariableLike, EquationLike] | None = None,
        moved: Collection[VariableLike] = (),
    ) -> None:
        self.blas = blas
        # The equations of views that stand before it.
        self._earlier = earlier or {}
        # The variables of other places whose arrays are in another order than C's.
        self._moved = moved
        self.equations: list[EquationLike] = []
        self.made: set[VariableLike] = set()
        self.arrays: list[Any] = []
        self.effort = 0.0
        self.views: dict[VariableLike, EquationLike] = {}
        self.labels: list[LabelRead] = []
        self.checked: list[EquationLike] = []
        self.largest_product = 0
        self.kernels = RegionKernels()
        self._lying: dict[Any, LayOut] = {}
        self._numbers_of_objects: dict[Any, int] = {}
        # What is read after the last call.
        self._lasting: set[Any] = set()
        self._calls: list[SegmentCall] = []

    @property
    def calls(self) -> Sequence[SegmentCall]:
        """The calls, in order; none where it computes nothing."""
        return self._calls

    @property
    def is_full(self) -> bool:
        """Says whether it takes no more equations."""
        return len(self.equations) >= MOST_SEGMENT_EQUATIONS

    # -- collecting

    def add(self, equation: EquationLike) -> bool:
        """Takes an equation in; says whether it could."""
        if self.is_full or not self._could(self._add, equation):
            return False
        self.equations.append(equation)
        self.made.update(equation.outputs)
        return True

    def _could(self, take: Callable[[EquationLike], None], equation: EquationLike) -> bool:
        """Takes an equation in, or leaves all as it was; says whether it could."""
        before = {name: copy(getattr(self, name)) for name in self.collected}
        try:
            take(equation)
        except NotNative:
            for name, known in before.items():
                setattr(self, name, known)
            return False
        return True

    def _add(self, equation: EquationLike) -> None:
        name = equation.primitive.name
        if equation.primitive.fused:
            self._region(equation)
        elif name == "matmul":
            self._product(equation)
        elif name in VIEW_NAMES:
            self._view(equation)
        else:
            self._other(equation)

    def _other(self, equation: EquationLike) -> None:
        """Takes an equation of another kind in."""
        raise NotNative(equation.primitive.name)

    def _layout(self, x: Operand) -> LayOut:
        """Returns where an operand lies; arrays of other places are in C order."""
        known = self._lying.get(identity_of(x))
        if known is None and is_variable(x) and x in self._earlier:
            self._could(self._see, self._earlier[x])
            known = self._lying.get(x)
        if known is None:
            shape, dtype = operand_shape(x), operand_dtype(x)
            if not dtype.isnative:
                raise NotNative(dtype)
            lying = LayOut(x, 0, shape, memory_strides(x) or c_strides(shape))
            known = self._lying[identity_of(x)] = lying
            self.arrays.append(x)
        return known

    def _fresh(self, out: VariableLike) -> LayOut:
        shape = out.type.shape
        return LayOut(out, 0, shape, c_strides(shape))

    def _refuse_moved(self, equation: EquationLike) -> None:
        """Refuses arrays in another order, which would be copied in each call."""
        if any(x in self._moved for x in equation.operands if is_variable(x)):
            raise NotNative("an array in another order")

    def _region(self, equation: EquationLike) -> None:
        self._refuse_moved(equation)
        given = [self._layout(x) for x in equation.operands]
        region = self.kernels.of(equation, [x.strides for x in given])
        outs = [self._fresh(out) for out in equation.outputs]
        if region.labels:
            for number, *_ in region.labels:
                given[number] = self._label_layout(given[number])
            region = self.kernels.of(equation, [x.strides for x in given])
            for read in region.labels:
                self._note_labels(read, given[read.operand], equation.operands[read.operand])
        self._add_region(region, given, outs)
        self._lying.update({x.owner: x for x in outs})
        self.effort += region.effort

    def _label_layout(self, x: LayOut) -> LayOut:
        """Returns where labels lie in C order."""
        if not in_c_order(x.shape, x.strides):
            raise NotNative("labels in another order")
        return x

    def _note_labels(self, read: LabelRead, lying: LayOut, x: Operand) -> None:
        """Notes labels, which Python tests again where some are wrong."""
        self.labels.append(read._replace(operand=lying))

    def _add_region(
        self, region: RegionKernel, given: Sequence[LayOut], outs: Sequence[LayOut]
    ) -> None:
        """Adds the call of a region's kernel."""
        if region.effort >= SMALLEST_EFFORT_TO_SHARE:
            raise NotNative("it is shared")
        labels = tuple([x[:3] for x in region.labels])
        kernel = region.kernel(whole=True)
        self._calls.append(SegmentCall(kernel, (*given, *outs), len(given), labels))

    def _product(self, equation: EquationLike) -> None:
        self._refuse_moved(equation)
        (out,) = equation.outputs
        dtypes = [operand_dtype(x) for x in (*equation.operands, out)]
        shapes = [operand_shape(x) for x in equation.operands]
        if dtypes[0].char not in "fd" or set(dtypes) != {dtypes[0]}:
            raise NotNative("a product of other dtypes")
        if min(map(len, shapes)) < 1 or not out.type.size or 0 in shapes[0]:
            raise NotNative("no matrices")
        x, y = (self._layout(v) for v in equation.operands)
        if len(x.shape) == 1:
            x = x._replace(shape=(1, *x.shape), strides=(x.shape[0] * x.strides[0], *x.strides))
        if len(y.shape) == 1:
            y = y._replace(shape=(*y.shape, 1), strides=(*y.strides, 1))
        sizes = x.shape[-2], x.shape[-1], y.shape[-1]
        if is_small_product(*sizes, in_rows=y.strides[-1] == 1):
            self._small_product(out, sizes, x, y)
            return
        if 1 in (sizes[0], sizes[2]) and prod(sizes) >= self.largest_vector_product:
            raise NotNative("a large product")
        into = self._lying[out] = self._fresh(out)
        work = self._add_product(x, y, into)
        self.effort += PRODUCT_EFFORT * work
        self.largest_product = max(self.largest_product, work)

    def _add_product(self, x: LayOut, y: LayOut, into: LayOut) -> int:
        """Adds the call of BLAS; returns the number of multiplications."""
        work = prod(x.shape) * y.shape[-1]
        if work >= LARGEST_PRODUCT or max(len(x.shape), len(y.shape)) > 2 or self.blas is None:
            raise NotNative("a large product")
        if x.matrix(0) is None or y.matrix(0) is None:
            raise NotNative("strides that BLAS does not take")
        self._calls.append(SegmentCall(None, (x, y, into), 2))
        return work

    def _small_product(
        self, out: VariableLike, sizes: tuple[int, int, int], x: LayOut, y: LayOut
    ) -> None:
        """Takes a product in that has a kernel of its own, or a stack of such products."""
        stack = np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
        strides = [
            tuple(broadcast_strides(v.shape[:-2], v.strides[:-2], stack)) + v.strides[-2:]
            for v in (x, y)
        ]
        into = self._lying[out] = self._fresh(out)
        kernel = product_kernel(operand_dtype(out), stack, sizes, *strides)
        if config.check_programs:
            check_kernel(kernel)
        self._calls.append(SegmentCall(kernel, (x, y, into), 2))
        self.effort += prod(stack) * (prod(sizes) + OWN_PRODUCT_EFFORT)

    def _view(self, equation: EquationLike) -> None:
        self._see(equation)
        self.views[equation.outputs[0]] = equation

    def _see(self, equation: EquationLike) -> None:
        """Notes where the result of a view lies."""
        self._lying[equation.outputs[0]] = self._view_layout(equation)

    def _view_layout(self, equation: EquationLike) -> LayOut:
        """Returns where the result of a view lies."""
        self._refuse_moved(equation)
        (out,), params = equation.outputs, equation.params
        x, *rest = equation.operands
        if rest or not self._has_view(x, out) or not out.type.size:
            raise NotNative("no view")
        lying, name = self._layout(x), equation.primitive.name
        if name == "stop_gradient":
            return lying
        if name == "transpose":
            strides = tuple([lying.strides[a] for a in params["axes"]])
            return lying._replace(shape=out.type.shape, strides=strides)
        if name == "reshape":
            view = lying.reshaped(out.type.shape)
            if view is None:
                raise NotNative("a reshape that copies")
            return view
        part = lying.part(flip_key(equation) if name == "flip" else params["key"].native)
        backwards = min(part.strides, default=0) < 0 and not self.reads_backwards
        if part.shape != out.type.shape or backwards:
            raise NotNative("no view")
        return part

    def _has_view(self, x: Operand, out: VariableLike) -> bool:
        """Says whether arrays of these shapes may share memory: those without axes are numbers."""
        return bool(operand_shape(x) and out.type.shape)

    def can_take(self, x: Any, out: VariableLike) -> bool:
        """Says whether a result may be written where an array lies that it reads."""
        number, place = next(
            (number, place)
            for number, call in enumerate(self._calls)
            for place, lying in enumerate(call.given[call.reads :])
            if lying.owner is out
        )
        call = self._calls[number]
        reads = [i for i, lying in enumerate(call.given) if lying.owner is x]
        if any(lying.owner is x for c in self._calls[number + 1 :] for lying in c.given):
            return False
        if call.kernel is None or any(call.given[i] != self._lying[identity_of(x)] for i in reads):
            return not reads and call.kernel is None
        pairs = self._in_place_pairs(call)
        return all((i, place) in pairs for i in reads)

    def _in_place_pairs(self, call: SegmentCall) -> set[tuple[int, int]]:
        """Returns the numbers of operands and results of a call that may share memory."""
        return in_place_pairs(call.kernel, call.reads)

    # -- writing

    def drop_unread(self) -> None:
        """Drops arrays that no call reads: those of views for others, and of refused products.

        Those with steps come last.
        """
        read = {identity_of(x.owner) for call in self._calls for x in call.given}
        self.arrays = [x for x in self.arrays if identity_of(x) in read]
        self.arrays.sort(key=lambda x: memory_strides(x) is not None)

    def owners(self, outputs: Sequence[VariableLike]) -> list[VariableLike]:
        """Returns the variables whose memory is needed for some of its variables."""
        found = [self._lying[identity_of(self._viewed(x))].owner for x in outputs]
        return list(dict.fromkeys([x for x in found if is_variable(x) and x in self.made]))

    def _viewed(self, x: Any) -> Any:
        """Returns what a view shows. Kernels may read a copy of the view."""
        while is_variable(x) and x in self.views:
            x = self.views[x].operands[0]
        return x

    def text(self, name: str, module: Module, outputs: Sequence[VariableLike]) -> tuple[str, int]:
        """Returns the text of its function, and the bytes of memory that it needs.

        The function takes a pointer to the addresses of objects: of its arrays, of its results, and
        of an array of bytes. It returns 0 if all went well.
        """
        self.lines = lines = Lines()
        lines.begin("entry")
        self._pointers: dict[Any, str] = {}
        given = [*map(identity_of, self.arrays), *outputs]
        self._numbers_of_objects = {x: number for number, x in enumerate(given)}
        steps = sum(memory_strides(x) is not None for x in self.arrays)
        behind = len(self.arrays)
        for ends in ((0, behind - steps), (behind, len(given))) if steps else ((0, len(given)),):
            write_layout_test(lines, self._object, ends, WRONG_LAYOUT)
        total = self._write_calls(module, outputs, lambda: self._data(str(len(given))))
        lines.add("ret i64 0")
        self._end_text(module, len(given))
        module.declared.update(lines.declared)
        head = f"define i64 @{name}(ptr %objects) {{"
        return "\n".join([head, *lines.text, "}"]), total

    def _end_text(self, module: Module, objects: int) -> None:
        """Changes the lines of its function in the end; that has so many objects and a memory."""

    def _write_calls(
        self, module: Module, outputs: Sequence[VariableLike], memory: Callable[[], str]
    ) -> int:
        """Writes all calls; returns the bytes of memory that they need.

        Args:
            module: takes their functions.
            outputs: the variables that lie elsewhere.
            memory: writes what finds the address of the memory.
        """
        lines = self.lines
        offsets, total = self._offsets(outputs)
        # Arrays without elements lie nowhere.
        self._memory = memory() if total else "null"
        for x, offset in offsets.items():
            place = f"getelementptr i8, ptr {self._memory}, i64 {offset}"
            self._pointers[x] = lines.let(place)
        for number, call in enumerate(self._calls):
            self._write_call(call, module, offsets.get(number, 0))
        return total

    def _object(self, number: str) -> str:
        place = self.lines.let(f"getelementptr ptr, ptr %objects, i64 {number}")
        return self.lines.let(f"load ptr, ptr {place}, align 8")

    def _data(self, number: str) -> str:
        place = f"getelementptr i8, ptr {self._object(number)}, i64 {OBJECT_HEADER}"
        return self.lines.let(f"load ptr, ptr {self.lines.let(place)}, align 8")

    def _offsets(self, outputs: Sequence[VariableLike]) -> tuple[dict[Any, int], int]:
        """Returns where in memory its own variables lie, and the memory of each call's kernel."""
        last: dict[Any, int] = {}
        for number, call in enumerate(self._calls):
            for x in call.given:
                last[identity_of(x.owner)] = number
        last.update(dict.fromkeys(self._lasting, len(self._calls)))
        offsets: dict[Any, int] = {}
        taken: dict[Any, int] = {}
        free: dict[int, list[int]] = {}
        total = 0
        elsewhere = {*map(identity_of, self.arrays), *outputs}
        for number, call in enumerate(self._calls):
            sizes: list[tuple[Any, int]] = []
            for x in call.given:
                own = identity_of(x.owner)
                if own not in elsewhere and own not in offsets:
                    sizes.append((own, x.owner.type.size * x.owner.type.dtype.itemsize))
            if self._own_bytes(call):
                sizes.append((number, self._own_bytes(call)))
            for own, size in sizes:
                size = taken[own] = -(-size // ALIGNMENT) * ALIGNMENT
                if free.get(size):
                    offsets[own] = free[size].pop()
                else:
                    offsets[own] = total
                    total += size
            ended = [own for own, end in last.items() if end == number]
            for own in filter(taken.__contains__, [*ended, number]):
                free.setdefault(taken[own], []).append(offsets[own])
        return offsets, total

    def _own_bytes(self, call: SegmentCall) -> int:
        """Returns the bytes of memory that a call needs for itself."""
        return 0 if call.kernel is None else scratch_bytes(call.kernel)

    def _pointer(self, x: LayOut) -> str:
        own = identity_of(x.owner)
        # Addresses that stayed in registers would take LLVM a time that grows with their square.
        pointer = self._pointers.get(own) or self._data(str(self._numbers_of_objects[own]))
        offset = (x.offset - below(x.shape, x.strides)) * operand_dtype(x.owner).itemsize
        if not offset:
            return pointer
        return self.lines.let(f"getelementptr i8, ptr {pointer}, i64 {offset}")

    def _write_call(self, call: SegmentCall, module: Module, offset: int) -> None:
        lines = self.lines
        if call.kernel is None:
            x, y, out = call.given
            left, right = x.matrix(0), y.matrix(0)
            assert self.blas is not None
            assert left is not None
            assert right is not None
            sizes = x.shape[0], y.shape[1], x.shape[1]
            pointers = [self._pointer(v) for v in call.given]
            self.blas.call(lines, operand_dtype(out.owner), sizes, pointers, left, right)
            return
        self._write_label_tests(call, module)
        name = module.kernel(call.kernel)
        room, scratch = self._room(call), self._scratch(call, offset)
        lines.add(f"call void @{name}(i64 0, i64 0, i64 0, ptr {scratch}, ptr {room})")

    def _write_label_tests(self, call: SegmentCall, module: Module) -> None:
        """Writes the tests of a call's labels."""
        for number, *bounds in call.labels:
            x = call.given[number]
            known = self._pointer(x), operand_dtype(x.owner), prod(x.shape), bounds
            self._write_label_test(LabelTests(*known), module)

    def _write_label_test(self, labels: LabelTests, module: Module) -> None:
        """Writes the test of labels."""
        write_label_test(self.lines, labels, WRONG_LABEL)

    def _room(self, call: SegmentCall, *more: str) -> str:
        """Writes addresses one behind the other: of a call's operands and results, and more."""
        lines = self.lines
        room = lines.room(len(call.given) + len(more))
        for i, address in enumerate([*map(self._pointer, call.given), *more]):
            place = lines.let(f"getelementptr ptr, ptr {room}, i64 {i}")
            lines.add(f"store ptr {address}, ptr {place}, align 8")
        return room

    def _scratch(self, call: SegmentCall, offset: int) -> str:
        """Writes the address of a call's own memory."""
        if not self._own_bytes(call):
            return "null"
        return self.lines.let(f"getelementptr i8, ptr {self._memory}, i64 {offset}")
