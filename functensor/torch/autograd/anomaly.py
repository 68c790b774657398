"""The search for NaN on the way back, by PyTorch's names."""

from __future__ import annotations

import threading
from typing import Any

from ...hooks import check_finite

__all__ = ["detect_anomaly", "set_detect_anomaly"]


class Anomalies:
    """A switch that is set at once, and set back by a ``with`` block."""

    def __init__(self, on: bool, check_nan: bool) -> None:
        self._handle: Any = check_finite(nan=True, inf=False) if on and check_nan else None

    def __enter__(self) -> None:
        return None

    def __exit__(self, *exception: object) -> None:
        self.remove()

    def remove(self) -> None:
        """Ends the search."""
        handle, self._handle = self._handle, None
        if handle is not None:
            handle.remove()


def detect_anomaly(check_nan: bool = True) -> Anomalies:
    """Makes it an error that an operation, or the way back through it, makes NaN.

    The error, a `NonFiniteError`, names the operation, the line that called it and the ranges of
    its operands, as those of `functensor.hooks.check_finite` do.

    Args:
        check_nan: whether NaN is looked for.

    Returns:
        A context manager.

    >>> import functensor.torch as torch, functensor as ft
    >>> x = torch.tensor(0.0, requires_grad=True)
    >>> with torch.autograd.detect_anomaly():
    ...     try:
    ...         (x.sqrt() * 0).backward()
    ...     except ft.errors.NonFiniteError as error:
    ...         print(str(error).split(",")[0])
    the gradient of sqrt by operand 0
    """
    return Anomalies(True, check_nan)


class Switch(threading.local):
    """The search that `set_detect_anomaly` has begun in a thread, if it goes on."""

    current: Anomalies | None = None


switch = Switch()


def set_detect_anomaly(mode: bool, check_nan: bool = True) -> Anomalies:
    """Begins or ends that search for this thread; also a context manager.

    Args:
        mode: whether to search.
        check_nan: whether NaN is looked for.
    """
    if switch.current is not None:
        switch.current.remove()
    switch.current = Anomalies(mode, check_nan)
    return switch.current
