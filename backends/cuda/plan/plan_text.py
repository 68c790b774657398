"""Writes the Python of a plan: a line for each equation, and kernels for its regions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import cupy
import numpy as np
from cupy import ndarray

from ...cpu.plan.codegen.operands import constant, is_variable
from ...cpu.plan.codegen.source import Source
from ...cpu.plan.liveness import is_fresh
from ...cpu.plan.native.not_native import NotNative
from .region_run import GpuRegion

if TYPE_CHECKING:
    from ...cpu.plan.annotations import EquationLike, Operand, ProgramLike, VariableLike

__all__ = ["PlanText", "can_be_graph"]

# Operations that queue nothing.
QUEUING_NOTHING = frozenset(
    {"astype", "broadcast_to", "flip", "reshape", "stop_gradient", "transpose"}
)
# A graph is worth it for so many operations.
FEWEST_RECORDED = 4


class PlanText:
    """The text of a plan.

    Where numbers of the host are apart, there are two functions. ``numbers`` takes the inputs and
    returns the numbers that kernels need, and those among the outputs. ``queue`` takes the inputs
    that are on the GPU, those numbers as arrays there, and memory for results. Elsewhere ``queue``
    does all by itself.

    Attributes:
        source: the text.
        runs: the runs of regions.
        inputs: the numbers of the inputs that ``queue`` takes.
        numbers: the numbers that it takes as arrays.
        outputs: for each output whether ``queue`` returns it.
        taken: for outputs, by their numbers, the numbers of the donated inputs whose memory they
            take.

    Args:
        program: the program, its regions fused.
        bound: returns what computes an equation that is a call, such as a loop, on buffers.
        apart: whether numbers of the host are apart.
        donated: the numbers of the inputs whose memory results may take.
    """

    def __init__(
        self,
        program: ProgramLike,
        bound: Callable[[Any], Callable[..., Sequence[Any]]],
        apart: bool,
        donated: Sequence[int],
    ) -> None:
        self.program = program
        self.source = Source()
        self.runs: list[GpuRegion] = []
        self._bound = bound
        self._apart = apart
        self.numbers: list[VariableLike] = []
        self.outputs = [not (apart and is_host_number(x)) for x in program.outputs]
        everything = range(len(program.inputs))
        self.inputs = [i for i in everything if not (apart and is_host_number(program.inputs[i]))]
        self._find_lenders()
        self.taken = self._taken(donated)
        # Outputs that a region writes where they are to be.
        self._written: set[VariableLike] = set()
        if apart:
            self._numbers()
        self._queue()

    def _find_lenders(self) -> None:
        """Finds for every variable the inputs in whose memory it may lie, and their last uses."""
        lenders: dict[Any, frozenset[VariableLike]] = {
            x: frozenset([x]) for x in self.program.inputs
        }
        self._last: dict[VariableLike, int] = {}
        for number, equation in enumerate(self.program.equations):
            used = [lenders[x] for x in equation.operands if is_variable(x)]
            self._last |= dict.fromkeys(frozenset().union(*used), number)
            # A broadcast array is a view.
            fresh = equation.primitive.name != "broadcast_to" and is_fresh(equation)
            lent = frozenset() if fresh else frozenset().union(*used)
            lenders |= dict.fromkeys(equation.outputs, lent)
        self._lenders = lenders

    def _taken(self, donated: Sequence[int]) -> dict[int, int]:
        """Returns which donated inputs outputs take the memory of: the first of their type.

        Nothing takes the memory in which an output lies already.
        """
        inputs = self.program.inputs
        outputs = filter(is_variable, self.program.outputs)
        returned = frozenset().union(*[self._lenders[x] for x in outputs])
        left = [i for i in donated if inputs[i] not in returned and not is_host_number(inputs[i])]
        made = {x for equation in self.program.equations for x in equation.outputs}
        taken: dict[int, int] = {}
        seen: set[VariableLike] = set()
        for number, out in enumerate(self.program.outputs):
            if not is_variable(out) or out not in made or out in seen or is_host_number(out):
                continue
            seen.add(out)
            for i in left:
                if inputs[i].type == out.type:
                    taken[number] = i
                    left.remove(i)
                    break
        return taken

    # -- functions

    def _numbers(self) -> None:
        """Writes the function of the host's numbers."""
        source, program = self.source, self.program
        source.function("numbers", list(map(source.name, program.inputs)))
        for equation in program.equations:
            if is_of_host(equation):
                self._equation(0, equation)
        needed = [
            x
            for equation in program.equations
            if not is_of_host(equation)
            for x in equation.operands
            if is_variable(x) and is_host_number(x)
        ]
        self.numbers = list(dict.fromkeys(needed))
        shown = [source.shown(x) for x, there in zip(program.outputs, self.outputs) if not there]
        needed_names = [source.shown(x) for x in self.numbers]
        source.add(f"return [{', '.join(needed_names)}], [{', '.join(shown)}]")

    def _queue(self) -> None:
        """Writes the function that queues the work."""
        source, program = self.source, self.program
        given = [program.inputs[i] for i in self.inputs]
        memory = [f"into_{number}=None" for number in self.taken]
        source.function("queue", [*map(source.name, [*given, *self.numbers]), *memory])
        last = program.last_uses()  # type: ignore[attr-defined]
        kept = {*program.inputs, *self.numbers}
        for number, (equation, dead) in enumerate(zip(program.equations, last, strict=True)):
            if self._apart and is_of_host(equation):
                continue
            self._equation(number, equation)
            dropped = [
                source.names[x]
                for x in dead
                if x.type.shape and x not in kept and not is_host_number(x)
            ]
            if dropped:
                source.add(f"del {', '.join(dict.fromkeys(dropped))}")
        shown = []
        for number, (out, there) in enumerate(zip(program.outputs, self.outputs)):
            text = source.shown(out)
            if number in self.taken and out not in self._written:
                text = f"{source.bind(moved_into)}({text}, into_{number})"
            if there:
                shown.append(text)
        source.add(f"return [{', '.join(shown)}]")

    # -- equations

    def _equation(self, number: int, equation: EquationLike) -> None:
        source, primitive = self.source, equation.primitive
        if primitive.fused:
            run = self._region(equation)
            if run is None:
                self._one_by_one(number, equation)
                return
            given = [source.shown(brought(x)) for x in equation.operands]
            memory = self._memory(number, equation, run)
            if memory:
                given.append(f"into=({memory})")
            right = f"{source.constant(run, 'region')}({', '.join(given)})"
            left = f"[{', '.join(map(source.name, equation.outputs))}]"
        elif primitive.impl is None:
            given = list(map(source.shown, equation.operands))
            function = source.bind(self._bound(equation), primitive.name)
            right = f"{function}([{', '.join(given)}])"
            left = f"[{', '.join(map(source.name, equation.outputs))}]"
        else:
            given = list(map(source.shown, equation.operands))
            given += [f"{key}={source.static(value)}" for key, value in equation.params.items()]
            right = f"{source.bind(primitive.impl, primitive.name)}({', '.join(given)})"
            if equation.outputs[0].type.weak:
                right = f"({right}).item()"
            left = source.name(equation.outputs[0])
        source.add(f"{left} = {right}", equation)

    def _region(self, equation: EquationLike) -> GpuRegion | None:
        """Returns the run of a region; None where its equations run one by one."""
        if is_better_alone(equation.primitive.program):
            return None
        name = f"region_{len(self.runs)}"
        try:
            run = GpuRegion(name, equation.primitive, equation.operands, self._apart)
        except NotNative:
            return None
        self.runs.append(run)
        return run

    def _memory(self, number: int, equation: EquationLike, run: GpuRegion) -> str:
        """Returns the donated inputs that a region writes its outputs into, as text."""
        outputs, inputs = self.program.outputs, self.program.inputs
        places = {outputs[k]: k for k in self.taken if outputs[k] in equation.outputs}
        texts = []
        for out in equation.outputs:
            k = places.get(out)
            x = None if k is None else inputs[self.taken[k]]
            if x is not None and self._is_free(x, number, equation, run):
                self._written.add(out)
                texts.append(f"into_{k}")
            else:
                texts.append("None")
        return "" if set(texts) == {"None"} else f"{', '.join(texts)},"

    def _is_free(
        self, x: VariableLike, number: int, equation: EquationLike, run: GpuRegion
    ) -> bool:
        """Says whether a region may write into the memory of an input, which it may read."""
        if self._last.get(x, -1) > number:
            return False
        readers = [y for y in equation.operands if is_variable(y) and x in self._lenders[y]]
        return not readers or (set(readers) == {x} and run.writes_apart)

    def _one_by_one(self, number: int, equation: EquationLike) -> None:
        """Writes the equations of a region."""
        names, program = self.source.names, equation.primitive.program
        for inner, x in zip(program.inputs, equation.operands, strict=True):
            names[inner] = self.source.shown(x)
        for inner in program.equations:
            self._equation(number, inner)
        for out, inner in zip(equation.outputs, program.outputs, strict=True):
            names[out] = names[inner]


