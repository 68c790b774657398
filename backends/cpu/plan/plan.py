"""Plans: compiled functions that run a program on raw buffers, with memory for values between."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, NamedTuple

from ...generated_file import GeneratedFile
from ...restoring import silently
from ..parallel import line_bytes
from .codegen.legend import legend
from .writer import Straight

if TYPE_CHECKING:
    from ...native.code import Code
    from .annotations import Kernels, ProgramLike
    from .memory import KeptMemory
    from .native.segments import NativeProgram

__all__ = ["CpuPlan", "PlanParts", "cpu_plan", "plan_parts"]


class PlanParts(NamedTuple):
    """The parts that a plan is put together of.

    Attributes:
        name: the name of the program.
        text: the generated text, with the user's lines.
        code: the same as it is compiled, or the compiled function.
        origins: for every line its equation, or what is told of it, or None.
        kept: the memory that is kept from call to call.
        scope: the values of global names.
        calls: the loops, choices and other calls, by their global names.
        called: their equations.
        overwritten: the numbers of the inputs that are written into.
        may_warn: whether NumPy's warnings are to be kept back.
        shares: whether BLAS is kept to the threads that call it.
        regions: the runs of regions and convolutions.
        segments: the code and the runs of segments; None without any.
        kernels: the code and the runs of kernels outside of segments; None without any.
        tells: whether all is machine code of whose arithmetic the processor tells.
    """

    name: str
    text: str
    code: str | CodeType
    origins: Sequence[Any]
    kept: KeptMemory
    scope: dict[str, Any]
    calls: dict[str, Any]
    called: Sequence[Any]
    overwritten: Sequence[int]
    may_warn: bool
    shares: bool
    regions: Sequence[Any]
    segments: tuple[Code, Sequence[Any]] | None = None
    kernels: tuple[Code, Sequence[Any]] | None = None
    tells: bool = False


class CpuPlan:
    """Runs a program: ``plan(buffers)`` returns the buffers of its results.

    Several threads may run it at once. Each run takes an instance of the function with kept buffers
    of its own, and puts it back. Results lie in fresh memory or in donated inputs. A plan that
    reports where NaN or infinity is made does so to the function that its caller has given NumPy.

    Attributes:
        parts: what it is put together of.
        has_machine_code: whether machine code computes a part of it.
        called: the equations that it does by calls of their own, as loops of Python.
        tells: whether `told` knows where NaN and infinity may have been made.
        key: what it is kept by on the disk; empty where it is not kept.
    """

    def __init__(self, parts: PlanParts) -> None:
        self.name = parts.name
        self.key = ""
        self._text = parts.text
        self._kept = parts.kept
        self._scope = parts.scope
        self._calls = parts.calls
        self.called = parts.called
        self._overwritten = parts.overwritten
        self._run: Callable[..., Any] = silently if parts.may_warn else as_told
        self._alone: Callable[[], AbstractContextManager[None]] | None = None
        if parts.shares:
            from ...blas_threads import alone  # programs on one thread do not need it

            self._alone = alone
        self._file = GeneratedFile(self.name, self._text, parts.origins)
        if isinstance(parts.code, str):
            module = compile(parts.code, self._file.name, "exec")
            codes = {c.co_name: c for c in module.co_consts if isinstance(c, CodeType)}
        else:
            codes = {"plan": parts.code.replace(co_filename=self._file.name)}
        self._code = codes["plan"]
        self.parts = parts._replace(code=self._code)
        by_steps = any(getattr(call, "by_machine_code", False) for call in parts.calls.values())
        self.has_machine_code = bool(parts.segments or parts.kernels or by_steps)
        for run in parts.regions:
            if not run.native:
                run.function = FunctionType(codes[run.name], self._scope, run.name)
        self.tells = parts.tells and not parts.overwritten
        self._idle: list[Callable[..., list[Any]]] = []
        self._idle_told: list[tuple[Callable[..., list[Any]], Any]] = []

    @property
    def source(self) -> str:
        """The generated text, what its names stand for, and the texts of loops and branches."""
        texts = [self._text + legend(self._text, self._scope, self._kept)]
        for name, call in self._calls.items():
            texts += [f"# {part} of {name}\n{text}" for part, text in call.sources().items()]
        return "\n".join(texts)

    @property
    def calls_of_a_run(self) -> int:
        """The number of lines in its function, most of which are a call."""
        return self._text.count("\n")

    def __call__(self, buffers: Sequence[Any]) -> list[Any]:
        """Computes the results of arrays, NumPy's scalars, and Python's for weak inputs."""
        try:
            run = self._idle.pop()
        except IndexError:
            run = self._instance({})
        if self._overwritten:
            buffers = self._own(buffers)
        try:
            return self._ran(run, buffers)
        finally:
            self._idle.append(run)

    def _ran(self, run: Callable[..., list[Any]], buffers: Sequence[Any]) -> list[Any]:
        """Calls the function."""
        try:
            if self._alone is None:
                return self._run(run, buffers)  # type: ignore[no-any-return]
            with self._alone():
                return self._run(run, buffers)  # type: ignore[no-any-return]
        except Exception as error:
            self._file.explain(error, self.name)
            raise

    def told(self, buffers: Sequence[Any]) -> tuple[list[Any], list[str]] | None:
        """Does the same, and returns NumPy's words for what the processor has told, too.

        It is told of all that may have made NaN or infinity. None where that is not known.
        """
        from .native.told_calls import told_calls

        if not self.tells:
            return None
        try:
            run, calls = self._idle_told.pop()
        except IndexError:
            calls = told_calls(self.parts.segments, self._scope)
            if calls is None:
                return None
            run = self._instance(calls.functions)
        calls.begin()
        try:
            return self._ran(run, buffers), calls.words()
        finally:
            self._idle_told.append((run, calls))

    def forget(self) -> None:
        """Lets kept memory go, until the plan runs again."""
        self._idle.clear()
        self._idle_told.clear()

    def _instance(self, others: dict[str, Any]) -> Callable[..., list[Any]]:
        """Returns the function with buffers of its own, and with other values of some names."""
        memory = list(map(line_bytes, self._kept.slots))
        kept = {
            name: memory[slot].view(dtype).reshape(shape)
            for name, (slot, shape, dtype) in self._kept.buffers.items()
        }
        for name, (base, how, argument) in self._kept.views.items():
            kept[name] = how(kept[base], argument)
        return FunctionType(self._code, {**self._scope, **kept, **others}, "plan")

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
    written = Straight(program, frozenset(donated), kernels, None, watched, native)
    parts = plan_parts(written)
    return CpuPlan(with_machine_code(parts, written.machine) if native else parts)


def shown_functions(
    program: ProgramLike, donated: Sequence[int], kernels: Kernels, llvm: bool
) -> str:
    """Returns the text of the functions of a plan with machine code; see `shown_kernels`."""
    from .native.shown_kernels import shown_kernels  # only where machine code is made

    return shown_kernels(Straight(program, frozenset(donated), kernels, None, False, True), llvm)


def plan_parts(written: Straight) -> PlanParts:
    """Returns what a plan is put together of, but for machine code."""
    source, machine = written.source, written.machine
    called = {id(getattr(call, "primitive", call)) for call in source.calls.values()}
    # Machine code warns of nothing.
    is_calm = machine is not None and machine.is_machine_code
    return PlanParts(
        name=written.program.name,
        text=source.text(),
        code=source.code(),
        origins=source.origins,
        kept=written.kept,
        scope=source.scope,
        calls=source.calls,
        called=[e for e in written.program.equations if id(e.primitive) in called],
        overwritten=sorted(written.overwritten),
        may_warn=not is_calm and not written.watched,
        shares=written.shares,
        regions=written.regions,
        tells=machine is not None and machine.tells(written.shares),
    )


def with_machine_code(parts: PlanParts, machine: NativeProgram | None) -> PlanParts:
    """Returns the parts of a plan, whose segments and kernels are compiled now."""
    if machine is not None:
        code, functions = machine.compile()
        parts.scope.update(functions)
        parts = parts._replace(segments=(code, machine.segments))
    kernels = [run for run in parts.regions if run.native]
    if kernels:
        from .native.native_run import compile_runs

        parts = parts._replace(kernels=(compile_runs(kernels), kernels))
    if machine is not None or kernels:
        from ...native.machine import rest

        rest()
    return parts
