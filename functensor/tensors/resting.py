"""Leaves whose ``requires_grad`` was set to False: they rest, with their gradients and hooks."""

from __future__ import annotations

from typing import Any

from .tape import LeafNode, Receiver, receiver_of

__all__ = ["put_to_rest", "receiver_at", "wake"]


class RestingReceiver(Receiver):
    """The end of a leaf's gradient in earlier graphs while the leaf rests: hooks alone see it.

    Attributes:
        awake: the receiver of the leaf.
    """

    __slots__ = ("awake",)

    def __init__(self, awake: Receiver) -> None:
        super().__init__(keeps=False)
        self.awake = awake

    def shown(self, g: Any) -> Any:
        """Returns a cotangent after all hooks of the leaf have seen its gradient."""
        return self.awake.shown(g)

    def add(self, g: Any) -> None:
        """Drops what a pass brings."""


def receiver_at(x: Any) -> Any:
    """Returns the end of a tensor's gradient, of a leaf that rests too; None if it has none."""
    if x.node is not None:
        return receiver_of(x.node)
    resting = getattr(x, "_resting", None)
    return None if resting is None else resting[1]


def put_to_rest(x: Any) -> None:
    """Lets a tensor require no gradient any more; a leaf keeps the one that it has."""
    if isinstance(x.node, LeafNode):
        x._resting = x.node, x.node.receiver
        x.node.receiver = RestingReceiver(x.node.receiver)
    x.node = None


def wake(x: Any) -> None:
    """Lets a tensor without a graph require a gradient, which is added to that from before."""
    node, receiver = getattr(x, "_resting", None) or (None, None)
    if node is None or (node.shape, node.dtype) != (x.shape, x.dtype):
        node = LeafNode(x._data)
    node.receiver = receiver or node.receiver
    x.node, x._resting = node, None
