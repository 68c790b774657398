"""Scans of programs: a body that is run for one slice after the other, and hands on a carry.

The derivatives and batches of scans are here; ``scan.py`` has the public function.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..backends import Loop, LoopPrograms
from ..backends.devices import resolved
from ..backends.restoring import silently
from ..jitting.compile import plan_of_loop
from ..jitting.program_call import Flags, Flat, ProgramCall, Rules, spread
from ..jitting.program_derivatives import Pulled, batched_inputs, pulled_program, pushed_program
from ..jitting.tiers import native_body
from ..primitives.core.annotations import Values
from ..primitives.core.annotations import operations as ops
from ..primitives.core.buffers import device_of, exposed
from ..primitives.core.shape_dtype import ShapeDtype
from ..programs.program import Program, Variable, type_of, used
from ..programs.unwatched import unwatched
from .call import ControlCall, runner, weak_inputs
from .machine_steps import MachineSteps, machine_steps
from .program_edits import (
    batched_body,
    chained,
    cut,
    fresh_variables,
    invariant,
    out_tangents,
    program_of,
    reached_carries,
    reached_outputs,
    rewired,
    zeros,
    zeros_for,
)

if TYPE_CHECKING:
    from ..backends.annotations import ArrayModule
    from ..custom.call import CustomCall
    from ..primitives.core.array import Array

__all__ = ["ScanCall", "ScanRules"]


class ScanCall(ControlCall):
    """Runs a program once for every slice along the first axis of some operands.

    The operands are the carries' first values, the arrays to slice, and values that are the same in
    every step; the program takes carries, slices and those. It returns the next carries, values
    that are stacked, and values that are added up.

    Args:
        body: the program.
        carries, slices: how many there are.
        length: the number of steps.
        backwards: whether the last slice comes first.
        sums: how many of the outputs, the last ones, are added up.
        recompute: whether reverse mode keeps the inputs of every step only, and runs it again.
        name: what the operation is called.
    """

    def __init__(
        self,
        body: Program,
        carries: int,
        slices: int,
        length: int,
        backwards: bool = False,
        sums: int = 0,
        recompute: bool = False,
        name: str = "scan",
    ) -> None:
        self.carries = carries
        self.slices = slices
        self.length = self.trips = length
        self.backwards = backwards
        self.sums = sums
        self.recompute = recompute
        sliced = [carries <= i < carries + slices for i in range(len(body.inputs))]
        super().__init__(name, [body], batched_inputs(body.inputs, sliced, length))
        self.body = body
        self.added = len(body.outputs) - sums

    @property
    def steps(self) -> range:
        """The numbers of the slices, in the order of the steps."""
        return range(self.length)[::-1] if self.backwards else range(self.length)

    def like(self, body: Program, carries: int, slices: int, **changed: Any) -> ScanCall:
        """Returns a call of another body, which is the same otherwise."""
        options: dict[str, Any] = {"sums": self.sums, "recompute": self.recompute}
        options |= {"backwards": self.backwards, "name": self.name, **changed}
        return ScanCall(body, carries, slices, self.length, **options)

    def over(self, bodies: Sequence[Program]) -> ScanCall:
        return self.like(bodies[0], self.carries, self.slices)

    def plain_facts(self) -> tuple[Any, ...]:
        counts = self.carries, self.slices, self.length, self.sums
        return *counts, self.backwards, self.recompute

    def infer(self, *types: ShapeDtype) -> list[ShapeDtype]:
        """Returns the outputs' types."""
        return [
            ShapeDtype((self.length, *known.shape), known.dtype)
            if self.carries <= i < self.added
            else known.strong()
            for i, known in enumerate(map(type_of, self.body.outputs))
        ]

    # -- running

    def computed(self, buffers: Sequence[Any], watched: bool) -> Values:
        count, added = self.carries, self.added
        plan = self.plan()
        if plan is None:
            return self.step_by_step(buffers, runner(self.body, watched))
        if watched:
            self.step_by_step(buffers, runner(self.body, watched))
        known = self.infer()
        stacks = [np.empty(x.shape, x.dtype) for x in known[count:added]]
        totals = [np.zeros(x.shape, x.dtype) for x in known[added:]]
        # The results are the same whether or not something was reported before.
        ends = silently(plan.run, (buffers, self.steps, stacks, totals))
        return [*ends[:count], *stacks, *ends[count:]]

    def plan(self) -> Any:
        """Returns the plan that runs all steps on the CPU; None on a GPU."""

        def made() -> Callable[..., Any] | None:
            loop = Loop(self.carries, self.slices, self.sums, backwards=self.backwards)
            return plan_of_loop(self.body, loop)

        return self.once("plan", made)

    def machine_loop(self) -> LoopPrograms:
        def made() -> LoopPrograms:
            loop = Loop(self.carries, self.slices, self.sums, backwards=self.backwards)
            body = native_body(self._with_totals())
            return LoopPrograms(body, None, loop, self.length)

        return self.once("machine", made)  # type: ignore[no-any-return]

    def _with_totals(self) -> Program:
        """Returns the body with the totals of sums as further inputs, which it adds to."""
        if not self.sums:
            return self.body
        totals = [Variable(type_of(x).strong()) for x in self.body.outputs[self.added :]]
        inputs = [*fresh_variables(self.body.inputs), *totals]

        def step(values: Values) -> Values:
            given, before = cut(values, [len(self.body.inputs), self.sums])
            outs = self.body.run(given)
            terms = outs[self.added :]
            return [*outs[: self.added], *map(ops.add, before, terms)]

        return program_of(self.name, inputs, step)

    def sources(self) -> dict[str, str]:
        """Returns the text of its plan."""
        plan = self.plan()
        return {"all steps": plan.source} if plan is not None else {}

    def machine_steps(self) -> MachineSteps | None:
        return machine_steps(self)

    def step_by_step(
        self, buffers: Sequence[Any], run: Callable[[Values], Values]
    ) -> Values:
        """Computes the outputs step by step, of what computes those of a step."""
        count, first, added = self.carries, self.carries + self.slices, self.added
        body = self.body
        weak = [(i, x.type.weak) for i, x in enumerate(body.inputs) if x.type.weak]
        values = list(buffers)
        sliced = list(enumerate(buffers[count:first], count))
        known = self.infer()
        pairs = list(zip(known, body.outputs, strict=True))
        stacks = [_array("empty", x, out) for x, out in pairs[count:added]]
        totals = [_array("zeros", x, out) for x, out in pairs[added:]]
        for step in self.steps:
            for i, x in sliced:
                values[i] = x[step]
            for i, kind in weak:
                values[i] = kind(values[i])
            outs = run(values)
            for stack, out in zip(stacks, outs[count:added]):
                stack[step] = out
            for i, out in enumerate(outs[added:]):
                totals[i] += out
            values[:count] = outs[:count]
        ends = [
            np.asarray(x, known[i].dtype)[()] if type(x) in (bool, int, float, complex) else x
            for i, x in enumerate(values[:count])
        ]
        return [*ends, *stacks, *(total[()] for total in totals)]

    def plain(self, operands: Values) -> Values:
        """Does the same by operations, one after the other."""
        count, first = self.carries, self.carries + self.slices
        carry, xs, constants = operands[:count], operands[count:first], operands[first:]
        rows: list[Values] = []
        for step in self.steps:
            slices = [ops.index(x, step) for x in xs]
            values = weak_inputs(self.body.inputs, [*carry, *slices, *constants])
            outs = self.body.run(values)
            carry = outs[:count]
            rows.append(outs[count:])
        if self.backwards:
            rows.reverse()
        known = self.infer()
        if not rows:
            return [*map(exposed, carry), *(zeros(x) for x in known[count:])]
        outs = [*carry]
        for i, column in enumerate(zip(*rows), count):
            total = ops.stack(column)
            outs.append(ops.sum(total, axis=0) if i >= self.added else total)
        return [ops.astype(x, y.dtype) for x, y in zip(outs, known, strict=True)]

    # -- forward mode

    def pushed(self, given: Flags) -> tuple[Flat, Sequence[bool]]:
        count, first, added = self.carries, self.carries + self.slices, self.added
        body = self.body
        flags = self.reached(given)
        inner = pushed_program(body, flags)
        tangents = spread(inner.inputs[len(flags) :], flags)
        moved = out_tangents(inner, body)
        found = [*flags[:count], *reached_outputs(body, flags)[count:]]
        inputs: Values = []
        outputs: Values = []
        for part in (slice(count), slice(count, first), slice(first, len(flags))):
            inputs += inner.inputs[part]
            inputs += [t for t in tangents[part] if t is not None]
        for part in (slice(count), slice(count, added), slice(added, len(found))):
            outputs += inner.outputs[part]
            outputs += [t for t, flag in zip(moved[part], found[part], strict=True) if flag]
        counts = [sum(flags[:count]), sum(flags[count:first]), sum(found[added:])]
        program, sums = rewired(inner, inputs, outputs), self.sums + counts[2]
        call = self.like(program, count + counts[0], self.slices + counts[1], sums=sums)
        stacked = sum(found[count:added])

        def push(values: Values) -> Values:
            primal, ts = values[: len(flags)], spread(values[len(flags) :], given)
            for i, flag in enumerate(flags[:count]):
                if flag and ts[i] is None:
                    ts[i] = zeros(self.inputs[i].type, device_of(primal[i]))
            operands: Values = []
            for part in (slice(count), slice(count, first), slice(first, None)):
                operands += primal[part]
                operands += [t for t in ts[part] if t is not None]
            sizes = [count, counts[0], added - count, stacked, self.sums, counts[2]]
            carry, carry_ts, ys, y_ts, sums, sum_ts = cut(call.bind(operands), sizes)
            return [*carry, *ys, *sums, *carry_ts, *y_ts, *sum_ts]

        return push, found

    def reached(self, flags: Sequence[bool]) -> Flags:
        """Returns flags of operands with those carries added that have a derivative by them."""
        return tuple(reached_carries(self.body, flags, self.carries))

    # -- reverse mode

    def pulled(self, wanted: Flags) -> Rules | None:
        flags = self.reached(wanted)
        # A carry that the body returns as it is, or not at all, has a derivative by itself too.
        if not any(reached_outputs(self.body, flags)) and not any(flags[: self.carries]):
            return None
        parts = pulled_program(self.body, flags)
        return ScanRules(self, _Again(parts) if self.recompute else parts, wanted, flags).rules()

    # -- batches

    def mapped(self, flags: Flags, size: int, axis_name: Hashable) -> CustomCall:
        count, first, added = self.carries, self.carries + self.slices, self.added
        reached = list(flags)
        while True:
            out_flags = [*reached[:count], *[False] * (len(self.body.outputs) - count)]
            body, out_flags = batched_body(self.body, reached, out_flags, size, axis_name)
            if out_flags[:count] == reached[:count]:
                break
            reached[:count] = out_flags[:count]
        call = self.like(body, count, self.slices)

        def run(values: Values) -> Values:
            operands = list(values)
            for i, x in enumerate(values):
                if i < count and reached[i] and not flags[i]:
                    operands[i] = ops.broadcast_to(x, (size, *self.inputs[i].type.shape))
                elif count <= i < first and flags[i]:
                    operands[i] = ops.swapaxes(x, 0, 1)
            outs = call.bind(operands)
            return [
                ops.swapaxes(out, 0, 1) if flag and count <= i < added else out
                for i, (flag, out) in enumerate(zip(out_flags, outs, strict=True))
            ]

        made = ProgramCall(program_of(self.name, batched_inputs(self.inputs, flags, size), run))
        made.out_flags = out_flags
        return made


