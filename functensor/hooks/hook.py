"""The protocol of hooks, and hooks that are made of plain functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..backends.errors.public_functions import check_function
from ..primitives.core.array import Array
from ..primitives.core.errors import function_line
from .operation import Operation

__all__ = ["FnHook", "Hook", "check_hook"]


class Hook:
    """Observes or replaces what operations compute; subclass it and override its methods.

    Within a hook no hook is active, so that it may compute with arrays itself. A compiled function
    calls the methods while its plan runs, with the values there. Where the plan is that of a
    derivative and `forward` replaces values, the function runs operation by operation: only a
    traceable hook has derivatives in a plan.

    Attributes:
        traceable: True says that the methods are code like the function's own: they compute with
            `functensor.numpy` and do nothing else. A compiled function then runs them once, while
            it is staged, and holds what they compute. False is the default.
        replaces: True once it has replaced a value, False once it has only looked; None before.
        replaces_cotangents: True once it has replaced a cotangent.
        on_replay: whether it sees what a checkpoint runs again; False, but for hooks that measure.
        compiled: False has compiled functions run operation by operation under the hook.
        exact: False has compiled functions return what they compute under the hook, in half the
            time: its last bits are not those without the hook. True is the default.

    >>> import functensor as ft, functensor.numpy as np
    >>> class Doubled(ft.hooks.Hook):
    ...     def backward(self, op, grad_inputs, grad_output):
    ...         return [None if g is None else 2 * g for g in grad_inputs]
    >>> with ft.hooks.use(Doubled(), match="sin"):
    ...     print(ft.grad(np.sin)(0.0))
    2.0
    """

    traceable: bool = False
    replaces: bool | None = None
    replaces_cotangents: bool = False
    on_replay: bool = False
    compiled: bool = True
    exact: bool = True
    # True once a function has computed with what the hook was shown.
    taken_back: bool = False
    # The class of the trace that shows it operations, where that is another one than of all others.
    interceptor: Any = None
    # The errors that it raises on purpose: their messages say all, and get no note.
    raises: tuple[type[Exception], ...] = ()
    # True where it replaces finite values by finite ones, which nobody has to check.
    keeps_finite: bool = False
    # Looks at what another hook has put in place of a value; see `faults.look_at_replacement`.
    look_at_replacement: Any = None

    @property
    def alarms(self) -> frozenset[str] | None:
        """The alarms that a plan may raise in place of calling the hook; None has it call the hook.

        After an alarm the call is run again, and the hook sees its operations one by one.
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

    def sees(self, moment: str) -> bool:
        """Says whether it has a method of its own for a moment.

        Args:
            moment: "before", "forward" or "backward".
        """
        return getattr(getattr(self, moment), "__func__", None) is not getattr(Hook, moment)

    def __repr__(self) -> str:
        moments = [name for name in ("before", "forward", "backward") if self.sees(name)]
        return f"<{type(self).__name__}: {', '.join(moments) or 'no methods'}>"


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
        traceable: whether compiled functions hold what these compute, in place of calling them.
        exact: whether results of compiled functions keep every bit, as `Hook.exact` says.

    >>> import functensor as ft, functensor.numpy as np
    >>> seen = []
    >>> with ft.hooks.use(ft.hooks.FnHook(forward=lambda op, inputs, out: seen.append(op.name))):
    ...     _ = np.sum(np.exp(np.zeros(3)) * 2)
    >>> seen
    ['exp', 'multiply', 'sum']
    """

    def __init__(
        self,
        forward: Callable[..., Any] | None = None,
        backward: Callable[..., Any] | None = None,
        *,
        traceable: bool = False,
        exact: bool = True,
    ) -> None:
        for given, name in ((forward, "forward"), (backward, "backward")):
            if given is not None:
                check_function("FnHook", given, name)
        if forward is not None:
            self.forward = forward  # type: ignore[method-assign]
        if backward is not None:
            self.backward = backward  # type: ignore[method-assign]
        self.traceable = traceable
        self.exact = exact

    def __repr__(self) -> str:
        given = {name: vars(self).get(name) for name in ("forward", "backward")}
        named = [f"{name}={function_line(fun)}" for name, fun in given.items() if fun is not None]
        traced = ["traceable=True"] if self.traceable else []
        rounded = [] if self.exact else ["exact=False"]
        return f"FnHook({', '.join(named + traced + rounded)})"
