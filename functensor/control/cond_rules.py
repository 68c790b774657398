"""Branches of a program: one of several bodies runs. Their derivatives and batches are here."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

from ..jitting.compile import prepared_program
from ..jitting.program_call import Flags, Flat, ProgramCall, Rules, spread
from ..jitting.program_derivatives import batched_inputs, pulled_program, pushed_program
from ..jitting.tiers import native_body
from ..primitives.core.annotations import Values
from ..primitives.core.annotations import operations as ops
from ..programs.program import Program, Variable
from ..traces.reverse import is_inexact
from .body import known
from .call import ControlCall, body_source, compiled_body, runner, weak_inputs
from .program_edits import (
    batched_body,
    out_tangents,
    program_of,
    reached_outputs,
    rewired,
    zeros_for,
)

if TYPE_CHECKING:
    from ..custom.call import CustomCall
    from ..primitives.core.array import Array
    from ..primitives.core.shape_dtype import ShapeDtype

__all__ = ["CondCall", "GuardCall", "where_examples"]

# Their derivatives solve systems, or are equations of their own.
REFUSING = frozenset({
    "banded_solve", "cholesky", "eig", "inv", "kept_factors", "logm", "lu", "odeint", "qr",
    "qr_pivots", "solve", "solve_by_factors", "solve_sylvester", "sqrtm", "triangular_solve",
})  # fmt: skip


class CondCall(ControlCall):
    """Runs one of several programs of the same inputs and types.

    The first operand is the index, an integer or a boolean scalar; one out of range means the first
    or the last program. The others are the programs' inputs.

    Attributes:
        owners: for each output the number of the program that alone computes it, or None where
            several do. A batch takes such an output of that program for every example: the way
            back of the program runs for every example too, and may refuse anything else.
    """

    chooses = True
    owners: list[int | None] | None = None

    def __init__(self, bodies: Sequence[Program], index: Variable, name: str = "cond") -> None:
        super().__init__(name, bodies, [index, *bodies[0].inputs])

    def over(self, bodies: Sequence[Program]) -> CondCall:
        return type(self)(bodies, self.inputs[0], self.name)

    def plain_facts(self) -> tuple[Any, ...]:
        return (self.owners and tuple(self.owners),)

    def compile_for(self, types: Sequence[ShapeDtype]) -> None:
        """Compiles the branches, which run one by one."""
        for body in self.bodies:
            compiled_body(body)[0].compile()

    def computed(self, buffers: Sequence[Any], watched: bool) -> Values:
        body = self.bodies[min(max(int(buffers[0]), 0), len(self.bodies) - 1)]
        return list(runner(body, watched)(weak_inputs(body.inputs, buffers[1:])))

    def sources(self) -> dict[str, str]:
        """Returns the texts of the plans of its branches."""
        return {f"branch {i}": body_source(body) for i, body in enumerate(self.bodies)}

    def branches(self) -> list[Program] | None:
        """Returns the programs as plans take them in; None where one is not run by a plan."""

        def made() -> list[Program] | None:
            ready = [prepared_program(body) for body in self.bodies]
            known = [program for program in ready if program is not None]
            # A truth value chooses between two; one program is no choice.
            return known if len(known) == len(ready) == max(2, len(ready)) else None

        return self.once("branches", made)  # type: ignore[no-any-return]

    def machine_branches(self) -> list[Program]:
        def made() -> list[Program]:
            return [native_body(body) for body in self.bodies]

        return self.once("machine", made)  # type: ignore[no-any-return]

    def plain(self, operands: Values) -> Values:
        """Does the same by operations, one after the other."""
        if not known(operands[0]):
            return ProgramCall(self.selecting(tuple(False for _ in operands), 0)).bind(operands)
        body = self.bodies[min(max(int(operands[0]), 0), len(self.bodies) - 1)]
        return body.run(weak_inputs(body.inputs, operands[1:]))

    def pushed(self, given: Flags) -> tuple[Flat, Sequence[bool]]:
        outs = self.bodies[0].outputs
        moved = [any(flags) for flags in zip(*(reached_outputs(b, given[1:]) for b in self.bodies))]
        bodies = []
        for body in self.bodies:
            inner = pushed_program(body, given[1:])
            chosen = [t for t, flag in zip(out_tangents(inner, body), moved, strict=True) if flag]
            bodies.append(rewired(inner, inner.inputs, [*inner.outputs[: len(outs)], *chosen]))
        call = self.over(bodies)
        if self.owners:
            call.owners = [*self.owners, *[None] * sum(moved)]
        return call.bind, moved

    def pulled(self, wanted: Flags) -> Rules | None:
        if not any(any(reached_outputs(body, wanted[1:])) for body in self.bodies):
            return None
        parts = [pulled_program(body, wanted[1:]) for body in self.bodies]
        count = len(self.bodies[0].outputs)
        # Inputs that the way back needs are kept once. Computed residuals go into slots of their
        # types, which the branches share if no way back refuses what another one computed.
        shared = not any(map(refuses_values, self.bodies))
        kept: list[int] = [0]
        slots: list[Variable] = []
        homes: list[list[tuple[bool, int]]] = []
        forwards = []
        for part in parts:
            inputs = {x: i + 1 for i, x in enumerate(part.forward.inputs)}
            free = list(range(len(slots))) if shared else []
            mine: dict[int, Any] = {}
            homes.append([])
            for residual in part.forward.outputs[count:]:
                if residual in inputs:
                    if inputs[residual] not in kept:
                        kept.append(inputs[residual])
                    homes[-1].append((True, inputs[residual]))
                    continue
                home = next((i for i in free if slots[i].type == residual.type), len(slots))
                if home == len(slots):
                    slots.append(Variable(residual.type, residual.device))
                else:
                    free.remove(home)
                mine[home] = residual
                homes[-1].append((False, home))
            forwards.append((part.forward, mine))
        bodies = []
        for program, mine in forwards:
            filled = zeros_for(slots, [mine.get(i) for i in range(len(slots))])
            bodies.append(rewired(program, program.inputs, [*program.outputs[:count], *filled]))

        def backward(given: Flags) -> tuple[Flat, Sequence[bool]]:
            backs = [part.backward(given) for part in parts]
            chosen = [i for i, flag in enumerate(wanted) if flag]
            found = [any(column) for column in zip(*(flags for _, _, flags in backs))]
            programs = []
            for home, (program, taken, mine) in zip(homes, backs, strict=True):
                like: dict[Any, Variable] = {(True, i): self.inputs[i] for i in kept[1:]}
                like |= {(False, i): x for i, x in enumerate(slots)}
                fresh = {key: Variable(x.type, x.device) for key, x in like.items()}
                fresh |= {home[t]: x for t, x in zip(taken, program.inputs)}
                moved = program.inputs[len(taken) :]
                cotangents = spread(program.outputs, mine)
                filled = zeros_for([self.inputs[i] for i in chosen], cotangents)
                results = [c for c, flag in zip(filled, found, strict=True) if flag]
                programs.append(rewired(program, [*fresh.values(), *moved], results))
            flags = iter(found)
            returned = [flag and next(flags) for flag in wanted]
            return self.over(programs).bind, returned

        forward = self.over(bodies)
        forward.owners = [*(self.owners or [None] * count)]
        for slot in range(len(slots)):
            users = [i for i, (_, mine) in enumerate(forwards) if slot in mine]
            forward.owners.append(users[0] if len(users) == 1 else None)
        return Rules(
            count, forward.bind, kept, backward, lambda: tuple(part.state() for part in parts)
        )

    def mapped(self, flags: Flags, size: int, axis_name: Hashable) -> CustomCall:
        if flags[0]:
            owners = self.owners or [None] * len(self.bodies[0].outputs)
            every = [own is None for own in owners]
            reached = [batched_body(b, flags[1:], every, size, axis_name)[1] for b in self.bodies]
            chosen = ProgramCall(self.selecting(flags, size, axis_name, every))
            # What one program alone computes has the batch axis only if it depends on the example.
            chosen.out_flags = [own is None or reached[own][k] for k, own in enumerate(owners)]
            return chosen
        out_flags = [False] * len(self.bodies[0].outputs)
        while True:
            # An output that depends on the example in one body has the batch axis in all.
            made = [
                batched_body(body, flags[1:], out_flags, size, axis_name) for body in self.bodies
            ]
            found = [any(column) for column in zip(*(each for _, each in made))]
            if found == out_flags:
                break
            out_flags = found
        call = self.over([body for body, _ in made])
        call.owners = self.owners
        call.out_flags = out_flags
        return call

    def selecting(
        self,
        flags: Flags,
        size: int,
        axis_name: Hashable = None,
        every: Sequence[bool] | None = None,
    ) -> Program:
        """Returns a program that runs all bodies, and selects for every example.

        An index without a flag is batched at a level below. ``every`` says which outputs have the
        batch axis even if they do not depend on the example, by default all.
        """

        def run(values: Values) -> Values:
            index, *operands = values
            if self.inputs[0].type.dtype.kind == "b":
                index = ops.astype(index, int)
            last = len(self.bodies) - 1
            index = ops.clip(index, 0, last)
            outs: Values = []
            owners = self.owners or [None] * len(self.bodies[0].outputs)
            for i, body in enumerate(self.bodies):
                mine = index == i
                gated = [
                    where_examples(mine, x, ops.stop_gradient(x)) if flag and is_inexact(x) else x
                    for x, flag in zip(operands, flags[1:], strict=True)
                ]
                if flags[0]:
                    asked = every or [True] * len(body.outputs)
                    made, _ = batched_body(body, flags[1:], asked, size, axis_name)
                    found = made.run(gated)
                else:
                    found = body.run(gated)
                if i == 0:
                    outs = found
                else:
                    outs = [
                        where_examples(mine, new, old) if own is None else new if own == i else old
                        for own, new, old in zip(owners, found, outs, strict=True)
                    ]
            return outs

        inputs = batched_inputs(self.inputs, flags, size)
        return program_of(self.name, inputs, run)


class GuardCall(CondCall):
    """Runs the second of two programs where a condition holds, and the first one otherwise.

    For a batch the second one runs only if the condition holds for any example.
    """

    def mapped(self, flags: Flags, size: int, axis_name: Hashable) -> CustomCall:
        if not flags[0]:
            return super().mapped(flags, size, axis_name)
        second = self.selecting(flags, size, axis_name)
        every = [True] * len(self.bodies[0].outputs)
        first, _ = batched_body(self.bodies[0], flags[1:], every, size, axis_name)
        first = rewired(first, [second.inputs[0], *first.inputs], first.outputs)
        call = GuardCall([first, second], self.inputs[0], self.name)

        def run(values: Values) -> Values:
            return call.bind([ops.any(values[0]), *values])

        return ProgramCall(program_of(self.name, second.inputs, run))


def refuses_values(program: Program) -> bool:
    """Says whether a program has functions whose derivatives raise errors for some residuals."""
    return any(
        e.primitive.name in REFUSING or any(map(refuses_values, e.primitive.bodies))
        for e in program.equations
    )


def where_examples(condition: Any, x: Any, y: Any) -> Array:
    """Selects whole examples by a vector of conditions."""
    extra = len(x.shape) - len(condition.shape)
    if extra > 0:
        condition = ops.reshape(condition, (*condition.shape, *(1,) * extra))
    return ops.where(condition, x, y)
