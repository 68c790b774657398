"""PyTorch's functions of tensors, over primitives; many are methods of `Tensor` too."""

from __future__ import annotations

from . import along_axis, diagonals, indexing, pointwise, products, reductions, shapes
from .naming import with_numpy_names

for module in (along_axis, diagonals, indexing, pointwise, products, reductions, shapes):
    with_numpy_names(vars(module))
