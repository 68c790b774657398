"""The graph of a region: its equations as nodes over the joined axes of its grid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ....config import config
from ....kernels.check import check_kernel
from ....kernels.graph import Expr, ExprGraph, cast
from ....kernels.kernel import LoopKernel
from ....kernels.schedule import scheduled
from ....kernels.shared_divisors import with_reciprocals
from ....region_functions import (
    GATHERS,
    LABELLED,
    LAST_AXIS_FUNCTIONS,
    REDUCTION_UFUNCS,
    ROW_FUNCTIONS,
    WINDOWED,
)
from ..codegen.operands import constant, is_variable
from ..labels import LabelRead
from ..regions.region_grid import BlockOutput, RegionGrid, divisor_of
from .complex_nodes import (
    AnyNode,
    fold_node,
    input_node,
    kernel_result,
    leading,
    spread_node,
)
from .elementwise_nodes import elementwise, operand_dtype
from .gather_source import GatherSource
from .gathers import IndexedAxes, indexed_axes, is_native_gather
from .layouts import c_strides, in_grid_order, unjoined
from .machine_dtypes import ROW_FLOATS, folded_dtypes, is_machine_dtype
from .not_native import NotNative
from .row_functions import ROWS, GridRows
from .spreads import SpreadAxes
from .windows import WindowAxes, windowed_axes

if TYPE_CHECKING:
    from ....annotations import Shape
    from ..annotations import EquationLike, Operand, RegionLike, VariableLike

__all__ = ["NotNative", "RegionGraph", "is_native"]

GatherAxes: TypeAlias = IndexedAxes | SpreadAxes | WindowAxes


# Floats whose folds a GPU makes in float32.
FOLDED_IN_SINGLE = "eE"


class RegionGraph:
    """A region as nodes.

    Attributes:
        grid: the grid, neighbouring axes joined where that is possible.
        graph: the nodes.
        inputs: the node of every input.
        shapes: for every input the permutation of its axes, or None, and its shape in the grid;
            None for numbers.
        outputs: how the results are put together.
        results: the results.
        labels: the inputs that are labels or indices, and who reads them.
        strides: for inputs that lie in another order than the grid, by their numbers, the strides
            of their joined axes.

    Args:
        region: the region.
        given: its operands.
        order: another order of the grid's axes; None for that of the region.
        lying: the strides of each operand's axes, in elements; None if all are brought in order.
        on_gpu: whether it is a GPU's, whose folds of 16-bit floats are made in float32.
        within: the strides of the axes of its only result, in elements, where that is a part of an
            array.

    Raises:
        NotNative: a kernel cannot compute it.
    """

    def __init__(
        self,
        region: RegionLike,
        given: Sequence[Operand],
        order: Sequence[int] | None,
        lying: Sequence[Sequence[int]] | None = None,
        on_gpu: bool = False,
        within: Sequence[int] | None = None,
    ) -> None:
        self.program = region.program
        self._on_gpu = on_gpu
        self._lying = grid = RegionGrid(region, order)
        lengths, self._raw = grid.lengths, grid.raw
        self._ranges = region.ranges
        self._axes_of: dict[int, GatherAxes] = {}
        self._sources: dict[VariableLike, GatherSource] = {}
        # The order of the axes of sources that lie in another order.
        self._turned: dict[VariableLike, Sequence[int]] = {}
        for number, equation in enumerate(self.program.equations):
            name, out = equation.primitive.name, equation.outputs[0]
            axes: GatherAxes
            if name in WINDOWED:
                turned = None if order is None else axes_in(order, region.places[out])
                of = equation.operands[: 1 + (name == "pool_scatter")]
                sources = [self._source(x, lying, turned) for x in of]
                axes = windowed_axes(equation, sources, self._raw[out])
            elif name in GATHERS:
                source = self._source(equation.operands[0], lying)
                axes = indexed_axes(equation, self._raw[out], lengths, source)
            else:
                continue
            self._axes_of[number] = axes
            grid.keep_apart(axes.unjoined_axes(lengths))
        strided: dict[int, dict[int, int]] = {}
        for number, strides in enumerate(lying or ()):
            x = self.program.inputs[number]
            if x in self._sources:
                continue
            by_axis = {
                a: n for a, n in zip(self._raw[x], strides) if a is not None and lengths[a] > 1
            }
            if not in_grid_order(by_axis, lengths):
                if x.type.dtype.kind == "c":
                    raise NotNative("complex numbers in another order")
                strided[number] = by_axis
                grid.keep_apart(unjoined(by_axis, lengths))
        lies: dict[int, int] = {}
        if within is not None:
            (out,) = self.program.outputs
            found = zip(self._raw[out], within)
            lies = {a: n for a, n in found if a is not None and lengths[a] > 1}
            grid.keep_apart(unjoined(lies, lengths))
        self.grid = grid.join()
        self.strides = {
            number: {self.grid.group[a]: by_axis[a] for a in sorted(by_axis)}
            for number, by_axis in strided.items()
        }
        self._places = grid.places
        self.graph = ExprGraph(self.grid.shape)
        self.shapes: list[tuple[Any, Shape] | None] = []
        self.labels: list[LabelRead] = []
        self._nodes: dict[VariableLike, Any] = {}
        self.inputs = [
            self._input(number, *pair)
            for number, pair in enumerate(zip(self.program.inputs, given))
        ]
        for number, equation in enumerate(self.program.equations):
            (out,) = equation.outputs
            indexed = self._axes_of.get(number)
            if indexed is not None:
                self._nodes[out] = self._gathered(equation, indexed)
            else:
                self._nodes[out] = self._equation(equation)
        self.outputs = [self._output(out) for out in self.program.outputs]
        self.results = [
            kernel_result(self._nodes[out], self._places[out], self._divisors.get(out, 1))
            for out in self.program.outputs
        ]
        if within is not None:
            (result,) = self.results
            lying_in = {self.grid.group[a]: lies[a] for a in sorted(lies)}
            if result.late or result.imag is not None or not lying_in.keys() <= result.axes:
                raise NotNative("a result that is no part of an array")
            self.results = [result._replace(strides=lying_in)]

    def kernel(self, name: str, whole: bool = False) -> LoopKernel:
        """Returns the kernel of the region; ``whole`` says that one run computes all rows."""
        inputs = [leading(x) for x in self.inputs]
        kernel = with_reciprocals(
            scheduled(name, self.graph, inputs, self.results, whole, self.strides)
        )
        if config.check_programs:
            check_kernel(kernel)
        return kernel

    def _input(self, number: int, variable: VariableLike, given: Operand) -> AnyNode:
        known = variable.type
        if not is_machine_dtype(known.dtype, in_regions=True):
            raise NotNative(known.dtype)
        if variable in self._sources:
            self.shapes.append((self._turned.get(variable), known.shape))
            return self._sources[variable].node(self.graph)
        groups, how = self._lying.brought(variable, given)
        node = input_node(self.graph, number, known.dtype, groups)
        self._nodes[variable] = node
        self.shapes.append(how)
        return node

    def _source(
        self,
        variable: VariableLike,
        lying: Sequence[Sequence[int]] | None,
        turned: Sequence[int] | None = None,
    ) -> GatherSource:
        """Returns where an input lies whose elements are gathered.

        Args:
            variable: the input.
            lying: the strides of inputs; None if they are brought in order.
            turned: the order of its axes, if that is another one.
        """
        number, shape = self.program.inputs.index(variable), variable.type.shape
        strides = c_strides(shape) if lying is None else lying[number]
        if turned is not None:
            self._turned[variable] = turned
            steps = c_strides([shape[axis] for axis in turned])
            strides = [steps[turned.index(axis)] for axis in range(len(shape))]
        found = self._sources[variable] = GatherSource(number, variable.type.dtype, shape, strides)
        return found

    def _gathered(self, equation: EquationLike, axes: GatherAxes) -> AnyNode:
        """Returns gathered elements, and enters tests of indices that may be out of bounds."""
        for x, (axis, length) in zip(equation.operands[1:], axes.indexed):
            if not is_variable(x):
                continue  # staging has tested it
            low, high = self._ranges.get(x, (-length - 1, length))
            if not -length <= low <= high < length:
                number = self.program.inputs.index(self._moved_from(x))
                read = LabelRead(number, -length, length, equation, axis)
                if all(read[:3] != other[:3] for other in self.labels):
                    self.labels.append(read)
        nodes = [
            self._nodes[x] if is_variable(x) else self.graph.constant(constant(x), np.int64)
            for x in equation.operands[len(axes.sources) :]
        ]
        return axes.node(self.graph, nodes, self.grid.group)

    def _moved_from(self, x: VariableLike) -> VariableLike:
        """Returns the input whose axes an index array has, some of them added or dropped."""
        makers = {e.outputs[0]: e for e in self.program.equations}
        while x in makers:
            if makers[x].primitive.name not in ("broadcast_to", "reshape"):
                raise NotNative("indices that are computed")
            (x,) = makers[x].operands
        return x

    def _output(self, out: VariableLike) -> BlockOutput:
        axes, node = self._lying.axes_of(out), leading(self._nodes[out])
        place = self._places[out]
        if node.operation == "fold" and 0 not in node.axes:
            rest = tuple(self.grid.shape[a] for a in sorted(place))
            divisor = self._divisors.get(out, 1)
            return BlockOutput(out.type, axes, reduction=node.detail, rest=rest, divisor=divisor)
        if 0 not in place:
            raise NotNative("the same for all blocks")
        return BlockOutput(out.type, axes, place)

    # -- equations

    @property
    def _divisors(self) -> Mapping[VariableLike, int]:
        """For means that are complete only after all blocks, by what their sums are divided."""
        return {
            e.outputs[0]: divisor_of(e)
            for e in self.program.equations
            if e.primitive.name == "mean"
        }

    def _equation(self, equation: EquationLike) -> Any:
        name = equation.primitive.name
        if not is_machine_dtype(equation.outputs[0].type.dtype, in_regions=True):
            raise NotNative(name)
        if name in ("broadcast_to", "reshape"):
            return self._node(equation.operands[0])
        if name in REDUCTION_UFUNCS:
            return self._reduction(equation)
        if name == "matmul":
            return self._product(equation)
        if name in ROW_FUNCTIONS or name in LAST_AXIS_FUNCTIONS:
            return self._along(equation)
        return elementwise(
            self.graph,
            equation,
            [self._nodes[x] if is_variable(x) else None for x in equation.operands],
        )

    def _node(self, x: Operand) -> Any:
        return self._nodes[x]  # type: ignore[index]

    def _whole(self, x: Operand) -> Any:
        """Returns a node with all the axes that its variable stands for."""
        return spread_node(self._node(x), self._places[x])  # type: ignore[index]

    def _reduction(self, equation: EquationLike) -> Any:
        x, name = self._whole(equation.operands[0]), equation.primitive.name
        narrow = x.dtype
        if self._on_gpu and narrow.char in FOLDED_IN_SINGLE:
            x = cast(x, np.float32)
        if x.dtype.char not in folded_dtypes(name):
            raise NotNative(name)
        gone = self._lying.gone(equation)
        fold = fold_node(REDUCTION_UFUNCS[name], x, gone)
        if 0 in gone:
            return fold  # rounded when it is stored
        if name == "mean":
            fold = fold / self._divisors[equation.outputs[0]]
        return fold if x.dtype == narrow else cast(fold, narrow)

    def _product(self, equation: EquationLike) -> Any:
        x, y = (self._node(v) for v in equation.operands)
        whole = x * y
        (out,) = equation.outputs
        return fold_node("add", whole, whole.axes - self._places[out])

    def _along(self, equation: EquationLike) -> Expr:
        """Returns a function of whole rows."""
        name, params = equation.primitive.name, dict(equation.params)
        first = equation.operands[0]
        dtype = equation.outputs[0].type.dtype
        rows = GridRows(self.graph, *self._lying.rows(equation))
        nodes = [self._node(x) for x in equation.operands]
        nodes[0] = self._whole(first)
        narrow = dtype
        if self._on_gpu and dtype.char in FOLDED_IN_SINGLE:
            dtype = np.dtype(np.float32)
            nodes = [cast(x, dtype) if x.dtype == narrow else x for x in nodes]
        if dtype.char not in ROW_FLOATS or name not in ROWS:
            raise NotNative(name)
        if name in LABELLED:
            number = self.program.inputs.index(equation.operands[-1])
            if all((number, 0, rows.length) != read[:3] for read in self.labels):
                self.labels.append(LabelRead(number, 0, rows.length, equation))
        elif any(x.dtype != dtype for x in nodes):
            raise NotNative(name)
        if name == "var" and 0 in rows.axes:
            raise NotNative(name)
        try:
            return cast(ROWS[name](rows, *nodes, **params), narrow)
        except NotImplementedError:
            raise NotNative(name) from None


def axes_in(order: Sequence[int], place: Sequence[int | None]) -> Sequence[int] | None:
    """Returns the order of an array's axes that is that of the grid's; None without a place each.

    Args:
        order: the grid's axes in that order.
        place: the axes of the grid that the array has.
    """
    return None if None in place else [place.index(axis) for axis in order]


def is_native(equation: EquationLike, on_gpu: bool = False) -> bool:
    """Says whether kernels compute an equation that can be a part of a region."""
    name = equation.primitive.name
    (out,) = equation.outputs
    dtypes = [operand_dtype(x) for x in (*equation.operands, out)]
    if not all(is_machine_dtype(dtype, in_regions=True) for dtype in dtypes):
        return False
    if on_gpu:
        folds = name in REDUCTION_UFUNCS or name in ROW_FUNCTIONS or name in LAST_AXIS_FUNCTIONS
        single = np.dtype(np.float32)
        dtypes = [single if folds and d.char in FOLDED_IN_SINGLE else d for d in dtypes]
    if name in ("broadcast_to", "reshape"):
        return True
    if name in GATHERS:
        return is_native_gather(equation)
    if name in REDUCTION_UFUNCS or name == "matmul":
        same = dtypes[0] == dtypes[-1]
        return same and dtypes[0].char in folded_dtypes(name)
    if name in ROW_FUNCTIONS or name in LAST_AXIS_FUNCTIONS:
        labels = name in LABELLED
        same = set(dtypes[: -2 if labels else None]) == {dtypes[0]}
        return name in ROWS and same and dtypes[0].char in ROW_FLOATS and dtypes[-1] == dtypes[0]
    graph = ExprGraph()
    nodes = [
        None if is_written_out(x) else input_node(graph, i, operand_dtype(x), frozenset())
        for i, x in enumerate(equation.operands)
    ]
    try:
        elementwise(graph, equation, nodes)
    except NotNative:
        return False
    return True


def is_written_out(x: Operand) -> bool:
    """Says whether an operand is a constant that kernels have in their text."""
    return not is_variable(x) and not np.ndim(constant(x))
