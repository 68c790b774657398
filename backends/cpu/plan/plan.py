"""Plans: compiled functions that run a program on raw buffers, with memory for values between."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

import numpy as np

from ...generated_file import GeneratedFile
from ...restoring import silently
from .codegen.legend import legend
from .writer import Straight

if TYPE_CHECKING:
    from .annotations import Kernels, ProgramLike

__all__ = ["CpuPlan", "cpu_plan"]


class CpuPlan:
    """Runs a program: ``plan(buffers)`` returns the buffers of its results.

    Several threads may run it at once. Each run takes an instance of the function with kept buffers
    of its own, and puts it back. Results lie in fresh memory or in donated inputs. A plan that
    reports where NaN or infinity is made does so to the function that its caller has given NumPy.

    Attributes:
        has_machine_code: whether machine code computes a part of it.
        called: the equations that it does by calls of their own, as loops of Python.
    """

    def __init__(self, written: Straight) -> None:
        self.name = written.program.name
        self._text = written.source.text()
        self._kept = written.kept
        self._scope = written.source.scope
        self._calls = written.source.calls
        called = {*map(id, self._calls.values())}
        self.called = [e for e in written.program.equations if id(e.primitive) in called]
        self._overwritten = sorted(written.overwritten)
        machine = written.machine
        # Machine code warns of nothing.
        may_warn = machine is None or not machine.is_machine_code
        self._run: Callable[..., Any] = silently if may_warn and not written.watched else as_told
        self._alone: Callable[[], AbstractContextManager[None]] | None = None
        if written.shares:
            from ...blas_threads import alone  # programs on one thread do not need it

            self._alone = alone
        self._file = GeneratedFile(self.name, self._text, written.source.origins)
        module = compile(written.source.code(), self._file.name, "exec")
        codes = {c.co_name: c for c in module.co_consts if isinstance(c, CodeType)}
        self._code = codes.pop("plan")
        if machine is not None:
            self._scope.update(machine.compile())
        kernels: list[Any] = [run for run in written.regions if run.native]
        if kernels:
            from .native.native_run import compile_runs

            compile_runs(kernels)
        self.has_machine_code = machine is not None or bool(kernels)
        if self.has_machine_code:
            from ...native.machine import rest

            rest()
        for run in written.regions:
            if not run.native:
                run.function = FunctionType(codes[run.name], self._scope, run.name)
        self._idle: list[Callable[..., list[Any]]] = []

    @property
    def source(self) -> str:
        """The generated text, what its names stand for, and the texts of loops and branches."""
        texts = [self._text + legend(self._text, self._scope, self._kept)]
        for name, call in self._calls.items():
            texts += [f"# {part} of {name}\n{text}" for part, text in call.sources().items()]
        return "\n".join(texts)

    def __call__(self, buffers: Sequence[Any]) -> list[Any]:
        """Computes the results of arrays, NumPy's scalars, and Python's for weak inputs."""
        try:
            run = self._idle.pop()
        except IndexError:
            run = self._instance()
        if self._overwritten:
            buffers = self._own(buffers)
        try:
            if self._alone is None:
                return self._run(run, buffers)  # type: ignore[no-any-return]
            with self._alone():
                return self._run(run, buffers)  # type: ignore[no-any-return]
        except Exception as error:
            self._file.explain(error, self.name)
            raise
        finally:
            self._idle.append(run)

    def forget(self) -> None:
        """Lets kept memory go, until the plan runs again."""
        self._idle.clear()

    def _instance(self) -> Callable[..., list[Any]]:
        """Returns the function with buffers of its own."""
        memory = [np.empty(size, np.uint8) for size in self._kept.slots]
        kept = {
            name: memory[slot].view(dtype).reshape(shape)
            for name, (slot, shape, dtype) in self._kept.buffers.items()
        }
        for name, (base, how, argument) in self._kept.views.items():
            kept[name] = how(kept[base], argument)
        return FunctionType(self._code, {**self._scope, **kept}, "plan")

    def _own(self, buffers: Sequence[Any]) -> list[Any]:
        """Returns the inputs, with copies of those that are overwritten and shared with others."""
        mine = list(buffers)
        seen = list(map(id, buffers))
        counts = Counter(seen) if len(set(seen)) < len(seen) else {}
        for i in self._overwritten:
            x = mine[i]
            if x.base is not None or not x.flags.writeable or counts.get(id(x), 1) > 1:
                mine[i] = x.copy("K")
        return mine

    def __repr__(self) -> str:
        return f"<plan of {self.name}, {len(self._code.co_code)} bytes of code>"


def as_told(run: Callable[..., Any], buffers: Sequence[Any]) -> Any:
    """Calls a function; NumPy treats overflow and invalid values as it has been told to."""
    return run(*buffers)


def cpu_plan(
    program: ProgramLike,
    donated: Sequence[int],
    kernels: Kernels,
    watched: bool = False,
    native: bool = False,
) -> CpuPlan:
    """Returns the plan of a program.

    Args:
        program: the program.
        donated: the numbers of inputs whose memory results may take.
        kernels: the backend's own functions.
        watched: whether it reports where NaN or infinity is made.
        native: whether regions become machine code.
    """
    return CpuPlan(Straight(program, frozenset(donated), kernels, None, watched, native))
