"""While loops of programs: a body that is run as long as a condition holds.

Their derivatives and batches are here; ``while_loop.py`` has the public functions.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from itertools import repeat
from math import isqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from ..backends import Loop, LoopPrograms
from ..backends.restoring import silently
from ..jitting.compile import plan_of_loop
from ..jitting.program_call import Flags, Flat, ProgramCall, spread
from ..jitting.program_derivatives import batched_inputs, pushed_program
from ..jitting.tiers import native_body
from ..primitives.core.annotations import Values
from ..primitives.core.annotations import operations as ops
from ..primitives.core.buffers import exposed
from ..primitives.core.errors import MissingRuleError
from ..primitives.core.shape_dtype import ShapeDtype
from ..primitives.core.trace import Trace, at_face, under
from ..programs.program import Program, Variable, type_of
from ..traces.reverse import is_inexact
from .body import known
from .call import ControlCall, body_source, runner, weak_inputs
from .checks import control_error
from .cond_rules import GuardCall, where_examples
from .machine_steps import MachineSteps, machine_steps
from .program_edits import (
    batched_body,
    fresh_variables,
    out_tangents,
    program_of,
    reached_carries,
    rewired,
    zeros_for,
)
from .scan_rules import ScanCall

if TYPE_CHECKING:
    from ..custom.call import CustomCall

__all__ = ["WhileCall"]


class WhileCall(ControlCall):
    """Runs a program on carries as long as another one, on the same carries, returns True.

    The operands are the carries' first values, then further inputs of the condition, then those of
    the body.

    Args:
        condition, body: the programs.
        carries: how many carries there are.
        max_steps: how many steps there are at most; None for any number.
        name: what the operation is called.
    """

    def __init__(
        self,
        condition: Program,
        body: Program,
        carries: int,
        max_steps: int | None = None,
        name: str = "while_loop",
    ) -> None:
        inputs = [*body.inputs[:carries], *condition.inputs[carries:], *body.inputs[carries:]]
        super().__init__(name, [condition, body], inputs)
        self.condition = condition
        self.body = body
        self.carries = carries
        self.max_steps = self.trips = max_steps
        # The operands of the body begin here.
        self.middle = len(condition.inputs)

    def over(self, bodies: Sequence[Program]) -> WhileCall:
        condition, body = bodies
        return WhileCall(condition, body, self.carries, self.max_steps, self.name)

    def plain_facts(self) -> tuple[Any, ...]:
        return self.carries, self.max_steps

    def split(self, values: Sequence[Any]) -> tuple[list[Any], list[Any], list[Any]]:
        """Returns the values of the carries, of the condition and of the body."""
        count, middle = self.carries, self.middle
        return [*values[:count]], [*values[count:middle]], [*values[middle:]]

    # -- running

    def computed(self, buffers: Sequence[Any], watched: bool) -> Values:
        plan = self.plan()
        if plan is None:
            return self.step_by_step(buffers, runner(self.body, watched), watched)
        if watched:
            self.step_by_step(buffers, runner(self.body, watched), watched)
        steps = repeat(None) if self.max_steps is None else range(self.max_steps)
        count, middle = self.carries, self.middle
        begins = weak_inputs(self.condition.inputs, buffers[:middle])
        holds = runner(self.condition)(begins)[0]
        # The results are the same whether or not something was reported before.
        ends: Values = silently(plan.run, (buffers, steps, (), (), holds))
        return ends[:count]

    def plan(self) -> Any:
        """Returns the plan that runs all steps on the CPU; None on a GPU."""

        def step(values: Values) -> Values:
            carry, others, constants = self.split(values)
            after = self.body.run([*carry, *constants])
            return [*after, self.condition.run([*after, *others])[0]]

        def made() -> Callable[..., Any] | None:
            like = fresh_variables(self.inputs)
            both = program_of(self.name, like, step)
            return plan_of_loop(both, Loop(self.carries, tested=True))

        return self.once("plan", made)

    def machine_loop(self) -> LoopPrograms:
        def made() -> LoopPrograms:
            body, condition = (native_body(x) for x in (self.body, self.condition))
            return LoopPrograms(body, condition, Loop(self.carries, tested=True), self.max_steps)

        return self.once("machine", made)  # type: ignore[no-any-return]

    def sources(self) -> dict[str, str]:
        """Returns the texts of its plan and of its first test."""
        plan = self.plan()
        if plan is None:
            return {}
        return {"the first test": body_source(self.condition), "all steps": plan.source}

    def machine_steps(self) -> MachineSteps | None:
        return machine_steps(self)

    def step_by_step(
        self, buffers: Sequence[Any], body: Callable[[Values], Values], watched: bool = False
    ) -> Values:
        """Computes the outputs step by step, of what computes those of a step."""
        carry, others, constants = self.split(buffers)
        condition = runner(self.condition, watched)
        weak = [(i, x.type.weak) for i, x in enumerate(self.body.inputs) if x.type.weak]
        values = [*carry, *constants]
        count = self.carries
        left = self.max_steps
        others = weak_inputs(self.condition.inputs[count:], others)
        while True:
            for i, kind in weak:
                values[i] = kind(values[i])
            if left == 0 or not condition([*values[:count], *others])[0]:
                break
            values[:count] = body(values)
            if left is not None:
                left -= 1
        return [
            np.asarray(x, out.type.dtype)[()] if out.type.weak else x
            for x, out in zip(values, self.body.inputs[:count])
        ]

    def plain(self, operands: Values) -> Values:
        """Does the same by operations, one after the other."""
        carry, others, constants = self.split(operands)
        left = self.max_steps
        while left != 0:
            carry = weak_inputs(self.body.inputs[: self.carries], carry)
            holds = self.condition.run([*carry, *others])[0]
            if not known(holds):
                return super().bind([*carry, *others, *constants])
            if not holds:
                break
            carry = self.body.run([*carry, *constants])
            left = None if left is None else left - 1
        return list(map(exposed, carry))

    # -- forward mode

    def reached(self, flags: Sequence[bool]) -> Flags:
        """Returns flags of operands with those carries added that have a derivative by them."""
        carry, others, constants = self.split(flags)
        found = reached_carries(self.body, [*carry, *constants], self.carries)
        return (*found[: self.carries], *others, *found[self.carries :])

    def pushed(self, given: Flags) -> tuple[Flat, Sequence[bool]]:
        count, body = self.carries, self.body
        flags, _, constant_flags = self.split(self.reached(given))
        inner = pushed_program(body, (*flags, *constant_flags))
        moving = sum(flags)
        inputs = inner.inputs[: len(body.inputs)]
        tangents = inner.inputs[len(body.inputs) :]
        moved = out_tangents(inner, body)
        found = [t for t, flag in zip(moved, flags, strict=True) if flag]
        inner_inputs = [*inputs[:count], *tangents[:moving], *inputs[count:], *tangents[moving:]]
        new_body = rewired(inner, inner_inputs, [*inner.outputs[:count], *found])
        test, unused = self.condition, fresh_variables(tangents[:moving])
        test_inputs = [*test.inputs[:count], *unused, *test.inputs[count:]]
        condition = rewired(test, test_inputs, test.outputs)
        call = WhileCall(condition, new_body, count + moving, self.max_steps, self.name)

        def push(values: Values) -> Values:
            carry, others, constants = self.split(values[: len(given)])
            ts = spread(values[len(given) :], given)
            filled = zeros_for(self.inputs[:count], ts[:count])
            starts = [t for t, flag in zip(filled, flags, strict=True) if flag]
            more = [t for t in ts[self.middle :] if t is not None]
            return call.bind([*carry, *starts, *others, *constants, *more])

        return push, flags

    # -- reverse mode

    def reverse(
        self, level: Trace, values: Values, wanted: Sequence[bool]
    ) -> tuple[Values, Callable[[Values], Values]]:
        """Returns the outputs and the function that pulls cotangents back."""
        chosen = [flag and is_inexact(x) for flag, x in zip(wanted, values, strict=True)]
        flags = self.split(self.reached(chosen))[0]
        if not any(flags):
            with under(level):
                return at_face(self.bind, values), lambda gs: [None] * len(chosen)
        if self.max_steps is None:
            fix = "while_loop(cond_fun, body_fun, init_val, max_steps=1000)"
            if self.name == "fori_loop":
                fix = "fori_loop(0, 10, ...) with Python integers as bounds"
            what = f"no vjp for {self.name!r} whose number of steps is not known while the program"
            what += " is staged: reverse mode has to keep values of every step"
            raise control_error(what, fix, MissingRuleError, 8)
        segmented = self.once("segmented", self.segmented)
        return ProgramCall(segmented).reverse(level, values, wanted)

    def segmented(self) -> Program:
        """Returns a program of two nested scans that does the same.

        There are about as many segments as each has steps. Reverse mode keeps the inputs of every
        segment, and runs it again when the way back comes to it. The first two carries are the
        number of steps, and whether there is another one.
        """
        count = self.carries
        limit = self.max_steps or 0
        steps = max(1, isqrt(max(limit - 1, 0)) + 1)
        segments = -(-limit // steps)
        like = fresh_variables(self.inputs)
        inputs = [Variable(ShapeDtype((), np.int64)), Variable(ShapeDtype((), bool)), *like]

        def guarded(program: Program) -> Program:
            """Returns a program that does the same where the condition holds, else nothing."""
            given = fresh_variables(program.inputs)
            bodies = [Program(self.name, given, (), given[: 2 + count]), program]
            call = GuardCall(bodies, Variable(ShapeDtype((), bool)))

            def run(values: Values) -> Values:
                return call.bind([ops.logical_and(values[1], values[0] < limit), *values])

            return program_of(self.name, inputs, run)

        def step(values: Values) -> Values:
            carry, others, constants = self.split(values[2:])
            after = self.body.run([*carry, *constants])
            return [values[0] + 1, *self.condition.run([*after, *others]), *after]

        once = guarded(program_of(self.name, inputs, step))
        inner = ScanCall(once, count + 2, 0, steps, name=self.name)
        segment = guarded(program_of(self.name, inputs, inner.bind))
        outer = ScanCall(segment, count + 2, 0, segments, recompute=True, name=self.name)

        def run(values: Values) -> Values:
            holds = self.condition.run(values[: self.middle])
            return outer.bind([np.zeros((), np.int64), *holds, *values])[2:]

        return program_of(self.name, like, run)

    # -- batches

    def mapped(self, flags: Flags, size: int, axis_name: Hashable) -> CustomCall:
        count = self.carries
        carry, others, constants = self.split(flags)
        masked = False
        while True:
            condition, (masked,) = batched_body(
                self.condition, [*carry, *others], [masked], size, axis_name
            )
            if masked:
                carry = [True] * count
            body, found = batched_body(self.body, [*carry, *constants], carry, size, axis_name)
            if found == carry:
                break
            carry = found
        if masked:
            call = _masked_loop(self, condition, body)
        else:
            call = WhileCall(condition, body, count, self.max_steps, self.name)

        def run(values: Values) -> Values:
            operands = list(values)
            for i, flag in enumerate(carry):
                if flag and not flags[i]:
                    operands[i] = ops.broadcast_to(operands[i], (size, *self.inputs[i].type.shape))
            if masked:
                active = condition.run(operands[: self.middle])[0]
                return call.bind([active, *operands])[1:]
            return call.bind(operands)

        made = ProgramCall(program_of(self.name, batched_inputs(self.inputs, flags, size), run))
        made.out_flags = carry
        return made


def _masked_loop(call: WhileCall, condition: Program, body: Program) -> WhileCall:
    """Returns a batch's loop, which runs until every example is done, and leaves those that are.

    Its first carry says which are not. ``condition`` and ``body`` are the batch's programs.
    """
    count = call.carries
    active = Variable(type_of(condition.outputs[0]))
    carry = fresh_variables(body.inputs[:count])
    more = [*fresh_variables(condition.inputs[count:]), *body.inputs[count:]]

    def any_active(values: Values) -> Values:
        return [ops.any(values[0])]

    def step(values: Values) -> Values:
        mask = values[0]
        before, others, constants = call.split(values[1:])
        # Steps after the end of an example have no part in derivatives.
        entering = [
            where_examples(mask, x, ops.stop_gradient(x)) if is_inexact(x) else x for x in before
        ]
        outs = body.run([*entering, *constants])
        after = [where_examples(mask, new, old) for new, old in zip(outs, before, strict=True)]
        return [condition.run([*after, *others])[0], *after]

    test = program_of(call.name, [active, *carry], any_active)
    steps = program_of(call.name, [active, *carry, *more], step)
    return WhileCall(test, steps, count + 1, call.max_steps, call.name)
