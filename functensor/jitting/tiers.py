"""Two tiers: a plan over NumPy runs at once, and one of machine code takes over if it is quicker.

Machine code is compiled in a thread of its own, once a plan has run for a while. Nobody waits for
it. Its first calls are compared with those of the plan over NumPy, and the quicker one stays. Where
that was machine code, later processes take it from the disk in their first call.
"""

from __future__ import annotations

import weakref
from collections.abc import Collection, Sequence
from contextlib import suppress
from functools import partial
from importlib import import_module
from time import perf_counter
from typing import TYPE_CHECKING, Any, Protocol

from ..backends import BackendUnavailable
from ..backends import get as get_backend
from ..backends.config import config
from ..backends.errors.warnings import warn_user
from ..backends.logs import log_debug
from ..passes.constants_in_order import constants_in_order
from ..passes.fusion import fusion
from ..passes.index_ranges import IndexRanges
from ..passes.joined_forms import joined_forms
from ..passes.kernel_forms import kernel_forms
from ..passes.loop_forms import loop_forms
from ..passes.pipeline import optimized
from ..passes.region_gathers import is_gather, is_in_bounds
from ..passes.scatter_updates import scatter_updates, scatters_as_updates
from ..programs.program import used
from .earlier_choices import chosen_keys, note_choice
from .input_orders import InputOrders, OrderedPlan, input_orders, with_inputs_in_order

if TYPE_CHECKING:
    from ..programs.program import Equation, Program

__all__ = ["Tiers", "native_body", "native_plan", "native_program", "tell_failure"]

# What people are told of a plan of machine code that runs.
MACHINE_CODE = "as machine code"
# A plan over NumPy runs for so long, in seconds, before machine code is compiled.
SECONDS_BEFORE_COMPILING = 0.005
# The calls of each plan whose shortest times are compared.
COMPARED_CALLS = 8
# What machine code may compute beside regions and loops.
NATIVE_ALONE = frozenset({
    "cholesky", "conv", "conv_input_grad", "conv_kernel_grad", "cumprod", "cumsum", "det",
    "det_by_factors", "fft", "index_add", "index_max", "index_min", "index_multiply", "index_set",
    "inv", "irfft", "kept_factors", "linear_recurrence", "pad", "random_bits", "random_keys",
    "rfft", "scatter_add", "slogdet", "slogdet_by_factors", "solve", "solve_by_factors",
    "triangular_solve",
})  # fmt: skip
# What it computes beside them where threads share it: on one thread NumPy copies as quickly.
NATIVE_IF_SHARED = frozenset({"concatenate", "stack"})
# Passes over longer programs would take many seconds.
MOST_COMPILED_EQUATIONS = 20_000
# Machine code stays if it takes at most so much of the time of the plan over NumPy.
MOST_OF_NUMPYS_TIME = 1.0


# The packages whose errors say that a machine cannot compile: its driver, toolkit or memory.
COMPILERS = frozenset({"cupy", "cupy_backends", "cuda"})


class Runs(Protocol):
    """A compiled program: its plan over NumPy, and the plan that runs."""

    run: Any

    @property
    def plan(self) -> Any: ...

    def forget_plan(self) -> None: ...


