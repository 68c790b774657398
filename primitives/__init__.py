"""The core and every primitive with all its rules: the middle floor."""

from __future__ import annotations

if __name__ != "functensor.primitives":
    raise ImportError(f"'{__name__}' imported bare: write 'import functensor.primitives' instead")

# Importing a module of primitives enters them into the registry.
from .nn import activations, activations, attention, cross_entropy, layer_norm, pooling
from .elementwise import (
    arithmetic,
    number_parts,
    exponential,
    comparison,
    logistic,
    cast_and_complex,
    where_and_extrema,
    trigonometric,
)
from .core import augmented_assignment
from .shape import (
    axis_functions,
    index,
    join_split,
    reshape_transpose,
    pad,
    index_update,
    sliding_windows,
)
from . import collectives, identities, identities, device
from .contract import matmul, conv, einsum, correlate
from .reduce import cumulative, partition, reductions, sort, variance
from .special import modified_bessel
from .random import bits as random_bits, dropout
from .core.array import Array, Tracer
from .core.primitive import Primitive
from .core.registry import registry

__all__ = [
    "Array",
    "Primitive",
    "Tracer",
    "activation",
    "activation_derivatives",
    "arithmetic",
    "attention",
    "augmented",
    "axes",
    "bits",
    "collectives",
    "contraction",
    "convolution",
    "cumulative",
    "einsum",
    "exponential",
    "identity",
    "indexing",
    "joining",
    "logic",
    "logistic",
    "losses",
    "manipulation",
    "marks",
    "modified_bessel",
    "normalization",
    "numbers",
    "padding",
    "partitioning",
    "placement",
    "pooling",
    "random_bits",
    "random_dropout",
    "reductions",
    "registry",
    "selection",
    "signals",
    "sorting",
    "trigonometric",
    "updates",
    "variance",
    "windows",
]
