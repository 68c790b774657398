"""The way back through a module, on which its hooks see gradients, and hooks of all modules."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from ...backends.errors.public_functions import check_function
from ..autograd import Function
from ..utils.hooks import RemovableHandle, put_hook

__all__ = [
    "BACKWARD_OF_ALL", "BEFORE_ALL", "BEHIND_ALL", "WITH_KEYWORDS", "HookedPass", "Passing",
    "register_module_forward_hook", "register_module_forward_pre_hook",
    "register_module_full_backward_hook",
]  # fmt: skip

# The hooks of all modules: before their calls, behind these, which of those take keywords too,
# and of their gradients.
BEFORE_ALL: dict[int, Any] = OrderedDict()
BEHIND_ALL: dict[int, Any] = OrderedDict()
WITH_KEYWORDS: dict[int, bool] = {}
BACKWARD_OF_ALL: dict[int, Any] = OrderedDict()


def register_module_forward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Calls a function with every module and its arguments before each of its calls.

    It may return other arguments. It comes before the module's own hooks.
    """
    check_function("register_module_forward_pre_hook", hook, "hook")
    return put_hook(BEFORE_ALL, hook)


def register_module_forward_hook(
    hook: Callable[..., Any], *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """Calls a function with every module, its arguments and its result after each of its calls.

    It may return another result. With ``with_kwargs`` it gets keywords behind the arguments.
    ``always_call`` has no effect. It comes before the module's own hooks.
    """
    check_function("register_module_forward_hook", hook, "hook")
    return put_hook(BEHIND_ALL, hook, with_kwargs=WITH_KEYWORDS if with_kwargs else None)


def register_module_full_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Calls a function with every module, the gradients by its arguments and by its results.

    It may return other gradients by the arguments. It comes before the module's own hooks.
    """
    check_function("register_module_full_backward_hook", hook, "hook")
    return put_hook(BACKWARD_OF_ALL, hook)


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
        for hook in [*BACKWARD_OF_ALL.values(), *self.module._backward_hooks.values()]:
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
