"""Choosing between elements: extrema of two, limits, conditions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np

from ...backends.annotations import ArrayModule, Buffer, DTypeLike, Number
from ...backends.errors.public_functions import complain
from ..core.annotations import ArrayLike
from ..core.annotations import operations as ops
from ..core.array import Array
from ..core.errors import refuse_out
from ..core.families import binary, called_as, elementwise
from ..core.primitive import Primitive
from ..core.test_samples import DISTINCT, LOGICAL, NONZERO, REAL, Domain

if TYPE_CHECKING:
    from inspect import Signature
    from typing import Protocol, overload

    from ..core.annotations import Plain, T

    class Where(Protocol):
        """The primitive `where`, and `nonzero` where there is a condition alone."""

        @overload
        def __call__(
            self, condition: ArrayLike, /, *, size: int | None = None, fill_value: Any = None
        ) -> tuple[Array, ...]: ...
        @overload
        def __call__(self, condition: ArrayLike, x: Plain, y: Plain, /) -> Array: ...
        @overload
        def __call__(self, condition: ArrayLike, x: ArrayLike, y: T, /) -> T: ...
        @overload
        def __call__(self, condition: ArrayLike, x: T, y: ArrayLike, /) -> T: ...

__all__ = ["clip", "exceeds", "fmax", "fmin", "heaviside", "maximum", "minimum", "where"]

# fmt: off - a rule stands beside its name, as in a table.


def _compute_exceeds(xp: ArrayModule, x: Buffer, y: Buffer) -> Buffer:
    dtype: Any = xp.result_type(x, y)
    # Bytes add up several times faster than booleans do as floating-point numbers.
    twice = xp.greater(x, y).view("int8") + xp.greater_equal(x, y).view("int8")
    return xp.multiply(twice, 0.5, dtype=dtype if dtype.kind == "f" else xp.float64)


exceeds = binary(
    "exceeds", compute=_compute_exceeds,
    reference=lambda x, y: np.heaviside(np.subtract(x, y), 0.5),
    doc="Returns 1 where x exceeds y, 0.5 where they are equal, and 0 elsewhere.",
)

# The derivatives of extrema: all to the larger one, and to both alike where they are equal.
maximum = binary(
    "maximum",
    lambda g, x, y: g * ops.exceeds(x, y),
    lambda g, x, y: g * ops.exceeds(y, x),
    domains=DISTINCT,
    doc="Returns the larger of two elements, NaN where one is; equal ones share the derivative.",
    example="np.maximum([1, 5], [4, 2]) -> [4, 5]",
)
minimum = binary(
    "minimum",
    lambda g, x, y: g * ops.exceeds(y, x),
    lambda g, x, y: g * ops.exceeds(x, y),
    domains=DISTINCT,
    doc="Returns the smaller of two elements, NaN where one is; equal ones share the derivative.",
    example="np.minimum([1, 5], [4, 2]) -> [1, 2]",
)


def _unless_nan(weight: Array, x: Array, y: Array) -> Array:
    """The weight of x beside y: all where y is NaN, none where x is."""
    return ops.where(ops.isnan(x), 0, ops.where(ops.isnan(y), 1, weight))


fmax = binary(
    "fmax",
    lambda g, x, y: g * _unless_nan(ops.exceeds(x, y), x, y),
    lambda g, x, y: g * _unless_nan(ops.exceeds(y, x), y, x),
    domains=DISTINCT, doc="Returns the larger of two elements, or the one that is not NaN.",
    example="np.fmax([1.0, np.nan], [4.0, 2.0]) -> [4.0, 2.0]",
)
fmin = binary(
    "fmin",
    lambda g, x, y: g * _unless_nan(ops.exceeds(y, x), x, y),
    lambda g, x, y: g * _unless_nan(ops.exceeds(x, y), y, x),
    domains=DISTINCT, doc="Returns the smaller of two elements, or the one that is not NaN.",
    example="np.fmin([1.0, np.nan], [4.0, 2.0]) -> [1.0, 2.0]",
)


def clip_arguments(
    a: Any,
    min: ArrayLike | None = None,
    max: ArrayLike | None = None,
    out: ArrayLike | None = None,
    *,
    a_min: ArrayLike | None = None,
    a_max: ArrayLike | None = None,
    dtype: DTypeLike | None = None,
) -> tuple[Any, Any, Any]:
    """Returns what a call of `clip` is about: the array, and its limits or None."""
    if out is not None:
        refuse_out("clip", out)
    if dtype is not None:
        a, min, max, a_min, a_max = (
            x if x is None else ops.astype(x, dtype) for x in (a, min, max, a_min, a_max)
        )
    return a, a_min if min is None else min, a_max if max is None else max


class _Clip(Primitive):
    """Limits from both sides; from one side it is ``maximum`` or ``minimum``."""

    form = staticmethod(clip_arguments)

    def __call__(self, *args: Any, **kwargs: Any) -> Array:
        try:
            a, low, high = clip_arguments(*args, **kwargs)
            if low is None:
                return ops.asarray(a) if high is None else ops.minimum(a, high)
            return ops.maximum(a, low) if high is None else super().__call__(a, low, high)
        except Exception as error:
            self.complain(error, args, kwargs)
            raise


clip_primitive = elementwise(
    "clip",
    lambda g, x, y, z: g * (ops.exceeds(x, y) * ops.exceeds(z, x)),
    lambda g, x, y, z: g * (ops.exceeds(y, x) * ops.exceeds(z, y)),
    lambda g, x, y, z: g * ops.exceeds(ops.maximum(x, y), z),
    kind=_Clip, domains=(REAL, Domain(-1.5, -0.5), Domain(0.5, 1.5)),
    doc="Returns x limited to an interval: ``minimum(maximum(x, low), high)``.",
    arguments={
        "a": "an array of any shape, or a number.",
        "min, max": "the limits, which broadcast against a; None for no limit.",
        "out": "None; arrays are immutable.",
        "a_min, a_max": "the limits by other names.",
        "dtype": "in which dtype to compute; None for that to which the arguments promote.",
    },
    example="np.clip([-3, 1, 5], 0, 2) -> [0, 1, 2]",
)
clip = called_as(clip_arguments, clip_primitive)


class _Where(Primitive):
    """A choice of two; with a condition alone, as in NumPy, the indices where it holds."""

    def __call__(self, *args: Any, **kwargs: Any) -> Array:
        try:
            if len(args) == 3 and not kwargs and args[1] is not None and args[2] is not None:
                return Primitive.__call__(self, *args)
            return where_with_options(*args, **kwargs)
        except Exception as error:
            complain(error, where_with_options, self.public or "where", args, kwargs)
            raise

    @property
    def __signature__(self) -> Signature:
        import inspect  # costs milliseconds

        return inspect.signature(where_with_options)


def where_with_options(
    condition: ArrayLike,
    x: ArrayLike | None = None,
    y: ArrayLike | None = None,
    /,
    *,
    size: int | None = None,
    fill_value: Number | None = None,
) -> Array:
    """Returns what `where` does with a condition alone, or with options."""
    if x is None and y is None:
        options = {"size": size, "fill_value": fill_value}
        return ops.nonzero(condition, **{k: v for k, v in options.items() if v is not None})
    if x is None or y is None:
        raise TypeError("where takes a condition and two branches, or the condition alone")
    return ops.where(condition, x, y)


where_primitive = elementwise(
    "where",
    lambda g: None,
    lambda g, x: ops.where(x, g, 0),
    lambda g, x: ops.where(x, 0, g),
    kind=_Where, domains=(LOGICAL, REAL, REAL), dtypes="fdD",
    doc="Returns x's elements where a condition holds, y's elsewhere.",
    arguments={
        "condition": "an array of booleans.",
        "x, y": "arrays whose shapes broadcast against the condition's, or numbers; without them "
        "the result is ``nonzero(condition)``.",
        "size, fill_value": "as for ``nonzero``.",
    },
    example="np.where([True, False], [1, 2], 0) -> [1, 0]",
)
where = cast("Where", where_primitive)
heaviside = binary(
    "heaviside",
    lambda g: None,
    lambda g, x: ops.where(x == 0, g, 0),
    domains=(NONZERO, REAL), doc="Returns 0 for negative x, 1 for positive x, and y for zero.",
    example="np.heaviside([-2.0, 0.0, 2.0], 0.5) -> [0.0, 0.5, 1.0]",
)
