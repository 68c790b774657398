"""Slow references: definitions of derivatives of special functions, in many digits.

Names that are not defined here are SciPy's functions, beside which Python's numbers are weak.
"""

from functools import wraps

import mpmath as mp
import numpy as np
import scipy.special


def __getattr__(name):
    function = getattr(scipy.special, name)

    def weakly(*operands):
        dtype = np.result_type(*operands)
        out = function(*operands)
        return np.asarray(out, dtype) if dtype == np.float32 else out

    return weakly


def elementwise(function):
    """Makes a function of arrays from one of mpmath's numbers, which has 40 digits."""

    def one(*operands, **params):
        with mp.workdps(40):
            return complex(function(*(mp.mpmathify(x) for x in operands), **params))

    @wraps(function)
    def call(*operands, **params):
        dtype = np.result_type(*operands)
        dtype = dtype if dtype.kind in "fc" else np.dtype(float)
        wide = (np.asarray(x, complex if dtype.kind == "c" else float) for x in operands)
        out = np.vectorize(one, otypes="D")(*wide, **params)
        return (out if dtype.kind == "c" else out.real).astype(dtype)

    return call


@elementwise
def gamma_density(a, x):
    """Returns the density of the gamma distribution."""
    return x ** (a - 1) * mp.exp(-x) / mp.gamma(a)


@elementwise
def gammainc_grad(a, x, *, order):
    """Returns a derivative of P(a, x) by a."""
    return mp.diff(lambda b: mp.gammainc(b, 0, x, regularized=True), a, order)


@elementwise
def beta_density(a, b, x, *, low, high):
    """Returns powers of x and 1 - x over B(a, b)."""
    return x ** (a - 1 - low) * (1 - x) ** (b - 1 - high) / mp.beta(a, b)


@elementwise
def betainc_grad(a, b, x, *, by_a, by_b):
    """Returns a derivative of I_x(a, b) by a and b."""

    def value(p, q):
        return mp.betainc(p, q, 0, x, regularized=True)

    return mp.diff(value, (a, b), (by_a, by_b))


@elementwise
def erfcx_integral(x, *, order):
    """Returns a repeated integral of erfc, times exp(x^2), by its recurrence."""
    before, out = 2 / mp.sqrt(mp.pi), mp.exp(x * x) * mp.erfc(x)
    for n in range(1, order + 1):
        before, out = out, (before - 2 * x * out) / (2 * n)
    return out


@elementwise
def log_ndtr_grad(x):
    """Returns the normal density over the distribution."""
    return mp.npdf(x) / mp.ncdf(x)


@elementwise
def log_ndtr_gap(x):
    """Returns x and the normal density over the distribution."""
    return x + mp.npdf(x) / mp.ncdf(x)


@elementwise
def polygamma(n, x):
    """Returns the n-th derivative of digamma."""
    return mp.psi(int(n.real), x)
