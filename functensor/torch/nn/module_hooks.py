"""The way back through a module, on which its hooks see gradients, and hooks of all modules."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from ...backends.errors.public_functions import check_function
from ...tensors import TracedTensor
from ..autograd import Function
from ..graph_breaks import GraphBreak, compiling
from ..utils.hooks import RemovableHandle, put_hook

__all__ = [
    "BACKWARD_OF_ALL",
    "BEFORE_ALL",
    "BEFORE_BACKWARD_OF_ALL",
    "BEHIND_ALL",
    "WITH_KEYWORDS",
    "HookedPass",
    "Passing",
    "register_module_buffer_registration_hook",
    "register_module_forward_hook",
    "register_module_forward_pre_hook",
    "register_module_full_backward_hook",
    "register_module_full_backward_pre_hook",
    "register_module_module_registration_hook",
    "register_module_parameter_registration_hook",
    "told_of_entry",
    "wrong_entry",
]  # fmt: skip

# The hooks of all modules: before their calls, behind these, which of those take keywords too,
# and of their gradients, before and after.
BEFORE_ALL: dict[int, Any] = OrderedDict()
BEHIND_ALL: dict[int, Any] = OrderedDict()
WITH_KEYWORDS: dict[int, bool] = {}
BACKWARD_OF_ALL: dict[int, Any] = OrderedDict()
BEFORE_BACKWARD_OF_ALL: dict[int, Any] = OrderedDict()
# The hooks of what modules enter, by the tables that they are entered in.
ENTRY_HOOKS: dict[str, dict[int, Any]] = {
    table: OrderedDict() for table in ("_buffers", "_modules", "_parameters")
}


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


def register_module_full_backward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Calls a function with every module and the gradients by its results; it may change them.

    It comes before the module's own hooks.
    """
    check_function("register_module_full_backward_pre_hook", hook, "hook")
    return put_hook(BEFORE_BACKWARD_OF_ALL, hook)


def register_module_buffer_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Calls a function with every module, name and buffer that is entered; it may return another.

    >>> import functensor.torch as torch
    >>> from functensor.torch.nn.modules.module import register_module_buffer_registration_hook
    >>> seen = []
    >>> with register_module_buffer_registration_hook(lambda m, name, x: seen.append(name)):
    ...     layer = torch.nn.BatchNorm1d(3)
    >>> seen
    ['running_mean', 'running_var', 'num_batches_tracked']
    """
    check_function("register_module_buffer_registration_hook", hook, "hook")
    return put_hook(ENTRY_HOOKS["_buffers"], hook)


def register_module_module_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Calls a function with every module, name and inner module that is entered.

    It may return another inner module.
    """
    check_function("register_module_module_registration_hook", hook, "hook")
    return put_hook(ENTRY_HOOKS["_modules"], hook)


def register_module_parameter_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Calls a function with every module, name and parameter that is entered.

    It may return another parameter.
    """
    check_function("register_module_parameter_registration_hook", hook, "hook")
    return put_hook(ENTRY_HOOKS["_parameters"], hook)


def told_of_entry(module: Any, table: str, name: str, value: Any) -> Any:
    """Returns what a module enters in a table under a name, after the hooks for it."""
    hooks = ENTRY_HOOKS[table]
    if hooks and not (value is None and table == "_parameters"):
        for hook in list(hooks.values()):
            changed = hook(module, name, value)
            value = value if changed is None else changed
    return value


def wrong_entry(module: Any, name: str, kind: type, kept: type, value: Any) -> BaseException:
    """Returns the error of a value that a module does not take under a name.

    A value in a compiled function may stand for one that it takes.

    Args:
        module, name: the module, and the name.
        kind: what it has under this name.
        kept: what it takes there, beside None.
        value: the value.
    """
    if compiling.staged and isinstance(value, TracedTensor):
        return GraphBreak(f"it assigns to {type(module).__name__}.{name}")
    what = f"{type(module).__name__}.{name} is a {kind.__name__.lower()}"
    return TypeError(f"{what}: assign a {kept.__name__} or None, not {type(value).__name__}")


class HookedPass:
    """The way back through one call of a module.

    Attributes:
        module: the module.
        inputs: how many tensors it was given. If it is ``ended``, none of them requires grad or
            is within a transformation, which may ask for its gradient.
        by_outputs: the gradients by its results.
    """

    def __init__(self, module: Any, inputs: int, ended: bool) -> None:
        self.module = module
        self.inputs = inputs
        self.ended = ended
        self.by_outputs: tuple[Any, ...] = ()

    def leave(self, grads: tuple[Any, ...]) -> tuple[Any, ...]:
        """Returns the gradients by the results, after hooks that come before the way back."""
        own = self.module._backward_pre_hooks
        for hook in [*BEFORE_BACKWARD_OF_ALL.values(), *own.values()]:
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
