"""The core and every primitive with all its rules: the middle floor."""

from __future__ import annotations

if __name__ != "functensor.primitives":
    raise ImportError(f"'{__name__}' imported bare: write 'import functensor.primitives' instead")

# Importing a module of primitives enters them into the registry.
from . import (
    activation,
    arithmetic,
    axes,
    bits,
    collectives,
    contraction,
    convolution,
    cumulative,
    einsum,
    exponential,
    identity,
    indexing,
    joining,
    logic,
    losses,
    manipulation,
    modified_bessel,
    normalization,
    numbers,
    padding,
    partitioning,
    pooling,
    random_bits,
    reductions,
    selection,
    signals,
    sorting,
    trigonometric,
    updates,
    variance,
    windows,
)
from .array import Array, Tracer
from .primitive import Primitive
from .registry import registry

__all__ = [
    "Array",
    "Primitive",
    "Tracer",
    "activation",
    "arithmetic",
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
    "losses",
    "manipulation",
    "modified_bessel",
    "normalization",
    "numbers",
    "padding",
    "partitioning",
    "pooling",
    "random_bits",
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
