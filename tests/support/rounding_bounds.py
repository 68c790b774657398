"""How far two correct results of an operation may be apart, for operands that are apart already.

A program is followed step by step in eager mode. Every value has a radius for each element: another
mode may compute a number that far away. Radius 0 means the same bits, so that signs of zeros are
compared too; an infinite radius means that nothing can be said, as where a step jumps between
two numbers that operands may be. Radii grow by the rounding that is promised alone: that of sums
in another order, and of functions that are off by one unit in the last place in either mode.
"""

from itertools import product
from math import prod
from typing import NamedTuple

import numpy as np

__all__ = [
    *("Known", "assert_within", "cumulated", "dot", "elementwise", "exact", "extremum", "moved"),
    *("multiplied", "normalized", "picked_loss", "softmax", "spread", "summed"),
]

WIDE = np.longdouble


class Known(NamedTuple):
    """A value of eager mode, and how far another mode's may be away, for each element."""

    value: np.ndarray
    radius: np.ndarray


def exact(x):
    """Returns a value that is the same in every mode."""
    x = np.asarray(x)
    return Known(x, np.zeros(x.shape))


def is_float(x):
    return x.dtype.kind == "f"


def spacing(x):
    """Returns a unit in the last place of each element, 0 for those that are not finite."""
    found = np.spacing(np.abs(x)).astype(np.float64)
    return np.where(np.isfinite(x), found, 0)


def eps_of(x):
    return float(np.finfo(x.dtype).eps)


def closed(out, radius):
    """Returns a result with its radius: infinite for whole numbers that may differ at all.

    Near the largest number one order of a sum may overflow, and another may not.
    """
    radius = np.broadcast_to(np.asarray(radius, np.float64), out.shape).copy()
    radius[np.isnan(radius)] = np.inf
    if not is_float(out):
        radius[radius > 0] = np.inf
    else:
        radius[radius >= np.finfo(out.dtype).max * eps_of(out) / 8] = np.inf
    return Known(out, radius)


def apart(x, y):
    """Returns how far numbers are apart: 0 for the same infinities and for two NaN."""
    same = (x == y) | ((x != x) & (y != y))
    with np.errstate(all="ignore"):
        far = np.abs(np.asarray(x, WIDE) - np.asarray(y, WIDE)).astype(np.float64)
    far = np.where(np.isfinite(far), far, np.inf)
    return np.where(same, 0.0, far)


def beside(x, radius, sign):
    """Returns numbers of a dtype that are a radius away, at least the next ones."""
    if not is_float(x):
        return x
    with np.errstate(all="ignore"):
        there = (x.astype(WIDE) + sign * radius).astype(x.dtype)
        following = np.nextafter(x, np.asarray(sign * np.inf, x.dtype))
    there = np.where(there == x, following, there)
    return np.where((radius > 0) & np.isfinite(radius) & np.isfinite(x), there, x)


def own_error(call, out, operands):
    """Returns how far eager mode's result is from that of double precision.

    NumPy's tangents and logarithms of single precision are off by up to 3.6 units in the last
    place.
    """
    if out.dtype not in (np.float16, np.float32):
        return 0.0
    with np.errstate(all="ignore"):
        wide = np.asarray(call(*[x.value.astype(np.float64) for x in operands]))
        return finite(apart(out, wide.astype(out.dtype))).astype(np.float64)


