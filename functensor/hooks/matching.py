"""The choice of the operations that a hook sees: by name, tag, scope, or a function."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import partial
from typing import Any, TypeAlias

from ..primitives.core.primitive import Primitive
from .operation import TAG, Operation

__all__ = ["Match", "Matching"]

# Users give names, a regular expression for them, or a function of an operation.
One: TypeAlias = str | re.Pattern[str] | Callable[..., Any]
Matching: TypeAlias = One | Sequence[One] | None


class Match:
    """Says which operations a hook sees.

    Args:
        match: a primitive, a name of primitives or a tag, a regular expression for the whole name,
            a function of an `Operation`, or several of these; None for all.
        scope: the scope that they are in, or names that follow each other in it: ``"attention"``
            is in ``"block/attention/head"``.

    Attributes:
        all: whether it chooses all operations.
        asks: whether it calls a function of the user's.
        key: equal for those that choose the same.
    """

    __slots__ = ("_asked", "_named", "_scope", "_test", "all", "asks", "key")

    def __init__(self, match: Any = None, scope: str | None = None) -> None:
        if scope is not None and not isinstance(scope, str):
            raise TypeError(f"a hook's scope is a string, not {type(scope).__name__}")
        self._test: Callable[[str], Any] = _anything
        if isinstance(match, str | re.Pattern | Primitive) or callable(match):
            parts = [match]
        elif match is None or isinstance(match, Iterable):
            parts = [] if match is None else list(match)
            match = match if match is None else tuple(parts)
        else:
            raise TypeError(wrong_match(match))
        tests = [test_of(part) for part in parts if isinstance(part, str | re.Pattern | Primitive)]
        asked = [part for part in parts if not isinstance(part, str | re.Pattern | Primitive)]
        for part in asked:
            if not callable(part):
                raise TypeError(wrong_match(part))
        if match is not None:
            self._test = partial(any_says, tests)
        self._asked = partial(any_says, asked) if asked else None
        self._named: dict[str, bool] = {}
        self._scope = scope and f"/{scope.strip('/')}/"
        self.all = match is None and scope is None
        self.asks = self._asked is not None
        self.key: Hashable = match, scope

    def may(self, name: str) -> bool:
        """Says whether an operation of that name may be one of them."""
        found = self._named.get(name)
        if found is None:
            # Tags have names of their own, and a function looks at more than the name.
            found = self._named[name] = name == TAG or self.asks or bool(self._test(name))
        return found

    def __call__(self, op: Operation) -> bool:
        """Says whether an operation is one of them."""
        if self._scope and self._scope not in f"/{op.scope}/":
            return False
        names = (op.name,) if op.tag is None else (op.tag, TAG)
        if any(map(self._test, names)):
            return True
        return self._asked is not None and bool(self._asked(op))


def any_says(tests: Sequence[Callable[[Any], Any]], x: Any) -> bool:
    """Says whether one of several tests holds."""
    return any(test(x) for test in tests)


def test_of(part: str | re.Pattern[str] | Primitive) -> Callable[[str], Any]:
    """Returns the test of a name that a part of a choice stands for."""
    if isinstance(part, Primitive):
        return part.name.__eq__
    if isinstance(part, str):
        return partial(is_named, part, pattern(part))
    return part.fullmatch


def wrong_match(match: Any) -> str:
    """Returns the message for what chooses no operations."""
    return (
        "match is a name, several names, a regular expression or a function of an Operation, not "
        f"{type(match).__name__}"
    )


def is_named(text: str, expression: re.Pattern[str], name: str) -> bool:
    """Says whether a name is a text, as tags like ``h[0]`` are, or matches it as an expression."""
    return name == text or expression.fullmatch(name) is not None


def pattern(text: str) -> re.Pattern[str]:
    """Returns a regular expression, or raises a ``ValueError`` that says what it should be."""
    try:
        return re.compile(text)
    except re.error as error:
        raise ValueError(
            f"match={text!r} is no regular expression: {error}; match='.*' chooses all operations, "
            "and so does match=None"
        ) from error


def _anything(name: str) -> bool:
    return True
