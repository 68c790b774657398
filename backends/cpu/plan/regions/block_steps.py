"""The equations of a region as steps of a block, over the joined axes of its grid."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import copysign, isfinite
from typing import TYPE_CHECKING, Any

import numpy as np

from ....processor import ZEROS_ARE_ORDERED
from ....region_functions import LAST_AXIS_FUNCTIONS, REDUCTION_UFUNCS, ROW_FUNCTIONS
from ..codegen.called import as_operand, function_of, ufunc_of
from ..codegen.operands import constant, is_variable
from ..codegen.source import Source
from ..shared_formulas import SHARED_FORMULAS, SHARED_ROWS, FormulaRows
from ..watched import is_reported, may_make
from .region_grid import BlockOutput, RegionGrid, divisor_of
from .row_sums import column_product, row_product
from .steps import BlockStep, BlockSteps, BlockValue

if TYPE_CHECKING:
    from ....annotations import Axes, DType, Shape
    from ..annotations import (
        EquationLike,
        Kernels,
        Operand,
        RegionLike,
        VariableLike,
    )

__all__ = ["Blockwise"]

SINGLE_AND_DOUBLE = "fd"


class Blockwise:
    """The steps of a region with some operands, its grid's axes in an order of memory.

    Attributes:
        grid: the grid with its joined axes.
        steps: the steps.
        inputs: the value of every input.
        shapes: for every input the permutation of its axes, or None, and its shape in the grid;
            None for numbers.
        outputs: the results.
    """

    def __init__(
        self,
        region: RegionLike,
        given: Sequence[Operand],
        kernels: Kernels,
        source: Source,
        order: Sequence[int] | None,
    ) -> None:
        self.program = region.program
        self.source = source
        self._kernels = kernels
        self._lying = RegionGrid(region, order)
        self.grid = self._lying.join()
        self._places = self._lying.places
        self._emit = BlockSteps(self.grid, source)
        self._values: dict[VariableLike, BlockValue] = {}
        self._late: dict[VariableLike, BlockOutput] = {}
        self.shapes: list[tuple[Axes | None, Shape] | None] = []
        self.inputs = [self._input(*pair) for pair in zip(self.program.inputs, given)]
        for equation in self.program.equations:
            self._emit.equation = equation
            self._equation(equation)
        self.outputs = [self._output(out) for out in self.program.outputs]
        self._emit.drop_unused([o.value for o in self.outputs if o.value is not None])
        self.steps = self._emit.steps

    def _input(self, variable: VariableLike, given: Operand) -> BlockValue:
        groups, how = self._lying.brought(variable, given)
        dtype = variable.type.weak or variable.type.dtype
        value = BlockValue(self._emit, self.source.name(variable), groups, dtype)
        self._values[variable] = value
        self.shapes.append(how)
        return value

    def _output(self, out: VariableLike) -> BlockOutput:
        if out in self._late:
            return self._late[out]
        axes = self._lying.axes_of(out)
        return BlockOutput(out.type, axes, self._places[out], self._values[out])

    # -- equations

    def _equation(self, equation: EquationLike) -> None:
        name = equation.primitive.name
        operands = [self._values[x] if is_variable(x) else x for x in equation.operands]
        made: BlockValue | None
        if name in ("broadcast_to", "reshape"):
            made = operands[0]
        elif name in REDUCTION_UFUNCS:
            made = self._reduction(equation, operands[0])
        elif name == "matmul":
            made = self._product(equation, operands)
        elif name in ROW_FUNCTIONS or name in LAST_AXIS_FUNCTIONS:
            made = self._along(equation, operands)
        else:
            made = self._elementwise(equation, operands)
        if made is not None:
            self._values[equation.outputs[0]] = made
            if made.step is not None and may_make(equation):
                made.tested = made.tested or how_tested(made.step, operands)

    def _elementwise(self, equation: EquationLike, operands: list[Any]) -> BlockValue:
        name, dtype = equation.primitive.name, equation.outputs[0].type.dtype
        plain = all(type(x) is BlockValue for x in operands)
        if plain and dtype.char in SINGLE_AND_DOUBLE and {x.dtype for x in operands} == {dtype}:
            made = made_by(SHARED_FORMULAS.get(name), operands, equation.params)
            if made is not None:
                return made
        if name == "astype" and plain and not operands[0].weak:
            return self._emit.cast(operands[0], dtype)
        if dtype.char in SINGLE_AND_DOUBLE:
            made = None
            if name == "where":
                made = self._chosen(operands, dtype)
            elif name in ("maximum", "minimum"):
                made = self._limited(name, operands, dtype)
            elif name == "logaddexp":
                made = self._log_sum(operands, dtype)
            if made is not None:
                return made
        found = ufunc_of(equation, self._kernels)
        if found is not None:
            ufunc, loop = found
            xs = [x if type(x) is BlockValue else as_operand(x, d) for x, d in zip(operands, loop)]
            return self._emit.ufunc(ufunc.__name__, *xs, dtype=dtype)
        static = [f"{k}={self.source.static(v)}" for k, v in equation.params.items()]
        return self._emit.call(*function_of(equation), operands, static, dtype=dtype)

    def _limited(self, name: str, operands: list[Any], dtype: DType) -> BlockValue | None:
        """Returns an extremum of arrays, or of an array and a number, with the backend's bits."""
        values = [x for x in operands if type(x) is BlockValue]
        if any(x.weak or x.dtype != dtype for x in values):
            return None
        if len(values) == 2:
            return self._emit.ufunc(name, *operands)
        numbers = [constant(x) for x in operands if type(x) is not BlockValue]
        if len(values) != 1 or type(numbers[0]) not in (int, float):
            return None
        number = numbers[0]
        if number == 0 and copysign(1.0, number) < 0:
            return None
        limits = (number, np.inf) if name == "maximum" else (-np.inf, number)
        limited = self._emit.ufunc("clip", *values, *limits)
        # NumPy's functions return the second of two zeros, or the larger or smaller one, and
        # ``clip`` returns that of the array.
        takes_bound = name == "maximum" if ZEROS_ARE_ORDERED else type(operands[0]) is BlockValue
        if number == 0 and takes_bound:
            return self._emit.ufunc("add", limited, 0.0)
        return limited

    def _log_sum(self, operands: list[Any], dtype: DType) -> BlockValue | None:
        """Returns ``logaddexp`` of an array and a finite number."""
        values = [x for x in operands if type(x) is BlockValue]
        numbers = [constant(x) for x in operands if type(x) is not BlockValue]
        if len(values) != 1 or values[0].weak or values[0].dtype != dtype:
            return None
        if type(numbers[0]) not in (int, float) or not isfinite(numbers[0]):
            return None
        distance = self._emit.ufunc("absolute", self._emit.ufunc("subtract", *operands))
        share = self._emit.ufunc("exp", self._emit.ufunc("negative", distance))
        rest = self._emit.ufunc("log1p", share)
        return self._emit.ufunc("add", rest, self._emit.ufunc("clip", *values, *numbers, np.inf))

    def _chosen(self, operands: list[Any], dtype: DType) -> BlockValue | None:
        """Returns ``where`` of booleans, and floats or numbers."""
        condition, *rest = operands
        if type(condition) is not BlockValue or condition.weak or condition.dtype != bool:
            return None
        for x in rest:
            if type(x) is BlockValue:
                if x.weak or x.dtype != dtype:
                    return None
            elif type(constant(x)) not in (int, float):
                return None
        x, y = rest
        return self._emit.chosen(condition, x, y, dtype)

    def _reduction(self, equation: EquationLike, value: BlockValue) -> BlockValue | None:
        """Adds a reduction, and returns its value; None if the parts of blocks are put together."""
        (source, *_), (out,) = equation.operands, equation.outputs
        value = self._emit.whole(value, self._places[source])
        gone = self._lying.gone(equation)
        axes = tuple(sorted(gone))
        count = divisor_of(equation)
        ufunc = REDUCTION_UFUNCS[equation.primitive.name]
        if 0 in gone:
            shape = self.grid.joined(self._places[source])
            left = gone < self._places[source]
            rest = tuple(n for g, n in enumerate(shape) if left and g not in gone)
            self._late[out] = BlockOutput(
                out.type, self._lying.axes_of(out), reduction=ufunc, rest=rest, divisor=count
            )
            for number, returned in enumerate(self.program.outputs):
                if returned is out:
                    self._emit.part(f"parts_{number}", value, axes, ufunc)
            return None
        if value.dtype.kind != "f" or ufunc == "multiply":
            return self._emit.row_reduction(value, axes, ufunc)
        total = self._emit.fold(ufunc, value, gone)
        is_mean = equation.primitive.name == "mean"
        return self._emit.ufunc("divide", total, count) if is_mean else total

    def _product(self, equation: EquationLike, operands: list[BlockValue]) -> BlockValue | None:
        """Adds the product of a matrix with a vector, or of a vector with a matrix."""
        (out,) = equation.outputs
        x, y = (
            self._emit.whole(value, self._places[v])
            for value, v in zip(operands, equation.operands)
        )
        if len(equation.operands[0].type.shape) == 2:
            groups = self._places[out]
            return self._emit.call(row_product, "", [x, y], dtype=x.dtype, groups=groups)
        self._late[out] = BlockOutput(out.type, None, reduction="add", rest=out.type.shape)
        for number, returned in enumerate(self.program.outputs):
            if returned is out:
                self._emit.put(f"parts_{number}", column_product, [x, y])
        return None

    def _along(self, equation: EquationLike, operands: list[Any]) -> BlockValue:
        """Returns a function of whole rows, in steps or by the primitive's own function."""
        name, params = equation.primitive.name, equation.params
        groups, count = self._lying.rows(equation)
        axes = tuple(sorted(groups))
        affine = name == "affine_normalize"
        whole = [
            x if affine and i else self._emit.whole(x, self._places[v])
            for i, (x, v) in enumerate(zip(operands, equation.operands))
        ]
        dtype = equation.outputs[0].type.dtype
        if dtype.char in SINGLE_AND_DOUBLE and {x.dtype for x in whole} == {dtype}:
            if name == "softmax":
                made = self._emit.softmax(whole[0], axes)
            else:
                rows: FormulaRows[BlockValue] = FormulaRows(self._emit, groups, count)
                made = made_by(SHARED_ROWS.get(name), [rows, *whole], params)
            if made is not None:
                return made
        return self._by_itself(equation, whole, axes)

    def _by_itself(
        self, equation: EquationLike, operands: list[BlockValue], axes: Axes
    ) -> BlockValue:
        """Returns a function of whole rows by the primitive's own function."""
        name, params = equation.primitive.name, dict(equation.params)
        if "axis" in params:
            params["axis"] = axes
        if "keepdims" in params:
            params["keepdims"] = True
        # The function does not get the axes of the grid behind those of the rows.
        behind = len(self.grid.shape) - 1 - max(self._places[equation.operands[0]])
        texts = []
        for i, x in enumerate(equation.operands):
            narrow = self._places[x] != self._places[equation.operands[0]]
            if name == "affine_normalize" and i:
                texts.append(f"{{{i}}}.reshape(-1)")
            else:
                texts.append(f"{{{i}}}{last_axes_key(behind + narrow, 0)}")
        static = [f"{k}={self.source.static(v)}" for k, v in params.items()]
        form = f"{self.source.function_name(equation)}({', '.join([*texts, *static])})"
        form += last_axes_key(behind + (name == "cross_entropy"), None)
        (out,) = equation.outputs
        return self._emit.made(form, operands, out.type.dtype, self._places[out])


def made_by(
    formula: Callable[..., Any] | None, operands: Sequence[Any], params: Mapping[str, Any]
) -> BlockValue | None:
    """Returns what a formula makes of operands; None without one, or where it has none for them."""
    try:
        return None if formula is None else formula(*operands, **params)
    except NotImplementedError:
        return None


def how_tested(step: BlockStep, operands: Sequence[Any]) -> str:
    """Returns how the result of an equation is tested by a plan that reports NaN and infinity."""
    given = {id(x) for x in operands}
    if any(type(x) is BlockValue and id(x) not in given for x in step.operands):
        return "apart"
    made = step.made
    return "" if made is not None and is_reported(step.kind, [made.dtype]) else "direct"


def last_axes_key(count: int, item: int | None) -> str:
    """Returns the text of a key that takes item 0 of the last axes, or adds axes of length 1."""
    return f"[..., {', '.join([str(item)] * count)}]" if count else ""
