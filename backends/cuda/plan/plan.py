"""Plans on a GPU: compiled functions that run a program on buffers, its regions as kernels."""

from __future__ import annotations

import linecache
import weakref
from collections.abc import Callable, Sequence
from itertools import count
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

from ...notebook_cells import with_cells_named
from .plan_text import PlanText, is_recordable
from .region_run import load_all

if TYPE_CHECKING:
    from ...cpu.plan.annotations import ProgramLike

__all__ = ["GpuPlan", "gpu_plan"]

plan_numbers = count()


class GpuPlan:
    """Runs a program: ``plan(buffers)`` returns the buffers of its results.

    Several threads may run it at once. Nobody waits for what it queues.

    Attributes:
        called: the equations that it does by calls of their own; none of them compiles anything.

    Args:
        program: the program, its regions fused.
        bound: returns what computes an equation that is a call, such as a loop, on buffers.
        donated: the numbers of the inputs whose memory results may take.
        apart: whether numbers of the host are computed before anything is queued.
    """

    called = ()

    def __init__(
        self,
        program: ProgramLike,
        bound: Callable[[Any], Callable[..., Sequence[Any]]],
        donated: Sequence[int] = (),
        apart: bool = False,
    ) -> None:
        self.name = program.name
        self.text = PlanText(program, bound, apart, donated)
        source = self.text.source
        self._shown = source.text()
        self._file = f"<plan {next(plan_numbers)} of {self.name} on a GPU>"
        lines = self._shown.splitlines(keepends=True)
        linecache.cache[self._file] = (len(self._shown), None, lines, self._file)
        weakref.finalize(self, linecache.cache.pop, self._file, None)
        module = compile(source.code(), self._file, "exec")
        codes = {c.co_name: c for c in module.co_consts if isinstance(c, CodeType)}
        code = codes["queue"]
        defaults = (None,) * len(self.text.taken)
        self.queue: Callable[..., list[Any]] = FunctionType(code, source.scope, "queue", defaults)
        if apart:
            self.numbers: Callable[..., tuple[list[Any], list[Any]]] = FunctionType(
                codes["numbers"], source.scope, "numbers"
            )

    def load(self) -> None:
        """Compiles its kernels, for the current GPU."""
        load_all(self.text.runs)

    @property
    def source(self) -> str:
        """The generated text, and those of its kernels."""
        return "\n".join([self._shown, *[run.text for run in self.text.runs]])

    def __call__(self, buffers: Sequence[Any]) -> list[Any]:
        """Queues the program on the current stream, and returns the buffers of its results."""
        try:
            return self.queue(*buffers, *[buffers[i] for i in self.text.taken.values()])
        except Exception as error:
            self.explain(error)
            raise

    def explain(self, error: Exception) -> None:
        """Adds a note with the user's line to an error."""
        trace = error.__traceback__
        while trace is not None:
            if trace.tb_frame.f_code.co_filename == self._file:
                origin = self.text.source.origins[trace.tb_lineno - 1]
                if origin is not None and origin.line and origin.primitive.name != "fused":
                    note = f"in {origin.primitive.name} of {self.name}, at {origin.line}"
                    error.add_note(with_cells_named(note))
            trace = trace.tb_next

    def __repr__(self) -> str:
        return f"<plan of {self.name} on a GPU, {len(self.text.runs)} regions>"


def gpu_plan(
    program: ProgramLike,
    bound: Callable[[Any], Callable[..., Sequence[Any]]],
    donated: Sequence[int] = (),
) -> Any:
    """Returns the plan of a program, compiled for the current GPU.

    Args:
        program: the program, its regions fused.
        bound: returns what computes an equation that is a call, such as a loop, on buffers.
        donated: the numbers of the inputs whose memory results may take.
    """
    if is_recordable(program):
        from .graph import GraphedPlan

        plan = GpuPlan(program, bound, donated, apart=True)
        plan.load()
        return GraphedPlan(plan)
    plan = GpuPlan(program, bound, donated)
    plan.load()
    return plan
