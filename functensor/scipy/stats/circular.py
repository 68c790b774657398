"""Statistics of angles, distances of samples and corrected p-values, under SciPy's names."""

from __future__ import annotations

from collections.abc import Callable
from math import pi

import numpy as np

from ...backends.annotations import Axis
from ...control import associative_scan
from ...numpy.arguments import as_inexact
from ...primitives.core.annotations import ArrayLike
from ...primitives.core.annotations import operations as ops
from ...primitives.core.array import Array
from ...primitives.core.buffers import beside
from ...primitives.core.shape_dtype import canonical_axis
from .sample_axes import as_if_known, checked_word, samples_along

__all__ = ["circmean", "circstd", "circvar", "false_discovery_control", "wasserstein_distance"]


def _resultant(
    name: str,
    samples: ArrayLike,
    high: Array | float,
    low: Array | float,
    axis: Axis,
    nan_policy: str,
    keepdims: bool,
) -> tuple[Callable[[Array], Array], Array, Array]:
    """Returns how axes are restored, and the means of the sines and cosines of the angles."""
    (x,), restored = samples_along(name, [samples], axis, nan_policy, keepdims)
    angles = (x - low) * (2.0 * pi / (high - low))
    return restored, ops.mean(ops.sin(angles), axis=-1), ops.mean(ops.cos(angles), axis=-1)


def circmean(
    samples: ArrayLike,
    high: Array | float = 2 * pi,
    low: Array | float = 0,
    axis: Axis = None,
    nan_policy: str = "propagate",
    *,
    keepdims: bool = False,
) -> Array:
    """Returns the mean directions of angles.

    Args:
        samples: an array.
        high, low: where a turn ends and begins.
        axis: along which axis or axes; None for all.
        nan_policy: "propagate", or "raise" to refuse NaN.
        keepdims: whether the axis stays, with length 1.

    Returns:
        An array without the axis, from low up to high.

    Raises:
        ValueError: there is a NaN, and it is refused.
        NotImplementedError: NaN is to be left out.

    Source: N. I. Fisher, "Statistical Analysis of Circular Data", 2.3.

    >>> from functensor.scipy import stats
    >>> stats.circmean([350.0, 20.0], high=360).round(9).tolist()
    5.0
    """
    restored, sine, cosine = _resultant("circmean", samples, high, low, axis, nan_policy, keepdims)
    angle = ops.arctan2(sine, cosine)
    angle = ops.where(ops.less(angle, 0), angle + 2.0 * pi, angle)
    return restored(angle * ((high - low) / (2.0 * pi)) + low)


def _resultant_length(sine: Array, cosine: Array) -> Array:
    return ops.minimum(ops.hypot(sine, cosine), 1.0)


def circvar(
    samples: ArrayLike,
    high: Array | float = 2 * pi,
    low: Array | float = 0,
    axis: Axis = None,
    nan_policy: str = "propagate",
    *,
    keepdims: bool = False,
) -> Array:
    """Returns the circular variances of angles: 1 minus the length of their mean as vectors.

    Args:
        samples, high, low, axis, nan_policy, keepdims: as for `circmean`.

    Returns:
        An array without the axis.

    Raises:
        ValueError, NotImplementedError: as for `circmean`.

    Source: as for `circmean`.

    >>> from functensor.scipy import stats
    >>> stats.circvar([0.0, 180.0], high=360).round(12).tolist()
    1.0
    """
    restored, sine, cosine = _resultant("circvar", samples, high, low, axis, nan_policy, keepdims)
    return restored(1.0 - _resultant_length(sine, cosine))


def circstd(
    samples: ArrayLike,
    high: Array | float = 2 * pi,
    low: Array | float = 0,
    axis: Axis = None,
    nan_policy: str = "propagate",
    *,
    normalize: bool = False,
    keepdims: bool = False,
) -> Array:
    """Returns the circular standard deviations of angles.

    Args:
        samples, high, low, axis, nan_policy, keepdims: as for `circmean`.
        normalize: whether to return radians for turns of every length.

    Returns:
        An array without the axis.

    Raises:
        ValueError, NotImplementedError: as for `circmean`.

    Source: as for `circmean`.

    >>> from functensor.scipy import stats
    >>> stats.circstd([0.0, 0.5]).round(6).tolist()
    0.251321
    """
    restored, sine, cosine = _resultant("circstd", samples, high, low, axis, nan_policy, keepdims)
    length = _resultant_length(sine, cosine)
    same = ops.equal(length, 1)
    root = ops.sqrt(-2.0 * ops.log(ops.where(same, 0.5, length)))
    out = ops.where(same, 0.0, root)
    return restored(out if normalize else out * ((high - low) / (2.0 * pi)))


