"""Straight-line code: a line for every equation, into buffers that are reused."""

from __future__ import annotations

from typing import Any

from .block_code import BlockCode
from .calls import apart
from .liveness import Liveness, Storage
from .orders import memory_orders, region_order
from .regions import RegionRun
from .source import Source
from .ufuncs import as_operand, ufunc_of
from .values import is_variable, nbytes, plain

__all__ = ["Straight"]

# Arrays up to this many bytes are kept from call to call; of larger ones memory is got anew, which
# costs little beside filling it, and is given back.
KEPT_BYTES = 32768
# What is smaller is not worth a line that lets go of it.
DROPPED_BYTES = 4096
# Scalars of these dtypes are computed with by Python's operators, many times as fast as ufuncs.
QUICK = "fd"
OPERATORS = {
    "add": "+", "subtract": "-", "multiply": "*", "divide": "/",
    "less": "<", "less_equal": "<=", "greater": ">", "greater_equal": ">=",
    "equal": "==", "not_equal": "!=",
}  # fmt: skip
VIEWS = frozenset({"astype", "flip", "index", "reshape", "stop_gradient", "transpose"})
# Below this, the backend's sum is NumPy's own.
SMALL_SUM = 512


class Slot:
    """A buffer that is kept, and the forms in which generated code knows it."""

    __slots__ = ("number", "size")

    def __init__(self, number: int, size: int) -> None:
        self.number = number
        self.size = size


