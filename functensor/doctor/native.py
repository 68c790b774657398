"""Machine code on the CPU: llvmlite, the processor's vectors, and a kernel that is compiled."""

from __future__ import annotations

from collections.abc import Iterator
from time import perf_counter

import numpy as np

from ..backends.native.entry import NativeCall, kernel_call
from ..backends.native.machine import COMMAND, instruction_set, llvm_version, machine_code, why_not
from ..backends.native.object_cache import ObjectCache, user_cache
from .finding import ABSENT, PRESENT, WRONG, Finding, first_line
from .trials import in_milliseconds

__all__ = ["native"]

LENGTH = 8192
# A square and a sum, which are rounded each: by vectors of all lanes.
KERNEL_TEXT = """
define void @kernel(i64 %number, i64 %low, i64 %high, ptr %scratch, ptr %buffers) {{
  %in = load ptr, ptr %buffers
  %second = getelementptr ptr, ptr %buffers, i64 1
  %out = load ptr, ptr %second
  br label %head
head:
  %i = phi i64 [%low, %0], [%next, %body]
  %goes = icmp slt i64 %i, %high
  br i1 %goes, label %body, label %end
body:
  %from = getelementptr float, ptr %in, i64 %i
  %to = getelementptr float, ptr %out, i64 %i
  %x = load <{lanes} x float>, ptr %from, align 4
  %square = fmul <{lanes} x float> %x, %x
  %sum = fadd <{lanes} x float> %square, %x
  store <{lanes} x float> %sum, ptr %to, align 4
  %next = add i64 %i, {lanes}
  br label %head
end:
  ret void
}}
"""


def native() -> Iterator[Finding]:
    """Yields whether kernels can be compiled, and what one gave."""
    name = "cpu native"
    why = why_not()
    if why:
        command = COMMAND if COMMAND in why else ""
        if "FUNCTENSOR_NATIVE" in why:
            command = "unset FUNCTENSOR_NATIVE"
        yield Finding("devices", name, ABSENT, why.removesuffix(f": {COMMAND}"), command)
        return
    try:
        state, what = kernel_trial()
    # Whatever goes wrong is what is to be reported.
    except Exception as error:
        mend = "pip install --force-reinstall --no-deps llvmlite"
        yield Finding("devices", name, WRONG, first_line(error), mend)
        return
    yield Finding("devices", name, state, what)
    folder = user_cache().folder
    where = "no folder: they are not kept" if folder is None else str(folder)
    yield Finding("devices", "cpu native objects", PRESENT, where)


def kernel_trial() -> tuple[str, str]:
    """Returns the state of a kernel's trial, and what it used and took."""
    found = instruction_set()
    start = perf_counter()
    # The time is that of compiling, and not of the disk.
    text = KERNEL_TEXT.format(lanes=found.vector_bytes // 4)
    code = machine_code(text, ["kernel"], ObjectCache(None))
    taken = in_milliseconds(perf_counter() - start)
    run: NativeCall = kernel_call(code, "kernel", 2)
    x = np.linspace(-4.0, 4.0, LENGTH, dtype="float32")
    out, times = np.empty_like(x), []
    for _ in range(5):
        start = perf_counter()
        run(0, 0, LENGTH, None, x, out)
        times.append(perf_counter() - start)
    how = "called by ctypes" if hasattr(run, "code") else "called as built-in functions"
    shown = f"LLVM {llvm_version()}, {found.name} of {found.processor}, {how}; a kernel was "
    shown += f"compiled in {taken}, and ran in {in_milliseconds(min(times))}"
    if not np.array_equal(out, x * x + x):
        return WRONG, f"{shown}; WRONG NUMBERS: off by {abs(out - (x * x + x)).max():.2g}"
    return PRESENT, f"{shown}; the numbers are right"
