"""SciPy's ``special``: special functions that every transformation understands.

Values come from SciPy, which is imported when a function is first called, or from kernels of our
own. Derivatives are exact by every real argument. Those by the orders of Bessel functions and of
polygamma raise ``MissingRuleError``.
"""

from __future__ import annotations

import math
from typing import Literal, overload

import numpy as np

from ..backends.annotations import Axis
from ..faces.publish import publish
from ..numpy.arguments import as_inexact
from ..numpy.elementary import sinc
from ..numpy.window_functions import i0
from ..primitives.core.annotations import ArrayLike
from ..primitives.core.annotations import operations as ops
from ..primitives.core.array import Array
from ..primitives.core.buffers import beside
from ..primitives.core.registry import registry
from ..primitives.core.shape_dtype import canonical_axes, result_type
from ..primitives.elementwise.exponential import cbrt, exp2, expm1, log1p
from ..primitives.special.bessel import (
    i0e,
    i1,
    i1e,
    iv,
    ive,
    j0,
    j1,
    jv,
    k0,
    k0e,
    k1,
    k1e,
    kn,
    kv,
    kve,
    y0,
    y1,
    yn,
    yv,
)
from ..primitives.special.complex_error import faddeeva
from ..primitives.special.entropy import entr, kl_div, rel_entr, xlog1py, xlogy
from ..primitives.special.error import (
    erfcinv,
    erfcx,
    erfi,
    erfinv,
    exp10,
    log_ndtr,
    logit,
    ndtr,
    ndtri,
    ndtri_exp,
)
from ..primitives.special.error_function import erf, erfc
from ..primitives.special.gamma import (
    beta,
    betaln,
    binom,
    digamma,
    gamma,
    gammaln,
    gammasgn,
    loggamma,
    poch,
    polygamma,
    rgamma,
)
from ..primitives.special.incomplete import (
    betainc,
    betaincc,
    betainccinv,
    betaincinv,
    gammainc,
    gammaincc,
    gammainccinv,
    gammaincinv,
)
from ..primitives.special.integrals import cosine_integral, exp1, expi, expn, sine_integral, spence
from ..primitives.special.zeta import zeta as hurwitz_zeta
from .special_box_cox import boxcox, boxcox1p, exprel, inv_boxcox, inv_boxcox1p
from .special_probabilities import (
    bdtr,
    bdtrc,
    bdtri,
    chdtr,
    chdtrc,
    chdtri,
    fdtr,
    fdtrc,
    fdtri,
    gdtr,
    gdtrc,
    gdtrix,
    nbdtr,
    nbdtrc,
    nbdtri,
    pdtr,
    pdtrc,
    pdtri,
    stdtr,
    stdtrit,
)

__all__ = [
    "bdtr", "bdtrc", "bdtri", "beta", "betainc", "betaincc", "betainccinv", "betaincinv", "betaln",
    "binom", "boxcox", "boxcox1p", "cbrt", "chdtr", "chdtrc", "chdtri", "comb", "digamma", "entr",
    "erf", "erfc", "erfcinv", "erfcx", "erfi", "erfinv", "exp1", "exp2", "exp10", "expi", "expit",
    "expm1", "expn", "exprel", "factorial", "fdtr", "fdtrc", "fdtri", "gamma", "gammainc",
    "gammaincc", "gammainccinv", "gammaincinv", "gammaln", "gammasgn", "gdtr", "gdtrc", "gdtrix",
    "i0", "i0e", "i1", "i1e", "inv_boxcox", "inv_boxcox1p", "iv", "ive", "j0", "j1", "jn", "jv",
    "k0", "k0e", "k1", "k1e", "kl_div", "kn", "kv", "kve", "log1p", "log_expit", "log_ndtr",
    "log_softmax", "loggamma", "logit", "logsumexp", "multigammaln", "nbdtr", "nbdtrc", "nbdtri",
    "ndtr", "ndtri", "ndtri_exp", "pdtr", "pdtrc", "pdtri", "poch", "polygamma", "psi", "rel_entr",
    "rgamma", "sici", "sinc", "softmax", "softplus", "spence", "stdtr", "stdtrit", "wofz",
    "xlog1py", "xlogy", "y0", "y1", "yn", "yv", "zeta",
]

