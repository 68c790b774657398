"""The rules of a node whose cotangents hooks see.

They stand on the node that reverse mode has made, so that it keeps what it keeps without hooks.
Where more than one transformation works on an operation, `watched_calls` does the same by a call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from numpy import ndarray

from ..primitives.core.buffers import to_buffer, wrap
from ..primitives.core.primitive_like import PrimitiveLike
from ..primitives.core.trace import RAW, calls_hooks_below, slot
from ..primitives.shape.index import Scatter, scatter_sum
from ..traces.batch import examples_under
from ..traces.fitted_cotangents import fitted_cotangent
from ..traces.muting import muting

if TYPE_CHECKING:
    from ..traces.reverse import Node
    from .operation import Operation

__all__ = ["RulesWithHook"]


class RulesWithHook(PrimitiveLike):
    """Stands as the primitive of a node, and shows the cotangents of its operands to a hook.

    Args:
        node: the node, on which its primitive stands until then.
        op: what the hook is told of the operation.
        handle: the hook's registration.
        hidden: how many of the node's first operands are none of the operation's.

    Attributes:
        primitive: what stood on the node.
        parents: the node's, until a pass has consumed it.
    """

    __slots__ = ("broadcasts", "handle", "hidden", "name", "op", "parents", "primitive")

    vjps = None

    def __init__(self, node: Node, op: Operation, handle: Any, hidden: int = 0) -> None:
        self.primitive = primitive = node.primitive
        self.name = primitive.name
        self.broadcasts = primitive.broadcasts
        self.parents = node.parents
        self.op = op
        self.handle = handle
        self.hidden = hidden

    def pullback(self, g: Any, saved: Any, params: dict[str, Any]) -> list[Any]:
        """Returns the cotangents of the operands, None for those without one."""
        handle, trace = self.handle, slot.trace
        parents = self.parents
        turn = slot.turn
        if turn is not None and not turn[0].parents:
            # The pass consumes the node, and so all that it depends on.
            self.parents = ()
        muted = muting.met
        if muted is not None:
            muted[handle] = None
            return self.plain(g, saved, params, parents)
        staged = trace is not RAW and calls_hooks_below()
        if not handle.sees_pass(staged):
            return self.plain(g, saved, params, parents)
        op = self.op.at("backward")
        if trace is not RAW:
            op.batch_size = examples_under(trace)
        gs = [wrap(g)]
        if handle.sees_before:
            gs = at_face(handle.told, op, gs, staged)
            g = gs[0] if trace is not RAW else to_buffer(gs[0])
        found = self.plain(g, saved, params, parents)
        if not handle.sees_backward:
            return found
        hidden, own = found[: self.hidden], found[self.hidden :]
        shown = [wrap(c) if type(c) is ndarray else dense(c) for c in own]
        # It is `at_face`, written out.
        mine = slot.__dict__
        try:
            if trace is RAW:
                mine["trace"] = None
            new = handle.pulled(op, shown, gs, staged)
        finally:
            mine["trace"] = trace
        if new is shown:
            return found
        lowered = wrap if trace is not RAW else to_buffer
        # Cotangents that the hook has not changed go on as without it, to the last bit.
        return hidden + [
            old if n is s else None if n is None else lowered(n)
            for old, s, n in zip(own, shown, new, strict=True)
        ]

    def plain(
        self, g: Any, saved: Any, params: dict[str, Any], parents: Sequence[Node | None]
    ) -> list[Any]:
        """Returns what the primitive's own rules give, in the shapes and dtypes of the operands."""
        rules = self.primitive.vjps
        if rules is None:
            rules = [lambda *_, c=c: c for c in self.primitive.pullback(g, saved, params)]
        found: list[Any] = []
        for rule, parent in zip(rules, parents):
            if parent is None:
                found.append(None)
                continue
            c = rule(g, saved, params)
            if type(c) is not ndarray or c.shape != parent.shape or c.dtype is not parent.dtype:
                c = c if c is None or type(c) is Scatter else fitted_cotangent(c, parent, self)
            found.append(c)
        # Index arrays come last and need no rules.
        return found + [None] * (len(parents) - len(found))


def dense(c: Any) -> Any:
    """Returns a cotangent as hooks see it, None as it is."""
    if c is None:
        return None
    return wrap(scatter_sum([c]) if type(c) is Scatter else c)


def at_face(method: Callable[..., Any], *args: Any) -> Any:
    """Calls a method as hooks are called: at the public face where nothing is transformed."""
    trace = slot.trace
    try:
        if trace is RAW:
            slot.trace = None
        return method(*args)
    finally:
        slot.trace = trace
