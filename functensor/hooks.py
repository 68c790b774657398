"""Hooks on every operation of unmodified functions, forward and backward.

An interceptor is one more trace, which always stands innermost, next to the user's function: so a
hook sees the same operations whether the function is evaluated, differentiated or vectorised.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Sequence
from itertools import count
from types import TracebackType
from typing import Any, Self

from .custom import CustomCall
from .forward import tangent_of
from .gradients import vjp
from .primitives.array import Tracer
from .primitives.buffers import wrap
from .primitives.core import RAW, Trace, settled, slot, under
from .primitives.errors import RuleResultError, describe, function_name, message, user_line
from .primitives.indexing import Scatter, index_primitive, scatter_sum
from .primitives.primitive import Primitive, evaluate
from .primitives.types import shape_dtype
from .reverse import fitted, is_inexact
from .vectorize import vmap

__all__ = ["FnHook", "Handle", "Hook", "Operation", "use"]

next_id = count(1).__next__


class Operation:
    """What a hook is told of the operation that it sees.

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

    def forward(self, op: Operation, inputs: Sequence[Any], output: Any) -> Any:
        """Sees an operation after it ran.

        Args:
            op: the operation.
            inputs: its operands.
            output: its output.

        Returns:
            None to leave the output as it is, or an array of its shape and dtype in its place.
        """
        return None

    def backward(self, op: Operation, grad_inputs: Sequence[Any], grad_output: Any) -> Any:
        """Sees an operation in the backward pass.

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
        self,
        forward: Callable[..., Any] | None = None,
        backward: Callable[..., Any] | None = None,
    ) -> None:
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

    def remove(self) -> None:
        """Ends the registration; may be called at any time, also from within the hook, again."""
        self.active = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.remove()

    def __repr__(self) -> str:
        state = "active" if self.active else "removed"
        return f"<handle {self.id} of {function_name(self.hook)}, {state}>"


class Handle(Registration):
    """A registration of a `Hook`, for the operations that match."""

    def __init__(self, hook: Hook, match: Any) -> None:
        super().__init__(hook)
        self._match = _matcher(match)
        self._thread = threading.get_ident()
        self.sees_backward = _overrides(hook, "backward")

    def matches(self, name: str) -> bool:
        """Says whether the hook wants to see a primitive."""
        return self.active and self._match(name)

    def remove(self) -> None:
        """Ends the registration; may be called at any time, also from within the hook, again."""
        super().remove()
        if threading.get_ident() == self._thread:
            slot.trace = settled(slot.trace)


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
    handle = Handle(hook, match)
    slot.trace = HookTrace(slot.trace or RAW, handle)
    return handle


def _matcher(match: Any) -> Callable[[str], bool]:
    if match is None:
        return lambda name: True
    if isinstance(match, str):
        return lambda name: re.fullmatch(match, name) is not None
    if callable(match):
        return match  # type: ignore[no-any-return]
    names = frozenset(match)
    return names.__contains__


def _overrides(hook: Hook, method: str) -> bool:
    return getattr(getattr(hook, method), "__func__", None) is not getattr(Hook, method)


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
            return self.below(primitive, args, params)
        op = Operation(primitive.name, params, user_line())
        if handle.sees_backward and not primitive.constant:
            call = Watched(PrimitiveCall(primitive, args, params), op, [handle])
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

    def shown(self, op: Operation, args: Sequence[Any], out: Any) -> Any:
        """Shows an output to the hook, below all hooks, and returns it or its replacement."""
        level = self.parent
        while level.interceptor:
            level = level.parent
        with under(None if level is RAW else level):
            replaced = self.handle.hook.forward(op, tuple(args), out)
        return out if replaced is None else _replacement(op, replaced, out)


class Watcher:
    """Pulls cotangents back and shows them to hooks, in the order of the hooks' registration.

    Attributes:
        changed: whether a hook has replaced one.
    """

    def __init__(self, pull: Callable[..., Any], op: Operation, handles: Sequence[Handle]) -> None:
        self.pull = pull
        self.op = op
        self.handles = handles
        self.changed = False

    def __call__(self, residuals: list[Any], gs: list[Any]) -> list[Any]:
        plain = self.pull(residuals, gs)
        cotangents = first = dense(plain)
        for handle in self.handles:
            if handle.active:
                g = gs[0] if len(gs) == 1 else tuple(gs)
                replaced = handle.hook.backward(self.op, tuple(cotangents), g)
                if replaced is not None:
                    cotangents = self.checked(list(replaced), cotangents)
        # What no hook has changed goes on as it would without them, to the last bit.
        kept = [c is old for c, old in zip(cotangents, first, strict=True)]
        self.changed = self.changed or not all(kept)
        return [p if same else c for p, c, same in zip(plain, cotangents, kept, strict=True)]

    def checked(self, new: list[Any], old: list[Any]) -> list[Any]:
        """Returns what a hook gave in place of cotangents, checked against them."""
        if len(new) != len(old):
            raise RuleResultError(
                message(
                    f"the backward hook on {self.op.name} returned {len(new)} cotangents for "
                    f"{len(old)} operands",
                    fix="return one for each of grad_inputs, or None to change nothing",
                    number=9,
                )
            )
        return [
            None if n is None else n if o is None else _replacement(self.op, n, o)
            for n, o in zip(new, old, strict=True)
        ]


def dense(cotangents: Sequence[Any]) -> list[Any]:
    """Returns cotangents with sparse ones made arrays."""
    return [scatter_sum([c]) if type(c) is Scatter else c for c in cotangents]


class Watched(CustomCall):
    """A call whose cotangents hooks see.

    Attributes:
        call: the call without hooks.
        op: what the hooks are told of it.
        handles: the hooks' registrations, the oldest first.
    """

    def __init__(self, call: CustomCall, op: Operation, handles: Sequence[Handle]) -> None:
        fwd, pull = call.rules()
        watcher = Watcher(pull, op, handles)
        super().__init__(call.name, call.evaluate, fwd, watcher, call.jvp, call.sparse)
        self.call = call
        self.op = op
        self.handles = handles

    def batched(self, flags: Sequence[bool], size: int, axis_name: Any = None) -> CustomCall:
        """Returns the same for a batch; hooks see the cotangents of each example.

        Added up over the examples, these may differ in the last bits from what the batched
        operation's own rule gives, so that counts where the hooks have changed nothing.
        """
        watcher = self.bwd
        watching = CustomCall(
            self.name,
            self.evaluate,
            self.fwd,
            lambda residuals, gs: dense(watcher(residuals, gs)),
            self.jvp,
            self.sparse,
        ).batched(flags, size, axis_name)
        if not isinstance(self.call, PrimitiveCall):
            return watching
        plain = self.call.batched(flags, size, axis_name)

        def bwd(values: list[Any], gs: list[Any]) -> list[Any]:
            watcher.changed = False
            _, residuals = watching.fwd(values)
            watched: list[Any] = watching.bwd(residuals, gs)
            return watched if watcher.changed else list(plain.bwd(values, gs))

        return CustomCall(self.name, plain.evaluate, plain.fwd, bwd, watching.jvp, self.sparse)


class PrimitiveCall(CustomCall):
    """A primitive, on the operands of one call, as a call that has the primitive's rules.

    Attributes:
        wanted: for every operand whether it may have a cotangent.
    """

    def __init__(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> None:
        wanted = [isinstance(x, Tracer) for x in args]

        def evaluate(values: list[Any]) -> list[Any]:
            return [primitive.bind(values, params)]

        def fwd(values: list[Any]) -> tuple[list[Any], list[Any]]:
            out = primitive.bind(values, params)
            return [out], [out, *values]

        def bwd(residuals: list[Any], gs: list[Any]) -> list[Any]:
            return cotangents_of(primitive, gs[0], residuals, params, wanted)

        def jvp(values: list[Any], tangents: list[Any]) -> tuple[list[Any], list[Any]]:
            out = primitive.bind(values, params)
            known = [t if is_inexact(v) else None for t, v in zip(tangents, values, strict=True)]
            return [out], [tangent_of(primitive, out, values, known, params)]

        sparse = (0,) if primitive is index_primitive else ()
        super().__init__(primitive.name, evaluate, fwd, bwd, jvp, sparse)
        self.wanted = wanted

    def batched(self, flags: Sequence[bool], size: int, axis_name: Any = None) -> CustomCall:
        """Returns the same for a batch, differentiated as the batched operation is."""
        axes = [0 if flag else None for flag in flags]
        evaluate = vmap(self.evaluate, in_axes=(axes,), axis_size=size, axis_name=axis_name)
        wanted = self.wanted

        def bwd(values: list[Any], gs: list[Any]) -> list[Any]:
            known = [i for i, v in enumerate(values) if wanted[i] and is_inexact(v)]

            def chosen(*some: Any) -> Any:
                operands = list(values)
                for i, v in zip(known, some, strict=True):
                    operands[i] = v
                return evaluate(operands)

            _, pull = vjp(chosen, *[values[i] for i in known])
            found = dict(zip(known, pull(gs), strict=True))
            return [found.get(i) for i in range(len(values))]

        return CustomCall(self.name, evaluate, lambda v: (evaluate(v), v), bwd, sparse=self.sparse)


def cotangents_of(
    primitive: Primitive,
    g: Any,
    saved: Sequence[Any],
    params: dict[str, Any],
    wanted: Sequence[bool],
) -> list[Any]:
    """Returns the cotangents of all operands of one primitive, None where it has none.

    That of an indexed operand may be a ``Scatter``.

    Args:
        primitive: the primitive.
        g: its output's cotangent.
        saved: its output and its operands.
        params: its static parameters.
        wanted: for every operand whether its cotangent is asked for.
    """
    operands = saved[1:]
    if primitive.pullback is not None:
        found = list(primitive.pullback(g, tuple(saved), params))
    else:
        rules = primitive.vjps or [None] * len(operands)
        found = [
            vjp(g, tuple(saved), params) if vjp is not None and want and is_inexact(x) else None
            for vjp, x, want in zip(rules, operands, wanted)
        ]
    # Index arrays come last and need no rules.
    found += [None] * (len(operands) - len(found))
    for i, (c, x) in enumerate(zip(found, operands, strict=True)):
        if c is not None and type(c) is not Scatter:
            found[i] = fitted(c, shape_dtype(x), primitive)
    return found


def _replacement(op: Operation, new: Any, old: Any) -> Any:
    """Returns what a hook gave in place of a value, checked against it."""
    if getattr(new, "shape", ()) != old.shape or shape_dtype(new).dtype != old.dtype:
        raise RuleResultError(
            message(
                f"a hook on {op.name} returned {describe(new)} in place of {describe(old)}",
                fix="return an array of the same shape and dtype, or None to change nothing",
                number=9,
            )
        )
    return wrap(new)
