"""The switch of every thread by which tensors record what is done with them."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any, overload

from ..backends.errors.public_functions import check_function
from ..backends.restoring import InC, leaving, taken_off

__all__ = ["GradMode", "enable_grad", "is_grad_enabled", "mode", "no_grad"]


class Mode(threading.local):
    """The switch of one thread, and what it was before each block that set it.

    Attributes:
        last_pass: the number of nodes there were when the last backward pass ended.
    """

    enabled = True
    last_pass = -1

    def __init__(self) -> None:
        self.before: list[bool] = []


mode = Mode()


class GradMode:
    """Sets the switch for the length of a ``with`` block, or of a function's call.

    One object may be used in nested blocks, and in several threads at once.
    """

    __slots__ = ("_enabled",)

    def __init__(self, enabled: bool) -> None:
        self._enabled = enabled

    def __enter__(self) -> None:
        before = mode.before
        end = len(before)
        # No call, after which an interrupt could come.
        before[end:] = (mode.enabled,)
        mode.enabled = self._enabled

    @InC
    def __exit__(self) -> Any:
        return leaving(taken_off(mode.before, setattr, mode, "enabled"))

    def __call__(self, fun: Callable[..., Any]) -> Callable[..., Any]:
        """Returns a function that runs under this mode.

        Raises:
            TypeError: it only starts when its result is waited for or iterated over.
        """
        import inspect  # costs milliseconds

        if inspect.isgeneratorfunction(fun) or inspect.iscoroutinefunction(fun):
            raise TypeError(
                f"{fun.__name__} is a generator or a coroutine and runs after its call: "
                "put a with block around the code inside of it"
            )

        @functools.wraps(fun)
        def under_mode(*args: Any, **kwargs: Any) -> Any:
            with self:
                return fun(*args, **kwargs)

        return under_mode


@overload
def no_grad() -> GradMode: ...
@overload
def no_grad(fun: Callable[..., Any]) -> Callable[..., Any]: ...
def no_grad(fun: Callable[..., Any] | None = None) -> Any:
    """Stops tensors from recording, for a ``with`` block or a decorated function.

    Args:
        fun: the function, where it is used as a decorator without parentheses.

    Returns:
        A context manager that is a decorator too.

    >>> import functensor as ft
    >>> w = ft.Tensor([1.0], requires_grad=True)
    >>> with ft.no_grad():
    ...     w -= 0.5
    >>> w
    Tensor([0.5], dtype=float32, requires_grad=True)
    """
    return _with_mode("no_grad", False, fun)


@overload
def enable_grad() -> GradMode: ...
@overload
def enable_grad(fun: Callable[..., Any]) -> Callable[..., Any]: ...
def enable_grad(fun: Callable[..., Any] | None = None) -> Any:
    """Lets tensors record again within `no_grad`; used as that is.

    Args:
        fun: the function, where it is used as a decorator without parentheses.

    Returns:
        A context manager that is a decorator too.

    >>> import functensor as ft
    >>> with ft.no_grad(), ft.enable_grad():
    ...     print(ft.is_grad_enabled())
    True
    """
    return _with_mode("enable_grad", True, fun)


def _with_mode(name: str, records: bool, fun: Callable[..., Any] | None) -> Any:
    """Returns a context manager, or a function that is decorated with one."""
    if fun is None:
        return GradMode(records)
    check_function(name, fun)
    return GradMode(records)(fun)


def is_grad_enabled() -> bool:
    """Says whether tensors of this thread record what is done with them.

    >>> import functensor as ft
    >>> ft.is_grad_enabled()
    True
    """
    return mode.enabled
