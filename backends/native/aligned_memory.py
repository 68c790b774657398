"""Arrays whose elements begin with a line of the cache, in memory of their own.

NumPy's memory begins at any multiple of 16 bytes. Then each vector of 64 bytes that is stored there
lies in two lines of the cache, and a kernel that fills megabytes takes a third longer. NumPy takes
memory by the functions of a handler, which may be another one for each array. That of these arrays
asks NumPy's own for a line more. Such an array is like any other: its memory belongs to it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from importlib import import_module
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from .array_objects import never_freed
from .instruction_sets import NativeUnavailable
from .machine import FEW_PASSES, NotCompiled, machine_code

if TYPE_CHECKING:
    from ..annotations import DType

__all__ = ["ALIGNED_FROM", "LINE", "aligned_empty"]

# The bytes of a line of the cache, and of a vector register.
LINE = 64
# Smaller arrays, in bytes, take longer to be made so than it saves.
ALIGNED_FROM = 1 << 17
# In front of the elements stand the size that was asked for, and the address of NumPy's memory.
ROOM = LINE + 16
# The places in NumPy's table of functions, which no version of NumPy 2 moves.
SET_HANDLER, DEFAULT_HANDLER = 304, 306
HANDLER, NAME = b"mem_handler", b"functensor: whole lines"
# A handler is a name of 127 bytes, its version, and five words: a context for the functions, then
# these, which take it.
WORDS_OFFSET, VERSION, ADDRESS_BYTES = 128, 1, 8
HANDLER_FUNCTIONS = ("line_malloc", "line_calloc", "line_realloc", "line_free")
MALLOC, CALLOC, FREE = 1, 2, 4

# Each function's context is that of NumPy's handler and its functions: five words.
HANDLER_TEXT = """
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare {{ i64, i1 }} @llvm.umul.with.overflow.i64(i64, i64)

