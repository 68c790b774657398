"""Modules that map features linearly, arrange them, or look them up."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import Any

from ...backends.annotations import DTypeLike
from ...primitives.core.array import Array
from ...tensors import Tensor, no_grad
from ..creation import empty, ones
from . import functional as F
from . import init
from .module import Module
from .parameter import Parameter

__all__ = [
    "Bilinear",
    "Embedding",
    "EmbeddingBag",
    "Flatten",
    "Identity",
    "Linear",
    "PReLU",
    "Unflatten",
]


def parameter(*shape: int, device: str | None = None, dtype: DTypeLike | None = None) -> Parameter:
    """Returns a parameter that is still to be filled."""
    return Parameter(empty(shape, device=device, dtype=dtype))


class Identity(Module):
    """Returns what it is given; arguments have no effect."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Array) -> Any:
        """Returns the input."""
        return input


class Flatten(Module):
    """Makes some axes in a row into one.

    Args:
        start_dim, end_dim: the first and the last of them.
    """

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, input: Any) -> Any:
        """Returns the input with other axes."""
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        """Returns the options."""
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """Splits an axis into several.

    Args:
        dim: the axis.
        unflattened_size: their lengths.
    """

    def __init__(self, dim: int, unflattened_size: Sequence[int]) -> None:
        super().__init__()
        self.dim, self.unflattened_size = dim, tuple(unflattened_size)

    def forward(self, input: Any) -> Any:
        """Returns the input with other axes."""
        return input.unflatten(self.dim, self.unflattened_size)


class Linear(Module):
    """Computes ``x @ weight.T + bias``.

    Args:
        in_features, out_features: the lengths of x's last axis and the result's.
        bias: whether there is a bias.
        device, dtype: of the parameters.

    Attributes:
        weight: of shape (out_features, in_features).
        bias: of shape (out_features,), or None.

    >>> import functensor.torch as torch
    >>> layer = torch.nn.Linear(4, 3)
    >>> layer(torch.ones(2, 4)).shape, layer
    ((2, 3), Linear(in_features=4, out_features=3, bias=True))
    """

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, device: str | None = None,
        dtype: DTypeLike | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.weight = parameter(out_features, in_features, device=device, dtype=dtype)
        made = parameter(out_features, device=device, dtype=dtype) if bias else None
        self.register_parameter("bias", made)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws the parameters anew."""
        init.kaiming_uniform_(self.weight, sqrt(5))
        if self.bias is not None:
            bound = 1 / sqrt(self.in_features) if self.in_features else 0
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Array) -> Any:
        """Returns the result for an input of shape (..., in_features)."""
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        """Returns the options."""
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, "
            f"bias={self.bias is not None}"
        )


class Bilinear(Module):
    """Computes ``x1 @ weight[k] @ x2`` for every k, plus a bias.

    Args:
        in1_features, in2_features, out_features: the lengths of the last axes.
        bias: whether there is a bias.
        device, dtype: of the parameters.
    """

    def __init__(
        self, in1_features: int, in2_features: int, out_features: int, bias: bool = True,
        device: str | None = None, dtype: DTypeLike | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        shape = (out_features, in1_features, in2_features)
        self.in1_features, self.in2_features, self.out_features = shape[1], shape[2], shape[0]
        self.weight = parameter(*shape, device=device, dtype=dtype)
        made = parameter(out_features, device=device, dtype=dtype) if bias else None
        self.register_parameter("bias", made)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws the parameters anew."""
        bound = 1 / sqrt(self.in1_features)
        for x in self.parameters():
            init.uniform_(x, -bound, bound)

    def forward(self, input1: Any, input2: Any) -> Any:
        """Returns the result for two inputs."""
        return F.bilinear(input1, input2, self.weight, self.bias)


# -- tables and slopes


def zero_row(table: Parameter, row: int | None) -> None:
    """Fills a row of a table with zeros, if there is one to be filled."""
    if row is not None:
        values = table.detach().clone()
        values[row] = 0
        init.refilled(table, values)


