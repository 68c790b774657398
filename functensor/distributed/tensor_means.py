"""Means over processes of the gradients that ``backward`` leaves in tensors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..backends.restoring import setting
from ..tensors import Tensor
from ..tensors.leaf_means import means_of_leaves
from ..tensors.tape import turned
from ..traces.forward import zeros_like
from ..traces.reverse import Node
from ..transforms.averaged_gradients import Buckets, Means, first_users
from .broadcasting import broadcast_tensors
from .mesh import mesh

__all__ = ["TensorMeans"]


class TensorMeans:
    """Has backward passes average the gradients of tensors, for as long as the object lives.

    The tensors get the values that they have on the process of rank 0.

    Args:
        tensors: leaves, of which those that require grad get means.
        others: further tensors that are to be the same on all processes at first.
        bucket_bytes: how large a bucket is.
    """

    def __init__(
        self, tensors: Iterable[Tensor], others: Iterable[Tensor], bucket_bytes: int
    ) -> None:
        self._tensors = list(tensors)
        self._means = Means((mesh({"data": -1}).axes["data"],), bucket_bytes)
        self._sends = True
        # Whether gradients of this process alone have been added up.
        self._has_own = False
        broadcast_tensors([*self._tensors, *others])
        if self._means.count > 1:
            means_of_leaves.enter(self.begin)

    def unsent(self) -> setting:
        """Leaves gradients as they are, for the length of a ``with`` block."""
        return setting(self, _sends=False)

    def begin(self, roots: list[Node]) -> LeafPass | None:
        """Returns the means of a backward pass; None where it comes to none of the tensors."""
        nodes = [t.node if t.requires_grad and t.is_leaf else None for t in self._tensors]
        first = first_users(roots, {node for node in nodes if node is not None})
        if not first:
            return None
        if not self._sends:
            self._has_own = True
            return None
        buckets = Buckets(self._means)
        if self._has_own:
            sums = [zeros_like(t._data) if t.grad is None else turned(t.grad._data)
                    for t in self._tensors]  # fmt: skip
            buckets.add(None, sums)
            for t in self._tensors:
                t.grad = None
            self._has_own = False
        buckets.begin([t._data for t in self._tensors], nodes, first)
        return LeafPass(buckets, nodes)


class LeafPass:
    """A backward pass to tensors whose gradients are averaged.

    Args:
        buckets: of their gradients.
        nodes: of the tensors; None of those without a gradient.
    """

    def __init__(self, buckets: Buckets, nodes: list[Any]) -> None:
        self._buckets = buckets
        self._nodes = nodes

    def unwatch(self) -> None:
        """Makes the leaves what they were, and leaves nothing on its way."""
        self._buckets.unwatch()
        self._buckets.let_go()

    def end(self) -> dict[Node, Any]:
        """Returns the means, by leaf."""
        found = zip(self._nodes, self._buckets.end(), strict=True)
        return {node: g for node, g in found if node is not None}
