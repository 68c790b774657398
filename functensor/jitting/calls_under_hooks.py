"""Calls of jitted functions under hooks: the plan calls them, or the function runs as written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from numpy import ndarray

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
    under,
    words_for,
)
from ..programs.named_scope import active_scope
from ..tree import containers as tree
from .hook_answers import HookAnswers
from .living import clear_all
from .reported_run import Told, alarms, reported_run
from .retraces import History, StaleProgramError
from .shown_run import ShownRun, forked, is_taken_back, only_look, reunited
from .signature import Signature

if TYPE_CHECKING:
    from .staged_entry import StagedEntry

__all__ = ["CallsUnderHooks"]

# Stands for the results of a run that showed hooks what they look at, and computed nothing else.
NOT_COMPUTED = object()
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
        """Runs the function under hooks; the results are those without, unless these replace any.

        Hooks are shown a run of their own, since their calls between operations change what is
        fused, and so the rounding.
        """
        met = interceptors()
        inner = base_trace() is not RAW or is_traced((args, kwargs))
        # The results of a plan that reports are those that count.
        told = None if inner else alarms()
        if told is not None:
            return self._reported(args, kwargs, told)
        # Those of a run that is watched are not.
        alone = slot.shown is not None or is_staged()
        if alone or not (any(trace.exact() for trace in met) and only_look(met)):
            return self._shown(args, kwargs)
        if inner:
            return self._in_two_runs(args, kwargs, met)
        shown = self._shown(args, kwargs, counts=False)
        if shown is not NOT_COMPUTED:
            # The function may close over traced values.
            if is_traced(shown) or not only_look(met):
                return shown
            with below_hooks():
                if self._seen(args, kwargs):
                    return shown
            del shown
        with below_hooks():
            return self._called(args, kwargs)

    def _in_two_runs(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], met: Sequence[Any]
    ) -> Any:
        """Does the same where the function's derivatives or batches may be asked for."""
        shown_run = ShownRun(met)
        with below_hooks():
            given, (args, kwargs) = forked((args, kwargs), shown_run)
        top: Any = slot.trace
        registrations = top.registrations()
        try:
            with setting(slot, shown={}):
                slot.trace = shown_run.trace()
                shown = self._one_by_one(*self._signature.mapped(shown_array, args, kwargs))
                shown_run.note_taken_back(shown)
        finally:
            slot.trace = top.settled(registrations)
        with below_hooks():
            if self._seen(*given):
                shown_run.note_kept()
            return reunited(self._called(*given), shown, shown_run) if shown_run.counts() else shown

    def _seen(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Says whether it is to run once: a hook, a derivative or another process sees each run."""
        entry, _ = self._entry(args, kwargs)
        return bool(entry.captured) or entry.program.has_effect() or entry.program.exchanges()

    def _shown(self, args: tuple[Any, ...], kwargs: dict[str, Any], counts: bool = True) -> Any:
        """Runs the function under hooks, by a plan that calls them.

        Its results are needed if ``counts`` is True. Otherwise they may be `NOT_COMPUTED`.
        """
        keys = *(found := [trace.key() for trace in interceptors()]), active_scope()
        # Hooks see the operations as they are made, those of NumPy's arrays too, and traced values,
        # whose derivatives the caller may want.
        if base_trace() is not RAW or is_traced((args, kwargs)):
            return self._one_by_one(*self._signature.mapped(shown_array, args, kwargs))
        top: Any = slot.trace
        registrations = top.registrations()
        answers = HookAnswers()
        try:
            if None in found or keys not in self._hooks:
                return self._watched(*self._signature.mapped(shown_array, args, kwargs), keys)
            return self._by_plan(args, kwargs, keys, counts, answers)
        except StaleProgramError:
            clear_all()
            with under(answered_trace(answers)):
                return self._called(args, kwargs)
        finally:
            slot.trace = top.settled(registrations)

    def _by_plan(
        self, args: Any, kwargs: Any, keys: Any, counts: bool, answers: HookAnswers
    ) -> Any:
        """Runs the function by a plan that calls hooks, and leaves out what they do not see.

        Their answers are noted unless the results are needed in any case.
        """
        met, noted = interceptors(), None
        if not counts:
            with below_hooks():
                counts = self._seen(args, kwargs)
        if not counts:
            noted = answers
            entry, leaves = self._entry(args, kwargs, (keys, False))
            with below_hooks(), setting(slot, answers=answers):
                entry.compiled(leaves)
            if only_look(met):
                return NOT_COMPUTED
            # A hook has replaced something for the first time.
            answers.repeat()
        entry, leaves = self._entry(args, kwargs, (keys, True))
        with below_hooks(), setting(slot, answers=noted):
            return self._ran(entry, leaves)

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
        taken_back = is_taken_back(shown, out)
        for trace in met:
            trace.met(taken_back)
        self._hooks[keys] = None
        while len(self._hooks) > MOST_KEPT_HOOKS:
            del self._hooks[next(iter(self._hooks))]
        # Programs keep the hooks that they call.
        for key in [key for key in list(self._entries) if key[6] and key[6][0] not in self._hooks]:
            self._entries.pop(key, None)
            self._history.drop(key, "since other hooks came")
        return out


def answered_trace(answers: HookAnswers) -> Any:
    """Returns a trace that calls the hooks, but not as they were called without a change."""
    calls = answers.that_changed_nothing()
    trace = base_trace()
    for interceptor in reversed(interceptors()):
        trace = interceptor.answered(trace, calls)
    return trace


def is_traced(arguments: Any) -> bool:
    """Says whether there are traced values in a tree."""
    return any(isinstance(leaf, Tracer) for leaf in tree.leaves(arguments))


def shown_array(x: Any) -> Any:
    """Returns a NumPy array as one whose operations hooks see; all else as it is."""
    return wrap(owned(x)) if type(x) is ndarray else x
