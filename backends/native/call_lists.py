"""Lists of calls of NumPy's own loops, which machine code makes for each item of a stack.

An item is a matrix of a stack, or a block of rows. All items of a run have the same calls, each
with its own memory. NumPy makes the same calls of the same loops, so the bits are the same; but
here no Python comes between two calls, and threads share the items without waiting for its lock.
Beside the loops over elements there are those of products, which call BLAS.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from .array_objects import is_known, memory_loads
from .c_library_flags import FLAG_FUNCTIONS, c_library_tells, noted_call
from .entry import objects_call
from .instruction_sets import NativeUnavailable
from .instructions import Lines
from .machine import FEW_PASSES, NotCompiled, machine_code
from .printer import Module
from .team import server, shared_call

if TYPE_CHECKING:
    from .entry import ObjectsCall

__all__ = [
    "CALL_WORDS", "HEAD_WORDS_OF_LIST", "MOST_CALL_DIMS", "MOST_CALL_OPERANDS", "MOST_CALL_STRIDES",
    "list_runner",
]  # fmt: skip

# The words that describe a run: how many parts it has, how many items in all and in a part, how
# many memories an item has, and how many calls. Then for each call the addresses of the loop and of
# its data, how often it is repeated, the lengths of its loops; for each operand the number of the
# memory in which it lies, where it begins there, and how many bytes further for the next time; and
# the strides, as the loop takes them.
HEAD_WORDS_OF_LIST, MOST_CALL_DIMS, MOST_CALL_OPERANDS, MOST_CALL_STRIDES = 5, 4, 10, 10
DIMS_PLACE = 3
OPERANDS_PLACE = DIMS_PLACE + MOST_CALL_DIMS
STRIDES_PLACE = OPERANDS_PLACE + 3 * MOST_CALL_OPERANDS
CALL_WORDS = STRIDES_PLACE + MOST_CALL_STRIDES

# The places are those of all memories of all items; the first word gets what is told of the
# arithmetic.
LIST_TEXT = """
define internal void @run_items(ptr %words, ptr %places, i64 %part) noinline {{
entry:
  %args = alloca ptr, i64 {operands}, align 16
{head}
  %first = mul i64 %part, %in_part
  %behind = add i64 %first, %in_part
  %end = call i64 @llvm.smin.i64(i64 %behind, i64 %items)
  %list = getelementptr i64, ptr %words, i64 {head_words}
  %table = getelementptr i64, ptr %places, i64 1
  br label %item_head
item_head:
  %item = phi i64 [ %first, %entry ], [ %next_item, %item_end ]
  %more = icmp slt i64 %item, %end
  br i1 %more, label %item_body, label %done
item_body:
  %row = mul i64 %item, %memories
  %bases = getelementptr ptr, ptr %table, i64 %row
  br label %call_head
call_head:
  %i = phi i64 [ 0, %item_body ], [ %next_i, %call_end ]
  %goes = icmp slt i64 %i, %calls
  br i1 %goes, label %call_body, label %item_end
call_body:
  %from = mul i64 %i, {call_words}
  %own = getelementptr i64, ptr %list, i64 %from
  %loop = load ptr, ptr %own, align 8
  %data_place = getelementptr i64, ptr %own, i64 1
  %data = load ptr, ptr %data_place, align 8
  %times_place = getelementptr i64, ptr %own, i64 2
  %times = load i64, ptr %times_place, align 8
  %dims = getelementptr i64, ptr %own, i64 {dims}
  %strides = getelementptr i64, ptr %own, i64 {strides}
{read_operands}
  br label %time_head
time_head:
  %time = phi i64 [ 0, %call_body ], [ %next_time, %time_body ]
  %again = icmp slt i64 %time, %times
  br i1 %again, label %time_body, label %call_end
time_body:
{set_operands}
  call void %loop(ptr %args, ptr %dims, ptr %strides, ptr %data)
  %next_time = add i64 %time, 1
  br label %time_head
call_end:
  %next_i = add i64 %i, 1
  br label %call_head
item_end:
  %next_item = add i64 %item, 1
  br label %item_head
done:
  ret void
}}

