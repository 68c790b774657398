"""Muon, whose steps are matrices with singular values near one."""

from __future__ import annotations

from collections.abc import Sized
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np

from ..backends.annotations import DTypeLike
from ..backends.dtypes import named
from ..primitives.core.annotations import Value
from ..primitives.core.annotations import operations as ops
from ..primitives.core.array import Array
from ..primitives.core.errors import GradientInputError, describe, failure
from ..primitives.core.shape_dtype import INEXACT, shape_dtype
from .algorithms import ResultPlaces, Scalars, Slots, _check_ranges, _zeros
from .kept_rates import real_start
from .optimizer import Arithmetic, Optimizer, Rate, Scalar, elementwise, rate_at

__all__ = ["MuonState", "muon"]

# The odd polynomial of degree five that drives singular values from 0 to 1 towards 1 (Jordan).
POLYNOMIAL = (3.4445, -4.7750, 2.0315)
# By what the rate of a matrix is multiplied, of its numbers of rows and of columns.
SCALES = {
    "original": lambda rows, columns: max(1.0, rows / columns) ** 0.5,
    "match_rms_adamw": lambda rows, columns: 0.2 * max(rows, columns) ** 0.5,
}


class MuonState(NamedTuple):
    """The state of `muon`: besides step and loss, the running means of gradients."""

    step: Array
    loss: Array
    mean: Any


def muon(
    lr: Rate = 1e-3, momentum: Scalar = 0.95, weight_decay: Scalar = 0.1, nesterov: bool = True,
    polynomial: tuple[float, float, float] = POLYNOMIAL, eps: float = 1e-7, rounds: int = 5,
    scale: str = "original", dtype: DTypeLike = "bfloat16",
) -> Optimizer[MuonState]:  # fmt: skip
    """Returns Muon: steps of matrices along the mean of gradients without its singular values.

    ``m <- momentum m + (1 - momentum) g``, and ``p <- (1 - lr weight_decay) p - lr s O``, where
    ``O`` has the singular vectors of ``momentum m + (1 - momentum) g`` and singular values near 1,
    and ``s`` is the scale of the matrix. All parameters are matrices; `partitioned` gives others
    to another optimizer.

    Args:
        lr: the learning rate: a number, or a function of how many updates were made before.
        momentum: the decay of the mean, from 0 up to 1.
        weight_decay: how fast weights decay by themselves, for each unit of the learning rate.
        nesterov: look ahead; without it ``O`` has the singular vectors of ``m``.
        polynomial: ``(a, b, c)``: every round makes of the singular values ``x`` of a matrix
            ``a x + b x^3 + c x^5``.
        eps: the norm by which a matrix is divided at first is not below this.
        rounds: how many rounds there are, at most 99.
        scale: ``"original"``, the root of rows over columns where there are more rows, or
            ``"match_rms_adamw"``, 0.2 times the root of the longer side.
        dtype: to which matrices are rounded in rounds; bfloat16 needs the package ml_dtypes.

    Returns:
        An `Optimizer` with the state `MuonState`.

    Raises:
        ValueError: an argument is out of its range.
        GradientInputError: a parameter is not a matrix of real numbers.

    K. Jordan et al., "Muon: an optimizer for hidden layers in neural networks", 2024; the scale of
    AdamW from J. Liu et al., "Muon is scalable for LLM training", 2025.

    >>> import functensor as ft, functensor.numpy as np
    >>> opt = ft.optim.muon(0.5, weight_decay=0.0, rounds=30, polynomial=(1.5, -0.5, 0.0),
    ...                     dtype="float64")
    >>> x = np.zeros((2, 2))
    >>> after, _ = opt.update(x, opt.init(x), np.array([[3.0, 0.0], [0.0, -0.01]]))
    >>> np.round(after, 6)
    Array([[-0.5,  0. ],
           [ 0. ,  0.5]], dtype=float64, device='cpu')
    """
    _check_ranges("muon", lr=lr, momentum=momentum, weight_decay=weight_decay, eps=eps)
    if scale not in SCALES:
        raise ValueError(f"muon: scale is one of {', '.join(SCALES)}, not {scale!r}")
    several: Any = polynomial
    count: Any = rounds
    if not isinstance(count, Integral) or not 0 <= rounds < 100:
        raise ValueError(f"muon: rounds is {rounds}: it must be an integer from 0 to 99")
    if not isinstance(several, Sized) or len(several) != 3:
        raise ValueError(f"muon: polynomial is {polynomial}: it must have 3 numbers")
    if named(dtype).kind not in INEXACT or named(dtype).kind == "c":
        raise ValueError(f"muon: dtype is {dtype}: it must be one of real floats")

    def start(p: Value) -> Value:
        if len(shape_dtype(p).shape) != 2:
            raise failure(
                GradientInputError,
                f"muon: a parameter is {describe(p)}; all parameters are matrices",
                fix="functensor.optim.partitioned({'matrix': muon(lr), 'other': adam(lr)}, labels)",
            )
        return _zeros(p)

    def coefficients(step: Scalar) -> Scalars:
        rate = rate_at(lr, step)
        return rate, momentum, 1 - momentum, 1 - rate * weight_decay

    def rule(
        xp: Arithmetic, p: Value, g: Value, slots: Slots, numbers: Scalars, out: ResultPlaces
    ) -> Slots:
        rate, kept, fresh, staying = numbers
        share = ops.multiply(g, fresh)
        mean = ops.add(ops.multiply(slots[0], kept), share)
        ahead = ops.add(ops.multiply(mean, kept), share) if nesterov else mean
        direction = orthogonal(ahead, polynomial, eps, rounds, dtype)
        shape, dtype_of_p = shape_dtype(p).shape, shape_dtype(p).dtype
        move = ops.multiply(ops.astype(direction, dtype_of_p), rate)
        move = ops.multiply(move, SCALES[scale](shape[0], shape[1]))
        return ops.subtract(ops.multiply(p, staying), move), mean

    starts = (real_start("muon", start),)
    return elementwise("muon", MuonState, starts, coefficients, rule, by_primitives=True)


def orthogonal(
    x: Value, polynomial: tuple[float, float, float], eps: float, rounds: int, dtype: DTypeLike
) -> Array:
    """Returns a matrix with the singular vectors of another, and singular values near one.

    Products are summed in float32 or a wider dtype, and rounded once.
    """
    narrow = named(dtype)
    wide = np.dtype(np.float32) if narrow.itemsize == 2 else narrow

    def rounded(y: Value) -> Array:
        out: Array = ops.astype(ops.astype(y, narrow), wide)
        return out

    def powered(factor: float, y: Value, other: float, left: Value, right: Value) -> Array:
        product = ops.matmul(left, right)
        return rounded(ops.add(ops.multiply(y, factor), ops.multiply(product, other)))

    rows, columns = shape_dtype(x).shape
    a, b, c = polynomial
    x = rounded(ops.matrix_transpose(x) if rows > columns else x)
    size = rounded(ops.sqrt(ops.sum(ops.square(x))))
    x = rounded(ops.divide(x, ops.maximum(size, rounded(np.asarray(eps, wide)))))
    for _ in range(rounds):
        gram = rounded(ops.matmul(x, ops.matrix_transpose(x)))
        x = powered(a, x, 1.0, powered(b, gram, c, gram, gram), x)
    out: Array = ops.matrix_transpose(x) if rows > columns else x
    return out
