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
    "MOST_LISTED_ARRAYS", "list_runner",
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

# How many arrays an item may lie in, its spare memory beside them.
MOST_LISTED_ARRAYS = 12
# The objects in front of these: the words, where every item's memories begin in the arrays, the
# word that gets what is told of the arithmetic, and the team's memory.
OBJECTS_OF_LIST = 4

# The arguments are the memories of these objects but the team's, and those of the arrays.
LIST_TEXT = """
define internal void @run_items(ptr %words, ptr %arguments, i64 %part) noinline {{
entry:
  %args = alloca ptr, i64 {operands}, align 16
{head}
  %first = mul i64 %part, %in_part
  %behind = add i64 %first, %in_part
  %end = call i64 @llvm.smin.i64(i64 %behind, i64 %items)
  %list = getelementptr i64, ptr %words, i64 {head_words}
  %table_place = getelementptr ptr, ptr %arguments, i64 1
  %table = load ptr, ptr %table_place, align 8
  %arrays = getelementptr ptr, ptr %arguments, i64 3
  br label %item_head
item_head:
  %item = phi i64 [ %first, %entry ], [ %next_item, %item_end ]
  %more = icmp slt i64 %item, %end
  br i1 %more, label %item_body, label %done
item_body:
  %row = mul i64 %item, %memories
  %bases = getelementptr i64, ptr %table, i64 %row
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
  %third = getelementptr ptr, ptr %arguments, i64 2
  %said_place = load ptr, ptr %third, align 8
{noted_call}
}}"""

READ_TEXT = """  %memory_place{i} = getelementptr i64, ptr %own, i64 {at}
  %memory{i} = load i64, ptr %memory_place{i}, align 8
  %array_place{i} = getelementptr ptr, ptr %arrays, i64 %memory{i}
  %array{i} = load ptr, ptr %array_place{i}, align 8
  %base_place{i} = getelementptr i64, ptr %bases, i64 %memory{i}
  %base{i} = load i64, ptr %base_place{i}, align 8
  %begin_place{i} = getelementptr i64, ptr %own, i64 {begin}
  %begin{i} = load i64, ptr %begin_place{i}, align 8
  %distance{i} = add i64 %base{i}, %begin{i}
  %start{i} = getelementptr i8, ptr %array{i}, i64 %distance{i}
  %step_place{i} = getelementptr i64, ptr %own, i64 {step}
  %step{i} = load i64, ptr %step_place{i}, align 8"""

SET_TEXT = """  %moved{i} = mul i64 %time, %step{i}
  %operand{i} = getelementptr i8, ptr %start{i}, i64 %moved{i}
  %args_place{i} = getelementptr ptr, ptr %args, i64 {i}
  store ptr %operand{i}, ptr %args_place{i}, align 8"""

# The last memory of an item is all that there is, which begins nowhere.
RUN_TEXT = """
define i64 @run_list(ptr %objects) {{
entry:
  %arguments = alloca ptr, i64 {arguments}, align 16
{loads}
  %memories_place = getelementptr i64, ptr %data0, i64 3
  %memories = load i64, ptr %memories_place, align 8
  %number = add i64 %memories, 2
  %last = getelementptr ptr, ptr %arguments, i64 %number
  store ptr null, ptr %last, align 8
  store i64 0, ptr %data2, align 8
  %parts = load i64, ptr %data0, align 8
{shared}
  %told = load atomic i64, ptr %data2 acquire, align 8
  ret i64 %told
}}"""


def list_text() -> str:
    """Returns the text of the function that runs a list.

    It takes the objects of a list, and behind them arrays, of which there are always as many. It
    returns 0 if nothing was told.
    """
    objects = OBJECTS_OF_LIST + MOST_LISTED_ARRAYS
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
        noted_call=noted_call("@run_items(ptr %words, ptr %arguments, i64 %part)", "%said_place"),
    )  # fmt: skip
    module, call = Module(), Lines()
    shared_call(call, module, "%data3", "run_part", "%arguments", "%parts")
    arguments = [0, 1, 2, *range(OBJECTS_OF_LIST, objects)]
    # The arrays have one place more, for the memory that begins nowhere.
    run = RUN_TEXT.format(
        arguments=objects,
        loads=memory_loads(objects, arguments),
        shared="\n".join(call.text),
    )
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
        objects = OBJECTS_OF_LIST + MOST_LISTED_ARRAYS
        return objects_call(machine_code(list_text(), ["run_list"]), "run_list", objects)
    except (NativeUnavailable, NotCompiled):
        return None
