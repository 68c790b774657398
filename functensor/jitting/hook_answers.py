"""Keeps what hooks answered in a run that computed no results, for one that does."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import takewhile
from typing import Any

from ..backends.restoring import setting
from ..primitives.core.trace import slot

__all__ = ["HookAnswers"]


class HookAnswers:
    """The answers of hooks in the order of their calls: kept in one run, repeated in another."""

    def __init__(self) -> None:
        self._kept: list[Any] = []
        self._calls: list[tuple[str, Any]] = []
        self._repeated: Iterator[Any] | None = None

    def repeat(self) -> None:
        """Has the next run get the answers in place of those that the hooks would give."""
        self._repeated = iter(self._kept)

    def that_changed_nothing(self) -> deque[tuple[str, Any]]:
        """Returns the names and hooks of the calls before the first that changed a value."""
        looked = takewhile(lambda pair: pair[1] is None, zip(self._calls, self._kept))
        return deque(call for call, _ in looked)

    def of(
        self, name: str, hook: Any, ask: Callable[[], Sequence[Any] | None]
    ) -> Sequence[Any] | None:
        """Returns the answer of the next call of a hook.

        Args:
            name: the call's name in programs.
            hook: whose call it is.
            ask: makes the call.
        """
        if self._repeated is not None:
            return next(self._repeated)  # type: ignore[no-any-return]
        self._calls.append((name, hook))
        # Plans that a hook runs itself are others.
        with setting(slot, answers=None):
            self._kept.append(ask())
        return self._kept[-1]  # type: ignore[no-any-return]