def false_discovery_control(ps: ArrayLike, *, axis: int | None = 0, method: str = "bh") -> Array:
    """Returns p-values that control the rate of false discoveries.

    Args:
        ps: an array of p-values.
        axis: along which axis; None for all, flat.
        method: "bh" for Benjamini and Hochberg's, "by" for Benjamini and Yekutieli's, which holds
            for dependent tests.

    Returns:
        An array of ps' shape, or flat.

    Raises:
        ValueError: the method is another word, or a known value is no probability.

    Source: Y. Benjamini and Y. Hochberg, "Controlling the false discovery rate", Journal of the
    Royal Statistical Society B 57 (1995); Y. Benjamini and D. Yekutieli, 2001.

    >>> from functensor.scipy import stats
    >>> stats.false_discovery_control([0.01, 0.5, 0.02]).round(12).tolist()
    [0.03, 0.5, 0.03]
    """
    name = "false_discovery_control"
    checked_word(name, "method", str(method).lower(), ("bh", "by"))
    ps = as_inexact(ps)
    known = as_if_known(name, ps)
    if known is not None and not ((known >= 0) & (known <= 1)).all():
        raise ValueError(f"{name}: `ps` must include only numbers between 0 and 1.")
    if axis is None:
        ps, axis = ops.ravel(ps), 0
    if not ps.shape:
        return ps
    axis = canonical_axis(axis, len(ps.shape))
    x = ops.moveaxis(ps, axis, -1)
    m = x.shape[-1]
    if m <= 1:
        return ps
    order = ops.argsort(ops.stop_gradient(x), axis=-1, stable=True)
    ranks = np.arange(1, m + 1)
    scale = m / ranks * (np.sum(1 / ranks) if str(method).lower() == "by" else 1.0)
    x = ops.take_along_axis(x, order, axis=-1) * beside(x, scale.astype(x.dtype))
    x = associative_scan(ops.minimum, x, reverse=True, axis=len(x.shape) - 1)
    back = ops.argsort(order, axis=-1)
    x = ops.take_along_axis(ops.clip(x, 0.0, 1.0), back, axis=-1)
    return ops.moveaxis(x, -1, axis)


def _shares_below(sorted_x: Array, order: Array, weights: Array | None, places: Array) -> Array:
    """Returns the part of samples, or of their weights, up to each of places."""
    index = ops.searchsorted(sorted_x, places, side="right")
    if weights is None:
        return index / sorted_x.shape[0]
    sums = ops.cumsum(ops.take(weights, order, axis=0), 0)
    sums = ops.concatenate([ops.zeros_like(sums[:1]), sums])
    return ops.take(sums, index, axis=0) / sums[-1]


def wasserstein_distance(
    u_values: ArrayLike,
    v_values: ArrayLike,
    u_weights: ArrayLike | None = None,
    v_weights: ArrayLike | None = None,
) -> Array:
    """Returns how far one distribution on a line is to be carried to become another.

    Args:
        u_values, v_values: samples, on one axis each.
        u_weights, v_weights: their weights; None for the same weight of all.

    Returns:
        A number.

    Raises:
        ValueError: there are no samples, or there is not one weight for each.

    Source: the integral of the distance of both distribution functions: A. Ramdas, N. Garcia and
    M. Cuturi, "On Wasserstein two-sample testing and related families of nonparametric tests",
    Entropy 19 (2017).

    >>> from functensor.scipy import stats
    >>> stats.wasserstein_distance([0.0, 1.0], [3.0, 2.0]).tolist()
    2.0
    """
    values = [as_inexact(x) for x in (u_values, v_values)]
    weights = [None if w is None else as_inexact(w) for w in (u_weights, v_weights)]
    for x, w in zip(values, weights):
        if len(x.shape) != 1 or not x.shape[0] or (w is not None and w.shape != x.shape):
            raise ValueError(
                f"wasserstein_distance: samples of shape {x.shape} with weights of shape "
                f"{None if w is None else w.shape}: give both along one axis, one sample at least"
            )
    everything = ops.sort(ops.concatenate(values))
    fixed = ops.stop_gradient(everything)[:-1]
    parts = []
    for x, w in zip(values, weights):
        x = ops.stop_gradient(x)
        order = ops.argsort(x)
        parts.append(_shares_below(ops.take(x, order, axis=0), order, w, fixed))
    return ops.sum(ops.abs(parts[0] - parts[1]) * ops.diff(everything))
