"""PyTorch's names of special functions, over those of `functensor.scipy.special`.

The Airy function is absent: no primitive computes it. Orthogonal polynomials follow from their
recurrences of three terms (NIST Digital Library of Mathematical Functions, 18.9).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..faces.publish import publish
from ..primitives.core.registry import registry as ops
from ..scipy import special as functions
from ..tensors import Tensor
from ..tensors.default_dtypes import TENSOR_DTYPES
from ..tensors.functions.along_axis import log_softmax, softmax
from ..tensors.functions.naming import as_floats, on_host, scipy_special, with_words
from ..tensors.functions.pointwise import (
    digamma,
    erf,
    erfc,
    erfinv,
    exp2,
    expm1,
    i0,
    in_halves,
    log1p,
    logit,
    polygamma,
    round,
    sinc,
    xlogy,
)
from ..tensors.functions.pointwise import igamma as gammainc
from ..tensors.functions.pointwise import igammac as gammaincc
from ..tensors.functions.pointwise import lgamma as gammaln
from ..tensors.functions.pointwise import mvlgamma as multigammaln
from ..tensors.functions.pointwise import sigmoid as expit
from ..tensors.functions.reductions import logsumexp
from .outputs import TAKE_OUT, write_results

__all__ = [
    "bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1", "chebyshev_polynomial_t",
    "chebyshev_polynomial_u", "chebyshev_polynomial_v", "chebyshev_polynomial_w", "digamma", "entr",
    "erf", "erfc", "erfcx", "erfinv", "exp2", "expit", "expm1", "gammainc", "gammaincc", "gammaln",
    "hermite_polynomial_h", "hermite_polynomial_he", "i0", "i0e", "i1", "i1e",
    "laguerre_polynomial_l", "legendre_polynomial_p", "log1p", "log_ndtr", "log_softmax", "logit",
    "logsumexp", "modified_bessel_i0", "modified_bessel_i1", "modified_bessel_k0",
    "modified_bessel_k1", "multigammaln", "ndtr", "ndtri", "polygamma", "psi", "round",
    "scaled_modified_bessel_k0", "scaled_modified_bessel_k1", "shifted_chebyshev_polynomial_t",
    "shifted_chebyshev_polynomial_u", "shifted_chebyshev_polynomial_v",
    "shifted_chebyshev_polynomial_w", "sinc", "softmax", "spherical_bessel_j0", "xlog1py", "xlogy",
    "zeta",
]  # fmt: skip

BESSEL = "the Bessel function of the {} kind and of order {}"
psi = digamma
modified_bessel_i0 = i0
bessel_j0 = scipy_special("bessel_j0", BESSEL.format("first", "zero"), "j0")
bessel_j1 = scipy_special("bessel_j1", BESSEL.format("first", "one"), "j1")
bessel_y0 = scipy_special("bessel_y0", BESSEL.format("second", "zero"), "y0")
bessel_y1 = scipy_special("bessel_y1", BESSEL.format("second", "one"), "y1")
entr = scipy_special("entr", "-x * log(x)")
erfcx = scipy_special("erfcx", "exp(x**2) * erfc(x)")
i0e = scipy_special("i0e", "exp(-abs(x)) * i0(x)")
i1 = modified_bessel_i1 = scipy_special("i1", "the modified Bessel function of order one")
i1e = scipy_special("i1e", "exp(-abs(x)) * i1(x)")
log_ndtr = scipy_special("log_ndtr", "the logarithm of `ndtr`")
modified_bessel_k0 = scipy_special(
    "modified_bessel_k0", "the modified " + BESSEL.format("second", "zero")[4:], "k0"
)
modified_bessel_k1 = scipy_special(
    "modified_bessel_k1", "the modified " + BESSEL.format("second", "one")[4:], "k1"
)
ndtr = scipy_special("ndtr", "the probability that a standard normal number is at most x")
ndtri = scipy_special("ndtri", "the inverse of `ndtr`")
scaled_modified_bessel_k0 = scipy_special(
    "scaled_modified_bessel_k0", "exp(x) * modified_bessel_k0(x)", "k0e"
)
scaled_modified_bessel_k1 = scipy_special(
    "scaled_modified_bessel_k1", "exp(x) * modified_bessel_k1(x)", "k1e"
)


def of_two_numbers(name: str, doc: str) -> Callable[..., Tensor]:
    """Returns a function of two tensors, or of a tensor and a number, in floats."""

    def function(input: Tensor | float, other: Tensor | float) -> Tensor:
        x, y = (as_floats(a) if isinstance(a, Tensor) else float(a) for a in (input, other))
        out: Tensor = in_halves(getattr(functions, name)(x, y), x, y)
        return out

    return with_words(function, name, f"Returns {doc}, element by element.")


xlog1py = of_two_numbers("xlog1py", "input * log1p(other), zero where the input is")
zeta = of_two_numbers("zeta", "the sum of 1 / (k + other)**input over k from 0 on")


def spherical_bessel_j0(input: Tensor) -> Any:
    """Returns sin(x) / x, one at zero, element by element."""
    x = as_floats(input)
    # The sine of infinity is NaN.
    endless = ops.isinf(x)
    return ops.where(endless, 0.0, ops.sinc(ops.where(endless, 0.0, x) / np.pi))


def polynomial(
    name: str, what: str, first: Callable[[Any], Any], step: Callable[..., Any]
) -> Callable[..., Tensor]:
    """Returns orthogonal polynomials by the one of degree 1 and the step from two to the next."""

    def function(input: Tensor | float, n: Tensor | int) -> Tensor:
        degrees = np.asarray(on_host(n) if isinstance(n, Tensor) else n)
        given = isinstance(input, Tensor)
        x = as_floats(input if given else ops.full_like(n, input, TENSOR_DTYPES["f"]))
        before, now = ops.ones_like(x), first(x)
        out = ops.where(ops.equal(n, 0), before, ops.where(ops.equal(n, 1), now, 0 * x))
        for k in range(1, int(degrees.max(initial=0))):
            before, now = now, step(x, k, now, before)
            out = ops.where(ops.equal(n, k + 1), now, out)
        return out  # type: ignore[no-any-return]

    doc = (
        f"Returns {what}, element by element.\n\nArgs:\n    input: a tensor, or a number.\n"
        "    n: the degree, an integer or a tensor of some whose values are known.\n"
    )
    return with_words(function, name, doc)


def shifted(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Returns the polynomials of 2 x - 1."""

    def of_unit(input: Tensor, n: Tensor | int) -> Tensor:
        return function(2 * input - 1, n)

    name = f"shifted_{function.__name__}"
    return with_words(of_unit, name, f"Returns `{function.__name__}` of 2 * input - 1.")


