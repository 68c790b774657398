"""Calls of hooks from within programs: a plan calls the hook with the values that it computed.

An equation of its own stands for the call. It hands on the values that it shows. So what comes
after depends on it, and everything that no hook looks at is fused and planned as without hooks.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from ..backends.annotations import Axes
from ..backends.restoring import setting
from ..custom.call import CustomCall, replaced
from ..jitting.program_call import DerivedCall, Flags, Flat, Rules
from ..jitting.program_derivatives import batched_inputs, is_differentiable
from ..jitting.retraces import StaleProgramError
from ..primitives.core.annotations import Values
from ..primitives.core.annotations import operations as ops
from ..primitives.core.array import Tracer, unknown_behind
from ..primitives.core.buffers import WEAK_TYPES, wrap
from ..primitives.core.errors import failure
from ..primitives.core.shape_dtype import ShapeDtype
from ..primitives.core.trace import RAW, Recalled, Trace, slot, transformation_stack
from ..programs.program import Variable, argument_type
from ..programs.staging import StagingTrace
from ..traces.batch import examples_under
from ..traces.forward import zeros_like
from ..transforms.grad import vjp
from ..transforms.jvp import jvp
from ..transforms.vmap import vmap
from .faults import replacement
from .host_call import HostCall, batched_type, strong
from .operation import Operation
from .values import plain_value

__all__ = ["HookCall", "pulled_in_program", "shown_in_program", "told_in_program"]

ORDER = ShapeDtype((), "bool")


class HookCall(HostCall):
    """A call of a hook on values of a program, which hands on some of them, or what replaces them.

    Its last operand is the last output of the call before it, so that they keep their order. Its
    own last output says whether the hook has replaced a value.

    Args:
        name: what it is called in programs.
        fun: takes the values that are shown, and whether they are shown again; returns those that
            are handed on, or None where they are the ones of ``through``.
        inputs: variables like the values, and like that output.
        through: the numbers of the values that are handed on where the hook replaces none.
        line: the user's line, for messages.
        source: the registration, as the program knows it.
        looks: whether derivatives take it that the hook replaces nothing, since the caller can do
            without the program. Otherwise they look whether it has, and then are those of what it
            does, which they ask it again.
        fixed: whether such a derivative was taken, so that the hook may replace nothing.
        types: the types of what is handed on; by default those of the values themselves.
        missing: for every value that is handed on the axes of batches that it lacks, since all
            examples share it: a hook may return another one for each.
        again: whether it belongs to what a checkpoint runs again. The hook is asked again only if
            it replaces values.
        stack: the transformations that the hook is called under, for messages.
    """

    effect = True

    def __init__(
        self,
        name: str,
        fun: Callable[[Values, bool], Sequence[Any] | None],
        inputs: Sequence[Variable],
        through: Sequence[int],
        line: str,
        source: Any,
        looks: bool = True,
        fixed: bool = False,
        types: Sequence[ShapeDtype] | None = None,
        missing: Sequence[Axes] | None = None,
        again: bool = False,
        stack: str = "",
    ) -> None:
        self.types = [inputs[i].type for i in through] if types is None else types
        self.missing: Sequence[Axes] = [()] * len(through) if missing is None else missing
        super().__init__(name, self._called, inputs, [*self.types, ORDER])
        self.show = fun
        self.through = list(through)
        self.line = line
        self.source = source
        self.looks = looks
        self.fixed = fixed
        self.again = again
        self.stack = stack

    def bind(self, operands: Sequence[Any]) -> Values:
        """Applies the call at the level of the current trace."""
        if slot.replaying and not self.again:
            return self.replayed().bind(operands)
        return super().bind(operands)

    def replayed(self) -> HookCall:
        return self.like(again=True)

    def like(self, **changed: Any) -> HookCall:
        """Returns a call that differs by what is given."""
        names = "name inputs through line source looks fixed types missing again stack"
        given = {name: getattr(self, name) for name in names.split()}
        return HookCall(**{"fun": self.show, **given, **changed})

    def passed(self, values: Sequence[Any]) -> Values:
        """Returns the values that are handed on where the hook replaces none."""
        pairs = zip(self.through, self.types, self.missing, strict=True)
        return [spread_over(values[i], known, axes) for i, known, axes in pairs]

    def _called(self, values: Values) -> Values:
        outer = slot.running
        try:
            slot.running = Recalled(self.stack)
            return self._handed_on(values)
        finally:
            slot.running = outer

    def _asked_again(self, values: Values) -> Values:
        """Does the same for a derivative: the call is none of those whose answers are kept."""
        with setting(slot, answers=None):
            return self._called(values)

    def _handed_on(self, values: Values) -> Values:
        shown = values[:-1]
        # Hooks are shown arrays, where a plan may have numbers of Python's.
        arrays = [wrap(x) if type(x) in WEAK_TYPES else x for x in shown]
        ask = partial(self.show, arrays, self.again or slot.replaying)
        answers = slot.answers
        found = ask() if answers is None else answers.of(self.name, self.source.hook, ask)
        if found is None:
            return [*self.passed(shown), np.False_]
        if not self.fixed:
            return [*map(as_planned_number, found, self.types), np.True_]
        self.source.hook.replaces = True
        raise self._outdated()

    def _outdated(self) -> StaleProgramError:
        """Returns the error for a hook that replaces values where a program takes derivatives.

        Nothing is compiled under the hook from now on.
        """
        self.source.hook.compiled = False
        return failure(
            StaleProgramError,
            f"the {self.name} at {self.line} returned a value where a compiled function was "
            "made for a hook that returns None",
            fix="set traceable = True on the hook, so that its function is compiled in; or "
            "with ft.disable_jit()",
        )

    def _unchanging(self) -> HookCall:
        """Returns the call in a derivative for which the hook has to replace nothing."""
        if self.source.hook.replaces:
            raise self._outdated()
        return self.like(fixed=True)

    def forward(self, level: Trace, values: Values, tangents: Values) -> tuple[Values, Values]:
        # The call of the hook is not that for the tangents.
        return DerivedCall.forward(self, level, values, tangents)

    def pushed(self, given: Flags) -> tuple[Flat, Sequence[bool]]:
        count = len(self.inputs)
        moved = [i for i, flag in enumerate(given) if flag]
        if self.looks:
            call = self._unchanging()
            flags = [given[i] for i in self.through]

            def push(values: Values) -> Values:
                tangents = dict(zip(moved, values[count:], strict=True))
                return [
                    *call.bind(values[:count]),
                    *(tangents[i] for i in self.through if given[i]),
                ]

            return push, [*flags, False]
        found = [is_differentiable(self.inputs[i]) for i in self.through]

        def tangents_of(values: Values) -> Values:
            *shown, changed = values[:count]
            tangents = dict(zip(moved, values[count:], strict=True))
            if not any_changed(changed):
                return self.passed([tangents.get(i, zeros_like(x)) for i, x in enumerate(shown)])
            return jvp(
                lambda *some: self._asked_again([*replaced(shown, moved, some), changed])[:-1],
                [shown[i] for i in moved],
                list(tangents.values()),
            )[1]

        like = [*self.inputs, *(strong(self.inputs[i]) for i in moved)]
        types = [known.strong() for known in self.types]
        derivative = HostCall(f"tangents of the {self.name}", tangents_of, like, types)

        def pushing(values: Values) -> Values:
            *outs, changed = self.bind(values[:count])
            given = [*values[: count - 1], changed, *values[count:]]
            pairs = zip(derivative.bind(given), found, strict=True)
            return [*outs, changed, *(t for t, flag in pairs if flag)]

        return pushing, [*found, False]

    def pulled(self, wanted: Flags) -> Rules | None:
        count = len(self.inputs) - 1
        if self.looks:
            reached = [i for i in self.through if wanted[i]]
            if not reached:
                return None
            call = self._unchanging()
            return Rules(len(self.through) + 1, call.bind, (), self._passing)

        def backward(given: Flags) -> tuple[Flat, Sequence[bool]]:
            reached = [n for n, flag in enumerate(given[:-1]) if flag]
            chosen = [i for i, flag in enumerate(wanted) if flag]

            def cotangents_of(values: Values) -> Values:
                *shown, changed = values[: count + 1]
                gs = dict(zip(reached, values[count + 1 :], strict=True))
                if not any_changed(changed):
                    by_operand = {
                        self.through[n]: ops.sum(g, axis=axes) if (axes := self.missing[n]) else g
                        for n, g in gs.items()
                    }
                    # Added to another cotangent, a negative zero changes no bit.
                    return [
                        by_operand[i] if i in by_operand else ops.negative(zeros_like(shown[i]))
                        for i in chosen
                    ]

                def run(*some: Any) -> Values:
                    outs = self._asked_again([*replaced(shown, chosen, some), changed])
                    return [outs[n] for n in reached]

                return list(vjp(run, *[shown[i] for i in chosen])[1](list(gs.values())))

            like = [*self.inputs, *(strong(self.inputs[self.through[n]]) for n in reached)]
            types = [self.inputs[i].type.strong() for i in chosen]
            call = HostCall(f"cotangents of the {self.name}", cotangents_of, like, types)
            return call.bind, wanted

        kept = [*range(count), len(self.inputs) + len(self.through)]
        return Rules(len(self.through) + 1, self.bind, kept, backward)

    def _passing(self, given: Flags) -> tuple[Flat, Sequence[bool]]:
        """Returns the way back through a hook that replaces nothing."""
        order = [i for i, flag in zip(self.through, given) if flag]
        numbers = [order.index(i) for i in sorted(order)]
        return (lambda gs: [gs[n] for n in numbers]), [i in order for i in range(len(self.inputs))]

    def mapped(self, flags: Flags, size: int, axis_name: Hashable) -> CustomCall:
        axes = [0 if flag else None for flag in flags[:-1]]
        # A hook that does more than look may return a value for each example in place of one that
        # all share.
        handed = [flags[i] or not self.looks for i in self.through]
        same: list[bool] = []

        def one(values: Values, again: bool) -> Values:
            found = self.show(values, again)
            same.append(found is None)
            return [values[i] for i in self.through] if found is None else list(found)

        over = vmap(one, in_axes=(axes, None), axis_size=size, axis_name=axis_name)

        def fun(values: Values, again: bool) -> Sequence[Any] | None:
            outs: Values = over(values, again)
            return None if same.pop() else outs

        missing = [
            (*(() if flags[i] or not flag else (0,)), *(axis + flag for axis in axes))
            for i, flag, axes in zip(self.through, handed, self.missing, strict=True)
        ]
        types = [
            batched_type(known, size) if flag else known
            for known, flag in zip(self.types, handed, strict=True)
        ]
        call = self.like(
            fun=fun,
            inputs=batched_inputs(self.inputs, flags, size),
            fixed=self.fixed or not all(handed),
            types=types,
            missing=missing,
        )
        call.out_flags = [*handed, False]
        return call


def spread_over(x: Any, known: ShapeDtype, missing: Axes) -> Any:
    """Returns a value for each example of the batches whose axes it lacks."""
    return ops.broadcast_to(ops.expand_dims(x, axis=missing), known.shape) if missing else x


def as_planned_number(x: Any, known: ShapeDtype) -> Any:
    """Returns an array as the number of Python's that a plan has in its place, if it has one."""
    return x if known.weak is None or isinstance(x, Tracer) else known.weak(x)


