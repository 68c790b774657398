"""SciPy's ``interpolate``: piecewise cubics through points, with derivatives by all arguments.

An interpolant is a tree of arrays: it goes through ``jit``, ``vmap`` and derivatives. Its values
have derivatives by the places of evaluation, by the points' places and by their values.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from ..faces.publish import publish
from ..numpy.arguments import as_inexact
from ..numpy.known_values import is_at_hand, value_of
from ..primitives.core.annotations import ArrayLike
from ..primitives.core.annotations import operations as ops
from ..primitives.core.array import Array
from ..primitives.core.shape_dtype import as_list
from ..primitives.linalg.banded import banded_solve
from ..tree import register
from .piecewise_polynomials import Extrapolation, PPoly, hermite, points, trailing

__all__ = [
    "Akima1DInterpolator", "CubicHermiteSpline", "CubicSpline", "PPoly", "PchipInterpolator",
    "pchip_interpolate",
]  # fmt: skip


class CubicHermiteSpline(PPoly):
    """The piecewise cubic with values and slopes at points.

    Args:
        x: the places, ascending, two or more.
        y: the values, of any shape, as many along the axis.
        dydx: the slopes, of y's shape.
        axis: the axis of the points.
        extrapolate: as for `PPoly`.

    Raises:
        ValueError: the shapes do not fit, or x does not ascend.

    Source: as for `PPoly`.

    >>> from functensor.scipy import interpolate
    >>> interpolate.CubicHermiteSpline([0.0, 1.0], [0.0, 1.0], [0.0, 0.0])(0.5).tolist()
    0.5
    """

    def __init__(
        self,
        x: ArrayLike,
        y: ArrayLike,
        dydx: ArrayLike,
        axis: int = 0,
        extrapolate: Extrapolation | None = None,
    ) -> None:
        x, values, axis = points("CubicHermiteSpline", x, y, axis)
        slopes = ops.moveaxis(as_inexact(dydx), axis, 0)
        if slopes.shape != values.shape:
            raise ValueError(
                f"CubicHermiteSpline: The shapes of `y` and `dydx` must be identical, not "
                f"{values.shape} and {slopes.shape}"
            )
        self._set(hermite(x, values, slopes), x, extrapolate, axis)


def _harmonic_end(h0: Array, h1: Array, m0: Array, m1: Array) -> Array:
    """Returns the slope at an end: of the parabola through three points, unless it overshoots."""
    slope = ((2 * h0 + h1) * m0 - h0 * m1) / (h0 + h1)
    turned = ops.not_equal(ops.sign(slope), ops.sign(m0))
    steep = ops.logical_and(
        ops.not_equal(ops.sign(m0), ops.sign(m1)), ops.greater(ops.abs(slope), 3.0 * ops.abs(m0))
    )
    return ops.where(turned, 0.0, ops.where(steep, 3.0 * m0, slope))


def _pchip_slopes(x: Array, y: Array) -> Array:
    h = trailing(ops.diff(x), y)
    m = ops.diff(y, axis=0) / h
    if x.shape[0] == 2:
        return ops.concatenate([m, m], axis=0)
    left, right = m[:-1], m[1:]
    flat = ops.less_equal(ops.sign(left) * ops.sign(right), 0)
    w1, w2 = 2 * h[1:] + h[:-1], h[1:] + 2 * h[:-1]
    safe = ops.where(flat, 1.0, left), ops.where(flat, 1.0, right)
    inner = ops.where(flat, 0.0, (w1 + w2) / (w1 / safe[0] + w2 / safe[1]))
    first = _harmonic_end(h[:1], h[1:2], m[:1], m[1:2])
    last = _harmonic_end(h[-1:], h[-2:-1], m[-1:], m[-2:-1])
    return ops.concatenate([first, inner, last], axis=0)


class PchipInterpolator(CubicHermiteSpline):
    """The piecewise cubic through points, monotonic wherever the points are.

    Args:
        x: the places, ascending, two or more.
        y: the values, of any shape, as many along the axis.
        axis: the axis of the points.
        extrapolate: as for `PPoly`.

    Raises:
        ValueError: the shapes do not fit, or x does not ascend.

    Source: F. N. Fritsch and J. Butland, "A method for constructing local monotone piecewise cubic
    interpolants", SIAM Journal on Scientific and Statistical Computing 5 (1984).

    >>> from functensor.scipy import interpolate
    >>> interpolate.PchipInterpolator([0.0, 1.0, 2.0], [0.0, 1.0, 1.0])(1.5).tolist()
    1.0
    """

    def __init__(
        self, x: ArrayLike, y: ArrayLike, axis: int = 0, extrapolate: Extrapolation | None = None
    ) -> None:
        x, values, axis = points("PchipInterpolator", x, y, axis)
        self._set(hermite(x, values, _pchip_slopes(x, values)), x, extrapolate, axis)


def pchip_interpolate(
    xi: ArrayLike, yi: ArrayLike, x: ArrayLike, der: int | Sequence[int] = 0, axis: int = 0
) -> Array | list[Array]:
    """Returns the values of `PchipInterpolator`, or derivatives.

    Args:
        xi, yi, axis: the points, as there.
        x: where, an array.
        der: which derivative, or several, for a list of arrays.

    Returns:
        An array, or a list of them.

    Raises:
        ValueError: as there.

    Source: as there.

    >>> from functensor.scipy import interpolate
    >>> interpolate.pchip_interpolate([0.0, 1.0, 2.0], [0.0, 1.0, 1.0], 1.5).tolist()
    1.0
    """
    curve = PchipInterpolator(xi, yi, axis=axis)
    made = [curve(x, operator.index(nu)) for nu in as_list(der)]
    return made if np.ndim(der) else made[0]


def _akima_slopes(x: Array, y: Array, makima: bool) -> Array:
    n = x.shape[0]
    m = ops.diff(y, axis=0) / trailing(ops.diff(x), y)
    if n == 2:
        return ops.concatenate([m, m], axis=0)
    before, after = 2 * m[:1] - m[1:2], 2 * m[-1:] - m[-2:-1]
    m = ops.concatenate([2 * before - m[:1], before, m, after, 2 * after - m[-1:]], axis=0)
    gaps = ops.abs(ops.diff(m, axis=0))
    if makima:
        gaps = gaps + 0.5 * ops.abs(m[1:] + m[:-1])
    w1, w2 = gaps[2:], gaps[:-2]
    total = w1 + w2
    largest = ops.max(ops.stop_gradient(total)) if total.size else 0.0
    some = ops.greater(total, 1e-9 * largest)
    safe = ops.where(some, total, 1.0)
    weighed = (w1 * m[1:-2] + w2 * m[2:-1]) / safe
    middle = 0.0 * weighed if makima else 0.5 * (m[3:] + m[:-3])
    return ops.where(some, weighed, middle)


class Akima1DInterpolator(CubicHermiteSpline):
    """Akima's piecewise cubic through points, which swings less than a spline.

    Args:
        x: the places, ascending, two or more.
        y: the values, of any shape, as many along the axis.
        axis: the axis of the points.
        method: "akima" or "makima", which has weights that avoid overshooting.
        extrapolate: as for `PPoly`; None for False.

    Raises:
        ValueError: the shapes do not fit, x does not ascend, or the method is another word.

    Source: H. Akima, "A new method of interpolation and smooth curve fitting based on local
    procedures", Journal of the ACM 17 (1970).

    >>> from functensor.scipy import interpolate
    >>> interpolate.Akima1DInterpolator([0.0, 1.0, 2.0], [0.0, 1.0, 2.0])(1.5).tolist()
    1.5
    """

    def __init__(
        self,
        x: ArrayLike,
        y: ArrayLike,
        axis: int = 0,
        *,
        method: str = "akima",
        extrapolate: Extrapolation | None = None,
    ) -> None:
        if method not in ("akima", "makima"):
            raise ValueError(f"Akima1DInterpolator: `method`={method!r} is unsupported.")
        x, values, axis = points("Akima1DInterpolator", x, y, axis)
        slopes = _akima_slopes(x, values, method == "makima")
        beyond = False if extrapolate is None else extrapolate
        self._set(hermite(x, values, slopes), x, beyond, axis)


# -- the spline

# A condition at an end is a word, or a derivative's order and its value there.
Condition: TypeAlias = str | tuple[int, ArrayLike]
Conditions: TypeAlias = str | tuple[Condition, Condition]


def _condition(name: str, given: Condition, slope: Array) -> str | tuple[int, Array]:
    """Returns the condition at an end: "not-a-knot", "periodic", or an order and a value."""
    if isinstance(given, str):
        if given == "natural":
            return 2, 0.0 * slope
        if given == "clamped":
            return 1, 0.0 * slope
        if given in ("not-a-knot", "periodic"):
            return given
        raise ValueError(f"{name}: bc_type={given!r} is not allowed.")
    if not isinstance(given, tuple | list) or len(given) != 2 or given[0] not in (1, 2):
        raise ValueError(
            f"{name}: a boundary condition is a word, or a pair of the order 1 or 2 and the "
            f"derivative's value, not {given!r}"
        )
    value = as_inexact(given[1])
    if value.shape != slope.shape:
        raise ValueError(f"{name}: `deriv_value` shape {value.shape} is not {slope.shape}")
    return given[0], value + 0.0 * slope


def _conditions(
    name: str, bc_type: Conditions, y: Array, slope: Array
) -> list[str | tuple[int, Array]]:
    pair = (bc_type, bc_type) if isinstance(bc_type, str) else bc_type
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise ValueError(f"{name}: bc_type={bc_type!r}: it is a word, or a pair for both ends")
    ends = [_condition(name, g, slope[0]) for g in pair]
    if "periodic" in ends:
        if ends != ["periodic", "periodic"]:
            raise ValueError(f"{name}: 'periodic' `bc_type` is defined for both curve ends.")
        outer = ops.index(y, 0), ops.index(y, -1)
        if is_at_hand(*outer):
            known = [value_of(name, z, "") for z in outer]
            if not np.allclose(known[0], known[1], rtol=1e-15, atol=1e-15):
                raise ValueError(
                    f"{name}: The first and last `y` point along axis 0 must be identical (within "
                    "machine precision) when bc_type='periodic'."
                )
    return ends


def _solved(low: Array, middle: Array, high: Array, b: Array) -> Array:
    """Returns the solution of a tridiagonal system: its diagonals are given, short ones too."""
    zero = ops.zeros_like(middle[:1])
    bands = [ops.concatenate([zero, high]), middle, ops.concatenate([low, zero])]
    columns = ops.reshape(b, (b.shape[0], -1))
    params = {"lower": 1, "upper": 1}
    return ops.reshape(banded_solve.bind((ops.stack(bands, axis=0), columns), params), b.shape)


def _periodic(h: Array, hy: Array, slope: Array) -> Array:
    """Returns the slopes at all points of a periodic spline, by Sherman and Morrison's formula."""
    n = h.shape[0]
    if n == 2:
        t = ops.sum(slope / hy, axis=0, keepdims=True) / ops.sum(1 / hy, axis=0, keepdims=True)
        return ops.concatenate([t, t, t], axis=0)
    before, before_y = ops.roll(h, 1), ops.roll(hy, 1, 0)
    b = 3 * (hy * ops.roll(slope, 1, 0) + before_y * slope)
    middle, corner_row, corner_column = 2 * (before + h), h[:1], h[n - 2 : n - 1]
    gamma = -middle[:1]
    ends = middle[:1] - gamma, middle[-1:] - corner_column * corner_row / gamma
    diagonals = h[1:], ops.concatenate([ends[0], middle[1:-1], ends[1]]), before[: n - 1]
    u = ops.concatenate([gamma, ops.zeros_like(h[: n - 2]), corner_column])
    z, q = _solved(*diagonals, b), _solved(*diagonals, u)
    ratio = corner_row / gamma
    vq = 1 + q[:1] + ratio * q[-1:]
    vz = z[:1] + trailing(ratio, z) * z[-1:]
    s = z - trailing(q, z) * (vz / trailing(vq, z))
    return ops.concatenate([s, s[:1]], axis=0)


