"""Calls that bring their own derivative rule, on flat lists of arrays.

A call with a rule for one mode works in the other too: reverse mode is the transpose of a jvp rule
and forward mode that of a vjp rule. Both rules are linear, so that reverse mode over the rule
itself transposes it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from copy import copy
from threading import local
from typing import Any, Self

from ..backends.restoring import setting
from ..primitives.collectives import with_axes_of_now
from ..primitives.core.annotations import Value, Values
from ..primitives.core.annotations import operations as ops
from ..primitives.core.array import Tracer
from ..primitives.core.array_likes import is_array_like
from ..primitives.core.buffers import exposed, owned, to_buffer, wrap
from ..primitives.core.derivative_rules import shape_of
from ..primitives.core.index_key import IndexKey
from ..primitives.core.primitive_like import Call
from ..primitives.core.trace import RAW, Trace, at_face, slot, under
from ..primitives.shape.index import Scatter
from ..traces.forward import zeros_like
from ..traces.reverse import is_inexact
from ..transforms.grad import vjp
from ..transforms.jvp import jvp
from ..transforms.vmap import vmap

__all__ = ["CustomCall", "InlinedCall", "Pullback", "at_face_pair", "filled_like", "replaced"]

WHOLE_KEY = IndexKey((Ellipsis,))


class _Transposed(local):
    """The functions whose rules are being transposed, innermost last."""

    bearers: tuple[Any, ...] = ()

    def within(self, bearer: object) -> setting:
        """Returns a block in which there is one more of them."""
        return setting(self, bearers=(*self.bearers, bearer))


transposed_functions = _Transposed()


class Pullback:
    """A function that pulls cotangents back, and the values that it keeps for that.

    Attributes:
        run: takes those values and the cotangents.
        kept: the values.
        repeated: the call, its operands, and None for all of these being wanted, where it may be
            called again to be differentiated twice; None elsewhere.
    """

    __slots__ = ("__weakref__", "kept", "repeated", "run")

    def __init__(
        self,
        run: Callable[[Values, Values], Values],
        kept: Values,
        repeated: tuple[Any, Values, None] | None = None,
    ) -> None:
        self.run = run
        self.kept = kept
        self.repeated = repeated

    def with_kept(self, kept: Values) -> Pullback:
        """Returns the same function with other values in place of those that it keeps."""
        return Pullback(self.run, kept, self.repeated)

    def __call__(self, gs: Values) -> Values:
        return self.run(self.kept, gs)


class CustomCall(Call):
    """One call of a function with its own rule, on flat lists of public values.

    Args:
        name: the function's name.
        evaluate: ``evaluate(operands) -> outputs``.
        fwd, bwd: ``fwd(operands) -> (outputs, residuals)`` and ``bwd(residuals, cotangents) ->
            cotangents of the operands``, None for zeros.
        jvp: ``jvp(operands, tangents) -> (outputs, tangents)``.
        sparse: which operands are indexed: the walker adds up the cotangents of those at last.

    Attributes:
        infer: ``infer(*types) -> types of the outputs``, where evaluation needs plain values, so
            that staging cannot run it; None elsewhere.
        bearer: stands for the function whose call it is, if its rule may call it on tangents: a
            linear function's own derivative.
        users: whether the function and its rules are the user's code.
    """

    bearer: object = None
    users = False
    # The attributes that are functions.
    functions: tuple[str, ...] = ("evaluate", "fwd", "bwd", "jvp")

    def __init__(
        self,
        name: str,
        evaluate: Callable[[Values], Values],
        fwd: Any = None,
        bwd: Any = None,
        jvp: Any = None,
        sparse: Sequence[int] = (),
    ) -> None:
        self.name = name
        # The rules may run when the processes' function is over.
        evaluate, fwd, bwd, jvp = map(with_axes_of_now, (evaluate, fwd, bwd, jvp))
        self.evaluate: Callable[[Values], Values] = evaluate
        self.fwd = fwd
        self.bwd = bwd
        self.jvp = jvp
        self.sparse = sparse

    def bind(self, operands: Sequence[Any]) -> Values:
        """Applies the call at the level of the current trace."""
        trace = slot.trace
        if trace is None:
            met = next((x for x in operands if isinstance(x, Tracer)), None)
            if met is None:
                outs = self.evaluate(list(operands))
                # A plain array that comes back as it was may be changed by its owner.
                return [wrap(owned(out)) if is_array_like(out) else out for out in outs]
            trace = met.owner
            if not trace.standing:
                value: Value = trace.leave(met)
                if value is met:
                    return [met]
                return self.bind([wrap(value) if x is met else x for x in operands])
        if self.bearer is not None and self.bearer in transposed_functions.bearers and any(
            isinstance(x, Tracer) and x.owner is trace for x in operands
        ):
            # A linear function is transposed by running it.
            return [wrap(out) if is_array_like(out) else out for out in self.evaluate([*operands])]
        return trace.custom(self, operands)

    def within(self, around: Callable[[Any], Any]) -> Self:
        """Returns the same call, of functions that another one makes of its own."""
        out = copy(self)
        for name in self.functions:
            fun = getattr(self, name)
            setattr(out, name, fun and around(fun))
        return out

    def on_buffers(self, buffers: Sequence[Any]) -> Values:
        """Computes the outputs as buffers, of buffers: a step of a plan."""
        with under(None):
            return [to_buffer(out) for out in self.evaluate(list(map(exposed, buffers)))]

    def reverse(
        self, level: Trace, values: Values, wanted: Sequence[bool]
    ) -> tuple[Values, Callable[[Values], Values]]:
        """Returns the outputs and the function that pulls cotangents back.

        ``wanted`` says which operands' cotangents are asked for; others may be left out as None.
        """
        fwd, bwd = self.rules()
        with under(level):
            outs, residuals = at_face_pair(fwd, values)
        count = len(residuals)
        shapes = {i: shape_of(values[i]) for i in self.sparse}
        # A single output has a cotangent wherever the way back comes here.
        more = outs if len(outs) > 1 else []

        def pull(kept: Values, gs: Values) -> Values:
            gs = filled_like(gs, kept[count:]) if len(gs) > 1 else gs
            cotangents = at_face_sparse(bwd, kept[:count], gs)
            for i, shape in shapes.items():
                c = cotangents[i]
                if c is not None and type(c) is not Scatter:
                    cotangents[i] = Scatter(shape, c.dtype, WHOLE_KEY, (), c)
            return cotangents

        return outs, Pullback(pull, [*residuals, *more])

    def rules(self) -> tuple[Callable[..., Any], Callable[..., Any]]:
        """Returns ``fwd`` and ``bwd``, transposed from ``jvp`` where there are none."""
        if self.fwd is not None:
            return self.fwd, self.bwd
        # Bound and not evaluated: outer transformations differentiate the result by the rule too.
        return lambda values: (self.bind(values), values), self._pull_by_jvp

    def forward(self, level: Trace, values: Values, tangents: Values) -> tuple[Values, Values]:
        """Returns the outputs and their tangents."""
        with under(level):
            rule = self.jvp or self._push_by_vjp
            return at_face_pair(rule, values, filled_like(tangents, values))

    def _pull_by_jvp(self, values: Values, gs: Values) -> Values:
        with transposed_functions.within(self.bearer):
            _, pull = vjp(lambda *ts: self.jvp(values, list(ts))[1], *map(zeros_like, values))
            return list(pull(gs))

    def _push_by_vjp(self, values: Values, tangents: Values) -> tuple[Values, Values]:
        outs, residuals = self.fwd(values)
        known = [i for i, v in enumerate(values) if is_inexact(v)]

        def transposed(*gs: Value) -> Values:
            cotangents = self.bwd(residuals, list(gs))
            return [
                zeros_like(values[i]) if cotangents[i] is None else cotangents[i] for i in known
            ]

        _, pull = vjp(transposed, *map(zeros_like, outs))
        return outs, list(pull([tangents[i] for i in known]))

    def batched(self, flags: Sequence[bool], size: int, axis_name: Hashable = None) -> CustomCall:
        """Returns the same for a batch; operands without a flag are shared by all examples."""
        axes = [0 if flag else None for flag in flags]

        def over(fun: Callable[..., Any], in_axes: int | tuple[Any, ...]) -> Callable[..., Any]:
            return vmap(fun, in_axes=in_axes, axis_size=size, axis_name=axis_name)

        def bwd(residuals: Values, gs: Values) -> Values:
            cotangents = over(self.bwd, 0)(residuals, gs)
            return [
                c if flag or c is None else ops.sum(c, axis=0)
                for c, flag in zip(cotangents, flags, strict=True)
            ]

        call = CustomCall(
            self.name,
            over(self.evaluate, (axes,)),
            self.fwd and over(self.fwd, (axes,)),
            self.bwd and bwd,
            self.jvp and over(self.jvp, (axes, axes)),
            self.sparse,
        )
        call.bearer = self.bearer
        call.each_time = self.each_time
        return call


class InlinedCall(CustomCall):
    """A call without a rule of its own: its function is differentiated as it runs."""

    def reverse(
        self, level: Trace, values: Values, wanted: Sequence[bool]
    ) -> tuple[Values, Callable[[Values], Values]]:
        """Returns the outputs and the function that pulls cotangents back."""
        known = [i for i, v in enumerate(values) if wanted[i] and is_inexact(v)]
        pulls = []

        def run(values: Values) -> Values:
            outs, pull = vjp(
                lambda *some: self.evaluate(replaced(values, known, some)),
                *[values[i] for i in known],
            )
            pulls.append(pull)
            return outs

        with under(level):
            outs = at_face(run, values)

        def pull_back(gs: Values) -> Values:
            found = at_face(lambda gs: list(pulls[0](gs)), filled_like(gs, outs))
            return replaced([None] * len(values), known, found)

        return outs, pull_back

    def forward(self, level: Trace, values: Values, tangents: Values) -> tuple[Values, Values]:
        """Returns the outputs and their tangents."""
        given = [i for i, t in enumerate(tangents) if t is not None]

        def push(values: Values, some: Values) -> tuple[Values, Values]:
            moved = [values[i] for i in given]
            outs, out_tangents = jvp(
                lambda *moved: self.evaluate(replaced(values, given, moved)), moved, some
            )
            return outs, out_tangents

        with under(level):
            return at_face_pair(push, values, [tangents[i] for i in given])

    def batched(self, flags: Sequence[bool], size: int, axis_name: Hashable = None) -> CustomCall:
        """Returns the same for a batch."""
        axes = [0 if flag else None for flag in flags]
        mapped = vmap(self.evaluate, in_axes=(axes,), axis_size=size, axis_name=axis_name)
        return InlinedCall(self.name, mapped)


def at_face_pair(fun: Callable[..., Any], *groups: Values) -> tuple[Values, Values]:
    """Calls a function that returns two lists, as `at_face` does with one."""
    split = 0

    def joined(*groups: Values) -> Values:
        nonlocal split
        first, second = fun(*groups)
        split = len(first)
        return [*first, *second]

    both = at_face(joined, *groups)
    return both[:split], both[split:]


def at_face_sparse(fun: Callable[..., Values], *groups: Values) -> Values:
    """Calls a function that returns cotangents, sparse ones among them, as `at_face` does."""
    sparse: dict[int, Scatter] = {}

    def values_only(*groups: Values) -> Values:
        found = list(fun(*groups))
        sparse.update((i, c) for i, c in enumerate(found) if type(c) is Scatter)
        return [c.g if type(c) is Scatter else c for c in found]

    found = at_face(values_only, *groups)
    for i, c in sparse.items():
        raw = slot.trace is RAW
        arrays = [to_buffer(a) for a in c.index_arrays] if raw else c.index_arrays
        found[i] = Scatter(c.shape, c.dtype, c.key, arrays, found[i])
    return found


def filled_like(values: Values, like: Values) -> Values:
    """Returns values with zeros like others in place of None."""
    return [zeros_like(x) if v is None else v for v, x in zip(values, like, strict=True)]


def replaced(leaves: Sequence[Any], places: Sequence[int], values: Sequence[Any]) -> Values:
    """Returns a list of leaves with other values in some places."""
    filled = list(leaves)
    for i, value in zip(places, values, strict=True):
        filled[i] = value
    return filled
