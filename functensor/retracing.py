"""Why a jitted function was staged again, and the warning when that happens again and again."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

from . import tree
from .primitives.errors import function_line, message, user_line
from .primitives.types import ShapeDtype

__all__ = ["History", "RetraceError", "RetraceWarning"]

# How often a function may be staged for new kinds of arguments before there is a warning, and how
# often the same code for functions that are jitted anew.
MANY = 20
MANY_ANEW = 100
# How many reasons are kept.
KEPT = 1000


class RetraceWarning(UserWarning):
    """A function is staged again and again (docs/errors.md#error-11)."""


class RetraceError(RuntimeError):
    """A function was staged again where that was not expected (docs/errors.md#error-11)."""


class History:
    """When and why a function was staged.

    Args:
        fun: the function.

    Attributes:
        reasons: a line for each time.
    """

    # How often the code of functions was staged by functions that had not been staged before.
    anew: ClassVar[WeakKeyDictionary[Any, int]] = WeakKeyDictionary()

    def __init__(self, fun: Callable[..., Any]) -> None:
        self.fun = fun
        self.reasons: list[str] = []
        self.count = 0
        self._known: list[tuple[Any, list[str]]] = []
        # Why plans were dropped, by the hashes of what they were for, which keep nothing alive.
        self._dropped: dict[int, str] = {}
        # Whether it closed over traced values the last time.
        self._captures = False
        self._refused = 0

    def record(self, key: Sequence[Any], dynamic: Any) -> int:
        """Notes that the function is staged for a new kind of arguments.

        Returns:
            How many times it was staged, this time included.

        Raises:
            RetraceError: that was not expected.
        """
        names = [
            f"argument {path[1].value!r}{tree.keystr(path[2:])}"
            for path, _ in tree.flatten_with_path(dynamic)[0]
        ]
        reason = self._reason(key, names)
        self.count += 1
        if len(self.reasons) < KEPT:
            self.reasons.append(f"{self.count}. at {user_line()}: {reason}")
        if self._refused:
            raise RetraceError(
                message(
                    f"jit of {function_line(self.fun)} was staged again: {reason}",
                    fix="pass arguments of the same structure, shapes and dtypes, or leave "
                    "assert_no_retrace()",
                    number=11,
                )
            )
        self._known.append((key, names))
        del self._known[:-KEPT]
        self._warn(reason)
        self._captures = False
        return self.count

    def remark(self, number: int, words: str) -> None:
        """Notes how it went, of the time that has this number."""
        if number <= len(self.reasons):
            self.reasons[number - 1] += f"; {words}"

    def forget(self, number: int, key: Any, words: str, captured: bool = False) -> None:
        """Notes that what was staged is not kept, and why.

        Args:
            number: how many times it had been staged.
            key: what for.
            words: why.
            captured: whether because it closes over traced values.
        """
        self._known = [known for known in self._known if known[0] is not key]
        self._captures = captured
        self.remark(number, words)

    def drop(self, key: Any, words: str) -> None:
        """Notes that a plan is not kept any longer, and why."""
        self._known = [known for known in self._known if known[0] is not key]
        self._dropped[hash(key)] = words
        while len(self._dropped) > KEPT:
            del self._dropped[next(iter(self._dropped))]

    def _reason(self, key: Sequence[Any], names: list[str]) -> str:
        if self._captures:
            return "it closed over traced values the last time"
        dropped = self._dropped.pop(hash(key), None)
        if dropped is not None:
            return f"its plan was dropped, {dropped}"
        if not self._known:
            return "the first call" + " after all plans were dropped" * bool(self._dropped)
        reasons = [difference(old, key, old_names, names) for old, old_names in self._known]
        words = min(reversed(reasons), key=lambda found: found[0])[1]
        return words or "it calls itself with arguments of the same kind"

    def _warn(self, reason: str) -> None:
        code = getattr(self.fun, "__code__", None)
        if self.count == 1 and code is not None:
            self.anew[code] = self.anew.get(code, 0) + 1
            if self.anew[code] == MANY_ANEW:
                _warn(
                    f"{function_line(self.fun)} was jitted and staged {MANY_ANEW} times, each time "
                    "as a new function: a new lambda each call is staged anew each call",
                    "f = ft.jit(...) once, outside of the loop or function that calls it",
                )
        if self.count == MANY and self._captures:
            _warn(
                f"jit of {function_line(self.fun)} was staged {MANY} times: it closes over traced "
                "values, so that what is staged serves for one call",
                "pass what it closes over as arguments",
            )
        elif self.count == MANY:
            _warn(
                f"jit of {function_line(self.fun)} was staged {MANY} times; at last, {reason}",
                "pad to few shapes, pass numbers as arrays instead of static arguments, or give "
                "one function object instead of a new lambda each call",
            )

    @contextmanager
    def refusing(self) -> Iterator[None]:
        """Makes it an error that the function is staged, within a ``with`` block."""
        self._refused += 1
        try:
            yield
        finally:
            self._refused -= 1

    def __str__(self) -> str:
        name = function_line(self.fun)
        if not self.count:
            return f"{name} was not called yet"
        times = "once" if self.count == 1 else f"{self.count} times"
        return "\n".join([f"{name} was staged {times}:", *(f"  {r}" for r in self.reasons)])


def _warn(what: str, fix: str) -> None:
    warnings.warn(message(what, fix=fix, number=11), RetraceWarning, stacklevel=2)


def difference(
    old: Sequence[Any], new: Sequence[Any], old_names: list[str], names: list[str]
) -> tuple[int, str]:
    """Returns how many things differ between two keys, and the words for them."""
    old_tree, old_kinds, old_static, *old_rest = old
    new_tree, new_kinds, new_static, *new_rest = new
    found: list[str] = []
    if old_tree != new_tree:
        more = [name for name in names if name not in old_names]
        fewer = [name for name in old_names if name not in names]
        listed = [f"{name} is new" for name in more] + [f"{name} is gone" for name in fewer]
        found += listed or [f"the arguments' structure was {old_tree}, and is {new_tree}"]
    else:
        for name, was, now in zip(names, old_kinds, new_kinds, strict=True):
            if was != now:
                found.append(f"{name} was {shown(was)}, and is {shown(now)}")
    before = dict(old_static)
    for place, now in new_static:
        if place not in before or before[place] != now:
            was = f"was {before[place].value!r:.60}, and is" if place in before else "is now"
            found.append(f"static argument {place!r} {was} {now.value!r:.60}")
    if old_rest != new_rest:
        found.append(f"what it is staged under was {old_rest}, and is {new_rest}")
    return len(found), "; ".join(found[:4]) + (f"; and {len(found) - 4} more" * (len(found) > 4))


def shown(kind: Any) -> str:
    """Returns the words for the kind of a leaf."""
    if not isinstance(kind, tuple):
        return getattr(kind, "__name__", str(kind))
    shape, dtype, weak, device = kind
    place = "" if device == "cpu" else f" on {device}"
    return f"{ShapeDtype(shape, dtype, weak)}{place}"
