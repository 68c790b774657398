"""Methods of tensors that give the same tensor another shape."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from ..primitives.core.errors import BackwardError, failure
from ..primitives.core.registry import registry as ops
from .grad_mode import mode
from .in_place import InPlace
from .tape import LeafNode
from .torch_functions import TorchFunctions

__all__ = ["ShapesInPlace"]


class ShapesInPlace(InPlace):
    """The methods of `Tensor` that arrange its axes in place."""

    __slots__ = ()

    def _rearrange(self, compute: Callable[[], Any], what: str, instead: str) -> Self:
        """Gives the tensor the elements of what ``compute`` returns, in its shape.

        Raises:
            BackwardError: the tensor is a leaf that requires grad, shares memory with views, or is
                an argument within a transformation.
        """
        leaf = isinstance(self.node, LeafNode) and mode.enabled
        shared = getattr(self, "_source", None) is not None or hasattr(self, "_views")
        if leaf or shared or getattr(self, "given", False):
            why = "is a leaf that requires grad" if leaf else "shares memory with other tensors"
            raise failure(
                BackwardError, f"{what}: {self.name()} {why}, and keeps its shape", fix=instead
            )
        result = compute()
        self._data = result._data
        if mode.enabled:
            self.node = result.node
        self._changes = getattr(self, "_changes", 0) + 1
        return self

    def unsqueeze_(self, dim: int) -> Self:
        """Gives the tensor a new axis of length 1."""
        return self._rearrange(
            lambda: ops.expand_dims(self, dim), "x.unsqueeze_()", "x = x.unsqueeze(dim)"
        )

    def squeeze_(self, dim: Any = None) -> Self:
        """Takes axes of length 1 from the tensor; a longer ``dim`` stays."""
        squeeze = TorchFunctions.squeeze
        return self._rearrange(
            lambda: squeeze(self, dim), "x.squeeze_()", "x = x.squeeze(dim)"
        )

    def transpose_(self, dim0: int, dim1: int) -> Self:
        """Swaps two axes of the tensor."""
        return self._rearrange(
            lambda: ops.swapaxes(self, dim0, dim1), "x.transpose_()", "x = x.transpose(dim0, dim1)"
        )

    swapaxes_ = swapdims_ = transpose_

    def t_(self) -> Self:
        """Transposes a matrix; a vector stays as it is."""
        transpose = TorchFunctions.t
        return self._rearrange(lambda: transpose(self), "x.t_()", "x = x.t()")
