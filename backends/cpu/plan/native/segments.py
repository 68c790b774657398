"""Programs whose neighbouring native equations are segments, and the runs of those."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from ....native.aligned_memory import ALIGNED_FROM, aligned_empty
from ....native.array_objects import is_known
from ....native.blas import numpy_blas
from ....native.instructions import GLUE
from ....native.machine import NotCompiled, machine_code
from ....native.printer import Module
from ..codegen.operands import is_variable
from ..equations import Writer
from ..labels import LabelRead, write_label_tests
from ..regions.axis_order import memory_orders
from .elementwise_nodes import operand_shape
from .layouts import LayOut, memory_strides
from .native_loops import code_with_loops
from .number_kernels import uses_in_program
from .region_kernels import RegionKernels
from .run_again import check_computed, run_with_operands
from .segment_code import MOST_SEGMENT_EQUATIONS, VIEW_NAMES, SegmentCode
from .segment_run import EquationRun, SegmentRun, entered
from .shared_segments import SharedSegment, single
from .telling import tells

if TYPE_CHECKING:
    from ....native.code import Code
    from ....native.entry import ObjectsCall
    from ..annotations import EquationLike, ProgramLike, VariableLike, VariableType
    from ..codegen.source import Source

__all__ = [
    *("NativeProgram", "Segment", "segmented", "with_segments", "write_segment"),
]

# Shorter segments, in tenths of a nanosecond, keep the interpreter's lock.
LARGEST_LOCKED_EFFORT = 100_000
# More memory, in bytes, is given back after each call.
LARGEST_KEPT_MEMORY = 1 << 20
# A longer function of a segment, in characters, is glue between many calls.
LONG_SEGMENT = 6_000
# LLVM takes a minute for a longer text, in characters.
LONGEST_CODE = 5_000_000


class Segment(SegmentRun):
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

    def __init__(self, code: SharedSegment, outputs: Sequence[VariableLike]) -> None:
        keeps_lock = code.effort <= LARGEST_LOCKED_EFFORT and not code.is_shared
        sizes = len(code.arrays), len(outputs)
        is_checked = bool(code.checked or code.computed_labels)
        steps = sum(memory_strides(x) is not None for x in code.arrays)
        super().__init__(*sizes, code.is_shared, keeps_lock, is_checked, steps)
        self.code = code
        self.outputs = tuple(outputs)
        self.memory = 0

    def __repr__(self) -> str:
        return f"<machine code of {len(self.code.equations)} equations>"

    def runs(self, checked: EquationLike) -> Callable[..., None]:
        """Returns what runs one of its equations by NumPy, of its arrays; its error is raised."""
        return EquationRun(checked.primitive.name, self._again(run_with_operands, checked))

    def tests(self, read: LabelRead) -> Callable[..., None]:
        """Returns what tests labels that it computes, of its arrays; an error is raised."""
        return EquationRun("the test of labels", self._again(check_computed, read))

    def _again(self, run: Callable[..., None], what: Any) -> Callable[[Sequence[Any]], None]:
        return partial(run, what, self.code.arrays, self.code.there)


class NativeEquation:
    """The equation of a segment."""

    def __init__(self, segment: Segment, line: str) -> None:
        self.primitive = segment
        self.operands = tuple(segment.code.arrays)
        self.params: dict[str, Any] = {}
        self.outputs = segment.outputs
        self.line = line


class NativeProgram:
    """A program with segments.

    Attributes:
        name, inputs, equations, outputs: as those of a program.
        segments: the segments, in order.
        text: the text of their functions.
    """

    def __init__(self, program: ProgramLike, equations: Sequence[Any]) -> None:
        self.name = program.name
        self.inputs = program.inputs
        self.equations: Sequence[EquationLike] = tuple(equations)
        self.outputs = program.outputs
        primitives = [equation.primitive for equation in self.equations]
        self.segments: list[Segment] = [p for p in primitives if isinstance(p, Segment)]
        self.text = ""

    @property
    def is_machine_code(self) -> bool:
        """Says whether all equations are segments, and all their operands arrays with axes."""
        return len(self.segments) == len(self.equations) and all(
            x.type.shape if is_variable(x) else np.ndim(x)
            for equation in self.equations
            for x in equation.operands
        )

    def tells(self, shares: bool) -> bool:
        """Says whether the processor tells of all NaN and infinity that it makes.

        ``shares`` says whether BLAS computes on the threads that call it.
        """
        return self.is_machine_code and all(tells(x.code, x.outputs, shares) for x in self.segments)

    def write(self) -> None:
        """Writes the text, and enters the memory that each segment needs."""
        module = Module()
        texts: dict[str, str] = {}
        for segment in self.segments:
            name = f"segment_{len(texts)}"
            text, segment.memory = segment.code.text(name, module, segment.outputs)
            # Layers of a kind, and steps that are written out, have equal functions.
            body = text.partition("(")[2]
            if len(body) > LONG_SEGMENT:
                body = body.replace(") {", f") {GLUE} {{", 1)
            segment.function = texts.setdefault(body, name)
        self.text = module.text(*[f"define i64 @{name}({body}" for body, name in texts.items()])

    def compile(self) -> tuple[Code, dict[str, ObjectsCall]]:
        """Compiles the text; returns the functions of segments, by the names that plans use."""
        code = machine_code(self.text, list(dict.fromkeys(s.function for s in self.segments)))
        return code, entered(code, self.segments)


def with_segments(program: ProgramLike) -> NativeProgram:
    """Returns a program whose neighbouring native equations are segments.

    Equations that need nothing of a segment go before it.
    """
    done: list[Any] = []
    if not is_known():
        return NativeProgram(program, program.equations)
    views: dict[VariableLike, EquationLike] = {}
    begun = partial(
        code_with_loops,
        numpy_blas(), views, memory_orders(program), RegionKernels(), uses_in_program(program),
    )  # fmt: skip
    open_code = begun()
    is_long = len(program.equations) > MOST_SEGMENT_EQUATIONS
    for equation in program.equations:
        ends = is_long and open_code.repeats_with(equation)
        if not ends and open_code.add(equation):
            continue
        if equation.primitive.name in VIEW_NAMES:
            views[equation.outputs[0]] = equation
        apart = open_code.made.isdisjoint(filter(is_variable, equation.operands))
        if apart and not ends and not open_code.is_full:
            done.append(equation)
            continue
        open_code.end()
        done.append(open_code)
        views.update(open_code.views)
        open_code = begun()
        if not open_code.add(equation):
            done.append(equation)
    open_code.end()
    done.append(open_code)
    return NativeProgram(program, closed(program, done))


def closed(program: ProgramLike, done: Sequence[Any]) -> list[Any]:
    """Returns equations; segments return what is needed behind them."""
    needed = set(filter(is_variable, program.outputs))
    parts: list[list[Any]] = []
    for item in reversed(done):
        if not isinstance(item, SharedSegment):
            parts.append([item])
            needed.update(filter(is_variable, item.operands))
            continue
        if not item.works:
            parts.append(list(map(single, item.equations)))
            needed.update(x for e in item.equations for x in e.operands if is_variable(x))
            continue
        item.drop_unread()
        wanted = [x for x in item.made if x in needed]
        views = wanted_views(item, wanted)
        made = [x for x in wanted if x not in item.views]
        outputs = list(dict.fromkeys([*made, *item.owners(wanted)]))
        # The same in each process, for their text is the name of their code on the disk.
        made_in_order = [x for e in item.equations for x in e.outputs]
        outputs.sort(key=made_in_order.index)
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


def segmented(program: ProgramLike) -> NativeProgram | None:
    """Returns a program with segments, their text written; None without any.

    Raises:
        NotCompiled: the text would take too long to compile.
    """
    made = with_segments(program)
    if not made.segments:
        return None
    made.write()
    if len(made.text) > LONGEST_CODE:
        raise NotCompiled(f"a text of {len(made.text):,} characters would take long to compile")
    return made


class SegmentMemory:
    """The type of a segment's memory: bytes."""

    weak: type | None = None
    ndim = 1
    dtype = np.dtype(np.uint8)

    def __init__(self, size: int) -> None:
        self.size = size
        self.shape: tuple[int, ...] = (size,)


