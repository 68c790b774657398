"""Registrations of hooks for operations."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from functools import partial, wraps
from itertools import compress
from operator import attrgetter, is_
from types import SimpleNamespace
from typing import Any, NoReturn
from weakref import ref

from ..backends.errors.public_functions import begins, check_function
from ..backends.restoring import InC
from ..functions.type_variables import P, R
from ..primitives.core.array import Array
from ..primitives.core.errors import function_name, message
from ..primitives.core.trace import RAW, Trace, slot, without_ended_interceptors
from ..programs.named_scope import check_runs_at_once
from .faults import blame, blaming, checked_cotangents, replacement
from .hook import Hook, check_hook
from .interceptor import HookTrace
from .matching import Match, Matching
from .operation import Operation
from .registration import Registration, registered

__all__ = ["Handle", "check_hooked_function", "use", "wrap"]


class BlockEntrance(threading.local):
    """Enters the block of a registration in one thread, and raises an error in all others.

    Args:
        thread: the number of that thread.
        handle: the registration.

    Attributes:
        enter: returns the registration, or raises a ``RuntimeError``.
    """

    def __init__(self, thread: int, handle: ref[Handle]) -> None:
        self.enter = handle if threading.get_ident() == thread else partial(refuse, handle)


def refuse(known: ref[Handle]) -> NoReturn:
    """Raises an error for a block whose operations the hook of a registration would not see."""
    handle = known()
    if handle is not None and handle.active:
        what = f"{handle!r} is of another thread: its hook sees no operations of this one"
        raise RuntimeError(message(what, fix="with handle.shared():", number=None))
    what = f"{handle!r} does not begin again"
    raise RuntimeError(message(what, fix="with ft.hooks.use(hook) as handle:", number=None))


class Handle(Registration):
    """A registration of a `Hook`, for the operations that match.

    Attributes:
        direct: whether the hook's own methods are called, as they are.
        on_replay: whether the hook sees what a checkpoint runs again.
        lasting: whether it sees the backward pass over what it has seen, also once it has ended.
    """

    direct = True

    def __init__(
        self, hook: Hook, match: Match, on_replay: bool | None = None, lasting: bool = False
    ) -> None:
        self.hook = hook
        self.match = match
        self.on_replay = hook.on_replay if on_replay is None else on_replay
        self.lasting = lasting
        self._thread = threading.get_ident()
        self.sees_before = hook.sees("before")
        self.sees_forward = hook.sees("forward")
        self.sees_backward = hook.sees("backward")
        self.sees_way_back = self.sees_backward or self.sees_before
        self._before = slot.trace
        self._trace: HookTrace | None = self.interceptor(self._before or RAW)
        # Within a function that is staged it ends with the staging, and stays in the program.
        self._stays = self._trace.staged
        super().__init__(hook)
        self._entrance: Any = BlockEntrance(self._thread, ref(self))

    # An interrupt between the registration and the block would let it stand.
    __enter__ = InC(attrgetter("_entrance.enter"))

    def interceptor(self, parent: Trace) -> HookTrace:
        """Returns the trace that shows operations to the hook."""
        return (self.hook.interceptor or HookTrace)(parent, self)

    def _begin(self) -> Handle:
        """Has this thread show operations to the hook from now on."""
        handles = registered.handles
        # Assignments, after which no interrupt can come.
        handles[len(handles) :] = (self,)
        slot.trace = self._trace
        return self

    def key(self) -> Hashable:
        """Returns what a program depends on that calls the hook; None if it cannot be staged."""
        if not self.hook.compiled:
            return None
        hook = self.hook
        return SameHook(hook), self.match.key, self.on_replay, self.lasting, hook.traceable

    def alarms(self) -> tuple[frozenset[str], Hashable] | None:
        """Returns what a plan reports in place of calling the hook, and which operations it sees.

        None says that it is called.
        """
        alarms = self.hook.alarms
        return None if alarms is None else (alarms, self.match.key)

    def only_looks(self) -> bool:
        """Says whether the hook has changed nothing so far that it was shown."""
        hook = self.hook
        changes = hook.traceable or hook.replaces or hook.replaces_cotangents
        return not (changes or hook.taken_back)

    def source(self) -> Around | Handle:
        """Returns what a program keeps that was staged under the registration."""
        return Around(self) if self.is_around() else self

    def current(self) -> Handle | None:
        """Returns the registration whose hook a program calls that was staged under it."""
        return self

    def root(self) -> Handle:
        """Returns the registration outside of all checkpoints."""
        return self

    def is_around(self) -> bool:
        """Says whether the hook was registered outside of the function that is staged."""
        return not (self._stays or self.lasting)

    def sees_pass(self, staged: bool) -> bool:
        """Says whether the hook is called in a backward pass, which may be staged.

        A program that is staged has it called if it is registered when the program runs.
        """
        return self.active or self.lasting or (staged and not self._stays)

    def sees_again(self) -> bool:
        """Says whether the hook sees cotangents of a backward pass that is run again."""
        return self.on_replay or self.hook.replaces_cotangents

    # -- calls of the hook, at once or by the program that is being staged

    def told(self, op: Operation, values: Sequence[Any], staged: bool) -> Sequence[Any]:
        """Tells the hook of an operation that is about to run; returns its operands."""
        if not staged or self.hook.traceable:
            self.before(op, values)
            return values
        from .program_calls import told_in_program  # loads what stages programs

        return told_in_program(self, op, values)

    def shown(self, op: Operation, args: Sequence[Any], out: Any, staged: bool) -> Any:
        """Shows the hook an output; returns what stands in its place."""
        if not staged or self.hook.traceable:
            return self.shown_at_once(op, args, out)
        from .program_calls import shown_in_program

        return shown_in_program(self, op, args, out)

    def pulled(
        self, op: Operation, cotangents: Sequence[Any], gs: Sequence[Any], staged: bool
    ) -> Sequence[Any]:
        """Shows the hook cotangents; returns what stands in their place."""
        if not staged or self.hook.traceable:
            return self.backward(op, cotangents, gs)
        from .program_calls import pulled_in_program

        return pulled_in_program(self, op, cotangents, gs)

    def shown_at_once(self, op: Operation, args: Sequence[Any], out: Any) -> Any:
        """Does what `shown` does, where nothing is staged or the hook is traced."""
        new = self.forward(op, tuple(args), out)
        return out if new is None else replacement(self.hook, "forward", op, new, out)

    def before(self, op: Operation, values: Sequence[Any]) -> None:
        """Tells the hook of an operation that is about to run."""
        blaming(self.hook, "before", self.hook.before, op, tuple(values))

    def forward(self, op: Operation, inputs: Sequence[Any], output: Array) -> Any:
        """Shows the hook an output; returns another one, or None where it stays."""
        new = blaming(self.hook, "forward", self.hook.forward, op, inputs, output)
        return self.noted(None if new is output else new)

    def backward(
        self, op: Operation, cotangents: Sequence[Any], gs: Sequence[Any]
    ) -> Sequence[Any]:
        """Shows the hook cotangents; returns what stands in their place."""
        g = gs[0] if len(gs) == 1 else tuple(gs)
        hook = self.hook
        try:
            new = hook.backward(op, tuple(cotangents), g)
        except Exception as error:
            blame(error, hook, "backward", op)
            raise
        if new is None:
            return cotangents
        found = checked_cotangents(hook, op, new, cotangents)
        if all(a is b for a, b in zip(found, cotangents, strict=True)):
            return cotangents
        hook.replaces_cotangents = True
        return found

    def noted(self, new: Any) -> Any:
        """Remembers whether the hook replaces values, which decides how programs call it."""
        hook = self.hook
        if new is not None:
            hook.replaces = True
        elif hook.replaces is None:
            hook.replaces = False
        return new

    def shared(self) -> Handle:
        """Returns a registration of the same hook for the thread that asks.

        Each thread has its own hooks. It is ended separately.

        >>> import functensor as ft, functensor.numpy as np, threading
        >>> hook = ft.hooks.FnHook(forward=lambda op, inputs, output: print(op.name))
        >>> def work():
        ...     with handle.shared():
        ...         np.sin(1.0)
        >>> with ft.hooks.use(hook) as handle:
        ...     thread = threading.Thread(target=work)
        ...     thread.start(), thread.join()
        sin
        (None, None)
        """
        return Handle(self.hook, self.match, self.on_replay)._begin()

    def _ends(self) -> list[Callable[[], Any]]:
        # The slot gets back what it had, if it still has the trace of this hook: in C.
        there = map(is_, map(getattr, (slot,), ("trace",)), (self._trace,))
        back = map(setattr, (slot,), ("trace",), compress((self._before,), there))
        return [*super()._ends(), partial(deque, back, 0), self._settle]

    def _settle(self) -> None:
        """Takes the trace of the hook out of the slot, now that it has ended."""
        registered.handles[:] = filter(attrgetter("active"), registered.handles)
        # The trace knows the handle: neither would be freed before the garbage collector comes.
        self._trace = self._before = None
        self._entrance = SimpleNamespace(enter=partial(refuse, ref(self)))
        if threading.get_ident() == self._thread:
            slot.trace = without_ended_interceptors(slot.trace)
        self.hook.ended()


class Around:
    """The registration around a function, as its program knows it, which keeps no hook alive."""

    __slots__ = ("_hook", "_key")

    def __init__(self, handle: Handle) -> None:
        self._hook = ref(handle.hook)
        self._key = handle.match.key

    @property
    def hook(self) -> Any:
        return self._hook()

    def current(self) -> Handle | None:
        """Returns the registration of the hook that is there while the program runs."""
        hook = self._hook()
        for handle in registered.handles:
            if handle.active and handle.hook is hook and handle.match.key == self._key:
                return handle  # type: ignore[no-any-return]
        return None


class SameHook:
    """Equals what stands for the same hook, whatever the hook says; does not keep it alive."""

    __slots__ = ("_hash", "_hook")

    def __init__(self, hook: Hook) -> None:
        self._hook = ref(hook)
        self._hash = id(hook)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        hook = self._hook()
        return hook is not None and type(other) is SameHook and other._hook() is hook

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return function_name(self._hook())


@begins
def use(
    hook: Hook, match: Matching = None, *, scope: str | None = None, on_replay: bool | None = None
) -> Handle:
    """Registers a hook for the operations that this thread runs from now on.

    Several hooks see an operation in the order of their registration, forward and backward, and
    each sees what those before it returned. Hooks may be added and removed from within a hook; a
    new one sees the next operation first, or, where a plan is running, the next call.

    Args:
        hook: the hook.
        match: which operations it sees: those of a primitive's name, or with a tag of `tag`;
            several names; a regular expression for the whole name; or a function of an
            `Operation`. None for all.
        scope: which of them, by the `scope` that they are in: its name, or several that follow
            each other, ``"block/attention"``.
        on_replay: whether it sees again what a checkpoint runs again for the backward pass; by
            default what the hook's attribute of that name says.

    Returns:
        A `Handle`: use it in a ``with`` statement, or call its ``remove``.

    Raises:
        TypeError: ``hook`` is not a `Hook`, or ``match`` is nothing of the kind.
        ValueError: ``match`` is a string that is no regular expression.
    """
    check_hook("use", hook)
    return Handle(hook, Match(match, scope), on_replay)


def check_hooked_function(name: str, fun: Any) -> None:
    """Raises a ``TypeError`` for what is no function, or one that runs only after its call."""
    check_function(name, fun)
    check_runs_at_once(f"{name} was given", fun, f"ft.hooks.{name} of a plain function, within it")


def wrap(
    fun: Callable[P, R],
    hook: Hook,
    match: Matching = None,
    *,
    scope: str | None = None,
    on_replay: bool | None = None,
) -> Callable[P, R]:
    """Returns a function that runs under a hook, and whose backward pass the hook sees.

    Args:
        fun: any function.
        hook, match, scope, on_replay: as for `use`.

    Raises:
        TypeError: ``fun`` is a generator function or an asynchronous one, which runs after its
            call; or as for `use`.
        ValueError: as for `use`.

    >>> import functensor as ft, functensor.numpy as np
    >>> double = ft.hooks.FnHook(forward=lambda op, inputs, output: 2 * output)
    >>> ft.grad(ft.hooks.wrap(np.sin, double))(0.0)
    Array(2., dtype=float64, device='cpu')
    """
    check_hooked_function("wrap", fun)
    check_hook("wrap", hook)
    chosen = Match(match, scope)

    @wraps(fun)
    def hooked(*args: P.args, **kwargs: P.kwargs) -> R:
        with Handle(hook, chosen, on_replay, lasting=True)._begin():
            return fun(*args, **kwargs)

    return hooked
