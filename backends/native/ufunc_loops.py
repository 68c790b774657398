"""NumPy's own loops over elements, which machine code calls one behind the other, block by block.

A kernel of many passes over a block in the cache becomes a list of calls. NumPy makes the same
calls, so the bits are the same. But Python comes between two of NumPy's, and threads that share
work wait for its lock there, longer than for a pass over a block.

Where the addresses of loops stand in a ufunc is public in C (``PyUFuncObject``). `loop_of` proves
on each ufunc that the words around them are what they should be.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from .array_objects import OBJECT_HEADER, is_known
from .entry import objects_call
from .instruction_sets import NativeUnavailable
from .instructions import Lines
from .machine import FEW_PASSES, NotCompiled, machine_code
from .printer import Module
from .team import server, shared_call

if TYPE_CHECKING:
    from .entry import ObjectsCall

__all__ = ["MOST_OPERANDS", "WORDS_OF_RUN", "address_of_loop", "loops_runner"]

# The words that describe a run: how many parts it has, how many elements in all and in a block, how
# many blocks in all and in a part, and the number of calls. Then for each call the addresses of the
# loop and of its data; and for each operand the number of the memory in which it lies, where it
# begins there, how many bytes further for the next block and for the next part, and its stride.
WORDS_OF_RUN, CALL_WORDS, OPERAND_WORDS, MOST_OPERANDS = 6, 2, 5, 4
# Where the words of a ufunc stand behind the header of its object: numbers of operands and of
# loops, and the addresses of loops, of their data and of the numbers of their dtypes.
NIN, NOUT, NARGS, LOOP_ADDRESSES, DATA, NTYPES, LOOP_DTYPES = 0, 4, 8, 16, 24, 32, 48

TEXT_OF_PART = """
define internal void @run_part(ptr %arguments, i64 %part) noinline {{
entry:
  %args = alloca ptr, i64 {operands}, align 16
  %strides = alloca i64, i64 {operands}, align 16
  %length = alloca i64, align 8
  %words = load ptr, ptr %arguments, align 8
  %bases_place = getelementptr ptr, ptr %arguments, i64 1
  %bases = load ptr, ptr %bases_place, align 8
{head}
  %first = mul i64 %part, %in_part
  %behind = add i64 %first, %in_part
  %end = call i64 @llvm.smin.i64(i64 %behind, i64 %blocks)
  %calls_end = getelementptr i64, ptr %words, i64 {head_words}
  br label %block_head
block_head:
  %number = phi i64 [ %first, %entry ], [ %next_number, %block_end ]
  %more = icmp slt i64 %number, %end
  br i1 %more, label %block_body, label %done
block_body:
  %start = mul i64 %number, %block
  %left = sub i64 %total, %start
  %count = call i64 @llvm.smin.i64(i64 %left, i64 %block)
  store i64 %count, ptr %length, align 8
  br label %call_head
call_head:
  %i = phi i64 [ 0, %block_body ], [ %next_i, %call_body ]
  %goes = icmp slt i64 %i, %calls
  br i1 %goes, label %call_body, label %block_end
call_body:
  %from = mul i64 %i, {call_words}
  %own = getelementptr i64, ptr %calls_end, i64 %from
  %loop = load ptr, ptr %own, align 8
  %data_place = getelementptr i64, ptr %own, i64 1
  %data = load ptr, ptr %data_place, align 8
{set_operands}
  call void %loop(ptr %args, ptr %length, ptr %strides, ptr %data)
  %next_i = add i64 %i, 1
  br label %call_head
block_end:
  %next_number = add i64 %number, 1
  br label %block_head
done:
  ret void
}}"""

OPERAND_TEXT = """  %base_place{i} = getelementptr i64, ptr %own, i64 {at}
  %base_number{i} = load i64, ptr %base_place{i}, align 8
  %base_address{i} = getelementptr ptr, ptr %bases, i64 %base_number{i}
  %base{i} = load ptr, ptr %base_address{i}, align 8
  %begin_place{i} = getelementptr i64, ptr %own, i64 {begin}
  %begin{i} = load i64, ptr %begin_place{i}, align 8
  %by_block_place{i} = getelementptr i64, ptr %own, i64 {by_block}
  %by_block{i} = load i64, ptr %by_block_place{i}, align 8
  %by_part_place{i} = getelementptr i64, ptr %own, i64 {by_part}
  %by_part{i} = load i64, ptr %by_part_place{i}, align 8
  %stride_place{i} = getelementptr i64, ptr %own, i64 {stride}
  %stride{i} = load i64, ptr %stride_place{i}, align 8
  %of_block{i} = mul i64 %number, %by_block{i}
  %of_part{i} = mul i64 %part, %by_part{i}
  %both{i} = add i64 %of_block{i}, %of_part{i}
  %offset{i} = add i64 %both{i}, %begin{i}
  %operand{i} = getelementptr i8, ptr %base{i}, i64 %offset{i}
  %args_place{i} = getelementptr ptr, ptr %args, i64 {i}
  store ptr %operand{i}, ptr %args_place{i}, align 8
  %strides_place{i} = getelementptr i64, ptr %strides, i64 {i}
  store i64 %stride{i}, ptr %strides_place{i}, align 8"""

RUN_TEXT = """
define i64 @run_loops(ptr %objects) {{
entry:
  %arguments = alloca ptr, i64 2, align 16
{loads}
  store ptr %data0, ptr %arguments, align 8
  %second = getelementptr ptr, ptr %arguments, i64 1
  store ptr %data1, ptr %second, align 8
  %parts = load i64, ptr %data0, align 8
{shared}
  ret i64 0
}}"""


def address_of_loop(ufunc: np.ufunc, chars: str) -> tuple[int, int] | None:
    """Returns the addresses of a ufunc's loop and of the loop's data; None where it has none.

    Args:
        ufunc: one of NumPy's.
        chars: the letters of the dtypes of its operands and of its result.
    """
    shown = f"{chars[: ufunc.nin]}->{chars[ufunc.nin :]}"
    if shown not in ufunc.types or not has_known_words(ufunc):
        return None
    place = 8 * ufunc.types.index(shown)
    begin = id(ufunc) + OBJECT_HEADER
    loops, data = (word_at(begin + offset) for offset in (LOOP_ADDRESSES, DATA))
    return word_at(loops + place), word_at(data + place) if data else 0


def has_known_words(ufunc: np.ufunc) -> bool:
    """Says whether the words of a ufunc stand where they are looked for."""
    begin = id(ufunc) + OBJECT_HEADER
    numbers = {NIN: ufunc.nin, NOUT: ufunc.nout, NARGS: ufunc.nargs, NTYPES: ufunc.ntypes}
    if type(ufunc) is not np.ufunc or any(
        ctypes.c_int32.from_address(begin + offset).value != number
        for offset, number in numbers.items()
    ):
        return False
    codes = [np.dtype(char).num for shown in ufunc.types for char in shown.replace("->", "")]
    return ctypes.string_at(word_at(begin + LOOP_DTYPES), len(codes)) == bytes(codes)


def word_at(address: int) -> int:
    """Returns a word of memory."""
    return ctypes.c_void_p.from_address(address).value or 0


def runner_text() -> str:
    """Returns the text of the function that runs loops.

    It takes the words that describe a run, the addresses of the memory, and the team's memory.
    """
    words = ["parts", "total", "block", "blocks", "in_part", "calls"]
    head = []
    for i, word in enumerate(words):
        head += [
            f"  %{word}_place = getelementptr i64, ptr %words, i64 {i}",
            f"  %{word} = load i64, ptr %{word}_place, align 8",
        ]
    operands = []
    for i in range(MOST_OPERANDS):
        at = CALL_WORDS + OPERAND_WORDS * i
        places = {"begin": at + 1, "by_block": at + 2, "by_part": at + 3, "stride": at + 4}
        operands.append(OPERAND_TEXT.format(i=i, at=at, **places))
    part = TEXT_OF_PART.format(
        operands=MOST_OPERANDS, head="\n".join(head), head_words=WORDS_OF_RUN,
        call_words=CALL_WORDS + OPERAND_WORDS * MOST_OPERANDS, set_operands="\n".join(operands),
    )  # fmt: skip
    loads = []
    for i in range(3):
        loads += [
            f"  %object{i}_place = getelementptr ptr, ptr %objects, i64 {i}",
            f"  %object{i} = load ptr, ptr %object{i}_place, align 8",
            f"  %data{i}_place = getelementptr i8, ptr %object{i}, i64 {OBJECT_HEADER}",
            f"  %data{i} = load ptr, ptr %data{i}_place, align 8",
        ]
    module, call = Module(), Lines()
    shared_call(call, module, "%data2", "run_part", "%arguments", "%parts")
    run = RUN_TEXT.format(loads="\n".join(loads), shared="\n".join(call.text))
    return f"{FEW_PASSES}declare i64 @llvm.smin.i64(i64, i64)\n{module.text(part, run)}"


@cache
def loops_runner() -> ObjectsCall | None:
    """Returns the function that runs loops; None where there is none.

    It may wait for the compiler, and for that of what helpers run.
    """
    if not is_known():
        return None
    try:
        server()
        return objects_call(machine_code(runner_text(), ["run_loops"]), "run_loops", 3)
    except (NativeUnavailable, NotCompiled):
        return None
