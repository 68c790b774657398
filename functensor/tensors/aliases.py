"""The memory that traced values of tensors would share: augmented assignment loses no write.

Of a tensor, ``v *= 3`` writes into memory that views and other variables see. A transformation that
is given a tensor runs on traced values, which do not change: there the statement gives one name to
a new value. Both are the same as long as nothing else sees the memory; where something does, the
statement raises. So the traced values that would be views are remembered while tensors are inside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import update_wrapper
from typing import Any
from weakref import ref

from ..backends.errors.tracebacks import tidy
from ..backends.errors.words import WRAPPER_CODES
from ..primitives.core.array import Array, Tracer
from ..primitives.core.augmented_assignment import SYMBOLS, watch
from ..primitives.core.errors import ImmutableArrayError, failure
from ..primitives.core.patching import patch
from ..primitives.core.reference_counts import ONE_NAME, ONE_NAME_TWICE
from ..primitives.core.registry import registry as ops
from ..primitives.core.trace import RAW, base_trace, slot
from ..programs.program import argument_type, twin
from ..transforms.tensor_entrance import entrance
from .in_place import InPlace
from .tape import TapeTrace
from .views import is_basic

__all__ = ["Aliases", "admitting"]

# Methods and properties of arrays whose results are views of a tensor, or copies.
VIEWING_METHODS = (
    "diagonal",
    "flatten",
    "ravel",
    "reshape",
    "squeeze",
    "swapaxes",
    "transpose",
    "view",
)
PROPERTIES = ("T", "flat", "imag", "mT", "real")
COPYING_METHODS = ("__copy__", "__deepcopy__", "astype", "copy")


class Aliases:
    """The traced values that would share memory, in groups, while tensors are inside."""

    __slots__ = ("_entered", "_groups", "_most")

    def __init__(self) -> None:
        self._groups: dict[int, tuple[Any, list[Any]]] = {}
        # The number of entries since dead ones were left out, and that at which they are next.
        self._entered = 0
        self._most = 64

    def note(self, base: Any, view: Any) -> None:
        """Remembers that a value is a view of another, and of all that share memory with it."""
        if view is base or not isinstance(view, Array):
            return
        group = self._group(base)
        if group is None:
            group = self._enter(base, [])
        self._enter(view, group)

    def sees_others(self, x: Any) -> bool:
        """Says whether another value that is still held would share memory with one."""
        group = self._group(x)
        return group is not None and any(y() is not None and y() is not x for y in group)

    def refusal(self, x: Array, symbol: str, y: Any, held: int) -> ImmutableArrayError | None:
        """Returns the error of an augmented assignment that would lose what it writes.

        Args:
            x: what is on the left.
            symbol: its operator.
            y: what is on the right.
            held: how often x is referred to; 0 where the caller is no such statement.
        """
        if symbol not in WRITING:
            return None
        # Python's numbers do not change, and are no tensors where they are traced.
        if argument_type(x).weak is not None:
            return None
        alone = ONE_NAME_TWICE if x is y else ONE_NAME
        if 0 < held <= alone and not self.sees_others(x):
            return None
        return failure(
            ImmutableArrayError,
            f"x {symbol} y: of a tensor it writes into memory that another variable sees too, "
            f"but x is its traced value ({x.describe()}), which is immutable",
            fix=f"x = x {symbol[:-1]} y, where the other is not to change; base = "
            "base.at[i].set(x), where x is a view of it",
        )

    def _group(self, x: Any) -> list[Any] | None:
        known = self._groups.get(id(x))
        # Another object may have had the same id.
        return known[1] if known is not None and known[0]() is x else None

    def _enter(self, x: Any, group: list[Any]) -> list[Any]:
        reference = ref(x)
        group.append(reference)
        self._groups[id(x)] = reference, group
        self._entered += 1
        if self._entered > self._most:
            self._groups = {i: known for i, known in self._groups.items() if known[0]() is not None}
            for kept in {id(kept): kept for _, kept in self._groups.values()}.values():
                kept[:] = [y for y in kept if y() is not None]
            self._entered, self._most = 0, 2 * len(self._groups) + 64
        return group


def admitting(call: Callable[..., Any], *args: Any) -> Any:
    """Calls what runs a transformation on tensors, and remembers what shares memory meanwhile."""
    before = slot.aliases
    install()
    try:
        slot.aliases = Aliases() if before is None else before
        return call(*args)
    finally:
        slot.aliases = before


def admitted() -> None:
    """Notes that the transformations that run have met a tensor which they were not given.

    It ends with the outermost of them.
    """
    if slot.aliases is None and base_trace() is not RAW:
        install()
        slot.aliases = Aliases()


# The operators by which tensors write into their memory.
WRITING = {symbol for name, symbol in SYMBOLS.items() if f"__{name}__" in vars(InPlace)}


def install() -> None:
    """Lets the methods of arrays that make views say so, from the first tensor on.

    Programs without tensors meet no such method, and their indexing costs what it did.
    """
    watch()
    patch(Array, "aliases of tensors", noting_methods)


def noting_methods() -> dict[str, Any]:
    """Returns the methods of arrays, by their names, that remember views and copies."""
    array: Any = Array
    made = {name: followed(getattr(array, name), noted) for name in VIEWING_METHODS}
    made |= {name: followed(getattr(array, name), copied) for name in COPYING_METHODS}
    for name in PROPERTIES:
        found = getattr(array, name)
        made[name] = property(followed(found.fget, noted), doc=found.__doc__)
        made[name].__set_name__(array, name)
    made["__iter__"] = followed(array.__iter__, each_noted)
    made["__getitem__"] = noting_part(array.__getitem__)
    return made


def standing_for_method(wrapper: Any, method: Callable[..., Any]) -> Any:
    """Returns a method's wrapper, of which messages and tracebacks say nothing."""
    WRAPPER_CODES.add(wrapper.__code__)
    return update_wrapper(wrapper, method)


def followed(method: Callable[..., Any], then: Callable[[Any, Any], Any]) -> Any:
    """Returns a method whose result goes through a function while tensors are inside.

    Args:
        method: the method.
        then: ``then(x, out)`` of the array and the method's result.
    """

    def noting(self: Any, *args: Any, **options: Any) -> Any:
        try:
            out = method(self, *args, **options)
        except Exception as error:
            tidy(error)
            raise
        return out if slot.aliases is None else then(self, out)

    return standing_for_method(noting, method)


def noted(x: Any, out: Any) -> Any:
    """Returns a result, which is remembered as a view."""
    aliases = slot.aliases
    if aliases is not None:
        aliases.note(x, out)
    return out


def copied(x: Any, out: Any) -> Any:
    """Returns a result as another object than the array, also where the value is the same."""
    if out is not x:
        return out
    return twin(x) if isinstance(x, Tracer) else ops.copy(x)


def each_noted(x: Any, items: Iterator[Any]) -> Iterator[Any]:
    """Yields the items of a traced value, each remembered as a view of it."""
    for item in items:
        yield noted(x, item)


def noting_part(method: Callable[[Any, Any], Any]) -> Any:
    """Returns ``__getitem__``, whose result is remembered as a view where the index is basic."""

    def noting(self: Any, key: Any) -> Any:
        try:
            out = method(self, key)
        except Exception as error:
            tidy(error)
            raise
        aliases = slot.aliases
        if aliases is not None and is_basic(key):
            aliases.note(self, out)
        return out

    return standing_for_method(noting, method)


entrance.admitting = admitting
TapeTrace.admitted = staticmethod(admitted)
