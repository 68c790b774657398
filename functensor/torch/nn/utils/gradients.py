"""Functions over parameters and gradients."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from math import prod

import numpy as np

from ....numpy.linalg.norms import vector_norm
from ....primitives.core.registry import registry as ops
from ....tensors import Tensor, gradient_of, no_grad

__all__ = [
    "clip_grad_norm", "clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_",
    "get_total_norm", "parameters_to_vector", "vector_to_parameters",
]  # fmt: skip


def present_gradients(parameters: Tensor | Iterable[Tensor]) -> list[Tensor]:
    """Returns the gradients that there are."""
    several = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    found = [gradient_of(p) for p in several]
    return [g for g in found if g is not None]


def get_total_norm(
    tensors: Tensor | Iterable[Tensor], norm_type: float = 2.0, error_if_nonfinite: bool = False
) -> Tensor:
    """Returns the norm of all elements of some tensors; no gradient goes through it.

    Raises:
        RuntimeError: it is not finite, and that is an error; or a tensor without elements has no
            norm of this order.
    """
    several = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    if not several:
        return Tensor(0.0)
    order = float(norm_type)
    for x in several:
        if not x.size and (order < 0 or order == float("inf")):
            raise RuntimeError(f"get_total_norm: a tensor without elements has no norm {order}")
    with no_grad():
        norms = ops.stack([vector_norm(x, ord=order) for x in several])
        total = vector_norm(norms, ord=order)
    if error_if_nonfinite and not np.isfinite(total.item()):
        raise RuntimeError(f"the total norm is {total.item()}")
    return total  # type: ignore[no-any-return]


def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scales gradients in place so that their common norm is at most ``max_norm``.

    Args:
        parameters: tensors with gradients.
        max_norm: the limit.
        norm_type: the norm's order; that of order 0 is how many tensors have elements beside 0.
        error_if_nonfinite: whether a norm that is not finite is an error.
        foreach: has no effect.

    Returns:
        The norm as it was.

    >>> import functensor.torch as torch
    >>> x = torch.tensor([3.0, 4.0], requires_grad=True)
    >>> (x * x / 2).sum().backward()
    >>> torch.nn.utils.clip_grad_norm_([x], 1.0).item()
    5.0
    """
    found = present_gradients(parameters)
    with no_grad():
        total = get_total_norm([g.detach() for g in found], norm_type, error_if_nonfinite)
    scale_down(found, max_norm, total)
    return total


def clip_grad_norm(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Does the same as `clip_grad_norm_`, with a warning: the name is older."""
    text = "nn.utils.clip_grad_norm is now deprecated in favor of nn.utils.clip_grad_norm_"
    warnings.warn(text, FutureWarning, stacklevel=3)
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)


def scale_down(gradients: list[Tensor], max_norm: float, total: Tensor) -> None:
    """Scales gradients in place by what brings their norm to at most ``max_norm``."""
    with no_grad():
        factor = ops.minimum(max_norm / (total + 1e-6), 1.0)
        for g in gradients:
            g.mul_(factor)


def clip_grads_with_norm_(
    parameters: Tensor | Iterable[Tensor], max_norm: float, total_norm: Tensor,
    foreach: bool | None = None,
) -> None:  # fmt: skip
    """Scales gradients in place by a norm that is known; see `clip_grad_norm_`."""
    scale_down(present_gradients(parameters), max_norm, total_norm)


def clip_grad_value_(
    parameters: Tensor | Iterable[Tensor], clip_value: float, foreach: bool | None = None
) -> None:
    """Limits the elements of gradients in place to ``[-clip_value, clip_value]``."""
    with no_grad():
        for g in present_gradients(parameters):
            g.clamp_(-clip_value, clip_value)


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """Returns all elements of some tensors as one vector."""
    return ops.concatenate([ops.reshape(x, -1) for x in parameters], 0)  # type: ignore[no-any-return]


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Lets tensors lie in the memory of one vector, one behind the other."""
    start = 0
    for x in parameters:
        count = prod(x.shape)
        x.data = vec[start : start + count].view(x.shape)
        start += count
