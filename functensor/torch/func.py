"""Transformations by PyTorch's names, and modules as functions of their parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import update_wrapper
from typing import Any

from ..backends.errors.words import WRAPPER_CODES
from ..faces.publish import publish
from ..functions.wrapping import transformed
from ..primitives.core.registry import registry as ops
from ..random.generator import default_generator, drawing_from, sharing_draws
from ..random.keys import split
from ..tensors.tape import turned
from ..transforms.grad import value_and_grad
from ..transforms.grad import vjp as vjp_of
from ..transforms.jacobian import hessian as hessian_of
from ..transforms.jacobian import jacfwd as jacfwd_of
from ..transforms.jacobian import jacrev as jacrev_of
from ..transforms.jvp import jvp as jvp_of
from ..transforms.jvp import linearize as linearize_of
from ..transforms.vmap import vmap as vmap_of
from ..tree import containers as tree
from ..tree import map as map_tree
from .given_values import argument_places, called_with
from .nn.module import Module

__all__ = [
    "functional_call", "grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp", "linearize",
    "stack_module_state", "vjp", "vmap",
]  # fmt: skip


def functional_call(
    module: Module,
    parameter_and_buffer_dicts: Mapping[str, Any] | Sequence[Mapping[str, Any]],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Calls a module with other values in place of its parameters and buffers.

    So a module is a function of its parameters, for `functensor.grad`, ``vmap`` and ``jit``.
    Buffers that are not given are the module's own; in training they cannot be written to where
    they are arguments of a transformation.

    Args:
        module: the module.
        parameter_and_buffer_dicts: tensors by the names of `Module.named_parameters`; or several
            dictionaries.
        args: the arguments, a tuple or one that is none.
        kwargs: keywords.
        tie_weights: no effect: a parameter with two names has one value.
        strict: whether a value must be given for all parameters and buffers.

    Returns:
        What the module returns.

    Raises:
        RuntimeError: the module has no such parameter, or with ``strict`` one is missing.

    >>> import functensor as ft, functensor.torch as torch
    >>> layer = torch.nn.Linear(2, 1)
    >>> params = {name: p.detach() for name, p in layer.named_parameters()}
    >>> def loss(params, x):
    ...     return torch.func.functional_call(layer, params, (x,)).sum()
    >>> ft.grad(loss)(params, torch.ones(3, 2))["weight"].tolist()
    [[3.0, 3.0]]
    """
    dicts = parameter_and_buffer_dicts
    several_dicts = [dicts] if isinstance(dicts, Mapping) else dicts
    given = {name: value for each in several_dicts for name, value in each.items()}
    several = () if args is None else args if isinstance(args, tuple) else (args,)
    places = argument_places(module)
    unknown = [name for name in given if name not in places]
    missing = [name for name in places if name not in given] if strict else []
    if unknown or missing:
        words = [f"it has no {name!r}" for name in unknown] + [f"{n!r} is missing" for n in missing]
        raise RuntimeError(f"functional_call of {type(module).__name__}: " + ", ".join(words))
    return called_with(places, given, lambda: module(*several, **(kwargs or {})))


