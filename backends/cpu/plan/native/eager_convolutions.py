"""Convolutions outside of plans, as the kernels that plans have for them.

NumPy computes once more what it might warn of: a kernel tells whether a number overflowed or was
invalid while it ran.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from ....native.c_library_flags import FLAG_FUNCTIONS, c_library_tells, noted_call
from ....native.entry import kernel_call
from ....native.machine import NotCompiled, machine_code, rest
from ....native.printer import SIGNATURE, Module, Printer
from .convolution_runs import native_convolution

if TYPE_CHECKING:
    from ....annotations import Buffer, DType, Shape
    from ....kernels.kernel import LoopKernel
    from ....native.entry import NativeCall

__all__ = ["telling_convolution"]

TELLING_TEXT = """
define void @telling({signature}) {{
  %said_reference = getelementptr ptr, ptr %buffers, i64 {count}
  %said_place = load ptr, ptr %said_reference, align 8
{noted_call}
}}"""


class OperandForm:
    """The type of an operand, in the form of which kernels are made."""

    weak: type | None = None

    def __init__(self, shape: Shape, dtype: DType) -> None:
        self.shape, self.dtype, self.ndim = shape, dtype, len(shape)
        self.size = prod(shape)


class FormedOperand:
    """Stands for a variable of a program."""

    __slots__ = ("type",)
    device = "cpu"

    def __init__(self, shape: Shape, dtype: DType) -> None:
        self.type = OperandForm(shape, dtype)


class FormedEquation:
    """Stands for an equation of a program.

    Args:
        name: the name of the primitive.
        types: the shapes and dtypes of the operands, and of the result.
        params: the primitive's parameters.
    """

    line = ""

    def __init__(
        self, name: str, types: Sequence[tuple[Shape, DType]], params: Mapping[str, Any]
    ) -> None:
        self.primitive = SimpleNamespace(name=name)
        formed = [FormedOperand(shape, dtype) for shape, dtype in types]
        self.operands, self.outputs = formed[:-1], formed[-1:]
        self.params = params


def telling_convolution(
    name: str, types: Sequence[tuple[Shape, DType]], params: Mapping[str, Any]
) -> Callable[[Sequence[Buffer]], Any] | None:
    """Returns what computes a convolution by a compiled kernel; None where there is none.

    That returns None where NumPy would warn, or raise.

    Args:
        name, types, params: those of `FormedEquation`.

    Raises:
        NotCompiled: the kernel cannot be compiled, or cannot tell of exceptions.
        NativeUnavailable: kernels cannot be compiled here.
    """
    equation: Any = FormedEquation(name, types, params)
    sliding: Any = native_convolution("windows", equation, as_numpy=True)
    if sliding is None:
        return None
    sliding.enter = telling_kernel(sliding.kernel)
    rest()

    def run(operands: Sequence[Buffer]) -> Any:
        told = np.zeros(1, np.uint64)
        out = sliding(*operands, told)
        return None if told[0] and set(np.geterr().values()) != {"ignore"} else out

    return run


def telling_kernel(kernel: LoopKernel) -> NativeCall:
    """Returns the function of a kernel that takes one array more, a word behind its buffers.

    The word gets C's numbers of what was invalid, divided by zero, or overflowed.

    Raises:
        NotCompiled: the kernel cannot be compiled, or the C library does not tell of exceptions.
    """
    if not c_library_tells():
        raise NotCompiled("the C library does not tell of floating-point exceptions")
    module = Module()
    count = len(kernel.buffers)
    inner = Printer(kernel, module).text().replace("define void", "define internal void", 1)
    inner = inner.replace(") {", ") noinline {", 1)
    call = noted_call(f"@{kernel.name}({SIGNATURE})", "%said_place")
    telling = TELLING_TEXT.format(signature=SIGNATURE, count=count, noted_call=call)
    module.declared.update(FLAG_FUNCTIONS)
    code = machine_code(module.text(inner, telling), ["telling"])
    return kernel_call(code, "telling", count + 1)
