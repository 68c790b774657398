"""Distribution functions of `functensor.scipy.special`: incomplete gamma and beta functions.

They have the names and the limits of SciPy's, which come from the library Cephes.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import reduce
from math import inf, nan
from typing import Any

import numpy as np

from ..backends.restoring import quiet
from ..numpy.arguments import arrays_together
from ..primitives.core.annotations import ArrayLike
from ..primitives.core.annotations import operations as ops
from ..primitives.core.array import Array
from ..primitives.core.docstrings import document
from ..primitives.core.shape_dtype import INEXACT, result_type
from ..primitives.special import gamma, incomplete  # noqa: F401 - they enter the registry
from .student_t import t_cdf, t_ppf

__all__ = [
    "bdtr", "bdtrc", "bdtri", "chdtr", "chdtrc", "chdtri", "fdtr", "fdtrc", "fdtri", "gdtr",
    "gdtrc", "gdtrix", "nbdtr", "nbdtrc", "nbdtri", "pdtr", "pdtrc", "pdtri", "stdtr", "stdtrit",
]  # fmt: skip

CLASSES_WITHOUT_DTYPE = (float, int, bool)


def in_one_dtype(*operands: ArrayLike) -> list[Array]:
    """Returns operands as arrays of one floating dtype, which Python's numbers do not decide."""
    arrays = arrays_together(operands)
    given = zip(arrays, operands)
    strong = [x.dtype for x, operand in given if type(operand) not in CLASSES_WITHOUT_DTYPE]
    dtype = result_type(*strong) if strong else np.dtype(np.float64)
    dtype = dtype if dtype.kind in INEXACT else np.dtype(np.float64)
    return [x if x.dtype == dtype else ops.astype(x, dtype) for x in arrays]


def _declared(
    name: str,
    compute: Callable[..., Array],
    doc: str,
    arguments: dict[str, str],
    example: str,
    source: str,
) -> Callable[..., Array]:
    """Returns a function of operands that broadcast, which are made arrays of one dtype."""

    def function(*operands: ArrayLike, **named: Any) -> Array:
        if named or len(operands) != len(signature.parameters):
            operands = signature.bind(*operands, **named).args
        # Infinite values are no reason to warn.
        with quiet():
            return compute(*in_one_dtype(*operands))

    signature = inspect.signature(compute)
    function.__signature__ = signature  # type: ignore[attr-defined]
    function.__name__ = function.__qualname__ = name
    function.__doc__ = document(
        f"Returns {doc}.",
        arguments,
        "An array of the shape to which the arguments broadcast, NaN beyond their ranges.",
        "ShapeError: their shapes do not broadcast.",
        f"special.{example}",
        f"NIST Digital Library of Mathematical Functions, {source}",
    )
    return function


def _defined(*conditions: Array) -> Array:
    return reduce(ops.logical_and, conditions)


def _checked_probability(p: Array) -> Array:
    return _defined(ops.greater_equal(p, 0), ops.less_equal(p, 1))


def _only(condition: Array, value: Array) -> Array:
    """Returns a value where a condition holds, else NaN."""
    return ops.where(condition, value, nan)


def _whole_count(k: Array) -> Array:
    """Returns the whole number up to a count, without a derivative."""
    return ops.floor(ops.stop_gradient(k))


# fmt: off - a formula stands beside its name, as in a table.

# -- chi-squared, gamma and F


def _gamma_tail(kind: Callable[..., Array], a: Array, x: Array) -> Array:
    """Returns an incomplete gamma function, which is constant for infinite x."""
    ordinary = _defined(ops.greater_equal(x, 0), ops.less(x, inf))
    value = kind(a, ops.where(ordinary, x, 1.0))
    end = 1.0 if kind is ops.gammainc else 0.0
    value = ops.where(ops.equal(x, inf), end, value)
    return _only(_defined(ops.greater_equal(a, 0), ops.greater_equal(x, 0)), value)


def _f_shares(dfn: Array, dfd: Array, x: Array) -> tuple[Array, Array]:
    """Returns ``dfn x / (dfd + dfn x)`` and 1 minus that, each precise where it is small."""
    ordinary = ops.less(x, inf)
    part = dfn * ops.where(ordinary, x, 1.0)
    total = dfd + part
    return ops.where(ordinary, part / total, 1.0), ops.where(ordinary, dfd / total, 0.0)


def _f_tail(dfn: Array, dfd: Array, x: Array, upper: bool) -> Array:
    right = _defined(ops.greater(dfn, 0), ops.greater(dfd, 0), ops.greater_equal(x, 0))
    m, n, x = (ops.where(right, z, 1.0) for z in (dfn, dfd, x))
    w, v = _f_shares(m, n, x)
    low = ops.less(w, 0.5)
    by_w = ops.betaincc if upper else ops.betainc
    by_v = ops.betainc if upper else ops.betaincc
    value = ops.where(
        low, by_w(m / 2, n / 2, ops.where(low, w, 0.5)), by_v(n / 2, m / 2, ops.where(low, 0.5, v))
    )
    return _only(right, value)


