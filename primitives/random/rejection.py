"""Gamma, Poisson and binomial random numbers by rejection, and the moments that derive them.

A sampler is one primitive, so that it draws until all numbers are accepted under every
transformation, and the same numbers under each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import cos, exp, floor, log, log1p, pi, prod, sqrt

import numpy as np

from ...backends.annotations import Buffer
from ...backends.arrays import gamma_moments, rejection
from ..core.annotations import operations as ops
from ..core.array import Array
from ..core.errors import misfit
from ..core.families import batch_filled, elementwise
from ..core.primitive import Primitive
from ..core.shape_dtype import ShapeDtype
from ..core.test_samples import POSITIVE, Domain, Operand, Sample
from .bits import KEY_NUMBERS

__all__ = ["gamma_moment", "random_binomial", "random_loggamma", "random_poisson"]

# Takes four numbers that are uniform in (0, 1), and parameters; returns None where it rejects.
ScalarProposal = Callable[..., float | None]


def _infer_drawn(primitive: Primitive, key: ShapeDtype, *parameters: ShapeDtype) -> ShapeDtype:
    batch = key.shape[:-1]
    shapes = {x.shape for x in parameters}
    if key.shape[-1:] != (2,) or len(shapes) > 1 or parameters[0].shape[: len(batch)] != batch:
        raise misfit(
            f"{primitive.name}: keys of shape {key.shape} and parameters of shape "
            + " and ".join(str(x.shape) for x in parameters),
            "keys of shape (*batch, 2) go with parameters of one shape (*batch, *shape)",
        )
    probe = np.zeros((0, 2), np.uint64), *(np.ones(0, x.dtype) for x in parameters)
    return ShapeDtype(parameters[0].shape, primitive.impl(*probe).dtype)


def _by_element(propose: ScalarProposal, dtype: str, key: Buffer, *parameters: Buffer) -> Buffer:
    """Draws one element after the other, with NumPy's generator and Python's numbers."""
    parameters = tuple(np.asarray(p) for p in parameters)
    shape = parameters[0].shape
    keys = np.asarray(key).astype("uint64").reshape(-1, 2)
    rows = [p.reshape(len(keys), prod(shape) // max(len(keys), 1)) for p in parameters]
    out = [
        _accepted(propose, k, i, [float(row[j][i]) for row in rows])
        for j, k in enumerate(keys)
        for i in range(rows[0].shape[1])
    ]
    return np.reshape(out, shape).astype(dtype)


def _accepted(propose: ScalarProposal, key: Buffer, place: int, parameters: list[float]) -> float:
    stream = rejection.FIRST_STREAM
    while True:
        counter = np.array([place, 0, 0, stream], np.uint64)
        words = np.random.Philox(key=key, counter=counter).random_raw(4)
        value = propose([((int(w) >> 12) + 0.5) / 2**52 for w in words], *parameters)
        if value is not None:
            return value
        stream += 1


def _loggamma_by_rejection(units: Sequence[float], a: float) -> float | None:
    """Marsaglia and Tsang's method for one number: None where it is rejected."""
    normal = sqrt(-2 * log(units[0])) * cos(2 * pi * units[1])
    d = (a + 1 if a < 1 else a) - 1 / 3
    v = (1 + normal / sqrt(9 * d)) ** 3
    if v <= 0 or log(units[2]) >= normal**2 / 2 + d - d * v + d * log(v):
        return None
    return log(d * v) + (log(units[3]) / a if a < 1 else 0.0)


def _poisson_by_inversion(units: Sequence[float], rate: float) -> int:
    """Draws by inversion, as kernels do for small rates."""
    return _drawn_by_inversion(units[1], exp(-rate), lambda k: rate / k)


def _drawn_by_inversion(unit: float, first: float, ratio: Callable[[int], float]) -> int:
    """Returns the quantile of a distribution, told by the ratios of its probabilities."""
    k, term, total = 0, first, first
    while unit > total:
        k += 1
        term *= ratio(k)
        total += term
    return k


def _binomial_by_inversion(units: Sequence[float], n: float, p: float) -> int:
    """Draws by inversion, as kernels do for small means."""
    q = min(p, 1 - p)
    k = _drawn_by_inversion(units[1], exp(n * log1p(-q)), lambda k: (n - k + 1) / k * q / (1 - q))
    return floor(n) - k if p > 0.5 else k


