"""Piecewise polynomials of `functensor.scipy.interpolate`, by their coefficients."""

from __future__ import annotations

from math import factorial
from typing import Any, Literal, TypeAlias, TypeVar

import numpy as np

from ..backends.annotations import Buffer
from ..numpy.arguments import arrays_together, as_inexact
from ..numpy.known_values import is_at_hand, value_of
from ..primitives.core.annotations import ArrayLike
from ..primitives.core.annotations import operations as ops
from ..primitives.core.array import Array
from ..primitives.core.buffers import beside
from ..primitives.core.shape_dtype import canonical_axis, finfo, result_type

__all__ = ["Extrapolation", "PPoly", "check_ascending", "hermite", "points", "trailing"]

# Values beyond the ends are those of the outer polynomials, or NaN, or those of other periods.
Extrapolation: TypeAlias = bool | Literal["periodic"]
PolynomialClass = TypeVar("PolynomialClass", bound="PPoly")
EXTRAPOLATIONS = (True, False, None, "periodic")


def trailing(x: Array, like: Array) -> Array:
    """Returns numbers along the first axis in a shape that broadcasts against values behind it."""
    return ops.reshape(x, (*x.shape, *(1,) * (len(like.shape) - len(x.shape))))


class PPoly:
    """A piecewise polynomial in powers of the distance from the left end of each interval.

    Args:
        c: the coefficients, of shape (k, m, ...): of m polynomials, the highest power first.
        x: the ends of the m intervals, of shape (m + 1,), ascending.
        extrapolate: whether the first and the last polynomial go on beyond their ends; else values
            are NaN there; "periodic" to repeat the whole.
        axis: the first axis of the places of evaluation in the result.

    Raises:
        ValueError: the shapes do not fit, or x does not ascend.

    Source: C. de Boor, "A Practical Guide to Splines", chapter VII.

    >>> from functensor.scipy import interpolate
    >>> interpolate.PPoly([[1.0], [2.0]], [0.0, 1.0])(0.5).tolist()
    2.5
    """

    c: Array
    x: Array
    extrapolate: Extrapolation
    axis: int

    def __init__(
        self, c: ArrayLike, x: ArrayLike, extrapolate: Extrapolation | None = None, axis: int = 0
    ) -> None:
        c, x = arrays_together((c, x))
        c, x = as_inexact(c), as_inexact(x)
        if len(c.shape) < 2 or len(x.shape) != 1 or c.shape[1] != x.shape[0] - 1:
            raise ValueError(
                f"PPoly: coefficients of shape {c.shape} for {x.shape} ends of intervals: the "
                "second axis is that of the intervals, one fewer than ends"
            )
        check_ascending("PPoly", x)
        self._set(c, x, extrapolate, axis)

    def _set(self, c: Array, x: Array, extrapolate: Extrapolation | None, axis: int) -> None:
        if extrapolate not in EXTRAPOLATIONS:
            raise ValueError(
                f"{type(self).__name__}: extrapolate={extrapolate!r}: it is True, False or "
                "'periodic'"
            )
        self.c, self.x, self.axis = c, x, axis
        self.extrapolate = True if extrapolate is None else extrapolate

    @classmethod
    def construct_fast(
        cls: type[PolynomialClass],
        c: Array,
        x: Array,
        extrapolate: Extrapolation | None = None,
        axis: int = 0,
    ) -> PolynomialClass:
        """Returns a piecewise polynomial of coefficients and ends, without any check.

        Args:
            c, x, extrapolate, axis: as for the class `PPoly`.
        """
        out = object.__new__(cls)
        out.c, out.x, out.axis = c, x, axis
        out.extrapolate = True if extrapolate is None else extrapolate
        return out

    def __call__(
        self, x: ArrayLike, nu: int = 0, extrapolate: Extrapolation | None = None
    ) -> Array:
        """Returns the values, or derivatives.

        Args:
            x: where, an array of any shape.
            nu: which derivative, 0 for the value.
            extrapolate: as for the class; None for its own.

        Returns:
            An array of the values' shape, with x's in place of the axis.

        Raises:
            ValueError: nu is negative, or ``extrapolate`` is another word.
        """
        if nu < 0:
            raise ValueError(
                f"{type(self).__name__}: nu={nu}: Order of derivative cannot be negative"
            )
        extrapolate = self.extrapolate if extrapolate is None else extrapolate
        if extrapolate not in EXTRAPOLATIONS:
            raise ValueError(f"{type(self).__name__}: extrapolate={extrapolate!r}")
        x = as_inexact(x)
        shape = x.shape
        out = self._values(ops.ravel(x), nu, extrapolate)
        out = ops.reshape(out, (*shape, *self.c.shape[2:]))
        if not self.axis:
            return out
        front = len(shape)
        order = list(range(len(out.shape)))
        order = order[front : front + self.axis] + order[:front] + order[front + self.axis :]
        return ops.transpose(out, order)

    def _values(self, x: Array, nu: int, extrapolate: Extrapolation | None) -> Array:
        first, last = ops.index(self.x, 0), ops.index(self.x, -1)
        if extrapolate == "periodic":
            x = first + ops.remainder(x - first, last - first)
        count = self.x.shape[0] - 1
        places = ops.searchsorted(ops.stop_gradient(self.x), ops.stop_gradient(x), side="right")
        places = ops.clip(places - 1, 0, count - 1)
        d = x - ops.take(self.x, places, axis=0)
        pieces = ops.take(self.c, places, axis=1)
        k = self.c.shape[0]
        total = ops.zeros_like(ops.index(pieces, 0))
        step = trailing(d, total)
        for i in range(k - nu):
            power = k - 1 - i
            scale = factorial(power) / factorial(power - nu)
            total = total * step + ops.index(pieces, i) * scale
        total = total + 0 * step
        if extrapolate is False:
            inside = ops.logical_and(ops.greater_equal(x, first), ops.less_equal(x, last))
            total = ops.where(trailing(inside, total), total, np.nan)
        return total

    def derivative(self, nu: int = 1) -> PPoly:
        """Returns the derivative, a piecewise polynomial.

        Args:
            nu: its order; for a negative one, the antiderivative.
        """
        if nu < 0:
            return self.antiderivative(-nu)
        k = self.c.shape[0]
        powers = np.arange(k - 1, nu - 1, -1)
        if not len(powers):
            c = ops.zeros_like(ops.index(self.c, slice(0, 1)))
        else:
            scale = np.array([factorial(p) / factorial(p - nu) for p in powers])
            c = ops.index(self.c, slice(0, k - nu)) * self._scale(scale)
        return PPoly.construct_fast(c, self.x, self.extrapolate, self.axis)

    def _scale(self, scale: Buffer) -> Buffer:
        kind = finfo(self.c.dtype).dtype
        return beside(self.c, scale.astype(kind).reshape(-1, *(1,) * (len(self.c.shape) - 1)))

    def antiderivative(self, nu: int = 1) -> PPoly:
        """Returns the antiderivative that is 0 at the first end, a piecewise polynomial.

        Args:
            nu: its order; for a negative one, the derivative.
        """
        if nu <= 0:
            return self.derivative(-nu)
        out: PPoly = self
        extrapolate = False if self.extrapolate == "periodic" else self.extrapolate
        for _ in range(nu):
            k = out.c.shape[0]
            c = out.c / out._scale(np.arange(k, 0, -1.0))
            step = trailing(ops.diff(out.x), ops.index(c, 0))
            total: Any = ops.zeros_like(ops.index(c, 0))
            for i in range(k):
                total = (total + ops.index(c, i)) * step
            sums = ops.cumsum(total, 0)
            start = ops.concatenate([ops.zeros_like(sums[:1]), sums[:-1]], axis=0)
            c = ops.concatenate([c, ops.expand_dims(start, 0)], axis=0)
            out = PPoly.construct_fast(c, out.x, extrapolate, out.axis)
        return out

    def integrate(
        self, a: ArrayLike, b: ArrayLike, extrapolate: Extrapolation | None = None
    ) -> Array:
        """Returns the integral from a to b.

        Args:
            a, b: numbers.
            extrapolate: as for the class; None for its own.

        Returns:
            An array of the values' shape, without the axis; NaN where an end lies beyond the
            intervals and ``extrapolate`` is False.
        """
        extrapolate = self.extrapolate if extrapolate is None else extrapolate
        whole = self.antiderivative()
        a, b = as_inexact(a), as_inexact(b)
        if extrapolate != "periodic":
            parts = [whole._values(ops.ravel(z), 0, extrapolate) for z in (b, a)]
            return ops.index(parts[0] - parts[1], 0)
        first, last = ops.index(self.x, 0), ops.index(self.x, -1)
        period = last - first
        full = ops.index(whole._values(ops.ravel(last), 0, True), 0)

        def until(z: Array) -> Array:
            turns = ops.stop_gradient(ops.floor((z - first) / period))
            rest = whole._values(ops.ravel(z - turns * period), 0, True)
            return ops.index(rest, 0) + turns * full

        return until(b) - until(a)

    def roots(self, discontinuity: bool = True, extrapolate: Extrapolation | None = None) -> Array:
        """Refuses, since the number of roots depends on values.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError(
            f"{type(self).__name__}.roots: their number depends on values: use "
            "functensor.scipy.optimize, or SciPy's PPoly(c, x).roots() for values alone"
        )

    def solve(
        self,
        y: ArrayLike = 0.0,
        discontinuity: bool = True,
        extrapolate: Extrapolation | None = None,
    ) -> Array:
        """Refuses, as `roots`.

        Raises:
            NotImplementedError: always.
        """
        return self.roots()


def check_ascending(name: str, x: Array) -> None:
    """Refuses places whose values are known and do not ascend."""
    if is_at_hand(x) and (np.diff(value_of(name, x, "")) <= 0).any():
        raise ValueError(f"{name}: `x` must be strictly increasing sequence.")


def points(name: str, x: ArrayLike, y: ArrayLike, axis: int) -> tuple[Array, Array, int]:
    """Returns places, and values along the first axis, checked."""
    x, y = (as_inexact(z) for z in arrays_together((x, y)))
    if len(x.shape) != 1 or x.dtype.kind == "c":
        raise ValueError(f"{name}: `x` must be real and 1-dimensional, not {x.dtype}{x.shape}")
    axis = canonical_axis(axis, len(y.shape))
    if y.shape[axis] != x.shape[0] or x.shape[0] < 2:
        raise ValueError(
            f"{name}: {x.shape[0]} places and values of shape {y.shape}: the length of `y` along "
            f"axis {axis} has to be that of `x`, at least 2"
        )
    check_ascending(name, x)
    dtype = result_type(x.dtype, y.dtype)
    x = ops.astype(x, finfo(dtype).dtype)
    return x, ops.moveaxis(ops.astype(y, dtype), axis, 0), axis


def hermite(x: Array, y: Array, slopes: Array) -> Array:
    """Returns the coefficients of the cubics with values and slopes at both ends."""
    h = trailing(ops.diff(x), y)
    rise = ops.diff(y, axis=0) / h
    low, high = slopes[:-1], slopes[1:]
    t = (low + high - 2 * rise) / h
    return ops.stack([t / h, (rise - low) / h - t, low, y[:-1]], axis=0)
