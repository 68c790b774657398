"""Reverse mode of a scan: a scan of the body's way back, in the opposite direction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..programs.program import Program, Variable, type_of, used
from .calls import Flat, Rules
from .rewiring import invariant, rewired, zeros

if TYPE_CHECKING:
    from .scanning import ScanCall

__all__ = ["ScanRules"]

Values = list[Any]


class ScanRules:
    """What the way back over a scan needs, and from where it has it.

    Of the body's residuals, inputs are taken from the scan's operands, what is the same in every
    step is computed once, and all else is stacked.

    Args:
        call: the scan.
        parts: reverse mode of its body: a `Pulled`, or what keeps the body's inputs.
        wanted: which of the call's operands are to have a cotangent.
        flags: the same, with the carries that depend on those.
    """

    def __init__(
        self, call: ScanCall, parts: Any, wanted: Sequence[bool], flags: Sequence[bool]
    ) -> None:
        self.call = call
        self.parts = parts
        self.wanted = wanted
        self.flags = flags
        count, first = call.carries, call.carries + call.slices
        program: Program = parts.forward
        numbers = {x: i for i, x in enumerate(program.inputs)}
        fixed = invariant(program, program.inputs[first:])
        self.residuals = program.outputs[len(call.body.outputs) :]
        inner = [x for x in self.residuals if x not in numbers]
        outer = [numbers[x] for x in self.residuals if x in numbers]
        self.stacked = [program.inputs[i] for i in outer if i < count]
        stacked = set(used(program.outputs[count : call.added]))
        self.stacked += [x for x in inner if x not in fixed and x not in stacked]
        # What is an output already need not be stacked again.
        self.shown = [x for x in inner if x not in fixed and x in stacked]
        self.once = [x for x in inner if x in fixed]
        self.sliced = [i for i in outer if count <= i < first]
        self.shared = [i for i in outer if first <= i]

    def rules(self) -> Rules:
        """Returns reverse mode of the scan."""
        call, program = self.call, self.parts.forward
        count, first, added = call.carries, call.carries + call.slices, call.added
        total = len(call.body.outputs)
        outputs = [*program.outputs[:added], *self.stacked, *program.outputs[added:total]]
        forward_call = call.like(
            rewired(program, program.inputs, outputs), count, call.slices
        )
        before = rewired(program, program.inputs[first:], self.once)

        stacks = enumerate(program.outputs[count:added], count)
        places = {x: i for i, x in stacks if type(x) is Variable}
        shown = [places[x] for x in self.shown]

        def forward(values: Values) -> Values:
            outs = forward_call.bind(values)
            end = added + len(self.stacked)
            once = before.run(values[first:]) if self.once else []
            return [*outs[:added], *outs[end:], *outs[added:end], *(outs[i] for i in shown), *once]

        return Rules(forward, [*self.sliced, *self.shared], self.backward, self.parts.state)

    def backward(self, given: tuple[bool, ...]) -> tuple[Flat, Sequence[bool]]:
        """Returns the way back for the outputs that have a cotangent; see `Rules`."""
        call = self.call
        count, first, added = call.carries, call.carries + call.slices, call.added
        active = [i for i, flag in enumerate(self.flags[:count]) if flag]
        back, taken, found = self.parts.backward((*self.flags[:count], *given[count:]))
        new: dict[Any, Variable] = {
            self.residuals[t]: x for t, x in zip(taken, back.inputs, strict=False)
        }
        gs = list(back.inputs[len(taken) :])
        carried, stacked = gs[: len(active)], gs[len(active) :]
        split = sum(given[count:added])
        stacked, constant = stacked[:split], stacked[split:]

        def source(x: Variable) -> Variable:
            return new[x] if x in new else Variable(x.type, x.device)

        inputs = self.parts.forward.inputs
        sliced = [source(inputs[i]) for i in self.sliced]
        shared = [source(inputs[i]) for i in self.shared]
        xs = [*map(source, [*self.stacked, *self.shown]), *sliced, *stacked]
        constants = [*map(source, self.once), *shared, *constant]
        outs = iter(back.outputs)
        all_flags = iter(found)
        cotangents = [next(outs) if flag and next(all_flags) else None for flag in self.flags]
        ends = [
            zeros(call.inputs[i].type, call.inputs[i].device)
            if cotangents[i] is None
            else cotangents[i]
            for i in active
        ]
        per_slice = [c for c in cotangents[count:first] if c is not None]
        sums = [c for c in cotangents[first:] if c is not None]
        scan = call.like(
            rewired(back, [*carried, *xs, *constants], [*ends, *per_slice, *sums]),
            len(active),
            len(xs),
            backwards=not call.backwards,
            sums=len(sums),
        )
        returned = [
            (i in active and self.wanted[i]) if i < count else c is not None
            for i, c in enumerate(cotangents)
        ]
        pull = self._pull(scan, active, given)
        return pull, returned

    def _pull(
        self, scan: ScanCall, active: Sequence[int], given: Sequence[bool]
    ) -> Callable[[Values], Values]:
        call = self.call
        count = call.carries
        sizes = [
            len(self.sliced),
            len(self.shared),
            len(self.stacked) + len(self.shown),
            len(self.once),
            sum(given[:count]),
            sum(given[count : call.added]),
            sum(given[call.added :]),
        ]

        def pull(values: Values) -> Values:
            parts = []
            for size in sizes:
                parts.append(values[:size])
                values = values[size:]
            sliced, shared, stacked, once, ends, ys, totals = parts
            known = iter(ends)
            gs = [next(known) if flag else None for flag in given[:count]]
            starts = [
                zeros(type_of(call.inputs[i]), call.inputs[i].device) if gs[i] is None else gs[i]
                for i in active
            ]
            outs = scan.bind([*starts, *stacked, *sliced, *ys, *once, *shared, *totals])
            wanted = [out for i, out in zip(active, outs) if self.wanted[i]]
            return [*wanted, *outs[len(active) :]]

        return pull
