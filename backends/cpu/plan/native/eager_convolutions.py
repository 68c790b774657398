"""Convolutions outside of plans, as the kernels that plans have for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from ....native.machine import rest
from .convolution_runs import native_convolution
from .told_flags import telling_kernel

if TYPE_CHECKING:
    from ....annotations import DType, Shape
    from .sliding_runs import SlidingRun

__all__ = ["telling_convolution"]


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
    """Stands for an equation of a program, with operands of some shapes and of one dtype.

    Args:
        name: the name of the primitive.
        shapes: those of the operands, and of the result.
        dtype: the dtype of all.
        params: the primitive's parameters.
    """

    line = ""

    def __init__(
        self, name: str, shapes: Sequence[Shape], dtype: DType, params: Mapping[str, Any]
    ) -> None:
        self.primitive = SimpleNamespace(name=name)
        formed = [FormedOperand(shape, dtype) for shape in shapes]
        self.operands, self.outputs = formed[:-1], formed[-1:]
        self.params = params


def telling_convolution(
    name: str, shapes: Sequence[Shape], dtype: DType, params: Mapping[str, Any]
) -> SlidingRun | None:
    """Returns the run of a convolution by a compiled kernel, which tells of exceptions.

    None where NumPy computes it.

    Args:
        name, shapes, dtype, params: those of `FormedEquation`.

    Raises:
        NotCompiled: the kernel cannot be compiled, or cannot tell of them.
        NativeUnavailable: kernels cannot be compiled here.
    """
    equation: Any = FormedEquation(name, shapes, dtype, params)
    run = native_convolution("windows", equation)
    if run is not None:
        run.enter = telling_kernel(run.kernel)
        rest()
    return run
