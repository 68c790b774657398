"""Arrays of evenly spaced numbers."""

from __future__ import annotations

import operator
from collections.abc import Callable
from math import ceil
from typing import Any, Literal, overload

import numpy as np

from ..backends.annotations import Buffer, DTypeLike
from ..backends.devices import resolved, to_host
from ..primitives.core.annotations import ArrayLike
from ..primitives.core.annotations import operations as ops
from ..primitives.core.array import Array, Tracer, concrete
from ..primitives.core.buffers import WEAK_TYPES, beside, operands_together, to_buffer
from ..primitives.core.derivative_rules import shape_of
from ..primitives.core.python_numbers import as_python_number
from ..primitives.core.shape_dtype import (
    INEXACT,
    ShapeDtype,
    number_dtype,
    result_type,
    shape_dtype,
)
from ..primitives.core.trace import is_staged
from .arguments import device_of_first
from .creation import asarray, is_made_later, made_later, made_on_device

__all__ = ["arange", "geomspace", "linspace", "logspace"]


def arange(
    start: ArrayLike,
    /,
    stop: ArrayLike | None = None,
    step: ArrayLike = 1,
    dtype: DTypeLike | None = None,
    *,
    device: str | None = None,
) -> Array:
    """Returns evenly spaced numbers from start up to, not including, stop.

    Args:
        start: the first number; the end, where it is the only argument.
        stop: where to end.
        step: the difference of two numbers.
        dtype: the dtype; None takes that of the arguments.
        device: ``"cpu"`` or a GPU, ``"cuda:0"``; None for the default device.

    Returns:
        An array of ``ceil((stop - start) / step)`` numbers. Derivatives flow to start and step.

    Raises:
        ConcretizationError: an argument's value is not known, under vmap, so that the length is
            not either.

    >>> import functensor.numpy as np
    >>> np.arange(3), np.arange(0.0, 1.0, 0.25).tolist()
    (Array([0, 1, 2], dtype=int64, device='cpu'), [0.0, 0.25, 0.5, 0.75])
    """
    if stop is None:
        start, stop = 0, start
    given = (start, stop, step)
    known_bounds: list[Any] = [
        to_host(concrete(x, "arange")) if isinstance(x, Array) else x for x in given
    ]
    # NumPy's function makes objects of bfloat16.
    known_bounds = [
        float(x) if getattr(x, "dtype", np.dtype(float)).kind == "V" else x for x in known_bounds
    ]
    bounds = [_held_bound(x) for x in known_bounds]
    if not (isinstance(start, Tracer) or isinstance(step, Tracer)):
        known = _range_type(bounds, dtype) if is_staged() else None
        return made_on_device("arange", *bounds, dtype, device=device, known=known)
    fixed = np.arange(*bounds, dtype=dtype)
    place = device or device_of_first((start, step)) or "cpu"
    count = asarray(np.arange(len(fixed), dtype=fixed.dtype), device=place)
    return ops.astype(ops.add(start, ops.multiply(count, step)), fixed.dtype)


def _range_type(bounds: list[Any], dtype: DTypeLike | None) -> ShapeDtype | None:
    """Returns the type of a range as NumPy's ``arange`` counts it; None where it may refuse it."""
    start, stop, step = bounds
    try:
        length = max(ceil((stop - start) / step), 0)
        return ShapeDtype((length,), np.arange(0 * start, 0 * stop, step, dtype=dtype).dtype)
    except (ArithmeticError, TypeError, ValueError):
        return None


def _held_bound(bound: Any) -> Any:
    """Returns a bound as it is now: a program that makes the range may run much later."""
    return bound.copy() if type(bound) is np.ndarray and is_staged() else bound


@overload
def linspace(
    start: ArrayLike, stop: ArrayLike, num: int = ..., endpoint: bool = ...,
    retstep: Literal[False] = ..., dtype: DTypeLike | None = ..., axis: int = ..., *,
    device: str | None = ...,
) -> Array: ...


@overload
def linspace(
    start: ArrayLike, stop: ArrayLike, num: int = ..., endpoint: bool = ..., *,
    retstep: Literal[True], dtype: DTypeLike | None = ..., axis: int = ...,
    device: str | None = ...,
) -> tuple[Array, Array]: ...


