"""PyTorch's activation functions of tensors."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from .... import random
from ....backends.annotations import DTypeLike
from ....nn import activations as pure
from ....primitives.core.array import Array
from ....primitives.core.registry import registry as ops
from ....random.generator import default_generator
from ....tensors.functions import along_axis
from ....tensors.functions.pointwise import clamp, hardshrink, prelu, sigmoid, tanh
from .writing import written

__all__ = [
    "celu", "elu", "gelu", "glu", "gumbel_softmax", "hardshrink", "hardsigmoid", "hardswish",
    "hardtanh", "leaky_relu", "log_softmax", "logsigmoid", "mish", "prelu", "relu", "relu6",
    "rrelu", "selu", "sigmoid", "silu", "softmax", "softmin", "softplus", "softshrink",
    "softsign", "tanh", "tanhshrink", "threshold",
]  # fmt: skip


def relu(input: Any, inplace: bool = False) -> Any:
    """Returns the elements, zero for negative ones; in place where that is asked for."""
    return written(input, ops.relu(input), inplace)


def elu(input: Array, alpha: float = 1.0, inplace: bool = False) -> Any:
    """Returns x where it is positive, ``alpha * (exp(x) - 1)`` elsewhere."""
    if alpha == 1:
        return written(input, ops.elu(input), inplace)
    return written(input, ops.where(input > 0, input, alpha * negative(input)), inplace)


def negative(x: Any) -> Any:
    """Returns ``exp(x) - 1`` of what is not positive, which overflows nowhere."""
    return ops.expm1(ops.minimum(x, 0))


def celu(input: Array, alpha: float = 1.0, inplace: bool = False) -> Any:
    """Returns x where it is positive, ``alpha * (exp(x / alpha) - 1)`` elsewhere."""
    return written(input, pure.celu(input, alpha), inplace)


def selu(input: Array, inplace: bool = False) -> Any:
    """Returns the self-normalising `elu` (Klambauer et al., 2017)."""
    return written(input, pure.selu(input), inplace)


def gelu(input: Array, approximate: str = "none") -> Any:
    """Returns x times the normal distribution's function of x.

    Args:
        input: a tensor.
        approximate: ``"none"``, or ``"tanh"`` for the approximation by a hyperbolic tangent.

    >>> import functensor.torch as torch
    >>> round(torch.nn.functional.gelu(torch.tensor(1.0)).item(), 5)
    0.84134
    """
    if approximate not in ("none", "tanh"):
        raise ValueError(f"gelu: approximate is 'none' or 'tanh', not {approximate!r}")
    return ops.gelu(input, approximate == "tanh")


def silu(input: Array, inplace: bool = False) -> Any:
    """Returns ``x * sigmoid(x)``."""
    found = input * sigmoid(input) if input.dtype.kind == "c" else ops.silu(input)
    return written(input, found, inplace)


def mish(input: Array, inplace: bool = False) -> Any:
    """Returns ``x * tanh(softplus(x))``."""
    return written(input, pure.mish(input), inplace)


def leaky_relu(input: Array, negative_slope: float = 0.01, inplace: bool = False) -> Any:
    """Returns x where it is positive, and a small multiple of it elsewhere."""
    return written(input, ops.where(input > 0, input, negative_slope * input), inplace)


def rrelu(
    input: Array, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False,
    inplace: bool = False
) -> Any:
    """Returns x where it is positive; elsewhere times a number drawn, or the mean, of slopes."""
    if not training:
        return leaky_relu(input, (lower + upper) / 2, inplace)
    slopes = random.uniform(default_generator.next_key(), input.shape, input.dtype, lower, upper)
    found = ops.where(input > 0, input, ops.to_device(slopes, input.device) * input)
    return written(input, found, inplace)


def relu6(input: Array, inplace: bool = False) -> Any:
    """Returns the elements limited to [0, 6]; no gradient at its ends."""
    return hardtanh(input, 0.0, 6.0, inplace)


def hardtanh(
    input: Array, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False
) -> Any:
    """Returns the elements limited to an interval; no gradient at its ends."""
    if input.dtype.kind in "iu":
        min_val, max_val = int(min_val), int(max_val)
    inside = ops.logical_and(input > min_val, input < max_val)
    found = ops.where(inside, input, ops.stop_gradient(clamp(input, min_val, max_val)))
    return written(input, found, inplace)


def hardsigmoid(input: Array, inplace: bool = False) -> Any:
    """Returns ``x / 6 + 1/2``, limited to [0, 1]."""
    return written(input, hardtanh(input + 3, 0, 6) / 6, inplace)


def hardswish(input: Array, inplace: bool = False) -> Any:
    """Returns ``x * hardsigmoid(x)``."""
    inner = ops.where(input >= 3, input, input * (input + 3) / 6)
    return written(input, ops.where(input <= -3, 0, inner), inplace)


def softshrink(input: Array, lambd: float = 0.5) -> Any:
    """Returns the elements moved towards zero by an amount, at most to zero."""
    return ops.where(
        input > lambd, input - lambd, ops.where(input < -lambd, input + lambd, input * 0)
    )


def tanhshrink(input: Array) -> Any:
    """Returns ``x - tanh(x)``."""
    return input - ops.tanh(input)


def softplus(input: Array, beta: float = 1.0, threshold: float = 20.0) -> Any:
    """Returns ``log(1 + exp(beta * x)) / beta``; x itself where ``beta * x`` is above a limit."""
    scaled = input if beta == 1 else beta * input
    smooth = ops.softplus(scaled)
    return ops.where(scaled > threshold, input, smooth if beta == 1 else smooth / beta)


def softsign(input: Array) -> Any:
    """Returns ``x / (1 + abs(x))``."""
    return input / (1 + ops.abs(input)) if input.dtype.kind == "c" else ops.soft_sign(input)


def logsigmoid(input: Array) -> Any:
    """Returns the logarithm of the logistic function."""
    return -ops.softplus(-input)


def threshold(input: Array, threshold: float, value: float, inplace: bool = False) -> Any:
    """Returns the elements above a limit, and a number for the others."""
    return written(input, ops.where(input <= threshold, value, input), inplace)


def glu(input: Array, dim: int = -1) -> Any:
    """Returns the first half of an axis times the logistic function of the second."""
    return pure.glu(input, dim)


def softmax(
    input: Array, dim: int | None = None, _stacklevel: int = 3, dtype: DTypeLike | None = None
) -> Any:
    """Returns exponentials divided by their sum along an axis.

    Without an axis it warns, and takes the first one of tensors of 0, 1 or 3 axes, and the second
    one of others.
    """
    return along_axis.softmax(input, chosen_axis("softmax", input, dim), dtype)


def log_softmax(
    input: Array, dim: int | None = None, _stacklevel: int = 3, dtype: DTypeLike | None = None
) -> Any:
    """Returns the logarithm of `softmax`."""
    return along_axis.log_softmax(input, chosen_axis("log_softmax", input, dim), dtype)


def softmin(
    input: Array, dim: int | None = None, _stacklevel: int = 3, dtype: DTypeLike | None = None
) -> Any:
    """Returns the `softmax` of the elements with the other sign."""
    return along_axis.softmax(-input, chosen_axis("softmin", input, dim), dtype)


def chosen_axis(name: str, input: Array, dim: int | None) -> int:
    """Returns an axis; where none is given PyTorch's, with a warning."""
    if dim is not None:
        return dim
    dim = 0 if input.ndim in (0, 1, 3) else 1
    warnings.warn(
        f"Implicit dimension choice for {name} has been deprecated: pass dim={dim}", stacklevel=4
    )
    return dim


def gumbel_softmax(
    logits: Array, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1
) -> Any:
    """Returns a softmax of perturbed logits: a sample that has a gradient (Jang et al., 2016).

    Args:
        logits: scores.
        tau: the temperature.
        hard: whether the result is one-hot; the gradient is that of the soft one.
        eps: no effect.
        dim: the axis.
    """
    noise = random.gumbel(default_generator.next_key(), logits.shape, logits.dtype)
    soft = softmax((logits + ops.to_device(noise, logits.device)) / tau, dim)
    if not hard:
        return soft
    best = ops.argmax(soft, dim, keepdims=True)
    places = np.arange(logits.shape[dim]).reshape(-1, *(1,) * (logits.ndim - 1 - dim % logits.ndim))
    one_hot = ops.astype(ops.equal(best, places), logits.dtype)
    return ops.stop_gradient(one_hot - soft) + soft