def _drawn_samples(*domains: Domain) -> list[Sample]:
    return [
        Sample(Operand((*batch, 2), KEY_NUMBERS), *(Operand((*batch, *shape), d) for d in domains))
        for batch, shape in [((), ()), ((), (2, 3)), ((3,), (4,)), ((2, 2), (3, 0)), ((2,), ())]
    ]


def _sampler(
    name: str, propose: ScalarProposal, dtype: str, *domains: Domain, doc: str
) -> Primitive:
    return Primitive(
        name,
        compute=getattr(rejection, name), infer=_infer_drawn, batch=batch_filled, constant=True,
        movable=slice(0, 1), hosted=True, reference=partial(_by_element, propose, dtype),
        samples=_drawn_samples(*domains), dtypes="d",
        doc=doc,
    )


random_loggamma = _sampler(
    "random_loggamma", _loggamma_by_rejection, "float64", POSITIVE,
    doc="""Returns logarithms of gamma random numbers, constants for derivatives.

    Args:
        key: integers of shape ``(*batch, 2)``, the 128 bits of each key.
        a: the shape parameter, floats of shape ``(*batch, *shape)``.

    Returns:
        An array of a's shape and dtype; NaN where a is not positive and finite.
    """,
)
random_poisson = _sampler(
    "random_poisson", _poisson_by_inversion, "int64", POSITIVE,
    doc="""Returns Poisson random numbers.

    Args:
        key: integers of shape ``(*batch, 2)``, the 128 bits of each key.
        rate: the mean, floats of shape ``(*batch, *shape)``.

    Returns:
        An array of ``int64`` of the rate's shape; -1 where that is no rate.
    """,
)
random_binomial = _sampler(
    "random_binomial", _binomial_by_inversion, "int64",
    Domain(0, 20, kind="i"), Domain(0.05, 0.95),
    doc="""Returns binomial random numbers.

    Args:
        key: integers of shape ``(*batch, 2)``, the 128 bits of each key.
        n: how many trials, of shape ``(*batch, *shape)``.
        p: the probability of success, of that shape.

    Returns:
        An array of ``int64`` of that shape; -1 where n is negative or p is no probability.
    """,
)


# -- the moments that derivatives of gamma random numbers are made of


def _gamma_moment_reference(a: Buffer, y: Buffer, *, n: int) -> Buffer:
    from scipy.integrate import quad

    def one(a: float, y: float) -> float:
        x = exp(y)

        def small(s: float) -> float:
            return float(s**n * exp(-a * s) * np.expm1(-x * exp(-s)))

        def lower(s: float) -> float:
            return float(s**n * exp(-a * s - x * np.expm1(-s)))

        def upper(s: float) -> float:
            return float(s**n * exp(a * s - x * np.expm1(s)))

        part = small if x <= gamma_moments.LARGEST_SERIES_ARGUMENT else lower if x <= a else upper
        ends = (0, 2), (2, 6), (6, 30)
        return sum(float(quad(part, *end, epsabs=0, epsrel=1e-11)[0]) for end in ends)

    out: Buffer = np.vectorize(one, otypes=[np.result_type(a, y)])(a, y)
    return out


def _gamma_moment_vjp_shape(g: Array, x: Array, y: Array, *, n: int) -> Array:
    return g * ops.where(_is_upper(x, y), 1.0, -1.0) * gamma_moment.bind((x, y), {"n": n + 1})


def _gamma_moment_vjp_point(g: Array, ans: Array, x: Array, y: Array, *, n: int) -> Array:
    point = ops.exp(y)
    below = n * gamma_moment.bind((x, y), {"n": n - 1}) if n else 1.0
    beyond = ops.where(_is_upper(x, y), -1.0, 1.0) * below + (point - x) * ans
    small = (below if n else ops.expm1(-point)) - x * ans
    # The point may be infinite where the series is not taken.
    return g * ops.where(
        ops.less_equal(point, gamma_moments.LARGEST_SERIES_ARGUMENT), small, beyond
    )


def _is_upper(x: Array, y: Array) -> Array:
    point = ops.exp(y)
    return ops.logical_and(
        ops.greater(point, gamma_moments.LARGEST_SERIES_ARGUMENT), ops.greater(point, x)
    )


gamma_moment = elementwise(
    "gamma_moment",
    _gamma_moment_vjp_shape,
    _gamma_moment_vjp_point,
    compute=gamma_moments.gamma_moment, reference=_gamma_moment_reference,
    domains=(POSITIVE, Domain(-2.0, 2.0)), params=({"n": 0}, {"n": 1}, {"n": 2}),
    doc=gamma_moments.gamma_moment.__doc__,
)
