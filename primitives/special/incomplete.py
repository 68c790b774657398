"""Incomplete gamma and beta functions and their inverses, differentiable in every argument.

Derivatives by the parameters are integrals, which the kernels in ``special_gamma.py`` and
``special_beta.py`` of ``backends/arrays`` compute. Each is a primitive with derivatives of its own,
to any order.
"""

from __future__ import annotations

from collections.abc import Callable
from math import comb

from ...backends.arrays import special_beta as beta_kernels
from ...backends.arrays import special_gamma as gamma_kernels
from ..core.annotations import operations as ops
from ..core.array import Array
from ..core.test_samples import POSITIVE, Domain
from .gamma import rgamma_grad
from .scipy_functions import DLMF, scipy_elementwise

__all__ = [
    "beta_density", "betainc", "betainc_grad", "betaincc", "betainccinv", "betaincinv",
    "gamma_density", "gammainc", "gammainc_grad", "gammaincc", "gammainccinv", "gammaincinv",
]  # fmt: skip

UNIT_INTERVAL = Domain(0.1, 0.9)
MODERATE = Domain(0.6, 3.0)
GAMMAINC_ARGUMENTS = {
    "a": "the parameter, positive.",
    "x": "the upper limit, from 0 up; its shape broadcasts against a's.",
}
# The accuracy of SciPy's values is held by tests/primitives/test_special_accuracy.py.
GAMMAINC_ARGUMENTS_OF_TAILS = {
    "a": "the parameter, positive. Up to 300 a value f is off by less than 1e-12 of itself; up to "
    "1e5 by less than ``64 eps (1 + x f'(x) / f)``, 64 times what rounding x would change.",
    "x": GAMMAINC_ARGUMENTS["x"],
}
BETAINC_ARGUMENTS = {
    "a, b": "the parameters, positive.",
    "x": "the upper limit, from 0 to 1; the shapes broadcast.",
}
PROBABILITY_ARGUMENT = {"y": "a probability; the shapes broadcast."}
GAMMAINCINV_ARGUMENTS = {"a": GAMMAINC_ARGUMENTS["a"]} | PROBABILITY_ARGUMENT
BETAINCINV_ARGUMENTS = {"a, b": BETAINC_ARGUMENTS["a, b"]} | PROBABILITY_ARGUMENT
BETAINC_DOMAINS = MODERATE, MODERATE, UNIT_INTERVAL

# -- the density of the gamma distribution, which is the derivative of gammainc by x


def _gamma_density_vjp_a(g: Array, ans: Array, x: Array, y: Array) -> Array:
    # 1 / gamma(a), a factor, has no poles, though digamma has: rules shift a down by integers.
    shifted = ops.less(x, 0.5)
    by_logarithm = ops.xlogy(ans, y)
    usual = ans * ops.digamma(ops.where(shifted, 1, x))
    t = ops.where(ops.equal(y, 0), 1, y)
    power = ops.exp(ops.where(shifted, (x - 1) * ops.log(t) - t, 0))
    return g * (by_logarithm + ops.where(shifted, power * rgamma_grad(x), -usual))


gamma_density = scipy_elementwise(
    "gamma_density",
    _gamma_density_vjp_a,
    lambda g, ans, x, y: g * (ops.gamma_density(x - 1, y) - ans),
    compute=gamma_kernels.gamma_density, domains=POSITIVE,
    doc="Returns ``x**(a - 1) exp(-x) / gamma(a)``: the density of the gamma distribution.",
    arguments=GAMMAINC_ARGUMENTS,
    source=DLMF + "8.2.4",
)


def _gammainc_grad_vjp_x(g: Array, x: Array, y: Array, *, order: int) -> Array:
    """Differentiates the density by a: every further derivative is that of a product."""
    # The derivative of the density's logarithm by a.
    level = ops.log(ops.where(ops.equal(y, 0), 1, y)) - ops.digamma(x)
    made = [ops.gamma_density(x, y)]
    for m in range(order):
        term = made[m] * level
        for k in range(1, m + 1):
            term = term - comb(m, k) * (ops.polygamma(k, x) * made[m - k])
        made.append(term)
    return g * made[order]


