"""Keeps what hooks answered in a run that computed no results, for one that does."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ..backends.restoring import setting
from ..primitives.core.trace import slot

__all__ = ["HookAnswers"]


class HookAnswers:
    """The answers of hooks in the order of their calls: kept in one run, repeated in another."""

    def __init__(self) -> None:
        self._kept: list[Any] = []
        self._repeated: Iterator[Any] | None = None

    def repeat(self) -> None:
        """Has the next run get the answers in place of those that the hooks would give."""
        self._repeated = iter(self._kept)

    def of(self, ask: Callable[[], Sequence[Any] | None]) -> Sequence[Any] | None:
        """Returns the answer of the next call of a hook."""
        if self._repeated is not None:
            return next(self._repeated)  # type: ignore[no-any-return]
        # Plans that a hook runs itself are others.
        with setting(slot, answers=None):
            self._kept.append(ask())
        return self._kept[-1]  # type: ignore[no-any-return]
