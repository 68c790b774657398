"""Hooks on what the backward pass needs: they keep residuals elsewhere, or in another form."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from ..backends.errors.public_functions import check_function
from ..primitives.core.array import Array
from ..primitives.core.errors import function_line
from ..primitives.core.primitive import Primitive
from ..primitives.core.trace import Trace, slot, under
from ..traces.reverse import next_number
from ..traces.stand_ins import StandIn, is_recorded_above, nodes_since, waits
from .hook import Hook
from .interceptor import HookTrace
from .operation import Operation
from .packing import Form, Opening, Packing

__all__ = ["ResidualHook"]


class PackingTrace(HookTrace):
    """Has a hook pack what the nodes of an operation keep, once it has run.

    Attributes:
        packing: what is packed already, and which values are arguments.
        op: the operation whose rule is running, which leaves nodes for the next derivative; None
            where the function itself runs.
        packs: whether it packs anything; not where a checkpoint runs something again.
    """

    __slots__ = ("op", "packing", "packs")

    def __init__(
        self,
        parent: Trace,
        handle: Any,
        packing: Packing | None = None,
        op: Operation | None = None,
    ) -> None:
        super().__init__(parent, handle)
        self.packing = packing or Packing(handle)
        self.op = op
        self.packs = getattr(handle, "first", True) or handle.on_replay

    def ended(self) -> bool:
        return self.op is None and super().ended()

    def over(self, trace: Trace) -> Trace:
        below = self.parent.over(trace) if self.parent.interceptor else trace
        return below if self.ended() else self.like(below, self.handle)

    def like(self, parent: Trace, handle: Any) -> HookTrace:
        return PackingTrace(parent, handle, self.packing, self.op)

    def only_looks(self) -> bool:
        # The way back computes with what was packed.
        return False

    def met(self, taken_back: bool) -> None:
        """Notes nothing: jitted functions run as they were written."""

    def process(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        run = super().process if self.shows() else self.below
        name = primitive.name
        (out,) = self.packed(name, params, args, lambda: [run(primitive, args, params)])
        return out

    def custom(self, call: Any, args: Sequence[Any]) -> list[Any]:
        run = super().custom if self.shows() else self.passed
        return self.packed(call.name, {}, args, partial(run, call, args))

    def around(self, name: str, args: Sequence[Any], run: Callable[[], list[Any]]) -> list[Any]:
        return self.packed(name, {}, args, run)

    def shows(self) -> bool:
        """Says whether the hook may be shown the operation too, or has ended."""
        handle = self.handle
        asks = handle.sees_before or handle.sees_forward or handle.sees_way_back
        return self.op is None and (asks or not handle.active)

    def packed(
        self, name: str, params: dict[str, Any], args: Sequence[Any], run: Callable[[], list[Any]]
    ) -> list[Any]:
        """Runs an operation, has the hook pack what its nodes keep, and returns its outputs."""
        packing, op = self.packing, self.op
        if op is None and not self.packs:
            return run()
        start = next_number()
        if op is None:
            packing.note_arguments(args)
        outs = run()
        packing.note_results(outs)
        if not self.packs:
            return outs
        op = op or self.operation(name, params)
        if op is not None:
            pack_nodes(packing, outs, start, op)
        return outs


def pack_nodes(packing: Packing, outs: Sequence[Any], start: int, op: Operation) -> None:
    """Has a hook pack what the nodes of an operation keep, at every level.

    Args:
        packing: what the hook has packed so far.
        outs: the operation's outputs.
        start: a number of nodes between those from before and the operation's.
        op: the operation.
    """
    for trace, node in nodes_since(outs, start):
        saved: Any = None if waits(node, "saved") else node.saved
        found = False
        if hasattr(saved, "with_kept"):
            kept = [packing.form(x, op) for x in saved.kept]
            found = any(isinstance(x, Form) for x in kept)
            if found:
                node.saved = saved.with_kept(kept)
        elif isinstance(saved, tuple | list):
            kept = [packing.form(x, op) for x in saved]
            found = any(isinstance(x, Form) for x in kept)
            if found:
                node.saved = tuple(kept)
        if found or is_recorded_above(trace.parent):
            node.primitive = Unpacking(node.primitive, op, packing)


class Unpacking(StandIn):
    """Stands as the primitive of a node whose residuals are packed, and hands them to its rules.

    What the rules themselves leave behind at levels further out is packed too.
    """

    def __init__(self, primitive: Any, op: Operation, packing: Packing) -> None:
        super().__init__(primitive, op)
        self.packing = packing

    @property
    def vjps(self) -> Iterator[Any] | None:
        rules = self.primitive.vjps
        if rules is None:
            return None
        found = self.visited()
        return (rule and partial(self.one, rule, found) for rule in rules)

    def visited(self) -> dict[int, Any]:
        """Returns where the node's residuals go that its rules have asked for.

        They live until the rules of the next node but one: what one operation keeps as its operand
        is often the next one's result, and need not be unpacked twice. No node keeps them.
        """
        found: dict[int, Any] = {}
        turn = slot.turn
        if turn is not None:
            turn[1:] = [*turn[1:], found][-2:]
        return found

    def one(
        self,
        rule: Callable[..., Any],
        found: dict[int, Any],
        g: Any,
        saved: Any,
        params: dict[str, Any],
    ) -> Any:
        """Returns the cotangent of one operand."""
        return self.ran(rule, g, Opening(saved, found), params)

    def pullback(self, g: Any, saved: Any, params: dict[str, Any]) -> Any:
        found = self.visited()
        if hasattr(saved, "with_kept"):
            saved = saved.with_kept(list(Opening(saved.kept, found)))
        elif isinstance(saved, tuple | list):
            saved = Opening(saved, found)
        return self.ran(self.primitive.pullback, g, saved, params)

    def ran(self, rule: Callable[..., Any], *args: Any) -> Any:
        trace, packing = slot.trace, self.packing
        if not is_recorded_above(trace) or not packing.handle.sees_pass(False):
            return rule(*args)
        assert trace is not None
        with under(PackingTrace(trace, packing.handle, packing, self.op.at("backward"))):
            return rule(*args)


class ResidualHook(Hook):
    """Keeps what the backward pass needs elsewhere, or in another form.

    Reverse mode keeps operands and outputs of operations until their rules run. `pack` is given
    each of these arrays once, however many operations keep it, and `unpack` makes it again when a
    rule asks for it. Between the two nothing of the library holds the array. Arguments of
    differentiated functions, leaves of tensors and other arrays that no operation has made under
    the hook are not packed: they live anyway. Neither are numbers without axes.

    Both methods are given plain arrays, under ``vmap`` with the batch axes in front, and no hook
    sees what they do. The unpacked array stands for the one that was packed, so that derivatives
    of any order are those of a hook that changes nothing: of ``pack`` and ``unpack`` none is taken.
    What the backward pass leaves behind for the next derivative is packed too.

    ``match`` and ``scope`` of `use` choose the operations whose residuals are packed. Of several
    such hooks that match, the one that was registered first packs. Jitted functions run as they
    were written under the hook. Where it is registered within a function that is staged, its
    methods become part of the program if ``traceable`` is True, and are not called otherwise.

    Args:
        pack, unpack: functions that take the place of the methods.

    Attributes:
        always_unpacks: whether `unpack` is called where somebody still holds the array that was
            packed. By default that array is taken.

    >>> import functensor as ft, functensor.numpy as np
    >>> single = ft.hooks.ResidualHook(
    ...     pack=lambda op, value: value.astype("float32"),
    ...     unpack=lambda op, packed: packed.astype("float64"),
    ... )
    >>> with ft.hooks.use(single):
    ...     print(ft.grad(lambda x: np.sum(np.exp(np.sin(x))))(np.array([0.0, 1.0])))
    [1.         1.25338074]
    """

    interceptor = PackingTrace
    compiled = False
    always_unpacks = False

    def __init__(
        self,
        pack: Callable[[Operation, Array], Any] | None = None,
        unpack: Callable[[Operation, Any], Any] | None = None,
    ) -> None:
        for given, name in ((pack, "pack"), (unpack, "unpack")):
            if given is not None:
                check_function("ResidualHook", given, name)
        if pack is not None:
            vars(self)["pack"] = pack
        if unpack is not None:
            vars(self)["unpack"] = unpack

    def __repr__(self) -> str:
        given = {name: vars(self).get(name) for name in ("pack", "unpack")}
        named = [f"{name}={function_line(fun)}" for name, fun in given.items() if fun is not None]
        return f"{type(self).__name__}({', '.join(named)})"

    def pack(self, op: Operation, value: Array) -> Any:
        """Returns what is kept in place of a residual.

        Args:
            op: the first operation that keeps it.
            value: the residual, an array of any shape and dtype, on any device.

        Returns:
            Anything that does not hold the array; ``value`` itself leaves it as it is.
        """
        return value

    def unpack(self, op: Operation, packed: Any) -> Any:
        """Returns the residual that `pack` was given, or what takes its place.

        Args:
            op: as `pack` was given it.
            packed: what `pack` returned.

        Returns:
            An array of the shape, the dtype and the device that ``value`` had.
        """
        return packed