def is_host_number(x: Operand) -> bool:
    """Says whether a variable is a number of the host's."""
    return is_variable(x) and getattr(x, "device") == "cpu" and not x.type.shape  # noqa: B009


def is_of_host(equation: EquationLike) -> bool:
    """Says whether the host computes an equation, on its numbers alone."""
    return all(map(is_host_number, equation.outputs))


def can_be_graph(program: ProgramLike) -> bool:
    """Says whether a graph may do all of a program's work on the GPU.

    Calls decide on the host what they do. A number of the host's may be read by kernels that are
    made for the program alone.
    """
    count = 0
    for equation in program.equations:
        primitive, operands = equation.primitive, equation.operands
        numbers = [x for x in operands if is_variable(x) and is_host_number(x)]
        if is_of_host(equation):
            if primitive.impl is None or len(numbers) < sum(map(is_variable, operands)):
                return False
            continue
        if primitive.impl is None and not primitive.fused:
            return False
        if numbers and (not primitive.fused or is_better_alone(primitive.program)):
            return False
        count += primitive.name not in QUEUING_NOTHING
    return count >= FEWEST_RECORDED and not any(
        equation.primitive.effect for equation in program.equations
    )


def is_better_alone(program: ProgramLike) -> bool:
    """Says whether a region is one operation that has a kernel which was written by hand."""
    busy = [e for e in program.equations if e.primitive.name not in ("broadcast_to", "reshape")]
    return len(busy) == 1 and busy[0].primitive.family != "elementwise"


def brought(x: Operand) -> Any:
    """Returns an operand of a region; constant arrays are brought to the GPU once."""
    if is_variable(x) or not np.shape(constant(x)):
        return x
    return cupy.asarray(constant(x))


def moved_into(x: ndarray, into: ndarray | None) -> ndarray:
    """Returns a result, in given memory if there is any."""
    if into is None:
        return x
    cupy.copyto(into, x)
    return into
