"""Derivatives of functions of tensors, by PyTorch's names and in its structures.

A Jacobian is computed by one vectorised pass for each output, and element by element where it is
recorded with ``create_graph=True``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from ...backends.errors.public_functions import check_function
from ...faces.publish import publish
from ...primitives.core.buffers import beside, to_buffer
from ...primitives.core.registry import registry as ops
from ...tensors.grad_mode import GradMode, is_grad_enabled
from ...tensors.tape import TAPE
from ...tensors.tensor import Tensor
from .graphs import grad, zeros

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]

Tensors = Tensor | Sequence[Tensor]


def ran(
    func: Callable[..., Any], inputs: Tensors, create_graph: bool
) -> tuple[list[Tensor], list[Tensor], bool, bool]:
    """Returns inputs that require grad and the outputs, and whether there may be several of each.

    Inputs are the tensors themselves where a graph is to go through them.
    """
    given = [inputs] if isinstance(inputs, Tensor) else list(inputs)
    with GradMode(True):
        if create_graph and is_grad_enabled():
            used = [ops.positive(x) if x.requires_grad else fresh_leaf(x) for x in given]
        else:
            used = [fresh_leaf(x) for x in given]
        out = func(*used)
    outs = [out] if isinstance(out, Tensor) else list(out)
    for i, x in enumerate(outs):
        if not isinstance(x, Tensor):
            raise TypeError(f"the function returned {type(x).__name__} as output {i}, not a tensor")
    return used, outs, not isinstance(inputs, Tensor), not isinstance(out, Tensor)


def fresh_leaf(x: Tensor) -> Tensor:
    """Returns a leaf of a tensor's value that requires grad."""
    return x.detach().requires_grad_()


def by_inputs(
    out: Tensor, inputs: Sequence[Tensor], g: Tensor | None, create_graph: bool, strict: bool
) -> list[Tensor]:
    """Returns the gradients of an output by all inputs; zeros where there is no path."""
    if out.node is None:
        check_path(strict)
        return [zeros(x, ()) for x in inputs]
    found = grad(
        out, inputs, g, retain_graph=True, create_graph=create_graph, allow_unused=True
    )
    if any(x is None for x in found):
        check_path(strict)
    return [zeros(x, ()) if got is None else got for x, got in zip(inputs, found)]


def check_path(strict: bool) -> None:
    """Raises an error where an output does not depend on an input, and that is not allowed."""
    if strict:
        raise RuntimeError("an output does not depend on an input, and strict=True was given")