def _end(
    kind: str | tuple[int, Array], h: Array, hy: Array, slope: Array, sign: float
) -> tuple[Array, Array, Array]:
    """Returns the diagonal, its neighbour and the right side of the equation at an end.

    Intervals are counted from that end on; the sign is 1 at the first end and -1 at the last.
    """
    if isinstance(kind, str):
        d, dy = h[:1] + h[1:2], hy[:1] + hy[1:2]
        right = (hy[:1] + 2 * dy) * hy[1:2] * slope[:1] + hy[:1] ** 2 * slope[1:2]
        return h[1:2], d, right / dy
    order, value = kind
    value = ops.expand_dims(value, 0)
    if order == 1:
        return ops.ones_like(h[:1]), ops.zeros_like(h[:1]), value
    right = 3 * hy[:1] * slope[:1] - sign * 0.5 * value * hy[:1] ** 2
    return 2 * h[:1], h[:1], right


def _spline_slopes(name: str, x: Array, y: Array, bc_type: Conditions) -> Array:
    h = ops.diff(x)
    hy = trailing(h, y)
    slope = ops.diff(y, axis=0) / hy
    first, last = _conditions(name, bc_type, y, slope)
    n = x.shape[0]
    if n == 2:
        first, last = ((1, slope[0]) if isinstance(k, str) else k for k in (first, last))
    if first == "periodic":
        return _periodic(h, hy, slope)
    if n == 3 and first == "not-a-knot" and last == "not-a-knot":
        # The spline is a parabola, whose slopes are linear.
        left, right = slope[:1], slope[1:]
        middle = (hy[:1] * right + hy[1:] * left) / (hy[:1] + hy[1:])
        return ops.concatenate([2 * left - middle, middle, 2 * right - middle], axis=0)
    begin = _end(first, h, hy, slope, 1.0)
    finish = _end(last, ops.flip(h), ops.flip(hy, 0), ops.flip(slope, 0), -1.0)
    inner = 3 * (hy[1:] * slope[:-1] + hy[:-1] * slope[1:])
    return _solved(
        ops.concatenate([h[1:], finish[1]]),
        ops.concatenate([begin[0], 2 * (h[:-1] + h[1:]), finish[0]]),
        ops.concatenate([begin[1], h[:-1]]),
        ops.concatenate([begin[2], inner, finish[2]], axis=0),
    )