@ops.add_function
def linspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: DTypeLike | None = None,
    axis: int = 0,
    *,
    device: str | None = None,
) -> Array | tuple[Array, Array]:
    """Returns evenly spaced numbers from start to stop.

    Args:
        start, stop: numbers, or arrays that broadcast to each other; derivatives flow to them.
        num: how many numbers.
        endpoint: whether stop is the last of them.
        retstep: whether to return the difference of two numbers too.
        dtype: the dtype; None takes an inexact one.
        axis: where the numbers' axis goes, where start and stop are arrays.
        device: ``"cpu"`` or a GPU, ``"cuda:0"``; None for the default device.

    Returns:
        An array of num numbers; with ``retstep`` a pair of that and the step.

    >>> import functensor.numpy as np
    >>> np.linspace(0, 1, 5)
    Array([0.  , 0.25, 0.5 , 0.75, 1.  ], dtype=float64, device='cpu')
    """
    num = operator.index(num)
    if num < 0:
        raise ValueError(f"linspace: num={num}, but there cannot be less than 0 numbers")
    ends = start, stop = operands_together("linspace", start, stop)
    place = device_of_first((start, stop)) or "cpu"
    if place == "cpu" and not (isinstance(start, Tracer) or isinstance(stop, Tracer)):
        low, high = _held_bound(to_buffer(start)), _held_bound(to_buffer(stop))
        if not retstep:

            def make(count: int) -> Buffer:
                return np.linspace(low, high, count, endpoint, dtype=dtype, axis=axis)

            return _spaced("linspace", make, num, axis, device)
        numbers, step = np.linspace(low, high, num, endpoint, retstep=True, dtype=dtype, axis=axis)
        return asarray(numbers, device=device), asarray(step, device=device)
    known = [as_python_number(v) if type(v) in WEAK_TYPES else shape_dtype(v).dtype for v in ends]
    kind = result_type(*known)
    if kind.kind not in INEXACT:
        kind = result_type(kind, float)
    wanted = number_dtype(dtype) if dtype is not None else kind
    start, stop = ops.astype(start, kind), ops.astype(stop, kind)
    parts = num - 1 if endpoint else num
    delta = ops.subtract(stop, start)
    rank = len(delta.shape)
    shares = (np.arange(num) / max(parts, 1)).astype(kind).reshape(-1, *(1,) * rank)
    share = asarray(shares, device=place)
    # Both ends come out exactly, and derivatives are the shares themselves.
    out = ops.add(ops.multiply(start, 1 - share), ops.multiply(stop, share))
    if endpoint and num > 1:
        # A start that is NaN does not change the end.
        out = ops.where(beside(share, shares == 1), stop, out)
    if axis != 0:
        out = ops.moveaxis(out, 0, axis)
    if wanted.kind in "iu":
        out = ops.floor(out)
    out = _on_device_if_given(ops.astype(out, wanted), device)
    if not retstep:
        return out
    # NumPy's step of less than two numbers is a number, whatever the ends' shape.
    step = ops.divide(delta, parts) if parts > 0 else asarray(np.nan, device=place)
    return out, _on_device_if_given(step, device)


def _spaced(
    name: str, make: Callable[[int], Buffer], num: int, axis: int, device: str | None
) -> Array:
    """Returns what NumPy makes of a number of numbers; the program does it if that is large."""
    if is_staged():
        one = make(1)
        shape = list(one.shape)
        shape[axis] = num
        known = ShapeDtype(shape, one.dtype)
        if is_made_later(known):
            place = resolved(device)[1]
            return made_later(name, lambda: asarray(make(num), device=place), known, place)
    return asarray(make(num), device=device)


def _on_device_if_given(x: Array, device: str | None) -> Array:
    """Returns an array on a device, or where it is if none is asked for."""
    return x if device is None else ops.to_device(x, device)


@ops.add_function
def logspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = 50,
    endpoint: bool = True,
    base: ArrayLike = 10.0,
    dtype: DTypeLike | None = None,
    axis: int = 0,
    *,
    device: str | None = None,
) -> Array:
    """Returns powers of a base whose exponents are evenly spaced from start to stop.

    Args:
        start, stop, num, endpoint, axis: as for `linspace`.
        base: the base, a number or an array that broadcasts against start and stop.
        dtype: the dtype; None takes an inexact one.
        device: ``"cpu"`` or a GPU, ``"cuda:0"``; None for that of the arrays, or the default one.

    >>> import functensor.numpy as np
    >>> np.logspace(0, 2, 3)
    Array([  1.,  10., 100.], dtype=float64, device='cpu')
    """
    start, stop, base = operands_together("logspace", start, stop, base)
    place = device_of_first((start, stop, base)) or device
    if len(shape_of(base)):
        rank = max(len(shape_of(each)) for each in (start, stop, base))
        start, stop, base = (
            ops.reshape(each, (1,) * (rank - len(shape_of(each))) + tuple(shape_of(each)))
            for each in (start, stop, base)
        )
        base = ops.expand_dims(base, axis)
    exponents = linspace(start, stop, num, endpoint, axis=axis, device=place)
    out = ops.power(base, exponents)
    return _on_device_if_given(out if dtype is None else ops.astype(out, dtype), device)


@ops.add_function
def geomspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = 50,
    endpoint: bool = True,
    dtype: DTypeLike | None = None,
    axis: int = 0,
    *,
    device: str | None = None,
) -> Array:
    """Returns numbers from start to stop of which each is the same multiple of the one before.

    Args:
        start, stop, num, endpoint, axis: as for `linspace`; neither may be zero.
        dtype: the dtype; None takes an inexact one.
        device: ``"cpu"`` or a GPU, ``"cuda:0"``; None for that of the arrays, or the default one.

    Raises:
        ValueError: start or stop is zero.

    >>> import functensor.numpy as np
    >>> np.geomspace(1, 8, 4)
    Array([1., 2., 4., 8.], dtype=float64, device='cpu')
    """
    start, stop = operands_together("geomspace", start, stop)
    place = device_of_first((start, stop)) or "cpu"
    if place == "cpu" and not (isinstance(start, Tracer) or isinstance(stop, Tracer)):
        low, high = _held_bound(to_buffer(start)), _held_bound(to_buffer(stop))

        def make(count: int) -> Buffer:
            return np.geomspace(low, high, count, endpoint, dtype, axis)

        return _spaced("geomspace", make, num, axis, device)
    start, stop = asarray(start, device=place), asarray(stop, device=place)
    rank = max(len(shape_of(start)), len(shape_of(stop)))
    share = linspace(0.0, 1.0, num, endpoint, device=place).reshape((-1, *(1,) * rank))
    out = ops.multiply(start, ops.power(ops.divide(stop, start), share))
    if axis != 0:
        out = ops.moveaxis(out, 0, axis)
    return _on_device_if_given(out if dtype is None else ops.astype(out, dtype), device)
