"""Convolutions as modules."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod, sqrt
from typing import Any

from ...backends.annotations import DTypeLike
from ...primitives.core.array import Array
from . import functional as F
from . import init
from .functional.layers import Sizes, spatial
from .layers import parameter
from .module import Module

__all__ = [
    "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d",
]  # fmt: skip

PADDINGS = {
    "zeros": "constant",
    "reflect": "reflect",
    "replicate": "replicate",
    "circular": "circular",
}


class Convolving(Module):
    """The base of convolutions.

    Args:
        in_channels, out_channels: the lengths of the axes of channels.
        kernel_size, stride, padding, dilation: integers, or one for each spatial axis.
        groups: into how many groups channels are split.
        bias: whether there is a bias.
        padding_mode: ``"zeros"``, ``"reflect"``, ``"replicate"`` or ``"circular"``.
        device, dtype: of the parameters.

    Attributes:
        weight: of shape (out_channels, in_channels / groups, ...).
        bias: of shape (out_channels,), or None.
    """

    axes = 0
    transposed = False

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Sizes, stride: Sizes = 1,
        padding: Sizes | str = 0, dilation: Sizes = 1, groups: int = 1, bias: bool = True,
        padding_mode: str = "zeros", device: str | None = None, dtype: DTypeLike | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        if in_channels % groups or out_channels % groups:
            raise ValueError(
                f"{type(self).__name__}: {in_channels} and {out_channels} channels in {groups} "
                "groups: both are multiples of the number of groups"
            )
        if padding_mode not in PADDINGS:
            raise ValueError(f"padding_mode is one of {', '.join(PADDINGS)}, not {padding_mode!r}")
        n = self.axes
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.kernel_size, self.stride = spatial(kernel_size, n), spatial(stride, n)
        self.padding: Any = padding if isinstance(padding, str) else spatial(padding, n)
        self.dilation, self.padding_mode = spatial(dilation, n), padding_mode
        first, second = out_channels, in_channels // groups
        if self.transposed:
            first, second = in_channels, out_channels // groups
        self.weight = parameter(first, second, *self.kernel_size, device=device, dtype=dtype)
        made = parameter(out_channels, device=device, dtype=dtype) if bias else None
        self.register_parameter("bias", made)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws the parameters anew."""
        init.kaiming_uniform_(self.weight, sqrt(5))
        if self.bias is not None:
            fan = prod(self.weight.shape[1:])
            init.uniform_(self.bias, -1 / sqrt(fan), 1 / sqrt(fan))

    def forward(self, input: Array) -> Any:
        """Returns the result for images of shape (batch, in_channels, ...)."""
        padding = self.padding
        if self.padding_mode != "zeros":
            input, padding = self._padded(input), 0
        convolve = getattr(F, f"conv{self.axes}d")
        return convolve(
            input, self.weight, self.bias, self.stride, padding, self.dilation, self.groups
        )

    def _padded(self, input: Array) -> Any:
        """Returns images with what stands around them."""
        around: list[int] = []
        for i in reversed(range(self.axes)):
            if self.padding == "same":
                total = self.dilation[i] * (self.kernel_size[i] - 1)
                around += [total // 2, total - total // 2]
            else:
                around += [0 if self.padding == "valid" else self.padding[i]] * 2
        return F.pad(input, around, self.padding_mode)

    def extra_repr(self) -> str:
        """Returns the options that are no defaults."""
        shown = [f"{self.in_channels}, {self.out_channels}", f"kernel_size={self.kernel_size}"]
        shown.append(f"stride={self.stride}")
        if self.padding not in ("valid", (0,) * self.axes):
            shown.append(f"padding={self.padding}")
        if set(self.dilation) != {1}:
            shown.append(f"dilation={self.dilation}")
        if self.groups != 1:
            shown.append(f"groups={self.groups}")
        if self.bias is None:
            shown.append("bias=False")
        if self.padding_mode != "zeros":
            shown.append(f"padding_mode={self.padding_mode}")
        return ", ".join(shown)


class Conv1d(Convolving):
    """Correlates sequences with kernels."""

    axes = 1


class Conv2d(Convolving):
    """Correlates images with kernels.

    >>> import functensor.torch as torch
    >>> torch.nn.Conv2d(3, 8, 3, padding=1)(torch.ones(2, 3, 5, 5)).shape
    (2, 8, 5, 5)
    """

    axes = 2


class Conv3d(Convolving):
    """Correlates volumes with kernels."""

    axes = 3


class Transposed(Convolving):
    """The base of transposed convolutions; ``output_padding`` makes the output longer."""

    transposed = True

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Sizes, stride: Sizes = 1,
        padding: Sizes = 0, output_padding: Sizes = 0, groups: int = 1, bias: bool = True,
        dilation: Sizes = 1, padding_mode: str = "zeros", device: str | None = None,
        dtype: DTypeLike | None = None,
    ) -> None:  # fmt: skip
        if padding_mode != "zeros":
            raise ValueError(f"{type(self).__name__}: padding_mode is 'zeros'")
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias,
            device=device, dtype=dtype,
        )  # fmt: skip
        self.output_padding = spatial(output_padding, self.axes)

    def forward(self, input: Array, output_size: Sequence[int] | None = None) -> Any:
        """Returns the result for images; their size may be asked for where several fit."""
        more = self.output_padding
        if output_size is not None:
            more = tuple([
                wanted - ((n - 1) * s - 2 * p + d * (k - 1) + 1)
                for wanted, n, s, p, d, k in zip(
                    tuple(output_size)[-self.axes :], input.shape[-self.axes :], self.stride,
                    self.padding, self.dilation, self.kernel_size,
                )
            ])  # fmt: skip
        spread = getattr(F, f"conv_transpose{self.axes}d")
        return spread(
            input, self.weight, self.bias, self.stride, self.padding, more, self.groups,
            self.dilation,
        )  # fmt: skip


class ConvTranspose1d(Transposed):
    """Spreads sequences by kernels: the transpose of `Conv1d`."""

    axes = 1


class ConvTranspose2d(Transposed):
    """Spreads images by kernels: the transpose of `Conv2d`."""

    axes = 2


class ConvTranspose3d(Transposed):
    """Spreads volumes by kernels: the transpose of `Conv3d`."""

    axes = 3