def _f_quantile(dfn: Array, dfd: Array, p: Array) -> Array:
    right = _defined(ops.greater(dfn, 0), ops.greater(dfd, 0), _checked_probability(p))
    inside = _defined(right, ops.greater(p, 0), ops.less(p, 1))
    m, n = (ops.where(right, z, 1.0) for z in (dfn, dfd))
    q = ops.where(inside, p, 0.5)
    w, v = ops.betaincinv(m / 2, n / 2, q), ops.betainccinv(n / 2, m / 2, q)
    value = ops.where(inside, n * w / (m * v), inf)
    return _only(right, ops.where(ops.equal(p, 0), 0.0, value))


V_X = {"v": "the degrees of freedom, positive.", "x": "where, an array or a number."}
chdtr = _declared(
    "chdtr", lambda v, x: _gamma_tail(ops.gammainc, v / 2, x / 2),
    "the probability of at most x in the chi-squared distribution",
    V_X, "chdtr(2.0, 0.0) -> 0.0", "8.2.4",
)
chdtrc = _declared(
    "chdtrc", lambda v, x: _gamma_tail(ops.gammaincc, v / 2, x / 2),
    "the probability of more than x in the chi-squared distribution",
    V_X, "chdtrc(2.0, 0.0) -> 1.0", "8.2.4",
)
chdtri = _declared(
    "chdtri",
    lambda v, p: _only(
        _checked_probability(p),
        2 * ops.gammainccinv(v / 2, ops.where(_checked_probability(p), p, 0.5)),
    ),
    "that x for which ``chdtrc(v, x)`` is p",
    {"v": V_X["v"], "p": "a probability."}, "chdtri(2.0, 1.0) -> 0.0", "8.2.4",
)
A_B = {"a": "the rate, positive: the factor of x.", "b": "the shape, positive."}
gdtr = _declared(
    "gdtr", lambda a, b, x: _gamma_tail(ops.gammainc, b, a * x),
    "the probability of at most x in the gamma distribution",
    {**A_B, "x": V_X["x"]}, "gdtr(1.0, 1.0, 0.0) -> 0.0", "8.2.4",
)
gdtrc = _declared(
    "gdtrc", lambda a, b, x: _gamma_tail(ops.gammaincc, b, a * x),
    "the probability of more than x in the gamma distribution",
    {**A_B, "x": V_X["x"]}, "gdtrc(1.0, 1.0, 0.0) -> 1.0", "8.2.4",
)
gdtrix = _declared(
    "gdtrix", lambda a, b, p: ops.gammaincinv(b, p) / a,
    "that x for which ``gdtr(a, b, x)`` is p",
    {**A_B, "p": "a probability."}, "gdtrix(1.0, 1.0, 0.0) -> 0.0", "8.2.4",
)
FREEDOMS = {"dfn, dfd": "the degrees of freedom, positive."}
fdtr = _declared(
    "fdtr", lambda dfn, dfd, x: _f_tail(dfn, dfd, x, False),
    "the probability of at most x in the F distribution",
    {**FREEDOMS, "x": "where, from 0 up."}, "fdtr(2.0, 2.0, 1.0) -> 0.5", "8.17.2",
)
fdtrc = _declared(
    "fdtrc", lambda dfn, dfd, x: _f_tail(dfn, dfd, x, True),
    "the probability of more than x in the F distribution",
    {**FREEDOMS, "x": "where, from 0 up."}, "fdtrc(2.0, 2.0, 1.0) -> 0.5", "8.17.2",
)
fdtri = _declared(
    "fdtri", _f_quantile,
    "that x for which ``fdtr(dfn, dfd, x)`` is p",
    {**FREEDOMS, "p": "a probability."}, "fdtri(2.0, 2.0, 0.5).round(12) -> 1.0", "8.17.2",
)

# -- Student's t


def _student(df: Array, t: Array) -> Array:
    right = _defined(ops.greater(df, 0), ops.equal(t, t))
    ordinary = ops.less(ops.abs(t), inf)
    value = t_cdf(ops.where(ordinary, t, 0.0), ops.where(ops.greater(df, 0), df, 1.0))
    value = ops.where(ops.equal(t, inf), 1.0, ops.where(ops.equal(t, -inf), 0.0, value))
    return _only(right, value)


def _student_quantile(df: Array, p: Array) -> Array:
    right = _defined(ops.greater(df, 0), _checked_probability(p))
    inside = _defined(ops.greater(p, 0), ops.less(p, 1))
    value = t_ppf(ops.where(inside, p, 0.5), ops.where(ops.greater(df, 0), df, 1.0))
    value = ops.where(inside, value, inf)
    return _only(right, ops.where(ops.equal(p, 0), -inf, value))


FREEDOM = {"df": "the degrees of freedom, positive, also infinite."}
stdtr = _declared(
    "stdtr", _student,
    "the probability of at most t in Student's distribution",
    {**FREEDOM, "t": "where."}, "stdtr(3.0, 0.0) -> 0.5", "8.17.2",
)
stdtrit = _declared(
    "stdtrit", _student_quantile,
    "that t for which ``stdtr(df, t)`` is p",
    {**FREEDOM, "p": "a probability."}, "stdtrit(3.0, [0.0, 1.0]) -> [-inf, inf]", "8.17.2",
)

