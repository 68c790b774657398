"""Discrete Fourier transforms within machine code, of lengths with small prime factors.

A row is transformed in as many stages as its length has factors, each from one part of memory into
another, so that nothing has to be put in order in the end: T. G. Stockham, High-speed convolution
and correlation, Proceedings of the Spring Joint Computer Conference, 1966. Real and imaginary parts
lie apart there, in float64, as NumPy computes these of float32 too. Transforms of real numbers are
those of complex ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import cos, pi, prod, sin, sqrt
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ....native.counted_loops import counted_loop
from ....native.instructions import Lines, constant, element_type
from ....native.printer import Module
from ....native.tables import element
from ..codegen.operands import is_variable
from .elementwise_nodes import operand_dtype, operand_shape
from .machine_dtypes import is_machine_dtype
from .number_kernels import CALL_EFFORT
from .region_graph import NotNative
from .step_code import InnerFunction, InnerType

if TYPE_CHECKING:
    from ....annotations import DType
    from ..annotations import EquationLike

__all__ = ["FourierTransform", "is_fourier_transform"]

FACTORS = (4, 2, 3, 5, 7, 11, 13)
# NumPy transforms longer rows in as much time.
LONGEST_TRANSFORM = 4096
# The time of an element in a stage, in tenths of a nanosecond.
STAGE_EFFORT = 15
VECTOR_LANES = 4
PART_DTYPE = np.dtype(np.float64)
# A complex number while it is computed: the names of its parts.
Pair = tuple[str, str]


def is_fourier_transform(equation: EquationLike) -> bool:
    """Says whether an equation is a discrete Fourier transform."""
    return equation.primitive.name in ("fft", "irfft", "rfft")


class Stage(NamedTuple):
    """A stage of the transform of a row.

    Attributes:
        radix: how many numbers are transformed together.
        groups: how many groups of those there are with factors of their own.
        stride: how many neighbours have the same factors.
        begin: where its factors begin in the array of all.
    """

    radix: int
    groups: int
    stride: int
    begin: int


class RowTransform:
    """The stages of the transform of rows along an axis, and its factors.

    Attributes:
        length: the length of a row.
        inverse: whether the exponent is positive.
        stages: the stages.
        factors: real and imaginary parts of the factors, one behind the other.

    Raises:
        NotNative: the length is large, or has a large prime factor.
    """

    def __init__(self, length: int, inverse: bool) -> None:
        self.length = length
        self.inverse = inverse
        self.stages: list[Stage] = []
        found: list[Any] = [np.zeros(2)]
        left, stride, begin = length, 1, 2
        if length > LONGEST_TRANSFORM:
            raise NotNative("long rows")
        while left > 1:
            radix = next((r for r in FACTORS if left % r == 0), None)
            if radix is None:
                raise NotNative("a large prime factor")
            groups = left // radix
            self.stages.append(Stage(radix, groups, stride, begin))
            if groups > 1:
                turns = np.outer(np.arange(groups), np.arange(1, radix)) % left
                angles = turns.astype(np.longdouble) * (2 * np.longdouble(np.pi) / left)
                parts = np.stack([np.cos(angles), np.sin(angles) * (1 if inverse else -1)], axis=-1)
                found.append(parts.reshape(-1))
                begin += parts.size
            left, stride = groups, stride * radix
        self.factors = np.concatenate(found).astype(PART_DTYPE)


class FourierTransform(InnerFunction):
    """A transform over axes.

    Args:
        equation: the equation.

    Raises:
        NotNative: the dtype is another, or a row has a length that machine code does not have.
    """

    def __init__(self, equation: EquationLike) -> None:
        super().__init__([])
        (x,), (out,), params = equation.operands, equation.outputs, equation.params
        self._name = name = equation.primitive.name
        norm = params["norm"]
        self._given: DType = operand_dtype(x)
        self._result: DType = out.type.dtype
        self._shapes = operand_shape(x), tuple(out.type.shape)
        if not is_machine_dtype(self._given) or self._given.char not in "fdFD":
            raise NotNative("numbers of another dtype")
        if not out.type.size or not prod(self._shapes[0]):
            raise NotNative("no numbers")
        # The dtype of parts in the arrays that are given and made.
        self._outer: DType = PART_DTYPE if self._given.char in "dD" else np.dtype(np.float32)
        axes = params["axes"][::-1] if name == "fft" else (params["axis"],)
        inverse = params["inverse"] if name == "fft" else name == "irfft"
        length = params["n"] if name == "irfft" else None
        if length is not None and self._shapes[0][axes[0]] != length // 2 + 1:
            raise NotNative("a part of a spectrum")
        self._axes: list[tuple[int, RowTransform, float]] = []
        for axis in axes:
            n = self._shapes[0][axis] if length is None else length
            scale = {"ortho": 1 / sqrt(n), "forward": 1.0, "backward": 1 / n}
            if not inverse:
                scale["forward"], scale["backward"] = scale["backward"], scale["forward"]
            self._axes.append((axis, RowTransform(n, inverse), scale[norm]))
        self.constants = [row.factors for _, row, _ in self._axes]
        known = x.type if is_variable(x) else InnerType(self._shapes[0], self._given)
        self.operands = [(known, self._shapes[0])]
        longest = max(row.length for _, row, _ in self._axes)
        # Each part begins where vectors may.
        self._room = -(-longest * PART_DTYPE.itemsize // 64) * 64
        self.memory = 4 * self._room
        stages = sum(len(row.stages) + 2 for _, row, _ in self._axes)
        self.effort = CALL_EFFORT + max(map(prod, self._shapes)) * STAGE_EFFORT * stages

    def _write(self, lines: Lines, name: str, module: Module) -> None:
        count = len(self._axes)
        places = [element(lines, "%table", i) for i in range(count + 2)]
        source, out = places[0], places[-1]
        for number, (axis, row, scale) in enumerate(self._axes):
            function = f"{name}_axis_{number}"
            shape = self._shapes[number > 0]
            takes = self._given if number == 0 else self._result
            steps = [prod(s[axis + 1 :]) for s in (shape, self._shapes[1])]
            module.functions[function] = self._row_function(function, row, scale, takes, steps)
            ends = (source, takes, shape), (out, self._result, self._shapes[1])
            blocks = prod(shape[:axis])
            with counted_loop(lines, blocks) as block, counted_loop(lines, steps[0]) as column:
                begins = []
                for array, dtype, own in ends:
                    first = lines.let(f"mul i64 {block}, {prod(own[axis:])}")
                    first = lines.let(f"add i64 {first}, {column}")
                    first = lines.let(f"mul i64 {first}, {dtype.itemsize}")
                    begins.append(lines.let(f"getelementptr i8, ptr {array}, i64 {first}"))
                shown = ", ".join(f"ptr {v}" for v in (*begins, places[1 + number], "%memory"))
                lines.add(f"call void @{function}({shown})")
            source = out
        lines.add("ret i64 0")

    # -- a row

    def _row_function(
        self, name: str, row: RowTransform, scale: float, takes: DType, steps: Sequence[int]
    ) -> str:
        """Returns the function of a row: of its numbers, its result, the factors, and memory."""
        lines = Lines()
        lines.begin("entry")
        parts = [
            lines.let(f"getelementptr i8, ptr %memory, i64 {i * self._room}") for i in range(4)
        ]
        arrays, others = (parts[0], parts[1]), (parts[2], parts[3])
        if self._name == "irfft":
            self._load_half(lines, row.length, arrays, steps[0])
        else:
            with counted_loop(lines, row.length) as k:
                place = lines.let(f"mul i64 {k}, {steps[0]}")
                self._put(lines, arrays, k, self._number(lines, "%given", place, takes))
        for stage in row.stages:
            self._stage(lines, stage, row.inverse, arrays, others)
            arrays, others = others, arrays
        self._store(lines, row.length, scale, arrays, steps[1])
        lines.add("ret void")
        head = f"define internal void @{name}(ptr %given, ptr %out, ptr %factors, ptr %memory) {{"
        return "\n".join([head, *lines.text, "}"])

    def _load_half(self, lines: Lines, n: int, arrays: Pair, step: int) -> None:
        """Writes the load of half a spectrum, and of the other half that belongs to it."""
        for end in real_ends(n):
            real, _ = self._number(lines, "%given", str(end * step), self._given)
            self._put(lines, arrays, str(end), (real, constant(PART_DTYPE.type(0), 1)))
        between = (n - 1) // 2
        if not between:
            return
        with counted_loop(lines, between) as number:
            k = lines.let(f"add i64 {number}, 1")
            place = lines.let(f"mul i64 {k}, {step}")
            real, imag = self._number(lines, "%given", place, self._given)
            self._put(lines, arrays, k, (real, imag))
            other = lines.let(f"sub i64 {n}, {k}")
            negative = lines.operation("negative", PART_DTYPE, [imag], PART_DTYPE, 1)
            self._put(lines, arrays, other, (real, negative))

    def _store(self, lines: Lines, n: int, scale: float, arrays: Pair, step: int) -> None:
        """Writes the store of what is found: complex numbers, half of them, or real parts."""
        is_half = self._name == "rfft"
        parts = 1 if self._result.kind != "c" else 2
        with counted_loop(lines, n // 2 + 1 if is_half else n) as k:
            place = lines.let(f"mul i64 {k}, {step * parts}")
            for i in range(parts):
                found = load(lines, arrays[i], k, PART_DTYPE, 1)
                if scale != 1:
                    found = lines.let(f"fmul double {found}, {constant(PART_DTYPE.type(scale), 1)}")
                if self._outer != PART_DTYPE:
                    found = lines.cast(found, PART_DTYPE, self._outer, 1)
                own = lines.let(f"add i64 {place}, {i}") if i else place
                stored_numbers(lines, found, "%out", own, self._outer, 1)
        # These numbers are real, whatever rounding has left beside them.
        for end in real_ends(n) if is_half else ():
            own = str(end * step * 2 + 1)
            stored_numbers(lines, constant(self._outer.type(0), 1), "%out", own, self._outer, 1)

    def _number(self, lines: Lines, array: str, place: str, dtype: DType) -> Pair:
        """Writes the load of a number of the operand."""
        if dtype.kind != "c":
            return self._given_part(lines, array, place), constant(PART_DTYPE.type(0), 1)
        first = lines.let(f"shl i64 {place}, 1")
        second = lines.let(f"add i64 {first}, 1")
        return self._given_part(lines, array, first), self._given_part(lines, array, second)

    def _given_part(self, lines: Lines, array: str, place: str) -> str:
        found = load(lines, array, place, self._outer, 1)
        return found if self._outer == PART_DTYPE else lines.cast(found, self._outer, PART_DTYPE, 1)

    def _put(self, lines: Lines, arrays: Pair, place: str, number: Pair) -> None:
        for array, part in zip(arrays, number, strict=True):
            stored_numbers(lines, part, array, place, PART_DTYPE, 1)

    # -- a stage

    def _stage(
        self, lines: Lines, stage: Stage, inverse: bool, arrays: Pair, others: Pair
    ) -> None:
        """Writes a stage, from one pair of arrays into another."""
        radix, groups, stride, begin = stage
        width = VECTOR_LANES if stride % VECTOR_LANES == 0 else 1
        dtype, transforms = PART_DTYPE, Transforms(lines, width, inverse)
        with counted_loop(lines, groups) as group:
            factors: list[Pair] = []
            if groups > 1:
                first = lines.let(f"mul i64 {group}, {2 * (radix - 1)}")
                for k in range(2 * (radix - 1)):
                    place = lines.let(f"add i64 {first}, {begin + k}")
                    one = load(lines, "%factors", place, dtype, 1)
                    one = lines.spread(one, dtype, width) if width > 1 else one
                    if k % 2:
                        factors[-1] = (factors[-1][0], one)
                    else:
                        factors.append((one, one))
            source = lines.let(f"mul i64 {group}, {stride}")
            target = lines.let(f"mul i64 {group}, {stride * radix}")
            with counted_loop(lines, stride // width) as step:
                offset = lines.let(f"mul i64 {step}, {width}")
                place = lines.let(f"add i64 {source}, {offset}")
                given: list[Pair] = []
                for j in range(radix):
                    own = lines.let(f"add i64 {place}, {j * groups * stride}") if j else place
                    real, imag = (load(lines, array, own, dtype, width) for array in arrays)
                    given.append((real, imag))
                made = transforms.of(given)
                place = lines.let(f"add i64 {target}, {offset}")
                for k, number in enumerate(made):
                    if k and factors:
                        number = transforms.times(number, factors[k - 1])
                    own = lines.let(f"add i64 {place}, {k * stride}") if k else place
                    for array, part in zip(others, number, strict=True):
                        stored_numbers(lines, part, array, own, dtype, width)


class Transforms:
    """Writes the transforms of a few numbers, of some lanes each.

    Args:
        lines: where they are written.
        width: the number of lanes.
        inverse: whether the exponent is positive.
    """

    def __init__(self, lines: Lines, width: int, inverse: bool) -> None:
        self._lines, self._width = lines, width
        self._kind = lines.type(PART_DTYPE, width)
        self._sign = 1.0 if inverse else -1.0

    def of(self, x: Sequence[Pair]) -> list[Pair]:
        """Returns the transform of as many numbers as a stage takes together."""
        if len(x) == 2:
            return [self._both("fadd", *x), self._both("fsub", *x)]
        if len(x) == 4:
            return self._of_four(*x)
        return self._of_odd(x)

    def times(self, x: Pair, factor: Pair) -> Pair:
        """Returns a product."""
        (a, b), (c, d) = x, factor
        real = self._op("fsub", self._op("fmul", a, c), self._op("fmul", b, d))
        return real, self._op("fadd", self._op("fmul", a, d), self._op("fmul", b, c))

    def _op(self, word: str, x: str, y: str) -> str:
        return self._lines.let(f"{word} {self._kind} {x}, {y}")

    def _both(self, word: str, x: Pair, y: Pair) -> Pair:
        return self._op(word, x[0], y[0]), self._op(word, x[1], y[1])

    def _of_four(self, a: Pair, b: Pair, c: Pair, d: Pair) -> list[Pair]:
        even, odd = self._both("fadd", a, c), self._both("fadd", b, d)
        apart, turned = self._both("fsub", a, c), self._both("fsub", b, d)
        # The difference is turned by a quarter, one way or the other.
        words = ("fsub", "fadd") if self._sign > 0 else ("fadd", "fsub")
        first = self._op(words[0], apart[0], turned[1]), self._op(words[1], apart[1], turned[0])
        last = self._op(words[1], apart[0], turned[1]), self._op(words[0], apart[1], turned[0])
        return [self._both("fadd", even, odd), first, self._both("fsub", even, odd), last]

    def _of_odd(self, x: Sequence[Pair]) -> list[Pair]:
        """Returns the transform of an odd number of numbers, by sums and differences of pairs."""
        radix, half = len(x), len(x) // 2
        sums = [self._both("fadd", x[j], x[radix - j]) for j in range(1, half + 1)]
        apart = [self._both("fsub", x[j], x[radix - j]) for j in range(1, half + 1)]
        total = x[0]
        for pair in sums:
            total = self._both("fadd", total, pair)
        found: dict[int, Pair] = {0: total}
        for k in range(1, half + 1):
            along, across = x[0], None
            for j in range(1, half + 1):
                angle = 2 * pi * (j * k % radix) / radix
                along = self._both("fadd", along, self._scaled(sums[j - 1], cos(angle)))
                part = self._scaled(apart[j - 1], self._sign * sin(angle))
                across = part if across is None else self._both("fadd", across, part)
            assert across is not None
            real, imag = across
            found[k] = self._op("fsub", along[0], imag), self._op("fadd", along[1], real)
            found[radix - k] = self._op("fadd", along[0], imag), self._op("fsub", along[1], real)
        return [found[k] for k in range(radix)]

    def _scaled(self, x: Pair, factor: float) -> Pair:
        shown = constant(PART_DTYPE.type(factor), self._width)
        return self._op("fmul", x[0], shown), self._op("fmul", x[1], shown)


def real_ends(n: int) -> list[int]:
    """Returns which numbers of a spectrum of n real numbers are real."""
    return [0, n // 2] if n % 2 == 0 else [0]


def load(lines: Lines, array: str, place: str, dtype: DType, width: int) -> str:
    """Writes the load of elements."""
    kind = element_type(dtype)
    address = lines.let(f"getelementptr {kind}, ptr {array}, i64 {place}")
    return lines.let(f"load {lines.type(dtype, width)}, ptr {address}, align {dtype.itemsize}")


def stored_numbers(
    lines: Lines, value: str, array: str, place: str, dtype: DType, width: int
) -> None:
    """Writes the store of elements."""
    address = lines.let(f"getelementptr {element_type(dtype)}, ptr {array}, i64 {place}")
    lines.add(f"store {lines.type(dtype, width)} {value}, ptr {address}, align {dtype.itemsize}")
