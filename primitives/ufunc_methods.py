"""The methods of NumPy's ufuncs, for our functions and for NumPy's ufuncs on our arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .registry import registry as ops

__all__ = ["METHODS"]

# The reductions, and the cumulative functions, that ufuncs offer.
UFUNC_REDUCTIONS = {
    "add": "sum",
    "multiply": "prod",
    "maximum": "max",
    "minimum": "min",
    "logical_and": "all",
    "logical_or": "any",
    "logaddexp": "logsumexp",
}
UFUNC_ACCUMULATIONS = {"add": "cumsum", "multiply": "cumprod"}
# Operations that do not care how they are bracketed, so that they can be accumulated in steps.
ASSOCIATIVE = {"maximum", "minimum", "fmax", "fmin", "logaddexp", "logaddexp2"}
ASSOCIATIVE |= {"logical_and", "logical_or", "bitwise_and", "bitwise_or", "bitwise_xor"}
# What they put together are truth values, the first of a row as well.
LOGICAL = {"logical_and", "logical_or"}


def reduced(function: Any, name: str, x: Any, **kwargs: Any) -> Any:
    """Does what ``ufunc.reduce`` does, over the first axis by default."""
    reduction = ops.find(UFUNC_REDUCTIONS.get(name, ""))
    if reduction is None:
        return NotImplemented
    kwargs = {k: v for k, v in kwargs.items() if v is not None or k == "axis"}
    return reduction(x, **{"axis": 0, **kwargs})


def accumulated(
    function: Any, name: str, x: Any, axis: int = 0, dtype: Any = None, out: None = None
) -> Any:
    """Does what ``ufunc.accumulate`` does; each step doubles how far back an element looks."""
    if dtype is not None or name in LOGICAL:
        x = ops.astype(x, dtype or bool)
    if name in UFUNC_ACCUMULATIONS:
        return getattr(ops, UFUNC_ACCUMULATIONS[name])(x, axis)
    if name not in ASSOCIATIVE:
        return NotImplemented
    x = ops.moveaxis(x, axis, 0)
    step = 1
    while step < x.shape[0]:
        x = ops.concatenate([x[:step], function(x[:-step], x[step:])])
        step *= 2
    return ops.moveaxis(x, 0, axis)


def outer(function: Any, name: str, x: Any, y: Any, **kwargs: Any) -> Any:
    """Does what ``ufunc.outer`` does: all elements of one operand meet all of the other."""
    x, y = ops.asarray(x), ops.asarray(y)
    return function(ops.reshape(x, x.shape + (1,) * len(y.shape)), y, **kwargs)


def reduced_parts(
    function: Any,
    name: str,
    x: Any,
    indices: Any,
    axis: int = 0,
    dtype: Any = None,
    out: None = None,
) -> Any:
    """Does what ``ufunc.reduceat`` does; every part is reduced by itself."""
    if name not in UFUNC_REDUCTIONS and name not in ASSOCIATIVE:
        return NotImplemented
    if dtype is not None:
        x = ops.astype(x, dtype)
    x = ops.moveaxis(x, axis, 0)
    starts = [int(i) for i in (indices.tolist() if hasattr(indices, "tolist") else indices)]
    length = x.shape[0]
    if any(not 0 <= start < length for start in starts):
        raise IndexError(f"{name}.reduceat: indices {starts} are out of bounds for length {length}")
    parts = []
    for start, end in zip(starts, [*starts[1:], length], strict=True):
        part = x[start : max(end, start + 1)]
        if name in UFUNC_REDUCTIONS:
            parts.append(reduced(function, name, part, keepdims=True))
        else:
            parts.append(accumulated(function, name, part)[-1:])
    return ops.moveaxis(ops.concatenate(parts) if parts else x[:0], 0, axis)


METHODS: dict[str, Callable[..., Any]] = {
    "accumulate": accumulated,
    "outer": outer,
    "reduce": reduced,
    "reduceat": reduced_parts,
}
