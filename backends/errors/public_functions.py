"""Public functions and methods as users get them: wrappers that prepare exceptions for users.

A wrapper costs the call of one function. It stands around the function of a public name.
functensor's own modules call the function inside of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import update_wrapper
from types import CodeType, FunctionType
from typing import Any

__all__ = [
    "CODE", "begins", "check_function", "complain", "entry", "guarded", "is_entry", "registering",
    "wrap_methods", "writing",
]  # fmt: skip


def complain(error: Exception, *call: Any) -> None:
    """Calls ``wrong_calls.prepare_for_user``, a module that is imported for errors alone."""
    from .wrong_calls import prepare_for_user

    prepare_for_user(error, *call)


def check_function(name: str, fun: Any, parameter: str = "fun") -> None:
    """Raises a ``TypeError`` for an argument that is not a function, but the result of one."""
    if not callable(fun):
        from .wrong_calls import not_a_function

        raise TypeError(not_a_function(name, parameter, fun))


def guarded(function: Callable[..., Any], name: str, bound: int = 0) -> Callable[..., Any]:
    """Returns a function that does the same, and whose exceptions are made for users.

    Args:
        function: a function.
        name: its public name.
        bound: how many of its first arguments are not the user's: 1 for a method.
    """

    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            complain(error, function, name, args, kwargs, bound)
            raise

    return call


def registering(function: Callable[..., Any], name: str, bound: int = 0) -> Callable[..., Any]:
    """Returns what `guarded` does, for a function whose registration begins when it returns.

    An interrupt may come after the call of the function. Nothing is called in C after the
    registration has begun, so that it is in a ``with`` statement's hands before one can come.
    """

    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            registration = function(*args, **kwargs)
        except Exception as error:
            complain(error, function, name, args, kwargs, bound)
            raise
        return registration._begin()

    return call


def writing(
    write: Callable[..., Any],
) -> Callable[[Callable[..., Any], str, int], Callable[..., Any]]:
    """Returns a maker as `guarded` of wrappers that take ``out``.

    Args:
        write: takes a function, its public name, its arguments, and those by keywords, ``out``
            among them.
    """

    def make(function: Callable[..., Any], name: str, bound: int = 0) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            try:
                if "out" in kwargs:
                    return write(function, name, args, kwargs)
                return function(*args, **kwargs)
            except Exception as error:
                complain(error, function, name, args, kwargs, bound)
                raise

        return call

    return make


def begins(function: Any) -> Any:
    """Marks a function that returns a registration, which its public form begins."""
    function.begins = True
    return function


# All wrappers have one of these: frames that run it stand between a function and its caller.
CODE: CodeType = guarded(len, "").__code__
REGISTERING: CodeType = registering(len, "").__code__
WRITING: CodeType = writing(len)(len, "", 0).__code__


def is_entry(function: Any) -> bool:
    """Says whether a function is such a wrapper."""
    return getattr(function, "__code__", None) in (CODE, REGISTERING, WRITING)


def entry(
    function: Any, name: str, bound: int = 0, write: Callable[..., Any] | None = None
) -> Any:
    """Returns the wrapper of `guarded` with the function's name, signature and documentation.

    With ``write`` it is that of `writing`.
    """
    make: Callable[[Callable[..., Any], str, int], Callable[..., Any]]
    make = registering if hasattr(function, "begins") else guarded
    if write is not None:
        make = writing(write)
    out: Any = make(function, name, bound)
    if type(function) is not FunctionType:
        return update_wrapper(out, function)
    # ``update_wrapper`` takes longer, as it looks up annotations.
    out.__name__, out.__qualname__ = function.__name__, function.__qualname__
    out.__doc__, out.__module__ = function.__doc__, function.__module__
    if function.__dict__:
        out.__dict__.update(function.__dict__)
    out.__wrapped__ = function
    return out


def wrap_methods(
    cls: type, name: str, methods: Iterable[str] | None = None, constructor: str = ""
) -> None:
    """Replaces methods that a class defines by such functions.

    Args:
        cls: the class.
        name: its public name, to which that of a method is added.
        methods: which methods; all public ones by default.
        constructor: by what name the class is called.
    """
    for key, value in list(vars(cls).items()):
        chosen = key in methods if methods is not None else not key.startswith("_")
        if not chosen or is_entry(value):
            continue
        if type(value) is FunctionType:
            shown = {"__init__": constructor or name, "__call__": name}.get(key, f"{name}.{key}")
            setattr(cls, key, entry(value, shown, 1))
        elif isinstance(value, classmethod | staticmethod):
            bound = int(isinstance(value, classmethod))
            kind: Any = type(value)
            setattr(cls, key, kind(entry(value.__func__, f"{name}.{key}", bound)))
