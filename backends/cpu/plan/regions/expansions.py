"""Primitives as steps of ufuncs and row sums, so that blocks need no memory of their own.

Steps of elementwise primitives give the same bits as the functions of these primitives.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ....arrays.nn_formulas import GELU_CUBIC, GELU_LINEAR
from ...activations import LARGEST_STEEP, SMALLEST_GATED
from ..codegen.called import as_operand
from .steps import BlockSteps, BlockValue

if TYPE_CHECKING:
    from ....annotations import Axes

__all__ = ["ELEMENTWISE_STEPS", "ROW_STEPS", "BlockRows"]


# -- elementwise: of values of one dtype, single or double


def _tanh_grad_steps(emit: BlockSteps, x: BlockValue, y: BlockValue) -> BlockValue:
    squared = emit.ufunc("multiply", y, y)
    return emit.ufunc("multiply", emit.ufunc("subtract", 1, squared), x)


def _sigmoid_grad_steps(emit: BlockSteps, x: BlockValue, y: BlockValue) -> BlockValue:
    rise = emit.ufunc("multiply", emit.ufunc("subtract", 1, y), y)
    return emit.ufunc("multiply", rise, x)


def _softplus_grad_steps(emit: BlockSteps, x: BlockValue, y: BlockValue) -> BlockValue:
    fall = emit.ufunc("expm1", emit.ufunc("negative", y))
    return emit.ufunc("multiply", fall, emit.ufunc("negative", x))


def _relu_grad_steps(emit: BlockSteps, x: BlockValue, y: BlockValue) -> BlockValue:
    return emit.masked(emit.ufunc("greater", y, as_operand(0, y.dtype), dtype=np.dtype(bool)), x)


def _sigmoid_steps(emit: BlockSteps, x: BlockValue) -> BlockValue:
    power = emit.ufunc("exp", emit.ufunc("negative", x))
    return emit.ufunc("reciprocal", emit.ufunc("add", power, 1.0))


def _relu_steps(emit: BlockSteps, x: BlockValue) -> BlockValue:
    return emit.ufunc("clip", x, 0, np.inf)


def _silu_steps(emit: BlockSteps, x: BlockValue) -> BlockValue:
    rest = emit.ufunc("add", emit.ufunc("exp", emit.ufunc("negative", x)), 1.0)
    return emit.ufunc("divide", emit.ufunc("clip", x, SMALLEST_GATED[x.dtype.char], np.inf), rest)


def _softplus_steps(emit: BlockSteps, x: BlockValue) -> BlockValue:
    rest = emit.ufunc("exp", emit.ufunc("negative", emit.ufunc("absolute", x)))
    return emit.ufunc("add", emit.ufunc("clip", x, 0.0, np.inf), emit.ufunc("log1p", rest))


def _gelu_steps(emit: BlockSteps, x: BlockValue, *, approximate: bool) -> BlockValue | None:
    if not approximate:
        return None
    power = emit.ufunc("multiply", emit.ufunc("multiply", x, x), -GELU_CUBIC)
    power = emit.ufunc("multiply", emit.ufunc("subtract", power, GELU_LINEAR), x)
    rest = emit.ufunc("add", emit.ufunc("exp", power), 1.0)
    return emit.ufunc("divide", emit.ufunc("clip", x, SMALLEST_GATED[x.dtype.char], np.inf), rest)


def _gelu_grad_steps(
    emit: BlockSteps, x: BlockValue, y: BlockValue, *, approximate: bool
) -> BlockValue | None:
    if not approximate:
        return None
    limit = LARGEST_STEEP[y.dtype.char]
    bounded = emit.ufunc("clip", y, -limit, limit)
    squared = emit.ufunc("multiply", bounded, bounded)
    power = emit.ufunc("subtract", emit.ufunc("multiply", squared, -GELU_CUBIC), GELU_LINEAR)
    odds = emit.ufunc("exp", emit.ufunc("multiply", power, bounded))
    share = emit.ufunc("reciprocal", emit.ufunc("add", odds, 1.0))
    rise = emit.ufunc("add", emit.ufunc("multiply", squared, 3.0 * GELU_CUBIC), GELU_LINEAR)
    rise = emit.ufunc("multiply", rise, bounded)
    rise = emit.ufunc("multiply", rise, emit.ufunc("multiply", odds, share))
    derivative = emit.ufunc("multiply", share, emit.ufunc("add", rise, 1.0))
    return emit.ufunc("multiply", derivative, x)


def _logistic_density_steps(emit: BlockSteps, x: BlockValue) -> BlockValue:
    return emit.ufunc(
        "multiply", _sigmoid_steps(emit, x), _sigmoid_steps(emit, emit.ufunc("negative", x))
    )


def _logistic_loss_steps(emit: BlockSteps, x: BlockValue, y: BlockValue) -> BlockValue:
    rest = emit.ufunc("exp", emit.ufunc("negative", emit.ufunc("absolute", x)))
    left = emit.ufunc("subtract", emit.ufunc("clip", x, 0.0, np.inf), emit.ufunc("multiply", x, y))
    return emit.ufunc("add", left, emit.ufunc("log1p", rest))


def _one_less_square_steps(emit: BlockSteps, x: BlockValue) -> BlockValue:
    return emit.ufunc("multiply", emit.ufunc("subtract", 1.0, x), emit.ufunc("add", x, 1.0))


ELEMENTWISE_STEPS: dict[str, Callable[..., BlockValue | None]] = {
    "gelu": _gelu_steps,
    "gelu_grad": _gelu_grad_steps,
    "logistic": _sigmoid_steps,
    "logistic_density": _logistic_density_steps,
    "logistic_loss": _logistic_loss_steps,
    "one_less_square": _one_less_square_steps,
    "relu": _relu_steps,
    "relu_biased": lambda emit, x, y: _relu_steps(emit, emit.ufunc("add", x, y)),
    "relu_grad": _relu_grad_steps,
    "sigmoid": _sigmoid_steps,
    "sigmoid_biased": lambda emit, x, y: _sigmoid_steps(emit, emit.ufunc("add", x, y)),
    "sigmoid_grad": _sigmoid_grad_steps,
    "silu": _silu_steps,
    "soft_sign": lambda emit, x: (
        emit.ufunc("divide", x, emit.ufunc("add", emit.ufunc("absolute", x), 1.0))
    ),
    "softplus": _softplus_steps,
    "softplus_grad": _softplus_grad_steps,
    "tanh_biased": lambda emit, x, y: emit.ufunc("tanh", emit.ufunc("add", x, y)),
    "tanh_grad": _tanh_grad_steps,
}

# -- along rows: of values with all their axes, of one dtype


class BlockRows(NamedTuple):
    """The rows of a block.

    Attributes:
        emit: adds steps.
        axes: the joined axes along the rows.
        length: the number of elements of a row.
    """

    emit: BlockSteps
    axes: Axes
    length: int

    def means(self, x: BlockValue) -> BlockValue:
        """Returns the means of rows."""
        return self.emit.ufunc("divide", self.emit.row_sum(x, self.axes), self.length)

    def centred(self, x: BlockValue) -> BlockValue:
        """Returns rows less their means."""
        return self.emit.ufunc("subtract", x, self.means(x))

    def dot(self, x: BlockValue, y: BlockValue) -> BlockValue:
        """Returns the sums of the products of rows."""
        return self.emit.row_dot(x, y, self.axes)

    def normal(self, x: BlockValue, eps: float, center: bool) -> tuple[BlockValue, BlockValue]:
        """Returns normalised rows and their factors."""
        emit = self.emit
        deviations = self.centred(x) if center else x
        spread = emit.ufunc("divide", self.dot(deviations, deviations), self.length)
        scale = emit.ufunc("divide", 1, emit.ufunc("sqrt", emit.ufunc("add", spread, eps)))
        return emit.ufunc("multiply", deviations, scale), scale


def _row_variances(
    rows: BlockRows, x: BlockValue, *, axis: Axes, keepdims: bool, ddof: float
) -> BlockValue | None:
    freedom = rows.length - ddof
    if freedom <= 0:
        return None
    deviations = rows.centred(x)
    return rows.emit.ufunc("divide", rows.dot(deviations, deviations), freedom)


def _softmax_grad_steps(rows: BlockRows, g: BlockValue, p: BlockValue, *, axis: Axes) -> BlockValue:
    rest = rows.emit.ufunc("subtract", g, rows.dot(g, p))
    return rows.emit.ufunc("multiply", rest, p)


def _normalize_grad_steps(
    rows: BlockRows, g: BlockValue, x: BlockValue, *, eps: float, center: bool
) -> BlockValue:
    emit = rows.emit
    y, scale = rows.normal(x, eps, center)
    along = emit.ufunc("divide", rows.dot(g, y), rows.length)
    rest = rows.centred(g) if center else g
    rest = emit.ufunc("subtract", rest, emit.ufunc("multiply", y, along))
    return emit.ufunc("multiply", rest, scale)


def _affine_normalize_steps(
    rows: BlockRows, x: BlockValue, *affine: BlockValue, eps: float, center: bool
) -> BlockValue:
    out = rows.emit.ufunc("multiply", rows.normal(x, eps, center)[0], affine[0])
    return rows.emit.ufunc("add", out, affine[1]) if affine[1:] else out


ROW_STEPS: dict[str, Callable[..., BlockValue | None]] = {
    "affine_normalize": _affine_normalize_steps,
    "normalize": lambda rows, x, *, eps, center: rows.normal(x, eps, center)[0],
    "normalize_grad": _normalize_grad_steps,
    "softmax": lambda rows, x, *, axis: rows.emit.softmax(x, rows.axes),
    "softmax_grad": _softmax_grad_steps,
    "var": _row_variances,
}
