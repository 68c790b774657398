"""Norms of weights in PyTorch's older way: hooks compute a weight before each call of a module."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....tensors import no_grad
from ...random_tensors import randn
from ..functional import normalize
from ..parameter import Parameter
from .parametrizations import (
    WeightNorm,
    as_matrix,
    check_steps,
    default_axis,
    power_steps,
    tensor_under_name,
)

__all__ = ["remove_spectral_norm", "remove_weight_norm", "spectral_norm", "weight_norm"]


class WeightHook:
    """A hook that computes a weight before each call of a module.

    Attributes:
        name: of the weight.
    """

    name: str

    def compute(self, module: Any, training: bool) -> Any:
        """Returns the weight."""
        raise NotImplementedError

    def __call__(self, module: Any, args: Any) -> None:
        setattr(module, self.name, self.compute(module, module.training))


class NormHook(WeightHook):
    """Computes a weight of norms and directions."""

    def __init__(self, name: str, dim: int | None) -> None:
        self.name = name
        self.norm = WeightNorm(dim)

    def compute(self, module: Any, training: bool) -> Any:
        """Returns directions with other norms."""
        g, v = getattr(module, self.name + "_g"), getattr(module, self.name + "_v")
        return self.norm.forward(g, v)


class SpectralHook(WeightHook):
    """Divides a weight by its largest singular value, which a power iteration finds."""

    def __init__(self, name: str, steps: int, eps: float, dim: int) -> None:
        self.name, self.steps, self.eps, self.dim = name, steps, eps, dim

    def compute(self, module: Any, training: bool) -> Any:
        """Returns a weight of norm 1; in training the vectors are improved."""
        weight = getattr(module, self.name + "_orig")
        u, v = getattr(module, self.name + "_u"), getattr(module, self.name + "_v")
        matrix = as_matrix(weight, self.dim)
        if training:
            with no_grad():
                # The other vector is the first here: its matrix is the adjoint.
                power_steps(matrix.detach().mH, v, u, self.steps, self.eps)
            # Copies, since the next call writes to the vectors.
            u, v = u.clone(), v.clone()
        return weight / (u @ (matrix @ v))


def weight_norm(module: Any, name: str = "weight", dim: int | None = 0) -> Any:
    """Lets a weight be computed of norms, ``NAME_g``, and directions, ``NAME_v``.

    `torch.nn.utils.parametrizations.weight_norm` is the newer way.

    Args:
        module: has the weight.
        name: its name.
        dim: the axis whose places each have a norm; None for one norm of all elements.

    Returns:
        The module.

    Raises:
        RuntimeError: the weight is normed already.

    >>> import functensor.torch as torch
    >>> layer = torch.nn.utils.weight_norm(torch.nn.Linear(4, 2))
    >>> sorted(name for name, _ in layer.named_parameters())
    ['bias', 'weight_g', 'weight_v']
    """
    if any(type(hook) is NormHook and hook.name == name for hook in hooks_of(module)):
        raise RuntimeError(f"weight_norm: {name!r} of {type(module).__name__} is normed already")
    weight = tensor_under_name(module, name, "weight_norm")
    made = NormHook(name, dim)
    with no_grad():
        norms, directions = made.norm.right_inverse(weight.detach())
    del module._parameters[name]
    module.register_parameter(name + "_g", Parameter(norms))
    module.register_parameter(name + "_v", Parameter(directions))
    setattr(module, name, made.compute(module, False))
    module.register_forward_pre_hook(made)
    return module


def remove_weight_norm(module: Any, name: str = "weight") -> Any:
    """Ends `weight_norm`: the weight is a parameter of its own again.

    Raises:
        ValueError: the weight is not normed.
    """
    return without_hook(module, name, NormHook, ("_g", "_v"), "weight_norm")


def spectral_norm(
    module: Any,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> Any:
    """Lets a weight be divided by its largest singular value before each call.

    `torch.nn.utils.parametrizations.spectral_norm` is the newer way.

    Args:
        module: has the weight.
        name: its name.
        n_power_iterations: how many steps of the power iteration each call makes in training.
        eps: the least norm that vectors are divided by.
        dim: the axis of the outputs; by default 1 of transposed convolutions, else 0.

    Returns:
        The module, whose parameter is ``NAME_orig`` from now on.

    Raises:
        RuntimeError: the weight is normed already.

    >>> import functensor.torch as torch
    >>> layer = torch.nn.utils.spectral_norm(torch.nn.Linear(4, 2))
    >>> sorted(layer.state_dict())
    ['bias', 'weight_orig', 'weight_u', 'weight_v']
    """
    if any(type(hook) is SpectralHook and hook.name == name for hook in hooks_of(module)):
        raise RuntimeError(f"spectral_norm: {name!r} of {type(module).__name__} is normed already")
    check_steps(n_power_iterations)
    weight = tensor_under_name(module, name, "spectral_norm")
    made = SpectralHook(
        name, n_power_iterations, eps, default_axis(module) if dim is None else dim
    )
    matrix = as_matrix(weight.detach(), made.dim)
    del module._parameters[name]
    module.register_parameter(name + "_orig", weight)
    setattr(module, name, weight.detach())
    for end, size in zip(("_u", "_v"), matrix.shape, strict=True):
        start = randn(size, dtype=weight.dtype, device=weight.device)
        module.register_buffer(name + end, normalize(start, dim=0, eps=eps))
    module.register_forward_pre_hook(made)
    return module


def remove_spectral_norm(module: Any, name: str = "weight") -> Any:
    """Ends `spectral_norm`: the weight that it has now is a parameter again.

    Raises:
        ValueError: the weight is not normed.
    """
    return without_hook(module, name, SpectralHook, ("_orig", "_u", "_v"), "spectral_norm")


def hooks_of(module: Any) -> list[Callable[..., Any]]:
    """Returns the hooks before the calls of a module."""
    return list(module._forward_pre_hooks.values())


def without_hook(module: Any, name: str, kind: Any, ends: tuple[str, ...], what: str) -> Any:
    """Returns a module without the hook of a kind, and with a weight that is a parameter."""
    for number, hook in list(module._forward_pre_hooks.items()):
        if type(hook) is kind and hook.name == name:
            with no_grad():
                weight = hook.compute(module, False)
            del module._forward_pre_hooks[number]
            delattr(module, name)
            for end in ends:
                delattr(module, name + end)
            module.register_parameter(name, Parameter(weight.detach()))
            return module
    raise ValueError(f"remove_{what}: {name!r} of {type(module).__name__} has no {what}")
