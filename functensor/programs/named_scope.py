"""Names for parts of a function, which the equations of its program carry."""

from __future__ import annotations

import inspect
import threading
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial, wraps
from itertools import islice
from operator import attrgetter
from typing import Any, TypeVar, cast

from ..backends.restoring import InC, leaving, listed
from ..primitives.core.errors import function_name, message

__all__ = [
    "active_scope", "check_runs_at_once", "common_scope", "joined_scope", "named_scope", "scope",
    "scoped",
]  # fmt: skip

Function = TypeVar("Function", bound=Callable[..., Any])
# Tests for functions whose call only makes an object that runs later.
LATER = (inspect.isgeneratorfunction, inspect.iscoroutinefunction, inspect.isasyncgenfunction)


def check_runs_at_once(begin: str, fun: Any, fix: str) -> None:
    """Raises a ``TypeError`` for a function whose call only makes an object that runs later."""
    if any(is_later(fun) for is_later in LATER):
        what = (
            f"{begin} {function_name(fun)}, a generator function or an asynchronous one, which "
            "runs only after the call"
        )
        raise TypeError(message(what, fix=fix, number=None))


class ScopeEntry:
    """A scope that a thread is in.

    Attributes:
        owner: who entered it.
        path: the names that were entered until then, with slashes in between.
        entered: False as long as it is only about to be entered.
    """

    __slots__ = ("entered", "owner", "path")

    def __init__(self, owner: object, path: str, entered: bool) -> None:
        self.owner = owner
        self.path = path
        self.entered = entered


class Active(threading.local):
    """The scopes that a thread is in.

    Attributes:
        entries: the innermost last.
        next: what a ``with`` statement is about to enter, or None.
    """

    def __init__(self) -> None:
        self.entries = [ScopeEntry(None, "", True)]
        self.next: ScopeEntry | None = None

    def last(self, owner: object) -> list[ScopeEntry]:
        """Returns the scope that an owner entered last, in a list, which is empty without one."""
        # A generator that stopped within one may end within others, or in another thread.
        return [entry for entry in self.entries[:0:-1] if entry.owner is owner][:1]


active = Active()


class named_scope:
    """Names a part of a function: a context manager, and a decorator.

    ``scope`` is a shorter name of it. Operations that are staged within have the name in
    ``Equation.scope``, behind those of the scopes around it: ``"block/attention"``.
    ``program.show(lines=True)`` and ``cost()`` show it, and hooks choose operations by it. It
    changes nothing that is computed, and costs next to nothing where nothing is staged.

    An operation of a derivative has the scope of the operation whose derivative it is, and a
    checkpointed function runs again in the scope of its call. Only what a rule of the user's own
    does on the way back has the scope that is active there. A jitted function is staged once for
    all callers, and its program begins outside of every scope; where another program takes it in,
    the caller's scope comes in front.

    Args:
        name: the name, not empty and without a slash.

    Raises:
        TypeError: it is not a string; or what is decorated is a generator function or an
            asynchronous one.
        ValueError: it is empty, or has a slash.

    >>> import functensor as ft, functensor.numpy as np
    >>> @ft.named_scope("block")
    ... def block(x):
    ...     with ft.named_scope("attention"):
    ...         y = np.sin(x)
    ...     return x + y
    >>> program = ft.make_program(block)(np.ones(3))
    >>> [(e.primitive.name, e.scope) for e in program.equations]
    [('sin', 'block/attention'), ('add', 'block')]
    """

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        check_string(type(self).__name__, name)
        if not name or "/" in name:
            what = f"{name!r} has a slash, which stands between names" if name else "is empty"
            parts = [part for part in name.split("/") if part] or ["attention"]
            mine = type(self).__name__
            fix = "with " + ", ".join(f'ft.{mine}("{part}")' for part in parts)
            raise ValueError(message(f"{mine}: the name {what}", fix=fix, number=None))
        self.name = name

    def __enter__(self) -> None:
        entry = active.next
        if entry is None or entry.owner is not self:
            entry = ScopeEntry(self, "", False)
        outer = active.entries[-1].path
        entry.path = f"{outer}/{self.name}" if outer else self.name
        end = len(active.entries)
        # No call, after which an interrupt could come.
        active.next = None
        entry.entered = True
        active.entries[end:] = (entry,)

    @InC
    def __exit__(self) -> Any:
        # A call without a `with` statement is meant to leave the scope that was entered before.
        active.next = entry = ScopeEntry(self, "", False)
        left = filter(attrgetter("entered"), [entry, *active.last(self)])
        return leaving(partial(deque, map(active.entries.remove, islice(left, 1)), 0))

    def __call__(self, fun: Function) -> Function:
        """Returns a function that runs in the scope.

        Raises:
            TypeError: it is a generator function or an asynchronous one, which runs after its call.
        """
        fix = f'with ft.{type(self).__name__}("{self.name}"), within the function'
        check_runs_at_once(f"{self!r} decorates", fun, fix)

        @wraps(fun)
        def within(*args: Any, **kwargs: Any) -> Any:
            with self:
                return fun(*args, **kwargs)

        return cast(Function, within)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"


class scope(named_scope):
    """Names a part of a function, as `named_scope` does: a shorter name of that.

    >>> import functensor as ft, functensor.numpy as np
    >>> @ft.scope("block")
    ... def block(x):
    ...     return np.sin(x)
    >>> ft.make_program(block)(np.ones(3)).equations[0].scope
    'block'
    """

    __slots__ = ()


def check_string(function: str, name: Any) -> None:
    """Checks the type of a name that a function was given for a scope.

    Raises:
        TypeError: it is not a string, but for instance the function that was to be decorated.
    """
    if not isinstance(name, str):
        fix = f'with ft.{function}("attention")'
        if callable(name):
            fix = f'@ft.{function}("{function_name(name)}")'
        what = f"{function}: the name is of type {type(name).__name__}, not a string"
        raise TypeError(message(what, fix=fix, number=None))


def active_scope() -> str:
    """Returns the scope that the thread is in; empty outside of all."""
    return active.entries[-1].path


def scoped(path: str) -> listed:
    """Returns a block in which one scope is in the place of all that are active.

    Args:
        path: the scope; empty for programs that are kept for whoever wants them.
    """
    return listed(active.entries, ScopeEntry(None, path, True))


def joined_scope(outer: str, inner: str) -> str:
    """Returns the scope of an operation that was staged in one and is taken into another one.

    An operation that was staged within the outer one has the whole path already.
    """
    if not outer or inner == outer or inner.startswith(f"{outer}/"):
        return inner
    return f"{outer}/{inner}" if inner else outer


def common_scope(scopes: Iterable[str]) -> str:
    """Returns the innermost scope that several operations are in."""
    paths = [scope.split("/") for scope in scopes]
    common = []
    for names in zip(*paths, strict=False):
        if any(name != names[0] for name in names):
            break
        common.append(names[0])
    return "/".join(common)