def any_changed(changed: Any) -> bool:
    """Says whether a hook has replaced a value, for any example where there are several."""
    return bool(np.any(plain_value(changed)))


def told_in_program(handle: Any, op: Operation, values: Sequence[Any]) -> Values:
    """Has the program tell a hook of an operation before it runs; returns its operands."""
    traced, constant = parted(values)
    source = handle.source()

    def fun(shown: Values, again: bool) -> None:
        current = source.current()
        if current is not None and (not again or current.on_replay):
            first = not again or op.phase == "backward"
            known = of_examples(op) if first else op.at("replay")
            current.before(known, replaced(constant, traced, shown))

    shown = [values[i] for i in traced]
    through = [n for n, x in enumerate(shown) if unknown_behind(x) is not None]
    outs = recorded(f"before {op.name}", fun, shown, through, op.line, source, True)
    return replaced(values, [traced[n] for n in through], outs)


def shown_in_program(handle: Any, op: Operation, args: Sequence[Any], out: Any) -> Any:
    """Has the program show an output to a hook; returns what stands in its place."""
    traced, constant = parted(args)
    source = handle.source()

    def fun(shown: Values, again: bool) -> Sequence[Any] | None:
        current = source.current()
        if current is None or (again and not (current.on_replay or current.hook.replaces)):
            return None
        new = current.forward(
            op.at("replay") if again else op,
            tuple(replaced(constant, traced, shown[:-1])),
            shown[-1],
        )
        return None if new is None else [replacement(current.hook, "forward", op, new, shown[-1])]

    shown = [*[args[i] for i in traced], out]
    # Python may know a value already; then it cannot be another one.
    known = unknown_behind(out) is None
    if known and not handle.is_around() and handle.hook.replaces is not False:
        new = handle.shown_at_once(op, args, out)
        if new is not out:
            return new
    through = [] if known else [len(traced)]
    outs = recorded(
        f"hook on {op.name}", fun, shown, through, op.line, source, known,
        looks=known or (handle.is_around() and any(t.runs_again for t in staging_traces())),
    )  # fmt: skip
    return out if known else outs[0]


