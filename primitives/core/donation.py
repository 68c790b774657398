"""Arrays whose buffers were given away, and what they say when they are used nevertheless."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from numpy import generic, ndarray

from ...backends.annotations import Buffer
from ...backends.known_buffers import KnownBuffers
from ...backends.protocol import Backend, when_registered
from .annotations import ArrayLike, Value
from .array import Array
from .array_slots import array_slots
from .errors import failure
from .reference_counts import ALONE, ALONE_AMONG, references_among, references_in

__all__ = ["DonatedArrayError", "claimed", "given_up", "restored"]


# The special methods that a buffer has and not every object; NumPy asks for the rest as attributes.
SPECIAL = {name for name in dir(ndarray) if name.startswith("__")} - {*dir(object)}
SPECIAL -= {
    "__array_finalize__", "__array_interface__", "__array_priority__", "__array_struct__",
    "__array_wrap__", "__buffer__", "__class_getitem__",
}  # fmt: skip
SPECIAL |= {"__eq__", "__ge__", "__gt__", "__le__", "__lt__", "__ne__"}


class DonatedArrayError(RuntimeError):
    """An array was used after its buffer had been given away (docs/errors.md#error-23)."""


class _Gone:
    """Stands in the place of a buffer that was given away."""

    # What others may read as long as the array is there.
    __slots__ = ("shared", "to")

    # The word by which the array is shown.
    shown = "donated"

    def __init__(self, to: str) -> None:
        self.to = to

    def _refuse(self) -> NoReturn:
        raise failure(
            DonatedArrayError,
            f"an array was used after it had been donated to {self.to}, which wrote its "
            "result into the same memory",
            fix="use what the function returned, or leave the argument out of donate_argnums",
            number=23,
        )

    def __getattr__(self, name: str) -> NoReturn:
        if name in ("__array_priority__", "__array_struct__", "__array_interface__"):
            raise AttributeError(name)
        self._refuse()


def _refused(gone: _Gone, *args: Any, **kwargs: Any) -> NoReturn:
    gone._refuse()


# Python looks for special methods in the class, and never asks ``__getattr__`` for them.
for name in SPECIAL:
    setattr(_Gone, name, _refused)


def owns_memory(buffer: Buffer) -> bool:
    """Says whether an array of NumPy's has memory of its own, and may be written to."""
    flags = buffer.flags
    return buffer.base is None and flags.owndata and flags.writeable


# Functions that say whether a buffer has memory of its own, by its class.
OWNERS: dict[type, Callable[[Any], bool]] = {ndarray: owns_memory}


def enter_owner(backend: Backend) -> None:
    """Enters how a backend's buffers say that."""
    OWNERS[backend.buffer_type] = backend.owns_memory


when_registered(enter_owner)

ARRAY_ALONE = {Array}


def claimed(
    arrays: Sequence[ArrayLike],
    buffers: list[Value],
    places: Sequence[int],
    to: str,
    slots: Any = None,
) -> None:
    """Takes the buffers of operands for the caller, who may write into them.

    The list of the operands' buffers has them at some places, and is or becomes their only holder.
    A copy stands in for a buffer that others see too: views of the array, or a NumPy array of the
    user's. Messages about the arrays name who took their buffers.

    Args:
        arrays: the operands.
        buffers: their buffers.
        places: the numbers of those that are taken.
        to: who takes them.
        slots: the places as `slot_places` has them, where all at once may be taken.
    """
    gone: Any = _Gone(to)
    known = buffers.donated if type(buffers) is KnownBuffers else None
    if (
        slots is not None
        and known is not None
        # Nobody has to be asked who owns memory.
        and known.owned
        and array_slots.taken(Array, arrays, buffers, gone, slots) is None
    ):
        return
    array: Any
    if are_alone(arrays, buffers, places):
        for i in places:
            array = arrays[i]
            array._data = gone
        return
    claimed_one_by_one(arrays, buffers, places, to)


def claimed_one_by_one(
    arrays: Sequence[ArrayLike], buffers: list[Value], places: Sequence[int], to: str
) -> None:
    """Does the same, and asks of every buffer who sees it."""
    gone: Any = _Gone(to)
    array: Any
    buffer: Any
    for i in places:
        count = references_in(buffers, i)
        buffer, array = buffers[i], arrays[i]
        is_array = type(array) is Array
        if is_array and count <= ALONE and array._data is buffer:
            owns = OWNERS.get(type(buffer))
            if owns is not None and owns(buffer):
                array._data = gone
                continue
        left: Any = _Gone(to)
        if hasattr(buffer, "copy"):
            if type(buffers) is KnownBuffers:
                buffers.known = buffers.donated = None
            buffers[i] = buffer.copy("K")
            left.shared = buffer
        if is_array:
            array._data = left


def given_up(
    arrays: Sequence[ArrayLike], buffers: list[Value], places: Sequence[int], to: str
) -> None:
    """Takes numbers of the host as `claimed` does; nothing is written to NumPy's scalars."""
    for i in places:
        array: Any = arrays[i]
        if not isinstance(buffers[i], generic):
            claimed_one_by_one(arrays, buffers, (i,), to)
        elif type(array) is Array:
            left: Any = _Gone(to)
            left.shared = buffers[i]
            array._data = left


def are_alone(arrays: Sequence[ArrayLike], buffers: list[Value], places: Sequence[int]) -> bool:
    """Says whether operands are arrays that are the only holders of their buffers' own memory."""
    known = buffers.donated if type(buffers) is KnownBuffers else None
    owned = known is not None and known.owned
    if not owned and {*map(type, [arrays[i] for i in places])} != ARRAY_ALONE:
        return False
    # Less than this has a buffer that its array gave away meanwhile.
    if references_among(buffers, places) != {ALONE_AMONG}:
        return False
    if owned:
        return True
    some = [buffers[i] for i in places]
    kinds = {*map(type, some)}
    owns = OWNERS.get(kinds.pop())
    owned = owns is not None and not kinds and all(map(owns, some))
    if known is not None:
        known.owned = owned
    return owned


def restored(array: ArrayLike, buffer: Buffer) -> None:
    """Gives a result its buffer back if it is an operand that was donated as another one as well.

    The claim made a copy then.
    """
    if type(array) is Array:
        held: Any = array._data
        if type(held) is _Gone:
            array._data = buffer