def stack_module_state(models: Sequence[Module]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns parameters and buffers of modules of one kind, stacked, for `vmap` over them."""
    parameters: dict[str, Any] = {
        name: ops.stack([dict(m.named_parameters())[name].detach() for m in models])
        for name, _ in models[0].named_parameters()
    }
    buffers: dict[str, Any] = {
        name: ops.stack([dict(m.named_buffers())[name] for m in models])
        for name, _ in models[0].named_buffers()
    }
    for x in parameters.values():
        x.requires_grad_()
    return parameters, buffers


def grad(func: Callable[..., Any], argnums: Any = 0, has_aux: bool = False) -> Callable[..., Any]:
    """Returns the function that gives gradients; see `functensor.grad`.

    Complex gradients are conjugates of that function's, as everywhere in PyTorch.
    """
    both = grad_and_value(func, argnums, has_aux)

    def gradient(*args: Any, **kwargs: Any) -> Any:
        found, value = both(*args, **kwargs)
        return (found, value[1]) if has_aux else found

    return transformed(gradient, func, grad, func, argnums, has_aux)


def grad_and_value(
    func: Callable[..., Any], argnums: Any = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """Returns the function that gives gradients, and then the value."""
    both = value_and_grad(func, argnums, has_aux=has_aux)

    def gradient_first(*args: Any, **kwargs: Any) -> Any:
        value, found = both(*args, **kwargs)
        return map_tree(turned, found), value

    return transformed(gradient_first, func, grad_and_value, func, argnums, has_aux)


def vmap(
    func: Callable[..., Any], in_dims: Any = 0, out_dims: Any = 0, randomness: str = "error", *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:  # fmt: skip
    """Returns the function over an axis of its arguments; see `functensor.vmap`.

    Args:
        func: the function.
        in_dims, out_dims: the axes, as ``in_axes`` and ``out_axes`` of `functensor.vmap`.
        randomness: ``"error"`` where a draw of a generator is one, ``"same"`` where it is to be the
            same for all examples, ``"different"`` where each has its own.
        chunk_size: no effect: all examples are computed at once.

    Returns:
        A function of the same arguments with the additional axes. All examples share keyword
        arguments, as in PyTorch; `functensor.vmap` maps over them.

    Raises:
        ValueError: ``randomness`` is another word.

    >>> import functensor.torch as torch
    >>> scaled = torch.func.vmap(lambda x, scale: (x * scale).sum())
    >>> scaled(torch.ones(3, 2), scale=torch.tensor([2.0, 3.0])).tolist()
    [5.0, 5.0, 5.0]
    """
    if randomness not in ("error", "same", "different"):
        raise ValueError(f"vmap: randomness is 'error', 'same' or 'different', not {randomness!r}")
    if randomness == "different":
        return drawing_for_each(func, in_dims, out_dims)
    one = sharing_draws(func) if randomness == "same" else func
    without_keywords = vmap_of(one, in_axes=in_dims, out_axes=out_dims)

    def mapped(*args: Any, **kwargs: Any) -> Any:
        if not kwargs:
            return without_keywords(*args)
        return vmap_of(sharing_keywords(one, kwargs), in_dims, out_dims)(*args)

    return transformed(mapped, func, vmap, func, in_dims, out_dims, randomness)


def sharing_keywords(func: Callable[..., Any], kwargs: dict[str, Any]) -> Callable[..., Any]:
    """Returns a function of positional arguments, which calls another with keywords too."""

    def called(*args: Any) -> Any:
        return func(*args, **kwargs)

    WRAPPER_CODES.add(called.__code__)
    return update_wrapper(called, func)


def drawing_for_each(func: Callable[..., Any], in_dims: Any, out_dims: Any) -> Callable[..., Any]:
    """Returns the function over an axis of its arguments, which draws anew for each example."""

    def mapped(*args: Any, **kwargs: Any) -> Any:
        several = in_dims if isinstance(in_dims, tuple | list) else (in_dims,) * len(args)
        axes = tree.broadcast_prefix(tuple(several), args, lambda dim: dim is None)
        rows = [x.shape[dim] for x, dim in zip(tree.leaves(args), axes) if dim is not None]
        key = default_generator.next_key()
        keys = split(key, rows[0]) if rows else key
        first = 0 if rows else None
        drawing = sharing_draws(drawing_from(sharing_keywords(func, kwargs), ignored))
        return vmap_of(drawing, in_axes=(first, *several), out_axes=out_dims)(keys, *args)

    return transformed(mapped, func, vmap, func, in_dims, out_dims, "different")


def ignored() -> None:
    """Does nothing, where draws need not be noted."""


def vjp(func: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """Returns a function's value, and the function that pulls gradients back."""
    out, pull, *aux = vjp_of(func, *primals, has_aux=True) if has_aux else vjp_of(func, *primals)

    def pulled(gradient: Any) -> Any:
        return map_tree(turned, pull(map_tree(turned, gradient)))

    return out, pulled, *aux


def jvp(
    func: Callable[..., Any], primals: Any, tangents: Any, *, strict: bool = False,
    has_aux: bool = False,
) -> Any:  # fmt: skip
    """Returns a function's value, and its derivative in a direction; ``strict`` has no effect.

    With ``has_aux`` the function returns extras too, which come last.
    """
    if has_aux:
        return jvp_of(func, primals, tangents, has_aux=True)
    return jvp_of(func, primals, tangents)


def linearize(func: Callable[..., Any], *primals: Any) -> Any:
    """Returns a function's value, and the function of its derivatives there."""
    return linearize_of(func, *primals)


def jacrev(
    func: Callable[..., Any], argnums: Any = 0, *, has_aux: bool = False,
    chunk_size: int | None = None,
) -> Callable[..., Any]:  # fmt: skip
    """Returns the function that gives Jacobians, row by row; see `functensor.jacrev`.

    Args:
        func: the function.
        argnums: the arguments by which it is derived.
        has_aux: whether it returns extras too.
        chunk_size: how many rows are computed at once.
    """
    return jacrev_of(func, argnums, has_aux=has_aux, chunk_size=chunk_size)


def jacfwd(
    func: Callable[..., Any], argnums: Any = 0, has_aux: bool = False, *, randomness: str = "error"
) -> Callable[..., Any]:
    """Returns the function that gives Jacobians, column by column; see `functensor.jacfwd`.

    Args:
        func: the function.
        argnums: the arguments by which it is derived.
        has_aux: whether it returns extras too.
        randomness: as `vmap` takes it, though no draw is repeated; of no effect.
    """
    return jacfwd_of(func, argnums, has_aux=has_aux)


def hessian(func: Callable[..., Any], argnums: Any = 0) -> Callable[..., Any]:
    """Returns the function that gives second derivatives."""
    return hessian_of(func, argnums)


publish(globals())
