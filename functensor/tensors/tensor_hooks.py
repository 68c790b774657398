"""Hooks of single tensors: on their gradient, and on the operations that take them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Any, Self
from weakref import ref

from ..backends.notebook_cells import with_cells_named
from ..hooks.faults import look_at_replacement
from ..hooks.handle import Handle
from ..hooks.hook import Hook
from ..hooks.interceptor import HookTrace
from ..hooks.matching import Match
from ..hooks.registration import Registration
from ..primitives.core.array import Array
from ..primitives.core.array_likes import is_array_like
from ..primitives.core.buffers import WEAK_TYPES, to_buffer
from ..primitives.core.errors import (
    RuleResultError,
    describe,
    failure,
    function_line,
    user_line,
)
from ..primitives.core.primitive import Primitive
from ..primitives.core.registry import registry as ops
from ..primitives.core.shape_dtype import shape_dtype
from ..primitives.core.trace import RAW, Trace, slot, under
from ..transforms.given_cotangents import cotangent_of
from .grad_mode import no_grad
from .tape import TAPE

__all__ = ["hook_after_gradient", "hook_on_gradient", "hook_on_operations", "remove_hook"]

FINITE = "return finite values, or None to leave the gradient as it is"
# The types of operands that are no tensors and need no look.
PLAIN = frozenset({Array, *WEAK_TYPES})


class Own(dict[int, Registration]):
    """The hooks of a tensor that are called, by the ids of their handles, which do not keep it."""

    __slots__ = ("__weakref__",)


def drop_hook(own: ref[Own], id: int) -> None:
    """Takes a hook that has ended from those of its tensor, if that is alive."""
    known = own()
    if known is not None:
        known.pop(id, None)


def own_hooks(x: Any) -> Own:
    """Returns the hooks of a tensor, in a dictionary that it keeps."""
    if not hasattr(x, "_hooks"):
        x._hooks = Own()
    return x._hooks  # type: ignore[no-any-return]


# -- its gradient


class GradientHandle(Registration):
    """The registration of a function that sees a tensor's gradient."""

    def __init__(
        self,
        hooks: dict[int, Callable[..., Any]],
        hook: Callable[[Any], Any],
        own: Own,
        on_gradient: Callable[..., Any],
    ) -> None:
        self._hooks = hooks
        self._own = ref(own)
        self._on_gradient = on_gradient
        super().__init__(hook)

    def _begin(self) -> Self:
        """Has the hook called from now on."""
        own: Any = self._own()
        # Assignments, between which no interrupt can come.
        self._hooks[self.id] = self._on_gradient
        own[self.id] = self
        return self

    def _ends(self) -> list[Callable[[], Any]]:
        pop = partial(self._hooks.pop, self.id, None)
        return [*super()._ends(), pop, partial(drop_hook, self._own, self.id)]


def hook_on_gradient(x: Any, hook: Callable[[Any], Any], receiver: Any) -> GradientHandle:
    """Returns the registration of a function that sees the gradient a receiver gets."""
    # The hook is kept by the tensor, and so keeps the name alone.
    named = f"the hook {function_line(hook)} of {x.name()}"

    def on_gradient(g: Any) -> Any:
        recorded = isinstance(g, TAPE.tracer)
        with under(None):
            try:
                result = hook(g if recorded else TAPE.wrap(g, None))
            except Exception as error:
                error.add_note(with_cells_named(f"in {named}, at {user_line()}"))
                raise
            if result is None:
                return g
            if is_array_like(result) and shape_dtype(result).shape == g.shape:
                before, given = value_of_gradient(g), value_of_gradient(result)
                new = to_buffer(cotangent_of(before, given, f"gradient of {named}"))
                look_at_replacement(None, lambda: named, new, before, None, "its gradient ", FINITE)
                return ops.astype(result, g.dtype) if recorded else new
            raise failure(
                RuleResultError,
                f"{named} returned {describe(result)} in place of its gradient {describe(g)}",
                fix="return a gradient of the same shape, or None to leave it as it is",
            )

    return GradientHandle(receiver.hooks, hook, own_hooks(x), on_gradient)


def value_of_gradient(g: Any) -> Any:
    """Returns the buffer of a gradient, which may be recorded."""
    return g._data if isinstance(g, TAPE.tracer) else to_buffer(g)


def hook_after_gradient(x: Any, hook: Callable[[Any], Any], receiver: Any) -> GradientHandle:
    """Returns the registration of a function that is called once a leaf's ``grad`` is there."""
    tensor = ref(x)
    named = f"the hook {function_line(hook)} of {x.name()}"

    def on_end() -> None:
        leaf = tensor()
        if leaf is None:
            return
        with under(None), no_grad():
            try:
                hook(leaf)
            except Exception as error:
                error.add_note(with_cells_named(f"in {named}, at {user_line()}"))
                raise

    return GradientHandle(receiver.after, hook, own_hooks(x), on_end)._begin()