jn = jv

# The exponential of more than this is infinite, or close to it.
LARGEST_USED_EXPONENT = 600.0


@registry.add_function
def psi(x: ArrayLike) -> Array:
    """Returns the derivative of the logarithm of the gamma function: another name of digamma.

    Args:
        x: an array of any shape, or a number.

    >>> from functensor.scipy import special
    >>> special.psi(0.0).tolist()
    -inf
    """
    return digamma(x)


@registry.add_function
def expit(x: ArrayLike) -> Array:
    """Returns the logistic function ``1 / (1 + exp(-x))``.

    Args:
        x: an array of any shape, or a number.

    >>> from functensor.scipy import special
    >>> special.expit([0.0, float("inf")]).tolist()
    [0.5, 1.0]
    """
    return ops.logistic(x)


@registry.add_function
def log_expit(x: ArrayLike) -> Array:
    """Returns the logarithm of the logistic function, which does not underflow.

    Args:
        x: an array of any shape, or a number.

    >>> from functensor.scipy import special
    >>> special.log_expit([-1e9, 1e9]).tolist()
    [-1000000000.0, -0.0]
    """
    return ops.negative(ops.softplus(ops.negative(as_inexact(x))))


def softplus(x: ArrayLike) -> Array:
    """Returns ``log(1 + exp(x))``.

    Args:
        x: an array of any shape, or a number.

    >>> from functensor.scipy import special
    >>> special.softplus(1e9).tolist()
    1000000000.0
    """
    return ops.softplus(x)


@registry.add_function
def wofz(z: ArrayLike) -> Array:
    """Returns Faddeeva's function ``exp(-z**2) * erfc(-i z)``, of complex numbers.

    Args:
        z: an array of any shape, or a number.

    Returns:
        A complex array.

    Source: NIST Digital Library of Mathematical Functions, 7.2.3.

    >>> from functensor.scipy import special
    >>> special.wofz(0.0).tolist()
    (1+0j)
    """
    z = as_inexact(z)
    # A cast keeps the imaginary part 0, where infinity times 1 + 0i has NaN.
    return faddeeva(ops.astype(z, result_type(z.dtype, np.complex64)))


# -- gamma functions


def zeta(x: ArrayLike, q: ArrayLike | None = None) -> Array:
    """Returns the zeta function of Riemann, or of Hurwitz: the sum of ``(q + k)**-x`` from k = 0.

    Args:
        x: the exponent.
        q: the number added to k, of a shape that broadcasts against x's; None for 1, which makes it
            Riemann's function. Only that is continued to x < 1.

    Returns:
        An array of the shape to which the arguments broadcast.

    Source: NIST Digital Library of Mathematical Functions, 25.2.1, 25.11.1 and 25.11.8.

    >>> from functensor.scipy import special
    >>> special.zeta(0.0).tolist()
    -0.5
    """
    return ops.riemann_zeta(x) if q is None else hurwitz_zeta(x, q)


def multigammaln(a: ArrayLike, d: int) -> Array:
    """Returns the logarithm of the gamma function of several dimensions.

    Args:
        a: an array of any shape, or a number.
        d: the dimension, an integer from 1 up.

    Returns:
        An array of a's shape; NaN where a is at most ``(d - 1) / 2``, beyond its domain.

    Raises:
        ValueError: d is no positive integer.

    Source: NIST Digital Library of Mathematical Functions, 35.3.4.

    >>> from functensor.scipy import special
    >>> special.multigammaln(1.0, 1).tolist()
    0.0
    """
    if int(d) != d or d < 1:
        raise ValueError(f"multigammaln: the dimension d is {d!r}; it is an integer from 1 up")
    a = as_inexact(a)
    inside = ops.greater(a, 0.5 * (int(d) - 1))
    safe = ops.where(inside, a, float(d))
    total: Array | float = 0.25 * d * (d - 1) * math.log(math.pi)
    for j in range(int(d)):
        total = gammaln(safe - 0.5 * j) + total
    return ops.where(inside, total, np.nan)