def room_for(source: Source, kind: VariableType) -> str:
    """Returns the call that makes an array of a type, aligned to lines where it is large."""
    large = kind.size * kind.dtype.itemsize >= ALIGNED_FROM
    make = source.bind(aligned_empty) if large else "np.empty"
    return f"{make}({tuple(kind.shape)!r}, {source.constant(kind.dtype, 'dtype')})"


class SegmentWriter(Writer, Protocol):
    """The part of `Straight` that the call of a segment needs; ``writer.py`` documents it."""

    machine: NativeProgram | None
    number: int

    def called(self, equation: EquationLike) -> str: ...

    def taken_memory(
        self, number: int, can_take: Callable[[Any, VariableLike], bool], used: Sequence[Any]
    ) -> dict[VariableLike, str]: ...


def write_segment(writer: SegmentWriter, equation: EquationLike) -> str:
    """Writes the call of a segment of the writer's program, with room for its results."""
    segment: Segment = equation.primitive
    source = writer.source
    assert writer.machine is not None
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
        source.add(f"{made} = {room_for(source, out.type)}", equation)
        given.append(made)
    own = segment.memory > LARGEST_KEPT_MEMORY
    memory = "None"
    if own:
        memory = f"_memory_{len(source.lines)}"
        source.add(f"{memory} = {room_for(source, SegmentMemory(segment.memory))}", equation)
    elif segment.memory:
        slot = writer.kept.slot(segment.memory)
        memory = writer.kept.buffer(slot, SegmentMemory(segment.memory))
    given.append(memory)
    enter = f"segment_{writer.machine.segments.index(segment)}"
    source.scope[enter] = None
    again = source.bind(segment.again, f"{enter}_again")
    arrays = ", ".join(given)
    # BLAS would use threads of its own, and wait for them.
    writer.shares |= segment.code.products_may_thread(careful=segment.is_shared)
    source.add(f"if {enter}({arrays}):", equation)

    def labels(lying: LayOut) -> str:
        """Returns the text of the labels that are read, which may be a part of an array."""
        whole, size = source.shown(lying.owner), prod(lying.shape)
        if size == prod(operand_shape(lying.owner)):
            return whole
        return f"{source.numpy('ravel')}({whole})[{lying.offset}:{lying.offset + size}]"

    write_label_tests(source, segment.code.labels, labels, "    ")
    if not segment.is_checked:
        source.add(f"    {again}({arrays})", equation)
    else:
        source.add(f"    if {again}({arrays}):", equation)
        for number, read in enumerate(segment.code.computed_labels):
            test = source.bind(segment.tests(read), f"{enter}_labels_{number}")
            source.add(f"        {test}({arrays})", read.equation)
        for number, checked in enumerate(segment.code.checked):
            if any(is_variable(x) and x in segment.code.made for x in checked.operands):
                text = f"{source.bind(segment.runs(checked), f'{enter}_check_{number}')}({arrays})"
            else:
                text = writer.called(checked)
            source.add(f"        {text}", checked)
        source.add("        raise IndexError('an index is out of bounds')")
    if own:
        source.add(f"del {memory}", equation)
    for name, made in numbers:
        source.add(f"{name} = {made}[()]", equation)
    return ""