def jacobian(
    func: Callable[..., Any],
    inputs: Tensors,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """Returns the derivatives of all elements of outputs by all elements of inputs.

    Args:
        func: takes the inputs and returns a tensor or a tuple.
        inputs: a tensor or a tuple.
        create_graph: whether the result has a graph itself.
        strict: whether an output that does not depend on an input is an error.
        vectorize: has no effect: passes are vectorised unless they are recorded.
        strategy: ``"reverse-mode"``; for the other one use `functensor.jacfwd`.

    Returns:
        A tensor of shape ``(*output.shape, *input.shape)``; a tuple over inputs where these are a
        tuple, within one over outputs where those are.

    >>> import functensor.torch as torch
    >>> torch.autograd.functional.jacobian(lambda x: x**2, torch.tensor([1.0, 2.0])).tolist()
    [[2.0, 0.0], [0.0, 4.0]]
    """
    if strategy != "reverse-mode":
        raise ValueError(f"jacobian: strategy={strategy!r} is not supported; ft.jacfwd(func)(x) is")
    check_function("jacobian", func, "func")
    used, outs, several_in, several_out = ran(func, inputs, create_graph)
    rows = []
    for out in outs:
        if out.dtype.kind == "c":
            raise RuntimeError(
                "jacobian: an output is complex; give out.real and out.imag as two outputs"
            )
        if out.node is None:
            check_path(strict)
            found: Any = [zeros(x, out.shape) for x in used]
        elif create_graph:
            elements = [
                by_inputs(x, used, None, True, strict) for x in out.reshape(-1)
            ]
            found = [
                ops.stack([element[i] for element in elements]).reshape(*out.shape, *x.shape)
                if elements
                else zeros(x, out.shape)
                for i, x in enumerate(used)
            ]
        else:
            found = vectorised(out, used, strict)
        rows.append(tuple(found) if several_in else found[0])
    return tuple(rows) if several_out else rows[0]


def vectorised(out: Tensor, inputs: Sequence[Tensor], strict: bool) -> list[Tensor]:
    """Returns the Jacobian of an output by all inputs, by one pass for all of its elements."""
    size = prod(out.shape)
    if not size:
        return [zeros(x, out.shape) for x in inputs]
    basis = beside(out, np.eye(size, dtype=out.dtype).reshape(size, *out.shape))
    found = grad(
        out, inputs, TAPE.wrap(to_buffer(basis), None), retain_graph=True, allow_unused=True,
        is_grads_batched=True,
    )  # fmt: skip
    if any(x is None for x in found):
        check_path(strict)
    return [
        zeros(x, out.shape) if got is None else got.reshape(*out.shape, *x.shape)
        for x, got in zip(inputs, found)
    ]


def hessian(
    func: Callable[..., Any],
    inputs: Tensors,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """Returns the second derivatives of a scalar function; arguments as for `jacobian`.

    >>> import functensor.torch as torch
    >>> torch.autograd.functional.hessian(lambda x: (x**3).sum(), torch.tensor([1.0, 2.0])).tolist()
    [[6.0, 0.0], [0.0, 12.0]]
    """
    check_function("hessian", func, "func")

    def first(*some: Tensor) -> Any:
        found = jacobian(scalar_of(func), some, create_graph=True, strict=strict)
        return found if not isinstance(inputs, Tensor) else found[0]

    return jacobian(first, inputs, create_graph, strict, vectorize, outer_jacobian_strategy)


def scalar_of(func: Callable[..., Any]) -> Callable[..., Tensor]:
    """Returns a function whose result is checked to be one number."""

    def scalar(*some: Tensor) -> Tensor:
        out = func(*some)
        if not isinstance(out, Tensor) or prod(out.shape) != 1:
            raise RuntimeError("the function has to return a tensor of one element")
        number: Tensor = out.reshape(())
        return number

    return scalar


def vjp(
    func: Callable[..., Any],
    inputs: Tensors,
    v: Tensors | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """Returns a function's value, and the product of a vector with its Jacobian.

    Args:
        func, inputs, create_graph, strict: as for `jacobian`.
        v: of the shape of the output, or of each; may be left out for one of one element.
    """
    check_function("vjp", func, "func")
    used, outs, several_in, several_out = ran(func, inputs, create_graph)
    vectors = vectors_for(outs, v)
    total = [zeros(x, ()) for x in used]
    for out, g in zip(outs, vectors):
        found = by_inputs(out, used, g, create_graph, strict)
        total = [x + y for x, y in zip(total, found)]
    results = outs if create_graph else [x.detach() for x in outs]
    return shaped(results, several_out), shaped(total, several_in)


def jvp(
    func: Callable[..., Any],
    inputs: Tensors,
    v: Tensors | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """Returns a function's value, and the product of its Jacobian with a vector.

    The way back is linear in its cotangent; differentiated by that it gives the product, as J.
    Townsend has shown ("A new trick for calculating Jacobian vector products", 2017).

    Args:
        func, inputs, create_graph, strict: as for `jacobian`.
        v: of the shape of the input, or of each; may be left out for one of one element.
    """
    check_function("jvp", func, "func")
    used, outs, _, several_out = ran(func, inputs, create_graph)
    vectors = vectors_for(used, v)
    products = []
    for out in outs:
        with GradMode(True):
            dummy = zeros(out, ()).requires_grad_()
            pulled = by_inputs(out, used, dummy, True, strict)
            total: Any = sum((x * y).sum() for x, y in zip(pulled, vectors))
        products.append(by_inputs(total, [dummy], None, create_graph, False)[0])
    results = outs if create_graph else [x.detach() for x in outs]
    return shaped(results, several_out), shaped(products, several_out)


def vhp(
    func: Callable[..., Any],
    inputs: Tensors,
    v: Tensors | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """Returns a scalar function's value, and the product of a vector with its Hessian."""
    check_function("vhp", func, "func")
    used, outs, several_in, _ = ran(scalar_of(func), inputs, create_graph)
    vectors = vectors_for(used, v)
    with GradMode(True):
        first = by_inputs(outs[0], used, None, True, strict)
        total: Any = sum((x * y).sum() for x, y in zip(first, vectors))
    found = by_inputs(total, used, None, create_graph, strict)
    return outs[0] if create_graph else outs[0].detach(), shaped(found, several_in)


def hvp(
    func: Callable[..., Any],
    inputs: Tensors,
    v: Tensors | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """Returns a scalar function's value, and the product of its Hessian with a vector.

    The Hessian is symmetric: it is the same as `vhp`.
    """
    check_function("hvp", func, "func")
    return vhp(func, inputs, v, create_graph, strict)


def vectors_for(tensors: Sequence[Tensor], v: Tensors | None) -> list[Tensor]:
    """Returns a vector of the shape of each tensor.

    Raises:
        RuntimeError: a shape is another one, or none was given and there is not just one number.
    """
    if v is None:
        if len(tensors) != 1 or prod(tensors[0].shape) != 1:
            raise RuntimeError("v may be left out for one tensor of one element alone")
        return [zeros(tensors[0], ()) + 1]
    given = [v] if isinstance(v, Tensor) else list(v)
    if [x.shape for x in given] != [x.shape for x in tensors]:
        raise RuntimeError(
            f"v has the shapes {[x.shape for x in given]}, not {[x.shape for x in tensors]}"
        )
    return given


def shaped(tensors: Sequence[Tensor], several: bool) -> Any:
    """Returns a tuple of tensors, or the only one."""
    return tuple(tensors) if several else tensors[0]


publish(globals())