def factorial(n: ArrayLike, exact: bool = False) -> Array:
    """Returns the factorial, ``gamma(n + 1)``, and 0 for negative n.

    Args:
        n: an array of any shape, or a number.
        exact: refused: integers without bounds are no arrays.

    Returns:
        An array of n's shape.

    Raises:
        ValueError: exact integers are asked for.

    >>> from functensor.scipy import special
    >>> special.factorial([0, 4]).tolist()
    [1.0, 24.0]
    """
    if exact:
        raise ValueError("factorial: exact=True gives no array; math.factorial(n) is exact")
    n = as_inexact(n)
    negative = ops.less(n, 0)
    return ops.where(negative, 0, gamma(ops.where(negative, 0, n) + 1))


def comb(N: ArrayLike, k: ArrayLike, *, exact: bool = False, repetition: bool = False) -> Array:
    """Returns the number of ways to choose k of N things.

    Args:
        N, k: arrays whose shapes broadcast, or numbers.
        exact: refused: integers without bounds are no arrays.
        repetition: whether a thing may be chosen several times.

    Returns:
        An array of the shape to which the arguments broadcast; 0 where k or N is negative or k is
        larger than N.

    Raises:
        ValueError: exact integers are asked for.

    >>> from functensor.scipy import special
    >>> special.comb(4, [2, 5]).tolist()
    [6.0, 0.0]
    """
    if exact:
        raise ValueError("comb: exact=True gives no array; math.comb(N, k) is exact")
    N, k = as_inexact(N), as_inexact(k)
    defined = ops.logical_and(ops.greater_equal(N, 0), ops.greater_equal(k, 0))
    if repetition:
        chosen = comb(ops.where(defined, N + k - 1, 1), ops.where(defined, k, 0))
        # Nothing is chosen in one way.
        chosen = ops.where(ops.equal(k, 0), 1, chosen)
        return ops.where(defined, chosen, 0)
    defined = ops.logical_and(ops.less_equal(k, N), defined)
    return ops.where(defined, binom(ops.where(defined, N, 1), ops.where(defined, k, 0)), 0)


def sici(x: ArrayLike) -> tuple[Array, Array]:
    """Returns the sine and the cosine integral.

    Args:
        x: an array of any shape, or a number.

    Returns:
        A pair of arrays of x's shape: the integral of ``sin(t) / t`` from 0 to x, and minus that of
        ``cos(t) / t`` from x on.

    Source: NIST Digital Library of Mathematical Functions, 6.2.9 and 6.2.11.

    >>> from functensor.scipy import special
    >>> [part.tolist() for part in special.sici(0.0)]
    [0.0, -inf]
    """
    return sine_integral(x), cosine_integral(x)


# -- sums of exponentials


