"""Static and donated arguments of a jitted function."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import update_wrapper
from typing import Any

from ..backends.config import config
from ..backends.devices import placement
from ..primitives.core.array import Tracer
from ..primitives.core.array_likes import is_array_like
from ..primitives.core.errors import function_name, message
from ..primitives.core.trace import RAW, slot
from ..transforms.tensor_entrance import entrance
from ..tree import containers as tree

__all__ = ["Signature", "StaticArgumentError", "context_of", "named_axes"]

ArgumentPlaces = tuple[int | str, ...]


class StaticArgumentError(TypeError):
    """A static argument cannot be hashed (docs/errors.md#error-11)."""


class StaticConstant:
    """A static argument, as a part of the key by which a function is staged.

    Two are equal if their values are of one type and equal, all the way down: 1 is not True, 0.0 is
    not minus zero, and one NaN equals another. The value has to have a hash.
    """

    __slots__ = ("_exact", "_hash", "value")

    def __init__(self, value: Any) -> None:
        self.value = value
        self._exact = exact(value)
        self._hash = hash(self._exact)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, StaticConstant):
            return NotImplemented
        try:
            return self.value is other.value or bool(self._exact == other._exact)
        except Exception as error:
            what = f"a static argument of type {type(self.value).__name__} cannot be compared "
            what += f"with an earlier one: {type(error).__name__}: {error}"
            fix = "give its class an __eq__ that returns True or False, or drop the argument "
            fix += "from static_argnums or static_argnames so that it is traced"
            raise StaticArgumentError(message(what, fix=fix, number=11)) from error


def exact(value: Any) -> Any:
    """Returns a key that two values share if and only if they are the same in every respect."""
    kind: Any = type(value)
    if kind is float:
        return kind, value.hex()
    if kind is complex:
        return kind, value.real.hex(), value.imag.hex()
    if isinstance(value, tuple) and kind.__eq__ is tuple.__eq__:
        return kind, *map(exact, value)
    if kind is frozenset:
        return kind, frozenset(map(exact, value))
    if is_compared_by_fields(kind):
        hash(value)  # the class may refuse
        fields = kind.__dataclass_fields__.values()
        return kind, Fields(exact(getattr(value, x.name)) for x in fields if x.compare)
    return kind, value


def hashable(value: Any) -> str:
    """Returns the fix for a static argument that has no hash; "{}" stands for dropping it."""
    if isinstance(value, tuple):
        for item in value:
            try:
                hash(item)
            except Exception:
                return hashable(item)
    if is_array_like(value):
        return "{}: an array is not part of what a function is staged for"
    if isinstance(value, dict):
        return "pass tuple(sorted(d.items())) instead of a dict, or {}"
    if isinstance(value, set):
        return "pass a frozenset instead of a set, or {}"
    if isinstance(value, list):
        return "pass a tuple instead of a list, or {}"
    return "give its class a __hash__, as @dataclass(frozen=True) does, or {}"


class Fields(tuple[Any, ...]):
    """The fields by which a dataclass is compared, some of which may lack a hash."""

    __slots__ = ()

    def __hash__(self) -> int:
        try:
            return super().__hash__()
        except TypeError:
            return 0


def is_compared_by_fields(kind: Any) -> bool:
    """Says whether a class is a dataclass without an ``__eq__`` of its author's own."""
    if not hasattr(kind, "__dataclass_fields__"):
        return False
    # Methods that dataclasses write themselves have no file.
    code = getattr(kind.__eq__, "__code__", None)
    return code is not None and code.co_filename == "<string>"


