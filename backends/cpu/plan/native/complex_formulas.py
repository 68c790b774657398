"""Primitives of complex numbers as nodes of their parts; what is not here is left to NumPy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import log
from typing import TYPE_CHECKING

import numpy as np

from ....kernels.graph import Expr, ExprGraph, cast, function, select
from ....restoring import errstate
from ..codegen.called import operand_type, ufunc_loop
from ..codegen.operands import constant, is_variable
from .complex_functions import (
    angle,
    both_times,
    complex_logarithm,
    cosine,
    exponential,
    exponential_less_one,
    hyperbolic_cosine,
    hyperbolic_sine,
    hyperbolic_tangent,
    is_finite_part,
    is_infinite,
    power,
    reciprocal,
    sign,
    sine,
    size,
    square,
    square_root,
    tangent,
)
from .complex_nodes import AnyNode, ComplexExpr, complex_constant, leading, part_dtype, to_complex
from .formulas import casted, nonzero

if TYPE_CHECKING:
    from ....annotations import DType
    from ..annotations import EquationLike

__all__ = ["complex_elementwise", "is_of_complex_numbers"]

# Functions of real numbers too, which are about parts.
PART_FUNCTIONS = frozenset({"angle", "conj", "imag", "real"})


def nonzero_complex(z: AnyNode) -> Expr:
    """Returns where a number is not 0."""
    if isinstance(z, ComplexExpr):
        return z.real.differs(0.0) | z.imag.differs(0.0)
    return nonzero(z)


def ordered_by_parts(name: str) -> Callable[[ComplexExpr, ComplexExpr], Expr]:
    """Returns the comparison by real parts, and by imaginary ones where those are equal."""
    strict, last = function(name.removesuffix("_equal")), function(name)

    def compared(x: ComplexExpr, y: ComplexExpr) -> Expr:
        apart = strict(x.real, y.real) & x.imag.equals(x.imag) & y.imag.equals(y.imag)
        return apart | (x.real.equals(y.real) & last(x.imag, y.imag))

    return compared


COMPLEX_UFUNCS: dict[str, Callable[..., AnyNode]] = {
    **{name: ordered_by_parts(name) for name in ("greater", "greater_equal", "less", "less_equal")},
    "absolute": size,
    "add": lambda x, y: x + y,
    "conjugate": lambda z: ComplexExpr(z.real, -z.imag),
    "cos": cosine,
    "cosh": hyperbolic_cosine,
    "divide": lambda x, y: x / y,
    "equal": lambda x, y: x.real.equals(y.real) & x.imag.equals(y.imag),
    "exp": exponential,
    "exp2": lambda z: exponential(both_times(z, log(2.0))),
    "isfinite": lambda z: is_finite_part(z.real) & is_finite_part(z.imag),
    "isinf": is_infinite,
    "isnan": lambda z: z.real.differs(z.real) | z.imag.differs(z.imag),
    "log": complex_logarithm,
    "log10": lambda z: both_times(complex_logarithm(z), 1 / log(10.0)),
    "log2": lambda z: both_times(complex_logarithm(z), 1 / log(2.0)),
    "logical_and": lambda x, y: nonzero_complex(x) & nonzero_complex(y),
    "logical_not": lambda z: ~nonzero_complex(z),
    "logical_or": lambda x, y: nonzero_complex(x) | nonzero_complex(y),
    "logical_xor": lambda x, y: nonzero_complex(x) ^ nonzero_complex(y),
    "multiply": lambda x, y: x * y,
    "negative": lambda z: -z,
    "not_equal": lambda x, y: x.real.differs(y.real) | x.imag.differs(y.imag),
    "positive": lambda z: z,
    "reciprocal": reciprocal,
    "sign": sign,
    "sin": sine,
    "sinh": hyperbolic_sine,
    "sqrt": square_root,
    "square": square,
    "subtract": lambda x, y: x - y,
    "tan": tangent,
    "tanh": hyperbolic_tangent,
}


def one_less_square(z: ComplexExpr) -> ComplexExpr:
    """Returns ``1 - z**2``."""
    one = complex_constant(z.graph, 1.0, z.dtype)
    return (one - z) * (one + z)


def tanh_grad(x: ComplexExpr, y: ComplexExpr) -> ComplexExpr:
    """Returns x times the derivative of ``tanh`` where its value is y."""
    return (complex_constant(x.graph, 1.0, x.dtype) - y * y) * x


COMPLEX_FORMULAS: dict[str, Callable[..., ComplexExpr]] = {
    "expm1": exponential_less_one,
    "one_less_square": one_less_square,
    "tanh_biased": lambda x, y: hyperbolic_tangent(x + y),
    "tanh_grad": tanh_grad,
}


# -- equations


def is_of_complex_numbers(equation: EquationLike, nodes: Sequence[AnyNode | None]) -> bool:
    """Says whether an elementwise equation takes or makes complex numbers, or parts of numbers."""
    return (
        equation.primitive.name in PART_FUNCTIONS
        or equation.outputs[0].type.dtype.kind == "c"
        or any(isinstance(x, ComplexExpr) for x in nodes)
        or any(
            x is None and np.iscomplexobj(constant(given))
            for given, x in zip(equation.operands, nodes, strict=True)
        )
    )


def complex_elementwise(
    graph: ExprGraph, equation: EquationLike, nodes: Sequence[AnyNode | None]
) -> AnyNode | None:
    """Returns the node of an elementwise equation of complex numbers; None where there is none.

    Args:
        graph: makes nodes.
        equation: the equation.
        nodes: the nodes of its operands; None for constants.
    """
    primitive, dtype = equation.primitive, equation.outputs[0].type.dtype
    name = primitive.name

    def operand(number: int, wanted: DType) -> AnyNode | None:
        node = nodes[number]
        if node is None:
            return converted_constant(graph, equation, number, wanted)
        return converted_node(node, wanted)

    if name in PART_FUNCTIONS:
        return None if nodes[0] is None else part_function(equation, nodes[0])
    if name == "astype":
        return operand(0, dtype)
    if name == "complex_of_parts":
        real, imag = (operand(i, part_dtype(dtype)) for i in range(2))
        if real is None or imag is None:
            return None
        return ComplexExpr(leading(real), leading(imag))
    if name == "where":
        return chosen_node(nodes[0], operand(1, dtype), operand(2, dtype))
    formula: Callable[..., AnyNode | None] | None = COMPLEX_FORMULAS.get(name)
    dtypes: Sequence[DType] = (dtype,) * (len(nodes) + 1)
    if formula is None:
        if equation.params or type(primitive.compute) is not str:
            return None
        loop = ufunc_loop(primitive.compute, tuple(map(operand_type, equation.operands)))
        if loop is None:
            return None
        dtypes = loop[1]
        if loop[0] is np.power:
            return fixed_power(operand(0, dtypes[0]), equation)
        formula = COMPLEX_UFUNCS.get(loop[0].__name__)
    if formula is None or dtypes[-1] != dtype:
        return None
    given = [operand(i, d) for i, d in enumerate(dtypes[:-1])]
    if any(x is None for x in given):
        return None
    return formula(*given)


def converted_constant(
    graph: ExprGraph, equation: EquationLike, number: int, wanted: DType
) -> AnyNode | None:
    """Returns an operand that is a number in a dtype; None for an array."""
    value = constant(equation.operands[number])
    if np.ndim(value) or (np.iscomplexobj(value) and wanted.kind not in "bc"):
        return None
    try:
        with errstate(all="ignore"):
            if wanted.kind == "c":
                return complex_constant(graph, value, wanted)
            return graph.constant(value, wanted)
    except OverflowError:
        return None


def converted_node(node: AnyNode, wanted: DType) -> AnyNode | None:
    """Returns ``astype``, of complex numbers to real ones the real part."""
    if wanted.kind == "c":
        return to_complex(node, wanted) if wanted.char in "FD" else None
    if isinstance(node, ComplexExpr):
        return nonzero_complex(node) if wanted.kind == "b" else casted(node.real, wanted)
    return casted(node, wanted)


def part_function(equation: EquationLike, node: AnyNode) -> AnyNode | None:
    """Returns a part, the conjugate or the angle of a number."""
    name, dtype = equation.primitive.name, equation.outputs[0].type.dtype
    if leading(node).dtype.char not in "fd":
        return None
    if name == "conj":
        return COMPLEX_UFUNCS["conjugate"](node) if isinstance(node, ComplexExpr) else node
    real = leading(node)
    imag = node.imag if isinstance(node, ComplexExpr) else real.graph.constant(0.0, real.dtype)
    if name != "angle":
        return imag if name == "imag" else real
    found = angle(ComplexExpr(real, imag))
    return cast(found * (180 / np.pi) if equation.params["deg"] else found, dtype)


def chosen_node(condition: AnyNode | None, x: AnyNode | None, y: AnyNode | None) -> AnyNode | None:
    """Returns one number where a condition holds, and another elsewhere."""
    if condition is None or x is None or y is None:
        return None
    mask = nonzero_complex(condition)
    if isinstance(x, ComplexExpr) and isinstance(y, ComplexExpr):
        return ComplexExpr(select(mask, x.real, y.real), select(mask, x.imag, y.imag))
    return select(mask, leading(x), leading(y))


def fixed_power(base: AnyNode | None, equation: EquationLike) -> AnyNode | None:
    """Returns a power whose exponent is a real number of Python's."""
    exponent = equation.operands[1]
    if not isinstance(base, ComplexExpr) or is_variable(exponent):
        return None
    value = constant(exponent)
    return power(base, float(value)) if type(value) in (int, float) else None