class _Again:
    """Reverse mode of a program that keeps its inputs, and is run again on the way back."""

    def __init__(self, parts: Pulled) -> None:
        self._parts = parts
        self._count = len(parts.program.outputs)
        self.state = parts.state
        # Hooks see the cotangents that come to the second run.
        program = unwatched(parts.program)
        self.forward = rewired(program, program.inputs, [*program.outputs, *program.inputs])

    def backward(self, given: Flags) -> tuple[Program, list[int], Flags]:
        """Does what `Pulled.backward` does, with the inputs as residuals."""
        parts = self._parts
        second, taken, found = parts.backward(given)
        residuals = parts.forward.outputs[self._count :]
        # Hooks saw the first run.
        both = chained(parts.forward.replayed(), [residuals[i] for i in taken], second)
        return both, list(range(len(parts.forward.inputs))), found


def _array(make: str, known: ShapeDtype, out: Array | None) -> Any:
    """Returns a new array for an output of all steps, on the device of one step's output."""
    device = getattr(out, "device", "cpu")
    xp: ArrayModule = np if device == "cpu" else resolved(device)[0].xp
    return getattr(xp, make)(known.shape, known.dtype)


class ScanRules:
    """The values that the way back over a scan needs, and their sources.

    Of the body's residuals, inputs are taken from the scan's operands, values that are the same in
    every step are computed once, and all others are stacked.

    Args:
        call: the scan.
        parts: reverse mode of its body: a `Pulled` or `_Again`.
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
        # A stacked output is not stacked a second time.
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
        forward_call = call.like(rewired(program, program.inputs, outputs), count, call.slices)
        before = rewired(program, program.inputs[first:], self.once, effects=False)

        stacks = enumerate(program.outputs[count:added], count)
        places = {x: i for i, x in stacks if type(x) is Variable}
        shown = [places[x] for x in self.shown]

        def forward(values: Values) -> Values:
            outs = forward_call.bind(values)
            end = added + len(self.stacked)
            once = before.run(values[first:]) if self.once else []
            return [*outs[:added], *outs[end:], *outs[added:end], *(outs[i] for i in shown), *once]

        return Rules(total, forward, [*self.sliced, *self.shared], self.backward, self.parts.state)

    def backward(self, given: Flags) -> tuple[Flat, Sequence[bool]]:
        """Returns the way back for the outputs that have a cotangent; see `Rules`."""
        call = self.call
        count, first, added = call.carries, call.carries + call.slices, call.added
        active = [i for i, flag in enumerate(self.flags[:count]) if flag]
        back, taken, found = self.parts.backward((*self.flags[:count], *given[count:]))
        new: dict[Any, Variable] = {
            self.residuals[t]: x for t, x in zip(taken, back.inputs, strict=False)
        }
        sizes = [len(active), sum(given[count:added]), sum(given[added:])]
        carried, stacked, constant = cut(back.inputs[len(taken) :], sizes)

        def source(x: Variable) -> Variable:
            return new[x] if x in new else Variable(x.type, x.device)

        inputs = self.parts.forward.inputs
        sliced = [source(inputs[i]) for i in self.sliced]
        shared = [source(inputs[i]) for i in self.shared]
        xs = [*map(source, [*self.stacked, *self.shown]), *sliced, *stacked]
        constants = [*map(source, self.once), *shared, *constant]
        cotangents = spread(spread(back.outputs, found), self.flags)
        ends = zeros_for([call.inputs[i] for i in active], [cotangents[i] for i in active])
        per_slice = [c for c in cotangents[count:first] if c is not None]
        sums = [c for c in cotangents[first:] if c is not None]
        body = rewired(back, [*carried, *xs, *constants], [*ends, *per_slice, *sums])
        options = {"backwards": not call.backwards, "sums": len(sums)}
        scan = call.like(body, len(active), len(xs), **options)
        returned = [
            (i in active and self.wanted[i]) if i < count else c is not None
            for i, c in enumerate(cotangents)
        ]
        return self._pull(scan, active, given), returned

    def _pull(
        self, scan: ScanCall, active: Sequence[int], given: Sequence[bool]
    ) -> Callable[[Values], Values]:
        call = self.call
        count = call.carries
        stacked = len(self.stacked) + len(self.shown)
        sizes = [len(self.sliced), len(self.shared), stacked, len(self.once), sum(given[:count])]
        sizes += [sum(given[count : call.added]), sum(given[call.added :])]

        def pull(values: Values) -> Values:
            sliced, shared, stacked, once, ends, ys, totals = cut(values, sizes)
            gs = spread(ends, given[:count])
            starts = zeros_for([call.inputs[i] for i in active], [gs[i] for i in active])
            outs = scan.bind([*starts, *stacked, *sliced, *ys, *once, *shared, *totals])
            wanted = [out for i, out in zip(active, outs) if self.wanted[i]]
            return [*wanted, *outs[len(active) :]]

        return pull
