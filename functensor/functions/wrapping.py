"""The results of transformations: called as fast as a function, and pickled."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial, update_wrapper
from operator import attrgetter
from types import MethodType
from typing import Any

from ..backends.errors.public_functions import check_function, guarded
from ..primitives.core.errors import function_name

__all__ = ["Transformed", "pickled", "transformed"]


class Transformed(partial[Any]):
    """A transformed function, which is pickled as the call of the transformation that made it.

    Attributes:
        made_by: the transformation, and the arguments that it was called with.
    """

    made_by: tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]

    def __get__(self, instance: object | None, owner: type | None = None) -> Any:
        return self if instance is None else MethodType(self, instance)

    def __reduce__(self) -> str | tuple[Any, ...]:
        return pickled(self, self.made_by)

    def __copy__(self) -> Transformed:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Transformed:
        return self

    def __repr__(self) -> str:
        make, _, _ = self.made_by
        return f"<{make.__name__.lstrip('_')} of {getattr(self, '__qualname__', self.func)}>"


def pickled(
    function: Callable[..., Any],
    made_by: tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]],
) -> str | tuple[Any, ...]:
    """Returns what ``__reduce__`` does for a transformed function: its name, or how it was made."""
    module = sys.modules.get(function.__module__)
    name: str = getattr(function, "__qualname__", "")
    # A decorator puts the result in the place of the function, whose name it then has. No module
    # knows the name of a function that was made within another.
    with suppress(AttributeError):
        if attrgetter(name)(module) is function:
            return name
    return _made, made_by


def _made(make: Callable[..., Any], args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    return make(*args, **options)


def transformed(
    call: Callable[..., Any],
    fun: Callable[..., Any],
    make: Callable[..., Any],
    *args: Any,
    **options: Any,
) -> Callable[..., Any]:
    """Returns a function with another one's name and signature, which can be pickled.

    Exceptions leave it without the frames of functensor.

    Args:
        call: what it does.
        fun: the function that was transformed.
        make: makes the same again of ``args`` and ``options``; a module's own function.
        args, options: the arguments.

    >>> import math, operator
    >>> again = transformed(lambda x: -x, math.sqrt, operator.methodcaller, "sqrt")
    >>> again(2.0), again.__name__
    (-2.0, 'sqrt')
    """
    # A function that makes several transformations gets the name of each.
    name = args[0] if args and type(args[0]) is str else make.__name__
    check_function(name, fun)
    out = Transformed(guarded(call, f"{name}({function_name(fun)})"))
    update_wrapper(out, fun)
    out.made_by = make, args, options
    return out