def pulled_in_program(
    handle: Any, op: Operation, cotangents: Sequence[Any], gs: Sequence[Any]
) -> Values:
    """Has the program show cotangents to a hook; returns what stands in their place."""
    given = [i for i, c in enumerate(cotangents) if c is not None]
    nothing = [None] * len(cotangents)
    source = handle.source()

    def fun(shown: Values, again: bool) -> Sequence[Any] | None:
        current = source.current()
        if current is None or (again and not current.sees_again()):
            return None
        found = replaced(nothing, given, shown[: len(given)])
        new = current.backward(of_examples(op), found, shown[len(given) :])
        if new is found:
            return None
        return [zeros_like(found[i]) if new[i] is None else new[i] for i in given]

    shown = [*[cotangents[i] for i in given], *gs]
    through = list(range(len(given)))
    name = f"hook on the gradient of {op.name}"
    outs = recorded(name, fun, shown, through, op.line, source, looks=False)
    return replaced(cotangents, given, outs)


def of_examples(op: Operation) -> Operation:
    """Returns a backward operation with the number of examples for which it runs.

    A loop's way back is staged by itself. It knows the batches around it when it runs.
    """
    size = examples_under(slot.trace) if op.phase == "backward" else None
    if size is None or size <= (op.batch_size or 1):
        return op
    op = op.at("backward")
    op.batch_size = size
    return op


