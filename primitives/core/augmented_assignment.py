"""Augmented assignment where ``view += y`` is meant to write into an array.

Libraries written for NumPy mean it so, and programs that give tensors to transformations. Of
immutable arrays it makes a new one, and gives that the view's name. The array that the view was
taken of stays as it is. Where it is read afterwards, the result would be wrong: the statement
raises.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FrameType
from typing import Any

import numpy as np

from ...backends.errors.tracebacks import tidy
from ...backends.frames import frame_at, module_of
from .array import Array, Tracer
from .bytecode import reads_after
from .errors import ImmutableArrayError, failure
from .numpy_protocols import LIBRARIES, Asked
from .patching import patch
from .trace import slot

__all__ = ["watch"]

# The operators of augmented assignment, by the names of their methods.
SYMBOLS = {
    "iadd": "+=", "isub": "-=", "imul": "*=", "itruediv": "/=", "ifloordiv": "//=", "imod": "%=",
    "imatmul": "@=", "ipow": "**=", "iand": "&=", "ior": "|=", "ixor": "^=", "ilshift": "<<=",
    "irshift": ">>=",
}  # fmt: skip
# The largest number of steps to find out whether two views meet; beyond, they count as meeting.
MOST_WORK: Any = 10_000
# Primitives whose result is a view of their operand in NumPy.
VIEWS = frozenset({"broadcast_to", "flip", "index", "reshape", "transpose"})


def watch() -> None:
    """Lets augmented assignments be looked at, from now on.

    Users' own code meets no such method before a library asks an array for its namespace, or a
    tensor enters a transformation.
    """
    patch(Array, "augmented assignment", _augmented_methods)


def _augmented_methods() -> dict[str, Any]:
    return {f"__{name}__": _augmented(symbol) for name, symbol in SYMBOLS.items()}


def _augmented(symbol: str) -> Callable[[Any, Any], Any]:
    """Returns the method of an operator, which refuses lost writes and leaves all else alone."""

    def method(self: Any, other: Any) -> Any:
        if slot.met_tensor and isinstance(self, Tracer) and not is_mutable(self):
            error = of_tensor(self, symbol)
            tidy(error)
            raise error
        frame = frame_at(1)
        if module_of(frame).startswith(LIBRARIES):
            name = lost_by(self, frame)
            if name:
                raise _refusal(self, frame, name)
        return NotImplemented

    return method


def is_mutable(x: Tracer) -> bool:
    """Says whether a traced value changes in place, as tensors do."""
    return getattr(x, "mutable", False)


def of_tensor(x: Tracer, symbol: str) -> ImmutableArrayError:
    """Returns the error for a traced value that would be a tensor outside of transformations."""
    return failure(
        ImmutableArrayError,
        f"x {symbol} y: the function closes over a tensor, so that outside of transformations it "
        f"would write into x ({x.describe()}), which is immutable here",
        fix=f"x = x {symbol[:-1]} y; or pass the tensor as an argument, and x is one too",
    )


def lost_by(x: Array, frame: FrameType) -> str:
    """Returns the variable that would miss what ``x += y`` writes into a view of it, or nothing.

    The statement is the frame's current instruction.
    """
    target, read = reads_after(frame.f_code, frame.f_lasti)
    if not target:
        # Items and attributes refuse assignments themselves.
        return ""
    for name, value in frame.f_locals.items():
        if name in read and name != target and isinstance(value, Array) and meets(x, value):
            return name
    return ""


def meets(x: Array, y: Array) -> bool:
    """Says whether what is written into an array is to be seen in another variable's."""
    # A copy of an array is another object; a copy of a traced value may be the same one.
    return (x is y and type(x) is Array) or overlap(x, y)


def overlap(x: Any, y: Any) -> bool:
    """Says whether of two arrays one is a view of the other, or both are of a third."""
    x, y = bottom(x), bottom(y)
    traced = isinstance(x, Tracer), isinstance(y, Tracer)
    if any(traced):
        if not all(traced) or x.owner is not y.owner:
            return False
        sources: Callable[[Any], Any] = x.owner.views
        first, second = x.variable, y.variable
        return first is not second and (second in sources(first) or first in sources(second))
    if not isinstance(x, np.ndarray) or not isinstance(y, np.ndarray) or x is y:
        return False
    try:
        return np.shares_memory(x, y, MOST_WORK)
    except np.exceptions.TooHardError:
        return True


def bottom(x: Any) -> Any:
    """Returns the buffer behind an array, or the tracer of a value that is not there yet."""
    while isinstance(x, Tracer) and not hasattr(x, "variable"):
        x = x.value
    return x._data if isinstance(x, Array) and not isinstance(x, Tracer) else x


def _refusal(x: Any, frame: FrameType, name: str) -> ImmutableArrayError:
    code = frame.f_code
    module = module_of(frame)
    public, caller = code.co_name, frame.f_back
    while public.startswith("_") and caller is not None:
        public, caller = caller.f_code.co_name, caller.f_back
    return failure(
        ImmutableArrayError,
        f"{public} of {module.partition('.')[0]} writes into a view of its variable {name!r}, "
        f"{x.describe()}, in {code.co_name} ({module}, line {frame.f_lineno}), but arrays are "
        "immutable",
        fix="the function of functensor.scipy, if there is one; or, without derivatives, "
        f"{public}(numpy.asarray(x))",
    )


Asked.watch = staticmethod(watch)
