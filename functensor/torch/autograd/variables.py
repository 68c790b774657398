"""PyTorch's older name for tensors: ``torch.autograd.Variable``."""

from __future__ import annotations

from typing import Any

from ...tensors import Tensor

__all__ = ["Variable"]


class AnyTensor(type):
    """The class of `Variable`, of which all tensors are instances."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Tensor)


class Variable(metaclass=AnyTensor):
    """Returns a tensor that shares a tensor's memory, as programs from before PyTorch 0.4 do.

    Args:
        data: the tensor; an empty one by default.
        requires_grad: whether the other one does.
        volatile: has no effect.

    Raises:
        TypeError: ``data`` is no tensor.

    >>> import functensor.torch as torch
    >>> x = torch.autograd.Variable(torch.ones(2), requires_grad=True)
    >>> (x * 3).sum().backward()
    >>> x.grad.tolist(), isinstance(x, torch.autograd.Variable)
    ([3.0, 3.0], True)
    """

    def __new__(  # type: ignore[misc]
        cls, data: Any = None, requires_grad: bool | None = False, volatile: bool | None = None
    ) -> Tensor:
        given = Tensor([]) if data is None else data
        if not isinstance(given, Tensor):
            raise TypeError(f"Variable: data is a tensor, not of type {type(data).__name__}")
        out: Tensor = given.detach()
        return out.requires_grad_() if requires_grad else out
