"""The methods of NumPy's ufuncs, for our functions and for NumPy's ufuncs on our arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from math import prod
from operator import index
from typing import TYPE_CHECKING, Any

import numpy as np

from ...backends.annotations import Axes, Axis, Buffer, DType, DTypeLike, Shape
from ...backends.messages import MISSING
from .errors import refuse_out
from .registry import registry as ops
from .shape_dtype import canonical_axis, number_dtype

if TYPE_CHECKING:
    from .array_annotations import A, AnyArray, AnyOperand, B

__all__ = ["UFUNC_METHODS", "method_of", "on_axes"]

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
# Operations that do not care how they are bracketed, nor which operand comes first.
ASSOCIATIVE = {"maximum", "minimum", "fmax", "fmin", "logaddexp", "logaddexp2"}
ASSOCIATIVE |= {"logical_and", "logical_or", "logical_xor", "gcd", "lcm", "hypot"}
ASSOCIATIVE |= {"bitwise_and", "bitwise_or", "bitwise_xor", "add", "multiply"}


def loop(name: str, kind: DType, dtype: DTypeLike | None) -> tuple[DType, DType]:
    """Returns the dtypes of what is put together so far, and of what comes next to it.

    Args:
        name: the ufunc.
        kind: the dtype of the array.
        dtype: in which it is to be computed; None for NumPy's choice.

    Raises:
        TypeError: NumPy has none in which what comes out could go in again.
    """
    return known_loop(name, kind, None if dtype is None else number_dtype(dtype))


@lru_cache(1024)  # NumPy takes microseconds to look for it
def known_loop(name: str, kind: DType, wanted: DType | None) -> tuple[DType, DType]:
    """Returns what `loop` does, which depends on the dtypes alone."""
    if wanted is None and name in UFUNC_ACCUMULATIONS and kind.kind in "biu" and kind.itemsize < 8:
        wanted = np.dtype(np.uint64 if kind.kind == "u" else np.int64)
    ufunc: Any = np.__dict__.get(name)
    if not isinstance(ufunc, np.ufunc) or kind.kind not in "biufc":
        return wanted or kind, wanted or kind
    more: Any = {} if wanted is None else {"signature": (wanted, None, None)}
    first, then, out = ufunc.resolve_dtypes(
        (None, kind, None), reduction=True, casting="unsafe", **more
    )
    if first != out:
        raise TypeError(f"{name} of {then} gives {out}, with which it does not go on")
    return first, then


def start_of(name: str, initial: Any) -> Any:
    """Returns with what a reduction begins, or None: the initial value, or what changes nothing."""
    if initial is MISSING:
        return getattr(np.__dict__.get(name), "identity", None)
    return initial


def reduced(
    function: Callable[..., Any],
    name: str,
    x: AnyArray,
    axis: Axis = 0,
    dtype: DTypeLike | None = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = MISSING,
    where: Any = True,
) -> Any:
    """Does what ``ufunc.reduce`` does, over the first axis by default."""
    # NumPy's own functions pass its word for what is not given.
    initial = MISSING if initial is np._NoValue else initial
    where = True if where is np._NoValue else where
    shape = x.shape
    count = len(shape)
    if (
        dtype is None
        and not keepdims
        and initial is MISSING
        and where is True
        and name in UFUNC_REDUCTIONS
        and type(axis) is int
        and -count <= axis < count
        and shape[axis]
        and loop(name, x.dtype, None)[0] == x.dtype
    ):
        # The plain call, in the dtype of the array, needs nothing else.
        return ops.find(UFUNC_REDUCTIONS[name])(x, axis=axis)
    named = axis if isinstance(axis, tuple) else tuple(range(count)) if axis is None else (axis,)
    # A number counts as having one axis here, which is gone afterwards.
    axes = tuple(canonical_axis(a, max(count, 1)) for a in named) if count or named else ()
    axes = axes if count else ()
    if len(axes) > 1 and name not in ASSOCIATIVE:
        raise ValueError(f"{name}.reduce: what it returns depends on the order, so give one axis")
    first, then = loop(name, x.dtype, dtype)
    start = start_of(name, initial)
    given = initial is not MISSING and initial is not None
    masked = where is not True
    if masked:
        if start is None:
            raise ValueError(f"{name}.reduce: with where= it has nothing to begin with: initial=")
        where = ops.broadcast_to(ops.asarray(where), shape)
    rest = tuple([n for i, n in enumerate(shape) if i not in axes])
    empty = not prod([shape[a] for a in axes])
    if empty and start is None:
        raise ValueError(f"{name}.reduce: zero-size array to reduction operation, and no initial=")
    if empty:
        total: Any = ops.astype(ops.broadcast_to(ops.asarray(start), rest), first)
    elif name in ASSOCIATIVE:
        x = x if x.dtype == first else ops.astype(x, first)
        # A ufunc without identity gives the same when the initial value comes several times.
        identity = start_of(name, MISSING)
        neutral = start if identity is None else identity
        x = ops.where(where, x, ops.astype(ops.asarray(neutral), first)) if masked else x
        reduction = ops.find(UFUNC_REDUCTIONS.get(name, ""))
        if not axes:
            total = x
        elif reduction is not None:
            total = reduction(x, axis=axes)
        else:
            total = halved(function, axes_in_front(x, axes, rest))
        if reduction is None and start is not None:
            # One element needs it as well: `gcd` and `hypot` change a negative one's sign.
            initial, given = start, True
        if given:
            total = function(ops.astype(ops.asarray(initial), first), ops.astype(total, first))
    else:
        total = ops.astype(ops.asarray(start), first) if given or masked else None
        steps = axes_in_front(x, axes, rest)
        masks = axes_in_front(where, axes, rest) if masked else None
        # Elements that do not count must give neither NaN nor an error.
        steps = ops.where(masks, steps, ops.ones_like(steps)) if masked else steps
        total = steps_folded(function, steps, masks, total, first, then)[-1]
    total = total if total.shape == rest else ops.broadcast_to(total, rest)
    if keepdims and axes:
        total = ops.reshape(total, tuple([1 if i in axes else n for i, n in enumerate(shape)]))
    # Without an axis the result may be a weak number of Python's: it is cast in any case.
    return total if axes and total.dtype == first else ops.astype(total, first)


def axes_in_front(x: Any, axes: Axes, rest: Shape) -> Any:
    """Returns an array with some axes as one in front."""
    behind = [i for i in range(len(x.shape)) if i not in axes]
    count = prod([x.shape[a] for a in axes])
    return ops.reshape(ops.transpose(x, (*axes, *behind)), (count, *rest))


def halved(function: Callable[..., B], x: B) -> B:
    """Returns what all along the first axis are put together to, in as few steps as there can be.

    The halves are put together until one is left.
    """
    while x.shape[0] > 1:
        half = x.shape[0] // 2
        pairs = function(x[:half], x[half : 2 * half])
        x = ops.concatenate([pairs, x[2 * half :]]) if x.shape[0] % 2 else pairs
    return x[0]


def steps_folded(
    function: Callable[..., B], steps: B, masks: Any, total: B | None, first: DType, then: DType
) -> list[B]:
    """Returns what comes out after each step along the first axis, in order."""
    out = []
    for i in range(steps.shape[0]):
        if total is None:
            total = ops.astype(steps[i], first)
        else:
            new = ops.astype(function(total, ops.astype(steps[i], then)), first)
            total = new if masks is None else ops.where(masks[i], new, total)
        out.append(total)
    return out


def accumulated(
    function: Callable[..., Any],
    name: str,
    x: AnyArray,
    axis: int = 0,
    dtype: DTypeLike | None = None,
    out: None = None,
) -> Any:
    """Does what ``ufunc.accumulate`` does; each step doubles how far back an element looks."""
    if not x.shape:
        raise TypeError(f"{name}.accumulate: a number has no axis: give an array")
    first, then = loop(name, x.dtype, dtype)
    if name not in ASSOCIATIVE:
        x = ops.moveaxis(x, axis, 0)
        parts = steps_folded(function, x, None, None, first, then)
        return ops.moveaxis(ops.stack(parts) if parts else ops.astype(x, first), 0, axis)
    x = ops.astype(x, first)
    if name in UFUNC_ACCUMULATIONS:
        return ops.astype(getattr(ops, UFUNC_ACCUMULATIONS[name])(x, axis), first)
    x = ops.moveaxis(x, axis, 0)
    step = 1
    while step < x.shape[0]:
        x = ops.concatenate([x[:step], function(x[:-step], x[step:])])
        step *= 2
    return ops.moveaxis(x, 0, axis)


def outer(function: Callable[..., Any], name: str, x: AnyArray, y: AnyArray, **kwargs: Any) -> Any:
    """Does what ``ufunc.outer`` does: all elements of one operand meet all of the other."""
    x, y = ops.asarray(x), ops.asarray(y)
    return function(ops.reshape(x, x.shape + (1,) * len(y.shape)), y, **kwargs)


def reduced_parts(
    function: Callable[..., Any],
    name: str,
    x: AnyArray,
    indices: Buffer | AnyArray | Sequence[int],
    axis: int = 0,
    dtype: DTypeLike | None = None,
    out: None = None,
) -> Any:
    """Does what ``ufunc.reduceat`` does; every part is reduced by itself."""
    x = ops.moveaxis(x, axis, 0)
    starts = [int(i) for i in (indices.tolist() if hasattr(indices, "tolist") else indices)]
    length = x.shape[0]
    if any(not 0 <= start < length for start in starts):
        raise IndexError(f"{name}.reduceat: indices {starts} are out of bounds for length {length}")
    parts = []
    for start, end in zip(starts, [*starts[1:], length][: len(starts)], strict=True):
        part = x[start : max(end, start + 1)]
        parts.append(reduced(function, name, part, 0, dtype, None, True, None))
    none = ops.astype(x[:0], loop(name, x.dtype, dtype)[0])
    return ops.moveaxis(ops.concatenate(parts) if parts else none, 0, axis)


def on_axes(
    function: Callable[..., A], signature: str, operands: Sequence[AnyOperand], axes: Sequence[Any]
) -> A:
    """Applies a product to axes of its operands, as ``axes=`` of NumPy's products says.

    Args:
        function: it works on the last axes.
        signature: which they are, as NumPy writes it: ``(m,n),(n)->(m)``.
        operands: arrays.
        axes: for each operand which axes these are, a tuple or for one axis an integer, and last
            for the result where they go, unless it has none.

    Raises:
        ValueError: there are not as many axes as the product has.
    """
    *inner, result = [
        part.count(",") + 1 if part.strip("()") else 0
        for part in signature.replace("->", ";").replace("),(", ");(").split(";")
    ]
    wanted = [*inner, result]
    places = [tuple(map(index, a)) if isinstance(a, tuple | list) else (index(a),) for a in axes]
    if len(places) == len(inner) and not result:
        places.append(())
    if [len(place) for place in places] != wanted:
        raise ValueError(f"axes={axes!r}: {signature} wants {wanted} axes, in a list of tuples")
    moved = []
    for x, place in zip(operands, places, strict=False):
        moved.append(ops.moveaxis(ops.asarray(x), place, tuple(range(-len(place), 0))))
    out = function(*moved)
    last = places[-1]
    return ops.moveaxis(out, tuple(range(-len(last), 0)), last) if last else out


UFUNC_METHODS: dict[str, Callable[..., Any]] = {
    "accumulate": accumulated,
    "outer": outer,
    "reduce": reduced,
    "reduceat": reduced_parts,
}


def method_of(function: Callable[..., Any], name: str, method: str) -> Callable[..., Any]:
    """Returns a method of NumPy's ufuncs for a function that is made of primitives."""

    def call(x: AnyOperand, *args: Any, **options: Any) -> Any:
        refuse_out(f"{name}.{method}", options.pop("out", None))
        return UFUNC_METHODS[method](function, name, ops.asarray(x), *args, **options)

    return call
