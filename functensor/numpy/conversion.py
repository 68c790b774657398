"""Arrays in other forms: other sizes, other layouts, real rather than complex; numbers in parts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import Any

import numpy as np

from ..backends.annotations import Axis, Buffer, DTypeLike, ShapeLike
from ..primitives.core.annotations import ArrayLike
from ..primitives.core.annotations import operations as ops
from ..primitives.core.array import Array
from ..primitives.core.buffers import beside, operands_together
from ..primitives.core.errors import refuse_out, refuse_where
from ..primitives.core.shape_dtype import REAL, canonical_axes, canonical_axis, finfo
from ..primitives.core.ufunc_methods import method_of
from ..primitives.elementwise.number_parts import (
    bitwise_count,
    exponent_of,
    fraction_of,
    gcd,
    lcm,
    ldexp,
    spacing,
)
from ..primitives.shape.reshape_transpose import as_shape
from .creation import asarray
from .known_values import value_of
from .sorting import compress
from .zeros_ones import zeros_like

__all__ = [
    "asanyarray", "asarray_chkfinite", "ascontiguousarray", "asfortranarray", "bitwise_count",
    "divmod", "frexp", "frombuffer", "fromiter", "fromstring", "gcd", "lcm", "ldexp", "modf",
    "packbits", "real_if_close", "require", "resize", "rollaxis", "row_stack", "spacing",
    "trim_zeros", "unpackbits",
]  # fmt: skip


# -- arrays out of arrays


def asanyarray(
    a: ArrayLike, dtype: DTypeLike | None = None, order: str | None = None, *,
    device: str | None = None,
) -> Array:
    """Returns the same values as an array: `asarray`, as arrays have no subclasses.

    Args:
        a, dtype, order, device: as for `asarray`.

    >>> import functensor.numpy as np
    >>> np.asanyarray([1, 2])
    Array([1, 2], dtype=int64, device='cpu')
    """
    return asarray(a, dtype, device=device)


def ascontiguousarray(a: ArrayLike, dtype: DTypeLike | None = None) -> Array:
    """Returns the same values as an array of at least one axis; how they lie in memory is open.

    Args:
        a, dtype: as for `asarray`.

    >>> import functensor.numpy as np
    >>> np.ascontiguousarray(2.0)
    Array([2.], dtype=float64, device='cpu')
    """
    return ops.atleast_1d(asarray(a, dtype))


def asfortranarray(a: ArrayLike, dtype: DTypeLike | None = None) -> Array:
    """Returns the same values as an array of at least one axis; how they lie in memory is open.

    Args:
        a, dtype: as for `asarray`.

    >>> import functensor.numpy as np
    >>> np.asfortranarray([[1.0, 2.0]]).shape
    (1, 2)
    """
    return ops.atleast_1d(asarray(a, dtype))


def require(
    a: ArrayLike, dtype: DTypeLike | None = None, requirements: str | Sequence[str] | None = None
) -> Array:
    """Returns the same values as an array of a dtype.

    Args:
        a: what `asarray` takes.
        dtype: the dtype; None takes that of the values.
        requirements: NumPy's words for memory layouts, which are open here; but for ``W``.

    Raises:
        ValueError: the array is to be writeable.

    >>> import functensor.numpy as np
    >>> np.require([1, 2], float, "C")
    Array([1., 2.], dtype=float64, device='cpu')
    """
    words = [requirements] if isinstance(requirements, str) else requirements or []
    if {str(word).upper() for word in words} & {"W", "WRITEABLE"}:
        raise ValueError("require: arrays are immutable, there are no writeable ones")
    return asarray(a, dtype)


def asarray_chkfinite(
    a: ArrayLike, dtype: DTypeLike | None = None, order: str | None = None
) -> Array:
    """Returns the same values as an array, once it is clear that they are finite.

    Args:
        a, dtype, order: as for `asarray`.

    Raises:
        ValueError: there is an infinity or NaN.
        ConcretizationError: the values are not known, under vmap or while staging.

    >>> import functensor.numpy as np
    >>> np.asarray_chkfinite([1.0, 2.0])
    Array([1., 2.], dtype=float64, device='cpu')
    """
    a = asarray(a, dtype)
    fix = "check x before the transformation: ft.vmap(f)(np.asarray_chkfinite(x))"
    value = value_of("asarray_chkfinite", a, fix, "whether {} raises an error")
    if not np.all(np.isfinite(value)):
        raise ValueError("asarray_chkfinite: there are infinities or NaN among the values")
    return a


def fromiter(iter: Iterable[Any], dtype: DTypeLike, count: int = -1) -> Array:
    """Returns the numbers that an iterable yields, on one axis.

    Args:
        iter: what yields numbers; of traced ones `stack` makes an array.
        dtype: the dtype.
        count: how many numbers to take; all of them by default.

    >>> import functensor.numpy as np
    >>> np.fromiter((i * i for i in range(3)), float)
    Array([0., 1., 4.], dtype=float64, device='cpu')
    """
    return asarray(np.fromiter(iter, dtype, count))


def frombuffer(
    buffer: Buffer | bytes | memoryview, dtype: DTypeLike = float, count: int = -1, offset: int = 0
) -> Array:
    """Returns the numbers that the memory of an object holds, on one axis.

    Args:
        buffer: an object with a buffer: ``bytes``, ``memoryview``.
        dtype: the dtype.
        count: how many numbers to take; all of them by default.
        offset: at which byte to begin.

    >>> import functensor.numpy as np
    >>> np.frombuffer(bytes([1, 2]), "uint8")
    Array([1, 2], dtype=uint8, device='cpu')
    """
    return asarray(np.frombuffer(buffer, dtype, count, offset))


def fromstring(string: str, dtype: DTypeLike = float, count: int = -1, *, sep: str) -> Array:
    """Returns the numbers that stand in a text, on one axis.

    Args:
        string: the text.
        dtype: the dtype.
        count: how many numbers to take; all of them by default.
        sep: what stands between them.

    >>> import functensor.numpy as np
    >>> np.fromstring("1, 2", sep=",")
    Array([1., 2.], dtype=float64, device='cpu')
    """
    return asarray(np.fromstring(string, dtype, count, sep=sep))


@ops.add_function
def resize(a: ArrayLike, new_shape: ShapeLike) -> Array:
    """Returns an array of another shape, filled with the elements of one as often as they fit.

    Args:
        a: an array.
        new_shape: the shape.

    Raises:
        ValueError: a length is negative.

    >>> import functensor.numpy as np
    >>> np.resize(np.array([1, 2, 3]), (2, 2)).tolist()
    [[1, 2], [3, 1]]
    """
    a = asarray(a)
    lengths = as_shape(new_shape)
    if min(lengths, default=0) < 0:
        raise ValueError(f"resize: there is no shape {lengths}")
    if not a.size:
        return zeros_like(a, shape=lengths)
    flat = ops.reshape(a, -1)
    return ops.reshape(ops.take(flat, np.arange(prod(lengths)) % a.size), lengths)


@ops.add_function
def rollaxis(a: ArrayLike, axis: int, start: int = 0) -> Array:
    """Returns an array with an axis moved in front of another one; `moveaxis` is clearer.

    Args:
        a: an array.
        axis: which axis.
        start: in front of which axis it goes; as many as there are for the end.

    >>> import functensor.numpy as np
    >>> np.rollaxis(np.ones((3, 4, 5)), 2).shape
    (5, 3, 4)
    """
    rank = len(asarray(a).shape)
    axis = canonical_axis(axis, rank)
    place = start + rank if start < 0 else start
    if not 0 <= place <= rank:
        raise np.exceptions.AxisError(start, rank + 1, "start")
    return ops.moveaxis(asarray(a), axis, place - 1 if axis < place else place)


def row_stack(tup: ArrayLike, *, dtype: DTypeLike | None = None) -> Array:
    """Returns arrays joined along the first axis, 1-d ones as rows: `vstack`.

    Args:
        tup: arrays, or what can be one.
        dtype: of the result; None for that to which theirs promote.

    >>> import functensor.numpy as np
    >>> np.row_stack([np.zeros(2), np.ones(2)]).tolist()
    [[0.0, 0.0], [1.0, 1.0]]
    """
    return ops.vstack(tup, dtype=dtype)


@ops.add_function
def trim_zeros(
    filt: ArrayLike,
    trim: str = "fb",
    axis: Axis = None,
    *,
    size: int | Sequence[int] | None = None,
    fill_value: ArrayLike = 0,
) -> Array:
    """Returns an array without the zeros at its ends.

    Args:
        filt: an array.
        trim: from where: ``f`` the front, ``b`` the back, ``fb`` both.
        axis: along which axes: None for all, an integer or a tuple.
        size: how many slices to return along each of the axes, for where the values are not known:
            the first ones. An integer, or a tuple with one for each of the axes.
        fill_value: what stands behind them where there are fewer.

    Raises:
        ConcretizationError: the values are not known, and no size is given.

    >>> import functensor.numpy as np
    >>> np.trim_zeros(np.array([0.0, 1.0, 0.0, 2.0, 0.0]))
    Array([1., 0., 2.], dtype=float64, device='cpu')
    >>> np.trim_zeros(np.array([0.0, 1.0, 2.0]), size=3)
    Array([1., 2., 0.], dtype=float64, device='cpu')
    """
    x = asarray(filt)
    words = str(trim).lower()
    if words not in ("f", "b", "fb", "bf"):
        raise ValueError(f"trim_zeros: trim is 'f', 'b' or 'fb', not {trim!r}")
    axes = canonical_axes(axis, len(x.shape))
    sizes = tuple(size) if isinstance(size, Sequence) else (size,) * len(axes)
    if len(sizes) != len(axes):
        raise ValueError(f"trim_zeros: {len(sizes)} sizes for {len(axes)} axes")
    filled: Any = ops.not_equal(x, 0)
    if size is None:
        filled = value_of("trim_zeros", filled, "np.trim_zeros(x, size=n)")
    for i, count in zip(axes, sizes, strict=True):
        others = tuple([j for j in range(len(x.shape)) if j != i])
        some = ops.astype(ops.any(filled, axis=others), np.intp)
        seen = ops.cumsum(some)
        inside: Any = True
        if "f" in words:
            inside = ops.greater(seen, 0)
        if "b" in words:
            coming = ops.subtract(ops.sum(some), ops.subtract(seen, some))
            inside = ops.logical_and(inside, ops.greater(coming, 0))
        x = compress(inside, x, i, size=count, fill_value=fill_value)
    return x


@ops.add_function
def real_if_close(a: ArrayLike, tol: float = 100) -> Array:
    """Returns the real part of a complex array whose imaginary parts are all next to zero.

    Args:
        a: an array.
        tol: how large they may be: as a multiple of the dtype's precision where it is larger than
            1, an absolute number otherwise.

    Returns:
        A real array, or a itself.

    Raises:
        ConcretizationError: complex values, on which the dtype depends, are not known, under vmap
            or while staging.

    >>> import functensor.numpy as np
    >>> np.real_if_close(np.array([2.0 + 1e-15j]))
    Array([2.], dtype=float64, device='cpu')
    """
    a = asarray(a)
    if a.dtype.kind != "c":
        return a
    limit = tol * float(finfo(a.dtype).eps) if tol > 1 else tol
    value = value_of("real_if_close", a, "np.real(x)", "the dtype of what {} returns")
    return ops.real(a) if np.all(np.abs(value.imag) < limit) else a


# -- numbers in parts


@ops.add_function
def divmod(
    x1: ArrayLike, x2: ArrayLike, /, out: None = None, *, where: ArrayLike = True
) -> tuple[Array, Array]:
    """Returns the quotient rounded down, and the remainder.

    Args:
        x1, x2: arrays whose shapes broadcast, or numbers.
        out, where: refused: arrays are immutable.

    >>> import functensor.numpy as np
    >>> np.divmod(np.array([7.5]), 2)
    (Array([3.], dtype=float64, device='cpu'), Array([1.5], dtype=float64, device='cpu'))
    """
    refuse_out("divmod", out)
    refuse_where("divmod", where)
    x1, x2 = operands_together("divmod", x1, x2)
    return ops.floor_divide(x1, x2), ops.remainder(x1, x2)


# NumPy's divmod has this method of ufuncs alone: the others are for single results.
setattr(divmod, "outer", method_of(divmod, "divmod", "outer"))  # noqa: B010 - mypy knows no attribute


@ops.add_function
def modf(x: ArrayLike, /, out: None = None, *, where: ArrayLike = True) -> tuple[Array, Array]:
    """Returns the part of numbers behind the point and the one before it, both with their sign.

    Args:
        x: a real array of any shape, or a number.
        out, where: refused: arrays are immutable.

    >>> import functensor.numpy as np
    >>> np.modf(np.array([3.5]))
    (Array([0.5], dtype=float64, device='cpu'), Array([3.], dtype=float64, device='cpu'))
    """
    refuse_out("modf", out)
    refuse_where("modf", where)
    x = _floating(asarray(x))
    return fraction_of(x), ops.trunc(x)


def _floating(x: Array) -> Array:
    """Returns integers in the floating-point dtype to which NumPy casts them."""
    return x if x.dtype.kind in REAL else ops.astype(x, np.modf(np.ones((), x.dtype))[0].dtype)


@ops.add_function
def frexp(x: ArrayLike, /, out: None = None, *, where: ArrayLike = True) -> tuple[Array, Array]:
    """Returns mantissas m and exponents e of numbers: x = m * 2**e, abs(m) from 0.5 up to 1.

    Args:
        x: a real array of any shape, or a number.
        out, where: refused: arrays are immutable.

    Returns:
        The mantissas, of x's dtype, and the exponents, ``int32``. Derivatives flow to mantissas.

    >>> import functensor.numpy as np
    >>> m, e = np.frexp(np.array([6.0]))
    >>> m.tolist(), e.tolist()
    ([0.75], [3])
    """
    refuse_out("frexp", out)
    refuse_where("frexp", where)
    x = _floating(asarray(x))
    exponent = exponent_of(x)
    return ldexp(x, ops.negative(exponent)), exponent


# -- bits of bytes


def _bit_shifts(name: str, bitorder: str) -> Buffer:
    """Returns by how much each of eight bits is shifted."""
    if bitorder not in ("big", "little"):
        raise ValueError(f"{name}: bitorder is 'big' or 'little', not {bitorder!r}")
    shifts = np.arange(8, dtype=np.uint8)
    return shifts[::-1] if bitorder == "big" else shifts


@ops.add_function
def packbits(a: ArrayLike, /, axis: int | None = None, bitorder: str = "big") -> Array:
    """Returns bytes out of bits along an axis, filled up with zeros.

    Args:
        a: integers or booleans; what is not zero is a set bit.
        axis: along which axis; None flattens the array first.
        bitorder: ``big``: the first bit is that of the highest value; ``little``: of the lowest.

    Returns:
        ``uint8`` numbers, one for eight bits.

    >>> import functensor.numpy as np
    >>> np.packbits(np.array([1, 0, 0, 0, 0, 0, 0, 1]))
    Array([129], dtype=uint8, device='cpu')
    """
    a = asarray(a)
    if a.dtype.kind not in "biu":
        raise TypeError(f"packbits: bits are integers or booleans, not {a.dtype}")
    shifts = _bit_shifts("packbits", bitorder)
    if axis is None:
        a, axis = ops.reshape(a, -1), 0
    bits = ops.moveaxis(ops.astype(ops.not_equal(a, 0), np.uint8), axis, -1)
    length = bits.shape[-1]
    count = -(-length // 8)
    bits = ops.pad(bits, [(0, 0)] * (len(bits.shape) - 1) + [(0, 8 * count - length)])
    bits = ops.reshape(bits, (*bits.shape[:-1], count, 8))
    shifted = ops.left_shift(bits, beside(bits, shifts))
    return ops.moveaxis(ops.sum(shifted, -1, dtype=np.uint8), -1, axis)


@ops.add_function
def unpackbits(
    a: ArrayLike, /, axis: int | None = None, count: int | None = None, bitorder: str = "big"
) -> Array:
    """Returns the bits of bytes along an axis.

    Args:
        a: ``uint8`` numbers.
        axis: along which axis; None flattens the array first.
        count: how many bits to return, zeros behind the last one; negative: without as many of the
            last; None for all.
        bitorder: ``big``: the first bit is that of the highest value; ``little``: of the lowest.

    Returns:
        ``uint8`` numbers, 0 and 1.

    >>> import functensor.numpy as np
    >>> np.unpackbits(np.array([129], dtype="uint8"))
    Array([1, 0, 0, 0, 0, 0, 0, 1], dtype=uint8, device='cpu')
    """
    a = asarray(a)
    if a.dtype != np.uint8:
        raise TypeError(f"unpackbits: bytes are wanted, dtype uint8, not {a.dtype}")
    shifts = _bit_shifts("unpackbits", bitorder)
    if axis is None:
        a, axis = ops.reshape(a, -1), 0
    own = ops.expand_dims(ops.moveaxis(a, axis, -1), -1)
    bits = ops.bitwise_and(ops.right_shift(own, beside(own, shifts)), np.uint8(1))
    bits = ops.reshape(bits, (*bits.shape[:-2], 8 * bits.shape[-2]))
    length = bits.shape[-1]
    wanted = length if count is None else count + length if count < 0 else count
    if wanted < 0:
        raise ValueError(f"unpackbits: count={count} leaves nothing of {length} bits")
    bits = ops.index(bits, (Ellipsis, slice(0, wanted)))
    missing = max(wanted - length, 0)
    bits = ops.pad(bits, [(0, 0)] * (len(bits.shape) - 1) + [(0, missing)])
    return ops.moveaxis(bits, -1, axis)