# -- the operations that take it


class OperandTrace(HookTrace):
    """Shows a hook the operations that take one tensor, and passes on all others."""

    __slots__ = ()

    def over(self, trace: Trace) -> Trace:
        # A transformation has values of its own in place of the tensor.
        return self.parent.over(trace) if self.parent.interceptor else trace

    def like(self, parent: Trace, handle: Any) -> HookTrace:
        return OperandTrace(parent, self.handle)

    def key(self) -> Hashable:
        return ()

    def only_looks(self) -> bool:
        # A second run would take another tensor.
        return False

    def met(self, taken_back: bool) -> None:
        """Notes nothing: programs do not depend on the hook."""

    def process(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        if self.handle.is_met(args):
            return super().process(primitive, args, params)
        return self.below(primitive, args, params)

    # Operations on arrays, which are no tensors, take the shortest way through.

    def process1(self, primitive: Primitive, x: Any) -> Any:
        if type(x) is Array and self.parent is RAW and self.handle.active:
            out = Array()
            out._data = RAW.process1(primitive, x._data)
            return out
        return self.process(primitive, (x,), {})

    def process2(self, primitive: Primitive, x: Any, y: Any) -> Any:
        kinds = type(x), type(y)
        if Array in kinds and PLAIN.issuperset(kinds) and self.parent is RAW and self.handle.active:
            out = Array()
            a = x._data if type(x) is Array else x
            b = y._data if type(y) is Array else y
            out._data = RAW.process2(primitive, a, b)
            return out
        return self.process(primitive, (x, y), {})

    def custom(self, call: Any, args: Sequence[Any]) -> list[Any]:
        if self.handle.is_met(args):
            return super().custom(call, args)
        return self.passed(call, args)


class OperandHandle(Handle):
    """The registration of a hook for the operations that take a tensor's present value."""

    def __init__(self, hook: Hook, x: Any) -> None:
        self._tensor = ref(x, partial(end, ref(self)))
        self._value = value_of(x)
        self._own = ref(own_hooks(x))
        super().__init__(hook, Match())

    def interceptor(self, parent: Trace) -> HookTrace:
        return OperandTrace(parent, self)

    def _begin(self) -> Self:
        self._own()[self.id] = self  # type: ignore[index]
        slot.trace = self._trace
        return self

    def _ends(self) -> list[Callable[[], Any]]:
        return [*super()._ends(), partial(drop_hook, self._own, self.id)]

    def is_met(self, args: Sequence[Any]) -> bool:
        """Says whether operands have the tensor, with the value that the hook belongs to."""
        if not self.active:
            # It was ended in another thread.
            self._settle()
            return False
        x = self._tensor()
        return any(a is x for a in args) and value_of(x) == self._value


def end(handle: ref[OperandHandle], tensor: Any) -> None:
    """Ends the registration of a hook whose tensor has died."""
    known = handle()
    if known is not None:
        known.remove()


def value_of(x: Any) -> Hashable:
    """Returns what is another one once a tensor has changed; a leaf stays the same one."""
    return ("version", x._version) if x.node is None else ("node", x.node.number)


def hook_on_operations(x: Any, hook: Hook) -> OperandHandle:
    """Returns the registration of a hook for the operations that take a tensor."""
    if hook.interceptor is not None:
        name = type(hook).__name__
        raise failure(
            TypeError,
            f"register_hook of {x.name()} was given a {name}, which is for all operations of a "
            "block",
            fix="with ft.hooks.use(hook):",
        )
    return OperandHandle(hook, x)


# -- the end of both


def remove_hook(x: Any, id: Any) -> None:
    """Ends the registration of a hook of a tensor, given by its handle or id."""
    if isinstance(id, bool) or not isinstance(id, int | Registration):
        raise TypeError(
            f"remove_hook takes a handle of register_hook or its id, not {type(id).__name__}"
        )
    own = own_hooks(x)
    handle: Any = own.get(id) if isinstance(id, int) else id
    if handle is None or not hasattr(handle, "_own") or handle._own() is not own:
        number = id if isinstance(id, int) else id.id
        there = " and ".join(map(str, own)) or "none"
        raise failure(
            ValueError,
            f"remove_hook({number}) of {x.name()}, which has no hook of that id: it has {there}",
            fix="handle = x.register_hook(hook), and x.remove_hook(handle.id) once",
        )
    handle.remove()
