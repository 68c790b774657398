"""PyTorch's names of probability distributions, over `functensor.random` and `scipy.stats`.

>>> import functensor.torch as torch
>>> from functensor.torch.distributions import Normal
>>> loc = torch.tensor(1.0, requires_grad=True)
>>> Normal(loc, 2.0).rsample((3,)).sum().backward()
>>> loc.grad.item()
3.0
"""

from __future__ import annotations

from ...faces.publish import publish
from ..deep_names import inner_modules
from . import (
    categories,
    composed,
    constraints,
    divergences,
    gammas,
    logistic_normal,
    low_rank,
    multivariate,
    parts,
    powers,
    rarer_laws,
    transforms,
)
from .categories import *
from .composed import *
from .constraint_registry import biject_to, transform_to
from .counts import Bernoulli, Binomial, Geometric, NegativeBinomial, Poisson
from .distribution import Distribution, ExponentialFamily
from .divergences import *
from .gammas import *
from .logistic_normal import *
from .low_rank import *
from .multivariate import *
from .parts import *
from .powers import *
from .rarer_laws import *
from .real_line import (
    Cauchy,
    Exponential,
    Gumbel,
    HalfCauchy,
    HalfNormal,
    Laplace,
    LogNormal,
    Normal,
    StudentT,
    Uniform,
)
from .transforms import *

# Modules within this one that are imported when they are first used.
NAMESPACES = {"constraint_registry", "utils"}

__all__ = [
    "Bernoulli", "Binomial", "Cauchy", "Distribution", "Exponential", "ExponentialFamily",
    "Geometric", "Gumbel", "HalfCauchy", "HalfNormal", "Laplace", "LogNormal", "NegativeBinomial",
    "Normal", "Poisson", "StudentT", "Uniform", "biject_to", "constraints", "transform_to",
    "transforms",
]  # fmt: skip
__all__ += categories.__all__
__all__ += composed.__all__
__all__ += divergences.__all__
__all__ += gammas.__all__
__all__ += logistic_normal.__all__
__all__ += low_rank.__all__
__all__ += multivariate.__all__
__all__ += parts.__all__
__all__ += powers.__all__
__all__ += rarer_laws.__all__
__all__ += transforms.__all__

publish(globals(), made=inner_modules("distributions"))
