"""Gradients over the graphs of tensors: those that are added up, and those that are returned."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..primitives.core.buffers import beside, to_buffer
from ..primitives.core.errors import (
    BackwardError,
    MissingGradientError,
    NonScalarOutputError,
    failure,
)
from ..primitives.core.shape_dtype import REAL
from ..traces.reverse import Node
from ..transforms.given_cotangents import cotangent_of
from .grad_mode import no_grad
from .gradients_ahead import added_gradients_ahead, gradients_ahead
from .missing_gradients import missing_reason
from .recorded_backward import chosen_gradients
from .tape import TAPE, TapeTrace, add_totals, receiver_of, run_tape_backward, turned
from .tensor import Tensor

__all__ = ["gradients", "run_backward"]


def run_backward(
    tensors: Sequence[Tensor],
    given: Sequence[Any],
    retain_graph: bool | None,
    create_graph: bool,
    inputs: Tensor | Sequence[Tensor] | None,
    what: str,
) -> None:
    """Adds the gradients of tensors to the ``grad`` of leaves, or of chosen tensors.

    Args:
        tensors: the tensors.
        given: for each the gradient by it, or None.
        retain_graph, create_graph, inputs: as `Tensor.backward` takes them.
        what: the name of the pass, for messages.
    """
    consume = not (create_graph if retain_graph is None else retain_graph)
    plain = inputs is None and not create_graph and len(tensors) == 1 and given[0] is None
    if plain and added_gradients_ahead(tensors[0], consume=consume):
        return
    roots = roots_of(tensors, given, create_graph, what)
    named = lambda: f"{what} of {tensors[0].name()}"  # noqa: E731 - messages alone ask for it
    if inputs is None and not create_graph:
        run_tape_backward(roots, consume=consume, named=named)
        return
    chosen = None
    if inputs is not None:
        wanted = [inputs] if isinstance(inputs, Tensor) else list(inputs)
        if not wanted:
            raise ValueError(f"{what} was given no inputs; leave them out for all leaves")
        chosen = {node_of(x, what) for x in wanted}
    found = chosen_gradients(
        roots, chosen, record=create_graph, consume=consume, accumulates=True, named=named
    )
    add_totals([(kept_receiver(node), g) for node, g in found.items()])


def kept_receiver(node: Node) -> Any:
    """Returns the receiver of a node whose tensor is to have a ``grad``."""
    receiver = receiver_of(node, make=True)
    receiver.keeps = True
    return receiver


def gradients(
    outputs: Sequence[Tensor],
    inputs: Sequence[Tensor],
    given: Sequence[Any],
    retain_graph: bool | None,
    create_graph: bool,
    what: str,
) -> list[Tensor | None]:
    """Returns the gradients of the sum of outputs by tensors; None where there is no path.

    Arguments are those of `run_backward`; nothing is added to any ``grad``.
    """
    consume = not (create_graph if retain_graph is None else retain_graph)
    ahead = None
    if not create_graph and len(outputs) == 1 and given[0] is None:
        ahead = gradients_ahead(outputs[0], inputs, consume=consume)
    if ahead is None:
        roots = roots_of(outputs, given, create_graph, what)
        nodes = [node_of(x, what) for x in inputs]
        found = chosen_gradients(
            roots,
            nodes,
            record=create_graph,
            consume=consume,
            named=lambda: f"{what} of {outputs[0].name()}",
        )
        ahead = [found.get(node) for node in nodes]
    gs = list(map(turned, ahead))
    return [g if g is None or isinstance(g, Tensor) else TAPE.wrap(g, None) for g in gs]


def node_of(x: Any, what: str) -> Node:
    """Returns the node of a tensor by which somebody differentiates.

    Raises:
        MissingGradientError: it does not require grad.
    """
    if not isinstance(x, Tensor):
        raise TypeError(f"{what}: an input is of type {type(x).__name__}, not a tensor")
    if x.node is None:
        raise failure(
            MissingGradientError,
            f"{what} by {x.name()}, which will have no gradient: {missing_reason(x)}",
            fix="Tensor(data, requires_grad=True)",
        )
    node: Node = x.node
    return node


def roots_of(
    tensors: Sequence[Tensor], given: Sequence[Any], create_graph: bool, what: str
) -> list[tuple[Node, Any]]:
    """Returns the nodes of tensors and the cotangents of them: buffers, or recorded tensors.

    Raises:
        BackwardError: a tensor has no graph.
        NonScalarOutputError: there is no gradient for one that is not one real number.
    """
    roots = []
    for x, gradient in zip(tensors, given, strict=True):
        if x.node is None:
            raise failure(
                BackwardError,
                f"{what} of {x.name()}: nothing that it was computed from requires "
                "grad, so there is no graph to go back over",
                fix="x = Tensor(data, requires_grad=True) before the loss is computed, "
                "outside of no_grad()",
            )
        if gradient is None and not (x._data.size == 1 and x.dtype.kind in REAL):
            raise failure(
                NonScalarOutputError,
                f"{what} of {x.name()}, which is not one real number",
                fix="loss.sum().backward(), or pass backward() a gradient of that shape",
            )
        if gradient is None:
            g = beside(x, np.ones(x.shape, x.dtype))
        else:
            with no_grad():
                given_by = to_buffer(gradient)
                g = to_buffer(cotangent_of(x._data, given_by, "gradient", "a tensor"))
        if create_graph:
            g = TAPE.wrap(g, getattr(gradient, "node", None))
        roots.append((x.node, turned(g)))
    return roots


TapeTrace.run_backward = staticmethod(run_backward)
