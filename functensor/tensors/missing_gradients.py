"""Gradients of tensors that there may not be, and why there is none."""

from __future__ import annotations

import warnings
from typing import Any

from ..backends.frames import frame_at
from ..primitives.core.bytecode import compares_with_none
from ..primitives.core.errors import MissingGradientWarning, message
from .grad_mode import no_grad
from .resting import receiver_at
from .tape import LeafNode

__all__ = [
    "clear_gradient", "gradient_of", "missing_grad", "missing_reason", "warn_of_missing_grad",
]  # fmt: skip


def gradient_of(x: Any) -> Any:
    """Returns a leaf's gradient, or None without saying why."""
    receiver = receiver_at(x)
    return None if receiver is None else receiver.grad


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


def missing_grad(x: Any, what: str) -> str:
    """Returns the message for a tensor whose ``grad`` is None where it was read or set."""
    fix = "x.retain_grad() before backward()"
    if x.node is None:
        fix = "Tensor(data, requires_grad=True)"
    elif x.is_leaf:
        fix = "compute the loss from it, outside of no_grad()"
    reason = missing_reason(x)
    return message(f".grad of {x.name()} {what}, but it is None: {reason}", fix=fix, number=13)


def warn_of_missing_grad(x: Any) -> None:
    """Warns whoever reads a gradient that is None, unless the program asks for just that."""
    if not compares_with_none(frame_at(2)):
        warnings.warn(missing_grad(x, "was read"), MissingGradientWarning, stacklevel=3)


def clear_gradient(x: Any, set_to_none: bool) -> None:
    """Sets the gradient of a tensor that requires grad to None, or the one that is there to zero.

    Others that hold it, or views of it, see the zeros.
    """
    if set_to_none and type(x.node) is LeafNode:
        x.node.receiver.clear()
        return
    if receiver_at(x) is None:
        return
    kept = None if set_to_none else gradient_of(x)
    if kept is None:
        x.grad = None
        return
    kept.node = None
    with no_grad():
        kept.zero_()
