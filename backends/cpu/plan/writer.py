"""The writer of a plan: a line of Python for every equation, into buffers that are reused.

``plan.py`` compiles what it writes. Loops and branches extend it in ``loops/``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from operator import getitem
from typing import TYPE_CHECKING, Any

from ...config import config
from .codegen.called import as_operand, copied_if_shared, ufunc_of
from .codegen.operands import OPERATOR_SIGNS, bytes_of, is_native_array, is_variable
from .codegen.source import Source
from .equations import EQUATION_WRITERS, product_beside
from .labels import write_label_tests
from .liveness import Liveness, Storage, rows_of_joined
from .memory import Donation, KeptMemory, KeptSlot
from .watched import is_tested, quietly, quietly_called, write_report

if TYPE_CHECKING:
    from ...annotations import Buffer
    from .annotations import EquationLike, Kernels, ProgramLike, VariableLike
    from .native.segments import NativeProgram
    from .regions.region_run import RegionRun

__all__ = ["Straight"]

# Smaller arrays, in bytes, lie in buffers that are kept from call to call. Larger ones get new
# memory, which costs little beside filling it.
LARGEST_KEPT_BYTES = 32768
# Smaller arrays, in bytes, are not worth a ``del`` statement.
SMALLEST_DROPPED_BYTES = 4096
# NumPy's scalars of these dtypes are computed by Python's operators, many times as fast as ufuncs.
OPERATOR_DTYPES = "fd"
VIEW_PRIMITIVES = frozenset({"astype", "flip", "index", "reshape", "stop_gradient", "transpose"})


class Straight:
    """Writes the lines of a program; those of a part of a function have an outer writer.

    Attributes:
        source: the text so far.
        kept: the memory that is kept from call to call.
        rows: for every result that is made in rows of a joined array, the array and the rows.
        joined: those arrays.
        regions: the runs of regions and convolutions. Their functions are compiled later.
        overwritten: the numbers of the inputs that are written into.
        shares: whether BLAS is to be kept to the threads that call it.
        parts: results that lie within another result, for sure.
        spread: variables whose arrays may have strides of zero.
        watched: whether it reports where NaN or infinity is made.
        native: whether regions become machine code.
        machine: the program with segments of machine code, where there are any.
        number: the number of the equation that is being written, or of the first one of a group.
        ufuncs: for every equation the ufunc that computes it and the dtypes of its loop, or None.
    """

    def __init__(
        self,
        program: ProgramLike,
        donated: Collection[int],
        kernels: Kernels,
        outer: Straight | None = None,
        watched: bool = False,
        native: bool = False,
    ) -> None:
        self.watched = watched
        self.native = native
        self.machine: NativeProgram | None = None
        if native:
            from .native.segments import segmented

            self.machine = segmented(program)
        program = self.machine or program
        self.program: ProgramLike = program
        self.kernels = kernels
        self.source: Source = Source() if outer is None else outer.source.within()
        self.kept: KeptMemory = KeptMemory() if outer is None else outer.kept
        self.ufuncs = [ufunc_of(equation, kernels) for equation in program.equations]
        self.rows = rows_of_joined(program, self.ufuncs, LARGEST_KEPT_BYTES)
        self.live = self._liveness(donated)
        self.joined = {x for x, _ in self.rows.values()}
        # The names of the kept memory that variables lie in.
        self._homes: dict[VariableLike, str] = {}
        self.overwritten: set[int] = set()
        self.donation = Donation(program, donated, self.live, self.overwritten)
        self.shares = False
        self.parts: set[VariableLike] = set()
        self.spread: set[VariableLike] = set()
        self._inputs = {variable: number for number, variable in enumerate(program.inputs)}
        # Slots that are free around a part are free in it, and free again behind it.
        free = {} if outer is None else outer._free
        self._free: dict[int, list[KeptSlot]] = {size: [*slots] for size, slots in free.items()}
        # The slots of storages, and the storages that end at each equation.
        self._slot: dict[Storage, KeptSlot] = {}
        self._due: dict[int, list[Storage]] = {}
        self.regions: list[Any] = []
        self._runs: dict[int, RegionRun] = {}
        regions = [i for i, equation in enumerate(program.equations) if equation.primitive.fused]
        if regions:
            self._blocks(regions)
        self._begin()
        self.number = number = 0
        while number < len(program.equations):
            self.number = number
            group = self._beside(number) if regions else []
            if group:
                self._together(number, group)
            else:
                self._equation(number, program.equations[number])
            number += max(len(group), 1)
        self.number = number
        self._results()

    def _begin(self) -> None:
        """Writes the function's first line."""
        self.source.function("plan", list(map(self.source.name, self.program.inputs)))

    def _liveness(self, donated: Collection[int]) -> Liveness:
        """Returns storages and last uses; no result is made in an array that is returned."""
        while True:
            live = Liveness(self.program, donated, self.rows)
            joined = {x for x, _ in self.rows.values()}
            returned = {x for x in joined if any(s.escapes for s in live.storages[x])}
            if not returned:
                return live
            self.rows = {x: row for x, row in self.rows.items() if row[0] not in returned}

    def _blocks(self, numbers: Sequence[int]) -> None:
        """Writes the loops of regions, and enters their runs."""
        # Small programs have no regions and do not wait for these imports.
        from .regions.axis_order import memory_orders, region_order
        from .regions.block_source import BlockCode
        from .regions.block_steps import Blockwise
        from .regions.proofs import prove_region
        from .regions.region_run import RegionRun, WatchedRun

        orders = memory_orders(self.program)
        for i, number in enumerate(numbers):
            equation = self.program.equations[number]
            source = self.source.inner()
            name = f"blocks_{i}"
            region, given = equation.primitive, equation.operands
            order = region_order(region, given, orders)
            run: RegionRun | None = None
            if self.native:
                from .native.native_run import has_gathers, native_region

                run = native_region(name, region, given, order)
            if run is not None:
                self._enter(number, run)
                continue
            if self.native and has_gathers(region):
                continue  # blocks of NumPy's functions gather nothing: it runs by itself
            made = Blockwise(region, given, self.kernels, source, order)
            code = BlockCode(name, made, self.watched)
            if config.check_programs:
                prove_region(code, region, order)
            self.source.take(source)
            self._enter(number, (WatchedRun if self.watched else RegionRun)(name, code))

    def _enter(self, number: int, run: RegionRun) -> None:
        """Enters the run of a region's equation."""
        self._runs[number] = run
        self.regions.append(run)
        self.shares |= run.most > 1

    # -- groups of equations, shared among threads at once

    def _beside(self, number: int) -> list[Any]:
        """Returns the runs of independent regions and products from an equation on, if worth it."""
        made: set[VariableLike] = set()
        group: list[Any] = []
        for i, equation in enumerate(self.program.equations[number:], number):
            run = self._runs.get(i) or product_beside(self, equation)
            if run is None or any(is_variable(x) and x in made for x in equation.operands):
                break
            group.append(run)
            made.update(equation.outputs)
        if len(group) < 2:
            return []
        from .regions.cost import SMALLEST_SHARED_EFFORT

        regions = [self._runs[i] for i in range(number, number + len(group)) if i in self._runs]
        # A product is in a group only if it is worth sharing by itself.
        has_product = len(regions) < len(group)
        work = sum(run.effort for run in regions)
        return group if has_product or work >= SMALLEST_SHARED_EFFORT else []

    def _together(self, number: int, group: list[Any]) -> None:
        """Writes one line for a group of independent equations."""
        from .threads.pool import run_side_by_side
        from .threads.sharing import MeasuredSharing

        equations = self.program.equations[number : number + len(group)]
        left, calls = [], []
        for i, (equation, run) in enumerate(zip(equations, group, strict=True)):
            operands = [self.source.shown(x) for x in equation.operands]
            if number + i in self._runs:
                write_label_tests(self.source, self._runs[number + i].labels, operands.__getitem__)
                into = self._taken(number + i, [x for e in equations for x in e.operands])
                left.append(f"[{', '.join(map(self.source.name, equation.outputs))}]")
            else:
                into = self.buffer_for(equation.outputs[0])
                left.append(self.source.name(equation.outputs[0]))
            name = self.source.constant(run, "region" if number + i in self._runs else "product")
            calls.append(f"({name}, ({', '.join(operands)},), {into or 'None'})")
        self.shares = True
        sharing = self.source.constant(MeasuredSharing(), "sharing")
        right = f"{self.source.bind(run_side_by_side)}({', '.join([sharing, *calls])})"
        # An error in a block has the block's own line.
        fused = [e for i, e in enumerate(equations, number) if i in self._runs]
        self.source.add(f"{', '.join(left)} = {right}", (fused or equations)[0])
        if self.watched:
            for i, equation in enumerate(equations, number):
                write_report(self, i, equation)
        for i in range(number, number + len(group)):
            self._let_go(i)

    # -- an equation

    def _equation(self, number: int, equation: EquationLike) -> None:
        primitive, outputs, name = equation.primitive, equation.outputs, equation.primitive.name
        write = EQUATION_WRITERS.get(name)
        right = write(self, equation) if write is not None else None
        if name == "native":
            from .native.segments import write_segment

            right = write_segment(self, equation)
        if number in self._runs:
            right = self._fused(number)
        if right is None:
            right = self._ufunc(number, equation) or self.called(equation, self.native)
        if not right:
            self._let_go(number)
            return
        left = ", ".join([self.source.name(out) for out in outputs])
        # Loops, choices and regions return a list, even of one output.
        if primitive.impl is None:
            left = f"[{left}]"
        if outputs[0].type.weak and primitive.impl is not None:
            right = f"({right}).item()"
        if self.watched and is_tested(self.ufuncs[number], equation):
            right = quietly_called(right, self.source.bind(quietly))
        self.source.add(f"{left} = {right}", equation)
        if self.watched:
            write_report(self, number, equation)
        if name == "broadcast_to" or (
            name in VIEW_PRIMITIVES
            and not self.spread.isdisjoint(filter(is_variable, equation.operands))
        ):
            self.spread.add(outputs[0])
        self._let_go(number)

    def called(self, equation: EquationLike, by_steps: bool = False) -> str:
        """Returns the call of what computes an equation; a loop may run machine code by steps."""
        given = list(map(self.source.shown, equation.operands))
        name = self.source.function_name(equation, self.watched, by_steps)
        if equation.primitive.impl is None:
            return f"{name}([{', '.join(given)}])"
        given += [f"{key}={self.source.static(value)}" for key, value in equation.params.items()]
        return f"{name}({', '.join(given)})"

    def _fused(self, number: int) -> str:
        """Returns the call of a region, into the memory of operands after their last use."""
        operands = self.program.equations[number].operands
        given = [self.source.shown(x) for x in operands]
        write_label_tests(self.source, self._runs[number].labels, given.__getitem__)
        into = self._taken(number, operands)
        if into:
            given.append(f"into={into}")
        return f"{self.source.constant(self._runs[number], 'region')}({', '.join(given)})"

    def _taken(self, number: int, used: Sequence[Any]) -> str:
        """Returns the operands whose memory a region's outputs take, as a tuple in text.

        Args:
            number: the number of the region's equation.
            used: its operands, and those of other equations that run at the same time.
        """
        equation, run = self.program.equations[number], self._runs[number]
        operands, outputs = ([*map(id, xs)] for xs in (equation.operands, equation.outputs))

        def can_take(x: Any, out: VariableLike) -> bool:
            return run.can_take(operands.index(id(x)), outputs.index(id(out)))

        taken = self.taken_memory(number, can_take, used)
        for out, output in zip(equation.outputs, run.outputs):
            if out not in taken and not output.reduction:
                into = self._given(out)
                if into:
                    taken[out] = into
        if not taken:
            return ""
        return f"({''.join(f'{taken.get(out)}, ' for out in equation.outputs)})"

    def taken_memory(
        self, number: int, can_take: Callable[[Any, VariableLike], bool], used: Sequence[Any]
    ) -> dict[VariableLike, str]:
        """Returns for results of an equation the operands whose memory they take.

        Args:
            number: the number of the equation.
            can_take: says whether a result may be written where an operand lies.
            used: its operands, and those of other equations that run at the same time.
        """
        equation = self.program.equations[number]
        taken: dict[VariableLike, str] = {}
        variables = [x for x in equation.operands if is_variable(x) and x.type.shape]
        uses = Counter(s for x in used for s in self.live.of(x))
        # Donated inputs come first: a parameter becomes the new parameter, not a gradient.
        for x in sorted(variables, key=lambda x: x not in self.donation.numbers):
            if any(uses[s] > 1 for s in self.live.storages[x]):
                continue
            for out in equation.outputs:
                (own,) = self.live.storages[out]
                if out in taken or not self._can_take(number, x, out, own):
                    continue
                if can_take(x, out):
                    taken[out] = self.source.shown(x)
                    self._take(x, own)
                    break
        return taken

    def _take(self, x: VariableLike, own: Storage) -> None:
        """Enters that a result takes the memory of an operand."""
        (old,) = self.live.storages[x]
        if old in self._slot:
            self._lay(own, self._slot.pop(old))
        if x in self._inputs:
            self.overwritten.add(self._inputs[x])

    def _ufunc(self, number: int, equation: EquationLike) -> str | None:
        found = self.ufuncs[number]
        if found is None:
            return None
        (ufunc, loop), (out,) = found, equation.outputs
        if not out.type.shape:
            return self._operator(equation)
        names, shown = self.source.names, self.source.shown
        operands = [
            names[x] if is_variable(x) else shown(as_operand(x, dtype))
            for x, dtype in zip(equation.operands, loop)
        ]
        operands += filter(None, [self._into(number, equation, out)])
        return f"{self.source.numpy(ufunc.__name__)}({', '.join(operands)})"

    def _operator(self, equation: EquationLike) -> str | None:
        """Returns Python's arithmetic of NumPy's scalars. It gives the same bits as ufuncs."""
        sign = OPERATOR_SIGNS.get(equation.primitive.name)
        strong = [x for x in equation.operands if is_variable(x) and not x.type.weak]
        if (
            sign is None
            or not strong
            or any(x.type.dtype.char not in OPERATOR_DTYPES for x in strong)
        ):
            return None
        x, y = map(self.source.shown, equation.operands)
        return f"{x} {sign} {y}"

    # -- memory

    def _into(self, number: int, equation: EquationLike, out: VariableLike) -> str:
        """Returns the name of the buffer that a result goes into; empty if NumPy makes one."""
        if not is_native_array(out.type) or 0 in out.type.shape:
            return ""
        if (row := self.rows.get(out)) is not None:
            return self.row_buffer(*row)
        own, *others = self.live.storages[out]
        if others:
            # The primitive is in no table of fresh results: it may return an operand's memory.
            return ""
        into = self._given(out)
        if into:
            return into
        for x in equation.operands:
            if is_variable(x) and self._can_take(number, x, out, own):
                self._take(x, own)
                if x in self._homes:
                    self._homes[out] = self._homes[x]
                return self.source.name(x)
        return self.buffer_for(out)

    def _given(self, out: VariableLike) -> str:
        """Returns the name of the donated input that a returned result goes into, or nothing."""
        if not any(s.escapes for s in self.live.storages[out]):
            return ""
        x = self.donation.take_memory(out, self.number)
        return "" if x is None else str(self.source.names[x])

    def row_buffer(self, joined: VariableLike, part: Any) -> str:
        """Returns the name of the part of a joined array's buffer where an operand lies."""
        return self.kept.view(self.buffer_for(joined), getitem, part)

    def is_view(
        self, equation: EquationLike, how: Callable[[Buffer, Any], Buffer], argument: Any
    ) -> bool:
        """Says whether a result is a part of a kept buffer, so that no line is needed for it."""
        home = self._homes.get(equation.operands[0])
        name = "" if home is None else self.kept.view(home, how, argument)
        if name:
            self.lies_in(equation.outputs[0], name)
        return bool(name)

    def lies_in(self, variable: VariableLike, name: str) -> None:
        """Enters the name of kept memory, or of an input, as that of a variable."""
        self.source.names[variable] = name
        if name in self.kept:
            self._homes[variable] = name

    def buffer_for(self, out: VariableLike) -> str:
        """Returns the name of a kept or donated buffer for a result; empty if there is none."""
        (own,) = self.live.storages[out]
        if own.escapes:
            return self._given(out)
        size = bytes_of(out.type)
        if not 0 < size <= LARGEST_KEPT_BYTES:
            return ""
        if own in self._slot:
            return self.kept.buffer(self._slot[own], out.type)
        free = self._free.get(size)
        slot = free.pop() if free else self.kept.slot(size)
        self._lay(own, slot)
        name = self._homes[out] = self.kept.buffer(slot, out.type)
        return name

    def _lay(self, storage: Storage, slot: KeptSlot) -> None:
        """Enters a slot as the memory of a storage, until the storage's last use."""
        self._slot[storage] = slot
        self._due.setdefault(storage.last, []).append(storage)

    def _can_take(self, number: int, x: VariableLike, out: VariableLike, own: Storage) -> bool:
        """Says whether an equation is the last use of memory that fits its result."""
        old, *others = self.live.storages[x]
        if others or old.last != number or old.owner is not x or old.read_only:
            return False
        same = x.type.shape == out.type.shape and x.type.dtype == out.type.dtype
        return same and not (own.escapes and old in self._slot)

    def _let_go(self, number: int) -> None:
        dead = self.live.dead.get(number, ())
        dropped = ", ".join([self.source.names[x] for x in dead if self._drops(x)])
        if dropped:
            self.source.add(f"del {dropped}")
        for storage in self._due.pop(number, ()):
            slot = self._slot.pop(storage, None)
            if slot is not None:
                self._free.setdefault(slot.size, []).append(slot)

    def _drops(self, variable: VariableLike) -> bool:
        """Says whether ``del`` frees the memory of a variable after its last use."""
        if variable in self._homes or variable in self._inputs:
            return False
        if not variable.type.shape or bytes_of(variable.type) < SMALLEST_DROPPED_BYTES:
            return False
        # Results stay until the last line, which decides about them.
        return not any(s.escapes or s in self._slot for s in self.live.storages[variable])

    # -- results

    def _results(self) -> None:
        shown = []
        given: set[Storage] = set()
        for out in self.program.outputs:
            storages = self.live.of(out)
            text = self.source.shown(out)
            shared = [s for s in storages if s.outside or s in given]
            into = self._kept_memory(out, storages, bool(shared))
            if into:
                self.source.add(f"np.copyto({into}, {text})")
                text = into
            else:
                text = self._apart(out, text, shared) if shared else text
                given |= {s for s in storages if not s.outside}
            shown.append(text)
        self.source.add(f"return [{', '.join(shown)}]")

    def _apart(self, out: VariableLike, text: str, shared: Sequence[Storage]) -> str:
        """Returns an expression for a result that shares no memory with others."""
        others = sorted({self.source.shown(s.owner) for s in shared if s.owner is not None})
        if not is_variable(out) or any(s.owner is None for s in shared):
            others = [text]
        elif out in self.parts:
            return f"{text}.copy()"
        name = self.source.bind(copied_if_shared)
        return f"{name}({', '.join([text, *others])})"

    def _kept_memory(self, out: VariableLike, storages: frozenset[Storage], shared: bool) -> str:
        """Returns the donated input that a copy goes to, or a part of a larger array."""
        owners = [s.owner for s in storages if s.owner is not out]
        known = [x.type for x in owners if x is not None]
        if not is_variable(out) or not known or len(known) < len(owners):
            return ""
        if not shared and max(map(bytes_of, known)) <= bytes_of(out.type):
            return ""
        return self._given(out)
