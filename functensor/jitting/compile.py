"""From a program to its plan: passes make it better, and a backend writes code for the result."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import inf
from time import perf_counter
from typing import Any

from numpy import ndarray

from ..backends import BackendUnavailable, Loop
from ..backends import get as get_backend
from ..backends.config import config
from ..backends.devices import to_host
from ..backends.finiteness import INEXACT_KINDS, is_finite
from ..backends.notebook_cells import with_cells_named
from ..backends.restoring import reporting
from ..passes.fusion import fusion
from ..passes.pipeline import optimized
from ..passes.scatter_updates import scatter_updates
from ..primitives.core.annotations import Values
from ..primitives.core.array import Array
from ..primitives.core.array_slots import slot_places
from ..primitives.core.buffers import WEAK_TYPES, all_wrapped, to_buffer, wrap
from ..primitives.core.donation import claimed, given_up, restored
from ..primitives.core.errors import failure
from ..primitives.core.shape_dtype import ShapeDtype, finfo
from ..programs.costs import Cost, cost_of
from ..programs.program import Program, Variable, type_of
from ..transforms.tensor_entrance import entrance
from .gpu_tiers import GpuTiers, gpu_of, run_one_by_one
from .tiers import Tiers

__all__ = ["Compiled", "Lowered", "compiled", "is_planned", "plan_of_loop", "prepared_program"]

LARGEST_FLOAT32 = 3.4028234663852886e38

# With the passes, so that no first call waits for it.
get_backend("numpy").load_plans()


class Compiled:
    """A compiled program: it runs on arrays.

    Args:
        program: as it was staged.
        donated: the numbers of the inputs whose buffers are overwritten.
        returned: the numbers of the inputs that are results themselves.

    Attributes:
        staged: the same.
        on_cpu: whether all of it is computed there.
        run: the same, or a quicker one of the same results; None where values are on several
            devices, so that the program is run operation by operation.
        tiers: what decides which; None there.
    """

    __slots__ = (
        "__weakref__",
        "_claimant",
        "_claims",
        "_plan",
        "_program",
        "_watched",
        "_weak",
        "donated",
        "name",
        "on_cpu",
        "returned",
        "run",
        "staged",
        "tiers",
    )

    def __init__(
        self, program: Program, donated: Sequence[int] = (), returned: Sequence[int] = ()
    ) -> None:
        self.name = program.name
        self.staged = program
        self._program: Program | None = None
        self._plan: Any = None
        self.run: Any = None
        self.tiers: Tiers | GpuTiers | None = None
        self.on_cpu = is_planned(program)
        if not self.on_cpu:
            # What nobody needs may be on another device.
            better = optimized(program)
            self.on_cpu = is_planned(better)
            self._program = fusion(better) if self.on_cpu else better
        self.donated = tuple(donated)
        if self.on_cpu:
            self.run = self.tiers = tiers = Tiers(self, program, donated)
            if not tiers.take_earlier_choice():
                _ = self.plan
        elif (device := gpu_of(self.program)) is not None:
            self.run = self.tiers = GpuTiers(self, program, device, donated)
        else:
            self.donated = ()
        self.returned = tuple(returned) if self.donated else ()
        # Of the inputs that are donated numbers that a GPU's kernels take, and all others.
        inputs = program.inputs
        numbers = [i for i in self.donated if not self.on_cpu and is_number_of_host(inputs[i])]
        memory = [i for i in self.donated if i not in numbers]
        self._claims = numbers, memory, slot_places(memory)
        self._claimant = f"jit of {self.name}"
        self._watched: Any = None
        self._weak = [(i, x.type.weak) for i, x in enumerate(program.inputs) if x.type.weak]

    @property
    def program(self) -> Program:
        """The program, optimized."""
        if self._program is None:
            # Other threads may ask meanwhile: they are not to find it half made.
            self._program = fusion(optimized(self.staged))
        return self._program

    @property
    def plan(self) -> Any:
        """The plan over NumPy, which takes and returns buffers; None on a GPU."""
        if self._plan is None and self.on_cpu:
            self._plan = get_backend("numpy").plan(self.program, self.donated)
        return self._plan

    def forget_plan(self) -> None:
        """Lets memory go that the plan over NumPy keeps, where there is one."""
        if self._plan is not None:
            self._plan.forget()

    def __call__(self, values: Sequence[Any]) -> Values:
        """Computes the outputs of a flat list of arrays, as arrays."""
        return self.on_buffers(values, self.buffers_of(values))

    def buffers_of(self, values: Sequence[Any]) -> list[Any]:
        """Returns the buffers of a flat list of arrays."""
        buffers = [x._data if type(x) is Array else to_buffer(x) for x in values]
        for i, weak in self._weak:
            if type(buffers[i]) is not weak:
                buffers[i] = weak(buffers[i])
        return buffers

    def compile(self, values: Sequence[Any] = ()) -> None:
        """Compiles machine code, and takes it for the next call; returns when it is there.

        Args:
            values: arguments, whose order in memory those of later calls have, too; or their types,
                or none.
        """
        if self.tiers is not None:
            known = values and not any(type(x) is ShapeDtype for x in values)
            if known and isinstance(self.run, Tiers):
                self.run.note_orders([*map(buffer_in, values)])
            self.tiers.finish()
            for equation in getattr(self.run, "called", ()):
                equation.primitive.compile_for([*map(type_of, equation.operands)])

    def how_it_runs(self) -> list[str]:
        """Returns a line of words that say which plan runs, once that is decided."""
        note = "" if self.tiers is None else self.tiers.note
        remark = getattr(self.run, "remark", "")
        return [f"  the last of these runs {note}{remark}"] if note else []

    def watched(self) -> Any:
        """Returns a plan of the same program that reports where NaN or infinity is made.

        It overwrites no input. None where there is no plan, and where a branch or a loop has such
        a constant: what made it was computed while the function was staged, and is not reported.
        Nor is a number of Python's that the dtype of an operation lacks: plans hold it converted.
        """
        if self._watched is None and self.on_cpu:
            constants = constants_of_bodies(self.program)
            hidden = has_number_too_large(self.program) or any(map(may_be_infinite, constants))
            self._watched = not hidden and get_backend("numpy").plan(self.program, watched=True)
        return self._watched or None

    def reported(self, values: Sequence[Any], report: Callable[[str, int], Any]) -> Values:
        """Computes the outputs of arrays by that plan, which reports to a function."""
        buffers = self.buffers_of(values)
        begun = perf_counter()
        outs = reporting(report, self.watched(), (buffers,))
        if isinstance(self.run, Tiers):
            self.run.note_time(perf_counter() - begun, None)
        return [wrap(out) for out in outs]

    def told(self, values: Sequence[Any]) -> tuple[Values, list[str]] | None:
        """Computes the outputs of arrays by the machine code of other calls.

        Returns:
            The outputs, and NumPy's words for what the processor has told of the arithmetic. None
            where there is no such machine code, or the processor does not tell of all of it.
        """
        tiers = self.run if isinstance(self.run, Tiers) else None
        plan = self.run if tiers is None else tiers.machine_code
        if self.donated or not getattr(plan, "tells", False):
            return None
        buffers = self.buffers_of(values)
        begun = perf_counter()
        found = plan.told(buffers)
        if found is None:
            return None
        if tiers is not None:
            tiers.note_time(perf_counter() - begun, plan)
        return [*map(wrap, found[0])], found[1]

    def on_buffers(self, values: Sequence[Any], buffers: list[Any]) -> Values:
        """Does the same, given the arrays' buffers too."""
        return all_wrapped(self.buffers_from(values, buffers))

    def buffers_from(self, values: Sequence[Any], buffers: list[Any]) -> list[Any]:
        """Returns the outputs' buffers."""
        if self.run is None:
            return list(run_one_by_one(self.program, buffers))
        if self.donated:
            numbers, memory, slots = self._claims
            if numbers:
                given_up(values, buffers, numbers, self._claimant)
            claimed(values, buffers, memory, self._claimant, slots)
        for i in self.returned:
            restored(values[i], buffers[i])
        return self.run(buffers)  # type: ignore[no-any-return]


