"""LLVM's instructions for the operations of kernels, on numbers and on vectors of lanes."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..processor import ZEROS_ARE_ORDERED

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..annotations import DType

__all__ = [
    *("GLUE", "Lines", "constant", "element_type", "memory_type", "ones", "overloaded"),
    "shown_type",
]

# What stands behind a function that does little but call others: LLVM makes its code in a third of
# the time, and what it calls takes longer than the difference by far.
GLUE = "noinline optnone"
# The bits of a float64 that a float32 has no place for.
BITS_BEYOND_FLOAT32 = 29
FLOAT_TYPES = {2: "half", 4: "float", 8: "double"}
FLOAT_COMPARISONS = {
    "equal": "oeq", "greater": "ogt", "greater_equal": "oge",
    "less": "olt", "less_equal": "ole", "not_equal": "une",
}  # fmt: skip
INTEGER_COMPARISONS = {
    "equal": "eq", "greater": "gt", "greater_equal": "ge",
    "less": "lt", "less_equal": "le", "not_equal": "ne",
}  # fmt: skip
FLOAT_ARITHMETIC = {"add": "fadd", "divide": "fdiv", "multiply": "fmul", "subtract": "fsub"}
INTEGER_ARITHMETIC = {"add": "add", "multiply": "mul", "subtract": "sub", "left_shift": "shl"}
BOOLEAN_ARITHMETIC = {"add": "or", "maximum": "or", "minimum": "and", "multiply": "and"}
BITWISE = {"bitwise_and": "and", "bitwise_or": "or", "bitwise_xor": "xor"}
INTRINSICS = {
    "absolute": "fabs", "ceil": "ceil", "floor": "floor", "fma": "fma", "rint": "rint",
    "sqrt": "sqrt", "trunc": "trunc",
}  # fmt: skip


def element_type(dtype: DType) -> str:
    """Returns LLVM's type of a number."""
    if dtype.kind == "f":
        return FLOAT_TYPES[dtype.itemsize]
    # Numbers of bfloat16 are their bits: processors without its instructions would call functions.
    return "i1" if dtype.kind == "b" else f"i{8 * dtype.itemsize}"


def memory_type(dtype: DType) -> str:
    """Returns LLVM's type of an element in memory, where booleans take a byte."""
    return "i8" if dtype.kind == "b" else element_type(dtype)


def shown_type(element: str, width: int) -> str:
    """Returns the type of some lanes, or of one number."""
    return element if width == 1 else f"<{width} x {element}>"


def constant(number: Any, width: int) -> str:
    """Returns the text of NumPy's scalar, in all lanes."""
    dtype = number.dtype
    element = element_type(dtype)
    if dtype.kind == "b":
        text = "true" if number else "false"
    elif dtype.kind in "iu":
        text = str(int(number))
    elif dtype.kind == "V":
        text = str(int(number.view(np.uint16)))
    elif element == "half":
        text = f"0xH{int(number.view(np.uint16)):04X}"
    else:
        text = f"0x{struct.unpack('<Q', struct.pack('<d', float(number)))[0]:016X}"
    return text if width == 1 else f"splat ({element} {text})"


