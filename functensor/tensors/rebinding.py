"""Tensors that come to lie in the memory of other tensors: ``x.data = y``, ``nn.Parameter(y)``.

Of tensors that share memory one has the elements, and the others are views of it. A tensor that is
to lie in the memory of a second one takes that one's place, which becomes a view of all of its
elements. So parameters stay what optimizers write to at once, and a tensor that is only made for a
parameter leaves nothing behind. A tensor that leaves its memory, or gets another shape there, has a
stand-in put in its place, of which its views are from then on.
"""

from __future__ import annotations

from typing import Any
from weakref import ref

from ..primitives.core.errors import BackwardError, failure
from ..primitives.core.shape_dtype import INEXACT
from .tape import TAPE, LeafNode, OutdatedReceiver
from .views import Views, views_of, without_graph

__all__ = ["held_in_place", "is_shared", "lie_with", "moved_leaf", "rebind"]


def is_shared(x: Any) -> bool:
    """Says whether a tensor shares its memory with others that are held."""
    if getattr(x, "_source", None) is not None or isinstance(x, TAPE.in_memory):
        return True
    views = getattr(x, "_views", None)
    return views is not None and bool(views.all())


def same_kind(x: Any) -> Any:
    """Returns a plain tensor with the buffer and the node of another, on the same level."""
    if x.home is None:
        return TAPE.wrap(x._data, x.node)
    out = x.home.wrap(x._data)
    if getattr(x, "given", False):
        out.given = True
    return out


def held_in_place(x: Any) -> Any:
    """Returns a tensor that has taken another's place among those that share memory.

    Views of the tensor are views of the stand-in then; the tensor itself lies nowhere with others.
    """
    with views_of(x).lock:
        out = same_kind(x)
        if isinstance(x, TAPE.in_memory):
            x.hand_over(out)
        out._views = x._views
        for view in out._views.all():
            if view._source[0] is x:
                view._source = (out, *view._source[1:])
        _leave_source(x, out)
        out._changes = getattr(x, "_changes", 0)
        del x._views
    return out


def _leave_source(x: Any, instead: Any = None) -> None:
    """Lets a tensor be a view no more; another one may be it in its place."""
    source = getattr(x, "_source", None)
    if source is not None:
        source[0]._views.leave_out(x)
        if instead is not None:
            instead._source = source
            source[0]._views.append(ref(instead))
        del x._source


def _leave(x: Any) -> None:
    """Lets a tensor lie in memory of its own; those that shared it go on sharing it."""
    views = getattr(x, "_views", None)
    if views is not None and views.all():
        held_in_place(x)
        return
    with views_of(x).lock:
        # A view that is behind comes up.
        x._data  # noqa: B018
        if isinstance(x, TAPE.in_memory):
            x.hand_over(None)
        _leave_source(x)
        del x._views


def lie_with(x: Any, y: Any) -> None:
    """Lets a tensor that shares its memory with none lie in that of another, on the same level."""
    y = origin(y)
    with views_of(y).lock:
        x._data = y._data if y.home is None else y.without_graph()._data
        if getattr(y, "_source", None) is None and y.home is None and holds_a_buffer(y):
            x._views = Views(y._views.lock)
            y._source = (x, without_graph, None, False, x.node)
            x._views.append(ref(y))
        else:
            x._source = (y, without_graph, None, False, y.node)
            y._views.append(ref(x))
        if isinstance(y, TAPE.in_memory):
            y.bring_in(x)


def holds_a_buffer(x: Any) -> bool:
    """Says whether a tensor is of no class of its own, as parameters are, which stay no views."""
    kind: Any = type(x)
    if isinstance(x, TAPE.in_memory):
        kind = kind.__bases__[1]
    return kind is TAPE.tracer or kind in TAPE.late.values()


def origin(x: Any) -> Any:
    """Returns the tensor that a tensor has all elements of, in their order."""
    while (source := getattr(x, "_source", None)) is not None and source[1] is without_graph:
        x = source[0]
    return x


def rebind(x: Any, y: Any, what: str) -> None:
    """Lets a tensor lie in the memory of another from now on, with its shape and dtype.

    Those that it shared memory with before share it with each other. Nothing of this is recorded.

    Raises:
        RuntimeError: the tensor requires grad, and the other's dtype has no gradient.
        BackwardError: the tensor was computed, and the other has another shape or dtype.
    """
    if origin(x) is origin(y):
        return
    node = x.node
    alike = x.shape == y.shape and x.dtype == y.dtype
    if node is not None and y.dtype.kind not in INEXACT:
        raise failure(
            RuntimeError,
            f"{what}: {x.name()} requires grad, and {y.dtype} has no gradient",
            fix="x.requires_grad_(False) before",
            number=None,
        )
    if node is not None and not alike and not isinstance(node, LeafNode):
        raise failure(
            BackwardError,
            f"{what}: {x.name()} was computed by {x.grad_fn!r}, and keeps its shape and dtype",
            fix="x.detach(), which has no graph",
        )
    _leave(x)
    lie_with(x, y)
    if node is not None and not alike:
        x.node = moved_leaf(node, x._data, what)


def moved_leaf(node: Any, value: Any, what: str) -> LeafNode:
    """Returns the node of a leaf that has another shape or dtype from now on."""
    out = LeafNode(value)
    out.receiver = node.receiver
    node.receiver = OutdatedReceiver(what)
    return out
