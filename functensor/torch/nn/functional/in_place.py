"""PyTorch's activation functions that change their argument, and pools with indices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....tensors.functions.naming import with_words
from . import activations, windows

__all__ = [
    "celu_", "elu_", "hardtanh_", "leaky_relu_",
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


def with_places(n: int) -> Callable[..., Any]:
    """Returns the maximum pool over n axes that returns indices too."""
    pool = getattr(windows, f"max_pool{n}d")

    def function(input: Any, kernel_size: Any, *args: Any, **kwargs: Any) -> Any:
        return pool(input, kernel_size, *args, **{**kwargs, "return_indices": True})

    doc = f"Returns what `max_pool{n}d` does, and where the maxima stand in their images."
    return with_words(function, f"max_pool{n}d_with_indices", doc)


max_pool1d_with_indices, max_pool2d_with_indices, max_pool3d_with_indices = map(
    with_places, (1, 2, 3)
)
