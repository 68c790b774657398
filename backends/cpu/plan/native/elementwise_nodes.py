"""Elementwise equations as nodes of a region's graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ....kernels.functions import FORMULAS
from ....kernels.graph import Expr, ExprGraph, cast, function, select
from ....kernels.operations import KERNEL_COMPARISONS
from ....restoring import errstate
from ..codegen.called import loop_types, ufunc_loop
from ..codegen.operands import constant, is_variable
from .complex_formulas import complex_elementwise, is_of_complex_numbers
from .complex_nodes import AnyNode, ComplexExpr
from .formulas import (
    ELEMENT_FORMULAS,
    FLOATS_ALONE,
    HALF_FORMULAS,
    HALF_UFUNCS,
    UFUNCS,
    casted,
    clipped,
    compared,
    nonzero,
    power,
    remainder,
    whole_power,
)
from .machine_dtypes import BFLOAT16_CHAR, NATIVE_DTYPES, ROW_FLOATS
from .not_native import NotNative
from .whole_formulas import rounded

if TYPE_CHECKING:
    from ....annotations import DType, Shape
    from ..annotations import EquationLike, Operand

__all__ = ["elementwise", "operand_dtype", "operand_shape"]

# Functions that are no ufuncs of NumPy's.
FUNCTIONS_BESIDE_UFUNCS = frozenset({"erf", "erfc"} & FORMULAS.keys())

maximum, minimum = map(function, ("maximum", "minimum"))


def elementwise(graph: ExprGraph, equation: EquationLike, nodes: Sequence[Any]) -> AnyNode:
    """Returns the node of an elementwise equation.

    Args:
        graph: makes nodes.
        equation: the equation.
        nodes: the nodes of its operands; None for constants.

    Raises:
        NotNative: there is none.
    """
    if has_bfloat16(equation):
        return of_bfloat16(graph, equation, nodes)
    primitive, dtype = equation.primitive, equation.outputs[0].type.dtype
    name, params = primitive.name, equation.params
    if is_of_complex_numbers(equation, nodes):
        made = complex_elementwise(graph, equation, nodes)
        if made is None:
            raise NotNative(name)
        return made

    def operand(number: int, wanted: DType) -> Expr:
        node = nodes[number]
        if node is None:
            value = constant(equation.operands[number])
            if np.ndim(value):
                (value,) = value.reshape(-1)  # the graph has nodes of all others
            try:
                with errstate(all="ignore"):
                    return graph.constant(value, wanted)
            except OverflowError:
                raise NotNative(value) from None
        found = casted(node, wanted)
        if found is None:
            raise NotNative(name)
        return found

    def wide_operand(number: int, wanted: DType) -> Expr:
        """Returns float16 in float32; a number of Python's is rounded to float16 before."""
        found = operand(number, wanted)
        return cast(found, np.float32) if wanted.char == "e" else found

    count = len(equation.operands)
    if name == "astype":
        return operand(0, dtype)
    if name == "where":
        condition = operand(0, np.dtype(bool)) if nodes[0] is None else nodes[0]
        return select(nonzero(condition), operand(1, dtype), operand(2, dtype))
    if name == "clip":
        x, low, high = (operand(i, dtype) for i in range(count))
        if dtype.kind in "iu":
            return minimum(maximum(x, low), high)
        if dtype.char not in ROW_FLOATS:
            raise NotNative(name)
        return clipped(x, low, high)
    if name in FUNCTIONS_BESIDE_UFUNCS and dtype.char in ROW_FLOATS:
        return function(name)(operand(0, dtype))
    formula = HALF_FORMULAS.get(name) if dtype.char == "e" else None
    formula = formula or ELEMENT_FORMULAS.get(name)
    if formula is not None:
        if dtype.char not in "efd":
            raise NotNative(name)
        try:
            found = formula(*[wide_operand(i, dtype) for i in range(count)], **params)
        except NotImplementedError:
            raise NotNative(name) from None
        return cast(found, dtype)
    if name == "round":
        near = rounded(wide_operand(0, dtype), params["decimals"], dtype)
        if near is None:
            raise NotNative(name)
        return cast(near, dtype)
    if params or type(primitive.compute) is not str:
        raise NotNative(name)
    if name == "remainder" and dtype.kind in "iu":
        divisor = equation.operands[1]
        if not is_variable(divisor) and not np.ndim(constant(divisor)) and constant(divisor) > 0:
            return remainder(operand(0, dtype), int(operand(1, dtype).detail))
    loop = ufunc_loop(primitive.compute, loop_types(equation.operands))
    if loop is None:
        raise NotNative(name)
    ufunc, dtypes = loop[0].__name__, loop[1]
    written = HALF_UFUNCS.get(ufunc) if dtypes[0].char == "e" else None
    written = written or UFUNCS.get(ufunc)
    kinds = {d.kind for d in dtypes[:-1]}
    if written is None or any(d.char not in NATIVE_DTYPES for d in dtypes):
        raise NotNative(name)
    if kinds != {"f"} and (ufunc in FLOATS_ALONE or (kinds == {"b"} and ufunc == "subtract")):
        raise NotNative(name)
    given = [wide_operand(i, d) for i, d in enumerate(dtypes[:-1])]
    if ufunc == "power":
        exponent = equation.operands[1]
        fixed = not is_variable(exponent) and type(constant(exponent)) in (
            int,
            float,
            np.float32,
            np.float64,
        )
        simple = power(given[0], float(constant(exponent))) if fixed else None
        if simple is not None and kinds == {"f"}:
            return cast(simple, dtype)
        if kinds != {"f"}:
            power_of = given[1]
            if kinds - {"i", "u"} or power_of.operation != "constant" or power_of.detail < 0:
                raise NotNative(name)
            return whole_power(given[0], int(power_of.detail))
    if any(x.dtype.kind == "b" for x in given) and ufunc in ("divide", "negative", "absolute"):
        raise NotNative(name)
    if ufunc in KERNEL_COMPARISONS and given[0].dtype != given[1].dtype:
        return compared(ufunc, *given)
    return cast(written(*given), dtype)


