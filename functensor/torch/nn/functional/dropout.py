"""PyTorch's functions that drop elements at random."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .... import random
from ....nn import layers as pure
from ....primitives.core.array import Array
from ....primitives.core.registry import registry as ops
from ....random.generator import default_generator
from ....tensors.functions.naming import with_words
from .writing import written

__all__ = [
    "alpha_dropout", "dropout", "dropout1d", "dropout2d", "dropout3d", "feature_alpha_dropout",
]  # fmt: skip


def dropout(input: Array, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """Returns x with elements set to zero at random, and the others scaled up for it.

    Args:
        input: a tensor.
        p: the probability of an element to be dropped.
        training: False returns x as it is.
        inplace: whether the result is written to ``input``, which is returned.

    Raises:
        ValueError: ``p`` is not from 0 to 1.
    """
    check_probability(p)
    if not training or p == 0:
        return input
    if p == 1:
        return written(input, input * 0, inplace)
    return written(input, pure.dropout(default_generator.next_key(), input, p), inplace)


def check_probability(p: float) -> None:
    """Raises a ``ValueError`` for what is no probability."""
    if not 0 <= p <= 1:
        raise ValueError(f"dropout: p is a probability, from 0 to 1, not {p}")


def whole_channels(n: int) -> Callable[..., Any]:
    """Returns the dropout of whole channels of images with n spatial axes."""

    def function(input: Array, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
        check_probability(p)
        if not training or p == 0:
            return input
        lengths = input.shape[: input.ndim - n]
        kept = mask_of(input, lengths, p)
        found = input * ops.reshape(kept, (*lengths, *(1,) * n)) / max(1 - p, 1e-30)
        return written(input, found, inplace)

    return with_words(
        function, f"dropout{n}d", "Returns x with whole channels set to zero at random."
    )


dropout1d, dropout2d, dropout3d = map(whole_channels, (1, 2, 3))


def mask_of(input: Array, shape: tuple[int, ...], p: float) -> Any:
    """Returns ones with the probability 1 - p, and zeros, in a tensor's dtype."""
    kept = random.bernoulli(default_generator.next_key(), 1 - p, shape)
    return ops.to_device(ops.astype(kept, input.dtype), input.device)


def alpha_dropout(
    input: Array, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Any:
    """Returns x with elements dropped so that mean and variance stay, for `selu`."""
    check_probability(p)
    if not training or p == 0:
        return input
    return written(input, dropped_to_negative(input, mask_of(input, input.shape, p), p), inplace)


def feature_alpha_dropout(
    input: Array, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Any:
    """Returns x with whole channels dropped as in `alpha_dropout`."""
    check_probability(p)
    if not training or p == 0:
        return input
    shape = (*input.shape[:2], *(1,) * (input.ndim - 2))
    return written(input, dropped_to_negative(input, mask_of(input, shape, p), p), inplace)


def dropped_to_negative(input: Array, kept: Any, p: float) -> Any:
    """Returns x with what is dropped at the lower end of `selu`, then of the old moments."""
    low = -1.7580993408473766
    a = (1 - p + low * low * p * (1 - p)) ** -0.5 if p < 1 else 0.0
    return a * (input * kept + low * (1 - kept)) - a * low * p