def elementwise(
    call, ulps, out, *operands, pole=None, jumps=False, odd=False, largest=np.inf, scale=0
):
    """Returns the result of a function of elements.

    Args:
        call: the function.
        ulps: by how many units in the last place two correct results may differ, or how far one
            may be from that of double precision.
        out: its result in eager mode.
        operands: what it was computed of.
        pole: the number of an operand near whose zero nothing is known.
        jumps: whether nothing is known where an operand is not.
        odd: whether it is 0, with a sign of its own, at the zeros of its first operand.
        largest: the radius from which on nothing is known.
        scale: how many units in the last place of its operands results may differ by, as sums of
            terms that cancel.
    """
    radii = [x.radius for x in operands]
    radius = np.zeros(out.shape)
    lost = np.zeros(out.shape, bool)
    for number, x in enumerate(operands):
        lost = lost | ~(x.radius < largest) | (jumps & (x.radius > 0))
        if number == pole:
            lost = lost | ((x.radius > 0) & (np.abs(x.value) <= 2 * x.radius))
    moving = [i for i, r in enumerate(radii) if np.any(r)]
    for signs in product((-1, 1), repeat=len(moving)) if moving else ():
        given = [x.value for x in operands]
        for i, sign in zip(moving, signs, strict=True):
            given[i] = beside(given[i], radii[i], sign)
        corner = np.asarray(call(*given))
        rounding = 2 * spacing(corner) if is_float(out) else 0
        radius = np.maximum(radius, apart(corner, out) + rounding)
    uncertain = sum(radii) > 0
    radius = np.where(uncertain, radius, 0)
    if is_float(out):
        units = ulps * spacing(out)
        if ulps:
            units = np.maximum(units, spacing(out) + own_error(call, out, operands))
        if odd:
            units = np.where((operands[0].value == 0) & (out == 0), 0, units)
        for x in operands if scale else ():
            units = units + scale * eps_of(out) * np.abs(finite(x.value)).astype(np.float64)
        radius = radius + np.where(uncertain, units + 2 * spacing(out), units)
    return closed(out, np.where(lost, np.inf, radius))


def moved(call, out, *operands):
    """Returns the result of a function that moves elements, as a transpose does."""
    return Known(out, np.asarray(call(*[x.radius for x in operands]), np.float64))


def finite(x):
    """Returns numbers as wide ones, 0 for those that are not finite."""
    return np.where(np.isfinite(x), x, 0).astype(WIDE)


def summed(out, x, axis, keepdims, mean=False):
    """Returns a sum or a mean over axes."""
    axes = tuple(range(x.value.ndim)) if axis is None else axis
    axes = axes if isinstance(axes, tuple) else (axes,)
    count = prod(x.value.shape[a] for a in axes)
    how = {"axis": axes, "keepdims": keepdims}
    radius = np.sum(x.radius, **how)
    if is_float(out):
        mass = np.sum(np.abs(finite(x.value)), **how)
        if not is_float(x.value):  # small sums of whole numbers are exact
            mass = np.where(mass * eps_of(out) < 1, np.abs(out) * count, mass)
        radius = radius + max(count - 1, 0) * eps_of(out) * mass
        radius = np.where(4 * mass >= np.finfo(out.dtype).max, np.inf, radius)
        if mean:
            radius = radius / max(count, 1)
            radius = np.where(radius > 0, radius + spacing(out), radius)
    return closed(out, radius)


def cumulated(out, x, axis):
    """Returns cumulative sums."""
    radius = np.cumsum(x.radius, axis)
    if is_float(out):
        shape = [1] * out.ndim
        shape[axis] = -1
        places = np.arange(out.shape[axis]).reshape(shape)
        mass = np.cumsum(np.abs(finite(x.value)), axis)
        radius = radius + places * eps_of(out) * mass
        radius = np.where(4 * mass >= np.finfo(out.dtype).max, np.inf, radius)
    return closed(out, radius)


def multiplied(out, x, axis, keepdims):
    """Returns products over axes."""
    how = {"axis": axis, "keepdims": keepdims}
    if not is_float(out):
        return closed(out, np.sum(x.radius, **how))
    size = np.abs(finite(x.value))
    count = x.value.size // max(out.size, 1)
    with np.errstate(all="ignore"):
        radius = np.prod(size + x.radius, **how) - np.prod(size, **how)
        radius = radius + (count > 1) * count * eps_of(out) * np.prod(size, **how)
        # One order may overflow, and another may not.
        bits = np.sum(np.abs(np.log2(np.where(size > 0, size, 1))), **how)
    unknown = (bits >= np.finfo(out.dtype).maxexp - 4) | (
        np.any(~np.isfinite(x.value), **how) & np.any(x.radius > 0, **how)
    )
    return closed(out, np.where(unknown, np.inf, radius))


