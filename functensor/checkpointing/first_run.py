"""The first run of a checkpointed function with a policy, which saves values for the second.

Every value that depends on the function's inputs is noted, with its operands and with the values
that its derivative keeps. Of the values that the policy would save, the backward pass needs some;
only those are saved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ..backends.restoring import Restoring, in_turn
from ..checkpoint_policies import RECOMPUTE, Offload, Policy
from ..custom.call import CustomCall
from ..functions.type_variables import T
from ..primitives.core.annotations import Value, Values
from ..primitives.core.annotations import operations as ops
from ..primitives.core.buffers import (
    all_apart_from,
    apart_from,
    beside,
    device_of,
    wrap,
)
from ..primitives.core.errors import user_line
from ..primitives.core.plain_arrays import plain_arrays
from ..primitives.core.primitive import Primitive
from ..primitives.core.shape_dtype import ShapeDtype, shape_dtype
from ..primitives.core.trace import RAW, Trace, under
from ..primitives.identities import checkpoint_name
from ..programs.program import argument_type
from ..traces.reverse import is_inexact
from ..tree import containers as tree
from .capture import FirstRunTrace, FirstRunTracer, signature

if TYPE_CHECKING:
    from ..primitives.core.primitive_like import Call

__all__ = ["Made", "Policy", "RecordingTrace", "Saved", "reached"]


class Saved:
    """The saved form of one value.

    Attributes:
        stored: arrays of the level at which the function runs; let go when they are handed over.
        treedef: the structure that the policy's ``restore`` takes.
        how: the policy's answer, if the value is offloaded.
        known: the value's shape and dtype.
        device: where it was.
        linked: whether the last of the arrays stands for the value in derivatives.
        place: the numbers of its arrays among all that is saved.
        source: what made it, and the user's line.
    """

    __slots__ = ("device", "how", "known", "linked", "place", "source", "stored", "treedef")

    def __init__(self, value: Value, answer: bool | Offload, level: Trace, source: str) -> None:
        self.source = source, user_line()
        self.known = shape_dtype(value)
        self.device = device_of(value)
        self.how = how = answer if isinstance(answer, Offload) and answer.takes(value) else None
        self.linked = False
        self.place: slice | None = None
        self.treedef: Any = None
        self.stored: Values | None = [value]
        if how is None:
            return
        with unasked(level), under(None if level is RAW else level):
            self.stored, self.treedef = tree.flatten(how.put(wrap(value)))
            if level is not RAW and is_inexact(value):
                self.linked = True
                self.stored += _shadow.bind([wrap(value)])

    def restored(self, arrays: Sequence[Any], trace: Trace) -> Any:
        """Returns the value at the level on which a trace stands."""
        if self.how is None:
            return trace.argument(arrays[0])
        given = arrays[: len(arrays) - self.linked]
        level = trace.parent
        with unasked(level), under(None if level is RAW else level):
            out = self.how.get(self.treedef.unflatten(list(map(wrap, given))), self.device)
            if shape_dtype(out).strong() != self.known:
                raise ValueError(
                    f"restore gave {shape_dtype(out)} for {self.known}, which was offloaded\n"
                    "  fix: return an array of the shape and dtype that offload was given"
                )
            if self.linked:
                (out,) = _restoring_call.bind([out, wrap(arrays[-1])])
        return trace.argument(out)


class unasked(Restoring):
    """Keeps outer first runs, within a block, from saving values that are made to save another."""

    __slots__ = ("_asking",)

    def __init__(self, level: Trace) -> None:
        self._asking = []
        while level is not RAW:
            if isinstance(level, RecordingTrace) and level.asking:
                self._asking.append(level)
            level = level.parent
        self.close = in_turn([partial(setattr, trace, "asking", True) for trace in self._asking])

    def __enter__(self) -> Any:
        try:
            for trace in self._asking:
                trace.asking = False
        except BaseException:
            self.close()
            raise


# To derivatives a restored value is the value itself, whatever the policy did to store it. Another
# one, without memory of its own, goes along with the stored arrays and has the value's derivative.


def _as_shadow(values: Values) -> Values:
    (x,) = values
    return [ops.broadcast_to(beside(x, np.zeros((), x.dtype)), x.shape)]


_shadow: CustomCall = CustomCall(
    "offload",
    _as_shadow,
    fwd=lambda values: (_shadow.bind(values), []),
    bwd=lambda residuals, gs: gs,
    jvp=lambda values, tangents: (_shadow.bind(values), tangents),
)
_restoring_call: CustomCall = CustomCall(
    "restore",
    lambda values: values[:1],
    fwd=lambda values: (_restoring_call.bind(values), []),
    bwd=lambda residuals, gs: [None, *gs],
    jvp=lambda values, tangents: (_restoring_call.bind(values), tangents[1:]),
)


class Made:
    """One value of the first run.

    Attributes:
        operands: the values that it is computed of, as far as they depend on inputs.
        parents: those of them that have derivatives.
        needs: the values that its derivative keeps.
        linked: whether it has a derivative.
        given: whether it is an input.
        saved: what is saved of it, or None.
    """

    __slots__ = ("given", "linked", "needs", "operands", "parents", "saved")

    linked: bool

    def __init__(self, operands: Sequence[Made], linked: bool, given: bool = False) -> None:
        self.operands = operands
        self.parents = [made for made in operands if made.linked] if linked else []
        self.needs: Sequence[Made] = ()
        self.linked = linked
        self.given = given
        self.saved: Saved | None = None


class RecordingTrace(FirstRunTrace):
    """Runs a function for the first time, and saves what a policy says.

    Its tracers are of all that depends on an input; each has a `Made`.

    Attributes:
        policy, asking: the policy, and whether it is asked.
        values: the `Made` of each operation of the log.
    """

    __slots__ = ("asking", "policy", "values")

    in_parts = True

    def __init__(self, fun: Callable[..., Any] | None, within: Trace, policy: Policy) -> None:
        super().__init__(fun, within)
        self.policy = policy
        self.asking = True
        self.values: list[list[Made]] = []

    def input(self, value: Value, linked: bool) -> FirstRunTracer:
        """Returns the tracer of an input."""
        return self.wrap(value, Made((), linked, given=True))

    def process(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        values, mine = self.unwrap(args)
        ans = self.below(primitive, values, params)
        operands = [made for made in mine if made is not None]
        if not operands:
            return apart_from(ans, plain_arrays(args))
        mask = sum(1 << i for i, made in enumerate(mine) if made is not None and made.linked)
        keep = primitive.keepers[mask] if mask else None
        out = Made(operands, keep is not None and is_inexact(ans))
        if keep is not None and out.linked:
            kept = keep(ans, tuple(values))
            out.needs = [
                made
                for value, made in zip((ans, *values), (out, *mine), strict=True)
                if made is not None and any(x is value for x in kept)
            ]
        self.log.append(signature(primitive.name, ans))
        self.values.append([out])
        if primitive is checkpoint_name:
            self.mark(operands[0], out, ans, params)
        else:
            self.decide(out, ans, primitive, values, params)
        return self.wrap(ans, out)

    def custom(self, call: Call, args: Sequence[Any]) -> Values:
        if call.dissolves:
            with under(self):
                return call.program.run(args)  # type: ignore[no-any-return]
        done = call.in_parts(self, args)
        if done is not None:
            return done
        values, mine = self.unwrap(args)
        operands = [made for made in mine if made is not None]
        if not operands:
            return list(map(wrap, all_apart_from(self.parent.custom(call, values), args)))
        wanted = [made is not None and made.linked for made in mine]
        if any(wanted):
            outs, _ = call.reverse(self.parent, values, wanted)
        else:
            outs = self.parent.custom(call, values)
        outs = list(all_apart_from(outs, args))
        return self.called(call, outs, operands)

    def called(self, call: Call, outs: Values, operands: Sequence[Made]) -> Values:
        """Notes a call as one operation; returns the tracers of its outputs."""
        linked = any(made.linked for made in operands)
        made = [Made(operands, linked and is_inexact(out)) for out in outs]
        for each in made:
            # The rule keeps values of its own, which a second run makes of the operands.
            each.needs = operands if each.linked else ()
        self.log.append(signature(call.name, *outs))
        self.values.append(made)
        return [self.wrap(out, each) for out, each in zip(outs, made, strict=True)]

    def decide(
        self,
        made: Made,
        ans: Value,
        primitive: Primitive,
        values: Values,
        params: dict[str, Any],
    ) -> None:
        """Saves a value, if the policy says so."""
        if not self.asking:
            return
        types = list(map(argument_type, values))
        answer = self.policy(primitive, *types, **params)
        if not answer and primitive.whole is not None:
            # Its users know the operation that it is the last step of.
            answer = self.policy(primitive.whole, *types[1:])
        # Saved as arrays, Python's numbers would decide promotions.
        if answer and argument_type(ans).weak is None:
            made.saved = Saved(ans, answer, self.parent, f"output of {primitive.name}")

    def mark(self, source: Made, made: Made, ans: Value, params: dict[str, Any]) -> None:
        """Asks the policy about a name; the value is that of the operand."""
        known: ShapeDtype = argument_type(ans)
        answer = self.asking and self.policy(checkpoint_name, known, **params)
        if answer is RECOMPUTE:
            source.saved = None
        elif answer and not source.given and source.saved is None and known.weak is None:
            source.saved = Saved(ans, answer, self.parent, f"named {params['name']!r}")
        made.saved = source.saved

    def saved(self, outs: Sequence[Any]) -> Values:
        """Returns the arrays that the policy saves, as far as the backward pass needs them."""
        roots = [made for made in self.unwrap(outs)[1] if made is not None]
        wanted = needed([made for made in roots if made.linked])
        arrays: Values = []
        for made in (made for step in self.values for made in step):
            each = made.saved
            if each is None or each not in wanted:
                made.saved = None
            elif each.stored is not None:
                each.place = slice(len(arrays), len(arrays) + len(each.stored))
                arrays += each.stored
                each.stored = None
        return arrays

    def forget(self, before: int) -> None:
        super().forget(before)
        del self.values[before:]

    def collapse(
        self, call: Call, before: int, operands: Sequence[Any], outs: Sequence[Any]
    ) -> Values:
        results, made = self.unwrap(outs)
        inside = {each for step in self.values[before:] for each in step}
        roots = [each for each in (*made, *self.unwrap(operands)[1]) if each is not None]
        met = reached(roots, lambda each: (*each.operands, *each.needs) if each in inside else ())
        edge = [each for each in met if each not in inside]
        self.forget(before)
        return self.called(call, results, edge)


def needed(roots: Sequence[Made]) -> set[Saved]:
    """Returns the saved values that derivatives need, or that their operands are computed of."""
    kept = [need for made in reached(roots, lambda made: made.parents) for need in made.needs]
    computed = reached(kept, lambda made: () if made.saved is not None else made.operands)
    return {made.saved for made in computed if made.saved is not None}


def reached(roots: Iterable[T], step: Callable[[T], Iterable[T]]) -> dict[T, None]:
    """Returns the keys that steps lead to from some roots, with the roots, each once."""
    found = dict.fromkeys(roots)
    waiting = list(found)
    while waiting:
        for x in step(waiting.pop()):
            if x not in found:
                found[x] = None
                waiting.append(x)
    return found
