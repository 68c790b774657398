"""Context managers that set something back at their end, wherever an interrupt comes.

CPython looks for Ctrl-C where a function of Python begins, after a call of one of C, and where a
loop goes back. So an ``__exit__`` of Python may be interrupted before its first line, and what it
should have set back stays: for good, if it is the state of a thread. Here C code runs at the end
of a block: ``__exit__`` of ``io.IOBase`` calls ``close``, which is a function of C with its
arguments. ``tests/core/test_interrupts.py`` interrupts at every such place.

An ``__enter__`` of Python is as good as one of C if it stores what it sets by an assignment, after
which nothing is called any more. So is a ``finally`` that assigns before it calls anything.
"""

from __future__ import annotations

import io
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import ContextDecorator
from copy import copy
from functools import partial
from itertools import islice
from operator import call
from typing import Any, Self, TypeVar

import numpy as np

__all__ = [
    "InC", "Restoring", "errstate", "in_turn", "leaving", "listed", "quiet", "reporting", "setting",
    "silently", "taken_off",
]  # fmt: skip

Result = TypeVar("Result")


class Restoring(io.IOBase):
    """A context manager whose end is C code that calls ``close``; made anew for every block.

    Attributes:
        close: a function of C, or one of C with its arguments, that returns what is false.
    """

    __slots__ = ("close",)

    # Python would close an open one again when it is deleted.
    closed = True
    # Each object has its own, in place of the base's method.
    close: Any

    def __enter__(self) -> Any:
        return None


def leaving(close: Callable[[], Any]) -> Callable[..., Any]:
    """Returns a function of C that takes any arguments and calls one that takes none."""
    restoring = Restoring()
    restoring.close = close
    return restoring.__exit__


class InC(property):
    """A method of a context manager that is found as an attribute's value is.

    A ``with`` statement finds its methods before it enters the block.
    """

    def __call__(self, instance: Any, *args: Any) -> Any:
        # ``ExitStack`` asks the class, gets the property itself, and calls it as a method.
        assert self.fget is not None
        return self.fget(instance)(*args)


def in_turn(calls: Iterable[Callable[[], Any]]) -> Callable[[], Any]:
    """Returns what calls some functions once, the first time that it is called, in C."""
    return partial(deque, map(call, calls), 0)


def taken_off(stack: list[Any], use: Callable[..., Any], *args: Any) -> Callable[[], Any]:
    """Returns what calls a function, once, with what it takes off a stack as the last argument."""
    last: Any = iter(stack.pop, None)
    # Other arguments, of which there is one each, come to an end before it is asked again.
    return partial(deque, map(use, *zip(args), last if args else islice(last, 1)), 0)


class setting(Restoring, ContextDecorator):
    """Gives attributes of an object other values, for the length of a ``with`` block.

    Args:
        owner: the object, whose class stores attributes as usual; of one that every thread has
            its own of, that of this thread.
        values: the attributes' values by their names.
    """

    def __init__(self, owner: Any, **values: Any) -> None:
        self._owner = owner
        self._values = values

    def __enter__(self) -> Any:
        if hasattr(self, "close"):
            raise RuntimeError("the object was used in a with statement before: make one for each")
        owner = self._owner
        before = {name: getattr(owner, name) for name in self._values}
        self.close = partial(owner.__dict__.update, before)
        try:
            owner.__dict__.update(self._values)
        except BaseException:
            self.close()
            raise

    def _recreate_cm(self) -> Self:
        # For every call of a decorated function.
        return type(self)(self._owner, **{n: copy(v) for n, v in self._values.items()})


class listed(Restoring):
    """Puts what equals nothing else onto the end of a list, for the length of a ``with`` block."""

    __slots__ = ("_entries", "_entry")

    def __init__(self, entries: list[Any], entry: Any) -> None:
        self._entries = entries
        self._entry = entry
        self.close = partial(entries.remove, entry)

    def __enter__(self) -> Any:
        end = len(self._entries)
        # An assignment, as an interrupt could come after a call.
        self._entries[end:] = (self._entry,)


# NumPy keeps how it treats overflow, invalid values and their kin in a variable of the context.
try:
    from numpy._core.umath import _extobj_contextvar as treatment
    from numpy._core.umath import _make_extobj as treating

    QUIET = treating(all="ignore")

    class quiet(Restoring):
        """Has NumPy say nothing of overflow, invalid values and their kin in a ``with`` block."""

        __slots__ = ()

        def __enter__(self) -> Any:
            before = treatment.get()
            try:
                self.close = partial(treatment.reset, treatment.set(QUIET))
            except BaseException:
                treatment.set(before)
                raise

    class errstate(Restoring):
        """Works as ``numpy.errstate``, and sets the state back wherever an interrupt comes.

        Args:
            choices: as there, and ``bufsize``, for how many numbers NumPy's buffers are.
        """

        __slots__ = ("_choices",)

        def __init__(self, **choices: Any) -> None:
            self._choices = choices

        def __enter__(self) -> Any:
            before = treatment.get()
            try:
                chosen = treating(**self._choices)
                self.close = partial(treatment.reset, treatment.set(chosen))
            except BaseException:
                treatment.set(before)
                raise

    def silently(run: Callable[..., Result], args: Sequence[Any]) -> Result:
        """Calls a function while NumPy says nothing of overflow and invalid values."""
        before = treatment.get()
        try:
            treatment.set(QUIET)
            return run(*args)
        finally:
            treatment.set(before)

    def reporting(
        report: Callable[[str, int], Any], run: Callable[..., Result], args: Sequence[Any]
    ) -> Result:
        """Calls a function while NumPy tells another one of overflow and invalid values.

        Args:
            report: is called with NumPy's words for what happened, and a number, by the thread
                that computes.
            run, args: the function and its arguments.
        """
        before = treatment.get()
        try:
            telling = treating(
                all="ignore", divide="call", over="call", invalid="call", call=report
            )
            treatment.set(telling)
            return run(*args)
        finally:
            treatment.set(before)
except ImportError:
    # Another NumPy keeps it elsewhere, and sets it back but for an interrupt.

    class errstate(np.errstate):  # type: ignore[no-redef]
        """Works as ``numpy.errstate``, and sets the size of NumPy's buffers too."""

        def __init__(self, *, bufsize: int = 0, **choices: Any) -> None:
            super().__init__(**choices)
            self._bufsize = bufsize

        def __enter__(self) -> None:
            super().__enter__()
            if self._bufsize:
                self._bufsize = np.setbufsize(self._bufsize)

        def __exit__(self, *error: Any) -> None:
            if self._bufsize:
                np.setbufsize(self._bufsize)
            super().__exit__(*error)

    class quiet(errstate):  # type: ignore[no-redef]
        """Has NumPy say nothing of overflow, invalid values and their kin in a ``with`` block."""

        def __init__(self) -> None:
            super().__init__(all="ignore")

    def silently(run: Callable[..., Result], args: Sequence[Any]) -> Result:
        """Calls a function while NumPy says nothing of overflow and invalid values."""
        with quiet():
            return run(*args)

    def reporting(
        report: Callable[[str, int], Any], run: Callable[..., Result], args: Sequence[Any]
    ) -> Result:
        """Calls a function while NumPy tells another one of overflow and invalid values."""
        with errstate(all="ignore", divide="call", over="call", invalid="call", call=report):
            return run(*args)
