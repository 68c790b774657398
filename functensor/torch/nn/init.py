"""Functions that fill tensors in place with first values, by PyTorch's names."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from math import inf, prod, sqrt
from typing import Any

import numpy as np

from ... import random
from ...faces.publish import publish
from ...primitives.core.buffers import beside
from ...primitives.core.registry import registry as ops
from ...random.generator import Generator, default_generator
from ...tensors import Tensor, no_grad
from ...tensors.functions.naming import with_words

__all__ = [
    "calculate_gain", "constant", "constant_", "dirac", "dirac_", "eye", "eye_", "kaiming_normal",
    "kaiming_normal_", "kaiming_uniform", "kaiming_uniform_", "normal", "normal_", "ones_",
    "orthogonal", "orthogonal_", "sparse", "sparse_", "trunc_normal_", "uniform", "uniform_",
    "xavier_normal", "xavier_normal_", "xavier_uniform", "xavier_uniform_", "zeros_",
]  # fmt: skip

GAINS = {
    "linear": 1.0, "conv1d": 1.0, "conv2d": 1.0, "conv3d": 1.0, "conv_transpose1d": 1.0,
    "conv_transpose2d": 1.0, "conv_transpose3d": 1.0, "sigmoid": 1.0, "tanh": 5 / 3,
    "relu": sqrt(2), "selu": 3 / 4,
}  # fmt: skip


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """Returns by how much an activation function shrinks variances, for first weights.

    >>> import functensor.torch as torch
    >>> torch.nn.init.calculate_gain("tanh")
    1.6666666666666667
    """
    if nonlinearity == "leaky_relu":
        return sqrt(2 / (1 + (0.01 if param is None else param) ** 2))
    if nonlinearity not in GAINS:
        raise ValueError(f"calculate_gain: no gain is known for {nonlinearity!r}")
    return GAINS[nonlinearity]


def fans(tensor: Tensor) -> tuple[int, int]:
    """Returns how many inputs, and outputs, one output, and one input, of a weight has."""
    if tensor.ndim < 2:
        raise ValueError(f"a weight of shape {tensor.shape} has no fan; it has 2 axes at least")
    rest = prod(tensor.shape[2:])
    return tensor.shape[1] * rest, tensor.shape[0] * rest


def check_count_of_axes(function: str, tensor: Tensor, fewest: int, most: float = inf) -> None:
    """Raises ValueError if a weight has another number of axes than a function fills."""
    if not fewest <= tensor.ndim <= most:
        several = "or more" if most == inf else f"to {most}" if most > fewest else "axes alone"
        raise ValueError(
            f"{function}: a weight of shape {tuple(tensor.shape)}; it fills those of {fewest} "
            f"{several}"
        )


def refilled(tensor: Tensor, values: Any) -> Tensor:
    """Returns a tensor once it has other values."""
    with no_grad():
        return tensor.copy_(values)


def uniform_(
    tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Generator | None = None
) -> Tensor:
    """Fills a tensor with numbers drawn evenly from [a, b)."""
    with no_grad():
        return tensor.uniform_(a, b, generator=generator)


def normal_(
    tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Generator | None = None
) -> Tensor:
    """Fills a tensor with normally distributed numbers."""
    with no_grad():
        return tensor.normal_(mean, std, generator=generator)


def trunc_normal_(
    tensor: Tensor, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0,
    generator: Generator | None = None,
) -> Tensor:  # fmt: skip
    """Fills a tensor with normally distributed numbers from [a, b]."""
    key = (generator or default_generator).next_key()
    low, high = (a - mean) / std, (b - mean) / std
    return refilled(tensor, random.truncated_normal(key, low, high, tensor.shape) * std + mean)


def constant_(tensor: Tensor, val: float) -> Tensor:
    """Fills a tensor with a number."""
    with no_grad():
        return tensor.fill_(val)


def zeros_(tensor: Tensor) -> Tensor:
    """Fills a tensor with zeros."""
    return constant_(tensor, 0.0)


def ones_(tensor: Tensor) -> Tensor:
    """Fills a tensor with ones."""
    return constant_(tensor, 1.0)


def eye_(tensor: Tensor) -> Tensor:
    """Fills a matrix with zeros, and ones on its diagonal."""
    check_count_of_axes("eye_", tensor, 2, 2)
    return refilled(tensor, np.eye(tensor.shape[0], tensor.shape[1]))


def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """Fills kernels with a one in the middle, so that convolutions keep their inputs."""
    check_count_of_axes("dirac_", tensor, 3, 5)
    if tensor.shape[0] % groups:
        raise ValueError(f"dirac_: {tensor.shape[0]} outputs are no {groups} groups of equal size")
    values = np.zeros(tensor.shape)
    outputs = tensor.shape[0] // groups
    middle = tuple([n // 2 for n in tensor.shape[2:]])
    for group in range(groups):
        for i in range(min(outputs, tensor.shape[1])):
            values[(group * outputs + i, i, *middle)] = 1
    return refilled(tensor, values)


def xavier_uniform_(
    tensor: Tensor, gain: float = 1.0, generator: Generator | None = None
) -> Tensor:
    """Fills a weight evenly, with a variance by inputs and outputs (Glorot and Bengio, 2010)."""
    bound = gain * sqrt(6 / sum(fans(tensor)))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fills a weight normally, with a variance by inputs and outputs (Glorot and Bengio, 2010)."""
    return normal_(tensor, 0.0, gain * sqrt(2 / sum(fans(tensor))), generator)


