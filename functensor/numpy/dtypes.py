"""Types of elements, and the questions one asks of arrays without computing."""

from __future__ import annotations

import builtins
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy import (
    bool_,
    complex64,
    complex128,
    complexfloating,
    dtype,
    float16,
    float32,
    float64,
    floating,
    generic,
    inexact,
    int8,
    int16,
    int32,
    int64,
    int_,
    integer,
    intp,
    number,
    signedinteger,
    uint,
    uint8,
    uint16,
    uint32,
    uint64,
    uintp,
    unsignedinteger,
)
from numpy import can_cast as _can_cast
from numpy import iinfo as _iinfo
from numpy import isdtype as _isdtype
from numpy import issubdtype as _issubdtype

from ..backends.annotations import DTypeLike
from ..primitives.core.annotations import ArrayLike
from ..primitives.core.array import Array
from ..primitives.core.buffers import holds_array
from ..primitives.core.derivative_rules import shape_of
from ..primitives.core.python_numbers import as_python_number
from ..primitives.core.registry import registry
from ..primitives.core.shape_dtype import canonical_axes, shape_dtype
from ..primitives.core.shape_dtype import finfo as _finfo
from ..primitives.core.shape_dtype import result_type as _result_type

__all__ = [
    "bool", "bool_", "can_cast", "complex64", "complex128", "complexfloating", "dtype", "e",
    "euler_gamma", "finfo", "float16", "float32", "float64", "floating", "generic", "iinfo",
    "inexact", "inf", "int8", "int16", "int32", "int64", "int_", "integer", "intp", "iscomplexobj",
    "isdtype", "isrealobj", "isscalar", "issubdtype", "nan", "ndarray", "ndim", "newaxis", "number",
    "pi", "promote_types", "result_type", "shape", "signedinteger", "size", "uint", "uint8",
    "uint16", "uint32", "uint64", "uintp", "unsignedinteger",
]  # fmt: skip

Casting: TypeAlias = Literal["no", "equiv", "safe", "same_kind", "unsafe"]
# NumPy's name of its boolean type since version 2.
bool = np.bool_
ndarray = Array

e = np.e
pi = np.pi
euler_gamma = np.euler_gamma
inf = np.inf
nan = np.nan
newaxis = None


def _typed(x: Any) -> Any:
    """Returns an array's dtype in its place, a number as Python's own; all else as it is."""
    return x.dtype if isinstance(x, Array) else as_python_number(x)


@registry.add_function
def result_type(*arrays_and_dtypes: ArrayLike | DTypeLike) -> dtype[Any]:
    """Returns the dtype to which arrays, dtypes and Python scalars promote together.

    >>> import functensor.numpy as np
    >>> np.result_type(np.ones(2, "float32"), 1.0), np.result_type("int32", np.ones(2))
    (dtype('float32'), dtype('float64'))
    """
    return _result_type(*map(_typed, arrays_and_dtypes))


def promote_types(type1: DTypeLike, type2: DTypeLike) -> dtype[Any]:
    """Returns the smallest dtype to which two dtypes can be cast without a loss.

    >>> import functensor.numpy as np
    >>> np.promote_types("int32", "float32")
    dtype('float64')
    """
    return _result_type(np.dtype(type1), np.dtype(type2))


def issubdtype(arg1: DTypeLike, arg2: DTypeLike) -> builtins.bool:
    """Says whether a dtype belongs to a class of dtypes, like ``floating``.

    >>> import functensor.numpy as np
    >>> np.issubdtype(np.float32, np.floating), np.issubdtype("bfloat16", np.floating)
    (True, True)
    """
    if _is_bfloat16(arg1):
        arg1 = np.float16 if arg2 in (generic, number, inexact, floating) else generic
    return _issubdtype(arg1, arg2)


def isdtype(dtype: np.dtype[Any] | type, kind: DTypeLike | tuple[DTypeLike, ...]) -> builtins.bool:
    """Says whether a dtype is of a kind, like ``"real floating"``, or one of several.

    >>> import functensor.numpy as np
    >>> np.isdtype(np.dtype("float32"), "real floating")
    True
    """
    if not _is_bfloat16(dtype):
        return _isdtype(dtype, kind)
    kinds = kind if isinstance(kind, tuple) else (kind,)
    return any(k in ("numeric", "real floating") or _is_bfloat16(k) for k in kinds)


