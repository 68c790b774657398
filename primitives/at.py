"""``x.at[i].set(v)``: updates of immutable arrays."""

from __future__ import annotations

import dis
import sys
import warnings
from typing import Any

from .errors import UnusedUpdateWarning, message
from .registry import registry as ops

__all__ = ["At"]


class At:
    """The ``at`` of an array: ``x.at[key]`` names the elements to update."""

    __slots__ = ("_array",)

    def __init__(self, array: Any) -> None:
        self._array = array

    def __getitem__(self, key: Any) -> Update:
        return Update(self._array, key)


class Update:
    """Elements of an array about to be updated; every method returns a new array."""

    __slots__ = ("_array", "_key")

    def __init__(self, array: Any, key: Any) -> None:
        self._array = array
        self._key = key

    def get(self) -> Any:
        """Returns the elements."""
        return ops.index(self._array, self._key)

    def set(self, values: Any) -> Any:
        """Returns the array with the elements replaced; of repeated indices the last wins."""
        return self._updated("set", values)

    def add(self, values: Any) -> Any:
        """Returns the array with values added; repeated indices add up."""
        return self._updated("add", values)

    def multiply(self, values: Any) -> Any:
        """Returns the array with the elements multiplied."""
        return self._updated("multiply", values)

    def min(self, values: Any) -> Any:
        """Returns the array with the smaller of element and value."""
        return self._updated("min", values)

    def max(self, values: Any) -> Any:
        """Returns the array with the larger of element and value."""
        return self._updated("max", values)

    def _updated(self, kind: str, values: Any) -> Any:
        if __debug__ and _result_is_dropped():
            warnings.warn(
                message(
                    f"the result of x.at[...].{kind}(...) is thrown away; x itself is unchanged",
                    fix=f"x = x.at[i].{kind}(value)",
                    number=3,
                ),
                UnusedUpdateWarning,
                stacklevel=3,
            )
        return ops.find(f"index_{kind}")(self._array, self._key, values)


def _result_is_dropped() -> bool:
    """Says whether the caller's caller pops the result that it is waiting for."""
    frame = sys._getframe(3)
    code = frame.f_code.co_code
    position = frame.f_lasti + 2
    while position < len(code) and dis.opname[code[position]] == "CACHE":
        position += 2
    return position < len(code) and dis.opname[code[position]] == "POP_TOP"
