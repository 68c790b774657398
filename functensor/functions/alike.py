"""Functions that are alike: made by the same statement, and closing over the same things."""

from __future__ import annotations

from types import CodeType, FunctionType, MethodType
from typing import Any
from weakref import ref

from ..primitives.core.bytecode import closed_over
from ..primitives.core.errors import unwrapped

__all__ = ["CONSTANTS", "Unlike", "Weak", "code_of", "likeness"]

CONSTANTS = frozenset(
    {type(None), bool, int, float, complex, str, bytes, type(Ellipsis), range, slice}
)
# The most constants of a list that is kept alive for its identity.
MOST_CONSTANTS_OF_LIST = 256


class Unlike(Exception):
    """A value that no later one can be told to be the same as."""


class Weak(ref[Any]):
    """Stands for one object as long as it lives, whatever it says that it equals."""

    __slots__ = ("_hash",)
    _hash: int

    def __new__(cls, value: Any) -> Weak:
        self = super().__new__(cls, value)
        self._hash = id(value)
        return self

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        value = self()
        return value is not None and isinstance(other, Weak) and other() is value


class Held:
    """Stands for one object that nothing can refer to weakly."""

    __slots__ = ("_value",)

    def __init__(self, value: Any) -> None:
        self._value = value

    def __hash__(self) -> int:
        return id(self._value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Held) and other._value is self._value


def code_of(fun: Any) -> CodeType | None:
    """Returns what stays the same where a function is defined anew: the code that it wraps."""
    return getattr(unwrapped(fun), "__code__", None)


def likeness(value: Any, met: dict[int, int] | None = None) -> Any:
    """Returns what equals that of another value only if the two are interchangeable.

    Functions are, if they have the same code and close over the same; constants, if they are
    equal; a value whose class has ``_is_like()``, if what that returns is; all else, if it is the
    same object. No array and no function is kept alive.

    Raises:
        Unlike: there is no telling whether a later value is the same.
    """
    kind = type(value)
    if kind in CONSTANTS:
        return (kind, repr(value)) if kind is slice else (kind, value)
    met = {} if met is None else met
    if kind is tuple:
        return kind, *(likeness(item, met) for item in value)
    if id(value) in met:  # a function that closes over itself
        return "met", met[id(value)]
    met[id(value)] = len(met)
    if kind is MethodType:
        return kind, likeness(value.__func__, met), likeness(value.__self__, met)
    if hasattr(kind, "_is_like"):
        return kind, likeness(value._is_like(), met)
    if kind is FunctionType:
        return kind, Weak(value.__code__), *(likeness(part, met) for part in function_parts(value))
    try:
        return Weak(value)
    except TypeError:
        if kind in (list, dict, set) and is_small_and_plain(value):
            return Held(value)
        raise Unlike from None


def function_parts(fun: FunctionType) -> list[Any]:
    """Returns what tells a function from others of the same code."""
    found: list[Any] = [fun.__defaults__, tuple((fun.__kwdefaults__ or {}).items())]
    if fun.__closure__:
        found += closed_over(fun).items()
    return found


def is_small_and_plain(value: Any) -> bool:
    """Says whether a container is cheap to keep alive."""
    items = [*value, *value.values()] if type(value) is dict else value
    return len(items) <= MOST_CONSTANTS_OF_LIST and all(type(item) in CONSTANTS for item in items)
