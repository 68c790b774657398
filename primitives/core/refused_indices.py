"""Traced indices that NumPy asked for and was refused: the error that users are to see for them."""

from __future__ import annotations

import threading
from typing import Any
from weakref import ref

from ...backends.errors.asked_values import asking, name_the_asking
from .errors import ConcretizationError

__all__ = ["refused", "refused_index"]


class Refused(threading.local):
    """The last index that was refused in a thread.

    Attributes:
        last: the instruction that asked for it, the tracer's class, the message and the tracer.
    """

    last: tuple[tuple[Any, int], str, str, ref[Any]] | None = None


refused = Refused()


def refused_index(error: TypeError) -> ConcretizationError | None:
    """Returns the error for a traced index in whose place NumPy has put a ``TypeError`` of its own.

    What takes a shape, ``np.zeros(n)``, says of whatever is no index that it is none.
    """
    if refused.last is None or type(error) is not TypeError:
        return None
    place, name, text, traced = refused.last
    if name not in str(error):
        return None
    level = error.__traceback__
    while level is not None:
        if place == (level.tb_frame.f_code, level.tb_lasti):
            out: ConcretizationError = asking(ConcretizationError(text), traced())
            if hasattr(error, "call"):
                name_the_asking(out, *error.call)
            return out
        level = level.tb_next
    return None
