"""The search for NaN on the way back, by PyTorch's names."""

from __future__ import annotations

import threading
from functools import partial
from typing import Any

from ...backends.restoring import Restoring
from ...hooks import Hook, check_finite, use
from .blocks import HookBlock

__all__ = ["detect_anomaly", "set_detect_anomaly"]


class detect_anomaly(HookBlock):
    """Makes it an error that an operation, or the way back through it, makes NaN.

    It is a context manager. The error, a `NonFiniteError`, names the operation, the line that
    called it and the ranges of its operands, as those of `functensor.hooks.check_finite` do.

    Args:
        check_nan: whether NaN is looked for.

    >>> import functensor.torch as torch, functensor as ft
    >>> x = torch.tensor(0.0, requires_grad=True)
    >>> with torch.autograd.detect_anomaly():
    ...     try:
    ...         (x.sqrt() * 0).backward()
    ...     except ft.errors.NonFiniteError as error:
    ...         print(str(error).split(",")[0])
    the gradient of sqrt by operand 0
    """

    def __init__(self, check_nan: bool = True) -> None:
        super().__init__(partial(search, check_nan))


def search(check_nan: bool) -> Any:
    """Begins to look for NaN, if it is wanted, and returns the handle."""
    return check_finite(nan=True, inf=False) if check_nan else use(Hook())


class SearchSwitch(threading.local):
    """The search that `set_detect_anomaly` has begun in a thread, if it goes on."""

    current: Any = None


switch = SearchSwitch()


class set_detect_anomaly(Restoring):
    """Begins or ends that search for this thread; leaving it as a ``with`` block ends it.

    Args:
        mode: whether to search.
        check_nan: whether NaN is looked for.
    """

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        if switch.current is not None:
            switch.current.remove()
        switch.current = search(check_nan) if mode else None
        self.close = switch.current._left if mode else bool