class Straight:
    """Writes the lines of a program.

    Args:
        program: the program.
        donated: the numbers of inputs that may be overwritten.
        kernels: the backend's functions in place of NumPy's.

    Attributes:
        source: what was written.
        buffers: for every name of a kept buffer its slot, shape and dtype.
        slots: the sizes of slots, in bytes.
        regions: what runs regions, whose functions are still to be compiled.
        overwritten: the numbers of the inputs that are written into.
    """

    def __init__(self, program: Any, donated: Any, kernels: Any) -> None:
        self.program = program
        self.kernels = kernels
        self.source = Source()
        self.live = Liveness(program, donated)
        self.buffers: dict[str, tuple[int, tuple[int, ...], Any]] = {}
        self.slots: list[int] = []
        self._forms: dict[tuple[int, tuple[int, ...], Any], str] = {}
        self.overwritten: set[int] = set()
        # What may have strides of zero.
        self.spread: set[Any] = set()
        self._inputs = {variable: number for number, variable in enumerate(program.inputs)}
        self._free: dict[int, list[Slot]] = {}
        # Where a storage's memory is a slot; and whose memory a variable took over.
        self._slot: dict[Storage, Slot] = {}
        self.regions: list[RegionRun] = []
        self._orders: dict[Any, tuple[int, ...]] = memory_orders(program)
        runs = [self._region(e) for e in program.equations]
        self.source.function("plan", list(map(self.source.name, program.inputs)))
        self._runs = runs
        for number, equation in enumerate(program.equations):
            self._equation(number, equation)
        self._results()

    def _region(self, equation: Any) -> RegionRun | None:
        """Writes the loop of a region and returns what runs it; None for others."""
        if not getattr(equation.primitive, "fused", False):
            return None
        number = len(self.regions)
        source = self.source.inner()
        name = f"blocks_{number}"
        region, given = equation.primitive, equation.operands
        order = region_order(region, given, self._orders)
        code = BlockCode(name, region, given, self.kernels, source, order)
        run = RegionRun(name, code)
        self.source.take(source)
        self.regions.append(run)
        return run

    # -- an equation

    def _equation(self, number: int, equation: Any) -> None:
        write = WRITERS.get(equation.primitive.name)
        right = write(self, number, equation) if write is not None else None
        run = self._runs[number]
        if run is not None:
            right = self._fused(number, equation, run)
        if right is None:
            right = self._ufunc(number, equation) or self._called(equation)
        left = ", ".join(map(self.source.name, equation.outputs))
        # What is called returns a list, of one output too.
        called = not hasattr(equation.primitive, "impl") or hasattr(equation.primitive, "evaluate")
        if len(equation.outputs) > 1 or called:
            left = f"[{left}]"
        if hasattr(equation.primitive, "impl") and equation.outputs[0].type.weak:
            right = f"({right}).item()"
        self.source.add(f"{left} = {right}", equation)
        name = equation.primitive.name
        if name == "broadcast_to" or (
            name in VIEWS and not self.spread.isdisjoint(filter(is_variable, equation.operands))
        ):
            self.spread.add(equation.outputs[0])
        self._let_go(number)

    def _called(self, equation: Any) -> str:
        primitive = equation.primitive
        operands = ", ".join(map(self.source.shown, equation.operands))
        impl = getattr(primitive, "impl", None)
        if impl is None:
            return f"{self.source.bind(primitive.on_buffers, primitive.name)}([{operands}])"
        named = [f"{key}={self.source.static(value)}" for key, value in equation.params.items()]
        name = self.source.bind(impl, primitive.name)
        return f"{name}({', '.join([*map(self.source.shown, equation.operands), *named])})"

    def _fused(self, number: int, equation: Any, run: RegionRun) -> str:
        """Returns the call of a region, into memory of operands that are needed no more."""
        operands = [self.source.shown(x) for x in equation.operands]
        taken: dict[int, str] = {}
        for i, x in enumerate(equation.operands):
            if not is_variable(x):
                continue
            others = [s for y in equation.operands[:i] + equation.operands[i + 1 :]
                      for s in self.live.of(y)]
            if not self.live.storages[x].isdisjoint(others):
                continue
            for k, out in enumerate(equation.outputs):
                (own,) = self.live.storages[out]
                if k not in taken and run.can_take(i, k) and self._can_take(number, x, out, own):
                    taken[k] = operands[i]
                    self._take(x, own)
                    break
        if taken:
            listed = "".join(f"{taken.get(k)}, " for k in range(len(equation.outputs)))
            operands.append(f"into=({listed})")
        return f"{self.source.bind(run, 'region')}({', '.join(operands)})"

    def _take(self, x: Any, own: Storage) -> None:
        """Notes that a result takes the memory of an operand."""
        (old,) = self.live.storages[x]
        if old in self._slot:
            self._slot[own] = self._slot.pop(old)
        if x in self._inputs:
            self.overwritten.add(self._inputs[x])

    def _ufunc(self, number: int, equation: Any) -> str | None:
        found = ufunc_of(equation, self.kernels)
        if found is None:
            return None
        ufunc, loop = found
        out = equation.outputs[0]
        if not out.type.shape:
            return self._operator(equation)
        operands = [
            self.source.shown(as_operand(x, dtype))
            for x, dtype in zip(equation.operands, loop)
        ]
        into = self._into(number, equation, out)
        if into:
            operands.append(into)
        return f"np.{ufunc.__name__}({', '.join(operands)})"

    def _operator(self, equation: Any) -> str | None:
        """Returns arithmetic of NumPy's scalars, which gives the same bits as their ufuncs."""
        sign = OPERATORS.get(equation.primitive.name)
        strong = [x for x in equation.operands if is_variable(x) and not x.type.weak]
        if sign is None or not strong or any(x.type.dtype.char not in QUICK for x in strong):
            return None
        x, y = map(self.source.shown, equation.operands)
        return f"{x} {sign} {y}"

    # -- memory

    def _into(self, number: int, equation: Any, out: Any) -> str:
        """Returns the buffer that a result goes into; empty where NumPy is to make one."""
        if not plain(out.type) or not out.type.size:
            return ""
        (own,) = self.live.storages[out]
        for x in equation.operands:
            if is_variable(x) and self._can_take(number, x, out, own):
                self._take(x, own)
                return self.source.name(x)
        return self.buffer_for(out)

    def buffer_for(self, out: Any) -> str:
        """Returns a kept buffer for a result; empty where there is none for it."""
        (own,) = self.live.storages[out]
        if own.escapes or not out.type.size or nbytes(out.type) > KEPT_BYTES:
            return ""
        size = nbytes(out.type)
        free = self._free.get(size)
        if free:
            slot = free.pop()
        else:
            slot = Slot(len(self.slots), size)
            self.slots.append(size)
        self._slot[own] = slot
        return self._buffer(slot, out.type)

    def _can_take(self, number: int, x: Any, out: Any, own: Storage) -> bool:
        """Says whether an operand's memory is free for a result, as it is needed no more."""
        if x.type.shape != out.type.shape or x.type.dtype != out.type.dtype:
            return False
        storages = self.live.storages[x]
        if len(storages) != 1:
            return False
        (old,) = storages
        if old.owner is not x or old.outside or old.last != number:
            return False
        return not (own.escapes and old in self._slot)

    def _buffer(self, slot: Slot, known: Any) -> str:
        form = slot.number, known.shape, known.dtype
        name = self._forms.get(form)
        if name is None:
            name = self._forms[form] = f"buffer_{len(self.buffers)}"
            self.buffers[name] = form
        return name

    def _let_go(self, number: int) -> None:
        dropped = []
        for variable in self.live.dead[number]:
            storages = self.live.storages[variable]
            # What may be returned stays as it is, and is looked at again in the end.
            if variable in self._inputs or any(s in self._slot or s.escapes for s in storages):
                continue
            if variable.type.shape and nbytes(variable.type) >= DROPPED_BYTES:
                dropped.append(self.source.name(variable))
        if dropped:
            self.source.add(f"del {', '.join(dropped)}")
        for storage in [s for s in self._slot if s.last == number]:
            slot = self._slot.pop(storage)
            self._free.setdefault(slot.size, []).append(slot)

    # -- results

    def _results(self) -> None:
        shown = []
        given: set[Storage] = set()
        for out in self.program.outputs:
            storages = self.live.of(out)
            text = self.source.shown(out)
            shared = [s for s in storages if s.outside or s in given]
            if shared:
                others = sorted({self.source.shown(s.owner) for s in shared if s.owner is not None})
                if not is_variable(out) or any(s.owner is None for s in shared):
                    others = [text]
                text = f"{self.source.bind(apart, 'apart')}({', '.join([text, *others])})"
            else:
                given |= storages
            shown.append(text)
        self.source.add(f"return [{', '.join(shown)}]")


