"""Which arguments a transformation is about, and what they must be."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from . import tree
from .primitives.array import Array
from .primitives.core import BUFFER_TYPES
from .primitives.errors import GradientInputError, function_name, message
from .primitives.types import shape_dtype
from .reverse import is_inexact

__all__ = ["Selection", "check_inexact", "is_array_like"]


def is_array_like(x: Any) -> bool:
    """Says whether a leaf is an array, a tracer, a NumPy array or scalar, or a number."""
    return isinstance(x, Array) or type(x) in BUFFER_TYPES


class Selection:
    """The arguments of a call that a transformation is about.

    Args:
        fun: the function, whose signature tells where a name stands.
        args, kwargs: the call's arguments.
        argnums: positions, one or several; None selects none unless ``argnames`` is None too,
            which selects the first argument.
        argnames: names, one or several.

    Attributes:
        values: the selected arguments, in the structure in which results are returned: one
            argument alone, a tuple for several positions, a dict for several names, and a pair of
            both for both.
    """

    def __init__(
        self,
        fun: Callable[..., Any],
        args: Sequence[Any],
        kwargs: dict[str, Any],
        argnums: int | Sequence[int] | None,
        argnames: str | Sequence[str] | None,
    ) -> None:
        if argnums is None and argnames is None:
            argnums = 0
        self.args = list(args)
        self.kwargs = dict(kwargs)
        self.argnums = self._positions(fun, argnums)
        self.argnames = argnames
        parts = []
        if self.argnums is not None:
            parts.append(
                self.args[self.argnums]
                if isinstance(self.argnums, int)
                else tuple(self.args[i] for i in self.argnums)
            )
        if argnames is not None:
            self._name_positions(fun, (argnames,) if isinstance(argnames, str) else argnames)
            parts.append(
                self.kwargs[argnames]
                if isinstance(argnames, str)
                else {name: self.kwargs[name] for name in argnames}
            )
        self.both = len(parts) == 2
        self.values: Any = tuple(parts) if self.both else parts[0]

    def _positions(self, fun: Callable[..., Any], argnums: Any) -> Any:
        if argnums is None:
            return None
        count = len(self.args)
        single = not isinstance(argnums, Sequence)
        found = []
        for i in (argnums,) if single else argnums:
            if not -count <= i.__index__() < count:
                raise TypeError(
                    f"argnums={argnums} but {function_name(fun)} was called with {count} "
                    "positional arguments"
                )
            found.append(i.__index__() % count)
        return found[0] if single else tuple(found)

    def _name_positions(self, fun: Callable[..., Any], names: Sequence[str]) -> None:
        """Makes keywords of the positional arguments that are named."""
        if all(name in self.kwargs for name in names):
            return
        bound = inspect.signature(fun).bind(*self.args, **self.kwargs)
        for name in names:
            if name in bound.arguments and name not in self.kwargs:
                position = list(bound.arguments).index(name)
                for i, later in enumerate(list(bound.arguments)[position : len(self.args)]):
                    self.kwargs[later] = self.args[position + i]
                del self.args[position:]
            if name not in self.kwargs:
                raise TypeError(f"{function_name(fun)} was not given an argument named {name!r}")

    def call(self, fun: Callable[..., Any], values: Any) -> Any:
        """Calls the function with other values in the places of the selected ones."""
        args, kwargs = self.args, self.kwargs
        by_position, by_name = values if self.both else (values, values)
        if self.argnums is not None:
            args = list(args)
            if isinstance(self.argnums, int):
                args[self.argnums] = by_position
            else:
                for i, value in zip(self.argnums, by_position, strict=True):
                    args[i] = value
        if self.argnames is not None:
            named = {self.argnames: by_name} if isinstance(self.argnames, str) else by_name
            kwargs = {**kwargs, **named}
        return fun(*args, **kwargs)

    def path(self, index: int) -> str:
        """Returns the name of the selected values' leaf of that index, for messages."""
        path, _ = tree.leaves_with_path(self.values)[index]
        if not self.both and isinstance(self.argnums, int):
            return f"argument {self.argnums}{tree.keystr(path)}"
        if not self.both and isinstance(self.argnames, str):
            return f"argument {self.argnames!r}{tree.keystr(path)}"
        if not self.both and self.argnums is not None:
            return f"argument {self.argnums[path[0].value]}{tree.keystr(path[1:])}"
        return f"argument {tree.keystr(path)}"


def check_inexact(selection: Selection, leaves: Sequence[Any], allow_int: bool) -> None:
    """Checks that all leaves are real or complex.

    Raises:
        GradientInputError: one is not; the message names it.
    """
    for i, leaf in enumerate(leaves):
        if is_array_like(leaf) and is_inexact(leaf):
            continue
        if not is_array_like(leaf):
            raise GradientInputError(
                message(
                    f"{selection.path(i)} is of type {type(leaf).__name__}, not an array",
                    fix="pass arrays and numbers; give others outside of argnums, or register "
                    "their type with ft.tree.register",
                    number=7,
                )
            )
        if not allow_int:
            dtype = shape_dtype(leaf).dtype
            raise GradientInputError(
                message(
                    f"{selection.path(i)} is {dtype}: {dtype} has no gradient",
                    fix="pass a float, e.g. x.astype(float), or allow_int=True",
                    number=7,
                )
            )
