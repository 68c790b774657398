"""On a GPU a program runs operation by operation, until its plan is made in another thread."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..backends.config import config
from ..backends.devices import resolved
from ..passes.fusion import fusion
from ..passes.host_numbers import host_numbers
from ..passes.inline_calls import inlined
from ..passes.kernel_forms import kernel_forms
from ..passes.pipeline import optimized
from ..passes.pooled_forms import pooled_forms
from ..primitives.core.annotations import Values
from ..primitives.core.array_slots import load_array_slots
from ..primitives.core.buffers import exposed, to_buffer
from ..primitives.core.trace import under
from ..programs.program import Program, as_weak
from .tiers import MOST_COMPILED_EQUATIONS, count_of_equations, tell_failure

if TYPE_CHECKING:
    from ..programs.program import Equation
    from .tiers import Runs

__all__ = ["GpuTiers", "gpu_of", "plan_on_gpu"]


def gpu_of(program: Program) -> str | None:
    """Returns the GPU that a program runs on; None where it is none, or several.

    Only numbers without axes may be on the host.
    """
    values = [*program.inputs, *(x for e in program.equations for x in e.outputs)]
    places = {x.device for x in values if x.type.shape or x.device != "cpu"}
    return places.pop() if len(places) == 1 and "cpu" not in places else None


class GpuTiers:
    """Runs a program operation by operation, and then by its plan.

    Attributes:
        note: which of them runs, and why, for people; empty while that is not decided.

    Args:
        compiled: the compiled program, whose ``run`` is set.
        program: the program as it was staged.
        device: the GPU.
        donated: the numbers of the inputs whose memory results may take.
    """

    def __init__(
        self, compiled: Runs, program: Program, device: str, donated: Sequence[int]
    ) -> None:
        self._compiled = weakref.ref(compiled)
        self._program = program
        self._device = device
        self._donated = tuple(donated)
        self._plan: Any = None
        self._job: Any = None
        self._finishing = False
        # Plans are made in another thread, whose choices are others.
        self._precision = config.matmul_precision
        self.note = ""

    def __call__(self, buffers: Sequence[Any]) -> list[Any]:
        """Computes the results, and begins to make the plan for later calls."""
        compiled = self._compiled()
        if self._plan is not None:
            self.settle(self._plan, "by kernels that were made for it")
            return self._plan(buffers)  # type: ignore[no-any-return]
        program = self._program if compiled is None else compiled.program  # type: ignore[attr-defined]
        outs = run_one_by_one(program, buffers)
        if not self.note and (self._job is None or self._job.dropped):
            self.begin()
        return outs

    @property
    def source(self) -> str:
        """The text of the plan, and of its kernels; a line of words before there is one."""
        if self._plan is None:
            return "# the program is run operation by operation, until its kernels are compiled\n"
        return str(self._plan.source)

    def begin(self) -> None:
        """Begins to compile in another thread, unless that is not to be."""
        why = self._refusal()
        if why:
            self.settle(self, f"operation by operation: {why}")
            return
        from ..backends.native.background import later_for  # only where kernels are made

        self._job = later_for(self, GpuTiers.make_in_turn)

    def finish(self) -> None:
        """Makes the plan, unless that is not to be; the next call takes it."""
        why = self._refusal()
        if why:
            self.settle(self, f"operation by operation: {why}")
            return
        if self._job is not None and self._job.begun:
            self._job.wait()
        if self._plan is None and not self.note:
            self._finishing = True
            try:
                self.make()
            finally:
                self._finishing = False

    def _refusal(self) -> str:
        """Returns why there is to be no plan; an empty string where there may be one."""
        if os.environ.get("FUNCTENSOR_GPU_PLANS", "").strip() == "0":
            return "FUNCTENSOR_GPU_PLANS=0 turns plans on GPUs off"
        if config.deterministic:
            return "with config.deterministic a function has no plan"
        count, most = count_of_equations(self._program), MOST_COMPILED_EQUATIONS
        if count > most:
            return f"it has {count:,} equations, and programs of more than {most:,} stay there"
        return ""

    def make_in_turn(self) -> None:
        """Makes the plan, unless another thread does so by `finish`."""
        if not self._finishing:
            self.make()

    def make(self) -> None:
        """Makes the plan, for the next call to take."""
        try:
            with config.using(matmul_precision=self._precision):
                self._plan = plan_on_gpu(self._program, self._device, self._donated)
        except Exception as error:
            self.settle(self, f"operation by operation: compiling failed with {error!r}")
            tell_failure(self._program, error)
            return
        # Calls gain by it when the plan runs.
        load_array_slots()

    def settle(self, run: Callable[..., Any], note: str) -> None:
        """Decides what runs from now on."""
        self.note = note
        compiled = self._compiled()
        if compiled is not None:
            compiled.run = run


def plan_on_gpu(
    program: Program, device: str, donated: Sequence[int] = (), moving: bool = False
) -> Any:
    """Returns the plan of a staged program on a GPU, a function of buffers.

    Args:
        program: the program, all of whose values are on that GPU.
        device: the GPU.
        donated: the numbers of the inputs whose memory results may take.
        moving: whether inputs are large and lie elsewhere in each call.
    """
    backend, _ = resolved(device)
    # Constants may have been computed on any stream.
    backend.synchronize_device(device)
    with backend.current(device):
        fused = gpu_program(program, backend)
        plan = backend.plan_of_kernels(fused, call_on_buffers, donated, moving)
    return placed(plan, backend, device)


def gpu_program(program: Program, backend: Any) -> Program:
    """Returns a staged program in the form of which a GPU's plan is made: its regions are fused."""
    simple = optimized(host_numbers(inlined(program)), stacks=False)
    forms = host_numbers(pooled_forms(kernel_forms(simple)))
    return fusion(forms, 1, backend.native_test(forms))


def run_one_by_one(program: Program, buffers: Sequence[Any]) -> Values:
    """Computes the outputs of a program as buffers, operation by operation."""
    with under(None):
        return [to_buffer(out) for out in program.run(list(map(exposed, buffers)))]


def call_on_buffers(equation: Equation) -> Callable[[Sequence[Any]], Values]:
    """Returns what computes a call, such as a loop, of buffers."""
    primitive, weak = equation.primitive, [out.type.weak for out in equation.outputs]

    def compute(operands: Sequence[Any]) -> Values:
        with under(None):
            outs = primitive.bind(list(map(exposed, operands)))
            pairs = zip(outs, weak, strict=True)
            return [to_buffer(x if kind is None else as_weak(x, kind)) for x, kind in pairs]

    return compute


def placed(plan: Any, backend: Any, device: str) -> Any:
    """Returns a plan that runs on its GPU, where there are several."""
    return plan if len(backend.devices()) == 1 else PlacedPlan(plan, backend, device)


class PlacedPlan:
    """A plan that runs on its GPU, whichever is the current one."""

    def __init__(self, plan: Any, backend: Any, device: str) -> None:
        self._plan = plan
        self._backend = backend
        self._device = device
        self.source = plan.source
        self.called = plan.called

    @property
    def remark(self) -> str:
        """The reason why it is no graph, for people; empty where it is one, or may become one."""
        return getattr(self._plan, "remark", "")

    def __call__(self, buffers: Sequence[Any]) -> list[Any]:
        """Computes the results of buffers."""
        with self._backend.current(self._device):
            return self._plan(buffers)  # type: ignore[no-any-return]