# -- what is written in other words than a call of the primitive's function


def _reshape(writer: Straight, number: int, equation: Any) -> str | None:
    (x,) = equation.operands
    if not is_variable(x) or not x.type.shape:
        return None
    return f"{writer.source.shown(x)}.reshape({equation.params['shape']!r})"


def _transpose(writer: Straight, number: int, equation: Any) -> str | None:
    (x,) = equation.operands
    if not is_variable(x) or not x.type.shape:
        return None
    return f"{writer.source.shown(x)}.transpose({equation.params['axes']!r})"


def _index(writer: Straight, number: int, equation: Any) -> str | None:
    x, *indices = equation.operands
    if indices or not is_variable(x) or not x.type.shape:
        return None
    native = equation.params["key"].native
    shown = ", ".join(map(_part, native)) or "()"
    return f"{writer.source.shown(x)}[{shown}]"


def _part(item: Any) -> str:
    """Returns a part of a key as it is written."""
    if item is Ellipsis:
        return "..."
    if type(item) is not slice:
        return repr(item)
    parts = ["" if part is None else repr(part) for part in (item.start, item.stop, item.step)]
    return ":".join(parts if parts[2] else parts[:2])


def _sum(writer: Straight, number: int, equation: Any) -> str | None:
    (x,) = equation.operands
    params = equation.params
    if (
        not is_variable(x)
        or not plain(x.type)
        or x.type.dtype.char not in "fdFD"
        or x.type.size >= SMALL_SUM
        or params.get("dtype") is not None
    ):
        return None
    axis = None if len(params["axis"]) == x.type.ndim else params["axis"]
    rest = ", None, None, True" if params["keepdims"] else ""
    return f"np.add.reduce({writer.source.shown(x)}, {axis!r}{rest})"


def _matmul(writer: Straight, number: int, equation: Any) -> str | None:
    x, y = equation.operands
    if not all(is_variable(v) and v.type.ndim == 2 for v in (x, y)):
        return None
    types = {x.type.dtype, y.type.dtype, equation.outputs[0].type.dtype}
    if len(types) > 1 or x.type.dtype.char not in "fdFD":
        return None
    if any(v in writer.spread for v in (x, y)):
        return None  # BLAS takes no strides of zero, for which the primitive's function sees to
    operands = [writer.source.shown(x), writer.source.shown(y)]
    into = writer.buffer_for(equation.outputs[0])
    return f"np.matmul({', '.join([*operands, into] if into else operands)})"


def _astype(writer: Straight, number: int, equation: Any) -> str | None:
    (x,) = equation.operands
    dtype = equation.params["dtype"]
    if not is_variable(x) or not plain(x.type) or x.type.dtype == dtype:
        return None
    return f"{writer.source.shown(x)}.astype({writer.source.bind(dtype, 'dtype')})"


WRITERS = {
    "astype": _astype,
    "reshape": _reshape,
    "transpose": _transpose,
    "index": _index,
    "sum": _sum,
    "matmul": _matmul,
}
