"""Formulas of neural networks that kernels of several backends and the rules above them share."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..annotations import Shape

__all__ = ["GELU_CUBIC", "GELU_LINEAR", "stacked_shape"]

# gelu(x) is about x sigmoid(w), w = GELU_LINEAR x + GELU_CUBIC x^3: D. Hendrycks and K. Gimpel,
# "Gaussian error linear units" (2016), whose 1 + tanh(u) is 2 sigmoid(2 u).
GELU_LINEAR = 2.0 * math.sqrt(2.0 / math.pi)
GELU_CUBIC = 0.044715 * GELU_LINEAR


def stacked_shape(q: Shape, k: Shape, v: Shape) -> Shape:
    """Returns the shape of attention's three gradients, padded to a common one and stacked."""
    return 3, *q[:-2], max(q[-2], k[-2]), max(q[-1], v[-1])
