"""Snapshots of a function's arguments and of the values that it closes over, for a second run."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

from ..functions.frozen_closure import Copies, frozen
from ..random.generator import noting_draws, repeating_draws
from ..random.key_stream import KeyStream

__all__ = ["Frozen"]


class Frozen:
    """A call that can be done again, though loops go on and names come to stand for others.

    Functions among the values that the function closes over are remembered in the same way. Streams
    of keys are copied, so that they give the same keys, and generators give theirs again. Mixed
    precision of tensors is as it was.
    """

    def __init__(self, fun: Callable[..., Any], leaves: Sequence[Any]) -> None:
        copies: Copies = {}
        self._fun = frozen(fun, copies)
        self._leaves = _streams(leaves, copies)
        self._drawn: list[Any] = []
        # It is there where a program uses mixed precision.
        autocasting: Any = sys.modules.get("functensor.tensors.autocasting")
        self._casting = autocasting and autocasting.keeping_casts()

    def first(self, fun: Callable[..., Any]) -> Callable[..., Any]:
        """Returns the function, which notes what it draws from generators."""
        return noting_draws(fun, self._drawn)

    def again(self) -> tuple[Callable[..., Any], list[Any]]:
        """Returns the function, which draws the same, and the leaves."""
        copies: Copies = {}
        again = repeating_draws(frozen(self._fun, copies), self._drawn)
        again = self._casting(again) if self._casting else again
        return again, _streams(self._leaves, copies)


def _streams(leaves: Sequence[Any], copies: Copies) -> list[Any]:
    return [frozen(x, copies) if isinstance(x, KeyStream) else x for x in leaves]