def chebyshev_step(x: Any, k: int, now: Any, before: Any) -> Any:
    """Returns the next of Chebyshev's polynomials, of every kind."""
    return 2 * x * now - before


KIND = "Chebyshev's polynomials of the {} kind"
chebyshev_polynomial_t = polynomial(
    "chebyshev_polynomial_t", KIND.format("first"), lambda x: x, chebyshev_step
)
chebyshev_polynomial_u = polynomial(
    "chebyshev_polynomial_u", KIND.format("second"), lambda x: 2 * x, chebyshev_step
)
chebyshev_polynomial_v = polynomial(
    "chebyshev_polynomial_v", KIND.format("third"), lambda x: 2 * x - 1, chebyshev_step
)
chebyshev_polynomial_w = polynomial(
    "chebyshev_polynomial_w", KIND.format("fourth"), lambda x: 2 * x + 1, chebyshev_step
)
shifted_chebyshev_polynomial_t = shifted(chebyshev_polynomial_t)
shifted_chebyshev_polynomial_u = shifted(chebyshev_polynomial_u)
shifted_chebyshev_polynomial_v = shifted(chebyshev_polynomial_v)
shifted_chebyshev_polynomial_w = shifted(chebyshev_polynomial_w)
hermite_polynomial_h = polynomial(
    "hermite_polynomial_h",
    "Hermite's polynomials, orthogonal for the weight exp(-x**2)",
    lambda x: 2 * x,
    lambda x, k, now, before: 2 * x * now - 2 * k * before,
)
hermite_polynomial_he = polynomial(
    "hermite_polynomial_he",
    "Hermite's polynomials, orthogonal for the weight exp(-x**2 / 2)",
    lambda x: x,
    lambda x, k, now, before: x * now - k * before,
)
laguerre_polynomial_l = polynomial(
    "laguerre_polynomial_l",
    "Laguerre's polynomials",
    lambda x: 1 - x,
    lambda x, k, now, before: ((2 * k + 1 - x) * now - k * before) / (k + 1),
)
legendre_polynomial_p = polynomial(
    "legendre_polynomial_p",
    "Legendre's polynomials",
    lambda x: x,
    lambda x, k, now, before: ((2 * k + 1) * x * now - k * before) / (k + 1),
)


publish(globals(), outputs=(TAKE_OUT["torch.special"], write_results))
