"""``x.at[i].set(v)``: updates of immutable arrays."""

from __future__ import annotations

import dis
import sys
import warnings
from collections.abc import Callable
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
    """Elements of an array about to be updated; every method returns a new array.

    Methods take the options that JAX's have: ``indices_are_sorted`` and ``unique_indices`` change
    nothing here, and an index out of bounds is an error, so that there is no other ``mode``.
    """

    __slots__ = ("_array", "_key")

    def __init__(self, array: Any, key: Any) -> None:
        self._array = array
        self._key = key

    def get(self, **options: Any) -> Any:
        """Returns the elements."""
        _check(options)
        return ops.index(self._array, self._key)

    def set(self, values: Any, **options: Any) -> Any:
        """Returns the array with the elements replaced; of repeated indices the last wins."""
        return self._updated("set", values, options)

    def add(self, values: Any, **options: Any) -> Any:
        """Returns the array with values added; repeated indices add up."""
        return self._updated("add", values, options)

    def subtract(self, values: Any, **options: Any) -> Any:
        """Returns the array with values subtracted; repeated indices add up."""
        return self._updated("subtract", values, options)

    def multiply(self, values: Any, **options: Any) -> Any:
        """Returns the array with the elements multiplied."""
        return self._updated("multiply", values, options)

    def divide(self, values: Any, **options: Any) -> Any:
        """Returns the array with the elements divided; by all values of repeated indices."""
        return self._updated("divide", values, options)

    def power(self, values: Any, **options: Any) -> Any:
        """Returns the array with the elements to a power; to all values of repeated indices."""
        return self._updated("power", values, options)

    def min(self, values: Any, **options: Any) -> Any:
        """Returns the array with the smaller of element and value."""
        return self._updated("min", values, options)

    def max(self, values: Any, **options: Any) -> Any:
        """Returns the array with the larger of element and value."""
        return self._updated("max", values, options)

    def apply(self, ufunc: Callable[[Any], Any], **options: Any) -> Any:
        """Returns the array with the elements replaced by what a function makes of them, once."""
        return self._updated("apply", ufunc, options)

    def _updated(self, kind: str, values: Any, options: dict[str, Any]) -> Any:
        _check(options)
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
        x, key = self._array, self._key
        if isinstance(values, list | tuple):
            values = ops.asarray(values)
        if kind == "subtract":
            kind, values = "add", ops.negative(values)
        elif kind == "apply":
            kind, values = "set", values(ops.index(x, key))
        elif kind in ("divide", "power"):
            # Divisors, and exponents, of repeated indices multiply.
            x = ops.divide(x, 1) if kind == "divide" else x  # integers become floats
            joint = ops.index_multiply(ops.ones_like(x), key, values)
            by = getattr(ops, kind)
            kind, values = "set", by(ops.index(x, key), ops.index(joint, key))
        return ops.find(f"index_{kind}")(x, key, values)


def _check(options: dict[str, Any]) -> None:
    """Refuses options that would change what an update does."""
    unknown = set(options) - {"indices_are_sorted", "unique_indices", "mode"}
    if unknown:
        raise TypeError(f"x.at[i] has no option {sorted(unknown)[0]!r}")
    mode = options.get("mode")
    if mode not in (None, "promise_in_bounds"):
        raise ValueError(
            f"x.at[i]: mode={mode!r}, but indices out of bounds are an error here; "
            "np.clip(i, 0, len(x) - 1) brings them in, x[i < len(x)] leaves them out"
        )


def _result_is_dropped() -> bool:
    """Says whether the caller's caller pops the result that it is waiting for."""
    frame = sys._getframe(3)
    code = frame.f_code.co_code
    position = frame.f_lasti + 2
    while position < len(code) and dis.opname[code[position]] == "CACHE":
        position += 2
    return position < len(code) and dis.opname[code[position]] == "POP_TOP"