class Lines:
    """The lines of a function, with names for what they compute.

    Attributes:
        text: the lines.
        declared: the declarations of what is called.
        block: the label of the block that is being written.
    """

    def __init__(self) -> None:
        self.text: list[str] = []
        self.declared: dict[str, str] = {}
        self.block = "entry"
        self._count = 0

    def name(self) -> str:
        """Returns a new name."""
        self._count += 1
        return f"%v{self._count}"

    def label(self, what: str) -> str:
        """Returns a new label."""
        self._count += 1
        return f"{what}_{self._count}"

    def add(self, line: str) -> None:
        """Adds a line without a result."""
        self.text.append(f"  {line}")

    def let(self, line: str) -> str:
        """Adds a line and returns the name of its result."""
        name = self.name()
        self.text.append(f"  {name} = {line}")
        return name

    def room(self, count: int) -> str:
        """Returns the name of memory for addresses; all of it is taken in the first block.

        Where a function is inlined into a loop, other blocks would take more of it in each step.
        """
        name = self.name()
        self.text.insert(1, f"  {name} = alloca [{count} x ptr], align 8")
        return name

    def begin(self, label: str) -> None:
        """Begins a block."""
        self.text.append(f"{label}:")
        self.block = label

    def call(self, name: str, result: str, given: Sequence[tuple[str, str]]) -> str:
        """Adds a call, and declares the function; returns the name of the result."""
        self.declared[name] = f"declare {result} @{name}({', '.join(kind for kind, _ in given)})"
        shown = ", ".join(f"{kind} {value}" for kind, value in given)
        if result == "void":
            self.add(f"call void @{name}({shown})")
            return ""
        return self.let(f"call {result} @{name}({shown})")

    def intrinsic(
        self, name: str, dtype: DType, width: int, given: Sequence[tuple[str, str]]
    ) -> str:
        """Adds a call of one of LLVM's own functions of some lanes."""
        return self.call(f"llvm.{name}.{overload(dtype, width)}", self.type(dtype, width), given)

    def type(self, dtype: DType, width: int) -> str:
        """Returns the type of some lanes of a dtype."""
        return shown_type(element_type(dtype), width)

    # -- operations

    def operation(
        self, name: str, dtype: DType, operands: Sequence[str], taken: DType, width: int
    ) -> str:
        """Adds an operation.

        Args:
            name: the operation.
            dtype: the dtype of the result.
            operands: their names or constants.
            taken: the dtype of the operands; of those that are chosen from.
            width: the number of lanes.
        """
        kind = self.type(taken, width)
        shown = ", ".join(operands)
        if name == "select":
            condition = f"{shown_type('i1', width)} {operands[0]}"
            return self.let(f"select {condition}, {kind} {operands[1]}, {kind} {operands[2]}")
        if name in FLOAT_COMPARISONS:
            return self.let(f"{comparison(name, taken)} {kind} {shown}")
        if name in BITWISE:
            return self.let(f"{BITWISE[name]} {kind} {shown}")
        if name == "cast":
            return self.cast(operands[0], taken, dtype, width)
        if name == "bits":
            return self.let(f"bitcast {kind} {shown} to {self.type(dtype, width)}")
        found = FLOAT_OPERATIONS if taken.kind in "fV" else WHOLE_OPERATIONS
        if name in found:
            return str(found[name](self, operands, taken, width))
        if taken.kind == "b":
            return self.let(f"{BOOLEAN_ARITHMETIC[name]} {kind} {shown}")
        if taken.kind in "fV":
            if name in FLOAT_ARITHMETIC:
                return self.let(f"{FLOAT_ARITHMETIC[name]} {kind} {shown}")
            return self.intrinsic(INTRINSICS[name], taken, width, [(kind, x) for x in operands])
        if name == "right_shift":
            return self.let(f"{'ashr' if taken.kind == 'i' else 'lshr'} {kind} {shown}")
        return self.let(f"{INTEGER_ARITHMETIC[name]} {kind} {shown}")

    def cast(self, x: str, old: DType, new: DType, width: int) -> str:
        """Adds the change of a dtype, as NumPy's ``astype`` does it."""
        if "V" in old.kind + new.kind:
            return self._cast_of_bfloat16(x, old, new, width)
        source, target = self.type(old, width), self.type(new, width)
        if new.kind == "b":
            zero = constant(old.type(0), width)
            return self.let(f"{comparison('not_equal', old)} {source} {x}, {zero}")
        if old.kind == "f" and new.kind == "f":
            if (old.itemsize, new.itemsize) == (8, 2):
                x, source = self._rounded_to_odd(x, width), shown_type("float", width)
            word = "fpext" if old.itemsize < new.itemsize else "fptrunc"
        elif old.kind == "f":
            word = "fptosi" if new.kind == "i" else "fptoui"
        elif new.kind == "f":
            word = "sitofp" if old.kind == "i" else "uitofp"
        elif old.kind == "b" or old.itemsize < new.itemsize:
            word = "sext" if old.kind == "i" else "zext"
        elif old.itemsize > new.itemsize:
            word = "trunc"
        else:
            return x
        return self.let(f"{word} {source} {x} to {target}")

    def _cast_of_bfloat16(self, x: str, old: DType, new: DType, width: int) -> str:
        """Adds the change from or to bfloat16, the upper half of a float32, rounded to even."""
        single = np.dtype(np.float32)
        short, whole, wide = (shown_type(t, width) for t in ("i16", "i32", "float"))

        def of(number: int) -> str:
            return constant(np.int32(number), width)

        if old.kind == "V":
            bits = self.let(f"zext {short} {x} to {whole}")
            bits = self.let(f"shl {whole} {bits}, {of(16)}")
            found = self.let(f"bitcast {whole} {bits} to {wide}")
            return found if new == single else self.cast(found, single, new, width)
        if old != single:
            x = self.cast(x, old, single, width)
        bits = self.let(f"bitcast {wide} {x} to {whole}")
        last = self.let(f"lshr {whole} {bits}, {of(16)}")
        last = self.let(f"and {whole} {last}, {of(1)}")
        rounded = self.let(f"add {whole} {bits}, {of(0x7FFF)}")
        rounded = self.let(f"add {whole} {rounded}, {last}")
        rounded = self.let(f"lshr {whole} {rounded}, {of(16)}")
        # Rounding would make some NaN infinite.
        sign = self.let(f"lshr {whole} {bits}, {of(16)}")
        sign = self.let(f"and {whole} {sign}, {of(0x8000)}")
        quiet = self.let(f"or {whole} {sign}, {of(0x7FC0)}")
        is_nan = self.let(f"fcmp uno {wide} {x}, {x}")
        truth = shown_type("i1", width)
        found = self.let(f"select {truth} {is_nan}, {whole} {quiet}, {whole} {rounded}")
        return self.let(f"trunc {whole} {found} to {short}")

    def _rounded_to_odd(self, x: str, width: int) -> str:
        """Adds the float32 of a float64 whose last bit is set where it is not exact.

        Such a number is rounded to 16 bits as the first one is. Processors without that
        instruction call a function for it that Windows and older Linux lack.
        """
        whole, wide = shown_type("i64", width), shown_type("double", width)
        bits = self.let(f"bitcast {wide} {x} to {whole}")
        end = np.int64(1 << BITS_BEYOND_FLOAT32)
        last, below, above = (constant(mask, width) for mask in (end, end - 1, -end))
        left = self.let(f"and {whole} {bits}, {below}")
        # A sum that reaches the bit above unless nothing is left.
        carried = self.let(f"add {whole} {left}, {below}")
        sticky = self.let(f"and {whole} {carried}, {last}")
        bits = self.let(f"or {whole} {bits}, {sticky}")
        kept = self.let(f"and {whole} {bits}, {above}")
        odd = self.let(f"bitcast {whole} {kept} to {wide}")
        return self.let(f"fptrunc {wide} {odd} to {shown_type('float', width)}")

    def folded(self, x: str, operation: str, dtype: DType, width: int) -> str:
        """Adds the fold of lanes: the second half into the first, until one is left."""
        element = element_type(dtype)
        while width > 1:
            half = width // 2
            kind = shown_type(element, width)
            parts = []
            for begin in (0, half):
                places = ", ".join(f"i32 {i}" for i in range(begin, begin + half))
                parts.append(
                    self.let(f"shufflevector {kind} {x}, {kind} poison, <{half} x i32> <{places}>")
                )
            if half == 1:
                parts = [self.let(f"extractelement <1 x {element}> {p}, i32 0") for p in parts]
            x = self.operation(operation, dtype, parts, dtype, half)
            width = half
        return x

    def spread(self, x: str, dtype: DType, width: int) -> str:
        """Adds the copy of a number to all lanes."""
        kind = self.type(dtype, width)
        one = self.let(f"insertelement {kind} poison, {element_type(dtype)} {x}, i32 0")
        places = f"<{width} x i32> zeroinitializer"
        return self.let(f"shufflevector {kind} {one}, {kind} poison, {places}")