def extremum(call, out, x):
    """Returns a result of a function that never falls, such as the largest elements of rows."""
    radius = np.zeros(out.shape)
    if np.any(x.radius):
        for sign in (-1, 1):
            corner = np.asarray(call(beside(x.value, x.radius, sign)))
            radius = np.maximum(radius, apart(corner, out))
        # What is not known may be the largest.
        lost = np.asarray(call(np.where(np.isinf(x.radius), 1.0, 0.0)))
        least = -np.asarray(call(-np.where(np.isinf(x.radius), 1.0, 0.0)))
        radius = np.where((lost > 0) | (least > 0), np.inf, radius)
    return closed(out, radius)


def dot(out, x, y, given):
    """Returns a product of matrices, or of stacks of them.

    Args:
        out: the product in eager mode.
        x, y: the factors.
        given: whether both are operands of the program, so that no products are put into
            another order.
    """
    if not is_float(out):
        lost = np.any(x.radius) or np.any(y.radius)
        return closed(out, np.inf if lost else 0.0)
    length = x.value.shape[-1]
    a, b = np.abs(finite(x.value)), np.abs(finite(y.value))
    with np.errstate(all="ignore"):
        mass = np.matmul(a, b)
        radius = np.matmul(x.radius, b) + np.matmul(a, y.radius) + np.matmul(x.radius, y.radius)
        strange = np.matmul(
            np.where(np.isfinite(x.value), 0.0, 1), np.ones(y.value.shape)
        ) + np.matmul(np.ones(x.value.shape), np.where(np.isfinite(y.value), 0.0, 1))
    rounding = length * eps_of(out) * mass if length > 1 else np.where(radius > 0, spacing(out), 0)
    # A whole row that is 0 may hide what is not known beside it.
    lost = np.matmul(np.isinf(x.radius) * 1.0, np.ones(y.value.shape))
    lost = lost + np.matmul(np.ones(x.value.shape), np.isinf(y.radius) * 1.0)
    lost = (lost > 0) | ((strange > 0) & ((radius > 0) | (not given)))
    lost = lost | (4 * mass >= np.finfo(out.dtype).max)
    return closed(out, np.where(lost, np.inf, radius + rounding))


class Rows:
    """Rows of an array as wide numbers, with what decides about their functions.

    Attributes:
        x, r: elements and radii; 0 where they are not finite.
        count: the number of elements of a row.
        eps: the precision in which rows are computed.
        strange, unsure: the rows with elements that are not finite, and with radii.
    """

    def __init__(self, known, axis, dtype):
        self.axis = axis
        self.x, self.r = finite(known.value), known.radius
        self.count = known.value.shape[axis]
        self.eps = float(np.finfo(dtype).eps)
        self.largest = float(np.finfo(dtype).max)
        self.strange = self.over(np.any, ~np.isfinite(known.value))
        self.unsure = self.over(np.any, known.radius > 0)

    def over(self, function, x):
        return function(x, axis=self.axis, keepdims=True)

    def weighed(self):
        """Returns elements below the largest, their shares, and the sum of powers."""
        below = self.x - self.over(np.max, self.x)
        powers = np.exp(below)
        total = self.over(np.sum, powers)
        return below, powers / total, total

    def closed(self, out, radius, keepdims=True):
        """Returns the result; a strange row has that of eager mode, but for rounding."""
        if not keepdims:
            out = np.expand_dims(out, self.axis)
        rounding = (self.count + 8) * self.eps * (1 + np.abs(finite(out)))
        strange = np.where(self.unsure, np.inf, rounding)
        found = closed(out, np.where(self.strange, strange, radius))
        if not keepdims:
            return Known(*[np.squeeze(x, self.axis) for x in found])
        return found


