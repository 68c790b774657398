"""Shapes, dtypes and weakness: all that is known of an array without its values."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...backends.annotations import DType, Shape, Shaped
from ...backends.dtypes import (
    INEXACT,
    MET,
    NUMBERS,
    REAL,
    finfo,
    is_number_dtype,
    named,
    result_type,
)
from .derivative_rules import shape_of
from .errors import OperandError, ShapeError, failure
from .python_numbers import INT64_MAX, INT64_MIN, Complex, Float, Int

__all__ = [
    "CONSTANT_BYTES", "INEXACT", "NUMBERS", "REAL", "ShapeDtype", "are_small_constants", "as_list",
    "broadcast_shapes", "canonical_axes", "canonical_axis", "finfo", "is_number_dtype",
    "number_dtype", "result_type", "shape_dtype",
]  # fmt: skip


# An operation of constants is computed while staging if its operands and its results take at most
# this many bytes each.
CONSTANT_BYTES = 1 << 16


class ShapeDtype(Shaped):
    """The shape and dtype of an array, and whether it is a weak Python scalar.

    Args:
        shape: the length of every axis.
        dtype: anything that ``numpy.dtype`` takes.
        weak: the Python type (``float``, ``int``, ``bool``, ``complex``) of a scalar that does
            not decide a promotion; None for arrays.

    >>> ShapeDtype((2, 3), "float32")
    float32[2,3]
    """

    __slots__ = ("dtype", "shape", "weak")
    shape: Shape
    dtype: DType

    def __init__(self, shape: Sequence[int], dtype: Any, weak: type | None = None) -> None:
        self.shape = tuple(shape)
        self.dtype = known = np.dtype(dtype)
        if known.kind == "V" and not MET:
            # Primitives infer other dtypes from bfloat16 until they know it.
            is_number_dtype(known)
        self.weak = weak

    def strong(self) -> ShapeDtype:
        """Returns the same as that of an array, which decides promotions."""
        return ShapeDtype(self.shape, self.dtype)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, ShapeDtype) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[Any, ...]:
        return self.shape, self.dtype, self.weak

    def __repr__(self) -> str:
        weak = "weak " if self.weak else ""
        return f"{weak}{self.dtype}[{','.join(map(str, self.shape))}]"


WEAK_SCALARS = {kind: ShapeDtype((), kind, kind) for kind in (float, bool, complex)}
WEAK_INTEGER = ShapeDtype((), int, int)
WEAK_SCALARS |= {Float: WEAK_SCALARS[float], Complex: WEAK_SCALARS[complex]}


def are_small_constants(*types: ShapeDtype) -> bool:
    """Says whether arrays of types are so small that operations of them are done while staging."""
    return all(known.size * known.dtype.itemsize <= CONSTANT_BYTES for known in types)


def number_dtype(dtype: Any) -> np.dtype[Any]:
    """Returns a dtype of numbers.

    Raises:
        OperandError: it is one of objects, strings or dates.

    >>> number_dtype("f4")
    dtype('float32')
    """
    wanted = named(dtype)
    if not is_number_dtype(wanted):
        raise OperandError(f"arrays hold numbers, not dtype {wanted}")
    return wanted


def shape_dtype(x: Any) -> ShapeDtype:
    """Returns the ``ShapeDtype`` of an array, a buffer, a tracer or a Python scalar.

    >>> shape_dtype(2.0)
    weak float64[]
    """
    if isinstance(x, ShapeDtype):
        return x
    known = WEAK_SCALARS.get(type(x))
    if known is not None:
        return known
    if type(x) is int or type(x) is Int:
        # Large ones have other dtypes.
        if INT64_MIN <= x <= INT64_MAX:
            return WEAK_INTEGER
        return ShapeDtype((), np.asarray(x).dtype, int)
    try:
        return ShapeDtype(shape_of(x), x.dtype)
    except AttributeError:
        raise OperandError(
            f"expected an array or a number, got {type(x).__name__}: {x!r:.60}"
        ) from None


def broadcast_shapes(name: str, *shapes: tuple[int, ...]) -> tuple[int, ...]:
    """Returns the shape to which shapes broadcast.

    Raises:
        ShapeError: they do not; the message names the operation, the shapes and the axis.

    >>> broadcast_shapes("add", (2, 1), (3,))
    (2, 3)
    """
    known = {shape for shape in shapes if shape}
    if len(known) < 2:
        return known.pop() if known else ()
    rank = max(map(len, shapes))
    out = []
    for axis in range(-rank, 0):
        lengths = {shape[axis] for shape in shapes if len(shape) >= -axis} - {1}
        if len(lengths) > 1:
            listed = " and ".join(map(str, shapes))
            raise failure(
                ShapeError,
                f"{name}: shapes {listed} do not broadcast: axis {axis} has lengths "
                + " and ".join(str(s[axis]) for s in shapes if len(s) >= -axis),
                fix="make the lengths equal or 1, e.g. x[:, None] adds an axis of length 1",
            )
        out.append(lengths.pop() if lengths else 1)
    return tuple(out)


def as_list(x: Any) -> list[Any]:
    """Returns one thing, or several, as a list; an array without axes is one.

    >>> as_list(3), as_list((1, 2))
    ([3], [1, 2])
    """
    one = not hasattr(type(x), "__iter__") or getattr(x, "shape", None) == ()
    return [x] if one else list(x)


def canonical_axis(axis: int, ndim: int, name: str = "axis") -> int:
    """Returns an axis counted from the front.

    Raises:
        TypeError: the axis is no integer, but a boolean for instance.
        numpy.exceptions.AxisError: there is no such axis.

    >>> canonical_axis(-1, 3)
    2
    """
    if type(axis) is int and -ndim <= axis < ndim:
        return axis % ndim
    if isinstance(axis, bool):
        raise TypeError(f"an axis is an integer, not {axis}: other arguments go by their names")
    index = operator.index(axis)
    if not -ndim <= index < ndim:
        raise np.exceptions.AxisError(index, ndim, name if name != "axis" else None)
    return index % ndim


def canonical_axes(axis: Any, ndim: int) -> tuple[int, ...]:
    """Returns axes as a sorted tuple counted from the front; None stands for all.

    Raises:
        numpy.exceptions.AxisError: there is no such axis.
        ValueError: an axis is named twice.

    >>> canonical_axes((-1, 0), 3)
    (0, 2)
    """
    if axis is None:
        return tuple(range(ndim))
    if type(axis) is int and -ndim <= axis < ndim:
        return (axis % ndim,)
    named = axis if isinstance(axis, tuple | list) else (axis,)
    axes = sorted(canonical_axis(a, ndim) for a in named)
    if len(set(axes)) < len(axes):
        raise ValueError(f"axis {axis} names an axis twice")
    return tuple(axes)
