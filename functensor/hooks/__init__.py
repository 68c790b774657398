"""Hooks on every operation of unmodified functions, forward and backward.

An interceptor is one more trace, which always stands innermost, next to the user's function: so a
hook sees the same operations whether the function is evaluated, differentiated or vectorised.
"""

from __future__ import annotations

import re
import threading
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from itertools import compress, count
from operator import attrgetter, is_
from typing import TYPE_CHECKING, Any
from weakref import ref

from ..backends.errors.public_functions import begins, check_function
from ..backends.restoring import InC, in_turn, leaving
from ..faces.publish import publish
from ..primitives.core.array import Array, Tracer
from ..primitives.core.errors import function_name, user_line
from ..primitives.core.primitive import Primitive, evaluate
from ..primitives.core.trace import RAW, Trace, slot, under, without_ended_interceptors
from .watched_calls import PrimitiveCall, Watched, replacement

if TYPE_CHECKING:
    from ..primitives.core.annotations import Value

__all__ = ["FnHook", "Handle", "Hook", "Operation", "use"]

next_id = count(1).__next__


class Operation:
    """An operation, as hooks are told of it.

    Attributes:
        name: the primitive's name.
        params: its static parameters.
        line: the user's ``file:line`` that called it.
    """

    __slots__ = ("line", "name", "params")

    def __init__(self, name: str, params: dict[str, Any], line: str) -> None:
        self.name = name
        self.params = params
        self.line = line

    def __repr__(self) -> str:
        return f"<{self.name} at {self.line}>"