def softmax(out, known, axis, kind):
    """Returns shares of rows, their logarithms, or the logarithm of the sum of powers."""
    if not known.value.size:
        return exact(out)
    rows = Rows(known, axis, out.dtype)
    with np.errstate(all="ignore"):
        below, shares, total = rows.weighed()
        change = rows.over(np.sum, np.where(rows.r > 0, shares * rows.r, 0))
        grown = rows.count + 8
        if kind == "shares":
            relative = rows.r + change + rows.eps * (np.abs(below) + grown)
            radius = shares * np.expm1(relative) + np.finfo(out.dtype).tiny
        elif kind == "logs":
            extent = np.abs(below) + np.log(total) + grown
            radius = rows.r + change + rows.eps * extent
        else:
            largest = np.abs(rows.over(np.max, rows.x))
            radius = change + rows.eps * (largest + np.log(total) + grown)
        radius = np.where(rows.over(np.any, rows.r > 1e-2), np.inf, radius)
    return rows.closed(out, radius, keepdims=kind != "sums")


def picked_loss(out, known, labels):
    """Returns cross entropy of rows of logits: the last axis."""
    if not out.size:
        return exact(out)
    logits = np.asarray(known.value)
    sums = softmax(out, known, -1, "sums")
    picked = np.take_along_axis(logits, labels[..., None], -1)[..., 0]
    radii = np.take_along_axis(known.radius, labels[..., None], -1)[..., 0]
    rounding = 2 * eps_of(out) * np.abs(finite(picked))
    return closed(out, sums.radius + radii + rounding)


def normalized(out, known, axis, kind, center=True, eps=1e-5):
    """Returns normalised rows, or their variance, deviation or length."""
    if not out.size or not known.value.size:
        return exact(out)
    rows = Rows(known, axis, out.dtype)
    x, r, count, unit = rows.x, rows.r, rows.count, rows.eps
    with np.errstate(all="ignore"):
        mean = rows.over(np.mean, x) if center else 0
        away = x - mean
        off = r + 2 * unit * np.abs(away)
        if center:
            off = off + rows.over(np.mean, r) + (count + 1) * unit * rows.over(np.mean, np.abs(x))
        squares = rows.over(np.mean, away * away)
        wrong = rows.over(np.mean, 2 * np.abs(away) * off + off * off)
        wrong = wrong + (count + 4) * unit * squares + np.finfo(out.dtype).tiny
        if kind in ("deviation", "length"):
            factor = count if kind == "length" else 1
            high = np.sqrt((squares + wrong) * factor)
            low = np.sqrt(np.maximum(squares - wrong, 0) * factor)
            radius = high - low + 4 * unit * high
        elif kind == "variance":
            radius = wrong
        else:
            scale = 1 / np.sqrt(squares + eps)
            share = wrong / (squares + eps)
            radius = (off + np.abs(away) * share) * scale + 8 * unit * np.abs(away) * scale
            radius = np.where(share > 0.25, np.inf, radius)
        large = rows.over(np.max, np.abs(x)) ** 2 * count * 16 > rows.largest
        radius = np.where(large, np.inf, radius)
    return rows.closed(out, radius, keepdims=kind == "rows")


def spread(out, *operands):
    """Returns a result of which nothing is known unless all operands are exact."""
    lost = any(np.any(x.radius) for x in operands)
    return closed(out, np.inf if lost else 0.0)


def assert_within(got, known, what):
    """Asserts that a result of another mode is as close to eager mode's as it has to be."""
    got, wanted = np.asarray(got), known.value
    assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape), what
    radius = known.radius
    far = apart(got, wanted) > radius
    assert not far.any(), (
        f"{what}: {far.sum()} of {far.size} are too far away, such as {got[far][:3]} for "
        f"{wanted[far][:3]}, of radius {radius[far][:3]}"
    )
    if is_float(got):
        signs = (got == 0) & (radius == 0) & (np.signbit(got) != np.signbit(wanted))
        assert not signs.any(), f"{what}: {signs.sum()} of {signs.size} zeros have the other sign"
