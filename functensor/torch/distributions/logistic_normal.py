"""The distribution of probabilities whose log-ratios are normal."""

from __future__ import annotations

from typing import Any

from . import constraints
from .composed import TransformedDistribution
from .constraints import unchanging
from .real_line import Normal
from .transforms import StickBreakingTransform

__all__ = ["LogisticNormal"]


class LogisticNormal(TransformedDistribution):
    """Vectors of probabilities, made of normal numbers by breaking a stick.

    Args:
        loc, scale: the means and standard deviations of the numbers, along the last axis.
        validate_args: whether parameters and values are checked.

    >>> import functensor.torch as torch
    >>> from functensor.torch.distributions import LogisticNormal
    >>> LogisticNormal(torch.zeros(3), torch.ones(3)).event_shape
    (4,)
    """

    arg_constraints = unchanging({"loc": constraints.real, "scale": constraints.positive})
    support = constraints.simplex
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        base = Normal(loc, scale, validate_args)
        base = base if base.batch_shape else base.expand((1,))
        super().__init__(base, StickBreakingTransform(), validate_args)

    @property
    def loc(self) -> Any:
        """The means of the normal numbers."""
        return self.base_dist.base_dist.loc  # type: ignore[attr-defined]

    @property
    def scale(self) -> Any:
        """The standard deviations of the normal numbers."""
        return self.base_dist.base_dist.scale  # type: ignore[attr-defined]
