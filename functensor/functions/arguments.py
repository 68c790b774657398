"""The arguments that a transformation is about, and their checks."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, SupportsIndex

from ..primitives.core.array import Array
from ..primitives.core.array_likes import is_array_like
from ..primitives.core.buffers import own_array
from ..primitives.core.errors import GradientInputError, failure, function_name, message
from ..primitives.core.shape_dtype import shape_dtype
from ..traces.reverse import is_inexact
from ..tree import containers as tree
from .argument_names import argument_name, positional_names

__all__ = ["Selection", "check_argnums", "check_inexact", "in_arrays"]


def in_arrays(out: Any) -> Any:
    """Returns a result that has arrays, with memory of their own, in the place of plain ones."""
    if type(out) is Array:
        return out
    return tree.map(own_array, out)


def check_argnums(name: str, argnums: Any, argnames: Any = None) -> None:
    """Checks that a transformation is told of positions and names, and not given arguments.

    Raises:
        TypeError: it is given something else.
    """
    several = argnums if type(argnums) in (tuple, list, range) else (argnums,)
    for each in several if argnums is not None else ():
        if type(each) is not int and (isinstance(each, Array) or not hasattr(each, "__index__")):
            raise _wrong_argument_choice(
                name,
                "argnums",
                each,
                "position of an argument: an integer, or a tuple of integers",
                f"{name}(f)(x) passes x to the function; argnums=0 is the first argument",
            )
    known = argnames if type(argnames) in (tuple, list, set) else (argnames,)
    for each in known if argnames is not None else ():
        if not isinstance(each, str):
            words = "name of an argument: a string, or several"
            raise _wrong_argument_choice(name, "argnames", each, words, f'{name}(f, argnames="x")')


def _wrong_argument_choice(name: str, option: str, given: Any, words: str, fix: str) -> TypeError:
    from ..backends.errors.words import shown  # which only messages need

    what = f"{name}: {option}={shown(given)} is no {words}"
    return TypeError(message(what, fix=fix, number=None))


class Selection:
    """The arguments of a call that a transformation is about.

    Args:
        fun: the function, whose signature tells where a name stands.
        args, kwargs: the call's arguments.
        argnums: positions, one or several; None selects none unless ``argnames`` is None too,
            which selects the first argument.
        argnames: names, one or several; one that was not passed stands for its default.

    Attributes:
        places: where they stand, in the structure of ``values``.
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
        self.fun = fun
        self.args = list(args)
        self.kwargs = dict(kwargs)
        # An argument's place is its position, or its name where it was passed by keyword.
        chosen: list[Any] = []
        if argnums is not None:
            chosen.append(_places_of(argnums, lambda i: self._position(fun, i)))
        if argnames is not None:
            places = _places_of(argnames, lambda name: self._place(fun, name))
            single = isinstance(argnames, str)
            chosen.append(places if single else dict(zip(argnames, places, strict=True)))
        self.places: Any = chosen[0] if len(chosen) == 1 else tuple(chosen)
        flat = tree.leaves(self.places)
        if len(set(flat)) < len(flat):
            raise ValueError(f"argnums={argnums}, argnames={argnames} name an argument twice")
        self.values: Any = self._look_up(self.places)

    def _position(self, fun: Callable[..., Any], argnum: SupportsIndex) -> int:
        index, count = operator.index(argnum), len(self.args)
        if not -count <= index < count:
            raise TypeError(
                f"argnums={index}, but {function_name(fun)} was called with {count} positional "
                "arguments"
            )
        return int(index % count)

    def _place(self, fun: Callable[..., Any], name: str) -> int | str:
        if name in self.kwargs:
            return name
        import inspect  # costs milliseconds

        try:
            parameters = inspect.signature(fun).parameters
        except (TypeError, ValueError):  # some functions that are written in C
            raise TypeError(
                f"argnames: the signature of {function_name(fun)} is not known; pass {name!r} by "
                "keyword, or use argnums"
            ) from None
        parameter = parameters.get(name)
        position = list(parameters).index(name) if name in parameters else len(self.args)
        if parameter is None or parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            known = [
                p.name
                for p in parameters.values()
                if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
            ]
            raise TypeError(
                f"{function_name(fun)} was not given an argument named {name!r}; its arguments "
                f"are {', '.join(known) or 'without names'}"
            )
        if parameter.kind is not parameter.KEYWORD_ONLY and position < len(self.args):
            return position
        if parameter.default is parameter.empty or parameter.kind is parameter.POSITIONAL_ONLY:
            raise TypeError(f"{function_name(fun)} was not given its argument {name!r}")
        # The derivative by what the function takes by default.
        self.kwargs[name] = parameter.default
        return name

    def _look_up(self, places: Any) -> Any:
        if type(places) is int:
            return self.args[places]
        if type(places) is str:
            return self.kwargs[places]
        if type(places) is tuple:
            return tuple(map(self._look_up, places))
        return {name: self._look_up(place) for name, place in places.items()}

    def call(self, fun: Callable[..., Any], values: Any) -> Any:
        """Calls the function with other values in the places of the selected ones."""
        args, kwargs = list(self.args), dict(self.kwargs)
        _replace(self.places, values, args, kwargs)
        return fun(*args, **kwargs)

    def path(self, index: int) -> str:
        """Returns the place of the selected values' leaf of that index, for messages."""
        return argument_name((), *self._steps(index))

    def name(self, index: int) -> str:
        """Returns the same with the name of the parameter."""
        return argument_name(positional_names(self.fun), *self._steps(index))

    def _steps(self, index: int) -> tuple[Any, Sequence[Any]]:
        path, _ = tree.leaves_with_path(self.values)[index]
        place = self.places
        steps = list(path)
        while type(place) not in (int, str):
            place = place[steps.pop(0).value]
        return place, steps


def _replace(places: Any, values: Any, args: list[Any], kwargs: dict[str, Any]) -> None:
    """Puts values in their places; a closure that calls itself would keep the tracers alive."""
    if type(places) is int:
        args[places] = values
    elif type(places) is str:
        kwargs[places] = values
    else:
        for key in range(len(places)) if type(places) is tuple else places:
            _replace(places[key], values[key], args, kwargs)


def _places_of(chosen: Any, place: Callable[[Any], Any]) -> Any:
    """Returns the place of one chosen argument, or a tuple of those of several."""
    if isinstance(chosen, Sequence) and not isinstance(chosen, str):
        return tuple(map(place, chosen))
    return place(chosen)


def check_inexact(selection: Selection, leaves: Sequence[Any], allow_int: bool) -> None:
    """Checks that all leaves are real or complex.

    Raises:
        GradientInputError: one is not; the message names it.
    """
    for i, leaf in enumerate(leaves):
        if is_array_like(leaf) and is_inexact(leaf):
            continue
        if not is_array_like(leaf):
            raise failure(
                GradientInputError,
                f"{selection.path(i)} is of type {type(leaf).__name__}, not an array",
                fix="pass arrays and numbers; give others outside of argnums, or register "
                "their type with ft.tree.register",
            )
        if not allow_int:
            dtype = shape_dtype(leaf).dtype
            raise failure(
                GradientInputError,
                f"{selection.path(i)} is {dtype}: {dtype} has no gradient",
                fix="pass a float, e.g. x.astype(float), or allow_int=True",
            )
