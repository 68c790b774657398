"""Programs whose neighbouring native equations are segments, and the runs of those."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ....blas_calls import SMALLEST_BLAS_THREADED_WORK
from ....native.array_objects import is_known
from ....native.blas import numpy_blas
from ....native.machine import machine_code
from ....native.printer import Module
from ...cross_entropy import check_labels
from ..codegen.operands import is_variable
from .segment_code import SegmentCode

if TYPE_CHECKING:
    from ..annotations import EquationLike, ProgramLike, VariableLike

__all__ = [
    *("NativeProgram", "Segment", "compile_segments", "segmented", "with_segments"),
    "write_segment",
]

# Shorter segments, in tenths of a nanosecond, keep the interpreter's lock.
LARGEST_LOCKED_EFFORT = 100_000


class Segment:
    """A call of neighbouring equations: what stands in a program in place of a primitive.

    Attributes:
        code: its equations.
        outputs: the variables that it returns.
    """

    name = "native"
    fused = False
    segment = True
    effect = False
    bodies: tuple[Any, ...] = ()
    impl = None
    compute = None
    family = ""

    def __init__(self, code: SegmentCode, outputs: Sequence[VariableLike]) -> None:
        self.code = code
        self.outputs = tuple(outputs)
        self.memory = 0
        self.enter: Callable[..., int]

    def __repr__(self) -> str:
        return f"<machine code of {len(self.code.equations)} equations>"

    def again(self, *arrays: Any) -> None:
        """Runs it once more, with its arrays in order.

        Args:
            arrays: as its function takes them: what it reads, its results, and its memory.
        """
        count = len(self.code.arrays)
        given = list(arrays)
        for i in range(count):
            given[i] = np.require(given[i], requirements=("C", "A"))
        # A result that takes the memory of an operand may have the operand's strides.
        results = range(count, count + len(self.outputs))
        for i in results:
            if not (given[i].flags.c_contiguous and given[i].flags.aligned):
                given[i] = np.empty(given[i].shape, given[i].dtype)
        if self.enter(*map(id, given)):
            raise RuntimeError(f"machine code refuses {[x.shape for x in given[:count]]}")
        for i in results:
            if given[i] is not arrays[i]:
                arrays[i][...] = given[i]


class NativeEquation:
    """The equation of a segment, or one of a program as it was."""

    def __init__(self, segment: Segment, line: str) -> None:
        self.primitive = segment
        self.operands = tuple(segment.code.arrays)
        self.params: dict[str, Any] = {}
        self.outputs = segment.outputs
        self.line = line


class NativeProgram:
    """A program with segments."""

    def __init__(self, program: ProgramLike, equations: Sequence[Any]) -> None:
        self.name = program.name
        self.inputs = program.inputs
        self.equations: Sequence[EquationLike] = tuple(equations)
        self.outputs = program.outputs


def with_segments(program: ProgramLike) -> NativeProgram:
    """Returns a program whose neighbouring native equations are segments.

    Equations that need nothing of a segment go before it.
    """
    done: list[Any] = []
    if not is_known():
        return NativeProgram(program, program.equations)
    blas = numpy_blas()
    open_code = SegmentCode(blas)
    for equation in program.equations:
        if open_code.add(equation):
            continue
        if open_code.made.isdisjoint(filter(is_variable, equation.operands)):
            done.append(equation)
            continue
        done.append(open_code)
        open_code = SegmentCode(blas)
        if not open_code.add(equation):
            done.append(equation)
    done.append(open_code)
    return NativeProgram(program, closed(program, done))


def closed(program: ProgramLike, done: Sequence[Any]) -> list[Any]:
    """Returns equations; segments return what is needed behind them."""
    needed = set(filter(is_variable, program.outputs))
    parts: list[list[Any]] = []
    for item in reversed(done):
        if not isinstance(item, SegmentCode):
            parts.append([item])
            needed.update(filter(is_variable, item.operands))
            continue
        if not item.works:
            parts.append(list(item.equations))
            needed.update(x for e in item.equations for x in e.operands if is_variable(x))
            continue
        wanted = [x for x in item.made if x in needed]
        views = wanted_views(item, wanted)
        made = [x for x in wanted if x not in item.views]
        outputs = list(dict.fromkeys([*made, *item.owners(wanted)]))
        order = {x: i for i, e in enumerate(item.equations) for x in e.outputs}
        outputs.sort(key=order.__getitem__)
        segment = Segment(item, outputs)
        parts.append([NativeEquation(segment, item.equations[0].line), *views])
        needed.update(filter(is_variable, item.arrays))
        needed.update(x for e in views for x in e.operands if is_variable(x))
    return [equation for part in reversed(parts) for equation in part]


def wanted_views(code: SegmentCode, wanted: Sequence[VariableLike]) -> list[EquationLike]:
    """Returns the equations of views that are needed behind a segment, in order."""
    found: set[VariableLike] = set()
    stack = [x for x in wanted if x in code.views]
    while stack:
        x = stack.pop()
        found.add(x)
        stack += [y for y in code.views[x].operands if y in code.views and y not in found]
    return [e for e in code.equations if e.outputs[0] in found]


def segmented(program: ProgramLike) -> tuple[ProgramLike, str]:
    """Returns a program with segments, and the text of their functions; "" without any.

    The memory that each segment needs is entered.
    """
    made = with_segments(program)
    segments = [e.primitive for e in made.equations if isinstance(e.primitive, Segment)]
    if not segments:
        return program, ""
    module = Module()
    texts = []
    for number, segment in enumerate(segments):
        text, segment.memory = segment.code.text(f"segment_{number}", module, segment.outputs)
        texts.append(text)
    return made, module.text(*texts)


def compile_segments(segments: Sequence[Segment], text: str) -> Any:
    """Compiles segments from their text, and returns what keeps their code alive."""
    names = [f"segment_{number}" for number in range(len(segments))]
    code = machine_code(text, names)
    for name, segment in zip(names, segments, strict=True):
        count = len(segment.code.arrays) + len(segment.outputs) + 1
        locked = segment.code.effort <= LARGEST_LOCKED_EFFORT
        prototype = ctypes.PYFUNCTYPE if locked else ctypes.CFUNCTYPE
        segment.enter = prototype(ctypes.c_int64, *[ctypes.c_void_p] * count)(code.address(name))
    return code


class SegmentMemory:
    """The type of a segment's memory: bytes."""

    weak: type | None = None
    ndim = 1
    dtype = np.dtype(np.uint8)

    def __init__(self, size: int) -> None:
        self.size = size
        self.shape: tuple[int, ...] = (size,)


