"""The arrays of a plan whose rows begin at multiples of 16 bytes, for the units that multiply.

Large products of matrices whose rows do not are computed of padded copies. A slope that a loss
writes along with itself is padded where it is made, products leave their results as the units write
them, and a matrix that several products read is copied once.
"""

from __future__ import annotations

from collections.abc import Collection
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from ...cpu.plan.codegen.operands import is_variable
from ..cublas.padding import FEWEST_OPERATIONS
from ..row_layout import padded_length
from ..strides import strides_without_gaps
from .grads_ahead import GRAD_NAME, LOSS_NAME
from .leaf_groups import CallGroup

if TYPE_CHECKING:
    from ...annotations import Shape
    from ...cpu.plan.annotations import EquationLike, Operand, ProgramLike, VariableLike

__all__ = ["PaddedFactor", "PaddedRows"]

SIXTEEN_BITS = frozenset({"float16", "bfloat16"})
LAST_AXES_SWAPPED = 1, 0


class PaddedFactor(NamedTuple):
    """A factor of a large product.

    Attributes:
        matrix: the variable that is copied for it.
        turned: whether the factor is its transpose.
    """

    matrix: VariableLike
    turned: bool


class PaddedRows:
    """Finds the arrays whose rows are padded.

    Attributes:
        zeros: variables with zeros between their rows, and views of them.
        spread: products whose rows may lie further apart than they are long.
        copied: for factors of products what is copied for them, once.

    Args:
        program: the program, its regions fused.
        slopes: the variables that losses write along with themselves.
        precision: the precision of products, as ``config.matmul_precision`` has it.
    """

    def __init__(
        self, program: ProgramLike, slopes: Collection[VariableLike], precision: str
    ) -> None:
        self._precision = precision
        self._shown = {x for x in program.outputs if is_variable(x)}
        self._makers = {x: e for e in program.equations for x in e.outputs}
        self._users: dict[VariableLike, list[EquationLike]] = {}
        for equation in program.equations:
            for x in dict.fromkeys(filter(is_variable, equation.operands)):
                self._users.setdefault(x, []).append(equation)
        products = [e for e in program.equations if self._is_large(e)]
        self.zeros: set[VariableLike] = set()
        for x in slopes:
            views = self._views(x)
            read = any(e in products for view in views for e in self._users.get(view, ()))
            if read and self._is_uneven(x) and not self._shown & views:
                self.zeros |= views
        made = {e.outputs[0] for e in products}
        self.spread = {x for x in made if self._is_uneven(x) and self._is_read_by_rows(x)}
        self._spread_views = {view for x in self.spread for view in self._views(x)}
        self.copied: dict[VariableLike, PaddedFactor] = {}
        factors = [(x, self._factor(x)) for e in products for x in e.operands]
        matrices = [factor.matrix for _, factor in factors if factor is not None]
        for x, factor in factors:
            if factor is not None and matrices.count(factor.matrix) > 1:
                self.copied[x] = factor

    def strides(self, x: Operand) -> Shape | None:
        """Returns the strides of a padded array, in elements; None where it is none."""
        if not is_variable(x) or x not in self.zeros | self._spread_views:
            return None
        made = self._makers.get(x)
        if made is not None and made.primitive.name == "transpose":
            return None
        *outer, length = x.type.shape
        return strides_without_gaps((*outer, padded_length(length, x.type.dtype.itemsize)))

    def enter_alike(self, x: VariableLike, other: Operand) -> None:
        """Notes that a variable is another one."""
        if is_variable(other) and other in self.zeros:
            self.zeros.add(x)
            self._makers[x] = self._makers[other]

    def _is_large(self, equation: Any) -> bool:
        """Says whether an equation is a product of matrices that is worth copies of them."""
        if equation.primitive.name != "matmul" or equation.params:
            return False
        if not all(map(is_variable, equation.operands)):
            return False
        x, y = (operand.type for operand in equation.operands)
        dtype = x.dtype
        by_units = dtype.name == "float32" and self._precision != "highest"
        return (
            dtype == y.dtype
            and (by_units or dtype.name in SIXTEEN_BITS)
            and x.ndim > 1
            and y.ndim == 2
            and prod(x.shape) * y.shape[1] >= FEWEST_OPERATIONS
        )

    def _is_uneven(self, x: VariableLike) -> bool:
        """Says whether rows of an array without gaps begin elsewhere than at 16 bytes."""
        length = x.type.shape[-1]
        return length > 1 and padded_length(length, x.type.dtype.itemsize) > length

    def _views(self, x: VariableLike) -> set[VariableLike]:
        """Returns a variable, and the views of it with the same rows."""
        found, left = {x}, [x]
        while left:
            seen = left.pop()
            for equation in self._users.get(seen, ()):
                name = equation.primitive.name
                alike = equation.outputs[0].type.shape[-1:] == seen.type.shape[-1:]
                if name == "transpose" or (name == "reshape" and alike):
                    # What follows a transpose may be copied.
                    found.add(equation.outputs[0])
                    if name == "reshape":
                        left.append(equation.outputs[0])
        return found

    def _is_read_by_rows(self, x: VariableLike) -> bool:
        """Says whether losses and regions alone read a variable."""
        if x in self._shown:
            return False
        for equation in self._users.get(x, []):
            primitive, out = equation.primitive, equation.outputs[0]
            if primitive.name == "reshape":
                alike = out.type.shape[-1:] == x.type.shape[-1:] and self._is_read_by_rows(out)
            else:
                alike = primitive.fused and not isinstance(primitive, CallGroup)
            if not alike and primitive.name not in (LOSS_NAME, GRAD_NAME):
                return False
        return True

    def _factor(self, x: VariableLike) -> PaddedFactor | None:
        """Returns what is copied for a factor; None where it is padded, or lies as it should."""
        if x in self.zeros:
            return None
        made = self._makers.get(x)
        turned = made is not None and made.primitive.name == "transpose"
        if made is not None and turned:
            (x,) = made.operands
            turned = tuple(made.params["axes"]) == LAST_AXES_SWAPPED
        fits = is_variable(x) and len(x.type.shape) == len(LAST_AXES_SWAPPED) and self._is_uneven(x)
        return PaddedFactor(x, turned) if fits and x not in self.zeros | self.spread else None
