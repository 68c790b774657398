"""Arrays whose buffers were given away, and what they say when they are used nevertheless."""

from __future__ import annotations

import sys
from typing import Any

from numpy import ndarray

from .array import Array
from .errors import message

__all__ = ["DonatedArrayError", "claimed"]

# References to a buffer that nobody else has: the array's, the list of operands', the variable's
# and that of the call which counts them.
ALONE = 4


class DonatedArrayError(RuntimeError):
    """An array was used after its buffer had been given away."""


class _Gone:
    """Stands in the place of a buffer that was given away."""

    __slots__ = ("_to",)

    def __init__(self, to: str) -> None:
        self._to = to

    def _refuse(self) -> Any:
        raise DonatedArrayError(
            message(
                f"an array was used after it had been donated to {self._to}, which wrote its "
                "result into the same memory",
                fix="use what the function returned, or leave the argument out of donate_argnums",
                number=11,
            )
        )

    def __getattr__(self, name: str) -> Any:
        if name in ("__array_priority__", "__array_struct__", "__array_interface__"):
            raise AttributeError(name)
        return self._refuse()

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        return self._refuse()


def claimed(array: Any, buffers: list[Any], i: int, to: str) -> None:
    """Takes the buffer of an operand for the one who calls, who may write into it.

    A copy stands in for a buffer that others see too: views of the array, or a NumPy array of the
    user's.

    Args:
        array: the operand.
        buffers: the operands' buffers, in one of which it is or becomes the only reference.
        i: its place there.
        to: who takes it, for the message of those who use the array afterwards.
    """
    buffer = buffers[i]
    mine = (
        type(array) is Array
        and type(buffer) is ndarray
        and buffer.base is None
        and buffer.flags.owndata
        and buffer.flags.writeable
        and sys.getrefcount(buffer) <= ALONE
    )
    if not mine and hasattr(buffer, "copy"):
        buffers[i] = buffer.copy()
    if type(array) is Array:
        array._data = _Gone(to)
