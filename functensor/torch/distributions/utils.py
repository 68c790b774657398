"""PyTorch's helpers for distributions of a program's own: ``torch.distributions.utils``.

>>> import functensor.torch as torch
>>> from functensor.torch.distributions.utils import broadcast_all, logits_to_probs
>>> [x.shape for x in broadcast_all(torch.ones(3, 1), 2.0)]
[(3, 1), (3, 1)]
>>> logits_to_probs(torch.zeros(2)).tolist()
[0.5, 0.5]
"""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from numbers import Number
from typing import Any

import numpy as np

from ...backends.errors.public_functions import check_function
from ...faces.publish import publish
from ...primitives.core.registry import registry as ops
from ...tensors import Tensor, enable_grad
from ..nn import functional as F
from .distribution import together
from .matrix_transforms import below_diagonal, with_below_diagonal
from .real_line import EULERS_CONSTANT

__all__ = [
    "broadcast_all", "clamp_probs", "euler_constant", "lazy_property", "logits_to_probs",
    "probs_to_logits", "tril_matrix_to_vec", "vec_to_tril_matrix",
]  # fmt: skip

euler_constant = EULERS_CONSTANT
tril_matrix_to_vec, vec_to_tril_matrix = below_diagonal, with_below_diagonal


def broadcast_all(*values: Any) -> tuple[Any, ...]:
    """Returns tensors and numbers as tensors of one shape.

    Raises:
        ValueError: one is neither.
    """
    for x in values:
        if not isinstance(x, Tensor | Number):
            raise ValueError(f"broadcast_all: {type(x).__name__} is neither a tensor nor a number")
    return together(*values)


def clamp_probs(probs: Tensor) -> Any:
    """Returns probabilities that are neither 0 nor 1, but nearly."""
    nearly = np.finfo(probs.dtype).eps
    return ops.clip(probs, nearly, 1 - nearly)


def logits_to_probs(logits: Tensor, is_binary: bool = False) -> Any:
    """Returns the probabilities of logits: of one event each, or of classes on the last axis."""
    return ops.sigmoid(logits) if is_binary else F.softmax(logits, -1)


def probs_to_logits(probs: Tensor, is_binary: bool = False) -> Any:
    """Returns the logits of probabilities: of one event each, or of classes on the last axis."""
    inner = clamp_probs(probs)
    return ops.log(inner) - ops.log1p(-inner) if is_binary else ops.log(inner)


class lazy_property:
    """A property that is computed when it is first read, and kept in the object from then on.

    Args:
        wrapped: the method.
    """

    def __init__(self, wrapped: Callable[[Any], Any]) -> None:
        check_function("lazy_property", wrapped, "wrapped")
        self.wrapped = wrapped
        update_wrapper(self, wrapped)  # type: ignore[arg-type]

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        with enable_grad():
            value = self.wrapped(instance)
        setattr(instance, self.wrapped.__name__, value)
        return value


publish(globals())