def comparison(name: str, dtype: DType) -> str:
    """Returns the instruction that compares numbers of a dtype."""
    if dtype.kind in "fV":
        return f"fcmp {FLOAT_COMPARISONS[name]}"
    word = INTEGER_COMPARISONS[name]
    sign = "" if len(word) == 2 and word in ("eq", "ne") else "s" if dtype.kind == "i" else "u"
    return f"icmp {sign}{word}"


def ones(element: str, width: int) -> str:
    """Returns what idle lanes load: 1, which divides everything."""
    texts = {"half": "0xH3C00", "bfloat": "0xR3F80"}
    text = texts.get(element, "1.0" if element in ("float", "double") else "1")
    return f"splat ({element} {text})" if width > 1 else text


def overloaded(element: str, width: int) -> str:
    """Returns the part of a name that says the type of a vector."""
    short = {"half": "f16", "bfloat": "bf16", "float": "f32", "double": "f64"}
    return f"v{width}{short.get(element, element)}"


def overload(dtype: DType, width: int) -> str:
    """Returns the end of the name of LLVM's own function for a type."""
    short = {"half": "f16", "bfloat": "bf16", "float": "f32", "double": "f64"}
    element = element_type(dtype)
    return f"{f'v{width}' if width > 1 else ''}{short.get(element, element)}"


# -- operations that take several instructions


