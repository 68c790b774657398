"""Backward passes whose gradients a plan has computed with the loss: nothing is walked over.

That is so where the loss is the output of a plan whose operands are leaves, each of them once, and
nobody sees the pass. The walk would only hand on what the plan has computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..backends.frames import user_line
from ..jitting.recorded_program import GradientsAhead
from ..primitives.core.shape_dtype import REAL
from ..primitives.core.trace import slot
from ..traces.consumed import Consumed
from ..traces.reverse import PROJECTION, Node
from .leaf_means import means_of_leaves
from .tape import LeafNode, Receiver, add_totals

__all__ = ["added_gradients_ahead", "gradients_ahead"]


def added_gradients_ahead(loss: Any, *, consume: bool) -> bool:
    """Adds the gradients of a loss to its leaves, and says whether they were there already.

    Args:
        loss: a tensor.
        consume: whether nodes give up what they saved.
    """
    found = computed_gradients(loss)
    if found is None:
        return False
    totals = [(leaf.receiver, g) for leaf, g in found.items() if isinstance(leaf, LeafNode)]
    take_ahead(loss.node, consume)
    add_totals(totals)
    return True


def gradients_ahead(loss: Any, inputs: Sequence[Any], *, consume: bool) -> list[Any] | None:
    """Returns the gradients of a loss by tensors; None where they are not there.

    Args:
        loss: a tensor.
        inputs: the tensors.
        consume: whether nodes give up what they saved.
    """
    found = computed_gradients(loss)
    if found is None:
        return None
    gradients = [found.get(getattr(x, "node", None)) for x in inputs]
    if any(g is None for g in gradients):
        return None
    take_ahead(loss.node, consume)
    return gradients


def computed_gradients(loss: Any) -> dict[Node | None, Any] | None:
    """Returns the gradients that were computed with a loss, by leaf; None where a pass walks."""
    node = loss.node
    if node is None or node.primitive is not PROJECTION or slot.trace is not None:
        return None
    if not node.parents or means_of_leaves.living():
        return None
    (joint,) = node.parents
    pull = getattr(joint.saved, "run", None)
    if type(pull) is not GradientsAhead or loss._data.size != 1 or loss.dtype.kind not in REAL:
        return None
    gradients = pull.begun_at(node.saved, joint.saved.kept)
    if gradients is None:
        return None
    found: dict[Node | None, Any] = {}
    for leaf, g in zip(joint.parents, gradients, strict=True):
        if leaf is None:
            continue
        receiver = leaf.receiver if type(leaf) is LeafNode else None
        if type(receiver) is not Receiver or receiver.hooks or leaf in found or g is None:
            return None
        if g.shape != leaf.shape or g.dtype != leaf.dtype:
            return None
        found[leaf] = g
    return found


def take_ahead(node: Node, consume: bool) -> None:
    """Notes that the gradients are taken; has nodes give up what they saved where that is asked."""
    (joint,) = node.parents
    joint.saved.run.note_taken()
    if consume:
        node.saved = joint.saved = spent = Consumed(user_line())
        spent.note_ends([leaf for leaf in joint.parents if leaf is not None])
        node.parents = joint.parents = ()
