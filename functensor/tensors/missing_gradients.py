"""Gradients of tensors that there may not be, and why there is none."""

from __future__ import annotations

from typing import Any

from .tape import LeafNode, receiver_of

__all__ = ["gradient_of", "missing_reason"]


def gradient_of(x: Any) -> Any:
    """Returns a leaf's gradient, or None without saying why."""
    return None if x.node is None else receiver_of(x.node).grad


def missing_reason(x: Any) -> str:
    """Returns why a tensor has no gradient."""
    if x.node is None:
        return "its requires_grad is False"
    if not isinstance(x.node, LeafNode):
        return f"it is not a leaf, it was computed by {x.grad_fn!r}"
    return (
        "no backward() has reached it since its gradient was last cleared: there is no path to it "
        "from the loss, or backward() was not called"
    )