def buffer_in(x: Any) -> Any:
    """Returns the buffer of an array or a tensor; None of what has none, as a traced value."""
    kind = type(x)
    if kind is Array or entrance.stands(kind):
        return x._data
    return x if kind is ndarray else None


def is_number_of_host(x: Variable) -> bool:
    """Says whether a variable is a number of the host's."""
    return x.device == "cpu" and not x.type.shape


def constants_of_bodies(program: Program, inside: bool = False) -> Iterator[Any]:
    """Yields the constants of a program that a call may leave unused: those of branches and loops.

    ``inside`` says whether the program is itself such a body.
    """
    for equation in program.equations:
        primitive = equation.primitive
        within = inside or (bool(primitive.bodies) and not primitive.fused)
        if within:
            yield from (x for x in equation.operands if not isinstance(x, Variable))
        for body in primitive.bodies:
            yield from constants_of_bodies(body, within)
    if inside:
        yield from (x for x in program.outputs if not isinstance(x, Variable))


def may_be_infinite(constant: Any) -> bool:
    """Says whether a constant is NaN or infinite, or a Python number that is in float32."""
    if type(constant) in WEAK_TYPES:
        return not abs(constant) <= LARGEST_FLOAT32
    return not is_finite(to_host(to_buffer(constant)))


