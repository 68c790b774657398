"""Arrays of evenly spaced numbers."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from ..primitives.array import Array, Tracer, concrete
from ..primitives.buffers import WEAK_TYPES, to_buffer, wrap
from ..primitives.registry import registry
from ..primitives.registry import registry as ops
from ..primitives.rules import shape_of
from ..primitives.types import shape_dtype
from .creation import asarray, check_device

__all__ = ["arange", "geomspace", "linspace", "logspace"]


def arange(
    start: Any, /, stop: Any = None, step: Any = 1, dtype: Any = None, *, device: Any = None
) -> Any:
    """Returns evenly spaced numbers from start up to, not including, stop.

    Args:
        start: the first number; the end, where it is the only argument.
        stop: where to end.
        step: the difference of two numbers.
        dtype: the dtype; None takes that of the arguments.
        device: None or ``"cpu"``.

    Returns:
        An array of ``ceil((stop - start) / step)`` numbers. Derivatives flow to start and step.

    Raises:
        ConcretizationError: an argument's value is not known, under vmap, so that the length is
            not either.

    >>> import functensor.numpy as np
    >>> np.arange(3), np.arange(0.0, 1.0, 0.25).tolist()
    (Array([0, 1, 2], dtype=int64, device='cpu'), [0.0, 0.25, 0.5, 0.75])
    """
    check_device(device)
    if stop is None:
        start, stop = 0, start
    bounds = [concrete(x, "arange") if isinstance(x, Array) else x for x in (start, stop, step)]
    fixed = np.arange(*bounds, dtype=dtype)
    if not (isinstance(start, Tracer) or isinstance(step, Tracer)):
        return wrap(fixed)
    count = np.arange(len(fixed), dtype=fixed.dtype)
    return ops.astype(ops.add(start, ops.multiply(count, step)), fixed.dtype)


@registry.add_function
def linspace(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: Any = None,
    axis: int = 0,
    *,
    device: Any = None,
) -> Any:
    """Returns evenly spaced numbers from start to stop.

    Args:
        start, stop: numbers, or arrays that broadcast to each other; derivatives flow to them.
        num: how many numbers.
        endpoint: whether stop is the last of them.
        retstep: whether to return the difference of two numbers too.
        dtype: the dtype; None takes an inexact one.
        axis: where the numbers' axis goes, where start and stop are arrays.
        device: None or ``"cpu"``.

    Returns:
        An array of num numbers; with ``retstep`` a pair of that and the step.

    >>> import functensor.numpy as np
    >>> np.linspace(0, 1, 5)
    Array([0.  , 0.25, 0.5 , 0.75, 1.  ], dtype=float64, device='cpu')
    """
    check_device(device)
    num = operator.index(num)
    if num < 0:
        raise ValueError(f"linspace: num={num}, but there cannot be less than 0 numbers")
    ends = start, stop = [asarray(v) if isinstance(v, list | tuple) else v for v in (start, stop)]
    if not (isinstance(start, Tracer) or isinstance(stop, Tracer)):
        numbers, step = np.linspace(
            to_buffer(start), to_buffer(stop), num, endpoint, retstep=True, dtype=dtype, axis=axis
        )
        return (wrap(numbers), wrap(step)) if retstep else wrap(numbers)
    kind = np.result_type(*(v if type(v) in WEAK_TYPES else shape_dtype(v).dtype for v in ends))
    if kind.kind not in "fc":
        kind = np.result_type(kind, float)
    wanted = np.dtype(dtype) if dtype is not None else kind
    start, stop = ops.astype(start, kind), ops.astype(stop, kind)
    parts = num - 1 if endpoint else num
    delta = ops.subtract(stop, start)
    rank = len(delta.shape)
    share = (np.arange(num) / max(parts, 1)).astype(kind).reshape(-1, *(1,) * rank)
    # Both ends come out exactly, and derivatives are the shares themselves.
    out = ops.add(ops.multiply(start, 1 - share), ops.multiply(stop, share))
    if axis != 0:
        out = ops.moveaxis(out, 0, axis)
    if wanted.kind in "iu":
        out = ops.floor(out)
    out = ops.astype(out, wanted)
    return (out, ops.divide(delta, parts or np.nan)) if retstep else out


@registry.add_function
def logspace(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    base: Any = 10.0,
    dtype: Any = None,
    axis: int = 0,
) -> Any:
    """Returns powers of a base whose exponents are evenly spaced from start to stop.

    Args:
        start, stop, num, endpoint, axis: as for `linspace`.
        base: the base, a number or an array without axes.
        dtype: the dtype; None takes an inexact one.

    >>> import functensor.numpy as np
    >>> np.logspace(0, 2, 3)
    Array([  1.,  10., 100.], dtype=float64, device='cpu')
    """
    out = ops.power(base, linspace(start, stop, num, endpoint, axis=axis))
    return out if dtype is None else ops.astype(out, dtype)


@registry.add_function
def geomspace(
    start: Any, stop: Any, num: int = 50, endpoint: bool = True, dtype: Any = None, axis: int = 0
) -> Any:
    """Returns numbers from start to stop of which each is the same multiple of the one before.

    Args:
        start, stop, num, endpoint, axis: as for `linspace`; neither may be zero.
        dtype: the dtype; None takes an inexact one.

    Raises:
        ValueError: start or stop is zero.

    >>> import functensor.numpy as np
    >>> np.geomspace(1, 8, 4)
    Array([1., 2., 4., 8.], dtype=float64, device='cpu')
    """
    if not (isinstance(start, Tracer) or isinstance(stop, Tracer)):
        return wrap(
            np.geomspace(to_buffer(start), to_buffer(stop), num, endpoint, dtype, axis)
        )
    start, stop = asarray(start), asarray(stop)
    rank = max(len(shape_of(start)), len(shape_of(stop)))
    share = linspace(0.0, 1.0, num, endpoint).reshape((-1, *(1,) * rank))
    out = ops.multiply(start, ops.power(ops.divide(stop, start), share))
    if axis != 0:
        out = ops.moveaxis(out, 0, axis)
    return out if dtype is None else ops.astype(out, dtype)