define internal void @run_part(ptr %arguments, i64 %part) noinline {{
  %words = load ptr, ptr %arguments, align 8
  %second = getelementptr ptr, ptr %arguments, i64 1
  %places = load ptr, ptr %second, align 8
{noted_call}
}}"""

READ_TEXT = """  %memory_place{i} = getelementptr i64, ptr %own, i64 {at}
  %memory{i} = load i64, ptr %memory_place{i}, align 8
  %base_place{i} = getelementptr ptr, ptr %bases, i64 %memory{i}
  %base{i} = load ptr, ptr %base_place{i}, align 8
  %begin_place{i} = getelementptr i64, ptr %own, i64 {begin}
  %begin{i} = load i64, ptr %begin_place{i}, align 8
  %start{i} = getelementptr i8, ptr %base{i}, i64 %begin{i}
  %step_place{i} = getelementptr i64, ptr %own, i64 {step}
  %step{i} = load i64, ptr %step_place{i}, align 8"""

SET_TEXT = """  %moved{i} = mul i64 %time, %step{i}
  %operand{i} = getelementptr i8, ptr %start{i}, i64 %moved{i}
  %args_place{i} = getelementptr ptr, ptr %args, i64 {i}
  store ptr %operand{i}, ptr %args_place{i}, align 8"""

RUN_TEXT = """
define i64 @run_list(ptr %objects) {{
entry:
  %arguments = alloca ptr, i64 2, align 16
{loads}
  store ptr %data0, ptr %arguments, align 8
  %second = getelementptr ptr, ptr %arguments, i64 1
  store ptr %data1, ptr %second, align 8
  store i64 0, ptr %data1, align 8
  %parts = load i64, ptr %data0, align 8
{shared}
  %told = load atomic i64, ptr %data1 acquire, align 8
  ret i64 %told
}}"""


def list_text() -> str:
    """Returns the text of the function that runs a list.

    It takes the words that describe the run, the places of memories, and the team's memory. It
    returns 0 if nothing was told.
    """
    head = []
    for i, word in enumerate(["parts", "items", "in_part", "memories", "calls"]):
        head += [
            f"  %{word}_place = getelementptr i64, ptr %words, i64 {i}",
            f"  %{word} = load i64, ptr %{word}_place, align 8",
        ]
    operands = range(MOST_CALL_OPERANDS)
    starts = [OPERANDS_PLACE + 3 * i for i in operands]
    read = [READ_TEXT.format(i=i, at=at, begin=at + 1, step=at + 2) for i, at in enumerate(starts)]
    part = LIST_TEXT.format(
        operands=MOST_CALL_OPERANDS, head="\n".join(head), head_words=HEAD_WORDS_OF_LIST,
        call_words=CALL_WORDS, dims=DIMS_PLACE, strides=STRIDES_PLACE,
        read_operands="\n".join(read),
        set_operands="\n".join(SET_TEXT.format(i=i) for i in operands),
        noted_call=noted_call("@run_items(ptr %words, ptr %places, i64 %part)", "%places"),
    )  # fmt: skip
    module, call = Module(), Lines()
    shared_call(call, module, "%data2", "run_part", "%arguments", "%parts")
    run = RUN_TEXT.format(loads=memory_loads(3), shared="\n".join(call.text))
    declared = ["declare i64 @llvm.smin.i64(i64, i64)", *FLAG_FUNCTIONS.values()]
    return FEW_PASSES + "\n".join(declared) + "\n" + module.text(part, run)


@cache
def list_runner() -> ObjectsCall | None:
    """Returns the function that runs lists of calls; None where there is none.

    It may wait for the compiler, and for that of what helpers run.
    """
    if not c_library_tells() or not is_known():
        return None
    try:
        server()
        return objects_call(machine_code(list_text(), ["run_list"]), "run_list", 3)
    except (NativeUnavailable, NotCompiled):
        return None
