"""Gradients over the graphs of tensors, by PyTorch's names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...primitives.core.buffers import beside, to_buffer, wrap
from ...primitives.core.errors import BackwardError, failure
from ...tensors.graphs import gradients, node_of, run_backward
from ...tensors.recorded_backward import chosen_gradients
from ...tensors.tape import TAPE, turned
from ...tensors.tensor import Tensor
from ...transforms.vmap import vmap

__all__ = ["backward", "grad"]


def backward(
    tensors: Tensor | Sequence[Tensor],
    grad_tensors: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Tensor | Sequence[Tensor] | None = None,
) -> None:
    """Adds the gradients of the sum of tensors to the ``grad`` of the leaves.

    Args:
        tensors: one tensor or several.
        grad_tensors: for each the gradient by it, of its shape; None for 1.
        retain_graph, create_graph, inputs: as `Tensor.backward` takes them.

    Raises:
        BackwardError: a tensor has no graph, or an earlier pass has used it up.
        NonScalarOutputError: a tensor has no gradient here, and more than one element.

    >>> import functensor.torch as torch
    >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
    >>> torch.autograd.backward([(x * x).sum(), x.sum()])
    >>> x.grad.tolist()
    [3.0, 5.0]
    """
    several = sequence(tensors)
    run_backward(
        several, given_for(several, grad_tensors), retain_graph, create_graph, inputs,
        "torch.autograd.backward",
    )  # fmt: skip


def grad(
    outputs: Tensor | Sequence[Tensor],
    inputs: Tensor | Sequence[Tensor],
    grad_outputs: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Tensor | None, ...]:
    """Returns the gradients of the sum of outputs by inputs, and changes no ``grad``.

    Args:
        outputs, inputs: one tensor or several; inputs need be no leaves.
        grad_outputs: for each output the gradient by it, of its shape; None for 1.
        retain_graph: keep what the graph holds for another pass; by default as ``create_graph``.
        create_graph: record the pass, so that the gradients have a graph themselves.
        only_inputs: True; PyTorch takes nothing else.
        allow_unused: give None for an input that no output depends on, and do not raise; by
            default as ``materialize_grads``.
        is_grads_batched: whether each of ``grad_outputs`` has an axis in front, over which the
            pass is vectorised; not together with ``create_graph``.
        materialize_grads: give zeros for such inputs.

    Returns:
        A tuple with the gradient by each input.

    Raises:
        BackwardError: an input is not in the graph, or there is none.
        NonScalarOutputError: an output has no gradient here, and more than one element.

    >>> import functensor.torch as torch
    >>> x = torch.tensor(3.0, requires_grad=True)
    >>> (first,) = torch.autograd.grad(x**3, x, create_graph=True)
    >>> (second,) = torch.autograd.grad(first, x)
    >>> first.item(), second.item()
    (27.0, 18.0)
    """
    if not only_inputs:
        raise ValueError("torch.autograd.grad: only_inputs=False is not supported; call backward()")
    if allow_unused is False and materialize_grads:
        raise ValueError("materialize_grads=True gives zeros for unused inputs: leave allow_unused")
    tensors, wanted = sequence(outputs), sequence(inputs)
    given = given_for(tensors, grad_outputs)
    if is_grads_batched:
        found = batched_gradients(tensors, wanted, given, retain_graph, create_graph)
    else:
        found = gradients(
            tensors, wanted, given, retain_graph, create_graph, "torch.autograd.grad"
        )
    unused = [i for i, g in enumerate(found) if g is None]
    if materialize_grads:
        rows = given[0].shape[:1] if is_grads_batched else ()
        return tuple([zeros(x, rows) if g is None else g for x, g in zip(wanted, found)])
    if unused and not allow_unused:
        raise failure(
            BackwardError,
            f"torch.autograd.grad: input {unused[0]} ({wanted[unused[0]].name()}) is not in the "
            "graph of the outputs",
            fix="allow_unused=True gives None for it, materialize_grads=True zeros",
        )
    return tuple(found)


def zeros(x: Tensor, rows: tuple[int, ...]) -> Tensor:
    """Returns zeros of a tensor's shape, behind the axes of batches."""
    return TAPE.wrap(to_buffer(beside(x, np.zeros((*rows, *x.shape), x.dtype))), None)  # type: ignore[no-any-return]


def batched_gradients(
    outputs: Sequence[Tensor],
    inputs: Sequence[Tensor],
    given: Sequence[Any],
    retain_graph: bool | None,
    create_graph: bool,
) -> list[Tensor | None]:
    """Returns the gradients for each entry of gradients by the outputs, by one vectorised pass."""
    what = "torch.autograd.grad"
    if create_graph:
        raise ValueError(
            f"{what}: is_grads_batched=True with create_graph=True is not supported; "
            "ft.vmap(ft.vjp(f, x)[1])(gs) does the same, and differentiates"
        )
    for x, g in zip(outputs, given):
        if g is None or g.shape[1:] != x.shape or not g.shape:
            raise ValueError(
                f"{what}: is_grads_batched=True takes grad_outputs with an axis in front of "
                f"{x.shape}, not {'None' if g is None else g.shape}"
            )
    nodes = [node_of(x, what) for x in outputs]
    wanted = [node_of(x, what) for x in inputs]
    places: list[int] = []

    def pull(*gs: Any) -> list[Any]:
        roots = list(zip(nodes, gs, strict=True))
        found = chosen_gradients(roots, wanted, record=False, consume=not retain_graph)
        places[:] = [i for i, node in enumerate(wanted) if node in found]
        return [found[wanted[i]] for i in places]

    some = vmap(pull)(*[wrap(turned(to_buffer(g.detach()))) for g in given])
    out: list[Tensor | None] = [None] * len(wanted)
    for i, g in zip(places, some, strict=True):
        out[i] = TAPE.wrap(turned(to_buffer(g)), None)
    return out


def sequence(tensors: Tensor | Sequence[Tensor]) -> list[Tensor]:
    """Returns one tensor or several as a list."""
    return [tensors] if isinstance(tensors, Tensor) else list(tensors)


def given_for(tensors: Sequence[Tensor], given: Any) -> list[Any]:
    """Returns a gradient or None for each tensor.

    Raises:
        ValueError: there is another number of them.
    """
    if given is None:
        return [None] * len(tensors)
    found = [given] if isinstance(given, Tensor) else list(given)
    if len(found) != len(tensors):
        raise ValueError(f"got {len(tensors)} tensors and {len(found)} gradients for them")
    return found
