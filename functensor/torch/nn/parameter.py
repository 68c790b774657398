"""The tensors that modules count among their own."""

from __future__ import annotations

from typing import Any, Self

from ...tensors import Tensor
from ...tensors.rebinding import lie_with

__all__ = ["Buffer", "Parameter"]


class Parameter(Tensor):
    """A tensor that a module counts among its parameters when it is assigned to an attribute.

    Args:
        data: a tensor, whose memory it shares, or numbers.
        requires_grad: whether it is trained.

    >>> import functensor.torch as torch
    >>> torch.nn.Parameter(torch.zeros(2)).requires_grad
    True
    """

    __slots__ = ()

    copies_gradient = False

    def __init__(self, data: Any, requires_grad: bool = True) -> None:
        given = data.detach() if isinstance(data, Tensor) else data
        super().__init__(given)
        if isinstance(data, Tensor):
            lie_with(self, data)
        if requires_grad:
            self.requires_grad_()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        if type(self) is not Parameter:
            return super().__deepcopy__(memo)  # type: ignore[return-value]
        # Attributes of its own are not copied, as in PyTorch.
        out: Any = self._copy()
        memo[id(self)] = out
        return out  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        return f"Parameter containing:\n{super().__repr__()}"


class Buffer(Tensor):
    """A tensor that a module keeps as a buffer when it is assigned to an attribute."""

    __slots__ = ()

    def __init__(self, data: Any) -> None:
        super().__init__(data.detach() if isinstance(data, Tensor) else data)
        if isinstance(data, Tensor):
            lie_with(self, data)
            self.requires_grad_(data.requires_grad)
