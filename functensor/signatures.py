"""Which arguments of a jitted function are static and which are given away."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import update_wrapper
from typing import Any

from . import tree
from .arguments import is_array_like
from .primitives.errors import function_name, message

__all__ = ["Signature", "StaticArgumentError"]

Places = tuple[int | str, ...]


class StaticArgumentError(TypeError):
    """A static argument cannot be hashed (docs/errors.md#error-11)."""


class Signature:
    """The arguments of a function, sorted by what is done with them.

    Args:
        fun: the function.
        static_argnums, static_argnames: positions and names of arguments that are constants.
        donate_argnums, donate_argnames: those whose buffers may be overwritten.

    Raises:
        ValueError: the function has no such argument, or one is both.
    """

    def __init__(
        self,
        fun: Callable[..., Any],
        static_argnums: int | Iterable[int] | None,
        static_argnames: str | Iterable[str] | None,
        donate_argnums: int | Iterable[int] | None,
        donate_argnames: str | Iterable[str] | None,
    ) -> None:
        self._fun = fun
        self._positional: list[str] = []
        chosen = (static_argnums, static_argnames, donate_argnums, donate_argnames)
        if any(x is not None and x != () for x in chosen):
            self._read(fun)
        self._static = self._places("static", static_argnums, static_argnames)
        self._donated = self._places("donate", donate_argnums, donate_argnames)
        both = set(self._static) & set(self._donated)
        if both:
            raise ValueError(f"jit of {function_name(fun)}: {min(map(str, both))} is static and "
                             "donated, but a static argument has no buffer to give away")

    def _read(self, fun: Callable[..., Any]) -> None:
        import inspect  # costs milliseconds

        try:
            parameters = inspect.signature(fun).parameters.values()
        except (TypeError, ValueError):  # some functions that are written in C
            self._known = False
            return
        self._known = not any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters)
        self._names = [p.name for p in parameters]
        self._positional = [
            p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
        ]

    def _places(
        self, kind: str, nums: int | Iterable[int] | None, names: str | Iterable[str] | None
    ) -> Places:
        """Returns positions and names: an argument that can be passed either way has both."""
        numbers = [nums] if isinstance(nums, int) else list(nums or ())
        named = [names] if isinstance(names, str) else list(names or ())
        count = len(self._positional)
        for i in numbers:
            if not isinstance(i, int):
                raise TypeError(f"{kind}_argnums holds positions, not {i!r}")
            if self._known and not -count <= i < count:
                raise ValueError(
                    f"jit of {function_name(self._fun)}: {kind}_argnums={i}, but it has {count} "
                    "positional arguments"
                )
        for name in named:
            if self._known and name not in self._names:
                raise ValueError(
                    f"jit of {function_name(self._fun)}: {kind}_argnames={name!r}, but its "
                    f"arguments are {', '.join(self._names)}"
                )
        out: list[int | str] = []
        for i in numbers:
            i = i % count if self._known else i
            out += [i, self._positional[i]] if 0 <= i < count else [i]
        for name in named:
            places = [self._positional.index(name)] if name in self._positional else []
            out += [*places, name]
        return tuple(dict.fromkeys(out))

    def static_places(self, count: int) -> Places:
        """Returns the positions and names of static arguments in a call with so many arguments."""
        return tuple(p % count if isinstance(p, int) and p < 0 else p for p in self._static)

    def split(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
        """Returns a call's arguments with None for static ones, and a key of those.

        Raises:
            StaticArgumentError: one cannot be hashed.
        """
        if not self._static:
            return (args, kwargs), ()
        positional, named = list(args), dict(kwargs)
        static: list[tuple[int | str, type, Any]] = []
        for place in self.static_places(len(args)):
            given: Any = named if isinstance(place, str) else positional
            if place in named if isinstance(place, str) else place < len(positional):
                value = given[place]
                self._check_hashable(place, value)
                static.append((place, type(value), value))
                given[place] = None
        return (tuple(positional), named), tuple(static)

    def _check_hashable(self, place: int | str, value: Any) -> None:
        try:
            hash(value)
        except TypeError:
            name = place
            if isinstance(place, int) and place < len(self._positional):
                name = self._positional[place]
            raise StaticArgumentError(
                message(
                    f"jit of {function_name(self._fun)}: the static argument {name!r} is of type "
                    f"{type(value).__name__}, which cannot be hashed: its value is part of what "
                    "the function is staged for",
                    fix="pass a tuple instead of a list, or drop it from static_argnums so that "
                    "it is traced",
                    number=11,
                )
            ) from None

    def filled(self, fun: Callable[..., Any], static: Sequence[Any]) -> Callable[..., Any]:
        """Returns the function of the arguments that are not static."""
        if not static:
            return fun

        def filled(*args: Any, **kwargs: Any) -> Any:
            positional, named = list(args), dict(kwargs)
            for place, _, value in static:
                if isinstance(place, str):
                    named[place] = value
                else:
                    positional[place] = value
            return fun(*positional, **named)

        return update_wrapper(filled, fun)

    def donated(self, dynamic: tuple[tuple[Any, ...], dict[str, Any]]) -> tuple[int, ...]:
        """Returns the numbers of the leaves that are given away."""
        if not self._donated:
            return ()
        leaves, _ = tree.flatten_with_path(dynamic)
        count = len(dynamic[0])
        places = {p % count if isinstance(p, int) and p < 0 else p for p in self._donated}
        return tuple(
            i
            for i, (path, leaf) in enumerate(leaves)
            if path[1].value in places and is_array_like(leaf)
        )

    def check_outputs(self, out: Any) -> None:
        """Checks that a result holds arrays only.

        Raises:
            TypeError: it does not; the message names the leaf.
        """
        for path, leaf in tree.flatten_with_path(out)[0]:
            if not is_array_like(leaf):
                raise TypeError(
                    f"jit of {function_name(self._fun)}: the output{tree.keystr(path)} is of type "
                    f"{type(leaf).__name__}, not an array; return arrays and numbers, and close "
                    "over the rest"
                )