gammainc_grad = scipy_elementwise(
    "gammainc_grad",
    lambda g, x, y, *, order: g * ops.gammainc_grad(x, y, order=order + 1),
    _gammainc_grad_vjp_x,
    compute=gamma_kernels.gammainc_grad, params=({"order": 1},), domains=POSITIVE,
    doc="Returns the derivative of ``gammainc`` by its parameter a.",
    arguments=GAMMAINC_ARGUMENTS,
    options={"order": "how many times to differentiate, from 1 up."},
)
gammainc = scipy_elementwise(
    "gammainc",
    lambda g, x, y: g * ops.gammainc_grad(x, y, order=1),
    lambda g, x, y: g * ops.gamma_density(x, y),
    doc="Returns the regularised lower incomplete gamma function P(a, x).",
    example="special.gammainc(1.0, [0.0, float('inf')]) -> [0.0, 1.0]",
    domains=POSITIVE, arguments=GAMMAINC_ARGUMENTS_OF_TAILS, source=DLMF + "8.2.4",
)
gammaincc = scipy_elementwise(
    "gammaincc",
    lambda g, x, y: -(g * ops.gammainc_grad(x, y, order=1)),
    lambda g, x, y: -(g * ops.gamma_density(x, y)),
    doc="Returns the regularised upper incomplete gamma function Q(a, x) = 1 - P(a, x).",
    example="special.gammaincc(1.0, [0.0, float('inf')]) -> [1.0, 0.0]",
    domains=POSITIVE, arguments=GAMMAINC_ARGUMENTS_OF_TAILS, source=DLMF + "8.2.4",
)

# -- inverses: where F(a, x) = y, dx/dy is 1 / F_x, and dx/da is -F_a / F_x


def _over_density(numerator: Array, density: Array) -> Array:
    """Returns a quotient that is 0 where a density vanishes, at an end, as the numerator does."""
    return numerator / ops.where(ops.equal(density, 0), 1, density)


def _gammaincinv_vjp_a(g: Array, ans: Array, x: Array) -> Array:
    by_a = ops.gammainc_grad(x, ans, order=1)
    return -(g * _over_density(by_a, ops.gamma_density(x, ans)))


gammaincinv = scipy_elementwise(
    "gammaincinv",
    _gammaincinv_vjp_a,
    lambda g, ans, x: g / ops.gamma_density(x, ans),
    doc="Returns that x for which ``gammainc(a, x)`` is y.",
    example="special.gammaincinv(1.0, [0.0, 1.0]) -> [0.0, inf]",
    domains=(POSITIVE, UNIT_INTERVAL), arguments=GAMMAINCINV_ARGUMENTS,
)
gammainccinv = scipy_elementwise(
    "gammainccinv",
    _gammaincinv_vjp_a,
    lambda g, ans, x: -(g / ops.gamma_density(x, ans)),
    doc="Returns that x for which ``gammaincc(a, x)`` is y.",
    example="special.gammainccinv(1.0, [0.0, 1.0]) -> [inf, 0.0]",
    domains=(POSITIVE, UNIT_INTERVAL), arguments=GAMMAINCINV_ARGUMENTS,
)

# -- the density of the beta distribution, and powers of x and 1 - x over B


def _beta_density(a: Array, b: Array, x: Array, low: int = 0, high: int = 0) -> Array:
    return ops.beta_density(a, b, x, low=low, high=high)


def _beta_density_term(
    c: Array, edge: int, a: Array, b: Array, x: Array, low: int, high: int
) -> Array:
    """Returns c times a power of 0 at an edge, which is 0 where c is, though the power is not."""
    vanishes = ops.logical_and(ops.equal(c, 0), ops.equal(x, edge))
    return c * _beta_density(a, b, ops.where(vanishes, 0.5, x), low, high)


def _beta_density_vjp_x(g: Array, x: Array, y: Array, z: Array, *, low: int, high: int) -> Array:
    rise = _beta_density_term(x - (1 + low), 0, x, y, z, low + 1, high)
    return g * (rise - _beta_density_term(y - (1 + high), 1, x, y, z, low, high + 1))


beta_density = scipy_elementwise(
    "beta_density",
    lambda g, ans, x, y, z: g * (ops.xlogy(ans, z) - ans * (ops.digamma(x) - ops.digamma(x + y))),
    lambda g, ans, x, y, z: (
        g * (ops.xlog1py(ans, -z) - ans * (ops.digamma(y) - ops.digamma(x + y)))
    ),
    _beta_density_vjp_x,
    compute=beta_kernels.beta_density, params=({"low": 0, "high": 0}, {"low": 1, "high": 0}),
    domains=BETAINC_DOMAINS,
    doc="Returns ``x**(a - 1 - low) (1 - x)**(b - 1 - high) / B(a, b)``: with low and high 0 the "
    "density of the beta distribution.",
    arguments=BETAINC_ARGUMENTS,
    options={"low, high": "integers by which the exponents are lowered."},
    source=DLMF + "8.17.1",
)


def _log_beta_density_grads(a: Array, b: Array, x: Array) -> tuple[Array, Array]:
    """Returns the derivatives of the density's logarithm by a and b, for x inside of (0, 1)."""
    edge = ops.logical_or(ops.equal(x, 0), ops.equal(x, 1))
    t = ops.where(edge, 0.5, x)
    both = ops.digamma(a + b)
    return ops.log(t) - ops.digamma(a) + both, ops.log1p(-t) - ops.digamma(b) + both


