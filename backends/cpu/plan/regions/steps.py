"""The steps of a block: lines whose results get their memory later, in ``block_source.py``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import copysign
from typing import TYPE_CHECKING, Any

import numpy as np

from ....terms import FormulaTerm
from ...reductions import reduced_extremum
from ...where_and_extrema import SIGNED_INTEGERS
from ..codegen.called import as_operand
from ..codegen.operands import COMPARISON_SIGNS, PYTHON_NUMBERS, constant
from ..codegen.source import Source
from .broadcast_rows import is_outer, is_rowwise, outer, rowwise
from .grid import Grid, Groups
from .row_sums import (
    column_sum,
    row_dot,
    row_product,
    row_reduction,
    row_softmax,
    row_sum,
    total_dot,
    total_sum,
)

if TYPE_CHECKING:
    from ....annotations import Axes, DType
    from ..annotations import EquationLike

__all__ = ["BlockStep", "BlockSteps", "BlockValue", "joint_groups"]

# NumPy takes ``out`` of these ufuncs by name alone.
OUT_BY_NAME = frozenset({"maximum", "minimum"})


class BlockValue(FormulaTerm):
    """A value in a block.

    Attributes:
        graph: the steps that it is of.
        text: its name.
        groups: the joined axes of the grid that it has.
        dtype: its dtype; for a weak number its Python type.
        step: the step that makes it; None for inputs.
        slot: the number of the buffer that it lies in; None if it has memory of its own.
        last: the number of the last step that needs it.
        tested: how a plan that reports NaN and infinity tests it: "direct" if its step has the
            equation's own operands, "apart" if not; empty if it does not have to.
    """

    __slots__ = ("dtype", "graph", "groups", "last", "slot", "step", "tested", "text")

    def __init__(self, graph: BlockSteps, text: str, groups: Groups, dtype: Any) -> None:
        self.graph = graph
        self.text = text
        self.groups = groups
        self.dtype = dtype
        self.step: BlockStep | None = None
        self.slot: int | None = None
        self.last = -1
        self.tested = ""

    @property
    def axes(self) -> Groups:
        """The same axes, as formulas name them."""
        return self.groups

    @property
    def weak(self) -> bool:
        """Says whether it is a Python number, which decides no dtype."""
        return isinstance(self.dtype, type)


class BlockStep:
    """One line.

    Attributes:
        form: the line with fields: ``{0}``, ``{1}``, ... for operands, ``{out}`` or ``{named}`` for
            the memory of the result, if it gets some, ``{into}`` for memory that it must get.
        operands: values and constants.
        made: the result; None if the line stores it itself.
        equation: the equation that it computes.
        kind: the name of a ufunc, which later steps look for; ``apart`` for a line that needs its
            operands until its result is complete.
    """

    __slots__ = ("equation", "form", "kind", "made", "operands")

    def __init__(
        self,
        form: str,
        operands: Sequence[Any],
        made: BlockValue | None,
        equation: EquationLike,
        kind: str = "",
    ) -> None:
        self.form = form
        self.operands = list(operands)
        self.made = made
        self.equation = equation
        self.kind = kind
        if made is not None:
            made.step = self

    @property
    def placeable(self) -> bool:
        """Says whether the line takes memory for its result."""
        return any(place in self.form for place in ("{out}", "{named}", "{into}"))


class BlockSteps:
    """Collects the steps of a region, equal ones once: the graph of formulas of block values.

    Attributes:
        lengths: the lengths of the grid's joined axes.
        equation: the equation of the next steps.
        steps: all steps so far.
    """

    def __init__(self, grid: Grid, source: Source) -> None:
        self.grid = grid
        self.lengths = grid.shape
        self.source = source
        self.equation: Any = None
        self.steps: list[BlockStep] = []
        self._known: dict[Any, BlockValue] = {}

    def made(
        self,
        form: str,
        operands: Sequence[Any],
        dtype: DType,
        groups: Groups | None = None,
        kind: str = "",
    ) -> BlockValue:
        """Adds a step and returns its result. By default that has the axes of all operands."""
        if groups is None:
            groups = joint_groups(operands)
        key = form, tuple(map(_operand_key, operands)), dtype, groups
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = BlockValue(self, "", groups, dtype)
            self.steps.append(BlockStep(form, operands, found, self.equation, kind))
        return found

    def op(self, operation: str, *operands: Any) -> BlockValue:
        """Adds an operation of values and numbers, which a formula writes."""
        if operation == "select":
            condition, x, y = operands
            return self.chosen(condition, x, y, (x if type(x) is BlockValue else y).dtype)
        if operation not in COMPARISON_SIGNS:
            return self.ufunc(operation, *operands)
        dtype = next(x.dtype for x in operands if type(x) is BlockValue)
        operands = tuple(x if type(x) is BlockValue else as_operand(x, dtype) for x in operands)
        return self.ufunc(operation, *operands, dtype=np.dtype(bool))

    def limited(self, x: BlockValue, lowest: float, highest: float) -> BlockValue:
        """Returns x within limits; of two zeros its own."""
        return self.ufunc("clip", x, lowest, highest)

    def ufunc(self, name: str, *operands: Any, dtype: DType | None = None) -> BlockValue:
        """Adds a ufunc of values and numbers, by default in the first value's dtype."""
        if dtype is None:
            dtype = next(x.dtype for x in operands if type(x) is BlockValue)
        operands = tuple(x if type(x) is BlockValue else as_operand(x, dtype) for x in operands)
        beside = self._beside(operands, dtype) if len(operands) == 2 else None
        if beside is not None:
            function, first = beside
            bound = self.source.bind(function)
            shown = f"{{{first}}}, {{{1 - first}}}"
            form = f"{bound}(np.{name}, {shown}, {{into}}, first={first == 0})"
        elif name == "clip":
            form = "{0}.clip({1}, {2}{out})"
        else:
            given = ", ".join(f"{{{i}}}" for i in range(len(operands)))
            form = f"np.{name}({given}{'{named}' if name in OUT_BY_NAME else '{out}'})"
        return self.made(form, operands, dtype, kind=name)

    def _beside(self, operands: Sequence[Any], dtype: DType) -> tuple[Any, int] | None:
        """Returns a function for a ufunc of a matrix, or a column, and a row, and the number of the
        operand that it takes first; None if the ufunc itself is quickest.
        """
        if any(type(x) is not BlockValue or x.weak or x.dtype != dtype for x in operands):
            return None
        for first in (0, 1):
            x, y = operands[first].groups, operands[1 - first].groups
            if is_outer(self.grid.shape, x, y):
                return outer, first
            if is_rowwise(self.grid, x, y, dtype.itemsize):
                return rowwise, first
        return None

    def call(
        self,
        function: Callable[..., Any],
        name: str,
        operands: Sequence[Any],
        static: Sequence[str] = (),
        *,
        dtype: DType,
        groups: Groups | None = None,
    ) -> BlockValue:
        """Adds a call of a function that makes the memory of its result."""
        bound = self.source.bind(function, name)
        given = ", ".join([*(f"{{{i}}}" for i in range(len(operands))), *static])
        return self.made(f"{bound}({given})", operands, dtype, groups)

    def whole(self, value: BlockValue, groups: Groups) -> BlockValue:
        """Returns a value broadcast to all the axes that it stands for."""
        if value.groups == groups:
            return value
        form = f"np.broadcast_to({{0}}, {self.grid.block_shape(groups)})"
        return self.made(form, [value], value.dtype, groups)

    def masked(self, condition: BlockValue, x: BlockValue, where: bool = True) -> BlockValue:
        """Returns x where a condition is true, or false, and 0 elsewhere, by the bits."""
        mask = self._mask(condition, x.dtype, where)
        bits = np.dtype(SIGNED_INTEGERS[x.dtype.itemsize]).name
        form = f"np.bitwise_and({{0}}.view('{bits}'), {{1}}, {{into}}.view('{bits}'))"
        return self.made(form, [x, mask], x.dtype)

    def chosen(self, condition: BlockValue, x: Any, y: Any, dtype: DType) -> BlockValue:
        """Returns x where a condition holds and y elsewhere, by the bits."""
        if type(x) is BlockValue and is_number_zero(y):
            return self.masked(condition, x)
        if type(y) is BlockValue and is_number_zero(x):
            return self.masked(condition, y, where=False)
        x, y = (v if type(v) is BlockValue else as_operand(v, dtype) for v in (x, y))
        mask, kind = self._mask(condition, dtype), np.dtype(SIGNED_INTEGERS[dtype.itemsize])
        differing = f"np.bitwise_xor({{0}}.view('{kind.name}'), {{1}}.view('{kind.name}'){{out}})"
        bits = self.made(differing, [x, y], kind)
        bits = self.made("np.bitwise_and({0}, {1}{out})", [bits, mask], kind)
        last = f"np.bitwise_xor({{0}}, {{1}}.view('{kind.name}'), {{into}}.view('{kind.name}'))"
        return self.made(last, [bits, y], dtype)

    def cast(self, x: BlockValue, dtype: DType) -> BlockValue:
        """Returns a value in another dtype."""
        if x.dtype == dtype:
            return x
        return self.made("np.copyto({into}, {0}, casting='unsafe')", [x], dtype)

    def _mask(self, condition: BlockValue, dtype: DType, where: bool = True) -> BlockValue:
        """Returns integers of a dtype's size with all bits set where a condition is as it says."""
        form = "np.negative({0}.view('int8'){out})"
        if not where:
            form = "np.subtract({0}.view('int8'), 1{out})"
        return self.made(form, [condition], np.dtype(SIGNED_INTEGERS[dtype.itemsize]), kind="mask")

    # -- sums: over axes of rows, which stay with length 1, and over all of a block

    def fold(self, operation: str, x: BlockValue, axes: Groups) -> BlockValue:
        """Returns the sums, or the largest or smallest elements, of rows of floats."""
        along = tuple(sorted(axes))
        return self.row_sum(x, along) if operation == "add" else self._extremum(x, along, operation)

    def row_sum(self, x: BlockValue, axes: Axes) -> BlockValue:
        """Returns the sums of rows; sums of products without the products."""
        left = x.groups - set(axes)
        if x.step is not None and x.step.kind in ("negative", "multiply", "divide"):
            outside = self._sum_inside(x.step, x, axes)
            if outside is not None:
                return outside
        pair = _factors(x) if axes == (len(self.grid.shape) - 1,) else None
        if pair is not None:
            form = f"{self.source.bind(row_dot)}({{0}}, {{1}})"
            return self.made(form, pair, x.dtype, left)
        function = self.source.bind(row_sum)
        return self.made(f"{function}({{0}}, {axes!r})", [x], x.dtype, left)

    def _sum_inside(self, step: BlockStep, x: BlockValue, axes: Axes) -> BlockValue | None:
        """Returns sums of rows by a step on the sums, with another rounding, or a product of BLAS.

        The elements are all negated, or multiplied or divided by one number or vector.
        """
        first, *rest = step.operands
        if step.kind == "negative":
            inside = type(first) is BlockValue and first.groups == x.groups
            return self.ufunc("negative", self.row_sum(first, axes)) if inside else None
        (second,) = rest
        if any(type(v) is not BlockValue or v.dtype != x.dtype for v in (first, second)):
            return None
        if x.dtype.char not in "fd":
            return None
        if first.groups == x.groups and second.groups.isdisjoint(axes):
            return self.ufunc(step.kind, self.row_sum(first, axes), second)
        if step.kind == "divide":
            return None
        if second.groups == x.groups and first.groups.isdisjoint(axes):
            return self.ufunc("multiply", first, self.row_sum(second, axes))
        for matrix, vector in ((first, second), (second, first)):
            if matrix.groups == x.groups == {0, 1} and vector.groups == {1} and axes == (1,):
                groups: Groups = frozenset({0})
                return self.call(row_product, "", [matrix, vector], dtype=x.dtype, groups=groups)
        return None

    def softmax(self, x: BlockValue, axes: Axes) -> BlockValue | None:
        """Returns the softmax of rows; None if they are not the last axis."""
        if axes != (len(self.grid.shape) - 1,) or len(x.groups) != len(self.grid.shape):
            return None
        form = f"{self.source.bind(row_softmax)}({{0}}, {{into}})"
        return self.made(form, [x], x.dtype, kind="apart")

    def _extremum(self, x: BlockValue, axes: Axes, ufunc: str) -> BlockValue:
        """Returns the largest or smallest elements of rows."""
        form = f"{self.source.bind(reduced_extremum)}(np.{ufunc}, {{0}}, {axes!r}, True)"
        return self.made(form, [x], x.dtype, x.groups - set(axes))

    def row_reduction(self, x: BlockValue, axes: Axes, ufunc: str) -> BlockValue:
        """Returns rows reduced by a ufunc, in their dtype."""
        form = f"{self.source.bind(row_reduction)}(np.{ufunc}, {{0}}, {axes!r})"
        return self.made(form, [x], x.dtype, x.groups - set(axes))

    def part(self, target: str, x: BlockValue, axes: Axes, ufunc: str) -> None:
        """Adds a step that stores a reduction of the block, as a part of the whole one."""
        everything = set(axes) == x.groups
        operands: list[Any] = [x]
        if ufunc != "add" or x.dtype.char not in "fd":
            dtype = ", {0}.dtype" if x.dtype.kind in "iu" else ""
            text = f"np.{ufunc}.reduce({{0}}, {None if everything else axes!r}{dtype})"
        elif everything:
            pair = _factors(x)
            operands = list(pair) if pair is not None else operands
            self.put(target, total_dot if pair is not None else total_sum, operands)
            return
        else:
            text = f"{self.source.bind(column_sum)}({{0}}, {axes!r})"
        self.steps.append(BlockStep(f"{target}[number] = {text}", operands, None, self.equation))

    def put(self, target: str, function: Callable[..., Any], operands: Sequence[Any]) -> None:
        """Adds a step that stores a function's result as the part of a block."""
        given = ", ".join(f"{{{i}}}" for i in range(len(operands)))
        text = f"{self.source.bind(function)}({given})"
        self.steps.append(BlockStep(f"{target}[number] = {text}", operands, None, self.equation))

    def drop_unused(self, needed: Sequence[BlockValue]) -> None:
        """Drops the steps whose results nothing uses."""
        used = {id(value) for value in needed}
        kept: list[BlockStep] = []
        for step in reversed(self.steps):
            if step.made is None or id(step.made) in used:
                kept.append(step)
                used.update(id(x) for x in step.operands if type(x) is BlockValue)
        self.steps = kept[::-1]


def joint_groups(operands: Sequence[Any]) -> Groups:
    """Returns the axes that values have together."""
    return frozenset().union(*(x.groups for x in operands if type(x) is BlockValue))


def _factors(x: BlockValue) -> tuple[BlockValue, BlockValue] | None:
    """Returns the factors of a product of whole values of one dtype, or None."""
    if x.step is None or x.step.kind not in ("square", "multiply"):
        return None
    pair = x.step.operands[0], x.step.operands[-1]
    if x.dtype.char not in "fd" or any(
        type(v) is not BlockValue or v.groups != x.groups or v.dtype != x.dtype for v in pair
    ):
        return None
    return pair


def is_number_zero(x: Any) -> bool:
    """Says whether an operand is Python's number 0, with the sign of all its bits 0."""
    number = None if type(x) is BlockValue else constant(x)
    return type(number) in (int, float) and number == 0 and copysign(1.0, number) > 0


def _operand_key(x: Any) -> Any:
    if type(x) is BlockValue:
        return id(x)
    value = constant(x)
    if type(value) in PYTHON_NUMBERS:
        return type(value), repr(value)
    if not np.ndim(value):
        return str(value.dtype), repr(value.item())
    return id(value)
