"""Reverse mode of a program on buffers: its plans run, and nothing is traced between them.

Calls of jitted functions with tensors come here, whose results remember the way back. Most losses
are followed by ``backward`` at once, which begins with one. Where the last ones were, the gradients
are computed with the loss, by one plan. Otherwise there is a plan for the way there, which returns
residuals too, and another one for the way back.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from ..backends.config import config
from ..custom.call import Pullback
from ..primitives.core.annotations import Values
from ..primitives.core.trace import RAW, slot
from ..programs.named_scope import active_scope, scoped
from ..programs.program import Program, Variable, type_of
from ..programs.staging import StagingTrace
from .compile import compiled, is_planned
from .program_derivatives import Flags, Pulled, is_differentiable, staged

__all__ = ["GradientsAhead", "RecordedProgram", "spread"]

# So many calls may compute gradients before any of these is asked for.
MOST_AHEAD = 4
HOST_TYPES = np.ndarray, np.floating


def spread(values: Sequence[Any], flags: Sequence[bool]) -> Values:
    """Returns values in the places that have a flag, and None in the others."""
    rest = iter(values)
    return [next(rest) if flag else None for flag in flags]


class RecordedProgram:
    """Reverse mode of a program on buffers, for the inputs whose cotangents are wanted.

    Args:
        program: the program.
        wanted: for every input whether its cotangent is asked for; of inexact ones only.
        parts: its reverse mode, in two programs.
        rules: the same for calls, where cotangents are traced.

    Attributes:
        reached: for every output whether it has a derivative by those inputs.
    """

    def __init__(self, program: Program, wanted: Flags, parts: Pulled, rules: Any) -> None:
        self._program = program
        self._wanted = wanted
        self._parts = parts
        self.reached: Flags = parts.reached
        self._rules = rules
        self._count = len(program.outputs)
        self._has_effect = program.has_effect() or program.exchanges()
        self._inexact = list(map(is_differentiable, program.outputs))
        end = len(program.inputs) + len(parts.brief.outputs)
        residuals = [*rules.kept, *range(parts.own_count, end)]
        self._places = {source: number for number, source in enumerate(residuals)}
        self._backward: dict[Any, tuple[Program, list[int], Flags]] = {}
        # The outputs that the next passes begin at, each with one, and how many there may be. A
        # function of one real number is taken for a loss at first.
        self._begin: Flags = (True,)
        self._ahead = int(is_loss(program))
        self._with: dict[Flags, Program] = {}
        self._known_found: dict[Flags, Flags] = {}

    def __call__(self, call: Any, buffers: list[Any]) -> tuple[Values, Pullback]:
        """Returns the outputs and the function that pulls cotangents back; see `Call.reverse`."""
        # Both plans may round otherwise.
        if self._ahead > 0 and not config.deterministic:
            self._ahead -= 1
            if self._may_be_joint():
                return self._with_gradients(call, buffers, self._begin)
        return self._in_two(call, buffers)

    def _in_two(self, call: Any, buffers: list[Any]) -> tuple[Values, Pullback]:
        """Returns the outputs, by a plan of their own, and the function that pulls back."""
        outs = compiled(self._parts.brief).run(buffers)
        known = [*buffers, *outs[: self._count]]
        residuals = [*[known[i] for i in self._rules.kept], *outs[self._count :]]
        pull = partial(self._pull, active_scope())
        return outs[: self._count], Pullback(pull, residuals, (call, buffers, None))

    def _pull(self, scope: str, kept: Values, gs: Values) -> Values:
        """Returns the cotangents of the inputs, None for those without."""
        given = tuple([g is not None and x for g, x in zip(gs, self._inexact, strict=True)])
        moved = [g for g, flag in zip(gs, given, strict=True) if flag]
        if slot.trace is not RAW:
            back, found = self._rules.backward(given)
            with scoped(scope):
                return spread(back([*kept, *moved]), found)
        state = self._parts.state()
        if state is None and is_one(moved):
            self._begin = given
            self._ahead = min(self._ahead + 1, MOST_AHEAD)
        if (given, state) not in self._backward:
            program, taken, _ = self._parts.backward(given)
            places = [self._places[self._parts.sources[i]] for i in taken]
            program = lying_as(program, [kept[i] for i in places])
            self._backward[given, state] = program, places, self._found(given)
        program, places, found = self._backward[given, state]
        return spread(compiled(program).run([*[kept[i] for i in places], *moved]), found)

    def _found(self, given: Flags) -> Flags:
        """Returns for every input whether it gets a cotangent."""
        flags = iter(self._parts.backward(given)[2])
        return tuple([flag and next(flags) for flag in self._wanted])

    # -- gradients that are computed with the outputs

    def _may_be_joint(self) -> bool:
        """Says whether gradients may be computed before they are asked for.

        Not where somebody would see it: by a hook of the way back, by what happens twice if another
        pass is asked for, or by other bits than those of the first call.
        """
        seen = self._has_effect or config.deterministic
        return not seen and self._parts.state() is None

    def _with_gradients(
        self, call: Any, buffers: list[Any], begin: Flags
    ) -> tuple[Values, Pullback]:
        """Returns the outputs and a function that has the cotangents for a pass begun with one."""
        program = self._with.get(begin)
        if program is None:
            program = self._with[begin] = self._joint(begin)
        outs = compiled(program).run(buffers)
        pull = GradientsAhead(self, call, begin, len(outs) - self._count)
        kept = [*outs[self._count :], *buffers]
        return outs[: self._count], Pullback(pull, kept, (call, buffers, None))

    def note_taken(self) -> None:
        """Notes that gradients were asked for that had been computed with the outputs."""
        self._ahead = min(self._ahead + 1, MOST_AHEAD)

    def unseen(self) -> bool:
        """Says whether no hook sees the way back now."""
        return self._parts.state() is None

    def found(self, begin: Flags) -> Flags:
        """Returns for every input whether it gets a cotangent from outputs with a flag."""
        if begin not in self._known_found:
            self._known_found[begin] = self._found(begin)
        return self._known_found[begin]

    def anew(self, call: Any, buffers: list[Any], gs: Values) -> Values:
        """Returns the cotangents of another pass than the one that was computed."""
        self._ahead = 0
        return self._in_two(call, buffers)[1](gs)

    def _joint(self, begin: Flags) -> Program:
        """Returns a program of the outputs and the cotangents."""
        parts = self._parts
        back, taken, _ = parts.backward(begin)

        def both(trace: StagingTrace, inputs: Values) -> tuple[Values, Values]:
            outs = parts.brief.run(inputs)
            known = [*inputs, *outs]
            types = [type_of(x) for x, flag in zip(self._program.outputs, begin) if flag]
            ones = [np.ones(x.shape, x.dtype) for x in types]
            found = back.run([*[known[parts.sources[i]] for i in taken], *ones])
            return [], [*outs[: self._count], *found]

        return staged(self._program, both)


class GradientsAhead:
    """Pulls cotangents back: those that were computed with the outputs, or others.

    Args:
        recorded: the program.
        call: the call, which may be repeated.
        begin: the outputs that the pass begins at, each with one.
        count: how many cotangents were computed; of what is kept they come first, the operands
            behind them.
    """

    __slots__ = ("_begin", "_call", "_count", "_recorded")

    def __init__(self, recorded: RecordedProgram, call: Any, begin: Flags, count: int) -> None:
        self._recorded = recorded
        self._call = call
        self._begin = begin
        self._count = count

    def __call__(self, kept: Values, gs: Values) -> Values:
        """Returns the cotangents of the operands, None for those without."""
        moved = [g for g in gs if g is not None]
        asked = tuple([g is not None for g in gs]) == self._begin and is_one(moved)
        if asked and slot.trace is RAW and self._recorded.unseen():
            self.note_taken()
            return self._known(kept)
        return self._recorded.anew(self._call, kept[self._count :], gs)

    def begun_at(self, output: int, kept: Values) -> Values | None:
        """Returns the cotangents of the operands from one at an output; None without these."""
        if self._begin.count(True) != 1 or not self._begin[output] or not self._recorded.unseen():
            return None
        return self._known(kept)

    def note_taken(self) -> None:
        """Notes that the cotangents were asked for."""
        self._recorded.note_taken()

    def _known(self, kept: Values) -> Values:
        return spread(kept[: self._count], self._recorded.found(self._begin))


def lying_as(program: Program, buffers: Values) -> Program:
    """Returns a program whose plan expects its first inputs to lie in memory as buffers do.

    Plans leave the channels of images last in memory.
    """
    moved = {x: order for x, buffer in zip(program.inputs, buffers) if (order := order_of(buffer))}
    if not moved:
        return program
    new = {x: Variable(x.type, x.device, order) for x, order in moved.items()}
    inputs = [new.get(x, x) for x in program.inputs]
    equations = [equation.over(new) for equation in program.equations]
    outputs = [new.get(x, x) if type(x) is Variable else x for x in program.outputs]
    return Program(program.name, inputs, equations, outputs)


def order_of(buffer: Any) -> tuple[int, ...] | None:
    """Returns the order of a buffer's axes in memory, outermost first; None for the usual one."""
    if type(buffer) is not np.ndarray or buffer.ndim < 3 or buffer.flags.c_contiguous:
        return None
    order = tuple(sorted(range(buffer.ndim), key=lambda axis: -buffer.strides[axis]))
    return order if buffer.transpose(order).flags.c_contiguous else None


def is_loss(program: Program) -> bool:
    """Says whether a program computes one real number, on the CPU."""
    types = [type_of(x) for x in program.outputs]
    real = len(types) == 1 and types[0].shape == () and types[0].dtype.kind == "f"
    return real and is_planned(program)


def is_one(gs: Values) -> bool:
    """Says whether there is one cotangent, a one that is known without a wait for a device."""
    return len(gs) == 1 and isinstance(gs[0], HOST_TYPES) and gs[0].size == 1 and gs[0] == 1
