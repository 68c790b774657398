"""SciPy's ``spatial.distance``: distances of all pairs of vectors, differentiable.

Where vectors coincide, the derivative of a distance with a kink there is 0.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isqrt
from typing import Any

import numpy as np

from ...faces.publish import publish
from ...numpy.arguments import as_inexact
from ...numpy.creation import asarray
from ...numpy.known_values import is_at_hand, value_of
from ...numpy.linalg.solving import inv
from ...primitives.core.annotations import ArrayLike
from ...primitives.core.annotations import operations as ops
from ...primitives.core.array import Array
from ...primitives.core.buffers import beside
from ...primitives.core.errors import misfit
from ...primitives.core.shape_dtype import result_type
from ...transforms.vmap import vmap

__all__ = ["cdist", "pdist", "squareform"]


def _safe_root(x: Array) -> Array:
    """Returns square roots, of 0 with the derivative 0."""
    none = ops.equal(x, 0)
    return ops.where(none, 0.0, ops.sqrt(ops.where(none, 1.0, x)))


def _safe_ratio(a: Array, b: Array) -> Array:
    """Returns quotients, 0 where both are."""
    none = ops.equal(b, 0)
    return ops.where(none, 0.0, a / ops.where(none, 1.0, b))


def _sum_of_terms(x: Array, w: Array | None) -> Array:
    return ops.sum(x if w is None else x * w, axis=-1)


def _mean_of_terms(x: Array, w: Array | None) -> Array:
    """Returns the mean, or the weighted mean."""
    return ops.mean(x, axis=-1) if w is None else ops.sum(x * w, axis=-1) / ops.sum(w)


# -- distances of vectors along the last axis, which broadcast


def _minkowski(u: Array, v: Array, w: Array | None, p: float = 2) -> Array:
    if p <= 0:
        raise ValueError(f"minkowski: p={p!r} must be greater than 0")
    if p == 2:
        return _safe_root(_sum_of_terms((u - v) ** 2, w))
    if p == 1:
        return _sum_of_terms(ops.abs(u - v), w)
    if p == np.inf:
        gaps = ops.abs(u - v)
        return ops.max(gaps if w is None else ops.where(ops.greater(w, 0), gaps, 0.0), axis=-1)
    gaps = ops.abs(u - v)
    none = ops.equal(gaps, 0)
    total = _sum_of_terms(ops.where(none, 0.0, ops.where(none, 1.0, gaps) ** p), w)
    none = ops.equal(total, 0)
    return ops.where(none, 0.0, ops.where(none, 1.0, total) ** (1 / p))


def _cosine(u: Array, v: Array, w: Array | None) -> Array:
    uv, uu, vv = (_sum_of_terms(a * b, w) for a, b in ((u, v), (u, u), (v, v)))
    return 1 - ops.clip(uv / (_safe_root(uu) * _safe_root(vv)), -1.0, 1.0)


def _correlation_distance(u: Array, v: Array, w: Array | None) -> Array:
    weights = None if w is None else w / ops.sum(w)
    u, v = (z - ops.expand_dims(_mean_of_terms(z, weights), -1) for z in (u, v))
    return _cosine(u, v, weights)


def _jaccard(u: Array, v: Array, w: Array | None) -> Array:
    some = [ops.not_equal(z, 0) for z in (u, v)]
    parts = (ops.logical_xor(*some), ops.logical_or(*some))
    return _safe_ratio(*(_sum_of_terms(ops.astype(x, u.dtype), w) for x in parts))


def _jensenshannon(u: Array, v: Array, w: Array | None, base: float | None = None) -> Array:
    u, v = (z / ops.sum(z, axis=-1, keepdims=True) for z in (u, v))
    m = (u + v) / 2
    total = sum(ops.sum(_relative(z, m), axis=-1) for z in (u, v))
    total = total if base is None else total / np.log(base)
    return _safe_root(ops.maximum(total, 0.0) / 2.0)


def _relative(u: Array, m: Array) -> Array:
    none = ops.equal(u, 0)
    return ops.where(none, 0.0, u * ops.log(ops.where(none, 1.0, u / ops.where(none, 1.0, m))))


def _mahalanobis(u: Array, v: Array, w: Array | None, VI: Array) -> Array:
    d = u - v
    return _safe_root(ops.sum(ops.matmul(d, VI) * d, axis=-1))


METRICS: dict[str, Callable[..., Array]] = {
    "braycurtis": lambda u, v, w: (
        _sum_of_terms(ops.abs(u - v), w) / _sum_of_terms(ops.abs(u + v), w)
    ),
    "canberra": lambda u, v, w: _sum_of_terms(
        _safe_ratio(ops.abs(u - v), ops.abs(u) + ops.abs(v)), w
    ),
    "chebyshev": lambda u, v, w: _minkowski(u, v, w, np.inf),
    "cityblock": lambda u, v, w: _minkowski(u, v, w, 1),
    "correlation": _correlation_distance,
    "cosine": _cosine,
    "euclidean": lambda u, v, w: _minkowski(u, v, w, 2),
    "hamming": lambda u, v, w: _mean_of_terms(ops.astype(ops.not_equal(u, v), u.dtype), w),
    "jaccard": _jaccard,
    "jensenshannon": _jensenshannon,
    "mahalanobis": _mahalanobis,
    "minkowski": _minkowski,
    "seuclidean": lambda u, v, w, V: _safe_root(ops.sum((u - v) ** 2 / V, axis=-1)),
    "sqeuclidean": lambda u, v, w: _sum_of_terms((u - v) ** 2, w),
}
# The argument that a metric has beside weights.
METRIC_OPTIONS = {"jensenshannon": "base", "mahalanobis": "VI", "minkowski": "p", "seuclidean": "V"}
WITHOUT_WEIGHTS = ("jensenshannon", "mahalanobis", "seuclidean")
METRIC_ABBREVIATIONS = {
    "cb": "cityblock", "cblock": "cityblock", "cheby": "chebyshev", "cheb": "chebyshev",
    "ch": "chebyshev", "co": "correlation", "cos": "cosine", "eu": "euclidean", "e": "euclidean",
    "euclid": "euclidean", "hamm": "hamming", "matching": "hamming", "jacc": "jaccard",
    "ja": "jaccard", "j": "jaccard", "js": "jensenshannon", "mahal": "mahalanobis",
    "mah": "mahalanobis", "mi": "minkowski", "m": "minkowski", "pnorm": "minkowski",
    "se": "seuclidean", "s": "seuclidean", "sqe": "sqeuclidean", "sqeuclid": "sqeuclidean",
}  # fmt: skip


def _matrix(name: str, letter: str, x: ArrayLike) -> Array:
    x = as_inexact(x)
    if len(x.shape) != 2:
        raise misfit(
            f"{name}: {letter} has shape {x.shape}",
            "give vectors as the rows of a matrix; ft.vmap takes a stack of them",
        )
    if x.dtype.kind == "c":
        raise TypeError(f"{name}: {letter} is complex: pass real and imaginary parts side by side")
    return x


def _measure(
    name: str, metric: str | Callable[..., ArrayLike], options: dict[str, Any], rows: Array
) -> Callable[..., Array]:
    """Returns the distance of vectors along the last axis of two arrays.

    Metrics with variances take those of all rows, unless the options have them.
    """
    if callable(metric):
        return _measure_by_function(metric, options)
    word = str(metric).lower()
    word = METRIC_ABBREVIATIONS.get(word, word)
    if word not in METRICS:
        raise ValueError(f"{name}: Unknown Distance Metric: {metric!r}; {', '.join(METRICS)}")
    w = options.pop("w", None)
    unknown = [key for key in options if key != METRIC_OPTIONS.get(word)]
    if unknown or (w is not None and word in WITHOUT_WEIGHTS):
        raise TypeError(f"{name}: {word} takes no {(unknown or ['w'])[0]}=")
    if word == "seuclidean" and options.get("V") is None:
        options["V"] = ops.var(rows, axis=0, ddof=1)
    if word == "mahalanobis" and options.get("VI") is None:
        options["VI"] = _inverse_covariance(name, rows)
    options = {key: x if key in ("p", "base") else asarray(x) for key, x in options.items()}
    weights = None if w is None else as_inexact(w)
    function = METRICS[word]
    return lambda u, v: function(u, v, weights, **options)


def _measure_by_function(
    metric: Callable[..., ArrayLike], options: dict[str, Any]
) -> Callable[..., Array]:
    def measure(u: Array, v: Array) -> Array:
        shape = np.broadcast_shapes(u.shape, v.shape)
        pairs = [ops.reshape(ops.broadcast_to(z, shape), (-1, shape[-1])) for z in (u, v)]
        out = vmap(lambda a, b: metric(a, b, **options))(*pairs)
        return ops.reshape(out, shape[:-1])

    return measure


def _inverse_covariance(name: str, rows: Array) -> Array:
    count, size = rows.shape
    if count <= size:
        raise ValueError(
            f"{name}: The number of observations ({count}) is too small; the covariance matrix is "
            f"singular. For observations with {size} dimensions, at least {size + 1} observations "
            "are required."
        )
    covariance = ops.reshape(ops.cov(ops.matrix_transpose(rows)), (size, size))
    return ops.matrix_transpose(inv(covariance))


def pdist(
    X: ArrayLike,
    metric: str | Callable[..., ArrayLike] = "euclidean",
    *,
    out: None = None,
    **kwargs: Any,
) -> Array:
    """Returns the distances of all pairs of vectors, each pair once.

    Args:
        X: an array of shape (m, n): m vectors.
        metric: the name of a distance: "euclidean", "sqeuclidean", "cityblock", "chebyshev",
            "minkowski" with ``p``, "cosine", "correlation", "canberra", "braycurtis", "hamming",
            "jaccard", "jensenshannon" with ``base``, "seuclidean" with ``V``, "mahalanobis" with
            ``VI``; or a function of two vectors, which is put through ``vmap``.
        out: None; arrays are immutable.
        kwargs: weights ``w``, and the argument of the metric.

    Returns:
        An array of shape (m (m - 1) / 2,) of the pairs (0, 1), (0, 2), ..., (1, 2), ..., of which
        `squareform` makes a matrix. The derivative is 0 where two vectors coincide.

    Raises:
        ShapeError: X is no matrix.
        ValueError: there is no such metric.
        TypeError: the metric does not take an argument, X is complex, or ``out`` is given.

    Source: of each distance E. Deza and M. M. Deza, "Encyclopedia of Distances".

    >>> from functensor.scipy.spatial import distance
    >>> distance.pdist([[0.0, 0.0], [3.0, 4.0], [0.0, 0.0]]).tolist()
    [5.0, 0.0, 5.0]
    """
    if out is not None:
        raise TypeError("pdist: out= is not there, arrays are immutable: use what is returned")
    X = _matrix("pdist", "X", X)
    first, second = np.triu_indices(X.shape[0], 1)
    measure = _measure("pdist", metric, kwargs, X)
    return measure(ops.take(X, beside(X, first), axis=0), ops.take(X, beside(X, second), axis=0))


def cdist(
    XA: ArrayLike,
    XB: ArrayLike,
    metric: str | Callable[..., ArrayLike] = "euclidean",
    *,
    out: None = None,
    **kwargs: Any,
) -> Array:
    """Returns the distances of vectors of one set from those of another.

    Args:
        XA, XB: arrays of shapes (k, n) and (m, n).
        metric, out, kwargs: as for `pdist`; variances are of both sets together.

    Returns:
        An array of shape (k, m). The derivative is 0 where two vectors coincide.

    Raises:
        ShapeError: an argument is no matrix, or vectors differ in their length.
        ValueError, TypeError: as for `pdist`.

    Source: as for `pdist`.

    >>> from functensor.scipy.spatial import distance
    >>> distance.cdist([[0.0, 0.0]], [[3.0, 4.0], [0.0, 0.0]]).tolist()
    [[5.0, 0.0]]
    """
    if out is not None:
        raise TypeError("cdist: out= is not there, arrays are immutable: use what is returned")
    XA, XB = _matrix("cdist", "XA", XA), _matrix("cdist", "XB", XB)
    if XA.shape[1] != XB.shape[1]:
        raise misfit(
            f"cdist: XA and XB must have the same number of columns; shapes are {XA.shape} and "
            f"{XB.shape}",
            "vectors of both sets have the same length",
        )
    dtype = result_type(XA.dtype, XB.dtype)
    XA, XB = ops.astype(XA, dtype), ops.astype(XB, dtype)
    measure = _measure("cdist", metric, kwargs, ops.concatenate([XA, XB], axis=0))
    return measure(ops.expand_dims(XA, 1), ops.expand_dims(XB, 0))


def squareform(X: ArrayLike, force: str = "no", checks: bool = True) -> Array:
    """Returns distances of pairs as a symmetric matrix, or of that matrix the pairs.

    Args:
        X: distances of pairs, as of `pdist`, or a symmetric matrix with zeros on its diagonal.
        force: "tovector" or "tomatrix" to refuse the other way.
        checks: whether to refuse a matrix that is not symmetric or has another diagonal, where its
            values are known.

    Returns:
        An array of shape (m, m), or the matrix's upper triangle, of shape (m (m - 1) / 2,).

    Raises:
        ValueError: the shape is neither, the way is refused, or the matrix is.

    >>> from functensor.scipy.spatial import distance
    >>> distance.squareform([5.0, 0.0, 4.0]).tolist()
    [[0.0, 5.0, 0.0], [5.0, 0.0, 4.0], [0.0, 4.0, 0.0]]
    """
    name = "squareform"
    X = asarray(X)
    if force.lower() not in ("no", "tovector", "tomatrix"):
        raise ValueError(f"{name}: force={force!r}: it is 'no', 'tovector' or 'tomatrix'")
    ndim = len(X.shape)
    if (force.lower() == "tomatrix" and ndim != 1) or (force.lower() == "tovector" and ndim != 2):
        raise ValueError(f"{name}: Forcing {force!r} but input X is not a matrix or vector of that")
    if ndim == 1:
        count = X.shape[0]
        m = (1 + isqrt(1 + 8 * count)) // 2
        if m * (m - 1) != 2 * count:
            raise ValueError(
                f"{name}: {count} distances: Incompatible vector size. It must be a binomial "
                "coefficient n choose 2 for some integer n >= 2."
            )
        if not count:
            return ops.zeros_like(ops.broadcast_to(ops.astype(ops.sum(X), X.dtype), (1, 1)))
        first, second = np.triu_indices(m, 1)
        places = np.zeros((m, m), np.intp)
        places[first, second] = places[second, first] = np.arange(count)
        none, pairs = beside(X, np.zeros((), X.dtype)), ops.take(X, beside(X, places))
        return ops.where(beside(X, np.eye(m, dtype=bool)), none, pairs)
    if ndim != 2 or X.shape[0] != X.shape[1]:
        raise ValueError(f"{name}: the matrix argument must be square, not of shape {X.shape}")
    if checks and is_at_hand(X):
        host = value_of(name, X, "")
        if not np.allclose(host, host.T) or np.abs(np.diag(host)).max(initial=0) > 1e-8:
            raise ValueError(
                f"{name}: Distance matrix 'X' must be symmetric with zeros on its diagonal; "
                "checks=False takes the upper triangle of any"
            )
    return ops.index(X, np.triu_indices(X.shape[0], 1))


publish(globals())
