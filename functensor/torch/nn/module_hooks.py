"""Hooks of modules: their handles, and the way back, on which they see gradients."""

from __future__ import annotations

from collections import OrderedDict
from itertools import count
from typing import Any

from ..autograd import Function

__all__ = ["HookedInputs", "HookedOutputs", "HookedPass", "RemovableHandle"]

next_hook = count().__next__


class RemovableHandle:
    """The registration of a module's hook.

    Attributes:
        id: unique in the process.
    """

    def __init__(self, hooks: dict[int, Any], hook: Any, first: bool = False) -> None:
        self.id = next_hook()
        self._hooks = hooks
        hooks[self.id] = hook
        if first and isinstance(hooks, OrderedDict):
            hooks.move_to_end(self.id, last=False)

    def remove(self) -> None:
        """Ends the registration; nothing happens if it has ended already."""
        self._hooks.pop(self.id, None)


class HookedPass:
    """The gradients that have come back to a module's results in one pass.

    Attributes:
        module: the module.
        by_outputs: the gradients by its results.
    """

    def __init__(self, module: Any) -> None:
        self.module = module
        self.by_outputs: tuple[Any, ...] = ()


class HookedOutputs(Function):
    """Returns results as they are; the way back notes their gradients."""

    @staticmethod
    def forward(ctx: Any, passed: HookedPass, *outputs: Any) -> Any:
        """Returns the results."""
        ctx.passed = passed
        return tuple([x.view(x.shape) for x in outputs])

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """Returns the gradients, after hooks that come before the module's way back."""
        passed = ctx.passed
        for hook in list(passed.module._backward_pre_hooks.values()):
            changed = hook(passed.module, grads)
            if changed is not None:
                grads = changed if isinstance(changed, tuple) else (changed,)
        passed.by_outputs = grads
        return (None, *grads)


class HookedInputs(Function):
    """Returns arguments as they are; the way back calls the module's hooks."""

    @staticmethod
    def forward(ctx: Any, passed: HookedPass, *inputs: Any) -> Any:
        """Returns the arguments."""
        ctx.passed = passed
        return tuple([x.view(x.shape) for x in inputs])

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """Returns the gradients, or what a hook returns in their place."""
        passed = ctx.passed
        for hook in list(passed.module._backward_hooks.values()):
            changed = hook(passed.module, grads, passed.by_outputs)
            if changed is not None:
                grads = changed if isinstance(changed, tuple) else (changed,)
        return (None, *grads)
