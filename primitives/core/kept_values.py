"""The values that a primitive saves of its operands and output, for every set of operands."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from .derivative_rules import DeclaredRules, keeper, letters_of_rules, no_derivative
from .errors import missing_rule

__all__ = ["Keepers"]


if TYPE_CHECKING:

    class Differentiable(Protocol):
        """A primitive with rules of reverse mode.

        Attributes:
            name: its name.
            constant: whether its derivative is zero.
            vjp: the rules as they are declared, by the letters of which it is known what they read.
        """

        name: str
        constant: bool
        vjp: DeclaredRules

        @property
        def vjps(self) -> Any:
            """The rules, ready to be called: one for each operand, or None."""


class Keepers(dict[int, Any]):
    """A table of functions that save what rules need, by the set of operands as bits.

    An entry is made when it is first looked up; it is None where there is no derivative.

    Args:
        primitive: whose rules they are.
        keep: what the primitive declares to be saved, whichever operands it is for; by default
            what the letters of the rules say.
    """

    def __init__(
        self, primitive: Differentiable, keep: Callable[[Any, Any], tuple[Any, ...]] | None = None
    ) -> None:
        super().__init__()
        self.primitive = primitive
        self.declared = keep

    def __missing__(self, mask: int) -> Callable[..., tuple[Any, ...]] | None:
        primitive = self.primitive
        if primitive.constant:
            keep = None
        elif self.declared is not None:
            keep = self.declared
        else:
            operands = [i for i in range(mask.bit_length()) if mask >> i & 1]
            for i in operands:
                if primitive.vjps is None or primitive.vjps[i] is None:
                    raise missing_rule(primitive.name, "vjp", i)
            if all(primitive.vjps[i] is no_derivative for i in operands):
                keep = None
            else:
                keep = keeper(letters_of_rules(primitive.vjp, operands))
        self[mask] = keep
        return keep
