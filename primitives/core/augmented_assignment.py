"""Augmented assignment where ``view += y`` is meant to write into an array.

Libraries written for NumPy mean it so, and programs that give tensors to transformations. Of
immutable arrays it makes a new one, and gives that the view's name. The array that the view was
taken of stays as it is. Where it is read afterwards, the result would be wrong: the statement
raises.
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable
from functools import lru_cache
from types import CodeType, FrameType
from typing import Any

import numpy as np

from ...backends.errors.tracebacks import tidy
from .array import Array, Tracer
from .errors import ImmutableArrayError, message
from .numpy_protocols import LIBRARIES, Asked
from .trace import slot

__all__ = ["watch"]

# The operators of augmented assignment, by the names of their methods.
SYMBOLS = {
    "iadd": "+=", "isub": "-=", "imul": "*=", "itruediv": "/=", "ifloordiv": "//=", "imod": "%=",
    "imatmul": "@=", "ipow": "**=", "iand": "&=", "ior": "|=", "ixor": "^=", "ilshift": "<<=",
    "irshift": ">>=",
}  # fmt: skip
# The instruction of augmented assignments, among others.
ASSIGNING = dis.opmap["BINARY_OP"]
# How many steps are taken to find out whether two views meet; beyond, they count as doing so.
MOST_WORK: Any = 10_000
# Attributes that a write does not change.
TYPE = frozenset({"device", "dtype", "ndim", "shape", "size"})
# Primitives whose result is a view of their operand in NumPy.
VIEWS = frozenset({"broadcast_to", "flip", "index", "reshape", "transpose"})


def watch() -> None:
    """Lets augmented assignments be looked at, from now on.

    Users' own code meets no such method before a library asks an array for its namespace, or a
    tensor enters a transformation.
    """
    if "__iadd__" not in Array.__dict__:
        for name, symbol in SYMBOLS.items():
            setattr(Array, f"__{name}__", _augmented(symbol))


def _augmented(symbol: str) -> Callable[[Any, Any], Any]:
    """Returns the method of an operator, which refuses what would be lost.

    Otherwise the operator without assignment comes next.
    """

    def method(self: Any, other: Any) -> Any:
        aliases = slot.aliases
        if aliases is not None:
            held = sys.getrefcount(self)
            frame = sys._getframe(1)
            # ``operator.iadd`` gives no name to what it returns.
            held = held if frame.f_code.co_code[frame.f_lasti] == ASSIGNING else 0
            error = aliases.refusal(self, symbol, other, held)
            if error is not None:
                tidy(error)
                raise error
        frame = sys._getframe(1)
        if (frame.f_globals.get("__name__") or "").startswith(LIBRARIES):
            name = lost_by(self, frame)
            if name:
                raise _refusal(self, frame, name)
        return NotImplemented

    return method


def lost_by(x: Array, frame: FrameType) -> str:
    """Returns the variable that would miss what is written into a view of it, or nothing.

    Args:
        x: what is on the left of an augmented assignment.
        frame: whose current instruction that is.
    """
    target, read = reads_after(frame.f_code, frame.f_lasti)
    if not target:
        # An item or an attribute, which say themselves that they are not assigned to.
        return ""
    for name, value in frame.f_locals.items():
        if name in read and name != target and isinstance(value, Array) and meets(x, value):
            return name
    return ""


def meets(x: Array, y: Array) -> bool:
    """Says whether what is written into an array is to be seen in another variable's."""
    # Copies of arrays are other objects, those of traced values may be the same.
    return (x is y and type(x) is Array) or overlap(x, y)


@lru_cache(256)
def reads_after(code: CodeType, at: int) -> tuple[str, frozenset[str]]:
    """Returns the variable that the instruction at an offset goes to, and those read afterwards.

    A variable counts as read if it is read before it is assigned to, in the order of the code; at
    the end of a loop around the offset the loop begins anew.
    """
    steps = list(dis.get_instructions(code))
    place = next(i for i, step in enumerate(steps) if step.offset >= at)
    rest = steps[place + 1 :]
    starts = [s.argval for s in rest if "JUMP_BACKWARD" in s.opname and s.argval <= at]
    if starts:
        rest = rest + [s for s in steps[:place] if s.offset >= min(starts)]
    store = next((s for s in rest if s.opname.startswith("STORE_")), None)
    if store is None or "FAST" not in store.opname:
        return "", frozenset()
    target = store.argval[0] if isinstance(store.argval, tuple) else store.argval
    first: dict[str, str] = {}
    for step, following in zip(rest, [*rest[1:], rest[-1]], strict=True):
        if following.opname == "LOAD_ATTR" and following.argval in TYPE and "LOAD" in step.opname:
            continue
        words = [word for word in step.opname.split("_") if word in ("LOAD", "STORE", "DELETE")]
        if "FAST" not in step.opname and "DEREF" not in step.opname:
            continue
        names = step.argval if isinstance(step.argval, tuple) else (step.argval,)
        for word, name in zip(words, names, strict=False):
            first.setdefault(name, word)
    return target, frozenset(name for name, word in first.items() if word == "LOAD")


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
    module = frame.f_globals["__name__"]
    public, caller = code.co_name, frame.f_back
    while public.startswith("_") and caller is not None:
        public, caller = caller.f_code.co_name, caller.f_back
    return ImmutableArrayError(
        message(
            f"{public} of {module.partition('.')[0]} writes into a view of its variable {name!r}, "
            f"{x.describe()}, in {code.co_name} ({module}, line {frame.f_lineno}), but arrays are "
            "immutable",
            fix="the function of functensor.scipy, if there is one; or, without derivatives, "
            f"{public}(numpy.asarray(x))",
            number=3,
        )
    )


Asked.watch = staticmethod(watch)
