"""The gamma function and its kin: logarithms, logarithmic derivatives, quotients, zeta."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..backends import special_gamma as kernels
from ..backends.dtypes import result_type
from ..backends.extras import scipy_module
from ..backends.special_parts import as_arrays, loop_dtype
from .errors import MissingRuleError, message
from .families import binary, unary
from .registry import registry as ops
from .samples import POSITIVE, Domain

__all__ = [
    "beta",
    "betaln",
    "binom",
    "by_scipy",
    "digamma",
    "gamma",
    "gammaln",
    "gammasgn",
    "loggamma",
    "poch",
    "polygamma",
    "rgamma",
    "rgamma_slope",
    "riemann_zeta",
    "without_derivative",
    "zeta",
]

DLMF = "NIST Digital Library of Mathematical Functions, "


def by_scipy(name: str) -> Callable[..., Any]:
    """Returns how SciPy, which is imported when it is first asked, computes a function.

    Python's numbers beside single precision, of which SciPy would make double, are cast.
    """

    def compute(xp: Any, *operands: Any) -> Any:
        function = getattr(scipy_module(xp, "special"), name)
        if xp is not np:
            return function(*as_arrays(xp, loop_dtype(name, *operands), *operands))
        if len(operands) == 1:
            return function(*operands)
        dtype = result_type(*operands)
        if dtype.kind != "f":
            return function(*operands)
        return function(*(x if hasattr(x, "dtype") else dtype.type(x) for x in operands))

    return compute


def without_derivative(name: str, by: str) -> Callable[..., Any]:
    """Returns the rule for an operand by which a function has no derivative here."""

    def rule(g: Any) -> Any:
        raise MissingRuleError(
            message(
                f"{name} has no derivative by {by}",
                fix=f"differentiate by the other arguments alone: pass {by} as a constant, or as "
                "ft.stop_gradient(value)",
                number=8,
            )
        )

    return rule


ORDER = Domain(0, 3, kind="i")
# Between the poles, on both sides of 0.
OFF_POLES = Domain(-0.9, -0.1)

gammaln = unary(
    "gammaln",
    lambda g, x: g * ops.digamma(x),
    compute=by_scipy("gammaln"),
    reference="scipy.special.gammaln",
    domains=POSITIVE,
    doc="Returns the logarithm of the absolute value of the gamma function.",
    example="special.gammaln([1.0, 2.0]) -> [0.0, 0.0]",
    source=DLMF + "5.2.1",
)
loggamma = unary(
    "loggamma",
    lambda g, x: g * ops.digamma(x),
    compute=by_scipy("loggamma"),
    reference="scipy.special.loggamma",
    domains=POSITIVE,
    dtypes="fdD",
    doc="Returns the logarithm of the gamma function, NaN where that is negative.",
    example="special.loggamma([1.0, 2.0]) -> [0.0, 0.0]",
    source=DLMF + "5.2.1",
)
gamma = unary(
    "gamma",
    lambda g, ans, x: g * (ans * ops.digamma(x)),
    compute=by_scipy("gamma"),
    reference="scipy.special.gamma",
    domains=OFF_POLES,
    dtypes="fdD",
    doc="Returns the gamma function: ``(x - 1)!`` at positive integers.",
    example="special.gamma([1.0, 5.0]) -> [1.0, 24.0]",
    source=DLMF + "5.2.1",
)
gammasgn = unary(
    "gammasgn",
    compute=by_scipy("gammasgn"),
    reference="scipy.special.gammasgn",
    doc="Returns the sign of the gamma function, 1 at 0 and NaN at its other poles.",
    example="special.gammasgn([2.5, -0.5]) -> [1.0, -1.0]",
)


def rgamma_slope(x: Any) -> Any:
    """Returns the derivative of ``1 / gamma``, which has no poles.

    Left of 1/2 by the reflection formula, DLMF 5.5.3: 1 / gamma(x) is gamma(1 - x) sin(pi x) / pi.
    """
    left = ops.less(ops.real(x), 0.5)
    mirrored = 1 - ops.where(left, x, 0)
    angle = math.pi * ops.where(left, x, 0)
    reflected = ops.cos(angle) - ops.digamma(mirrored) * ops.sin(angle) * (1 / math.pi)
    right = ops.where(left, 1, x)
    # Digamma is infinite where the reciprocal has vanished for good.
    reciprocal = ops.rgamma(right)
    direct = ops.where(ops.equal(reciprocal, 0), 0, -ops.digamma(right) * reciprocal)
    return ops.where(left, ops.gamma(mirrored) * reflected, direct)


rgamma = unary(
    "rgamma",
    lambda g, x: g * rgamma_slope(x),
    compute=by_scipy("rgamma"),
    reference="scipy.special.rgamma",
    dtypes="fdD",
    doc="Returns the reciprocal of the gamma function, which is 0 at its poles.",
    example="special.rgamma([1.0, -3.0]) -> [1.0, 0.0]",
    source=DLMF + "5.5.3",
)
digamma = unary(
    "digamma",
    lambda g, x: g * ops.polygamma(1, x),
    compute=by_scipy("psi"),
    reference="scipy.special.digamma",
    domains=POSITIVE,
    dtypes="fdD",
    doc="Returns the derivative of the logarithm of the gamma function, also known as psi.",
    example="special.digamma(0.0) -> -inf",
    source=DLMF + "5.2.2",
)
polygamma = binary(
    "polygamma",
    without_derivative("polygamma", "its order n"),
    lambda g, x, y: g * ops.polygamma(x + 1, y),
    compute=kernels.polygamma,
    reference="tests.special_references.polygamma",
    domains=(ORDER, POSITIVE),
    dtypes="dD",
    doc="Returns the n-th derivative of digamma.",
    arguments={
        "n": "the order, integers from 0 up; there is no derivative by it.",
        "x": "an array of a shape that broadcasts against n's, or a number.",
    },
    example="special.polygamma(1, 0.0) -> inf",
    source=DLMF + "5.15.1",
)
beta = binary(
    "beta",
    lambda g, ans, x, y: g * (ans * (ops.digamma(x) - ops.digamma(x + y))),
    lambda g, ans, x, y: g * (ans * (ops.digamma(y) - ops.digamma(x + y))),
    compute=kernels.beta,
    reference="tests.special_references.beta",
    domains=POSITIVE,
    doc="Returns the beta function ``gamma(a) gamma(b) / gamma(a + b)``.",
    arguments={"a, b": "arrays whose shapes broadcast, or numbers."},
    example="special.beta(1.0, 2.0) -> 0.5",
    source=DLMF + "5.12.1",
)
betaln = binary(
    "betaln",
    lambda g, x, y: g * (ops.digamma(x) - ops.digamma(x + y)),
    lambda g, x, y: g * (ops.digamma(y) - ops.digamma(x + y)),
    compute=kernels.betaln,
    reference="tests.special_references.betaln",
    domains=POSITIVE,
    doc="Returns the logarithm of the absolute value of the beta function.",
    arguments={"a, b": "arrays whose shapes broadcast, or numbers."},
    example="special.betaln(1.0, 1.0) -> 0.0",
    source=DLMF + "5.12.1",
)
poch = binary(
    "poch",
    lambda g, ans, x, y: g * (ans * (ops.digamma(x + y) - ops.digamma(x))),
    lambda g, ans, x, y: g * (ans * ops.digamma(x + y)),
    compute=kernels.poch,
    reference="tests.special_references.poch",
    domains=POSITIVE,
    doc="Returns Pochhammer's symbol ``gamma(z + m) / gamma(z)``, the rising factorial.",
    arguments={"z, m": "arrays whose shapes broadcast, or numbers."},
    example="special.poch(2.0, 3.0) -> 24.0",
    source=DLMF + "5.2.5",
)


def _binom_by_k(g: Any, ans: Any, x: Any, y: Any) -> Any:
    return g * (ans * (ops.digamma(x - y + 1) - ops.digamma(y + 1)))


binom = binary(
    "binom",
    lambda g, ans, x, y: g * (ans * (ops.digamma(x + 1) - ops.digamma(x - y + 1))),
    _binom_by_k,
    compute=kernels.binom,
    reference="tests.special_references.binom",
    domains=(Domain(3.1, 6.0), Domain(0.3, 2.9)),
    dtypes="d",
    doc="Returns the binomial coefficient ``gamma(n + 1) / gamma(k + 1) / gamma(n - k + 1)``.",
    arguments={"n, k": "arrays whose shapes broadcast, or numbers."},
    example="special.binom(4.0, 2.0) -> 6.0",
    source=DLMF + "1.2.6",
)
zeta = binary(
    "zeta",
    without_derivative("zeta", "its exponent x"),
    lambda g, x, y: g * (-x * ops.zeta(x + 1, y)),
    compute=by_scipy("zeta"),
    reference="tests.special_references.zeta",
    domains=(Domain(2, 5, kind="i"), POSITIVE),
    dtypes="d",
    doc="Returns Hurwitz's zeta function, the sum of ``(q + k)**-x`` over k from 0 up.",
    source=DLMF + "25.11.1",
)
riemann_zeta = unary(
    "riemann_zeta",
    without_derivative("zeta", "its exponent x"),
    compute=by_scipy("zeta"),
    reference="scipy.special.zeta",
    domains=Domain(2, 5, kind="i"),
    doc="Returns Riemann's zeta function, the sum of ``k**-x`` over k from 1 up, continued.",
    source=DLMF + "25.2.1",
)
