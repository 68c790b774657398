"""Operations under ``vmap`` whose cotangents hooks see, recorded as without hooks.

A batch breaks an operation into parts, and reverse mode makes a node for each. Cotangents are added
up in the order of these nodes: one node for the whole operation would change last bits. So the
parts stay, and a rule on the last of them, through which all cotangents of the operation come,
shows them to hooks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

from ..custom.call import Pullback, replaced
from ..primitives.core.annotations import Values
from ..primitives.core.annotations import operations as ops
from ..primitives.core.primitive_like import PrimitiveLike
from ..primitives.core.trace import RAW, Trace, at_face
from ..primitives.shape.index import Scatter, scatter_sum
from ..traces.batch import BatchTrace, BatchTracer
from ..traces.reverse import NO_PARAMS, Node, ReverseTracer, is_inexact, make_node, next_number
from ..transforms.grad import vjp
from ..transforms.vmap import vmap
from .watched_rules import RulesWithHook

# A function of values and cotangents.
Flat: TypeAlias = Callable[[Values, Values], Values]

__all__ = ["dense_cotangents", "recorded_in_parts"]


class Level(NamedTuple):
    """One of several batches, the innermost first, and what an operation has to do with it.

    Attributes:
        batch: its trace.
        flags: which operands depend on the example.
        shared: whether the output does not.
    """

    batch: BatchTrace
    flags: Sequence[bool]
    shared: bool

    def over(self, fun: Callable[..., Any], given: Any, out: Any = 0) -> Callable[..., Any]:
        """Returns a function of one example as one of the batch."""
        size, name = self.batch.size, self.batch.axis_name
        return vmap(fun, in_axes=given, out_axes=out, axis_size=size, axis_name=name)

    def pulling(self, pull: Flat, axes: Sequence[int | None]) -> Flat:
        """Returns what pulls the cotangents of one example back, for the batch.

        ``axes`` are the batch axes of the values that it is given.
        """
        over = self.over(pull, (list(axes), [self.axis]))

        def pulled(values: Values, gs: Values) -> Values:
            found = over(values, gs)
            return [
                c if flag or c is None else ops.sum(c, axis=0)
                for c, flag in zip(found, self.flags)
            ]

        return pulled

    @property
    def axes(self) -> list[int | None]:
        """The batch axes of the operands."""
        return [0 if flag else None for flag in self.flags]

    @property
    def axis(self) -> int | None:
        """The batch axis of the output."""
        return None if self.shared else 0


class WatchedCall(Protocol):
    """A call of a primitive whose cotangents hooks see.

    Attributes:
        call: the call without hooks.
        op: what the hooks are told of it.
        handles: the hooks' registrations, the oldest first.
    """

    call: Any
    op: Any
    handles: Sequence[Any]

    def showing(self, pull: Callable[..., Any]) -> Any:
        """Returns what shows the cotangents to the hooks that a function pulls back."""


def recorded_in_parts(watched: WatchedCall, trace: Trace, args: Sequence[Any]) -> Values | None:
    """Does a primitive's work under a trace, and has hooks see its cotangents.

    Args:
        watched: the call of the primitive.
        trace: that of a batch, or of a checkpoint.
        args: the operands.

    Returns:
        The output; None where the levels below record no parts.
    """
    call = watched.call
    batches, level = batches_on(trace)
    if not (level is RAW or level.in_parts):
        return None
    before = next_number()
    out = call.primitive.under(trace, args, call.params)
    values: Any = args
    result: Any = out
    levels = []
    for batch in batches:
        if not isinstance(batch, BatchTrace):
            values = list(map(batch.resolve, values))
            continue
        values, flags = batch.unwrap(values)
        shared = type(result) is not BatchTracer or result.owner is not batch
        if True in flags or call.speaks_of(batch.axis_name):
            levels.append(Level(batch, flags, shared))
        result = result if shared else result.value
    if not isinstance(result, ReverseTracer) or result.owner is not level or result.node is None:
        # Nothing flows back through a constant.
        return [out]
    values, nodes = level.kept(values)
    wanted = [node is not None and is_inexact(x) for node, x in zip(nodes, values, strict=True)]
    if not levels and call.primitive.leaves(result.node.primitive):
        hidden = len(result.node.parents) - len(args)
        for handle in watched.handles:
            result.node.primitive = RulesWithHook(result.node, watched.op, handle, hidden)
        return [out]
    if result.node.number < before:
        result, out = with_own_node(result, level, levels)
    node = result.node
    kept, _ = level.kept([result])
    pull = watched_pull(call.asked(wanted), levels, watched)
    saved = level.saved_by(node)
    own, other = (saved, None) if isinstance(saved, tuple) else ((), saved)
    rule = PartsRule(node, level, other, 1 + len(values), wanted, pull)
    node.saved = Pullback(rule.run, [*kept, *values, *own])
    node.parents = (*node.parents, *(n for n, want in zip(nodes, wanted, strict=True) if want))
    node.primitive = rule
    return [out]


def batches_on(trace: Trace) -> tuple[list[Any], Any]:
    """Returns batches that stand on each other, the innermost first, and what is below them.

    What only replaces operands is among them.
    """
    found = []
    while isinstance(trace, BatchTrace) or getattr(trace, "hands_on", False):
        found.append(trace)
        trace = trace.parent
    return found, trace


def with_own_node(result: ReverseTracer, level: Any, levels: Sequence[Level]) -> tuple[Any, Any]:
    """Returns a value with a node of its own, as reverse mode has it and as the batches have it.

    A batching rule may return an operand as it is.
    """
    node = make_node(AS_IT_IS, (result.node,), (), NO_PARAMS, result)
    (value,), _ = level.kept([result])
    result = out = level.wrap(value, node)
    for each in reversed(levels):
        out = out if each.shared else each.batch.wrap(out)
    return result, out


class AsItIs(PrimitiveLike):
    """Stands as the primitive of a node whose value is that of its parent."""

    name = "batch"
    broadcasts = False
    vjps = (lambda g, saved, params: g,)


AS_IT_IS = AsItIs()


class PartsRule(PrimitiveLike):
    """Stands as the primitive of the last node of an operation, and shows its cotangents to hooks.

    The node has further parents: the nodes of the operation's own operands. They get the
    cotangents if a hook has changed any, and the parts get none.

    Args:
        node: the node, with what stands on it until then.
        level: the trace that made it.
        saved: what its rules are given where that is no tuple; None where it is.
        count: how many of the values that it keeps are the operation's own; the others come last.
        wanted: which operands have cotangents.
        watched: ``watched(values, g)`` shows cotangents and returns those of the operands; None
            where none was changed.
    """

    __slots__ = (
        "broadcasts", "count", "name", "opened", "params", "parents", "primitive", "saved",
        "wanted", "watched",
    )  # fmt: skip

    vjps = None

    def __init__(
        self,
        node: Node,
        level: Any,
        saved: Any,
        count: int,
        wanted: Sequence[bool],
        watched: Callable[[Values, Any], Values | None],
    ) -> None:
        self.primitive = node.primitive
        self.name = node.primitive.name
        self.broadcasts = node.primitive.broadcasts
        self.parents = node.parents
        self.saved = saved
        self.opened = level.opened
        self.params = node.params
        self.count = count
        self.wanted = wanted
        self.watched = watched

    def pullback(self, g: Any, saved: Pullback, params: dict[str, Any]) -> Values:
        """Returns the cotangents of the node's parents, None for those without one."""
        return saved(g)

    def run(self, kept: Values, g: Any) -> Values:
        """Does so, with the values that the node keeps."""
        count = self.count
        found = self.watched(self.opened(kept[:count]), g)
        if found is not None:
            changed = [c for c, want in zip(found, self.wanted, strict=True) if want]
            return [*(None for _ in self.parents), *changed]
        saved = tuple(self.opened(kept[count:])) if self.saved is None else self.saved
        rules = self.primitive.vjps
        if rules is None:
            return list(self.primitive.pullback(g, saved, self.params))
        return [
            None if parent is None else rule(g, saved, self.params)
            for rule, parent in zip(rules, self.parents)
        ]


