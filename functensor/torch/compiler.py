"""PyTorch's choices about compiled functions, and questions: ``torch.compiler``.

>>> import functensor.torch as torch
>>> seen = []
>>> @torch.compile
... def double(x):
...     seen.append(torch.compiler.is_compiling())
...     return x * 2
>>> double(torch.ones(2)).tolist(), seen, torch.compiler.is_compiling()
([2.0, 2.0], [True], False)
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, update_wrapper, wraps
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ..backends.errors.public_functions import check_function
from ..backends.restoring import InC, leaving, taken_off
from ..faces.publish import publish
from ..primitives.core.errors import function_name
from ..primitives.core.trace import is_staged
from .graph_breaks import GraphBreak, compiling

if TYPE_CHECKING:
    from .compiled import compile

__all__ = [
    "allow_in_graph", "assume_constant_result", "compile", "cudagraph_mark_step_begin", "disable",
    "is_compiling", "is_dynamo_compiling", "is_exporting", "reset", "set_stance",
]  # fmt: skip

STANCES = {"default": False, "force_eager": True}


def is_compiling() -> bool:
    """Says whether a program is being staged, by ``torch.compile`` or by `functensor.jit`."""
    return is_staged()


def is_dynamo_compiling() -> bool:
    """Says the same as `is_compiling`."""
    return is_staged()


def is_exporting() -> bool:
    """Returns False: nothing is exported."""
    return False


def reset() -> None:
    """Does nothing: the plans of a compiled function are its own, and go with it."""


def cudagraph_mark_step_begin() -> None:
    """Does nothing: results of a plan keep their memory in later calls."""


def allow_in_graph(fn: Any) -> Any:
    """Returns a function, or a list of them, as it is: all are staged."""
    return fn


def assume_constant_result(fn: Any) -> Any:
    """Returns a function as it is: what it returns while another is staged is a constant."""
    return fn


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """Returns a function that is never compiled, and with it the compiled function that calls it.

    `functensor.jit` stages it as any other.

    Args:
        fn: a function; a module, whose ``forward`` is replaced; or a class, whose calls are.
            Without it a decorator is returned.
        recursive: no effect.
        reason: what the warning says of it.

    >>> import functensor.torch as torch
    >>> seen = []
    >>> @torch.compiler.disable(reason="it writes to a list")
    ... def note(x):
    ...     seen.append(x.sum().item())
    >>> @torch.compile
    ... def double(x):
    ...     note(x)
    ...     return x * 2
    >>> import warnings
    >>> with warnings.catch_warnings(action="ignore"):
    ...     double(torch.ones(2)).tolist(), double(torch.zeros(3)).tolist(), seen
    ([2.0, 2.0], [0.0, 0.0, 0.0], [2.0, 0.0])
    """
    if fn is None:
        return partial(disable, recursive=recursive, reason=reason)
    from .nn.module import Module

    if isinstance(fn, type):
        kind: Any = fn
        kind.__call__ = disable(kind.__call__, reason=reason)
        return fn
    if isinstance(fn, Module):
        fn.forward = disable(fn.forward, reason=reason)  # type: ignore[method-assign]
        return fn
    check_function("disable", fn, "fn")
    why = "" if reason is None else f": {reason}"

    @wraps(fn)
    def uncompiled(*args: Any, **kwargs: Any) -> Any:
        if compiling.staged and is_staged():
            raise GraphBreak(f"{function_name(fn)} is not to be compiled{why}")
        return fn(*args, **kwargs)

    return uncompiled


class set_stance:
    """Sets how this thread calls compiled functions, from here on.

    In a ``with`` statement it does so for the block, and as a decorator for the function's calls.

    Args:
        stance: ``"force_eager"``, which runs them as they are; or ``"default"``.
        skip_guard_eval_unsafe, force_backend: no effect.

    Raises:
        ValueError: it is another word.

    >>> import functensor.torch as torch
    >>> compiled = torch.compile(lambda x: x + torch.compiler.is_compiling())
    >>> with torch.compiler.set_stance("force_eager"):
    ...     print(compiled(torch.zeros(1)).item())
    0.0
    """

    def __init__(
        self, stance: str = "default", *, skip_guard_eval_unsafe: bool = False,
        force_backend: Any = None,
    ) -> None:  # fmt: skip
        if stance not in STANCES:
            words = " and ".join(map(repr, STANCES))
            raise ValueError(f"set_stance: there are {words}, not {stance!r}")
        self._before = compiling.eager
        compiling.eager = self._eager = STANCES[stance]

    def __enter__(self) -> None:
        before = compiling.before
        end = len(before)
        before[end:] = (self._before,)
        compiling.eager = self._eager

    @InC
    def __exit__(self) -> Any:
        return leaving(taken_off(compiling.before, setattr, compiling, "eager"))

    def __call__(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        """Returns a function that runs with this choice; it ends for all others."""
        compiling.eager = self._before
        check_function("set_stance", fn, "fn")
        eager = self._eager

        def with_choice(*args: Any, **kwargs: Any) -> Any:
            before = compiling.eager
            try:
                compiling.eager = eager
                return fn(*args, **kwargs)
            finally:
                compiling.eager = before

        return update_wrapper(with_choice, fn)


def _compile() -> Any:
    """Returns `torch.compile`, which is imported when it is first used."""
    return import_module("functensor.torch").compile


publish(globals(), made={"compile": _compile})
