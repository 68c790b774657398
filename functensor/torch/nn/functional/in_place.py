"""PyTorch's activation functions that change their argument, and pools with indices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....primitives.core.array import Array
from ....tensors.functions.naming import with_words
from . import activations, windows

__all__ = [
    "adaptive_max_pool1d_with_indices", "adaptive_max_pool2d_with_indices",
    "adaptive_max_pool3d_with_indices", "celu_", "elu_", "hardtanh_", "leaky_relu_",
    "max_pool1d_with_indices", "max_pool2d_with_indices", "max_pool3d_with_indices", "relu_",
    "rrelu_", "selu_", "threshold_",
]  # fmt: skip


def activating(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the function that puts the result of another in its argument's place."""
    name = function.__name__

    def changed(input: Any, *args: Any, **kwargs: Any) -> Any:
        return input._change(lambda: function(input, *args, **kwargs), f"{name}_(x)")

    doc = f"Puts the result of `{name}` in the place of a tensor, which it returns."
    return with_words(changed, f"{name}_", doc)


celu_ = activating(activations.celu)
elu_ = activating(activations.elu)
hardtanh_ = activating(activations.hardtanh)
leaky_relu_ = activating(activations.leaky_relu)
relu_ = activating(activations.relu)
rrelu_ = activating(activations.rrelu)
selu_ = activating(activations.selu)
threshold_ = activating(activations.threshold)


def with_places(pool: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the maximum pool like another that returns indices too."""
    name = pool.__name__

    def function(input: Array, size: Any, *args: Any, **kwargs: Any) -> Any:
        return pool(input, size, *args, **{**kwargs, "return_indices": True})

    doc = f"Returns what `{name}` does, and where the maxima stand in their images."
    return with_words(function, f"{name}_with_indices", doc)


max_pool1d_with_indices = with_places(windows.max_pool1d)
max_pool2d_with_indices = with_places(windows.max_pool2d)
max_pool3d_with_indices = with_places(windows.max_pool3d)
adaptive_max_pool1d_with_indices = with_places(windows.adaptive_max_pool1d)
adaptive_max_pool2d_with_indices = with_places(windows.adaptive_max_pool2d)
adaptive_max_pool3d_with_indices = with_places(windows.adaptive_max_pool3d)
