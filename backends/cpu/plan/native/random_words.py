"""Random bits within machine code: the words of Philox4x64-10, as ``arrays/philox.py`` has them."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy as np

from ....arrays.philox import MULTIPLIERS, PHILOX_ROUNDS, WEYL
from ....native.counted_loops import counted_loop
from ....native.instructions import Lines
from ....native.printer import Module
from ....native.tables import copy_bytes, element
from ..codegen.operands import is_variable
from .elementwise_nodes import operand_dtype, operand_shape
from .number_kernels import CALL_EFFORT
from .region_graph import NotNative
from .step_code import InnerFunction, InnerType

if TYPE_CHECKING:
    from ....annotations import DType
    from ..annotations import EquationLike, Operand, VariableType

__all__ = ["RandomWords", "is_random_words"]

WORD_PRIMITIVES = frozenset({"random_bits", "random_keys"})
WORD_TYPE = np.dtype(np.uint64)
# A block is four words.
BLOCK_BYTES = 32
# The time of a block, in tenths of a nanosecond.
BLOCK_EFFORT = 200


def is_random_words(equation: EquationLike) -> bool:
    """Says whether an equation draws random bits."""
    return equation.primitive.name in WORD_PRIMITIVES


class RandomWords(InnerFunction):
    """Random bits of a key, or of each of an array of keys.

    Args:
        equation: the equation.

    Raises:
        NotNative: keys are of other dtypes, or nothing is drawn.
    """

    def __init__(self, equation: EquationLike) -> None:
        super().__init__([])
        key, start = equation.operands
        (out,) = equation.outputs
        batch = operand_shape(key)[:-1]
        dtype = operand_dtype(key)
        self._start: DType = operand_dtype(start) if is_variable(start) else WORD_TYPE
        if dtype.kind not in "iu" or dtype.itemsize != WORD_TYPE.itemsize:
            raise NotNative("keys of another dtype")
        if self._start.kind not in "iu" or not out.type.size:
            raise NotNative("no random bits")
        self._stream = equation.params["stream"]
        self._keys = prod(batch)
        self._bytes = out.type.size // self._keys * out.type.dtype.itemsize
        self.operands = [
            (known_type(key, dtype), (*batch, 2)),
            (known_type(start, self._start), batch),
        ]
        # The key is read before anything is written.
        if self._keys == 1 and (out.type.dtype, out.type.shape) == (dtype, operand_shape(key)):
            self.in_place = frozenset({(0, 0)})
        blocks = -(-self._bytes // BLOCK_BYTES)
        self.effort = CALL_EFFORT + self._keys * blocks * BLOCK_EFFORT

    def _write(self, lines: Lines, name: str, module: Module) -> None:
        module.functions["philox_block"] = block_function()
        module.functions[f"{name}_of_one"] = self._function_of_one(f"{name}_of_one")
        keys, starts, out = (element(lines, "%table", i) for i in range(3))
        with counted_loop(lines, self._keys) as number:
            place = lines.let(f"getelementptr [2 x i64], ptr {keys}, i64 {number}")
            words = [load_word(lines, place, i) for i in range(2)]
            kind = f"i{8 * self._start.itemsize}"
            begin = lines.let(f"getelementptr {kind}, ptr {starts}, i64 {number}")
            start = lines.let(f"load {kind}, ptr {begin}, align {self._start.itemsize}")
            if kind != "i64":
                wider = "sext" if self._start.kind == "i" else "zext"
                start = lines.let(f"{wider} {kind} {start} to i64")
            into = lines.let(f"getelementptr [{self._bytes} x i8], ptr {out}, i64 {number}")
            given = ", ".join(f"i64 {x}" for x in (*words, start))
            lines.add(f"call void @{name}_of_one({given}, ptr {into})")
        lines.add("ret i64 0")

    def _function_of_one(self, name: str) -> str:
        """Returns the function of the words of a key, of which the last block may be a part."""
        lines = Lines()
        lines.begin("entry")
        blocks, rest = divmod(self._bytes, BLOCK_BYTES)
        if rest:
            part = lines.let(f"alloca [{BLOCK_BYTES} x i8], align 8")
        if blocks:
            with counted_loop(lines, blocks) as number:
                following = lines.let(f"add i64 {number}, 1")
                place = lines.let(f"getelementptr [{BLOCK_BYTES} x i8], ptr %out, i64 {number}")
                self._write_block(lines, following, place)
        if rest:
            self._write_block(lines, str(blocks + 1), part)
            place = lines.let(f"getelementptr i8, ptr %out, i64 {blocks * BLOCK_BYTES}")
            copy_bytes(lines, place, part, rest)
        lines.add("ret void")
        head = f"define internal void @{name}(i64 %key, i64 %more, i64 %start, ptr %out) {{"
        return "\n".join([head, *lines.text, "}"])

    def _write_block(self, lines: Lines, number: str, place: str) -> None:
        """Writes the words of a block into memory; the number of the first one is 1."""
        counter = lines.let(f"add i64 %start, {number}")
        carried = lines.let(f"icmp ult i64 {counter}, %start")
        carry = lines.let(f"zext i1 {carried} to i64")
        given = ", ".join(f"i64 {x}" for x in (counter, carry, self._stream, "%key", "%more"))
        lines.add(f"call void @philox_block({given}, ptr {place})")


def known_type(x: Operand, dtype: DType) -> VariableType:
    """Returns the type of an operand."""
    return x.type if is_variable(x) else InnerType(operand_shape(x), dtype)


def load_word(lines: Lines, place: str, number: int) -> str:
    """Writes the load of a word behind an address."""
    word = lines.let(f"getelementptr i64, ptr {place}, i64 {number}")
    return lines.let(f"load i64, ptr {word}, align 8")


def block_function() -> str:
    """Returns the function of a block: of the counter's words, of which the third is 0, and a key.

    Memory need not be aligned: words may be those of narrow integers.
    """
    lines = Lines()
    lines.begin("entry")
    a, b, c, d, k, m = "%first", "%second", "0", "%last", "%key", "%more"
    for number in range(PHILOX_ROUNDS):
        if number:
            k, m = (lines.let(f"add i64 {x}, {step}") for x, step in zip((k, m), WEYL))
        (high_a, low_a), (high_c, low_c) = (
            both_halves(lines, x, factor) for x, factor in zip((a, c), MULTIPLIERS)
        )
        b = lines.let(f"xor i64 {high_c}, {b}")
        d = lines.let(f"xor i64 {high_a}, {d}")
        a, c = lines.let(f"xor i64 {b}, {k}"), lines.let(f"xor i64 {d}, {m}")
        b, d = low_c, low_a
    for number, word in enumerate((a, b, c, d)):
        place = lines.let(f"getelementptr i64, ptr %out, i64 {number}")
        lines.add(f"store i64 {word}, ptr {place}, align 1")
    lines.add("ret void")
    taken = ", ".join(f"i64 {x}" for x in ("%first", "%second", "%last", "%key", "%more"))
    head = f"define internal void @philox_block({taken}, ptr %out) {{"
    return "\n".join([head, *lines.text, "}"])


def both_halves(lines: Lines, x: str, factor: int) -> tuple[str, str]:
    """Writes the product of a word and a constant; returns its high and its low word."""
    wide = lines.let(f"zext i64 {x} to i128")
    product = lines.let(f"mul i128 {wide}, {factor}")
    above = lines.let(f"lshr i128 {product}, 64")
    return tuple(lines.let(f"trunc i128 {y} to i64") for y in (above, product))  # type: ignore[return-value]