def kaiming_std(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    """Returns the standard deviation of He et al. (2015)."""
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"mode is 'fan_in' or 'fan_out', not {mode!r}")
    fan = fans(tensor)[mode == "fan_out"]
    return calculate_gain(nonlinearity, a) / sqrt(fan)


def kaiming_uniform_(
    tensor: Tensor, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:  # fmt: skip
    """Fills a weight evenly, with a variance for rectified units (He et al., 2015)."""
    bound = sqrt(3) * kaiming_std(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Tensor, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:  # fmt: skip
    """Fills a weight normally, with a variance for rectified units (He et al., 2015)."""
    return normal_(tensor, 0.0, kaiming_std(tensor, a, mode, nonlinearity), generator)


def orthogonal_(tensor: Tensor, gain: float = 1, generator: Generator | None = None) -> Tensor:
    """Fills a weight, seen as a matrix, with orthonormal rows or columns (Saxe et al., 2013)."""
    check_count_of_axes("orthogonal_", tensor, 2)
    if not tensor.numel():
        return tensor
    rows = tensor.shape[0]
    columns = prod(tensor.shape) // rows
    key = (generator or default_generator).next_key()
    large, small = max(rows, columns), min(rows, columns)
    from ...numpy import linalg

    q, r = linalg.qr(random.normal(key, (large, small)))
    q = q * ops.sign(ops.diagonal(r))
    q = q if rows >= columns else ops.transpose(q)
    return refilled(tensor, ops.reshape(q, tensor.shape) * gain)


def sparse_(
    tensor: Tensor, sparsity: float, std: float = 0.01, generator: Generator | None = None
) -> Tensor:
    """Fills a matrix normally, with a share of zeros in every column."""
    check_count_of_axes("sparse_", tensor, 2, 2)
    rows, columns = tensor.shape
    normal_(tensor, 0.0, std, generator)
    key = (generator or default_generator).next_key()
    order = ops.argsort(random.uniform(key, (rows, columns)), 0)
    gone = ops.less(ops.argsort(order, 0), int(np.ceil(sparsity * rows)))
    return refilled(tensor, ops.where(beside(tensor, np.asarray(gone)), 0.0, tensor.detach()))


def older(function: Callable[..., Tensor]) -> Any:
    """Returns a function by its older name, which warns of the newer one."""
    new = function.__name__
    old = new.removesuffix("_")

    def fill(tensor: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        text = f"nn.init.{old} is now deprecated in favor of nn.init.{new}"
        warnings.warn(text, FutureWarning, stacklevel=3)
        return function(tensor, *args, **kwargs)

    return with_words(fill, old, f"Does the same as `{new}`, with a warning: the name is older.")


constant, dirac, eye = older(constant_), older(dirac_), older(eye_)
uniform, normal = older(uniform_), older(normal_)
xavier_uniform, xavier_normal = older(xavier_uniform_), older(xavier_normal_)
kaiming_uniform, kaiming_normal = older(kaiming_uniform_), older(kaiming_normal_)
orthogonal, sparse = older(orthogonal_), older(sparse_)

publish(globals())
