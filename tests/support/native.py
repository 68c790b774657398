"""LLVM IR for tests of native code, and programs that run in processes of their own."""

import ctypes
import mmap
import os
import subprocess
import sys

import numpy as np

from functensor.backends.native.machine import machine_code, why_not
from functensor.backends.native.object_cache import ObjectCache
from functensor.backends.native.printer import printed_module
from functensor.backends.native.scratch import SCRATCH_ALIGNMENT, scratch_bytes
from functensor.backends.processor import IS_ARM64

LOOP = """
declare float @sinf(float)
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
  %x = load float, ptr %from
  %y = call float @sinf(float %x)
  %z = fmul float %y, {factor}
  store float %z, ptr %to
  %next = add i64 %i, 1
  br label %head
end:
  ret void
}}
"""
# A jump of x86-64 reaches 2 GiB, and one of arm64 128 MiB.
FARTHEST_JUMP = 1 << 31
# Returns 7, by the two instructions of each processor.
SEVEN = bytes.fromhex("e0008052c0035fd6" if IS_ARM64 else "b807000000c3")
CALLS_FAR_AWAY = """
declare i32 @far_away()
define i32 @f() {
  %x = call i32 @far_away()
  %y = add i32 %x, 1
  ret i32 %y
}"""
LoopKernel = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 3, ctypes.c_void_p, ctypes.c_void_p)


def loop(factor):
    """Returns IR of a kernel: the sine of a buffer of float32 times a factor into another."""
    return LOOP.format(factor=f"0x{np.float64(np.float32(factor)).view(np.uint64):016X}")


def assert_loops(code, factor):
    """Asserts that machine code computes what ``loop`` says."""
    x = np.linspace(-3, 3, 41, dtype="float32")
    out = np.full_like(x, 7)
    buffers = (ctypes.c_void_p * 2)(x.ctypes.data, out.ctypes.data)
    LoopKernel(code.address("kernel"))(0, 1, 40, None, buffers)
    wanted = np.sin(x.astype("float64")) * factor
    np.testing.assert_allclose(out[1:40], wanted[1:40], rtol=1e-6)
    assert (out[[0, 40]] == 7).all()


def function_at(address):
    """Returns the address of a function that returns 7, at an address or where there is room."""
    libc = ctypes.CDLL(None)
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    libc.mmap.restype = ctypes.c_void_p
    libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    size, flags = mmap.PAGESIZE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    place = libc.mmap(address, size, mmap.PROT_READ | mmap.PROT_WRITE, flags, -1, 0)
    ctypes.memmove(place, SEVEN, len(SEVEN))
    assert libc.mprotect(place, size, mmap.PROT_READ | mmap.PROT_EXEC) == 0
    return place


def run_compiled(kernel, arrays, blocks):
    """Runs machine code of a kernel; its own memory begins with NaN."""
    code = machine_code(printed_module([kernel]), [kernel.name], ObjectCache(None))
    function = LoopKernel(code.address(kernel.name))
    buffers = (ctypes.c_void_p * len(arrays))(*[x.ctypes.data for x in arrays])
    scratch = np.full(scratch_bytes(kernel) + SCRATCH_ALIGNMENT, 255, np.uint8)
    begin = scratch.ctypes.data + -scratch.ctypes.data % SCRATCH_ALIGNMENT
    for number, low, high in blocks:
        function(number, low, high, begin, buffers)


def run_python(source, cwd=os.sep, timeout=120, **environment):
    """Returns what a script printed in a process of its own, which has to end well."""
    done = subprocess.run(
        # From 3.12 on Python warns where a process with threads forks.
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", source],
        capture_output=True, text=True, cwd=cwd, timeout=timeout,
        env={**os.environ, **environment}, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, ""), done
    return done.stdout


missing = why_not()