def has_bfloat16(equation: EquationLike) -> bool:
    """Says whether an equation has numbers of bfloat16, or makes them."""
    (out,) = equation.outputs
    return any(operand_dtype(x).char in BFLOAT16_CHAR for x in (*equation.operands, out))


class InSingle:
    """An equation in float32 that stands for one in bfloat16."""

    def __init__(
        self,
        primitive: Any,
        operands: Sequence[Any],
        params: Mapping[str, Any],
        outputs: Sequence[Any],
        line: str,
    ) -> None:
        self.primitive = primitive
        self.operands = operands
        self.params = params
        self.outputs = outputs
        self.line = line


class SingleType(NamedTuple):
    """The type of a value in float32."""

    shape: Shape
    dtype: DType
    weak: type | None = None


class SingleVariable(NamedTuple):
    """A variable in float32."""

    type: SingleType
    device: str = ""


def in_single(x: Operand, is_input: bool = True) -> Any:
    """Returns an operand, or one in float32 that stands for it if it is in bfloat16.

    ``is_input`` says whether it is read from memory, which may be a GPU's, if it is no variable.
    """
    if operand_dtype(x).char not in BFLOAT16_CHAR:
        return x
    if is_variable(x):
        return SingleVariable(SingleType(x.type.shape, np.dtype(np.float32)))
    value = constant(x)
    if is_input:
        return SingleVariable(SingleType(value.shape, np.dtype(np.float32)))
    return np.asarray(value).astype(np.float32)


def of_bfloat16(graph: ExprGraph, equation: EquationLike, nodes: Sequence[Any]) -> AnyNode:
    """Returns the node of an elementwise equation in bfloat16: it is computed in float32."""
    (out,), single = equation.outputs, np.dtype(np.float32)
    narrow = [x is not None and x.dtype.char in BFLOAT16_CHAR for x in nodes]
    wide = [cast(x, single) if flag else x for x, flag in zip(nodes, narrow, strict=True)]
    pairs = zip(equation.operands, nodes, strict=True)
    operands = [in_single(x, node is not None) for x, node in pairs]
    same = InSingle(equation.primitive, operands, equation.params, [in_single(out)], equation.line)
    made = elementwise(graph, same, wide)
    if isinstance(made, ComplexExpr):
        raise NotNative("complex numbers")
    return cast(made, out.type.dtype)


def operand_shape(x: Any) -> tuple[int, ...]:
    """Returns the shape of a variable or a constant."""
    return tuple(x.type.shape) if is_variable(x) else np.shape(constant(x))


def operand_dtype(x: Operand) -> DType:
    """Returns the dtype of an operand."""
    if is_variable(x):
        return x.type.dtype
    value = constant(x)
    return value.dtype if hasattr(value, "dtype") else np.asarray(value).dtype
