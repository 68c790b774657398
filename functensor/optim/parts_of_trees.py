"""Optimizers of some of the parameters: the others stay, or have optimizers of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from ..backends.errors.public_functions import check_function
from ..primitives.core.array import Array
from ..primitives.core.buffers import wrap
from ..tree import containers as tree
from .argument_order import article, checking_order
from .optimizer import Optimizer, Tree, _column
from .wrapped_states import counted, unknown_loss

__all__ = ["PartitionedState", "frozen", "masked", "partitioned"]


class PartitionedState(NamedTuple):
    """The state of `partitioned`: besides step and loss, the states of its optimizers by label."""

    step: Array
    loss: Array
    parts: dict[str, Any]


def masked(optimizer: Optimizer[Any], mask: Any) -> Optimizer[PartitionedState]:
    """Returns an optimizer of some parameters; the others stay, and nothing is kept for them.

    Args:
        optimizer: a pure optimizer.
        mask: whether a parameter is updated: a tree of booleans, each for a parameter or for all in
            its place, or a function of a parameter's path, such as ``"['layers'][0]"``.

    Returns:
        An `Optimizer` with the state `PartitionedState`.

    Raises:
        ValueError: the mask does not match the parameters.

    >>> import functensor as ft, functensor.numpy as np
    >>> opt = ft.optim.masked(ft.optim.sgd(1.0), {"w": True, "b": False})
    >>> params = {"w": np.array(3.0), "b": np.array(3.0)}
    >>> params, state = opt.update(params, opt.init(params), {"w": 1.0, "b": 1.0})
    >>> float(params["w"]), float(params["b"])
    (2.0, 3.0)
    """
    return _by_labels("masked", {"updated": optimizer}, mask, lambda x: "updated" if x else None)


def frozen(optimizer: Optimizer[Any], mask: Any) -> Optimizer[PartitionedState]:
    """Returns an optimizer of all parameters but some, which stay.

    Args:
        optimizer: a pure optimizer.
        mask: whether a parameter stays: a tree of booleans, each for a parameter or for all in
            its place, or a function of a parameter's path, such as ``"['layers'][0]"``.

    Returns:
        An `Optimizer` with the state `PartitionedState`.

    Raises:
        ValueError: the mask does not match the parameters.

    >>> import functensor as ft, functensor.numpy as np
    >>> opt = ft.optim.frozen(ft.optim.sgd(1.0), lambda path: "b" in path)
    >>> params = {"w": np.array(3.0), "b": np.array(3.0)}
    >>> params, state = opt.update(params, opt.init(params), {"w": 1.0, "b": 1.0})
    >>> float(params["w"]), float(params["b"])
    (2.0, 3.0)
    """
    return _by_labels("frozen", {"updated": optimizer}, mask, lambda x: None if x else "updated")


def partitioned(
    optimizers: Mapping[str, Optimizer[Any] | None], labels: Any
) -> Optimizer[PartitionedState]:
    """Returns an optimizer that has others for groups of parameters.

    Args:
        optimizers: a pure optimizer for each label, or None for parameters that stay.
        labels: a tree of labels, each for a parameter or for all in its place, or a function of a
            parameter's path, such as ``"['layers'][0]"``.

    Returns:
        An `Optimizer` with the state `PartitionedState`.

    Raises:
        ValueError: a label is unknown, or labels do not match the parameters.

    >>> import functensor as ft, functensor.numpy as np
    >>> def label(path):
    ...     return "bias" if path.endswith("['b']") else "weight"
    >>> rules = {"weight": ft.optim.adamw(0.1), "bias": ft.optim.sgd(1.0)}
    >>> opt = ft.optim.partitioned(rules, label)
    >>> params = {"w": np.array(0.0), "b": np.array(0.0)}
    >>> params, state = opt.update(params, opt.init(params), {"w": 5.0, "b": 5.0})
    >>> round(float(params["w"]), 6), float(params["b"])
    (-0.1, -5.0)
    """
    return _by_labels("partitioned", optimizers, labels, lambda label: label)


def _by_labels(
    name: str,
    optimizers: Mapping[str, Optimizer[Any] | None],
    labels: Any,
    meaning: Callable[[Any], str | None],
) -> Optimizer[PartitionedState]:
    """Returns the optimizer of groups; a label's meaning is None where parameters stay."""
    for optimizer in optimizers.values():
        if optimizer is not None and not isinstance(optimizer, Optimizer):
            raise TypeError(f"{name}: {article(type(optimizer).__name__)} is no optimizer")
    if labels is None:
        check_function(name, labels, "mask" if name != "partitioned" else "labels")

    def places(params: object) -> dict[str, list[int]]:
        """Returns the numbers of the leaves of every optimizer."""
        with_path = tree.leaves_with_path(params)
        if callable(labels):
            given = [labels(tree.keystr(path)) for path, _ in with_path]
        else:
            try:
                given = tree.broadcast_prefix(labels, params)
            except ValueError as error:
                raise ValueError(f"{name}: labels match the parameters: {error}") from None
        found: dict[str, list[int]] = {k: [] for k, v in optimizers.items() if v is not None}
        for i, ((path, _), x) in enumerate(zip(with_path, given, strict=True)):
            label = meaning(x)
            if label in found:
                found[label].append(i)
            elif label is not None and label not in optimizers:
                raise ValueError(
                    f"{name}: params{tree.keystr(path)} has the label {label!r}; "
                    f"there are optimizers for {', '.join(map(repr, optimizers))}"
                )
        return found

    def init(params: object) -> PartitionedState:
        leaves = tree.leaves(params)
        parts = {}
        for label, members in places(params).items():
            parts[label] = _known(optimizers, label).init([leaves[i] for i in members])
        losses = [part.loss for part in parts.values()]
        loss = unknown_loss(*losses) if losses else wrap(np.full((), np.nan, np.float32))
        return PartitionedState(wrap(np.int64(0)), loss, parts)

    def update(
        params: Tree, state: PartitionedState, grads: Tree
    ) -> tuple[Tree, PartitionedState]:
        leaves, treedef = tree.flatten(params)
        gradients = _column(name, params, treedef, grads)
        after, parts = list(leaves), {}
        for label, members in places(params).items():
            own = [[column[i] for i in members] for column in (leaves, gradients)]
            moved, part = _known(optimizers, label).update(own[0], state.parts[label], own[1])
            parts[label] = part
            for i, x in zip(members, moved, strict=True):
                after[i] = x
        return treedef.unflatten(after), PartitionedState(counted(state.step), state.loss, parts)

    reaches = {part.reach for part in optimizers.values() if part is not None}
    return Optimizer(
        name,
        *checking_order(name, init, update, PartitionedState),
        reach=reaches.pop() if len(reaches) == 1 else "unknown",
    )


def _known(optimizers: Mapping[str, Optimizer[Any] | None], label: str) -> Optimizer[Any]:
    found = optimizers[label]
    assert found is not None
    return found
