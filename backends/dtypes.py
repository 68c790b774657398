"""Dtypes: which are numbers, how they promote, and bfloat16, which NumPy itself does not have.

``ml_dtypes`` brings bfloat16 as a dtype whose kind is ``V``. NumPy's functions take it but promote
it in their own way: a Python float widens it, an integer array is an error, sums lose all digits.
Backends therefore compute in float32 on operands in bfloat16, and round the result. That costs
nothing until the first bfloat16 is met.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from typing import TYPE_CHECKING, Any

import numpy as np

from .protocol import BackendUnavailable

if TYPE_CHECKING:
    from .annotations import DTypeLike

__all__ = [
    "EXCHANGING", "INEXACT", "MET", "MOVING", "NUMBERS", "REAL", "bfloat16", "computed_in_single",
    "finfo", "is_number_dtype", "named", "result_type", "when_met",
]  # fmt: skip

# Kinds of dtypes: of numbers, of those that have derivatives, and of the real ones among those.
NUMBERS = "?biufcV"
INEXACT = "fcV"
REAL = "fV"

# The primitives that move elements without computing with them.
MOVING = frozenset(
    {
        "astype", "broadcast_to", "conj", "flip", "index", "positive", "real", "reshape", "roll",
        "stop_gradient", "to_device", "transpose", "tril", "triu",
    }
)  # fmt: skip

# The primitives of several processes, which have ways of their own for 16 bits.
EXCHANGING = frozenset(
    {
        "all_gather", "all_to_all", "begin_mean", "end_mean", "join_shards", "pmax", "pmin",
        "ppermute", "psum", "psum_scatter", "shard",
    }
)  # fmt: skip

SINGLE = np.dtype(np.float32)
WEAK_CLASSES = frozenset({bool, int, float, complex})

# The dtype bfloat16, once it was asked for: backends and primitives look for it from then on.
MET: list[np.dtype[Any]] = []
_bfloat16_listeners: list[Callable[[np.dtype[Any]], None]] = []


def bfloat16() -> np.dtype[Any]:
    """Returns the dtype bfloat16.

    Raises:
        BackendUnavailable: the package that has it is not installed.
    """
    if not MET:
        try:
            import ml_dtypes  # only where there is a bfloat16
        except ImportError:
            raise BackendUnavailable(
                "bfloat16 is a dtype of the package ml_dtypes, which is not installed: "
                "pip install 'functensor[bfloat16]'"
            ) from None
        MET.append(np.dtype(ml_dtypes.bfloat16))
        for listener in _bfloat16_listeners:
            listener(MET[0])
    return MET[0]


def when_met(listener: Callable[[np.dtype[Any]], None]) -> None:
    """Calls a function with the dtype bfloat16, once there is one."""
    _bfloat16_listeners.append(listener)
    for dtype in MET:
        listener(dtype)


def named(dtype: DTypeLike) -> np.dtype[Any]:
    """Returns what ``numpy.dtype`` does, which knows the name bfloat16 only once it is met."""
    return bfloat16() if type(dtype) is str and dtype == "bfloat16" else np.dtype(dtype)


def is_number_dtype(dtype: np.dtype[Any]) -> bool:
    """Says whether arrays may have a dtype.

    >>> is_number_dtype(np.dtype("f4")), is_number_dtype(np.dtype("M8[s]"))
    (True, False)
    """
    if dtype.kind in "?biufc":
        return True
    return dtype.name == "bfloat16" and dtype == bfloat16()


def finfo(dtype: DTypeLike) -> Any:
    """Returns the limits of a dtype of real or complex numbers.

    >>> finfo("complex64").dtype
    dtype('float32')
    """
    wanted: np.dtype[Any] = named(dtype)
    if wanted.kind != "V":
        return np.finfo(wanted)
    import ml_dtypes  # there is a bfloat16

    limits: Any = ml_dtypes.finfo
    return limits(wanted)


def result_type(*operands: Any) -> np.dtype[Any]:
    """Returns the dtype to which operands and dtypes promote together.

    As NumPy has it; bfloat16 stays beside what does not widen float16, and becomes float32 beside
    float16.

    >>> result_type(np.ones(2, "f4"), 1.0)
    dtype('float32')
    """
    # NumPy's classes of scalars have an attribute of that name too.
    kinds = [
        x if type(x) in WEAK_CLASSES or type(x) is type else getattr(x, "dtype", x)
        for x in operands
    ]
    if not MET:
        return np.result_type(*kinds)
    dtypes = [x if type(x) in WEAK_CLASSES else np.dtype(x) for x in kinds]
    if not any(type(d) not in WEAK_CLASSES and d.kind == "V" for d in dtypes):
        return np.result_type(*dtypes)
    out: np.dtype[Any] = np.result_type(
        *(d if type(d) in WEAK_CLASSES or d.kind != "V" else SINGLE for d in dtypes)
    )
    alone = all(type(d) in WEAK_CLASSES or d.kind not in "fc" for d in dtypes)
    return MET[0] if out == SINGLE and alone else out


def computed_in_single(
    function: Callable[..., Any], narrow: Any, takes: bool = False
) -> Callable[..., Any]:
    """Makes a backend's function one that computes operands of 16 bits in float32.

    Args:
        function: computes a primitive on a backend's buffers.
        narrow: the dtype of 16 bits.
        takes: whether its operands may be of that dtype, if no other is inexact; else they are
            widened.

    Returns:
        The function; its result is rounded to the narrow dtype where no operand is of a wider one
        that is inexact, and where a parameter ``dtype`` says so. Its attribute ``wide`` is the
        given function, which is enough where no dtype of 16 bits occurs; ``takes`` is as given.
    """
    narrow = np.dtype(narrow)
    char = narrow.char

    def widened(x: Any) -> Any:
        return x.astype(SINGLE) if type(x) not in WEAK_CLASSES and x.dtype.char == char else x

    def compute(*buffers: Any, **params: Any) -> Any:
        dtype = params.get("dtype") if params else None
        asked = dtype is not None and dtype.char == char
        met, alone = False, True
        for buffer in buffers:
            if type(buffer) not in WEAK_CLASSES:
                own = buffer.dtype
                if own.char == char:
                    met = True
                elif own.kind in INEXACT:
                    alone = False
        if not (met or asked):
            return function(*buffers, **params)
        if takes and alone:
            out = function(*buffers, **params)
        else:
            if asked:
                params["dtype"] = SINGLE
            out = function(*map(widened, buffers), **params)
        if asked:
            return out if out.dtype.char == char else out.astype(dtype)
        if alone and dtype is None and out.dtype.char == "f":
            return out.astype(narrow)
        return out

    update_wrapper(compute, function)
    compute.__dict__.update(wide=function, takes=takes)
    return compute
