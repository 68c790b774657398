"""Joins small products with what is done to their elements, and with small work beside them.

Each launch costs some microseconds, which is more than small products take. One launch has as many
of them as need nothing of each other, with sums and maps of arrays that are ready by then.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...cpu.plan.codegen.operands import is_variable
from ...cpu.plan.native.not_native import NotNative
from .leaf_groups import CallGroup, FusedCall, ManyLeaves, with_groups
from .region_run import is_on_host, region_source
from .region_split import RegionSplit, split_region
from .small_products import PRODUCT_THREADS, ProductShape, is_small, merges

if TYPE_CHECKING:
    from ...cpu.plan.annotations import EquationLike, ProgramLike, VariableLike

__all__ = ["JointParts", "ProductWithRegion", "with_joint_launches"]

# The points of a region, at most, that is done beside products.
MOST_POINTS = 1 << 18


class ProductWithRegion(FusedCall):
    """A product of two matrices, with the region that takes each of its elements.

    Its operands are those of the region, the first factor in the place of the product, and behind
    them the second factor; without a region the two factors.

    Attributes:
        shape: the product.
        region: the region; None without one.
        number: the number of the region's input that the product is.
        program: what it computes.

    Args:
        equation: the product.
        factors: its factors.
        shape, region, number: the attributes.
        make: makes a program.
    """

    def __init__(
        self,
        equation: Any,
        factors: Sequence[MatrixFactor],
        shape: ProductShape,
        region: Any,
        number: int,
        make: Any,
    ) -> None:
        self.shape = shape
        self.region = region
        self.number = number
        first, second = ends = [alike_variable(factor.matrix) for factor in factors]
        equations: list[EquationLike] = []
        given = []
        for end, factor, operand in zip(ends, factors, equation.operands, strict=True):
            given.append(end)
            if factor.turned:
                given[-1] = alike_variable(operand)
                turn = factor.turn
                equations.append(turn.by(turn.primitive, [end], turn.params, given[-1:]))
        if region is None:
            outputs = [alike_variable(equation.outputs[0])]
            inputs, behind, made = [first, second], [], outputs
        else:
            body = region.program
            made, behind, outputs = [body.inputs[number]], body.equations, body.outputs
            inputs = [*body.inputs, second]
            inputs[number] = first
        equations.append(equation.by(equation.primitive, given, {}, made))
        self.program = make(self.name, inputs, [*equations, *behind], outputs)

    def prove(self) -> None:
        """Checks what the region claims."""
        if self.region is not None:
            self.region.prove()


class JointParts(CallGroup):
    """A call of small products, and of regions beside them."""


class MatrixFactor(NamedTuple):
    """A factor of a product.

    Attributes:
        matrix: the matrix, as it lies in memory.
        turn: the equation by which the factor is its transpose; None where it is not.
    """

    matrix: VariableLike
    turn: Any

    @property
    def turned(self) -> bool:
        """Says that the factor is the transpose of the matrix."""
        return self.turn is not None


def alike_variable(x: Any) -> Any:
    """Returns another variable of the same type, on the same device."""
    return type(x)(x.type, x.device)


class Joining:
    """Finds the small products of a program, and the regions that take their elements.

    Args:
        program: the program, its regions fused and leaves grouped.

    Attributes:
        equations: the equations, products and their regions in one.
    """

    def __init__(self, program: ProgramLike) -> None:
        self.make = type(program)
        self.makers = {x: e for e in program.equations for x in e.outputs}
        self.users: dict[VariableLike, list[EquationLike]] = {}
        for equation in program.equations:
            for x in dict.fromkeys(filter(is_variable, equation.operands)):
                self.users.setdefault(x, []).append(equation)
        self._shown = {x for x in program.outputs if is_variable(x)}
        # By the equation that they replace.
        self._new: dict[int, list[EquationLike]] = {}
        for equation in program.equations:
            self._enter(equation)
        made = [x for e in program.equations for x in self._new.get(id(e), [e])]
        self.equations = without_views(made, self._shown) if self._new else made

    def _enter(self, equation: Any) -> None:
        if equation.primitive.name != "matmul" or equation.params:
            return
        (out,) = equation.outputs
        factors = [self._factor(x) for x in equation.operands]
        if None in factors or out.type.ndim != 2 or out.type.dtype != np.float32:
            return
        first, second = (x for x in factors if x is not None)
        rows, columns = out.type.shape
        summed = equation.operands[0].type.shape[1]
        shape = ProductShape(rows, columns, summed, (first.turned, second.turned))
        if not is_small(shape):
            return
        split = self._region_of(out, shape)
        if split is None:
            given = [first.matrix, second.matrix]
            primitive = ProductWithRegion(equation, [first, second], shape, None, 0, self.make)
            self._new[id(equation)] = [equation.by(primitive, given, {}, [out])]
            return
        region, number = split.first.primitive, split.number
        given = [*split.first.operands, second.matrix]
        given[number] = first.matrix
        outputs = split.first.outputs
        primitive = ProductWithRegion(equation, [first, second], shape, region, number, self.make)
        self._new[id(equation)] = []
        self._new[id(split.whole)] = [
            equation.by(primitive, given, {}, outputs),
            *split.rest,
        ]

    def _factor(self, x: Any) -> MatrixFactor | None:
        """Returns a matrix that is a factor, as it lies in memory; None where it is none."""
        if not is_variable(x) or x.type.ndim != 2 or x.type.dtype != np.float32:
            return None
        if getattr(x, "device", "cpu") == "cpu":
            return None
        made = self.makers.get(x)
        if made is not None and made.primitive.name == "transpose":
            (source,) = made.operands
            if is_variable(source):
                return MatrixFactor(source, made)
        return MatrixFactor(x, None)

    def _region_of(self, out: VariableLike, shape: ProductShape) -> RegionSplit | None:
        """Returns the region that takes each element of a product, apart from what is behind it."""
        users = self.users.get(out, [])
        if len(users) != 1 or out in self._shown or id(users[0]) in self._new:
            return None
        (user,) = users
        if not user.primitive.fused or type(user.primitive) is ManyLeaves:
            return None
        split = split_region(user, out)
        if split is None:
            return None
        first = split.first
        try:
            source = region_source(
                "part", first.primitive, first.operands, list(map(is_on_host, first.operands))
            )
        except NotNative:
            return None
        return split if merges(source, split.number, shape) else None


def with_joint_launches(program: ProgramLike) -> ProgramLike:
    """Returns a program whose small products are joined with other work.

    Args:
        program: the program, its regions fused and leaves grouped.
    """
    found = Joining(program)
    products = [e for e in found.equations if type(e.primitive) is ProductWithRegion]
    if not products:
        return program
    regions = [e for e in found.equations if is_beside(e)]
    equations = with_groups(found.equations, [*products, *regions], group_of)
    return program.with_equations(equations)  # type: ignore[attr-defined, no-any-return]


def group_of(members: Sequence[EquationLike]) -> EquationLike | None:
    """Returns the equation that does what small products and regions do; None without products."""
    if not any(type(equation.primitive) is ProductWithRegion for equation in members):
        return None
    return JointParts.equation(members)


def is_beside(equation: EquationLike) -> bool:
    """Says whether a region is small, and one kernel of as many threads as products have."""
    if not equation.primitive.fused or type(equation.primitive) in (ManyLeaves, ProductWithRegion):
        return False
    shapes = [x.type.shape for x in (*equation.primitive.program.inputs, *equation.outputs)]
    if not 0 < max(map(prod, shapes)) <= MOST_POINTS or not min(map(prod, shapes)):
        return False
    given = equation.operands
    try:
        source = region_source("part", equation.primitive, given, list(map(is_on_host, given)))
    except NotNative:
        return False
    # Blocks have threads along one axis.
    return (
        len(source.kernels) == 1
        and not source.scratch
        and source.kernels[0].threads == PRODUCT_THREADS
        and prod(source.lengths) <= MOST_POINTS
    )


def without_views(
    equations: Sequence[EquationLike], shown: set[VariableLike]
) -> list[EquationLike]:
    """Returns equations without the transposes that nothing reads any more."""
    used = {x for e in equations for x in e.operands if is_variable(x)} | shown
    return [e for e in equations if e.primitive.name != "transpose" or e.outputs[0] in used]
