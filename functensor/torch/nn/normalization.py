"""Normalisation as modules."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import numpy as np

from ...backends.annotations import DTypeLike
from ...primitives.core.array import Array
from ...tensors import Tensor
from ..creation import ones, zeros
from . import functional as F
from . import init
from .functional.layers import Sizes, spatial
from .module import Module
from .parameter import Parameter

__all__ = [
    "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "GroupNorm", "InstanceNorm1d", "InstanceNorm2d",
    "InstanceNorm3d", "LayerNorm", "RMSNorm",
]  # fmt: skip


def register_scale_and_shift(
    module: Module, channels: int, affine: bool, bias: bool, made: dict[str, Any]
) -> None:
    """Gives a module a weight of ones and a bias of zeros, or None in the place of each."""
    for name, make, there in (("weight", ones, affine), ("bias", zeros, affine and bias)):
        module.register_parameter(name, Parameter(make(channels, **made)) if there else None)


class Tracked(Module):
    """The base of normalisations with running statistics.

    Args:
        num_features: the number of channels.
        eps: what is added to the variance.
        momentum: how much of a batch goes into the running statistics; None for their plain mean.
        affine: whether there are a weight and, unless it is left out, a bias.
        track_running_stats: whether there are running statistics.
        device, dtype: of the parameters.
        bias: whether the bias is there.
    """

    axes: tuple[int, ...] = ()
    # Checkpoints that name no version, as of plain dictionaries of arrays, may lack it.
    _younger_buffers = MappingProxyType({"num_batches_tracked": 2})

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1,
        affine: bool = True, track_running_stats: bool = True, device: str | None = None,
        dtype: DTypeLike | None = None, *, bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.affine, self.track_running_stats = affine, track_running_stats
        made = {"device": device, "dtype": dtype}
        register_scale_and_shift(self, num_features, affine, bias, made)
        tracked = track_running_stats
        self.register_buffer("running_mean", zeros(num_features, **made) if tracked else None)
        self.register_buffer("running_var", ones(num_features, **made) if tracked else None)
        count = zeros((), dtype=np.int64, device=device)
        self.register_buffer("num_batches_tracked", count if tracked else None)

    def reset_running_stats(self) -> None:
        """Sets the running statistics to those of the beginning."""
        if self.track_running_stats:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        """Sets statistics and parameters to those of the beginning."""
        self.reset_running_stats()
        if self.affine:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def _checked(self, input: Tensor) -> None:
        """Checks the number of axes."""
        if input.ndim not in self.axes:
            counts = " or ".join(map(str, self.axes))
            raise ValueError(
                f"{type(self).__name__}: the input has {counts} axes, not {input.ndim}: its shape "
                f"is {input.shape}"
            )

    def _momentum(self) -> float:
        """Counts a batch, and returns how much of it goes into the statistics."""
        if not (self.training and self.track_running_stats):
            return self.momentum or 0.0
        self.num_batches_tracked += 1
        return 1 / self.num_batches_tracked.item() if self.momentum is None else self.momentum

    def extra_repr(self) -> str:
        """Returns the options."""
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, "
            f"affine={self.affine}, bias={self.bias is not None}, "
            f"track_running_stats={self.track_running_stats}"
        )


class BatchNorm(Tracked):
    """Normalises every channel over a batch, in training, or by running statistics."""

    def forward(self, input: Any) -> Any:
        """Returns the normalised input, of shape (batch, channels, ...)."""
        self._checked(input)
        momentum = self._momentum()
        own = self.training or self.running_mean is None
        mean, var = (self.running_mean, self.running_var)
        return F.batch_norm(input, mean, var, self.weight, self.bias, own, momentum, self.eps)


class BatchNorm1d(BatchNorm):
    """Normalises channels of vectors or sequences over a batch."""

    axes = (2, 3)


class BatchNorm2d(BatchNorm):
    """Normalises channels of images over a batch."""

    axes = (4,)


class BatchNorm3d(BatchNorm):
    """Normalises channels of volumes over a batch."""

    axes = (5,)


class InstanceNorm(Tracked):
    """Normalises every channel of every example; see `Tracked` for the arguments."""

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1,
        affine: bool = False, track_running_stats: bool = False, device: str | None = None,
        dtype: DTypeLike | None = None, *, bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias
        )

    def forward(self, input: Any) -> Any:
        """Returns the normalised input; without batch where it has an axis less."""
        self._checked(input)
        single = input.ndim == min(self.axes)
        out = F.instance_norm(
            input.unsqueeze(0) if single else input, self.running_mean, self.running_var,
            self.weight, self.bias, self.training or not self.track_running_stats,
            self.momentum or 0.0, self.eps,
        )  # fmt: skip
        return out.squeeze(0) if single else out


class InstanceNorm1d(InstanceNorm):
    """Normalises channels of sequences, each by itself."""

    axes = (2, 3)


class InstanceNorm2d(InstanceNorm):
    """Normalises channels of images, each by itself."""

    axes = (3, 4)


class InstanceNorm3d(InstanceNorm):
    """Normalises channels of volumes, each by itself."""

    axes = (4, 5)


def reset(module: Module) -> None:
    """Sets a weight to ones, and a bias to zeros, where there are any."""
    for name, first in (("weight", init.ones_), ("bias", init.zeros_)):
        if module._parameters.get(name) is not None:
            first(module._parameters[name])


class LayerNorm(Module):
    """Normalises over the last axes.

    Args:
        normalized_shape: their lengths.
        eps: what is added to the variance.
        elementwise_affine: whether there is a weight.
        bias: whether there is a bias beside it.
        device, dtype: of the parameters.
    """

    def __init__(
        self, normalized_shape: Sizes, eps: float = 1e-5, elementwise_affine: bool = True,
        bias: bool = True, device: str | None = None, dtype: DTypeLike | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.normalized_shape, self.eps = spatial(normalized_shape, 1), eps
        self.elementwise_affine = elementwise_affine
        shape, made = self.normalized_shape, {"device": device, "dtype": dtype}
        weight = Parameter(ones(shape, **made)) if elementwise_affine else None
        self.register_parameter("weight", weight)
        has_bias = elementwise_affine and bias
        self.register_parameter("bias", Parameter(zeros(shape, **made)) if has_bias else None)

    def reset_parameters(self) -> None:
        """Sets the weight to ones, and the bias to zeros."""
        reset(self)

    def forward(self, input: Array) -> Any:
        """Returns the normalised input."""
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """Returns the options."""
        affine = self.elementwise_affine
        start = f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={affine}"
        return f"{start}, bias={self.bias is not None}"


class RMSNorm(Module):
    """Divides by the root of the mean square over the last axes.

    Args:
        normalized_shape: their lengths.
        eps: what is added to the mean square; by default the precision of the dtype.
        elementwise_affine: whether there is a weight.
        device, dtype: of the parameters.
    """

    def __init__(
        self, normalized_shape: Sizes, eps: float | None = None, elementwise_affine: bool = True,
        device: str | None = None, dtype: DTypeLike | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.normalized_shape, self.eps = spatial(normalized_shape, 1), eps
        weight = ones(self.normalized_shape, device=device, dtype=dtype)
        self.register_parameter("weight", Parameter(weight) if elementwise_affine else None)

    def reset_parameters(self) -> None:
        """Sets the weight to ones, and the bias to zeros."""
        reset(self)

    def forward(self, input: Array) -> Any:
        """Returns the normalised input."""
        return F.rms_norm(input, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        """Returns the options."""
        affine = self.weight is not None
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={affine}"


class GroupNorm(Module):
    """Normalises groups of channels of every example.

    Args:
        num_groups, num_channels: how many there are; channels are a multiple of groups.
        eps: what is added to the variance.
        affine: whether there are a weight and, unless it is left out, a bias.
        device, dtype: of the parameters.
        bias: whether the bias is there.
    """

    def __init__(
        self, num_groups: int, num_channels: int, eps: float = 1e-5, affine: bool = True,
        device: str | None = None, dtype: DTypeLike | None = None, *, bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        if num_channels % num_groups:
            raise ValueError(f"GroupNorm: {num_channels} channels in {num_groups} groups")
        self.num_groups, self.num_channels, self.eps = num_groups, num_channels, eps
        made = {"device": device, "dtype": dtype}
        register_scale_and_shift(self, num_channels, affine, bias, made)

    def reset_parameters(self) -> None:
        """Sets the weight to ones, and the bias to zeros."""
        reset(self)

    def forward(self, input: Array) -> Any:
        """Returns the normalised input, of shape (batch, channels, ...)."""
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """Returns the options."""
        affine = f"affine={self.weight is not None}, bias={self.bias is not None}"
        return f"{self.num_groups}, {self.num_channels}, eps={self.eps}, {affine}"