def parted(values: Sequence[Any]) -> tuple[list[int], Values]:
    """Returns the places of traced values, and the values with None in their places."""
    traced = [i for i, x in enumerate(values) if isinstance(x, Tracer)]
    return traced, replaced(values, traced, [None] * len(traced))


def recorded(
    name: str,
    fun: Callable[[Values, bool], Sequence[Any] | None],
    values: Sequence[Any],
    through: Sequence[int],
    line: str,
    source: Any,
    fixed: bool = False,
    looks: bool = True,
) -> Values:
    """Adds the call of a hook to the program that is being staged.

    Args:
        name, fun, through, line, source, fixed, looks: as `HookCall` takes them.
        values: traced values and others, of the level in the slot.

    Returns:
        The values that are handed on.
    """
    owners = [x.owner for x in map(unknown_behind, values) if x is not None]
    traces = list(staging_traces())
    # Values that depend on nothing of an inner program are those of an outer one.
    trace = next((t for t in traces if t.order is not None or t in owners), traces[0])
    outermost: Trace = trace
    while outermost.parent is not RAW:
        outermost = outermost.parent
    stack = transformation_stack(slot.running, outermost)
    types = [argument_type(x) for x in values]
    inputs = [Variable(type, trace.device) for type in (*types, ORDER)]
    call = HookCall(name, fun, inputs, through, line, source, looks, fixed, stack=stack)
    order = np.False_ if trace.order is None else trace.tracer(trace.order)
    *outs, last = call.bind([*values, order])
    made: Any = unknown_behind(last)
    made.owner.order = made.variable
    return outs


def staging_traces() -> Iterator[StagingTrace]:
    """Yields the traces that stage programs which call hooks, the innermost first."""
    trace: Trace | None = slot.trace
    while trace is not None and trace is not RAW:
        if isinstance(trace, StagingTrace) and trace.calls_hooks:
            yield trace
        trace = trace.parent
