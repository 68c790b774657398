"""The protocol of hooks, and hooks that are made of plain functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..backends.errors.public_functions import check_function
from ..primitives.core.array import Array
from .operation import Operation

__all__ = ["FnHook", "Hook", "check_hook", "overrides"]


class Hook:
    """Observes or replaces what operations compute; subclass it and override its methods.

    Within a hook no hook is active, so that it may compute with arrays itself. A compiled function
    calls the methods while its plan runs, with the values there. A hook whose `forward` has
    replaced a value is compiled in from then on: that method is traced, like other code.

    Attributes:
        traceable: True compiles the hook in from the start, False never; None, the default, once it
            has replaced a value.
        replaces: True once it has replaced a value, False once it has only looked; None before.
        on_replay: whether it sees what a checkpoint runs again; False, but for hooks that measure.
        compiled: False has compiled functions run operation by operation under the hook.

    >>> import functensor as ft, functensor.numpy as np
    >>> class Doubled(ft.hooks.Hook):
    ...     def backward(self, op, grad_inputs, grad_output):
    ...         return [None if g is None else 2 * g for g in grad_inputs]
    >>> with ft.hooks.use(Doubled(), match="sin"):
    ...     print(ft.grad(np.sin)(0.0))
    2.0
    """

    traceable: bool | None = None
    replaces: bool | None = None
    on_replay: bool = False
    compiled: bool = True
    # The class of the trace that shows it operations, where that is another one than of all others.
    interceptor: Any = None
    # What it raises on purpose: the message says all, and gets no note.
    raises: tuple[type[Exception], ...] = ()
    # Whether what it puts in place of finite values is finite, which nobody has to check.
    keeps_finite: bool = False
    # Looks at what another hook has put in place of a value; see `faults.look_at_replacement`.
    look_at_replacement: Any = None

    @property
    def alarms(self) -> frozenset[str] | None:
        """What a plan may report in place of calling the hook; None has the plan call it.

        The hook then sees the operations of the call, which is run again one by one.
        """
        return None

    def before(self, op: Operation, values: Sequence[Any]) -> None:
        """Is told of an operation, or of its way back, before it runs; by default it is not asked.

        Args:
            op: the operation.
            values: its operands; in the phase "backward" the cotangents of its outputs.
        """

    def forward(self, op: Operation, inputs: Sequence[Any], output: Array) -> Array | None:
        """Sees an operation after it ran.

        Args:
            op: the operation.
            inputs: its operands.
            output: its output.

        Returns:
            None to leave the output as it is, or an array of its shape and dtype in its place.
        """
        return None

    def backward(
        self, op: Operation, grad_inputs: Sequence[Any], grad_output: Array
    ) -> Sequence[Array | None] | None:
        """Sees an operation in the backward pass, if the hook is registered in both passes.

        Args:
            op: the operation.
            grad_inputs: for every operand its cotangent, None where it has none.
            grad_output: the cotangent of its output; of several outputs, a tuple.

        Returns:
            None to leave the cotangents as they are, or a sequence in their place.
        """
        return None

    def opened(self, call: Any, handle: Any) -> Any:
        """Returns a call of a function with a rule of its own, whose insides it may look at."""
        return call

    def ended(self) -> None:
        """Is told that a registration has ended; it may be told again."""


def overrides(hook: Hook, method: str) -> bool:
    """Says whether a hook has a method of its own."""
    return getattr(getattr(hook, method), "__func__", None) is not getattr(Hook, method)


def check_hook(function: str, hook: Any) -> None:
    """Raises a ``TypeError`` for what is no hook."""
    if not isinstance(hook, Hook):
        kind = type(hook).__name__
        raise TypeError(f"{function} takes a Hook, not {kind}; wrap functions in FnHook")


class FnHook(Hook):
    """A hook made of plain functions.

    Args:
        forward: called as `Hook.forward`.
        backward: called as `Hook.backward`.

    >>> import functensor as ft, functensor.numpy as np
    >>> seen = []
    >>> with ft.hooks.use(ft.hooks.FnHook(forward=lambda op, inputs, out: seen.append(op.name))):
    ...     _ = np.sum(np.exp(np.zeros(3)) * 2)
    >>> seen
    ['exp', 'multiply', 'sum']
    """

    def __init__(
        self, forward: Callable[..., Any] | None = None, backward: Callable[..., Any] | None = None
    ) -> None:
        for given, name in ((forward, "forward"), (backward, "backward")):
            if given is not None:
                check_function("FnHook", given, name)
        if forward is not None:
            self.forward = forward  # type: ignore[method-assign]
        if backward is not None:
            self.backward = backward  # type: ignore[method-assign]
