"""Splits sums of products of several operands into matrix products, in a cheap order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..backends.arrays.column_times_row import is_widened
from ..backends.arrays.einsum import Contract, Multiply, Tidy, plan
from ..programs.program import Equation, Operand, Program, Variable, type_of, used
from .rewriter import RewriteRule, Rewritten, Sweep, swept

__all__ = ["contraction_paths"]

# Products are put into another order where that takes at most this part of the multiplications,
# and saves at least so many.
GAIN, WORTH = 4, 1 << 16
# Longer chains stay: what finds the order takes the cube of their length.
LONGEST_CHAIN_FACTORS = 12


def contraction_paths(program: Program) -> Program:
    """Returns a program whose products are of two matrices each, in a cheap order.

    An ``einsum`` on the CPU becomes sums, transposes, reshapes and ``matmul`` in the order that
    opt_einsum finds, which is what its kernel does, but seen by all other passes. A chain of
    matrix products is put into the order that takes the fewest multiplications, where that is a
    quarter of what it takes as written, or less: ``X.T @ X @ v`` becomes ``X.T @ (X @ v)``. That
    rounds differently, and so do sums that overflow. Of columns and rows the product is an
    elementwise one where BLAS would not be quicker.

    Args:
        program: any program; the one itself is returned where nothing is to be done.

    >>> import functensor as ft, functensor.numpy as np
    >>> x, v = np.ones((4, 3)), np.ones(3)
    >>> print(contraction_paths(ft.make_program(lambda x, v: np.einsum("ij,j->i", x, v))(x, v)))
    <lambda>(a: float64[4,3], b: float64[3]):
        c: float64[3,4] = transpose(a, axes=(1, 0))
        d: float64[4] = matmul(b, c)
        return d
    """
    products = [e for e in program.equations if e.primitive.name == "matmul"]
    factors = {x for equation in products for x in used(equation.operands)}
    names = {primitive.name for primitive in program.primitives()}
    if (
        "einsum" not in names
        and factors.isdisjoint([e.outputs[0] for e in products])
        and not any(map(_is_elementwise, products))
    ):
        return program

    def chain(sweep: Sweep, equation: Equation) -> Rewritten:
        out = equation.outputs[0]
        return None if out in factors and sweep.once(out) else _reordered(sweep, equation)

    rules: dict[str, tuple[RewriteRule, ...]] = {
        "einsum": (_einsum_by_products,),
        "matmul": (chain, _columns_by_rows),
    }
    return swept(program, rules)


# -- columns times rows


def _is_elementwise(equation: Equation) -> bool:
    """Says whether a product is one of columns and rows that is not for BLAS."""
    x, out = type_of(equation.operands[0]), equation.outputs[0]
    if x.shape[-1] != 1 or len(x.shape) < 2 or out.device != "cpu":
        return False
    y, dtype = type_of(equation.operands[1]), out.type.dtype
    if len(y.shape) < 2:
        return False
    alike = dtype.char in "fd" and x.dtype == y.dtype == dtype
    return alike and not is_widened(x.shape, y.shape, dtype)


def _columns_by_rows(sweep: Sweep, equation: Equation) -> Rewritten:
    if not _is_elementwise(equation):
        return None
    return _sums_of_one(sweep, equation.operands, equation)


def _sums_of_one(sweep: Sweep, factors: Sequence[Any], of: Equation) -> Operand | None:
    """Returns sums of one product each."""
    product = sweep.add("multiply", factors, {}, of)
    if of.outputs[0].type.dtype.kind not in "fc":
        return product
    # A sum begins with zero, to which -0.0 adds nothing.
    return sweep.add("add", [product, 0.0], {}, of)


# -- einsum


def _einsum_by_products(sweep: Sweep, equation: Equation) -> Any:
    types = [type_of(x) for x in equation.operands]
    out = equation.outputs[0]
    if out.device != "cpu" or any(x.weak or x.dtype != out.type.dtype for x in types):
        return None
    steps = plan(equation.params["subscripts"], tuple([x.shape for x in types]))
    if any(tidy.diagonals for step in steps for tidy in step.tidies):
        return None
    values = list(equation.operands)
    for step in steps:
        picked = [
            _summed(sweep, values.pop(i), tidy, equation)
            for i, tidy in zip(step.positions, step.tidies, strict=True)
        ]
        if type(step.join) is Contract:
            values.append(_contract_pair(sweep, picked, step.join, equation))
        elif type(step.join) is Multiply:
            values.append(_multiplied(sweep, picked, step.join, equation))
        else:
            values.append(_with_axes_in_order(sweep, picked[0], step.axes, equation))
    return values[0]


def _summed(sweep: Sweep, x: Operand, tidy: Tidy, of: Equation) -> Operand:
    if not tidy.summed:
        return x
    dtype = type_of(x).dtype
    # Small integers would add up to larger ones.
    params = {"axis": tidy.summed, "keepdims": False, "dtype": None if dtype.kind == "f" else dtype}
    return sweep.add("sum", [x], params, of)


def _with_axes_in_order(sweep: Sweep, x: Operand, axes: tuple[int, ...], of: Equation) -> Operand:
    if axes == tuple(range(len(axes))):
        return x
    return sweep.add("transpose", [x], {"axes": axes}, of)


def _to_shape(sweep: Sweep, x: Operand, shape: tuple[int, ...], of: Equation) -> Operand:
    return x if type_of(x).shape == shape else sweep.add("reshape", [x], {"shape": shape}, of)


def _contract_pair(sweep: Sweep, picked: list[Any], way: Contract, of: Equation) -> Operand:
    x, y = picked
    x_shape, y_shape = way.x_shape, way.y_shape
    if len(x_shape) == 2:
        # Vectors are quicker than matrices of one row or column.
        x_shape = x_shape[1:] if x_shape[0] == 1 else x_shape
        y_shape = y_shape[:1] if y_shape[1] == 1 else y_shape
    x = _to_shape(sweep, _with_axes_in_order(sweep, x, way.x_axes, of), x_shape, of)
    y = _to_shape(sweep, _with_axes_in_order(sweep, y, way.y_axes, of), y_shape, of)
    product = sweep.add("matmul", [x, y], {}, of)
    return _with_axes_in_order(sweep, _to_shape(sweep, product, way.shape, of), way.axes, of)


def _multiplied(sweep: Sweep, picked: list[Any], way: Multiply, of: Equation) -> Any:
    shapes = way.for_blas(of.outputs[0].type.dtype)
    placed = []
    ways = ((way.x_axes, way.x_at), (way.y_axes, way.y_at))
    for side, (v, (axes, at)) in enumerate(zip(picked, ways, strict=True)):
        lengths = iter([type_of(v).shape[i] for i in axes])
        shape = tuple([1 if item is None else next(lengths) for item in at])
        moved = _with_axes_in_order(sweep, v, axes, of)
        placed.append(_to_shape(sweep, moved, shape if shapes is None else shapes[side], of))
    if shapes is not None:
        return _to_shape(sweep, sweep.add("matmul", placed, {}, of), way.shape, of)
    return _sums_of_one(sweep, placed, of)


# -- chains of matrix products


def _reordered(sweep: Sweep, equation: Equation) -> Any:
    """Returns the last product of a chain in the cheapest order, if it is worth it."""
    out = equation.outputs[0].type
    if out.dtype.kind not in "fc" or out.dtype.itemsize < 4:
        return None
    if not any(sweep.maker(x, "matmul") for x in equation.operands):
        return None
    factors: list[Any] = []
    cost = _flattened_chain(sweep, equation, factors)
    if cost is None or not 2 < len(factors) <= LONGEST_CHAIN_FACTORS:
        return None
    sizes = [type_of(x).shape[0] for x in factors]
    shape = type_of(factors[-1]).shape
    best, splits = _cheapest([*sizes, shape[1] if len(shape) > 1 else 1])
    if best * GAIN > cost or cost - best < WORTH:
        return None
    return _product_in_order(sweep, factors, splits, 0, len(factors) - 1, equation)


def _flattened_chain(sweep: Sweep, equation: Equation, factors: list[Any]) -> int | None:
    """Collects the factors of a chain from the left; returns how many multiplications it takes."""
    waiting: list[Any] = [equation]
    cost = 0
    while waiting:
        x = waiting.pop()
        if type(x) is not Equation:
            inner = sweep.maker(x, "matmul") if type(x) is Variable and sweep.once(x) else None
            if inner is None:
                factors.append(x)
                continue
            x = inner
        a, b = map(type_of, x.operands)
        if a.ndim != 2 or b.ndim > 2 or a.weak or a.dtype != b.dtype:
            if x is equation:
                return None
            factors.append(x.outputs[0])
            continue
        if len(waiting) + len(factors) > LONGEST_CHAIN_FACTORS:
            return None
        cost += a.size * (b.shape[1] if b.ndim == 2 else 1)
        waiting += x.operands[::-1]
    return cost


def _cheapest(sizes: Sequence[int]) -> tuple[int, dict[tuple[int, int], int]]:
    """Returns the least number of multiplications, and where each stretch of factors is split.

    The i-th factor has shape ``(sizes[i], sizes[i + 1])``.
    """
    count = len(sizes) - 1
    least = {(i, i): 0 for i in range(count)}
    splits: dict[tuple[int, int], int] = {}
    for length in range(1, count):
        for i in range(count - length):
            j = i + length
            least[i, j], splits[i, j] = min(
                (least[i, k] + least[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1], k)
                for k in range(i, j)
            )
    return least[0, count - 1], splits


def _product_in_order(
    sweep: Sweep,
    factors: list[Any],
    splits: dict[tuple[int, int], int],
    i: int,
    j: int,
    of: Equation,
) -> Any:
    if i == j:
        return factors[i]
    split = splits[i, j]
    left = _product_in_order(sweep, factors, splits, i, split, of)
    return sweep.add(
        "matmul", [left, _product_in_order(sweep, factors, splits, split + 1, j, of)], {}, of
    )
