"""Attention as products of matrices and rows between them, which machine code computes together.

Kernels over NumPy take a block of the score matrix at a time. Where all of it stays in the cache,
machine code is quicker with the whole, and joins what stands before and behind.
"""

from __future__ import annotations

from functools import lru_cache
from math import inf, prod
from typing import Any

import numpy as np

from ..programs.program import Equation, Operand, Variable, type_of
from .rewriter import Rewritten, Sweep, behind

__all__ = ["attention_by_products", "part_of_attention_grad"]

# All score matrices together have at most so many bytes.
MOST_BYTES_OF_SCORES = 1 << 23


@lru_cache(maxsize=32)
def causal_mask(queries: int, keys: int) -> Any:
    """Returns which keys a query sees; read-only, and the same array for the same lengths."""
    mask = np.tri(queries, keys, dtype=np.bool_)
    mask.flags.writeable = False
    return mask


def fits(q: Operand, k: Operand, v: Operand) -> bool:
    """Says whether attention of such operands is computed with whole score matrices."""
    queries, keys = type_of(q), type_of(k)
    size = prod(queries.shape[:-1]) * keys.shape[-2] * queries.dtype.itemsize
    kinds = {queries.dtype.char, keys.dtype.char, type_of(v).dtype.char}
    is_whole = bool(prod(type_of(v).shape)) and 0 < size <= MOST_BYTES_OF_SCORES
    return kinds in ({"f"}, {"d"}) and is_whole


class _Rows:
    """The equations of the powers of scores and of every row's factor, as kernels compute them."""

    def __init__(self, sweep: Sweep, equation: Equation) -> None:
        self._sweep = sweep
        self._equation = equation

    def of(self, name: str, *operands: Operand, **params: Any) -> Variable:
        """Returns the result of a primitive."""
        return self._sweep.add(name, list(operands), params, self._equation)

    def along(self, name: str, x: Operand) -> Variable:
        """Returns a reduction over the last axis, which stays with length 1."""
        more = {"dtype": None} if name == "sum" else {}
        return self.of(name, x, axis=(type_of(x).ndim - 1,), keepdims=True, **more)

    def turned(self, x: Operand) -> Variable:
        """Returns the transposes of matrices."""
        axes = [*range(type_of(x).ndim)]
        return self.of("transpose", x, axes=(*axes[:-2], axes[-1], axes[-2]))

    def powers(
        self, q: Operand, k: Operand, mask: Operand | None, causal: bool, scale: float
    ) -> tuple[Variable, Variable]:
        """Returns powers and factors, whose product is the weights.

        A row that is minus infinity throughout becomes zeros.
        """
        scores = self.of("matmul", self.of("multiply", q, scale), self.turned(k))
        if mask is not None:
            seen = type_of(mask).dtype.kind == "b"
            scores = (
                self.of("where", mask, scores, -inf) if seen else self.of("add", scores, mask)
            )
        if causal:
            visible = causal_mask(*type_of(scores).shape[-2:])
            scores = self.of("where", visible, scores, -inf)
        top = self.along("max", scores)
        top = self.of("where", self.of("equal", top, -inf), 0, top)
        powers = self.of("exp", self.of("subtract", scores, top))
        total = self.along("sum", powers)
        total = self.of("where", self.of("equal", total, 0), 1, total)
        return powers, self.of("divide", 1, total)


def attention_by_products(sweep: Sweep, equation: Equation) -> Rewritten:
    """Attention is a product, the powers of rows, another product, and a factor for every row."""
    q, k, v, *masks = equation.operands
    if not fits(q, k, v):
        return None
    rows, params = _Rows(sweep, equation), equation.params
    mask = masks[0] if masks else None
    powers, shares = rows.powers(q, k, mask, params["causal"], params["scale"])
    return rows.of("multiply", rows.of("matmul", powers, v), shares)


@behind("attention_grad")
def part_of_attention_grad(sweep: Sweep, equation: Equation) -> Rewritten:
    """The gradient by queries, keys or values is computed by itself; they share what they can."""
    made = sweep.maker(equation.operands[0], "attention_grad")
    if made is None or len(equation.operands) > 1:
        return None
    g, out, q, k, v, *masks = made.operands
    number = part_number(equation, (q, k, v))
    if number is None or not fits(q, k, v):
        return None
    rows, scale = _Rows(sweep, made), made.params["scale"]
    mask = masks[0] if masks else None
    powers, shares = rows.powers(q, k, mask, made.params["causal"], scale)
    if number == 2:
        return rows.of("matmul", rows.turned(powers), rows.of("multiply", g, shares))
    mean = rows.along("sum", rows.of("multiply", g, out))
    by_weight = rows.of("subtract", rows.of("matmul", g, rows.turned(v)), mean)
    by_score = rows.of("multiply", powers, by_weight)
    factors = rows.of("multiply", shares, scale)
    if number == 0:
        return rows.of("multiply", rows.of("matmul", by_score, k), factors)
    return rows.of("matmul", rows.turned(by_score), rows.of("multiply", q, factors))


def part_number(equation: Equation, operands: tuple[Operand, ...]) -> int | None:
    """Returns which of the stacked gradients an equation takes, without what fills it up."""
    number, *rest = equation.params["key"].native
    if type(number) is not int or not 0 <= number < len(operands):
        return None
    rest = [key for key in rest if key is not Ellipsis]
    if any(type(key) is not slice or key.start or key.step not in (None, 1) for key in rest):
        return None
    same = equation.outputs[0].type.shape == type_of(operands[number]).shape
    return number if same else None
