"""What the processor tells of the arithmetic of a thread: overflow, a division by zero, NaN made.

Its flags are set by each sum, product, quotient and root of numbers, and by casts to fewer bits,
and stay until they are cleared. Helpers add them to the memory of the team whose part they have
computed. Without LLVM's functions for the flags, which are those of x86-64, nothing is told.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from ..processor import IS_X86_64
from .array_objects import OBJECT_HEADER, is_known
from .entry import objects_call
from .instruction_sets import NativeUnavailable
from .machine import FEW_PASSES, NotCompiled, machine_code

__all__ = ["FLAG_TEXTS", "FLAG_WORDS", "flag_taker", "forgotten_flags", "told_words"]

# The flags, in NumPy's words for them, and the number of all that the processor has.
FLAG_WORDS = {0b1: "invalid value", 0b100: "divide by zero", 0b1000: "overflow"}
TOLD_FLAGS, ALL_FLAGS = sum(FLAG_WORDS), 0b111111

TELL_TEXT = f"""
declare void @llvm.x86.sse.stmxcsr(ptr)
declare void @llvm.x86.sse.ldmxcsr(ptr)

define internal void @tell_flags(ptr %told) noinline {{
  %room = alloca i32, align 4
  call void @llvm.x86.sse.stmxcsr(ptr %room)
  %word = load i32, ptr %room, align 4
  %flags = and i32 %word, {TOLD_FLAGS}
  %nothing = icmp eq i32 %flags, 0
  br i1 %nothing, label %end, label %tell
tell:
  %wide = zext i32 %flags to i64
  %before = atomicrmw or ptr %told, i64 %wide monotonic, align 8
  %cleared = and i32 %word, {~ALL_FLAGS}
  store i32 %cleared, ptr %room, align 4
  call void @llvm.x86.sse.ldmxcsr(ptr %room)
  br label %end
end:
  ret void
}}"""

TAKE_FLAGS_TEXT = f"""
define i64 @take_flags(ptr %objects) {{
  %object = load ptr, ptr %objects
  %data_place = getelementptr i8, ptr %object, i64 {OBJECT_HEADER}
  %told = load ptr, ptr %data_place
  call void @tell_flags(ptr %told)
  ret i64 0
}}"""

# The functions that tell, by their names.
FLAG_TEXTS = {"tell_flags": TELL_TEXT} if IS_X86_64 else {}

def forgotten_flags() -> str:
    """Returns lines by which a thread clears its flags: they are of work that is over."""
    if not FLAG_TEXTS:
        return ""
    return """%forgotten = alloca i64, align 8
  store i64 0, ptr %forgotten, align 8
  call void @tell_flags(ptr %forgotten)"""

@cache
def flag_taker() -> Callable[[Any], None] | None:
    """Returns what clears the flags of the thread, and adds them to the first word of an array.

    It is None where the processor tells nothing.
    """
    if not FLAG_TEXTS or not is_known():
        return None
    try:
        code = machine_code(FEW_PASSES + TELL_TEXT + TAKE_FLAGS_TEXT, ["take_flags"])
        return objects_call(code, "take_flags", 1, keeps_lock=True)
    except (NativeUnavailable, NotCompiled):
        return None

def told_words(flags: int) -> list[str]:
    """Returns NumPy's words for flags."""
    return [words for flag, words in FLAG_WORDS.items() if flags & flag]
