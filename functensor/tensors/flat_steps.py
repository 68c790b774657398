"""Steps of the graph of tensors that are flat between jumps, through which zeros flow back."""

from __future__ import annotations

from typing import Any

from ..primitives.core.primitive_like import PrimitiveLike
from ..traces.forward import zeros_like

__all__ = ["FLAT_STEPS", "FlatStep"]


class FlatStep(PrimitiveLike):
    """Stands as the primitive of a node through which zeros flow back, as in PyTorch.

    For functions of arrays such a result is a constant, which may decide on a branch.
    """

    vjps = None
    broadcasts = True

    def __init__(self, name: str) -> None:
        self.name = name

    def pullback(self, g: Any, saved: Any, params: dict[str, Any]) -> tuple[Any, Any]:
        """Returns zeros for one operand, or for two."""
        zeros = zeros_like(g)
        return zeros, zeros


FLAT_STEPS = {
    name: FlatStep(name)
    for name in ("ceil", "floor", "floor_divide", "rint", "round", "sign", "trunc")
}