class Embedding(Module):
    """Gives the rows of a table.

    Args:
        num_embeddings, embedding_dim: how many rows there are, and how long they are.
        padding_idx: a row that is zero at the beginning and has no gradient.
        max_norm, norm_type, scale_grad_by_freq, sparse: as `functional.embedding` takes them.
        device, dtype: of the table.
    """

    def __init__(
        self, num_embeddings: int, embedding_dim: int, padding_idx: int | None = None,
        max_norm: float | None = None, norm_type: float = 2.0, scale_grad_by_freq: bool = False,
        sparse: bool = False, _weight: Tensor | None = None, _freeze: bool = False,
        device: str | None = None, dtype: DTypeLike | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.padding_idx, self.max_norm, self.norm_type = padding_idx, max_norm, norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        if _weight is None:
            self.weight = parameter(num_embeddings, embedding_dim, device=device, dtype=dtype)
            self.reset_parameters()
        else:
            self.weight = Parameter(_weight)
        self.weight.requires_grad_(not _freeze)

    def reset_parameters(self) -> None:
        """Draws the table anew."""
        init.normal_(self.weight)
        zero_row(self.weight, self.padding_idx)

    @classmethod
    def from_pretrained(
        cls, embeddings: Tensor, freeze: bool = True, padding_idx: int | None = None,
        max_norm: float | None = None, norm_type: float = 2.0, scale_grad_by_freq: bool = False,
        sparse: bool = False,
    ) -> Embedding:  # fmt: skip
        """Returns a module over the memory of a table, which is trained with ``freeze=False``."""
        rows, width = embeddings.shape
        out = cls(
            rows, width, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse,
            dtype=embeddings.dtype,
        )  # fmt: skip
        out.weight = Parameter(embeddings, requires_grad=not freeze)
        return out

    def forward(self, input: Array) -> Any:
        """Returns the rows of some numbers."""
        return F.embedding(
            input, self.weight, self.padding_idx, self.max_norm, self.norm_type,
            self.scale_grad_by_freq,
        )  # fmt: skip

    def extra_repr(self) -> str:
        """Returns the options."""
        shown = [f"{self.num_embeddings}, {self.embedding_dim}"]
        if self.padding_idx is not None:
            shown.append(f"padding_idx={self.padding_idx}")
        if self.max_norm is not None:
            shown.append(f"max_norm={self.max_norm}")
        return ", ".join(shown)


class EmbeddingBag(Module):
    """Gives sums, means or maxima of bags of rows of a table.

    Args:
        num_embeddings, embedding_dim: how many rows there are, and how long they are.
        max_norm, norm_type, scale_grad_by_freq, mode, sparse, include_last_offset, padding_idx: as
            `functional.embedding_bag` takes them.
        device, dtype: of the table.
    """

    def __init__(
        self, num_embeddings: int, embedding_dim: int, max_norm: float | None = None,
        norm_type: float = 2.0, scale_grad_by_freq: bool = False, mode: str = "mean",
        sparse: bool = False, _weight: Tensor | None = None, include_last_offset: bool = False,
        padding_idx: int | None = None, device: str | None = None, dtype: DTypeLike | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.num_embeddings, self.embedding_dim, self.mode = num_embeddings, embedding_dim, mode
        self.max_norm, self.norm_type, self.padding_idx = max_norm, norm_type, padding_idx
        self.scale_grad_by_freq = scale_grad_by_freq
        self.include_last_offset = include_last_offset
        self.weight = parameter(num_embeddings, embedding_dim, device=device, dtype=dtype)
        if _weight is None:
            self.reset_parameters()
        else:
            init.refilled(self.weight, _weight.detach())

    def reset_parameters(self) -> None:
        """Draws the table anew."""
        init.normal_(self.weight)
        zero_row(self.weight, self.padding_idx)

    @classmethod
    def from_pretrained(
        cls, embeddings: Tensor, freeze: bool = True, max_norm: float | None = None,
        norm_type: float = 2.0, scale_grad_by_freq: bool = False, mode: str = "mean",
        sparse: bool = False, include_last_offset: bool = False, padding_idx: int | None = None,
    ) -> EmbeddingBag:  # fmt: skip
        """Returns a module over the memory of a table, which is trained with ``freeze=False``."""
        rows, width = embeddings.shape
        out = cls(
            rows, width, max_norm, norm_type, scale_grad_by_freq, mode, sparse,
            include_last_offset=include_last_offset, padding_idx=padding_idx,
            dtype=embeddings.dtype,
        )  # fmt: skip
        out.weight = Parameter(embeddings, requires_grad=not freeze)
        return out

    def forward(self, input: Array, offsets: Any = None, per_sample_weights: Any = None) -> Any:
        """Returns a row for every bag."""
        return F.embedding_bag(
            input, self.weight, offsets, self.max_norm, self.norm_type, self.scale_grad_by_freq,
            self.mode, False, per_sample_weights, self.include_last_offset, self.padding_idx,
        )  # fmt: skip

    def extra_repr(self) -> str:
        """Returns the options."""
        return f"{self.num_embeddings}, {self.embedding_dim}, mode={self.mode!r}"


class PReLU(Module):
    """Multiplies negative elements by a slope that is trained, one for all or for each channel.

    Args:
        num_parameters: 1, or the number of channels.
        init: the first slope.
        device, dtype: of the slopes.
    """

    def __init__(
        self, num_parameters: int = 1, init: float = 0.25, device: str | None = None,
        dtype: DTypeLike | None = None
    ) -> None:
        super().__init__()
        self.num_parameters, self.init = num_parameters, init
        self.weight = Parameter(ones(num_parameters, device=device, dtype=dtype) * init)

    def reset_parameters(self) -> None:
        """Sets the slopes to the first one."""
        with no_grad():
            self.weight.fill_(self.init)

    def forward(self, input: Array) -> Any:
        """Returns the elements, negative ones times their slope."""
        return F.prelu(input, self.weight)

    def extra_repr(self) -> str:
        """Returns the options."""
        return f"num_parameters={self.num_parameters}"
