"""The plan of a jitted function for one kind of arguments."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Any

from ..primitives.core.annotations import Values
from ..primitives.core.array import Array, Tracer
from ..primitives.core.array_likes import is_array_like
from ..primitives.core.buffers import owned, wrap
from ..primitives.core.registry import registry as ops
from ..programs.program import Program, Variable, argument_type
from ..transforms.taken_gradients import taken_gradients
from ..transforms.tensor_entrance import entrance
from .compile import Compiled, compiled
from .guard import Guard, RecordedRun, guard, unguarded
from .program_call import ProgramCall

__all__ = ["StagedEntry", "strong_result"]


class StagedEntry:
    """The plan for one kind of arguments.

    Attributes:
        program: the staged program.
        compiled: its compiled form.
        captured: traced values that the function closes over; it is then staged anew each time.
        gradient: the numbers of an input, and of an output that is the gradient taken at it.
        guard: answers calls of the same kind; None until there was a second one.
        context: the choices under which it was staged.
        false_alarms: how often in a row the processor has told hooks of nothing that they look for.
        looked: what hooks have looked for in a call that ran operation by operation.
        missed: how many calls of the kind its guard has given up.
    """

    __slots__ = (
        *("_computes", "_passed", "captured", "compiled", "context"),
        *("false_alarms", "gradient", "guard", "looked", "missed", "program"),
    )

    def __init__(
        self, program: Program, captured: Values, donated: Sequence[int], context: Hashable
    ) -> None:
        self.program = program
        self.captured = captured
        self.guard: Guard | None = None
        self.gradient: tuple[int, int] | None = None
        self.context = context
        self.looked: dict[Hashable, None] = {}
        self.false_alarms = 0
        self.missed = 0
        places = {variable: i for i, variable in enumerate(program.inputs)}
        passed = [places.get(x) if isinstance(x, Variable) else None for x in program.outputs]
        # The numbers of the inputs that the outputs are.
        taken = frozenset(donated)
        self._passed = [None if i in taken else i for i in passed]
        outputs = [x for x, i in zip(program.outputs, self._passed, strict=True) if i is None]
        if len(outputs) < len(self._passed):
            program = program.with_equations(program.equations, outputs)
        self._computes = bool(outputs or donated)
        returned = sorted({i for i in self._passed if i is not None})
        self.compiled: Compiled = compiled(program, donated, returned)

    @property
    def takes_buffers(self) -> bool:
        """Says whether the compiled form alone, of the leaves' buffers, gives all results'."""
        passes = any(i is not None for i in self._passed)
        return self._computes and not passes and self.compiled.on_cpu

    def wants_guard(self, missed: bool) -> bool:
        """Says whether a guard is to be made: there is none, or it gives calls of the kind up.

        That is so where arrays were given in place of tensors, or containers of another class. It
        is made anew after 2, 4, 8 such calls and so on.

        Args:
            missed: whether it has just given a call of the kind up.
        """
        if self.guard is None or self.guard is unguarded or not missed:
            return self.guard is None
        self.missed += 1
        return self.missed > 1 and not self.missed & (self.missed - 1)

    def guarded(
        self, args: Sequence[Any], kwargs: dict[str, Any], static: Sequence[int | str]
    ) -> None:
        """Makes the guard for calls like one."""
        if self.compiled.donated and entrance.has_tensors((args, kwargs)):
            self.guard = unguarded
            return
        run = self.compiled.buffers_from if self._computes else None
        out_tree, recording = self.program.out_tree, self.recording()
        self.guard = guard(
            args, kwargs, static, run, out_tree, self._passed, self.gradient, recording,
            donated=self.compiled.donated,
        )

    def recording(self) -> RecordedRun | None:
        """Returns what computes results for tensors with a graph; None where no plan does."""
        if entrance.recorded is None or self.compiled.run is None or self.program.replaced:
            return None
        return partial(entrance.recorded, ProgramCall(self.program))

    def guard_behind(self, first: Callable[[], Array], args: Any) -> Guard:
        """Returns a guard for calls of which the first leaf is made anew each time.

        Args:
            first: makes it, an array.
            args: all others. Those that are no arrays are constants of the program.
        """
        recording, compute = self.recording(), self.compiled.buffers_from

        def run(leaves: Values, buffers: Values) -> Values:
            x = first()
            return compute([x, *leaves], [x._data, *buffers])

        def record(buffers: Values, nodes: tuple[Any, ...]) -> Values:
            assert recording is not None
            return recording([first()._data, *buffers], (None, *nodes))

        passed = [None if i is None else i - 1 for i in self._passed]
        return guard(
            (args,), {}, (), run if self._computes else None, self.program.out_tree, passed,
            recording=recording and record, constants=True,
        )  # fmt: skip

    def outputs(self, leaves: Values, outs: Sequence[Any]) -> Any:
        """Returns the result's tree; an output that is an argument is that very array."""
        computed = iter(outs)
        # A NumPy array may be changed by its owner. An array that is returned twice is made once.
        given = {i: wrap(owned(leaves[i])) for i in {*self._passed} if i is not None}
        found = [next(computed) if i is None else given[i] for i in self._passed]
        if self.gradient and taken_gradients.watched:
            i, j = self.gradient
            taken_gradients.note(leaves[i], found[j])
        return self.program.out_tree.unflatten(found)


def strong_result(out: Any) -> Any:
    """Returns a result as an array where it is a number, or stands for one."""
    if type(out) is Array or not is_array_like(out):
        return out
    if not isinstance(out, Tracer):
        return wrap(owned(out))
    known = argument_type(out)
    return ops.astype(out, known.dtype) if known.weak else out
