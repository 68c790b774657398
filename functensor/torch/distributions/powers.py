"""Distributions of powers of exponentially distributed numbers, and that of directions."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, log, pi
from typing import Any

from ... import random
from ...primitives.core.registry import registry as ops
from ...scipy import special, stats
from ..random_tensors import rand
from . import constraints
from .constraints import Constraint, unchanging
from .distribution import Centred, Distribution, Parameter, noise, together
from .real_line import EULERS_CONSTANT, OfLaw

__all__ = ["Pareto", "VonMises", "Weibull"]


class Pareto(OfLaw):
    """Pareto's distribution, of density proportional to x**(-alpha - 1) from the scale on.

    Args:
        scale: the least value.
        alpha: the exponent.
        validate_args: whether parameters and values are checked.
    """

    arg_constraints = unchanging({"alpha": constraints.positive, "scale": constraints.positive})
    has_rsample = True
    _law = stats.pareto

    def __init__(
        self, scale: Parameter, alpha: Parameter, validate_args: bool | None = None
    ) -> None:
        self.scale, self.alpha = together(scale, alpha)
        super().__init__(self.scale.shape, (), validate_args)

    @property
    def support(self) -> Constraint:
        """The numbers from the scale on."""
        return constraints.greater_than_eq(self.scale)

    @support.setter
    def support(self, value: Any) -> None:
        raise AttributeError("support of Pareto follows from its scale")

    def _of_law(self) -> dict[str, Any]:
        return {"b": self.alpha, "scale": self.scale}

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        """Returns values, through which derivatives flow to the parameters."""
        standard = noise(random.exponential, self.scale, self._extended_shape(sample_shape))
        return self.scale * ops.exp(standard / self.alpha)

    @property
    def mean(self) -> Any:
        """The mean, infinite for alpha of 1 or less."""
        a = self.alpha
        finite = ops.where(a > 1, a, 2.0)
        return ops.where(a > 1, self.scale * finite / (finite - 1), inf)

    @property
    def mode(self) -> Any:
        """The scale, the value of greatest density."""
        return self.scale

    @property
    def variance(self) -> Any:
        """The variance, infinite for alpha of 2 or less."""
        a = ops.where(self.alpha > 2, self.alpha, 3.0)
        finite = self.scale**2 * a / ((a - 1) ** 2 * (a - 2))
        return ops.where(self.alpha > 2, finite, inf)

    def entropy(self) -> Any:
        """Returns the entropy, in nats."""
        return ops.log(self.scale / self.alpha) + 1 + 1 / self.alpha


class Weibull(OfLaw):
    """Weibull's distribution, of powers of exponentially distributed numbers.

    Args:
        scale: their scale.
        concentration: one divided by the exponent.
        validate_args: whether parameters and values are checked.
    """

    arg_constraints = unchanging({
        "scale": constraints.positive,
        "concentration": constraints.positive,
    })
    support = constraints.positive
    has_rsample = True
    _law = stats.weibull_min

    def __init__(
        self, scale: Parameter, concentration: Parameter, validate_args: bool | None = None
    ) -> None:
        self.scale, self.concentration = together(scale, concentration)
        super().__init__(self.scale.shape, (), validate_args)

    def _of_law(self) -> dict[str, Any]:
        return {"c": self.concentration, "scale": self.scale}

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        """Returns values, through which derivatives flow to the parameters."""
        standard = noise(random.exponential, self.scale, self._extended_shape(sample_shape))
        return self.scale * standard ** (1 / self.concentration)

    def _moment(self, n: int) -> Any:
        return self.scale**n * ops.exp(special.gammaln(1 + n / self.concentration))

    @property
    def mean(self) -> Any:
        """The mean."""
        return self._moment(1)

    @property
    def mode(self) -> Any:
        """The value of greatest density; zero for a concentration of 1 or less, or near it."""
        c = self.concentration
        return self.scale * ((c - 1) / c) ** (1 / c)

    @property
    def variance(self) -> Any:
        """The variance."""
        return self._moment(2) - self._moment(1) ** 2

    def entropy(self) -> Any:
        """Returns the entropy, in nats."""
        c = self.concentration
        return EULERS_CONSTANT * (1 - 1 / c) + ops.log(self.scale / c) + 1


class VonMises(Centred, OfLaw):
    """The von Mises distribution of angles, of density proportional to exp(k cos(x - loc)).

    Args:
        loc: the mode, in radians.
        concentration: k.
        validate_args: whether parameters and values are checked.
    """

    arg_constraints = unchanging({"loc": constraints.real, "concentration": constraints.positive})
    support = constraints.real
    _law = stats.vonmises
    cdf = Distribution.cdf
    icdf = Distribution.icdf

    def __init__(
        self, loc: Parameter, concentration: Parameter, validate_args: bool | None = None
    ) -> None:
        self.loc, self.concentration = together(loc, concentration)
        super().__init__(self.loc.shape, (), validate_args)

    def log_prob(self, value: Any) -> Any:
        """Returns the logarithm of the density of values, which repeats every turn."""
        k = self.concentration
        exponent = k * (ops.cos(self._validate_sample(value) - self.loc) - 1)
        return exponent - log(2 * pi) - ops.log(special.i0e(k))

    def sample(self, sample_shape: Sequence[int] = ()) -> Any:
        """Returns values between -pi and pi, by rejection, of known parameters.

        Source: D. Best and N. Fisher, "Efficient simulation of the von Mises distribution", 1979.
        """
        shape = self._extended_shape(sample_shape)
        k, loc = self.concentration.detach().double(), self.loc.detach().double()
        tau = 1 + ops.sqrt(1 + 4 * k**2)
        rho = (tau - ops.sqrt(2 * tau)) / (2 * k)
        # The quotient cancels for a small concentration.
        r = ops.where(k < 1e-3, 1 / k + k, (1 + rho**2) / (2 * ops.where(k < 1e-3, 1.0, rho)))
        angles = ops.zeros_like(ops.broadcast_to(k, shape))
        missing = ops.equal(angles, 0)
        while bool(ops.any(missing)):
            first, second, side = (rand(shape, dtype=k.dtype, device=k.device) for _ in range(3))
            z = ops.cos(pi * first)
            cosine = ops.clip((1 + r * z) / (r + z), -1, 1)
            c = k * (r - cosine)
            kept = (c * (2 - c) > second) | (ops.log(c / second) + 1 - c >= 0)
            found = ops.arccos(cosine) * ops.sign(side - 0.5)
            angles = ops.where(missing & kept, found, angles)
            missing = missing & ~kept
        turned: Any = (angles + loc + pi) % (2 * pi) - pi
        return turned.to(self.loc.dtype)

    @property
    def variance(self) -> Any:
        """One minus the length of the mean of points on the circle."""
        return 1 - special.i1e(self.concentration) / special.i0e(self.concentration)