class CubicSpline(CubicHermiteSpline):
    """The piecewise cubic through points that has two continuous derivatives.

    Args:
        x: the places, ascending, two or more.
        y: the values, of any shape, as many along the axis.
        axis: the axis of the points.
        bc_type: the condition at the ends, or a pair of conditions, one for each end.
            "not-a-knot": the first two, and the last two, cubics are one; "periodic": the
            derivatives at both ends are the same, as the values have to be; "clamped": the slope is
            0; "natural": the second derivative is 0; or a pair (order, value) of the first or
            second derivative.
        extrapolate: as for `PPoly`; None for True, or "periodic" for a periodic spline.

    Raises:
        ValueError: the shapes do not fit, x does not ascend, or a condition is none of these.
        MissingExtraError: SciPy, which solves the tridiagonal systems, is not installed.

    Source: C. de Boor, "A Practical Guide to Splines", chapter IV.

    >>> from functensor.scipy import interpolate
    >>> spline = interpolate.CubicSpline([0.0, 1.0, 2.0, 3.0], [0.0, 1.0, 8.0, 27.0])
    >>> spline(1.5).round(12).tolist(), spline(1.5, 2).round(12).tolist()
    (3.375, 9.0)
    """

    def __init__(
        self,
        x: ArrayLike,
        y: ArrayLike,
        axis: int = 0,
        bc_type: Conditions = "not-a-knot",
        extrapolate: Extrapolation | None = None,
    ) -> None:
        x, values, axis = points("CubicSpline", x, y, axis)
        slopes = _spline_slopes("CubicSpline", x, values, bc_type)
        if extrapolate is None and bc_type == "periodic":
            extrapolate = "periodic"
        self._set(hermite(x, values, slopes), x, extrapolate, axis)


for _kind in (PPoly, CubicHermiteSpline, PchipInterpolator, Akima1DInterpolator, CubicSpline):
    register(
        _kind,
        lambda node: ([node.c, node.x], (node.extrapolate, node.axis)),
        lambda static, children, kind=_kind: kind.construct_fast(*children, *static),
    )


publish(globals())
