"""The logistic function and its kin, with derivatives that keep their digits in both tails.

``sigmoid`` is the activation function: its derivative follows from its value, ``y (1 - y)``, which
is fast and keeps one array, but is 0 where the value has rounded to 1. The functions of this
module cost another exponential, and their derivatives are right to the last digits.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...backends.annotations import ArrayModule, Buffer
from ..core.annotations import operations as ops
from ..core.families import binary, unary
from ..core.test_samples import REAL, Domain

__all__ = ["logistic", "logistic_density", "logistic_loss", "soft_sign"]

FLOAT = np.dtype(float)


def _as_float(x: Buffer) -> Buffer:
    """Returns whole numbers as floats: their negatives and sizes would wrap around."""
    return x + 0.0 if getattr(x, "dtype", FLOAT).kind in "bui" else x


# fmt: off - a rule stands beside its name, as in a table.

logistic = unary(
    "logistic", lambda g, x: g * ops.logistic_density(x),
    compute=lambda xp, x: ops.sigmoid.impl(x),
    reference="scipy.special.expit",
    doc="Returns ``1 / (1 + exp(-x))``.",
)
logistic_density = unary(
    "logistic_density", lambda g, ans, x: -g * (ans * ops.tanh(0.5 * x)),
    compute=lambda xp, x: ops.sigmoid.impl(x) * ops.sigmoid.impl(xp.negative(_as_float(x))),
    reference=lambda x: np.exp(-np.abs(x)) / (1 + np.exp(-np.abs(x))) ** 2,
    doc="Returns ``logistic(x) * logistic(-x)``, the derivative of ``logistic``.",
)


def _compute_logistic_loss(xp: ArrayModule, x: Buffer, y: Buffer) -> Any:
    dtype = getattr(y, "dtype", None)
    if not hasattr(x, "dtype") and dtype is not None and dtype.kind == "f":
        # Of a Python number alone softplus would make float64.
        x = dtype.type(x)
    x = _as_float(x)
    # The difference of large x and y x is exact before the exponential is added.
    return (xp.maximum(x, 0) - x * y) + ops.softplus.impl(-abs(x))


def _logistic_loss_reference(x: Buffer, y: Buffer) -> Any:
    x = np.asarray(x, np.result_type(x, y))
    return np.maximum(x, 0) - x * y + np.log1p(np.exp(-np.abs(x)))


# A binary cross entropy: -y log(logistic(x)) - (1 - y) log(logistic(-x)).
logistic_loss = binary(
    "logistic_loss",
    lambda g, x, y: g * ((1 - y) * ops.logistic(x) - y * ops.logistic(-x)),
    lambda g, x: -g * x,
    compute=_compute_logistic_loss, domains=(REAL, Domain(0.0, 1.0)),
    reference=_logistic_loss_reference,
    doc="Returns ``log(1 + exp(x)) - x * y``: the cross entropy of y under ``logistic(x)``.",
)
soft_sign = unary(
    "soft_sign", lambda g, x: g / ops.square(ops.abs(x) + 1),
    compute=lambda xp, x: x / (abs(_as_float(x)) + 1),
    reference=lambda x: x / (1 + np.abs(x)), domains=Domain(gap=0.1),
    doc="Returns ``x / (1 + abs(x))``.",
)
