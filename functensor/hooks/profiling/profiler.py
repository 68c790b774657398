"""``profile``: runs a function under a hook that writes down what happens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ... import tree
from ...backends.errors.public_functions import check_function
from ...primitives.core.errors import function_name
from ..handle import wrap
from .recording import BothWays, Recording
from .report import Report

__all__ = ["profile"]


def profile(fun: Callable[..., Any], *, backward: bool = True) -> Callable[..., Report]:
    """Returns a function that runs ``fun`` once and reports where its time and memory went.

    The report tells of every operation, forward and backward, with the user's lines and scopes; its
    page has a timeline, the memory that was alive, the hottest lines, and tables. ``fun`` may use
    `grad`, `vmap`, `jit` and the ``backward`` of tensors. Each operation of a jitted function is
    run and timed by itself, so that the sum is more than what its plan takes.

    Args:
        fun: any function.
        backward: whether to watch the way back too. An operation that is watched keeps all its
            operands for that, and not only what its rule needs. Without it, memory has exactly what
            is made forward, for as long as the plain run keeps it, and nothing of the way back.

    Returns:
        A function of the same arguments, which returns a report: ``str()`` is a table,
        ``.save("profile.html")`` writes the page, ``.result`` is what ``fun`` returned.

    >>> import functensor as ft, functensor.numpy as np
    >>> def loss(w, x):
    ...     with ft.scope("layer"):
    ...         y = np.tanh(x @ w)
    ...     return np.sum(y**2)
    >>> report = ft.hooks.profile(ft.grad(loss))(np.ones((3, 4)), np.ones((2, 3)))
    >>> [(event.name, event.phase) for event in report.events][2:5]
    [('square', 'forward'), ('sum', 'forward'), ('sum', 'backward')]
    >>> [(row.name, row.calls, row.bytes) for row in report.by_scope()]
    [('layer', 4, 288)]
    """
    check_function("profile", fun)

    def profiled(*args: Any, **kwargs: Any) -> Report:
        recording = BothWays() if backward else Recording()
        recording.hold(tree.leaves((args, kwargs)), "argument")
        result = wrap(fun, recording)(*args, **kwargs)
        total = recording.finish()
        told = recording.events, recording.lifetimes
        return Report(function_name(fun), result, total, backward, *told)

    return profiled
