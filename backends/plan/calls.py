"""How what is no function of NumPy is called from generated code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

__all__ = ["Face", "apart", "on_buffers"]


class Face:
    """What wraps a buffer for calls of users' functions; the floor that has arrays puts it here."""

    exposed: Callable[[Any], Any] = staticmethod(lambda buffer: buffer)


def on_buffers(call: Any) -> Callable[[Sequence[Any]], Sequence[Any]]:
    """Returns a call of several outputs as a function of a list of buffers."""
    own: Callable[[Sequence[Any]], Sequence[Any]] | None = getattr(call, "on_buffers", None)
    if own is not None:
        return own

    def run(operands: Sequence[Any]) -> Sequence[Any]:
        outs = call.bind([Face.exposed(x) for x in operands])
        return [getattr(out, "_data", out) for out in outs]

    return run


def apart(value: Any, *others: Any) -> Any:
    """Returns a result that shares no memory with others, which it may be a view of."""
    if type(value) is np.ndarray and any(np.may_share_memory(value, x) for x in others):
        return value.copy()
    return value
