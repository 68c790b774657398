"""Tracebacks as users see them: without the frames of functensor.

Every public entry catches exceptions, lets `tidy` take its own frames out, and raises them again,
which adds no frame. A call without an exception costs nothing more. All frames of the user stay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import TracebackType

from ..config import config
from ..frames import PACKAGE, module_of

__all__ = ["Within", "tidy", "wholly_ours", "without_ours"]

# Frames of these packages count as functensor's where functensor called them.
BENEATH = frozenset(
    (
        *("numpy", "scipy", "cupy", "cupyx", "cupy_backends", "opt_einsum", "ml_dtypes", "nvmath"),
        *("contextlib", "functools", "importlib", "inspect", "threading", "concurrent", "copy"),
        *("collections", "_collections_abc", "abc", "dataclasses", "warnings", "weakref", "enum"),
        "",  # code that was generated
    )
)


class Within:
    """Tells if a function that is being transformed runs; the core puts its own answer here."""

    function: Callable[[], bool] = staticmethod(lambda: False)


def levels(traceback: TracebackType | None) -> Iterator[tuple[TracebackType, bool]]:
    """Yields the levels of a traceback from the outermost in, and whether each is ours."""
    inside = False
    while traceback is not None:
        package = module_of(traceback.tb_frame).partition(".")[0]
        inside = package == PACKAGE or (inside and package in BENEATH)
        yield traceback, inside
        traceback = traceback.tb_next


def wholly_ours(traceback: TracebackType | None) -> bool:
    """Says whether no frame of a traceback is the user's."""
    return all(ours for _, ours in levels(traceback))


def without_ours(traceback: TracebackType | None) -> TracebackType | None:
    """Returns a traceback without the frames of functensor, and of what those called."""
    known = list(levels(traceback))
    if not any(ours for _, ours in known):
        return traceback
    out = None
    for level, ours in reversed(known):
        if not ours:
            out = TracebackType(out, level.tb_frame, level.tb_lasti, level.tb_lineno)
    return out


def tidy(error: BaseException) -> None:
    """Takes the frames of functensor out of an exception that is about to reach the user.

    Its cause and context are treated likewise. They are left out if no frame of their tracebacks
    remains, as they were raised and caught in here. Nothing is done within a transformation, since
    the exception passes the transformation's own entry later.
    """
    if Within.function() or config.full_tracebacks:
        return
    seen: set[int] = set()
    each: BaseException | None = error
    while each is not None and id(each) not in seen:
        seen.add(id(each))
        each.__traceback__ = without_ours(each.__traceback__)
        cause, context = each.__cause__, each.__context__
        if cause is not None and _is_inner(cause):
            each.__cause__ = cause = None
            each.__suppress_context__ = True
        if context is not None and _is_inner(context):
            # An error that is kept would keep all that those frames have.
            each.__context__ = context = None
            each.__suppress_context__ = True
        each = cause if cause is not None or each.__suppress_context__ else context


def _is_inner(error: BaseException) -> bool:
    """Says whether an exception was raised and caught in here."""
    return error.__traceback__ is not None and without_ours(error.__traceback__) is None