define internal ptr @line_within(ptr %memory, i64 %size) {{
  %none = icmp eq ptr %memory, null
  br i1 %none, label %end, label %some
some:
  %address = ptrtoint ptr %memory to i64
  %behind = add i64 %address, {room}
  %begin = and i64 %behind, -{line}
  %offset = sub i64 %begin, %address
  %found = getelementptr i8, ptr %memory, i64 %offset
  %memory_place = getelementptr i8, ptr %found, i64 -8
  store ptr %memory, ptr %memory_place, align 8
  %size_place = getelementptr i8, ptr %found, i64 -16
  store i64 %size, ptr %size_place, align 8
  ret ptr %found
end:
  ret ptr null
}}
define ptr @line_malloc(ptr %own, i64 %size) {{
  %context = load ptr, ptr %own
  %place = getelementptr ptr, ptr %own, i64 {malloc}
  %function = load ptr, ptr %place
  %more = add i64 %size, {room}
  %memory = call ptr %function(ptr %context, i64 %more)
  %found = call ptr @line_within(ptr %memory, i64 %size)
  ret ptr %found
}}
define ptr @line_calloc(ptr %own, i64 %count, i64 %each) {{
  %pair = call {{ i64, i1 }} @llvm.umul.with.overflow.i64(i64 %count, i64 %each)
  %too_large = extractvalue {{ i64, i1 }} %pair, 1
  br i1 %too_large, label %none, label %some
some:
  %size = extractvalue {{ i64, i1 }} %pair, 0
  %context = load ptr, ptr %own
  %place = getelementptr ptr, ptr %own, i64 {calloc}
  %function = load ptr, ptr %place
  %more = add i64 %size, {room}
  %memory = call ptr %function(ptr %context, i64 1, i64 %more)
  %found = call ptr @line_within(ptr %memory, i64 %size)
  ret ptr %found
none:
  ret ptr null
}}
define void @line_free(ptr %own, ptr %given, i64 %size) {{
  %none = icmp eq ptr %given, null
  br i1 %none, label %end, label %some
some:
  %context = load ptr, ptr %own
  %place = getelementptr ptr, ptr %own, i64 {free}
  %function = load ptr, ptr %place
  %memory_place = getelementptr i8, ptr %given, i64 -8
  %memory = load ptr, ptr %memory_place, align 8
  %size_place = getelementptr i8, ptr %given, i64 -16
  %had = load i64, ptr %size_place, align 8
  %more = add i64 %had, {room}
  call void %function(ptr %context, ptr %memory, i64 %more)
  br label %end
end:
  ret void
}}
define ptr @line_realloc(ptr %own, ptr %given, i64 %size) {{
  %new = call ptr @line_malloc(ptr %own, i64 %size)
  %failed = icmp eq ptr %new, null
  %from_none = icmp eq ptr %given, null
  %no_copy = or i1 %failed, %from_none
  br i1 %no_copy, label %end, label %copy
copy:
  %size_place = getelementptr i8, ptr %given, i64 -16
  %had = load i64, ptr %size_place, align 8
  %shorter = icmp ult i64 %had, %size
  %both = select i1 %shorter, i64 %had, i64 %size
  call void @llvm.memcpy.p0.p0.i64(ptr %new, ptr %given, i64 %both, i1 false)
  call void @line_free(ptr %own, ptr %given, i64 %had)
  br label %end
end:
  ret ptr %new
}}
"""


def aligned_empty(shape: tuple[int, ...], dtype: DType) -> Any:
    """Returns what `numpy.empty` does; the elements of a large array begin a line of the cache.

    They may lie anywhere where kernels cannot be compiled, or the user has chosen a handler.

    >>> aligned_empty((3, 100), np.dtype("float32")).shape
    (3, 100)
    """
    change = handler_change() if prod(shape) * dtype.itemsize >= ALIGNED_FROM else None
    if change is None:
        return np.empty(shape, dtype)
    set_handler, own, numpys = change
    before = set_handler(own)
    try:
        if before is numpys:
            return np.empty(shape, dtype)
    finally:
        set_handler(before)
    return np.empty(shape, dtype)


@cache
def handler_change() -> tuple[Callable[[Any], Any], Any, Any] | None:
    """Returns what changes the handler, that of such arrays, and NumPy's own; None without."""
    python = getattr(ctypes, "pythonapi", None)
    if python is None:
        return None
    pointer, text, anything = ctypes.c_void_p, ctypes.c_char_p, ctypes.py_object
    pointer_of: Any = ctypes.PYFUNCTYPE(pointer, anything, text)(("PyCapsule_GetPointer", python))
    capsule: Any = ctypes.PYFUNCTYPE(anything, pointer, text, pointer)(("PyCapsule_New", python))
    places = {"malloc": MALLOC, "calloc": CALLOC, "free": FREE}
    try:
        written = HANDLER_TEXT.format(line=LINE, room=ROOM, **places)
        code = machine_code(FEW_PASSES + written, HANDLER_FUNCTIONS)
    except (NativeUnavailable, NotCompiled):
        return None
    table = pointer_of(import_module("numpy._core._multiarray_umath")._ARRAY_API, None)
    words = ctypes.cast(table, ctypes.POINTER(pointer))
    numpys = ctypes.cast(words[DEFAULT_HANDLER], ctypes.POINTER(anything))[0]
    memory = never_freed(np.zeros(WORDS_OFFSET + 5 * ADDRESS_BYTES, np.uint8))
    memory[: len(NAME)] = list(NAME)
    memory[WORDS_OFFSET - 1] = VERSION
    inner = pointer_of(numpys, HANDLER) + WORDS_OFFSET
    memory[WORDS_OFFSET:].view(np.uintp)[:] = [inner, *map(code.address, HANDLER_FUNCTIONS)]
    change = ctypes.PYFUNCTYPE(anything, anything)(words[SET_HANDLER])
    # Arrays may live longer than all modules do, and a capsule has only the address of its name.
    never_freed(code)
    return change, never_freed(capsule(memory.ctypes.data, never_freed(HANDLER), None)), numpys