class Tiers:
    """Runs a program by its plan over NumPy, and then by the quicker of two plans.

    Attributes:
        note: which tier runs, and why, for people; empty while that is not decided.
    """

    def __init__(self, compiled: Runs, program: Program, donated: Sequence[int]) -> None:
        self._compiled = weakref.ref(compiled)
        self._program = program
        self._donated = tuple(donated)
        # Inputs that results take the memory of, or are, stay as they are.
        self._fixed = frozenset([*donated, *returned_inputs(program)])
        # How the arguments lay that were seen last.
        self._orders: InputOrders = ()
        self._native: Any = None
        self._job: Any = None
        # Whether a thread of the user's compiles, which is not to wait for the jobs of others.
        self._finishing = False
        self._spent = 0.0
        self._times: tuple[list[float], list[float]] = [], []
        self.note = ""

    def __call__(self, buffers: Sequence[Any]) -> list[Any]:
        """Computes the results, and looks whether the other tier is ready."""
        native = self._native
        if native is None:
            self.note_orders(buffers)
        plan = self._numpy() if native is None else native
        begun = perf_counter()
        outs = plan(buffers)
        took = perf_counter() - begun
        self.note_time(took, native)
        return outs  # type: ignore[no-any-return]

    def _numpy(self) -> Any:
        compiled = self._compiled()
        return None if compiled is None else compiled.plan

    def take_earlier_choice(self) -> bool:
        """Takes machine code that an earlier process has found to be quicker; says if it was there.

        The plan over NumPy is then made when somebody asks for it.
        """
        keys = chosen_keys(self._program)
        if not keys or self._refusal() or not loads_at_once():
            return False
        plan = None
        # The thread that compiles meets the same error, and tells of it.
        with suppress(Exception):
            plan = native_plan(self._program, self._donated, keys)
        if plan is not None:
            self.settle(plan, MACHINE_CODE)
        return plan is not None

    @property
    def machine_code(self) -> Any:
        """The plan of machine code whose calls are compared now; None where there is none."""
        return self._native

    def note_orders(self, buffers: Sequence[Any]) -> None:
        """Notes how arguments lie in memory, for which machine code is to be made."""
        self.expect_orders(input_orders(buffers, self._fixed))

    def expect_orders(self, orders: InputOrders) -> None:
        """Has machine code made for arguments that lie in memory in some orders."""
        self._orders = tuple(
            [None if i in self._fixed else order for i, order in enumerate(orders)]
        )

    def note_time(self, took: float, native: Any) -> None:
        """Notes the time of a call, and decides once there are enough of both plans.

        Args:
            took: the seconds.
            native: the plan of machine code that ran, or None for one over NumPy.
        """
        times = self._times[native is not None]
        if native is None:
            self._spent += took
            del times[:-COMPARED_CALLS]
            times.append(took)
            waits = self._job is not None and not self._job.dropped
            if not waits and self._spent >= SECONDS_BEFORE_COMPILING:
                self.begin()
            return
        times.append(took)
        if len(times) >= COMPARED_CALLS:
            numpy, other = (min(found, default=0.0) for found in self._times)
            if other <= MOST_OF_NUMPYS_TIME * numpy:
                self.settle(native, MACHINE_CODE)
                if native.key:
                    note_choice(self._program, native.key)
            else:
                self.settle(None, "over NumPy, which was quicker than machine code")

    @property
    def source(self) -> str:
        """The text of the plan that runs, with its kernels where it is one of machine code."""
        compiled = self._compiled()
        run = None if compiled is None else compiled.run
        if self.note == MACHINE_CODE:
            source, kernels = getattr(run, "source", ""), self.functions(llvm=False)
            return f"# This runs {MACHINE_CODE}.\n{source}\n{kernels}"
        return "" if compiled is None else compiled.plan.source

    def functions(self, llvm: bool) -> str:
        """Returns the functions of machine code as kernels, in their language, or as LLVM's code.

        Raises:
            BackendUnavailable: there is no machine code here.
        """
        from ..backends.native.machine import in_step  # only where machine code is made

        why = "" if self.note == MACHINE_CODE else self._refusal()
        if why:
            raise BackendUnavailable(f"{self._program.name} has no machine code: {why}")
        backend: Any = get_backend("numpy")
        in_step(backend.load_native_plans)
        program = with_inputs_in_order(self._program, self._orders)
        text: str = backend.shown_functions(native_program(program), self._donated, llvm)
        return text

    def begin(self) -> None:
        """Begins to compile in another thread, unless that is not to be."""
        why = self._refusal()
        if why:
            self.settle(None, f"over NumPy: {why}")
            return
        from ..backends.native.background import later_for  # only where machine code is made

        self._job = later_for(self, Tiers.make_in_turn)

    def finish(self) -> None:
        """Compiles machine code, unless that is not to be, and decides for it."""
        compiled = self._compiled()
        if compiled is None or self.note == MACHINE_CODE:
            return
        why = self._refusal()
        if why:
            self.settle(None, f"over NumPy: {why}")
            return
        if self._job is not None and self._job.begun:
            # Another thread compiles it already.
            self._job.wait()
        if self._native is None and compiled.run is self:
            self._finishing = True
            self.make()
        native = self._native
        if native is not None:
            self.settle(native, MACHINE_CODE)

    def _refusal(self) -> str:
        """Returns why there is to be no machine code; an empty string where it may be."""
        if config.deterministic:
            return "with config.deterministic a function keeps the plan of its first call"
        count, most = count_of_equations(self._program), MOST_COMPILED_EQUATIONS
        if count > most:
            return f"it has {count:,} equations, and programs of more than {most:,} stay there"
        from ..backends.native.machine import why_not  # only where machine code may be made

        return why_not()

    def make_in_turn(self) -> None:
        """Compiles machine code, unless another thread does so by `finish`."""
        if not self._finishing:
            self.make()

    def make(self) -> None:
        """Compiles machine code, for the next call to take."""
        try:
            plan = self._native_plan()
        except Exception as error:
            self.settle(None, f"over NumPy: compiling failed with {error!r}")
            tell_failure(self._program, error)
            return
        if plan is None:
            self.settle(None, "over NumPy: nothing in it would be machine code")
        else:
            self._native = plan

    def _native_plan(self) -> Any:
        orders = self._orders
        if not any(orders):
            return native_plan(self._program, self._donated)
        plan = native_plan(with_inputs_in_order(self._program, orders), self._donated)
        make = partial(native_plan, self._program, self._donated)
        return None if plan is None else OrderedPlan(plan, orders, make)

    def settle(self, native: Any, note: str) -> None:
        """Decides for machine code, or for the plan over NumPy, and lets the other's memory go.

        Args:
            native: the plan of machine code; None for the other one.
            note: says so.
        """
        self.note = note
        compiled = self._compiled()
        if compiled is not None:
            compiled.run = compiled.plan if native is None else native
            if native is not None:
                compiled.forget_plan()
        self._native = None


