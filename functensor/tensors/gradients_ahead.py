"""Backward passes whose gradients a plan has computed with the loss: nothing is walked over."""

from __future__ import annotations

from typing import Any

from ..backends.frames import user_line
from ..jitting.recorded_program import GradientsAhead
from ..primitives.core.shape_dtype import REAL
from ..primitives.core.trace import slot
from ..traces.reverse import PROJECTION, Consumed
from .leaf_means import means_of_leaves
from .tape import LeafNode, Receiver, add_totals

__all__ = ["added_gradients_ahead"]


def added_gradients_ahead(loss: Any, *, consume: bool) -> bool:
    """Adds the gradients of a loss to its leaves, and says whether they were there already.

    They are added in no other case than that where the walk would only hand them on: the loss is
    the output of a plan whose operands are leaves, each of them once, and nobody sees the pass.

    Args:
        loss: a tensor.
        consume: whether nodes give up what they saved.
    """
    node = loss.node
    if node is None or node.primitive is not PROJECTION or slot.trace is not None:
        return False
    if not node.parents or means_of_leaves.living():
        return False
    (joint,) = node.parents
    pull = getattr(joint.saved, "run", None)
    if type(pull) is not GradientsAhead or loss._data.size != 1 or loss.dtype.kind not in REAL:
        return False
    gradients = pull.begun_at(node.saved, joint.saved.kept)
    if gradients is None:
        return False
    totals: dict[Receiver, Any] = {}
    for leaf, g in zip(joint.parents, gradients, strict=True):
        if leaf is None:
            continue
        receiver = leaf.receiver if type(leaf) is LeafNode else None
        if type(receiver) is not Receiver or receiver.hooks or receiver in totals or g is None:
            return False
        if g.shape != leaf.shape or g.dtype != leaf.dtype:
            return False
        totals[receiver] = g
    pull.note_taken()
    if consume:
        node.saved = joint.saved = Consumed(user_line())
        node.parents = joint.parents = ()
    add_totals(list(totals.items()))
    return True
