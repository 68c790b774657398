"""The calls that stand for operations whose cotangents hooks see."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any

from ..backends.restoring import quiet
from ..custom.call import CustomCall, Pullback, at_face_sparse, filled_like
from ..primitives.core.buffers import all_apart_from, wrap
from ..primitives.core.primitive import Primitive
from ..primitives.core.shape_dtype import shape_dtype
from ..primitives.core.trace import Trace, calls_hooks_below, slot, under
from ..primitives.shape.index import Scatter, index_primitive
from ..traces.batch import BatchTrace, examples_under
from ..traces.fitted_cotangents import fitted_cotangent
from ..traces.forward import tangent_of
from ..traces.muting import muting
from ..traces.reverse import is_inexact
from ..transforms.grad import vjp
from ..transforms.vmap import vmap
from .watched_batches import dense_cotangents, recorded_in_parts

if TYPE_CHECKING:
    from ..primitives.core.annotations import Value

__all__ = ["CallWithHooks", "PrimitiveCall", "cotangents_of", "dense_cotangents"]


class PullbackWithHooks:
    """Pulls cotangents back and shows them to hooks, in the order of the hooks' registration.

    Attributes:
        changed: whether a hook has replaced one.
    """

    def __init__(self, pull: Callable[..., Any], op: Any, handles: Sequence[Any]) -> None:
        self.pull = pull
        self.op = op
        self.handles = handles
        self.changed = False

    def is_asked(self) -> bool:
        """Says whether a hook is called in the pass that runs; notes those that would be."""
        if muting.met is not None:
            muting.met.update(dict.fromkeys(self.handles))
            return False
        staged = calls_hooks_below()
        return any(handle.sees_pass(staged) for handle in self.handles)

    def __call__(self, residuals: list[Any], gs: list[Any]) -> list[Any]:
        if muting.met is not None:
            muting.met.update(dict.fromkeys(self.handles))
            return list(self.pull(residuals, gs))
        op, staged = self.op.at("backward"), calls_hooks_below()
        op.batch_size = examples_under(slot.trace)
        handles = [handle for handle in self.handles if handle.sees_pass(staged)]
        for handle in handles:
            if handle.sees_before:
                gs = list(handle.told(op, gs, staged))
        plain: list[Any] = self.pull(residuals, gs)
        if not handles:
            return plain
        cotangents = first = dense_cotangents(plain)
        for handle in handles:
            if handle.sees_backward:
                cotangents = handle.pulled(op, cotangents, gs, staged)
        # Cotangents that no hook has changed go on as without hooks, to the last bit.
        kept = [c is old for c, old in zip(cotangents, first, strict=True)]
        self.changed = self.changed or not all(kept)
        return [p if same else c for p, c, same in zip(plain, cotangents, kept, strict=True)]


class AskedCall(CustomCall):
    """A call that has other rules where fewer cotangents are asked for.

    So hooks see the same ones whatever else is traced.
    """

    def asked(self, wanted: Sequence[bool]) -> CustomCall:
        """Returns the call with the rules for some operands."""
        raise NotImplementedError

    def reverse(
        self, level: Trace, values: list[Any], wanted: Sequence[bool]
    ) -> tuple[list[Any], Callable[[list[Any]], list[Any]]]:
        """Returns the outputs and the function that pulls cotangents back."""
        return CustomCall.reverse(self.asked(wanted), level, values, wanted)


class CallWithHooks(AskedCall):
    """A call whose cotangents hooks see.

    Attributes:
        call: the call without hooks.
        op: what the hooks are told of it.
        handles: the hooks' registrations, the oldest first.
    """

    each_time = True

    def __init__(self, call: CustomCall, op: Any, handles: Sequence[Any]) -> None:
        fwd, pull = call.rules()
        bwd = PullbackWithHooks(pull, op, handles)
        super().__init__(call.name, call.evaluate, fwd, bwd, call.jvp, call.sparse)
        self.call = call
        self.op = op
        self.handles = handles

    def asked(self, wanted: Sequence[bool]) -> CallWithHooks:
        if not isinstance(self.call, PrimitiveCall) or list(wanted) == self.call.wanted:
            return self
        return CallWithHooks(self.call.asked(wanted), self.op, self.handles)

    def reverse(
        self, level: Trace, values: list[Any], wanted: Sequence[bool]
    ) -> tuple[list[Any], Callable[[list[Any]], list[Any]]]:
        if isinstance(self.call, PrimitiveCall):
            return super().reverse(level, values, wanted)
        # The call may have a way back of its own, which is other than its rules.
        outs, pull = self.call.reverse(level, values, wanted)
        kept = pull.kept if isinstance(pull, Pullback) else []
        more = outs if len(outs) > 1 else []
        count = len(kept)

        def plain(kept: list[Any], gs: list[Any]) -> list[Any]:
            return pull.run(kept, gs) if isinstance(pull, Pullback) else pull(gs)

        def shown(kept: list[Any], gs: list[Any]) -> list[Any]:
            gs = filled_like(gs, kept[count:]) if more else gs
            return at_face_sparse(self.showing(plain), kept[:count], gs)

        return outs, Pullback(shown, [*kept, *more])

    def forward(
        self, level: Trace, values: list[Any], tangents: list[Any]
    ) -> tuple[list[Any], list[Any]]:
        return self.call.forward(level, values, tangents)

    def in_parts(self, trace: Trace, args: Sequence[Any]) -> list[Any] | None:
        call = self.call
        if not isinstance(call, PrimitiveCall):
            return None
        if isinstance(trace, BatchTrace):
            values, flags = trace.unwrap(args)
            if True not in flags and not call.speaks_of(trace.axis_name):
                outs = all_apart_from(trace.parent.custom(self, values), args)
                return list(map(wrap, outs))
        return recorded_in_parts(self, trace, args)

    def unwatched(self) -> CustomCall:
        return watched_in_place_of(self, self.call)

    def showing(self, pull: Callable[..., Any]) -> PullbackWithHooks:
        """Returns what shows the cotangents to the hooks that a function pulls back."""
        return PullbackWithHooks(pull, self.op, self.handles)

    def batched(self, flags: Sequence[bool], size: int, axis_name: Hashable = None) -> CustomCall:
        """Returns the same for a batch; hooks see the cotangents of each example.

        Added up over the examples, these may differ in the last bits from what the batched
        operation's own rule gives, so that counts where the hooks have changed nothing.
        """
        pullback = self.bwd
        shown = CustomCall(
            self.name,
            self.evaluate,
            self.fwd,
            lambda residuals, gs: dense_cotangents(pullback(residuals, gs)),
            self.jvp,
            self.sparse,
        ).batched(flags, size, axis_name)
        plain = self.call.batched(flags, size, axis_name)
        if not isinstance(self.call, PrimitiveCall):
            return BatchBeside(plain, shown, pullback)

        def bwd(values: list[Any], gs: list[Any]) -> list[Any]:
            pullback.changed = False
            _, residuals = shown.fwd(values)
            found: list[Any] = shown.bwd(residuals, gs)
            return found if pullback.changed else list(plain.bwd(values, gs))

        call = BatchWithHooks(self.name, plain.evaluate, plain.fwd, bwd, shown.jvp, self.sparse)
        call.plain = plain
        call.made = lambda wanted: self.asked(wanted).batched(flags, size, axis_name)
        return call


class BatchWithHooks(AskedCall):
    """A primitive's call for a batch, whose cotangents hooks see.

    Attributes:
        plain: the call without hooks.
        made: makes the same for the operands whose cotangents are asked for.
    """

    each_time = True
    plain: CustomCall
    made: Callable[[Sequence[bool]], CustomCall]

    def asked(self, wanted: Sequence[bool]) -> CustomCall:
        return self.made(wanted)

    def unwatched(self) -> CustomCall:
        return watched_in_place_of(self, self.plain)


class BatchBeside(CustomCall):
    """A call for a batch, beside one whose cotangents hooks see.

    Args:
        plain: the call without hooks.
        shown: the same, whose rules show the cotangents of each example.
        pullback: what shows them.
    """

    each_time = True

    def __init__(
        self, plain: CustomCall, shown: CustomCall, pullback: PullbackWithHooks
    ) -> None:
        super().__init__(
            shown.name, shown.evaluate, shown.fwd, shown.bwd, shown.jvp, shown.sparse
        )
        self.plain = plain
        self.shown = shown
        self.pullback = pullback

    def reverse(
        self, level: Trace, values: list[Any], wanted: Sequence[bool]
    ) -> tuple[list[Any], Callable[[list[Any]], list[Any]]]:
        if type(self.plain) is CustomCall:
            # Its rules are the same.
            return super().reverse(level, values, wanted)
        outs, plain = self.plain.reverse(level, values, wanted)
        count = len(values)

        def seen(values: list[Any], gs: list[Any]) -> list[Any]:
            self.pullback.changed = False
            _, residuals = self.fwd(values)
            found: list[Any] = self.bwd(residuals, gs)
            return found if self.pullback.changed else plain(gs)

        def pull(kept: list[Any], gs: list[Any]) -> list[Any]:
            gs = filled_like(gs, kept[count:]) if len(gs) > 1 else gs
            return at_face_sparse(seen, kept[:count], gs)

        return outs, Pullback(pull, [*values, *outs])

    def forward(
        self, level: Trace, values: list[Any], tangents: list[Any]
    ) -> tuple[list[Any], list[Any]]:
        return self.plain.forward(level, values, tangents)

    def batched(self, flags: Sequence[bool], size: int, axis_name: Hashable = None) -> CustomCall:
        plain = self.plain.batched(flags, size, axis_name)
        shown = self.shown.batched(flags, size, axis_name)
        return BatchBeside(plain, shown, self.pullback)

    def unwatched(self) -> CustomCall:
        return watched_in_place_of(self, self.plain)


def watched_in_place_of(watched: CustomCall, plain: CustomCall) -> CustomCall:
    """Returns a call as it stands in an equation, in place of one whose cotangents hooks see."""
    call = copy(plain)
    call.program = watched.program
    return call


class PrimitiveCall(CustomCall):
    """A primitive, on the operands of one call, as a call that has the primitive's rules.

    Attributes:
        wanted: for every operand whether it may have a cotangent.
    """

    def __init__(self, primitive: Primitive, wanted: list[bool], params: dict[str, Any]) -> None:
        def evaluate(values: list[Any]) -> list[Any]:
            return [primitive.bind(values, params)]

        def fwd(values: list[Any]) -> tuple[list[Any], list[Any]]:
            chosen, operands, known = primitive.differentiated(values, params)
            out = chosen.bind(operands, known)
            return [out], [out, *operands]

        def bwd(residuals: list[Any], gs: list[Any]) -> list[Any]:
            hidden = len(residuals) - 1 - len(wanted)
            chosen, known = primitive.last if hidden else (primitive, params)
            asked = [*[False] * hidden, *wanted]
            return cotangents_of(chosen, gs[0], residuals, known, asked)[hidden:]

        def jvp(values: list[Any], tangents: list[Any]) -> tuple[list[Any], list[Any]]:
            given = [t if is_inexact(v) else None for t, v in zip(tangents, values, strict=True)]
            chosen, operands, known = primitive.differentiated(values, params)
            out = chosen.bind(operands, known)
            given = [*[None] * (len(operands) - len(values)), *given]
            return [out], [tangent_of(chosen, out, operands, given, known)]

        sparse = (0,) if primitive is index_primitive else ()
        super().__init__(primitive.name, evaluate, fwd, bwd, jvp, sparse)
        self.wanted = wanted
        self.primitive = primitive
        self.params = params

    def forward(
        self, level: Trace, values: list[Any], tangents: list[Any]
    ) -> tuple[list[Any], list[Any]]:
        """Returns the output and its tangent, None where that is zero."""
        with under(level):
            primitive, operands, params = self.primitive.differentiated(values, self.params)
        out = primitive.under(level, operands, params)
        if primitive.constant or not is_inexact(out):
            return [out], [None]
        tangents = [*[None] * (len(operands) - len(values)), *tangents]
        with under(level), quiet():
            return [out], [tangent_of(primitive, out, operands, tangents, params)]

    def asked(self, wanted: Sequence[bool]) -> PrimitiveCall:
        """Returns the call for fewer cotangents."""
        both = [a and b for a, b in zip(self.wanted, wanted, strict=True)]
        return PrimitiveCall(self.primitive, both, self.params)

    def speaks_of(self, axis_name: Hashable) -> bool:
        """Says whether the examples of a batch speak of each other in the operation."""
        return self.primitive.along is not None and axis_name in self.params["axis_name"]

    def batched(self, flags: Sequence[bool], size: int, axis_name: Hashable = None) -> CustomCall:
        """Returns the same for a batch, differentiated as the batched operation is."""
        axes = [0 if flag else None for flag in flags]
        evaluate = vmap(self.evaluate, in_axes=(axes,), axis_size=size, axis_name=axis_name)
        wanted = self.wanted

        def bwd(values: list[Any], gs: list[Any]) -> list[Any]:
            known = [i for i, v in enumerate(values) if wanted[i] and is_inexact(v)]

            def chosen(*some: Value) -> Any:
                operands = list(values)
                for i, v in zip(known, some, strict=True):
                    operands[i] = v
                return evaluate(operands)

            _, pull = vjp(chosen, *[values[i] for i in known])
            found = dict(zip(known, pull(gs), strict=True))
            return [found.get(i) for i in range(len(values))]

        return CustomCall(self.name, evaluate, lambda v: (evaluate(v), v), bwd, sparse=self.sparse)


def cotangents_of(
    primitive: Primitive,
    g: Value,
    saved: Sequence[Any],
    params: dict[str, Any],
    wanted: Sequence[bool],
) -> list[Any]:
    """Returns the cotangents of all operands of a primitive, None for those without one.

    ``g`` is the cotangent of its output; ``saved`` has the output and then the operands. Cotangents
    that are not wanted are None too; that of an indexed operand may be a ``Scatter``.
    """
    operands = saved[1:]
    if primitive.pullback is not None:
        found = list(primitive.pullback(g, tuple(saved), params))
    else:
        if primitive.keepers.declared is not None:
            saved = primitive.keepers.declared(saved[0], operands)
        rules = primitive.vjps or [None] * len(operands)
        found = [
            vjp(g, tuple(saved), params) if vjp is not None and want and is_inexact(x) else None
            for vjp, x, want in zip(rules, operands, wanted)
        ]
    # Index arrays come last and need no rules.
    found += [None] * (len(operands) - len(found))
    for i, (c, x) in enumerate(zip(found, operands, strict=True)):
        if not wanted[i]:
            found[i] = None
        elif c is not None and type(c) is not Scatter:
            found[i] = fitted_cotangent(c, shape_dtype(x), primitive)
    return found
