"""Initialisers: functions ``init(key, shape, dtype)`` that return the first values of weights.

``zeros`` and ``ones`` are initialisers; all others make one: ``he_normal()(key, (784, 128))``.
The fans, how many numbers go into an output and how many outputs an input has, come from the
shape: ``(in, out)`` of a matrix as `nn.linear` takes it, ``(out, in, *kernel)`` of more axes as
`nn.conv` does.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from math import prod, sqrt
from typing import TypeAlias

import numpy as np

from .. import random
from ..backends.annotations import DTypeLike
from ..faces.publish import publish
from ..numpy import zeros_ones
from ..primitives.core.annotations import operations as ops
from ..primitives.core.array import Array
from ..primitives.core.shape_dtype import canonical_axis
from ..random.keys import RandomKey

__all__ = [
    "Initializer", "constant", "glorot_normal", "glorot_uniform", "he_normal", "he_uniform",
    "kaiming_normal", "kaiming_uniform", "lecun_normal", "lecun_uniform", "normal", "ones",
    "orthogonal", "truncated_normal", "uniform", "variance_scaling", "xavier_normal",
    "xavier_uniform", "zeros",
]  # fmt: skip

Initializer: TypeAlias = Callable[..., Array]

# The standard deviation of a normal number that is restricted to -2 to 2.
TRUNCATED_STD = 0.8796256610342398


def zeros(key: RandomKey | None, shape: Sequence[int], dtype: DTypeLike = np.float64) -> Array:
    """Returns an array of zeros.

    Args:
        key: of no effect; it may be None.
        shape, dtype: the array's.

    >>> from functensor import nn
    >>> nn.init.zeros(None, (2,)).tolist()
    [0.0, 0.0]
    """
    return zeros_ones.zeros(shape, dtype)


def ones(key: RandomKey | None, shape: Sequence[int], dtype: DTypeLike = np.float64) -> Array:
    """Returns an array of ones.

    Args:
        key: of no effect; it may be None.
        shape, dtype: the array's.

    >>> from functensor import nn
    >>> nn.init.ones(None, (2,)).tolist()
    [1.0, 1.0]
    """
    return zeros_ones.ones(shape, dtype)


def constant(value: float) -> Initializer:
    """Returns an initialiser of arrays filled with a value.

    >>> from functensor import nn
    >>> nn.init.constant(0.5)(None, (2,)).tolist()
    [0.5, 0.5]
    """

    def init(key: RandomKey, shape: Sequence[int], dtype: DTypeLike = np.float64) -> Array:
        return zeros_ones.full(shape, value, dtype)

    return init


def uniform(scale: float = 1e-2) -> Initializer:
    """Returns an initialiser of numbers that are uniform from 0 to a scale.

    >>> from functensor import nn, random
    >>> bool((nn.init.uniform(0.1)(random.key(0), (100,)) < 0.1).all())
    True
    """

    def init(key: RandomKey, shape: Sequence[int], dtype: DTypeLike = np.float64) -> Array:
        return random.uniform(key, shape, dtype, 0.0, scale)

    return init


def normal(stddev: float = 1e-2) -> Initializer:
    """Returns an initialiser of normal numbers with mean 0.

    >>> from functensor import nn, random
    >>> bool(abs(nn.init.normal(0.1)(random.key(0), (10000,)).std() - 0.1) < 0.01)
    True
    """

    def init(key: RandomKey, shape: Sequence[int], dtype: DTypeLike = np.float64) -> Array:
        return ops.multiply(random.normal(key, shape, dtype), stddev)

    return init


def truncated_normal(stddev: float = 1e-2, lower: float = -2.0, upper: float = 2.0) -> Initializer:
    """Returns an initialiser of normal numbers that lie between bounds.

    Args:
        stddev: the standard deviation before the restriction.
        lower, upper: the bounds, in standard deviations.

    >>> from functensor import nn, random
    >>> bool((abs(nn.init.truncated_normal(0.1)(random.key(0), (1000,))) <= 0.2).all())
    True
    """

    def init(key: RandomKey, shape: Sequence[int], dtype: DTypeLike = np.float64) -> Array:
        drawn = random.truncated_normal(key, lower, upper, shape, dtype)
        return ops.multiply(drawn, stddev)

    return init


def _fans(shape: Sequence[int], in_axis: int | None, out_axis: int | None) -> tuple[int, int]:
    if len(shape) < 2:
        raise ValueError(
            f"weights of shape {tuple(shape)} have no inputs and outputs: two axes are needed; "
            "biases start with nn.init.zeros"
        )
    if in_axis is None:
        in_axis = 0 if len(shape) == 2 else 1
    if out_axis is None:
        out_axis = 1 if len(shape) == 2 else 0
    field = prod(shape) // max(shape[in_axis] * shape[out_axis], 1)
    return shape[in_axis] * field, shape[out_axis] * field


def variance_scaling(
    scale: float,
    mode: str,
    distribution: str,
    in_axis: int | None = None,
    out_axis: int | None = None,
) -> Initializer:
    """Returns an initialiser of random numbers with mean 0 and variance ``scale / fan``.

    Args:
        scale: the variance of an output, where inputs have variance 1 and the fan is that of the
            inputs.
        mode: which fan: ``fan_in``, ``fan_out`` or ``fan_avg``, their mean.
        distribution: ``normal``, ``truncated_normal`` (within two standard deviations) or
            ``uniform``.
        in_axis, out_axis: the axes of inputs and outputs; None for those of `nn.linear` and
            `nn.conv`.

    Raises:
        ValueError: the mode or the distribution is another word, or a shape has less than two axes.

    >>> from functensor import nn, random
    >>> init = nn.init.variance_scaling(1.0, "fan_in", "uniform")
    >>> bool((abs(init(random.key(0), (3, 5))) <= 1).all())
    True
    """
    if mode not in ("fan_in", "fan_out", "fan_avg"):
        raise ValueError(f"mode is 'fan_in', 'fan_out' or 'fan_avg', not {mode!r}")
    if distribution not in ("normal", "truncated_normal", "uniform"):
        raise ValueError(
            f"distribution is 'normal', 'truncated_normal' or 'uniform', not {distribution!r}"
        )
    # An error then names the line that chose the axes.
    inner = None if in_axis is None else operator.index(in_axis)
    outer = None if out_axis is None else operator.index(out_axis)

    def init(key: RandomKey, shape: Sequence[int], dtype: DTypeLike = np.float64) -> Array:
        fan_in, fan_out = _fans(shape, inner, outer)
        fan = {"fan_in": fan_in, "fan_out": fan_out, "fan_avg": (fan_in + fan_out) / 2}[mode]
        stddev = sqrt(scale / max(fan, 1))
        if distribution == "normal":
            return ops.multiply(random.normal(key, shape, dtype), stddev)
        if distribution == "truncated_normal":
            drawn = random.truncated_normal(key, -2.0, 2.0, shape, dtype)
            return ops.multiply(drawn, stddev / TRUNCATED_STD)
        bound = sqrt(3.0) * stddev
        return random.uniform(key, shape, dtype, -bound, bound)

    return init


def glorot_uniform(in_axis: int | None = None, out_axis: int | None = None) -> Initializer:
    """Returns an initialiser of uniform numbers with variance ``2 / (fan_in + fan_out)``.

    Glorot and Bengio, "Understanding the difficulty of training deep feedforward neural
    networks", 2010; for layers with tanh or sigmoid. Also called ``xavier_uniform``.

    >>> from functensor import nn, random
    >>> nn.init.glorot_uniform()(random.key(0), (784, 128), "float32").dtype
    dtype('float32')
    """
    return variance_scaling(1.0, "fan_avg", "uniform", in_axis, out_axis)


def glorot_normal(in_axis: int | None = None, out_axis: int | None = None) -> Initializer:
    """Returns an initialiser of normal numbers with variance ``2 / (fan_in + fan_out)``.

    As `glorot_uniform`; numbers lie within two standard deviations. Also called
    ``xavier_normal``.

    >>> from functensor import nn, random
    >>> nn.init.glorot_normal()(random.key(0), (784, 128)).shape
    (784, 128)
    """
    return variance_scaling(1.0, "fan_avg", "truncated_normal", in_axis, out_axis)


def he_uniform(in_axis: int | None = None, out_axis: int | None = None) -> Initializer:
    """Returns an initialiser of uniform numbers with variance ``2 / fan_in``.

    He et al., https://arxiv.org/abs/1502.01852; for layers with relu. Also called
    ``kaiming_uniform``.

    >>> from functensor import nn, random
    >>> nn.init.he_uniform()(random.key(0), (32, 1, 3, 3)).shape
    (32, 1, 3, 3)
    """
    return variance_scaling(2.0, "fan_in", "uniform", in_axis, out_axis)


def he_normal(in_axis: int | None = None, out_axis: int | None = None) -> Initializer:
    """Returns an initialiser of normal numbers with variance ``2 / fan_in``.

    As `he_uniform`; numbers lie within two standard deviations. Also called ``kaiming_normal``.

    >>> from functensor import nn, random
    >>> nn.init.he_normal()(random.key(0), (784, 128)).shape
    (784, 128)
    """
    return variance_scaling(2.0, "fan_in", "truncated_normal", in_axis, out_axis)


def lecun_uniform(in_axis: int | None = None, out_axis: int | None = None) -> Initializer:
    """Returns an initialiser of uniform numbers with variance ``1 / fan_in``.

    LeCun et al., "Efficient BackProp", 1998; for layers with selu or without activation.

    >>> from functensor import nn, random
    >>> nn.init.lecun_uniform()(random.key(0), (784, 128)).shape
    (784, 128)
    """
    return variance_scaling(1.0, "fan_in", "uniform", in_axis, out_axis)


def lecun_normal(in_axis: int | None = None, out_axis: int | None = None) -> Initializer:
    """Returns an initialiser of normal numbers with variance ``1 / fan_in``.

    As `lecun_uniform`; numbers lie within two standard deviations.

    >>> from functensor import nn, random
    >>> nn.init.lecun_normal()(random.key(0), (784, 128)).shape
    (784, 128)
    """
    return variance_scaling(1.0, "fan_in", "truncated_normal", in_axis, out_axis)


def orthogonal(scale: float = 1.0, column_axis: int = -1) -> Initializer:
    """Returns an initialiser of matrices with orthonormal columns or rows, times a scale.

    Saxe et al., https://arxiv.org/abs/1312.6120; for recurrent and for deep linear layers.

    Args:
        scale: the length of the rows or columns, whichever there are fewer of.
        column_axis: the axis of the columns; all others together make the rows.

    Raises:
        ValueError: a shape has less than two axes.

    >>> import functensor.numpy as np
    >>> from functensor import nn, random
    >>> w = nn.init.orthogonal()(random.key(0), (3, 2))
    >>> bool(np.allclose(w.T @ w, np.eye(2)))
    True
    """

    columns = operator.index(column_axis)

    def init(key: RandomKey, shape: Sequence[int], dtype: DTypeLike = np.float64) -> Array:
        if len(shape) < 2:
            raise ValueError(
                f"weights of shape {tuple(shape)} have no rows and columns: two axes are needed; "
                "biases start with nn.init.zeros"
            )
        axis = canonical_axis(columns, len(shape), "column_axis")
        rest = [n for i, n in enumerate(shape) if i != axis]
        drawn = random.orthogonal(key, prod(rest), dtype=dtype, m=shape[axis])
        columns_last = ops.reshape(drawn, (*rest, shape[axis]))
        return ops.multiply(ops.moveaxis(columns_last, -1, axis), scale)

    return init


xavier_uniform, xavier_normal = glorot_uniform, glorot_normal
kaiming_uniform, kaiming_normal = he_uniform, he_normal


publish(globals())
