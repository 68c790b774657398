"""Calls of jitted functions under hooks: the plan calls them, or the function runs as written."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from numpy import ndarray

from ..backends.config import config
from ..backends.restoring import setting
from ..primitives.core.annotations import Values
from ..primitives.core.array import Tracer
from ..primitives.core.buffers import owned, wrap
from ..primitives.core.trace import (
    RAW,
    base_trace,
    below_hooks,
    interceptors,
    is_staged,
    recalling,
    slot,
    words_for,
)
from ..programs.named_scope import active_scope
from ..tree import containers as tree
from .living import clear_all
from .reported_run import Told, alarms, reported_run
from .retraces import History, StaleProgramError
from .shown_run import ShownRun, forked, reunited
from .signature import Signature

if TYPE_CHECKING:
    from .staged_entry import StagedEntry

__all__ = ["CallsUnderHooks"]

# A function remembers so many sets of hooks, and keeps plans for them.
MOST_KEPT_HOOKS = 4


class CallsUnderHooks:
    """The part of a jitted function that runs it under hooks."""

    _fun: Callable[..., Any]
    _signature: Signature
    _entries: Any
    _history: History
    _hooks: dict[Any, None]

    # What a jitted function does itself.
    _called: Callable[..., Any]
    _ran: Callable[..., Any]
    _entry: Callable[..., tuple[StagedEntry, Values]]
    _as_written: Callable[..., Any]

    def _hooked(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Runs the function under hooks.

        With ``config.deterministic`` the results are those without hooks, unless these replace
        anything.
        """
        met = interceptors()
        # The results of a run that is watched are not those that count.
        in_two = config.deterministic and slot.shown is None and not is_staged()
        if not (in_two and all(trace.only_looks() for trace in met)):
            return self._shown(args, kwargs)
        if base_trace() is not RAW or is_traced((args, kwargs)):
            return self._in_two_runs(args, kwargs)
        shown = self._shown(args, kwargs)
        # The function may close over traced values.
        if is_traced(shown) or not all(trace.only_looks() for trace in met):
            return shown
        with below_hooks():
            return self._called(args, kwargs)

    def _in_two_runs(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Does the same where the function's derivatives or batches may be asked for."""
        with below_hooks():
            captured = self._entry(args, kwargs)[0].captured
        if captured:
            return self._shown(args, kwargs)
        shown_run = ShownRun(interceptors())
        with below_hooks():
            given, (args, kwargs) = forked((args, kwargs), shown_run)
        top: Any = slot.trace
        registrations = top.registrations()
        try:
            slot.trace = shown_run.trace()
            shown = self._one_by_one(*self._signature.mapped(shown_array, args, kwargs))
        finally:
            slot.trace = top.settled(registrations)
        if not shown_run.counts():
            return shown
        with below_hooks():
            return reunited(self._called(*given), shown, shown_run)

    def _shown(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Runs the function under hooks, by a plan that calls them or reports to them."""
        keys = *(found := [trace.key() for trace in interceptors()]), active_scope()
        inner = base_trace() is not RAW or is_traced((args, kwargs))
        told = None if inner else alarms()
        if told is not None:
            return self._reported(args, kwargs, told)
        # Hooks see the operations as they are made, those of NumPy's arrays too, and traced values,
        # whose derivatives the caller may want.
        if inner:
            return self._one_by_one(*self._signature.mapped(shown_array, args, kwargs))
        top: Any = slot.trace
        registrations = top.registrations()
        try:
            if None in found or keys not in self._hooks:
                return self._watched(*self._signature.mapped(shown_array, args, kwargs), keys)
            entry, leaves = self._entry(args, kwargs, keys)
            with below_hooks():
                return self._ran(entry, leaves)
        except StaleProgramError:
            clear_all()
            return self._called(args, kwargs)
        finally:
            slot.trace = top.settled(registrations)

    def _one_by_one(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Runs the function operation by operation in place of a plan, which messages name."""
        with recalling(words_for("jit", self._fun)):
            return self._as_written(args, kwargs)

    def _reported(self, args: tuple[Any, ...], kwargs: dict[str, Any], told: Told) -> Any:
        """Runs the function by a plan that reports, and operation by operation if it has."""
        with below_hooks():
            if not any(told):
                return self._called(args, kwargs)
            entry, leaves = self._entry(args, kwargs)

        def again() -> Any:
            positional, named = self._signature.mapped(shown_array, args, kwargs)
            return self._one_by_one(positional, named)

        return reported_run(entry, leaves, told, again)

    def _watched(self, args: Any, kwargs: Any, keys: Any) -> Any:
        """Runs the function as it was written, and watches what it does with hooks for once."""
        shown: dict[int, Any] = {} if slot.shown is None else slot.shown
        met = interceptors()
        with setting(slot, shown=shown):
            slot.trace = met[0].over(base_trace())
            out = self._one_by_one(args, kwargs)
        taken_back = 0 in shown or any(shown.get(id(x)) is x for x in tree.leaves(out))
        for trace in met:
            trace.met(taken_back)
        self._hooks[keys] = None
        while len(self._hooks) > MOST_KEPT_HOOKS:
            del self._hooks[next(iter(self._hooks))]
        # Programs keep the hooks that they call.
        for key in [key for key in list(self._entries) if key[6] and key[6] not in self._hooks]:
            self._entries.pop(key, None)
            self._history.drop(key, "since other hooks came")
        return out


def is_traced(arguments: Any) -> bool:
    """Says whether there are traced values in a tree."""
    return any(isinstance(leaf, Tracer) for leaf in tree.leaves(arguments))


def shown_array(x: Any) -> Any:
    """Returns a NumPy array as one whose operations hooks see; all else as it is."""
    return wrap(owned(x)) if type(x) is ndarray else x