def _cumulant(a: Array, b: Array, n: int, m: int) -> Array:
    """Returns a second or higher derivative of the density's logarithm."""
    value = ops.polygamma(n + m - 1, a + b)
    if not m:
        value = value - ops.polygamma(n - 1, a)
    if not n:
        value = value - ops.polygamma(m - 1, b)
    return value


def _betainc_grad_vjp_x(g: Array, x: Array, y: Array, z: Array, *, by_a: int, by_b: int) -> Array:
    """Differentiates the density by a and b; each further derivative is that of a product."""
    levels = _log_beta_density_grads(x, y, z)

    def derivative(n: int, m: int) -> Array:
        if (n, m) in ((1, 0), (0, 1)):
            return levels[m]
        return _cumulant(x, y, n, m)

    def density(n: int, m: int) -> Array | int:
        if not n and not m:
            return _beta_density(x, y, z)
        p, q, i, k = (n - 1, m, 1, 0) if n else (n, m - 1, 0, 1)
        total: Array | int = 0
        for j in range(p + 1):
            for r in range(q + 1):
                weight = comb(p, j) * comb(q, r)
                total = total + weight * (derivative(j + i, r + k) * density(p - j, q - r))
        return total

    return g * density(by_a, by_b)


betainc_grad = scipy_elementwise(
    "betainc_grad",
    lambda g, x, y, z, *, by_a, by_b: g * ops.betainc_grad(x, y, z, by_a=by_a + 1, by_b=by_b),
    lambda g, x, y, z, *, by_a, by_b: g * ops.betainc_grad(x, y, z, by_a=by_a, by_b=by_b + 1),
    _betainc_grad_vjp_x,
    compute=beta_kernels.betainc_grad, params=({"by_a": 1, "by_b": 0},),
    domains=BETAINC_DOMAINS,
    doc="Returns a derivative of ``betainc`` by its parameters.",
    arguments=BETAINC_ARGUMENTS,
    options={"by_a, by_b": "how many times to differentiate by each, together from 1 up."},
)


def _betainc_grad_a(a: Array, b: Array, x: Array) -> Array:
    return ops.betainc_grad(a, b, x, by_a=1, by_b=0)


def _betainc_grad_b(a: Array, b: Array, x: Array) -> Array:
    return ops.betainc_grad(a, b, x, by_a=0, by_b=1)


betainc = scipy_elementwise(
    "betainc",
    lambda g, x, y, z: g * _betainc_grad_a(x, y, z),
    lambda g, x, y, z: g * _betainc_grad_b(x, y, z),
    lambda g, x, y, z: g * _beta_density(x, y, z),
    doc="Returns the regularised incomplete beta function I_x(a, b).",
    example="special.betainc(1.0, 1.0, [0.0, 0.5]) -> [0.0, 0.5]",
    domains=BETAINC_DOMAINS, arguments=BETAINC_ARGUMENTS, source=DLMF + "8.17.2",
)
betaincc = scipy_elementwise(
    "betaincc",
    lambda g, x, y, z: -(g * _betainc_grad_a(x, y, z)),
    lambda g, x, y, z: -(g * _betainc_grad_b(x, y, z)),
    lambda g, x, y, z: -(g * _beta_density(x, y, z)),
    doc="Returns 1 minus the regularised incomplete beta function I_x(a, b).",
    example="special.betaincc(1.0, 1.0, [0.0, 0.5]) -> [1.0, 0.5]",
    domains=BETAINC_DOMAINS, arguments=BETAINC_ARGUMENTS, source=DLMF + "8.17.2",
)


def _betaincinv_vjp(grad: Callable[..., Array]) -> Callable[..., Array]:
    return lambda g, ans, x, y: -(g * _over_density(grad(x, y, ans), _beta_density(x, y, ans)))


betaincinv = scipy_elementwise(
    "betaincinv",
    _betaincinv_vjp(_betainc_grad_a),
    _betaincinv_vjp(_betainc_grad_b),
    lambda g, ans, x, y: g / _beta_density(x, y, ans),
    compute=beta_kernels.betaincinv,
    doc="Returns that x for which ``betainc(a, b, x)`` is y.",
    example="special.betaincinv(1.0, 1.0, [0.0, 1.0]) -> [0.0, 1.0]",
    domains=BETAINC_DOMAINS, arguments=BETAINCINV_ARGUMENTS,
)
betainccinv = scipy_elementwise(
    "betainccinv",
    _betaincinv_vjp(_betainc_grad_a),
    _betaincinv_vjp(_betainc_grad_b),
    lambda g, ans, x, y: -(g / _beta_density(x, y, ans)),
    compute=beta_kernels.betainccinv,
    doc="Returns that x for which ``betaincc(a, b, x)`` is y.",
    example="special.betainccinv(1.0, 1.0, [0.0, 1.0]) -> [1.0, 0.0]",
    domains=BETAINC_DOMAINS, arguments=BETAINCINV_ARGUMENTS,
)