@overload
def logsumexp(
    a: ArrayLike,
    axis: Axis = None,
    b: ArrayLike | None = None,
    keepdims: bool = False,
    return_sign: Literal[False] = False,
    where: ArrayLike | None = None,
) -> Array: ...
@overload
def logsumexp(
    a: ArrayLike,
    axis: Axis = None,
    b: ArrayLike | None = None,
    keepdims: bool = False,
    *,
    return_sign: Literal[True],
    where: ArrayLike | None = None,
) -> tuple[Array, Array]: ...
def logsumexp(
    a: ArrayLike,
    axis: Axis = None,
    b: ArrayLike | None = None,
    keepdims: bool = False,
    return_sign: bool = False,
    where: ArrayLike | None = None,
) -> Array | tuple[Array, Array]:
    """Returns the logarithm of a sum of exponentials, without overflow.

    Args:
        a: an array, real or complex.
        axis: over which axes: None for all, an integer or a tuple.
        b: factors of the exponentials, of a shape that broadcasts against a's; they may be 0,
            negative or complex, and derivatives flow to them.
        keepdims: whether the axes stay, with length 1.
        return_sign: whether to return the sum's sign too, and the logarithm of its absolute value.
        where: a condition that broadcasts to a's shape: which elements count; None for all.

    Returns:
        An array without the axes, -inf for a sum of nothing, and NaN for the logarithm of a
        negative sum of real numbers; of complex ones the principal logarithm. With
        ``return_sign`` a pair of that of the absolute value and the sign, which of a complex sum
        is a number of that direction on the unit circle.

    >>> from functensor.scipy import special
    >>> special.logsumexp([1000.0, 1000.0], b=[1.0, -1.0]).tolist()
    -inf
    """
    a = as_inexact(a)
    weights = None if b is None else as_inexact(b)
    shape = np.broadcast_shapes(
        a.shape, () if weights is None else weights.shape, () if where is None else np.shape(where)
    )
    axes = canonical_axes(axis, len(shape))
    is_complex = "c" in (a.dtype.kind, a.dtype.kind if weights is None else weights.dtype.kind)
    a = ops.broadcast_to(a, shape)
    if where is not None:
        a = ops.where(where, a, -np.inf)
    plain = weights is None and not (return_sign or is_complex)
    if plain and math.prod(shape[i] for i in axes):
        return ops.logsumexp(a, axis=axes, keepdims=keepdims)
    if weights is None:
        top = _finite_maximum(ops.real(a), axes)
    else:
        # An element of weight 0 does not count, though it may be infinite or NaN. If it is a
        # number, the result has a derivative by its weight.
        absent = ops.equal(weights, 0)
        top = _finite_maximum(ops.where(absent, -np.inf, ops.real(a)), axes)
        small = ops.less_equal(ops.real(a) - top, LARGEST_USED_EXPONENT)
        a = ops.where(ops.logical_and(absent, ops.logical_not(small)), -np.inf, a)
    scaled = ops.exp(a - top)
    if weights is not None:
        scaled = ops.multiply(weights, scaled)
    total = ops.sum(scaled, axis=axes, keepdims=keepdims)
    top = ops.reshape(top, total.shape)
    sign = ops.sign(total)
    if is_complex and not return_sign:
        # The logarithm of 0 is -inf, without a warning.
        zero = ops.equal(total, 0)
        return ops.where(zero, -np.inf, ops.log(ops.where(zero, 1, total))) + top
    # The logarithm of 0 is -inf here too.
    size = ops.abs(total)
    out = xlogy(ops.ones_like(size), size) + top
    if return_sign:
        return out, sign
    return ops.where(ops.less(sign, 0), np.nan, out)


def _finite_maximum(a: Array, axes: tuple[int, ...]) -> Array:
    """Returns the maximum over axes, which stay, as a constant; 0 where it is infinite."""
    if math.prod(a.shape[i] for i in axes):
        top = ops.max(ops.stop_gradient(a), axis=axes, keepdims=True)
        return ops.where(ops.isfinite(top), top, 0)
    shape = [1 if i in axes else n for i, n in enumerate(a.shape)]
    return ops.broadcast_to(beside(a, a.dtype.type(0)), shape)


def softmax(x: ArrayLike, axis: Axis = None) -> Array:
    """Returns ``exp(x) / sum(exp(x))`` over axes.

    Args:
        x: a real array.
        axis: the axis or axes whose elements are taken together; None for all of them.

    Returns:
        An array of x's shape.

    >>> from functensor.scipy import special
    >>> special.softmax([0.0, 0.0]).tolist()
    [0.5, 0.5]
    """
    return ops.softmax(as_inexact(x), axis)


def log_softmax(x: ArrayLike, axis: Axis = None) -> Array:
    """Returns the logarithm of softmax, without its rounding to 0 or 1.

    Args:
        x: a real array.
        axis: the axis or axes whose elements are taken together; None for all of them.

    Returns:
        An array of x's shape.

    >>> from functensor.scipy import special
    >>> special.log_softmax([0.0, -1e9]).tolist()
    [0.0, -1000000000.0]
    """
    return ops.log_softmax(as_inexact(x), axis)


publish(globals())
