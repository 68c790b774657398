"""The way back through a module, on which its hooks see gradients."""

from __future__ import annotations

from typing import Any

from ..autograd import Function

__all__ = ["HookedPass", "Passing"]

class HookedPass:
    """The way back through one call of a module.

    Attributes:
        module: the module.
        inputs: how many tensors it was given; none of them requires grad if it is ``ended``.
        by_outputs: the gradients by its results.
    """

    def __init__(self, module: Any, inputs: int, ended: bool) -> None:
        self.module = module
        self.inputs = inputs
        self.ended = ended
        self.by_outputs: tuple[Any, ...] = ()

    def leave(self, grads: tuple[Any, ...]) -> tuple[Any, ...]:
        """Returns the gradients by the results, after hooks that come before the way back."""
        for hook in list(self.module._backward_pre_hooks.values()):
            grads = replaced_gradients(hook(self.module, grads), grads)
        self.by_outputs = grads
        if self.ended:
            self.enter((None,) * self.inputs)
        return grads

    def enter(self, grads: tuple[Any, ...]) -> tuple[Any, ...]:
        """Returns the gradients by the arguments, after the module's hooks."""
        for hook in list(self.module._backward_hooks.values()):
            grads = replaced_gradients(hook(self.module, grads, self.by_outputs), grads)
        return grads


def replaced_gradients(changed: Any, grads: tuple[Any, ...]) -> tuple[Any, ...]:
    """Returns what a hook gave in place of gradients, or these if it gave nothing."""
    if changed is None:
        return grads
    return changed if isinstance(changed, tuple) else (changed,)


class Passing(Function):
    """Returns tensors as they are; the way back calls a function with their gradients."""

    @staticmethod
    def forward(ctx: Any, seen: Any, *tensors: Any) -> Any:
        """Returns the tensors."""
        ctx.seen = seen
        return tuple([x.view(x.shape) for x in tensors])

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """Returns the gradients, or those that take their place."""
        return (None, *ctx.seen(grads))
