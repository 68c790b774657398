"""Asks the C library about the arithmetic of one call: NaN made, a division by zero, overflow.

`told_flags` beside it asks the processor, and knows x86-64 alone.
"""

from __future__ import annotations

import platform
import sys

from ..processor import ARM
from .c_library import c_function

__all__ = ["FLAG_FUNCTIONS", "c_library_tells", "noted_call"]

# Invalid, divided by zero, overflow, in C's numbers; and the number of all that there are.
ON_ARM = platform.machine().lower() in ARM
TOLD_FLAGS, EVERY_FLAG = (0b111, 0b11111) if ON_ARM else (0b1101, 0b111101)
# The functions, and their declarations.
FLAG_FUNCTIONS = {
    name: f"declare i32 @{name}(i32)" for name in ("feclearexcept", "fetestexcept")
}

NOTED_TEXT = """  %cleared = call i32 @feclearexcept(i32 {all_flags})
  call void {call}
  %flags = call i32 @fetestexcept(i32 {told_flags})
  %well = icmp eq i32 %flags, 0
  br i1 %well, label %end, label %tell
tell:
  %told_word = zext i32 %flags to i64
  %told = atomicrmw or ptr {place}, i64 %told_word release, align 8
  br label %end
end:
  ret void"""


def c_library_tells() -> bool:
    """Says whether it tells of them, in numbers that are known: those of Windows are others."""
    return sys.platform != "win32" and all(map(c_function, FLAG_FUNCTIONS))


def noted_call(call: str, place: str) -> str:
    """Returns the last lines of a function: a call, and a note of what was told of it.

    Args:
        call: the function that is called, and its arguments.
        place: the address of a word, to which C's numbers of what was told are added.
    """
    return NOTED_TEXT.format(call=call, place=place, all_flags=EVERY_FLAG, told_flags=TOLD_FLAGS)
