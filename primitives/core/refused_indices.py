"""Traced indices that NumPy asked for and was refused: the error that users are to see for them."""

from __future__ import annotations

import threading
from typing import Any
from weakref import ref

from ...backends.errors.asked_values import Refused, asking, with_clause
from .errors import ConcretizationError

__all__ = ["last_refusal", "refused_index"]


class LastRefused(threading.local):
    """The last index that was refused in a thread.

    Attributes:
        last: the instruction that asked for it, the tracer's class, the message and the tracer.
    """

    last: tuple[tuple[Any, int], str, str, ref[Any]] | None = None


last_refusal = LastRefused()


def is_about(error: Exception) -> bool:
    """Says whether an error of NumPy's is about the last index that was refused."""
    if last_refusal.last is None or type(error) is not TypeError:
        return False
    place, name, _, _ = last_refusal.last
    if name not in str(error):
        return False
    level = error.__traceback__
    while level is not None:
        if place == (level.tb_frame.f_code, level.tb_lasti):
            return True
        level = level.tb_next
    return False


def refused_value(error: Exception) -> Any:
    """Returns the traced index that an error of NumPy's is about, or None."""
    return last_refusal.last[-1]() if last_refusal.last is not None and is_about(error) else None


def refused_index(error: TypeError) -> ConcretizationError | None:
    """Returns the error for a traced index in whose place NumPy has put a ``TypeError`` of its own.

    Functions that take a shape, ``np.zeros(n)``, say of anything else that it is no index.
    """
    if last_refusal.last is None or not is_about(error):
        return None
    *_, text, traced = last_refusal.last
    out = ConcretizationError(with_clause(text, getattr(error, "clause", "")))
    value = traced()
    return out if value is None else asking(out, value)


Refused.value = staticmethod(refused_value)
