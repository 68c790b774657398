"""The reasons why a jitted function was staged again, and the warnings when that happens often."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from types import FunctionType
from typing import TYPE_CHECKING, Any, ClassVar
from weakref import WeakKeyDictionary

from .. import tree
from ..backends.errors.warnings import warn_user
from ..backends.logs import log_debug
from ..backends.notebook_cells import with_cells_named
from ..backends.restoring import listed
from ..functions.alike import code_of
from ..primitives.core.errors import RuleResultError, function_line, message, user_line
from ..primitives.core.shape_dtype import ShapeDtype

if TYPE_CHECKING:
    from ..tree import TreeDef

__all__ = ["History", "RetraceError", "RetraceWarning", "StaleProgramError"]

# A function may be staged so often for new kinds of arguments before there is a warning.
MOST_UNWARNED_RETRACES = 20
# The same code may be jitted and staged as a new function so often before there is one.
MOST_UNWARNED_NEW_FUNCTIONS = 100
MOST_KEPT_REASONS = 1000


class RetraceWarning(UserWarning):
    """A function is staged again and again (docs/errors.md#error-11)."""


class StaleProgramError(RuleResultError):
    """A hook replaced a value where a program was staged for hooks that only look."""


class RetraceError(RuntimeError):
    """A function was staged again where that was not expected (docs/errors.md#error-11)."""


class History:
    """The times at which a function was staged; ``reasons`` has a line for each."""

    # For code of functions, how often a new function of that code was staged.
    anew: ClassVar[WeakKeyDictionary[Any, int]] = WeakKeyDictionary()

    def __init__(self, fun: Callable[..., Any]) -> None:
        self.fun = fun
        self.reasons: list[str] = []
        self.count = 0
        self._known: list[tuple[Any, list[str]]] = []
        # The reasons why plans were dropped, by the hashes of their keys, which keep nothing alive.
        self._dropped: dict[int, str] = {}
        # True where the function closed over traced values the last time.
        self._captures = False
        self._refusing: list[object] = []

    def record(self, key: Sequence[Any], dynamic: Any) -> int:
        """Notes that the function is staged for a new kind of arguments.

        Returns:
            The number of times that it was staged, with this one.

        Raises:
            RetraceError: that was not expected.
        """
        names = [argument_name(path) for path, _ in tree.flatten_with_path(dynamic)[0]]
        reason = self._reason(key, names)
        self.count += 1
        if len(self.reasons) < MOST_KEPT_REASONS:
            self.reasons.append(f"{self.count}. at {user_line()}: {reason}")
        log_debug("jit", "%s is staged: %s", function_line(self.fun), reason)
        if self._refusing:
            again = " again" if self.count > 1 else ""
            what = f"jit of {function_line(self.fun)} was staged{again}: {reason}"
            fix = "pass arguments of the same structure, shapes and dtypes, or leave"
            fix += " assert_no_retrace()"
            raise RetraceError(message(what, fix=fix, number=11))
        self._known.append((key, names))
        del self._known[:-MOST_KEPT_REASONS]
        if not any(key[6:]):
            # Other hooks are no fault of the function's.
            self._warn(reason)
        self._captures = False
        return self.count

    def remark(self, number: int, words: str) -> None:
        """Adds words to the reason that has a number."""
        if number <= len(self.reasons):
            self.reasons[number - 1] += f"; {words}"

    def forget(self, number: int, key: Sequence[Any], words: str, captured: bool = False) -> None:
        """Notes that a program, which was staged for a key, is not kept, and why.

        ``captured`` says that it closes over traced values.
        """
        self._known = [known for known in self._known if known[0] is not key]
        self._captures = captured
        self.remark(number, words)

    def drop(self, key: Sequence[Any], words: str) -> None:
        """Notes that a plan is not kept any longer, and why."""
        self._known = [known for known in self._known if known[0] is not key]
        self._dropped[hash(key)] = words
        while len(self._dropped) > MOST_KEPT_REASONS:
            del self._dropped[next(iter(self._dropped))]

    def _reason(self, key: Sequence[Any], names: list[str]) -> str:
        if self._captures:
            return "it closed over traced values the last time"
        dropped = self._dropped.pop(hash(key), None)
        if dropped is not None:
            return f"its plan was dropped, {dropped}"
        if not self._known:
            return "the first call" + " after all plans were dropped" * bool(self._dropped)
        nearest = min(
            reversed(self._known), key=lambda known: distance(known[0], key, known[1], names)
        )
        found = differences(nearest[0], key, names)
        words = "; ".join(found[:4] + [f"and {len(found) - 4} more"] * (len(found) > 4))
        return words or "it calls itself with arguments of the same kind"

    def _warn(self, reason: str) -> None:
        code = code_of(self.fun)
        if self.count == 1 and code is not None:
            self.anew[code] = self.anew.get(code, 0) + 1
            if self.anew[code] == MOST_UNWARNED_NEW_FUNCTIONS:
                _warn(
                    f"{function_line(self.fun)} was jitted and staged {self.anew[code]} times, "
                    "each time as a new function: a lambda or def that is made in each call is "
                    "staged in each call",
                    "f = ft.jit(...) once, outside of the loop or function that calls it",
                )
        if self.count == MOST_UNWARNED_RETRACES:
            why = f"; at last, {reason}"
            fix = (
                "pad to few shapes, pass numbers as arrays instead of static arguments, or make a "
                "function that is an argument once, and not for each call"
            )
            if self._captures:
                why = ": it closes over traced values, so that what is staged serves for one call"
                fix = "pass what it closes over as arguments"
            _warn(f"jit of {function_line(self.fun)} was staged {self.count} times{why}", fix)

    def refusing(self) -> listed:
        """Returns a block in which it is an error that the function is staged."""
        return listed(self._refusing, object())

    def __str__(self) -> str:
        name = function_line(self.fun)
        if not self.count:
            return f"{name} was not called yet"
        times = "once" if self.count == 1 else f"{self.count} times"
        lines = [f"{name} was staged {times}:", *(f"  {r}" for r in self.reasons)]
        return with_cells_named("\n".join(lines))


def _warn(what: str, fix: str) -> None:
    warn_user(message(what, fix=fix, number=11), RetraceWarning)


def distance(old: Sequence[Any], new: Sequence[Any], old_names: list[str], names: list[str]) -> int:
    """Returns how many things differ between two keys, in whose trees the leaves have names."""
    if old[0] != new[0]:
        count = len({*old_names} ^ {*names}) or 1
    else:
        count = sum(was != now for was, now in zip(old[1], new[1], strict=True))
    return count + len(other_differences(old, new))


def differences(old: Sequence[Any], new: Sequence[Any], names: list[str]) -> list[str]:
    """Returns words for the differences between two keys; ``names`` are those of the new one."""
    if old[0] != new[0]:
        found = list(places(old, new))
    else:
        found = [
            f"{name} was {shown_kind(was)}, and is {shown_kind(now)}"
            for name, was, now in zip(names, old[1], new[1], strict=True)
            if was != now
        ]
    return found + other_differences(old, new)


def constant_words(value: Any) -> str:
    """Returns what messages call a static argument: its value, or where a function stands."""
    known = isinstance(value, FunctionType)
    return function_line(value) if known else f"{value!r:.60}"


def other_differences(old: Sequence[Any], new: Sequence[Any]) -> list[str]:
    """Returns words for the differences between two keys, traced arguments aside."""
    found = []
    before = dict(old[2])
    for place, now in new[2]:
        if place not in before or before[place] != now:
            earlier = before.get(place)
            was = f"was {constant_words(earlier.value)}, and is" if earlier else "is now"
            found.append(f"static argument {place!r} {was} {constant_words(now.value)}")
    if old[3:6] != new[3:6]:
        found.append(f"what it is staged under was {[*old[3:6]]}, and is {[*new[3:6]]}")
    if old[6:] != new[6:]:
        found.append("the hooks are other ones")
    return found


class KindLeaf:
    """Stands for a leaf in trees that are compared, by the kind that it was staged for."""

    __slots__ = ("kind",)

    def __init__(self, kind: Hashable) -> None:
        self.kind = kind


def places(old: Sequence[Any], new: Sequence[Any]) -> Iterator[str]:
    """Yields words for the places where the trees of two keys differ, the topmost ones alone."""
    pending: list[tuple[Any, Any, Any]] = [
        ((), *(treedef.unflatten(map(KindLeaf, kinds)) for treedef, kinds, *_ in (old, new)))
    ]
    while pending:
        path, was, now = pending.pop()
        words = node_words(was), node_words(now)
        alike = type(was) is type(now)
        if not alike or (type(was) is KindLeaf and was.kind != now.kind):
            yield f"{argument_name(path)} was {words[0]}, and is {words[1]}"
        elif type(was) is not KindLeaf:
            (before, old_root), (after, new_root) = children(was), children(now)
            yield from (f"{argument_name((*path, e))} is gone" for e in before if e not in after)
            yield from (f"{argument_name((*path, e))} is new" for e in after if e not in before)
            if before.keys() == after.keys() and old_root != new_root:
                yield f"{argument_name(path)} was {bare(old_root)}, and is {bare(new_root)}"
            both = [e for e in before if e in after]
            pending += [((*path, e), before[e], after[e]) for e in reversed(both)]


def children(node: Any) -> tuple[dict[Any, Any], Any]:
    """Returns a node's children by their path entries, and its structure down to them."""
    pairs, root = tree.flatten_with_path(node, is_leaf=lambda x: x is not node)
    return {path[0]: child for path, child in pairs}, root


def argument_name(path: Any) -> str:
    """Returns the name that messages have for a path within ``(args, kwargs)``."""
    return f"argument {path[1].value!r}{tree.keystr(path[2:])}"


def bare(treedef: TreeDef) -> str:
    """Returns the words for a structure."""
    return f"{repr(treedef).removeprefix('TreeDef(').removesuffix(')'):.60}"


def node_words(node: Any) -> str:
    """Returns the words for a node of a tree or for a leaf."""
    if node is None:
        return "None"
    if type(node) is KindLeaf:
        return shown_kind(node.kind)
    name = type(node).__name__
    return f"{'an' if name[0] in 'AEIOUaeiou' else 'a'} {name}"


def shown_kind(kind: Hashable) -> str:
    """Returns the words for the kind of a leaf."""
    if not isinstance(kind, tuple):
        return getattr(kind, "__name__", str(kind))
    shape, dtype, weak, device = kind
    place = "" if device == "cpu" else f" on {device}"
    return f"{ShapeDtype(shape, dtype, weak)}{place}"
