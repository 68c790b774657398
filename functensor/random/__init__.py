"""Random numbers as functions of a key: the same key gives the same numbers, everywhere.

There is no state. A key used twice gives the same numbers twice: to draw anew, `split` it, or take
keys from a `KeyStream`; `check_reuse` finds where that was forgotten.

A key is two 64-bit words, the key of Philox4x64-10. Its counter has four words, from the lowest:
the number of a block of four 64-bit words, counted from 1; a carry; 0; and the number of a stream.
Stream 0 is what most distributions draw, word after word, narrower words being parts of wider ones
from the lowest bits up. Stream 1 holds the keys of `split`, two words each; stream 2 those of
`fold_in` and stream 3 those of a `KeyStream`, at the start of block n + 1; stream 16 + r the
proposals of round r for numbers drawn by rejection (gamma, Poisson and binomial numbers and their
kin), those for element i in block i + 1. Bits therefore do not depend on the backend, on threads,
or on earlier draws.

Derivatives flow to parameters: through the formula by which a number is drawn, and for gamma
numbers, which are drawn by rejection, through their distribution function. `vmap` over keys gives
what the loop over keys gives, element by element.
"""

from __future__ import annotations

from ..faces.publish import publish
from .continuous import (
    cauchy,
    exponential,
    gumbel,
    laplace,
    logistic,
    lognormal,
    maxwell,
    normal,
    pareto,
    rayleigh,
    triangular,
    truncated_normal,
    uniform,
    weibull_min,
)
from .discrete import (
    bernoulli,
    binomial,
    categorical,
    geometric,
    multinomial,
    poisson,
    rademacher,
    randint,
)
from .gamma_family import beta, chisquare, dirichlet, f, gamma, loggamma, student_t, t
from .key_reuse import KeyReuseWarning, check_reuse, warn_on_reuse
from .key_stream import KeyStream
from .keys import PRNGKey, bits, fold_in, key, split
from .multivariate import multivariate_normal, orthogonal
from .sampling import choice, permutation

__all__ = [
    "KeyReuseWarning", "KeyStream", "PRNGKey", "bernoulli", "beta", "binomial", "bits",
    "categorical", "cauchy", "check_reuse", "chisquare", "choice", "dirichlet", "exponential", "f",
    "fold_in", "gamma", "geometric", "gumbel", "key", "laplace", "loggamma", "logistic",
    "lognormal", "maxwell", "multinomial", "multivariate_normal", "normal", "orthogonal", "pareto",
    "permutation", "poisson", "rademacher", "randint", "rayleigh", "split", "student_t", "t",
    "triangular", "truncated_normal", "uniform", "warn_on_reuse", "weibull_min",
]  # fmt: skip

publish(globals())