# -- counts


def _binomial_tail(k: Array, n: Array, p: Array, upper: bool) -> Array:
    k, n = _whole_count(k), _whole_count(n)
    below = ops.less(k, 0)
    right = _defined(ops.less_equal(k, n), _checked_probability(p))
    right = right if upper else _defined(right, ops.logical_not(below))
    inside = _defined(right, ops.logical_not(below), ops.less(k, n))
    k, n, q = ops.where(inside, k, 0.0), ops.where(inside, n, 1.0), ops.where(inside, p, 0.5)
    value = (ops.betainc if upper else ops.betaincc)(k + 1, n - k, q)
    # A count of at most n, and one above a negative number, are certain.
    value = ops.where(inside, value, 0.0 if upper else 1.0)
    return _only(right, ops.where(below, 1.0, value))


def _binomial_inverse(k: Array, n: Array, y: Array) -> Array:
    k, n = _whole_count(k), _whole_count(n)
    right = _defined(ops.greater_equal(k, 0), ops.less(k, n), _checked_probability(y))
    k, n, q = ops.where(right, k, 0.0), ops.where(right, n, 1.0), ops.where(right, y, 0.5)
    return _only(right, ops.betainccinv(k + 1, n - k, q))


def _negative_binomial_tail(kind: Callable[..., Array], k: Array, n: Array, p: Array) -> Array:
    k, n = _whole_count(k), _whole_count(n)
    right = _defined(ops.greater_equal(k, 0), ops.greater(n, 0), _checked_probability(p))
    n, k, q = ops.where(right, n, 1.0), ops.where(right, k, 0.0), ops.where(right, p, 0.5)
    return _only(right, kind(n, k + 1, q))


def _poisson_tail(kind: Callable[..., Array], k: Array, m: Array, top: float) -> Array:
    k = _whole_count(k)
    right = _defined(ops.greater_equal(k, 0), ops.greater_equal(m, 0), ops.less_equal(m, top))
    return _only(right, kind(ops.where(right, k, 0.0) + 1, ops.where(right, m, 0.5)))


K_N = {"k": "how many at most.", "n": "of how many, an integer."}
bdtr = _declared(
    "bdtr", lambda k, n, p: _binomial_tail(k, n, p, False),
    "the probability of at most k successes in n trials",
    {**K_N, "p": "a probability."}, "bdtr(0, 1, 0.25) -> 0.75", "8.17.5",
)
bdtrc = _declared(
    "bdtrc", lambda k, n, p: _binomial_tail(k, n, p, True),
    "the probability of more than k successes in n trials",
    {**K_N, "p": "a probability."}, "bdtrc(0, 1, 0.25) -> 0.25", "8.17.5",
)
bdtri = _declared(
    "bdtri", _binomial_inverse,
    "that p for which ``bdtr(k, n, p)`` is y",
    {**K_N, "y": "a probability."}, "bdtri(0, 1, 0.75).round(12) -> 0.25", "8.17.5",
)
FAILURES = {"k": "how many failures.", "n": "before how many successes."}
nbdtr = _declared(
    "nbdtr", lambda k, n, p: _negative_binomial_tail(ops.betainc, k, n, p),
    "the probability of at most k failures before the n-th success",
    {**FAILURES, "p": "the probability of a success."}, "nbdtr(0, 1, 0.25) -> 0.25", "8.17.2",
)
nbdtrc = _declared(
    "nbdtrc", lambda k, n, p: _negative_binomial_tail(ops.betaincc, k, n, p),
    "the probability of more than k failures before the n-th success",
    {**FAILURES, "p": "the probability of a success."}, "nbdtrc(0, 1, 0.25) -> 0.75", "8.17.2",
)
nbdtri = _declared(
    "nbdtri", lambda k, n, y: _negative_binomial_tail(ops.betaincinv, k, n, y),
    "that p for which ``nbdtr(k, n, p)`` is y",
    {**FAILURES, "y": "a probability."}, "nbdtri(0, 1, 0.25) -> 0.25", "8.17.2",
)
pdtr = _declared(
    "pdtr", lambda k, m: _poisson_tail(ops.gammaincc, k, m, inf),
    "the probability of at most k events in the Poisson distribution",
    {"k": K_N["k"], "m": "the expected number, from 0 up."}, "pdtr(0, 0.0) -> 1.0", "8.4.9",
)
pdtrc = _declared(
    "pdtrc", lambda k, m: _poisson_tail(ops.gammainc, k, m, inf),
    "the probability of more than k events in the Poisson distribution",
    {"k": K_N["k"], "m": "the expected number, from 0 up."}, "pdtrc(0, 0.0) -> 0.0", "8.4.9",
)
pdtri = _declared(
    "pdtri", lambda k, y: _poisson_tail(ops.gammainccinv, k, y, 1.0),
    "that m for which ``pdtr(k, m)`` is y",
    {"k": K_N["k"], "y": "a probability."}, "pdtri(0, 1.0) -> 0.0", "8.4.9",
)
