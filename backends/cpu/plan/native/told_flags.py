"""Kernels that tell whether a floating-point exception came up while they ran.

Eager mode runs them: it has NumPy compute once more what NumPy might warn of.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from ....native.c_library import c_function
from ....native.entry import kernel_call
from ....native.machine import NotCompiled, machine_code
from ....native.printer import SIGNATURE, Module, Printer
from ....native.product_parts import ALL_FLAGS, TOLD_FLAGS

if TYPE_CHECKING:
    from ....kernels.kernel import LoopKernel
    from ....native.entry import NativeCall

__all__ = ["telling_kernel"]

TELLING_TEXT = """
define void @telling({signature}) {{
  %cleared = call i32 @feclearexcept(i32 {all_flags})
  call void @{name}({signature})
  %flags = call i32 @fetestexcept(i32 {told_flags})
  %well = icmp eq i32 %flags, 0
  br i1 %well, label %end, label %tell
tell:
  %said_place = getelementptr ptr, ptr %buffers, i64 {count}
  %said = load ptr, ptr %said_place, align 8
  %words = zext i32 %flags to i64
  %before = atomicrmw or ptr %said, i64 %words release, align 8
  br label %end
end:
  ret void
}}"""


def telling_kernel(kernel: LoopKernel) -> NativeCall:
    """Returns the function of a kernel that takes one array more, a word behind its buffers.

    The word gets C's numbers of what was invalid, divided by zero, or overflowed.

    Raises:
        NotCompiled: the kernel cannot be compiled, or the C library does not tell of exceptions.
    """
    # Windows has other numbers for what goes wrong.
    if sys.platform == "win32" or not (c_function("fetestexcept") and c_function("feclearexcept")):
        raise NotCompiled("the C library does not tell of floating-point exceptions")
    module = Module()
    count = len(kernel.buffers)
    inner = Printer(kernel, module).text().replace("define void", "define internal void", 1)
    inner = inner.replace(") {", ") noinline {", 1)
    telling = TELLING_TEXT.format(
        signature=SIGNATURE, name=kernel.name, count=count, all_flags=ALL_FLAGS,
        told_flags=TOLD_FLAGS,
    )  # fmt: skip
    for function in ("feclearexcept", "fetestexcept"):
        module.declared[function] = f"declare i32 @{function}(i32)"
    code = machine_code(module.text(inner, telling), ["telling"])
    return kernel_call(code, "telling", count + 1)