def loads_at_once() -> bool:
    """Says whether objects on the disk are loaded without LLVM, and nobody is within it."""
    from ..backends.native.machine import Inside  # only where there is machine code
    from ..backends.native.object_loader import can_load

    return can_load() and not Inside.step


def returned_inputs(program: Program) -> list[int]:
    """Returns the numbers of the inputs that are outputs."""
    outputs = set(used(program.outputs))
    return [i for i, x in enumerate(program.inputs) if x in outputs]


def tell_failure(program: Program, error: Exception) -> None:
    """Logs why the plan of a program could not be made, and warns of what no machine should do.

    The program runs without that plan.
    """
    log_debug("jit", "%s was not compiled: %r", program.name, error)
    package = type(error).__module__.partition(".")[0]
    if not isinstance(error, MemoryError | OSError) and package not in COMPILERS:
        import traceback  # costs milliseconds

        place = traceback.extract_tb(error.__traceback__)[-1]
        warn_user(
            f"{program.name} was not compiled, and runs slower: {type(error).__name__}: {error} "
            f"(line {place.lineno} of {place.filename}); please report this error of functensor",
            RuntimeWarning,
        )


def count_of_equations(program: Program) -> int:
    """Returns how many equations a program has, with those of loops and branches."""
    equations = program.equations
    bodies = [body for equation in equations for body in equation.primitive.bodies]
    return len(equations) + sum(map(count_of_equations, bodies))


def native_plan(
    program: Program, donated: Sequence[int], keys: Collection[str] | None = None
) -> Any:
    """Returns the plan of a staged program whose elementwise work is machine code; None without.

    It is on the disk where an earlier process has made it.

    Args:
        program: as it was staged.
        donated: the numbers of the inputs whose memory results may take.
        keys: those of plans on the disk, of which it is to be one; without them it is made.
    """
    tell, make = partial(told_as_text, program, donated), partial(scheduled_plan, program, donated)
    return get_backend("numpy").kept_plan(tell, make, keys)


def told_as_text(program: Program, donated: Sequence[int]) -> Any:
    """Returns a program as the text that its plan is kept by; None where there is none."""
    from ..backends.native.machine import in_step

    module = in_step(import_module, ".program_key", __package__)
    return module.told_program(program, donated)


def scheduled_plan(program: Program, donated: Sequence[int]) -> Any:
    """Returns the plan of a staged program, whose kernels are scheduled and printed now."""
    from ..backends.native.machine import in_step  # only where machine code is made

    # A fork waits for the end of a step. In the child of a fork in the middle of an import nobody
    # could import the module any more.
    in_step(get_backend("numpy").load_native_plans)
    fused = native_program(program)
    shares = get_backend("numpy").plan_threads() > 1
    alone = NATIVE_ALONE | NATIVE_IF_SHARED if shares else NATIVE_ALONE
    if not any(
        e.primitive.fused
        or e.primitive.name in alone
        or e.primitive.machine_loop()
        or e.primitive.machine_branches()
        for e in fused.equations
    ):
        return None
    plan: Any = get_backend("numpy").plan(fused, tuple(donated), native=True)
    return plan if plan.has_machine_code else None


def native_program(program: Program) -> Program:
    """Returns a staged program in the form of which machine code is made: its regions are fused."""
    forms = constants_in_order(joined_forms(kernel_forms(optimized(program, stacks=False))))
    return fusion(forms, 0, get_backend("numpy").native_test(forms))


def native_body(program: Program) -> Program:
    """Returns a loop's or a choice's program in that form; single equations are regions, too."""
    forms = kernel_forms(loop_forms(optimized(program, stacks=False)))
    updates = constants_in_order(scatters_as_updates(scatter_updates(forms)))
    takes = get_backend("numpy").native_test(updates, of_loop=True)
    ranges = IndexRanges(updates.equations)

    def fits(equation: Equation) -> bool:
        # Regions of a loop test no indices.
        return takes(equation) and (not is_gather(equation) or is_in_bounds(equation, ranges))

    return fusion(updates, 0, fits)