def has_number_too_large(program: Program) -> bool:
    """Says whether an operation takes a finite number of Python's that its dtype lacks."""
    for equation in program.equations:
        numbers = [abs(x) for x in equation.operands if type(x) in WEAK_TYPES]
        dtypes = [out.type.dtype for out in equation.outputs]
        bounds = [float(finfo(dtype).max) for dtype in dtypes if dtype.kind in INEXACT_KINDS]
        if any(bound < x < inf for x in numbers for bound in bounds):
            return True
        if any(map(has_number_too_large, equation.primitive.bodies)):
            return True
    return False


def is_planned(program: Program) -> bool:
    """Says whether a program runs as a plan: all of it on the CPU."""
    return all(x.device == "cpu" for x in program.inputs) and all(
        x.device == "cpu" for equation in program.equations for x in equation.outputs
    )


def plan_of_loop(program: Program, loop: Loop) -> Callable[..., Any] | None:
    """Returns the plan of a loop, whose body is a program as it was staged; None where it has none.

    ``loop`` says the roles of inputs and outputs.
    """
    better = prepared_program(program)
    return get_backend("numpy").loop(better, loop) if better is not None else None


def prepared_program(program: Program) -> Program | None:
    """Returns a program as plans take it; None where it runs operation by operation."""
    better = optimized(program)
    return fusion(scatter_updates(better)) if is_planned(better) else None


def compiled(
    program: Program, donated: Sequence[int] = (), returned: Sequence[int] = ()
) -> Compiled:
    """Returns the compiled form of a program; made once for the choices that results depend on."""
    key = "compiled", config.numerics, tuple(donated), tuple(returned)
    found: Compiled | None = program.derived.get(key)
    if found is None:
        found = program.derived[key] = Compiled(program, donated, returned)
    return found


class Lowered:
    """A staged function, in all its forms.

    It can be pickled where its program calls no code of Python's, as functions with a custom rule
    and checkpointed ones are.

    Attributes:
        program: as it was staged.
        optimized: the program that the passes made.
    """

    __slots__ = ("_compiled", "program")

    def __init__(self, program: Program, compiled: Compiled) -> None:
        self.program = program
        self._compiled = compiled

    @property
    def optimized(self) -> Program:
        """The program that the passes made."""
        return self._compiled.program

    @property
    def source(self) -> str:
        """The text of the generated code that runs; a line of words where operations run singly.

        Where machine code runs, its kernels stand behind the lines of the plan.
        """
        tiers = self._compiled.tiers
        if tiers is None:
            return "# on several devices, the optimized program is run operation by operation\n"
        return with_cells_named(tiers.source)

    def llvm(self) -> str:
        """Returns the code of machine code's functions in LLVM's language, before it optimizes.

        Raises:
            BackendUnavailable: there is no machine code of the function here.

        >>> import functensor as ft, functensor.numpy as np
        >>> low = ft.jit(lambda x: np.sum(x * x)).lower(np.ones(100))
        >>> "fmul" in low.llvm()
        True
        """
        tiers = self._compiled.tiers
        if not isinstance(tiers, Tiers):
            raise BackendUnavailable(f"{self.program.name} does not run on the CPU alone")
        return tiers.functions(llvm=True)

    def cost(self) -> Cost:
        """Returns the operations, bytes and peak memory of the optimized program."""
        return cost_of(self.optimized)

    def _repr_html_(self) -> str | None:
        # Its own optimized program may lack outputs that are arguments.
        return compiled(self.program).program._repr_html_()

    def __reduce__(self) -> tuple[Any, ...]:
        for call, line in local_calls(self.program):
            raise failure(
                TypeError,
                f"pickle: the program of {self.program.name} calls {call} at {line}, which runs "
                "code of Python's that is no part of the program",
                fix="pickle the function, and lower it where it is loaded: jit(f).lower(*args)",
            )
        # The code is written anew where it is loaded.
        found = self._compiled
        return lowered, (self.program, found.staged, found.donated, found.returned)

    def __copy__(self) -> Lowered:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Lowered:
        return self

    def __repr__(self) -> str:
        return f"<lowered {self.program.name}: {len(self.program.equations)} equations>"


def lowered(
    program: Program, staged: Program, donated: Sequence[int], returned: Sequence[int]
) -> Lowered:
    """Returns a staged function, in all its forms, of programs that were pickled."""
    return Lowered(program, compiled(staged, donated, returned))


def local_calls(program: Program) -> Iterator[tuple[str, str]]:
    """Yields the calls of a program that run functions which no module has, and their lines."""
    for equation in program.equations:
        call = equation.primitive
        # Primitives and loops are found by name, or are made of programs.
        parts = vars(call).values() if hasattr(call, "functions") else ()
        if any("<" in getattr(part, "__qualname__", "") for part in parts):
            yield call.name, equation.line
        for body in call.bodies:
            yield from local_calls(body)
