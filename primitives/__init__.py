"""The core and every primitive with all its rules: the middle floor."""

from __future__ import annotations

if __name__ != "functensor.primitives":
    raise ImportError(f"'{__name__}' imported bare: write 'import functensor.primitives' instead")

# Importing a module of primitives enters them into the registry. The others enter it when the
# namespace that needs them is first used.
from . import device, identities
from .contract import conv, correlate, einsum, matmul
from .core import augmented_assignment
from .core.array import Array, Tracer
from .core.primitive import Primitive
from .core.registry import registry
from .elementwise import (
    arithmetic,
    cast_and_complex,
    comparison,
    exponential,
    logistic,
    number_parts,
    trigonometric,
    where_and_extrema,
)
from .nn import activations
from .reduce import cumulative, partition, reductions, sort, variance
from .shape import (
    axis_functions,
    index,
    index_update,
    join_split,
    pad,
    reshape_transpose,
    sliding_windows,
)
from .special import error_function

__all__ = ["Array", "Primitive", "Tracer", "registry"]