class Signature:
    """The arguments of a function: traced, static or donated.

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
        self._static_by_name = self._places("static", None, static_argnames)
        self._donated = self._places("donate", donate_argnums, donate_argnames)
        both = set(self._static) & set(self._donated)
        if both:
            what = f"{min(map(str, both))} is static and donated"
            why = "but a static argument has no buffer to give away"
            raise self._wrong(f"{what}, {why}", "name it in one of the two options")

    def _wrong(self, what: str, fix: str) -> ValueError:
        text = message(f"jit of {function_name(self._fun)}: {what}", fix=fix, number=11)
        return ValueError(text)

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
    ) -> ArgumentPlaces:
        """Returns positions and names: an argument that can be passed either way has both."""
        numbers = [nums] if isinstance(nums, int) else list(nums or ())
        named = [names] if isinstance(names, str) else list(names or ())
        count = len(self._positional)
        for i in numbers:
            if not isinstance(i, int):
                raise TypeError(f"{kind}_argnums holds positions, not {i!r}")
            if self._known and not -count <= i < count:
                what = f"{kind}_argnums={i}, but it has {count} positional arguments"
                fix = f"a position from {-count} to {count - 1}" if count else "f has none"
                raise self._wrong(what, fix)
        for name in named:
            if self._known and name not in self._names:
                listed = ", ".join(self._names)
                what = f"{kind}_argnames={name!r}, but its arguments are {listed}"
                fix = f"{kind}_argnames={self._names[0]!r}" if listed else "f has none"
                raise self._wrong(what, fix)
        out: list[int | str] = []
        for i in numbers:
            i = i % count if self._known else i
            out += [i, self._positional[i]] if 0 <= i < count else [i]
        for name in named:
            out += [self._positional.index(name), name] if name in self._positional else [name]
        return tuple(dict.fromkeys(out))

    def static_places(self, count: int) -> ArgumentPlaces:
        """Returns the positions and names of static arguments in a call with so many arguments."""
        return tuple(p % count if isinstance(p, int) and p < 0 else p for p in self._static)

    def split(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
        """Returns a call's arguments with None for static ones, and a key of those."""
        if not self._static:
            return (args, kwargs), ()
        positional, named = list(args), dict(kwargs)
        static: list[tuple[int | str, StaticConstant]] = []
        for place in self.static_places(len(args)):
            given: Any = named if isinstance(place, str) else positional
            if place in named if isinstance(place, str) else place < len(positional):
                static.append((place, self._constant(place, given[place])))
                given[place] = None
        return (tuple(positional), named), tuple(static)

    def mapped(
        self, fun: Callable[[Any], Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Returns a call's arguments with a function applied to the leaves of traced ones."""
        static = self.static_places(len(args))

        def over(place: int | str, x: Any) -> Any:
            if place in static:
                return x
            leaves, treedef = tree.flatten(x)
            found = list(map(fun, leaves))
            # A tree without changes stays the same object.
            same = all(a is b for a, b in zip(found, leaves))
            return x if same else treedef.unflatten(found)

        positional = tuple([over(i, x) for i, x in enumerate(args)])
        return positional, {name: over(name, x) for name, x in kwargs.items()}

    def _constant(self, place: int | str, value: Any) -> StaticConstant:
        try:
            return StaticConstant(value)
        except Exception as error:
            name = place
            if isinstance(place, int) and place < len(self._positional):
                name = self._positional[place]
            option = "static_argnames" if place in self._static_by_name else "static_argnums"
            why = "" if isinstance(error, TypeError) else f" ({type(error).__name__}: {error})"
            kind = f"of type {type(value).__name__}"
            if isinstance(value, Tracer):
                kind = f"a traced {value.describe()}"
            what = f"jit of {function_name(self._fun)}: the static argument {name!r} is {kind}, "
            what += f"which cannot be hashed{why}: its value is part of what the function is "
            what += "staged for"
            fix = hashable(value).format(f"drop it from {option} so that it is traced")
            cause = error if why else None
            raise StaticArgumentError(message(what, fix=fix, number=11)) from cause

    def filled(self, fun: Callable[..., Any], static: Sequence[Any]) -> Callable[..., Any]:
        """Returns the function of the arguments that are not static."""
        if not static:
            return fun

        def filled(*args: Any, **kwargs: Any) -> Any:
            positional, named = list(args), dict(kwargs)
            for place, constant in static:
                if isinstance(place, str):
                    named[place] = constant.value
                else:
                    positional[place] = constant.value
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
        """Raises a TypeError, which names the leaf, where a result holds more than arrays."""
        for path, leaf in tree.flatten_with_path(out)[0]:
            if not is_array_like(leaf):
                where = f"jit of {function_name(self._fun)}: the output{tree.keystr(path)}"
                fix = "return arrays and numbers, and close over the rest"
                raise TypeError(f"{where} is of type {type(leaf).__name__}, not an array; {fix}")


def context_of() -> tuple[Any, ...]:
    """Returns the choices of the thread that staging depends on, and the axes of its processes."""
    axes, casting = slot.axes, entrance.casting
    known: tuple[Any, ...] = placement.device, config.numerics
    if casting is not None and casting.active:
        known = *known, casting.cpu, casting.cuda
    return known if axes is None else (*known, axes)


def named_axes() -> tuple[Any, ...]:
    """Returns the names and sizes of the batch axes that collectives can speak of."""
    found = []
    trace = slot.trace
    while trace is not None and trace is not RAW:
        name = getattr(trace, "axis_name", None)
        if name is not None:
            found.append((name, trace.size))  # type: ignore[attr-defined]
        trace = trace.parent
    return tuple(found)