class Hook:
    """Observes or replaces what operations compute; subclass it and override either method.

    Within a hook no hook is active, so that it may compute with arrays itself.

    >>> import functensor as ft, functensor.numpy as np
    >>> class Doubled(ft.hooks.Hook):
    ...     def backward(self, op, grad_inputs, grad_output):
    ...         return [2 * g for g in grad_inputs]
    >>> with ft.hooks.use(Doubled(), match="sin"):
    ...     print(ft.grad(np.sin)(0.0))
    2.0
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
        """Sees an operation in the backward pass, if the hook is registered then.

        Args:
            op: the operation.
            grad_inputs: for every operand its cotangent, None where it has none.
            grad_output: the cotangent of its output; of several outputs, a tuple.

        Returns:
            None to leave the cotangents as they are, or a sequence in their place.
        """
        return None


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


class Registration:
    """A registration of a hook: a context manager, ended by leaving it or by ``remove``.

    Attributes:
        id: unique in the process.
        active: whether the hook is still called.
    """

    def __init__(self, hook: Any) -> None:
        self.id = next_id()
        self.hook = hook
        self.active = True
        self._entered = ref(self)
        self._left = leaving(in_turn(self._ends()))

    def _ends(self) -> list[Callable[[], Any]]:
        """Returns what ends the registration, one after the other: what has to be done, in C."""
        return [partial(setattr, self, "active", False)]

    def remove(self) -> None:
        """Ends the registration; may be called at any time, also from within the hook, again."""
        for end in self._ends():
            end()

    # An interrupt between the registration and the block would let it stand.
    __enter__ = InC(attrgetter("_entered"))
    __exit__ = InC(attrgetter("_left"))

    def __repr__(self) -> str:
        state = "active" if self.active else "removed"
        return f"<handle {self.id} of {function_name(self.hook)}, {state}>"


class Handle(Registration):
    """A registration of a `Hook`, for the operations that match."""

    def __init__(
        self, hook: Hook, match: str | Sequence[str] | Callable[[str], bool] | None
    ) -> None:
        self.hook = hook
        self._match = _matcher(match)
        self._thread = threading.get_ident()
        self.sees_backward = getattr(hook.backward, "__func__", None) is not Hook.backward
        self._before = slot.trace
        self._trace = HookTrace(self._before or RAW, self)
        super().__init__(hook)

    def _begin(self) -> Handle:
        """Has this thread show operations to the hook from now on."""
        slot.trace = self._trace
        return self

    def matches(self, name: str) -> bool:
        """Says whether the hook wants to see a primitive."""
        return self.active and self._match(name)

    def sees_pass(self) -> bool:
        """Says whether the hook is called in a backward pass that is running."""
        return self.active

    def forward(self, op: Operation, inputs: Sequence[Any], output: Array) -> Any:
        """Shows the hook an operation and returns what it returns."""
        return self.hook.forward(op, inputs, output)

    def _ends(self) -> list[Callable[[], Any]]:
        # The slot gets back what it had, if it still has the trace of this hook: in C.
        there = map(is_, map(getattr, (slot,), ("trace",)), (self._trace,))
        back = map(setattr, (slot,), ("trace",), compress((self._before,), there))
        return [*super()._ends(), partial(deque, back, 0), self._settle]

    def _settle(self) -> None:
        """Takes the trace of the hook out of the slot, now that it has ended."""
        if threading.get_ident() == self._thread:
            slot.trace = without_ended_interceptors(slot.trace)


class KeptHooks(Handle):
    """The registration of a hook around a function that is run again in a backward pass.

    The hook has to replace again what it replaced in the first run, though it may be removed by
    then. It sees all other operations, and cotangents, as long as it is registered.

    Args:
        handle: the registration.
        replaced: for every operation of the first run whether the hook replaced its output.
        first: whether this is that run, which fills the list.
    """

    def __init__(self, handle: Handle, replaced: list[bool], first: bool) -> None:
        super().__init__(handle.hook, handle._match)
        self.handle = handle
        self.replaced = replaced
        self.first = first
        self.position = 0

    def sees_pass(self) -> bool:
        return self.handle.sees_pass()

    def forward(self, op: Operation, inputs: Sequence[Any], output: Array) -> Array | None:
        again = self.replaced[self.position : self.position + 1] == [True]
        self.position += 1
        out = None
        if again or self.handle.sees_pass():
            out = self.handle.forward(op, inputs, output)
        if self.first:
            self.replaced.append(out is not None)
        return out


@begins
def use(hook: Hook, match: str | Sequence[str] | Callable[[str], bool] | None = None) -> Handle:
    """Registers a hook for the operations that this thread runs from now on.

    Several hooks see an operation in the order of their registration, forward and backward, and
    each sees what those before it returned.

    Args:
        hook: the hook.
        match: which primitives it sees: a name, several names, a regular expression for the
            whole name, or a function of the name; None for all.

    Returns:
        A `Handle`: use it in a ``with`` statement, or call its ``remove``.

    Raises:
        TypeError: ``hook`` is not a `Hook`.
    """
    if not isinstance(hook, Hook):
        raise TypeError(f"use takes a Hook, not {type(hook).__name__}; wrap functions in FnHook")
    return Handle(hook, match)


def _matcher(match: Any) -> Callable[[str], bool]:
    if match is None:
        return lambda name: True
    if isinstance(match, str):
        return lambda name: re.fullmatch(match, name) is not None
    if callable(match):
        return match  # type: ignore[no-any-return]
    names = frozenset(match)
    return names.__contains__


class HookTrace(Trace):
    """Shows operations to a hook and passes them on to its parent."""

    __slots__ = ("handle",)

    interceptor = True

    def __init__(self, parent: Trace, handle: Handle) -> None:
        super().__init__(parent, "hook", handle.hook)
        self.handle = handle

    def ended(self) -> bool:
        return not self.handle.active

    def over(self, trace: Trace) -> Trace:
        below = self.parent.over(trace) if self.parent.interceptor else trace
        return HookTrace(below, self.handle) if self.handle.active else below

    def process(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        handle = self.handle
        if not handle.matches(primitive.name):
            if not handle.active:
                # An interrupt came before it was settled.
                handle._settle()
            return self.below(primitive, args, params)
        op = Operation(primitive.name, params, user_line())
        if handle.sees_backward and not primitive.constant:
            traced = [isinstance(x, Tracer) for x in args]
            call = Watched(PrimitiveCall(primitive, traced, params), op, [handle])
            with under(None if self.parent is RAW else self.parent):
                (out,) = call.bind(args)
        else:
            out = self.below(primitive, args, params)
        return self.shown(op, args, out)

    def below(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        """Hands an operation to the parent."""
        if self.parent is RAW:
            return evaluate(primitive, args, params)
        return super().below(primitive, args, params)

    def custom(self, call: Any, args: Sequence[Any]) -> list[Any]:
        handle = self.handle
        matches = handle.matches(call.name)
        watched = isinstance(call, Watched)
        op = call.op if watched else Operation(call.name, {}, user_line())
        if matches and handle.sees_backward:
            # Of nested hooks this one was registered before those that watch already.
            others = call.handles if watched else ()
            call = Watched(call.call if watched else call, op, [handle, *others])
        with under(None if self.parent is RAW else self.parent):
            outs: list[Any] = call.bind(args)
        return [self.shown(op, args, out) for out in outs] if matches else outs

    def shown(self, op: Operation, args: Sequence[Any], out: Any) -> Value:
        """Shows an output to the hook, below all hooks, and returns it or its replacement."""
        level = self.parent
        while level.interceptor:
            level = level.parent
        with under(None if level is RAW else level):
            replaced = self.handle.forward(op, tuple(args), out)
        return out if replaced is None else replacement(op, replaced, out)


publish(globals())
