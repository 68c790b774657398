"""Checks of derivatives against numbers, and strategies of inputs, for tests.

>>> import functensor.numpy as np
>>> check_grads(np.tanh, (np.array([0.5, -1.0]),), order=2)
"""

from __future__ import annotations

from ..faces.publish import publish
from .checks_of_derivatives import assert_allclose, check_grads

# Modules within this one that are imported when they are first used.
NAMESPACES = {"strategies"}

__all__ = ["assert_allclose", "check_grads"]

publish(globals())