def _is_bfloat16(x: Any) -> builtins.bool:
    named: builtins.bool = getattr(x, "name", getattr(x, "__name__", x)) == "bfloat16"
    return named


@registry.add_function
def can_cast(
    from_: ArrayLike | DTypeLike, to: DTypeLike, casting: Casting = "safe"
) -> builtins.bool:
    """Says whether elements of one dtype can be cast to another under a rule.

    Args:
        from_: a dtype or an array.
        to: a dtype.
        casting: ``no``, ``equiv``, ``safe``, ``same_kind`` or ``unsafe``.

    >>> import functensor.numpy as np
    >>> np.can_cast("int32", "float64"), np.can_cast(np.ones(1), "int32")
    (True, False)
    """
    return _can_cast(_typed(from_), to, casting)


class FloatingInfo:
    """NumPy's limits of a floating-point dtype, the numbers among them as Python floats.

    Those are weak: a limit does not widen the array that it meets.
    """

    def __init__(self, limits: np.finfo[Any]) -> None:
        self._limits = limits

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._limits, name)
        return float(value) if isinstance(value, generic) else value

    def __repr__(self) -> str:
        return repr(self._limits)


def finfo(dtype: ArrayLike | DTypeLike) -> FloatingInfo:
    """Returns the limits of a floating-point dtype, or of an array's dtype.

    Args:
        dtype: a floating-point or complex dtype, or an array of one.

    Returns:
        The attributes of ``numpy.finfo``; ``max``, ``eps`` and their kin are Python floats.

    >>> import functensor.numpy as np
    >>> np.finfo(np.ones(2, "float32")).bits, np.finfo("float32").max * np.ones(1, "float32")
    (32, Array([3.4028235e+38], dtype=float32, device='cpu'))
    """
    return FloatingInfo(_finfo(_typed(dtype)))


def iinfo(type: ArrayLike | DTypeLike) -> np.iinfo[Any]:
    """Returns the limits of an integer dtype, or of an array's dtype.

    >>> import functensor.numpy as np
    >>> np.iinfo("uint8").max
    255
    """
    return _iinfo(_typed(type))


@registry.add_function
def shape(a: ArrayLike) -> tuple[int, ...]:
    """Returns the length of every axis of an array, a number or nested lists.

    >>> import functensor.numpy as np
    >>> np.shape([[1, 2, 3]])
    (1, 3)
    """
    return shape_of(a)


@registry.add_function
def ndim(a: ArrayLike) -> int:
    """Returns the number of axes of an array, a number or nested lists.

    >>> import functensor.numpy as np
    >>> np.ndim(np.ones((2, 3)))
    2
    """
    return len(shape_of(a))


@registry.add_function
def size(a: ArrayLike, axis: int | tuple[int, ...] | None = None) -> int:
    """Returns the number of elements, or the length of an axis.

    Args:
        a: an array.
        axis: which axis, or several, whose lengths are multiplied; None for all.

    Raises:
        AxisError: there is no such axis.
        ValueError: an axis is named twice.

    >>> import functensor.numpy as np
    >>> np.size(np.ones((2, 3))), np.size(np.ones((2, 3)), 1)
    (6, 3)
    """
    lengths = shape_of(a if isinstance(a, Array) else np.asarray(a))
    if axis is not None:
        lengths = tuple([lengths[i] for i in canonical_axes(axis, len(lengths))])
    product = 1
    for length in lengths:
        product *= length
    return product


@registry.add_function
def iscomplexobj(x: ArrayLike) -> builtins.bool:
    """Says whether the dtype is complex.

    >>> import functensor.numpy as np
    >>> np.iscomplexobj(np.ones(2)), np.iscomplexobj(1j)
    (False, True)
    """
    if isinstance(x, list | tuple) and holds_array(x):
        x = registry.asarray(x)
    return shape_dtype(x if isinstance(x, Array) else np.asarray(x)).dtype.kind == "c"


@registry.add_function
def isrealobj(x: ArrayLike) -> builtins.bool:
    """Says whether the dtype is not complex.

    >>> import functensor.numpy as np
    >>> np.isrealobj(np.ones(2))
    True
    """
    return not iscomplexobj(x)


def isscalar(element: Any) -> builtins.bool:
    """Says whether it is a number of Python's or NumPy's, and no array.

    >>> import functensor.numpy as np
    >>> np.isscalar(3.0), np.isscalar(np.ones(()))
    (True, False)
    """
    return np.isscalar(element)
