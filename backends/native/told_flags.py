"""Asks the processor about the arithmetic of a thread: overflow, a division by zero, NaN made.

Its flags are set by each sum, product, quotient and root of numbers, and by casts to fewer bits,
and stay until they are cleared. Helpers add them to the memory of the team whose part they have
computed. Without LLVM's functions for the flags, which are those of x86-64, nothing is told.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from ..processor import IS_X86_64
from .array_objects import OBJECT_HEADER, is_known
from .entry import objects_call
from .instruction_sets import NativeUnavailable
from .machine import FEW_PASSES, NotCompiled, machine_code

if TYPE_CHECKING:
    from .code import Code
    from .entry import ObjectsCall

__all__ = [
    *("ALL_TOLD", "flag_texts", "flags_told_to", "forgotten_flags", "told_call", "told_code"),
    "told_words",
]

# The flags, in NumPy's words for them, and the number of all that the processor has.
FLAG_WORDS = {0b1: "invalid value", 0b100: "divide by zero", 0b1000: "overflow"}
ALL_TOLD, ALL_FLAGS = sum(FLAG_WORDS), 0b111111

TELL_TEXT = f"""
declare void @llvm.x86.sse.stmxcsr(ptr)
declare void @llvm.x86.sse.ldmxcsr(ptr)

define internal void @tell_flags(ptr %told) noinline {{
  %room = alloca i32, align 4
  call void @llvm.x86.sse.stmxcsr(ptr %room)
  %word = load i32, ptr %room, align 4
  %flags = and i32 %word, {ALL_TOLD}
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

# The function of a segment, whose address is in the first word of an array. What was told of it is
# added to the second.
CALL_TEXT = f"""
define i64 @told_call(ptr %objects) {{
  %object = load ptr, ptr %objects
  %data_place = getelementptr i8, ptr %object, i64 {OBJECT_HEADER}
  %words = load ptr, ptr %data_place
  %function = load ptr, ptr %words
  %told = getelementptr i64, ptr %words, i64 1
  %given = getelementptr ptr, ptr %objects, i64 1
  %forgotten = alloca i64, align 8
  store i64 0, ptr %forgotten, align 8
  call void @tell_flags(ptr %forgotten)
  %status = call i64 %function(ptr %given)
  call void @tell_flags(ptr %told)
  ret i64 %status
}}"""


def flag_texts() -> dict[str, str]:
    """Returns the functions that tell, by their names; none where nothing is told."""
    return {"tell_flags": TELL_TEXT} if IS_X86_64 else {}


def forgotten_flags() -> str:
    """Returns lines by which a thread clears its flags: they are of work that is over."""
    if not IS_X86_64:
        return ""
    return """%forgotten = alloca i64, align 8
  store i64 0, ptr %forgotten, align 8
  call void @tell_flags(ptr %forgotten)"""


def flags_told_to(place: str) -> str:
    """Returns a line by which a thread adds its flags to a word at an address, and clears them."""
    return f"call void @tell_flags(ptr {place})" if IS_X86_64 else ""


# Operations of two vectors, by the flag that they set for the numbers behind it.
PROBES = {0b1: ("fdiv", 0.0, 0.0), 0b100: ("fdiv", 1.0, 0.0), 0b1000: ("fmul", 1e38, 1e38)}


def probe_text(operation: str) -> str:
    """Returns the text of a function that applies an operation to the vectors of an array."""
    return f"""
define i64 @probe_{operation}(ptr %objects) {{
  %object = load ptr, ptr %objects
  %data_place = getelementptr i8, ptr %object, i64 {OBJECT_HEADER}
  %data = load ptr, ptr %data_place
  %second = getelementptr i8, ptr %data, i64 16
  %x = load volatile <4 x float>, ptr %data, align 4
  %y = load volatile <4 x float>, ptr %second, align 4
  %found = {operation} <4 x float> %x, %y
  store volatile <4 x float> %found, ptr %data, align 4
  ret i64 0
}}"""


@cache
def told_code() -> Code | None:
    """Returns the code of the function that calls others; None where nothing is told.

    It is tried: an emulated processor may tell nothing.
    """
    if not IS_X86_64 or not is_known():
        return None
    operations = sorted({operation for operation, *_ in PROBES.values()})
    names = [f"probe_{operation}" for operation in operations]
    text = FEW_PASSES + TELL_TEXT + CALL_TEXT + "".join(map(probe_text, operations))
    try:
        code = machine_code(text, ["told_call", *names])
    except (NativeUnavailable, NotCompiled):
        return None
    call = objects_call(code, "told_call", 2, keeps_lock=True)
    for flag, (operation, *numbers) in PROBES.items():
        # The number stands last.
        for given, told in ((numbers, flag), ((1.0, 1.0), 0)):
            vectors = np.ones((2, 4), np.float32)
            vectors[:, -1] = given
            words = np.array([code.address(f"probe_{operation}"), 0], np.uintp)
            call(words, vectors)
            if int(words[1]) != told:
                return None
    return code


def told_call(code: Code, name: str, objects: int, *, keeps_lock: bool) -> ObjectsCall:
    """Returns a compiled function of objects as one that notes what the processor tells of it.

    No code of Python's comes between the function and the note. Python's own could clear the flags.

    Args:
        code: what holds the function.
        name: its name.
        objects: how many objects it takes.
        keeps_lock: whether other threads of Python wait meanwhile.

    Returns:
        A function that is given an array of two words, the first of which is the function's
        address, and the objects. What was told is added to the second word.
    """
    way = told_code()
    assert way is not None
    return objects_call(way, "told_call", objects + 1, keeps_lock=keeps_lock)


def told_words(flags: int) -> list[str]:
    """Returns NumPy's words for flags."""
    return [words for flag, words in FLAG_WORDS.items() if flags & flag]
