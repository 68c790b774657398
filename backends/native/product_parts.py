"""Products of matrices as machine code: one call of BLAS for each part, which a team shares."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from .array_objects import is_known, memory_loads
from .blas import BLAS_SYMBOLS, ROW_MAJOR, numpy_blas
from .c_library_flags import FLAG_FUNCTIONS, c_library_tells, noted_call
from .entry import objects_call
from .instruction_sets import NativeUnavailable
from .instructions import FLOAT_TYPES, Lines
from .machine import FEW_PASSES, NotCompiled, machine_code
from .printer import Module
from .team import server, shared_call

if TYPE_CHECKING:
    from .entry import ObjectsCall

__all__ = ["AT_ONE_PLACE", "SAID_PLACE", "multiplier"]

# The words of the numbers that describe a product: how many parts it has, what went wrong in the
# last call, the length that is summed over, both orders, and the distances of rows. Then for each
# part its rows and columns, and where its operands and its result begin, in bytes.
SAID_PLACE, HEAD_WORDS, PART_WORDS = 1, 8, 5
SIZE_OF_CHAR = {"f": 4, "d": 8}
# What is said of operands that begin at one place: NumPy may compute half of such a product.
AT_ONE_PLACE = 1 << 16

PART_TEXT = """
define internal void @multiply_part(ptr %arguments, i64 %part) noinline {{
  %numbers = load ptr, ptr %arguments, align 8
{head}
  %before = mul i64 %part, {part_words}
  %from = add i64 %before, {head_words}
  %own = getelementptr i64, ptr %numbers, i64 %from
{own}
{operands}
  %said_place = getelementptr i64, ptr %numbers, i64 {said}
{noted_call}
}}"""

MULTIPLY_TEXT = """
define i64 @multiply(ptr %objects) {{
entry:
  %arguments = alloca ptr, i64 4, align 16
{loads}
  %said_place = getelementptr i64, ptr %data3, i64 {said}
  %same = icmp eq ptr %data0, %data1
  br i1 %same, label %refuse, label %share
refuse:
  store i64 {at_one_place}, ptr %said_place, align 8
  ret i64 1
share:
  store i64 0, ptr %said_place, align 8
  %parts = load i64, ptr %data3, align 8
{shared}
  %said = load atomic i64, ptr %said_place acquire, align 8
  ret i64 %said
}}"""


def loaded_words(name: str, words: list[str]) -> str:
    """Returns lines that load words, which lie one behind the other, each by its own name."""
    lines = []
    for i, word in enumerate(words):
        lines += [
            f"  %{word}_place = getelementptr i64, ptr %{name}, i64 {i}",
            f"  %{word} = load i64, ptr %{word}_place, align 8",
        ]
    return "\n".join(lines)


def product_text(char: str, bits: int) -> str:
    """Returns the text of the function of products of a dtype.

    The function takes both operands, the result, the numbers, and the team's memory. It returns 0
    if nothing was told.

    Args:
        char: the letter of the dtype.
        bits: those of BLAS's whole numbers.
    """
    element, symbol, whole = FLOAT_TYPES[SIZE_OF_CHAR[char]], BLAS_SYMBOLS[char], f"i{bits}"
    words = ["count", "unused", "terms", "x_order", "y_order", "x_rows", "y_rows", "out_rows"]
    own = ["rows", "columns", "x_start", "y_start", "out_start"]
    lines = []
    for i, operand in enumerate(["x", "y", "out"], 1):
        lines += [
            f"  %{operand}_data_place = getelementptr ptr, ptr %arguments, i64 {i}",
            f"  %{operand}_data = load ptr, ptr %{operand}_data_place, align 8",
            f"  %{operand} = getelementptr i8, ptr %{operand}_data, i64 %{operand}_start",
        ]
    for order in ("x_order", "y_order"):
        lines.append(f"  %{order}_short = trunc i64 %{order} to i32")
    wholes = ("rows", "columns", "terms", "x_rows", "y_rows", "out_rows")
    shown = {n: f"{whole} %{n}" for n in wholes}
    if bits < 64:
        lines += [f"  %{n}_short = trunc i64 %{n} to {whole}" for n in wholes]
        shown = {n: f"{whole} %{n}_short" for n in wholes}
    given = [
        f"i32 {ROW_MAJOR}", "i32 %x_order_short", "i32 %y_order_short",
        shown["rows"], shown["columns"], shown["terms"], f"{element} 1.0", "ptr %x",
        shown["x_rows"], "ptr %y", shown["y_rows"], f"{element} 0.0", "ptr %out", shown["out_rows"],
    ]  # fmt: skip
    kinds = ", ".join(text.split(" ")[0] for text in given)
    module, call = Module(), Lines()
    shared_call(call, module, "%data4", "multiply_part", "%arguments", "%parts")
    part = PART_TEXT.format(
        head=loaded_words("numbers", words), own=loaded_words("own", own),
        operands="\n".join(lines), part_words=PART_WORDS, head_words=HEAD_WORDS, said=SAID_PLACE,
        noted_call=noted_call(f"@{symbol}({', '.join(given)})", "%said_place"),
    )  # fmt: skip
    # The numbers come first among the arguments of parts.
    whole_text = MULTIPLY_TEXT.format(
        loads=memory_loads(5, [3, 0, 1, 2]), shared="\n".join(call.text), said=SAID_PLACE,
        at_one_place=AT_ONE_PLACE,
    )  # fmt: skip
    declared = [f"declare void @{symbol}({kinds})", *FLAG_FUNCTIONS.values()]
    return FEW_PASSES + "\n".join(declared) + "\n" + module.text(part, whole_text)


@cache
def multiplier(char: str) -> ObjectsCall | None:
    """Returns the function of products of a dtype; None where there is none.

    It may wait for the compiler, and for that of what helpers run.
    """
    blas = numpy_blas()
    if blas is None or not c_library_tells() or not is_known():
        return None
    try:
        server()
        code = machine_code(product_text(char, blas.bits), ["multiply"])
        return objects_call(code, "multiply", 5)
    except (NativeUnavailable, NotCompiled):
        return None