def watched_pull(
    call: Any, levels: Sequence[Level], watched: WatchedCall
) -> Callable[[Values, Any], Values | None]:
    """Returns the function that shows an operation's cotangents, example by example.

    Args:
        call: the operation, for the operands whose cotangents are wanted.
        levels: the batches, the innermost first.
        watched: its call with the hooks.

    Returns:
        A function of the output with the operands, and of the output's cotangent. It returns the
        cotangents of the operands, added up over the examples that share one; None where no hook
        has changed any.
    """
    shares = any(each.shared for each in levels)

    def pulled(values: Values, g: Any) -> Values | None:
        watching = watched.showing((lambda found, gs: found) if shares else call.bwd)
        if not watching.is_asked():
            return None

        def of_one(kept: Values, gs: Values) -> Values:
            found = dense_cotangents(watching(kept, gs))
            return found if watching.changed else []

        pull: Flat = of_one
        for each in levels:
            pull = each.pulling(pull, [each.axis, *each.axes][shares:])

        def run(values: Values, gs: Values) -> Values:
            return pull(shares_of(call, levels, values[1:], gs) if shares else values, gs)

        found = at_face(run, values, [g])
        return found if watching.changed else None

    return pulled


def shares_of(
    call: Any, levels: Sequence[Level], values: Values, gs: Values
) -> Values:
    """Returns the cotangents of operands of which all examples of a batch made one output.

    No example has a part of its own in the output's cotangent. So they are those of the operation
    on the whole batch. An operand's that all examples share is divided among them.
    """
    fun = call.evaluate
    for each in levels:
        fun = each.over(fun, (each.axes,), [each.axis])
    known = [i for i, want in enumerate(call.wanted) if want]
    _, pull = vjp(
        lambda *some: fun(replaced(values, known, some)), *[values[i] for i in known]
    )
    found = replaced([None] * len(values), known, pull(gs))
    for each in levels:
        pairs = zip(found, each.flags, strict=True)
        found = [c if flag or c is None else c / each.batch.size for c, flag in pairs]
    return found


def dense_cotangents(cotangents: Sequence[Any]) -> list[Any]:
    """Returns cotangents with sparse ones made arrays."""
    return [scatter_sum([c]) if type(c) is Scatter else c for c in cotangents]
