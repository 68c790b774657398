"""Writes the Python of a plan: a line for each equation, and kernels for its regions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import cupy
import numpy as np
from cupy import ndarray

from ...cpu.plan.codegen.operands import constant, is_variable
from ...cpu.plan.codegen.source import Source
from ...cpu.plan.native.not_native import NotNative
from ..cublas.contraction import matmul_of_padded
from ..cublas.padding import with_zeros_behind
from ..kernels.axis_sums import sum_of_padded
from ..kernels.convolution import biased_conv
from ..kernels.cross_entropy import AHEAD_FUNCTIONS, cross_entropy_with_grad
from ..kernels.pooling import max_pool_with_argmax
from .biased_convolutions import biased_convolutions
from .biased_losses import biased_losses
from .donated_memory import DonatedMemory
from .grads_ahead import grads_ahead, one_number
from .joint_parts import JointParts
from .joint_run import JointRun
from .leaf_groups import CallGroup, ManyLeaves
from .leaf_run import LeafRun
from .padded_rows import PaddedRows
from .plain_numbers import PLAIN_NAME, plain_lines
from .region_run import GpuRegion

if TYPE_CHECKING:
    from ...cpu.plan.annotations import EquationLike, Operand, ProgramLike, VariableLike

__all__ = ["PlanText", "is_better_alone", "is_host_number", "is_of_host"]

AnyRun: TypeAlias = GpuRegion | LeafRun | JointRun

# The name of what stands for inputs that are those of an earlier call.
KNOWN_NAME = "known"
# The primitive that averages arrays over processes while others are computed.
MEAN_BEGUN = "begin_mean"


class PlanText:
    """The text of a plan.

    Where numbers of the host are apart, there are two functions. ``numbers`` takes the inputs and
    returns the numbers that kernels need, and those and constants among the outputs. ``queue``
    takes the inputs that are on the GPU, those numbers as arrays there, and memory for results.
    Elsewhere ``queue`` does all by itself.

    Attributes:
        source: the text.
        runs: the runs of regions.
        inputs: the numbers of the inputs that ``queue`` takes.
        numbers: the numbers that it takes as arrays.
        outputs: for each output whether ``queue`` returns it.
        is_plain: whether there is a function of numbers by Python's own arithmetic, too.
        taken: for outputs, by their numbers, the numbers of the donated inputs whose memory they
            take.

    Args:
        program: the program, its regions fused.
        bound: returns what computes an equation that is a call, such as a loop, on buffers.
        apart: whether numbers of the host are apart.
        donated: the numbers of the inputs whose memory results may take.
        precision: the precision of small products, as ``config.matmul_precision`` has it.
    """

    def __init__(
        self,
        program: ProgramLike,
        bound: Callable[[Any], Callable[..., Sequence[Any]]],
        apart: bool,
        donated: Sequence[int],
        precision: str = "highest",
    ) -> None:
        self.program = program
        self.source = Source()
        self.runs: list[AnyRun] = []
        self._precision = precision
        self.is_plain = False
        self._bound = bound
        self._apart = apart
        self.numbers: list[VariableLike] = []
        self.outputs = [not (apart and is_of_host_alone(x)) for x in program.outputs]
        everything = range(len(program.inputs))
        self.inputs = [i for i in everything if not (apart and is_host_number(program.inputs[i]))]
        there = [i for i in donated if not is_host_number(program.inputs[i])]
        self._donated = DonatedMemory(program, there)
        self.taken = self._donated.taken
        # By losses the equations whose results are written along with them.
        self._ahead = grads_ahead(program)
        # Those among them whose cotangent is one number: one launch writes both.
        along = {x: e for x, e in self._ahead.items() if one_number(e.operands[2]) is not None}
        self._written_along = along
        slopes = [e.outputs[0] for e in along.values()]
        # The sums that losses compute themselves, and what kernels of convolutions do besides.
        self._biased = biased_losses(program, along)
        self._added = {x for made in self._biased.values() for x in made.made}
        self._convolutions = biased_convolutions(program)
        # The maxima that are found along with their places, and those places.
        self._winners = maxima_with_places(program)
        self._done = {made.region.outputs[0] for made in self._convolutions.values()}
        self._done |= {*self._winners.values()}
        self._rows = PaddedRows(program, slopes, precision)
        # The names of copies of matrices.
        self._copies: dict[VariableLike, str] = {}
        # Outputs that a region writes where they are to be.
        self._written: set[VariableLike] = set()
        if apart:
            self._numbers()
        self._queue()

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
        outputs = [x for x, there in zip(program.outputs, self.outputs) if not there]
        equations = [equation for equation in program.equations if is_of_host(equation)]
        lines = plain_lines(source, program.inputs, equations, self.numbers, outputs)
        self.is_plain = lines is not None
        if lines is not None:
            source.function(PLAIN_NAME, ["buffers"])
            for line in lines:
                source.add(line)

    def _queue(self) -> None:
        """Writes the function that queues the work."""
        source, program = self.source, self.program
        given = [program.inputs[i] for i in self.inputs]
        memory = [f"into_{number}=None" for number in self.taken]
        names = [*map(source.name, [*given, *self.numbers]), *memory, f"{KNOWN_NAME}=None"]
        source.function("queue", names)
        last = program.last_uses()  # type: ignore[attr-defined]
        kept = {*program.inputs, *self.numbers}
        later: list[Any] = []
        until = self._last_losses()
        for number, (equation, dead) in enumerate(zip(program.equations, last, strict=True)):
            if self._apart and is_of_host(equation):
                continue
            if equation.outputs[0] in self._added:
                later += dead
                continue
            self._equation(number, equation)
            gone = [x for x in (*later, *dead) if until.get(x, number) <= number]
            later = [x for x in (*later, *dead) if until.get(x, number) > number]
            dropped = [
                source.names[x]
                for x in gone
                if x.type.shape and x not in kept and not is_host_number(x) and x in source.names
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

    def _last_losses(self) -> dict[VariableLike, int]:
        """Returns for what losses read in place of a sum where the last of them is."""
        found: dict[VariableLike, int] = {}
        for place, equation in enumerate(self.program.equations):
            if equation.outputs[0] in self._written_along:
                made = self._biased.get(equation.operands[0])
                found |= dict.fromkeys(made[:2] if made else (), place)
        return found

    # -- equations

    def _equation(self, number: int, equation: EquationLike) -> None:
        source, primitive = self.source, equation.primitive
        if equation.outputs[0] in self._done:
            return
        if primitive.fused:
            run = self._region(equation)
            if run is None:
                self._one_by_one(number, equation)
                return
            given = [source.shown(brought(x)) for x in equation.operands]
            memory = self._memory(number, equation, run)
            if memory:
                given.append(f"into=({memory})")
                if self._is_of_inputs(equation, run, memory):
                    given.append(f"{KNOWN_NAME}={KNOWN_NAME}")
            right = f"{source.constant(run, 'region')}({', '.join(given)})"
            left = f"[{', '.join(map(source.name, equation.outputs))}]"
        elif primitive.impl is None:
            given = list(map(source.shown, equation.operands))
            function = source.bind(self._bound(equation), primitive.name)
            right = f"{function}([{', '.join(given)}])"
            left = f"[{', '.join(map(source.name, equation.outputs))}]"
        elif equation.outputs[0] in self._convolutions:
            region, bias, relu = self._convolutions[equation.outputs[0]]
            given = [*map(source.shown, [*equation.operands, bias])]
            given += [f"geometry={source.static(equation.params['geometry'])}", f"relu={relu}"]
            right = f"{source.bind(biased_conv, 'biased_conv')}({', '.join(given)})"
            left = source.name(region.outputs[0])
        elif equation.outputs[0] in self._winners:
            (out,) = equation.outputs
            static = f"windows={source.static(equation.params['windows'])}"
            function = source.bind(max_pool_with_argmax, "max_pool_with_argmax")
            right = f"{function}({source.shown(equation.operands[0])}, {static})"
            left = f"{source.name(out)}, {source.name(self._winners[out])}"
        elif equation in self._written_along.values():
            return
        elif equation.outputs[0] in self._written_along:
            (out,) = equation.outputs
            slope = self._written_along[out]
            x, labels = equation.operands
            biased = self._biased.get(x) if is_variable(x) else None
            given = [*map(source.shown, (biased.x if biased else x, labels))]
            if biased and biased.shape is not None:
                given[0] += f".reshape{(*biased.shape,)}"
            given.append(repr(one_number(slope.operands[2])))
            if biased:
                given.append(f"bias={source.shown(biased.bias)}")
            if slope.outputs[0] in self._rows.zeros:
                given.append("padded=True")
            function = source.bind(cross_entropy_with_grad, "cross_entropy_with_grad")
            right = f"{function}({', '.join(given)})"
            left = f"{source.name(out)}, {source.name(slope.outputs[0])}"
        elif equation.outputs[0] in self._ahead:
            (out,) = equation.outputs
            given = list(map(source.shown, equation.operands))
            function = source.bind(AHEAD_FUNCTIONS[primitive.name], f"{primitive.name}_ahead")
            right = f"{function}({', '.join(given)})"
            left = f"{source.name(out)}, exact_{source.name(out)}"
        elif self._is_padded_product(equation):
            right, left = self._padded_product(equation), source.name(equation.outputs[0])
        else:
            given = list(map(source.shown, equation.operands))
            ahead = next((x for x, e in self._ahead.items() if e is equation), None)
            if ahead is not None:
                given[1] = f"exact_{source.name(ahead)}"
            given += [f"{key}={source.static(value)}" for key, value in equation.params.items()]
            if primitive.name == MEAN_BEGUN and not self._donated.has(equation.operands[0]):
                # Plans write into donated inputs alone, and not while the mean is on its way.
                given.append("owned=False")
            if self._is_sum_of_padded(equation):
                right = f"{source.bind(sum_of_padded, 'sum_of_padded')}({', '.join(given)})"
            else:
                right = f"{source.bind(primitive.impl, primitive.name)}({', '.join(given)})"
            if equation.outputs[0].type.weak:
                right = f"({right}).item()"
            left = source.name(equation.outputs[0])
        source.add(f"{left} = {right}", equation)

    def _is_sum_of_padded(self, equation: EquationLike) -> bool:
        """Says whether an equation sums up rows with zeros between them."""
        if equation.primitive.name != "sum":
            return False
        (x,) = equation.operands
        last = x.type.ndim - 1 if is_variable(x) else 0
        return self._rows.strides(x) is not None and last not in equation.params["axis"]

    def _is_padded_product(self, equation: EquationLike) -> bool:
        """Says whether factors or the result of a product are padded."""
        rows, operands = self._rows, equation.operands
        if equation.primitive.name != "matmul":
            return False
        padded = any(x in rows.zeros or x in rows.copied for x in filter(is_variable, operands))
        return padded or equation.outputs[0] in rows.spread

    def _padded_product(self, equation: EquationLike) -> str:
        """Returns the text of a product; writes those of copies that it is the first to need."""
        source, rows = self.source, self._rows
        given, zeros = [], []
        for x in equation.operands:
            factor = rows.copied.get(x) if is_variable(x) else None
            zeros.append(factor is not None or (is_variable(x) and x in rows.zeros))
            if factor is None:
                given.append(source.shown(x))
                continue
            name = self._copies.get(factor.matrix)
            if name is None:
                own = source.shown(factor.matrix)
                name = self._copies[factor.matrix] = f"padded_{own}"
                function = source.bind(with_zeros_behind, "with_zeros_behind")
                source.add(f"{name} = {function}({own})", equation)
            given.append(f"{name}.T" if factor.turned else name)
        spread = ", spread=True" if equation.outputs[0] in rows.spread else ""
        function = source.bind(matmul_of_padded, "matmul_of_padded")
        return f"{function}({', '.join(given)}, zeros={(*zeros,)}{spread})"

    def _region(self, equation: EquationLike) -> AnyRun | None:
        """Returns the run of a region; None where its equations run one by one."""
        primitive = equation.primitive
        if is_better_alone(primitive):
            return None
        name = f"region_{len(self.runs)}"
        run: AnyRun
        try:
            if type(primitive) is ManyLeaves:
                run = LeafRun(name, primitive.members, self._apart)
            elif type(primitive) is JointParts:
                run = JointRun(name, primitive.members, self._precision, self._apart)
            else:
                lying = [self._rows.strides(x) for x in equation.operands]
                run = GpuRegion(name, primitive, equation.operands, self._apart, lying)
        except NotNative:
            return None
        self.runs.append(run)
        return run

    def _is_of_inputs(self, equation: EquationLike, run: AnyRun, memory: str) -> bool:
        """Says whether a run reads and writes the memory of inputs alone."""
        if type(run) is not LeafRun or "None" in memory:
            return False
        inputs = {*self.program.inputs}
        operands = [equation.operands[i] for i in run.read]
        return all(x in inputs for x in operands if is_variable(x))

    def _memory(self, number: int, equation: EquationLike, run: AnyRun) -> str:
        """Returns the donated inputs that a region writes its outputs into, as text."""
        outputs = self.program.outputs
        places = {outputs[k]: k for k in self.taken if outputs[k] in equation.outputs}
        texts = []
        for out in equation.outputs:
            k = places.get(out)
            if k is not None and self._is_written(self.taken[k], number, equation, run, out):
                self._written.add(out)
                texts.append(f"into_{k}")
            else:
                texts.append("None")
        return "" if set(texts) == {"None"} else f"{', '.join(texts)},"

    def _is_written(
        self,
        i: int,
        number: int,
        equation: EquationLike,
        run: AnyRun,
        out: VariableLike,
    ) -> bool:
        """Says whether a region may write an output into the memory of a donated input."""
        memory, own = self._donated, self.program.inputs[i]

        def apart(part: EquationLike) -> bool:
            return run.writes_apart(part, own)

        if memory.is_read_after(i, number):
            return False
        # Those of a group run at once, in any order.
        return not any(
            memory.is_read_by(i, part, own if out in part.outputs and apart(part) else None)
            for part in regions_of(equation)
        )

    def _one_by_one(self, number: int, equation: EquationLike) -> None:
        """Writes the equations of a region."""
        names, program = self.source.names, equation.primitive.program
        for inner, x in zip(program.inputs, equation.operands, strict=True):
            names[inner] = self.source.shown(x)
            self._rows.enter_alike(inner, x)
        for inner in program.equations:
            self._equation(number, inner)
        for out, inner in zip(equation.outputs, program.outputs, strict=True):
            names[out] = names[inner]


def regions_of(equation: EquationLike) -> Sequence[EquationLike]:
    """Returns the regions that an equation runs."""
    primitive = equation.primitive
    return primitive.members if isinstance(primitive, CallGroup) else [equation]


def maxima_with_places(program: ProgramLike) -> dict[VariableLike, VariableLike]:
    """Returns for the maxima of windows, by their variables, those of the places that have them."""
    maxima: dict[Any, VariableLike] = {}
    found: dict[VariableLike, VariableLike] = {}
    for equation in program.equations:
        name = equation.primitive.name
        if name not in ("max_pool", "max_pool_argmax") or not is_variable(equation.operands[0]):
            continue
        key = equation.operands[0], equation.params["windows"]
        if name == "max_pool":
            maxima.setdefault(key, equation.outputs[0])
        elif key in maxima:
            found.setdefault(maxima[key], equation.outputs[0])
    return found


def is_host_number(x: Operand) -> bool:
    """Says whether a variable is a number of the host's."""
    return is_variable(x) and getattr(x, "device") == "cpu" and not x.type.shape  # noqa: B009


