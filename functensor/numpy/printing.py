"""NumPy's settings and what it says of dtypes and numbers, which hold for our arrays as well."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy import (
    False_,
    ScalarType,
    True_,
    base_repr,
    binary_repr,
    byte,
    cdouble,
    csingle,
    double,
    errstate,
    format_float_positional,
    format_float_scientific,
    get_printoptions,
    getbufsize,
    geterr,
    geterrcall,
    half,
    intc,
    long,
    longlong,
    mintypecode,
    printoptions,
    sctypeDict,
    set_printoptions,
    setbufsize,
    seterr,
    seterrcall,
    short,
    single,
    typecodes,
    typename,
    ubyte,
    uintc,
    ulong,
    ulonglong,
    ushort,
)

from ..primitives.core.annotations import ArrayLike
from ..primitives.core.array import Array, Tracer
from ..primitives.core.registry import registry
from .creation import asarray
from .known_values import are_values_known, value_of

__all__ = [
    "False_", "ScalarType", "True_", "array2string", "array_repr", "array_str", "base_repr",
    "binary_repr", "byte", "cdouble", "common_type", "csingle", "double", "einsum_path", "errstate",
    "format_float_positional", "format_float_scientific", "get_printoptions", "getbufsize",
    "geterr", "geterrcall", "half", "intc", "iterable", "long", "longlong", "min_scalar_type",
    "mintypecode", "printoptions", "sctypeDict", "set_printoptions", "setbufsize", "seterr",
    "seterrcall", "short", "single", "typecodes", "typename", "ubyte", "uintc", "ulong",
    "ulonglong", "ushort",
]  # fmt: skip


# -- as text


@registry.add_function
def array2string(a: ArrayLike, *args: Any, **kwargs: Any) -> str:
    """Returns the elements of an array as text.

    Args:
        a: an array; of one whose values are not known its description is returned.
        args, kwargs: NumPy's options: ``max_line_width, precision, separator, formatter ...``.

    >>> import functensor.numpy as np
    >>> np.array2string(np.array([1.0, 2.5]), separator=", ")
    '[1. , 2.5]'
    """
    a = asarray(a)
    if not are_values_known(a):
        return repr(a)
    return np.array2string(value_of("array2string", a, ""), *args, **kwargs)


@registry.add_function
def array_str(
    a: ArrayLike,
    max_line_width: int | None = None,
    precision: int | None = None,
    suppress_small: bool | None = None,
) -> str:
    """Returns the elements of an array as text, like ``str``.

    Args:
        a: an array.
        max_line_width, precision, suppress_small: as for NumPy's function.

    >>> import functensor.numpy as np
    >>> np.array_str(np.array([1.0, 2.5]))
    '[1.  2.5]'
    """
    a = asarray(a)
    if not are_values_known(a):
        return repr(a)
    value = value_of("array_str", a, "")
    return np.array_str(value, max_line_width, precision, suppress_small)


@registry.add_function
def array_repr(
    arr: ArrayLike,
    max_line_width: int | None = None,
    precision: int | None = None,
    suppress_small: bool | None = None,
) -> str:
    """Returns an array as text that tells its dtype too, like ``repr``.

    Args:
        arr: an array.
        max_line_width, precision, suppress_small: as for NumPy's function.

    >>> import functensor.numpy as np
    >>> np.array_repr(np.array([1.0, 2.5]))
    "Array([1. , 2.5], dtype=float64, device='cpu')"
    """
    changes = {"linewidth": max_line_width, "precision": precision, "suppress": suppress_small}
    with printoptions(**{k: v for k, v in changes.items() if v is not None}):  # type: ignore[arg-type]
        return repr(asarray(arr))


# -- of dtypes


@registry.add_function
def common_type(*arrays: ArrayLike) -> type[np.inexact[Any]]:
    """Returns the inexact type of elements to which arrays promote; integers count as ``float64``.

    Raises:
        TypeError: an array holds booleans.

    >>> import functensor.numpy as np
    >>> np.common_type(np.ones(2, "float32"), np.ones(2, "complex64"))
    <class 'numpy.complex64'>
    """
    return np.common_type(*(np.empty(0, asarray(x).dtype) for x in arrays))


@registry.add_function
def min_scalar_type(a: ArrayLike, /) -> np.dtype[Any]:
    """Returns the smallest dtype that holds a number; of an array that has axes, its dtype.

    >>> import functensor.numpy as np
    >>> np.min_scalar_type(10)
    dtype('uint8')
    """
    if isinstance(a, Array):
        unknown = isinstance(a, Tracer) and not are_values_known(a)
        if a.shape or unknown:
            return a.dtype
        a = value_of("min_scalar_type", a, "")
    return np.min_scalar_type(a)


def iterable(y: Any) -> bool:
    """Says whether one can iterate over something: whether it has an axis.

    >>> import functensor.numpy as np
    >>> np.iterable(np.ones(2)), np.iterable(np.ones(()))
    (True, False)
    """
    try:
        iter(y)
    except TypeError:
        return False
    return True


@registry.add_function
def einsum_path(
    *operands: ArrayLike | str, optimize: bool | str | tuple[str, int] = "greedy"
) -> tuple[list[Any], str]:
    """Returns the order in which `einsum` had best contract its operands, and a text about it.

    Args:
        operands: as for `einsum`; of arrays only the shapes matter.
        optimize: ``greedy``, ``optimal``, True or False, or a pair of one and a memory limit.

    >>> import functensor.numpy as np
    >>> np.einsum_path("ij,jk,kl->il", np.ones((2, 2)), np.ones((2, 5)), np.ones((5, 2)))[0]
    ['einsum_path', (1, 2), (0, 1)]
    """
    stand_ins: list[Any] = [
        np.broadcast_to(np.empty((), x.dtype), x.shape) if isinstance(x, Array) else x
        for x in operands
    ]
    return np.einsum_path(*stand_ins, optimize=optimize)