def write_segment(writer: Any, equation: Any) -> str:
    """Writes the call of a segment, with room for its results."""
    segment, source = equation.primitive, writer.source
    given: list[str] = []
    for x in equation.operands:
        text = source.shown(x)
        if is_variable(x) and not x.type.shape:
            dtype = source.constant(x.type.dtype, "dtype")
            text = f"np.asarray({text}, {dtype})"
            name = f"_number_{len(source.lines)}_{len(given)}"
            source.add(f"{name} = {text}", equation)
            text = name
        given.append(text)
    numbers: list[tuple[str, str]] = []
    taken = writer.taken_memory(writer.number, segment.code.can_take, equation.operands)
    for out in segment.outputs:
        name = source.name(out)
        if out in taken:
            source.add(f"{name} = {taken[out]}", equation)
            given.append(name)
            continue
        into = writer.buffer_for(out)
        if into:
            writer.lies_in(out, into)
            given.append(into)
            continue
        made = name
        if not out.type.shape:
            made = f"_{name}_room"
            numbers.append((name, made))
        dtype = source.constant(out.type.dtype, "dtype")
        source.add(f"{made} = np.empty({tuple(out.type.shape)!r}, {dtype})", equation)
        given.append(made)
    memory = "None"
    if segment.memory:
        memory = writer.kept.buffer(writer.kept.slot(segment.memory), SegmentMemory(segment.memory))
    given.append(memory)
    address = source.bind(id, "address_of")
    enter = f"native_{len(writer.segments)}"
    writer.segments.append(segment)
    source.scope[enter] = None
    again = source.bind(segment.again, f"{enter}_again")
    addresses = ", ".join(f"{address}({name})" for name in given)
    # BLAS would use threads of its own, and wait for them.
    writer.shares |= segment.code.largest_product >= SMALLEST_BLAS_THREADED_WORK
    source.add(f"if {enter}({addresses}):", equation)
    for operand, classes, reader in segment.code.labels:
        check, labels = source.bind(check_labels), source.shown(operand)
        source.add(f"    {check}({labels}, {classes})", reader)
    source.add(f"    {again}({', '.join(given)})", equation)
    for name, made in numbers:
        source.add(f"{name} = {made}[()]", equation)
    return ""
