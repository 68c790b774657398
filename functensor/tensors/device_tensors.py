"""Constructors of tensors on one kind of device."""

from __future__ import annotations

from ..backends.annotations import DTypeLike
from ..primitives.core.annotations import ArrayLike
from .tensor import Tensor, tensor

__all__ = ["CpuTensor", "CudaTensor"]


def CpuTensor(
    data: ArrayLike, requires_grad: bool = False, dtype: DTypeLike | None = None
) -> Tensor:
    """Makes a `Tensor` on the CPU; arguments as for `Tensor`.

    >>> import functensor as ft
    >>> ft.CpuTensor([1.0]).device
    'cpu'
    """
    return tensor(data, dtype, "cpu", requires_grad)


def CudaTensor(
    data: ArrayLike, requires_grad: bool = False, dtype: DTypeLike | None = None
) -> Tensor:
    """Makes a `Tensor` on the current NVIDIA GPU; arguments as for `Tensor`.

    Raises:
        BackendUnavailable: CuPy is not installed; the message has the command that brings it.
    """
    return tensor(data, dtype, "cuda", requires_grad)