def _written_extremum(word: str) -> Callable[[Lines, Sequence[str], DType, int], str]:
    def written(lines: Lines, operands: Sequence[str], dtype: DType, width: int) -> str:
        """The first operand where it lies beyond the second or is NaN, else the second.

        Where the processor orders zeros it is one instruction.
        """
        x, y = operands
        kind, mask = lines.type(dtype, width), shown_type("i1", width)
        if ZEROS_ARE_ORDERED and dtype.char in "fd":
            name = "maximum" if word == "greater" else "minimum"
            return lines.intrinsic(name, dtype, width, [(kind, x), (kind, y)])
        if dtype.kind == "b":
            return lines.let(f"{'or' if word == 'greater' else 'and'} {kind} {x}, {y}")
        first = lines.let(f"{comparison(word, dtype)} {kind} {x}, {y}")
        if dtype.kind in "fV":
            nan = lines.let(f"fcmp uno {kind} {x}, {x}")
            first = lines.let(f"or {mask} {first}, {nan}")
        return lines.let(f"select {mask} {first}, {kind} {x}, {kind} {y}")

    return written


def _negative(lines: Lines, operands: Sequence[str], dtype: DType, width: int) -> str:
    kind = lines.type(dtype, width)
    if dtype.kind in "fV":
        return lines.let(f"fneg {kind} {operands[0]}")
    return lines.let(f"sub {kind} {constant(dtype.type(0), width)}, {operands[0]}")


def _absolute(lines: Lines, operands: Sequence[str], dtype: DType, width: int) -> str:
    if dtype.kind != "i":
        return operands[0]
    kind, mask = lines.type(dtype, width), shown_type("i1", width)
    (x,) = operands
    below = lines.let(f"icmp slt {kind} {x}, {constant(dtype.type(0), width)}")
    return lines.let(
        f"select {mask} {below}, {kind} {_negative(lines, [x], dtype, width)}, {kind} {x}"
    )


def _invert(lines: Lines, operands: Sequence[str], dtype: DType, width: int) -> str:
    ones = (
        np.bool_(True)
        if dtype.kind == "b"
        else dtype.type(0)
        if dtype.kind == "u"
        else dtype.type(-1)
    )
    if dtype.kind == "u":
        ones = ~ones
    return lines.let(f"xor {lines.type(dtype, width)} {operands[0]}, {constant(ones, width)}")


def _divided(word: str) -> Callable[[Lines, Sequence[str], DType, int], str]:
    def written(lines: Lines, operands: Sequence[str], dtype: DType, width: int) -> str:
        """The quotient rounded down, or what it leaves; the processor rounds towards zero.

        The processor stops at divisors of 0, and where the quotient is no number of the dtype. By 1
        in their place the remainder is right, and the quotient of the lowest number by -1.
        """
        x, divisor = operands
        kind, mask = lines.type(dtype, width), shown_type("i1", width)
        zero, one = constant(dtype.type(0), width), constant(dtype.type(1), width)
        none = lines.let(f"icmp eq {kind} {divisor}, {zero}")
        refused = none
        if dtype.kind == "i":
            lowest = constant(np.iinfo(dtype).min + dtype.type(0), width)
            first = lines.let(f"icmp eq {kind} {x}, {lowest}")
            second = lines.let(f"icmp eq {kind} {divisor}, {constant(dtype.type(-1), width)}")
            both = lines.let(f"and {mask} {first}, {second}")
            refused = lines.let(f"or {mask} {none}, {both}")
        by = lines.let(f"select {mask} {refused}, {kind} {one}, {kind} {divisor}")
        if dtype.kind == "u":
            found = lines.let(f"u{word} {kind} {x}, {by}")
        else:
            rest = lines.let(f"srem {kind} {x}, {by}")
            left = lines.let(f"icmp ne {kind} {rest}, {zero}")
            signs = lines.let(f"xor {kind} {rest}, {by}")
            apart = lines.let(f"icmp slt {kind} {signs}, {zero}")
            apart = lines.let(f"and {mask} {left}, {apart}")
            found, more = rest, by
            if word == "div":
                found = lines.let(f"sdiv {kind} {x}, {by}")
                more = constant(dtype.type(-1), width)
            moved = lines.let(f"add {kind} {found}, {more}")
            found = lines.let(f"select {mask} {apart}, {kind} {moved}, {kind} {found}")
        if word == "rem":
            return found
        return lines.let(f"select {mask} {none}, {kind} {zero}, {kind} {found}")

    return written


FLOAT_OPERATIONS: dict[str, Any] = {
    "maximum": _written_extremum("greater"),
    "minimum": _written_extremum("less"),
    "negative": _negative,
}
WHOLE_OPERATIONS: dict[str, Any] = {
    "floor_divide": _divided("div"),
    "remainder": _divided("rem"),
    "absolute": _absolute,
    "invert": _invert,
    "maximum": _written_extremum("greater"),
    "minimum": _written_extremum("less"),
    "negative": _negative,
}
