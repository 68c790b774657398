"""The trace that shows operations to a hook.

It is one more trace, which always stands innermost, next to the user's function: so a hook sees the
same operations whether the function is evaluated, differentiated or vectorised.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any

from ..backends.frames import user_instruction
from ..primitives.core.array import Array, Tracer
from ..primitives.core.primitive import Primitive, evaluate
from ..primitives.core.trace import RAW, Trace, explained, new, slot, under
from ..programs.named_scope import active
from ..traces.batch import BatchTrace
from ..traces.forward import ForwardTrace
from ..traces.reverse import ReverseTrace
from .answered import AnsweredHandle
from .faults import blame, replacement
from .noting import NotingHandle, marked
from .operation import Operation
from .registration import registered
from .watched_calls import CallWithHooks, PrimitiveCall
from .watched_rules import RulesWithHook

if TYPE_CHECKING:
    from ..primitives.core.annotations import Value

__all__ = ["HookTrace"]

# So many calls out from the search for the user's line, at the least, is the frame of that line:
# those of `HookTrace.described`, of `HookTrace.process1` and of the primitive are in between, and
# two of a primitive of two operands.
FRAMES_OF_OURS = 4
FRAMES_OF_TWO = 5


class HookTrace(Trace):
    """Shows operations to a hook and passes them on to its parent.

    Attributes:
        handle: the hook's registration.
        phase: what hooks are told of the phase.
        bottom: the trace that hooks are called under; None where nothing is transformed.
        batch_size: for how many examples an operation stands; None outside of all batches.
        staged: whether a program is staged below it that calls hooks.
        on_nodes: whether one reverse mode is below it, or none but that of tensors, so that the
            rules of its nodes show cotangents.
        light: whether it shows all operations as they are, with nothing to be asked first.
        passes: whether operations that the hook does not choose pass by it.
    """

    __slots__ = ("batch_size", "bottom", "handle", "light", "on_nodes", "passes", "phase", "staged")

    interceptor = True

    def __init__(self, parent: Trace, handle: Any) -> None:
        super().__init__(parent, "hook", handle.hook)
        self.handle = handle
        level = parent
        while level.interceptor:
            level = level.parent
        self.bottom = None if level is RAW else level
        self.phase, self.batch_size, self.staged = surroundings(parent)
        self.on_nodes = parent is RAW or (type(parent) is ReverseTrace and parent.parent is RAW)
        simple = type(self) is HookTrace and slot.shown is None
        self.passes = simple and not handle.match.all
        self.light = (
            simple
            and handle.match.all
            and handle.direct
            and not self.staged
            and not handle.sees_before
            and (self.on_nodes or not handle.sees_backward)
        )

    def ended(self) -> bool:
        return not self.handle.active

    def over(self, trace: Trace) -> Trace:
        below = self.parent.over(trace) if self.parent.interceptor else trace
        return self.like(below, self.handle) if self.handle.active else below

    def registrations(self) -> Sequence[Any]:
        return list(registered.handles)

    def settled(self, before: Sequence[Any]) -> Trace | None:
        if registered.handles == before:
            return self
        trace = self.over(self.bottom or RAW)
        for handle in registered.handles:
            if handle not in before:
                trace = handle.interceptor(trace)
        return None if trace is RAW else trace

    def like(self, parent: Trace, handle: Any) -> HookTrace:
        """Returns a trace that does the same on another parent, for a handle of the same hook."""
        return HookTrace(parent, handle)

    def operation(self, name: str, params: dict[str, Any]) -> Operation | None:
        """Returns what the hook is told of an operation; None if it does not want to see it."""
        handle = self.handle
        match = handle.match
        if not (handle.active and (match.all or match.may(name))):
            return None
        op = self.described(name, params)
        if match.all:
            return op
        if not match.asks:
            return op if match(op) else None
        before = slot.trace
        try:
            # The function may compute with arrays.
            slot.trace = self.bottom
            return op if match(op) else None
        except Exception as error:
            blame(error, handle.hook, "match", op)
            raise
        finally:
            slot.trace = before

    def described(
        self, name: str, params: dict[str, Any], frames: int = FRAMES_OF_OURS
    ) -> Operation:
        """Returns what hooks are told of an operation that the user's line calls."""
        # The constructor would take twice as long.
        op = new(Operation)
        op.name = name
        op._params = params
        op._line = user_instruction(frames)
        op.scope = active.entries[-1].path
        op.phase = self.phase
        op.batch_size = self.batch_size
        return op

    def process(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        handle = self.handle
        if slot.shown is not None:
            note_taken_back(args)
        op = self.operation(primitive.name, params)
        if op is None:
            if not handle.active:
                # An interrupt came before it was settled.
                handle._settle()
            return self.below(primitive, args, params)
        if handle.sees_before:
            args = self.told(op, args)
        if handle.sees_way_back and self.on_nodes:
            out = self.below(primitive, args, params)
            self.watch(primitive, op, out, len(args))
        elif handle.sees_way_back and not primitive.constant:
            traced = [isinstance(x, Tracer) for x in args]
            call = CallWithHooks(PrimitiveCall(primitive, traced, params), op, [handle])
            with under(None if self.parent is RAW else self.parent):
                (out,) = call.bind(args)
        else:
            out = self.below(primitive, args, params)
        return self.shown(op, args, out) if handle.sees_forward else out

    def process1(self, primitive: Primitive, x: Any) -> Any:
        handle, parent = self.handle, self.parent
        light = self.light and handle.active
        if light:
            op = self.described(primitive.name, {})
        elif not self.passes_by(primitive):
            return self.process(primitive, (x,), {})
        if parent is not RAW:
            out = parent.process1(primitive, x)
        elif type(x) is Array:
            out = Array()
            out._data = primitive.impl(x._data)
        else:
            out = evaluate(primitive, (x,), {})
        if not light:
            return out
        if handle.sees_backward:
            self.watch(primitive, op, out, 1)
        return self.looked(op, (x,), out) if handle.sees_forward else out

    def process2(self, primitive: Primitive, x: Any, y: Any) -> Any:
        handle, parent = self.handle, self.parent
        light = self.light and handle.active
        if light:
            op = self.described(primitive.name, {}, FRAMES_OF_TWO)
        elif not self.passes_by(primitive):
            return self.process(primitive, (x, y), {})
        if parent is not RAW:
            out = parent.process2(primitive, x, y)
        elif type(x) is Array and type(y) is Array:
            out = Array()
            try:
                out._data = primitive.impl(x._data, y._data)
            except ValueError as error:
                raise explained(primitive, (x._data, y._data), {}, error) from error
        else:
            out = evaluate(primitive, (x, y), {})
        if not light:
            return out
        if handle.sees_backward:
            self.watch(primitive, op, out, 2)
        return self.looked(op, (x, y), out) if handle.sees_forward else out

    def passes_by(self, primitive: Primitive) -> bool:
        """Says whether the hook chooses no operation of a primitive's name."""
        handle = self.handle
        return self.passes and handle.active and not handle.match.may(primitive.name)

    def watch(self, primitive: Primitive, op: Operation, out: Any, count: int) -> None:
        """Has the hook see the cotangents of an operation that reverse mode has recorded.

        ``count`` is how many operands it has.
        """
        owner = getattr(out, "owner", None)
        if owner is not None and (owner is self.parent or owner.standing):
            # Without a node the output is a constant.
            node = out.node
            if node is not None and primitive.leaves(node.primitive):
                node.primitive = RulesWithHook(node, op, self.handle, len(node.parents) - count)

    def below(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        """Hands an operation to the parent."""
        if self.parent is RAW:
            return primitive.evaluated(args, params)
        return super().below(primitive, args, params)

    def custom(self, call: Any, args: Sequence[Any]) -> list[Any]:
        handle = self.handle
        call = handle.hook.opened(call, handle)
        op = self.operation(call.name, {})
        watched = isinstance(call, CallWithHooks)
        if op is not None:
            op = call.op if watched else op
            if handle.sees_before:
                args = self.told(op, args)
            if handle.sees_way_back:
                # Of nested hooks this one was registered before those that watch already.
                others = call.handles if watched else ()
                call = CallWithHooks(call.call if watched else call, op, [handle, *others])
        outs = self.passed(call, args)
        if op is None or not handle.sees_forward:
            return outs
        return [self.shown(op, args, out) for out in outs]

    def passed(self, call: Any, args: Sequence[Any]) -> list[Any]:
        """Hands a call to the parent."""
        with under(None if self.parent is RAW else self.parent):
            outs: list[Any] = call.bind(args)
        return outs

    def around(self, name: str, args: Sequence[Any], run: Callable[[], list[Any]]) -> list[Any]:
        """Runs a checkpointed function of that name on operands, and returns its outputs."""
        return run()

    def key(self) -> Hashable:
        """Returns what a program depends on that is staged under it; None if none can be."""
        known = self.handle.key()
        return known and (known, self.phase, self.batch_size)

    def alarms(self) -> tuple[frozenset[str], Hashable] | None:
        """Returns what a plan reports in place of calling the hook; None if it is called."""
        return self.handle.alarms()  # type: ignore[no-any-return]

    def only_looks(self) -> bool:
        """Says whether the hook has changed nothing so far that it was shown."""
        return self.handle.only_looks()  # type: ignore[no-any-return]

    def exact(self) -> bool:
        """Says whether the results of compiled functions are those without the hook."""
        return self.handle.hook.exact  # type: ignore[no-any-return]

    def noting(self, trace: Trace, note: Callable[[], None]) -> HookTrace:
        """Returns a trace that does the same on top of another one.

        It calls ``note`` before a value that it has shown is differentiated.
        """
        if self.alarms() is not None:
            # It hands on no value, and looks for the nodes of those that it is shown.
            return self.like(trace, self.handle)
        return self.like(trace, NotingHandle(self.handle, note))

    def answered(self, trace: Trace, calls: Any) -> HookTrace:
        """Returns a trace that does the same on top of another one, but for calls made before."""
        return self.like(trace, AnsweredHandle(self.handle, calls))

    def met(self, taken_back: bool) -> None:
        hook = self.handle.hook
        # It has replaced nothing that it saw, if anything.
        hook.replaces = bool(hook.replaces)
        if taken_back and self.handle.sees_forward:
            # A program would not know that its values come from the hook.
            hook.compiled = False
            hook.taken_back = True

    def told(self, op: Operation, args: Sequence[Any]) -> Sequence[Any]:
        """Tells the hook of an operation that is about to run; returns its operands."""
        return self.calling(self.handle.told, op, args)  # type: ignore[no-any-return]

    def shown(self, op: Operation, args: Sequence[Any], out: Any) -> Value:
        """Shows an output to the hook and returns it or its replacement."""
        handle = self.handle
        if self.staged or not handle.direct:
            return self.calling(handle.shown, op, args, out)  # type: ignore[no-any-return]
        if slot.shown is None:
            return self.looked(op, tuple(args), out)
        other = marked(out)
        new = self.looked(op, tuple(args), other)
        return out if new is other else new

    def looked(self, op: Operation, args: tuple[Any, ...], out: Any) -> Value:
        """Shows an output to the hook's own method.

        It is `calling` with `Handle.shown_at_once`, written out: hooked operations on a few numbers
        take three times as long as others, and each call is seen in that. So is each look for what
        this thread has in the slot.
        """
        hook, bottom, mine = self.handle.hook, self.bottom, slot.__dict__
        before = mine["trace"]
        try:
            mine["trace"] = bottom
            new = hook.forward(op, args, out)
            added = mine["trace"]
        except Exception as error:
            blame(error, hook, "forward", op)
            raise
        finally:
            mine["trace"] = before
        if added is not bottom:
            keep_added(added)
        if new is None or new is out or is_marked(new):
            if hook.replaces is None:
                hook.replaces = False
            return out  # type: ignore[no-any-return]
        hook.replaces = True
        return replacement(hook, "forward", op, new, out)

    def calling(self, method: Callable[..., Any], *args: Any) -> Any:
        """Calls the hook below all hooks; those that it adds see what comes next."""
        bottom, before = self.bottom, slot.trace
        try:
            slot.trace = bottom
            out = method(*args, self.staged)
            added = slot.trace
        finally:
            # The first thing that is done here is an assignment, before which no interrupt comes.
            slot.trace = before
        if added is not bottom:
            keep_added(added)
        return out


def is_marked(x: Any) -> bool:
    """Says whether a value is one that a hook was shown."""
    return slot.shown is not None and slot.shown.get(id(x)) is x


def note_taken_back(values: Sequence[Any]) -> None:
    """Notes whether values are among those that hooks were shown."""
    if any(is_marked(x) for x in values):
        slot.shown[0] = True  # type: ignore[index]


def keep_added(trace: Trace | None) -> None:
    """Has the hooks that a hook has registered see what comes next."""
    if trace is not None and trace.interceptor:
        slot.trace = trace.over(slot.trace or RAW)


def surroundings(trace: Trace) -> tuple[str, int | None, bool]:
    """Returns the phase under a trace, the number of examples there, and whether it is staged."""
    phase, sizes, staged = "forward", [], False
    while trace is not RAW:
        if isinstance(trace, HookTrace):
            # It stands for all that is below it, and knows when that is run again.
            phase = trace.phase if phase == "forward" else phase
            sizes += [] if trace.batch_size is None else [trace.batch_size]
            staged = staged or trace.staged
            break
        if isinstance(trace, ForwardTrace):
            phase = "tangent"
        if isinstance(trace, BatchTrace):
            sizes.append(trace.size)
        staged = staged or trace.calls_hooks
        trace = trace.parent
    return phase, math.prod(sizes) if sizes else None, staged
