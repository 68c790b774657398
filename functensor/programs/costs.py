"""Costs of programs: operations of arithmetic, bytes moved, and memory at the worst moment."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Any, NamedTuple

from ..primitives.core.buffers import WEAK_TYPES
from ..primitives.core.shape_dtype import ShapeDtype
from .program import Equation, Program, type_of

__all__ = ["VIEWING", "Cost", "EquationCost", "array_bytes", "cost_of", "operation_flops"]

# Primitives that give a view, or their operand.
VIEWING = frozenset({
    "broadcast_to", "checkpoint_name", "optimization_barrier", "reshape", "stop_gradient",
    "transpose",
})  # fmt: skip
# Primitives that move or view elements and compute nothing.
MOVING_PRIMITIVES = VIEWING | {
    "astype", "concatenate", "flip", "index", "pad", "roll", "shift", "stack", "to_device", "tril",
    "triu", "where",
}  # fmt: skip


class EquationCost(NamedTuple):
    """The cost of one equation.

    Attributes:
        name: the operation.
        line: the user's ``file:line``.
        scope: the ``named_scope``, empty outside.
        flops: operations of arithmetic; a multiplication and an addition count as two, and so does
            a function like ``sin`` as one.
        bytes: of what it reads and writes.
        live: bytes of all that is alive while it runs, its outputs included.
    """

    name: str
    line: str
    scope: str
    flops: int
    bytes: int
    live: int


class Cost:
    """The cost of a program.

    Attributes:
        equations: what each of its equations does.
    """

    def __init__(self, name: str, equations: list[EquationCost], inputs: int) -> None:
        self.name = name
        self.equations = equations
        self._inputs = inputs

    @property
    def flops(self) -> int:
        """Operations of arithmetic."""
        return sum(e.flops for e in self.equations)

    @property
    def bytes(self) -> int:
        """Bytes that are read and written."""
        return sum(e.bytes for e in self.equations)

    @property
    def peak(self) -> int:
        """Bytes that are alive at the worst moment, arguments included."""
        return max([self._inputs, *(e.live for e in self.equations)])

    def __str__(self) -> str:
        sums = f"{self.flops:,} flops, {self.bytes:,} bytes, {self.peak:,} bytes at most"
        rows = [f"{self.name}: {sums}", f"{'flops':>16} {'bytes':>16} {'alive':>16}  operation"]
        rows += [
            f"{e.flops:>16,} {e.bytes:>16,} {e.live:>16,}  {e.name}"
            + (f"  {e.line}" if e.line else "")
            + (f"  scope {e.scope}" if e.scope else "")
            for e in self.equations
        ]
        return "\n".join(rows)

    __repr__ = __str__


def cost_of(program: Program) -> Cost:
    """Returns what a program costs, equation by equation.

    A loop costs what its body does, as often as it has steps: that of ``while_loop`` as many as
    ``max_steps`` allows, or a single one where there is no limit. A branch is taken for the most
    expensive one, of operations, of bytes and of memory each.
    """
    live = sum(array_bytes(x.type) for x in program.inputs)
    given = live
    costs = []
    mine: set[Any] = set()
    for equation, last in zip(program.equations, program.last_uses(), strict=True):
        call = equation.primitive
        made = moved = 0
        if call.name not in VIEWING:
            made = sum(array_bytes(x.type) for x in equation.outputs)
            # Constants are read too, but for numbers, which are in the code.
            arrays = {id(x): x for x in equation.operands if type(x) not in WEAK_TYPES}
            moved = made + sum(array_bytes(type_of(x)) for x in arrays.values())
        live += made
        if made:
            mine.update(equation.outputs)
        inner = [cost_of(body) for body in call.bodies]
        flops, peak = 0 if inner else flops_of(equation), 0
        if call.fused:
            flops = sum(c.flops for c in inner)
        elif inner:
            # A loop's length, or its limit.
            trips = 1 if call.trips is None else call.trips
            taken: Callable[[list[int]], int] = max if call.chooses else sum
            flops = trips * taken([c.flops for c in inner])
            moved = trips * taken([c.bytes for c in inner])
            peak = max(c.peak for c in inner) if trips else 0
        line, scope = equation.line, equation.scope
        costs.append(EquationCost(call.name, line, scope, flops, moved, live + peak))
        live -= sum(array_bytes(x.type) for x in last if x in mine)
    return Cost(program.name, costs, given)


def array_bytes(known: ShapeDtype) -> int:
    """Returns the bytes of an array."""
    return known.size * known.dtype.itemsize


def flops_of(equation: Equation) -> int:
    """Returns the operations of arithmetic of one equation."""
    operands = [type_of(x) for x in equation.operands]
    out = equation.outputs[0].type
    return operation_flops(equation.primitive.name, out, operands, equation.params)


def operation_flops(
    name: str, out: ShapeDtype, operands: list[ShapeDtype], params: Mapping[str, Any]
) -> int:
    """Returns the operations of arithmetic of one operation, by the types of what it has."""
    if name in MOVING_PRIMITIVES:
        return 0
    if name in CONTRACTIONS:
        return 2 * CONTRACTIONS[name](out, operands, params)
    return max([out.size, *(x.size for x in operands)])


def _einsum_products(out: ShapeDtype, operands: list[ShapeDtype], params: Mapping[str, Any]) -> int:
    terms = params["subscripts"].split("->")[0].split(",")
    lengths: dict[str, int] = {}
    for term, x in zip(terms, operands, strict=True):
        lengths.update(zip(term, x.shape, strict=True))
    return prod(lengths.values())


def _attention(out: ShapeDtype, operands: list[ShapeDtype], params: Mapping[str, Any]) -> int:
    queries, keys = operands[0].shape[-2:], operands[1].shape[-2]
    lead = prod(operands[0].shape[:-2])
    return lead * queries[0] * keys * (queries[1] + operands[2].shape[-1])


# The number of products that are added up.
CONTRACTIONS: dict[str, Callable[[ShapeDtype, list[ShapeDtype], Mapping[str, Any]], int]] = {
    "matmul": lambda out, xs, params: out.size * xs[0].shape[-1],
    "einsum": _einsum_products,
    "conv": lambda out, xs, params: out.size * prod(xs[1].shape[1:]),
    "conv_input_grad": lambda out, xs, params: xs[0].size * prod(xs[1].shape[1:]),
    "conv_kernel_grad": lambda out, xs, params: xs[1].size * prod(out.shape[1:]),
    "convolve_full": lambda out, xs, params: xs[0].size * xs[1].shape[-1],
    "correlate_valid": lambda out, xs, params: out.size * xs[1].shape[-1],
    "attention": _attention,
    # The scores again, and the products for queries, keys, values and their weights.
    "attention_grad": lambda out, xs, params: 5 * _attention(out, xs[2:], params) // 2,
}