def is_of_host_alone(x: Operand) -> bool:
    """Says whether an output is a number of the host's, or a constant that is there."""
    return is_host_number(x) if is_variable(x) else not isinstance(constant(x), ndarray)


def is_of_host(equation: EquationLike) -> bool:
    """Says whether the host computes an equation, on its numbers alone."""
    return all(map(is_host_number, equation.outputs))


def is_better_alone(primitive: Any) -> bool:
    """Says whether a region is one operation that has a kernel which was written by hand."""
    if type(primitive) is JointParts:
        return False
    names = "broadcast_to", "reshape"
    busy = [e for e in primitive.program.equations if e.primitive.name not in names]
    return len(busy) == 1 and busy[0].primitive.family != "elementwise"


def brought(x: Operand) -> Any:
    """Returns an operand of a region; constant arrays are brought to the GPU once.

    Of those that are one number everywhere, kernels read one element.
    """
    if is_variable(x) or not np.shape(constant(x)):
        return x
    value = constant(x)
    return cupy.asarray(value if any(value.strides) else value[(slice(1),) * value.ndim])


def moved_into(x: ndarray, into: ndarray | None) -> ndarray:
    """Returns a result, in given memory if there is any."""
    if into is None:
        return x
    cupy.copyto(into, x)
    return into
